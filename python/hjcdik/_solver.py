"""The Solver: one robot on one device."""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from hjcdik import _core, _devices, _inputs
from hjcdik._errors import ModelError
from hjcdik._info import PACKAGED_ROBOT, Info, make_info, presets
from hjcdik._result import STATS_DTYPE, Result, Stats

Floats: TypeAlias = npt.NDArray[np.float64]
RobotSource: TypeAlias = "str | os.PathLike[str]"
Configurations: TypeAlias = "npt.ArrayLike | Mapping[str, float]"

DEFAULT_SEED = 1337


class _Omitted:
    """Stands for an argument that was not given, where None means something else."""

    def __repr__(self) -> str:
        return "<omitted>"


_OMITTED = _Omitted()
_COLLISION_MODES = ("hard", "soft", "both")
_NO_GEOMETRY = "this robot has no collision geometry"
_PRECISIONS = {"auto": 0, "fp32": 1, "fp64": 2}
_COARSE_ORDERS = {"sweep": 0, "greedy": 1}
_UINT32_MAX = 2**32 - 1
_UINT64_MAX = 2**64 - 1
_INT32_MAX = 2**31 - 1
_LARGEST_FILE = 64 * 2**20  # bytes of a URDF

_log = logging.getLogger("hjcdik")


class _Source(NamedTuple):
    """Where a robot comes from; the text is kept, so that a pickled solver needs no file."""

    preset: str  # "" for a URDF
    urdf: bytes | None
    name: str  # of the URDF, in messages


