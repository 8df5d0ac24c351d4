"""Small robots beside those of support.py, and Jacobians of any robot by finite differences."""

from __future__ import annotations

import numpy as np

import hjcdik
import support
from support import joint, urdf

FULL = (-np.pi, np.pi)


def x1(tool: str, **joint_options: object) -> str:
    """X1: one revolute joint 0.1 m above the base, then the tool l2 at a fixed offset."""
    options = {"xyz": "0 0 0.1", "limits": FULL, **joint_options}
    return urdf(joint(1, "revolute", **options), joint(2, "fixed", xyz=tool, axis=None), name="X1")


def branch(parent: str, child: str, xyz: str = "0 0 0", rpy: str = "0 0 0") -> str:
    """A link on a fixed joint to_<child>."""
    return (
        f'<link name="{child}"/><joint name="to_{child}" type="fixed"><parent link="{parent}"/>'
        f'<child link="{child}"/><origin xyz="{xyz}" rpy="{rpy}"/></joint>'
    )


def extended(text: str, *parts: str) -> str:
    """The URDF with these parts added at its end."""
    head, end, rest = text.rpartition("</robot>")
    assert end
    return head + "".join(parts) + end + rest


def difference_jacobian(solver: hjcdik.Solver, q: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """(6, N) from central differences of the pose."""
    steps = h * np.eye(solver.info.dof)
    ahead, behind = solver.forward_kinematics(q + steps), solver.forward_kinematics(q - steps)
    linear = (ahead[:, :3] - behind[:, :3]) / (2 * h)
    turns = support.rotation_matrices(ahead[:, 3:]) @ support.rotation_matrices(behind[:, 3:]).swapaxes(1, 2)
    skew = turns - turns.swapaxes(1, 2)
    return np.hstack([linear, skew[:, [2, 0, 1], [1, 2, 0]] / (4 * h)]).T
