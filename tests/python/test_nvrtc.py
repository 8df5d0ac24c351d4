"""The numerics stay fit for a GPU: NVRTC compiles them with the chain text of every preset, without one."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

import pytest

import hjcdik

CORE = Path(__file__).resolve().parents[2] / "src" / "core"

# Calls every function that a GPU program is made of, in both precisions.
KERNEL = r"""
#include "robot.h"
#include "core/coordinate_descent.h"
#include "core/halton.h"
#include "core/kinematics.h"
#include "core/levenberg_marquardt.h"
#include "core/linalg.h"
#include "core/pose_error.h"
#include "core/random.h"

using namespace hjcdik::core;
using namespace hjcdik::robot;

template <class Real, class Constants>
__device__ Real search(const Constants& chain, u32 seed, Real* q) {
  constexpr int n = dof;
  const u32 stream = start_stream(seed, blockIdx.x, threadIdx.x);
  const Real spread = start_spread(blockIdx.x, threadIdx.x);
  for (int i = 0; i < n; i++) q[i] = start_value(chain.joint[i], stream, spread, i);
  const Frame<Real> start = frame_of<Real>(chain.start);
  JointAxes<Real, n> axes;
  descent_sweep<n>(chain, start, Real(0.1), q, axes);
  descent_greedy_step<n>(chain, start, Real(0.1), q, axes);
  Weights<Real> weights = {{1, 1, 1, Real(0.3), Real(0.3), Real(0.3)}, Real(1e-9)};
  Real next[n];
  StepReport<Real> report = levenberg_marquardt_step<n>(chain, start, weights, q, next, axes);
  for (int i = 0; i < n; i++) q[i] = next[i];
  return report.error + pose_error(forward_kinematics<n>(chain, q, start)).angle;
}

extern "C" __global__ void search_f32(u32 seed, float* q, float* error) {
  error[threadIdx.x] = search<float>(chain_f32, seed, q + threadIdx.x * dof);
}

extern "C" __global__ void polish_f64(u32 seed, double* q, double* error) {
  error[threadIdx.x] = search<double>(chain_f64, seed, q + threadIdx.x * dof);
}

extern "C" __global__ void sample(u64 seed, double* q) {
  for (int j = 0; j < dof; j++) q[j] = halton_value(chain_f64.joint[j], threadIdx.x + 1, seed, j);
}
"""


def load_nvrtc() -> ctypes.CDLL:
    spec = importlib.util.find_spec("nvidia")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    libraries = sorted(
        path
        for folder in folders
        for path in Path(folder).glob("*/lib/libnvrtc.so.*")
        if path.name.removeprefix("libnvrtc.so.").isdigit()
    )
    if not libraries:
        pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc")
    # NVRTC looks for its builtins by bare name, which only finds a library that is loaded already.
    for builtins in libraries[-1].parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(libraries[-1]))


def compile_to_cubin(nvrtc: ctypes.CDLL, source: str, headers: dict[str, str]) -> bytes:
    """Compile for sm_90 from texts alone: nothing is read from the file system."""
    program = ctypes.c_void_p()
    texts = (ctypes.c_char_p * len(headers))(*(text.encode() for text in headers.values()))
    names = (ctypes.c_char_p * len(headers))(*(name.encode() for name in headers))
    status = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"kernel.cu", len(headers), texts, names
    )
    assert status == 0
    options = [b"-arch=sm_90", b"-std=c++20", b"-default-device"]
    status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    text = log.value.decode(errors="replace")
    assert status == 0, text
    assert "warning" not in text, text
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, cubin)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin.raw


@pytest.mark.parametrize("preset", hjcdik.presets())
def test_core_and_chain_text_compile_for_sm_90(preset: str) -> None:
    if not CORE.is_dir():
        pytest.skip(f"no sources in {CORE}")
    headers = {f"core/{path.name}": path.read_text() for path in sorted(CORE.glob("*.h"))}
    headers["robot.h"] = hjcdik.Solver(preset, device="cpu")._robot.header_text
    cubin = compile_to_cubin(load_nvrtc(), KERNEL, headers)
    assert cubin.startswith(b"\x7fELF")
    for kernel in (b"search_f32", b"polish_f64", b"sample"):
        assert kernel in cubin


def test_core_includes_nothing_but_itself() -> None:
    if not CORE.is_dir():
        pytest.skip(f"no sources in {CORE}")
    own = {f"core/{path.name}" for path in CORE.glob("*.h")}
    assert own
    for path in CORE.glob("*.h"):
        for line in path.read_text().splitlines():
            if line.startswith("#include"):
                assert line.split('"')[1] in own, f"{path.name}: {line}"
