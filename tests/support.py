"""What several Python tests need: independent kinematics, the meaning of "strict", small robots."""

from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn
from xml.etree import ElementTree

import numpy as np
import pytest

import hjcdik
from hjcdik import _devices

DATA = Path(os.environ.get("HJCDIK_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")

# Bars of a strict solution.
POSITION_M = 1e-6
ORIENTATION_RAD = 1e-6

REQUIRE_GPU = os.environ.get("HJCDIK_REQUIRE_GPU") == "1"
GPU_PROBLEM = _devices.gpu_problem()


def missing(what: str) -> NoReturn:
    """Skips the test, or fails it on a machine that is meant to have everything."""
    if REQUIRE_GPU:
        pytest.fail(what)
    pytest.skip(what)


class Oracle:
    """Float64 forward kinematics in numpy, straight from the URDF's text; values of q in the solver's order.

    Shares no code with the library; test_kinematics.py holds it against Pinocchio.
    """

    def __init__(self, text: str, solver: hjcdik.Solver) -> None:
        self.info = solver.info
        joints = ElementTree.fromstring(text).findall("joint")
        parents = {joint.find("child").get("link"): joint for joint in joints}
        self.chain: list[tuple[str, str, np.ndarray, np.ndarray]] = []  # name, type, origin (4, 4), axis
        link = self.info.ee_link
        while link in parents:
            joint = parents[link]
            origin = joint.find("origin")
            attributes = {} if origin is None else origin.attrib
            frame = np.eye(4)
            frame[:3, 3] = numbers(attributes.get("xyz", "0 0 0"))
            roll, pitch, yaw = numbers(attributes.get("rpy", "0 0 0"))
            for axis, angle in (((0, 0, 1), yaw), ((0, 1, 0), pitch), ((1, 0, 0), roll)):
                frame[:3, :3] = frame[:3, :3] @ turn(np.array(axis, float), np.array(angle))
            axis = joint.find("axis")
            direction = numbers("1 0 0" if axis is None else axis.get("xyz"))
            self.chain.insert(0, (joint.get("name"), joint.get("type"), frame, direction))
            link = joint.find("parent").get("link")

    def poses(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions (M, 3) and rotations (M, 3, 3) of the tool for q (M, dof)."""
        q = np.asarray(q).reshape(-1, self.info.dof)
        columns = {**self.info.locked_joints, **dict(zip(self.info.joint_names, q.T, strict=True))}
        position, rotation = np.zeros((len(q), 3)), np.tile(np.eye(3), (len(q), 1, 1))
        for name, kind, frame, axis in self.chain:
            position = position + rotation @ frame[:3, 3]
            rotation = rotation @ frame[:3, :3]
            if kind == "fixed":
                continue
            axis = axis / np.linalg.norm(axis)
            value = np.broadcast_to(columns[name], len(q))
            if kind == "prismatic":
                position = position + value[:, None] * (rotation @ axis)
            else:
                rotation = rotation @ turn(axis, value)
        return position, rotation

    def errors(self, q: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distances (m) and geodesic angles (rad) of the tool at q (M, dof) to targets (M, 7)."""
        positions, rotations = self.poses(q)
        distances = np.linalg.norm(positions - targets[:, :3], axis=1)
        difference = np.swapaxes(rotation_matrices(targets[:, 3:]), 1, 2) @ rotations
        skew = difference - np.swapaxes(difference, 1, 2)
        sines = np.linalg.norm(skew[:, [2, 0, 1], [1, 2, 0]], axis=1)
        cosines = np.trace(difference, axis1=1, axis2=2) - 1
        return distances, np.arctan2(sines, cosines)


def numbers(text: str) -> np.ndarray:
    return np.array([float(word) for word in text.split()])


def turn(axis: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """(..., 3, 3) rotations about a unit axis."""
    x, y, z = axis
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    sine, cosine = np.sin(angle)[..., None, None], np.cos(angle)[..., None, None]
    return np.eye(3) + sine * cross + (1 - cosine) * (cross @ cross)


def rotation_matrices(quaternions: np.ndarray) -> np.ndarray:
    """(M, 3, 3) from (M, 4) scalar-first quaternions of any norm."""
    w, x, y, z = np.moveaxis(quaternions / np.linalg.norm(quaternions, axis=-1, keepdims=True), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def within_limits(info: hjcdik.Info, q: np.ndarray) -> np.ndarray:
    """Whether every value of every row (..., dof) is inside the limits, without any tolerance."""
    lower, upper = np.array(info.joint_limits).T
    return ((lower <= q) & (q <= upper)).all(-1)


def strict(oracle: Oracle, result: hjcdik.Result, targets: np.ndarray) -> np.ndarray:
    """(T,) bool: whether the first row of each target is a strict solution, by independent kinematics."""
    found = result.count > 0
    q = np.where(found[:, None], result.q[:, 0], 0.0)
    distances, angles = oracle.errors(q, targets)
    good = (distances < POSITION_M) & (angles < ORIENTATION_RAD)
    return found & good & within_limits(oracle.info, q)


def turn_difference(info: hjcdik.Info, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a - b| per joint, modulo a full turn for joints that rotate."""
    difference = np.abs(a - b)
    rotates = np.array([kind != "prismatic" for kind in info.joint_types])
    wrapped = np.abs((difference + np.pi) % (2 * np.pi) - np.pi)
    return np.where(rotates, wrapped, difference)


_BITS = ("q", "pose", "pos_err_m", "ori_err_rad", "count", "outcome")


def same_bits(a: hjcdik.Result, b: hjcdik.Result) -> bool:
    """Whether two results hold the same bits in every array but the time."""
    return all(getattr(a, field).tobytes() == getattr(b, field).tobytes() for field in _BITS)


def differences(a: hjcdik.Result, b: hjcdik.Result) -> list[str]:
    """Where two results of the same targets differ, in words."""
    return [
        f"target {t}: {field} {getattr(a, field)[t]!r}, not {getattr(b, field)[t]!r}"
        for t in range(len(b.count))
        for field in _BITS
        if getattr(a, field)[t].tobytes() != getattr(b, field)[t].tobytes()
    ]


def run_side_by_side(work: Callable[[int], None], failures: list[str], count: int = 8) -> None:
    """Runs work(0), work(1), ... in a thread each; what they raise goes to the failures."""

    def guarded(index: int) -> None:
        try:
            work(index)
        except Exception as error:
            failures.append(f"thread {index}: {error!r}")

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def target_sets(data_dir: Path, name: str) -> list[dict[str, Any]]:
    with gzip.open(data_dir / f"{name}.json.gz", "rt") as file:
        return json.load(file)["sets"]


def urdf(*joints: str, links: int | None = None, name: str = "mini") -> str:
    """A URDF with links l0, l1, ... and these joints, such as those of `joint`."""
    count = len(joints) + 1 if links is None else links
    body = "".join(f'<link name="l{i}"/>' for i in range(count))
    return f'<robot name="{name}">{body}{"".join(joints)}</robot>'


def joint(
    index: int,
    kind: str,
    *,
    xyz: str = "0 0 0",
    rpy: str = "0 0 0",
    axis: str | None = "0 0 1",
    limits: tuple[float, float] | None = None,
) -> str:
    """Joint `j<index>` from link index - 1 to link index."""
    return (
        f'<joint name="j{index}" type="{kind}"><parent link="l{index - 1}"/><child link="l{index}"/>'
        f'<origin xyz="{xyz}" rpy="{rpy}"/>'
        + (f'<axis xyz="{axis}"/>' if axis else "")
        + (f'<limit lower="{limits[0]!r}" upper="{limits[1]!r}" effort="1" velocity="1"/>' if limits else "")
        + "</joint>"
    )


def planar(
    limits: tuple[tuple[float, float] | None, tuple[float, float] | None] = (
        (-np.pi, np.pi),
        (-np.pi, np.pi),
    ),
    kinds: tuple[str, str] = ("revolute", "revolute"),
) -> str:
    """P2: two z joints, links of 0.5 m and 0.3 m along x; the tool is l3."""
    return urdf(
        joint(1, kinds[0], limits=limits[0]),
        joint(2, kinds[1], xyz="0.5 0 0", limits=limits[1]),
        joint(3, "fixed", xyz="0.3 0 0", axis=None),
        name="P2",
    )


def slides(limits: tuple[float, float] = (0.0, 10.0), revolute: bool = True) -> str:
    """R1P3: a z joint and three slides at right angles; without `revolute` the joint is fixed. Tool: l4."""
    half_turn = repr(np.pi / 2)
    first = joint(1, "revolute", limits=(-3.0, 3.0)) if revolute else joint(1, "fixed", axis=None)
    return urdf(
        first,
        joint(2, "prismatic", limits=limits),
        joint(3, "prismatic", rpy=f"{half_turn} 0 0", limits=limits),
        joint(4, "prismatic", rpy=f"0 {half_turn} 0", limits=limits),
        name="R1P3",
    )


def hopeless(device: str, threads: int | None = None) -> tuple[hjcdik.Solver, np.ndarray]:
    """A solver, and a pose well inside the arm's reach that its limits rule out: no short cut answers it."""
    text = planar(limits=((-0.1, 0.1), (-np.pi, np.pi)))
    free = hjcdik.Solver(planar(), ee_link="l3", device="cpu")
    pose = free.forward_kinematics([2.0, 0.9])
    return hjcdik.Solver(text, ee_link="l3", device=device, threads=threads), pose


def random_chain(dof: int, seed: int = 0) -> str:
    """A URDF of `dof` joints of all moving kinds about random axes; the tool is the last link, l<dof + 1>."""
    random = np.random.default_rng([dof, seed])
    joints = []
    for index in range(1, dof + 1):
        kind = random.choice(["revolute", "revolute", "continuous", "prismatic"])
        low, high = (0.0, 0.2) if kind == "prismatic" else (-random.uniform(1, 3), random.uniform(1, 3))
        joints.append(
            joint(
                index,
                str(kind),
                xyz=words(random.uniform(-0.2, 0.2, 3)),
                rpy=words(random.uniform(-3, 3, 3)),
                axis=words(random.normal(size=3)),
                limits=None if kind == "continuous" else (float(low), float(high)),
            )
        )
    return urdf(*joints, joint(dof + 1, "fixed", xyz="0.1 0.05 0", axis=None), name=f"random{dof}")


def words(values: np.ndarray) -> str:
    return " ".join(repr(value) for value in values.tolist())


def yaw_pose(x: float, y: float, z: float, yaw: float) -> np.ndarray:
    return np.array([x, y, z, np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])
