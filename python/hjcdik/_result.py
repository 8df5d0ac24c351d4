"""What a solve returns. The hot path only keeps the arrays; everything derived is made on first use."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from hjcdik import _core

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

STATS_DTYPE = np.dtype(
    {
        "names": [name for name, _, _ in _core.stats_fields()],
        "formats": [kind for _, kind, _ in _core.stats_fields()],
        "offsets": [offset for _, _, offset in _core.stats_fields()],
        "itemsize": _core.STATS_ITEMSIZE,
    }
)
_OUTCOMES = np.array(_core.outcomes())


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.setflags(write=False)
    return array


class Stats:
    """Diagnostics of a solve, one read-only array of shape (T,) per field; -1 where not measured.

    "Refined" candidates are those that the search took into account: up to the last returned row's, or all
    where rows are missing. "Accurate" means a position error below 5 mm and an orientation error below
    0.001 rad. "Collision" is that of the solve's mode: with self pairs and environment in "hard" and "both",
    the environment alone in "soft", and not measured with None. ``stats[i]`` is a dictionary of plain numbers
    for target i.

    Attributes:
        batch_size: candidates asked for.
        n_refined: candidates refined.
        n_ik_accurate: refined candidates that are accurate.
        n_coll_free_refined: refined candidates free of collision.
        n_feasible: refined candidates that are accurate and free of collision.
        n_ik_lost: accurate candidates lost to collision.
        n_coll_in_refined: refined candidates in collision.
        n_coll_in_coarse: candidates in collision before the refinement.
        env_cost_min_mm: smallest penetration of the environment among the refined, in millimetres; with
            "soft" and "both" only.
        env_cost_max_mm: the largest.
        env_cost_mean_mm: the mean.
        n_returned: returned rows, as in ``Result.count``.
        n_returned_ik_accurate: returned rows that are accurate.
        n_returned_coll_free: returned rows free of collision.
        pct_returned_coll_free: their share of the returned rows, in per cent; 0 without rows.
        n_returned_feasible: returned rows that are accurate and free of collision.
    """

    __slots__ = STATS_DTYPE.names or ()

    batch_size: Ints
    n_refined: Ints
    n_ik_accurate: Ints
    n_coll_free_refined: Ints
    n_feasible: Ints
    n_ik_lost: Ints
    n_coll_in_refined: Ints
    n_coll_in_coarse: Ints
    env_cost_min_mm: Floats
    env_cost_max_mm: Floats
    env_cost_mean_mm: Floats
    n_returned: Ints
    n_returned_ik_accurate: Ints
    n_returned_coll_free: Ints
    pct_returned_coll_free: Floats
    n_returned_feasible: Ints

    def __init__(self, records: npt.NDArray[np.void]) -> None:
        for name in self.__slots__:
            setattr(self, name, _frozen(records[name].copy()))

    def _records(self, index: int | slice = slice(None)) -> npt.NDArray[np.void]:
        columns = {name: getattr(self, name)[index] for name in self.__slots__}
        records = np.empty(len(columns["batch_size"]), STATS_DTYPE)
        for name, column in columns.items():
            records[name] = column
        return records

    def __reduce__(self) -> tuple[Any, ...]:
        return Stats, (self._records(),)

    def __len__(self) -> int:
        return len(self.batch_size)

    def __getitem__(self, index: SupportsIndex) -> dict[str, int | float]:
        """The figures of one target as plain numbers, by field name."""
        return {name: getattr(self, name)[index].item() for name in self.__slots__}

    def __repr__(self) -> str:
        return f"<Stats of {len(self)} targets: {', '.join(self.__slots__)}>"


class TargetResult:
    """The rows found for one target, without padding: K = ``count`` rows, best first, possibly none.

    A row is no success certificate: check ``ok()`` or ``outcome``. All arrays are read-only.

    Attributes:
        q: (K, dof) joint coordinates, rad or m, in the order of ``info.joint_names``.
        pose: (K, 7) reached poses ``x y z qw qx qy qz`` in the base frame, metres and wxyz.
        pos_err_m: (K,) distances to the target position, metres.
        pos_err_mm: (K,) the same in millimetres.
        ori_err_rad: (K,) angles to the target orientation, rad.
        count: K.
        outcome: why the rows are what they are, see ``Result.outcome``.
        elapsed_ms: share of this target in the time of the call.
        stats: dictionary of plain numbers, see ``Stats``; None without ``stats=True``.
    """

    __slots__ = (
        "count", "elapsed_ms", "ori_err_rad", "outcome", "pos_err_m", "pos_err_mm", "pose", "q", "stats",
    )  # fmt: skip

    q: Floats
    pose: Floats
    pos_err_m: Floats
    pos_err_mm: Floats
    ori_err_rad: Floats
    count: int
    outcome: str
    elapsed_ms: float
    stats: dict[str, int | float] | None

    def __init__(self, result: Result, index: int) -> None:
        count = int(result.count[index])
        self.count = count
        self.q = result.q[index, :count]
        self.pose = result.pose[index, :count]
        self.pos_err_m = result.pos_err_m[index, :count]
        self.pos_err_mm = result.pos_err_mm[index, :count]
        self.ori_err_rad = result.ori_err_rad[index, :count]
        self.outcome = str(result.outcome[index])
        self.elapsed_ms = float(result.elapsed_ms[index])
        self.stats = None if result.stats is None else result.stats[index]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, _frozen(value) if isinstance(value, np.ndarray) else value)

    def ok(self, pos_mm: float, ori_rad: float) -> Bools:
        """(K,) bool: which rows are within both tolerances, in millimetres and rad (pose accuracy only)."""
        return (self.pos_err_mm <= pos_mm) & (self.ori_err_rad <= ori_rad)

    def __repr__(self) -> str:
        if self.count == 0:
            return f"<TargetResult: {self.outcome}, no rows>"
        pose = " ".join(f"{value:.4g}" for value in self.pose[0])
        return (
            f"<TargetResult: {self.outcome}, {self.count} row(s); the first is off by "
            f"{self.pos_err_mm[0]:.3g} mm, {self.ori_err_rad[0]:.3g} rad at x y z qw qx qy qz = {pose}>"
        )


class Result:
    """The rows found for T targets, S = ``num_solutions`` rows each; from ``count`` on they are NaN.

    A row is no success certificate: check ``ok()`` or ``outcome``. All arrays are read-only, C-contiguous,
    and belong to this object alone.

    ``len(result)`` is T; ``result[i]`` is the ``TargetResult`` of one target (counted from the end if
    negative), ``result[a:b]`` a ``Result`` of those targets; iteration goes over the targets.

    Attributes:
        q: (T, S, dof) joint coordinates, rad or m, in the order of ``info.joint_names``.
        pose: (T, S, 7) reached poses ``x y z qw qx qy qz`` in the base frame, metres and wxyz.
        pos_err_m: (T, S) distances to the target position, metres.
        ori_err_rad: (T, S) angles to the target orientation, rad.
        count: (T,) rows per target, possibly 0.
        stats: ``Stats``, or None without ``stats=True``.
    """

    __slots__ = (
        "_codes", "_elapsed", "_elapsed_ms", "_outcome", "_pos_err_mm", "_valid",
        "count", "ori_err_rad", "pos_err_m", "pose", "q", "stats",
    )  # fmt: skip

    q: Floats
    pose: Floats
    pos_err_m: Floats
    ori_err_rad: Floats
    count: Ints
    stats: Stats | None

    def __init__(
        self,
        q: Floats,
        pose: Floats,
        pos_err_m: Floats,
        ori_err_rad: Floats,
        count: Ints,
        codes: npt.NDArray[np.uint8],
        elapsed: float,
        stats: Stats | None,
    ) -> None:
        q.setflags(write=False)
        pose.setflags(write=False)
        pos_err_m.setflags(write=False)
        ori_err_rad.setflags(write=False)
        count.setflags(write=False)
        self.q = q
        self.pose = pose
        self.pos_err_m = pos_err_m
        self.ori_err_rad = ori_err_rad
        self.count = count
        self.stats = stats
        self._codes = codes
        self._elapsed = elapsed
        self._pos_err_mm: Floats | None = None
        self._valid: Bools | None = None
        self._elapsed_ms: Floats | None = None
        self._outcome: npt.NDArray[np.str_] | None = None

    @property
    def pos_err_mm(self) -> Floats:
        """(T, S) distances to the target position in millimetres; NaN on padding."""
        if self._pos_err_mm is None:
            self._pos_err_mm = _frozen(self.pos_err_m * 1e3)
        return self._pos_err_mm

    @property
    def valid(self) -> Bools:
        """(T, S) bool: which rows are there, that is ``arange(S) < count[:, None]``."""
        if self._valid is None:
            self._valid = _frozen(np.arange(self.q.shape[1]) < self.count[:, None])
        return self._valid

    @property
    def elapsed_ms(self) -> Floats:
        """(T,) time of the native call seen by the host, divided by T: the same for every target."""
        if self._elapsed_ms is None:
            self._elapsed_ms = _frozen(np.full(len(self), self._elapsed))
        return self._elapsed_ms

    @property
    def outcome(self) -> npt.NDArray[np.str_]:
        """(T,) str: why each target has the rows it has.

        "solved": row 0 is within 1e-6 m and 1e-6 rad in float64 and inside the limits. "approximate": rows,
        none of them that good. Without rows: "no_accurate", as nothing came inside 5 mm and 0.05 rad; or,
        with collision "hard" or "both", "self_collision" / "environment_collision", whichever rejected more.
        """
        if self._outcome is None:
            self._outcome = _frozen(_OUTCOMES[self._codes])
        return self._outcome

    def ok(self, pos_mm: float, ori_rad: float) -> Bools:
        """(T, S) bool: which rows are within both tolerances, in millimetres and rad.

        False on padding. It judges the pose only, never physical safety.
        """
        # Comparisons with the NaN of the padding are False.
        return (self.pos_err_mm <= pos_mm) & (self.ori_err_rad <= ori_rad)

    @classmethod
    def _joined(cls, parts: Sequence[Result]) -> Result:
        """The results (without stats) of consecutive slices of targets as one."""
        return cls(
            np.concatenate([part.q for part in parts]),
            np.concatenate([part.pose for part in parts]),
            np.concatenate([part.pos_err_m for part in parts]),
            np.concatenate([part.ori_err_rad for part in parts]),
            np.concatenate([part.count for part in parts]),
            np.concatenate([part._codes for part in parts]),
            sum(part._elapsed * len(part) for part in parts) / sum(map(len, parts)),
            None,
        )

    def __len__(self) -> int:
        return len(self.count)

    @overload
    def __getitem__(self, index: SupportsIndex) -> TargetResult: ...
    @overload
    def __getitem__(self, index: slice) -> Result: ...
    def __getitem__(self, index: SupportsIndex | slice) -> TargetResult | Result:
        """The ``TargetResult`` of one target, or a ``Result`` (a copy) of the targets of a slice."""
        if isinstance(index, slice):
            return Result(
                self.q[index].copy(),
                self.pose[index].copy(),
                self.pos_err_m[index].copy(),
                self.ori_err_rad[index].copy(),
                self.count[index].copy(),
                self._codes[index].copy(),
                self._elapsed,
                None if self.stats is None else Stats(self.stats._records(index)),
            )
        i = operator.index(index)
        if not -len(self) <= i < len(self):
            raise IndexError(f"target {i} of a result of {len(self)} targets")
        return TargetResult(self, i % len(self))

    def __iter__(self) -> Iterator[TargetResult]:
        return (TargetResult(self, i) for i in range(len(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        arrays = (self.q, self.pose, self.pos_err_m, self.ori_err_rad, self.count, self._codes)
        return Result, (*arrays, self._elapsed, self.stats)

    def __repr__(self) -> str:
        targets, capacity, dof = self.q.shape
        solved = int(np.count_nonzero(self._codes == 0))
        return (
            f"<Result: {targets} target(s), {solved} solved; q ({targets}, {capacity}, {dof}), "
            f"pose x y z qw qx qy qz (wxyz), {int(self.count.sum())} row(s)>"
        )
