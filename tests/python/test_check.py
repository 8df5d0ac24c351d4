"""Solver.check: against Coal and plain numpy, the pair that it names, its arguments."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import hjcdik
import support
from support import joint, planar, rotation_matrices, urdf

coal = pytest.importorskip("coal", reason="needs Coal, which comes with Pinocchio: pip install pin")

COUNTS = {"boxes": 6, "capsules": 5, "cylinders": 5, "spheres": 4}
CONFIGURATIONS = 60


def scene(seed: int, **counts: int) -> dict[str, np.ndarray]:
    """Random obstacles around an arm, some of them through it."""
    random = np.random.default_rng(seed)

    def places(count: int) -> np.ndarray:
        directions = random.normal(size=(count, 3))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return directions * random.uniform(0.3, 1.2, (count, 1)) + [0, 0, 0.3]

    def turns(count: int) -> np.ndarray:
        return random.normal(size=(count, 4))

    def sizes(count: int, columns: int, low: float, high: float) -> np.ndarray:
        return random.uniform(low, high, (count, columns))

    n = {**COUNTS, **counts}
    ends = places(n["capsules"])
    return {
        "boxes": np.hstack([places(n["boxes"]), turns(n["boxes"]), sizes(n["boxes"], 3, 0.02, 0.5)]),
        "capsules": np.hstack(
            [ends, ends + random.normal(0, 0.3, ends.shape), sizes(n["capsules"], 1, 0.01, 0.2)]
        ),
        "cylinders": np.hstack(
            [
                places(n["cylinders"]),
                turns(n["cylinders"]),
                sizes(n["cylinders"], 1, 0.01, 0.2),
                sizes(n["cylinders"], 1, 0.02, 0.5),
            ]
        ),
        "spheres": np.hstack([places(n["spheres"]), sizes(n["spheres"], 1, 0.01, 0.2)]),
    }


def shapes(world: dict[str, np.ndarray], exact_cylinders: bool) -> list[tuple[str, Any, Any]]:
    """Coal's shape and transform of every obstacle, with its name."""
    items = []
    for kind, rows in world.items():
        for i, row in enumerate(rows):
            place = row[:3]
            turn = np.eye(3)
            if kind == "boxes":
                turn, shape = rotation_matrices(row[None, 3:7])[0], coal.Box(*row[7:])
            elif kind == "cylinders":
                turn = rotation_matrices(row[None, 3:7])[0]
                shape = (coal.Cylinder if exact_cylinders else coal.Capsule)(row[7], row[8])
            elif kind == "capsules":
                axis = row[3:6] - row[:3]
                place, shape = (row[:3] + row[3:6]) / 2, coal.Capsule(row[6], np.linalg.norm(axis))
                turn = turn_of_z(axis)
            else:
                shape = coal.Sphere(row[3])
            items.append((f"{kind}[{i}]", shape, coal.Transform3s(turn, place)))
    return items


