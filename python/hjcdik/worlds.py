"""Obstacles from files: problems of MotionBenchMaker data sets in their JSON form.

A document is ``{"problems": {set: [problem, ...]}}``. A problem has a ``goal_pose`` (``position_xyz`` in
metres and ``quaternion_wxyz``) and ``obstacles``: ``cuboid`` (``dims``, full side lengths, and ``pose``),
``cylinder`` (``radius``, full ``height`` along local z, and ``pose``) and ``sphere`` (``radius`` and
``position``), each an object of named items or a list. A pose is ``x y z qw qx qy qz``, metres and wxyz. All
is in the problem's ``world_frame``, which should be the robot's base link.

>>> import hjcdik
>>> problem = {"obstacles": {"sphere": [{"radius": 0.1, "position": [0.5, 0, 0.3]}]}}
>>> solver = hjcdik.Solver("panda")
>>> solver.set_world(**hjcdik.worlds.from_mbm_problem(problem), exact_cylinders=True)
"""

from __future__ import annotations

import difflib
import gzip
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np

from hjcdik import _inputs
from hjcdik._inputs import Array
from hjcdik._world import world

__all__ = ["from_mbm_file", "from_mbm_problem", "from_mbm_text", "goal_pose", "select_problem"]

# For each kind of obstacle: the keyword of set_world, and the fields that make its row, with their lengths
# (0: a number).
_KINDS: dict[str, tuple[str, tuple[tuple[str, int], ...]]] = {
    "cuboid": ("boxes", (("pose", 7), ("dims", 3))),
    "cylinder": ("cylinders", (("pose", 7), ("radius", 0), ("height", 0))),
    "sphere": ("spheres", (("position", 3), ("radius", 0))),
}
_IGNORED = ("name", "color", "colour", "material", "texture", "texture_id")  # of the looks of an obstacle
_GZIP = b"\x1f\x8b"


def from_mbm_problem(problem: Mapping[str, Any]) -> dict[str, Array]:
    """The obstacles of a problem as keyword arguments for ``Solver.set_world``.

    Args:
        problem: such as ``select_problem`` returns. Without obstacles the world is empty.

    Returns:
        The arrays "boxes" (M, 10), "capsules" (none, (0, 7)), "spheres" (M, 4) and "cylinders" (M, 9), with
        rows in the order of the problem; metres and wxyz. Cylinders are left for ``set_world`` to convert.

    Raises:
        ValueError: for an unknown kind of obstacle, a missing or an unknown field (only those that say how
            it looks are ignored, such as "name" and "color"), or an unusable value, naming the obstacle.
        RuntimeError: for a problem that is marked invalid.
    """
    _refuse_invalid(problem)
    obstacles = problem.get("obstacles", {})
    if not isinstance(obstacles, Mapping):
        raise ValueError(f"obstacles must be an object of kinds, not {_shown(obstacles)}")
    rows: dict[str, Any] = {keyword: [] for keyword, _ in _KINDS.values()}
    names: dict[str, list[str]] = {keyword: [] for keyword in rows}
    for kind, items in obstacles.items():
        if kind not in _KINDS:
            raise ValueError(f"obstacles: {kind!r} is none of the kinds {', '.join(_KINDS)}")
        keyword, fields = _KINDS[kind]
        for name, item in _named(items, kind):
            if not isinstance(item, Mapping):
                raise ValueError(f"{name} must be an object, not {_shown(item)}")
            _refuse_unknown(item, kind, [field for field, _ in fields], name)
            rows[keyword].append([v for field, length in fields for v in _field(item, field, length, name)])
            names[keyword].append(name)
    try:
        arrays = world(**rows).arrays
    except ValueError as error:  # as "boxes[3]: sx is ..."
        match = re.match(r"(\w+)\[(\d+)\](.*)", str(error), re.DOTALL)
        if match is None:
            raise
        raise ValueError(names[match[1]][int(match[2])] + match[3]) from None
    return {keyword: array.copy() for keyword, array in arrays.items()}


def from_mbm_text(text: str, set_name: str, index: SupportsIndex) -> dict[str, Array]:
    """``from_mbm_problem`` of one problem in a document's JSON text.

    Args:
        text: the document.
        set_name: one of its sets, such as "box_panda".
        index: of the problem in the set, from 0.

    Returns:
        Keyword arguments for ``Solver.set_world``.

    Raises:
        ValueError: for text that is not JSON or repeats a key, and as ``select_problem`` and
            ``from_mbm_problem`` do.
        RuntimeError: for a problem that is marked invalid.
    """
    return from_mbm_problem(select_problem(_document(text, "the text"), set_name, index))


def from_mbm_file(path: str | os.PathLike[str], set_name: str, index: SupportsIndex) -> dict[str, Array]:
    """``from_mbm_problem`` of one problem in a JSON file, which may be compressed by gzip.

    Args:
        path: of the file.
        set_name: one of its sets, such as "box_panda".
        index: of the problem in the set, from 0.

    Returns:
        Keyword arguments for ``Solver.set_world``.

    Raises:
        OSError: if the file cannot be read.
        ValueError: for what is not JSON or repeats a key, and as ``select_problem`` and ``from_mbm_problem``
            do.
        RuntimeError: for a problem that is marked invalid.
    """
    return from_mbm_problem(select_problem(read_document(path), set_name, index))


