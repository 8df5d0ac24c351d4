"""Solves among obstacles, judged by benchmarks/judge.py, which shares no code with the library."""

from __future__ import annotations

import gc
import json
import pickle
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hjcdik
from support import differences, joint, rotation_matrices, run_side_by_side, same_bits, turn_difference, urdf

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import mbm
from judge import Judge, _distances

pytestmark = pytest.mark.all_devices
properties = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)

# The packaged robot, its tool and the data folder's sphere model, which is the preset's too.
ARMS = {
    "panda_foam": ("panda", "panda_hand", "panda_foam"),
    "panda_curobo": ("panda", "panda_hand", "panda_curobo"),
    "iiwa14": ("iiwa14", "iiwa_link_ee_kuka", "iiwa14_fitted"),
    "ur5e": ("ur5e", "tool0", "ur5e_fitted"),
}
BATCH_SIZES = (1, 10, 100, 2000)
# The fallback's bars.
NEAR_M, NEAR_RAD = 5e-3, 0.05


class Arm(NamedTuple):
    solver: hjcdik.Solver
    judge: Judge


@pytest.fixture(scope="session")
def arms(device: str, data_dir: Path) -> Callable[[str], Arm]:
    """A solver and a judge of the same robot, by name; solvers come back without obstacles."""
    made: dict[str, Arm] = {}

    def make(name: str) -> Arm:
        if name not in made:
            robot, tool, model = ARMS[name]
            text, spheres = hjcdik.preset_urdf(robot), data_dir / "spheres" / f"{model}.json"
            solver = hjcdik.Solver(text, ee_link=tool, spheres=spheres, device=device)
            judge = Judge(text, tool, spheres)
            assert tuple(judge.joint_names) == solver.info.joint_names
            made[name] = Arm(solver, judge)
        made[name].solver.clear_world()
        return made[name]

    return make


