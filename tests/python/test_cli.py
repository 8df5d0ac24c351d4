"""The hjcdik command: its output, exit codes and one-line errors."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hjcdik
import support
from hjcdik import cli
from support import planar

POSE = ["0.4", "-1e-1", "0.4", "0", "1", "-0.0", "0"]


@pytest.fixture(scope="module")
def panda() -> hjcdik.Solver:
    """On the device that the command takes."""
    return hjcdik.Solver("panda")


def run(*arguments: str) -> int:
    """Runs the command; what it solves is open-world unless the arguments say otherwise."""
    if arguments[:1] == ("solve",) and "--collision" not in arguments:
        arguments = (*arguments, "--collision", "none")
    try:
        return cli.main(arguments)
    except SystemExit as stop:  # argparse's own: help, version, usage errors
        return int(stop.code or 0)


def text_of(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    """Standard output of a run that must end with this code and say nothing on stderr."""
    assert run(*arguments) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on stderr of a run that must refuse its input."""
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    assert captured.err.startswith("hjcdik: error: ")
    return captured.err


def document(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text_of(capsys, code, *arguments), parse_constant=refuse)


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert text_of(capsys, 0, "--version") == f"hjcdik {hjcdik.__version__}\n"
    for arguments in (["--help"], ["solve", "--help"]):
        text = text_of(capsys, 0, *arguments)
        assert "HJCDIK_NUM_THREADS" in text
        assert "HJCDIK_ISA" in text
        assert "exit codes" in text


def test_as_a_module_and_as_a_command() -> None:
    command = [sys.executable, "-m", "hjcdik", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == f"hjcdik {hjcdik.__version__}\n"


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of(capsys, 0, "info")
    assert "panda_grasptarget_hand" in text
    assert "panda_joint4" in text
    assert "-3.0718" in text
    assert text == text_of(capsys, 0, "info", "panda")
    assert document(capsys, 0, "info", "iiwa14", "--json")["locked_joints"] == {}


def test_what_a_robot_is_warned_of_stays_out_of_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    """The ur5e's forearm and second wrist link overlap where all joints are at mid-range."""
    assert run("info", "ur5e", "--json") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["joint_limits"][2] == [-np.pi, np.pi]
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("hjcdik: WARNING: ur5e: ")
    assert "'forearm_link' and 'wrist_2_link' overlap" in captured.err


def test_info_says_where_solves_run_and_what_a_gpu_lacks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, panda: hjcdik.Solver
) -> None:
    monkeypatch.setenv("HJCDIK_CACHE_DIR", str(tmp_path / "cache"))
    info = document(capsys, 0, "info", "--json")
    assert info["device"] == panda.info.device
    assert info["cache_folder"] == str(tmp_path / "cache")
    assert info["gpu_problem"] == support.GPU_PROBLEM
    assert bool(info["gpus"]) or bool(info["gpu_problem"])
    text = text_of(capsys, 0, "info")
    assert f"device                {panda.info.device}\n" in text
    for word in (str(tmp_path / "cache"), *info["gpus"], info["gpu_problem"]):
        assert word in text
    assert document(capsys, 0, "info", "--json", "--device", "cpu")["device"] == "cpu"


def test_info_of_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(planar())
    info = document(capsys, 0, "info", str(path), "--ee-link", "l3", "--json")
    assert (info["robot"], info["dof"]) == ("P2", 2)
    assert "'l3'" in error_of(capsys, "info", str(path))
    assert "l7" in error_of(capsys, "info", str(path), "--ee-link", "l7")
    path.write_text(planar().replace("revolute", "revolving", 1).replace("<joint", "\n<joint"))
    assert f"{path}:2" in error_of(capsys, "info", str(path), "--ee-link", "l3")


def test_presets(capsys: pytest.CaptureFixture[str]) -> None:
    robots, models = text_of(capsys, 0, "presets").split("\n\n")
    assert [line.split()[0] for line in robots.splitlines()[1:]] == hjcdik.presets()
    assert [line.split()[0] for line in models.splitlines()[1:]] == hjcdik.sphere_presets()
    presets = document(capsys, 0, "presets", "--json")
    assert [preset["name"] for preset in presets] == hjcdik.presets()
    assert [model["name"] for model in presets[0]["spheres"]] == ["panda_foam", "panda_curobo"]


