"""The package's surface: robots, info, arguments and their errors."""

from __future__ import annotations

import copy
import dataclasses
import decimal
import fractions
import inspect
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hjcdik
from support import joint, planar, urdf


def test_what_is_exported_is_documented() -> None:
    for name in hjcdik.__all__:
        item = getattr(hjcdik, name)
        if name == "__version__":
            assert item.count(".") == 2
            continue
        assert len(inspect.getdoc(item) or "") > 60, name
        if inspect.isclass(item):
            for member, value in vars(item).items():
                if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                    assert len(inspect.getdoc(value) or "") > 60, f"{name}.{member}"
    documentation = hjcdik.Solver.solve.__doc__ or ""
    for word in ("metres", "wxyz", "does NOT certify", "outcome", "may be zero", "ValueError"):
        assert word in documentation, word


def test_the_example_of_the_package_runs() -> None:
    lines = [line[4:] for line in (hjcdik.__doc__ or "").splitlines() if line.startswith(">>> ")]
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)
    assert names["usable"].shape[1] == 7
    assert len(names["usable"]) >= 1


def test_importing_leaves_subnormals_alone() -> None:
    program = (
        "import numpy as np, hjcdik\n"
        "hjcdik.Solver().solve([0.4, 0, 0.4, 0, 1, 0, 0], collision=None)\n"
        "assert np.float64(5e-324) / 1 > 0 and np.float64(2.3e-308) / 4 > 0\n"
        "assert float('2.3e-308') / 4 > 0\n"
        "assert np.float32(1e-38) / np.float32(16) > 0\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_importing_brings_in_numpy_only() -> None:
    program = (
        "import sys, hjcdik\n"
        "heavy = {'torch', 'jax', 'scipy', 'rich', 'pin', 'argparse'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_info_of_the_packaged_robot(panda: hjcdik.Solver) -> None:
    info = panda.info
    assert hjcdik.Solver(device="cpu").info == info
    assert hjcdik.Solver().info == hjcdik.Solver(None).info == hjcdik.Solver(device=None).info
    assert (info.robot, info.dof, info.base_link) == ("panda", 7, "panda_link0")
    assert (info.ee_frame, info.ee_link) == ("panda_grasptarget_hand", "panda_grasptarget")
    assert info.collision_enabled is True
    assert info.spheres == "panda_foam"
    assert info.collision_links[-1] == "panda_rightfinger"
    assert set(info.sphere_links) == set(info.collision_links)
    assert ("panda_link2", "panda_hand") in info.self_pairs
    assert (info.device, info.cuda_compiler_version, info.artifact) == ("cpu", "", None)
    assert info.isa in hjcdik.build_info()["isas"]
    assert info.threads >= 1
    assert info.max_batch_size >= 100_000
    assert info.joint_types == ("revolute",) * 7
    assert info.joint_units == ("rad",) * 7
    assert info.joint_limits[3] == (-3.0718, -0.0698)
    for value in (info.joint_names, info.joint_limits, info.joint_limits[0]):
        assert isinstance(value, tuple)
    assert len(info.grid_header_sha256) == 64
    assert int(info.grid_header_sha256, 16) > 0


def test_info_is_immutable_and_portable() -> None:
    text = urdf(
        joint(1, "revolute", limits=(-1.0, 1.0)),
        joint(2, "prismatic", limits=(0.2, 0.5)),
        name="lift",
    )
    info = hjcdik.Solver(text, ee_link="l2", locked_joints={"j1": 0.5}).info
    assert (info.joint_names, info.joint_units, info.joint_limits) == (("j2",), ("m",), ((0.2, 0.5),))
    assert info.locked_joints == {"j1": 0.5}
    assert repr(info.locked_joints) == "{'j1': 0.5}"
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.dof = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        info.locked_joints["j1"] = 1.0  # type: ignore[index]
    for twin in (*(pickle.loads(pickle.dumps(info, p)) for p in range(6)), copy.deepcopy(info)):
        assert twin == info
        assert hash(twin) == hash(info)
    assert dataclasses.asdict(info)["locked_joints"] == {"j1": 0.5}


def test_joints_off_the_chain_are_held_and_listed() -> None:
    gripper = (
        '<joint name="finger" type="prismatic"><parent link="l3"/><child link="l4"/><axis xyz="1 0 0"/>'
        '<limit lower="0.01" upper="0.04" effort="1" velocity="1"/></joint>'
    )
    text = planar().replace("</robot>", '<link name="l4"/>' + gripper + "</robot>")
    assert hjcdik.Solver(text, ee_link="l3").info.locked_joints == {"finger": 0.01}
    solver = hjcdik.Solver(text, ee_link="l3", locked_joints={"finger": 0.02})
    assert solver.info.locked_joints == {"finger": 0.02}
    q = {"j2": 0.9, "j1": 0.4, "finger": 0.03}  # as in a joint_states message
    expected = (0.540780146, 0.483776627, 0)
    np.testing.assert_allclose(solver.forward_kinematics(q)[:3], expected, atol=1e-9)


def test_build_info_names_the_packaged_robot(panda: hjcdik.Solver) -> None:
    info = hjcdik.build_info()
    assert set(info) >= {
        "robot", "num_joints", "ee_target", "collision_enabled", "grid_header_sha256", "joint_model_sha256",
        "cuda_compiler_version", "binding_abi",
    }  # fmt: skip
    assert (info["robot"], info["num_joints"], info["ee_target"]) == ("panda", 7, "panda_grasptarget_hand")
    assert info["grid_header_sha256"] == panda.info.grid_header_sha256
    assert info["joint_model_sha256"] != info["grid_header_sha256"]
    assert info["isas"][0] == "x86-64" or len(info["isas"]) == 1
    info["robot"] = "changed"
    assert hjcdik.build_info()["robot"] == "panda"


def test_presets_are_the_packaged_robots(presets: dict[str, hjcdik.Solver]) -> None:
    assert hjcdik.presets() == ["panda", "iiwa14", "ur5e", "fetch"]
    tools = {name: (solver.info.ee_frame, solver.info.ee_link) for name, solver in presets.items()}
    assert tools["iiwa14"] == ("iiwa_joint_ee", "iiwa_link_ee_kuka")
    assert tools["ur5e"] == ("flange-tool0", "tool0")
    assert tools["fetch"] == ("gripper_axis", "gripper_link")
    assert "continuous" in presets["fetch"].info.joint_types
    assert len({solver.info.grid_header_sha256 for solver in presets.values()}) == 4


def test_sphere_presets_are_known() -> None:
    assert hjcdik.sphere_presets() == ["panda_foam", "panda_curobo", "iiwa14", "ur5e"]


def test_a_preset_has_no_other_spheres() -> None:
    fix = r"Solver\(hjcdik.preset_urdf\('panda'\), ee_link='panda_hand', spheres='panda_curobo'\)"
    for robot in (None, "panda"):
        with pytest.raises(ValueError, match=fix):
            hjcdik.Solver(robot, ee_link="panda_hand", spheres="panda_curobo")
    other = hjcdik.Solver(hjcdik.preset_urdf("panda"), ee_link="panda_hand", spheres="panda_curobo")
    assert (other.info.spheres, other.info.collision_enabled) == ("panda_curobo", True)
    plain = hjcdik.Solver(hjcdik.preset_urdf("panda"), ee_link="panda_hand")
    assert (plain.info.spheres, plain.info.collision_enabled) == ("", False)


def test_preset_urdf_makes_the_same_robot_with_another_tool(panda: hjcdik.Solver) -> None:
    text = hjcdik.preset_urdf("panda")
    same = hjcdik.Solver(text, ee_link=panda.info.ee_link, spheres="panda_foam", device="cpu")
    assert same.info == panda.info
    hand = hjcdik.Solver(text, ee_link="panda_hand", spheres="panda_foam", device="cpu")
    assert hand.info.grid_header_sha256 != panda.info.grid_header_sha256
    assert hjcdik.Solver("panda", ee_link="panda_hand", device="cpu").info == hand.info
    by_joint = hjcdik.Solver("panda", ee_link="panda_hand_joint", device="cpu").info
    assert (by_joint.ee_link, by_joint.ee_frame) == ("panda_hand", "panda_hand_joint")
    with pytest.raises(ValueError, match="pandas"):
        hjcdik.preset_urdf("pandas")


def test_a_robot_is_a_path_or_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text("\n  " + planar())
    monkeypatch.chdir(tmp_path)
    infos = [
        hjcdik.Solver(robot, ee_link="l3").info for robot in (path, str(path), "arm.urdf", "\n" + planar())
    ]
    assert infos[0].robot == "P2"
    assert all(info == infos[0] for info in infos)


@pytest.mark.skipif(sys.platform != "linux", reason="needs names that are any bytes")
def test_a_path_need_not_be_utf8(tmp_path: Path) -> None:
    path = os.fsdecode(bytes(tmp_path) + b"/\xff x.urdf")
    with pytest.raises(hjcdik.ModelError, match=r"\\xff x.urdf: cannot be read"):
        hjcdik.Solver(path, ee_link="l3")
    Path(path).write_text(planar())
    assert hjcdik.Solver(path, ee_link="l3").info.dof == 2
    with pytest.raises(ValueError, match=r"\\xff x.urdf.*l9"):
        hjcdik.Solver(path, ee_link="l9")
    with pytest.raises(ValueError, match=r"UTF-8"):
        hjcdik.Solver("<robot name='\udcff'/>", ee_link="l3")


def test_a_urdf_is_read_up_to_64_mib(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.touch()
    for size in (64 * 2**20 + 1, 2**40):  # the whole of the second, a sparse file, fits into no memory
        os.truncate(path, size)
        with pytest.raises(hjcdik.ModelError, match=r"arm\.urdf.*larger than 64 MiB"):
            hjcdik.Solver(path, ee_link="l3")


def test_an_unknown_robot_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"'pandas'.*did you mean 'panda'.*iiwa14, ur5e, fetch"):
        hjcdik.Solver("pandas")
    with pytest.raises(ValueError, match="unknown robot 'xyzzy'"):
        hjcdik.Solver("xyzzy")
    with pytest.raises(ValueError, match="robot must be"):
        hjcdik.Solver(7)  # type: ignore[arg-type]


def test_model_errors_say_where(tmp_path: Path) -> None:
    with pytest.raises(hjcdik.ModelError, match=r"none\.urdf") as caught:
        hjcdik.Solver(tmp_path / "none.urdf", ee_link="tool")
    assert caught.value.file == str(tmp_path / "none.urdf")
    path = tmp_path / "bad.urdf"
    path.write_text(planar(limits=(None, None)).replace("<joint", "\n<joint"))
    with pytest.raises(ValueError, match=r"bad\.urdf:2.*'j1'") as error:
        hjcdik.Solver(path, ee_link="l3")
    assert isinstance(error.value, hjcdik.ModelError)
    assert error.value.file == str(path)
    assert error.value.line == 2
    assert "j1" in error.value.element
    twin = pickle.loads(pickle.dumps(error.value))
    assert (str(twin), twin.file, twin.line) == (str(error.value), str(path), 2)


def test_a_urdf_needs_a_tool_link() -> None:
    with pytest.raises(hjcdik.ModelError, match=r"ee_link.*'l3'"):
        hjcdik.Solver(planar())
    with pytest.raises(hjcdik.ModelError, match=r"'l9'.*'l3'"):
        hjcdik.Solver(planar(), ee_link="l9")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ee_link": ["panda_hand", "panda_link7"]}, "several tips"),
        ({"ee_link": ""}, "ee_link must not be empty"),
        ({"ee_link": 3}, "ee_link must be"),
        ({"ee_link": b"panda_hand"}, r"ee_link must be the name of a link.*not b'panda_hand'"),
        ({"ee_link": "\udcff"}, r"ee_link is no valid Unicode text: '\\udcff'"),
        ({"locked_joints": {"\udcff": 0.0}}, "locked_joints is no valid Unicode text"),
        ({"spheres": "panda_curobo"}, r"ee_link='panda_grasptarget', spheres='panda_curobo'\)"),
        ({"spheres": "none.json"}, "spheres must be None"),
        ({"srdf": ""}, "srdf must not be empty; pass None"),
        ({"srdf": " \n"}, "srdf must not be empty"),
        ({"srdf": 3}, "srdf must be the path or text of an SRDF"),
        ({"srdf": "none.srdf"}, r"none\.srdf: cannot be read"),
        ({"check_base": 1}, "check_base must be True or False"),
        ({"device": -1}, "device must be at least 0"),
        ({"device": True}, "device must be an integer"),
        ({"device": 1.0}, "device must be an integer"),
        ({"device": [0, 1]}, "several GPUs"),
        ({"device": ""}, "device must be None"),
        ({"device": "gpu"}, "device must be None.*gpu"),
        ({"device": "cuda:x"}, "cuda:x"),
        ({"device": "cuda:"}, "device must be None"),
        ({"device": "CPU"}, "device must be None"),
        ({"device": "cuda:99999999999999999999"}, "cuda:9999"),
        ({"allow_build": 1}, "allow_build must be True or False"),
        ({"threads": 0}, "threads must be in"),
        ({"threads": True}, "threads must be an integer"),
        ({"locked_joints": ["panda_joint1"]}, "locked_joints must map"),
        ({"locked_joints": {"panda_joint1": "0"}}, "panda_joint1.*must be a number"),
        ({"locked_joints": {"panda_joint1": np.nan}}, "panda_joint1.*must be finite"),
        ({"locked_joints": {"panda_joint9": 0.0}}, "panda_joint9"),
        ({"locked_joints": {"panda_joint1": 9.0}}, "panda_joint1"),
    ],
)
def test_bad_constructor_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hjcdik.Solver("panda", **arguments)


