"""Triangles in bulk: areas, splitting, distances, orientation, and how often lines cross them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hjcdik._inputs import Array
from hjcdik._spherize._optional import need

Ints: TypeAlias = npt.NDArray[np.int64]


def areas(triangles: Array) -> Array:
    a, b, c = triangles[:, 0], triangles[:, 1], triangles[:, 2]
    return np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2  # type: ignore[no-any-return]


def normals(triangles: Array) -> Array:
    a, b, c = triangles[:, 0], triangles[:, 1], triangles[:, 2]
    normal = np.cross(b - a, c - a)
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    return normal / np.maximum(length, 1e-300)  # type: ignore[no-any-return]


def split(triangles: Array, edge: float) -> tuple[Array, Ints]:
    """Pieces whose edges are no longer than that, and the triangle of each; by halving longest edges."""
    owner = np.arange(len(triangles))
    done, done_owner = [], []
    while len(triangles):
        lengths = edge_lengths(triangles)
        long = lengths.max(axis=1) > edge
        done.append(triangles[~long])
        done_owner.append(owner[~long])
        triangles, owner = halved(triangles[long], lengths[long]), np.repeat(owner[long], 2)
    return np.concatenate(done or [triangles]), np.concatenate(done_owner or [owner])


def edge_lengths(triangles: Array) -> Array:
    """Of the edges 0-1, 1-2 and 2-0 of each."""
    return np.linalg.norm(np.roll(triangles, -1, axis=1) - triangles, axis=2)  # type: ignore[no-any-return]


def halved(triangles: Array, lengths: Array) -> Array:
    """Both halves of each, one after the other, cut at the middle of the longest edge."""
    first = lengths.argmax(axis=1)
    rows = np.arange(len(triangles))
    a, b, c = (triangles[rows, (first + k) % 3] for k in range(3))
    middle = (a + b) / 2
    return np.stack([np.stack([a, middle, c], axis=1), np.stack([middle, b, c], axis=1)], axis=1).reshape(
        -1, 3, 3
    )


def sample(triangles: Array, count: int, random: np.random.Generator) -> tuple[Array, Ints]:
    """Points spread evenly over the area, and the triangle of each."""
    area = areas(triangles)
    index = random.choice(len(triangles), count, p=area / area.sum())
    u, v = random.random((2, count, 1))
    flip = u + v > 1
    u, v = np.where(flip, 1 - u, u), np.where(flip, 1 - v, v)
    a, b, c = (triangles[index, k] for k in range(3))
    return a + u * (b - a) + v * (c - a), index


class Distances:
    """Distances of points from triangles, pair by pair."""

    def __init__(self, triangles: Array) -> None:
        self._a = triangles[:, 0]
        self._ab, self._ac = triangles[:, 1] - self._a, triangles[:, 2] - self._a
        self._bb, self._cc, self._bc = (
            np.einsum("ni,ni->n", u, v)
            for u, v in ((self._ab, self._ab), (self._ac, self._ac), (self._ab, self._ac))
        )

    def __call__(self, points: Array, index: Ints) -> Array:
        """Of points (n, 3) from triangles index (n,): (n,)."""
        offset = points - self._a[index]
        b = np.einsum("ni,ni->n", offset, self._ab[index])
        c = np.einsum("ni,ni->n", offset, self._ac[index])
        square = np.einsum("ni,ni->n", offset, offset)
        bb, cc, bc = self._bb[index], self._cc[index], self._bc[index]
        # The edges from a, and the third from b to c.
        nearest = np.minimum(square + _foot(b, bb), square + _foot(c, cc))
        nearest = np.minimum(nearest, square - 2 * b + bb + _foot(c - b - bc + bb, bb + cc - 2 * bc))
        # The foot on the plane, where it lies inside.
        area = bb * cc - bc * bc
        u, v = b * cc - c * bc, c * bb - b * bc
        within = (u > 0) & (v > 0) & (u + v < area)
        plane = square - (u * b + v * c) / np.where(within, area, 1)
        return np.sqrt(np.maximum(np.where(within, plane, nearest), 0))  # type: ignore[no-any-return]


def _foot(along: Array, length: Array) -> Array:
    """What the nearest point of a segment takes off the square of the distance from its start."""
    share = np.clip(along / np.where(length > 0, length, 1), 0, 1)
    return share * (share * length - 2 * along)


# --- Orientation --------------------------------------------------------------------------------


def oriented(vertices: Array, faces: Ints) -> tuple[Array, bool, int]:
    """Triangles whose normals point outward, whether all bodies are closed, and how many bodies there are."""
    _, first, index = np.unique(
        np.round(vertices / _weld(vertices)).astype(np.int64), axis=0, return_index=True, return_inverse=True
    )
    vertices, faces = vertices[first], index.reshape(-1)[faces]
    faces = faces[areas(vertices[faces]) > 1e-16]
    if len(faces) == 0:
        return np.empty((0, 3, 3)), False, 0
    faces = _dedupe(faces)
    body, faces = _consistent(faces)
    triangles = vertices[faces]
    # The volume about a point of the body itself, so that a sheet's does not depend on where it lies.
    bodies = body.max() + 1
    count = np.bincount(body, minlength=bodies)
    centre = np.stack(
        [
            np.bincount(body, weights=triangles[..., k].mean(axis=1), minlength=bodies) / count
            for k in range(3)
        ],
        axis=1,
    )
    a, b, c = (triangles[:, k] - centre[body] for k in range(3))
    volume = np.bincount(body, weights=np.einsum("ni,ni->n", a, np.cross(b, c)), minlength=bodies)
    inward = (volume < 0)[body]
    faces[inward] = faces[inward][:, ::-1]
    return vertices[faces], _closed(faces), int(bodies)


def _weld(vertices: Array) -> float:
    """The distance under which vertices are one: formats write float32."""
    return max(float(np.ptp(vertices, axis=0).max()) * 1e-6, 1e-9)


def _dedupe(faces: Ints) -> Ints:
    _, first = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    return faces[np.sort(first)]


def _edges(faces: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The edges of the faces (3n, 2), the smaller end first, and which run that way."""
    ends = np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)
    return np.sort(ends, axis=1), ends[:, 0] < ends[:, 1]


