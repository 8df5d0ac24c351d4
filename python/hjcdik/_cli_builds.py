"""The commands ``hjcdik build`` and ``hjcdik list``."""

from __future__ import annotations

import argparse
import json
import shlex
import time
from collections.abc import Sequence
from typing import Any

from hjcdik import _builds, _core
from hjcdik._info import presets
from hjcdik._terminal import print_table, progress


def add_commands(commands: Any) -> None:
    build = commands.add_parser(
        "build",
        help="compile a robot's GPU programs ahead, and keep them under a name",
        description="Needs NVIDIA's run-time compiler (pip install 'hjcdik[cuda]'), but no GPU. The robot is "
        "then a ROBOT of every command and Solver(NAME) in Python, without the compiler.",
    )
    add_robot(build, help="the path of a URDF, a preset, or a build that is to be made again")
    build.add_argument("--name", help="default: <robot>-<tool>, with -cc appended where there are spheres")
    build.add_argument(
        "--cuda-arch",
        metavar="ARCH",
        help="such as sm_90 or 9.0, compute_90 for PTX, several with commas, native, or all "
        "(default: those of the build that is made again; else native where there is a GPU, else all)",
    )
    build.add_argument("--collision-res", type=float, default=0.05, help=argparse.SUPPRESS)
    build.add_argument("--cache-dir", metavar="FOLDER", help="folder of builds and compiled GPU programs")
    build.add_argument("--force", action="store_true", help="compile again what is there already")
    build.add_argument("--plan", action="store_true", help="only say what would be compiled")
    build.add_argument("--json", action="store_true", help="print one JSON document")
    build.set_defaults(run=_build)

    listing = commands.add_parser("list", help="list the prepared builds")
    listing.add_argument("--cache-dir", metavar="FOLDER", help="folder of builds and compiled GPU programs")
    listing.add_argument("--json", action="store_true", help="print one JSON document")
    listing.set_defaults(run=_list)


def add_robot(
    parser: argparse.ArgumentParser,
    help: str = "a preset, a prepared build, or the path of a URDF",
    **settings: Any,
) -> None:
    """The arguments that name a robot; `help` and `settings` are those of ROBOT itself."""
    robot = parser.add_argument("robot", metavar="ROBOT", help=help, **settings)
    robot.completer = robots  # type: ignore[attr-defined]
    parser.add_argument("--ee-link", metavar="NAME", help="the tool: a link, or a fixed joint")
    parser.add_argument(
        "--spheres",
        metavar="MODEL",
        help="collision spheres of a URDF: a packaged model's name, a spherized URDF or a .json file",
    )
    parser.add_argument("--srdf", metavar="FILE", help="an SRDF that says which links need no check")
    parser.add_argument(
        "--lock", metavar="JOINT=VALUE", action="append", default=[], help="hold a joint; may be repeated"
    )
    parser.add_argument("--check-base", action="store_true", help="check the base link's spheres too")


def robot_settings(options: argparse.Namespace) -> dict[str, Any]:
    """What these arguments are to a Solver, besides the robot itself."""
    return {
        "ee_link": options.ee_link,
        "spheres": options.spheres,
        "srdf": options.srdf,
        "locked_joints": _locked_joints(options.lock),
        "check_base": options.check_base,
    }


def robots(prefix: str = "", **_: Any) -> list[str]:
    """What a shell may complete a ROBOT to; it adds the files itself."""
    builds = [name for name, _, _ in _core.read_builds(_core.store_folder())]
    return [name for name in (*presets(), *builds) if name.startswith(prefix)]


def _build(options: argparse.Namespace) -> int:
    start = time.perf_counter()
    with progress("compiling") as move:
        artifact = _builds.prepare(
            options.robot,
            **robot_settings(options),
            name=options.name,
            collision_res=options.collision_res,
            cache_dir=options.cache_dir,
            cuda_arch=options.cuda_arch,
            force_rebuild=options.force,
            plan_only=options.plan,
            progress=move,
        )
    elapsed = time.perf_counter() - start
    folder = str(artifact.path.parent.parent)
    if options.json:
        print(json.dumps(_plain(artifact, folder), indent=2))
    elif options.plan:
        stored = [_core.is_stored(folder, program.key) for program in artifact.programs]
        print(f"{artifact.name}: {stored.count(False)} of {len(stored)} programs would be compiled")
        _print_programs(artifact, stored)
    else:
        done = f"compiled in {elapsed:.1f} s" if artifact.compiled else "ready already"
        print(f"{artifact.name}: {len(artifact.programs)} programs, {done}; {artifact.path}")
    return 0


def _locked_joints(texts: Sequence[str]) -> dict[str, float] | None:
    joints: dict[str, float] = {}
    for joint, value in map(_locked, texts):
        if joints.setdefault(joint, value) != value:
            raise ValueError(f"--lock: joint {joint!r} cannot be held at {joints[joint]:g} and at {value:g}")
    return joints or None


def _locked(text: str) -> tuple[str, float]:
    joint, equals, value = text.rpartition("=")
    try:
        number = float(value)
    except ValueError:
        equals = ""
    if not equals:
        raise ValueError(f"--lock {text}: expected JOINT=VALUE, such as finger_joint=0.02")
    return joint, number


def _list(options: argparse.Namespace) -> int:
    artifacts = _builds.list_builds(options.cache_dir)
    folder = _builds.folder_of(options.cache_dir) or _core.store_folder()
    if options.json:
        print(json.dumps([_plain(artifact, folder) for artifact in artifacts], indent=2))
    elif artifacts:
        print_table(
            ("name", "robot", "tool link", "spheres", "compiled for"),
            [
                (a.name, a.robot, a.ee_link, a.spheres or "-", a.cuda_arch.replace(",", " "))
                for a in artifacts
            ],
        )
    else:
        command = shlex.join(["hjcdik", "build", "URDF", "--ee-link", "LINK", *_builds.in_folder(folder)])
        print(f"no builds in {folder}; prepare one by: {command}")
    return 0


def _plain(artifact: _builds.Artifact, folder: str) -> dict[str, Any]:
    programs = [
        {**program._asdict(), "stored": _core.is_stored(folder, program.key)} for program in artifact.programs
    ]
    return {
        **vars(artifact),
        "path": str(artifact.path),
        "header": str(artifact.header),
        "programs": programs,
    }


def _print_programs(artifact: _builds.Artifact, stored: list[bool]) -> None:
    print_table(
        ("compiled for", "collision", "stored"),
        [
            (program.cuda_arch, "yes" if program.collision else "no", "yes" if there else "no")
            for program, there in zip(artifact.programs, stored, strict=True)
        ],
    )