def test_threads_and_instruction_sets_can_be_set(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hjcdik.Solver(threads=1, device="cpu").info.threads == 1
    assert hjcdik.Solver(device="cpu").info.isa == isa
    monkeypatch.setenv("HJCDIK_NUM_THREADS", "1")
    assert hjcdik.Solver(device="cpu").info.threads == 1
    monkeypatch.setenv("HJCDIK_ISA", "mmx")
    with pytest.raises(ValueError, match=r"mmx.*x86-64"):
        hjcdik.Solver()


def test_what_needs_no_build_ignores_the_store(tmp_path: Path) -> None:
    hjcdik.Solver("panda", allow_build=False, cache_dir=tmp_path / "store")
    assert not list(tmp_path.iterdir())


def test_warnings_go_to_the_log_and_nowhere_else(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    text = planar(kinds=("continuous", "revolute"), limits=((-1.0, 1.0), (-np.pi, np.pi)))
    with caplog.at_level(logging.WARNING, "hjcdik"):
        hjcdik.Solver(text, ee_link="l3")
    assert [record.name for record in caplog.records] == ["hjcdik"]
    assert "j1" in caplog.text
    assert capfd.readouterr() == ("", "")
    assert any(isinstance(h, logging.NullHandler) for h in logging.getLogger("hjcdik").handlers)


def test_solvers_can_be_pickled(tmp_path: Path, panda: hjcdik.Solver) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(planar())
    solvers = [
        hjcdik.Solver("panda", threads=1),
        hjcdik.Solver(path, ee_link="l3", device="cpu"),
        hjcdik.Solver(planar(), ee_link="l3", locked_joints={"j1": 0.25}),
    ]
    data = [pickle.dumps(solver) for solver in solvers]
    path.unlink()  # the text travels with the solver
    for solver, pickled in zip(solvers, data, strict=True):
        twin = pickle.loads(pickled)
        assert twin.info == solver.info
        targets = solver.sample_targets(3)
        np.testing.assert_array_equal(
            twin.solve(targets, collision=None).q, solver.solve(targets, collision=None).q
        )
    assert copy.copy(panda).info == panda.info
    assert "panda_link0 to panda_grasptarget" in repr(panda)


@pytest.mark.parametrize(
    ("poses", "message"),
    [
        ([0.4, 0, 0.4, 1, 0, 0], r"\(7,\) or \(T, 7\).*not \(6,\)"),
        (np.zeros((2, 3, 3)), r"not \(2, 3, 3\)"),
        (np.zeros((2, 2, 4, 4)), r"not \(2, 2, 4, 4\)"),
        (np.zeros((0, 6)), r"not \(0, 6\)"),
        (3.0, r"not \(\)"),
        (np.ones((5, 2, 7)), "several tips"),
        ([[1, 2, 3], [4]], "not an array of numbers"),
        ("pose", "must hold real numbers"),
        (None, "must hold real numbers"),
        (["0.4", "0", "0.4", "1", "0", "0", "0"], "must hold real numbers"),
        (np.ones(7, complex), "must hold real numbers"),
        (np.ones(7, bool), "must hold real numbers"),
    ],
)
def test_bad_poses(panda: hjcdik.Solver, poses: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        panda.solve(poses, collision=None)


def matrix(pose: np.ndarray) -> np.ndarray:
    w, x, y, z = pose[3:] / np.linalg.norm(pose[3:])
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), pose[0]],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x), pose[1]],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y), pose[2]],
            [0, 0, 0, 1],
        ]
    )


