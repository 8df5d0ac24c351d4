"""Where a robot comes from: presets, files and texts. Files are read here: a pickled solver needs none."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeAlias

from hjcdik import _core, _inputs
from hjcdik._errors import ModelError
from hjcdik._info import PACKAGED_ROBOT, presets, sphere_presets

Source: TypeAlias = "str | os.PathLike[str]"

_LARGEST_FILE = 64 * 2**20  # bytes
_BLANKS = "\ufeff \t\r\n"
STRING = "<string>"


class Description(NamedTuple):
    """Part of a robot's description: the name of what is packaged, or the content of a file."""

    text: bytes = b""  # empty where there is none
    name: str = ""  # of the source, for messages and info


NOTHING = Description()


class RobotArguments(NamedTuple):
    """All that makes a robot."""

    preset: str  # "" for a URDF
    urdf: bytes | None
    name: str  # of the URDF, in messages
    ee_link: str
    locked_joints: Mapping[str, float]
    spheres: Description = NOTHING
    srdf: Description = NOTHING
    check_base: bool = False

    def make(self) -> _core.Robot:
        return _core.Robot(
            preset=self.preset,
            urdf=self.urdf,
            source=self.name,
            ee_link=self.ee_link,
            locked_joints=dict(self.locked_joints),
            spheres=self.spheres.text,
            spheres_source=self.spheres.name,
            srdf=self.srdf.text,
            srdf_source=self.srdf.name,
            check_base=self.check_base,
        )

    def sphere_model(self) -> str:
        """The name of its collision spheres, if it has any."""
        if not self.preset:
            return self.spheres.name
        return next((name for name, robot, _ in _core.sphere_presets() if robot == self.preset), "")


def robot_arguments(
    robot: Source | None,
    ee_link: str | None,
    spheres: Source | None,
    srdf: Source | None,
    locked_joints: Mapping[str, float] | None,
    check_base: bool,
) -> RobotArguments:
    """All that makes a robot, from what users pass for a URDF or a preset."""
    preset, urdf, name = find_robot(robot)
    if preset and spheres is not None:
        _refuse_spheres(preset, ee_link, spheres)
    return RobotArguments(
        preset=preset,
        urdf=urdf,
        name=name,
        ee_link=_inputs.text(ee_link or "", "ee_link"),
        locked_joints=_locked(locked_joints),
        spheres=find_spheres(spheres),
        srdf=_find_srdf(srdf),
        check_base=_inputs.flag(check_base, "check_base"),
    )


def find_robot(robot: Source | None) -> tuple[str, bytes | None, str]:
    """The preset's name, or the URDF's content and name."""
    if robot is None:
        return PACKAGED_ROBOT, None, ""
    if not isinstance(robot, (str, os.PathLike)):
        raise ValueError(f"robot must be the name of a preset, a URDF's path or its text, not {robot!r}")
    if isinstance(robot, str):
        if robot.lstrip(_BLANKS).startswith("<"):
            return "", robot.encode(errors="surrogatepass"), STRING
        known = presets()
        if robot in known:
            return robot, None, ""
        _refuse_unknown(robot, "robot", known, (".urdf", ".xml"))
    return "", *_read(robot, "a URDF")


def find_spheres(spheres: Source | None) -> Description:
    if spheres is None or spheres == "none":
        return NOTHING
    if not isinstance(spheres, (str, os.PathLike)):
        raise ValueError(
            "spheres must be the name of a sphere model, or the path or text of a spherized URDF or of a "
            f"JSON model, not {spheres!r}"
        )
    if isinstance(spheres, str):
        if _is_text(spheres, "<{"):
            return Description(spheres.encode(errors="surrogatepass"), STRING)
        known = sphere_presets()
        if spheres in known:
            return Description(spheres.encode(), spheres)
        _refuse_unknown(spheres, "sphere model", known, (".json", ".urdf", ".xml"))
    return _read_text(spheres, "a spherized URDF or a JSON sphere model", "<{")


