"""Prepared robots: building without a GPU, loading without a compiler, and a store that many use at once."""

from __future__ import annotations

import json
import logging
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hjcdik
import support
from fakes import PRELUDE, run
from hjcdik import _builds, _core, _devices, _prebuild, cli
from support import joint, planar, urdf


@pytest.fixture(scope="session")
def nvrtc() -> None:
    _devices.find_compilers()
    solver = hjcdik.Solver(planar(), ee_link="l3", device="cpu")
    try:
        _core.compile_program(solver._robot, False, False, 9, 0)
    except hjcdik.DeviceError as error:
        support.missing(str(error))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, the default one in this test, on a machine without a GPU."""
    folder = tmp_path / "store"
    monkeypatch.setenv("HJCDIK_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def compiler(fakes: dict[str, Path]) -> dict[str, str | Path]:
    """The environment of a program on a machine with (fake) NVRTC and without a GPU."""
    return {"HJCDIK_NVRTC": fakes["nvrtc"], "HJCDIK_LIBCUDA": "/nowhere/libcuda.so.1"}


@pytest.fixture
def arm(tmp_path: Path) -> Path:
    path = tmp_path / "arm.urdf"
    path.write_text(hjcdik.preset_urdf("panda").replace('name="panda"', 'name="arm"', 1))
    return path


def plan(source: Any, **settings: Any) -> hjcdik.Artifact:
    return hjcdik.build(source, plan_only=True, **{"cuda_arch": "9.0", **settings})


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def put(artifact: hjcdik.Artifact, **changes: Any) -> None:
    """Writes the build's file anew, with changes to its document."""
    folder = str(artifact.path.parent.parent)
    _, keys, text = _core.read_build(folder, artifact.name)
    _core.publish_build(folder, artifact.name, keys, json.dumps({**json.loads(text), **changes}))


# --- building and loading -----------------------------------------------------------------------


@pytest.mark.usefixtures("nvrtc")
def test_build_and_load(store: Path, arm: Path) -> None:
    start = time.perf_counter()
    artifact = hjcdik.build(arm, ee_link="panda_hand", spheres="panda_foam", cuda_arch="sm_90")
    assert time.perf_counter() - start < 30  # 2 s where nothing else runs
    assert (artifact.name, artifact.robot) == ("arm-panda_hand-cc", "arm")
    assert (artifact.ee_frame, artifact.ee_link) == ("panda_hand_joint", "panda_hand")
    assert (artifact.collision_enabled, artifact.spheres) == (True, "panda_foam")
    assert (artifact.cuda_arch, artifact.compiled, artifact.version) == ("sm_90", True, hjcdik.__version__)
    assert [program.collision for program in artifact.programs] == [False, True]
    assert files(store) == {
        artifact.path,
        artifact.header,
        *(store / "programs" / f"{program.key}.bin" for program in artifact.programs),
    }
    for program in artifact.programs:
        assert b"\x7fELF" in (store / "programs" / f"{program.key}.bin").read_bytes()[:400]
    again = hjcdik.build(arm, ee_link="panda_hand", spheres="panda_foam", cuda_arch=90)
    assert not again.compiled
    assert again.content_key == artifact.content_key

    arm.unlink()
    loaded = hjcdik.load(artifact.name)
    assert loaded == again
    assert hjcdik.list_builds() == [loaded]
    direct = hjcdik.Solver(
        hjcdik.preset_urdf("panda"), ee_link="panda_hand", spheres="panda_foam", device="cpu"
    )
    for allow_build in (True, False):
        solver = hjcdik.Solver(artifact.name, device="cpu", allow_build=allow_build)
        assert solver.info.artifact == str(artifact.path)
        assert solver.info.robot == "arm"
        assert solver.info.spheres == "panda_foam"
        assert solver.info.grid_header_sha256 == artifact.header.stem
        targets = solver.sample_targets(20)
        assert support.same_bits(solver.solve(targets), direct.solve(targets))
    assert artifact.header.read_text() == hjcdik.codegen(solver)


@pytest.mark.usefixtures("nvrtc")
def test_force_rebuild_replaces_and_repairs(store: Path) -> None:
    first = hjcdik.build(planar(), ee_link="l3", cuda_arch="8.6")
    (program,) = (store / "programs").iterdir()
    good = program.read_bytes()
    assert not hjcdik.build(planar(), ee_link="l3", cuda_arch="8.6").compiled
    program.write_bytes(good[:-1])
    assert hjcdik.build(planar(), ee_link="l3", cuda_arch="8.6").compiled
    assert program.read_bytes() == good
    inode = program.stat().st_ino
    forced = hjcdik.build(planar(), ee_link="l3", cuda_arch="8.6", force_rebuild=True)
    assert forced == first
    assert program.stat().st_ino != inode
    assert program.read_bytes() == good
    assert hjcdik.build("P2-l3", cuda_arch="8.6", force_rebuild=True).compiled  # by its name, from the store


