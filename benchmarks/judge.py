"""The judge: poses, limits and collision of configurations, in numpy float64 from URDF and sphere file.

It shares no code with the library. A world is a dictionary with the keywords of `Solver.set_world`:
boxes (M, 10), capsules (M, 7), spheres (M, 4), cylinders (M, 9), exact_cylinders. A configuration is free
when no clearance is below zero. Links in the sphere file's base_links_not_checked count for nothing.
"""

from __future__ import annotations

import common  # before numpy: it holds the maths libraries to one thread

# isort: split

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

World = Mapping[str, Any]

# Rows judged at once: what they need stays in the cache.
CHUNK = 1024
# The bound that spares exact distances gives way to rounding by this much.
SLACK_M = 1e-9


class Judge:
    """Configurations are rows (M, dof) in the order of the moving joints from the base to `ee_link`.

    Moving joints off that chain stand at `locked`, else at 0 put into their limits.
    """

    def __init__(
        self,
        urdf: str | Path,
        ee_link: str,
        spheres_json: str | Path | None = None,
        *,
        locked: Mapping[str, float] | None = None,
    ) -> None:
        text = str(urdf)
        self.root = ElementTree.fromstring(text if text.lstrip().startswith("<") else Path(urdf).read_bytes())
        self.ee_link = ee_link
        joints = {joint.find("child").get("link"): joint for joint in self.root.findall("joint")}
        links = [link.get("name") for link in self.root.findall("link")]
        on_chain = []
        link = ee_link
        while link in joints:
            on_chain.append(link)
            link = joints[link].find("parent").get("link")
        self.base = link

        # Links in an order in which parents come first; of each its parent and the joint between.
        self.order: list[str] = []
        ordered = {self.base}
        while len(ordered) < len(links):
            ready = [c for c in links if c not in ordered and joints[c].find("parent").get("link") in ordered]
            if not ready:
                raise ValueError("the links do not form one tree")
            self.order += ready
            ordered.update(ready)
        self.parent = {c: joints[c].find("parent").get("link") for c in self.order}
        self.step: dict[str, tuple[np.ndarray, np.ndarray, str, np.ndarray]] = {}
        # Moving joint (column of q) that carries each link; -1 for none, and the moving joint before it.
        self.column = {self.base: -1}
        self.before: dict[int, int] = {}
        self.joint_names: list[str] = []
        lower, upper = [], []
        columns = {
            c: i
            for i, c in enumerate(
                c
                for c in reversed(on_chain)
                if joints[c].get("type") != "fixed" and joints[c].get("name") not in (locked or {})
            )
        }
        for child in self.order:
            joint = joints[child]
            origin, kind, axis_element = joint.find("origin"), joint.get("type"), joint.find("axis")
            offset = _floats(origin, "xyz", "0 0 0")
            rotation = _rpy(*_floats(origin, "rpy", "0 0 0"))
            axis = _floats(axis_element, "xyz", "1 0 0")
            axis = axis / np.linalg.norm(axis)
            if kind not in ("fixed", "revolute", "continuous", "prismatic"):
                raise ValueError(f"joint '{joint.get('name')}': type '{kind}' is not supported here")
            self.column[child] = self.column[self.parent[child]]
            if child in columns:
                self.before[columns[child]] = self.column[child]
                self.column[child] = columns[child]
            elif kind != "fixed":
                limit = joint.find("limit")
                low, high = (-np.pi, np.pi) if kind == "continuous" else _limits(limit)
                value = (locked or {}).get(joint.get("name"), min(max(0.0, low), high))
                if kind == "prismatic":
                    offset = offset + rotation @ (value * axis)
                else:
                    rotation = rotation @ _turn(axis, value)
                kind = "fixed"
            self.step[child] = (rotation, offset, kind, axis)
        for child in sorted(columns, key=columns.__getitem__):
            joint = joints[child]
            self.joint_names.append(joint.get("name"))
            continuous = joint.get("type") == "continuous"
            low, high = (-np.pi, np.pi) if continuous else _limits(joint.find("limit"))
            lower.append(low)
            upper.append(high)
        self.lower, self.upper = np.array(lower), np.array(upper)
        self.dof = len(lower)
        self._load_spheres(spheres_json)

    def _load_spheres(self, file: str | Path | None) -> None:
        model = json.loads(Path(file).read_text()) if file else {"spheres": {}}
        left_out = set(model.get("base_links_not_checked", ()))
        self.sphere_links = [link for link in model["spheres"] if link not in left_out]
        missing = [link for link in self.sphere_links if link not in self.column]
        if missing:
            raise ValueError(f"links with spheres that the URDF lacks: {', '.join(missing)}")
        self.spheres = [np.array(model["spheres"][link], dtype=float) for link in self.sphere_links]
        # One ball around all spheres of a link: a cheap bound of its distance to anything.
        self.balls = []
        for spheres in self.spheres:
            centre = (spheres[:, :3].min(axis=0) + spheres[:, :3].max(axis=0)) / 2
            radius = (np.linalg.norm(spheres[:, :3] - centre, axis=1) + spheres[:, 3]).max()
            self.balls.append((centre, float(radius)))
        ignored = {frozenset(pair) for pair in model.get("self_collision_ignore_pairs", ())}
        self.self_pairs = []
        for i, first in enumerate(self.sphere_links):
            for j in range(i + 1, len(self.sphere_links)):
                second = self.sphere_links[j]
                a, b = self.column[first], self.column[second]
                related = a == b or self.before.get(a, -2) == b or self.before.get(b, -2) == a
                if not related and frozenset((first, second)) not in ignored:
                    self.self_pairs.append((i, j))

    # --- kinematics ---------------------------------------------------------------------------

    def frames(self, q: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Of every link the rotation (3, 3, M) and the position (3, M) in the base frame."""
        q = np.asarray(q, dtype=float)
        m = len(q)
        rotation = np.broadcast_to(np.eye(3)[:, :, None], (3, 3, m))
        frames = {self.base: (rotation, np.zeros((3, m)))}
        sine, cosine = np.sin(q.T), np.cos(q.T)
        for child in self.order:
            rotation, position = frames[self.parent[child]]
            fixed, offset, kind, axis = self.step[child]
            position = position + _apply(rotation, offset)
            rotation = _product(rotation, fixed)
            if kind == "prismatic":
                position = position + q[:, self.column[child]] * _apply(rotation, axis)
            elif kind != "fixed":
                # R (cos I + sin K + (1 - cos) a a'), Rodrigues' formula.
                s, c = sine[self.column[child]], cosine[self.column[child]]
                turned = c * rotation + s * _product(rotation, _cross(axis))
                along = (1 - c) * _apply(rotation, axis)
                for k in np.flatnonzero(axis):
                    turned[:, k] += along * axis[k]
                rotation = turned
            frames[child] = (rotation, position)
        return frames

    def pose(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions (M, 3) and rotations (M, 3, 3) of the tool."""
        rotation, position = self.frames(q)[self.ee_link]
        return position.T.copy(), np.moveaxis(rotation, 2, 0).copy()

    def poses(self, q: np.ndarray) -> np.ndarray:
        """The same as (M, 7): x y z qw qx qy qz."""
        return common.poses_of(*self.pose(q))

    def jacobian(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The tool's position, rotation and Jacobian (M, 6, dof), linear above angular, in the base frame."""
        frames = self.frames(q)
        rotation, tool = frames[self.ee_link]
        jacobian = np.zeros((len(q), 6, self.dof))
        link = self.ee_link
        while link != self.base:
            _, _, kind, axis = self.step[link]
            if kind != "fixed":
                turn, origin = frames[link]
                direction = _apply(turn, axis)
                column = jacobian[:, :, self.column[link]]
                if kind == "prismatic":
                    column[:, :3] = direction.T
                else:
                    column[:, :3] = np.cross(direction.T, (tool - origin).T)
                    column[:, 3:] = direction.T
            link = self.parent[link]
        return tool.T.copy(), np.moveaxis(rotation, 2, 0).copy(), jacobian

    def pose_errors(self, q: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distances (m) and angles (rad) to one target (7,) or to one of each row; NaN where q is NaN."""
        targets = np.broadcast_to(np.asarray(target, dtype=float), (len(q), 7))
        parts = [
            common.pose_errors(*self.pose(q[rows]), targets[rows]) for rows in _chunks(len(q), 16 * CHUNK)
        ]
        return (
            tuple(np.concatenate(part) for part in zip(*parts, strict=True)) if parts else (np.zeros(0),) * 2
        )

    def inside_limits(self, q: np.ndarray) -> np.ndarray:
        """Without tolerance; False where q is NaN."""
        return (q >= self.lower).all(axis=1) & (q <= self.upper).all(axis=1)

    def strict(self, q: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Accurate to 1e-6 m and 1e-6 rad, and inside the limits. False where q is NaN."""
        pos, ori = self.pose_errors(q, target)
        close = (pos < common.STRICT_POSITION_M) & (ori < common.STRICT_ORIENTATION_RAD)
        return close & self.inside_limits(q)

    # --- collision ----------------------------------------------------------------------------

    def spheres_at(self, q: np.ndarray) -> np.ndarray:
        """Centres and radii (M, n, 4), link by link in the order of the file."""
        frames = self.frames(q)
        parts = []
        for link, spheres in zip(self.sphere_links, self.spheres, strict=True):
            centres = _points(frames[link], spheres[:, :3])
            radii = np.broadcast_to(spheres[:, 3:], (len(spheres), len(q)))
            parts.append(np.concatenate([centres, radii[None]]))
        return np.moveaxis(np.concatenate(parts, axis=1), (0, 1, 2), (2, 1, 0)).copy()

    def clearances(self, q: np.ndarray, world: World) -> tuple[np.ndarray, np.ndarray]:
        """Smallest signed distances (m) between links (M,) and to obstacles (M,); infinite for none."""
        distances = _distances(world)
        own, environment = np.full(len(q), np.inf), np.full(len(q), np.inf)
        for rows in _chunks(len(q), CHUNK):
            frames = self.frames(q[rows])
            centres = [
                _points(frames[link], s[:, :3])
                for link, s in zip(self.sphere_links, self.spheres, strict=True)
            ]
            for i, j in self.self_pairs:
                np.minimum(own[rows], self._between(i, j, centres[i], centres[j]), out=own[rows])
            for centre, spheres in zip(centres, self.spheres, strict=True):
                for distance in distances:
                    nearest = (distance(centre) - spheres[:, 3:]).min(axis=0)
                    np.minimum(environment[rows], nearest, out=environment[rows])
        return own, environment

    def free(self, q: np.ndarray, world: World) -> np.ndarray:
        """Both clearances at least zero. Far faster than clearances(): balls around links decide most."""
        distances = _distances(world)
        free = np.ones(len(q), dtype=bool)
        for rows in _chunks(len(q), CHUNK):
            frames = self.frames(q[rows])
            part = ~np.isnan(q[rows]).any(axis=1)
            links = [frames[link] for link in self.sphere_links]
            balls = [
                _points(frame, ball[0][None])[:, 0] for frame, ball in zip(links, self.balls, strict=True)
            ]
            for i, j in self.self_pairs:
                gap = np.linalg.norm(balls[i] - balls[j], axis=0) - self.balls[i][1] - self.balls[j][1]
                near = np.flatnonzero(part & (gap < SLACK_M))
                if len(near):
                    a, b = (_points(_rows(links[k], near), self.spheres[k][:, :3]) for k in (i, j))
                    part[near] = self._between(i, j, a, b) >= 0
            for distance in distances:
                for i, ball in enumerate(balls):
                    near = np.flatnonzero(part & (distance(ball) < self.balls[i][1] + SLACK_M))
                    if len(near):
                        centres = _points(_rows(links[i], near), self.spheres[i][:, :3])
                        part[near] = (distance(centres) >= self.spheres[i][:, 3:]).all(axis=0)
            free[rows] = part
        return free

    def _between(self, i: int, j: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Smallest distance (M,) between the spheres of two links, centres (3, k, M) each."""
        smallest = np.full(a.shape[2], np.inf)
        for k, radius in enumerate(self.spheres[i][:, 3]):
            gap = np.sqrt(((a[:, k, None] - b) ** 2).sum(axis=0)) - self.spheres[j][:, 3:] - radius
            np.minimum(smallest, gap.min(axis=0), out=smallest)
        return smallest


# --- distances of points (3, ...) from obstacles, negative inside -----------------------------

Distance = Callable[[np.ndarray], np.ndarray]


def _box(row: np.ndarray) -> Distance:
    centre, half = row[:3], row[7:] / 2
    axes = common.rotations_of(row[None, :7])[0].T  # rows: the box's axes

    def distance(points: np.ndarray) -> np.ndarray:
        d = _subtract(points, centre)
        beyond = [
            np.abs(a[0] * d[0] + a[1] * d[1] + a[2] * d[2]) - h for a, h in zip(axes, half, strict=True)
        ]
        outside = np.sqrt(sum(np.maximum(x, 0) ** 2 for x in beyond))
        return outside + np.minimum(np.maximum(np.maximum(beyond[0], beyond[1]), beyond[2]), 0)

    return distance


def _capsule(row: np.ndarray) -> Distance:
    start, along, radius = row[:3], row[3:6] - row[:3], row[6]
    square = along @ along

    def distance(points: np.ndarray) -> np.ndarray:
        d = _subtract(points, start)
        if square > 0:
            t = np.clip((along[0] * d[0] + along[1] * d[1] + along[2] * d[2]) / square, 0, 1)
            d = [d[k] - t * along[k] for k in range(3)]
        return np.sqrt(d[0] ** 2 + d[1] ** 2 + d[2] ** 2) - radius

    return distance


def _cylinder(row: np.ndarray) -> Distance:
    centre, radius, half = row[:3], row[7], row[8] / 2
    axis = common.rotations_of(row[None, :7])[0][:, 2]

    def distance(points: np.ndarray) -> np.ndarray:
        d = _subtract(points, centre)
        along = axis[0] * d[0] + axis[1] * d[1] + axis[2] * d[2]
        # Of the part across the axis itself: the difference of squares would lose half the digits.
        across = np.sqrt(sum((d[k] - along * axis[k]) ** 2 for k in range(3))) - radius
        over = np.abs(along) - half
        outside = np.hypot(np.maximum(across, 0), np.maximum(over, 0))
        return outside + np.minimum(np.maximum(across, over), 0)

    return distance


def _distances(world: World) -> list[Distance]:
    unknown = set(world) - {"boxes", "capsules", "spheres", "cylinders", "exact_cylinders"}
    if unknown:
        raise ValueError(f"a world has no {', '.join(sorted(unknown))}")

    def rows(name: str, columns: int) -> np.ndarray:
        return np.asarray(world.get(name) if world.get(name) is not None else [], float).reshape(-1, columns)

    cylinders = rows("cylinders", 9)
    if not world.get("exact_cylinders", False):
        half = common.rotations_of(cylinders[:, :7])[:, :, 2] * cylinders[:, 8:] / 2
        capsules = np.concatenate(
            [cylinders[:, :3] - half, cylinders[:, :3] + half, cylinders[:, 7:8]], axis=1
        )
        cylinders = cylinders[:0]
    else:
        capsules = np.zeros((0, 7))
    balls = rows("spheres", 4)
    capsules = np.concatenate([rows("capsules", 7), balls[:, [0, 1, 2, 0, 1, 2, 3]], capsules])
    return (
        [_box(row) for row in rows("boxes", 10)]
        + [_capsule(row) for row in capsules]
        + [_cylinder(row) for row in cylinders]
    )


# --- small parts ------------------------------------------------------------------------------


def _floats(element: ElementTree.Element | None, attribute: str, default: str) -> np.ndarray:
    return np.array((default if element is None else element.get(attribute, default)).split(), dtype=float)


def _limits(element: ElementTree.Element | None) -> tuple[float, float]:
    if element is None:
        return 0.0, 0.0
    return float(element.get("lower", 0)), float(element.get("upper", 0))


def _cross(axis: np.ndarray) -> np.ndarray:
    x, y, z = axis
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def _turn(axis: np.ndarray, angle: float) -> np.ndarray:
    k = _cross(axis)
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * (k @ k)


def _rpy(roll: float, pitch: float, yaw: float) -> np.ndarray:
    x, y, z = np.eye(3)
    return _turn(z, yaw) @ _turn(y, pitch) @ _turn(x, roll)


def _apply(rotation: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return rotation[:, 0] * vector[0] + rotation[:, 1] * vector[1] + rotation[:, 2] * vector[2]


def _product(rotation: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    if np.array_equal(matrix, np.eye(3)):
        return rotation
    return np.stack([_apply(rotation, matrix[:, k]) for k in range(3)], axis=1)


def _points(frame: tuple[np.ndarray, np.ndarray], points: np.ndarray) -> np.ndarray:
    """Points (k, 3) of a frame in the base frame, (3, k, M)."""
    rotation, position = frame
    x, y, z = points.T[:, :, None]
    columns = rotation[:, :, None]
    return columns[:, 0] * x + columns[:, 1] * y + columns[:, 2] * z + position[:, None]


def _rows(frame: tuple[np.ndarray, np.ndarray], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return frame[0][:, :, rows], frame[1][:, rows]


def _subtract(points: np.ndarray, origin: np.ndarray) -> list[np.ndarray]:
    return [points[k] - origin[k] for k in range(3)]


def _chunks(n: int, size: int) -> list[slice]:
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]