def test_poses_in_any_clothes_give_the_same_rows(panda: hjcdik.Solver) -> None:
    poses = panda.sample_targets(6)
    expected = panda.solve(poses, collision=None)
    wide = np.zeros((6, 14))
    wide[:, ::2] = poses
    frozen = poses.copy()
    frozen.setflags(write=False)
    for same in (poses.tolist(), tuple(map(tuple, poses)), wide[:, ::2], np.asfortranarray(poses), frozen):
        np.testing.assert_array_equal(panda.solve(same, collision=None).q, expected.q)
    swapped = poses.astype(">f8")
    np.testing.assert_array_equal(panda.solve(swapped, collision=None).q, expected.q)
    single = poses.astype(np.float32)
    np.testing.assert_array_equal(
        panda.solve(single, collision=None).q, panda.solve(single.astype(float), collision=None).q
    )
    np.testing.assert_array_equal(
        panda.solve([0, 0, 1, 1, 0, 0, 0], collision=None).q,
        panda.solve([0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0], collision=None).q,
    )
    matrices = np.array([matrix(pose) for pose in poses])
    np.testing.assert_allclose(panda.solve(matrices, collision=None).q, expected.q, atol=1e-6)
    np.testing.assert_allclose(panda.solve(matrices[2], collision=None).q, expected.q[2:3], atol=1e-6)
    np.testing.assert_array_equal(poses, panda.sample_targets(6))  # nothing was changed


