"""What several Python tests need: independent kinematics, the meaning of "strict", small robots."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hjcdik

DATA = Path(os.environ.get("HJCDIK_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")

# Bars of a strict solution.
POSITION_M = 1e-6
ORIENTATION_RAD = 1e-6


class Oracle:
    """Float64 forward kinematics by Pinocchio, from the same URDF text and in the order of the solver's q."""

    def __init__(self, urdf: str, solver: hjcdik.Solver) -> None:
        self.pin = pytest.importorskip("pinocchio")
        self.info = solver.info
        self.model = self.pin.buildModelFromXML(urdf)
        self.data = self.model.createData()
        self.frame = self.model.getFrameId(self.info.ee_link, self.pin.FrameType.BODY)
        assert self.frame < self.model.nframes, self.info.ee_link

    def poses(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions (M, 3) and rotations (M, 3, 3) of the tool for q (M, dof)."""
        q = np.asarray(q)
        frames = [self._frame(row) for row in q.reshape(-1, q.shape[-1])]
        positions = np.array([frame.translation for frame in frames])
        rotations = np.array([frame.rotation for frame in frames])
        return positions.reshape(-1, 3), rotations.reshape(-1, 3, 3)

    def _frame(self, q: np.ndarray) -> Any:
        configuration = self.pin.neutral(self.model)
        values = {**self.info.locked_joints, **dict(zip(self.info.joint_names, q.tolist(), strict=True))}
        for name, value in values.items():
            joint = self.model.joints[self.model.getJointId(name)]
            # Pinocchio keeps a continuous joint as cosine and sine.
            entry = [np.cos(value), np.sin(value)] if joint.nq == 2 else [value]
            configuration[joint.idx_q : joint.idx_q + joint.nq] = entry
        self.pin.forwardKinematics(self.model, self.data, configuration)
        return self.pin.updateFramePlacement(self.model, self.data, self.frame)

    def errors(self, q: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distances (m) and geodesic angles (rad) of the tool at q (M, dof) to targets (M, 7)."""
        positions, rotations = self.poses(q)
        distances = np.linalg.norm(positions - targets[:, :3], axis=1)
        difference = np.swapaxes(rotation_matrices(targets[:, 3:]), 1, 2) @ rotations
        skew = difference - np.swapaxes(difference, 1, 2)
        sines = np.linalg.norm(skew[:, [2, 0, 1], [1, 2, 0]], axis=1)
        cosines = np.trace(difference, axis1=1, axis2=2) - 1
        return distances, np.arctan2(sines, cosines)


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


def same_bits(a: hjcdik.Result, b: hjcdik.Result) -> bool:
    """Whether two results hold the same bits in every array but the time."""
    fields = ("q", "pose", "pos_err_m", "ori_err_rad", "count", "outcome")
    return all(getattr(a, field).tobytes() == getattr(b, field).tobytes() for field in fields)


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


def hopeless(threads: int | None = None) -> tuple[hjcdik.Solver, np.ndarray]:
    """A solver, and a pose well inside the arm's reach that its limits rule out: no short cut answers it."""
    text = planar(limits=((-0.1, 0.1), (-np.pi, np.pi)))
    free = hjcdik.Solver(planar(), ee_link="l3", device="cpu")
    pose = free.forward_kinematics([2.0, 0.9])
    return hjcdik.Solver(text, ee_link="l3", device="cpu", threads=threads), pose


def yaw_pose(x: float, y: float, z: float, yaw: float) -> np.ndarray:
    return np.array([x, y, z, np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])