def test_solve_a_pose(capsys: pytest.CaptureFixture[str], panda: hjcdik.Solver) -> None:
    data = document(capsys, 0, "solve", "panda", "--pose", *POSE, "--json", "--num-solutions", "3")
    expected = panda.solve([float(x) for x in POSE], num_solutions=3, collision=None)
    assert data["joint_names"] == list(panda.info.joint_names)
    (target,) = data["targets"]
    assert target["outcome"] == "solved"
    np.testing.assert_array_equal(target["q"], expected[0].q)
    np.testing.assert_array_equal(target["pose"], expected[0].pose)
    text = text_of(capsys, 0, "solve", "panda", "--pose", *POSE)
    assert "1 of 1 targets solved" in text
    assert f"{expected.q[0, 0, 0]:.6f}" in text
    two = document(capsys, 0, "solve", "panda", "--pose", *POSE, "--pose", *POSE, "--json")
    assert two["targets"][0] == two["targets"][1]


def test_info_lists_the_collision_spheres(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    info = hjcdik.Solver("panda").info
    text = text_of(capsys, 0, "info", "panda")
    assert f"spheres               panda_foam\nself_pairs            {len(info.self_pairs)}\n" in text
    for link in info.collision_links:
        assert f"\n{link} " in text
    assert document(capsys, 0, "info", "panda", "--json")["self_pairs"] == [list(p) for p in info.self_pairs]
    path = tmp_path / "arm.urdf"
    path.write_text(hjcdik.preset_urdf("panda"))
    arguments = ("info", str(path), "--ee-link", "panda_hand", "--json")
    assert document(capsys, 0, *arguments)["collision_enabled"] is False
    assert document(capsys, 0, *arguments, "--spheres", "panda_curobo")["spheres"] == "panda_curobo"
    assert "did you mean 'panda_curobo'" in error_of(capsys, *arguments, "--spheres", "curobo_panda")


def test_solve_in_a_world(capsys: pytest.CaptureFixture[str], tmp_path: Path, panda: hjcdik.Solver) -> None:
    box = [*(float(x) for x in POSE[:3]), 1, 0, 0, 0, 0.3, 0.3, 0.3]
    (tmp_path / "on.json").write_text(json.dumps({"boxes": [box]}))
    problem = {"obstacles": {"cuboid": {"box": {"pose": box[:7], "dims": box[7:]}}}}
    problems = {"some": [{"obstacles": {}}, problem, {"valid": False}]}
    (tmp_path / "mbm.json").write_text(json.dumps({"problems": problems}))
    solve = ("solve", "panda", "--json", "--pose", *POSE)
    on, mbm = (
        ["--world", str(tmp_path / "on.json")],
        ["--world", str(tmp_path / "mbm.json"), "--problem", "some"],
    )
    for world, blocked in ([], False), (on, True), ([*mbm, "0"], False), ([*mbm, "1"], True):
        (target,) = document(capsys, int(blocked), *solve, *world, "--collision", "hard")["targets"]
        assert target["outcome"] == ("environment_collision" if blocked else "solved")
        assert target["count"] == int(not blocked)
    free = document(capsys, 0, *solve, *on, "--collision", "none")["targets"][0]
    assert free["q"] == panda.solve([float(x) for x in POSE], collision=None)[0].q.tolist()
    soft = document(capsys, 0, *solve, *on, "--collision", "soft")["targets"][0]
    assert soft["outcome"] == "solved"
    for arguments, message in (
        ([*mbm, "3"], "mbm.json: index of set 'some' must be in [0, 2], not 3"),
        ([*mbm, "x"], "--problem: the index must be a number, not 'x'"),
        ([*mbm, "2"], "marked invalid"),
        (mbm[:2], "mbm.json: holds sets of problems; choose one with --problem SET INDEX"),
        (["--problem", "some", "0"], "--problem needs --world"),
        (["--world", "none.json"], "none.json: No such file or directory"),
        (["--collision", "soft"], "soft"),
        (["--collision", "hard", "--margin", "-1"], "collision_margin_m must not be negative"),
        (["--collision", "none", "--margin", "0.1"], "collision_margin_m needs"),
    ):
        assert message in error_of(capsys, *solve, *arguments)
    for content, message in (
        ("[]", "w.json: expected an object of boxes, capsules, cylinders, spheres, exact_cylinders"),
        ("null", "w.json: expected an object of boxes"),
        ('{"box": []}', "w.json: unknown key 'box'; expected an object of boxes"),
        (
            '{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "boxes": []}',
            "w.json: unknown key 'a', 'b', 'c', 'd' and 1 more; expected",
        ),
        ('{"boxes": null}', "w.json: boxes is null; leave it out"),
        ('{"spheres": [], "spheres": []}', "w.json: the key 'spheres' is there more than once"),
        ('{"exact_cylinders": 1}', "w.json: exact_cylinders must be True or False"),
        ("{", "w.json:1: not JSON"),
        ('{"boxes": [[1, 2, 3]]}', "w.json: boxes must have shape (M, 10)"),
        ('{"spheres": [[0, 0, 0, -1]]}', "w.json: spheres[0]: r is -1; radii must be positive"),
    ):
        (tmp_path / "w.json").write_text(content)
        assert message in error_of(capsys, *solve, "--world", str(tmp_path / "w.json"))


def test_negative_numbers_are_values(capsys: pytest.CaptureFixture[str]) -> None:
    pose = ["-.3", "-0.2", "4e-1", "-5E-1", "-.5", "-0.5", "-5.e-1"]
    assert document(capsys, 0, "solve", "panda", "--json", "--pose", *pose)["targets"][0]["count"] == 1
    assert "poses[0]: x is -inf" in error_of(capsys, "solve", "panda", "--pose", "-inf", *pose[1:])


def test_random_targets(capsys: pytest.CaptureFixture[str], panda: hjcdik.Solver) -> None:
    data = document(capsys, 0, "solve", "panda", "--random", "5", "--seed", "3", "--json")
    expected = panda.solve(panda.sample_targets(5, seed=3), seed=3, collision=None)
    np.testing.assert_array_equal([target["q"] for target in data["targets"]], expected.q)
    text = text_of(capsys, 0, "solve", "panda", "--random", "500", "--threads", "1", "--device", "cpu")
    assert "500 of 500 targets solved" in text
    assert len(text.splitlines()) < 30


def test_unsolved_targets_have_their_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    far = ["9", "0", "0", "1", "0", "0", "0"]
    data = document(capsys, 1, "solve", "panda", "--pose", *far, "--pose", *POSE, "--json")
    assert [target["outcome"] for target in data["targets"]] == ["approximate", "solved"]
    assert "1 of 2 targets solved" in text_of(capsys, 1, "solve", "panda", "--pose", *far, "--pose", *POSE)


@pytest.fixture
def targets(panda: hjcdik.Solver) -> np.ndarray:
    return panda.sample_targets(4)


def test_targets_from_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, panda: hjcdik.Solver, targets: np.ndarray
) -> None:
    rows = "".join(",".join(map(repr, row)) + "\n" for row in targets.tolist())
    files = {
        "plain.csv": rows,
        "head.csv": "# from a test\nx, y, z, qw, qx, qy, qz\n\n" + rows + "\n# the end\n",
        "bom.csv": "\ufeffx,y,z,qw,qx,qy,qz\r\n" + rows.replace("\n", "\r\n"),
        "units.csv": "X [m],y_m,z m,quat_w,q_x,qy,Quaternion.z\n" + rows,
        "short.csv": "px,pos_y,position z,w,qx,qy,qz\n" + rows,
        "list.json": json.dumps(targets.tolist()),
        "bom.json": "\ufeff" + json.dumps(targets.tolist()),
        "object.JSON": json.dumps({"targets": targets.tolist(), "more": 1}),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content.encode())
    np.save(tmp_path / "rows.npy", targets)
    np.save(tmp_path / "single.npy", targets.astype(np.float32))
    expected = panda.solve(targets, collision=None)
    for name in [*files, "rows.npy"]:
        data = document(capsys, 0, "solve", "panda", "--targets", str(tmp_path / name), "--json")
        np.testing.assert_array_equal([target["q"] for target in data["targets"]], expected.q, err_msg=name)
    assert run("solve", "panda", "--targets", str(tmp_path / "single.npy")) == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "1,2,3,1,0,0\n", "a.csv:1: expected 7 values (x y z qw qx qy qz), got 6"),
        ("a.csv", "# c\n\nx,y,z,qw,qx,qy,qz\n0,0,1,1,0,0,o\n", "a.csv:4: 'o' is not a number"),
        ("a.csv", "x,y,z,qx,qy,qz,qw\n0,0,1,0,0,0,1\n", "a.csv:1: the columns must be x,y,z,qw,qx,qy,qz"),
        ("a.csv", "x m,y m,z m,quat_x,quat_y,quat_z,quat_w\n0,0,1,0,0,0,1\n", "a.csv:1: the columns must be"),
        ("a.csv", "x,y,z\n0,0,1\n", "a.csv:1: the columns must be x,y,z,qw,qx,qy,qz, not x,y,z\n"),
        (
            "a.csv",
            "a,b,c,d,e,f,g\n0,0,1,1,0,0,0\n",
            "a.csv:1: 'a' is neither a number nor one of the columns",
        ),
        ("a.csv", "x mm,y mm,z mm,qw,qx,qy,qz\n0,0,1,1,0,0,0\n", "a.csv:1: 'x mm' is neither"),
        ("a.csv", "0.5;0.1;0.4;0;1;0;0\n0,0,1,1,0,0,0\n", "a.csv:1: '0.5;0.1;0.4;0;1;0;0' is neither"),
        ("a.csv", "O.5,O.1,O.4,O,I,O,O\n0,0,1,1,0,0,0\n", "a.csv:1: 'O.5' is neither"),
        ("a.csv", "O.5,0.1,0.4,0,1,0,0\n", "a.csv:1: 'O.5' is not a number"),
        ("a.csv", "x,y,z,qw,qx,qy,qz\nx,y,z,qw,qx,qy,qz\n", "a.csv:2: 'x' is not a number"),
        ("a.csv", "", "a.csv: no targets in it"),
        ("a.csv", "# nothing\nx,y,z,qw,qx,qy,qz\n", "a.csv: no targets in it"),
        ("a.csv", "1" * 200_000, "a.csv: field larger than"),
        ("a.csv", "0,0,1,1,0,0,0\nx,y,z,qw,qx,qy,qz\n", "a.csv:2: 'x' is not a number"),
        ("a.csv", "0,0,1,1,0,0,0\n\n0,0,nan,1,0,0,0\n", "a.csv:3: z is nan"),
        ("a.csv", "x,y,z,qw,qx,qy,qz\n0,0,1,0,0,0,0\n", "a.csv:2: the quaternion (qw qx qy qz) is zero"),
        ("a.csv", b"\xff\xfe0,0", "a.csv: not UTF-8 text"),
        ("a.json", "[[0,0,1,1,0,0,0],\n[0,", "a.json:2: not JSON"),
        ("a.json", "[[0,0,1,1,0,0,0], [0,0,1]]", "a.json: target 1: expected 7 numbers"),
        ("a.json", '[[0,0,1,1,0,0,"0"]]', "a.json: target 0: expected 7 numbers"),
        ("a.json", '{"poses": []}', "a.json: expected a list of targets"),
        ("a.json", "[[0,0,1,1,0,0,0], [0,0,NaN,1,0,0,0]]", "a.json: target 1: z is nan"),
        ("a.json", "[]", "a.json: no targets in it"),
        ("a.json", f"[[{10**400},0,1,1,0,0,0]]", "a.json: target 0: a number is too large"),
        ("a.json", f"[[{'9' * 5000},0,1,1,0,0,0]]", "a.json: "),
        ("a.json", "[" * 100_000, "a.json: lists are nested too deeply"),
        ("a.json", b"\xff[]", "a.json: not UTF-8 text"),
        ("a.npy", b"PK\x03\x04", "a.npy: not an .npy file"),
        ("a.npy", "nothing", "a.npy: not an .npy file"),
        ("a.txt", "", "must end with one of .csv, .json, .npy"),
    ],
)
def test_bad_target_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert message in error_of(capsys, "solve", "panda", "--targets", str(path))


