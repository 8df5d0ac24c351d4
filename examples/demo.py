"""Solves reachable targets for every preset robot and judges the answers by kinematics of its own.

"Solved strictly" means less than 1e-6 m and 1e-6 rad off, and inside the joint limits, all recomputed here
in float64 from the joint angles alone.
"""

import argparse
import math
import time
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np

import hjcdik


def numbers(element: ET.Element | None, attribute: str, default: str) -> np.ndarray:
    return np.array((default if element is None else element.get(attribute, default)).split(), float)


def rotation(axis: np.ndarray, angle: np.ndarray | float) -> np.ndarray:
    """Rodrigues' formula, for one angle or many."""
    x, y, z = axis / np.linalg.norm(axis)
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    angle = np.asarray(angle)[..., None, None]
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * (k @ k)


def forward_kinematics(urdf: str, info: Any, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions (T, 3) and rotation matrices (T, 3, 3) of the tool link for q of shape (T, dof)."""
    joints = {joint.find("child").get("link"): joint for joint in ET.fromstring(urdf).findall("joint")}
    chain = []
    link = info.ee_link
    while link != info.base_link:
        chain.append(joints[link])
        link = joints[link].find("parent").get("link")

    p = np.zeros((len(q), 3))
    r = np.broadcast_to(np.eye(3), (len(q), 3, 3))
    for joint in reversed(chain):
        p = p + r @ numbers(joint.find("origin"), "xyz", "0 0 0")
        roll, pitch, yaw = numbers(joint.find("origin"), "rpy", "0 0 0")
        x, y, z = np.eye(3)
        r = r @ rotation(z, yaw) @ rotation(y, pitch) @ rotation(x, roll)
        if joint.get("type") == "fixed":
            continue
        name = joint.get("name")
        value = (
            q[:, info.joint_names.index(name)]
            if name in info.joint_names
            else np.full(len(q), info.locked_joints[name])
        )
        axis = numbers(joint.find("axis"), "xyz", "1 0 0")
        if joint.get("type") == "prismatic":
            p = p + np.einsum("tij,tj->ti", r, value[:, None] * axis / np.linalg.norm(axis))
        else:
            r = r @ rotation(axis, value)
    return p, r


def errors(urdf: str, info: Any, q: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances (m) and angles (rad) between the targets and what q reaches."""
    p, r = forward_kinematics(urdf, info, q)
    w, x, y, z = (targets[:, 3:] / np.linalg.norm(targets[:, 3:], axis=1, keepdims=True)).T
    wanted = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    ).transpose(2, 0, 1)
    # The chord of two rotations is exact for small angles, where the arc cosine of the trace is not.
    chord = np.linalg.norm(r - wanted, axis=(1, 2)) / math.sqrt(8)
    return np.linalg.norm(p - targets[:, :3], axis=1), 2 * np.arcsin(np.minimum(chord, 1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--targets", type=int, default=10_000, help="targets per robot (default: %(default)s)"
    )
    count = parser.parse_args().targets

    print(f"{'':8}{'':>7} {'':>7} {'solved':>8} {'largest error':>21} {'time per solve':>22}")
    print(
        f"{'robot':8}{'joints':>7} {'targets':>7} {'strictly':>8} {'mm':>10} {'rad':>10} "
        f"{'all in one':>11} {'one by one':>10}"
    )
    failed = 0
    for name in hjcdik.presets():
        solver = hjcdik.Solver(name)
        info = solver.info
        targets = solver.sample_targets(count)

        solver.solve(targets[:100], collision=None)  # threads started, caches warm
        begin = time.perf_counter()
        result = solver.solve(targets, collision=None)
        together = (time.perf_counter() - begin) / count

        one_by_one = []
        for target in targets[:1000]:
            begin = time.perf_counter()
            solver.solve(target, collision=None)
            one_by_one.append(time.perf_counter() - begin)

        found = result.count > 0
        q = result.q[found, 0]
        pos, ori = errors(hjcdik.preset_urdf(name), info, q, targets[found])
        lower, upper = np.array(info.joint_limits).T
        strict = (pos < 1e-6) & (ori < 1e-6) & (lower <= q).all(axis=1) & (q <= upper).all(axis=1)
        failed += count - strict.sum()
        print(
            f"{name:8}{info.dof:>7} {count:>7} {strict.sum() / count:>8.2%} "
            f"{1e3 * pos.max(initial=0):>10.1e} {ori.max(initial=0):>10.1e} "
            f"{1e6 * together:>8.2f} us {1e6 * np.median(one_by_one):>7.1f} us"
        )

    print(
        f"\nOn {info.device} ({info.isa}, at most {info.threads} threads). Solved strictly: within 1e-6 m "
        "and 1e-6 rad and inside the limits,\nrecomputed from the joints by the demo's own kinematics. "
        "Collision was not checked (collision=None)."
    )
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
