"""The ``hjcdik`` command: information on robots, and solves from the command line.

Other commands come from modules of their own, each with a function ``add_commands(commands)`` that adds
parsers which set ``run`` to a function of the parsed options that returns the exit code.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import hashlib
import json
import logging
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import hjcdik
from hjcdik import _builds, _cli_builds, _core, _devices, _files, _inputs, _world, stats, worlds
from hjcdik._info import NAME_SPACE
from hjcdik._spherize import command as _spherize
from hjcdik._terminal import print_table, progress_bar

SOLVED, UNSOLVED, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141

_GPU_ERRORS = (hjcdik.DeviceError, hjcdik.BuildError, hjcdik.SolveError)
_POSE_FIELDS = ("x", "y", "z", "qw", "qx", "qy", "qz")
_SLICE = 2000  # targets between two moves of the progress bar
_GPU_SLICE = 100_000
_TABLE_ROWS = 20
_NO_COLLISION = "none"
_LARGEST_SEED = 2**32 - 1
_COLUMN = re.compile(
    r"(?:(?:p|pos|position|t|translation) ?)?([xyz])(?: (?:m|met(?:er|re)s?))?"
    r"|(?:q|quat|quaternion|rot|rotation|ori|orientation) ?([wxyz])|w"
)
_NEGATIVE_NUMBER = re.compile(r"-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|-inf|-nan", re.IGNORECASE)

_COMMAND_MODULES = (_cli_builds,)

_Rows: TypeAlias = npt.NDArray[np.float64]

_EPILOG = """\
exit codes of solve:
  0  every target is solved: within 1e-6 m and 1e-6 rad, inside the joint limits, and, with --collision hard
     or both, free of collision
  1  some target is not
  2  nothing was computed: bad input, or a device that cannot be used

environment:
  HJCDIK_NUM_THREADS  CPU threads at most, where --threads is not given
  HJCDIK_ISA          instruction set to use: x86-64, avx2 or avx512 (default: the best this CPU has)
  HJCDIK_CACHE_DIR    folder of builds and compiled GPU programs (default: ~/.cache/hjcdik)
  HJCDIK_CACHE_LIMIT_MB  size above which unnamed programs are removed from it, oldest first (default: 1024)
  HJCDIK_NVRTC        file of NVIDIA's run-time compiler, where it is not found
  HJCDIK_LIBCUDA      file of the CUDA driver library, likewise
