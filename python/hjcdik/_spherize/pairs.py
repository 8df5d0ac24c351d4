"""Pairs of links that need no check against each other, by sampling configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hjcdik._inputs import Array
from hjcdik._spherize.robot import Robot

Flags: TypeAlias = npt.NDArray[np.bool_]

ADJACENT, ALWAYS, NEVER = "Adjacent", "Always", "Never"
_ALWAYS_SHARE = 0.95
_CHUNK = 4_000_000


def needless_pairs(
    robot: Robot,
    spheres: Mapping[str, Array],
    ee_link: str | None,
    samples: int,
    random: np.random.Generator,
    with_never: bool = False,
) -> dict[tuple[str, str], str]:
    """Pairs of links with the reason: neighbours, and those that overlap in nearly all of the samples.

    With `with_never` also those that overlap in none, which says little where the samples are few.
    """
    links = [link for link in robot.links if link in spheres]
    movers = {link: robot.mover(link) for link in links}
    before = {joint.name: robot.mover(joint.parent) for joint in robot.joints.values() if joint.moves}
    frames = robot.frames(_configurations(robot, ee_link, samples, random))
    placed = {link: _placed(frames[link], spheres[link]) for link in links}
    bounds = {link: _placed(frames[link], _bound(spheres[link])) for link in links}
    reasons: dict[tuple[str, str], str] = {}
    for i, b in enumerate(links):
        for a in links[:i]:
            one, other = movers[a], movers[b]
            if one == other:
                continue  # they never move against each other
            if before.get(one) == other or before.get(other) == one:
                reasons[a, b] = ADJACENT
                continue
            share = _overlaps(placed[a], placed[b], bounds[a], bounds[b]).mean() if samples else 0.5
            if share >= _ALWAYS_SHARE:
                reasons[a, b] = ALWAYS
            elif share == 0 and with_never:
                reasons[a, b] = NEVER
    return reasons


def rest(robot: Robot) -> dict[str, Array]:
    """All joints at 0, put into their limits."""
    return {
        joint.name: np.array([min(max(0.0, joint.limits[0]), joint.limits[1])])
        for joint in robot.joints.values()
        if joint.moves
    }


def _configurations(
    robot: Robot, ee_link: str | None, samples: int, random: np.random.Generator
) -> dict[str, Array]:
    """Values (samples,) of the joints; those off the way to the tool stand still, as in a Solver."""
    moving = [joint for joint in robot.joints.values() if joint.moves and joint.mimic is None]
    if ee_link is not None:
        on_the_way = {joint.name for joint in robot.path(ee_link)}
        moving = [joint for joint in moving if joint.name in on_the_way]
    values = {name: np.repeat(value, samples) for name, value in rest(robot).items()}
    for joint in moving:
        values[joint.name] = random.uniform(*joint.limits, samples)
    return values


def _placed(frames: Array, spheres: Array) -> Array:
    """(n, m, 4) of spheres (m, 4) in frames (n, 4, 4)."""
    centres = spheres[:, :3] @ np.swapaxes(frames[:, :3, :3], 1, 2) + frames[:, None, :3, 3]
    radii = np.broadcast_to(spheres[None, :, 3:], (len(frames), len(spheres), 1))
    return np.concatenate([centres, radii], axis=2)


def _bound(spheres: Array) -> Array:
    """A sphere (1, 4) around them."""
    centre = (spheres[:, :3] - spheres[:, 3:]).min(axis=0) + (spheres[:, :3] + spheres[:, 3:]).max(axis=0)
    centre = centre / 2
    radius = (np.linalg.norm(spheres[:, :3] - centre, axis=1) + spheres[:, 3]).max()
    return np.array([[*centre, radius]])


def _overlaps(a: Array, b: Array, bound_a: Array, bound_b: Array) -> Flags:
    """In which samples any sphere of a (n, k, 4) overlaps any of b (n, m, 4)."""
    near = np.flatnonzero(_meet(bound_a, bound_b))
    overlap = np.zeros(len(a), bool)
    step = max(_CHUNK // (a.shape[1] * b.shape[1]), 1)
    for first in range(0, len(near), step):
        rows = near[first : first + step]
        overlap[rows] = _meet(a[rows], b[rows])
    return overlap


def _meet(a: Array, b: Array) -> Flags:
    square = sum((a[:, :, None, k] - b[:, None, :, k]) ** 2 for k in range(3))
    return np.asarray((square < (a[:, :, None, 3] + b[:, None, :, 3]) ** 2).any(axis=(1, 2)))
