"""Prepared robots: GPU programs compiled ahead and kept in the store, with all that the robot is made from.

Storing, naming and sweeping files is C++ (src/store); what stands in a build is decided here.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import logging
import os
import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from hjcdik import _core, _devices, _inputs
from hjcdik._errors import BuildError, DeviceError
from hjcdik._info import NAME_SPACE, header_sha256, presets
from hjcdik._sources import (
    NOTHING,
    STRING,
    Description,
    RobotArguments,
    Source,
    is_name,
    robot_arguments,
    unknown,
)

# Raised when a build of an older package can no longer be read as it stands.
SCHEMA = 1

# What the packaged programs, and builds on a machine without a GPU, are made for.
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "compute_100")
_OLDEST = 75
_LONGEST_NAME = 200
_FILE_ENDINGS = (".urdf", ".xml", ".json", ".srdf")

_log = logging.getLogger("hjcdik")


class StoredProgram(NamedTuple):
    """A GPU program of a build.

    Attributes:
        cuda_arch: "sm_90" is machine code for compute capability 9.0, which later ones of the same major
            version run too; "compute_90" is PTX, which the driver compiles for any later one.
        collision: whether it judges collision.
        key: the SHA-256 of all that it is made from, and its name in the store.
    """

    cuda_arch: str
    collision: bool
    key: str


@dataclass(frozen=True)
class Artifact:
    """A prepared robot in the store. ``Solver(artifact.name)`` solves with it.

    Attributes:
        name: what it is loaded by.
        robot: the robot's name in its URDF.
        ee_frame: the fixed joint that carries the tool link; "" if the tool is a moving link.
        ee_link: the tool link.
        collision_enabled: whether it has collision spheres.
        path: its file in the store.
        header: file with the robot's chain and spheres as generated C++ text, whose SHA-256 is
            ``info.grid_header_sha256``.
        content_key: SHA-256 that tells the content of builds apart: the header and all programs.
        cuda_arch: what its programs are compiled for, such as "sm_90" or "sm_86,sm_90".
        compiled: whether this very call compiled anything; False for what was found ready.
        spheres: the name of the sphere model; "" without.
        version: of the package that prepared it.
        programs: its GPU programs.
    """

    name: str
    robot: str
    ee_frame: str
    ee_link: str
    collision_enabled: bool
    path: Path
    header: Path
    content_key: str
    cuda_arch: str
    compiled: bool
    spheres: str
    version: str
    programs: tuple[StoredProgram, ...]


class Prepared(NamedTuple):
    """A build as it is read from the store."""

    artifact: Artifact
    arguments: RobotArguments


def build(
    urdf: Source,
    *,
    ee_link: str | None = None,
    spheres: Source | None = None,
    name: str | None = None,
    collision_res: float = 0.05,
    cache_dir: str | os.PathLike[str] | None = None,
    cuda_arch: Any = None,
    force_rebuild: bool = False,
    plan_only: bool = False,
    srdf: Source | None = None,
    locked_joints: Mapping[str, float] | None = None,
    check_base: bool = False,
) -> Artifact:
    """Compile a robot's GPU programs ahead and keep them, under a name, in the store.

    Needs NVIDIA's run-time compiler (``pip install 'hjcdik[cuda]'``), but no GPU and no CUDA toolkit. What
    is in the store already is not compiled again. ``Solver(name)`` then solves with the robot, on a machine
    without the compiler too, and on one without a GPU on the CPU.

    Args:
        urdf: the path of a URDF, its text, or one of ``hjcdik.presets()``. The name of a build prepares that
            one again, from what the store has of it.
        ee_link: the end effector, a link or a fixed joint, as for ``Solver``. Needed for a URDF.
        spheres: collision spheres, as for ``Solver``.
        name: what it is loaded by; None is ``<robot>-<ee_link>``, with ``-cc`` appended where there are
            collision spheres. A build of the same name is replaced.
        collision_res: accepted for compatibility and not used: sphere models are taken as they are.
        cache_dir: folder of the store; None is HJCDIK_CACHE_DIR, else GRID_RBD_CACHE_DIR/consumers/hjcdik,
            else XDG_CACHE_HOME/hjcdik, else ~/.cache/hjcdik.
        cuda_arch: what to compile for: "sm_90", "90", 90, "9.0" or 9.0 for machine code, "compute_90" for
            PTX, several of them as a sequence or separated by commas, "native" for the current GPU, "all" for
            what the packaged robots have, as far as the compiler knows it. None is that of the build which is
            made again, else "native" where there is a GPU, else "all".
        force_rebuild: compile again, and replace what is stored.
        plan_only: compile and store nothing; the artifact says what would be there.
        srdf: as for ``Solver``.
        locked_joints: as for ``Solver``.
        check_base: as for ``Solver``.

    Returns:
        An ``Artifact``.

    Raises:
        BuildError: (a RuntimeError) without a compiler, if it refuses the program (``log`` is what it said),
            or if the store cannot be written.
        ModelError: (a ValueError) for an unusable robot; it names file, line and element.
        ValueError: for a name that cannot be used, or another bad argument.
    """
    return prepare(
        urdf,
        ee_link=ee_link,
        spheres=spheres,
        name=name,
        collision_res=collision_res,
        cache_dir=cache_dir,
        cuda_arch=cuda_arch,
        force_rebuild=force_rebuild,
        plan_only=plan_only,
        srdf=srdf,
        locked_joints=locked_joints,
        check_base=check_base,
    )


def prepare(
    urdf: Source,
    *,
    ee_link: str | None,
    spheres: Source | None,
    name: str | None,
    collision_res: float,
    cache_dir: str | os.PathLike[str] | None,
    cuda_arch: Any,
    force_rebuild: bool,
    plan_only: bool,
    srdf: Source | None,
    locked_joints: Mapping[str, float] | None,
    check_base: bool,
    progress: Callable[[int, int], None] | None = None,
) -> Artifact:
    """``build``, which calls `progress` with the number of programs that are ready and of all."""
    if not _inputs.number(collision_res, "collision_res") > 0:
        raise ValueError(f"collision_res must be positive, not {collision_res!r}")
    force = _inputs.flag(force_rebuild, "force_rebuild")
    plan = _inputs.flag(plan_only, "plan_only")
    folder = _store_folder(cache_dir)
    if name is not None:
        name = checked_name(name)
    _devices.find_compilers()
    prepared = find_prepared(urdf, folder)
    if prepared is not None and cuda_arch is None:
        cuda_arch = prepared.artifact.cuda_arch
    targets = targets_of(cuda_arch)
    if prepared is not None:
        refuse_others(prepared.artifact, ee_link, spheres, srdf, locked_joints, check_base)
        arguments = prepared.arguments
        name = name or prepared.artifact.name
    else:
        if urdf is None:
            raise ValueError("urdf must be the path of a URDF, its text or the name of a preset, not None")
        if ee_link is not None and (not isinstance(ee_link, str) or not ee_link):
            raise ValueError(f"ee_link must be the name of a link or of a fixed joint, not {ee_link!r}")
        arguments = _resolved(robot_arguments(urdf, ee_link, spheres, srdf, locked_joints, check_base))
    robot = arguments.make()
    for warning in robot.warnings:
        _log.warning("%s: %s", robot.name, warning)
    collision = bool(robot.collision_links)
    if name is None:
        name = _default_name(robot.name, arguments.ee_link, collision)
    variants = (False, True) if collision else (False,)
    programs = tuple(
        StoredProgram(str(target), variant, _core.program_key(robot, False, variant, *target))
        for target in targets
        for variant in variants
    )
    header_hash = header_sha256(robot)
    artifact = Artifact(
        name=name,
        robot=robot.name,
        ee_frame=robot.ee_frame,
        ee_link=robot.ee_link,
        collision_enabled=collision,
        path=Path(_core.build_path(folder, name)),
        header=Path(folder, "headers", f"{header_hash}.cuh"),
        content_key=_content_key(header_hash, programs),
        cuda_arch=",".join(map(str, targets)),
        compiled=False,
        spheres=arguments.spheres.name if collision else "",
        version=_core.VERSION,
        programs=programs,
    )
    if plan:
        return artifact

    def make(job: tuple[_Target, bool]) -> bool:
        target, variant = job
        return _core.build_program(robot, False, variant, *target, folder, force)[1]

    compiled = False
    jobs = [(target, variant) for target in targets for variant in variants]
    if progress is not None:
        progress(0, len(jobs))
    try:
        with ThreadPoolExecutor(min(len(jobs), _devices.cpu_count())) as pool:
            for done, was_compiled in enumerate(pool.map(make, jobs), 1):
                compiled |= was_compiled
                if progress is not None:
                    progress(done, len(jobs))
    except DeviceError as error:
        raise BuildError(
            "building a robot needs NVIDIA's run-time compiler, once; pip install 'hjcdik[cuda]' brings it "
            f"(hjcdik[cuda12] for drivers of CUDA 12): {error}"
        ) from None
    if not _is_whole(artifact.header):
        _core.publish_header(folder, robot.codegen(NAME_SPACE))
    document = _document(artifact, arguments, header_hash)
    if not _is_stored(folder, name, document):
        keys = [header_hash, *(program.key for program in programs)]
        _core.publish_build(folder, name, keys, document)
    _devices.log_store_notes()
    return Artifact(**{**vars(artifact), "compiled": compiled})


def load(name: str, *, cache_dir: str | os.PathLike[str] | None = None) -> Artifact:
    """Find a prepared robot in the store, and check that the current GPU, if there is one, can run it.

    Needs no compiler, and no GPU: on a machine without one the robot is solved on the CPU.

    Args:
        name: that it was prepared under.
        cache_dir: folder of the store, as for ``build``.

    Returns:
        Its ``Artifact``.

    Raises:
        BuildError: (a RuntimeError) if there is none of this name (nearest names are offered), if it is
            damaged or was prepared by another version in a form that this one does not read, or if none of
            its programs runs on the current GPU; the message names the command that prepares it.
        ValueError: for a name that no build can have.
    """
    folder = _store_folder(cache_dir)
    prepared = _read(checked_name(name), folder)
    if prepared is None:
        raise BuildError(_no_build(name, folder))
    artifact = prepared.artifact
    if not _is_whole(artifact.header):
        _restore_header(prepared, folder)
    try:
        major, minor = _core.gpu_architecture(-1)
    except DeviceError:
        return artifact  # the CPU needs no program
    robot = prepared.arguments.make()
    for variant in (False, True) if robot.collision_links else (False,):
        if not _core.has_program(robot, False, variant, major, minor, folder):
            if not all(_core.is_stored(folder, program.key) for program in artifact.programs):
                reason = "has lost a program, which is damaged or gone"
            elif artifact.version != _core.VERSION:
                reason = f"was prepared by hjcdik {artifact.version}, whose programs this version cannot use"
            else:
                reason = f"is prepared for {artifact.cuda_arch}, not for this GPU"
            _devices.log_store_notes()
            raise BuildError(
                f"the build {name!r} {reason} (compute capability {major}.{minor}); prepare it by: "
                f"{_command(name, folder)} --cuda-arch {_with_target(artifact.cuda_arch, major, minor)}"
            )
    return artifact


def list_builds(cache_dir: str | os.PathLike[str] | None = None) -> list[Artifact]:
    """The prepared robots of the store, by name.

    Builds that cannot be read, or that another version of the package prepared in a form that this one does
    not read, are left out; a logged warning names them.

    Args:
        cache_dir: folder of the store, as for ``build``.
    """
    folder = _store_folder(cache_dir)
    artifacts = []
    for name, _, text in _core.read_builds(folder):
        try:
            artifacts.append(_parse(name, text, folder).artifact)
        except BuildError as error:
            _log.warning("%s", error)
    _devices.log_store_notes()
    return artifacts


# --- for Solver ---------------------------------------------------------------------------------


def folder_of(cache_dir: str | os.PathLike[str] | None) -> str:
    """The absolute path of a folder that was asked for; "" for None."""
    if cache_dir is None:
        return ""
    if not isinstance(cache_dir, (str, bytes, os.PathLike)):
        raise ValueError(f"cache_dir must be the path of a folder, not {cache_dir!r}")
    folder = os.fsdecode(os.fspath(cache_dir))
    if not folder or "\0" in folder:
        raise ValueError(f"cache_dir must be the path of a folder, not {cache_dir!r}")
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise ValueError(f"cache_dir {folder}: is not a folder")
    return _inputs.text(os.path.abspath(folder), "cache_dir")


def find_prepared(robot: Any, folder: str) -> Prepared | None:
    """The prepared build that `robot` names; None where it is a preset, a file or a text."""
    if not isinstance(robot, str) or not is_name(robot, _FILE_ENDINGS) or robot in presets():
        return None
    folder = folder or _core.store_folder()
    try:
        robot.encode(), folder.encode()
    except UnicodeEncodeError:
        return None
    prepared = _read(unicodedata.normalize("NFC", robot), folder)
    if prepared is None:
        builds = [name for name, _, _ in _core.read_builds(folder)]
        raise ValueError(unknown(robot, "robot", presets(), builds))
    return prepared


def refuse_others(
    artifact: Artifact,
    ee_link: str | None,
    spheres: Any,
    srdf: Any,
    locked_joints: Any,
    check_base: Any,
) -> None:
    """A prepared robot is complete; its own tool may be repeated."""
    name = artifact.name
    link, joint = artifact.ee_link, artifact.ee_frame
    own = {link, f"link:{link}", *((joint, f"joint:{joint}") if joint else ())}
    if ee_link is not None and ee_link not in own:
        raise ValueError(
            f"the build {name!r} is prepared for the tool {artifact.ee_link!r}, not for {ee_link!r}; prepare "
            "another one for that"
        )
    given = {
        "spheres": spheres,
        "srdf": srdf,
        "locked_joints": locked_joints,
        "check_base": check_base or None,
    }
    for argument, value in given.items():
        if value is not None:
            raise ValueError(f"{argument} goes with a URDF; the build {name!r} has its own")


def refusal(arguments: RobotArguments, name: str | None, folder: str, error: BuildError) -> BuildError:
    """The error where nothing may be built: with the command to run, and what an old build differs in."""
    if name is not None:
        return BuildError(f"{error}; prepare it by: {_command(name, folder)}", error.log)
    robot = arguments.make()
    words = ["hjcdik", "build", arguments.preset or arguments.name.replace(STRING, "URDF")]
    if arguments.ee_link:
        words += ["--ee-link", arguments.ee_link]
    for option, source in (("--spheres", arguments.spheres), ("--srdf", arguments.srdf)):
        words += [option, source.name.replace(STRING, "FILE")] if source.text else []
    for joint, value in arguments.locked_joints.items():
        words += ["--lock", f"{joint}={value!r}"]
    words += ["--check-base"] if arguments.check_base else []
    words += ["--cache-dir", folder] if folder else []
    message = f"{error}; prepare it by: {shlex.join(words)}"
    folder = _store_folder(folder or None)
    for build_name, _, text in _core.read_builds(folder):
        try:
            there = _parse(build_name, text, folder)
        except BuildError:
            continue
        if there.artifact.robot == robot.name:
            changed = _changes(there, arguments, robot)
            if changed:
                message += f" (the build {build_name!r} of this robot differs in {' and '.join(changed)})"
                break
    return BuildError(message, error.log)


def _changes(there: Prepared, arguments: RobotArguments, robot: _core.Robot) -> list[str]:
    old = there.arguments
    new = _resolved(arguments)
    differences = {
        "its URDF": old.urdf != new.urdf,
        "its tool frame": (there.artifact.ee_link, there.artifact.ee_frame)
        != (robot.ee_link, robot.ee_frame),
        "its spheres": old.spheres.text != new.spheres.text,
        "its SRDF": old.srdf.text != new.srdf.text,
        "its locked joints": dict(old.locked_joints) != dict(new.locked_joints),
    }
    return [what for what, differs in differences.items() if differs]


# --- names and targets --------------------------------------------------------------------------


def checked_name(name: Any) -> str:
    """The name of a build in its normal form; raises for what no build can have."""
    if not isinstance(name, str):
        raise ValueError(f"a build's name must be a string, not {name!r}")
    text = unicodedata.normalize("NFC", name)
    reason = ""
    if not text or text != text.strip():
        reason = "it must not be empty, nor begin or end with a blank"
    elif len(text) > _LONGEST_NAME:
        reason = f"it is longer than {_LONGEST_NAME} characters"
    elif not text.isprintable():
        reason = "it contains a character that cannot be printed"
    elif "/" in text or "\\" in text or not text.strip("."):
        reason = "it reads as a path"
    elif text.lower().endswith(_FILE_ENDINGS):
        reason = "it reads as a file"
    elif text[0] in "-<{":
        reason = f"it must not begin with {text[0]!r}"
    elif text in presets():
        reason = "it is the name of a packaged robot"
    if reason:
        raise ValueError(f"a build cannot be called {text[:_LONGEST_NAME]!r}: {reason}")
    return text


def _default_name(robot: str, tool: str, collision: bool) -> str:
    text = unicodedata.normalize("NFC", f"{robot}-{tool.split(':')[-1]}")
    text = "".join(c if c.isprintable() and c not in "/\\" else "_" for c in text).strip()
    suffix = "-cc" if collision else ""
    try:
        return checked_name(text.lstrip("-<{")[: _LONGEST_NAME - len(suffix)].strip() + suffix)
    except ValueError as error:
        raise ValueError(f"{error}; give it a name") from None


class _Target(NamedTuple):
    major: int
    minor: int
    ptx: bool

    def __str__(self) -> str:
        return f"{'compute' if self.ptx else 'sm'}_{10 * self.major + self.minor}"


def targets_of(cuda_arch: Any) -> list[_Target]:
    """What to compile for, in order and without repetition."""
    if cuda_arch is None:
        try:
            return [_native()]
        except DeviceError:
            cuda_arch = "all"
    if hasattr(cuda_arch, "tolist") and not isinstance(cuda_arch, memoryview):  # NumPy's
        cuda_arch = cuda_arch.tolist()
    words: list[Any]
    if isinstance(cuda_arch, str):
        words = [word.strip() for word in re.split("[,;]", cuda_arch)]
    elif isinstance(cuda_arch, (list, tuple)):
        words = list(cuda_arch)
    else:
        words = [cuda_arch]
    if not words:
        raise ValueError("cuda_arch is empty; name at least one, such as 'sm_90'")
    targets: list[_Target] = []
    for word in words:
        if hasattr(word, "item"):
            word = word.item()
        if word == "all":
            targets += _all_targets()
        elif word == "native":
            try:
                targets.append(_native())
            except DeviceError as error:
                raise ValueError(f"cuda_arch 'native' needs a GPU: {error}") from None
        else:
            targets.append(_target(word))
    return list(dict.fromkeys(targets))


def _all_targets() -> list[_Target]:
    """Those of the packaged robots, as far as the compiler that is there knows them."""
    targets = [_target(arch) for arch in ARCHITECTURES]
    known = _core.known_architectures()
    unknown = [target for target in targets if known and 10 * target.major + target.minor not in known]
    if not unknown:
        return targets
    _log.warning("this NVRTC does not compile for %s: left out", ", ".join(map(str, unknown)))
    targets = [target for target in targets if target not in unknown]
    if not any(target.ptx for target in targets):
        newest = max(known)
        targets.append(_Target(newest // 10, newest % 10, True))
    return targets


def _native() -> _Target:
    return _Target(*_core.gpu_architecture(-1), False)


def _target(word: Any) -> _Target:
    text = repr(word) if isinstance(word, (int, float)) and not isinstance(word, bool) else word
    match = re.fullmatch(r"(sm_?|compute_?)?(\d{2,3}|\d{1,2}\.\d|\d{3}\.0)", str(text))
    if match is None or not isinstance(text, str):
        raise ValueError(
            f"cuda_arch {word!r} is unknown; expected such as 'sm_90', '9.0' or 90, 'compute_90' for PTX, "
            "'native' or 'all'"
        )
    whole, _, fraction = match[2].partition(".")
    # A compute capability such as 9.0, or the number that names it: 90, and so 90.0.
    number = int(whole) if fraction == "0" and int(whole) >= _OLDEST else int(whole + fraction)
    if number < _OLDEST:
        raise ValueError(f"cuda_arch {word!r}: compute capability 7.5 or newer is needed")
    return _Target(number // 10, number % 10, (match[1] or "").startswith("compute"))


# --- what stands in a build ---------------------------------------------------------------------


def _resolved(arguments: RobotArguments) -> RobotArguments:
    """The same robot without names of packaged files: whatever a later version packages under them."""
    spheres = arguments.spheres
    if arguments.preset:
        tool = next(tool for name, tool, _ in _core.presets() if name == arguments.preset)
        model = arguments.sphere_model()
        arguments = arguments._replace(
            preset="",
            urdf=_core.preset_urdf(arguments.preset).encode(),
            name=f"{arguments.preset}.urdf",
            ee_link=arguments.ee_link or tool,
        )
        spheres = Description(model.encode(), model) if model else NOTHING
    if spheres.text and spheres.text == spheres.name.encode(errors="surrogateescape"):
        spheres = Description(_core.sphere_preset_text(spheres.name).encode(), spheres.name)
    return arguments._replace(spheres=spheres)


def _content_key(header_hash: str, programs: Sequence[StoredProgram]) -> str:
    parts = [header_hash, *sorted(program.key for program in programs)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _document(artifact: Artifact, arguments: RobotArguments, header_hash: str) -> str:
    def file(source: Description) -> dict[str, str] | None:
        # Files need not be UTF-8; what is not comes through all the same.
        return {"name": source.name, "text": _text_of(source.text)} if source.text else None

    return json.dumps(
        {
            "schema": SCHEMA,
            "version": artifact.version,
            "name": artifact.name,
            "robot": artifact.robot,
            "ee_link": artifact.ee_link,
            "ee_frame": artifact.ee_frame,
            "collision_enabled": artifact.collision_enabled,
            "header_sha256": header_hash,
            "content_key": artifact.content_key,
            "programs": [program._asdict() for program in artifact.programs],
            "inputs": {
                "urdf": file(Description(arguments.urdf or b"", arguments.name)),
                "tool": arguments.ee_link,
                "spheres": file(arguments.spheres),
                "srdf": file(arguments.srdf),
                "locked_joints": dict(arguments.locked_joints),
                "check_base": arguments.check_base,
            },
        },
        indent=1,
    )


def _text_of(content: bytes) -> str:
    return content.decode(errors="surrogateescape")


def _read(name: str, folder: str) -> Prepared | None:
    try:
        row = _core.read_build(folder, name)
    except BuildError as error:
        raise BuildError(f"{error}; prepare it again by: {_anew(name, folder)}") from None
    return None if row is None else _parse(name, row[2], folder)


def _parse(name: str, text: str, folder: str) -> Prepared:
    """The store has checked that every byte is as it was written; by what version is checked here."""

    def file(entry: dict[str, str] | None) -> Description:
        if entry is None:
            return NOTHING
        return Description(entry["text"].encode(errors="surrogateescape"), entry["name"])

    version = "?"
    try:
        data = json.loads(text)
        version = str(data.get("version", "?"))
        if data["schema"] != SCHEMA:
            raise ValueError("schema")
        inputs = data["inputs"]
        arguments = RobotArguments(
            preset="",
            urdf=file(inputs["urdf"]).text,
            name=inputs["urdf"]["name"],
            ee_link=inputs["tool"],
            locked_joints=inputs["locked_joints"],
            spheres=file(inputs["spheres"]),
            srdf=file(inputs["srdf"]),
            check_base=inputs["check_base"],
        )
        programs = tuple(StoredProgram(**program) for program in data["programs"])
        artifact = Artifact(
            name=name,
            robot=data["robot"],
            ee_frame=data["ee_frame"],
            ee_link=data["ee_link"],
            collision_enabled=data["collision_enabled"],
            path=Path(_core.build_path(folder, name)),
            header=Path(folder, "headers", f"{data['header_sha256']}.cuh"),
            content_key=data["content_key"],
            cuda_arch=",".join(dict.fromkeys(program.cuda_arch for program in programs)),
            compiled=False,
            spheres=arguments.spheres.name if data["collision_enabled"] else "",
            version=version,
            programs=programs,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BuildError(
            f"the build {name!r} was prepared by hjcdik {version} in a form that hjcdik {_core.VERSION} does "
            f"not read; prepare it again by: {_anew(name, folder)}"
        ) from None
    return Prepared(artifact, arguments)


def _restore_header(prepared: Prepared, folder: str) -> None:
    robot = prepared.arguments.make()
    if header_sha256(robot) == prepared.artifact.header.stem:
        try:
            _core.publish_header(folder, robot.codegen(NAME_SPACE))
        except BuildError as error:
            _log.warning("%s", error)


def _no_build(name: str, folder: str) -> str:
    names = [build_name for build_name, _, _ in _core.read_builds(folder)]
    near = difflib.get_close_matches(name, names, 1, 0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    there = f"there are {', '.join(map(repr, names))}" if names else "there are none"
    return f"no build is called {name!r}{hint} in {folder}: {there}; prepare it by: {_anew(name, folder)}"


def _command(name: str, folder: str) -> str:
    return shlex.join(["hjcdik", "build", name, *in_folder(folder)])


def _anew(name: str, folder: str) -> str:
    """The command where its URDF is wanted again."""
    return shlex.join(["hjcdik", "build", "URDF", "--ee-link", "LINK", "--name", name, *in_folder(folder)])


def in_folder(folder: str) -> list[str]:
    """The option that names a store, unless it is the default one."""
    return ["--cache-dir", folder] if folder and folder != _core.store_folder() else []


def _with_target(cuda_arch: str, major: int, minor: int) -> str:
    words = [word for word in cuda_arch.split(",") if word]
    return ",".join(dict.fromkeys([*words, f"sm_{major}{minor}"]))


def _is_whole(header: Path) -> bool:
    """Whether a stored header is there as it was written."""
    try:
        return hashlib.sha256(header.read_bytes()).hexdigest() == header.stem
    except OSError:
        return False


def _is_stored(folder: str, name: str, document: str) -> bool:
    try:
        row = _core.read_build(folder, name)
    except BuildError:
        return False
    return row is not None and row[2] == document


def _store_folder(cache_dir: str | os.PathLike[str] | None) -> str:
    folder = folder_of(cache_dir) or _core.store_folder()
    if not folder:
        raise BuildError("there is no folder for the store: set HJCDIK_CACHE_DIR, or pass cache_dir")
    return _inputs.text(folder, "the folder of the store")