@pytest.mark.usefixtures("nvrtc")
def test_prebuilt_programs_are_those_of_builds(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "packaged"
    monkeypatch.setenv("HJCDIK_STORE", str(folder))
    monkeypatch.setenv("HJCDIK_CACHE_LIMIT_MB", "7")
    arguments = [str(folder), "--robot", "fetch", "--cuda-arch", "sm_75,compute_100"]
    assert _prebuild.main(arguments) == 0
    out = capsys.readouterr().out
    monkeypatch.setenv("HJCDIK_STORE", str(folder))
    programs = files(folder)
    assert f"{len(programs)} programs in {folder}, {len(programs)} of them compiled now" in out
    assert _prebuild.main(arguments) == 0
    assert ", 0 of them compiled now" in capsys.readouterr().out
    monkeypatch.setenv("HJCDIK_STORE", str(folder))
    copied = hjcdik.build("fetch", cuda_arch=["7.5", "compute_100"])
    assert not copied.compiled
    assert {path.name for path in files(store / "programs")} == {path.name for path in programs}


def test_plan_only_compiles_and_writes_nothing(
    store: Path, arm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HJCDIK_NVRTC", "/nowhere/libnvrtc.so.13")
    artifact = plan(arm, ee_link="panda_hand", cuda_arch="all")
    assert not artifact.compiled
    assert artifact.cuda_arch == "sm_75,sm_80,sm_86,sm_89,sm_90,sm_100,sm_120,compute_100"
    assert len({program.key for program in artifact.programs}) == 8
    assert artifact.path.parent == store / "builds"
    assert not store.exists()
    # What makes a robot makes its content; its name does not.
    other = plan(arm, ee_link="panda_hand", cuda_arch="all", name="other")
    assert other.content_key == artifact.content_key
    assert other.path != artifact.path
    moved = arm.read_text().replace("0.333", "0.334")
    for changed in (
        plan(moved, ee_link="panda_hand", cuda_arch="all"),
        plan(arm, ee_link="panda_link8", cuda_arch="all"),
        plan(arm, ee_link="panda_hand", cuda_arch="all", spheres="panda_foam"),
        plan(arm, ee_link="panda_hand", cuda_arch="all", locked_joints={"panda_joint1": 0.5}),
        plan(arm, ee_link="panda_hand", cuda_arch="9.0"),
    ):
        assert changed.content_key != artifact.content_key


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (90, "sm_90"),
        (9.0, "sm_90"),
        (90.0, "sm_90"),
        (100.0, "sm_100"),
        (np.float32(9.0), "sm_90"),
        (np.array([80, 90]), "sm_80,sm_90"),
        ("90", "sm_90"),
        ("9.0", "sm_90"),
        ("sm_90", "sm_90"),
        ("sm90", "sm_90"),
        (120, "sm_120"),
        ("12.0", "sm_120"),
        ("compute_90", "compute_90"),
        ("8.6,9.0", "sm_86,sm_90"),
        ("86; 90", "sm_86,sm_90"),
        (["8.6", 90, "compute_90", "sm_86"], "sm_86,sm_90,compute_90"),
        (("all", "8.7"), ",".join(_builds.ARCHITECTURES) + ",sm_87"),
    ],
)
def test_cuda_arch_in_every_form(store: Path, given: Any, expected: str) -> None:
    assert plan(planar(), ee_link="l3", cuda_arch=given).cuda_arch == expected


@pytest.mark.parametrize("given", ["", "sm_", "x", "sm_90a", 7, 70, "sm_70", [], True, "9.0.0", {}, "sm_90,"])
def test_cuda_arch_that_is_none(store: Path, given: Any) -> None:
    with pytest.raises(ValueError, match="cuda_arch"):
        plan(planar(), ee_link="l3", cuda_arch=given)


@pytest.mark.skipif(not support.GPU_PROBLEM, reason="there is a GPU")
@pytest.mark.usefixtures("nvrtc")
def test_what_the_compiler_does_not_know_is_refused(store: Path) -> None:
    for arch in ("sm_98", "compute_98", "99.9", 999):
        with pytest.raises(
            hjcdik.BuildError, match=r"NVRTC \d+\.\d+ does not compile for .*; it knows 75, 80"
        ):
            hjcdik.build("ur5e", cuda_arch=arch, name="odd")
    assert hjcdik.list_builds() == []
    assert not files(store)


def test_all_is_what_the_compiler_knows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_core, "known_architectures", lambda: [75, 80, 86, 89, 90])
    with caplog.at_level(logging.WARNING, "hjcdik"):
        targets = _builds.targets_of("all")
    assert [str(target) for target in targets] == ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "compute_90"]
    assert "sm_100, sm_120, compute_100: left out" in caplog.text


def test_a_build_made_again_is_for_what_it_was_for(
    compiler: dict[str, str | Path], store: Path, arm: Path
) -> None:
    run(
        f"""
one = hjcdik.build({str(arm)!r}, ee_link="panda_hand", cuda_arch="8.6,9.0", name="left")
again = hjcdik.build("left")
assert again.cuda_arch == one.cuda_arch == "sm_86,sm_90"
assert (one.compiled, again.compiled) == (True, False)
assert hjcdik.build("left", cuda_arch="sm_75").cuda_arch == "sm_75"
""",
        **compiler,
    )


