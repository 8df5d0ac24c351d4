"""What ``Solver.check`` says of configurations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hjcdik import _core

# Arrays of ``set_world`` by the code of an obstacle's kind; "" where it is none of them.
_ARRAYS = tuple(
    {"box": "boxes", "capsule": "capsules", "cylinder": "cylinders", "sphere": "spheres"}.get(kind, "")
    for kind in _core.obstacle_kinds()
)
_LINK = _core.obstacle_kinds().index("link")


@dataclass(frozen=True, eq=False)
class CheckResult:
    """The verdict on M configurations: arrays of shape (M,), read-only.

    Clearances are signed distances in metres between the robot's spheres and what they may hit, negative
    where they overlap, and infinite where there is nothing to compare. The margin is never subtracted.

    Attributes:
        free: whether no self pair overlaps and no obstacle is nearer than the margin.
        clearance_m: of the pair that ``link`` and ``other`` name.
        self_clearance_m: the smallest of the self pairs; infinite with ``self_collision=False``.
        world_clearance_m: the smallest to an obstacle.
        link: the link closest to a hit, by name; obstacles count less the margin. "" if there is none.
        other: what it is closest to: a link's name, or array and row of an obstacle as given to
            ``set_world``, such as "boxes[3]" or "cylinders[0]". "" if there is nothing.
    """

    free: npt.NDArray[np.bool_]
    clearance_m: npt.NDArray[np.float64]
    self_clearance_m: npt.NDArray[np.float64]
    world_clearance_m: npt.NDArray[np.float64]
    link: npt.NDArray[np.str_]
    other: npt.NDArray[np.str_]

    def __post_init__(self) -> None:
        for array in vars(self).values():
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.free)

    def __repr__(self) -> str:
        free = int(np.count_nonzero(self.free))
        text = f"<CheckResult: {len(self)} configuration(s), {free} free"
        if len(self) == 0 or not self.link.any():
            return text + ">"
        row = int(np.argmin(self.clearance_m))
        clearance = f"{self.clearance_m[row] * 1e3:.3g} mm"
        return f"{text}; the smallest clearance is {clearance}, {self.link[row]} to {self.other[row]}>"


def check(
    solver: _core.Solver,
    links: tuple[str, ...],
    q: npt.NDArray[np.float64],
    world_index: npt.NDArray[np.int32] | None,
    margin: float,
    self_collision: bool,
) -> CheckResult:
    """Judges the rows of q (M, N), each in its own of the solver's worlds (M,)."""
    rows = len(q)
    free = np.empty(rows, np.bool_)
    self_clearance, world_clearance = np.empty(rows), np.empty(rows)
    link, other = np.empty(rows, np.int32), np.empty(rows, np.int32)
    kind = np.empty(rows, np.uint8)
    # One call, so that one state of the worlds is in force for all rows.
    solver.check(
        q, world_index, margin, self_collision, free, self_clearance, world_clearance, link, kind, other
    )
    clearance = np.where(kind == _LINK, self_clearance, world_clearance)
    names = np.array([*links, ""])  # the last is that of index -1
    others = [
        links[row] if code == _LINK else f"{_ARRAYS[code]}[{row}]" if _ARRAYS[code] else ""
        for code, row in zip(kind.tolist(), other.tolist(), strict=True)
    ]
    return CheckResult(
        free, clearance, self_clearance, world_clearance, names[link], np.array(others, dtype=np.str_)
    )