@pytest.fixture(scope="session")
def problems(data_dir: Path) -> list[tuple[dict[str, np.ndarray], np.ndarray]]:
    """Worlds and goals: three of each MotionBenchMaker set, and those that have an answer for both models."""
    chosen = []
    solvable = [mbm.solvable(model, 0.0) for model in mbm.MODELS]
    for name, items in mbm.problems().items():
        both = sorted(set(solvable[0][name]) & set(solvable[1][name]))
        chosen += [(mbm.world(items[i]), mbm.goal(items[i])) for i in both[:: len(both) // 3][:3]]
    assert len(chosen) == 24
    return chosen


@pytest.fixture(scope="session")
def cage(problems: list[tuple[dict[str, np.ndarray], np.ndarray]]) -> dict[str, np.ndarray]:
    """A world that is in the way of many targets."""
    return max((world for world, _ in problems), key=lambda world: len(world["boxes"]))


def assert_holds(
    arm: Arm,
    result: hjcdik.Result,
    targets: np.ndarray,
    worlds: list[Any],
    *,
    margin: float = 0.0,
    self_collision: bool = True,
    strict_m: float = 1e-6,
) -> None:
    """All that "hard" and "both" promise of their rows."""
    assert len(result) == len(targets) == len(worlds)
    for target, pose, world in zip(result, targets, worlds, strict=True):
        outcome, q = str(target.outcome), target.q
        assert (outcome in ("solved", "approximate")) == (target.count > 0), outcome
        if target.count == 0:
            continue
        own, obstacles = arm.judge.clearances(q, world)
        free = (obstacles >= margin) & ((own >= 0) | (not self_collision))
        assert free.all(), (outcome, own, obstacles)
        assert arm.judge.inside_limits(q).all()
        distances, angles = arm.judge.pose_errors(q, pose)
        np.testing.assert_allclose(distances, target.pos_err_m, rtol=0, atol=1e-11)
        np.testing.assert_allclose(angles, target.ori_err_rad, rtol=0, atol=1e-9)
        if outcome == "solved":
            assert arm.judge.strict(q[:1], pose).all()
            assert max(distances.max(), angles.max()) < strict_m
        else:
            assert distances.max() < NEAR_M
            assert angles.max() < NEAR_RAD
            assert (np.diff(distances + 0.3 * angles) >= -1e-12).all()


def penetrations(judge: Judge, q: np.ndarray, world: Any) -> np.ndarray:
    """The sum over all spheres of how deep they are in the obstacle that they are deepest in, m."""
    spheres = judge.spheres_at(q)
    points, radii = np.moveaxis(spheres[..., :3], 2, 0), spheres[..., 3]
    depths = np.stack([radii - distance(points) for distance in _distances(world)])
    return np.maximum(depths.max(axis=0), 0).sum(axis=1)


def outcomes(result: hjcdik.Result) -> set[str]:
    return set(result.outcome.tolist())


def box(x: float, y: float, z: float, *sides: float) -> list[float]:
    return [x, y, z, 1, 0, 0, 0, *sides]


def slide(device: str, spheres: dict[str, list[list[float]]], **options: Any) -> hjcdik.Solver:
    """Slides along x and y, l1 and l2, which carry spheres; its answers are unique."""
    text = urdf(
        joint(1, "prismatic", axis="1 0 0", limits=(-2.0, 2.0)),
        joint(2, "prismatic", axis="0 1 0", limits=(-2.0, 2.0)),
        name="slide",
    )
    model = json.dumps({"spheres": spheres})
    return hjcdik.Solver(text, ee_link="l2", spheres=model, device=device, **options)


# --- the MotionBenchMaker problems --------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("model", mbm.MODELS)
def test_problems_are_solved_strictly_and_free(
    arms: Callable[[str], Arm], problems: list[Any], model: str, batch_size: int, rows: int
) -> None:
    arm = arms(model)
    worlds, targets = [world for world, _ in problems], np.array([goal for _, goal in problems])
    arm.solver.set_worlds(worlds)
    result = arm.solver.solve(
        targets, world_index=np.arange(len(targets)), batch_size=batch_size, num_solutions=rows
    )
    assert_holds(arm, result, targets, worlds)
    solved = result.outcome == "solved"
    assert solved.sum() >= len(targets) - (2 if batch_size == 1 else 0)
    assert (result.count[solved] >= 1).all()
    if rows == 4 and batch_size == 2000:
        assert result.count.mean() > 3.5
    for target in result:
        difference = turn_difference(arm.solver.info, target.q[:, None], target.q[None]).max(-1)
        assert (difference[~np.eye(target.count, dtype=bool)] >= 0.05).all()


def test_more_candidates_solve_what_fewer_do(arms: Callable[[str], Arm], cage: dict[str, np.ndarray]) -> None:
    """Nearly: they are not the same starts."""
    arm = arms("panda_foam")
    arm.solver.set_world(**cage)
    targets = arm.solver.sample_targets(1000, seed=1)
    few, many = (arm.solver.solve(targets, batch_size=size).outcome == "solved" for size in (10, 2000))
    assert 0.2 < few.mean() < 0.95
    assert np.count_nonzero(few & ~many) <= 2
    assert np.count_nonzero(many) >= np.count_nonzero(few)


# --- many worlds and targets in one call --------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"num_solutions": 4}, {"collision": "both", "num_solutions": 2, "batch_size": 30}, {"stats": True}],
    ids=str,
)
def test_many_worlds_in_one_call_are_one_by_one(
    arms: Callable[[str], Arm], problems: list[Any], options: dict[str, Any]
) -> None:
    arm = arms("panda_curobo")
    worlds = [world for world, _ in problems]
    random = np.random.default_rng(1)
    index = random.integers(-1, len(worlds), 150)
    targets = arm.solver.sample_targets(150, seed=2)
    targets[::2] = [problems[i][1] for i in random.integers(0, len(problems), 75)]
    arm.solver.set_worlds(worlds)
    together = arm.solver.solve(targets, world_index=index, **options)
    assert_holds(arm, together, targets, [worlds[i] if i >= 0 else {} for i in index])
    assert {"solved", "environment_collision"} <= outcomes(together)
    for world in range(-1, len(worlds)):
        arm.solver.set_world(**(worlds[world] if world >= 0 else {}))
        for t in np.flatnonzero(index == world):
            alone = arm.solver.solve(targets[t], **options)
            assert same_bits(alone, together[t : t + 1]), (world, t)
            if together.stats is not None:
                assert alone.stats is not None
                assert alone.stats[0] == together.stats[t]


@pytest.mark.parametrize("options", [{}, {"num_solutions": 4, "batch_size": 50}], ids=str)
def test_the_same_bits_at_any_size_and_number_of_threads(
    backend: str, data_dir: Path, cage: dict[str, np.ndarray], options: dict[str, Any]
) -> None:
    text, spheres = hjcdik.preset_urdf("panda"), data_dir / "spheres" / "panda_curobo.json"
    solvers = [
        hjcdik.Solver(text, ee_link="panda_hand", spheres=spheres, device=backend, threads=threads)
        for threads in (1, 2, 5)
    ]
    targets = solvers[0].sample_targets(300, seed=3)
    targets[::50, 2] = 3.0
    for solver in solvers:
        solver.set_world(**cage)
    expected = solvers[0].solve(targets, **options)
    assert len(outcomes(expected)) >= 3
    for solver in solvers:
        assert differences(solver.solve(targets, **options), expected) == []
        for size in (7, 110):
            for first in range(0, 300, size):
                part = slice(first, first + size)
                assert differences(solver.solve(targets[part], **options), expected[part]) == [], part
        for t in range(0, 300, 11):
            assert differences(solver.solve(targets[t], **options), expected[t : t + 1]) == [], t


def test_one_row_is_the_first_of_many(arms: Callable[[str], Arm], cage: dict[str, np.ndarray]) -> None:
    arm = arms("panda_foam")
    arm.solver.set_world(**cage)
    targets = arm.solver.sample_targets(300, seed=4)
    one, three = (arm.solver.solve(targets, num_solutions=rows) for rows in (1, 3))
    solved = one.outcome == "solved"
    assert np.array_equal(solved, three.outcome == "solved")
    assert one.q[solved, 0].tobytes() == three.q[solved, 0].tobytes()


# --- margin, self pairs, modes ------------------------------------------------------------------


@pytest.mark.parametrize("collision", ["hard", "both"])
@pytest.mark.parametrize("margin", [0.0, 1e-6, 0.01, 0.05])
def test_rows_keep_the_margin(
    arms: Callable[[str], Arm], cage: dict[str, np.ndarray], margin: float, collision: str
) -> None:
    arm = arms("panda_foam")
    arm.solver.set_world(**cage)
    targets = arm.solver.sample_targets(300, seed=5)
    result = arm.solver.solve(targets, collision=collision, collision_margin_m=margin, num_solutions=2)
    assert_holds(arm, result, targets, [cage] * 300, margin=margin)
    rows = arm.solver.check(result.q[result.valid], collision_margin_m=margin)
    assert rows.free.all()
    # It is for obstacles alone: the model has spheres a centimetre apart in every configuration.
    assert (result.outcome == "solved").sum() > 60
    assert rows.self_clearance_m.min() < 0.01


def test_a_wider_margin_solves_no_more(arms: Callable[[str], Arm], cage: dict[str, np.ndarray]) -> None:
    arm = arms("panda_curobo")
    arm.solver.set_world(**cage)
    targets = arm.solver.sample_targets(500, seed=6)
    before = np.ones(500, bool)
    for margin in (0.0, 0.02, 0.1, 0.4):
        solved = arm.solver.solve(targets, collision_margin_m=margin).outcome == "solved"
        assert np.count_nonzero(solved & ~before) <= 2
        before = solved


def test_without_self_pairs_obstacles_alone_decide(
    arms: Callable[[str], Arm], cage: dict[str, np.ndarray]
) -> None:
    arm = arms("panda_foam")
    targets = arm.solver.sample_targets(400, seed=7)
    options: dict[str, Any] = {"self_collision": False, "num_solutions": 2}
    empty = arm.solver.solve(targets, **options)
    assert same_bits(empty, arm.solver.solve(targets, collision=None, num_solutions=2))
    own, _ = arm.judge.clearances(empty.q[empty.valid], {})
    assert (own < 0).any()
    arm.solver.set_world(**cage)
    result = arm.solver.solve(targets, **options)
    assert_holds(arm, result, targets, [cage] * 400, self_collision=False)
    assert "self_collision" not in outcomes(result)
    assert arm.solver.check(result.q[result.valid], self_collision=False).free.all()


def test_free_rows_are_the_same_in_both_modes(
    arms: Callable[[str], Arm], cage: dict[str, np.ndarray]
) -> None:
    """No free row penetrates anything, so that there is nothing to rank."""
    arm = arms("panda_foam")
    targets = arm.solver.sample_targets(200, seed=8)
    for world in (cage, {}):
        arm.solver.set_world(**world)
        hard, both = (arm.solver.solve(targets, collision=mode, num_solutions=3) for mode in ("hard", "both"))
        assert same_bits(hard, both)
        omitted = arm.solver.solve(targets, num_solutions=3)
        assert same_bits(hard, omitted)


@pytest.mark.parametrize("rows", [1, 5])
def test_soft_rows_come_by_penetration(
    arms: Callable[[str], Arm], cage: dict[str, np.ndarray], rows: int
) -> None:
    arm = arms("panda_foam")
    world = {**cage, "spheres": [[0.4, 0.2, 0.5, 0.1]], "capsules": [[0.3, -0.5, 0.2, 0.3, -0.3, 0.7, 0.05]]}
    arm.solver.set_world(**world)
    targets = arm.solver.sample_targets(150, seed=9)
    soft = arm.solver.solve(targets, collision="soft", num_solutions=rows)
    open_world = arm.solver.solve(targets, collision=None, num_solutions=rows)
    assert (soft.outcome == "solved").all()
    assert np.array_equal(soft.outcome, open_world.outcome)
    first, plain = [], []
    for target, other, pose in zip(soft, open_world, targets, strict=True):
        assert arm.judge.strict(target.q, pose).all()
        depth = penetrations(arm.judge, target.q, world)
        assert (np.diff(depth) >= -1e-9).all()
        first.append(depth[0])
        plain.append(penetrations(arm.judge, other.q[:1], world)[0])
    assert (np.array(first) <= np.array(plain) + 1e-9).all()
    assert np.mean(first) < 0.9 * np.mean(plain)


def test_no_mode_needs_a_target(arms: Callable[[str], Arm], cage: dict[str, np.ndarray]) -> None:
    arm = arms("panda_foam")
    arm.solver.set_worlds([cage, {}])
    for collision in (None, "hard", "soft", "both"):
        for index in (np.zeros(0, int), 0, []):
            result = arm.solver.solve(
                np.zeros((0, 7)), collision=collision, num_solutions=3, stats=True, world_index=index
            )
            assert result.q.shape == (0, 3, 7)
            assert len(result) == len(result.count) == 0
    assert len(arm.solver.check(np.zeros((0, 7)), world_index=[])) == 0
    # And the solver works on.
    assert len(arm.solver.solve(arm.solver.sample_targets(3), world_index=[1, -1, 0])) == 3


@pytest.mark.parametrize("precision", ["auto", "fp32", "fp64"])
def test_precisions(arms: Callable[[str], Arm], cage: dict[str, np.ndarray], precision: str) -> None:
    """Whatever is returned is free in float64."""
    arm = arms("panda_curobo")
    arm.solver.set_world(**cage)
    targets = arm.solver.sample_targets(300, seed=10)
    result = arm.solver.solve(targets, precision=precision, num_solutions=2)
    rows = result.q[result.valid]
    assert len(rows) > 200
    assert arm.judge.free(rows, cage).all()
    assert arm.judge.inside_limits(rows).all()
    converged = result.pos_err_m[result.outcome == "solved", 0]
    assert converged.max() < 1e-6


# --- what cannot be solved ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depth", "outcome"),
    [
        (-1e-4, "solved"),
        (1e-6, "approximate"),
        (1e-4, "approximate"),
        (9e-4, "approximate"),
        (3e-3, "approximate"),
        (6e-3, "environment_collision"),
    ],
)
def test_what_is_free_within_5_mm_is_the_fallback(device: str, depth: float, outcome: str) -> None:
    """The only answer is `depth` inside of a wall; the nearest free one is as far away."""
    solver = slide(device, {"l2": [[0, 0, 0, 0.1]]})
    solver.set_world(boxes=[box(1.0, 0, 0, 1.0, 9.0, 9.0)])  # its face is at x = 0.5
    target = solver.forward_kinematics([0.4 + depth, 0.3])
    for rows in (1, 3):
        result = solver.solve(target, num_solutions=rows)
        assert result.outcome[0] == outcome
        assert solver.check(result[0].q).free.all()
        if outcome == "approximate":
            assert depth - 1e-9 <= result.pos_err_m[0, 0] < depth + 1e-3
            assert result.ori_err_rad[0, 0] < 1e-9
    # Without obstacles it is an answer like any other.
    assert solver.solve(target, collision=None).outcome[0] == "solved"


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e8])
def test_a_find_that_float32_cannot_judge_is_still_named(device: str, size: float) -> None:
    """Where obstacles are so large that all the search finds is refused in float64 only."""
    solver = slide(device, {"l2": [[0, 0, 0, 0.1]]})
    solver.set_world(boxes=[box(0.5 + size / 2, 0, 0, size, size, size)])
    found = solver.solve(solver.forward_kinematics([[0.39, 0.3], [0.42, 0.3]]))
    assert found.outcome.tolist() == ["solved", "environment_collision"]
    folded = slide(device, {"l0": [[0, 0, 0, 0.2]], "l2": [[0, 0, 0, 0.1]]}, check_base=True)
    folded.set_world(boxes=[box(1.5 + size / 2, 0, 0, size, size, size)])
    found = folded.solve(folded.forward_kinematics([[0.0, 0.31], [0.0, 0.2]]))
    assert found.outcome.tolist() == ["solved", "self_collision"]