def test_bad_arrays(capsys: pytest.CaptureFixture[str], tmp_path: Path, targets: np.ndarray) -> None:
    path = tmp_path / "a.npy"
    np.save(path, targets[:, :6])
    assert "a.npy: the array must have shape" in error_of(capsys, "solve", "panda", "--targets", str(path))
    targets[2, 3:] = 0
    np.save(path, targets)
    assert "a.npy: row 2: the quaternion (qw qx qy qz) is zero" in error_of(
        capsys, "solve", "panda", "--targets", str(path)
    )
    np.save(path, targets[:0])
    assert "a.npy: no targets in it" in error_of(capsys, "solve", "panda", "--targets", str(path))
    np.save(path, np.array([None]), allow_pickle=True)
    assert "a.npy: not an .npy file of numbers" in error_of(capsys, "solve", "panda", "--targets", str(path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["info", "pandas"], "did you mean 'panda'"),
        (["solve", "panda", "--targets", "none.csv"], "none.csv: No such file or directory"),
        (["solve", "panda", "--random", "0"], "--random must be at least 1, not 0"),
        (["solve", "panda", "--random", "1", "--seed", "-1"], "--seed must be in [0, 4294967295], not -1"),
        (["solve", "panda", "--random", "1", "--seed", "4294967296"], "--seed must be in [0, 4294967295]"),
        (["solve", "panda", "--pose", *POSE, "--seed", "4294967296"], "--seed must be in [0, 4294967295]"),
        (["solve", "panda", "--random", "1", "--num-solutions", "0"], "num_solutions"),
        (["solve", "panda", "--random", "1", "--batch-size", "-2"], "batch_size"),
        (["solve", "panda", "--random", "1", "--threads", "0"], "threads"),
        (["solve", "panda", "--random", "1", "--device", "gpu"], "device must be None"),
        (["solve", "panda", "--random", "1", "--device", "cuda:77"], "cpu"),
        (["solve", "panda", "--random", "1", "--ee-link", "hand"], "panda_hand"),
        (["solve", "panda", "--random", "1", "--output", "rows.txt"], "rows.txt: the file's name must end"),
        (
            ["solve", "panda", "--random", "1", "--output", "no/folder/rows.csv"],
            "no/folder/rows.csv: there is no folder no/folder",
        ),
        (["solve", "panda", "--random", "1", "--output", "folder.csv"], "folder.csv: is a folder"),
    ],
)
def test_bad_arguments(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: list[str], message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.csv").mkdir()
    assert message in error_of(capsys, *arguments)


@pytest.mark.parametrize("output", ["no/folder/rows.csv", "folder.csv"])
def test_a_bad_output_is_found_before_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    (tmp_path / "folder.csv").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_solve_in_slices", lambda *_: pytest.fail("it solved first"))
    assert output in error_of(capsys, "solve", "panda", "--random", "1", "--output", output)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dance"],
        ["solve", "panda"],
        ["solve", "panda", "--pose", "1", "2"],
        ["solve", "panda", "--pose", *"abcdefg"],
        ["solve", "panda", "--random", "1", "--targets", "a.csv"],
        ["solve", "panda", "--random", "x"],
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run(*arguments) == 2
    assert "usage: hjcdik" in capsys.readouterr().err


def test_output_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, panda: hjcdik.Solver, targets: np.ndarray
) -> None:
    targets[1, :3] = [9, 0, 0]
    np.save(tmp_path / "in.npy", targets)
    expected = panda.solve(targets, num_solutions=2, collision=None)
    common = ["solve", "panda", "--targets", str(tmp_path / "in.npy"), "--num-solutions", "2", "--output"]
    for suffix in ("csv", "json", "npy"):
        text = text_of(capsys, 1, *common, str(tmp_path / f"out.{suffix}"))
        assert "3 of 4 targets solved" in text
        assert len(text.splitlines()) == 1
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected.q)
    data = json.loads((tmp_path / "out.json").read_text())
    np.testing.assert_array_equal(data["targets"][0]["q"], expected[0].q)
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == expected.count.sum()
    assert float(rows[0]["panda_joint1"]) == expected.q[0, 0, 0]
    assert float(rows[0]["qw"]) == expected.pose[0, 0, 3]
    assert {row["outcome"] for row in rows if row["target"] == "1"} == {"approximate"}
    document(capsys, 1, *common, str(tmp_path / "both.json"), "--json")
    assert (tmp_path / "both.json").exists()


