"""Obstacles: from the arrays that users give to the worlds of the extension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hjcdik import _core, _inputs
from hjcdik._inputs import Array

# The columns of each array; the order of the arrays is that of _core.World's arguments.
COLUMNS = {
    "boxes": "cx cy cz qw qx qy qz sx sy sz",
    "capsules": "x0 y0 z0 x1 y1 z1 r",
    "cylinders": "cx cy cz qw qx qy qz r L",
    "spheres": "cx cy cz r",
}
_WIDTHS = {name: len(columns.split()) for name, columns in COLUMNS.items()}
KEYWORDS = (*COLUMNS, "exact_cylinders")


class World(NamedTuple):
    """A world in force, with the rows that made it."""

    core: _core.World
    arrays: Mapping[str, Array]
    exact_cylinders: bool

    @property
    def empty(self) -> bool:
        return not any(map(len, self.arrays.values()))

    def keywords(self) -> dict[str, Any]:
        """What ``set_world`` made it of."""
        return {**self.arrays, "exact_cylinders": self.exact_cylinders}


def world(
    *,
    boxes: npt.ArrayLike | None = None,
    capsules: npt.ArrayLike | None = None,
    spheres: npt.ArrayLike | None = None,
    cylinders: npt.ArrayLike | None = None,
    exact_cylinders: bool = False,
) -> World:
    """The world of these rows, which are copied; ValueError names array, row and field."""
    exact = _inputs.flag(exact_cylinders, "exact_cylinders")
    given = {"boxes": boxes, "capsules": capsules, "cylinders": cylinders, "spheres": spheres}
    arrays = {name: _rows(value, name) for name, value in given.items()}
    return World(_core.World(**arrays, exact_cylinders=exact), arrays, exact)


def worlds(items: Any, exact_cylinders: bool) -> tuple[World, ...]:
    """A world for each mapping of the keywords of ``set_world``."""
    exact = _inputs.flag(exact_cylinders, "exact_cylinders")
    if isinstance(items, Mapping) or not isinstance(items, Sequence) or isinstance(items, (str, bytes)):
        raise ValueError(
            "worlds must be a sequence of mappings, one a world, such as [{'boxes': rows}], "
            f"not {items!r:.80}"
        )
    made = []
    for i, item in enumerate(items):
        if not isinstance(item, Mapping):
            raise ValueError(f"worlds[{i}] must map the keywords of set_world to rows, not {item!r:.80}")
        for key in item:
            if key not in KEYWORDS:
                raise ValueError(f"worlds[{i}]: {key!r} is none of the keywords {', '.join(KEYWORDS)}")
        try:
            made.append(world(**{"exact_cylinders": exact, **item}))
        except ValueError as error:
            raise ValueError(f"worlds[{i}]: {error}") from None
    return tuple(made)


def world_arrays(
    *,
    boxes: npt.ArrayLike | None = None,
    capsules: npt.ArrayLike | None = None,
    spheres: npt.ArrayLike | None = None,
    cylinders: npt.ArrayLike | None = None,
    exact_cylinders: bool = False,
) -> dict[str, Array]:
    """The rows that ``Solver.set_world`` would put in force, validated and converted, without a robot.

    Args:
        boxes: (M, 10) rows ``cx cy cz qw qx qy qz sx sy sz``: centre, scalar-first (wxyz) quaternion of any
            nonzero norm, full side lengths; metres, in the robot's base frame, as all that follow.
        capsules: (M, 7) rows ``x0 y0 z0 x1 y1 z1 r``: ends of the axis and radius. Equal ends: a sphere.
        spheres: (M, 4) rows ``cx cy cz r``.
        cylinders: (M, 9) rows ``cx cy cz qw qx qy qz r L``: the axis is local z, L its full length.
        exact_cylinders: keep cylinders as they are. Otherwise each becomes the capsule of the same axis,
            length and radius, whose round ends reach r beyond the flat faces.

    Returns:
        New float64 arrays "boxes", "capsules" and "spheres", and with ``exact_cylinders`` "cylinders", of the
        shapes above: quaternions of norm 1, and cylinders as capsules behind the given ones unless exact.

    Raises:
        ValueError: for a wrong shape, a value that is not finite or beyond 1e9 m, a size that is not
            positive, or a zero quaternion; it names array, row and field.
    """
    core = world(
        boxes=boxes, capsules=capsules, spheres=spheres, cylinders=cylinders, exact_cylinders=exact_cylinders
    ).core
    names = ["boxes", "capsules", "spheres", *(["cylinders"] if exact_cylinders else [])]
    return {name: np.frombuffer(getattr(core, name)).reshape(-1, _WIDTHS[name]).copy() for name in names}


def _rows(value: npt.ArrayLike | None, name: str) -> Array:
    """A frozen copy of the rows."""
    width = _WIDTHS[name]
    if value is None:
        rows = np.empty((0, width))
    else:
        rows = np.array(_inputs.floats(value, name))
        if rows.ndim == 1 and rows.size == 0:  # the empty list
            rows = rows.reshape(0, width)
        if rows.ndim != 2 or rows.shape[1] != width:
            raise ValueError(f"{name} must have shape (M, {width}) (rows {COLUMNS[name]}), not {rows.shape}")
    rows.setflags(write=False)
    return rows