def test_outcomes_say_why(arms: Callable[[str], Arm]) -> None:
    arm = arms("panda_foam")
    targets = arm.solver.sample_targets(200, seed=11)
    assert outcomes(arm.solver.solve(targets)) <= {"solved", "approximate", "self_collision"}
    arm.solver.set_world(spheres=[[0, 0, 0.3, 3.0]])
    result = arm.solver.solve(targets, self_collision=False)
    assert outcomes(result) == {"environment_collision"}
    assert (result.count == 0).all()
    assert np.isnan(result.q).all()
    far = targets.copy()
    far[:, 2] += 5
    assert outcomes(arm.solver.solve(far)) == {"no_accurate"}
    assert outcomes(arm.solver.solve(far, collision=None)) == {"approximate"}


# --- statistics ---------------------------------------------------------------------------------


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("collision", [None, "hard", "soft", "both"])
def test_statistics(
    arms: Callable[[str], Arm], cage: dict[str, np.ndarray], collision: str | None, rows: int, warm: bool
) -> None:
    arm = arms("panda_foam")
    arm.solver.set_world(**cage)
    targets = arm.solver.sample_targets(40, seed=12)
    targets[::10, 2] = 3.0
    options: dict[str, Any] = {"collision": collision, "num_solutions": rows, "batch_size": 60}
    if warm:
        options["q_init"] = arm.solver.sample_configurations(3, seed=13)
    result = arm.solver.solve(targets, stats=True, **options)
    assert same_bits(result, arm.solver.solve(targets, **options))
    stats = result.stats
    assert stats is not None
    for i, target in enumerate(result):
        s = stats[i]
        assert s["batch_size"] == 60
        assert s["n_returned"] == target.count
        assert 1 <= s["n_refined"] <= 60
        assert s["n_ik_accurate"] <= s["n_refined"]
        assert s["n_returned_ik_accurate"] == np.count_nonzero(target.ok(5, 1e-3))
        if target.outcome != "solved":
            # Where rows are missing all candidates are judged; out of reach the first few are all there are.
            assert s["n_refined"] == (8 if i % 10 == 0 else 60)
        costs = [s[f"env_cost_{which}_mm"] for which in ("min", "mean", "max")]
        if collision is None:
            unmeasured = [name for name in s if re.search("coll|feasible|lost|cost", name)]
            assert len(unmeasured) == 11
            assert all(s[name] == -1 for name in unmeasured)
            continue
        assert s["n_coll_in_refined"] + s["n_coll_free_refined"] == s["n_refined"]
        assert s["n_ik_lost"] + s["n_feasible"] == s["n_ik_accurate"]
        assert s["n_feasible"] <= s["n_coll_free_refined"]
        assert 0 <= s["n_coll_in_coarse"] <= s["n_refined"]
        own, obstacles = arm.judge.clearances(target.q, cage)
        free = obstacles > 0 if collision == "soft" else (obstacles >= 0) & (own >= 0)
        assert s["n_returned_coll_free"] == np.count_nonzero(free)
        assert s["n_returned_feasible"] == np.count_nonzero(free & target.ok(5, 1e-3))
        share = 100 * np.count_nonzero(free) / target.count if target.count else 0
        assert s["pct_returned_coll_free"] == pytest.approx(share)
        if collision == "hard":
            assert costs == [-1, -1, -1]
        else:
            assert 0 <= costs[0] <= costs[1] * (1 + 1e-12)
            assert costs[1] <= costs[2] * (1 + 1e-12)
    if collision == "soft":
        best = [1e3 * penetrations(arm.judge, target.q[:1], cage)[0] for target in result if target.count]
        solved = result.count > 0
        # Statistics are of the search's own float32 ends.
        assert (stats.env_cost_min_mm[solved] <= np.array(best) + 0.1).all()


