"""Solves reachable targets for every preset robot and judges the answers by kinematics of its own.

"Solved strictly" means less than 1e-6 m and 1e-6 rad off, and inside the joint limits, all recomputed here
in float64 from the joint angles alone. The last row is a Panda among obstacles: there it also means that no
sphere of the robot's model touches one. A picture of that scene is left in demo.png where Matplotlib is
installed.
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


def rotations(quaternions: np.ndarray) -> np.ndarray:
    w, x, y, z = (quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)).T
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    ).transpose(2, 0, 1)


def errors(urdf: str, info: Any, q: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances (m) and angles (rad) between the targets and what q reaches."""
    p, r = forward_kinematics(urdf, info, q)
    # The chord of two rotations is exact for small angles, where the arc cosine of the trace is not.
    chord = np.linalg.norm(r - rotations(targets[:, 3:]), axis=(1, 2)) / math.sqrt(8)
    return np.linalg.norm(p - targets[:, :3], axis=1), 2 * np.arcsin(np.minimum(chord, 1))


# A scene in metres around the robot's base: boxes (centre, quaternion wxyz, side lengths), cylinders (centre,
# quaternion, radius, length along z) and balls (centre, radius).
UPRIGHT = (1, 0, 0, 0)
SCENE = {
    "boxes": np.array(
        [
            (0.35, 0.0, -0.04, *UPRIGHT, 1.4, 1.6, 0.04),  # table
            (0.62, 0.50, 0.30, *UPRIGHT, 0.30, 0.50, 0.02),  # shelf: three boards and a back
            (0.62, 0.50, 0.62, *UPRIGHT, 0.30, 0.50, 0.02),
            (0.62, 0.50, 0.94, *UPRIGHT, 0.30, 0.50, 0.02),
            (0.78, 0.50, 0.46, *UPRIGHT, 0.02, 0.50, 0.98),
        ]
    ),
    "cylinders": np.array([(0.42, -0.30, 0.34, *UPRIGHT, 0.05, 0.72)]),  # a pillar
    "spheres": np.array([(0.50, 0.05, 0.52, 0.10)]),
}
DOWN, FORWARD = (0, 1, 0, 0), (0.5, 0.5, 0.5, 0.5)
SCENE_TARGETS = np.array(
    [
        (0.52, 0.05, 0.08, *DOWN),  # on the table, under the ball
        (0.62, 0.42, 0.45, *FORWARD),  # in the shelf
        (0.62, 0.42, 0.76, *FORWARD),  # one board higher
        (0.50, -0.48, 0.15, *DOWN),  # behind the pillar
        (0.58, -0.10, 0.50, *FORWARD),  # between pillar and ball
    ],
    dtype=float,
)


def clearances(spheres: np.ndarray) -> np.ndarray:
    """Smallest distance (T,) between spheres (T, n, 4) and the scene, negative where they overlap."""
    centres = spheres[..., :3]
    gaps = []
    for box in SCENE["boxes"]:
        beyond = np.abs((centres - box[:3]) @ rotations(box[None, 3:7])[0]) - box[7:] / 2
        outside = np.linalg.norm(np.maximum(beyond, 0), axis=-1)
        gaps.append(outside + np.minimum(beyond.max(axis=-1), 0))
    for cylinder in SCENE["cylinders"]:  # the capsule around it, as the solver takes it
        local = (centres - cylinder[:3]) @ rotations(cylinder[None, 3:7])[0]
        local[..., 2] -= np.clip(local[..., 2], -cylinder[8] / 2, cylinder[8] / 2)
        gaps.append(np.linalg.norm(local, axis=-1) - cylinder[7])
    for ball in SCENE["spheres"]:
        gaps.append(np.linalg.norm(centres - ball[:3], axis=-1) - ball[3])
    return (np.min(gaps, axis=0) - spheres[..., 3]).min(axis=-1)


