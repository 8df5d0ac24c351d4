"""What a solver, a build and the packaged robots say about themselves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hjcdik import _core

PACKAGED_ROBOT = "panda"
NAME_SPACE = "hjcdik_robot"  # of generated headers


class FrozenMapping(Mapping[str, float]):
    """A read-only mapping that, unlike ``types.MappingProxyType``, can be copied, pickled and hashed."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, float]) -> None:
        self._items = dict(items)

    def __getitem__(self, key: str) -> float:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenMapping, (self._items,)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)


@dataclass(frozen=True)
class Info:
    """What a solver is bound to: robot, frames, joints, device. Immutable.

    The joint tuples are in the order of q, from base to tool. Limits are (lower, upper) in the joint's
    unit and hold without tolerance in every returned row; a continuous joint has (-pi, pi).

    Attributes:
        robot: the robot's name in its URDF.
        dof: number of joints in q.
        ee_frame: the fixed joint that carries the tool link; "" if the tool is a moving link.
        ee_link: the tool link, whose pose is solved for.
        base_link: the link in whose frame poses are given.
        collision_enabled: whether the robot has collision spheres; then solves are "hard" unless told
            otherwise.
        grid_header_sha256: SHA-256 of the robot's header as ``hjcdik.codegen`` gives it.
        cuda_compiler_version: version of the NVRTC that compiled the robot's GPU program; "" on the CPU.
        device: where solves run: "cpu" or "cuda:N".
        isa: the CPU's instruction set in use: "x86-64", "avx2" or "avx512"; "" on a GPU.
        threads: CPU threads at most; on a GPU those that move its data.
        max_batch_size: the largest ``batch_size`` of a solve.
        artifact: in the store, the file of a prepared build, else of the GPU program that was compiled for
            this robot; None for the packaged robot, and where nothing had to be compiled.
        joint_names: names of the joints in q.
        joint_types: "revolute", "continuous" or "prismatic".
        joint_units: "rad", or "m" for a prismatic joint.
        joint_limits: (lower, upper) of every joint.
        locked_joints: the moving joints of the URDF that are not part of q, with the values (rad or m)
            at which they are held.
        spheres: the collision spheres' name: a model of ``hjcdik.sphere_presets()``, the path of a file, or
            "<string>" for a text; "" without.
        collision_links: the links that have collision spheres.
        sphere_links: the link of every sphere, in the order of ``Solver.spheres_at``.
        self_pairs: the pairs of links that are checked against each other.
    """

    robot: str
    dof: int
    ee_frame: str
    ee_link: str
    base_link: str
    collision_enabled: bool
    grid_header_sha256: str
    cuda_compiler_version: str
    device: str
    isa: str
    threads: int
    max_batch_size: int
    artifact: str | None
    joint_names: tuple[str, ...]
    joint_types: tuple[str, ...]
    joint_units: tuple[str, ...]
    joint_limits: tuple[tuple[float, float], ...]
    locked_joints: Mapping[str, float]
    spheres: str
    collision_links: tuple[str, ...]
    sphere_links: tuple[str, ...] = field(repr=False)
    self_pairs: tuple[tuple[str, str], ...] = field(repr=False)


def header_sha256(robot: _core.Robot) -> str:
    """Of the file that ``hjcdik codegen`` writes."""
    return hashlib.sha256(robot.codegen(NAME_SPACE).encode()).hexdigest()


def joint_columns(robot: _core.Robot) -> dict[str, tuple[Any, ...]]:
    """The joint fields of Info."""
    joints = robot.joints
    return {
        "joint_names": tuple(name for name, _, _, _ in joints),
        "joint_types": tuple(kind for _, kind, _, _ in joints),
        "joint_units": tuple("m" if kind == "prismatic" else "rad" for _, kind, _, _ in joints),
        "joint_limits": tuple((lower, upper) for _, _, lower, upper in joints),
    }


def make_info(robot: _core.Robot, solver: _core.Solver, spheres: str, artifact: str | None) -> Info:
    """`spheres`: the name of the model, if it has one."""
    links = tuple(robot.collision_links)
    return Info(
        robot=robot.name,
        dof=robot.dof,
        ee_frame=robot.ee_frame,
        ee_link=robot.ee_link,
        base_link=robot.base_link,
        collision_enabled=bool(links),
        grid_header_sha256=header_sha256(robot),
        cuda_compiler_version=solver.compiler,
        device=solver.device,
        isa=solver.isa if solver.device == "cpu" else "",
        threads=solver.threads,
        max_batch_size=_core.max_batch_size(),
        artifact=artifact,
        locked_joints=FrozenMapping(robot.locked_joints),
        spheres=spheres if links else "",
        collision_links=links,
        sphere_links=tuple(links[i] for i in robot.sphere_links),
        self_pairs=tuple((links[a], links[b]) for a, b in robot.self_pairs),
        **joint_columns(robot),
    )


def build_info() -> dict[str, Any]:
    """Describe this build and the packaged robot, without touching any device.

    Returns:
        A new dictionary: ``robot``, ``num_joints``, ``ee_target`` (the tool's fixed joint),
        ``collision_enabled``, ``grid_header_sha256`` (of the header that ``codegen`` gives),
        ``joint_model_sha256`` (of ordered joints, limits, tool frame and source URDF),
        ``cuda_compiler_version`` ("" where none was used), ``binding_abi`` (an integer) and ``isas``, the
        instruction sets that this build has and this CPU can run, best last.
    """
    robot = _core.Robot(
        preset=PACKAGED_ROBOT,
        urdf=None,
        source="",
        ee_link="",
        locked_joints={},
        spheres=b"",
        spheres_source="",
        srdf=b"",
        srdf_source="",
        check_base=False,
    )
    model = {
        **joint_columns(robot),
        "base_link": robot.base_link,
        "ee_link": robot.ee_link,
        "ee_frame": robot.ee_frame,
        "chain": robot.header_text,
        "urdf": _core.preset_urdf(PACKAGED_ROBOT),
    }
    return {
        "robot": robot.name,
        "num_joints": robot.dof,
        "ee_target": robot.ee_frame,
        "collision_enabled": bool(robot.collision_links),
        "grid_header_sha256": header_sha256(robot),
        "joint_model_sha256": hashlib.sha256(json.dumps(model, sort_keys=True).encode()).hexdigest(),
        "cuda_compiler_version": "",
        "binding_abi": _core.BINDING_ABI,
        "isas": tuple(_core.available_isas()),
    }


def presets() -> list[str]:
    """Names of the robots that come with the package, in a fixed order; any of them is a ``Solver(name)``."""
    return [name for name, _, _ in _core.presets()]


def preset_urdf(name: str) -> str:
    """The URDF text of a packaged robot, such as for ``Solver(preset_urdf("panda"), ee_link="panda_hand")``.

    Raises:
        ValueError: for a name that is not one of ``presets()``.
    """
    return _core.preset_urdf(name)


def sphere_presets() -> list[str]:
    """Names of the collision sphere models that come with the package, in a fixed order.

    Any of them goes with its robot's URDF, as in
    ``Solver(preset_urdf("panda"), ee_link="panda_hand", spheres="panda_curobo")``.
    """
    return [name for name, _, _ in _core.sphere_presets()]