# --- warm starts --------------------------------------------------------------------------------


@pytest.fixture
def split(arms: Callable[[str], Arm], cage: dict[str, np.ndarray]) -> tuple[Arm, np.ndarray, np.ndarray]:
    """An arm in the cage, with configurations that are free there and others that are not."""
    arm = arms("panda_foam")
    arm.solver.set_world(**cage)
    q = arm.solver.sample_configurations(1500, seed=14)
    free = arm.judge.free(q, cage)
    return arm, q[free][:150], q[~free][:150]


@pytest.mark.parametrize("precision", ["auto", "fp32"])
def test_an_exact_free_warm_start_is_returned_bit_for_bit(split: Any, precision: str) -> None:
    arm, free, _ = split
    targets = arm.solver.forward_kinematics(free)
    for options in ({}, {"num_solutions": 3}, {"collision": "both"}, {"batch_size": 1}):
        result = arm.solver.solve(targets, q_init=free[:, None], precision=precision, **options)
        assert result.q[:, 0].tobytes() == free.tobytes()
        assert (result.outcome == "solved").all()


def test_a_colliding_warm_start_is_repaired_nearby(split: Any, cage: dict[str, np.ndarray]) -> None:
    arm, _, bad = split
    targets = arm.solver.forward_kinematics(bad)
    warm = arm.solver.solve(targets, q_init=bad[:, None])
    cold = arm.solver.solve(targets)
    assert_holds(arm, warm, targets, [cage] * len(bad))
    assert not (warm.q[:, 0] == bad).all(1).any()
    solved = (warm.outcome == "solved") & (cold.outcome == "solved")
    assert solved.sum() > 30
    assert np.count_nonzero((warm.outcome == "solved") != (cold.outcome == "solved")) <= 2
    near, far = (np.linalg.norm(r.q[solved, 0] - bad[solved], axis=1) for r in (warm, cold))
    assert np.median(near) < 0.6 * np.median(far)
    # Without collision they are answers.
    assert arm.solver.solve(targets, q_init=bad[:, None], collision=None).q[:, 0].tobytes() == bad.tobytes()


