"""Covers of a solid's surface by few spheres that stick out of it by no more than a bound.

A ball around c of the radius depth(c) lies in the solid, so that one of the radius depth(c) + bulge sticks
out by no more than the bulge. Candidates are points inside, above all on the medial axis, each with that
radius. A set of them that contains every point of the surface is searched for, with points of the surface
standing for it; then the cover is proved triangle by triangle: a triangle lies in a ball if its corners do,
and else is halved. Where the proof fails, points are added and the search goes on.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hjcdik._inputs import Array
from hjcdik._spherize import triangles as tri
from hjcdik._spherize._optional import need
from hjcdik._spherize.solids import Solid

Bits: TypeAlias = npt.NDArray[np.uint64]
Ints: TypeAlias = npt.NDArray[np.int64]

# Of the bulge. Points of the surface stand closer than _SPACING, and keep a seam from the spheres' surfaces.
# A wide one lets the proof end soon, a narrow one saves spheres: one attempt for each, the best counts.
_SPACING = 0.3
_SEAMS = (0.06, 0.03)
_SAFETY = 1e-6  # m
_MOST_POINTS = 25_000
_GRID_CANDIDATES, _MEDIAL_CANDIDATES, _SURFACE_CANDIDATES = 4000, 2500, 2000
_ROUNDS = 14  # of proofs
_MENDING_ROUNDS = 6  # of these, with few tries each
_RELAXING_ROUNDS = 12
_DROPS, _FEW_SPHERES = 6, 40  # tries at one sphere less, where there are few
_POINTS_A_ROUND = 4000
_TRIES, _MOST_TRIES = 20, 3000  # for each sphere, in all
_FEW_TRIES, _MOST_FEW_TRIES = 6, 300
_SAMPLE = 1200  # candidates looked at in a try
_DEEPEST = 6
_MOST_VOXELS = 2_000_000
_LARGEST_AREA = 1e6  # of the bulge's square
_CHUNK = 4_000_000


class TooLargeError(ValueError):
    """More would have to be computed than is sensible."""


# --- Bounded bulge ------------------------------------------------------------------------------


def bounded_bulge(solid: Solid, bulge: float, random: np.random.Generator) -> Array:
    """Spheres (n, 4) that contain the whole surface, none of which sticks out by more than `bulge` (m)."""
    area = float(tri.areas(solid.triangles).sum())
    if area > _LARGEST_AREA * bulge**2:
        raise TooLargeError(
            f"a surface of {area:.3g} m2 takes too many spheres of a bulge of {bulge * 1e3:g} mm: allow a "
            "larger one, or use mode 'voxel' (is a mesh in millimetres, and its scale missing?)"
        )
    problem = _Problem(_surface_points(solid, bulge), float(solid.slack.max()))
    centres = _candidates(solid, bulge, problem.points, random)
    chosen = np.empty(0, np.int64)
    best: Array | None = None
    for seam in _SEAMS:
        problem.set_margin(seam * bulge + float(solid.slack.max()))
        problem.add_candidates(centres, _radii(solid, centres, bulge))
        chosen = _improve(problem, _greedy(problem, chosen), random, _TRIES, _MOST_TRIES)
        for _ in range(_DROPS if len(chosen) <= _FEW_SPHERES else 0):
            chosen = _with_one_less(solid, problem, chosen, bulge, random)
        proved, spheres = _proved(solid, problem, chosen, bulge, seam * bulge / 2, random)
        if best is None or len(spheres) < len(best):
            best, chosen = spheres, proved
        centres = _around(problem, chosen, random)
    assert best is not None
    return _sorted(best)


def _proved(
    solid: Solid, problem: _Problem, chosen: Ints, bulge: float, smallest: float, random: np.random.Generator
) -> tuple[Ints, Array]:
    """The candidates chosen, changed and joined by more until the proof holds, and their spheres."""
    for turn in range(_ROUNDS):
        if turn < _MENDING_ROUNDS:
            chosen = _relaxed(solid, problem, chosen, bulge, random)
        chosen = _with_exact_radii(solid, problem, chosen, bulge)
        spheres = _shrunk(solid, problem, chosen)
        bare = uncovered(solid, spheres, smallest)
        if len(bare) == 0:
            return chosen, spheres
        points = _thinned(bare.mean(axis=1), bulge / 20)
        problem.add_points(points[:: -(-len(points) // _POINTS_A_ROUND)])
        chosen = _greedy(problem, chosen)
        if turn < _MENDING_ROUNDS:
            chosen = _improve(problem, chosen, random, _FEW_TRIES, _MOST_FEW_TRIES)
    return chosen, _patched(solid, _full(problem, chosen), bulge, smallest)


class _Problem:
    """Which candidate contains which point, as bits: a row for each candidate."""

    def __init__(self, points: Array, margin: float) -> None:
        self.points = points[np.argsort(_curve(points), kind="stable")]  # neighbours share words
        self.margin = margin
        self.centres: Array = np.empty((0, 3))
        self.radii: Array = np.empty(0)
        self.bits: Bits = np.empty((0, _words(len(points))), np.uint64)
        self.everything = _packed(np.ones((1, len(points)), bool))[0]

    def add_candidates(self, centres: Array, radii: Array) -> None:
        useful = radii > self.margin
        centres, radii = centres[useful], radii[useful]
        self.bits = np.concatenate([self.bits, self._contained(centres, radii, self.points)])
        self.centres = np.concatenate([self.centres, centres])
        self.radii = np.concatenate([self.radii, radii])

    def add_points(self, points: Array) -> None:
        points = points[np.argsort(_curve(points), kind="stable")]
        self.bits = np.concatenate([self.bits, self._contained(self.centres, self.radii, points)], axis=1)
        self.everything = np.concatenate([self.everything, _packed(np.ones((1, len(points)), bool))[0]])
        # The last word of either part may have room: a point's place is counted in words.
        pad = _words(len(self.points)) * 64 - len(self.points)
        self.points = np.concatenate([self.points, np.full((pad, 3), np.nan), points])

    def set_margin(self, margin: float) -> None:
        self.margin = margin
        self.bits = self._contained(self.centres, self.radii, self.points)

    def set_radii(self, index: Ints, radii: Array) -> None:
        self.radii[index] = radii
        self.bits[index] = self._contained(self.centres[index], radii, self.points)

    def covered(self, chosen: Ints) -> Bits:
        none = np.zeros_like(self.everything)
        return np.bitwise_or.reduce(self.bits[chosen], axis=0) if len(chosen) else none  # type: ignore[no-any-return]

    def _contained(self, centres: Array, radii: Array, points: Array) -> Bits:
        bits = np.empty((len(centres), _words(len(points))), np.uint64)
        step = max(_CHUNK // max(len(points), 1), 1)
        for first in range(0, len(centres), step):
            rows = slice(first, first + step)
            limit = np.maximum(radii[rows] - self.margin, 0)
            bits[rows] = _packed(_squares(centres[rows], points) <= (limit**2)[:, None])
        return bits


def _squares(centres: Array, points: Array) -> Array:
    """Squared distances (centres, points)."""
    origin = centres.mean(axis=0) if len(centres) else np.zeros(3)  # far from 0 digits would cancel
    c, p = centres - origin, points - origin
    return (c**2).sum(axis=1)[:, None] + (p**2).sum(axis=1) - 2 * (c @ p.T)  # type: ignore[no-any-return]


def _words(points: int) -> int:
    return (points + 63) // 64


def _packed(flags: npt.NDArray[np.bool_]) -> Bits:
    padded = np.zeros((len(flags), _words(flags.shape[1]) * 64), bool)
    padded[:, : flags.shape[1]] = flags
    return np.packbits(padded, axis=1).view(np.uint64)


def _unpacked(bits: Bits, count: int) -> npt.NDArray[np.bool_]:
    return np.unpackbits(bits.view(np.uint8), axis=-1)[..., :count].astype(bool)


def _curve(points: Array) -> Ints:
    """Places on a space-filling curve, after Morton."""
    low = points.min(axis=0) if len(points) else np.zeros(3)
    scale = 1023 / max(float(np.ptp(points)) if len(points) else 0.0, 1e-12)
    cell = ((points - low) * scale).astype(np.int64)
    code = np.zeros(len(points), np.int64)
    for bit in range(10):
        for axis in range(3):
            code |= ((cell[:, axis] >> bit) & 1) << (3 * bit + axis)
    return code


def _gains(bits: Bits, missing: Bits) -> Ints:
    words = np.flatnonzero(missing)
    return np.bitwise_count(bits[:, words] & missing[words]).sum(axis=1, dtype=np.int64)  # type: ignore[no-any-return]


def _greedy(problem: _Problem, chosen: Ints) -> Ints:
    """The candidates chosen, and those that contain most of what is left, one after the other."""
    missing = problem.everything & ~problem.covered(chosen)
    added = []
    while missing.any():
        gains = _gains(problem.bits, missing)
        best = int(gains.argmax())
        if gains[best] == 0:
            break  # the proof, or the patches, see to the rest
        added.append(best)
        missing &= ~problem.bits[best]
    return _needed(problem, np.r_[chosen, np.array(added, np.int64)])


def _needed(problem: _Problem, chosen: Ints) -> Ints:
    """Without what the others make redundant; the smallest spheres are tried first."""
    kept = list(chosen[np.argsort(problem.radii[chosen], kind="stable")])
    total = problem.covered(chosen)
    for candidate in list(kept):
        rest = [c for c in kept if c != candidate]
        if rest and not (total & ~problem.covered(np.array(rest))).any():
            kept = rest
    return np.array(kept, np.int64)


def _improve(problem: _Problem, chosen: Ints, random: np.random.Generator, tries: int, most: int) -> Ints:
    """Takes out a few neighbours at a time and fills the gap anew, where that takes no more spheres."""
    goal = problem.covered(chosen)
    tree = need("scipy.spatial", "the spherizer").cKDTree(problem.centres)
    for _ in range(min(tries * len(chosen), most)):
        if len(chosen) < 2:
            break
        centre = problem.centres[random.choice(chosen)]
        distance = np.linalg.norm(problem.centres[chosen] - centre, axis=1)
        out = np.argsort(distance, kind="stable")[: random.integers(2, 7)]
        kept = np.delete(chosen, out)
        missing = goal & ~problem.covered(kept)
        # A part of the candidates is as good in the long run, and quicker.
        rows = np.array(
            tree.query_ball_point(centre, distance[out].max() + problem.radii[chosen[out]].max() / 2)
        )
        if len(rows) > _SAMPLE:
            rows = random.choice(rows, _SAMPLE, replace=False)
        new = _refill(problem, missing, len(out), np.r_[chosen[out], rows], random)
        if new is not None:
            chosen = np.r_[kept, new]
    return _needed(problem, chosen)


def _refill(
    problem: _Problem, missing: Bits, most: int, rows: Ints, random: np.random.Generator
) -> Ints | None:
    """At most that many of the candidates `rows`, that contain all that is missing; None if it takes more."""
    words = np.flatnonzero(missing)
    missing = missing[words]
    bits = problem.bits[np.ix_(rows, words)]
    new: list[int] = []
    while missing.any():
        if len(new) == most:
            return None
        gains = np.bitwise_count(bits & missing).sum(axis=1, dtype=np.int64)
        # The noise lets different choices win.
        best = int((gains * random.uniform(0.85, 1, len(gains))).argmax())
        if gains[best] == 0:
            return None
        new.append(int(rows[best]))
        missing = missing & ~bits[best]
    return np.array(new, np.int64)


# --- Candidates ---------------------------------------------------------------------------------


def _radii(solid: Solid, centres: Array, bulge: float) -> Array:
    return bulge - _SAFETY - solid.distance(centres)


def _surface_points(solid: Solid, bulge: float) -> Array:
    area = float(tri.areas(solid.triangles).sum())
    edge = max(_SPACING * bulge, 1.5 * np.sqrt(area / _MOST_POINTS))
    pieces, _ = tri.split(solid.triangles, edge)
    return _thinned(pieces.reshape(-1, 3), edge / 3)


def _thinned(points: Array, cell: float) -> Array:
    """One point of every cell of a grid."""
    keys = np.floor(points / cell).astype(np.int64)
    _, first = np.unique(keys, axis=0, return_index=True)
    return points[np.sort(first)]


def _candidates(solid: Solid, bulge: float, points: Array, random: np.random.Generator) -> Array:
    low, high = solid.bounds()
    spacing = max(
        float(np.prod(np.maximum(high - low, bulge)) / (2 * _GRID_CANDIDATES)) ** (1 / 3), bulge / 3
    )
    axes = [
        np.arange(a + spacing / 2, b, spacing) if b - a > spacing else [(a + b) / 2]
        for a, b in zip(low, high, strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    grid = grid[solid.distance(grid) < bulge / 2]

    start, index = tri.sample(solid.triangles, _MEDIAL_CANDIDATES, random)
    inward = -tri.normals(solid.triangles)[index]
    depth = _medial_depth(solid, start, inward, float(np.linalg.norm(high - low)) / 2)
    some = random.choice(len(points), min(len(points), _SURFACE_CANDIDATES), replace=False)
    found = [grid, points[some]]
    for share in (0.5, 1.0):
        found.append(start + share * depth[:, None] * inward)
    for step in (1.0, 2.5):
        shallow = depth > step * bulge
        found.append((start + step * bulge * inward)[shallow])
    return np.concatenate(found)


def _medial_depth(solid: Solid, start: Array, inward: Array, most: float) -> Array:
    """How far one can go from the surface before something else of it is nearer."""
    low, high = np.zeros(len(start)), np.full(len(start), most)
    for _ in range(11):
        middle = (low + high) / 2
        own = -solid.distance(start + middle[:, None] * inward) >= 0.98 * middle
        low, high = np.where(own, middle, low), np.where(own, high, middle)
    return low


def _around(problem: _Problem, chosen: Ints, random: np.random.Generator) -> Array:
    """Centres near those chosen."""
    count = int(np.clip(6000 / max(len(chosen), 1), 10, 60))
    offsets = random.normal(size=(len(chosen), count, 3))
    offsets *= np.geomspace(0.03, 0.4, count)[None, :, None] / np.linalg.norm(offsets, axis=2, keepdims=True)
    return (problem.centres[chosen, None] + offsets * problem.radii[chosen, None, None]).reshape(-1, 3)


# --- Relaxing ---------------------------------------------------------------------------------


def _relaxed(
    solid: Solid, problem: _Problem, chosen: Ints, bulge: float, random: np.random.Generator
) -> Ints:
    """As many candidates, new ones, moved so that the points have more room in them; or the same."""
    spheres = _full(problem, chosen)
    points = problem.points[np.isfinite(problem.points[:, 0])]
    before = least = _room(points, spheres)[1].min()
    best = spheres
    scales = np.geomspace(0.15, 0.01, _RELAXING_ROUNDS)
    count = int(np.clip(3000 / len(spheres), 16, 60))
    for scale in scales:
        # Each sphere is moved to where the points that are deepest in it have most room.
        owner, room = _room(points, spheres)
        offsets = random.normal(size=(len(spheres), count, 3)) * (scale * spheres[:, None, 3:])
        offsets[:, 0] = 0
        centres = spheres[:, None, :3] + offsets
        radii = _radii(solid, centres.reshape(-1, 3), bulge).reshape(len(spheres), count)
        order = np.lexsort((room, owner))
        starts = np.searchsorted(owner[order], np.arange(len(spheres) + 1))
        moved = spheres.copy()
        for i in range(len(spheres)):
            own = points[order[starts[i] : min(starts[i + 1], starts[i] + 150)]]
            if len(own) == 0:
                continue
            far = np.linalg.norm(centres[i, :, None] - own, axis=2).max(axis=1)
            pick = int((radii[i] - far).argmax())
            moved[i] = *centres[i, pick], radii[i, pick]
        spheres = moved
        room = _room(points, spheres)[1].min()
        if room > least:
            best, least = spheres, room
    if least <= before:
        return chosen
    first = len(problem.radii)
    problem.add_candidates(best[:, :3], best[:, 3])
    return np.arange(first, len(problem.radii))


def _room(points: Array, spheres: Array) -> tuple[Ints, Array]:
    """The sphere in which each point is deepest, and how deep."""
    owner, room = np.empty(len(points), np.int64), np.empty(len(points))
    step = max(_CHUNK // len(spheres), 1)
    for first in range(0, len(points), step):
        rows = slice(first, first + step)
        depth = spheres[:, 3:] - np.sqrt(np.maximum(_squares(spheres[:, :3], points[rows]), 0))
        owner[rows] = depth.argmax(axis=0)
        room[rows] = depth.max(axis=0)
    return owner, room


def _with_one_less(
    solid: Solid, problem: _Problem, chosen: Ints, bulge: float, random: np.random.Generator
) -> Ints:
    """One sphere less, where the others can be moved to make up for it."""
    if len(chosen) < 2:
        return chosen
    alone = [_gains(problem.bits[[c]], ~problem.covered(chosen[chosen != c]))[0] for c in chosen]
    weights = 1 / (1.0 + np.array(alone))
    out = random.choice(len(chosen), p=weights / weights.sum())
    fewer = _relaxed(solid, problem, np.delete(chosen, out), bulge, random)
    fewer = _relaxed(solid, problem, fewer, bulge, random)
    return fewer if not (problem.everything & ~problem.covered(fewer)).any() else chosen


# --- The end ------------------------------------------------------------------------------------


def _with_exact_radii(solid: Solid, problem: _Problem, chosen: Ints, bulge: float) -> Ints:
    """The same candidates, or others, with radii that the bulge allows by the exact distance."""
    while True:
        allowed = bulge - _SAFETY - solid.exact_distance(problem.centres[chosen])
        wrong = problem.radii[chosen] > allowed + 1e-9
        if not wrong.any():
            return chosen
        problem.set_radii(chosen[wrong], allowed[wrong])
        chosen = _greedy(problem, chosen)


def _full(problem: _Problem, chosen: Ints) -> Array:
    return np.column_stack([problem.centres[chosen], problem.radii[chosen]])


def _shrunk(solid: Solid, problem: _Problem, chosen: Ints) -> Array:
    """The spheres with what they stick out by cut to what the surface needs, the farthest first."""
    spheres = _full(problem, chosen)
    inside = np.maximum(-solid.exact_distance(spheres[:, :3]), 0)
    points = np.nan_to_num(problem.points, nan=1e9)
    flags = _unpacked(problem.bits[chosen], len(points))
    count = flags.sum(axis=0)
    for i in np.argsort(inside - spheres[:, 3], kind="stable"):
        alone = flags[i] & (count == 1)
        far = np.linalg.norm(points[alone] - spheres[i, :3], axis=1).max(initial=0.0)
        radius = max(far + problem.margin, inside[i], problem.margin)
        if radius >= spheres[i, 3]:
            continue
        spheres[i, 3] = radius
        held = flags[i] & (np.linalg.norm(points - spheres[i, :3], axis=1) <= radius - problem.margin + 1e-12)
        count -= flags[i] & ~held
        flags[i] = held
    return spheres


def uncovered(solid: Solid, spheres: Array, smallest: float) -> Array:
    """Triangles (m, 3, 3) of the surface that no single sphere contains, none longer than `smallest`."""
    pieces, slack = solid.triangles, solid.slack
    bare = []
    while len(pieces):
        open_ = np.flatnonzero(~_in_one(pieces, slack, spheres))
        pieces, slack = pieces[open_], slack[open_]
        lengths = tri.edge_lengths(pieces)
        small = lengths.max(axis=1) <= smallest
        bare.append(pieces[small])
        if sum(map(len, bare)) > 20_000:
            break  # enough to go on with
        pieces, slack = tri.halved(pieces[~small], lengths[~small]), np.repeat(slack[~small], 2)
    return np.concatenate(bare or [pieces])


def _in_one(pieces: Array, slack: Array, spheres: Array) -> npt.NDArray[np.bool_]:
    """Which pieces lie in one of the spheres that are deepest around their centres."""
    # Where a sphere is lifted by sqrt(R^2 - r^2) in a fourth dimension, the nearest is that of the least
    # |x - c|^2 - r^2.
    lift = np.sqrt(np.maximum(spheres[:, 3].max() ** 2 - spheres[:, 3] ** 2, 0))
    tree = need("scipy.spatial", "the spherizer").cKDTree(np.column_stack([spheres[:, :3], lift]))
    count = min(_DEEPEST, len(spheres))
    inside = np.zeros(len(pieces), bool)
    _, near = tree.query(np.column_stack([pieces.mean(axis=1), np.zeros(len(pieces))]), k=count)
    near = near.reshape(len(pieces), count)
    for k in range(count):
        sphere = spheres[near[:, k]]
        offset = pieces - sphere[:, None, :3]
        far = np.einsum("nki,nki->nk", offset, offset).max(axis=1)
        inside |= far <= np.maximum(sphere[:, 3] - slack, 0) ** 2
    return inside


def _patched(solid: Solid, spheres: Array, bulge: float, smallest: float) -> Array:
    """With a sphere on every spot of the surface that is still bare."""
    while True:
        bare = uncovered(solid, spheres, smallest)
        if len(bare) == 0:
            return spheres
        centres = _thinned(bare.mean(axis=1), bulge)
        radii = bulge - _SAFETY - np.maximum(solid.exact_distance(centres), 0)
        spheres = np.concatenate([spheres, np.column_stack([centres, radii])])


def _sorted(spheres: Array) -> Array:
    """In an order that says something: by place, along the longest extent."""
    axis = int(np.ptp(spheres[:, :3], axis=0).argmax())
    return spheres[np.lexsort((spheres[:, 3], spheres[:, axis]))]


# --- Voxels -------------------------------------------------------------------------------------


def voxels(solid: Solid, resolution: float) -> Array:
    """Spheres (n, 4) that contain every voxel that the solid reaches into; chosen greedily."""
    half = resolution * np.sqrt(3) / 2
    low, high = solid.bounds()
    counts = np.maximum(np.ceil((high - low) / resolution), 1).astype(int)
    if np.prod(counts.astype(float)) > _MOST_VOXELS:
        raise TooLargeError(
            f"resolution {resolution:g} m makes {np.prod(counts.astype(float)):.3g} voxels; "
            f"at most {_MOST_VOXELS:g} are supported: use a larger one"
        )
    first = (low + high) / 2 - (counts - 1) * resolution / 2
    axes = [first[k] + resolution * np.arange(counts[k]) for k in range(3)]
    cells = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    distance = solid.distance(cells)
    full = distance <= half
    cells, depth = cells[full], np.maximum(-distance[full], 0)
    # A voxel is contained where its centre is that much deeper than the sphere's surface. Its own sphere has
    # to contain it whatever rounding does to squares.
    problem = _Problem(cells, 0.0)
    problem.add_candidates(cells, depth + _SAFETY)
    chosen = _greedy(problem, np.empty(0, np.int64))
    spheres = _full(problem, chosen)
    spheres[:, 3] += half
    return _sorted(spheres)