def test_suffixes_in_capitals(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for suffix in ("CSV", "Json", "NPY"):
        text_of(capsys, 0, "solve", "panda", "--pose", *POSE, "--output", str(tmp_path / f"o.{suffix}"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.CSV", "o.Json", "o.NPY"]
    assert np.load(tmp_path / "o.NPY").shape == (1, 1, 7)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("with_rich", [True, False])
def test_progress_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, panda: hjcdik.Solver, with_rich: bool
) -> None:
    if with_rich:
        pytest.importorskip("rich")
    else:
        for module in ("rich", "rich.console", "rich.progress", "rich.table"):
            monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(cli, "_SLICE", 300)
    monkeypatch.setattr(cli, "_GPU_SLICE", 300)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert run("solve", "panda", "--random", "1000", "--json") == 0
    assert "solving" in terminal.getvalue()
    sliced = json.loads(capsys.readouterr().out)
    expected = panda.solve(panda.sample_targets(1000), collision=None)
    np.testing.assert_array_equal([target["q"] for target in sliced["targets"]], expected.q)


def test_a_bad_target_of_a_late_slice_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, panda: hjcdik.Solver
) -> None:
    targets = panda.sample_targets(50)
    targets[42, 0] = np.inf
    np.save(tmp_path / "a.npy", targets)
    monkeypatch.setattr(cli, "_SLICE", 20)
    monkeypatch.setattr(cli, "_GPU_SLICE", 20)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert run("solve", "panda", "--targets", str(tmp_path / "a.npy")) == 2
    assert "a.npy: row 42: x is inf" in terminal.getvalue()


def test_tables_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert run("info", "panda") == 0
    assert "panda_joint7" in terminal.getvalue()


def test_warnings_of_a_robot_are_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(planar(kinds=("continuous", "revolute"), limits=((-1.0, 1.0), (-1.0, 1.0))))
    assert run("info", str(path), "--ee-link", "l3") == 0
    assert "hjcdik: WARNING: P2: " in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX pipes")
def test_a_closed_pipe_is_no_error() -> None:
    command = [sys.executable, "-m", "hjcdik", "solve", "panda", "--random", "5000", "--json"]
    command += ["--collision", "none"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def in_a_shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command with these arguments and redirections."""
    line = f'"$PYTHON" -m hjcdik {line}'
    environment = {**os.environ, "PYTHON": sys.executable, **variables}
    return subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True)


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_closed_streams_are_no_error(tmp_path: Path) -> None:
    pose = " ".join(POSE)
    for redirection in (">&-", "2>&-", ">&- 2>&-"):
        output = tmp_path / "o.csv"
        done = in_a_shell(f"solve panda --pose {pose} --output '{output}' {redirection}")
        assert (done.returncode, done.stderr) == (0, "")
        assert output.read_text().startswith("target,")
        output.unlink()
    assert in_a_shell("info >&-").returncode == 0
    assert in_a_shell("solve panda --random 0 2>&-").returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    done = in_a_shell("info panda > /dev/full")
    assert (done.returncode, done.stderr) == (2, "hjcdik: error: No space left on device\n")
    for suffix in ("csv", "json", "npy"):
        output = tmp_path / f"o.{suffix}"
        output.symlink_to("/dev/full")
        done = in_a_shell(f"solve panda --random 1000 --output '{output}'")
        assert (done.returncode, done.stderr) == (2, f"hjcdik: error: {output}: No space left on device\n")


@pytest.mark.skipif(sys.platform != "linux", reason="needs names that are any bytes")
def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(bytes(tmp_path) + b"/\xff x")
    Path(name + ".urdf").write_text(planar())
    assert in_a_shell('info "$NAME.urdf" --ee-link l3', NAME=name).returncode == 0
    Path(name + ".urdf").write_text("<robot>")
    Path(name + ".json").write_text("[")
    for line in (
        'info "$NAME.urdf" --ee-link l3',
        'info "$NAME"',
        'info panda --ee-link "$NAME"',
        'info panda --device "$NAME"',
        'solve panda --targets "$NAME.json"',
        'solve panda --targets "$NAME.csv"',
        'solve panda --random 1 --output "$NAME/o.csv"',
    ):
        done = in_a_shell(line, NAME=name)
        assert done.returncode == 2, line
        assert done.stderr.startswith("hjcdik: error: "), line
        assert done.stderr.count("\n") == 1, line