def select_problem(document: Mapping[str, Any], set_name: str, index: SupportsIndex) -> Mapping[str, Any]:
    """One problem of a document.

    Args:
        document: a mapping ``{"problems": {set: [problem, ...]}}``.
        set_name: one of its sets, such as "box_panda".
        index: of the problem in the set, from 0; negative numbers are refused.

    Returns:
        The problem, not a copy.

    Raises:
        ValueError: for an unknown set, an index out of range, or a document of another form.
        RuntimeError: for a problem that is marked invalid.
    """
    sets = document.get("problems") if isinstance(document, Mapping) else None
    if not isinstance(sets, Mapping):
        raise ValueError('the document must be an object {"problems": {set: [problem, ...]}}')
    if set_name not in sets:
        near = difflib.get_close_matches(str(set_name), list(sets), 1, 0.5)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"there is no problem set {set_name!r}{hint}; there are {', '.join(sets) or 'none'}")
    problems = sets[set_name]
    if not isinstance(problems, list):
        raise ValueError(f"problem set {set_name!r} must be a list, not {_shown(problems)}")
    if not problems:
        raise ValueError(f"problem set {set_name!r} is empty")
    problem = problems[_inputs.integer(index, f"index of set {set_name!r}", 0, len(problems) - 1)]
    try:
        _refuse_invalid(problem)
    except (RuntimeError, ValueError) as error:
        raise type(error)(f"{set_name}[{index}]: {error}") from None
    return problem  # type: ignore[no-any-return]


def goal_pose(problem: Mapping[str, Any]) -> Array:
    """The pose that a problem asks for, as a target of ``Solver.solve``.

    Args:
        problem: such as ``select_problem`` returns. Its ``goal_pose["frame"]``, if it says so, names the tool
            link: it must be the solver's ``info.ee_link``.

    Returns:
        (7,) ``x y z qw qx qy qz``, metres and wxyz.

    Raises:
        ValueError: if there is none, or a value is missing or not finite, or the quaternion is zero.
    """
    goal = problem.get("goal_pose") if isinstance(problem, Mapping) else None
    if not isinstance(goal, Mapping):
        raise ValueError("the problem has no goal_pose with position_xyz and quaternion_wxyz")
    values = [
        v
        for field, n in (("position_xyz", 3), ("quaternion_wxyz", 4))
        for v in _field(goal, field, n, "goal_pose")
    ]
    pose = np.array(values)
    if not np.isfinite(pose).all():
        raise ValueError("goal_pose: a value is not finite")
    if not pose[3:].any():
        raise ValueError("goal_pose: quaternion_wxyz is zero")
    return pose


def read_document(path: str | os.PathLike[str]) -> Any:
    """The JSON document in a file, which may be compressed by gzip."""
    name = os.fsencode(path).decode(errors="backslashreplace")
    content = Path(path).read_bytes()
    try:
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
        text = content.decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{name}: a damaged gzip file: {error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{name}: not UTF-8 text") from None
    return _document(text, name)


def _document(text: str, name: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}:{error.lineno}: not JSON: {error.msg}") from None
    except ValueError as error:  # a repeated key, or an integer of thousands of digits
        raise ValueError(f"{name}: {error}") from None
    except RecursionError:
        raise ValueError(f"{name}: nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, of which no key may be there twice: one of them would be lost."""
    made = dict(pairs)
    if len(made) < len(pairs):
        repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {repeated!r} is there more than once in an object")
    return made


def _refuse_unknown(item: Mapping[str, Any], kind: str, fields: Sequence[str], owner: str) -> None:
    for field in item:
        if field not in fields and field not in _IGNORED:
            raise ValueError(f"{owner}: unknown field {field!r}; a {kind} has {', '.join(fields)}")


def _refuse_invalid(problem: Any) -> None:
    if not isinstance(problem, Mapping):
        raise ValueError(f"a problem must be an object, not {_shown(problem)}")
    if not problem.get("valid", True):
        raise RuntimeError("the problem is marked invalid")


def _named(items: Any, kind: str) -> list[tuple[str, Any]]:
    """The items of a kind with their names for messages."""
    if isinstance(items, Mapping):
        return [(f"{kind} {name!r}", item) for name, item in items.items()]
    if isinstance(items, Sequence) and not isinstance(items, str):
        return [(f"{kind}[{i}]", item) for i, item in enumerate(items)]
    raise ValueError(f"obstacles: {kind} must be an object of named items or a list, not {_shown(items)}")


def _field(item: Mapping[str, Any], field: str, length: int, owner: str) -> list[float]:
    """The numbers of a field: `length` of them, or one where it is 0."""
    if field not in item:
        raise ValueError(f"{owner}: no {field!r}")
    values = item[field] if length else [item[field]]
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if not isinstance(values, (list, tuple)) or len(values) != (length or 1):
        raise ValueError(f"{owner}: {field} must be {length} numbers, not {_shown(values)}")
    return [_number(value, f"{owner}: {field}") for value in values]


def _number(value: Any, name: str) -> float:
    if isinstance(value, (bool, str)) or not np.isscalar(value):
        raise ValueError(f"{name} must hold numbers, not {_shown(value)}")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name}: {_shown(value)} is no float64") from None


def _shown(value: Any) -> str:
    return f"{value!r:.60}"
