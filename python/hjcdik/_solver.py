"""The Solver: one robot on one device."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from hjcdik import _builds, _check, _core, _devices, _inputs, _world
from hjcdik._check import CheckResult
from hjcdik._errors import BuildError
from hjcdik._info import PACKAGED_ROBOT, Info, make_info
from hjcdik._result import STATS_DTYPE, Result, Stats
from hjcdik._sources import RobotArguments, Source, robot_arguments

Floats: TypeAlias = npt.NDArray[np.float64]
Configurations: TypeAlias = "npt.ArrayLike | Mapping[str, float]"

DEFAULT_SEED = 1337


class _Omitted:
    """Stands for an argument that was not given, where None means something else."""

    def __repr__(self) -> str:
        return "<omitted>"


_OMITTED = _Omitted()
_OPEN_WORLD = 1
_COLLISION_MODES = {"hard": 2, "soft": 3, "both": 4}
_FILTERS = (_COLLISION_MODES["hard"], _COLLISION_MODES["both"])  # modes that refuse rows
_PRECISIONS = {"auto": 0, "fp32": 1, "fp64": 2}
_COARSE_ORDERS = {"sweep": 0, "greedy": 1}
_UINT32_MAX = 2**32 - 1
_UINT64_MAX = 2**64 - 1
_INT32_MAX = 2**31 - 1

_log = logging.getLogger("hjcdik")


class _Store(NamedTuple):
    """Where a solver's GPU programs are kept."""

    folder: str  # "": the default one
    allow_build: bool
    name: str | None = None  # of the prepared build that it is made from
    artifact: str | None = None  # its file