class Solver:
    """Inverse kinematics of one robot on one device.

    Immutable once made: any number of threads may solve on it at once, and it can be pickled (it is then
    rebuilt from its arguments, with the URDF's text carried along).

    Args:
        robot: one of ``hjcdik.presets()`` (None: "panda"), the path of a URDF, or a URDF's text (anything
            that starts with "<").
        ee_link: the end effector: the name of a link, or of a fixed joint (then its child link). Needed for
            a URDF; a preset has its own.
        spheres: reserved for collision geometry; only None is accepted for now.
        device: "cpu", a GPU as "cuda:1" or the number 1, or "cuda", the current GPU: the one whose context is
            current on this thread, else the first. None is the current GPU where there is a usable one, else
            the CPU; the log says why. Fixed from then on: ``info.device`` names it.
        allow_build: reserved for stored builds.
        cache_dir: reserved for stored builds. Compiled GPU programs are kept in HJCDIK_CACHE_DIR.
        locked_joints: joints held at a value (rad or m) by name, on the chain or off it. Moving joints off
            the chain that are not named are held at 0, put into their limits.
        threads: CPU threads at most; None takes HJCDIK_NUM_THREADS, else what the process may use.

    Raises:
        ModelError: (a ValueError) for an unusable robot; it names file, line and element.
        ValueError: for an unknown robot name or a bad argument.
        DeviceError: (a RuntimeError) for a device that cannot be used here.
        BuildError: (a RuntimeError) if the robot's GPU program cannot be compiled.
    """

    __slots__ = ("__weakref__", "_arguments", "_core", "_dof", "_info", "_max_batch_size", "_robot")

    def __init__(
        self,
        robot: RobotSource | None = None,
        *,
        ee_link: str | None = None,
        spheres: str | os.PathLike[str] | None = None,
        device: SupportsIndex | str | None = None,
        allow_build: bool = True,
        cache_dir: str | os.PathLike[str] | None = None,
        locked_joints: Mapping[str, float] | None = None,
        threads: SupportsIndex | None = None,
    ) -> None:
        if ee_link is not None and not isinstance(ee_link, str):
            if isinstance(ee_link, (list, tuple)):
                raise ValueError(
                    "ee_link as a list is reserved for robots with several tips, which are not supported "
                    "yet; pass one name"
                )
            raise ValueError(f"ee_link must be the name of a link or of a fixed joint, not {ee_link!r}")
        if ee_link == "":
            raise ValueError("ee_link must not be empty")
        _inputs.flag(allow_build, "allow_build")
        if cache_dir is not None:
            os.fspath(cache_dir)
        device_name = _device_name(device)
        thread_count = 0 if threads is None else _inputs.integer(threads, "threads", 1, _INT32_MAX)
        locked = _locked(locked_joints)
        source = _find_robot(robot)
        if spheres is not None:
            reason = (
                "collision geometry is not supported yet" if source.urdf else "a packaged robot has its own"
            )
            raise ValueError(f"spheres must be None: {reason}")
        self._bind(source, _inputs.text(ee_link or "", "ee_link"), device_name, locked, thread_count)

    def _bind(
        self, source: _Source, ee_link: str, device: str, locked: dict[str, float], threads: int
    ) -> None:
        self._robot = _core.Robot(
            preset=source.preset, urdf=source.urdf, source=source.name, ee_link=ee_link, locked_joints=locked
        )
        if device != "cpu":
            _devices.find_compilers()
        self._core = _core.Solver(robot=self._robot, device=device, threads=threads, isa="")
        if self._core.gpu_refusal:
            _devices.explain_refusal(self._core.gpu_refusal)
        self._info = make_info(self._robot, self._core)
        self._dof = self._info.dof
        self._max_batch_size = self._info.max_batch_size
        self._arguments = (source, ee_link, device, locked, threads)
        for warning in self._robot.warnings:
            _log.warning("%s: %s", self._info.robot, warning)

    @property
    def info(self) -> Info:
        """What this solver is bound to: an immutable ``Info`` with robot, joints, frames and device."""
        return self._info

    def solve(
        self,
        poses: npt.ArrayLike,
        *,
        num_solutions: SupportsIndex = 1,
        batch_size: SupportsIndex = 2000,
        collision: str | _Omitted | None = _OMITTED,
        precision: str = "auto",
        stats: bool = False,
        collision_margin_m: float = 0.0,
        self_collision: bool = True,
        q_init: Configurations | None = None,
        seed: SupportsIndex | None = None,
        distinct_rad: float = 0.05,
        coarse_sweeps: SupportsIndex | None = None,
        coarse_order: str = "sweep",
    ) -> Result:
        """Find joint configurations that put the tool link at the given poses.

        A returned row does NOT certify success: it may be an approximation where the target is out of
        reach. Check ``result.ok(pos_mm, ori_rad)`` or ``result.outcome``; ``result.count`` may be zero.

        The same arguments give the same bits, however many targets stand in one call and however many
        threads work on it: ``solve(poses)[i]`` equals ``solve(poses[i])``.

        Args:
            poses: targets in the frame of ``info.base_link``: (7,) or (T, 7) rows ``x y z qw qx qy qz``,
                metres and scalar-first (wxyz) quaternions of any nonzero norm, or (4, 4) or (T, 4, 4)
                homogeneous matrices. T may be 0. One pose gives a result with T = 1.
            num_solutions: rows per target at most (S).
            batch_size: candidates explored per target (not a number of targets), at most
                ``info.max_batch_size``. A target that has no solution costs at most ``batch_size`` *
                ceil(64 / ``batch_size``) * 20 iterations.
            collision: None. "hard", "soft" and "both" need a robot with collision geometry.
            precision: "auto" and "fp64" polish every returned row in float64; "fp32" leaves it as accurate
                as the float32 search does, about 3e-6 m. Reported errors and limits are float64 always.
            stats: collect diagnostics per target in ``result.stats``; changes no row.
            collision_margin_m: clearance to obstacles in metres; needs collision "hard" or "both".
            self_collision: whether the robot's own pairs are checked; False needs "hard" or "both".
            q_init: warm starts, rad or m: (N,), (K, N) for all targets, (T, K, N) for each its own, or one
                {joint: value} mapping that names every joint of ``info.joint_names`` (locked joints may be
                in it and are ignored). K is at most ``batch_size``. Converged rows are then ordered by
                nearness to the nearest warm start, and one that is exact already is returned unchanged.
            seed: of the random starts, in [0, 2**32); None is 1337.
            distinct_rad: rows of one target differ by at least this in some joint (rad or m), modulo a
                full turn; 0 accepts all that differ by more than 1e-7.
            coarse_sweeps: sweeps of coordinate descent before the refinement; None takes the measured
                default.
            coarse_order: "sweep" moves the joints from tool to base, "greedy" always the one that gains most.

        Returns:
            A ``Result`` of T targets and S rows each, NaN-padded, with poses in metres and wxyz.

        Raises:
            ValueError: for any unusable argument, naming row and field, before any work.
            TypeError: for poses in a GPU's memory (DLPack).
            DeviceError: in a forked child, on a GPU that its parent had in use.
            SolveError: if the GPU fails; nothing is returned. The message says what to do.
        """
        targets = _inputs.poses(poses)
        rows = _inputs.integer(num_solutions, "num_solutions", 1)
        candidates = _inputs.integer(batch_size, "batch_size", 1, self._max_batch_size)
        if collision is not _OMITTED and collision is not None:
            _refuse_collision(collision)
        if type(collision_margin_m) is not float or collision_margin_m != 0.0 or self_collision is not True:
            _refuse_collision_options(collision_margin_m, self_collision)
        precision_code = _choice(precision, "precision", _PRECISIONS)
        order_code = _choice(coarse_order, "coarse_order", _COARSE_ORDERS)
        sweeps = -1
        if coarse_sweeps is not None:
            sweeps = _inputs.integer(coarse_sweeps, "coarse_sweeps", 0, _INT32_MAX)
        seed_value = DEFAULT_SEED if seed is None else _inputs.integer(seed, "seed", 0, _UINT32_MAX)
        distinct = _inputs.not_negative(distinct_rad, "distinct_rad")
        count_targets = 1 if targets.ndim == 1 else len(targets)
        warm, warm_rows, per_target = None, 0, False
        if q_init is not None:
            warm, warm_rows, per_target = self._warm_starts(q_init, count_targets, candidates)

        dof = self._dof
        q = np.empty((count_targets, rows, dof))
        pose = np.empty((count_targets, rows, 7))
        pos_err = np.empty((count_targets, rows))
        ori_err = np.empty((count_targets, rows))
        count = np.empty(count_targets, np.int64)
        codes = np.empty(count_targets, np.uint8)
        records = np.empty(count_targets, STATS_DTYPE) if _inputs.flag(stats, "stats") else None
        elapsed_ms = self._core.solve(
            targets, q, pose, pos_err, ori_err, count, codes, records, rows, candidates, precision_code,
            seed_value, distinct, warm, warm_rows, per_target, sweeps, order_code,
        )  # fmt: skip
        return Result(
            q, pose, pos_err, ori_err, count, codes,
            elapsed_ms / (count_targets or 1), None if records is None else Stats(records),
        )  # fmt: skip

    def sample_targets(self, num_targets: SupportsIndex, seed: SupportsIndex = 0) -> Floats:
        """Reachable poses from a seeded, shifted Halton sequence over the joint limits.

        Args:
            num_targets: how many, at least 1.
            seed: shifts the sequence; in [0, 2**64).

        Returns:
            (num_targets, 7) rows ``x y z qw qx qy qz`` in the base frame, metres and wxyz. They are not
            checked for collision.

        Raises:
            ValueError: for a number or a seed out of range.
        """
        poses = np.empty((_inputs.integer(num_targets, "num_targets", 1), 7))
        self._core.sample_targets(_inputs.integer(seed, "seed", 0, _UINT64_MAX), poses)
        return poses

    def sample_configurations(self, num_configurations: SupportsIndex, seed: SupportsIndex = 0) -> Floats:
        """The joint configurations behind ``sample_targets`` with the same number and seed.

        Returns:
            (num_configurations, dof) values inside the limits, rad or m.

        Raises:
            ValueError: for a number or a seed out of range.
        """
        q = np.empty((_inputs.integer(num_configurations, "num_configurations", 1), self._dof))
        self._core.sample_configurations(_inputs.integer(seed, "seed", 0, _UINT64_MAX), q)
        return q

    def forward_kinematics(self, q: Configurations) -> Floats:
        """Pose of the tool link in the base frame, in float64; limits are not looked at.

        Args:
            q: (N,) or (M, N) joint values, rad or m, or one {joint: value} mapping.

        Returns:
            (7,) or (M, 7) rows ``x y z qw qx qy qz``, metres and wxyz.

        Raises:
            ValueError: for a wrong shape or a value that is not finite, naming row and joint.
        """
        values = self._joint_values(q)
        poses = np.empty((*values.shape[:-1], 7))
        self._robot.forward_kinematics(values, poses)
        return poses

    def jacobian(self, q: Configurations) -> Floats:
        """Geometric Jacobian at the tool link's origin, in the base frame.

        Args:
            q: (N,) or (M, N) joint values, rad or m, or one {joint: value} mapping.

        Returns:
            (6, N) or (M, 6, N): three linear rows (m per rad or m) above three angular ones.

        Raises:
            ValueError: for a wrong shape or a value that is not finite, naming row and joint.
        """
        values = self._joint_values(q)
        jacobians = np.empty((*values.shape[:-1], 6, self._dof))
        self._robot.jacobian(values, jacobians)
        return jacobians

    def _joint_values(self, q: Configurations) -> Floats:
        values = _inputs.configurations(q, "q", self._info.joint_names, self._info.locked_joints)
        if values.ndim not in (1, 2) or values.shape[-1] != self._dof:
            raise ValueError(f"q must have shape ({self._dof},) or (M, {self._dof}), not {values.shape}")
        if not np.isfinite(values).all():
            *row, joint = np.argwhere(~np.isfinite(values))[0].tolist()
            value = values[(*row, joint)]
            raise ValueError(f"q{row or ''}: joint {self._info.joint_names[joint]!r} is {value}")
        return values

    def _warm_starts(self, q_init: Configurations, targets: int, candidates: int) -> tuple[Floats, int, bool]:
        """The rows, K, and whether every target has its own."""
        rows = _inputs.configurations(q_init, "q_init", self._info.joint_names, self._info.locked_joints)
        if rows.ndim not in (1, 2, 3) or rows.shape[-1] != self._dof:
            n = self._dof
            raise ValueError(f"q_init must have shape ({n},), (K, {n}) or (T, K, {n}), not {rows.shape}")
        if rows.ndim == 3 and rows.shape[0] != targets:
            raise ValueError(f"q_init has rows for {rows.shape[0]} targets, but there are {targets}")
        count = 1 if rows.ndim == 1 else rows.shape[-2]
        if count > candidates:
            raise ValueError(f"q_init has {count} rows, more than batch_size ({candidates}) candidates")
        return rows, count, rows.ndim == 3

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, self._arguments

    def __repr__(self) -> str:
        info = self._info
        frames = f"{info.base_link} to {info.ee_link}"
        return f"<Solver of {info.robot!r}: {info.dof} joints, {frames}, on {info.device}>"