def _closed(faces: Ints) -> bool:
    edges, forward = _edges(faces)
    _, index = np.unique(edges, axis=0, return_inverse=True)
    balance = np.bincount(index.reshape(-1), weights=np.where(forward, 1, -1))
    return not balance.any()


def _consistent(faces: Ints) -> tuple[Ints, Ints]:
    """The body of each face, and the faces turned so that neighbours agree."""
    graphs = need("scipy.sparse.csgraph", "the spherizer")
    sparse = need("scipy.sparse", "the spherizer")
    edges, forward = _edges(faces)
    owner = np.repeat(np.arange(len(faces)), 3)
    _, index, count = np.unique(edges, axis=0, return_inverse=True, return_counts=True)
    index = index.reshape(-1)
    order = np.argsort(index, kind="stable")
    order = order[count[index[order]] == 2]  # more than two faces at an edge say nothing about each other
    left, right = order[::2], order[1::2]
    same = forward[left] == forward[right]
    size = len(faces)
    pairs = (np.r_[owner[left], owner[right]], np.r_[owner[right], owner[left]])
    graph = sparse.csr_matrix((np.ones(2 * len(left)), pairs), shape=(size, size))
    bodies, body = graphs.connected_components(graph, directed=False)
    if not same.any():
        return body, faces
    # Twice the faces, as they are and turned: what is reached from one of a body's faces agrees with it.
    a, b, cross = owner[left], owner[right], np.where(same, size, 0)
    rows, columns = np.r_[a, a + size], np.r_[b + cross, b + size - cross]
    doubled = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(2 * size, 2 * size))
    _, reached = graphs.connected_components(doubled, directed=False)
    first = np.full(bodies, -1)
    first[body[::-1]] = np.arange(size)[::-1]
    turned = reached[:size] != reached[first[body]]
    faces = faces.copy()
    faces[turned] = faces[turned][:, ::-1]
    return body, faces