def test_one_of_many_threads_compiles(compiler: dict[str, str | Path], store: Path) -> None:
    program = """
from concurrent.futures import ThreadPoolExecutor
def build(_):
    return hjcdik.build("ur5e", cuda_arch="sm_90", name="x").compiled
with ThreadPoolExecutor(16) as pool:
    compiled = list(pool.map(build, range(16)))
print(compiled.count(True), fake("HJCDIK_NVRTC").fake_compiled())
"""
    counts = [int(word) for word in run(program, **compiler)[0].split()]
    assert counts[1] == 2  # one for each variant
    assert 1 <= counts[0] <= 2


def test_a_finished_build_asks_nothing_of_its_store(compiler: dict[str, str | Path], store: Path) -> None:
    build = 'artifact = hjcdik.build("ur5e", cuda_arch="sm_90", name="x")'
    run(build, **compiler)
    before = {path: path.stat().st_mtime_ns for path in files(store) if path.suffix != ".bin"}
    run(f"{build}\nassert not artifact.compiled", **compiler)
    assert {path: path.stat().st_mtime_ns for path in files(store) if path.suffix != ".bin"} == before


def test_a_plan_knows_the_packaged_programs(
    compiler: dict[str, str | Path], store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packaged = tmp_path / "packaged"
    run(f"from hjcdik import _prebuild\n_prebuild.main([{str(packaged)!r}, '--robot', 'ur5e'])", **compiler)
    program = "from hjcdik import cli\ncli.main(['build', 'ur5e', '--plan', '--cuda-arch', '90'])"
    output, _ = run(program, HJCDIK_STORE=packaged, **compiler)
    assert "0 of 2 programs would be compiled" in output


def test_a_damaged_header_is_written_again(built: hjcdik.Artifact) -> None:
    text = built.header.read_text()
    built.header.write_text(text + "// more\n")
    assert hjcdik.load(built.name).header.read_text() == text


def test_the_tool_of_a_build_may_be_repeated_in_every_form(
    compiler: dict[str, str | Path], store: Path
) -> None:
    run(
        """
hjcdik.build("ur5e", cuda_arch="sm_90", name="x")
for tool in ("tool0", "link:tool0", "flange-tool0", "joint:flange-tool0"):
    assert hjcdik.Solver("x", ee_link=tool, device="cpu").info.ee_link == "tool0"
other = "link:flange-tool0"
raises(ValueError, lambda: hjcdik.Solver("x", ee_link=other, device="cpu"), "prepared for the tool")
""",
        **compiler,
    )


def test_commands_of_messages_name_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a folder"
    with pytest.raises(hjcdik.BuildError, match=f"--name x --cache-dir '{folder}'"):
        hjcdik.load("x", cache_dir=folder)
    assert cli.main(["list", "--cache-dir", str(folder)]) == 0
    assert f"--cache-dir '{folder}'" in capsys.readouterr().out
    file = tmp_path / "file"
    file.touch()
    for command in (["list"], ["codegen", "x"], ["info", "x", "--device", "cpu"]):
        assert cli.main([*command, "--cache-dir", str(file)]) == 2
        assert f"{file}: is not a folder" in capsys.readouterr().err


def test_a_limit_that_is_no_number_is_said(compiler: dict[str, str | Path], store: Path) -> None:
    program = 'hjcdik.build("ur5e", cuda_arch="sm_90", name="x")'
    _, log = run(program, HJCDIK_CACHE_LIMIT_MB="500MB", **compiler)
    assert log.count("HJCDIK_CACHE_LIMIT_MB is '500MB'") == 1


def test_without_a_gpu_a_build_is_for_all(store: Path) -> None:
    assert plan(planar(), ee_link="l3", cuda_arch=None).cuda_arch == ",".join(_builds.ARCHITECTURES)
    with pytest.raises(ValueError, match="'native' needs a GPU"):
        plan(planar(), ee_link="l3", cuda_arch="native")


def test_bad_arguments(store: Path, arm: Path) -> None:
    for settings, message in (
        ({}, "ee_link"),
        ({"ee_link": "nowhere"}, "nowhere"),
        ({"ee_link": ""}, "ee_link"),
        ({"ee_link": 3}, "ee_link"),
        ({"ee_link": "panda_hand", "spheres": "panda_fom"}, "did you mean 'panda_foam'"),
        ({"ee_link": "panda_hand", "collision_res": 0}, "collision_res must be positive"),
        ({"ee_link": "panda_hand", "collision_res": "x"}, "collision_res"),
        ({"ee_link": "panda_hand", "cache_dir": ""}, "cache_dir"),
        ({"ee_link": "panda_hand", "force_rebuild": 2}, "force_rebuild must be True or False"),
        ({"ee_link": "panda_hand", "plan_only": "no"}, "plan_only must be True or False"),
        ({"ee_link": "panda_hand", "locked_joints": {"x": 1}}, "'x'"),
    ):
        with pytest.raises(ValueError, match=message):
            hjcdik.build(arm, cuda_arch="9.0", **settings)
    with pytest.raises(ValueError, match="spheres must be None for the packaged robot 'panda'"):
        hjcdik.build("panda", spheres="panda_curobo")
    for source in (None, 3, "nothing"):
        with pytest.raises(ValueError, match=r"urdf|robot"):
            hjcdik.build(source, ee_link="l3")
    assert not store.exists()


def test_without_a_compiler(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(
        f"""
error = raises(hjcdik.BuildError, lambda: hjcdik.build("ur5e", cuda_arch="sm_90"),
               "pip install 'hjcdik[cuda]'", "HJCDIK_NVRTC", "/nowhere/libnvrtc.so.13")
assert error.log == ""
assert hjcdik.list_builds() == []
assert not os.path.exists({str(store / "builds")!r})
""",
        HJCDIK_NVRTC="/nowhere/libnvrtc.so.13",
        HJCDIK_LIBCUDA="/nowhere/libcuda.so.1",
    )


def test_the_compilers_log(compiler: dict[str, str | Path], store: Path) -> None:
    run(
        """
fake("HJCDIK_NVRTC").fake_nvrtc_fail(b"nvrtcCompileProgram")
error = raises(hjcdik.BuildError, lambda: hjcdik.build("ur5e", cuda_arch="sm_90"), "GPU program")
assert error.log == "robot.h(7): error: a fault made by the test"
assert hjcdik.list_builds() == []
""",
        **compiler,
    )


def test_a_store_that_cannot_be_written(compiler: dict[str, str | Path], store: Path, tmp_path: Path) -> None:
    store.write_text("a file, not a folder")
    program = """
raises(hjcdik.BuildError, lambda: hjcdik.build("ur5e", cuda_arch="sm_90"), "cannot be stored", "{0}")
raises(hjcdik.BuildError, lambda: hjcdik.load("ur5e-tool0-cc"), "no build is called")
assert hjcdik.list_builds() == []
"""
    run(program.format(store), **compiler)
    # A full disk, by the limit on the size of files.
    program = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = "{0}"
first = hjcdik.build("ur5e", cuda_arch="sm_90", cache_dir=folder, name="first")
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
build = lambda robot, **k: hjcdik.build(robot, cuda_arch="sm_90", cache_dir=folder, **k)
raises(hjcdik.BuildError, lambda: build("iiwa14"), "File too large")
raises(hjcdik.BuildError, lambda: build("fetch", name="first"), folder)
assert [build.robot for build in hjcdik.list_builds(folder)] == ["ur5e"]
assert not [name for _, _, names in os.walk(folder) for name in names if name.endswith(".tmp")]
"""
    run(program.format(tmp_path / "other"), **compiler)


# --- names --------------------------------------------------------------------------------------

GOOD_NAMES = [
    "my arm",
    "arm.v2",
    "Grüße",
    "腕",
    "con",
    "NUL",
    "all",
    "cpu",
    "none",
    "a" * 200,
    "*",
    "$(touch x)",
    "a;b",
    "Arm",
    "arm",
    "..x",
    "~",
]
BAD_NAMES = [
    "",
    " ",
    " x",
    "x\t",
    "a/b",
    "../x",
    "..",
    ".",
    "/etc/passwd",
    "a\\b",
    "x.urdf",
    "x.JSON",
    "-x",
    "<x>",
]
BAD_NAMES += ["a\nb", "a\0b", "\u202e", "panda", "ur5e", "a" * 201, "\ud800"]


def test_names(compiler: dict[str, str | Path], store: Path, tmp_path: Path) -> None:
    before = files(tmp_path)
    run(
        f"""
names = {GOOD_NAMES!r}
for name in names:
    artifact = hjcdik.build("ur5e", cuda_arch="sm_90", name=name)
    assert artifact.name == name
    assert hjcdik.load(name) == hjcdik.load(name)
    assert hjcdik.Solver(name, device="cpu").info.artifact == str(artifact.path)
assert sorted(names) == [build.name for build in hjcdik.list_builds()]
""",
        **compiler,
    )
    written = files(tmp_path) - before
    assert len([path for path in written if path.parent == store / "builds"]) == len(GOOD_NAMES)
    assert all(path.is_relative_to(store) for path in written if "fakes" not in str(path))


@pytest.mark.parametrize("name", BAD_NAMES, ids=range(len(BAD_NAMES)))
def test_names_that_are_refused(store: Path, tmp_path: Path, name: str) -> None:
    for call in (lambda: hjcdik.build("ur5e", cuda_arch="9.0", name=name), lambda: hjcdik.load(name)):
        with pytest.raises(ValueError, match="a build cannot be called") as error:
            call()
        assert repr(name[:200]) in str(error.value)
    assert not files(tmp_path)


def test_names_are_compared_in_their_normal_form(store: Path) -> None:
    assert plan("ur5e", name="Gru\u0308n").path == plan("ur5e", name="Gr\u00fcn").path


def test_names_by_default(store: Path) -> None:
    assert plan("ur5e").name == "ur5e-tool0-cc"
    assert plan("ur5e", ee_link="flange-tool0").name == "ur5e-flange-tool0-cc"
    assert plan(planar(), ee_link="l3").name == "P2-l3"
    assert plan(planar(), ee_link="link:l3").name == "P2-l3"
    strange = urdf(joint(1, "continuous"), joint(2, "fixed", axis=None), name="../a b/c")
    assert plan(strange, ee_link="l2").name == ".._a b_c-l2"
    long = urdf(joint(1, "continuous"), name="x" * 500)
    assert len(plan(long, ee_link="l1").name) == 200


# --- damage and other versions ------------------------------------------------------------------


@pytest.fixture
def built(compiler: dict[str, str | Path], store: Path, arm: Path) -> hjcdik.Artifact:
    """A build of the arm, by the fake compiler."""
    run(
        f"hjcdik.build({str(arm)!r}, ee_link='panda_hand', spheres='panda_foam', cuda_arch='sm_90')",
        **compiler,
    )
    (artifact,) = hjcdik.list_builds()
    return artifact


def test_every_byte_of_a_build_counts(built: hjcdik.Artifact, caplog: pytest.LogCaptureFixture) -> None:
    good = built.path.read_bytes()
    places = [*range(700), *range(700, len(good), 97), len(good) - 1]
    for place in places:
        flipped = bytearray(good)
        flipped[place] ^= 1 << place % 8
        for bad in (bytes(flipped), good[:place]):
            built.path.write_bytes(bad)
            with pytest.raises(hjcdik.BuildError, match=r"damaged|another version") as error:
                hjcdik.load(built.name)
            assert "hjcdik build URDF" in str(error.value)
    with pytest.raises(hjcdik.BuildError, match="damaged"):
        hjcdik.Solver(built.name)
    caplog.clear()
    assert hjcdik.list_builds() == []
    assert str(built.path) in caplog.text
    built.path.write_bytes(good)
    assert hjcdik.load(built.name) == built


def test_a_build_of_another_schema_is_refused(
    built: hjcdik.Artifact, caplog: pytest.LogCaptureFixture
) -> None:
    text = json.loads(_core.read_build(str(built.path.parent.parent), built.name)[2])
    for changes in (
        {"schema": 0},
        {"schema": 99, "inputs": "?"},
        {"inputs": {}},
        {"programs": [1]},
        {"robot": 3},
    ):
        put(built, version="0.0.9", **changes)
        with pytest.raises(
            hjcdik.BuildError, match=r"prepared by hjcdik 0\.0\.9 in a form that hjcdik"
        ) as error:
            hjcdik.load(built.name)
        assert f"--name {built.name}" in str(error.value)
        with pytest.raises(hjcdik.BuildError, match=r"0\.0\.9"):
            hjcdik.Solver(built.name)
        caplog.clear()
        assert hjcdik.list_builds() == []
        assert "0.0.9" in caplog.text
    put(built, **text)
    assert hjcdik.load(built.name) == built


def test_a_lost_header_is_written_again(built: hjcdik.Artifact) -> None:
    text = built.header.read_text()
    built.header.unlink()
    hjcdik.load(built.name)
    assert built.header.read_text() == text


def test_missing_builds(built: hjcdik.Artifact, store: Path) -> None:
    with pytest.raises(hjcdik.BuildError, match=r"did you mean 'arm-panda_hand-cc'.*hjcdik build URDF"):
        hjcdik.load("arm-panda_hand")
    with pytest.raises(ValueError, match=r"unknown robot 'arm-panda_hnd'.*did you mean 'arm-panda_hand-cc'"):
        hjcdik.Solver("arm-panda_hnd")
    with pytest.raises(ValueError, match="prepared builds arm-panda_hand-cc"):
        hjcdik.Solver("zzz")
    empty = store / "empty"
    with pytest.raises(hjcdik.BuildError, match=f"in {empty}: there are none"):
        hjcdik.load("zzz", cache_dir=empty)
    assert hjcdik.list_builds(empty) == hjcdik.list_builds(cache_dir=str(empty)) == []
    with pytest.raises(ValueError, match="unknown robot"):
        hjcdik.Solver(built.name, cache_dir=empty)
    assert not empty.exists()


def test_a_prepared_robot_is_complete(
    built: hjcdik.Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for tool in ("panda_hand", "panda_hand_joint"):
        assert hjcdik.Solver(built.name, ee_link=tool, device="cpu").info.ee_link == "panda_hand"
    with pytest.raises(ValueError, match="prepared for the tool 'panda_hand', not for 'panda_link8'"):
        hjcdik.Solver(built.name, ee_link="panda_link8")
    for settings in (
        {"spheres": "panda_foam"},
        {"srdf": "<robot/>"},
        {"locked_joints": {}},
        {"check_base": True},
    ):
        (argument,) = settings
        with pytest.raises(ValueError, match=f"{argument} goes with a URDF"):
            hjcdik.Solver(built.name, **settings)
    # A file of that name is a file.
    monkeypatch.chdir(tmp_path)
    Path(built.name).write_text(planar())
    assert hjcdik.Solver(built.name, ee_link="l3", device="cpu").info.robot == "P2"


def test_several_robots_of_the_store_in_one_process(compiler: dict[str, str | Path], store: Path) -> None:
    run("for name in hjcdik.presets(): hjcdik.build(name, cuda_arch='sm_90', name='my ' + name)", **compiler)
    solvers = [hjcdik.Solver(f"my {name}", device="cpu") for name in hjcdik.presets()]
    assert [solver.info.robot for solver in solvers] == hjcdik.presets()
    first, second = solvers[0], hjcdik.Solver("my panda", device="cpu")
    first.set_world(spheres=[[0.5, 0, 0.5, 0.2]])
    assert len(first.worlds[0]["spheres"]) == 1
    assert len(second.worlds[0]["spheres"]) == 0
    for name, solver in zip(hjcdik.presets(), solvers, strict=True):
        plain = hjcdik.Solver(name, device="cpu")
        targets = plain.sample_targets(5)
        assert support.same_bits(solver.solve(targets, collision=None), plain.solve(targets, collision=None))


# --- with a GPU, faked --------------------------------------------------------------------------


def test_a_gpu_takes_what_is_prepared(fake_gpu: dict[str, str | Path], arm: Path) -> None:
    prepare = f"""
artifact = hjcdik.build({str(arm)!r}, ee_link="panda_hand", spheres="panda_foam")
assert artifact.cuda_arch == "sm_90"  # the current GPU's
assert artifact.compiled
print(fake("HJCDIK_NVRTC").fake_compiled())
"""
    assert run(prepare, **fake_gpu) == ("2\n", "")
    program = f"""
urdf = {str(arm)!r}
name = "arm-panda_hand-cc"
artifact = hjcdik.load(name)
for solver in (hjcdik.Solver(name), hjcdik.Solver(name, allow_build=False)):
    assert solver.info.device == "cuda:0"
    assert solver.info.artifact == str(artifact.path)
    assert solver.info.cuda_compiler_version == "13.0"
    assert (solver.solve(solver.sample_targets(5), collision=None).outcome == "solved").all()
    twin = pickle.loads(pickle.dumps(solver))
    assert twin.info == solver.info
def make(text, **settings):
    settings = {{"ee_link": "panda_hand", "spheres": "panda_foam", **settings}}
    return hjcdik.Solver(text, allow_build=False, **settings)
solver = make(urdf)
assert solver.info.artifact.endswith(f"/programs/{{artifact.programs[0].key}}.bin")
changed = open(urdf).read().replace("0.333", "0.334")
raises(hjcdik.BuildError, lambda: make(changed), "arm-panda_hand-cc", "differs in its URDF)",
       "hjcdik build URDF --ee-link panda_hand --spheres panda_foam")
raises(hjcdik.BuildError, lambda: make(urdf, ee_link="panda_link8"), "its tool frame",
       f"hjcdik build {{urdf}} --ee-link panda_link8 --spheres panda_foam")
raises(hjcdik.BuildError, lambda: make(urdf, spheres="panda_curobo"), "its spheres", "panda_curobo")
raises(hjcdik.BuildError, lambda: make(urdf, locked_joints={{"panda_joint7": 0.5}}),
       "its locked joints", "--lock panda_joint7=0.5")
raises(hjcdik.BuildError, lambda: hjcdik.Solver("ur5e", allow_build=False), "hjcdik build ur5e")
raises(hjcdik.BuildError, lambda: make(urdf, cache_dir="/tmp/no where"), "--cache-dir '/tmp/no where'")
assert hjcdik.Solver("ur5e", allow_build=False, device="cpu").info.artifact is None
"""
    for compiler in (fake_gpu["HJCDIK_NVRTC"], "/nowhere/libnvrtc.so.13"):
        _, log = run(program, **{**fake_gpu, "HJCDIK_NVRTC": compiler})
        assert "WARNING" not in log.replace("WARNING ur5e: ", "")


def test_builds_for_another_gpu_and_of_another_version(
    fake_gpu: dict[str, str | Path], arm: Path, tmp_path: Path
) -> None:
    build = f"hjcdik.build({str(arm)!r}, ee_link='panda_hand', name='x', cuda_arch={{!r}})"
    run(build.format("sm_80"), **fake_gpu)
    run(
        """
raises(hjcdik.BuildError, lambda: hjcdik.load("x"), "prepared for sm_80, not for this GPU",
       "hjcdik build x --cuda-arch sm_80,sm_90")
raises(hjcdik.BuildError, lambda: hjcdik.Solver("x", allow_build=False), "hjcdik build x")
assert hjcdik.Solver("x", device="cpu").info.artifact
hjcdik.build("x", cuda_arch="sm_90")
assert hjcdik.load("x").cuda_arch == "sm_90"
assert hjcdik.Solver("x", allow_build=False).info.device == "cuda:0"
""",
        **fake_gpu,
    )
    # PTX runs on whatever is newer.
    for program in files(tmp_path / "cache" / "programs"):
        program.unlink()
    run(build.format("compute_80"), **fake_gpu)
    run('assert hjcdik.load("x").cuda_arch == "compute_80"', **fake_gpu)
    # Of another version: the same robot makes another program.
    run(
        """
from hjcdik import _core
import json
artifact = hjcdik.load("x")
folder = str(artifact.path.parent.parent)
name, keys, text = _core.read_build(folder, "x")
(program,) = os.listdir(folder + "/programs")
os.rename(f"{folder}/programs/{program}", folder + "/away")
raises(hjcdik.BuildError, lambda: hjcdik.load("x"), "has lost a program", "hjcdik build x --cuda-arch")
# Another version's program, under the key that was its own then.
other = hjcdik.build("fetch", cuda_arch="sm_80")
data = json.loads(text)
data["version"] = "0.0.9"
data["programs"][0]["key"] = other.programs[0].key
_core.publish_build(folder, "x", [other.programs[0].key], json.dumps(data))
raises(hjcdik.BuildError, lambda: hjcdik.load("x"), "prepared by hjcdik 0.0.9", "hjcdik build x --cuda-arch")
raises(hjcdik.BuildError, lambda: hjcdik.Solver("x", allow_build=False), "hjcdik build x")
assert hjcdik.Solver("x").info.device == "cuda:0"  # compiled again
assert fake("HJCDIK_NVRTC").fake_compiled() == 2
""",
        **fake_gpu,
    )


@pytest.mark.parametrize("folder", [b"\xff", "Gr\u00fc\u00dfe \u8155".encode()])
def test_a_folder_of_any_name(fake_gpu: dict[str, str | Path], tmp_path: Path, folder: bytes) -> None:
    store = tmp_path / os.fsdecode(folder)
    run(
        """
info = hjcdik.Solver("ur5e").info
assert info.device == "cuda:0"
assert os.path.isfile(info.artifact)
assert hjcdik.Solver("ur5e", allow_build=True).info == info
try:
    hjcdik.build("fetch")
    assert [build.robot for build in hjcdik.list_builds()] == ["fetch"]
except ValueError as error:
    assert "the folder of the store" in str(error)
""",
        **{**fake_gpu, "HJCDIK_CACHE_DIR": store},
    )


def test_a_damaged_program_is_compiled_again_and_said(
    fake_gpu: dict[str, str | Path], tmp_path: Path
) -> None:
    run("hjcdik.Solver('ur5e')", **fake_gpu)
    (entry,) = (tmp_path / "cache" / "programs").iterdir()
    good = entry.read_bytes()
    entry.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    _, log = run("assert hjcdik.Solver('ur5e').info.device == 'cuda:0'", **fake_gpu)
    assert f"WARNING the stored program {entry} is damaged and is not used" in log
    assert entry.read_bytes() == good


def test_the_packaged_store_needs_no_compiler(fake_gpu: dict[str, str | Path], tmp_path: Path) -> None:
    prepare = f"""
from hjcdik import _prebuild
assert _prebuild.main([{str(tmp_path / "packaged")!r}, "--robot", "panda"]) == 0
"""
    run(prepare, **fake_gpu)
    program = """
for allow_build in (True, False):
    info = hjcdik.Solver("panda", allow_build=allow_build).info
    assert (info.device, info.artifact, info.cuda_compiler_version) == ("cuda:0", None, "13.0")
assert hjcdik.Solver("ur5e").info.device == "cpu"
"""
    environment = {
        **fake_gpu,
        "HJCDIK_NVRTC": "/nowhere/libnvrtc.so.13",
        "HJCDIK_STORE": tmp_path / "packaged",
    }
    run(program, **environment)
    assert not (tmp_path / "cache").exists()


# --- many at once -------------------------------------------------------------------------------

WORKER = """
import random, sys, time
hjcdik._devices.find_compilers()
number = int(sys.argv[1])
device = sys.argv[3]
rng = random.Random(number)
texts = {name: hjcdik.preset_urdf(name) for name in hjcdik.presets()}
tools = {"panda": "panda_hand", "iiwa14": "iiwa_link_ee_kuka", "ur5e": "tool0", "fetch": "gripper_link"}
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    robot = rng.choice(list(texts))
    name = robot if rng.random() < 0.5 else f"{robot} {number}"
    force = rng.random() < 0.3
    settings = {"name": name + "!", "force_rebuild": force}
    settings["cuda_arch"] = "sm_90" if device == "cpu" else "native"
    built = hjcdik.build(texts[robot], ee_link=tools[robot], **settings)
    loaded = hjcdik.load(name + "!")
    assert loaded.content_key == built.content_key
    solver = hjcdik.Solver(name + "!", device=device, threads=1)
    assert solver.info.robot == robot
    target = solver.sample_targets(1)
    assert (solver.solve(target, collision=None).outcome == "solved").all()
    hjcdik.list_builds()
"""


@pytest.mark.parametrize("killed", [0, 8])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.alone])])
def test_sixteen_processes(
    request: pytest.FixtureRequest, store: Path, caplog: pytest.LogCaptureFixture, device: str, killed: int
) -> None:
    rng = random.Random(killed)
    environment = {**os.environ, "HJCDIK_CACHE_LIMIT_MB": "1"}
    if device == "cpu":
        environment |= {name: str(value) for name, value in request.getfixturevalue("compiler").items()}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", PRELUDE + WORKER, str(number), "4", device],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(16)
    ]
    time.sleep(4 if device == "cpu" else 8)  # they take their time to start
    for worker in rng.sample(workers, killed):
        time.sleep(rng.uniform(0, 0.5))
        worker.send_signal(signal.SIGKILL)
    for worker in workers:
        output, _ = worker.communicate(timeout=300)
        assert worker.returncode in ((0, -signal.SIGKILL) if killed else (0,)), output
        assert "WARNING" not in output, output
    caplog.set_level(logging.WARNING, "hjcdik")
    builds = hjcdik.list_builds()
    assert len(builds) >= 4
    for artifact in builds:
        robot = artifact.name.split("!")[0].split(" ")[0]
        assert artifact.robot == robot
        assert hjcdik.load(artifact.name) == artifact
        for program in artifact.programs:
            assert _core.is_stored(str(store), program.key)
    _devices.log_store_notes()
    assert not caplog.text


@pytest.mark.usefixtures("nvrtc")
def test_loading_takes_milliseconds(store: Path) -> None:
    name = hjcdik.build("panda", cuda_arch="9.0", name="arm").name
    program = """
import time
start = time.perf_counter()
hjcdik.load("arm")
hjcdik.Solver("arm", device="cpu")
print(time.perf_counter() - start)
"""
    assert name == "arm"
    times = [float(run(program, HJCDIK_LIBCUDA="/nowhere/libcuda.so.1")[0]) for _ in range(5)]
    assert min(times) < 0.05


# --- the command --------------------------------------------------------------------------------


def command(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert cli.main(arguments) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def test_the_commands(
    built: hjcdik.Artifact, store: Path, arm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = json.loads(command(capsys, "list", "--json"))
    assert (row["name"], row["path"], row["cuda_arch"]) == (built.name, str(built.path), "sm_90")
    assert [program["stored"] for program in row["programs"]] == [True, True]
    header, line = command(capsys, "list").splitlines()
    assert header.split() == ["name", "robot", "tool", "link", "spheres", "compiled", "for"]
    assert line.split() == [built.name, "arm", "panda_hand", "panda_foam", "sm_90"]
    assert "no builds in" in command(capsys, "list", "--cache-dir", str(store / "none"))
    assert json.loads(command(capsys, "list", "--cache-dir", str(store / "none"), "--json")) == []

    info = json.loads(command(capsys, "info", built.name, "--json", "--device", "cpu", "--no-build"))
    assert (info["robot"], info["artifact"]) == ("arm", str(built.path))

    build = ("build", str(arm), "--ee-link", "panda_hand", "--cuda-arch", "9.0,compute_90")
    text = command(capsys, *build, "--plan", "--spheres", "panda_foam")
    assert "arm-panda_hand-cc: 2 of 4 programs would be compiled" in text
    assert text.count("yes   ") == 2
    planned = json.loads(
        command(capsys, *build, "--plan", "--json", "--name", "x", "--lock", "panda_joint7=0.1")
    )
    assert (planned["name"], planned["compiled"]) == ("x", False)
    ready = command(capsys, "build", built.name, "--cuda-arch", "9.0")
    assert f"{built.name}: 2 programs, ready already; {built.path}\n" == ready
    for arguments, message in (
        (("build", str(arm)), "ee_link"),
        ((*build, "--lock", "panda_joint7"), "expected JOINT=VALUE"),
        ((*build, "--name", "../x"), "a build cannot be called '../x': it reads as a path"),
        (("build", "nothing"), "unknown robot 'nothing'"),
        (("build", "ur5e", "--cuda-arch", "7"), "cuda_arch '7'"),
    ):
        assert message in command(capsys, *arguments, code=2)


@pytest.mark.parametrize("beginning", ["pa", "ar"])
def test_a_shell_is_answered(built: hjcdik.Artifact, beginning: str) -> None:
    pytest.importorskip("argcomplete")
    line = f"hjcdik info {beginning}"
    program = "import os, sys; from hjcdik import cli; os.dup2(1, 8); cli.main([])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line))},
        capture_output=True,
        text=True,
    )
    expected = built.name if beginning == "ar" else "panda"
    assert done.stdout.strip() == expected, done.stderr


def test_the_command_of_a_message_can_be_run(
    built: hjcdik.Artifact, capsys: pytest.CaptureFixture[str]
) -> None:
    put(built, name="?")
    error = hjcdik.BuildError("no program")
    text = str(_builds.refusal(hjcdik.Solver(built.name)._arguments[0], built.name, "", error))
    words = shlex.split(text.partition("prepare it by: ")[2])
    assert words[0] == "hjcdik"
    assert "2 of 2" not in command(capsys, *words[1:], "--plan", "--cuda-arch", "9.0")


def test_completion(capsys: pytest.CaptureFixture[str], built: hjcdik.Artifact) -> None:
    from hjcdik import _cli_builds

    assert _cli_builds.robots("") == [*hjcdik.presets(), built.name]
    assert _cli_builds.robots("arm") == [built.name]
    pytest.importorskip("argcomplete")
    for shell in ("bash", "zsh", "fish"):
        assert "hjcdik" in command(capsys, "completion", shell)
    assert "hjcdik" in json.loads(command(capsys, "completion", "bash", "--json"))["code"]