def test_matrices_become_the_right_quaternions() -> None:
    random = np.random.default_rng(1)
    quaternions = [*random.normal(size=(200, 4)), *np.eye(4), *(np.eye(4) + 1e-9), [1, 1, 0, 0], [0, 1, 1, 0]]
    poses = np.array([[*random.normal(size=3), *q / np.linalg.norm(q)] for q in quaternions])
    found = hjcdik._inputs.poses(np.array([matrix(pose) for pose in poses]))
    np.testing.assert_array_equal(found[:, :3], poses[:, :3])
    alignment = np.abs(np.sum(found[:, 3:] * poses[:, 3:], axis=1))
    np.testing.assert_allclose(alignment, 1, rtol=0, atol=1e-14)
    assert hjcdik._inputs.poses(np.zeros((0, 4, 4))).shape == (0, 7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({(0, 0): 1.00001}, "not orthonormal"),
        ({(0, 1): 3e-5}, "not orthonormal: .* off the identity by 3e-05, more than 1e-05"),
        ({(0, 0): 1e200}, "not orthonormal"),
        ({(2, 2): -1.0}, "mirrors"),
        ({(3, 0): 0.1}, "last row 0.1 0 0 1 instead of 0 0 0 1"),
        ({(3, 1): 2e-9}, "last row 0 2e-09 0 1"),
        ({(3, 3): 2.0}, "last row"),
        ({(0, 3): np.nan}, "not finite"),
        ({(1, 1): np.inf}, "not finite"),
    ],
)
def test_matrices_that_are_no_rigid_transform(
    panda: hjcdik.Solver, change: dict[tuple[int, int], float], message: str
) -> None:
    matrices = np.tile(np.eye(4), (4, 1, 1))
    for (row, column), value in change.items():
        matrices[2, row, column] = value
    with pytest.raises(ValueError, match=rf"poses\[2\]: .*{message}"):
        panda.solve(matrices, collision=None)
    with pytest.raises(ValueError, match=f"poses: .*{message}"):
        panda.solve(matrices[2], collision=None)