class Solver:
    """Inverse kinematics of one robot on one device.

    Any number of threads may solve on it at once. Only its worlds change: a solve takes those in force when
    it begins. It can be pickled: it is then rebuilt from its arguments and worlds, with the texts of files
    carried along.

    Args:
        robot: one of ``hjcdik.presets()`` (None: "panda"), the path of a URDF, a URDF's text (anything
            that starts with "<"), or the name of a prepared build (``hjcdik.build``), which is complete: the
            other arguments about the robot are not for it.
        ee_link: the end effector: the name of a link, or of a fixed joint (then its child link). Needed for
            a URDF; a preset has its own.
        spheres: collision spheres: one of ``hjcdik.sphere_presets()``, or the path or the text of a spherized
            URDF or of a JSON sphere model (text starts with "<" or "{"). None: a preset's own; for a URDF
            none, so that solves are open-world. Only None for a preset: another model goes with its URDF, as
            ``Solver(preset_urdf("panda"), ee_link="panda_hand", spheres="panda_curobo")``.
        device: "cpu", a GPU as "cuda:1" or the number 1, or "cuda", the current GPU: the one whose context is
            current on this thread, else the first. None is the current GPU where there is a usable one, else
            the CPU; the log says why. Fixed from then on: ``info.device`` names it.
        allow_build: whether a GPU program that is not stored is compiled, now or at the first solve that
            needs it. With False a GPU takes stored programs only, those of just this robot, tool and spheres,
            and needs no compiler. The CPU needs no program and takes any robot.
        cache_dir: folder of stored programs and builds; None is HJCDIK_CACHE_DIR, else
            GRID_RBD_CACHE_DIR/consumers/hjcdik, else XDG_CACHE_HOME/hjcdik, else ~/.cache/hjcdik.
        locked_joints: joints held at a value (rad or m) by name, on the chain or off it. Moving joints off
            the chain that are not named are held at 0, put into their limits.
        threads: CPU threads at most; None takes HJCDIK_NUM_THREADS, else what the process may use.
        srdf: path or text of an SRDF, whose disable_collisions entries remove self pairs.
        check_base: check the base link's spheres too: in self pairs, and, whenever a world is set, against
            its obstacles. Those they touch are named in a logged warning and never decide about a row.

    Raises:
        ModelError: (a ValueError) for an unusable robot, sphere model or SRDF; it names file, line and
            element.
        ValueError: for an unknown robot name or a bad argument.
        DeviceError: (a RuntimeError) for a device that cannot be used here.
        BuildError: (a RuntimeError) if the robot's GPU program cannot be compiled, or may not be and is not
            stored; then the message names the command that prepares it. Also for a prepared build that is
            damaged or of another version's form.
    """

    __slots__ = (
        "__weakref__", "_arguments", "_core", "_default_collision", "_dof", "_info", "_max_batch_size",
        "_robot", "_setting_worlds", "_worlds",
    )  # fmt: skip

    def __init__(
        self,
        robot: Source | None = None,
        *,
        ee_link: str | None = None,
        spheres: Source | None = None,
        device: SupportsIndex | str | None = None,
        allow_build: bool = True,
        cache_dir: str | os.PathLike[str] | None = None,
        locked_joints: Mapping[str, float] | None = None,
        threads: SupportsIndex | None = None,
        srdf: Source | None = None,
        check_base: bool = False,
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
        allow_build = _inputs.flag(allow_build, "allow_build")
        folder = _builds.folder_of(cache_dir)
        device_name = _device_name(device)
        thread_count = 0 if threads is None else _inputs.integer(threads, "threads", 1, _INT32_MAX)
        prepared = _builds.find_prepared(robot, folder)
        if prepared is not None:
            artifact = prepared.artifact
            _builds.refuse_others(artifact, ee_link, spheres, srdf, locked_joints, check_base)
            store = _Store(folder, allow_build, artifact.name, str(artifact.path))
            self._bind(prepared.arguments, device_name, thread_count, store)
            return
        arguments = robot_arguments(robot, ee_link, spheres, srdf, locked_joints, check_base)
        self._bind(arguments, device_name, thread_count, _Store(folder, allow_build))

    def _bind(self, arguments: RobotArguments, device: str, threads: int, store: _Store) -> None:
        self._robot = arguments.make()
        if device != "cpu":
            _devices.find_compilers()
        try:
            self._core = _core.Solver(
                robot=self._robot,
                device=device,
                threads=threads,
                isa="",
                cache_dir=store.folder,
                allow_build=store.allow_build,
            )
        except BuildError as error:
            if store.allow_build:
                raise
            raise _builds.refusal(arguments, store.name, store.folder, error) from None
        finally:
            _devices.log_store_notes()
        if self._core.gpu_refusal:
            _devices.explain_refusal(self._core.gpu_refusal)
        artifact = store.artifact
        if artifact is None and arguments.preset != PACKAGED_ROBOT:
            artifact = self._core.program_path or None
        self._info = make_info(self._robot, self._core, arguments.sphere_model(), artifact)
        self._dof = self._info.dof
        self._max_batch_size = self._info.max_batch_size
        self._default_collision = _COLLISION_MODES["hard"] if self._info.collision_enabled else _OPEN_WORLD
        self._arguments = (arguments, device, threads, store)
        self._setting_worlds = threading.Lock()
        self._worlds: tuple[_world.World, ...]
        self.clear_world()
        for warning in self._robot.warnings:
            _log.warning("%s: %s", self._info.robot, warning)

    @property
    def info(self) -> Info:
        """What this solver is bound to: an immutable ``Info`` with robot, joints, frames and device."""
        return self._info

    @property
    def worlds(self) -> tuple[dict[str, Any], ...]:
        """The worlds in force, each as the keywords of ``set_world``; without any set, one that is empty."""
        return tuple(world.keywords() for world in self._worlds)

    def set_world(
        self,
        *,
        boxes: npt.ArrayLike | None = None,
        capsules: npt.ArrayLike | None = None,
        spheres: npt.ArrayLike | None = None,
        cylinders: npt.ArrayLike | None = None,
        exact_cylinders: bool = False,
    ) -> None:
        """Replace the obstacles by these, any number of each kind; without arguments by none.

        All lengths are in metres, in the frame of ``info.base_link``, with scalar-first (wxyz) quaternions of
        any nonzero norm. If it raises, the obstacles in force stay.

        Args:
            boxes: (M, 10) rows ``cx cy cz qw qx qy qz sx sy sz``: centre, orientation, full side lengths.
            capsules: (M, 7) rows ``x0 y0 z0 x1 y1 z1 r``: ends of the axis, radius. Equal ends: a sphere.
            spheres: (M, 4) rows ``cx cy cz r``.
            cylinders: (M, 9) rows ``cx cy cz qw qx qy qz r L``: the axis is local z, L its full length.
            exact_cylinders: take cylinders as they are. Otherwise each is checked as the capsule of the same
                axis, length and radius, whose round ends reach r beyond the flat faces: never less than the
                cylinder, but it may refuse rows that are free.

        Raises:
            ValueError: for a wrong shape, a value that is not finite or beyond 1e9 m, a size that is not
                positive, or a zero quaternion, naming array, row and field; or, with any obstacle, if the
                robot has no collision spheres, so that it would do nothing.
        """
        world = _world.world(
            boxes=boxes,
            capsules=capsules,
            spheres=spheres,
            cylinders=cylinders,
            exact_cylinders=exact_cylinders,
        )
        if not world.empty:
            self._need_spheres("set_world")
        self._put_in_force((world,))

    def set_worlds(self, worlds: Sequence[Mapping[str, Any]], *, exact_cylinders: bool = False) -> None:
        """Replace the obstacles by several worlds at once, for solves that give ``world_index``.

        Args:
            worlds: a mapping of the keywords of ``set_world`` for each world, such as ``[{"boxes": rows}]``
                or what ``hjcdik.worlds.from_mbm_problem`` returns; an empty mapping is a world without
                obstacles. An empty sequence is the same as ``clear_world``.
            exact_cylinders: as in ``set_world``, for worlds that do not say it themselves.

        Raises:
            ValueError: as ``set_world``, naming the world too; those in force stay.
        """
        made = _world.worlds(worlds, exact_cylinders) or (_world.world(),)
        if not all(world.empty for world in made):
            self._need_spheres("set_worlds")
        self._put_in_force(made)

    def clear_world(self) -> None:
        """Remove all obstacles. The robot's own pairs are still checked in "hard" and "both"."""
        self._put_in_force((_world.world(),))

    def _put_in_force(self, worlds: tuple[_world.World, ...]) -> None:
        with self._setting_worlds:
            self._core.set_worlds([world.core for world in worlds])
            self._worlds = worlds
            contacts = self._core.base_contacts
        for contact in contacts:
            _log.warning("%s: %s", self._info.robot, contact)

    def check(
        self,
        q: Configurations,
        *,
        collision_margin_m: float = 0.0,
        self_collision: bool = True,
        world_index: npt.ArrayLike | None = None,
    ) -> CheckResult:
        """Judge configurations: free or not, by how much, and which pair is responsible.

        Computed in float64 for the collision spheres, never for meshes, and for configurations, never for the
        way between two of them. Joint limits are not looked at.

        Args:
            q: (N,) or (M, N) joint values, rad or m, or one {joint: value} mapping; M is 1 for one.
            collision_margin_m: clearance in metres below which an obstacle counts as hit; self pairs are
                always judged at 0.
            self_collision: whether the robot's own pairs are checked.
            world_index: number of the world of ``set_worlds`` for all rows, or (M,) numbers; -1 is an empty
                one. Needed where there are several.

        Returns:
            A ``CheckResult`` of M rows: clearances in metres and the names of links and obstacles.

        Raises:
            ValueError: if the robot has no collision spheres, or for an unusable argument.
        """
        self._need_spheres("check")
        values = np.atleast_2d(self._joint_values(q))
        margin = _inputs.not_negative(collision_margin_m, "collision_margin_m")
        pairs = _inputs.flag(self_collision, "self_collision")
        if world_index is not None:
            world_index = self._world_index(world_index, len(values), "configuration")
        return _check.check(self._core, self._info.collision_links, values, world_index, margin, pairs)

    def spheres_at(self, q: Configurations) -> Floats:
        """The collision spheres in the base frame, in the order of ``info.sphere_links``.

        Args:
            q: (N,) or (M, N) joint values, rad or m, or one {joint: value} mapping.

        Returns:
            (n, 4) or (M, n, 4) rows ``x y z r`` in metres; n is 0 without collision spheres.

        Raises:
            ValueError: for a wrong shape or a value that is not finite, naming row and joint.
        """
        values = self._joint_values(q)
        rows = np.empty((*values.shape[:-1], len(self._info.sphere_links), 4))
        self._robot.spheres(values, rows)
        return rows

    def _world_index(self, world_index: npt.ArrayLike, count: int, of: str) -> npt.NDArray[np.int32]:
        return _inputs.world_numbers(world_index, "world_index", count, of, len(self._worlds))

    def _need_spheres(self, what: str) -> None:
        if not self._info.collision_enabled:
            raise ValueError(f"{what}: {self._no_geometry()}")

    def _no_geometry(self) -> str:
        arguments = self._arguments[0]
        robot = f"hjcdik.preset_urdf({arguments.preset!r})" if arguments.preset else "urdf"
        return (
            "this robot has no collision geometry; give it some with "
            f"Solver({robot}, ee_link={self._info.ee_link!r}, spheres=...), a model of "
            "hjcdik.sphere_presets() or a file"
        )

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
        self_motion: bool = True,
        world_index: npt.ArrayLike | None = None,
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
            collision: what is checked, for the robot's spheres and at single configurations, never on the way
                to them. Omitted: "hard" for a robot with collision spheres, else None.
                None: nothing; a row says nothing about safety.
                "hard": rows are free of self-collision and clear of the obstacles by the margin; nothing else
                is returned, so that ``count`` may be 0 (see ``Result.outcome``).
                "soft": rows in order of their penetration of the obstacles, which there must be; they may
                collide.
                "both": free as with "hard", in the order of "soft".
            precision: "auto" and "fp64" polish every returned row in float64; "fp32" leaves it as accurate
                as the float32 search does, about 3e-6 m. Reported errors and limits are float64 always.
            stats: collect diagnostics per target in ``result.stats``; changes no row. With collision every
                candidate refined is judged once more, which can cost several times the solve, most of all
                for targets without rows.
            collision_margin_m: clearance in metres below which an obstacle counts as hit; needs collision
                "hard" or "both". Self pairs are always checked at 0.
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
            self_motion: with "hard" and "both", whether the first 64 starts that end in collision are
                followed along the arm's self-motion, where it has one (more than six joints), to a free
                configuration.
            world_index: (T,) numbers of the world of ``set_worlds`` that each target is solved in, or one for
                all; -1 is an empty one. Needed where there are several and ``collision`` is not None. Numbers
                of worlds that there are not are refused whatever ``collision`` is; without any set, also on
                a robot without collision spheres, there is world 0, which is empty.

        Returns:
            A ``Result`` of T targets and S rows each, NaN-padded, with poses in metres and wxyz.

        Raises:
            ValueError: for any unusable argument, naming row and field, before any work: also for a collision
                mode without collision spheres, for "soft" without obstacles, and for ``num_solutions`` beyond
                what there is memory for.
            TypeError: for poses in a GPU's memory (DLPack).
            DeviceError: in a forked child, on a GPU that its parent had in use.
            SolveError: if the GPU fails; nothing is returned. The message says what to do.
        """
        targets = _inputs.poses(poses)
        rows = _inputs.integer(num_solutions, "num_solutions", 1)
        candidates = _inputs.integer(batch_size, "batch_size", 1, self._max_batch_size)
        if collision is _OMITTED:
            mode = self._default_collision
        else:
            mode = _OPEN_WORLD if collision is None else self._collision_mode(collision)
        if type(collision_margin_m) is not float or collision_margin_m != 0.0 or self_collision is not True:
            collision_margin_m, self_collision = _collision_options(mode, collision_margin_m, self_collision)
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
        if world_index is not None:
            world_index = self._world_index(world_index, count_targets, "target")

        dof = self._dof
        try:
            q = np.empty((count_targets, rows, dof))
            pose = np.empty((count_targets, rows, 7))
            pos_err = np.empty((count_targets, rows))
            ori_err = np.empty((count_targets, rows))
        except (
            MemoryError,
            ValueError,
            OverflowError,
        ) as error:  # the latter two beyond what numpy can count
            raise ValueError(
                f"num_solutions={rows} for {count_targets} targets is more than there is memory for"
            ) from error
        count = np.empty(count_targets, np.int64)
        codes = np.empty(count_targets, np.uint8)
        records = np.empty(count_targets, STATS_DTYPE) if _inputs.flag(stats, "stats") else None
        elapsed_ms = self._core.solve(
            targets, q, pose, pos_err, ori_err, count, codes, records, rows, candidates, precision_code,
            seed_value, distinct, warm, warm_rows, per_target, sweeps, order_code, mode, collision_margin_m,
            self_collision, _inputs.flag(self_motion, "self_motion"), world_index,
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

    def _collision_mode(self, collision: Any) -> int:
        mode = _COLLISION_MODES.get(collision) if isinstance(collision, str) else None
        if mode is None:
            modes = ", ".join(map(repr, _COLLISION_MODES))
            raise ValueError(f"collision must be None or one of {modes}, not {collision!r}")
        if not self._info.collision_enabled:
            raise ValueError(f"collision={collision!r}: {self._no_geometry()}; or pass collision=None")
        return mode

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (*self._arguments, self.worlds)

    def __repr__(self) -> str:
        info = self._info
        frames = f"{info.base_link} to {info.ee_link}"
        return f"<Solver of {info.robot!r}: {info.dof} joints, {frames}, on {info.device}>"


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


def _choice(value: Any, name: str, choices: Mapping[str, int]) -> int:
    code = choices.get(value) if isinstance(value, str) else None
    if code is None:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")
    return code


def _collision_options(mode: int, collision_margin_m: Any, self_collision: Any) -> tuple[float, bool]:
    margin = _inputs.not_negative(collision_margin_m, "collision_margin_m")
    pairs = _inputs.flag(self_collision, "self_collision")
    if mode not in _FILTERS and (margin != 0 or not pairs):
        what = "self_collision=False" if margin == 0 else "collision_margin_m"
        raise ValueError(f"{what} needs collision='hard' or 'both'")
    return margin, pairs


def _rebuild(
    arguments: RobotArguments, device: str, threads: int, store: _Store, worlds: tuple[dict[str, Any], ...]
) -> Solver:
    solver = Solver.__new__(Solver)
    solver._bind(arguments, device, threads, store)
    solver.set_worlds(worlds)
    return solver
