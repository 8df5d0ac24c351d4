"""Spheres made for one URDF of a robot, in the link frames of another."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hjcdik._errors import ModelError
from hjcdik._inputs import Array
from hjcdik._spherize.robot import Joint, Robot

_TOLERANCE = 1e-4  # m, rad: descriptions are rounded


def rebound(links: Mapping[str, Array], old: Robot, new: Robot) -> tuple[dict[str, Array], dict[str, str]]:
    """The spheres by the links of `new`, and the link that each link of `old` has become.

    Links go by name; one that `new` lacks goes to one of its own that is welded to it. With all joints at 0,
    the axes of the joints that move a link must lie in the same places.
    """
    old_frames = {name: frame[0] for name, frame in old.frames({}).items()}
    new_frames = {name: frame[0] for name, frame in new.frames({}).items()}
    between = _between(old, new, old_frames, new_frames)
    spheres: dict[str, Array] = {}
    names: dict[str, str] = {}
    for link, rows in links.items():
        name = _counterpart(link, old, new)
        _compare(link, name, old, new, old_frames, new_frames, between)
        move = np.linalg.inv(new_frames[name]) @ between @ old_frames[link]
        moved = np.column_stack([rows[:, :3] @ move[:3, :3].T + move[:3, 3], rows[:, 3]])
        spheres[name] = np.concatenate([spheres[name], moved]) if name in spheres else moved
        names[link] = name
    return spheres, names


def _between(
    old: Robot, new: Robot, old_frames: Mapping[str, Array], new_frames: Mapping[str, Array]
) -> Array:
    """The old root in the new one's frame, by a link that both have before the first joint that moves."""
    for link in (old.root, *old.links):
        if link in new.links and not old.mover(link) and not new.mover(link):
            return new_frames[link] @ np.linalg.inv(old_frames[link])
    return np.eye(4)


def _counterpart(link: str, old: Robot, new: Robot) -> str:
    if link in new.links:
        return link
    for other in old.links:
        if other in new.links and old.mover(other) == old.mover(link):
            return other
    return new.find_link(link, f"spheres of {old.source}").name  # raises, with the nearest names


def _compare(
    link: str,
    name: str,
    old: Robot,
    new: Robot,
    old_frames: Mapping[str, Array],
    new_frames: Mapping[str, Array],
    between: Array,
) -> None:
    ours = [joint for joint in old.path(link) if joint.moves]
    theirs = [joint for joint in new.path(name) if joint.moves]

    def fail(joint: Joint, problem: str) -> None:
        label = f"joint {joint.name!r}"
        raise ModelError(
            f"{old.source}:{joint.line}: {label}: the spheres of link {link!r} do not fit {new.source}; "
            f"this is the first joint that differs: {problem}",
            old.source, joint.line, label,
        )  # fmt: skip

    for a, b in zip(ours, theirs, strict=False):
        if a.kind != b.kind and {a.kind, b.kind} != {"revolute", "continuous"}:
            fail(a, f"it is {a.kind}, and {b.name!r} there is {b.kind}")
        (place_a, axis_a), (place_b, axis_b) = _axis(a, between, old_frames), _axis(b, np.eye(4), new_frames)
        angle = float(np.linalg.norm(axis_a - axis_b))
        if angle > _TOLERANCE:
            degrees = np.degrees(2 * np.arcsin(min(angle / 2, 1)))
            fail(a, f"its axis and that of {b.name!r} are {degrees:.3g} degrees apart with all joints at 0")
        if a.kind == "prismatic":
            continue
        offset = place_a - place_b
        distance = float(np.linalg.norm(offset - (offset @ axis_b) * axis_b))
        if distance > _TOLERANCE:
            fail(a, f"its axis is {distance * 1e3:.3g} mm from that of {b.name!r} with all joints at 0")
    if len(ours) > len(theirs):
        fail(ours[len(theirs)], f"nothing moves there in {new.source}")
    if len(theirs) > len(ours):
        extra = theirs[len(ours)]
        raise ModelError(
            f"{new.source}:{extra.line}: joint {extra.name!r}: the spheres of link {link!r} do not fit; this "
            f"is the first joint that differs: nothing moves there in {old.source}",
            new.source, extra.line, f"joint {extra.name!r}",
        )  # fmt: skip


def _axis(joint: Joint, between: Array, frames: Mapping[str, Array]) -> tuple[Array, Array]:
    """A point of the axis, and its direction."""
    frame = between @ frames[joint.parent] @ joint.origin
    return frame[:3, 3], frame[:3, :3] @ joint.axis
