"""Solves on a GPU, timed: hjcdik_gpu_bench, the same calls from Python, and new processes, in one record.

    python benchmarks/gpu/measure.py --bench build/release/benchmarks/hjcdik_gpu_bench [--quick]

Writes gpu.json. The exit status is 1 where a check of the C++ program or a row of the Python calls failed.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import common  # before numpy: it holds the maths libraries to one thread

# isort: split

import json
import subprocess
import time
from typing import Any

import numpy as np
import prepared

import hjcdik


def gpu() -> dict[str, str]:
    """Name, driver and clocks by nvidia-smi, where that is installed."""
    fields = ["name", "driver_version", "clocks.max.sm", "clocks.max.mem", "power.limit"]
    try:
        command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return {}
    return dict(zip(fields, (value.strip() for value in text.splitlines()[0].split(",")), strict=True))


def run_bench(program: str, quick: bool) -> tuple[list[dict[str, Any]], bool]:
    """The cases that the C++ program measured, and whether its checks held."""
    command = [program, *(["--quick"] if quick else []), str(common.data_folder() / "robots")]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    text = run.stdout.strip() or "["
    if not text.endswith("]"):
        text += "]"  # it broke off: keep what there is
    return json.loads(text), run.returncode == 0


def judge(solver: hjcdik.Solver, q: np.ndarray, targets: np.ndarray) -> float:
    """Share of strict rows by this package's own FK from the URDF; at most 20000 of them."""
    chain = common.Chain(hjcdik.preset_urdf("panda"), solver.info.ee_link, solver.info.locked_joints)
    q, targets = q[:20_000], targets[:20_000]
    return common.judge(q, *chain.errors(q, targets), chain.lower, chain.upper)["strict"]


def one_target(solver: hjcdik.Solver, calls: int) -> dict[str, Any]:
    """Python calls with one fresh target each."""
    targets = solver.sample_targets(calls + 200, seed=11)
    times, rows = [], np.empty((calls, solver.info.dof))
    for i, target in enumerate(targets):
        start = time.perf_counter()
        result = solver.solve(target, collision=None)
        if i >= 200:
            times.append(time.perf_counter() - start)
            rows[i - 200] = result.q[0, 0]
    return {
        "case": "one target, Python",
        **{f"{k}_us": v for k, v in common.microseconds(times).items()},
        "strict": judge(solver, rows, targets[200:]),
    }


def numpy_arrays(solver: hjcdik.Solver, count: int, calls: int) -> dict[str, Any]:
    """Many targets as numpy arrays in and out."""
    targets = solver.sample_targets(count, seed=13)
    times = []
    for _ in range(calls + 1):
        start = time.perf_counter()
        result = solver.solve(targets, collision=None)
        times.append(time.perf_counter() - start)
    median = float(np.median(times[1:]))
    return {
        "case": "numpy arrays",
        "targets": count,
        "first_s": times[0],
        "median_s": median,
        "solves_per_s": count / median,
        "strict": judge(solver, np.asarray(result.q[:20_000, 0]), targets),
    }


def main() -> None:
    parser = common.arguments(__doc__.splitlines()[0], "gpu")
    parser.add_argument("--bench", required=True, help="the program hjcdik_gpu_bench")
    options = parser.parse_args()
    solver = hjcdik.Solver("panda", device="cuda")
    cases, good = run_bench(options.bench, options.quick)
    cases.append(one_target(solver, 500 if options.quick else 2000))
    for count in (1000, 100_000, 1_000_000):
        cases.append(numpy_arrays(solver, count, 3 if options.quick else 10))
    cases += prepared.cases(3 if options.quick else 7)
    good = good and all(case.get("strict", 1) >= 0.9999 for case in cases)
    record = {
        "claim": "solves a second and latency on one GPU",
        "environment": {**common.environment(), "gpu": gpu()},
        "quick": options.quick,
        "good": good,
        "cases": cases,
    }
    print(common.write(record, options.output, "gpu"))
    sys.exit(not good)


if __name__ == "__main__":
    main()
