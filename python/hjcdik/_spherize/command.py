"""``hjcdik spherize``."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hjcdik._files import check_outputs, write_text
from hjcdik._spherize.model import GEOMETRIES, MODES, SphereModel, fit
from hjcdik._spherize.report import Report
from hjcdik._terminal import progress

_OUTPUTS = (".json", ".urdf", ".xml", ".srdf")
_REPORTS = (".html", ".json", ".txt")
_SHOWN = "-"

Printer = Callable[[tuple[str, ...], Sequence[Sequence[str]]], None]

_EPILOG = """\
examples:
  hjcdik spherize arm.urdf -o spheres.json -o spheres.urdf --report report.html
  hjcdik spherize arm.urdf -o spheres.json --package-dir arm_description=/opt/arm_description
  hjcdik spherize spheres.urdf -o moved.urdf --rebind-to other.urdf
  hjcdik spherize arm.urdf --spheres spheres.json --report
"""


def add_to(commands: Any, print_table: Printer) -> None:
    """Adds the command to the parsers of others."""
    parser = commands.add_parser(
        "spherize",
        help="make collision spheres from the meshes and primitives of a URDF",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("robot", metavar="ROBOT", help="the path of a URDF")
    parser.add_argument(
        "-o", "--output", action="append", default=[], metavar="FILE",
        help="write the spheres: .json or .urdf for --spheres of other commands, .srdf for the pairs alone; "
        "may be repeated",
    )  # fmt: skip
    parser.add_argument("--mode", choices=MODES, help=f"default: {MODES[0]}")
    parser.add_argument(
        "--bulge", type=float, metavar="MM",
        help="bounded-bulge: how far spheres may stick out, in millimetres (default: 10)",
    )  # fmt: skip
    parser.add_argument(
        "--resolution", type=float, metavar="M",
        help="voxel: side of the voxels in metres (default: 0.05)",
    )  # fmt: skip
    parser.add_argument("--link", action="append", metavar="NAME", help="fit this link only; may be repeated")
    parser.add_argument("--ee-link", metavar="NAME", help="the tool: joints that do not move it stand still")
    parser.add_argument(
        "--geometry",
        choices=GEOMETRIES,
        default=GEOMETRIES[0],
        help="which elements to fit (default: collision)",
    )
    parser.add_argument(
        "--package-dir", action="append", default=[], metavar="NAME=PATH",
        help="where a package of package:// lies, or a folder of packages; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--ignore-missing", action="store_true", help="leave out links whose meshes are missing"
    )
    parser.add_argument(
        "--self-pairs-samples", type=int, metavar="N",
        help="configurations sampled for pairs that overlap nearly always (default: 1000)",
    )  # fmt: skip
    parser.add_argument(
        "--ignore-never", action="store_true", help="also list pairs that overlap in none of the samples"
    )
    parser.add_argument("--seed", type=int, help="of all that is random (default: 0)")
    parser.add_argument(
        "--spheres", metavar="FILE", help="judge, rewrite or rebind these spheres instead of making some"
    )
    parser.add_argument(
        "--rebind-to",
        metavar="URDF",
        help="write the spheres for the link frames of another URDF of the robot",
    )
    parser.add_argument(
        "--report", nargs="?", const=_SHOWN, metavar="FILE",
        help="print how well each link is fitted, or write it: .html (with pictures), .json or .txt",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=lambda options: _run(options, print_table))


def _run(options: argparse.Namespace, print_table: Printer) -> int:
    for name in options.output:  # before minutes of work are lost to a typing error
        _check_file(name, _OUTPUTS, "--output")
    if options.report not in (None, _SHOWN):
        _check_file(options.report, _REPORTS, "--report (give it after ROBOT)")
    written = [*options.output, *([options.report] if options.report not in (None, _SHOWN) else [])]
    check_outputs(written, (options.robot, options.spheres, options.rebind_to))
    _check_mode(options)
    try:
        model = _model(options)
    except ImportError as error:
        raise ValueError(str(error)) from None
    report = None
    if options.report or options.json or not options.output:
        report = model.report()
    if options.report not in (None, _SHOWN) and report is not None:
        _write_report(Path(options.report), report)
    if options.rebind_to:
        model = model.rebind(options.rebind_to)
    for name in options.output:
        model.save(name)
    if options.json:
        print(json.dumps(_document(model, report, options.output), indent=2, allow_nan=False))
        return 0
    if report is not None and (options.report == _SHOWN or not options.output):
        print_table(*report.table())
        print()
    print(
        f"{len(model)} spheres on {len(model.links)} links; "
        f"{len(model.ignore_pairs)} pairs of links need no check"
        + "".join(f"; {name} written" for name in options.output)
    )
    if model.ignore_pairs and options.output and not _has_pairs(options.output):
        logging.getLogger("hjcdik").warning(
            "a URDF cannot hold the pairs: -o FILE.srdf writes them for --srdf"
        )
    return 0


def _model(options: argparse.Namespace) -> SphereModel:
    folders = _package_dirs(options.package_dir)
    if options.spheres:
        return SphereModel.load(
            options.spheres, options.robot, package_dirs=folders, geometry=options.geometry
        )
    with progress("fitting links") as move:
        return fit(
            options.robot,
            mode=options.mode or MODES[0],
            bulge_mm=10.0 if options.bulge is None else options.bulge,
            resolution=0.05 if options.resolution is None else options.resolution,
            package_dirs=folders,
            links=options.link,
            ee_link=options.ee_link,
            ignore_missing=options.ignore_missing,
            self_pairs_samples=1000 if options.self_pairs_samples is None else options.self_pairs_samples,
            ignore_never=options.ignore_never,
            geometry=options.geometry,
            seed=options.seed or 0,
            progress=move,
        )


def _check_mode(options: argparse.Namespace) -> None:
    """Options that would do nothing are mistakes."""
    useless: dict[str, Any]
    mode = options.mode or MODES[0]
    if options.spheres:
        useless = {
            "--mode": options.mode,
            "--bulge": options.bulge,
            "--resolution": options.resolution,
            "--link": options.link,
            "--ee-link": options.ee_link,
            "--ignore-missing": options.ignore_missing or None,
            "--self-pairs-samples": options.self_pairs_samples,
            "--ignore-never": options.ignore_never or None,
            "--seed": options.seed,
        }
        reason = "--spheres are judged as they are"
    elif mode == "voxel":
        useless, reason = {"--bulge": options.bulge}, "--mode voxel has none: --resolution bounds its spheres"
    else:
        useless, reason = {"--resolution": options.resolution}, "it goes with --mode voxel"
    for option, value in useless.items():
        if value is not None:
            raise ValueError(f"{option} has no effect: {reason}")


def _package_dirs(entries: Sequence[str]) -> Any:
    """A mapping of names, or folders to search: what `package_dirs` takes."""
    named = dict(entry.split("=", 1) for entry in entries if "=" in entry)
    searched = [entry for entry in entries if "=" not in entry]
    if named and searched:
        raise ValueError("--package-dir: give either NAME=PATH or folders of packages, not both")
    return named or searched or None


def _check_file(name: str, suffixes: Sequence[str], option: str) -> None:
    path = Path(name)
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"{option}: {name}: the file's name must end with one of {', '.join(suffixes)}")
    if path.is_dir():
        raise ValueError(f"{option}: {name}: is a folder")
    if not path.parent.is_dir():
        raise ValueError(f"{option}: {name}: there is no folder {path.parent}")


def _write_report(path: Path, report: Report) -> None:
    writers = {".html": report.to_html, ".json": report.to_json, ".txt": report.to_text}
    write_text(path, writers[path.suffix.lower()]())


def _has_pairs(outputs: Sequence[str]) -> bool:
    return any(Path(name).suffix.lower() in (".json", ".srdf") for name in outputs)


def _document(model: SphereModel, report: Report | None, outputs: Sequence[str]) -> dict[str, Any]:
    return {
        **json.loads(model.to_json()),
        "report": None if report is None else report.as_dict()["links"],
        "written": list(outputs),
    }
