"""Bugs of other software in reading robots that must not happen here: every test is one reported case.

P2 is a planar arm of 0.5 m and 0.3 m, X1 one joint 0.1 m above the base with a fixed tool, R1P3 a turntable
with three slides.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

import hjcdik
import support
from robots import FULL, branch, difference_jacobian, extended, x1
from support import joint, planar, slides, urdf

P2_POSITION = (0.540780146, 0.483776627, 0.0)  # at q = (0.4, 0.9), with yaw 1.3


class Loader:
    """Writes URDFs and loads them as a user does, from their files."""

    def __init__(self, folder: Path, device: str) -> None:
        self.path = folder / "robot.urdf"
        self.device = device

    def __call__(self, text: str, ee_link: str, **options: object) -> hjcdik.Solver:
        self.path.write_text(text, encoding="utf-8")
        return hjcdik.Solver(self.path, ee_link=ee_link, device=self.device, **options)

    def error(self, text: str, ee_link: str, **options: object) -> hjcdik.ModelError:
        with pytest.raises(hjcdik.ModelError) as caught:
            self(text, ee_link, **options)
        assert isinstance(caught.value, ValueError)
        assert caught.value.file == str(self.path)
        return caught.value


@pytest.fixture
def load(tmp_path: Path, device: str) -> Loader:
    return Loader(tmp_path, device)


def reach(solver: hjcdik.Solver, pose: np.ndarray, **options: object) -> hjcdik.Result:
    """Solves for one pose that must be reached."""
    result = solver.solve(pose, collision=None, **options)
    assert result.outcome[0] == "solved"
    assert result.ok(1e-3, 1e-6)[0, 0]
    return result


def assert_p2(solver: hjcdik.Solver) -> None:
    pose = solver.forward_kinematics([0.4, 0.9])
    np.testing.assert_allclose(pose, support.yaw_pose(*P2_POSITION, 1.3), rtol=0, atol=1e-9)


def assert_jacobian(solver: hjcdik.Solver, q: np.ndarray) -> None:
    np.testing.assert_allclose(solver.jacobian(q), difference_jacobian(solver, q), rtol=0, atol=1e-6)


def test_b01_a_continuous_joint_is_one_number(load: Loader) -> None:
    solver = load(planar(kinds=("continuous", "revolute"), limits=(None, FULL)), "l3")
    assert solver.info.dof == 2
    assert solver.info.joint_types == ("continuous", "revolute")
    assert solver.info.joint_units == ("rad", "rad")
    assert solver.info.joint_limits[0] == FULL
    assert_p2(solver)


@pytest.mark.all_devices
def test_b02_missing_limits_do_not_freeze_a_continuous_joint(load: Loader) -> None:
    solver = load(planar(kinds=("continuous", "revolute"), limits=(None, FULL)), "l3")
    q = reach(solver, solver.forward_kinematics([2.0, 0.9])).q[0, 0]
    assert np.remainder(q[0] - 2.0 + np.pi, 2 * np.pi) - np.pi == pytest.approx(0, abs=1e-5)
    assert q[1] == pytest.approx(0.9, abs=1e-5)


@pytest.mark.all_devices
def test_b03_limits_of_a_continuous_joint_are_ignored_with_one_warning(
    load: Loader, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="hjcdik"):
        solver = load(planar(kinds=("continuous", "revolute"), limits=((-1.0, 1.0), FULL)), "l3")
    warnings = [record.getMessage() for record in caplog.records if record.name.startswith("hjcdik")]
    assert len(warnings) == 1
    assert "'j1'" in warnings[0]
    assert "ignored" in warnings[0]
    reach(solver, solver.forward_kinematics([2.5, 0.3]))


def test_b04_a_revolute_joint_without_limits_is_refused_by_name_and_line(load: Loader) -> None:
    error = load.error("\n\n" + planar(limits=(None, FULL)), "l3")
    assert error.element == "joint 'j1'"
    assert error.line == 3
    assert "<limit" in str(error)


def test_b05_crossed_limits_are_refused_with_both_values(load: Loader) -> None:
    error = load.error(planar(limits=((1.0, -1.0), FULL)), "l3")
    assert error.element == "joint 'j1'"
    assert "'1.0'" in str(error)
    assert "'-1.0'" in str(error)


@pytest.mark.all_devices
def test_b06_a_joint_with_equal_limits_stays_there(load: Loader) -> None:
    solver = load(planar(limits=(FULL, (0.9, 0.9))), "l3")
    result = reach(solver, solver.forward_kinematics([0.4, 0.9]), num_solutions=4)
    rows = result[0].q
    assert len(rows) >= 1
    assert (rows[:, 1] == 0.9).all()
    assert rows[0, 0] == pytest.approx(0.4, abs=1e-5)


def test_b07_an_axis_off_the_coordinate_directions(load: Loader) -> None:
    pose = load(x1("0.3 0 0", axis="0.6 0 0.8"), "l2").forward_kinematics([1.0])
    np.testing.assert_allclose(pose[:3], [0.211738043, 0.201953036, 0.166196468], rtol=0, atol=1e-9)
    np.testing.assert_allclose(pose[3:], [0.877582562, 0.287655323, 0, 0.383540431], rtol=0, atol=1e-9)


def test_b08_an_axis_not_of_length_one_does_not_scale_the_motion(load: Loader) -> None:
    pose = load(x1("0.3 0 0", axis="0 1.5 0"), "l2").forward_kinematics([0.7])
    np.testing.assert_allclose(pose[:3], [0.229452656, 0, -0.093265306], rtol=0, atol=1e-9)
    slide = load(urdf(joint(1, "prismatic", axis="0 0 2", limits=(0.0, 1.0))), "l1")
    np.testing.assert_allclose(slide.forward_kinematics([0.2])[:3], [0, 0, 0.2], rtol=0, atol=1e-15)


def test_b09_a_zero_axis_matters_only_where_the_joint_moves(load: Loader) -> None:
    assert load.error(x1("0 0 0", axis="0 0 0"), "l2").element == "joint 'j1'"
    fixed = urdf(joint(1, "fixed", axis="0 0 0"), joint(2, "revolute", limits=FULL))
    assert load(fixed, "l2").info.dof == 1


def test_b10_without_an_axis_it_is_x(load: Loader) -> None:
    pose = load(x1("0 0.3 0", axis=None), "l2").forward_kinematics([0.7])
    np.testing.assert_allclose(pose[:3], [0, 0.229452656, 0.293265306], rtol=0, atol=1e-9)


def test_b11_a_negative_axis_keeps_its_sign(load: Loader) -> None:
    text = x1("0 0.25 0.1", xyz="0.1 0.2 0.3", rpy="0.3 -0.2 0.5", axis="-1 0 0")
    pose = load(text, "l2").forward_kinematics([0.9])
    np.testing.assert_allclose(pose[:3], [-0.015770592, 0.436211135, 0.242541581], rtol=0, atol=1e-9)


def test_b12_a_negative_axis_leaves_the_limits_alone(load: Loader) -> None:
    solver = load(x1("0.3 0 0", axis="0 0 -1", limits=(-0.2, 1.5)), "l2")
    assert solver.info.joint_limits == ((-0.2, 1.5),)


def test_b13_missing_parts_of_an_origin_are_zero(load: Loader) -> None:
    parts = ('<origin xyz="0.1 0 0"/>', '<origin rpy="0 0 0.5"/>', "")
    joints = [
        f'<joint name="j{i}" type="revolute"><parent link="l{i - 1}"/><child link="l{i}"/>{origin}'
        '<axis xyz="0 0 1"/><limit lower="-3" upper="3"/></joint>'
        for i, origin in enumerate(parts, 1)
    ]
    pose = load(urdf(*joints), "l3").forward_kinematics([0.0, 0.0, 0.0])
    np.testing.assert_allclose(pose, support.yaw_pose(0.1, 0, 0, 0.5), rtol=0, atol=1e-15)


@pytest.mark.parametrize("blanks", ["  0   0.1\t0 ", "0\n0.1\r\n\t0", "\t0 +0.1\n\n0"])
def test_b14_any_blanks_may_stand_between_numbers(load: Loader, blanks: str) -> None:
    pose = load(x1(blanks), "l2").forward_kinematics([0.3])
    expected = load(x1("0 0.1 0"), "l2").forward_kinematics([0.3])
    assert pose.tobytes() == expected.tobytes()


def test_b15_joints_in_any_order_have_one_root(load: Loader) -> None:
    joints = [
        joint(3, "fixed", xyz="0.3 0 0", axis=None),
        joint(2, "revolute", xyz="0.5 0 0", limits=FULL),
        joint(1, "revolute", limits=FULL),
    ]
    solver = load(urdf(*joints), "l3")
    assert solver.info.base_link == "l0"
    assert solver.info.joint_names == ("j1", "j2")
    assert_p2(solver)


def test_b16_two_roots_are_refused_with_both_names(load: Loader) -> None:
    error = load.error(urdf(joint(1, "revolute", limits=FULL), links=3), "l1")
    assert "'l0'" in str(error)
    assert "'l2'" in str(error)


def test_b17_a_link_with_two_parents_is_refused_by_name(load: Loader) -> None:
    edges = ["AB", "AC", "BD", "CD"]
    joints = [
        f'<joint name="{a}{b}" type="fixed"><parent link="{a}"/><child link="{b}"/></joint>' for a, b in edges
    ]
    links = "".join(f'<link name="{name}"/>' for name in "ABCD")
    error = load.error(f'<robot name="diamond">{links}{"".join(joints)}</robot>', "D")
    assert error.element == "link 'D'"


def test_b18_duplicate_link_names_are_refused(load: Loader) -> None:
    text = '<robot name="r">\n<link name="arm"/>\n<link name="arm"/>\n</robot>'
    error = load.error(text, "arm")
    assert error.element == "link 'arm'"
    assert error.line == 3


def test_b19_duplicate_visuals_and_materials_are_fine(load: Loader) -> None:
    twice = '<material name="m"/><material name="m"/>'
    visuals = '<link name="l1"><visual name="v"/><visual name="v"/></link>'
    text = planar().replace('<link name="l1"/>', twice + visuals)
    assert visuals in text
    assert_p2(load(text, "l3"))


def test_b20_left_over_xacro_is_refused_with_its_attribute(load: Loader) -> None:
    text = planar().replace(f'upper="{np.pi!r}"', 'upper="${-1*x}"', 1)
    error = load.error(text, "l3")
    assert error.element == "joint 'j1'"
    assert "xacro not expanded" in str(error)
    assert "upper" in str(error)


def test_b21_missing_meshes_do_not_matter(load: Loader) -> None:
    mesh = '<geometry><mesh filename="package://nowhere/arm.dae"/></geometry>'
    link = f'<link name="l1"><visual>{mesh}</visual><collision>{mesh}</collision></link>'
    text = planar().replace('<link name="l1"/>', link)
    assert mesh in text
    assert_p2(load(text, "l3"))


def test_b22_a_wrong_tool_is_refused_with_the_nearest_names(load: Loader) -> None:
    text = extended(planar(), branch("l3", "tool0"))
    error = load.error(text, "tool9")
    assert error.element == "ee_link"
    assert "'tool9'" in str(error)
    assert "'tool0'" in str(error)


def test_b22_no_chain_of_length_zero(load: Loader) -> None:
    text = extended(planar(), branch("l0", "stand"))
    assert "'stand'" in str(load.error(text, "stand"))
    assert "base link" in str(load.error(text, "l0"))


@pytest.mark.parametrize("name", ["B", "to_B"])
@pytest.mark.all_devices
def test_b23_the_tool_asked_for_is_the_tool(load: Loader, name: str) -> None:
    text = extended(planar(), branch("l3", "A"), branch("A", "B", xyz="0 0 0.1"))
    a, b = load(text, "A"), load(text, name)
    assert b.info.ee_link == "B"
    assert b.info.ee_frame == "to_B"
    q = [0.4, 0.9]
    difference = b.forward_kinematics(q) - a.forward_kinematics(q)
    np.testing.assert_allclose(difference, [0, 0, 0.1, 0, 0, 0, 0], rtol=0, atol=1e-15)
    target = b.forward_kinematics(q)
    found = reach(b, target).q[0, 0]
    np.testing.assert_allclose(b.forward_kinematics(found), target, rtol=0, atol=1e-6)


@pytest.mark.all_devices
def test_b24_the_tools_rotation_counts(load: Loader) -> None:
    arm = urdf(
        joint(1, "revolute", limits=FULL),
        joint(2, "revolute", xyz="0.5 0 0", limits=FULL),
        joint(3, "revolute", xyz="0.3 0 0", limits=FULL),
    )
    text = extended(arm, branch("l3", "A"), branch("A", "B", rpy=f"0 0 {np.pi / 2!r}"))
    a, b = load(text, "A"), load(text, "B")
    target = a.forward_kinematics([0.4, 0.9, 0.2])
    found = reach(b, target).q[0, 0]
    np.testing.assert_allclose(b.forward_kinematics(found), target, rtol=0, atol=1e-6)
    # A is then a quarter turn behind.
    assert found.sum() == pytest.approx(1.5 - np.pi / 2, abs=1e-5)


def test_b25_fixed_joints_between_moving_ones(load: Loader) -> None:
    def fixed(i: int) -> str:
        return joint(i, "fixed", xyz="0.1 -0.05 0.2", rpy="0.3 -0.7 1.1", axis=None)

    def moving(i: int, axis: str) -> str:
        return joint(i, "revolute", xyz="0.2 0.1 0", rpy="0.1 0.2 0.3", axis=axis, limits=FULL)

    parts = [
        fixed(1),
        moving(2, "0 0 1"),
        fixed(3),
        moving(4, "0 1 0"),
        fixed(5),
        moving(6, "1 2 3"),
        fixed(7),
    ]
    solver = load(urdf(*parts), "l7")
    assert solver.info.joint_names == ("j2", "j4", "j6")
    assert_jacobian(solver, np.array([0.4, -0.8, 1.2]))


def test_b26_columns_of_slides(load: Loader) -> None:
    solver = load(slides(), "l4")
    jacobian = solver.jacobian(np.zeros(4))
    expected = np.zeros((6, 3))
    expected[:3] = np.transpose([(0, 0, 1), (0, -1, 0), (1, 0, 0)])
    np.testing.assert_allclose(jacobian[:, 1:], expected, rtol=0, atol=1e-15)
    assert solver.info.joint_units == ("rad", "m", "m", "m")
    assert_jacobian(solver, np.array([0.5, 1.0, 2.0, 3.0]))


GRIPPER = (
    '<link name="left"/><link name="right"/>'
    '<joint name="grip" type="prismatic"><parent link="l3"/><child link="left"/><axis xyz="0 1 0"/>'
    '<limit lower="0.01" upper="0.04"/></joint>'
    '<joint name="follow" type="prismatic"><parent link="l3"/><child link="right"/><axis xyz="0 -1 0"/>'
    '<limit lower="0" upper="0.04"/><mimic joint="grip"/></joint>'
)


def test_b27_mimic_joints_off_the_chain_follow_their_lock(load: Loader) -> None:
    text = extended(planar(), GRIPPER)
    solver = load(text, "l3")
    assert solver.info.joint_names == ("j1", "j2")
    assert dict(solver.info.locked_joints) == {"grip": 0.01, "follow": 0.01}
    assert_p2(solver)
    opened = load(text, "l3", locked_joints={"grip": 0.03})
    assert dict(opened.info.locked_joints) == {"grip": 0.03, "follow": 0.03}


def test_b27_mimic_joints_on_the_chain_are_refused_with_both_names(load: Loader) -> None:
    mimic = '<mimic joint="j1" multiplier="-1" offset="0.1"/>'
    second = joint(2, "revolute", xyz="0.5 0 0", limits=FULL)
    text = planar().replace(second, second.replace("</joint>", mimic + "</joint>"))
    assert mimic in text
    error = load.error(text, "l3")
    assert error.element == "joint 'j2'"
    assert "'j1'" in str(error)
    # With the follower locked there is nothing left to refuse.
    assert load(text, "l3", locked_joints={"j2": 0.9}).info.joint_names == ("j1",)