def _find_robot(robot: RobotSource | None) -> _Source:
    if robot is None:
        return _Source(PACKAGED_ROBOT, None, "")
    if not isinstance(robot, (str, os.PathLike)):
        raise ValueError(f"robot must be the name of a preset, a URDF's path or its text, not {robot!r}")
    if isinstance(robot, str):
        if robot.lstrip("\ufeff \t\r\n").startswith("<"):
            return _Source("", robot.encode(errors="surrogatepass"), "<string>")
        known = presets()
        if robot in known:
            return _Source(robot, None, "")
        looks_like_a_path = os.path.basename(robot) != robot or robot.endswith((".urdf", ".xml"))
        if not looks_like_a_path and not os.path.exists(robot):
            near = difflib.get_close_matches(robot.lower(), known, 1, 0.5)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise ValueError(
                f"unknown robot {robot!r}{hint}: neither a file nor one of the presets {', '.join(known)}"
            )
    path = Path(robot)
    name = os.fsencode(path).decode(errors="backslashreplace")  # a path need not be UTF-8, a message is
    try:
        with path.open("rb") as file:
            urdf = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ModelError(f"{name}: cannot be read: {error.strerror}", name) from error
    if len(urdf) > _LARGEST_FILE:
        raise ModelError(f"{name}: the file is larger than 64 MiB; a URDF is expected", name)
    return _Source("", urdf, name)