@pytest.mark.parametrize("depth", [1e-5, 2e-4, 9e-4, 2e-3])
def test_a_warm_start_that_barely_collides_is_repaired_nearby(
    arms: Callable[[str], Arm], depth: float
) -> None:
    """However little it is: what follows a path along an obstacle must not jump."""
    arm = arms("panda_foam")
    q = arm.solver.sample_configurations(150, seed=15)
    q = q[arm.judge.free(q, {})]
    elbow = arm.solver.info.sphere_links.index("panda_link4")
    spheres = arm.solver.spheres_at(q)[:, elbow]
    outwards = spheres[:, :3] * [1, 1, 0]
    outwards /= np.linalg.norm(outwards, axis=1, keepdims=True)
    places = spheres[:, :3] + outwards * (spheres[:, 3:] + 0.05 - depth)
    worlds = [{"spheres": [[*place, 0.05]]} for place in places]
    arm.solver.set_worlds(worlds)
    clearances = arm.solver.check(q, world_index=np.arange(len(q))).world_clearance_m
    chosen = np.flatnonzero(np.abs(clearances + depth) < 1e-6)
    assert len(chosen) > 20
    targets = arm.solver.forward_kinematics(q[chosen])
    result = arm.solver.solve(targets, q_init=q[chosen][:, None], world_index=chosen)
    assert_holds(arm, result, targets, [worlds[i] for i in chosen])
    distances = np.linalg.norm(result.q[:, 0] - q[chosen], axis=1)
    assert np.median(distances) < 0.3
    assert (distances < 1.0).mean() > 0.8


def test_free_rows_rank_by_nearness(split: Any, cage: dict[str, np.ndarray]) -> None:
    arm, free, bad = split
    random = np.random.default_rng(15)
    for start, goal in ((free, free + random.uniform(-0.05, 0.05, free.shape)), (bad, bad)):
        targets = arm.solver.forward_kinematics(np.clip(goal, arm.judge.lower, arm.judge.upper))
        result = arm.solver.solve(targets, q_init=start[:, None], num_solutions=4)
        assert_holds(arm, result, targets, [cage] * len(start))
        solved = result.outcome == "solved"
        distances = np.linalg.norm(result.q - start[:, None], axis=2)[solved]
        assert (np.nan_to_num(np.diff(distances, axis=1), nan=1) >= -1e-9).all()
        if start is free:
            assert (distances[:, 0] < 0.4).mean() > 0.9


def test_the_free_one_of_several_warm_starts_is_taken(split: Any, cage: dict[str, np.ndarray]) -> None:
    arm, free, bad = split
    n = min(len(free), len(bad), 60)
    starts = np.stack([bad[:n], free[:n], bad[-n:]], axis=1)
    targets = arm.solver.forward_kinematics(free[:n])
    result = arm.solver.solve(targets, q_init=starts)
    assert result.q[:, 0].tobytes() == free[:n].tobytes()
    shared = arm.solver.solve(targets[:1], q_init=starts[0])
    assert same_bits(shared, result[:1])


def test_as_many_warm_starts_as_candidates(split: Any, cage: dict[str, np.ndarray]) -> None:
    arm, free, bad = split
    targets = arm.solver.forward_kinematics(free[:20])
    for count in (1, 40, 63, 64, 65, 100):
        rows = np.concatenate([bad, free])[:count]
        result = arm.solver.solve(targets, q_init=rows, batch_size=count, num_solutions=2, stats=True)
        assert_holds(arm, result, targets, [cage] * 20)
        assert (result.outcome == "solved").mean() > 0.8


# --- shapes of obstacles and robots -------------------------------------------------------------


def test_exact_cylinders_reach_where_capsules_do_not(device: str) -> None:
    solver = slide(device, {"l2": [[0, 0, 0.2, 0.05]]})
    cylinders = [[0.0, 0.0, 0.0, 1, 0, 0, 0, 0.1, 0.2]]  # its top is at 0.1, the capsule's at 0.2
    targets = solver.forward_kinematics([[0.0, 0.0], [0.03, 0.02], [0.3, 0.0]])
    solver.set_world(cylinders=cylinders, exact_cylinders=True)
    assert outcomes(solver.solve(targets)) == {"solved"}
    solver.set_world(cylinders=cylinders)
    assert solver.solve(targets).outcome.tolist() == ["environment_collision"] * 2 + ["solved"]
    solver.set_worlds([{"cylinders": cylinders}, {"cylinders": cylinders, "exact_cylinders": True}])
    assert solver.solve(targets[[0, 0]], world_index=[0, 1]).outcome.tolist() == [
        "environment_collision",
        "solved",
    ]


