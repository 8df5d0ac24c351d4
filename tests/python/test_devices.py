"""Devices as a user meets them, on any machine: without a driver, without NVRTC, with a GPU that is faked.

The fakes are those of tests/cuda: a driver whose kernels write rows without solving anything, and an NVRTC
that compiles nothing. Both are loaded once a process, so every test runs a program of its own.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hjcdik
from fakes import run
from hjcdik import _devices

# --- what is missing ----------------------------------------------------------------------------

WITHOUT_DRIVER = {"HJCDIK_LIBCUDA": "/nowhere/libcuda.so.1"}


def test_without_a_driver_a_gpu_is_a_device_error() -> None:
    run(
        """
for device in (0, 1, np.int64(0), "cuda", "cuda:1"):
    raises(hjcdik.DeviceError, lambda: hjcdik.Solver("panda", device=device),
           "no CUDA driver", "/nowhere/libcuda.so.1", "install NVIDIA's driver", "'cpu'")
assert issubclass(hjcdik.DeviceError, RuntimeError)
""",
        **WITHOUT_DRIVER,
    )


def test_without_a_driver_the_cpu_solves_and_the_log_says_so_once() -> None:
    program = """
for robot in ("panda", "iiwa14", "panda"):
    info = hjcdik.Solver(robot).info
    assert (info.device, info.cuda_compiler_version) == ("cpu", "")
    assert info.isa in hjcdik.build_info()["isas"]
solver = hjcdik.Solver("panda", device="cpu")
assert solver.solve([0.4, 0, 0.4, 0, 1, 0, 0], collision=None).outcome[0] == "solved"
"""
    _, log = run(program, **WITHOUT_DRIVER)
    assert log.count("\n") == 1
    assert log.startswith("INFO solving on the CPU: no CUDA driver")


def test_the_cpu_asked_for_needs_no_word() -> None:
    assert run("hjcdik.Solver('panda', device='cpu')", **WITHOUT_DRIVER) == ("", "")


def test_info_of_the_command_says_what_is_missing(fakes: dict[str, Path]) -> None:
    def info(**environment: str | Path) -> tuple[dict[str, object], str]:
        command = [sys.executable, "-m", "hjcdik", "info", "--json"]
        settings = {**os.environ, **{name: str(value) for name, value in environment.items()}}
        done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
        return json.loads(done.stdout), done.stderr

    data, log = info(**WITHOUT_DRIVER)
    assert (data["device"], data["gpus"], log) == ("cpu", [], "")
    assert "no CUDA driver" in str(data["gpu_problem"])
    data, log = info(HJCDIK_LIBCUDA=fakes["driver"], HJCDIK_NVRTC="/nowhere/libnvrtc.so")
    assert (data["device"], data["gpus"]) == ("cpu", ["Fake GPU"])
    assert "pip install nvidia-cuda-nvrtc" in str(data["gpu_problem"])
    assert log.startswith("hjcdik: WARNING: solving on the CPU: no NVRTC")


def test_a_gpu_without_nvrtc_is_warned_of_once(fakes: dict[str, Path]) -> None:
    program = """
raises(hjcdik.DeviceError, lambda: hjcdik.Solver("panda", device="cuda"),
       "NVRTC", "pip install nvidia-cuda-nvrtc", "HJCDIK_NVRTC", "/nowhere/libnvrtc.so")
for robot in ("panda", "ur5e"):
    assert hjcdik.Solver(robot).info.device == "cpu"
"""
    _, log = run(program, HJCDIK_LIBCUDA=fakes["driver"], HJCDIK_NVRTC="/nowhere/libnvrtc.so")
    assert log.count("solving on the CPU") == 1
    assert log.startswith("WARNING solving on the CPU: no NVRTC")


def test_only_a_gpu_that_cannot_be_used_is_worth_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    reason = "cuInit failed: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE, 100) of this test"
    with caplog.at_level(logging.INFO, "hjcdik"):
        for text in (reason, reason, reason.replace("NO_DEVICE", "SYSTEM_DRIVER_MISMATCH")):
            _devices.explain_refusal(text)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


# --- where NVRTC is looked for ------------------------------------------------------------------


def test_nvrtc_is_found_in_the_wheels_of_every_python_path(tmp_path: Path) -> None:
    def library(name: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return str(path.parent)

    older = library("a/nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
    newer = library("b/nvidia/cu13/lib/libnvrtc.so.13")
    library("b/nvidia/cu13/lib/libnvrtc-builtins.so.13.0")
    library("b/nvidia/curand/lib/libcurand.so.10")
    library("b/nvidia/other/lib/libnvrtc.so.13.alt")
    entries = [str(tmp_path / name) for name in ("a", "b", "a", "none")]
    assert _devices.compiler_folders(entries)[:2] == [newer, older]
    assert older not in _devices.compiler_folders(entries[1:2])
    assert not [f for f in _devices.compiler_folders([]) if f.startswith(str(tmp_path))]


def test_the_wheels_nvrtc_is_used(fakes: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "site" / "nvidia" / "of_a_test" / "lib"
    folder.mkdir(parents=True)
    shutil.copy(fakes["nvrtc"], folder / "libnvrtc.so.13")
    run(
        "assert hjcdik.Solver('panda', device='cuda').info.cuda_compiler_version == '13.0'",
        HJCDIK_LIBCUDA=fakes["driver"],
        HJCDIK_NVRTC="",
        HJCDIK_CACHE_DIR=tmp_path / "cache",
        PYTHONPATH=tmp_path / "site",
    )


# --- a GPU, faked -------------------------------------------------------------------------------


def test_the_current_gpu_is_the_default(fake_gpu: dict[str, str | Path]) -> None:
    program = """
