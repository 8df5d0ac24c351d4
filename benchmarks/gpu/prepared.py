"""What prepared robots cost on a GPU: every figure from new processes, after the context of CUDA is there.

    python benchmarks/gpu/prepared.py

measure.py puts these cases into gpu.json. Where a process must not compile, NVRTC is out of its reach.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import common  # before numpy: it holds the maths libraries to one thread

# isort: split

import json
import os
import statistics
import subprocess
import tempfile
import time
from typing import Any

NO_COMPILER = {"HJCDIK_NVRTC": "/nowhere/libnvrtc.so"}

# Times what a program does, from its first line on. `mark` ends a part of it.
PROCESS = """
import ctypes, json, os, sys, time
parts, last = {}, time.perf_counter()
def mark(part):
    global last
    now = time.perf_counter()
    parts[part] = now - last
    last = now

cuda = ctypes.CDLL(os.environ.get("HJCDIK_LIBCUDA") or "libcuda.so.1")
device, context = ctypes.c_int(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
mark("cuInit_s")
assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
mark("context_s")
import numpy
mark("import_numpy_s")
import hjcdik
mark("import_hjcdik_s")
"""

SOLVER = """
solver = hjcdik.Solver(sys.argv[1], allow_build=False)
mark("solver_s")
target = solver.sample_targets(1, seed=5)
mark("target_s")
for part, collision in (("first_solve_s", None), ("first_hard_solve_s", "hard")):
    result = solver.solve(target, collision=collision)
    mark(part)
    assert collision or result.outcome[0] == "solved", result.outcome
assert solver.info.device == "cuda:0", solver.info
print(json.dumps(parts))
"""

LOAD = """
hjcdik.load(sys.argv[1])
mark("load_s")
"""

BUILD = """
urdf, tool, spheres, name = sys.argv[1:]
artifact = hjcdik.build(urdf, ee_link=tool, spheres=spheres, name=name)
mark("build_s")
assert artifact.compiled and len(artifact.programs) == 2, artifact
print(json.dumps(parts))
"""


def new_process(program: str, *arguments: str, **environment: str) -> dict[str, float]:
    """The parts of the program's time, and `process_s`, from before it was started until it was gone."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", PROCESS + program, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {**json.loads(done.stdout), "process_s": time.perf_counter() - start}


def medians(runs: list[dict[str, float]]) -> dict[str, Any]:
    figures = {key: round(statistics.median(run[key] for run in runs), 4) for key in runs[0]}
    return {"processes": len(runs), **figures}


def packaged(folder: Path, repeats: int) -> dict[str, Any]:
    """Solver("panda") from programs that were compiled before, in a folder as the wheel has one."""
    store = folder / "packaged"
    prebuild = [sys.executable, "-m", "hjcdik._prebuild", str(store), "--robot", "panda"]
    subprocess.run(prebuild, check=True)
    cache = folder / "unused"
    environment = {**NO_COMPILER, "HJCDIK_STORE": str(store), "HJCDIK_CACHE_DIR": str(cache)}
    figures = medians([new_process(SOLVER, "panda", **environment) for _ in range(repeats)])
    assert not cache.exists()
    # All but the interpreter's start, numpy, and what CUDA takes for itself.
    ours = sum(figures[part] for part in ("import_hjcdik_s", "solver_s", "first_solve_s"))
    return {
        "case": "Solver('panda'), packaged programs, no NVRTC",
        **figures,
        "above_context_s": round(ours, 4),
    }


def own_robot(folder: Path, repeats: int) -> list[dict[str, Any]]:
    """A 7-joint arm with spheres, another one each time, built and then loaded in a process of its own."""
    cache = str(folder / "cache")
    text = Path(common.robot_file("panda.urdf")).read_text(encoding="utf-8")
    spheres = str(common.data_folder() / "spheres" / "panda_foam.json")
    built, loaded = [], []
    for number in range(repeats):
        urdf, name = folder / "arm.urdf", f"arm {number}"
        assert text.count('xyz="0 0 0.333"') == 1
        urdf.write_text(text.replace('xyz="0 0 0.333"', f'xyz="0 0 0.333{number + 1}"'), encoding="utf-8")
        built.append(new_process(BUILD, str(urdf), "panda_hand", spheres, name, HJCDIK_CACHE_DIR=cache))
        environment = {**NO_COMPILER, "HJCDIK_CACHE_DIR": cache}
        loaded.append(new_process(LOAD + SOLVER, name, **environment))
    return [
        {"case": "build, 7 joints with spheres, one architecture", **medians(built)},
        {"case": "load and Solver(name), no NVRTC", **medians(loaded)},
    ]


def cases(repeats: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        return [packaged(Path(folder), repeats), *own_robot(Path(folder), repeats)]


if __name__ == "__main__":
    print(json.dumps(cases(7), indent=1))