"""


class _UsageError(Exception):
    """Ends the program with one line on stderr."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (default: the process's own); returns the exit code."""
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed, as by ">&-"
            setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115
    arguments = list(sys.argv[1:] if argv is None else argv)
    # argparse takes "-1e-3" for an option, but nothing that contains a blank.
    arguments = [f" {a}" if _NEGATIVE_NUMBER.fullmatch(a) else a for a in arguments]
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what could come next
        import argcomplete

        argcomplete.autocomplete(parser)
    options = parser.parse_args(arguments)
    log = logging.StreamHandler()
    log.setFormatter(logging.Formatter("hjcdik: %(levelname)s: %(message)s"))
    logger = logging.getLogger("hjcdik")
    logger.addHandler(log)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
        return code
    except (_UsageError, ValueError, *_GPU_ERRORS) as error:
        print(f"hjcdik: error: {error}", file=sys.stderr)
        return BAD_INPUT
    except OSError as error:
        if error.filename is None:
            # Probably stdout: whatever the interpreter still flushes at its end must not raise again.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
        place = "" if error.filename is None else f"{error.filename}: "
        print(f"hjcdik: error: {place}{error.strerror or error}", file=sys.stderr)
        return BAD_INPUT
    except MemoryError:
        print("hjcdik: error: out of memory: solve fewer targets or rows at once", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        logger.removeHandler(log)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hjcdik",
        description="Inverse kinematics for serial robot arms.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hjcdik {hjcdik.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    info = commands.add_parser("info", help="describe a robot and where it is solved: joints, frames, device")
    _cli_builds.add_robot(info, nargs="?", default="panda")
    _add_device(info)
    info.add_argument("--json", action="store_true", help="print one JSON document")
    info.set_defaults(run=_info)

    presets = commands.add_parser(
        "presets", help="list the robots and the collision sphere models that come with the package"
    )
    presets.add_argument("--json", action="store_true", help="print one JSON document")
    presets.set_defaults(run=_presets)

    codegen = commands.add_parser("codegen", help="write a robot as one self-contained C++ header")
    _cli_builds.add_robot(codegen)
    codegen.add_argument("-o", "--output", metavar="FILE", help="where to (default: standard output)")
    codegen.add_argument(
        "--namespace",
        default=NAME_SPACE,
        metavar="NAME",
        help="the header's C++ namespace (default: %(default)s)",
    )
    codegen.add_argument("--cache-dir", metavar="FOLDER", help="folder of prepared builds")
    codegen.add_argument("--json", action="store_true", help="print one JSON document")
    codegen.set_defaults(run=_write_header)

    summary = commands.add_parser(
        "stats-summary", help="summarise a file of diagnostics, such as ik_stats.csv"
    )
    summary.add_argument("file", metavar="FILE.csv")
    summary.add_argument("--json", action="store_true", help="print one JSON document")
    summary.set_defaults(run=_stats_summary)

    solve = commands.add_parser(
        "solve",
        help="find joint configurations for target poses",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _cli_builds.add_robot(solve)
    targets = solve.add_mutually_exclusive_group(required=True)
    targets.add_argument(
        "--pose",
        nargs=7,
        type=float,
        action="append",
        metavar=("X", "Y", "Z", "QW", "QX", "QY", "QZ"),
        help="a target: metres and scalar-first quaternion, in the base link's frame; may be repeated",
    )
    targets.add_argument(
        "--targets",
        metavar="FILE",
        help="targets from a file: .csv (7 columns, header and # comments optional), "
        '.json (a list of rows, or {"targets": [...]}) or .npy',
    )
    targets.add_argument("--random", type=int, metavar="N", help="N reachable targets")
    solve.add_argument("--seed", type=int, help="of the random starts, and of --random (there default 0)")
    solve.add_argument("--num-solutions", type=int, default=1, metavar="S", help="rows per target at most")
    solve.add_argument("--batch-size", type=int, default=2000, metavar="B", help="candidates per target")
    solve.add_argument(
        "--collision",
        choices=(_NO_COLLISION, "hard", "soft", "both"),
        help="what is checked (default: hard for a robot with collision spheres, else none)",
    )
    solve.add_argument(
        "--margin", type=float, default=0.0, metavar="M", help="clearance to obstacles in metres"
    )
    solve.add_argument(
        "--world",
        metavar="FILE",
        help="obstacles from a .json file: an object of boxes, capsules, cylinders and spheres, each a list "
        "of rows as for Solver.set_world; or, with --problem, a MotionBenchMaker document (.json, .json.gz)",
    )
    solve.add_argument(
        "--problem", nargs=2, metavar=("SET", "INDEX"), help="which problem of the --world file"
    )
    solve.add_argument("--threads", type=int, help="CPU threads at most")
    _add_device(solve)
    solve.add_argument("--json", action="store_true", help="print one JSON document")
    solve.add_argument(
        "--output", metavar="FILE", help="write the rows to a file: .csv, .json, or .npy (q only, NaN-padded)"
    )
    solve.set_defaults(run=_solve)

    _spherize.add_to(commands, print_table)
    for module in _COMMAND_MODULES:
        module.add_commands(commands)

    completion = commands.add_parser(
        "completion",
        help="print what makes a shell complete this command's arguments",
        description='In bash: eval "$(hjcdik completion bash)", such as in ~/.bashrc.',
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh", "powershell"))
    completion.add_argument("--json", action="store_true", help="print one JSON document")
    completion.set_defaults(run=_completion)
    return parser


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", help='"cpu", "cuda" or "cuda:N" (default: the current GPU where it is usable, else "cpu")'
    )
    parser.add_argument("--cache-dir", metavar="FOLDER", help="folder of builds and compiled GPU programs")
    parser.add_argument(
        "--no-build", action="store_true", help="on a GPU take prepared programs only, and compile nothing"
    )


# --- info and presets ---------------------------------------------------------------------------


def _info(options: argparse.Namespace) -> int:
    info = _solver(options).info
    machine = {
        "gpus": _devices.gpu_names(),
        "gpu_problem": _devices.gpu_problem(),
        "cache_folder": _builds.folder_of(options.cache_dir) or _core.store_folder(),
        "packaged_store": _core.packaged_store(),
    }
    if options.json:
        print(json.dumps({**_plain(dataclasses.asdict(info)), **machine}, indent=2))
        return SOLVED
    for field in dataclasses.fields(info):
        value = getattr(info, field.name)
        hidden = field.name.startswith("joint_") or field.name == "collision_links"
        if not hidden and field.repr and value not in (None, "", {}):
            print(f"{field.name:21} {_words(value)}")
    if info.collision_enabled:
        print(f"{'self_pairs':21} {len(info.self_pairs)}")
    for name, value in machine.items():
        if value:
            print(f"{name:21} {_words(value)}")
    print()
    joints = zip(info.joint_names, info.joint_types, info.joint_units, info.joint_limits, strict=True)
    print_table(
        ("joint", "type", "lower", "upper", "unit"),
        [(name, kind, f"{low:.6g}", f"{high:.6g}", unit) for name, kind, unit, (low, high) in joints],
    )
    if info.collision_enabled:
        print()
        counts = Counter(info.sphere_links)
        print_table(
            ("collision link", "spheres"), [(link, str(counts[link])) for link in info.collision_links]
        )
    return SOLVED


def _presets(options: argparse.Namespace) -> int:
    rows, models = _core.presets(), _core.sphere_presets()
    if options.json:
        keys = ("name", "ee_link", "description")
        robots: list[dict[str, Any]] = [dict(zip(keys, row, strict=True)) for row in rows]
        for robot in robots:
            robot["spheres"] = [
                {"name": name, "description": description}
                for name, made_for, description in models
                if made_for == robot["name"]
            ]
        print(json.dumps(robots, indent=2))
    else:
        print_table(("preset", "tool link", "source"), rows)
        print()
        print_table(("sphere model", "preset", "source"), models)
    return SOLVED


def _write_header(options: argparse.Namespace) -> int:
    if options.output == "":
        raise _UsageError("--output is empty: name a file, or leave it out for standard output")
    if options.output is not None:
        _files.check_outputs([options.output], (options.robot, options.spheres, options.srdf))
    settings = _cli_builds.robot_settings(options)
    solver = hjcdik.Solver(options.robot, **settings, device="cpu", cache_dir=options.cache_dir)
    text = hjcdik.codegen(solver, name_space=options.namespace)
    if options.output is not None:
        _files.write_text(options.output, text)
    if options.json:
        document = {
            "robot": solver.info.robot,
            "ee_link": solver.info.ee_link,
            "namespace": options.namespace,
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            "output": options.output,
            **({"text": text} if options.output is None else {}),
        }
        print(json.dumps(document, indent=2))
    elif options.output is None:
        sys.stdout.write(text)
    return SOLVED


def _stats_summary(options: argparse.Namespace) -> int:
    values = dataclasses.asdict(stats.summary(stats.read_csv(options.file)))
    if options.json:
        print(json.dumps(values, indent=2))
        return SOLVED
    for name, value in values.items():
        shown = "n/a" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
        print(f"{name:24} {shown}")
    return SOLVED


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} = {number:g}" for name, number in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)


def _solver(options: argparse.Namespace, threads: int | None = None) -> hjcdik.Solver:
    return hjcdik.Solver(
        options.robot,
        **_cli_builds.robot_settings(options),
        device=options.device,
        threads=threads,
        allow_build=not options.no_build,
        cache_dir=options.cache_dir,
    )


def _completion(options: argparse.Namespace) -> int:
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        raise _UsageError("shell completion needs argcomplete: pip install 'hjcdik[cli]'") from None
    code = shellcode(["hjcdik"], shell=options.shell)
    print(json.dumps({"shell": options.shell, "code": code}) if options.json else code)
    return SOLVED


# --- solve --------------------------------------------------------------------------------------


def _solve(options: argparse.Namespace) -> int:
    if options.output:  # before minutes of work are lost to a typing error
        _check_output(options.output)
        inputs = (options.robot, options.spheres, options.srdf, options.targets, options.world)
        _files.check_outputs([options.output], inputs)
    if options.random is not None:
        _inputs.integer(options.random, "--random", 1)
    if options.seed is not None:
        _inputs.integer(options.seed, "--seed", 0, _LARGEST_SEED)
    solver = _solver(options, options.threads)
    if options.problem and not options.world:
        raise _UsageError("--problem needs --world, the file that it is in")
    if options.world:
        solver.set_world(**_read_world(options.world, options.problem))
    names: Callable[[int], str] = "poses[{}]".format
    if options.pose:
        targets = np.array(options.pose)
    elif options.targets:
        targets, names = _read(options.targets)
    else:
        targets = solver.sample_targets(options.random, options.seed or 0)

    start = time.perf_counter()
    try:
        result = _solve_in_slices(solver, targets, options)
    except ValueError as error:
        # Where a target came from a file, name its place there instead of its index.
        match = re.match(r"poses\[(\d+)\](.*)", str(error), re.DOTALL)
        raise _UsageError(names(int(match[1])) + match[2]) if match else error from error
    elapsed = time.perf_counter() - start

    if options.output:
        try:
            _WRITERS[_suffix(options.output, _WRITERS)](Path(options.output), result, solver)
        except OSError as error:
            raise _UsageError(f"{options.output}: {error.strerror or error}") from None
    if options.json:
        print(json.dumps(_document(result, solver), allow_nan=False))
    elif not options.output:
        _print_rows(result, solver)
    solved = int(np.count_nonzero(result.outcome == "solved"))
    if not options.json:
        each = elapsed * 1e6 / max(len(result), 1)
        print(f"{solved} of {len(result)} targets solved in {elapsed * 1e3:.3g} ms ({each:.3g} us a target)")
    return SOLVED if solved == len(result) else UNSOLVED


def _solve_in_slices(solver: hjcdik.Solver, targets: _Rows, options: argparse.Namespace) -> hjcdik.Result:
    """One solve; in slices (with the same result) only for the sake of a progress bar."""
    settings: dict[str, Any] = {
        "num_solutions": options.num_solutions,
        "batch_size": options.batch_size,
        "collision_margin_m": options.margin,
        "seed": options.seed,
    }
    if options.collision is not None:  # else what the robot has decides
        settings["collision"] = None if options.collision == _NO_COLLISION else options.collision
    slice_size = _SLICE if solver.info.device == "cpu" else _GPU_SLICE
    if len(targets) <= slice_size or not sys.stderr.isatty():
        return solver.solve(targets, **settings)
    parts = []
    with progress_bar("solving", len(targets)) as advance:
        for first in range(0, len(targets), slice_size):
            try:
                parts.append(solver.solve(targets[first : first + slice_size], **settings))
            except ValueError:
                return solver.solve(targets, **settings)  # raises too, with the index in the whole
            advance(len(parts[-1]))
    return hjcdik.Result._joined(parts)


# --- reading targets ----------------------------------------------------------------------------
# Every reader returns the rows and a function that names the place of row i for messages.

_Targets: TypeAlias = tuple[_Rows, Callable[[int], str]]


def _read(path: str) -> _Targets:
    read = _READERS[_suffix(path, _READERS)]
    try:
        targets, names = read(Path(path))
    except UnicodeDecodeError:
        raise _UsageError(f"{path}: not UTF-8 text") from None
    except RecursionError:
        raise _UsageError(f"{path}: lists are nested too deeply") from None
    except csv.Error as error:
        raise _UsageError(f"{path}: {error}") from None
    if len(targets) == 0:
        raise _UsageError(f"{path}: no targets in it")
    return targets, names


def _read_csv(path: Path) -> _Targets:
    rows: list[list[float]] = []
    lines: list[int] = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        first = True
        for cells in reader:
            if not "".join(cells).strip() or cells[0].lstrip().startswith("#"):
                continue
            place = f"{path}:{reader.line_num}"
            try:
                row = [float(cell) for cell in cells]
            except ValueError:
                if first and not any(_is_number(cell) for cell in cells):
                    first = False
                    _check_header(cells, place)
                    continue
                bad = next(cell for cell in cells if not _is_number(cell))
                raise _UsageError(f"{place}: {bad.strip()!r:.80} is not a number") from None
            first = False
            if len(row) != 7:
                raise _UsageError(f"{place}: expected 7 values ({' '.join(_POSE_FIELDS)}), got {len(row)}")
            rows.append(row)
            lines.append(reader.line_num)
    return np.array(rows).reshape(-1, 7), lambda i: f"{path}:{lines[i]}"


def _check_header(cells: list[str], place: str) -> None:
    """Raises unless the cells name our fields in our order: x y z qx qy qz qw is a likely mix-up."""
    fields = []
    for cell in cells:
        field = _field(cell)
        if field is None:
            known = ",".join(_POSE_FIELDS)
            raise _UsageError(
                f"{place}: {cell.strip()!r:.80} is neither a number nor one of the columns {known}"
            )
        fields.append(field)
    if tuple(fields) != _POSE_FIELDS:
        raise _UsageError(f"{place}: the columns must be {','.join(_POSE_FIELDS)}, not {','.join(fields)}")


def _field(name: str) -> str | None:
    """Our name of a column such as "pos_x", "px", "X [m]", "quat_w" or "w"."""
    words = re.sub(r"[\W_]+", " ", name.lower()).strip()
    match = _COLUMN.fullmatch(words)
    if match is None:
        return None
    position, quaternion = match.groups()
    return position or f"q{quaternion or 'w'}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_json(path: Path) -> _Targets:
    text = path.read_text(encoding="utf-8-sig")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise _UsageError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except ValueError as error:  # an integer of thousands of digits
        raise _UsageError(f"{path}: {error}") from None
    rows = document.get("targets") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise _UsageError(f'{path}: expected a list of targets, or {{"targets": [...]}}')
    if rows and not isinstance(rows[0], list):
        rows = [rows]  # a single pose
    for i, row in enumerate(rows):
        if not (isinstance(row, list) and len(row) == 7 and all(type(x) in (int, float) for x in row)):
            fields = " ".join(_POSE_FIELDS)
            raise _UsageError(f"{path}: target {i}: expected 7 numbers ({fields}), got {row!r:.80}")
        if any(type(x) is int and abs(x) > sys.float_info.max for x in row):
            raise _UsageError(f"{path}: target {i}: a number is too large")
    return np.array(rows, dtype=float).reshape(-1, 7), lambda i: f"{path}: target {i}"


def _read_npy(path: Path) -> _Targets:
    try:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise _UsageError(f"{path}: not an .npy file of numbers: {error}") from None
    try:
        return np.atleast_2d(_inputs.poses(array, "the array")), lambda i: f"{path}: row {i}"
    except ValueError as error:
        raise _UsageError(f"{path}: {error}") from None


def _read_world(path: str, problem: Sequence[str] | None) -> dict[str, Any]:
    """The keywords of set_world."""
    document = worlds.read_document(path)
    if problem is not None:
        set_name, index = problem
        if not re.fullmatch(r"\d{1,9}", index):
            raise _UsageError(f"--problem: the index must be a number, not {index!r}")
        try:
            return dict(worlds.from_mbm_problem(worlds.select_problem(document, set_name, int(index))))
        except (RuntimeError, ValueError) as error:
            raise _UsageError(f"{path}: {error}") from None
    if isinstance(document, dict) and "problems" in document:
        raise _UsageError(f"{path}: holds sets of problems; choose one with --problem SET INDEX")
    expected = f"expected an object of {', '.join(_world.KEYWORDS)}"
    if not isinstance(document, dict):
        raise _UsageError(f"{path}: {expected}")
    unknown = [key for key in document if key not in _world.KEYWORDS]
    if unknown:
        more = f" and {len(unknown) - 4} more" if len(unknown) > 4 else ""
        raise _UsageError(f"{path}: unknown key {', '.join(map(repr, unknown[:4]))}{more}; {expected}")
    for key, value in document.items():
        if value is None:
            raise _UsageError(f"{path}: {key} is null; leave it out")
    try:
        _world.world(**document)  # here the file's name is known
    except ValueError as error:
        raise _UsageError(f"{path}: {error}") from None
    return document


# --- writing results ----------------------------------------------------------------------------


def _document(result: hjcdik.Result, solver: hjcdik.Solver) -> dict[str, Any]:
    """The result as JSON data; rows are un-padded, so that there is no NaN in it."""
    info = solver.info
    return {
        "robot": info.robot,
        "ee_link": info.ee_link,
        "base_link": info.base_link,
        "joint_names": list(info.joint_names),
        "joint_units": list(info.joint_units),
        "targets": [
            {
                "outcome": target.outcome,
                "count": target.count,
                "q": target.q.tolist(),
                "pose": target.pose.tolist(),
                "pos_err_m": target.pos_err_m.tolist(),
                "ori_err_rad": target.ori_err_rad.tolist(),
            }
            for target in result
        ],
    }


def _csv_rows(result: hjcdik.Result, solver: hjcdik.Solver) -> Iterator[list[Any]]:
    """A line per row; a target without rows gets one line with empty cells."""
    names = solver.info.joint_names
    yield ["target", "outcome", "row", *names, *_POSE_FIELDS, "pos_err_m", "ori_err_rad"]
    for i, target in enumerate(result):
        for row in range(target.count):
            errors = [float(target.pos_err_m[row]), float(target.ori_err_rad[row])]
            yield [i, target.outcome, row, *target.q[row].tolist(), *target.pose[row].tolist(), *errors]
        if target.count == 0:
            yield [i, target.outcome, *[""] * (len(names) + 10)]


def _write_csv(path: Path, result: hjcdik.Result, solver: hjcdik.Solver) -> None:
    with _files.replacing(path, newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(_csv_rows(result, solver))


def _write_json(path: Path, result: hjcdik.Result, solver: hjcdik.Solver) -> None:
    _files.write_text(path, json.dumps(_document(result, solver), allow_nan=False) + "\n")


def _write_npy(path: Path, result: hjcdik.Result, solver: hjcdik.Solver) -> None:
    with _files.replacing(
        path, "wb"
    ) as file:  # to a name np.save would add another suffix than its own spelling
        np.save(file, result.q)


_READERS: dict[str, Callable[[Path], _Targets]] = {".csv": _read_csv, ".json": _read_json, ".npy": _read_npy}
_WRITERS: dict[str, Callable[[Path, hjcdik.Result, hjcdik.Solver], None]] = {
    ".csv": _write_csv,
    ".json": _write_json,
    ".npy": _write_npy,
}


def _suffix(path: str, known: Iterable[str]) -> str:
    suffix = Path(path).suffix.lower()
    if suffix not in known:
        raise _UsageError(f"{path}: the file's name must end with one of {', '.join(known)}")
    return suffix


def _check_output(name: str) -> None:
    _suffix(name, _WRITERS)
    path = Path(name)
    if path.is_dir():
        raise _UsageError(f"{path}: is a folder; --output takes a file")
    if not path.parent.is_dir():
        raise _UsageError(f"{path}: there is no folder {path.parent}")


def _print_rows(result: hjcdik.Result, solver: hjcdik.Solver) -> None:
    units = ", ".join(sorted(set(solver.info.joint_units), reverse=True))
    rows: list[tuple[str, ...]] = []
    for i, target in enumerate(result):
        for row in range(target.count):
            q = " ".join(f"{value:.6f}" for value in target.q[row])
            rows.append(
                (str(i), target.outcome, f"{target.pos_err_mm[row]:.1e}", f"{target.ori_err_rad[row]:.1e}", q)
            )
        if target.count == 0:
            rows.append((str(i), target.outcome, "", "", ""))
        if len(rows) > _TABLE_ROWS:
            break
    print_table(("target", "outcome", "error mm", "error rad", f"q ({units})"), rows[:_TABLE_ROWS])
    if len(rows) > _TABLE_ROWS:
        print("... (all rows: --json, or --output FILE)")


if __name__ == "__main__":
    sys.exit(main())