def picture(file: str, robots: list[np.ndarray]) -> None:
    """Draws the scene and the spheres (n, 4) of a few robots, each in its colour."""
    from matplotlib.figure import Figure
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    faces, colours = [], []

    def add(grid: np.ndarray, colour: tuple[float, ...]) -> None:
        """The patches of a surface (rows, columns, 3), lit from above."""
        patches = np.stack([grid[:-1, :-1], grid[1:, :-1], grid[1:, 1:], grid[:-1, 1:]], axis=2).reshape(
            -1, 4, 3
        )
        normal = np.cross(patches[:, 2] - patches[:, 0], patches[:, 3] - patches[:, 1])
        normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
        light = 0.55 + 0.45 * np.abs(normal @ np.array([0.36, -0.48, 0.8]))
        faces.extend(patches)
        colours.extend((*(np.array(colour[:3]) * shade), *colour[3:]) for shade in light)

    turn, tilt = np.meshgrid(np.linspace(0, 2 * np.pi, 15), np.linspace(0, np.pi, 9))
    unit = np.stack([np.sin(tilt) * np.cos(turn), np.sin(tilt) * np.sin(turn), np.cos(tilt)], axis=-1)
    for box in SCENE["boxes"]:
        frame, side = rotations(box[None, 3:7])[0], box[7:]
        for k in range(3):
            # Small patches, since what hides what is decided patch by patch.
            i, j = (k + 1) % 3, (k + 2) % 3
            u, v = (np.linspace(-0.5, 0.5, 2 + int(side[axis] / 0.06)) for axis in (i, j))
            grid = np.zeros((len(u), len(v), 3))
            grid[..., i], grid[..., j] = np.meshgrid(u, v, indexing="ij")
            for end in (-0.5, 0.5):
                grid[..., k] = end
                add(box[:3] + (grid * side) @ frame.T, (0.80, 0.72, 0.60, 0.55))
    for cylinder in SCENE["cylinders"]:
        around, along = np.meshgrid(np.linspace(0, 2 * np.pi, 25), np.linspace(-0.5, 0.5, 13))
        local = [cylinder[7] * np.cos(around), cylinder[7] * np.sin(around), cylinder[8] * along]
        add(cylinder[:3] + np.stack(local, axis=-1) @ rotations(cylinder[None, 3:7])[0].T, (0.55, 0.55, 0.60))
    for ball in SCENE["spheres"]:
        add(ball[:3] + ball[3] * unit, (0.85, 0.30, 0.25))
    for spheres, colour in zip(
        robots, [(0.10, 0.50, 0.36), (0.20, 0.40, 0.75), (0.90, 0.60, 0.10)], strict=False
    ):
        for x, y, z, r in spheres:
            add(np.array([x, y, z]) + r * unit, colour)

    figure = Figure(figsize=(8, 8))
    axes = figure.add_subplot(projection="3d", proj_type="persp")
    axes.add_collection3d(Poly3DCollection(faces, facecolors=colours))
    axes.set(
        xlim=(-0.4, 1.0), ylim=(-0.7, 0.7), zlim=(-0.1, 1.1), xlabel="x, m", ylabel="y, m", zlabel="z, m"
    )
    axes.set_box_aspect((1.4, 1.4, 1.2))
    axes.view_init(elev=24, azim=-128)
    figure.savefig(file, dpi=120, bbox_inches="tight")


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

    def row(name: str, solver: Any, urdf: str, targets: np.ndarray, mode: str | None) -> None:
        """Solves targets together and one by one, judges them, and prints a line of the table."""
        nonlocal failed
        info, many = solver.info, len(targets)
        solver.solve(targets[:100], collision=mode)  # threads started, caches warm
        begin = time.perf_counter()
        result = solver.solve(targets, collision=mode)
        together = (time.perf_counter() - begin) / many

        one_by_one = []
        for target in targets[:1000]:
            begin = time.perf_counter()
            solver.solve(target, collision=mode)
            one_by_one.append(time.perf_counter() - begin)

        found = result.count > 0
        q = result.q[found, 0]
        pos, ori = errors(urdf, info, q, targets[found])
        lower, upper = np.array(info.joint_limits).T
        strict = (pos < 1e-6) & (ori < 1e-6) & (lower <= q).all(axis=1) & (q <= upper).all(axis=1)
        if mode == "hard":
            strict &= clearances(solver.spheres_at(q)) >= 0
        failed += many - strict.sum()
        print(
            f"{name:8}{info.dof:>7} {many:>7} {strict.sum() / many:>8.2%} "
            f"{1e3 * pos.max(initial=0):>10.1e} {ori.max(initial=0):>10.1e} "
            f"{1e6 * together:>8.2f} us {1e6 * np.median(one_by_one):>7.1f} us"
        )

    for name in hjcdik.presets():
        solver = hjcdik.Solver(name)
        row(name, solver, hjcdik.preset_urdf(name), solver.sample_targets(count), None)
    solver = hjcdik.Solver("panda")
    solver.set_world(**SCENE)
    row("scene", solver, hjcdik.preset_urdf("panda"), SCENE_TARGETS, "hard")

    info = solver.info
    print(
        f"\nOn {info.device} ({info.isa}, at most {info.threads} threads). Solved strictly: within 1e-6 m "
        "and 1e-6 rad and inside the limits,\nrecomputed from the joints by the demo's own kinematics. "
        "Collision was not checked (collision=None) but in the scene: a Panda\namong a table, a shelf, "
        "a pillar and a ball, where no sphere of its model may touch one (collision='hard')."
    )
    result = solver.solve(SCENE_TARGETS[[0, 2, 3]], collision="hard")
    robots = list(solver.spheres_at(result.q[result.count > 0, 0]))
    try:
        picture("demo.png", robots)
        print("The scene with three of the answers: demo.png")
    except ImportError as error:
        print(f"No picture of the scene: {error}; pip install 'hjcdik[viz]'")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