def _find_srdf(srdf: Source | None) -> Description:
    if srdf is None:
        return NOTHING
    if not isinstance(srdf, (str, os.PathLike)):
        raise ValueError(f"srdf must be the path or text of an SRDF, not {srdf!r}")
    if isinstance(srdf, str) and not srdf.strip(_BLANKS):
        raise ValueError("srdf must not be empty; pass None for no SRDF")
    if isinstance(srdf, str) and _is_text(srdf, "<"):
        return Description(srdf.encode(errors="surrogatepass"), STRING)
    return _read_text(srdf, "an SRDF", "<")


def is_name(robot: str, suffixes: tuple[str, ...]) -> bool:
    """Whether it can only be meant as a name: no text, no path, and no file that is there."""
    return not (
        _is_text(robot, "<")
        or os.path.basename(robot) != robot
        or robot.lower().endswith(suffixes)
        or os.path.isfile(robot)
    )


def _locked(locked_joints: Mapping[str, float] | None) -> dict[str, float]:
    if locked_joints is None:
        return {}
    if not isinstance(locked_joints, Mapping):
        raise ValueError(f"locked_joints must map joint names to values, not {locked_joints!r}")
    values = {}
    for joint, value in locked_joints.items():
        if not isinstance(joint, str):
            raise ValueError(f"locked_joints: {joint!r} is not the name of a joint")
        values[_inputs.text(joint, "locked_joints")] = _inputs.number(value, f"locked_joints[{joint!r}]")
    return values


def _refuse_spheres(preset: str, ee_link: str | None, spheres: object) -> NoReturn:
    tool = ee_link or next(tool for name, tool, _ in _core.presets() if name == preset)
    shown = repr(spheres) if isinstance(spheres, str) and len(spheres) < 80 else "..."
    raise ValueError(
        f"spheres must be None for the packaged robot {preset!r}, which is complete; for another sphere "
        f"model take its URDF: Solver(hjcdik.preset_urdf({preset!r}), ee_link={tool!r}, spheres={shown})"
    )


def _is_text(text: str, beginnings: str) -> bool:
    return text.lstrip(_BLANKS)[:1] in tuple(beginnings)


def _refuse_unknown(name: str, what: str, known: Sequence[str], suffixes: tuple[str, ...]) -> None:
    """Raises unless `name` can be meant as a path."""
    if os.path.basename(name) != name or name.endswith(suffixes) or os.path.exists(name):
        return
    raise ValueError(unknown(name, what, known))


def unknown(name: str, what: str, known: Sequence[str], builds: Sequence[str] = ()) -> str:
    """The message for a name that nothing has."""
    spellings = {candidate.lower(): candidate for candidate in (*known, *builds)}
    near = difflib.get_close_matches(name.lower(), spellings, 1, 0.5)
    hint = f" (did you mean {spellings[near[0]]!r}?)" if near else ""
    prepared = f", nor one of the prepared builds {', '.join(builds)}" if builds else ""
    return (
        f"unknown {what} {name!r}{hint}: neither a file nor one of the presets {', '.join(known)}{prepared}"
    )


def _read(source: Source, what: str) -> tuple[bytes, str]:
    """A file's content, and its name for messages."""
    path = Path(source)
    name = os.fsencode(path).decode(errors="backslashreplace")  # a path need not be UTF-8, a message is
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ModelError(f"{name}: cannot be read: {error.strerror}", name) from error
    if len(content) > _LARGEST_FILE:
        raise ModelError(f"{name}: the file is larger than 64 MiB; {what} is expected", name)
    return content, name


def _read_text(source: Source, what: str, beginnings: str) -> Description:
    """A file that the library is given as a text, which it must not take for a name."""
    content, name = _read(source, what)
    if not _is_text(content[:4096].decode(errors="replace"), beginnings):
        raise ModelError(f"{name}: {what} is expected", name)
    return Description(content, name)
