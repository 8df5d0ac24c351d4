"""What solves find: accuracy by independent kinematics, determinism, warm starts, distinct rows, scale."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hjcdik
import support
from support import Oracle, same_bits, strict, turn_difference, within_limits

ROBOTS = (
    ("panda.urdf", "panda_hand_joint"),
    ("panda.urdf", "panda_grasptarget_hand"),
    ("iiwa14.urdf", "iiwa_joint_ee"),
    ("ur5e.urdf", "flange-tool0"),
    ("fetch_arm.urdf", "gripper_axis"),
    ("fetch_planar_reference.urdf", "ee_fixed"),
    ("panda_ext_12dof.urdf", "panda_hand_joint"),
    ("panda_ext_18dof.urdf", "panda_hand_joint"),
    ("panda_ext_24dof.urdf", "panda_hand_joint"),
)
TARGET_FILES = ("open_targets_seed0", "open_targets_cp_seed0")
pytestmark = pytest.mark.all_devices
properties = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


def solve(solver: hjcdik.Solver, poses: Any, **options: Any) -> hjcdik.Result:
    return solver.solve(poses, collision=None, **options)


@pytest.fixture(scope="session")
def panda_oracle(panda: hjcdik.Solver) -> Oracle:
    return Oracle(hjcdik.preset_urdf("panda"), panda)


# --- accuracy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("file", TARGET_FILES)
def test_every_given_target_is_solved_strictly(data_dir: Path, file: str, backend: str) -> None:
    sets = support.target_sets(data_dir, file)
    assert len(sets) >= 8
    for entry in sets:
        path = data_dir / "robots" / entry["robot"]
        solver = hjcdik.Solver(path, ee_link=entry["ee_joint"], device=backend)
        assert solver.info.dof == entry["dof"]
        targets = np.array(entry["targets"])
        result = solve(solver, targets)
        good = strict(Oracle(path.read_text(), solver), result, targets)
        assert good.all(), f"{entry['robot']}: target {np.flatnonzero(~good).tolist()}"
        assert (result.outcome == "solved").all()


def test_no_robot_is_left_out(data_dir: Path) -> None:
    assert {robot for robot, _ in ROBOTS} == {path.name for path in (data_dir / "robots").glob("*.urdf")}


@pytest.mark.parametrize(("robot", "ee_joint"), ROBOTS)
def test_sampled_targets_are_solved_strictly(data_dir: Path, robot: str, ee_joint: str, device: str) -> None:
    path = data_dir / "robots" / robot
    solver = hjcdik.Solver(path, ee_link=ee_joint, device=device)
    targets = solver.sample_targets(200, seed=11)
    assert strict(Oracle(path.read_text(), solver), solve(solver, targets), targets).all()


@pytest.mark.parametrize(("batch_size", "bar"), [(1, 0.99), (10, 1.0)])
def test_few_candidates_find_nearly_everything(
    panda: hjcdik.Solver, panda_oracle: Oracle, batch_size: int, bar: float
) -> None:
    targets = panda.sample_targets(1000, seed=12)
    assert strict(panda_oracle, solve(panda, targets, batch_size=batch_size), targets).mean() >= bar


def test_samples_are_those_of_the_public_sampler(data_dir: Path) -> None:
    for entry in support.target_sets(data_dir, "open_targets_cp_seed0"):
        solver = hjcdik.Solver(data_dir / "robots" / entry["robot"], ee_link=entry["ee_joint"], device="cpu")
        given_targets = np.array(entry["targets"])
        samples = solver.sample_targets(len(given_targets), seed=entry["seed"])
        np.testing.assert_allclose(solver.sample_configurations(1)[0], entry["q0"], rtol=0, atol=1e-6)
        np.testing.assert_allclose(samples[:, :3], given_targets[:, :3], rtol=0, atol=1e-6)
        alignment = np.abs(np.sum(samples[:, 3:] * given_targets[:, 3:], axis=1))
        np.testing.assert_allclose(alignment, 1, rtol=0, atol=1e-11)


@pytest.mark.parametrize("precision", ["auto", "fp32", "fp64"])
def test_precisions(precision: str, backend: str) -> None:
    solver = hjcdik.Solver("panda", device=backend)
    oracle = Oracle(hjcdik.preset_urdf("panda"), solver)
    targets = solver.sample_targets(300, seed=13)
    result = solve(solver, targets, precision=precision)
    bar = 2e-5 if precision == "fp32" else 1e-9
    distances, angles = oracle.errors(result.q[:, 0], targets)
    assert distances.max() < bar
    assert angles.max() < bar
    # Reported in float64 in every precision.
    np.testing.assert_allclose(result.pos_err_m[:, 0], distances, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.ori_err_rad[:, 0], angles, rtol=0, atol=1e-12)
    assert within_limits(solver.info, result.q).all()
    if precision == "fp64":
        assert same_bits(result, solve(solver, targets))


@pytest.mark.parametrize("order", ["sweep", "greedy"])
@pytest.mark.parametrize("sweeps", [0, 1, 3])
def test_coarse_sweeps(panda: hjcdik.Solver, panda_oracle: Oracle, sweeps: int, order: str) -> None:
    targets = panda.sample_targets(200, seed=14)
    result = solve(panda, targets, coarse_sweeps=sweeps, coarse_order=order)
    assert strict(panda_oracle, result, targets).all()
    if sweeps:
        assert not same_bits(result, solve(panda, targets, coarse_sweeps=0))


def test_other_seeds_find_other_rows(panda: hjcdik.Solver) -> None:
    targets = panda.sample_targets(100, seed=15)
    default = solve(panda, targets)
    assert same_bits(default, solve(panda, targets, seed=1337))
    assert same_bits(default, solve(panda, targets, seed=None))
    others = [solve(panda, targets, seed=seed) for seed in (0, 1, 2**32 - 1)]
    for other in others:
        assert (other.outcome == "solved").all()
        assert (np.abs(other.q - default.q).max((1, 2)) > 1e-3).mean() > 0.5


# --- determinism --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"num_solutions": 5}, {"batch_size": 7, "num_solutions": 2}])
def test_the_same_bits_at_any_size_and_number_of_threads(backend: str, options: dict[str, Any]) -> None:
    """T = 1, 7, 1000, chunked, threads 1, 2 and 5, with hopeless targets between the others."""
    reference = hjcdik.Solver("panda", device=backend, threads=1)
    assert reference.info.isa == ("" if backend == "cuda" else os.environ["HJCDIK_ISA"])
    targets = reference.sample_targets(1000, seed=16)
    targets[::97, 2] = 3.0  # out of reach
    targets[5::97, 3:] = [1, 0, 0, 0]  # in reach or not, as it may be
    expected = solve(reference, targets, **options)
    for threads in (1, 2, 5):
        solver = hjcdik.Solver("panda", device=backend, threads=threads)
        assert same_bits(solve(solver, targets, **options), expected)
        for size in (7, 333):
            for first in range(0, 1000, size):
                part = solve(solver, targets[first : first + size], **options)
                assert same_bits(part, expected[first : first + size]), (threads, size, first)
        for i in range(0, 1000, 9):
            assert same_bits(solve(solver, targets[i], **options), expected[i : i + 1]), (threads, i)


@properties
@given(data=st.data())
def test_order_and_company_of_targets_do_not_matter(panda: hjcdik.Solver, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 40))
    targets = panda.sample_targets(count, seed=data.draw(st.integers(0, 2**63)))
    options: dict[str, Any] = {
        "num_solutions": data.draw(st.integers(1, 12)),
        "batch_size": data.draw(st.sampled_from([1, 2, 3, 10, 64, 65, 2000])),
        "seed": data.draw(st.integers(0, 2**32 - 1)),
        "distinct_rad": data.draw(st.sampled_from([0.0, 0.05, 1.0])),
        "coarse_sweeps": data.draw(st.sampled_from([None, 0, 2])),
    }
    if data.draw(st.booleans()):
        options["q_init"] = panda.sample_configurations(data.draw(st.integers(1, options["batch_size"])))[:5]
    whole = solve(panda, targets, **options)
    order = data.draw(st.permutations(range(count)))
    shuffled = solve(panda, targets[order], **options)
    for position, i in enumerate(order):
        assert same_bits(shuffled[position : position + 1], whole[i : i + 1])
    one = data.draw(st.integers(0, count - 1))
    assert same_bits(solve(panda, targets[one], **options), whole[one : one + 1])


@properties
@given(
    poses=st.lists(
        st.tuples(*[st.floats(-3, 3)] * 3, *[st.floats(-1, 1)] * 4).filter(lambda p: any(p[3:])), max_size=20
    ),
    capacity=st.integers(1, 9),
    batch_size=st.sampled_from([1, 5, 100]),
)
def test_results_keep_their_promises_for_any_pose(
    panda: hjcdik.Solver,
    panda_oracle: Oracle,
    poses: list[tuple[float, ...]],
    capacity: int,
    batch_size: int,
) -> None:
    targets = np.array(poses).reshape(-1, 7)
    before = targets.copy()
    result = solve(panda, targets, num_solutions=capacity, batch_size=batch_size, stats=True)
    np.testing.assert_array_equal(targets, before)
    assert result.q.shape == (len(targets), capacity, 7)
    rows, columns = np.nonzero(result.valid)
    q = result.q[rows, columns]
    assert within_limits(panda.info, q).all()
    distances, angles = panda_oracle.errors(q, targets[rows]) if len(rows) else (np.zeros(0), np.zeros(0))
    np.testing.assert_allclose(result.pos_err_m[rows, columns], distances, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(result.ori_err_rad[rows, columns], angles, rtol=1e-9, atol=1e-8)
    converged = (result.pos_err_m < 1e-6) & (result.ori_err_rad < 1e-6)
    for i, target in enumerate(result):
        assert target.outcome == (
            "solved" if converged[i, 0] else "approximate" if target.count else "no_accurate"
        )
        if target.outcome == "approximate":
            # In order of error, and nothing better left behind.
            score = target.pos_err_m + 0.3 * target.ori_err_rad
            assert (np.diff(score) >= 0).all()
        for a in range(target.count):
            for b in range(a):
                assert turn_difference(panda.info, target.q[a], target.q[b]).max() >= 0.05


# --- warm starts --------------------------------------------------------------------------------


def test_an_exact_warm_start_is_returned_bit_for_bit(presets: dict[str, hjcdik.Solver]) -> None:
    for solver in presets.values():
        q = solver.sample_configurations(50, seed=17)
        targets = solver.forward_kinematics(q)
        for precision in ("auto", "fp32"):
            result = solve(solver, targets, q_init=q[:, None], precision=precision)
            assert result.q[:, 0].tobytes() == q.tobytes()


def test_warm_starts_come_first_and_rank_by_nearness(panda: hjcdik.Solver, panda_oracle: Oracle) -> None:
    q = panda.sample_configurations(100, seed=18)
    targets = panda.forward_kinematics(q)
    near = q + np.random.default_rng(18).uniform(-0.05, 0.05, q.shape)
    result = solve(panda, targets, q_init=near[:, None], num_solutions=4)
    assert strict(panda_oracle, result, targets).all()
    lower, upper = np.array(panda.info.joint_limits).T
    start = np.clip(near, lower, upper)
    distances = np.linalg.norm(result.q - start[:, None], axis=2)
    assert (np.nan_to_num(np.diff(distances, axis=1), nan=1) >= -1e-9).all()
    assert (distances[:, 0] < 0.4).mean() > 0.95
    unseeded = np.linalg.norm(solve(panda, targets).q[:, 0] - start, axis=1)
    assert np.median(unseeded) > 3 * np.median(distances[:, 0])


def test_shapes_of_warm_starts_agree(panda: hjcdik.Solver) -> None:
    targets = panda.sample_targets(6, seed=19)
    q = panda.sample_configurations(3, seed=20)
    shared = solve(panda, targets, q_init=q)
    assert same_bits(shared, solve(panda, targets, q_init=np.tile(q, (6, 1, 1))))
    assert same_bits(shared, solve(panda, targets, q_init=q.tolist()))
    single = solve(panda, targets, q_init=q[0])
    assert same_bits(single, solve(panda, targets, q_init=q[:1]))
    named = dict(zip(panda.info.joint_names, q[0].tolist(), strict=True))
    assert same_bits(single, solve(panda, targets, q_init=dict(reversed(named.items()))))
    assert same_bits(solve(panda, targets), solve(panda, targets, q_init=np.zeros((0, 7))))
    assert same_bits(solve(panda, targets[:0], q_init=np.zeros((0, 2, 7))), solve(panda, targets[:0]))
    assert (solve(panda, targets, q_init=q, batch_size=3).count == 1).all()


def test_warm_starts_outside_the_limits_are_put_into_them(presets: dict[str, hjcdik.Solver]) -> None:
    solver = presets["fetch"]
    targets = solver.sample_targets(20, seed=21)
    for q_init in (np.full(7, 50.0), np.full(7, -50.0), np.full(7, 1e6)):
        result = solve(solver, targets, q_init=q_init)
        assert (result.outcome == "solved").all()
        assert within_limits(solver.info, result.q).all()


def test_all_warm_starts_run_to_their_end(panda: hjcdik.Solver) -> None:
    """The nearest row comes from the last warm start as well as from the first."""
    q = panda.sample_configurations(2, seed=22)
    target = panda.forward_kinematics(q[1])
    result = solve(panda, target, q_init=q)
    np.testing.assert_array_equal(result.q[0, 0], q[1])


# --- several rows -------------------------------------------------------------------------------


@pytest.mark.parametrize("distinct_rad", [0.05, 0.5, 2.0])
def test_rows_are_distinct(panda: hjcdik.Solver, panda_oracle: Oracle, distinct_rad: float) -> None:
    targets = panda.sample_targets(20, seed=23)
    result = solve(panda, targets, num_solutions=40, distinct_rad=distinct_rad)
    for i, target in enumerate(result):
        assert target.count >= 2
        assert strict(panda_oracle, result[i : i + 1], targets[i : i + 1]).all()
        difference = turn_difference(panda.info, target.q[:, None], target.q[None]).max(-1)
        assert difference[~np.eye(target.count, dtype=bool)].min() >= distinct_rad
        assert target.ok(1e-3, 1e-6).all()


def test_more_rows_begin_with_the_same_rows(panda: hjcdik.Solver) -> None:
    targets = panda.sample_targets(50, seed=24)
    few, many = (solve(panda, targets, num_solutions=s) for s in (3, 11))
    assert few.q.tobytes() == many.q[:, :3].tobytes()


def test_a_ur5e_has_at_most_eight_answers(presets: dict[str, hjcdik.Solver]) -> None:
    solver = presets["ur5e"]
    targets = solver.sample_targets(200, seed=25)
    result = solve(solver, targets, num_solutions=32)
    assert result.count.max() == 8
    assert result.count.min() >= 2
    assert (result.count % 2 == 0).mean() > 0.9
    oracle = Oracle(hjcdik.preset_urdf("ur5e"), solver)
    rows, columns = np.nonzero(result.valid)
    distances, angles = oracle.errors(result.q[rows, columns], targets[rows])
    assert max(distances.max(), angles.max()) < 1e-6


def test_thousands_of_rows_take_linear_time_and_memory(panda: hjcdik.Solver) -> None:
    target = panda.sample_targets(1, seed=26)

    def seconds(rows: int) -> float:
        best = np.inf
        for _ in range(3):
            start = time.perf_counter()
            result = solve(panda, target, num_solutions=rows, batch_size=8 * rows, distinct_rad=0.0)
            best = min(best, time.perf_counter() - start)
        assert result.count[0] == rows
        assert len(np.unique(result.q[0], axis=0)) == rows
        return best

    seconds(500)
    assert seconds(8000) < 4 * 8 * max(seconds(1000), 1e-3)


# --- life ---------------------------------------------------------------------------------------


def test_errors_of_one_target_do_not_spoil_the_others(panda: hjcdik.Solver) -> None:
    targets = panda.sample_targets(100, seed=27)
    spoilt = targets.copy()
    spoilt[::3, :3] = [40.0, 0.0, 0.0]
    result, expected = solve(panda, spoilt), solve(panda, targets)
    kept = np.arange(100) % 3 != 0
    assert (result.outcome[~kept] == "approximate").all()
    assert result.q[kept].tobytes() == expected.q[kept].tobytes()


def test_the_interpreter_runs_on_during_a_solve(device: str) -> None:
    solver, pose = support.hopeless(device, threads=1)
    targets = np.tile(pose, (300 if device == "cpu" else 300_000, 1))
    done = threading.Event()

    def work() -> None:
        solve(solver, targets)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    ticks = 0
    while not done.is_set() and ticks < 1_000_000:
        ticks += 1
        time.sleep(0)
    thread.join()
    assert ticks > 100


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_a_long_solve_can_be_interrupted(device: str) -> None:
    solver, pose = support.hopeless(device, threads=1)
    targets = np.tile(pose, (100_000 if device == "cpu" else 4_000_000, 1))

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    start = time.perf_counter()
    try:
        with pytest.raises(KeyboardInterrupt):
            solve(solver, targets, batch_size=500)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert time.perf_counter() - start < 10
    assert solve(solver, support.yaw_pose(0.8, 0, 0, 0)).outcome[0] == "solved"


def test_the_instruction_set_is_taken_from_the_environment() -> None:
    """In a fresh process, as users do it; every set solves strictly by its own float64 errors."""
    program = (
        "import hjcdik\n"
        "s = hjcdik.Solver(device='cpu')\n"
        "r = s.solve(s.sample_targets(200), collision=None)\n"
        "print(s.info.isa, bool((r.outcome == 'solved').all()))\n"
    )
    for isa in hjcdik.build_info()["isas"]:
        environment = {**os.environ, "HJCDIK_ISA": isa}
        output = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert output.stdout.split() == [isa, "True"]


def test_the_python_layer_is_thin(panda: hjcdik.Solver) -> None:
    """A generous bar, for machines that are busy with other things; the benchmarks give figures."""
    target = panda.sample_targets(1)[0]
    solve(panda, target)
    times = []
    for _ in range(300):
        start = time.perf_counter()
        result = solve(panda, target)
        times.append(time.perf_counter() - start - result.elapsed_ms[0] * 1e-3)
    assert np.median(times) < 100e-6
