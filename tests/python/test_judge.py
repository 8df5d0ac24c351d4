"""The benchmarks' judge against Pinocchio's kinematics and Coal's distances."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from judge import Judge, _distances

ROBOTS = [
    ("panda.urdf", "panda_hand", "panda_foam"),
    ("panda.urdf", "panda_hand", "panda_curobo"),
    ("fetch_arm.urdf", "gripper_link", None),
    ("iiwa14.urdf", "iiwa_link_ee_kuka", "iiwa14_fitted"),
    ("ur5e.urdf", "tool0", "ur5e_fitted"),
]


def judge_of(data_dir: Path, robot: str, tool: str, model: str | None) -> Judge:
    return Judge(data_dir / "robots" / robot, tool, data_dir / "spheres" / f"{model}.json" if model else None)


def random_quaternion(rng: np.random.Generator) -> np.ndarray:
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def random_world(rng: np.random.Generator, n: int = 4) -> dict[str, Any]:
    def place() -> list[float]:
        return [*rng.uniform(-0.9, 0.9, 3), *random_quaternion(rng)]

    return {
        "boxes": np.array([[*place(), *rng.uniform(0.02, 0.5, 3)] for _ in range(n)]),
        "capsules": rng.uniform(-0.9, 0.9, (n, 7)) * [1, 1, 1, 1, 1, 1, 0] + [0, 0, 0, 0, 0, 0, 0.05],
        "spheres": np.array([[*rng.uniform(-0.9, 0.9, 3), rng.uniform(0.02, 0.2)] for _ in range(n)]),
        "cylinders": np.array([[*place(), rng.uniform(0.02, 0.2), rng.uniform(0.05, 0.6)] for _ in range(n)]),
    }


@pytest.mark.parametrize(("robot", "tool", "model"), ROBOTS)
def test_every_link_frame_and_the_jacobian_agree_with_pinocchio(
    data_dir: Path, robot: str, tool: str, model: str | None
) -> None:
    pin = pytest.importorskip("pinocchio", reason="needs Pinocchio: pip install pin")
    judge = judge_of(data_dir, robot, tool, model)
    rng = np.random.default_rng(1)
    q = rng.uniform(judge.lower, judge.upper, (20, judge.dof))
    other = pin.buildModelFromUrdf(str(data_dir / "robots" / robot))
    cache = other.createData()
    ids = [other.joints[other.getJointId(name)] for name in judge.joint_names]
    assert other.nv == judge.dof
    frames = judge.frames(q)
    position, rotation, jacobian = judge.jacobian(q)
    assert np.allclose(position, judge.pose(q)[0], atol=0)
    assert np.allclose(rotation, judge.pose(q)[1], atol=0)
    for row, angles in enumerate(q):
        full = pin.neutral(other)
        for joint, angle in zip(ids, angles, strict=True):
            full[joint.idx_q : joint.idx_q + joint.nq] = (
                [angle] if joint.nq == 1 else [np.cos(angle), np.sin(angle)]
            )
        columns = pin.computeFrameJacobian(
            other, cache, full, other.getFrameId(tool, pin.FrameType.BODY), pin.LOCAL_WORLD_ALIGNED
        )
        assert np.allclose(jacobian[row], columns[:, [joint.idx_v for joint in ids]], atol=1e-12)
        pin.framesForwardKinematics(other, cache, full)
        for link, (turn, place) in frames.items():
            pose = cache.oMf[other.getFrameId(link, pin.FrameType.BODY)]
            assert np.allclose(turn[:, :, row], pose.rotation, atol=1e-12), link
            assert np.allclose(place[:, row], pose.translation, atol=1e-12), link


@pytest.mark.parametrize("exact", [False, True], ids=["capsules", "cylinders"])
def test_distances_agree_with_coal(data_dir: Path, exact: bool) -> None:
    """Of single spheres, which hang on the tool link, to one obstacle of each kind."""
    coal = pytest.importorskip("coal", reason="needs Coal: pip install coal")
    judge = judge_of(data_dir, "panda.urdf", "panda_hand", "panda_foam")
    hand = judge.sphere_links.index("panda_hand")
    rng = np.random.default_rng(2)
    ball = np.array([[0.01, -0.02, 0.03, 0.04]])
    judge.sphere_links, judge.spheres = ["panda_hand"], [ball]
    judge.balls, judge.self_pairs = [judge.balls[hand]], []

    def placed(row: np.ndarray) -> Any:
        w, x, y, z = row[3:7]
        return coal.Transform3s(coal.Quaternion(w, x, y, z).matrix(), row[:3])

    def turned(axis: np.ndarray, middle: np.ndarray) -> Any:
        """A placement whose z is the axis."""
        z = axis / np.linalg.norm(axis)
        x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
        x /= np.linalg.norm(x)
        return coal.Transform3s(np.stack([x, np.cross(z, x), z], axis=1), middle)

    inside = 0
    for _ in range(200):
        world = random_world(rng, 1)
        q = rng.uniform(judge.lower, judge.upper, (1, judge.dof))
        centre = judge.spheres_at(q)[0, 0, :3]
        if rng.random() < 0.4:  # some deep overlaps
            for kind in world.values():
                kind[:, :3] = centre + rng.uniform(-0.05, 0.05, 3)
        at = coal.Transform3s(np.eye(3), centre)
        box, capsule, sphere, cylinder = (world[k][0] for k in ("boxes", "capsules", "spheres", "cylinders"))
        axis = capsule[3:6] - capsule[:3]
        round_ends = coal.Cylinder if exact else coal.Capsule
        cases = {
            "boxes": (coal.Box(*box[7:]), placed(box)),
            "capsules": (
                coal.Capsule(capsule[6], np.linalg.norm(axis)),
                turned(axis, (capsule[:3] + capsule[3:6]) / 2),
            ),
            "spheres": (coal.Sphere(sphere[3]), coal.Transform3s(np.eye(3), sphere[:3])),
            "cylinders": (round_ends(cylinder[7], cylinder[8]), placed(cylinder)),
        }
        for kind, (shape, pose) in cases.items():
            result = coal.DistanceResult()
            expected = coal.distance(coal.Sphere(ball[0, 3]), at, shape, pose, coal.DistanceRequest(), result)
            own, environment = judge.clearances(q, {kind: world[kind], "exact_cylinders": exact})
            assert np.isposinf(own).all()
            if exact and kind == "cylinders" and environment[0] < -ball[0, 3]:
                # Deep inside a cylinder Coal may name the farther of flat and round face; see below.
                assert expected <= environment[0] + 2e-5
                continue
            assert environment[0] == pytest.approx(expected, abs=2e-5), kind
            inside += expected < 0
    assert inside > 100


def test_depth_inside_a_cylinder_is_the_way_to_its_nearest_face() -> None:
    rng = np.random.default_rng(5)
    row = np.array([0.3, -0.2, 0.1, *random_quaternion(rng), 0.11, 0.3])
    w, x, y, z = row[3:7]
    across = 2 * np.array([x * z + w * y, y * z - w * x, 0.5 - x * x - y * y])  # the axis: the third column
    along = rng.uniform(-1, 1, 500) * row[8] / 2
    off = rng.normal(size=(500, 3))
    off -= np.outer(off @ across, across)
    rho = rng.uniform(0, 1, 500) * row[7]
    off *= (rho / np.linalg.norm(off, axis=1))[:, None]
    (distance,) = _distances({"cylinders": row[None], "exact_cylinders": True})
    depth = distance((row[:3] + along[:, None] * across + off).T)
    assert np.allclose(depth, -np.minimum(row[7] - rho, row[8] / 2 - np.abs(along)), atol=1e-14)


@pytest.mark.parametrize(("robot", "tool", "model"), [case for case in ROBOTS if case[2]])
def test_clearances_and_the_fast_verdict_agree_with_plain_loops(
    data_dir: Path, robot: str, tool: str, model: str
) -> None:
    judge = judge_of(data_dir, robot, tool, model)
    rng = np.random.default_rng(3)
    q = rng.uniform(judge.lower, judge.upper, (2500, judge.dof))
    for exact in (False, True):
        world = random_world(rng, 2) | {"exact_cylinders": exact}
        own, environment = judge.clearances(q, world)
        free = judge.free(q, world)
        assert (free == ((own >= 0) & (environment >= 0))).all()
    assert 0.001 < free.mean() < 0.999
    links = np.repeat(np.arange(len(judge.spheres)), [len(s) for s in judge.spheres])
    pairs = set(judge.self_pairs)
    for row in range(30):
        spheres = judge.spheres_at(q[row : row + 1])[0]
        gaps = [
            np.linalg.norm(spheres[a, :3] - spheres[b, :3]) - spheres[a, 3] - spheres[b, 3]
            for a in range(len(spheres))
            for b in range(a + 1, len(spheres))
            if (links[a], links[b]) in pairs
        ]
        assert own[row] == pytest.approx(min(gaps), abs=1e-12)
        assert judge.clearances(q[row : row + 1], {})[1][0] == np.inf


def test_shares_of_free_configurations_are_those_the_data_folder_gives(data_dir: Path) -> None:
    """Of 300 uniform configurations 274 (foam) and 285 (curobo) are free of self-collision: near enough."""
    for model, share in (("panda_foam", 274 / 300), ("panda_curobo", 285 / 300)):
        judge = judge_of(data_dir, "panda.urdf", "panda_hand", model)
        q = np.random.default_rng(4).uniform(judge.lower, judge.upper, (4000, 7))
        assert judge.free(q, {}).mean() == pytest.approx(share, abs=0.05)


def test_self_pairs_follow_the_rule_of_the_data_folder(data_dir: Path) -> None:
    for model in ("panda_foam", "panda_curobo"):
        judge = judge_of(data_dir, "panda.urdf", "panda_hand", model)
        names = {frozenset((judge.sphere_links[i], judge.sphere_links[j])) for i, j in judge.self_pairs}
        assert not any("panda_link0" in pair for pair in names)
        assert frozenset(("panda_link5", "panda_link6")) not in names  # parent and child
        assert frozenset(("panda_hand", "panda_leftfinger")) not in names  # one moving joint
        assert frozenset(("panda_link7", "panda_link1")) in names
        ignored = json.loads((data_dir / "spheres" / f"{model}.json").read_text())[
            "self_collision_ignore_pairs"
        ]
        assert not names & {frozenset(pair) for pair in ignored}


def test_limits_count_without_tolerance_and_nan_is_no_answer(data_dir: Path) -> None:
    judge = judge_of(data_dir, "panda.urdf", "panda_hand", "panda_foam")
    q = np.stack([judge.lower, judge.upper, np.nextafter(judge.upper, 9), np.full(7, np.nan)])
    assert judge.inside_limits(q).tolist() == [True, True, False, False]
    assert not judge.free(q[3:], {}).any()
    assert not judge.strict(q[3:], judge.poses(q[:1])[0]).any()
    assert judge.strict(q[:1], judge.poses(q[:1])[0]).all()
