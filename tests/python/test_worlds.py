"""Worlds: validation, conversion, replacement as a whole, several at once, problem files."""

from __future__ import annotations

import copy
import gzip
import json
import logging
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hjcdik
from hjcdik import worlds
from support import joint, planar, rotation_matrices, same_bits, urdf

# A good row of each kind, its columns, and which of them are sizes.
ROWS: dict[str, list[float]] = {
    "boxes": [0.5, 0.1, 0.3, 1, 0, 0, 0, 0.2, 0.3, 0.4],
    "capsules": [0.5, 0, 0.2, 0.5, 0, 0.6, 0.05],
    "cylinders": [0.5, 0.2, 0.3, 1, 0, 0, 0, 0.05, 0.4],
    "spheres": [0.4, 0.4, 0.5, 0.1],
}
FIELDS = {
    "boxes": ["cx", "cy", "cz", "qw", "qx", "qy", "qz", "sx", "sy", "sz"],
    "capsules": ["x0", "y0", "z0", "x1", "y1", "z1", "r"],
    "cylinders": ["cx", "cy", "cz", "qw", "qx", "qy", "qz", "r", "L"],
    "spheres": ["cx", "cy", "cz", "r"],
}
SIZES = ("sx", "sy", "sz", "r", "L")
PROBLEMS = "mbm_panda_even.json.gz"


def random_rows(kind: str, count: int, seed: int) -> np.ndarray:
    """Rows around a robot, with quaternions of any norm."""
    random = np.random.default_rng([seed, len(kind)])
    columns = []
    for field in FIELDS[kind]:
        if field in SIZES:
            columns.append(random.uniform(0.05, 0.4, count))
        elif field[0] == "q":
            columns.append(random.normal(size=count) * random.choice([1e-9, 1, 1e6]))
        else:
            columns.append(random.uniform(-0.8, 0.8, count))
    return np.stack(columns, axis=1)


