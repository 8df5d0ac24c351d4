"""Forward kinematics and Jacobians against Pinocchio, and against finite differences, in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hjcdik
import support
from robots import difference_jacobian

pin = pytest.importorskip("pinocchio", reason="needs Pinocchio: pip install pin")

AGREEMENT = 1e-12
ROBOTS = [
    ("panda.urdf", "panda_hand_joint"),
    ("panda.urdf", "panda_grasptarget_hand"),
    ("panda_ext_12dof.urdf", "panda_hand_joint"),
    ("panda_ext_18dof.urdf", "panda_hand_joint"),
    ("panda_ext_24dof.urdf", "panda_hand_joint"),
    ("fetch_arm.urdf", "gripper_axis"),
    ("fetch_planar_reference.urdf", "ee_fixed"),
    ("iiwa14.urdf", "iiwa_joint_ee"),
    ("ur5e.urdf", "flange-tool0"),
]


class Reference:
    """The same chain in Pinocchio."""

    def __init__(self, text: str, solver: hjcdik.Solver) -> None:
        self.model = pin.buildModelFromXML(text)
        self.data = self.model.createData()
        self.joints = [self.model.joints[self.model.getJointId(name)] for name in solver.info.joint_names]
        self.frame = self.model.getFrameId(solver.info.ee_link, pin.FrameType.BODY)
        assert self.frame < self.model.nframes

    def update(self, q: np.ndarray) -> Any:
        """The tool's placement at q."""
        values = pin.neutral(self.model)
        for joint, value in zip(self.joints, q, strict=True):
            # A continuous joint is kept as cosine and sine.
            entry = (np.cos(value), np.sin(value)) if joint.nq == 2 else (value,)
            values[joint.idx_q : joint.idx_q + joint.nq] = entry
        self.values = values
        pin.forwardKinematics(self.model, self.data, values)
        return pin.updateFramePlacement(self.model, self.data, self.frame)

    def jacobian(self, q: np.ndarray) -> np.ndarray:
        self.update(q)
        frame = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        columns = pin.computeFrameJacobian(self.model, self.data, self.values, self.frame, frame)
        # Pinocchio drops the second dimension of a single column.
        return columns.reshape(6, -1)[:, [joint.idx_v for joint in self.joints]]


def assert_agreement(solver: hjcdik.Solver, text: str, configurations: np.ndarray) -> None:
    reference = Reference(text, solver)
    poses = solver.forward_kinematics(configurations)
    jacobians = solver.jacobian(configurations)
    rotations = support.rotation_matrices(poses[:, 3:])
    assert (poses[:, 3] >= 0).all()
    # What the tests of solves measure by.
    positions, matrices = support.Oracle(text, solver).poses(configurations)
    np.testing.assert_allclose(positions, poses[:, :3], rtol=0, atol=AGREEMENT)
    np.testing.assert_allclose(matrices, rotations, rtol=0, atol=AGREEMENT)
    np.testing.assert_allclose(np.linalg.norm(poses[:, 3:], axis=1), 1, rtol=0, atol=1e-15)
    for q, pose, rotation, jacobian in zip(configurations, poses, rotations, jacobians, strict=True):
        tool = reference.update(q)
        np.testing.assert_allclose(pose[:3], tool.translation, rtol=0, atol=AGREEMENT)
        np.testing.assert_allclose(rotation, tool.rotation, rtol=0, atol=AGREEMENT)
        np.testing.assert_allclose(jacobian, reference.jacobian(q), rtol=0, atol=AGREEMENT)


@pytest.mark.parametrize(("file", "ee_link"), ROBOTS)
def test_robots_of_the_data(data_dir: Path, file: str, ee_link: str) -> None:
    path = data_dir / "robots" / file
    solver = hjcdik.Solver(path, ee_link=ee_link, device="cpu")
    assert solver.info.ee_frame == ee_link
    assert_agreement(solver, path.read_text(), solver.sample_configurations(50))


@pytest.mark.parametrize("name", ["panda", "iiwa14", "ur5e", "fetch"])
def test_presets(name: str, presets: dict[str, hjcdik.Solver]) -> None:
    solver = presets[name]
    assert_agreement(solver, hjcdik.preset_urdf(name), solver.sample_configurations(50))


def test_targets_of_the_data_are_forward_kinematics(data_dir: Path) -> None:
    """The files' first configurations (q0) put the tool on their first targets."""
    sets = support.target_sets(data_dir, "open_targets_cp_seed0")
    assert sets
    for one in sets:
        solver = hjcdik.Solver(data_dir / "robots" / one["robot"], ee_link=one["ee_joint"], device="cpu")
        pose, target = solver.forward_kinematics(one["q0"]), np.array(one["targets"][0])
        np.testing.assert_allclose(pose[:3], target[:3], rtol=0, atol=1e-9)
        assert abs(pose[3:] @ target[3:]) == pytest.approx(1, abs=1e-12)


# Right angles, exact and cut off after some decimals, beside angles of any size.
angles = st.sampled_from([0.0, np.pi / 2, -np.pi / 2, np.pi, 1.57079632679, 1.570796327, 1e-12]) | st.floats(
    -4, 4
)
lengths = st.just(0.0) | st.floats(-1, 1)
axes = st.sampled_from(["1 0 0", "0 1 0", "0 0 1", "-1 0 0", "0 -1 0", "0 0 -1", "0 0 2.5"]) | st.tuples(
    st.floats(-1, 1), st.floats(-1, 1), st.floats(0.1, 1)
).map(lambda xyz: " ".join(map(repr, xyz)))


def triplets(values: st.SearchStrategy[float]) -> st.SearchStrategy[str]:
    return st.tuples(values, values, values).map(lambda xyz: " ".join(map(repr, xyz)))


@st.composite
def chains(draw: st.DrawFn) -> str:
    """A URDF of 1 to 32 moving joints, with fixed ones at the end and here and there between."""
    moving = draw(st.lists(st.sampled_from(["revolute", "continuous", "prismatic"]), min_size=1, max_size=32))
    kinds = []
    for kind in moving:
        kinds += ["fixed", kind] if draw(st.booleans()) else [kind]
    kinds.append("fixed")
    joints = []
    for i, kind in enumerate(kinds, 1):
        options = {"xyz": draw(triplets(lengths)), "rpy": draw(triplets(angles)), "axis": draw(axes)}
        limits = (-2.0, 2.5) if kind in ("revolute", "prismatic") else None
        joints.append(support.joint(i, kind, limits=limits, **options))
    return support.urdf(*joints)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=chains(), seed=st.integers(0, 2**32 - 1))
def test_random_chains(text: str, seed: int) -> None:
    solver = hjcdik.Solver(text, ee_link=f"l{text.count('<joint')}", device="cpu")
    random = np.random.default_rng(seed)
    lower, upper = np.array(solver.info.joint_limits).T
    configurations = random.uniform(lower, upper, (3, solver.info.dof))
    assert_agreement(solver, text, configurations)
    q = configurations[0]
    np.testing.assert_allclose(solver.jacobian(q), difference_jacobian(solver, q), rtol=0, atol=1e-7)


def test_one_configuration_and_many_agree(panda: hjcdik.Solver) -> None:
    configurations = panda.sample_configurations(5)
    for i, q in enumerate(configurations):
        assert panda.forward_kinematics(q).tobytes() == panda.forward_kinematics(configurations)[i].tobytes()
        assert panda.jacobian(q).tobytes() == panda.jacobian(configurations)[i].tobytes()
    assert panda.forward_kinematics(configurations[:0]).shape == (0, 7)
    assert panda.jacobian(configurations[:0]).shape == (0, 6, 7)