def test_rounded_matrices_are_taken(panda: hjcdik.Solver) -> None:
    poses = panda.sample_targets(200)
    matrices = np.array([matrix(pose) for pose in poses]).round(6)
    matrices[:, 3] += 1e-10
    found = hjcdik._inputs.poses(matrices)
    alignment = np.abs(np.sum(found[:, 3:] * poses[:, 3:], axis=1))
    np.testing.assert_allclose(alignment, 1, rtol=0, atol=1e-11)


def test_masked_values_are_refused(panda: hjcdik.Solver) -> None:
    targets = np.ma.masked_array(panda.sample_targets(2))
    expected = panda.solve(targets.data, collision=None)
    np.testing.assert_array_equal(panda.solve(targets, collision=None).q, expected.q)  # nothing is masked
    targets[1, 2] = np.ma.masked
    with pytest.raises(ValueError, match="poses has masked values"):
        panda.solve(targets, collision=None)


def test_objects_that_are_real_numbers_are_taken(panda: hjcdik.Solver) -> None:
    numbers = [decimal.Decimal("0.5"), fractions.Fraction(1, 8), np.float32(0.5), 0, 1, 0.0, np.int8(0)]
    expected = panda.solve([0.5, 0.125, 0.5, 0, 1, 0, 0], collision=None).q
    for target in (numbers, np.array(numbers, dtype=object)):
        np.testing.assert_array_equal(panda.solve(target, collision=None).q, expected)
    for bad in ("0.5", None, True, np.True_, 1j, [0.5], decimal.Decimal("sNaN"), 10**400):
        target = np.array(numbers, dtype=object)
        target[0] = bad
        with pytest.raises(ValueError, match="poses"):
            panda.solve(target, collision=None)


@pytest.mark.filterwarnings("error")
@pytest.mark.skipif(np.finfo(np.longdouble).max == np.finfo(float).max, reason="long double is double")
def test_long_doubles_that_overflow_are_refused_without_a_warning(panda: hjcdik.Solver) -> None:
    target = np.array([0, 0, 1, 1, 0, 0, 0], np.longdouble)
    panda.solve(target, collision=None)
    target[0] = np.longdouble("1e400")
    with pytest.raises(ValueError, match="x is inf"):
        panda.solve(target, collision=None)