def same_keywords(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


# --- world_arrays -------------------------------------------------------------------------------


def test_no_rows_are_empty_arrays() -> None:
    for arrays in (hjcdik.world_arrays(), hjcdik.world_arrays(boxes=[], capsules=np.empty((0, 7)))):
        assert {name: array.shape for name, array in arrays.items()} == {
            "boxes": (0, 10),
            "capsules": (0, 7),
            "spheres": (0, 4),
        }
    assert hjcdik.world_arrays(exact_cylinders=True)["cylinders"].shape == (0, 9)


def test_rows_come_back_validated() -> None:
    given = {kind: random_rows(kind, 20, 1) for kind in ROWS}
    kept = copy.deepcopy(given)
    arrays = hjcdik.world_arrays(**given, exact_cylinders=True)
    assert set(arrays) == set(ROWS)
    for kind, array in arrays.items():
        assert array.dtype == np.float64
        assert array.flags.c_contiguous
        assert array.flags.owndata
        assert array.flags.writeable
        expected = given[kind].copy()
        if kind in ("boxes", "cylinders"):
            expected[:, 3:7] /= np.linalg.norm(expected[:, 3:7], axis=1, keepdims=True)
        np.testing.assert_allclose(array, expected, rtol=0, atol=1e-15)
        assert np.array_equal(given[kind], kept[kind])


def test_cylinders_become_capsules_of_the_same_axis() -> None:
    cylinders, capsules = random_rows("cylinders", 50, 2), random_rows("capsules", 3, 3)
    arrays = hjcdik.world_arrays(cylinders=cylinders, capsules=capsules)
    assert "cylinders" not in arrays
    assert np.array_equal(arrays["capsules"][:3], capsules)
    half = rotation_matrices(cylinders[:, 3:7])[:, :, 2] * cylinders[:, 8:] / 2
    centres, radii = cylinders[:, :3], cylinders[:, 7:8]
    expected = np.hstack([centres - half, centres + half, radii])
    np.testing.assert_allclose(arrays["capsules"][3:], expected, rtol=0, atol=1e-15)


def test_what_comes_back_can_be_given_again() -> None:
    arrays = hjcdik.world_arrays(**{kind: random_rows(kind, 20, 4) for kind in ROWS})
    again = hjcdik.world_arrays(**arrays)
    for kind, array in arrays.items():
        np.testing.assert_allclose(again[kind], array, rtol=0, atol=1e-15)


@pytest.mark.parametrize("norm", [1e-300, 3.0, 1e300])
def test_quaternions_of_any_norm_are_rotations(norm: float) -> None:
    box = np.array([ROWS["boxes"]])
    box[0, 3:7] = np.array([0.5, -0.5, 0.5, 0.5]) * norm
    expected = [0.5, -0.5, 0.5, 0.5]
    np.testing.assert_allclose(hjcdik.world_arrays(boxes=box)["boxes"][0, 3:7], expected, rtol=0, atol=1e-15)


def test_rows_may_be_anything_that_numpy_makes_floats_of() -> None:
    row = [1, 0, 2, 1, 0, 0, 0, 1, 2, 3]
    wide = np.zeros((2, 20))
    wide[:, ::2] = row
    frozen = np.array([row, row], float)
    frozen.setflags(write=False)
    expected = hjcdik.world_arrays(boxes=[row, row])["boxes"]
    for rows in (
        np.array([row, row]),
        np.array([row, row], np.float32),
        np.array([row, row], np.uint8),
        wide[:, ::2],
        np.asfortranarray([row, row]),
        frozen,
        (tuple(row), tuple(row)),
    ):
        assert np.array_equal(hjcdik.world_arrays(boxes=rows)["boxes"], expected)


def test_a_capsule_may_have_equal_ends() -> None:
    point = [[0.1, 0.2, 0.3, 0.1, 0.2, 0.3, 0.05]]
    assert np.array_equal(hjcdik.world_arrays(capsules=point)["capsules"], point)


def test_there_is_no_cap_on_the_number() -> None:
    boxes = random_rows("boxes", 100_000, 5)
    assert hjcdik.world_arrays(boxes=boxes)["boxes"].shape == (100_000, 10)


def bad_rows() -> list[Any]:
    """(kind, rows, message) of everything that can be wrong in a row, which is always the last of four."""
    cases = []
    for kind, row in ROWS.items():
        for k, field in enumerate(FIELDS[kind]):
            values = {np.nan: "nan, expected a finite", np.inf: "inf, expected", -np.inf: "-inf, expected"}
            if field in SIZES:
                values |= {
                    0.0: "0; .* must be positive",
                    -0.1: "-0.1; .* must be positive",
                    1e300: "1e.?300 m",
                }
            elif field[0] != "q":
                values |= {1e300: "1e.?300 m, beyond", -1.5e9: r"-1.5e\+?0?9 m, beyond"}
            for value, reason in values.items():
                rows = [list(row) for _ in range(4)]
                rows[3][k] = value
                cases.append(pytest.param(kind, rows, rf"{kind}\[3\]: {field} is {reason}"))
        if "qw" in FIELDS[kind]:
            rows = [list(row) for _ in range(4)]
            rows[3][3:7] = [0, 0, 0, 0]
            cases.append(pytest.param(kind, rows, rf"{kind}\[3\]: the quaternion qw qx qy qz is zero"))
    return cases


@pytest.mark.parametrize(("kind", "rows", "message"), bad_rows())
def test_bad_rows_are_named(kind: str, rows: list[list[float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hjcdik.world_arrays(**{kind: rows})
    with pytest.raises(ValueError, match=message):
        hjcdik.world_arrays(**{kind: rows}, exact_cylinders=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"boxes": np.ones((3, 7))}, r"boxes must have shape \(M, 10\) \(rows cx cy .* sz\), not \(3, 7\)"),
        ({"capsules": np.ones((3, 10))}, r"capsules must have shape \(M, 7\).*not \(3, 10\)"),
        ({"cylinders": np.ones((3, 7))}, r"cylinders must have shape \(M, 9\).*not \(3, 7\)"),
        ({"spheres": np.ones(4)}, r"spheres must have shape \(M, 4\).*not \(4,\)"),
        ({"spheres": np.ones((1, 1, 4))}, r"not \(1, 1, 4\)"),
        ({"spheres": np.ones((0, 3))}, r"not \(0, 3\)"),
        ({"spheres": 1.0}, r"not \(\)"),
        ({"spheres": [[1, 2, 3, 4], [1, 2, 3]]}, "spheres is not an array of numbers"),
        ({"spheres": [["0", "0", "0", "1"]]}, "spheres must hold real numbers"),
        ({"spheres": [[0, 0, 0, None]]}, "spheres must hold real numbers"),
        ({"spheres": np.ones((1, 4), bool)}, "spheres must hold real numbers"),
        ({"spheres": np.ma.masked_equal([[0, 0, 1, 1]], 1)}, "spheres has masked values"),
        ({"exact_cylinders": 1}, "exact_cylinders must be True or False"),
    ],
)
def test_bad_arrays_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hjcdik.world_arrays(**arguments)


def test_kinds_are_keywords() -> None:
    with pytest.raises(TypeError):
        hjcdik.world_arrays([ROWS["boxes"]])  # type: ignore[misc]
    with pytest.raises(TypeError, match="meshes"):
        hjcdik.world_arrays(meshes=[])  # type: ignore[call-arg]


# --- worlds of a solver -------------------------------------------------------------------------


@pytest.fixture
def arm() -> hjcdik.Solver:
    """Two joints about z, and a sphere of 0.1 m at the end of each link: at (0.5, 0) and (0.8, 0) at zero."""
    model = {"spheres": {"l1": [[0.5, 0, 0, 0.1]], "l2": [[0.3, 0, 0, 0.1]]}}
    return hjcdik.Solver(planar(), ee_link="l3", spheres=json.dumps(model), device="cpu")


def test_a_solver_begins_without_obstacles(arm: hjcdik.Solver) -> None:
    assert len(arm.worlds) == 1
    assert all(len(arm.worlds[0][kind]) == 0 for kind in ROWS)
    assert arm.check([0.0, 0.0]).world_clearance_m[0] == np.inf


def test_a_world_is_replaced_as_a_whole(arm: hjcdik.Solver) -> None:
    arm.set_world(**{kind: [row] for kind, row in ROWS.items()})
    (world,) = arm.worlds
    for kind, row in ROWS.items():
        assert np.array_equal(world[kind], [row])
    arm.set_world(spheres=[ROWS["spheres"]])
    assert len(arm.worlds[0]["boxes"]) == 0
    arm.set_world()
    assert len(arm.worlds[0]["spheres"]) == 0
    arm.set_world(spheres=[ROWS["spheres"]])
    arm.clear_world()
    assert len(arm.worlds[0]["spheres"]) == 0


@pytest.mark.parametrize(("kind", "rows", "message"), bad_rows()[::7])
def test_a_bad_world_leaves_the_one_before_in_force(
    arm: hjcdik.Solver, kind: str, rows: list[list[float]], message: str
) -> None:
    arm.set_world(spheres=[[0.5, 0, 0, 0.2]])
    before, verdict = arm.worlds, arm.check([0.0, 0.0])
    assert not verdict.free[0]
    with pytest.raises(ValueError, match=message):
        arm.set_world(**{"spheres": [[5.0, 0, 0, 0.1]], kind: rows})
    with pytest.raises(ValueError, match=rf"worlds\[1\]: {message}"):
        arm.set_worlds([{"spheres": [[5.0, 0, 0, 0.1]]}, {kind: rows}])
    assert same_keywords(before[0], arm.worlds[0])
    assert arm.check([0.0, 0.0]).clearance_m == verdict.clearance_m


def test_worlds_are_copies(arm: hjcdik.Solver) -> None:
    rows = np.array([[0.5, 0, 0, 0.2]])
    arm.set_world(spheres=rows)
    verdict = arm.check([0.0, 0.0])
    rows[:] = 5
    assert arm.check([0.0, 0.0]).clearance_m == verdict.clearance_m
    with pytest.raises(ValueError, match="read-only"):
        arm.worlds[0]["spheres"][0] = 5


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ({"boxes": [ROWS["boxes"]]}, "worlds must be a sequence of mappings"),
        ("boxes", "worlds must be a sequence of mappings"),
        (None, "worlds must be a sequence of mappings"),
        ([{}, None], r"worlds\[1\] must map the keywords"),
        ([{}, {"box": []}], r"worlds\[1\]: 'box' is none of the keywords boxes, capsules"),
        ([{"boxes": np.ones((3, 7))}], r"worlds\[0\]: boxes must have shape \(M, 10\)"),
        ([{"exact_cylinders": 1}], r"worlds\[0\]: exact_cylinders must be True or False"),
    ],
)
def test_bad_lists_of_worlds(arm: hjcdik.Solver, items: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arm.set_worlds(items)
    with pytest.raises(ValueError, match="exact_cylinders must be"):
        arm.set_worlds([{}], exact_cylinders=None)  # type: ignore[arg-type]


def test_several_worlds(arm: hjcdik.Solver) -> None:
    arm.set_worlds([{"spheres": [[0.8, 0.0, 0, 0.1]]}, {}, {"boxes": [ROWS["boxes"]]}])
    assert [len(world["spheres"]) for world in arm.worlds] == [1, 0, 0]
    arm.set_worlds([])
    assert len(arm.worlds) == 1
    assert len(arm.worlds[0]["spheres"]) == 0


def test_exactness_is_for_all_worlds_that_do_not_say_otherwise(arm: hjcdik.Solver) -> None:
    row = {"cylinders": [ROWS["cylinders"]]}
    arm.set_worlds([row, {**row, "exact_cylinders": False}], exact_cylinders=True)
    assert [world["exact_cylinders"] for world in arm.worlds] == [True, False]
    arm.set_worlds([row, {**row, "exact_cylinders": True}])
    assert [world["exact_cylinders"] for world in arm.worlds] == [False, True]


def test_pickled_solvers_carry_their_worlds(arm: hjcdik.Solver) -> None:
    arm.set_worlds([{kind: random_rows(kind, 3, 6) for kind in ROWS}, {}, {"cylinders": [ROWS["cylinders"]]}])
    for twin in (pickle.loads(pickle.dumps(arm)), copy.deepcopy(arm)):
        assert len(twin.worlds) == 3
        assert all(same_keywords(*pair) for pair in zip(twin.worlds, arm.worlds, strict=True))
        q = arm.sample_configurations(20)
        for world in range(3):
            a, b = arm.check(q, world_index=world), twin.check(q, world_index=world)
            assert np.array_equal(a.clearance_m, b.clearance_m)
            assert np.array_equal(a.other, b.other)


def test_pickled_solvers_need_no_file(tmp_path: Path) -> None:
    model, srdf = tmp_path / "spheres.json", tmp_path / "arm.srdf"
    model.write_text('{"spheres": {"l1": [[0.5, 0, 0, 0.1]], "l4": [[0.1, 0, 0, 0.1]]}}')
    srdf.write_text('<robot name="four"><disable_collisions link1="l1" link2="l4" reason="Never"/></robot>')
    text = urdf(*(joint(i, "revolute", xyz="0.3 0 0", limits=(-3.0, 3.0)) for i in range(1, 5)), name="four")
    checked = hjcdik.Solver(text, ee_link="l4", spheres=model, device="cpu")
    assert checked.info.self_pairs == (("l1", "l4"),)
    assert checked.info.spheres == str(model)
    solver = hjcdik.Solver(text, ee_link="l4", spheres=model, srdf=srdf, device="cpu")
    assert solver.info.self_pairs == ()
    data = pickle.dumps(solver)
    model.unlink()
    srdf.unlink()
    assert pickle.loads(data).info == solver.info


def test_sphere_models_are_files_or_texts(tmp_path: Path) -> None:
    model = '{"spheres": {"l1": [[0.5, 0, 0, 0.1]]}}'
    path = tmp_path / "spheres.json"
    path.write_text("\ufeff\n " + model, encoding="utf-8")
    for spheres in (model, "\n" + model, path, str(path)):
        solver = hjcdik.Solver(planar(), ee_link="l3", spheres=spheres, device="cpu")
        np.testing.assert_allclose(solver.spheres_at([0.0, 0.0]), [[0.5, 0, 0, 0.1]], atol=1e-15)
    assert hjcdik.Solver(planar(), ee_link="l3", spheres=model, device="cpu").info.spheres == "<string>"
    path.write_text("panda_foam")
    with pytest.raises(hjcdik.ModelError, match=r"spheres\.json: a spherized URDF or a JSON sphere model"):
        hjcdik.Solver(planar(), ee_link="l3", spheres=path)
    with pytest.raises(hjcdik.ModelError, match=r"none\.json: cannot be read"):
        hjcdik.Solver(planar(), ee_link="l3", spheres="none.json")
    with pytest.raises(ValueError, match=r"unknown sphere model 'panda_fom' \(did you mean 'panda_foam'\?\)"):
        hjcdik.Solver(planar(), ee_link="l3", spheres="panda_fom")
    with pytest.raises(ValueError, match="spheres must be the name of a sphere model"):
        hjcdik.Solver(planar(), ee_link="l3", spheres=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"l7"):
        hjcdik.Solver(planar(), ee_link="l3", spheres='{"spheres": {"l7": [[0, 0, 0, 0.1]]}}')


def test_what_touches_the_base_is_a_warning_and_no_verdict(caplog: pytest.LogCaptureFixture) -> None:
    model = {"spheres": {"l0": [[0, 0, -0.5, 0.1]], "l1": [[0.5, 0, 0, 0.1]]}}
    text = json.dumps(model)
    floor = {"boxes": [[5, 5, 5, 1, 0, 0, 0, 1, 1, 1], [0, 0, -1, 1, 0, 0, 0, 2, 2, 1]]}
    with caplog.at_level(logging.WARNING, "hjcdik"):
        arm = hjcdik.Solver(planar(), ee_link="l3", spheres=text, check_base=True, device="cpu")
        caplog.clear()
        arm.set_world(**floor)
        (record,) = caplog.records
        assert "base link 'l0' touches boxes[1];" in record.getMessage()
        assert arm.check([0.0, 0.0]).free[0]
        caplog.clear()
        hjcdik.Solver(planar(), ee_link="l3", spheres=text, device="cpu").set_world(**floor)
        assert caplog.text == ""


# --- solves in several worlds -------------------------------------------------------------------


@pytest.fixture(scope="module")
def scenes(panda: hjcdik.Solver) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Worlds, and targets that are solved in all of them."""
    items = [{"spheres": [[0.5, 0.5, 0.5, 0.2]]}, {"boxes": [[0.6, 0, 0.2, 1, 0, 0, 0, 0.3, 0.3, 0.3]]}, {}]
    targets = panda.sample_targets(60, seed=21)
    good = np.ones(60, bool)
    for item in items:
        panda.set_world(**item)
        good &= panda.solve(targets, collision="hard").outcome == "solved"
    panda.clear_world()
    assert good.sum() > 20
    return items, targets[good]


@pytest.mark.all_devices
def test_every_target_is_solved_in_its_own_world(
    panda: hjcdik.Solver, scenes: tuple[list[dict[str, Any]], np.ndarray]
) -> None:
    items, targets = scenes
    index = np.arange(len(targets)) % 4 - 1
    panda.set_worlds(items)
    result = panda.solve(targets, world_index=index, num_solutions=2)
    for world in range(-1, 3):
        chosen = np.flatnonzero(index == world)
        assert panda.check(result.q[chosen, 0], world_index=world).free.all()
        panda.set_world(**items[world] if world >= 0 else {})
        alone = panda.solve(targets[chosen], num_solutions=2)
        for t, target in zip(chosen, alone, strict=True):
            assert np.array_equal(result[int(t)].q, target.q)
        panda.set_worlds(items)
    for form in (index.tolist(), index.astype(np.int8), index.astype(np.int64)):
        assert same_bits(result, panda.solve(targets, world_index=form, num_solutions=2))
    everywhere = panda.solve(targets, world_index=1)
    assert same_bits(everywhere, panda.solve(targets, world_index=np.ones(len(targets), int)))
    panda.clear_world()


def test_worlds_must_be_chosen_and_exist(panda: hjcdik.Solver) -> None:
    targets = panda.sample_targets(3)
    panda.set_worlds([{"spheres": [[0.5, 0.5, 0.5, 0.2]]}, {}])
    try:
        for call in (panda.solve, lambda poses: panda.check(np.zeros((3, 7)))):
            with pytest.raises(ValueError, match=r"there are 2 worlds: world_index"):
                call(targets)
        for bad in (2, -2):
            with pytest.raises(ValueError, match=rf"world_index\[1\] is {bad}"):
                panda.solve(targets, world_index=[0, bad, 0])
            with pytest.raises(ValueError, match=rf"world_index\[1\] is {bad}"):
                panda.check(np.zeros((3, 7)), world_index=[0, bad, 0])
        for empty in (1, -1):
            with pytest.raises(ValueError, match=r"soft.*(target|poses\[)\D*2"):
                panda.solve(targets, collision="soft", world_index=[0, 0, empty])
        with pytest.raises(ValueError, match=r"world_index must have shape \(3,\)"):
            panda.solve(targets, world_index=[0, 0])
        panda.solve(targets, collision=None)
        # Whatever is checked, and however many targets there are.
        for bad in (2, -2, 2**40):
            for options in ({}, {"collision": None}):
                for some in (targets, targets[:0]):
                    with pytest.raises(ValueError, match=rf"world_index is {bad}, but there are 2 worlds"):
                        panda.solve(some, world_index=bad, **options)
            with pytest.raises(ValueError, match=rf"world_index\[2\] is {bad}, but there are 2 worlds"):
                panda.solve(targets, world_index=np.array([0, 1, bad]), collision=None)
            with pytest.raises(ValueError, match=rf"world_index is {bad}, but there are 2 worlds"):
                panda.check(np.zeros((0, 7)), world_index=bad)
    finally:
        panda.clear_world()
    with pytest.raises(ValueError, match="soft"):
        panda.solve(targets, collision="soft")
    assert same_bits(panda.solve(targets), panda.solve(targets, world_index=0))


@pytest.mark.all_devices
def test_a_solve_takes_the_worlds_that_were_in_force_when_it_began(panda: hjcdik.Solver) -> None:
    targets = panda.sample_targets(30, seed=22)
    rows = [{"spheres": [[0.4, 0.4, 0.4, 0.25]]}, {"boxes": [[0.4, -0.4, 0.4, 1, 0, 0, 0, 0.5, 0.5, 0.5]]}]
    expected = []
    for row in rows:
        panda.set_world(**row)
        expected.append(panda.solve(targets))
    assert not same_bits(*expected)
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            for row in rows:
                panda.set_world(**row)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(50):
            result = panda.solve(targets)
            assert any(same_bits(result, one) for one in expected)
    finally:
        done.set()
        thread.join()
        panda.clear_world()


# --- statistics ---------------------------------------------------------------------------------


@pytest.mark.all_devices
@pytest.mark.parametrize("collision", [None, "hard", "soft", "both"])
def test_statistics_add_up(panda: hjcdik.Solver, collision: str | None) -> None:
    targets = panda.sample_targets(40, seed=23)
    panda.set_world(
        spheres=[[0.4, 0.3, 0.5, 0.15]],
        boxes=[[0.4, -0.3, 0.4, 1, 0, 0, 0, 0.2, 0.2, 0.8], [0, 0, -0.1, 1, 0, 0, 0, 2, 2, 0.1]],
    )
    try:
        options = {"collision": collision, "num_solutions": 3, "batch_size": 100}
        result = panda.solve(targets, stats=True, **options)
        assert same_bits(result, panda.solve(targets, **options))
        rows = panda.check(
            result.q.reshape(-1, 7)[result.valid.reshape(-1)], self_collision=collision != "soft"
        )
    finally:
        panda.clear_world()
    stats = result.stats
    assert stats is not None
    assert np.array_equal(stats.n_returned, result.count)
    costs = (stats.env_cost_min_mm, stats.env_cost_mean_mm, stats.env_cost_max_mm)
    if collision is None:
        for field in stats.__slots__:
            if "coll" in field or "feasible" in field or "lost" in field or "cost" in field:
                assert (getattr(stats, field) == -1).all(), field
        return
    assert np.array_equal(stats.n_coll_in_refined + stats.n_coll_free_refined, stats.n_refined)
    assert np.array_equal(stats.n_ik_lost + stats.n_feasible, stats.n_ik_accurate)
    free = np.zeros(result.valid.shape, bool)
    free[result.valid] = rows.free
    assert np.array_equal(stats.n_returned_coll_free, free.sum(1))
    share = 100 * free.sum(1) / np.maximum(result.count, 1)
    np.testing.assert_allclose(stats.pct_returned_coll_free, share, atol=1e-9)
    if collision == "hard":
        assert all((cost == -1).all() for cost in costs)
    else:
        assert (costs[0] >= 0).all()
        assert (costs[0] <= costs[1]).all()
        assert (costs[1] <= costs[2]).all()
        assert costs[2].max() > 1
    if collision != "soft":
        assert free[result.valid].all()


# --- problem files ------------------------------------------------------------------------------

CUBOID = {"dims": [0.1, 0.2, 0.3], "pose": [0.5, 0, 0.2, 1, 0, 0, 0]}
CYLINDER = {"radius": 0.05, "height": 0.4, "pose": [0.4, 0.1, 0.3, 0, 1, 0, 0]}
SPHERE = {"radius": 0.1, "position": [0.3, 0.2, 0.1]}


def test_a_problem_becomes_keywords_of_set_world(arm: hjcdik.Solver) -> None:
    named = {"cuboid": {"a": CUBOID}, "cylinder": {"b": CYLINDER}, "sphere": {"c": SPHERE}}
    listed = {kind: list(items.values()) for kind, items in named.items()}
    for obstacles in (named, listed):
        keywords = worlds.from_mbm_problem({"obstacles": obstacles})
        assert set(keywords) == {"boxes", "capsules", "cylinders", "spheres"}
        assert np.array_equal(keywords["boxes"], [[0.5, 0, 0.2, 1, 0, 0, 0, 0.1, 0.2, 0.3]])
        assert np.array_equal(keywords["cylinders"], [[0.4, 0.1, 0.3, 0, 1, 0, 0, 0.05, 0.4]])
        assert np.array_equal(keywords["spheres"], [[0.3, 0.2, 0.1, 0.1]])
        assert keywords["capsules"].shape == (0, 7)
        arm.set_world(**keywords)
        arm.set_worlds([keywords, keywords], exact_cylinders=True)


@pytest.mark.parametrize("problem", [{}, {"obstacles": {}}, {"obstacles": {"cuboid": {}, "sphere": []}}])
def test_a_problem_may_be_empty(problem: dict[str, Any]) -> None:
    assert all(len(rows) == 0 for rows in worlds.from_mbm_problem(problem).values())


def without(item: dict[str, Any], field: str) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != field}


@pytest.mark.parametrize(
    ("obstacles", "message"),
    [
        ({"mesh": {}}, "'mesh' is none of the kinds cuboid, cylinder, sphere"),
        ({"box": {"a": CUBOID}}, "'box' is none of the kinds"),
        ({"spheres": [SPHERE]}, "'spheres' is none of the kinds"),
        ([CUBOID], "obstacles must be an object of kinds"),
        (None, "obstacles must be an object of kinds, not None"),
        ({"cuboid": 3}, "cuboid must be an object of named items or a list, not 3"),
        ({"cuboid": "shelf"}, "cuboid must be an object of named items or a list"),
        ({"cuboid": {"shelf": [1, 2]}}, "cuboid 'shelf' must be an object"),
        ({"cuboid": {"shelf": without(CUBOID, "pose")}}, "cuboid 'shelf': no 'pose'"),
        ({"cuboid": [CUBOID, without(CUBOID, "dims")]}, r"cuboid\[1\]: no 'dims'"),
        ({"cylinder": {"can": without(CYLINDER, "radius")}}, "cylinder 'can': no 'radius'"),
        ({"cylinder": {"can": without(CYLINDER, "height")}}, "cylinder 'can': no 'height'"),
        ({"sphere": [without(SPHERE, "position")]}, r"sphere\[0\]: no 'position'"),
        ({"sphere": [{**SPHERE, "position": [1, 2]}]}, r"sphere\[0\]: position must be 3 numbers"),
        ({"sphere": [{**SPHERE, "position": "123"}]}, r"sphere\[0\]: position must be 3 numbers"),
        (
            {"sphere": [{**SPHERE, "position": [1, 2, "3"]}]},
            r"sphere\[0\]: position must hold numbers, not '3'",
        ),
        ({"sphere": [{**SPHERE, "position": [1, 2, None]}]}, r"sphere\[0\]: position must hold numbers"),
        ({"sphere": [{**SPHERE, "radius": [0.1]}]}, r"sphere\[0\]: radius must hold numbers"),
        ({"sphere": [{**SPHERE, "radius": True}]}, r"sphere\[0\]: radius must hold numbers"),
        ({"sphere": [{**SPHERE, "radius": 10**400}]}, r"sphere\[0\]: radius: 1000.* is no float64"),
        ({"sphere": [SPHERE, {**SPHERE, "radius": -1}]}, r"sphere\[1\]: r is -1; radii must be positive"),
        ({"sphere": [{**SPHERE, "position": [0, np.nan, 0]}]}, r"sphere\[0\]: cy is nan"),
        ({"sphere": [{**SPHERE, "position": [0, 0, 1e300]}]}, r"sphere\[0\]: cz is 1e.?300"),
        ({"cuboid": {"shelf": {**CUBOID, "dims": [1, -1, 1]}}}, "cuboid 'shelf': sy is -1; side lengths"),
        (
            {"cuboid": {"a": CUBOID, "b": {**CUBOID, "pose": [0] * 7}}},
            "cuboid 'b': the quaternion .* is zero",
        ),
        ({"cuboid": {"a": {**CUBOID, "pose": [0, 0, 0]}}}, "cuboid 'a': pose must be 7 numbers"),
        (
            {"cuboid": {"a": {**CUBOID, "scale": [2, 2, 2]}}},
            "cuboid 'a': unknown field 'scale'; a cuboid has pose, dims",
        ),
        ({"cylinder": [{**CYLINDER, "length": 1}]}, r"cylinder\[0\]: unknown field 'length'"),
        ({"sphere": [{"center": [0, 0, 0], "radius": 1}]}, r"sphere\[0\]: unknown field 'center'"),
    ],
)
def test_bad_obstacles_are_named(obstacles: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        worlds.from_mbm_problem({"obstacles": obstacles})


def test_looks_of_obstacles_are_ignored() -> None:
    obstacles = {"cuboid": [{**CUBOID, "name": "shelf", "color": [1, 0, 0, 1]}], "sphere": [SPHERE]}
    keywords = worlds.from_mbm_problem({"obstacles": obstacles, "anything": 3})
    assert (len(keywords["boxes"]), len(keywords["spheres"])) == (1, 1)


def test_problems_are_picked(tmp_path: Path) -> None:
    problems = [{"obstacles": {"sphere": [{**SPHERE, "radius": r}]}} for r in (0.1, 0.2)]
    problems.append({"valid": False, "obstacles": {}})
    document = {"problems": {"some_set": problems, "none": [], "odd": {}}}
    assert worlds.select_problem(document, "some_set", np.int64(1)) is problems[1]
    assert worlds.select_problem({"problems": {"s": [{"valid": True}]}}, "s", 0) == {"valid": True}
    text = json.dumps(document)
    assert worlds.from_mbm_text(text, "some_set", 1)["spheres"][0, 3] == 0.2
    plain, packed = tmp_path / "problems.json", tmp_path / "problems.json.gz"
    plain.write_text("\ufeff" + text, encoding="utf-8")
    packed.write_bytes(gzip.compress(text.encode()))
    for path in (plain, str(packed)):
        assert worlds.from_mbm_file(path, "some_set", 0)["spheres"][0, 3] == 0.1
    for call in (
        lambda: worlds.from_mbm_problem(problems[2]),
        lambda: worlds.select_problem(document, "some_set", 2),
        lambda: worlds.from_mbm_text(text, "some_set", 2),
        lambda: worlds.from_mbm_file(packed, "some_set", 2),
    ):
        with pytest.raises(RuntimeError, match="marked invalid"):
            call()
    for set_name, index, message in (
        (
            "some_sets",
            0,
            r"no problem set 'some_sets' \(did you mean 'some_set'\?\); there are some_set, none",
        ),
        ("some_set", 3, r"index of set 'some_set' must be in \[0, 2\], not 3"),
        ("some_set", -1, "index of set 'some_set' must be in"),
        ("some_set", 0.0, "index of set 'some_set' must be an integer"),
        ("none", 0, "problem set 'none' is empty"),
        ("odd", 0, "problem set 'odd' must be a list"),
    ):
        with pytest.raises(ValueError, match=message):
            worlds.from_mbm_text(text, set_name, index)  # type: ignore[arg-type]


def test_bad_documents(tmp_path: Path) -> None:
    for document in ([], {}, {"problems": []}, 3):
        with pytest.raises(ValueError, match="the document must be an object"):
            worlds.from_mbm_text(json.dumps(document), "s", 0)
    with pytest.raises(ValueError, match="a problem must be an object, not 3"):
        worlds.from_mbm_text('{"problems": {"s": [3]}}', "s", 0)
    with pytest.raises(ValueError, match="a problem must be an object"):
        worlds.from_mbm_problem([])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the text: the key 'b' is there more than once in an object"):
        worlds.from_mbm_text(
            '{"problems": {"s": [{"obstacles": {"sphere": {"a": {}, "b": 1, "b": 1}}}]}}', "s", 0
        )
    with pytest.raises(ValueError, match="the text:2: not JSON"):
        worlds.from_mbm_text('{"problems":\n oops', "s", 0)
    path = tmp_path / "p.json"
    for content, message in (
        (b"{", r"p\.json:1: not JSON"),
        (b"\xff{}", r"p\.json: not UTF-8"),
        (b"[" * 200_000, r"p\.json: nested too deeply"),
        (gzip.compress(b"{}")[:-4], r"p\.json: a damaged gzip file"),
        (b"\x1f\x8bnothing", r"p\.json: a damaged gzip file"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            worlds.from_mbm_file(path, "s", 0)
    with pytest.raises(FileNotFoundError):
        worlds.from_mbm_file(tmp_path / "none.json", "s", 0)


def test_goals() -> None:
    goal = {"frame": "hand", "position_xyz": [0.1, 0.2, 0.3], "quaternion_wxyz": [0, 2, 0, 0]}
    assert np.array_equal(worlds.goal_pose({"goal_pose": goal}), [0.1, 0.2, 0.3, 0, 2, 0, 0])
    for bad, message in (
        ({}, "no goal_pose"),
        ({"goal_pose": [1, 2]}, "no goal_pose"),
        ({"goal_pose": without(goal, "position_xyz")}, "goal_pose: no 'position_xyz'"),
        ({"goal_pose": {**goal, "quaternion_wxyz": [1, 0, 0]}}, "quaternion_wxyz must be 4 numbers"),
        ({"goal_pose": {**goal, "quaternion_wxyz": [0, 0, 0, 0]}}, "quaternion_wxyz is zero"),
        ({"goal_pose": {**goal, "position_xyz": [0, 0, np.inf]}}, "not finite"),
    ):
        with pytest.raises(ValueError, match=message):
            worlds.goal_pose(bad)


def test_every_problem_of_the_data_set_loads(data_dir: Path) -> None:
    document = json.loads(gzip.decompress((data_dir / PROBLEMS).read_bytes()))
    solver = hjcdik.Solver("panda", ee_link="panda_hand", device="cpu")
    kinds = {"boxes": 0, "cylinders": 0}
    for set_name, problems in document["problems"].items():
        for index, problem in enumerate(problems):
            assert worlds.select_problem(document, set_name, index) is problem
            keywords = worlds.from_mbm_problem(problem)
            for kind in kinds:
                kinds[kind] += len(keywords[kind])
            pose, reached = worlds.goal_pose(problem), solver.forward_kinematics(problem["goal_ik"][0])
            np.testing.assert_allclose(reached[:3], pose[:3], atol=1e-5)
            assert abs(reached[3:] @ pose[3:]) > 1 - 1e-9
    assert min(kinds.values()) > 100
    same = worlds.from_mbm_file(data_dir / PROBLEMS, "box_panda", 3)
    assert same_keywords(same, worlds.from_mbm_problem(document["problems"]["box_panda"][3]))
