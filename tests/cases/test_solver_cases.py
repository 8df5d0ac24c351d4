"""Bugs of other IK software that must not happen here: targets, convergence, limits, batches, life cycle.

Every test is one reported case. P2 is a planar arm of 0.5 m and 0.3 m, R1P3 a turntable with three slides.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import hjcdik
import support
from support import Oracle, joint, planar, slides, strict, turn_difference, urdf, within_limits, yaw_pose

pytestmark = pytest.mark.all_devices


def solve(solver: hjcdik.Solver, poses: np.ndarray, **options: object) -> hjcdik.Result:
    return solver.solve(poses, collision=None, **options)


@pytest.fixture(scope="module")
def p2(device: str) -> hjcdik.Solver:
    return hjcdik.Solver(planar(), ee_link="l3", device=device)


@pytest.fixture(scope="module")
def r1p3(device: str) -> hjcdik.Solver:
    return hjcdik.Solver(slides(), ee_link="l4", device=device)


def test_b28_quaternions_off_norm_mean_the_same_as_normalised(panda: hjcdik.Solver) -> None:
    rounded = panda.sample_targets(50, seed=28)
    rounded[:, 3:] = rounded[:, 3:].round(3)
    normalised = rounded.copy()
    normalised[:, 3:] /= np.linalg.norm(rounded[:, 3:], axis=1, keepdims=True)
    doubled = rounded * [1, 1, 1, 2, 2, 2, 2]
    expected = solve(panda, normalised)
    assert (expected.outcome == "solved").all()
    for poses in (rounded, doubled):
        np.testing.assert_allclose(solve(panda, poses).q, expected.q, rtol=0, atol=1e-9)


@pytest.mark.parametrize("field", range(7))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_b29_a_value_that_is_not_finite_is_refused(panda: hjcdik.Solver, field: int, value: float) -> None:
    poses = panda.sample_targets(5)
    poses[3, field] = value
    name = ("x", "y", "z", "qw", "qx", "qy", "qz")[field]
    with pytest.raises(ValueError, match=rf"poses\[3\]: {name} is -?(nan|inf)"):
        solve(panda, poses)


def test_b29_a_zero_quaternion_is_refused(panda: hjcdik.Solver) -> None:
    poses = panda.sample_targets(9)
    poses[5, 3:] = 0
    with pytest.raises(ValueError, match=r"poses\[5\]: .*quaternion .*is zero"):
        solve(panda, poses)


def test_b30_quaternions_are_scalar_first(panda: hjcdik.Solver) -> None:
    pose = np.array([0.4, 0.1, 0.4, 0, 1, 0, 0])
    result = solve(panda, pose)
    assert result.outcome[0] == "solved"
    oracle = Oracle(hjcdik.preset_urdf("panda"), panda)
    _, rotations = oracle.poses(result.q[0])
    np.testing.assert_allclose(rotations[0], np.diag([1, -1, -1]), atol=1e-6)
    np.testing.assert_allclose(hjcdik.pose_xyzw([0.4, 0.1, 0.4, 1, 0, 0, 0]), pose)
    assert "wxyz" in (hjcdik.Solver.solve.__doc__ or "")
    assert "wxyz" in repr(result)


def test_b31_a_quaternion_and_its_negative_are_one_orientation(panda: hjcdik.Solver) -> None:
    poses = panda.sample_targets(50, seed=31)
    negative = poses * [1, 1, 1, -1, -1, -1, -1]
    a, b = (solve(panda, p, batch_size=1) for p in (poses, negative))
    np.testing.assert_allclose(a.q, b.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(a.ori_err_rad, b.ori_err_rad, rtol=0, atol=1e-12)


def test_b32_orientation_errors_of_zero_and_pi_are_exact(panda: hjcdik.Solver, device: str) -> None:
    q = panda.sample_configurations(20, seed=32)
    for row, pose in zip(q, panda.forward_kinematics(q), strict=True):
        result = solve(panda, pose, q_init=row)
        assert result.q[0, 0].tobytes() == row.tobytes()
        assert result.ori_err_rad[0, 0] < 1e-12
    # Slides alone cannot turn the tool: the error stays what it is.
    solver = hjcdik.Solver(slides(revolute=False), ee_link="l4", device=device)
    q = np.array([1.0, 2.0, 3.0])
    reached = solver.forward_kinematics(q)
    w, x, y, z = reached[3:]
    for turned in ([-x, w, z, -y], [-y, -z, w, x], [-z, y, -x, w]):  # by pi about the tool's x, y, z
        result = solve(solver, np.array([*reached[:3], *turned]), q_init=q)
        assert result.count[0] == 1
        assert result.ori_err_rad[0, 0] == pytest.approx(np.pi, abs=1e-12)
        assert result.outcome[0] == "approximate"


def test_b33_orientation_errors_do_not_wrap(device: str) -> None:
    yaw = float(np.deg2rad(-179.9))
    text = urdf(joint(1, "prismatic", rpy=f"0 0 {yaw!r}", limits=(0.0, 1.0)))
    solver = hjcdik.Solver(text, ee_link="l1", device=device)
    result = solve(solver, yaw_pose(0, 0, 0.5, np.deg2rad(179.9)))
    assert result.ori_err_rad[0, 0] == pytest.approx(0.003490659, abs=1e-9)


@pytest.mark.parametrize(
    ("robot", "q"),
    [
        *[("ur5e", (0.4, -1.2, 1.1, -0.7, wrist, 0.3)) for wrist in (0.0, 1e-7, 1e-3)],
        ("panda", (0.2, 0.5, -0.3, -0.0698, 0.4, 1.2, 0.6)),  # elbow as straight as it gets
        ("panda", (0.2, 0.5, -0.3, -0.07, 0.4, 1.2, 0.6)),
        ("iiwa14", (0.0,) * 7),  # straight up: tip on axis 1, wrist and elbow singular
        ("iiwa14", (0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.2)),
    ],
)
def test_b34_singular_targets_are_solved(
    presets: dict[str, hjcdik.Solver], robot: str, q: tuple[float, ...]
) -> None:
    solver = presets[robot]
    target = solver.forward_kinematics(q)[None]
    result = solve(solver, target, num_solutions=4)
    assert strict(Oracle(hjcdik.preset_urdf(robot), solver), result, target).all()
    assert np.isfinite(result.q[0, : result.count[0]]).all()


def test_b35_the_edge_of_reach(p2: hjcdik.Solver) -> None:
    edge, beyond, outside, far = (solve(p2, yaw_pose(x, 0, 0, 0))[0] for x in (0.8, 0.8 + 1e-9, 0.81, 10.0))
    for target in (edge, beyond):
        assert target.outcome == "solved"
        assert target.q[0, 1] == pytest.approx(0, abs=1e-5)
    for target, error_mm in ((outside, 10.0), (far, 9200.0)):
        assert target.count == 1
        assert np.isfinite(target.q).all()
        assert not target.ok(pos_mm=5, ori_rad=0.05).any()
        assert target.outcome == "approximate"
        # The nearest tool position costs orientation when the arm is not fully stretched.
        assert target.pos_err_mm[0] >= error_mm * (1 - 1e-9)
    assert outside.pos_err_mm[0] == pytest.approx(10, abs=0.1)


def test_b36_hopeless_targets_end_within_their_budget(
    panda: hjcdik.Solver, p2: hjcdik.Solver, device: str
) -> None:
    far = solve(panda, np.array([10.0, 0, 0, 1, 0, 0, 0]), stats=True)
    assert far.stats is not None
    assert 1 <= far.stats.n_refined[0] <= 16  # one round
    # Inside the reach but against the limits: all candidates are tried, once each.
    limited = solve(*support.hopeless(device), stats=True, batch_size=500)
    assert limited.stats is not None
    assert limited.stats.n_refined[0] == 500
    # Inside the reach, but a planar arm cannot tilt its tool.
    tilted = solve(p2, np.array([0.5, 0.2, 0, 0, 1, 0, 0]), stats=True, batch_size=500)
    assert tilted.stats is not None
    assert tilted.stats.n_refined[0] <= 500
    for result in (far, limited, tilted):
        assert result.outcome[0] == "approximate"
        assert result.elapsed_ms[0] < 500


def test_b37_approximate_rows_are_not_ok(panda: hjcdik.Solver, p2: hjcdik.Solver) -> None:
    for solver, pose in ((panda, [10.0, 0, 0, 1, 0, 0, 0]), (p2, [0.5, 0.2, 0, 0, 1, 0, 0])):
        result = solve(solver, np.array(pose), num_solutions=3)
        assert result.outcome[0] != "solved"
        assert not result.ok(pos_mm=5, ori_rad=0.05).any()
    assert ".ok(" in (hjcdik.__doc__ or "")
    readme = Path(__file__).resolve().parents[2] / "README.md"
    if readme.exists():
        example = re.search(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
        assert example is not None
        assert ".ok(" in example[1] or ".outcome" in example[1]


def near_limits(solver: hjcdik.Solver, count: int) -> np.ndarray:
    """Targets from configurations with about a third of the joints at a limit or just inside."""
    random = np.random.default_rng(38)
    lower, upper = np.array(solver.info.joint_limits).T
    q = random.uniform(lower, upper, (count, solver.info.dof))
    q = np.where(random.random(q.shape) < 0.2, lower + random.choice([0, 1e-9, 1e-4], q.shape), q)
    q = np.where(random.random(q.shape) < 0.2, upper - random.choice([0, 1e-9, 1e-4], q.shape), q)
    return solver.forward_kinematics(q)


def test_b38_reported_errors_are_those_of_the_returned_rows(presets: dict[str, hjcdik.Solver]) -> None:
    for name, solver in presets.items():
        targets = near_limits(solver, 300)
        result = solve(solver, targets, num_solutions=2)
        oracle = Oracle(hjcdik.preset_urdf(name), solver)
        rows, columns = np.nonzero(result.valid)
        q = result.q[rows, columns]
        distances, angles = oracle.errors(q, targets[rows])
        np.testing.assert_allclose(result.pos_err_mm[rows, columns], distances * 1e3, rtol=0, atol=1e-6)
        np.testing.assert_allclose(result.ori_err_rad[rows, columns], angles, rtol=0, atol=1e-9)
        positions, rotations = oracle.poses(q)
        poses = result.pose[rows, columns]
        np.testing.assert_allclose(poses[:, :3], positions, rtol=0, atol=1e-9)
        np.testing.assert_allclose(support.rotation_matrices(poses[:, 3:]), rotations, rtol=0, atol=1e-9)
        assert within_limits(solver.info, q).all()


def test_b39_limits_hold_without_tolerance(presets: dict[str, hjcdik.Solver]) -> None:
    for solver in presets.values():
        result = solve(solver, solver.sample_targets(10_000, seed=39))
        assert (result.outcome == "solved").all()
        assert within_limits(solver.info, result.q[:, 0]).all()


def test_b40_slides_do_not_wrap(r1p3: hjcdik.Solver) -> None:
    q = np.array([0.3, 5.0, 5.0, 5.0])
    result = solve(r1p3, r1p3.forward_kinematics(q))
    assert result.outcome[0] == "solved"
    np.testing.assert_allclose(result.q[0, 0], q, atol=1e-5)


def test_b41_unbounded_joints_are_sampled_finitely() -> None:
    text = planar(kinds=("continuous", "revolute"), limits=(None, (-np.pi, np.pi)))
    solver = hjcdik.Solver(text, ee_link="l3", device="cpu")
    assert np.isfinite(solver.sample_targets(1000)).all()
    q = solver.sample_configurations(1000)
    assert within_limits(solver.info, q).all()
    assert solver.info.joint_limits[0] == (-np.pi, np.pi)


@pytest.mark.parametrize("robot", ["iiwa14", "fetch"])
def test_b42_padding_is_nan_and_rows_are_real(presets: dict[str, hjcdik.Solver], robot: str) -> None:
    solver = presets[robot]
    # So far apart that few fit into the limits.
    result = solve(solver, solver.sample_targets(100), num_solutions=8, batch_size=100, distinct_rad=3.0)
    assert (result.count >= 1).all()
    assert (result.count < 8).mean() > 0.2
    valid = result.q[result.valid]
    assert within_limits(solver.info, valid).all()
    assert ((np.abs(valid) > 1e-300) | (valid == 0)).all()
    for array in (result.q, result.pose, result.pos_err_m, result.ori_err_rad):
        assert np.isnan(array[~result.valid]).all()
        assert np.isfinite(array[result.valid]).all()


def test_b43_the_near_equivalent_is_returned(presets: dict[str, hjcdik.Solver]) -> None:
    solver = presets["ur5e"]
    q_init = np.array([5.5, -1, 1, -1, -1, 0.2])
    result = solve(solver, solver.forward_kinematics(q_init + 0.05), q_init=q_init)
    assert result.outcome[0] == "solved"
    assert np.abs(result.q[0, 0] - q_init).max() < 0.1


def test_b44_an_answer_a_turn_off_is_found(device: str) -> None:
    text = planar(limits=((0.3927, 6.2832), (-np.pi, np.pi)))
    solver = hjcdik.Solver(text, ee_link="l3", device=device)
    result = solve(solver, solver.forward_kinematics([np.pi, 0.9]))
    assert result.outcome[0] == "solved"
    np.testing.assert_allclose(result.q[0, 0], [np.pi, 0.9], atol=1e-5)


def test_b45_tight_limits_do_not_hide_solutions(panda: hjcdik.Solver, device: str) -> None:
    text = hjcdik.preset_urdf("panda")
    for index in (4, 5):
        lower, upper = panda.info.joint_limits[index]
        middle = (lower + upper) / 2
        block = re.search(rf'<joint name="{panda.info.joint_names[index]}".*?</joint>', text, re.DOTALL)
        assert block is not None
        narrowed = re.sub(r'lower="[^"]*"', f'lower="{middle - 0.785!r}"', block[0])
        narrowed = re.sub(r'upper="[^"]*"', f'upper="{middle + 0.785!r}"', narrowed)
        text = text.replace(block[0], narrowed)
    solver = hjcdik.Solver(text, ee_link=panda.info.ee_link, device=device)
    for index in (4, 5):
        assert np.ptp(solver.info.joint_limits[index]) == pytest.approx(1.57)
    targets = solver.sample_targets(200, seed=45)
    assert strict(Oracle(text, solver), solve(solver, targets), targets).mean() >= 0.99


def test_b46_the_number_of_targets_may_change(panda: hjcdik.Solver) -> None:
    targets = panda.sample_targets(1000)
    whole = solve(panda, targets, num_solutions=2)
    for count in (1, 7, 1000, 0, 1):
        result = solve(panda, targets[:count], num_solutions=2)
        assert result.q.shape == (count, 2, 7)
        assert result.pose.shape == (count, 2, 7)
        assert result.pos_err_mm.shape == result.ori_err_rad.shape == result.valid.shape == (count, 2)
        assert result.count.shape == result.elapsed_ms.shape == result.outcome.shape == (count,)
        assert support.same_bits(result, whole[:count])


def resident_kib() -> int:
    status = Path("/proc/self/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+)", status)
    assert match is not None
    return int(match[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_b50_memory_stays_flat(panda: hjcdik.Solver) -> None:
    targets = panda.sample_targets(200)
    batches = [targets[:8], targets[8:16]]

    def calls(count: int) -> None:
        for i in range(count):
            solve(panda, targets[i % 200])
            if i % 20 == 0:
                solve(panda, batches[i // 20 % 2], num_solutions=3, stats=True)

    calls(2000)
    before = resident_kib()
    calls(20_000)
    assert resident_kib() - before < 1024


@pytest.mark.parametrize("solvers", [1, 2])
def test_b50_threads_get_what_a_single_one_gets(panda: hjcdik.Solver, device: str, solvers: int) -> None:
    pool = [panda, hjcdik.Solver("panda", device=device)][:solvers]
    targets = panda.sample_targets(800).reshape(8, 100, 7)
    expected = [solve(panda, part) for part in targets]
    results: list[list[hjcdik.Result]] = [[] for _ in targets]

    def work(index: int) -> None:
        solver = pool[index % solvers]
        results[index] = [solve(solver, pose) for pose in targets[index]]

    failures: list[str] = []
    support.run_side_by_side(work, failures)
    assert not failures
    for one, single in zip(expected, results, strict=True):
        assert len(single) == 100
        assert all(support.same_bits(one[i : i + 1], result) for i, result in enumerate(single))


def test_b43_turns_are_not_distance(presets: dict[str, hjcdik.Solver]) -> None:
    """Continuous joints: nearness is modulo a turn, so no flip across pi."""
    solver = presets["fetch"]
    q = np.zeros(7)
    for index, kind in enumerate(solver.info.joint_types):
        q[index] = 3.13 if kind == "continuous" else np.mean(solver.info.joint_limits[index]) + 0.2
    result = solve(solver, solver.forward_kinematics(q + 0.02), q_init=q)
    assert result.outcome[0] == "solved"
    assert turn_difference(solver.info, result.q[0, 0], q).max() < 0.2