@pytest.mark.parametrize("exact", [False, True])
def test_rows_are_free_of_cylinders(arms: Callable[[str], Arm], exact: bool) -> None:
    arm = arms("panda_curobo")
    random = np.random.default_rng(16)
    world = {
        "cylinders": np.hstack(
            [random.uniform(-0.8, 0.8, (6, 3)), random.normal(size=(6, 4)), random.uniform(0.05, 0.4, (6, 2))]
        ),
        "exact_cylinders": exact,
    }
    arm.solver.set_world(**world)
    targets = arm.solver.sample_targets(200, seed=17)
    result = arm.solver.solve(targets, num_solutions=2)
    assert_holds(arm, result, targets, [world] * 200)
    assert {"solved", "environment_collision"} <= outcomes(result)


@pytest.mark.parametrize("robot", ["panda", "iiwa14", "ur5e"])
def test_presets_avoid_themselves(device: str, data_dir: Path, robot: str) -> None:
    solver = hjcdik.Solver(robot, device=device)
    model = next(model for name, _, model in ARMS.values() if name == robot)
    judge = Judge(hjcdik.preset_urdf(robot), solver.info.ee_link, data_dir / "spheres" / f"{model}.json")
    arm = Arm(solver, judge)
    targets = solver.sample_targets(400, seed=18)
    open_world = solver.solve(targets, collision=None)
    colliding = np.count_nonzero(~judge.free(open_world.q[:, 0], {}))
    assert colliding >= (0 if robot == "iiwa14" else 5)
    result = solver.solve(targets, num_solutions=2)
    assert_holds(arm, result, targets, [{}] * 400)
    assert (result.outcome == "solved").mean() > 0.8
    assert outcomes(result) <= {"solved", "approximate", "self_collision"}
    floor = {"boxes": [box(0, 0, -0.55, 4, 4, 1.0)]}
    solver.set_world(**floor)
    assert_holds(arm, solver.solve(targets), targets, [floor] * 400)


def test_a_held_gripper_and_a_locked_joint(device: str, data_dir: Path, cage: dict[str, np.ndarray]) -> None:
    spheres = data_dir / "spheres" / "panda_curobo.json"
    text = (data_dir / "robots" / "panda.urdf").read_text()
    for number, y in ((1, 0.04), (2, -0.04)):  # closed at 0
        origin = f'<origin xyz="0 {y} 0.0584" rpy="0 0 0"/>'
        fixed = f'<joint name="panda_finger_joint{number}" type="fixed">\n    {origin}'
        assert fixed in text
        moving = fixed.replace("fixed", "prismatic").replace(f"0 {y}", "0 0")
        axis = f'<axis xyz="0 {y / 0.04} 0"/><limit lower="0" upper="0.04" effort="1" velocity="1"/>'
        text = text.replace(fixed, moving + axis)
    names = ("panda_finger_joint1", "panda_finger_joint2")
    opened, closed = dict.fromkeys(names, 0.04), dict.fromkeys(names, 0.0)
    free = hjcdik.Solver(text, ee_link="panda_hand", spheres=spheres, device=device)
    targets = free.sample_targets(100, seed=19)
    targets = targets[free.solve(targets).outcome == "solved"]
    # A ball between the fingers of every target, where they are open.
    between = targets[:, :3] + 0.1 * rotation_matrices(targets[:, 3:])[:, :, 2]
    worlds = [{"spheres": [[*place, 0.01]]} for place in between]
    solved = []
    for locked in (opened, closed, {}, {**opened, "panda_joint3": 0.3}):
        solver = hjcdik.Solver(
            text, ee_link="panda_hand", spheres=spheres, device=device, locked_joints=locked
        )
        judge = Judge(text, "panda_hand", spheres, locked=locked)
        assert tuple(judge.joint_names) == solver.info.joint_names
        assert dict(solver.info.locked_joints) == {**closed, **locked}
        solver.set_worlds(worlds)
        result = solver.solve(targets, num_solutions=2, world_index=np.arange(len(targets)))
        assert_holds(Arm(solver, judge), result, targets, worlds)
        solved.append(np.count_nonzero(result.outcome == "solved"))
        # In the cage too, where the fingers are one part among others.
        solver.set_world(**cage)
        assert_holds(Arm(solver, judge), solver.solve(targets), targets, [cage] * len(targets))
    assert solved[0] > 0.9 * len(targets)
    assert solved[1] == solved[2] == 0
    assert solved[3] > 0


# --- any world ----------------------------------------------------------------------------------


@st.composite
def random_worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Up to five obstacles of each kind about the robot, of any size and place."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    counts = [draw(st.integers(0, 5)) for _ in range(4)]
    scale = draw(st.sampled_from([0.1, 1.0, 3.0]))

    def places(n: int) -> np.ndarray:
        return random.uniform(-1, 1, (n, 3))

    def turns(n: int) -> np.ndarray:
        return random.normal(size=(n, 4)) * draw(st.sampled_from([1e-6, 1.0, 1e6]))

    def sizes(n: int, columns: int) -> np.ndarray:
        return random.uniform(0.005, 0.3, (n, columns)) * scale

    ends = places(counts[1])
    return {
        "boxes": np.hstack([places(counts[0]), turns(counts[0]), sizes(counts[0], 3)]),
        "capsules": np.hstack([ends, ends + draw(st.sampled_from([0.0, 0.4])), sizes(counts[1], 1)]),
        "cylinders": np.hstack([places(counts[2]), turns(counts[2]), sizes(counts[2], 2)]),
        "spheres": np.hstack([places(counts[3]), sizes(counts[3], 1)]),
        "exact_cylinders": draw(st.booleans()),
    }