# --- Lines --------------------------------------------------------------------------------------


class Lines:
    """Parallel lines through triangles: how often a surface is crossed on either side of a point."""

    def __init__(self, triangles: Array, direction: Array) -> None:
        z = direction / np.linalg.norm(direction)
        x = np.cross(z, [1.0, 0, 0] if abs(z[0]) < 0.6 else [0, 1.0, 0])
        x /= np.linalg.norm(x)
        self._turn = np.stack([x, np.cross(z, x), z], axis=1)
        corners = triangles @ self._turn
        a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
        self._a, self._ab, self._ac = a, b - a, c - a
        self._area = self._ab[:, 0] * self._ac[:, 1] - self._ab[:, 1] * self._ac[:, 0]
        low, high = corners[..., :2].min(axis=1), corners[..., :2].max(axis=1)
        self._low = low.min(axis=0)
        cells = int(np.clip(np.sqrt(len(triangles)), 8, 512))
        self._cells = cells
        self._scale = cells / np.maximum(high.max(axis=0) - self._low, 1e-12)
        first, last = self._cell(low), self._cell(high)
        width = last - first + 1
        triangle, within = expand(width[:, 0] * width[:, 1])
        column = first[triangle, 0] + within // width[triangle, 1]
        row = first[triangle, 1] + within % width[triangle, 1]
        cell = column * cells + row
        order = np.argsort(cell, kind="stable")
        self._triangles = triangle[order]
        self._starts = np.searchsorted(cell[order], np.arange(cells * cells + 1))

    def windings(self, points: Array) -> tuple[Array, Array]:
        """Crossings outward less those inward, ahead of each point and behind it."""
        ahead, behind = np.zeros(len(points)), np.zeros(len(points))
        for first in range(0, len(points), 50_000):
            rows = slice(first, first + 50_000)
            ahead[rows], behind[rows] = self._windings(points[rows])
        return ahead.astype(float), behind.astype(float)

    def _windings(self, points: Array) -> tuple[Array, Array]:
        local = points @ self._turn
        where = (local[:, :2] - self._low) * self._scale
        within = ((where >= 0) & (where <= self._cells)).all(axis=1)
        cell = self._cell(local[:, :2])
        index = cell[:, 0] * self._cells + cell[:, 1]
        point, nth = expand(np.where(within, self._starts[index + 1] - self._starts[index], 0))
        t = self._triangles[self._starts[index[point]] + nth]
        offset = local[point] - self._a[t]
        area = self._area[t]
        safe = np.where(area == 0, 1, area)
        u = (offset[:, 0] * self._ac[t, 1] - offset[:, 1] * self._ac[t, 0]) / safe
        v = (offset[:, 1] * self._ab[t, 0] - offset[:, 0] * self._ab[t, 1]) / safe
        hit = (area != 0) & (u >= 0) & (v >= 0) & (u + v <= 1)
        point, t, u, v, height = point[hit], t[hit], u[hit], v[hit], offset[hit, 2]
        above = self._ab[t, 2] * u + self._ac[t, 2] * v > height
        sign = np.sign(self._area[t])
        ahead = np.bincount(point, weights=np.where(above, sign, 0.0), minlength=len(points))
        behind = np.bincount(point, weights=np.where(above, 0.0, -sign), minlength=len(points))
        return ahead.astype(float), behind.astype(float)

    def _cell(self, xy: Array) -> Ints:
        cell = ((xy - self._low) * self._scale).astype(np.int64)
        return np.clip(cell, 0, self._cells - 1)  # type: ignore[no-any-return]


def expand(counts: Ints) -> tuple[Ints, Ints]:
    """For runs of these lengths: the run of every entry, and its place in the run."""
    run = np.repeat(np.arange(len(counts)), counts)
    return run, np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts)