def turn_of_z(axis: np.ndarray) -> np.ndarray:
    """A rotation that takes z to the direction of the axis."""
    z = axis / np.linalg.norm(axis)
    x = np.cross(np.eye(3)[np.argmin(np.abs(z))], z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


def distances(spheres: np.ndarray, items: list[tuple[str, Any, Any]]) -> np.ndarray:
    """(n, obstacles) signed distances of spheres (n, 4) by Coal."""
    request = coal.DistanceRequest()
    request.enable_signed_distance = True
    table = np.empty((len(spheres), len(items)))
    for i, (x, y, z, radius) in enumerate(spheres):
        place = coal.Transform3s(np.eye(3), np.array([x, y, z]))
        for k, (_, shape, transform) in enumerate(items):
            result = coal.DistanceResult()
            table[i, k] = coal.distance(coal.Sphere(radius), place, shape, transform, request, result)
            if isinstance(shape, coal.Cylinder):
                # Where the sphere's centre is inside, Coal 3.0.3 is off by centimetres.
                local = transform.getRotation().T @ (np.array([x, y, z]) - transform.getTranslation())
                inside = min(shape.radius - np.hypot(*local[:2]), shape.halfLength - abs(local[2]))
                table[i, k] = -inside - radius if inside > 0 else table[i, k]
    return table


def self_clearances(info: hjcdik.Info, spheres: np.ndarray) -> dict[tuple[str, str], float]:
    """The distance of every self pair, from the spheres' places (n, 4)."""
    links = np.array(info.sphere_links)
    found = {}
    for one, other in info.self_pairs:
        a, b = spheres[links == one], spheres[links == other]
        gaps = np.linalg.norm(a[:, None, :3] - b[None, :, :3], axis=2) - a[:, None, 3] - b[None, :, 3]
        found[one, other] = float(gaps.min())
    return found


@pytest.mark.parametrize("exact_cylinders", [False, True])
@pytest.mark.parametrize("robot", ["panda", "ur5e"])
def test_clearances_are_those_of_coal(
    presets: dict[str, hjcdik.Solver], robot: str, exact_cylinders: bool
) -> None:
    solver = presets[robot]
    world = scene(7)
    items = shapes(world, exact_cylinders)
    names = np.array([name for name, _, _ in items])
    q = solver.sample_configurations(CONFIGURATIONS, seed=5)
    solver.set_world(**world, exact_cylinders=exact_cylinders)
    try:
        result = solver.check(q)
    finally:
        solver.clear_world()
    links = np.array(solver.info.sphere_links)
    for i, spheres in enumerate(solver.spheres_at(q)):
        table = distances(spheres, items)
        pairs = self_clearances(solver.info, spheres)
        world_clearance, self_clearance = table.min(), min(pairs.values())
        # Coal's iterations end at about 1e-6 m.
        assert result.world_clearance_m[i] == pytest.approx(world_clearance, abs=3e-6)
        assert result.self_clearance_m[i] == pytest.approx(self_clearance, abs=1e-12)
        smallest = min(world_clearance, self_clearance)
        assert result.clearance_m[i] == pytest.approx(smallest, abs=3e-6)
        if abs(smallest) > 3e-6:
            assert result.free[i] == (smallest > 0)
        link, other = result.link[i], result.other[i]
        if "[" in other:
            named = table[links == link][:, names == other].min()
        else:
            named = pairs[link, other] if (link, other) in pairs else pairs[other, link]
        assert named == pytest.approx(smallest, abs=3e-6)
    assert 0.05 < result.free.mean() < 0.95
    kinds = {other.split("[")[0] for other in result.other}
    assert kinds >= {"boxes", "capsules", "cylinders"}


def test_each_kind_is_seen_alone(panda: hjcdik.Solver) -> None:
    world = scene(11)
    q = panda.sample_configurations(20, seed=6)
    spheres = panda.spheres_at(q)
    for kind, rows in world.items():
        items = shapes({kind: rows}, exact_cylinders=False)
        panda.set_world(**{kind: rows})
        result = panda.check(q, self_collision=False)
        panda.clear_world()
        expected = [distances(row, items).min() for row in spheres]
        np.testing.assert_allclose(result.world_clearance_m, expected, rtol=0, atol=3e-6)
        assert (result.self_clearance_m == np.inf).all()
        assert all(other.startswith(f"{kind}[") for other in result.other)
        assert np.array_equal(result.clearance_m, result.world_clearance_m)


def test_an_obstacle_far_away_or_in_great_number(panda: hjcdik.Solver) -> None:
    q = panda.sample_configurations(10, seed=8)
    panda.set_world(spheres=[[0, 0, 1e9, 1.0]])
    far = panda.check(q, self_collision=False)
    many = scene(13, boxes=3000, capsules=0, cylinders=0, spheres=3000)
    panda.set_world(**many)
    result = panda.check(q, self_collision=False)
    panda.clear_world()
    np.testing.assert_allclose(far.world_clearance_m, 1e9 - 1, atol=3)
    centres = panda.spheres_at(q)
    gaps = np.linalg.norm(centres[:, :, None, :3] - many["spheres"][:, :3], axis=3)
    gaps -= centres[:, :, None, 3] + many["spheres"][:, 3]
    assert (result.world_clearance_m <= gaps.min((1, 2)) + 1e-12).all()


# --- the pair, and the margin -------------------------------------------------------------------


def arm(**options: Any) -> hjcdik.Solver:
    """Three joints about z, 1 m apart, with a sphere of 0.1 m in the middle of each link."""
    text = urdf(*(joint(i, "revolute", xyz="1 0 0", limits=(-3.0, 3.0)) for i in range(1, 4)), name="three")
    model = {"spheres": {f"l{i}": [[0.5, 0, 0, 0.1]] for i in range(1, 4)}}
    return hjcdik.Solver(text, ee_link="l3", spheres=json.dumps(model), device="cpu", **options)


def test_spheres_are_where_the_links_are() -> None:
    solver = arm()
    assert solver.info.sphere_links == solver.info.collision_links == ("l1", "l2", "l3")
    assert solver.info.self_pairs == (("l1", "l3"),)
    q = [np.pi / 2, -np.pi / 2, 0.0]
    expected = [[1, 0.5, 0, 0.1], [1.5, 1, 0, 0.1], [2.5, 1, 0, 0.1]]
    np.testing.assert_allclose(solver.spheres_at(q), expected, atol=1e-15)
    many = solver.spheres_at(np.array([q, [0, 0, 0]]))
    assert many.shape == (2, 3, 4)
    np.testing.assert_allclose(many[1], [[1.5, 0, 0, 0.1], [2.5, 0, 0, 0.1], [3.5, 0, 0, 0.1]], atol=1e-15)
    named = dict(zip(solver.info.joint_names, q, strict=True))
    assert np.array_equal(solver.spheres_at(named), many[0])
    with pytest.raises(ValueError, match=r"q must have shape \(3,\) or \(M, 3\)"):
        solver.spheres_at([0.0, 0.0])


def test_the_pair_responsible_is_named() -> None:
    solver = arm()
    straight = [0.0, 0.0, 0.0]
    result = solver.check(straight)
    assert (result.free[0], result.link[0], result.other[0]) == (True, "l1", "l3")
    assert result.clearance_m[0] == result.self_clearance_m[0] == pytest.approx(1.8)
    assert result.world_clearance_m[0] == np.inf
    result = solver.check(straight, self_collision=False)
    assert (result.free[0], result.link[0], result.other[0]) == (True, "", "")
    assert result.clearance_m[0] == np.inf
    folded = solver.check([0.0, 3.0, 3.0])
    assert not folded.free[0]
    assert {folded.link[0], folded.other[0]} == {"l1", "l3"}
    assert folded.clearance_m[0] < 0

    solver.set_world(
        spheres=[[9, 0, 0, 0.1], [2.5, 0, 0.3, 0.1]],
        cylinders=[[1.5, 0, 0.5, 1, 0, 0, 0, 0.1, 0.2]],
        capsules=[[8, 0, 0, 9, 0, 0, 0.1]],
    )
    result = solver.check([straight, [0.0, 3.0, 3.0]])
    assert result.link.tolist()[0] == "l2"
    assert result.other.tolist()[0] == "spheres[1]"
    assert result.clearance_m[0] == pytest.approx(0.1)
    solver.set_world(cylinders=[[9, 0, 0, 1, 0, 0, 0, 1, 1], [1.5, 0, 0.5, 1, 0, 0, 0, 0.1, 0.2]])
    result = solver.check(straight)
    assert (result.link[0], result.other[0]) == ("l1", "cylinders[1]")
    assert result.clearance_m[0] == pytest.approx(0.2)


def test_the_margin_is_for_obstacles_alone() -> None:
    solver = arm()
    solver.set_world(boxes=[[2.5, 0, 0.25, 1, 0, 0, 0, 1, 1, 0.2]])  # 0.05 m above the middle sphere
    for margin, free in ((0.0, True), (0.0499, True), (0.0501, False)):
        result = solver.check([0.0, 0.0, 0.0], collision_margin_m=margin)
        assert result.free[0] == free
        assert result.clearance_m[0] == result.world_clearance_m[0] == pytest.approx(0.05)
        assert (result.link[0], result.other[0]) == ("l2", "boxes[0]")
    solver.clear_world()
    assert solver.check([0.0, 0.0, 0.0], collision_margin_m=100.0).free[0]


def test_worlds_can_be_chosen() -> None:
    solver = arm()
    solver.set_worlds([{"spheres": [[1.5, 0, 0, 0.1]]}, {"spheres": [[3.5, 0, 0, 0.2]]}, {}])
    q = np.zeros((4, 3))
    result = solver.check(q, world_index=[1, 0, 2, -1])
    assert result.free.tolist() == [False, False, True, True]
    assert result.link.tolist()[:2] == ["l3", "l1"]
    assert result.other.tolist() == ["spheres[0]", "spheres[0]", "l3", "l3"]
    assert result.world_clearance_m[:2] == pytest.approx([-0.3, -0.2])
    everywhere = solver.check(q, world_index=1)
    assert np.array_equal(everywhere.world_clearance_m, np.full(4, result.world_clearance_m[0]))


def test_all_rows_are_judged_in_the_same_worlds() -> None:
    """Whatever another thread puts in force meanwhile."""
    solver = arm()
    states = [[{"spheres": [[1.5, 0, 0, radius + w / 100]]} for w in range(4)] for radius in (0.1, 0.5)]
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            for state in states:
                solver.set_worlds(state)

    solver.set_worlds(states[0])
    thread = threading.Thread(target=change)
    thread.start()
    try:
        seen = set()
        for _ in range(1000):
            result = solver.check(np.zeros((8, 3)), world_index=[0, 1, 2, 3, 3, 2, 1, 0])
            depths = result.world_clearance_m
            np.testing.assert_allclose(depths[:4], depths[0] - np.arange(4) / 100, rtol=0, atol=1e-12)
            assert np.array_equal(depths[:4], depths[:3:-1])
            seen.add(round(float(depths[0]), 9))
            if len(seen) == 2:
                break
        assert seen <= {-0.2, -0.6}
    finally:
        done.set()
        thread.join()


def test_results_are_plain_data() -> None:
    solver = arm()
    solver.set_world(spheres=[[1.5, 0, 0, 0.1]])
    result = solver.check(np.zeros((2, 3)))
    assert len(result) == 2
    fields = ("free", "clearance_m", "self_clearance_m", "world_clearance_m", "link", "other")
    for field in fields:
        array = getattr(result, field)
        assert array.shape == (2,)
        assert not array.flags.writeable
    assert (result.free.dtype, result.clearance_m.dtype) == (np.bool_, np.float64)
    assert "2 configuration(s), 0 free; the smallest clearance is -200 mm, l1 to spheres[0]" in repr(result)
    for twin in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert all(np.array_equal(getattr(twin, field), getattr(result, field)) for field in fields)
    none = solver.check(np.zeros((0, 3)))
    assert len(none) == 0
    assert repr(none) == "<CheckResult: 0 configuration(s), 0 free>"
    assert none.link.dtype.kind == "U"


def test_limits_are_not_looked_at(panda: hjcdik.Solver) -> None:
    assert len(panda.check(np.full((2, 7), 100.0))) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q": np.zeros(6)}, r"q must have shape \(7,\) or \(M, 7\)"),
        ({"q": [[0.0] * 7, [0, 0, 0, np.nan, 0, 0, 0]]}, r"q\[1\]: joint 'panda_joint4' is nan"),
        ({"collision_margin_m": -0.1}, "collision_margin_m must not be negative"),
        ({"collision_margin_m": np.nan}, "collision_margin_m must be finite"),
        ({"self_collision": 1}, "self_collision must be True or False"),
        ({"world_index": 1}, r"world_index is 1, but there is 1 world \(-1: the empty one\)"),
        ({"world_index": [-2]}, r"world_index\[0\] is -2"),
        ({"world_index": [0, 0]}, r"world_index must have shape \(1,\), one number for each configuration"),
        ({"world_index": 0.0}, "world_index must hold integers"),
        ({"world_index": True}, "world_index must hold integers"),
    ],
)
def test_bad_arguments(panda: hjcdik.Solver, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        panda.check(**{"q": np.zeros(7), **arguments})


def test_returned_rows_are_free_by_check(panda: hjcdik.Solver) -> None:
    panda.set_world(**scene(17))
    try:
        result = panda.solve(panda.sample_targets(100, seed=9), num_solutions=3)
        rows = result.q[result.valid]
        assert len(rows) > 50
        assert panda.check(rows).free.all()
        margin = panda.solve(panda.sample_targets(100, seed=9), collision_margin_m=0.02, collision="both")
        rows = margin.q[margin.valid]
        assert len(rows) > 10
        assert (panda.check(rows).world_clearance_m >= 0.02).all()
    finally:
        panda.clear_world()


def test_a_held_joint_moves_its_spheres() -> None:
    text = planar()
    model = json.dumps({"spheres": {"l2": [[0.3, 0, 0, 0.05]]}})
    for angle in (0.0, 1.0):
        solver = hjcdik.Solver(text, ee_link="l3", spheres=model, locked_joints={"j2": angle}, device="cpu")
        place = [0.5 + 0.3 * np.cos(angle), 0.3 * np.sin(angle), 0, 0.05]
        np.testing.assert_allclose(solver.spheres_at([0.0])[0], place, atol=1e-12)


def test_spheres_of_the_data_set_are_where_kinematics_puts_them(data_dir: Any) -> None:
    """The frames of all links by independent kinematics, for a model with spheres on every link."""
    model = json.loads((data_dir / "spheres" / "panda_curobo.json").read_text())
    text = hjcdik.preset_urdf("panda")
    solver = hjcdik.Solver(text, ee_link="panda_hand", spheres="panda_curobo", device="cpu")
    q = solver.sample_configurations(20, seed=3)
    places = solver.spheres_at(q)
    links = np.array(solver.info.sphere_links)
    for link in solver.info.collision_links:
        to_link = hjcdik.Solver(text, ee_link=f"link:{link}", device="cpu")
        used = [solver.info.joint_names.index(name) for name in to_link.info.joint_names]
        position, rotation = support.Oracle(text, to_link).poses(q[:, used])
        spheres = np.array(model["spheres"][link])
        expected = position[:, None] + np.einsum("mij,nj->mni", rotation, spheres[:, :3])
        found = places[:, links == link]
        np.testing.assert_allclose(found[..., :3], expected, atol=1e-12)
        assert np.array_equal(found[..., 3], np.tile(spheres[:, 3], (20, 1)))
    assert set(model["spheres"]) - set(links) == set(model["base_links_not_checked"])
