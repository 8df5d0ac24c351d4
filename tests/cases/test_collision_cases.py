"""Bugs of other collision checkers that must not happen here. Every test is one reported case."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hjcdik
from support import joint, urdf

pytestmark = pytest.mark.all_devices

AWAY = 5.0  # m, out of every arm's reach


def ball(radius: float, device: str, xyz: tuple[float, float, float] = (0, 0, 0)) -> hjcdik.Solver:
    """A slide along x that carries one sphere, at `xyz` where it is at 0."""
    text = urdf(joint(1, "prismatic", axis="1 0 0", limits=(-2.0, 2.0)), name="ball")
    model = json.dumps({"spheres": {"l1": [[*xyz, radius]]}})
    return hjcdik.Solver(text, ee_link="l1", spheres=model, device=device)


def free_target(panda: hjcdik.Solver) -> np.ndarray:
    """A pose in front of the arm."""
    return np.array([0.45, 0.1, 0.45, 0.0, 1.0, 0.0, 0.0])


def around(kind: str, centre: np.ndarray, size: float) -> list[float]:
    """An obstacle of this kind that fills a ball of the diameter `size` about the centre."""
    x, y, z = centre.tolist()
    rows = {
        "boxes": [x, y, z, 1, 0, 0, 0, size, size, size],
        "capsules": [x, y, z - size / 4, x, y, z + size / 4, size / 2],
        "cylinders": [x, y, z, 1, 0, 0, 0, size / 2, size],
        "spheres": [x, y, z, size / 2],
    }
    return rows[kind]


def verdict(solver: hjcdik.Solver, target: np.ndarray) -> str:
    """The outcome of a hard solve, which must agree with what is returned and with check."""
    result = solver.solve(target, collision="hard", num_solutions=2)
    assert solver.check(result[0].q).free.all()
    outcome = str(result.outcome[0])
    assert (result.count[0] > 0) == (outcome == "solved")
    return outcome


def test_b47_a_changed_world_counts_at_once(panda: hjcdik.Solver) -> None:
    target = free_target(panda)
    on_goal = around("boxes", target[:3], 0.3)
    away = [AWAY, *on_goal[1:]]
    try:
        assert verdict(panda, target) == "solved"
        for _ in range(2):
            panda.set_world(boxes=[on_goal])
            assert verdict(panda, target) == "environment_collision"
            panda.set_world(boxes=[away])
            assert verdict(panda, target) == "solved"
        panda.set_world(boxes=[on_goal])
        panda.clear_world()
        assert verdict(panda, target) == "solved"
        panda.set_world(boxes=[on_goal, away])
        panda.set_world(boxes=[away])
        assert verdict(panda, target) == "solved"
        panda.set_world(boxes=[away] * 20 + [on_goal])
        assert verdict(panda, target) == "environment_collision"
    finally:
        panda.clear_world()


@pytest.mark.parametrize("exact_cylinders", [False, True])
@pytest.mark.parametrize("kind", ["spheres", "capsules", "cylinders", "boxes"])
def test_b47_each_kind_alone_is_seen(panda: hjcdik.Solver, kind: str, exact_cylinders: bool) -> None:
    target = free_target(panda)
    try:
        panda.set_world(**{kind: [around(kind, target[:3], 0.3)]}, exact_cylinders=exact_cylinders)
        assert verdict(panda, target) == "environment_collision"
        far = np.add(target[:3], [AWAY, 0, 0])
        panda.set_world(**{kind: [around(kind, far, 0.3)]}, exact_cylinders=exact_cylinders)
        assert verdict(panda, target) == "solved"
    finally:
        panda.clear_world()


def test_b48_the_gap_between_a_box_and_a_ball(device: str) -> None:
    solver = ball(0.04, device, xyz=(0.40, 0.0, 0.25))
    solver.set_world(boxes=[[0.6, 0, 0.25, 1, 0, 0, 0, 0.3, 0.3, 0.5]])
    target = solver.forward_kinematics([0.0])
    for margin, free in ((0.0, True), (0.009, True), (0.011, False)):
        result = solver.check([0.0], collision_margin_m=margin)
        assert result.free[0] == free
        assert result.clearance_m[0] == pytest.approx(0.01, abs=1e-12)
        assert (result.link[0], result.other[0]) == ("l1", "boxes[0]")
        solved = solver.solve(target, collision="hard", collision_margin_m=margin)
        assert (solved.outcome[0] == "solved") == free
        # What is farther from the box by a millimetre is free, and near enough to be returned.
        assert solver.check(solved[0].q, collision_margin_m=margin).free.all()


@pytest.mark.parametrize(
    ("box", "field"),
    [
        ({7: 0.0}, "sx is 0"),
        ({8: -0.3}, "sy is -0.3"),
        ({9: np.nan}, "sz is nan"),
        ({0: np.nan}, "cx is nan"),
        ({3: 0.0}, "the quaternion qw qx qy qz is zero"),
    ],
)
def test_b48_what_is_no_box_is_refused(device: str, box: dict[int, float], field: str) -> None:
    solver = ball(0.04, device)
    row = [0.6, 0, 0.25, 1, 0, 0, 0, 0.3, 0.3, 0.5]
    for column, value in box.items():
        row[column] = value
    with pytest.raises(ValueError, match=rf"boxes\[0\]: {field}"):
        solver.set_world(boxes=[row])


def test_b48_a_capsule_with_equal_ends_is_a_sphere(device: str) -> None:
    solver = ball(0.04, device)
    q = np.linspace(-1, 1, 41)[:, None]
    solver.set_world(capsules=[[0.1, 0.1, 0.05, 0.1, 0.1, 0.05, 0.15]])
    capsule = solver.check(q)
    solver.set_world(spheres=[[0.1, 0.1, 0.05, 0.15]])
    sphere = solver.check(q)
    np.testing.assert_allclose(capsule.clearance_m, sphere.clearance_m, rtol=0, atol=1e-12)
    assert 0 < np.count_nonzero(sphere.free) < len(q)
    assert np.array_equal(capsule.free, sphere.free)


@pytest.mark.parametrize(("exact", "gap"), [(True, 0.03), (False, -0.02)])
def test_b49_past_the_flat_face_of_a_cylinder(device: str, exact: bool, gap: float) -> None:
    """The capsule in its place reaches its radius farther; the exact cylinder does not."""
    solver = ball(0.01, device, xyz=(0.0, 0.0, 0.14))
    solver.set_world(cylinders=[[0, 0, 0, 1, 0, 0, 0, 0.05, 0.2]], exact_cylinders=exact)
    result = solver.check([0.0])
    assert result.clearance_m[0] == pytest.approx(gap, abs=1e-12)
    assert result.free[0] == exact
    assert (result.link[0], result.other[0]) == ("l1", "cylinders[0]")
    solved = solver.solve(solver.forward_kinematics([0.0]), collision="hard")
    assert solved.outcome[0] == ("solved" if exact else "environment_collision")


@pytest.mark.parametrize("exact", [False, True])
def test_b49_both_cylinders_agree_beside_it(device: str, exact: bool) -> None:
    solver = ball(0.01, device, xyz=(0.1, 0.0, 0.05))
    solver.set_world(cylinders=[[0, 0, 0, 1, 0, 0, 0, 0.05, 0.2]], exact_cylinders=exact)
    assert solver.check([0.0]).clearance_m[0] == pytest.approx(0.04, abs=1e-12)
