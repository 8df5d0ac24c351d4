"""Solids: signed distances and surfaces of primitives and meshes, in the frame of a link.

Distances are negative inside. Of a union the distance is the smallest of its parts': exact outside, and
inside never deeper than the truth.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hjcdik._inputs import Array
from hjcdik._spherize import triangles as tri
from hjcdik._spherize._optional import need

_SAGITTA = 5e-5  # m; how far a primitive's facets may lie under its surface
_CLUSTERS = 1500
_NEIGHBOURS = 8
_ABOVE = 1e-5  # of the extent
_CLOSED_LINES, _OPEN_LINES = 3, 9
_CHUNK = 500_000  # pairs of points and triangles at once


class Part(Protocol):
    """One piece of geometry of a link."""

    def distance(self, points: Array) -> Array:
        """Signed distances (n,), a mesh's to a fraction of a millimetre."""

    def exact_distance(self, points: Array) -> Array:
        """The same without that error, more slowly."""

    def surface(self) -> tuple[Array, float]:
        """Triangles (m, 3, 3), and how far the surface may be from them."""


class Solid:
    """The union of a link's parts."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        surfaces = [part.surface() for part in self.parts]
        self.triangles: Array = np.concatenate([triangles for triangles, _ in surfaces])
        self.slack: Array = np.concatenate([np.full(len(t), slack) for t, slack in surfaces])

    def distance(self, points: Array) -> Array:
        return np.min([part.distance(points) for part in self.parts], axis=0)  # type: ignore[no-any-return]

    def exact_distance(self, points: Array) -> Array:
        return np.min([part.exact_distance(points) for part in self.parts], axis=0)  # type: ignore[no-any-return]

    @property
    def closed(self) -> bool:
        return all(part.closed for part in self.parts if isinstance(part, Mesh))

    def take_for_sheets(self) -> None:
        """Gives the meshes that are not closed no inside any more."""
        for part in self.parts:
            if isinstance(part, Mesh) and not part.closed:
                part.is_sheet = True

    def bounds(self) -> Array:
        corners = self.triangles.reshape(-1, 3)
        return np.array([corners.min(axis=0), corners.max(axis=0)])


class _Primitive(ABC):
    """A primitive centred in a frame of its own."""

    def __init__(self, frame: Array) -> None:
        self.frame = frame

    def distance(self, points: Array) -> Array:
        return self._local_distance((points - self.frame[:3, 3]) @ self.frame[:3, :3])

    def exact_distance(self, points: Array) -> Array:
        return self.distance(points)

    def surface(self) -> tuple[Array, float]:
        triangles, slack = self._local_surface()
        return triangles @ self.frame[:3, :3].T + self.frame[:3, 3], slack

    @abstractmethod
    def _local_distance(self, points: Array) -> Array: ...

    @abstractmethod
    def _local_surface(self) -> tuple[Array, float]: ...


class Box(_Primitive):
    def __init__(self, frame: Array, size: Array) -> None:
        super().__init__(frame)
        self.half = np.asarray(size, float) / 2

    def _local_distance(self, points: Array) -> Array:
        beyond = np.abs(points) - self.half
        return np.linalg.norm(np.maximum(beyond, 0), axis=1) + np.minimum(beyond.max(axis=1), 0)  # type: ignore[no-any-return]

    def _local_surface(self) -> tuple[Array, float]:
        faces = []
        for axis in range(3):
            a, b = (axis + 1) % 3, (axis + 2) % 3
            for side in (-1.0, 1.0):
                square = np.empty((4, 3))
                square[:, axis] = side * self.half[axis]
                square[:, a] = side * self.half[a] * np.array([-1, 1, 1, -1])
                square[:, b] = self.half[b] * np.array([-1, -1, 1, 1])
                faces += [square[[0, 1, 2]], square[[0, 2, 3]]]
        return np.array(faces), 0.0


class Cylinder(_Primitive):
    """About z."""

    def __init__(self, frame: Array, radius: float, length: float) -> None:
        super().__init__(frame)
        self.radius, self.half = radius, length / 2

    def _local_distance(self, points: Array) -> Array:
        beyond = np.stack(
            [np.hypot(points[:, 0], points[:, 1]) - self.radius, np.abs(points[:, 2]) - self.half], axis=1
        )
        return np.linalg.norm(np.maximum(beyond, 0), axis=1) + np.minimum(beyond.max(axis=1), 0)  # type: ignore[no-any-return]

    def _local_surface(self) -> tuple[Array, float]:
        count, slack = _facets(self.radius)
        angle = np.arange(count) * (2 * np.pi / count)
        ring = self.radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        low = np.column_stack([ring, np.full(count, -self.half)])
        high = np.column_stack([ring, np.full(count, self.half)])
        next_low, next_high = np.roll(low, -1, axis=0), np.roll(high, -1, axis=0)
        bottom, top = (np.broadcast_to([0, 0, z], low.shape) for z in (-self.half, self.half))
        faces = [
            (low, next_low, next_high),
            (low, next_high, high),
            (bottom, next_low, low),
            (top, high, next_high),
        ]
        return np.concatenate([np.stack(face, axis=1) for face in faces]), slack


class Capsule(_Primitive):
    """About z; its length is that of the straight part. A sphere where that is zero."""

    def __init__(self, frame: Array, radius: float, length: float) -> None:
        super().__init__(frame)
        self.radius, self.half = radius, length / 2

    def _local_distance(self, points: Array) -> Array:
        axis = np.clip(points[:, 2], -self.half, self.half)
        return np.linalg.norm(points - np.stack([0 * axis, 0 * axis, axis], axis=1), axis=1) - self.radius  # type: ignore[no-any-return]

    def _local_surface(self) -> tuple[Array, float]:
        # Facets curve two ways, so that the sagittas add up.
        count, slack = _facets(self.radius, _SAGITTA / 2)
        quarter = max(count // 4, 1)
        down = np.pi / 2 * np.arange(quarter + 1) / quarter
        polar = np.concatenate([down, np.pi / 2 + down])  # both ends have the equator
        shift = np.where(np.arange(len(polar)) <= quarter, self.half, -self.half)
        angle = np.arange(count + 1) * (2 * np.pi / count)
        grid = np.empty((len(polar), count + 1, 3))
        grid[..., 0] = self.radius * np.sin(polar)[:, None] * np.cos(angle)
        grid[..., 1] = self.radius * np.sin(polar)[:, None] * np.sin(angle)
        grid[..., 2] = (self.radius * np.cos(polar) + shift)[:, None]
        a, b, c, d = grid[:-1, :-1], grid[1:, :-1], grid[1:, 1:], grid[:-1, 1:]
        faces = np.concatenate([np.stack([a, b, c], axis=2), np.stack([a, c, d], axis=2)]).reshape(-1, 3, 3)
        return faces[tri.areas(faces) > 1e-14], 2 * slack


def _facets(radius: float, sagitta: float = _SAGITTA) -> tuple[int, float]:
    """How many straight pieces a circle needs, and how far it bulges over them."""
    angle = math.acos(max(1 - sagitta / radius, 0.0)) if radius > 0 else math.pi / 2
    count = min(max(4 * math.ceil(math.pi / angle / 4), 12), 512)
    return count, radius * (1 - math.cos(math.pi / count))


class Mesh:
    """Triangles with a side that is inside.

    Closed bodies are solid, and so are those inside them: a cavity that nothing leads into is filled. Where a
    mesh is open, inside is where its winding number is above one half, so that small holes do no harm; a
    sheet has no inside, and so has what is taken for one.
    """

    is_sheet = False

    def __init__(self, vertices: Array, faces: tri.Ints) -> None:
        self.triangles, self.closed, bodies = tri.oriented(vertices, faces)
        if len(self.triangles) == 0:
            raise ValueError("it has no triangle of an area above zero")
        lines = _CLOSED_LINES if self.closed else _OPEN_LINES
        # Directions out of line with anything that is built along axes.
        self._lines = [tri.Lines(self.triangles, direction) for direction in _directions(lines)]

        total = float(tri.areas(self.triangles).sum())
        cell = math.sqrt(total / _CLUSTERS)
        # What lies inside another body bounds nothing.
        boundary = self.triangles if bodies == 1 else self._outer(cell)
        self._count = len(boundary)
        self._distances = tri.Distances(boundary)
        # Clusters of pieces of the surface, each with the triangles that these belong to.
        pieces, owner = tri.split(boundary, cell / 2)
        centroids = pieces.mean(axis=1)
        _, seed = np.unique(np.floor(centroids / cell).astype(np.int64), axis=0, return_index=True)
        self._tree = need("scipy.spatial", "the spherizer").cKDTree(centroids[seed])
        _, cluster = self._tree.query(centroids)
        pairs = np.unique(np.stack([cluster, owner], axis=1), axis=0)
        self._members = pairs[:, 1]
        self._starts = np.searchsorted(pairs[:, 0], np.arange(len(seed) + 1))

    def _outer(self, cell: float) -> Array:
        """The triangles that are not inside, seen from their outer side; of some only pieces."""
        pieces, owner = tri.split(self.triangles, cell)
        hidden, bare = self._hidden(pieces)
        outside = np.bincount(owner, weights=~bare, minlength=len(self.triangles)) == 0
        inside = np.bincount(owner, weights=~hidden, minlength=len(self.triangles)) == 0
        mixed = ~(outside | inside)[owner]
        parts, _ = tri.split(pieces[mixed & ~hidden & ~bare], cell / 4)
        found = np.concatenate(
            [self.triangles[outside], pieces[mixed & bare], parts[~self._hidden(parts)[0]]]
        )
        return found if len(found) else self.triangles

    def _hidden(self, pieces: Array) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which have all their corners inside, and which have none."""
        if len(pieces) == 0:
            return np.empty(0, bool), np.empty(0, bool)
        extent = np.ptp(self.triangles.reshape(-1, 3), axis=0).max()
        above = pieces + _ABOVE * extent * tri.normals(pieces)[:, None]
        a, b, c = self.inside(above.reshape(-1, 3)).reshape(-1, 3).T
        return a & b & c, ~(a | b | c)

    def inside(self, points: Array) -> npt.NDArray[np.bool_]:
        if self.is_sheet:
            return np.zeros(len(points), bool)
        windings = [line.windings(points) for line in self._lines]
        if self.closed:
            return np.median([up for up, _ in windings], axis=0) > 0.5
        return np.mean([side for pair in windings for side in pair], axis=0) > 0.5  # type: ignore[no-any-return]

    def distance(self, points: Array) -> Array:
        """Signed distances; what is nearest is looked for in the nearest clusters only."""
        count = min(_NEIGHBOURS, len(self._starts) - 1)
        _, near = self._tree.query(points, k=count)
        near = near.reshape(-1)
        sizes = self._starts[near + 1] - self._starts[near]
        last = np.cumsum(sizes.reshape(-1, count).sum(axis=1))
        distance = np.empty(len(points))
        first = 0
        while first < len(points):
            done = last[first - 1] if first else 0
            end = max(int(np.searchsorted(last, done + _CHUNK, "right")), first + 1)
            run, nth = tri.expand(sizes[first * count : end * count])
            triangle = self._members[self._starts[near[first * count + run]] + nth]
            found = self._distances(points[first + run // count], triangle)
            starts = np.r_[0, last[first : end - 1] - done]
            distance[first:end] = np.minimum.reduceat(found, starts)
            first = end
        return np.where(self.inside(points), -distance, distance)

    def exact_distance(self, points: Array) -> Array:
        every = np.arange(self._count)
        distance = np.empty(len(points))
        step = max(_CHUNK // len(every), 1)
        for first in range(0, len(points), step):
            some = points[first : first + step]
            found = self._distances(np.repeat(some, len(every), axis=0), np.tile(every, len(some)))
            distance[first : first + step] = found.reshape(len(some), -1).min(axis=1)
        return np.where(self.inside(points), -distance, distance)

    def surface(self) -> tuple[Array, float]:
        return self.triangles, 0.0


def _directions(count: int) -> Array:
    """Evenly spread directions of lines, turned off all axes."""
    index = np.arange(count) + 0.5
    z = index / count
    angle = index * (np.pi * (3 - math.sqrt(5))) + 0.2718
    flat = np.sqrt(1 - z**2)
    return np.stack([flat * np.cos(angle), flat * np.sin(angle), z], axis=1)