@pytest.mark.parametrize("robot", sorted(ARMS))
@properties
@given(data=st.data())
def test_rows_are_free_in_any_world(arms: Callable[[str], Arm], robot: str, data: st.DataObject) -> None:
    arm = arms(robot)
    worlds = data.draw(st.lists(random_worlds(), min_size=1, max_size=3))
    count = data.draw(st.integers(1, 12))
    targets = arm.solver.sample_targets(count, seed=data.draw(st.integers(0, 2**63)))
    targets[:, :3] *= data.draw(st.sampled_from([1.0, 1.0, 1.2]))
    index = np.array(data.draw(st.lists(st.integers(-1, len(worlds) - 1), min_size=count, max_size=count)))
    margin = data.draw(st.sampled_from([0.0, 0.0, 0.01, 0.2]))
    options: dict[str, Any] = {
        "collision": data.draw(st.sampled_from(["hard", "both"])),
        "collision_margin_m": margin,
        "self_collision": data.draw(st.booleans()),
        "self_motion": data.draw(st.booleans()),
        "num_solutions": data.draw(st.sampled_from([1, 2, 7])),
        "batch_size": data.draw(st.sampled_from([1, 10, 64, 65, 2000])),
        "seed": data.draw(st.integers(0, 2**32 - 1)),
        "stats": data.draw(st.booleans()),
    }
    if data.draw(st.booleans()):
        options["q_init"] = arm.solver.sample_configurations(options["batch_size"])[:3]
    arm.solver.set_worlds(worlds)
    result = arm.solver.solve(targets, world_index=index, **options)
    scenes = [worlds[i] if i >= 0 else {} for i in index]
    assert_holds(arm, result, targets, scenes, margin=margin, self_collision=options["self_collision"])
    one = data.draw(st.integers(0, count - 1))
    alone = arm.solver.solve(targets[one], world_index=int(index[one]), **options)
    assert same_bits(alone, result[one : one + 1])
    # And so says check, of any configuration.
    q = arm.solver.sample_configurations(40, seed=one)
    checks = arm.solver.check(
        q,
        world_index=np.resize(index, 40),
        collision_margin_m=margin,
        self_collision=options["self_collision"],
    )
    for i in range(40):
        own, obstacles = arm.judge.clearances(q[i : i + 1], scenes[i % count])
        assert checks.world_clearance_m[i] == pytest.approx(obstacles[0], abs=1e-11)
        if options["self_collision"]:
            assert checks.self_clearance_m[i] == pytest.approx(own[0], abs=1e-11)
        free = obstacles[0] >= margin and (own[0] >= 0 or not options["self_collision"])
        assert checks.free[i] == free


# --- nothing is carried over --------------------------------------------------------------------


def test_a_changed_world_counts_at_once(arms: Callable[[str], Arm], problems: list[Any]) -> None:
    arm = arms("panda_foam")
    targets = arm.solver.sample_targets(60, seed=20)
    expected = {}
    for turn in range(3):
        for k in (3, 0, 11, 20):
            arm.solver.set_world(**problems[k][0])
            result = arm.solver.solve(targets, num_solutions=2)
            if turn == 0:
                expected[k] = result
                assert_holds(arm, result, targets, [problems[k][0]] * 60)
            assert same_bits(result, expected[k])
        arm.solver.set_worlds([problems[k][0] for k in expected])
        for place, k in enumerate(expected):
            assert same_bits(arm.solver.solve(targets, num_solutions=2, world_index=place), expected[k])
        arm.solver.clear_world()
        empty = arm.solver.solve(targets, num_solutions=2)
        assert same_bits(empty, arm.solver.solve(targets, num_solutions=2, world_index=-1))
        assert not any(same_bits(empty, result) for result in expected.values())


def test_a_solve_depends_on_nothing_before_it(
    arms: Callable[[str], Arm], cage: dict[str, np.ndarray]
) -> None:
    solvers = [arms(name).solver for name in ARMS]
    for solver in solvers:
        solver.set_world(**cage)
    targets = [solver.sample_targets(40, seed=21) for solver in solvers]
    options: tuple[dict[str, Any], ...] = (
        {},
        {"num_solutions": 5},
        {"collision": "soft"},
        {"collision": None},
        {"collision_margin_m": 0.1, "stats": True},
        {"self_motion": False, "batch_size": 3},
    )
    expected = {}
    random = np.random.default_rng(22)
    for turn in range(4):
        for i, k in random.permutation([(i, k) for i in range(len(solvers)) for k in range(len(options))]):
            result = solvers[i].solve(targets[i], **options[k])
            assert same_bits(result, expected.setdefault((i, k), result)), (turn, i, options[k])
    for solver in solvers:
        solver.clear_world()


def test_spheres_that_fill_no_pack_count_for_nothing(backend: str) -> None:
    """The search judges spheres side by side; behind the last there was what the solve before had left."""
    before = slide(backend, {"l1": [[0, 0, 5, 0.05]] * 64}, threads=1)
    targets = before.sample_targets(20)
    # A robot is a program to compile on a GPU, where a warp is the pack.
    for count in range(1, 34) if backend != "cuda" else (1, 31, 32, 33):
        ball = [0, 0, 0, 0.05]
        solver = slide(backend, {"l1": [ball] * 2, "l2": [ball] * count}, threads=1)
        solver.set_world(spheres=[[0, 0, 5, 3.0]])
        before.solve(targets, collision="hard")
        assert outcomes(solver.solve(targets, collision="hard")) == {"solved"}, count