for device in (None, 0, "cuda", "cuda:0"):
    solver = hjcdik.Solver("panda", device=device)
    assert (solver.info.device, solver.info.cuda_compiler_version, solver.info.isa) == ("cuda:0", "13.0", "")
    assert "cuda:0" in repr(solver)
assert pickle.loads(pickle.dumps(solver)).info == solver.info
raises(hjcdik.DeviceError, lambda: hjcdik.Solver("panda", device=1), "no GPU 1", "'cpu'")
result = solver.solve(solver.sample_targets(70_000), collision=None)
assert result.q.shape == (70_000, 1, 7)
assert (result.outcome == "solved").all()
assert hjcdik.Solver("panda", device="cpu").info.device == "cpu"
"""
    assert run(program, **fake_gpu) == ("", "")


def test_programs_are_kept_on_disk(fake_gpu: dict[str, str | Path], tmp_path: Path) -> None:
    program = "hjcdik.Solver('panda', device='cuda'); print(fake('HJCDIK_NVRTC').fake_compiled())"
    cold, warm = (int(run(program, **fake_gpu)[0]) for _ in range(2))
    assert (cold, warm) == (1, 0)
    (entry,) = (tmp_path / "cache" / "programs").iterdir()
    good = entry.read_bytes()
    for damaged in (good[:-1], good[:40] + bytes([good[40] ^ 1]) + good[41:], b""):
        entry.write_bytes(damaged)
        assert int(run(program, **fake_gpu)[0]) == 1
        assert entry.read_bytes() == good
    other = program.replace("panda", "ur5e")
    assert int(run(other, **fake_gpu)[0]) == 1
    assert len(list(entry.parent.iterdir())) == 2


def test_a_cache_that_cannot_be_written_is_no_error(fake_gpu: dict[str, str | Path], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    run("assert hjcdik.Solver('panda').info.device == 'cuda:0'", **fake_gpu)


def test_a_failed_compilation_is_a_build_error(fake_gpu: dict[str, str | Path]) -> None:
    run(
        """
fake("HJCDIK_NVRTC").fake_nvrtc_fail(b"nvrtcCompileProgram")
error = raises(hjcdik.BuildError, lambda: hjcdik.Solver("panda", device="cuda"), "robot's GPU program")
assert error.log == "robot.h(7): error: a fault made by the test"
assert isinstance(error, RuntimeError)
assert pickle.loads(pickle.dumps(error)).log == error.log
fake("HJCDIK_NVRTC").fake_nvrtc_fail(b"")
assert hjcdik.Solver("panda", device="cuda").info.device == "cuda:0"
""",
        **fake_gpu,
    )


def test_a_gpu_that_fails_is_a_solve_error_that_says_where(fake_gpu: dict[str, str | Path]) -> None:
    run(
        """
solver = hjcdik.Solver("panda", device="cuda", threads=1)
targets = solver.sample_targets(200_000)
driver = fake("HJCDIK_LIBCUDA")
driver.fake_fail.argtypes = (ctypes.c_char_p, ctypes.c_long, ctypes.c_int)
expected = solver.solve(targets, collision=None).q

driver.fake_fail(b"cuStreamSynchronize", 3, 999)
error = raises(hjcdik.SolveError, lambda: solver.solve(targets, collision=None), "GPU 0")
assert 0 < error.target_index == error.completed < len(targets), vars(error)
twin = pickle.loads(pickle.dumps(error))
assert (twin.target_index, twin.completed) == (error.target_index, error.completed)
assert isinstance(error, RuntimeError)
assert np.array_equal(solver.solve(targets, collision=None).q, expected)  # the solver goes on

driver.fake_fail(b"", 1, 2)
one = lambda: solver.solve(targets[:1], collision=None)
error = raises(hjcdik.SolveError, one, "out of memory", "free memory")
assert (error.target_index, error.completed) == (0, 0)
""",
        **fake_gpu,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_may_use_the_cpu_only(fake_gpu: dict[str, str | Path]) -> None:
    _, log = run(
        """
solver = hjcdik.Solver("panda", device="cuda")
target = solver.sample_targets(1)
solver.solve(target, collision=None)
child = os.fork()
if child == 0:
    raises(hjcdik.DeviceError, lambda: solver.solve(target, collision=None), "forked", "'spawn'", "'cpu'")
    raises(hjcdik.DeviceError, lambda: hjcdik.Solver("ur5e", device="cuda"), "forked")
    other = hjcdik.Solver("panda")
    assert other.info.device == "cpu"
    assert other.solve(target, collision=None).outcome[0] == "solved"
    del solver
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
solver.solve(target, collision=None)
""",
        **fake_gpu,
    )
    assert log.count("WARNING solving on the CPU: ") == 1


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_the_command_solves_on_a_gpu(fake_gpu: dict[str, str | Path], device: str) -> None:
    command = [sys.executable, "-m", "hjcdik", "solve", "panda", "--random", "3", "--device", device]
    settings = {**os.environ, **{name: str(value) for name, value in fake_gpu.items()}}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    assert "3 of 3 targets solved" in done.stdout
    assert done.stderr == ""


def test_errors_keep_what_they_carry() -> None:
    assert hjcdik.BuildError("text").log == ""
    error = hjcdik.SolveError("text", 3, 2)
    assert (str(error), error.target_index, error.completed) == ("text", 3, 2)
