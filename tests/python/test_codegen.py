"""Robots as C++ headers: their text, their hash, the command, and that NVRTC compiles them."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hjcdik
import support
from hjcdik import _devices, cli

KERNEL = """
template <class S>
__device__ void all_of(const S* q, S* out) {{
  {name}::joint_frames(q, out);
  {name}::tool_pose(q, out + 12 * {name}::num_joints);
  {name}::jacobian(q, out + 12 * {name}::num_joints + 7);
  out[0] += {name}::lower_limit<S>(0) + {name}::upper_limit<S>(0) + ({name}::is_prismatic(0) ? 1 : 0);
  out[1] += {name}::joint_name(0)[0];
#ifdef WITH_SPHERES
  const {name}::World<S> world{{q, 1, q, 2, q, 3, q, 4}};
  const {name}::Clearance<S> clearance = {name}::clearance(q, world);
  {name}::spheres(q, out);
  int a, b;
  {name}::self_pair(0, &a, &b);
  out[0] += clearance.self + clearance.world + {name}::sphere_link(a + b);
  out[1] += {name}::config_free(q, world, 0.01) && {name}::config_free(q);
#endif
}}
extern "C" __global__ void in_double(const double* q, double* out) {{ all_of(q, out); }}
extern "C" __global__ void in_float(const float* q, float* out) {{ all_of(q, out); }}
"""


def nvrtc() -> ctypes.CDLL:
    for folder in _devices.compiler_folders(sys.path):
        for file in sorted(Path(folder).glob("libnvrtc.so.*")):
            for builtins in Path(folder).glob("libnvrtc-builtins.so.*"):
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(str(file))
    return support.missing("there is no NVRTC")


def compile_for_gpu(header: str, name: str, spheres: bool) -> str:
    """What the compiler has to say of the header on an H200; it must compile."""
    library = nvrtc()
    program = ctypes.c_void_p()
    source = (
        ("#define WITH_SPHERES\n" if spheres else "") + '#include "robot.cuh"\n' + KERNEL.format(name=name)
    )
    texts = (ctypes.c_char_p * 1)(header.encode())
    names = (ctypes.c_char_p * 1)(b"robot.cuh")
    options = (ctypes.c_char_p * 2)(b"--gpu-architecture=sm_90", b"--std=c++17")
    assert (
        library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"check.cu", 1, texts, names) == 0
    )
    code = library.nvrtcCompileProgram(program, 2, options)
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    text = log.value.decode()
    assert code == 0, text
    return text


@pytest.mark.parametrize("preset", hjcdik.presets())
def test_nvrtc_compiles_the_headers_of_presets(preset: str) -> None:
    solver = hjcdik.Solver(preset, device="cpu")
    log = compile_for_gpu(hjcdik.codegen(preset), "hjcdik_robot", solver.info.collision_enabled)
    assert "warning" not in log, log


@pytest.mark.parametrize("dof", [1, 32])
def test_nvrtc_compiles_the_headers_of_any_chain(dof: int) -> None:
    header = hjcdik.codegen(support.random_chain(dof), ee_link=f"l{dof + 1}", name_space="arm")
    log = compile_for_gpu(header, "arm", False)
    assert "warning" not in log, log


def test_the_hash_in_info_is_that_of_the_text() -> None:
    for preset in hjcdik.presets():
        solver = hjcdik.Solver(preset, device="cpu")
        text = hjcdik.codegen(preset)
        assert hashlib.sha256(text.encode()).hexdigest() == solver.info.grid_header_sha256
        assert hjcdik.codegen(solver) == text
    assert hjcdik.build_info()["grid_header_sha256"] == hjcdik.Solver(device="cpu").info.grid_header_sha256


def test_the_text_holds_the_texts_that_programs_are_made_of() -> None:
    solver = hjcdik.Solver("panda", device="cpu")
    chain = solver._robot.header_text
    assert chain[chain.index("namespace") :].strip() in hjcdik.codegen(solver)


def test_arguments_are_those_of_the_solver() -> None:
    urdf = hjcdik.preset_urdf("panda")
    hand = hjcdik.codegen(
        urdf, ee_link="panda_hand", spheres="panda_curobo", locked_joints={"panda_joint1": 0.5}
    )
    assert "constexpr int num_joints = 6;" in hand
    assert "constexpr int num_spheres = 5" in hand
    with pytest.raises(ValueError, match="ee_link"):
        hjcdik.codegen(urdf)
    with pytest.raises(ValueError, match="no_such_robot"):
        hjcdik.codegen("no_such_robot")
    with pytest.raises(ValueError, match=r"name_space.*identifier"):
        hjcdik.codegen("panda", name_space="a::b")
    with pytest.raises(ValueError, match="leave ee_link"):
        hjcdik.codegen(hjcdik.Solver("panda", device="cpu"), ee_link="panda_hand")


def test_the_command_writes_a_file_or_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    urdf = tmp_path / "arm.urdf"
    urdf.write_text(hjcdik.preset_urdf("ur5e"))
    path = tmp_path / "robot.cuh"
    arguments = ["codegen", str(urdf), "--ee-link", "tool0", "--spheres", "ur5e"]
    assert cli.main([*arguments, "-o", str(path)]) == 0
    assert capsys.readouterr().out == ""
    assert path.read_text() == hjcdik.codegen(urdf, ee_link="tool0", spheres="ur5e")
    assert cli.main([*arguments, "--namespace", "ur"]) == 0
    assert capsys.readouterr().out == hjcdik.codegen(urdf, ee_link="tool0", spheres="ur5e", name_space="ur")
    assert list(tmp_path.iterdir()) == [urdf, path] or set(tmp_path.iterdir()) == {urdf, path}


def test_a_failed_command_leaves_the_file_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "robot.cuh"
    path.write_text("before")
    assert cli.main(["codegen", "no_such_robot", "-o", str(path)]) == 2
    assert "no_such_robot" in capsys.readouterr().err
    assert path.read_text() == "before"
    assert cli.main(["codegen", "panda", "-o", str(tmp_path / "none" / "robot.cuh")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_a_file_is_replaced_as_its_owner_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = hjcdik.codegen("fetch")
    private = tmp_path / "private.cuh"
    private.write_text("before")
    private.chmod(0o640)
    link = tmp_path / "link.cuh"
    link.symlink_to(private)
    assert cli.main(["codegen", "fetch", "-o", str(link)]) == 0
    assert link.is_symlink()
    assert private.read_text() == expected
    assert private.stat().st_mode & 0o777 == 0o640
    # What is no file is written to: a pipe has a reader.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        assert cli.main(["codegen", "fetch", "-o", str(pipe)]) == 0
        assert reader.communicate(timeout=60)[0] == expected
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert set(tmp_path.iterdir()) == {private, link, pipe}
    for path, problem in ((tmp_path, "Is a directory"), (tmp_path / "none" / "x", "No such file")):
        assert cli.main(["codegen", "fetch", "-o", str(path)]) == 2
        assert f"{path}: {problem}" in capsys.readouterr().err
    assert cli.main(["codegen", "fetch", "-o", ""]) == 2
    assert "--output is empty" in capsys.readouterr().err


def test_descriptors_and_files_with_two_names_are_written_to(tmp_path: Path) -> None:
    expected = hjcdik.codegen("fetch")
    command = f"{sys.executable} -m hjcdik codegen fetch -o"
    out = tmp_path / "out"
    for target in ("/dev/stdout", "/dev/fd/1", str(tmp_path / "link")):
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to("/dev/stdout")
        script = f"{{ echo a; {command} {target}; echo b; }}"
        subprocess.run(["sh", "-c", f"{script} > {out}"], check=True)
        assert out.read_text() == f"a\n{expected}b\n"
        piped = subprocess.run(["sh", "-c", f"{script} | cat"], check=True, capture_output=True, text=True)
        assert piped.stdout == f"a\n{expected}b\n"
    other = tmp_path / "other"
    other.hardlink_to(out)
    assert cli.main(["codegen", "fetch", "-o", str(out)]) == 0
    assert other.read_text() == expected
    long = tmp_path / ("a" * 250 + ".h")
    assert cli.main(["codegen", "fetch", "-o", str(long)]) == 0
    assert long.read_text() == expected


def test_no_command_writes_over_what_it_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    urdf, targets = tmp_path / "arm.urdf", tmp_path / "t.csv"
    urdf.write_text(hjcdik.preset_urdf("ur5e"))
    targets.write_text("0.4,0.1,0.4,0,1,0,0\n")
    link = tmp_path / "link.csv"
    link.symlink_to(targets)
    for command in (
        ["codegen", str(urdf), "--ee-link", "tool0", "-o", str(urdf)],
        ["solve", "ur5e", "--device", "cpu", "--targets", str(targets), "--output", str(link)],
    ):
        assert cli.main(command) == 2
        assert "is read here, and cannot be written too" in capsys.readouterr().err
    assert urdf.read_text() == hjcdik.preset_urdf("ur5e")
    assert targets.read_text() == "0.4,0.1,0.4,0,1,0,0\n"
    held = ["codegen", "ur5e", "--lock", "elbow_joint=1", "--lock", "elbow_joint=2"]
    assert cli.main(held) == 2
    assert "'elbow_joint' cannot be held at 1 and at 2" in capsys.readouterr().err


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """As on a full disk."""
    path = tmp_path / "robot.cuh"
    path.write_text("before")
    program = """
import resource, signal, sys
from hjcdik import cli
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
sys.exit(cli.main(["codegen", "fetch", "-o", sys.argv[1]]))
"""
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    assert done.returncode == 2
    assert f"{path}: File too large" in done.stderr
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_the_command_has_the_solvers_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    urdf = tmp_path / "arm.urdf"
    urdf.write_text(hjcdik.preset_urdf("panda"))
    settings: dict[str, Any] = {"ee_link": "panda_hand", "spheres": "panda_curobo", "check_base": True}
    arguments = ["codegen", str(urdf), "--ee-link", "panda_hand", "--spheres", "panda_curobo", "--check-base"]
    assert cli.main([*arguments, "--lock", "panda_joint1=0.5", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    text = hjcdik.codegen(urdf, locked_joints={"panda_joint1": 0.5}, **settings)
    assert document["text"] == text
    assert document["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert cli.main(["codegen", "panda", "--json", "-o", str(tmp_path / "x")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "text" not in document
    assert document["output"] == str(tmp_path / "x")