def test_arrays_on_a_device_are_refused(panda: hjcdik.Solver) -> None:
    class OnDevice:
        kind = 2  # CUDA

        def __dlpack_device__(self) -> tuple[int, int]:
            return (self.kind, 0)

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.array([0.4, 0, 0.4, 0, 1, 0, 0])

    array = OnDevice()
    with pytest.raises(TypeError, match=r"poses.*copy it to the host"):
        panda.solve(array, collision=None)
    array.kind = 1
    assert panda.solve(array, collision=None).outcome[0] == "solved"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_solutions": 0}, "num_solutions must be at least 1, not 0"),
        ({"num_solutions": 1.0}, "num_solutions must be an integer"),
        ({"num_solutions": True}, "num_solutions must be an integer, not True"),
        ({"num_solutions": np.True_}, "num_solutions must be an integer"),
        ({"num_solutions": "1"}, "num_solutions must be an integer"),
        ({"batch_size": 0}, r"batch_size must be in \[1, "),
        ({"batch_size": -5}, "batch_size"),
        ({"batch_size": 2**63}, "batch_size"),
        ({"batch_size": None}, "batch_size must be an integer"),
        ({"precision": "fp16"}, "precision must be one of 'auto', 'fp32', 'fp64', not 'fp16'"),
        ({"precision": None}, "precision"),
        ({"stats": 1}, "stats must be True or False"),
        ({"stats": "yes"}, "stats"),
        ({"seed": -1}, r"seed must be in \[0, 4294967295\], not -1"),
        ({"seed": 2**32}, "seed"),
        ({"seed": True}, "seed must be an integer"),
        ({"seed": 1.5}, "seed must be an integer"),
        ({"distinct_rad": -0.1}, "distinct_rad must not be negative"),
        ({"distinct_rad": np.nan}, "distinct_rad must be finite"),
        ({"distinct_rad": "0.1"}, "distinct_rad must be a number"),
        ({"coarse_sweeps": -1}, "coarse_sweeps"),
        ({"coarse_sweeps": 1.5}, "coarse_sweeps must be an integer"),
        ({"coarse_order": "random"}, "coarse_order must be one of 'sweep', 'greedy'"),
        ({"collision": "medium"}, "collision must be None or one of 'hard', 'soft', 'both', not 'medium'"),
        ({"collision": False}, "collision must be None or one of"),
        ({"collision_margin_m": 0.01}, "collision_margin_m needs"),
        ({"collision_margin_m": -1}, "collision_margin_m must not be negative"),
        ({"collision_margin_m": np.inf}, "collision_margin_m must be finite"),
        ({"collision_margin_m": np.zeros(2)}, "collision_margin_m must be a number, not array"),
        ({"collision_margin_m": "0"}, "collision_margin_m must be a number"),
        ({"self_collision": False}, "self_collision=False needs"),
        ({"self_collision": 0}, "self_collision must be True or False"),
        ({"self_motion": 0}, "self_motion must be True or False"),
        ({"world_index": 0.0}, "world_index must hold integers, not float64"),
        ({"world_index": [0]}, r"world_index must have shape \(2,\), one number for each target, not \(1,\)"),
        ({"world_index": [0, 2**40]}, r"world_index\[1\] is 1099511627776"),
    ],
)
def test_bad_solve_options(panda: hjcdik.Solver, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        panda.solve(panda.sample_targets(2), **{"collision": None, **options})


def test_the_largest_batch_is_known(panda: hjcdik.Solver) -> None:
    largest = panda.info.max_batch_size
    target = panda.sample_targets(1)
    assert panda.solve(target, collision=None, batch_size=largest).outcome[0] == "solved"
    with pytest.raises(ValueError, match=f"{largest}"):
        panda.solve(target, collision=None, batch_size=largest + 1)


def test_integers_of_numpy_are_integers(panda: hjcdik.Solver) -> None:
    target = panda.sample_targets(np.int64(1), seed=np.uint8(3))
    a = panda.solve(
        target, collision=None, num_solutions=np.int32(2), batch_size=np.uint16(99), seed=np.int8(5)
    )
    b = panda.solve(target, collision=None, num_solutions=2, batch_size=99, seed=5)
    np.testing.assert_array_equal(a.q, b.q)


@pytest.mark.parametrize(
    ("q_init", "message"),
    [
        (np.zeros(6), r"q_init must have shape \(7,\), \(K, 7\) or \(T, K, 7\), not \(6,\)"),
        (np.zeros((2, 8)), "q_init must have shape"),
        (np.zeros((3, 4, 7)), "q_init has rows for 3 targets, but there are 2"),
        (np.zeros((11, 7)), "11 rows, more than batch_size"),
        (np.zeros((1, 1, 2, 7)), "q_init must have shape"),
        ("home", "q_init must hold real numbers"),
        ([0, 0, 0, np.nan, 0, 0, 0], "q_init.*(nan|panda_joint4)"),
        ([[0] * 7, [0, 0, 0, 0, 0, np.inf, 0]], r"q_init\[1\]"),
        ({"panda_joint1": 0.0}, "q_init: no value for joint 'panda_joint2'"),
    ],
)
def test_bad_warm_starts(panda: hjcdik.Solver, q_init: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        panda.solve(panda.sample_targets(2), collision=None, q_init=q_init, batch_size=10)


def test_unknown_joints_in_a_mapping_are_named(panda: hjcdik.Solver) -> None:
    q_init = {**dict.fromkeys(panda.info.joint_names, 0.0), "panda_joint8": 0.0}
    with pytest.raises(ValueError, match="no joint 'panda_joint8'"):
        panda.solve(panda.sample_targets(1), collision=None, q_init=q_init)


def test_omitted_collision_means_none_without_geometry() -> None:
    arm = hjcdik.Solver(planar(), ee_link="l3", device="cpu")
    assert arm.info.collision_enabled is False
    assert (arm.info.spheres, arm.info.collision_links, arm.info.self_pairs) == ("", (), ())
    target = arm.sample_targets(1)
    np.testing.assert_array_equal(arm.solve(target).q, arm.solve(target, collision=None).q)


def test_collision_needs_geometry() -> None:
    arm = hjcdik.Solver(planar(), ee_link="l3", device="cpu")
    target = arm.sample_targets(1)
    how = r"no collision geometry.*Solver\(urdf, ee_link='l3', spheres=\.\.\.\).*sphere_presets"
    for mode in ("hard", "soft", "both"):
        with pytest.raises(ValueError, match=f"collision='{mode}'.*{how}.*collision=None"):
            arm.solve(target, collision=mode)
    for arguments in ({"collision_margin_m": 0.01}, {"self_collision": False}):
        with pytest.raises(ValueError, match=r"needs collision='hard' or 'both'"):
            arm.solve(target, **arguments)
    with pytest.raises(ValueError, match=f"set_world: .*{how}"):
        arm.set_world(spheres=[[0, 0, 1, 0.1]])
    with pytest.raises(ValueError, match=f"set_worlds: .*{how}"):
        arm.set_worlds([{}, {"spheres": [[0, 0, 1, 0.1]]}])
    with pytest.raises(ValueError, match=f"check: .*{how}"):
        arm.check([0.0, 0.0])
    assert arm.spheres_at([0.0, 0.0]).shape == (0, 4)


def test_what_has_no_effect_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    hjcdik.Solver("fetch", device="cpu", srdf='<robot name="fetch"/>', check_base=True)
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "fetch: <string>: the SRDF has no effect: the robot has no collision spheres",
        "fetch: check_base has no effect: the robot has no collision spheres",
    ]
    caplog.clear()
    srdf = '<robot name="pand"><disable_collisions link1="panda_link1" link2="panda_lnk5"/></robot>'
    hjcdik.Solver("panda", device="cpu", srdf=srdf, check_base=True)
    first, second = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert "is for robot 'pand', but that of" in first
    assert "has entries without effect: 'panda_lnk5'; the robot of" in second
    assert "no link 'panda_lnk5', the nearest names are 'panda_link5'" in second
    with pytest.raises(
        hjcdik.ModelError, match=r"no link that is checked has spheres: .* 'panda_link0' alone"
    ):
        hjcdik.Solver(
            hjcdik.preset_urdf("panda"),
            ee_link="panda_hand",
            spheres='{"spheres": {"panda_link0": [[0, 0, 0, 0.1]]}}',
        )


def test_worlds_without_obstacles_need_no_geometry() -> None:
    arm = hjcdik.Solver(planar(), ee_link="l3", device="cpu")
    arm.clear_world()
    (empty,) = arm.worlds
    for change in (arm.set_world, lambda: arm.set_world(boxes=[]), lambda: arm.set_worlds([])):
        change()
        (now,) = arm.worlds
        assert now.keys() == empty.keys()
        assert not any(len(now[kind]) for kind in now if kind != "exact_cylinders")
    targets = arm.sample_targets(2)
    for index in (0, -1, [0, -1]):
        arm.solve(targets, world_index=index)
    with pytest.raises(ValueError, match=r"world_index\[1\] is 1, but there is 1 world"):
        arm.solve(targets, world_index=[0, 1])
    arm.set_worlds([{}, {}])
    arm.solve(targets, world_index=[0, 1])
    assert len(pickle.loads(pickle.dumps(arm)).worlds) == 2


@pytest.mark.parametrize("num_solutions", [2**31, 10**15, 2**62, 2**64, 10**30])
def test_more_rows_than_memory_holds(panda: hjcdik.Solver, num_solutions: int) -> None:
    targets = np.tile(panda.sample_targets(1), (10_000, 1))
    with pytest.raises(ValueError, match=f"num_solutions={num_solutions} for 10000 targets"):
        panda.solve(targets, collision=None, num_solutions=num_solutions)


def test_options_of_solve_are_keywords(panda: hjcdik.Solver) -> None:
    with pytest.raises(TypeError):
        panda.solve(panda.sample_targets(1), 1)  # type: ignore[misc]
    with pytest.raises(TypeError, match="num_solution"):
        panda.solve(panda.sample_targets(1), num_solution=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0,), "num_targets must be at least 1"),
        ((-3,), "num_targets"),
        ((1.5,), "num_targets must be an integer"),
        ((True,), "num_targets must be an integer"),
        ((1, -1), "seed"),
        ((1, 2**64), "seed"),
        ((1, None), "seed"),
    ],
)
def test_bad_sampling_arguments(panda: hjcdik.Solver, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        panda.sample_targets(*arguments)


def test_samples_are_reachable_and_seeded(panda: hjcdik.Solver) -> None:
    targets = panda.sample_targets(50, seed=7)
    q = panda.sample_configurations(50, seed=7)
    assert targets.shape == (50, 7)
    np.testing.assert_array_equal(targets, panda.sample_targets(100, seed=7)[:50])
    np.testing.assert_allclose(panda.forward_kinematics(q), targets, rtol=0, atol=1e-15)
    assert np.abs(targets - panda.sample_targets(50, seed=8)).max() > 0.1
    np.testing.assert_allclose(np.linalg.norm(targets[:, 3:], axis=1), 1, rtol=0, atol=1e-14)


def test_forward_kinematics_and_jacobian(presets: dict[str, hjcdik.Solver]) -> None:
    for solver in presets.values():
        q = solver.sample_configurations(5, seed=3)
        poses, jacobians = solver.forward_kinematics(q), solver.jacobian(q)
        dof = solver.info.dof
        assert poses.shape == (5, 7)
        assert jacobians.shape == (5, 6, dof)
        assert solver.forward_kinematics(q[:0]).shape == (0, 7)
        np.testing.assert_array_equal(solver.forward_kinematics(q[2].tolist()), poses[2])
        named = dict(zip(solver.info.joint_names, q[2], strict=True))
        np.testing.assert_array_equal(solver.jacobian(named), jacobians[2])
        step = 1e-6
        for j in range(dof):
            shift = np.eye(dof)[j] * step
            difference = solver.forward_kinematics(q + shift) - solver.forward_kinematics(q - shift)
            np.testing.assert_allclose(difference[:, :3] / (2 * step), jacobians[:, :3, j], atol=1e-8)
    for function in (solver.forward_kinematics, solver.jacobian):
        with pytest.raises(ValueError, match="q must have shape"):
            function(np.zeros(dof + 1))
        with pytest.raises(ValueError, match=r"q\[1\]: joint '.*' is nan"):
            function([[0.0] * dof, [0.0] * (dof - 1) + [np.nan]])


def test_pose_xyzw_reorders() -> None:
    np.testing.assert_array_equal(hjcdik.pose_xyzw([1, 2, 3, 4, 5, 6, 7]), [1, 2, 3, 7, 4, 5, 6])
    rows = np.arange(14.0).reshape(2, 7)
    np.testing.assert_array_equal(hjcdik.pose_xyzw(rows), rows[:, [0, 1, 2, 6, 3, 4, 5]])
    assert hjcdik.pose_xyzw(np.zeros((0, 7))).shape == (0, 7)
    with pytest.raises(ValueError, match="qx qy qz qw"):
        hjcdik.pose_xyzw(np.zeros(6))


def test_typing_information_is_installed() -> None:
    package = Path(hjcdik.__file__).parent
    assert (package / "py.typed").exists()
    assert (package / "_core.pyi").exists()


def test_type_checkers_accept_what_is_accepted(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    program = (
        "import numpy as np, hjcdik\n"
        "n = np.int64(2)\n"
        "collision: str | None = None\n"
        "precision: str = 'auto'\n"
        "solver = hjcdik.Solver(device=n, threads=n)\n"
        "targets = solver.sample_targets(n, seed=n)\n"
        "result = solver.solve(targets, num_solutions=n, batch_size=n, seed=n, coarse_sweeps=n,\n"
        "                      collision=collision, precision=precision)\n"
        "row: hjcdik.TargetResult = result[n]\n"
        "part: hjcdik.Result = result[1:]\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_can_solve(panda: hjcdik.Solver) -> None:
    """The parent's threads do not exist in the child."""
    targets = panda.sample_targets(2000)
    expected = panda.solve(targets, collision=None)  # starts the threads
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            result = panda.solve(targets, collision=None)
            if result.q.tobytes() == expected.q.tobytes():
                os.write(write_end, b"same")
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        assert pipe.read() == b"same"
    assert os.waitpid(child, 0)[1] == 0
    assert panda.solve(targets, collision=None).q.tobytes() == expected.q.tobytes()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_running_out_of_memory_is_a_memory_error() -> None:
    """In C++: there is room for the array that Python makes, but not for the library's own."""
    program = (
        "import resource, hjcdik\n"
        "solver = hjcdik.Solver('panda', device='cpu', threads=1)\n"
        "solver.sample_targets(10)\n"
        "pages = int(open('/proc/self/statm').read().split()[0])\n"
        "limit = pages * resource.getpagesize() + 300_000_000\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "try:\n"
        "    solver.sample_targets(4_000_000)\n"
        "except MemoryError as error:\n"
        "    assert 'numpy' not in type(error).__module__, error\n"
        "else:\n"
        "    raise AssertionError('no MemoryError')\n"
        "assert solver.solve(solver.sample_targets(10), collision=None).q.shape == (10, 1, 7)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_extension_checks_the_sizes_of_what_it_fills(panda: hjcdik.Solver) -> None:
    """The Python layer makes the arrays; a slip there must not become a write outside them."""
    arrays = [np.empty(7), np.empty((1, 2, 7)), np.empty((1, 2, 7)), np.empty((1, 2)), np.empty((1, 2))]
    arrays += [np.empty(1, np.int64), np.empty(1, np.uint8)]
    arrays[0][:] = panda.sample_targets(1)
    options = (None, 2, 2000, 0, 1337, 0.05, None, 0, False, -1, 0, 1, 0.0, True, True, None)
    assert panda._core.solve(*arrays, *options) > 0
    for i in range(len(arrays)):
        short, read_only = list(arrays), list(arrays)
        short[i] = arrays[i].reshape(-1)[:-1]
        with pytest.raises(ValueError, match=r"expected|wrong item size"):
            panda._core.solve(*short, *options)
        if i > 0:
            read_only[i] = arrays[i].copy()
            read_only[i].setflags(write=False)
            with pytest.raises((ValueError, BufferError)):
                panda._core.solve(*read_only, *options)
    with pytest.raises(ValueError, match="wrong item size"):
        panda._core.solve(*arrays[:6], np.empty(1, np.int64), *options)
    with pytest.raises((ValueError, BufferError)):
        panda._core.solve(np.empty((2, 7))[:, ::2], *arrays[1:], *options)