@pytest.mark.parametrize("model", mbm.MODELS)
def test_the_base_is_no_verdict_in_a_search(backend: str, data_dir: Path, model: str) -> None:
    """Its spheres, which only self pairs know, stand on the floor."""
    spheres = data_dir / "spheres" / f"{model}.json"
    checked, unchecked = (
        hjcdik.Solver(
            hjcdik.preset_urdf("panda"),
            ee_link="panda_hand",
            spheres=spheres,
            check_base=check_base,
            device=backend,
        )
        for check_base in (True, False)
    )
    assert "panda_link0" in checked.info.collision_links
    targets = checked.sample_targets(200, seed=23)
    options: dict[str, Any] = {"num_solutions": 2, "self_collision": False}
    for solver in (checked, unchecked):
        solver.set_world(boxes=[box(0, 0, -0.01, 0.3, 0.3, 0.12)])
    assert same_bits(checked.solve(targets, **options), unchecked.solve(targets, **options))


# --- threads, memory, pickling ------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
def test_threads_side_by_side_get_what_a_single_one_gets(
    arms: Callable[[str], Arm], problems: list[Any], shared: bool
) -> None:
    arm = arms("panda_curobo")
    solvers = [arm.solver] * 8 if shared else [pickle.loads(pickle.dumps(arm.solver)) for _ in range(8)]
    worlds = [world for world, _ in problems[:8]]
    targets = arm.solver.sample_targets(8 * 100, seed=24).reshape(8, 100, 7)
    index = np.arange(100) % 8
    arm.solver.set_worlds(worlds)
    expected = [arm.solver.solve(part, world_index=index, num_solutions=2) for part in targets]
    for solver in solvers:
        solver.set_worlds(worlds)
    failures: list[str] = []

    def work(thread: int) -> None:
        solver, mine, wanted = solvers[thread], targets[thread], expected[thread]
        for i in range(100):
            one = solver.solve(mine[i], world_index=int(index[i]), num_solutions=2)
            if not same_bits(one, wanted[i : i + 1]):
                failures.append(f"thread {thread}, target {i}")
            part = slice(i // 2, i)
            some = solver.solve(mine[part], world_index=index[part], num_solutions=2)
            if not same_bits(some, wanted[part]):
                failures.append(f"thread {thread}, targets {part}")

    run_side_by_side(work, failures)
    assert not failures


def test_worlds_may_change_during_solves(arms: Callable[[str], Arm], problems: list[Any]) -> None:
    """Every solve is wholly in one of the worlds, and never in a mixture or in one that is gone."""
    arm = arms("panda_foam")
    worlds = [world for world, _ in problems[3::5]]
    targets = arm.solver.sample_targets(20, seed=25)
    expected = []
    for world in worlds:
        arm.solver.set_world(**world)
        expected.append(arm.solver.solve(targets, num_solutions=2))
    failures: list[str] = []
    done = threading.Event()

    def change() -> None:
        k = 0
        while not done.is_set():
            arm.solver.set_world(**worlds[k % len(worlds)])
            k += 1
            if k % 50 == 0:
                gc.collect()

    def work() -> None:
        try:
            for _ in range(40):
                result = arm.solver.solve(targets, num_solutions=2)
                if not any(same_bits(result, one) for one in expected):
                    failures.append("a mixture of worlds")
                arm.solver.check(result.q[result.valid])
        except Exception as error:
            failures.append(repr(error))

    changer = threading.Thread(target=change)
    workers = [threading.Thread(target=work) for _ in range(8)]
    changer.start()
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    done.set()
    changer.join()
    assert not failures


def resident_bytes() -> int:
    match = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


@pytest.fixture
def linux() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("needs Linux to tell the memory in use")


def test_memory_stays_flat(linux: None, arms: Callable[[str], Arm], problems: list[Any]) -> None:
    arm = arms("panda_foam")
    worlds = [world for world, _ in problems]
    targets = arm.solver.sample_targets(500, seed=26)
    index = np.arange(500) % len(worlds)
    modes = (None, "hard", "soft", "both")

    def calls(count: int) -> None:
        for i in range(count):
            if i % 5 == 0:
                arm.solver.set_worlds(worlds)
                arm.solver.solve(targets[: i % 50], world_index=index[: i % 50], num_solutions=1 + i % 3)
                arm.solver.set_world(**worlds[i % len(worlds)])
            arm.solver.solve(targets[i % 500], collision=modes[i % 4], stats=i % 7 == 0)
            if i % 20 == 0:
                arm.solver.check(arm.solver.sample_configurations(20))

    calls(1000)
    gc.collect()
    before = resident_bytes()
    calls(5000)
    gc.collect()
    assert resident_bytes() - before < 4 << 20


def test_a_large_world_is_given_back(linux: None, arms: Callable[[str], Arm]) -> None:
    arm = arms("panda_foam")
    random = np.random.default_rng(27)
    rows = np.hstack([random.uniform(-1, 1, (50_000, 3)), np.full((50_000, 1), 1e-3)])
    target = arm.solver.sample_targets(1, seed=28)

    def use(count: int) -> None:
        for _ in range(count):
            arm.solver.set_world(spheres=rows)
            arm.solver.solve(target, batch_size=1)
        arm.solver.clear_world()

    use(3)
    before = resident_bytes()
    use(20)
    assert resident_bytes() - before < 16 << 20


def test_pickled_solvers_give_the_same_bits(arms: Callable[[str], Arm], problems: list[Any]) -> None:
    arm = arms("panda_curobo")
    arm.solver.set_worlds([{**world, "exact_cylinders": k % 2 == 0} for k, (world, _) in enumerate(problems)])
    targets, index = np.array([goal for _, goal in problems]), np.arange(len(problems))
    twin = pickle.loads(pickle.dumps(arm.solver))
    assert twin.info == arm.solver.info
    options: dict[str, Any] = {"world_index": index, "num_solutions": 3, "collision_margin_m": 0.005}
    expected = arm.solver.solve(targets, **options)
    assert same_bits(twin.solve(targets, **options), expected)
    # Each has worlds of its own.
    twin.clear_world()
    assert same_bits(arm.solver.solve(targets, **options), expected)
    assert len(arm.solver.worlds) == len(problems)
