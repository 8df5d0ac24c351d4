"""Result, TargetResult and Stats: padding, ownership, indexing, copies."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import hjcdik
from hjcdik._result import STATS_DTYPE
from support import planar, same_bits, yaw_pose

ARRAYS = ("q", "pose", "pos_err_mm", "pos_err_m", "ori_err_rad", "count", "valid", "elapsed_ms", "outcome")


@pytest.fixture(scope="module")
def result(presets: dict[str, hjcdik.Solver]) -> hjcdik.Result:
    """Five targets of an arm that has at most eight answers to any, the fourth out of reach."""
    solver = presets["ur5e"]
    targets = solver.sample_targets(5)
    targets[3, :3] = [5, 0, 0]
    return solver.solve(targets, num_solutions=9, batch_size=500, collision=None, stats=True)


def test_shapes_and_types(result: hjcdik.Result) -> None:
    shapes = {name: getattr(result, name).shape for name in ARRAYS}
    assert shapes == {
        "q": (5, 9, 6), "pose": (5, 9, 7), "pos_err_mm": (5, 9), "pos_err_m": (5, 9), "ori_err_rad": (5, 9),
        "count": (5,), "valid": (5, 9), "elapsed_ms": (5,), "outcome": (5,),
    }  # fmt: skip
    for name in ("q", "pose", "pos_err_mm", "pos_err_m", "ori_err_rad", "elapsed_ms"):
        assert getattr(result, name).dtype == np.float64, name
    assert result.count.dtype.kind == "i"
    assert result.valid.dtype == np.bool_
    assert result.outcome.dtype.kind == "U"


def test_arrays_are_read_only_and_own_their_data(result: hjcdik.Result) -> None:
    for name in ARRAYS:
        array = getattr(result, name)
        assert array.flags.c_contiguous, name
        assert array.flags.owndata, name
        with pytest.raises(ValueError, match="read-only"):
            array[...] = array[...]
        assert getattr(result, name) is array
    with pytest.raises(AttributeError):
        result.extra = 1  # type: ignore[attr-defined]


def test_padding(result: hjcdik.Result) -> None:
    reached = result.count[[0, 1, 2, 4]]
    assert ((reached >= 2) & (reached <= 8)).all()
    np.testing.assert_array_equal(result.valid, np.arange(9) < result.count[:, None])
    for name in ("q", "pose", "pos_err_mm", "pos_err_m", "ori_err_rad"):
        array = getattr(result, name)
        assert np.isnan(array[~result.valid]).all(), name
        assert np.isfinite(array[result.valid]).all(), name
    assert not result.ok(np.inf, np.inf)[~result.valid].any()
    assert result.ok(np.inf, np.inf)[result.valid].all()
    np.testing.assert_array_equal(result.pos_err_mm, result.pos_err_m * 1000)
    norms = np.linalg.norm(result.pose[..., 3:], axis=-1)[result.valid]
    np.testing.assert_allclose(norms, 1, rtol=0, atol=1e-14)


def test_outcomes(result: hjcdik.Result) -> None:
    assert result.outcome.tolist() == ["solved", "solved", "solved", "approximate", "solved"]
    solved = result.outcome == "solved"
    np.testing.assert_array_equal(result.ok(1e-3, 1e-6)[:, 0], solved)


def test_tolerances_are_both_needed(result: hjcdik.Result) -> None:
    position, angle = result.pos_err_mm[3, 0], result.ori_err_rad[3, 0]
    assert result.ok(position, angle)[3, 0]
    assert not result.ok(position * 0.99, angle)[3, 0]
    assert angle == 0 or not result.ok(position, angle * 0.99)[3, 0]


def test_a_target_is_a_view_without_padding(result: hjcdik.Result) -> None:
    assert len(result) == 5
    targets = list(result)
    assert len(targets) == 5
    for i, target in enumerate(targets):
        count = result.count[i]
        assert target.count == count
        assert isinstance(target.count, int)
        for name in ("q", "pose", "pos_err_mm", "pos_err_m", "ori_err_rad"):
            np.testing.assert_array_equal(getattr(target, name), getattr(result, name)[i, :count])
            assert not getattr(target, name).flags.writeable
        np.testing.assert_array_equal(target.ok(1e-3, 1e-6), result.ok(1e-3, 1e-6)[i, :count])
        assert target.outcome == result.outcome[i]
        assert type(target.outcome) is str
        assert target.elapsed_ms == result.elapsed_ms[i] > 0
        assert target.stats is not None
        assert result.stats is not None
        assert target.stats == result.stats[i]


def test_indices(result: hjcdik.Result) -> None:
    np.testing.assert_array_equal(result[-1].q, result[4].q)
    np.testing.assert_array_equal(result[np.int64(2)].q, result[2].q)
    for index in (5, -6):
        with pytest.raises(IndexError, match=f"target {index} of a result of 5"):
            result[index]
    with pytest.raises(TypeError):
        result[1.0]  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        result["q"]  # type: ignore[call-overload]


def test_slices_are_results(result: hjcdik.Result) -> None:
    part = result[1:4]
    assert isinstance(part, hjcdik.Result)
    assert len(part) == 3
    np.testing.assert_array_equal(part.q, result.q[1:4])
    np.testing.assert_array_equal(part.outcome, result.outcome[1:4])
    assert part.q.flags.owndata
    assert not part.q.flags.writeable
    assert part.stats is not None
    assert result.stats is not None
    assert part.stats[1] == result.stats[2]
    backwards = result[::-1]
    np.testing.assert_array_equal(backwards.count, result.count[::-1])
    assert backwards.q.flags.c_contiguous
    assert len(result[9:]) == 0


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_results_can_be_pickled(result: hjcdik.Result, protocol: int) -> None:
    twin = pickle.loads(pickle.dumps(result, protocol))
    assert same_bits(twin, result)
    assert not twin.q.flags.writeable
    assert twin.stats[3] == result.stats[3]  # type: ignore[index]
    np.testing.assert_array_equal(twin.elapsed_ms, result.elapsed_ms)
    target = pickle.loads(pickle.dumps(result[0], protocol))
    np.testing.assert_array_equal(target.q, result[0].q)
    assert not target.q.flags.writeable
    assert target.stats == result[0].stats
    assert same_bits(copy.deepcopy(result), result)
    assert same_bits(copy.copy(result), result)


def test_results_survive_their_solver() -> None:
    solver = hjcdik.Solver("ur5e")
    targets = solver.sample_targets(20)
    result = solver.solve(targets, collision=None)
    before = result.q.copy()
    solver.solve(targets[::-1], collision=None)
    del solver
    np.testing.assert_array_equal(result.q, before)


def test_repr_is_short_and_names_the_order(result: hjcdik.Result) -> None:
    for text in (repr(result), repr(result[0]), repr(result[3])):
        assert len(text) < 250
        assert "qw qx qy qz" in text
    assert "4 solved" in repr(result)
    assert "approximate" in repr(result[3])
    assert "n_refined" in repr(result.stats)


def test_no_targets(panda: hjcdik.Solver) -> None:
    for empty in (np.zeros((0, 7)), [], np.zeros((0, 4, 4)), np.zeros((0, 7), np.float32)):
        result = panda.solve(empty, num_solutions=3, collision=None, stats=True)
        assert (len(result), result.q.shape, result.valid.shape) == (0, (0, 3, 7), (0, 3))
        assert result.outcome.shape == result.elapsed_ms.shape == (0,)
        assert list(result) == []
        assert "0 target(s)" in repr(result)
        assert result.stats is not None
        assert len(result.stats) == 0
        assert pickle.loads(pickle.dumps(result)).pose.shape == (0, 3, 7)


def test_stats_fields(result: hjcdik.Result) -> None:
    stats = result.stats
    assert stats is not None
    assert list(stats.__slots__) == [
        "batch_size", "n_refined", "n_ik_accurate", "n_coll_free_refined", "n_feasible", "n_ik_lost",
        "n_coll_in_refined", "n_coll_in_coarse", "env_cost_min_mm", "env_cost_max_mm", "env_cost_mean_mm",
        "n_returned", "n_returned_ik_accurate", "n_returned_coll_free", "pct_returned_coll_free",
        "n_returned_feasible",
    ]  # fmt: skip
    assert set(hjcdik.Stats.__annotations__) == set(stats.__slots__)
    assert set(STATS_DTYPE.names or ()) == set(stats.__slots__)
    for name in stats.__slots__:
        array = getattr(stats, name)
        assert array.shape == (5,)
        assert not array.flags.writeable
        assert array.flags.c_contiguous
    for row in (stats[0], stats[-1]):
        assert all(type(value) in (int, float) for value in row.values())
    with pytest.raises(IndexError):
        stats[5]


def test_stats_add_up_without_collision(result: hjcdik.Result) -> None:
    stats = result.stats
    assert stats is not None
    assert (stats.batch_size == 500).all()
    np.testing.assert_array_equal(stats.n_returned, result.count)
    assert (stats.n_refined[[0, 1, 2, 4]] == 500).all()  # all, where rows are missing
    assert stats.n_refined[3] <= 16  # out of reach: one round
    assert (stats.n_ik_accurate <= stats.n_refined).all()
    assert (stats.n_ik_accurate[[0, 1, 2, 4]] > 50).all()
    assert stats.n_ik_accurate[3] == 0
    np.testing.assert_array_equal(stats.n_returned_ik_accurate, result.ok(5, 1e-3).sum(1))
    for name in stats.__slots__:
        if "coll" in name or "env" in name or "feasible" in name or "lost" in name:
            assert (getattr(stats, name) == -1).all(), name


def test_stats_change_no_row(panda: hjcdik.Solver) -> None:
    targets = panda.sample_targets(40)
    for options in ({}, {"num_solutions": 4}, {"batch_size": 2, "num_solutions": 4}):
        with_stats = panda.solve(targets, collision=None, stats=True, **options)
        without = panda.solve(targets, collision=None, **options)
        assert same_bits(with_stats, without)
        assert without.stats is None
        assert without[0].stats is None


def test_derived_fields_are_safe_under_threads(panda: hjcdik.Solver) -> None:
    result = panda.solve(panda.sample_targets(300), collision=None, num_solutions=2)
    seen: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: seen.append(result.pos_err_mm)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(array.tobytes() == seen[0].tobytes() for array in seen)


def test_one_pose_keeps_the_leading_dimension() -> None:
    solver = hjcdik.Solver(planar(), ee_link="l3")
    result = solver.solve(yaw_pose(0.540780146, 0.483776627, 0, 1.3), num_solutions=3, collision=None)
    assert result.q.shape == (1, 3, 2)
    assert result.count.tolist() == [1]  # the full pose leaves one answer
    np.testing.assert_allclose(result.q[0, 0], [0.4, 0.9], atol=1e-5)