def _device_name(device: Any) -> str:
    if device is None:
        return ""
    if isinstance(device, str):
        if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
            raise ValueError(f'device must be None, "cpu", "cuda", "cuda:N" or the number N, not {device!r}')
        return device
    if isinstance(device, (list, tuple)):
        raise ValueError("device as a list is reserved for several GPUs, not supported yet; pass one")
    return f"cuda:{_inputs.integer(device, 'device', 0)}"


def _locked(locked_joints: Mapping[str, float] | None) -> dict[str, float]:
    if locked_joints is None:
        return {}
    if not isinstance(locked_joints, Mapping):
        raise ValueError(f"locked_joints must map joint names to values, not {locked_joints!r}")
    locked = {}
    for joint, value in locked_joints.items():
        if not isinstance(joint, str):
            raise ValueError(f"locked_joints: {joint!r} is not the name of a joint")
        locked[_inputs.text(joint, "locked_joints")] = _inputs.number(value, f"locked_joints[{joint!r}]")
    return locked


def _choice(value: Any, name: str, choices: Mapping[str, int]) -> int:
    code = choices.get(value) if isinstance(value, str) else None
    if code is None:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return code


def _refuse_collision(collision: Any) -> None:
    if isinstance(collision, str) and collision in _COLLISION_MODES:
        raise ValueError(f"collision={collision!r}: {_NO_GEOMETRY}; pass collision=None")
    modes = ", ".join(map(repr, _COLLISION_MODES))
    raise ValueError(f"collision must be None or one of {modes}, not {collision!r}")


def _refuse_collision_options(collision_margin_m: Any, self_collision: Any) -> None:
    """Whatever is not the default needs a collision mode, and there is none to choose yet."""
    if _inputs.not_negative(collision_margin_m, "collision_margin_m") != 0:
        raise ValueError(f"collision_margin_m needs collision='hard' or 'both', but {_NO_GEOMETRY}")
    if not _inputs.flag(self_collision, "self_collision"):
        raise ValueError(f"self_collision=False needs collision='hard' or 'both', but {_NO_GEOMETRY}")


def _rebuild(*arguments: Any) -> Solver:
    solver = Solver.__new__(Solver)
    solver._bind(*arguments)
    return solver
