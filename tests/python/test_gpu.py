"""What holds on a GPU only; all that holds on every device is tested in test_solve.py and tests/cases."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hjcdik
import support
from hjcdik import _devices
from support import Oracle, same_bits, strict, turn_difference, within_limits

pytestmark = pytest.mark.gpu

LARGE = 100_000
ARRAYS = ("q", "pose", "pos_err_m", "ori_err_rad")


def solve(solver: hjcdik.Solver, poses: Any, **options: Any) -> hjcdik.Result:
    return solver.solve(poses, collision=None, **options)


@pytest.fixture(scope="module")
def gpu() -> hjcdik.Solver:
    return hjcdik.Solver("panda", device="cuda")


@pytest.fixture(scope="module")
def cpu() -> hjcdik.Solver:
    return hjcdik.Solver("panda", device="cpu")


@pytest.fixture(scope="module")
def oracle(cpu: hjcdik.Solver) -> Oracle:
    return Oracle(hjcdik.preset_urdf("panda"), cpu)


def mixed_targets(solver: hjcdik.Solver, count: int, seed: int) -> np.ndarray:
    """Reachable ones with some between them that are out of reach, or in it but hard or impossible."""
    targets = solver.sample_targets(count, seed=seed)
    targets[::97, 2] = 3.0
    targets[5::97, 3:] = [1, 0, 0, 0]
    return targets


# --- which device -------------------------------------------------------------------------------


def test_the_gpu_is_the_default() -> None:
    names = _devices.gpu_names()
    assert names
    assert all(names)
    for device in (None, 0, "cuda", "cuda:0"):
        info = hjcdik.Solver("panda", device=device).info
        assert (info.device, info.isa, info.artifact) == ("cuda:0", "", None)
        assert re.fullmatch(r"\d+\.\d+", info.cuda_compiler_version)
    with pytest.raises(hjcdik.DeviceError, match=rf"no GPU {len(names)}.*'cpu'"):
        hjcdik.Solver("panda", device=len(names))
    assert hjcdik.Solver("panda", device="cpu").info.device == "cpu"


def test_every_gpu_of_the_machine_gives_the_same_bits(gpu: hjcdik.Solver) -> None:
    targets = mixed_targets(gpu, 1000, seed=1)
    expected = solve(gpu, targets)
    names = _devices.gpu_names()
    for index, name in enumerate(names):
        solver = hjcdik.Solver("panda", device=index)
        assert solver.info.device == f"cuda:{index}"
        if name == names[0]:
            assert same_bits(solve(solver, targets), expected)


# --- the same bits ------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"precision": "fp32"}, {"seed": 7}, {"batch_size": 5}], ids=str)
def test_the_same_bits_for_any_number_of_targets(gpu: hjcdik.Solver, options: dict[str, Any]) -> None:
    targets = mixed_targets(gpu, LARGE, seed=2)
    whole = solve(gpu, targets, **options)
    assert same_bits(solve(gpu, targets, **options), whole)
    for other in (hjcdik.Solver("panda", device="cuda"), hjcdik.Solver("panda", device="cuda", threads=1)):
        assert same_bits(solve(other, targets, **options), whole)
    random = np.random.default_rng(2)
    for size, repeats in ((1, 200), (2, 20), (7, 50), (33, 20), (1000, 10), (17_000, 2), (65_537, 1)):
        for first in random.integers(0, LARGE - size + 1, repeats).tolist():
            part = slice(first, first + size)
            assert same_bits(solve(gpu, targets[part], **options), whole[part]), f"{size} from {first}"
    chunks = [solve(gpu, chunk, **options) for chunk in np.array_split(targets, 13)]
    assert same_bits(hjcdik.Result._joined(chunks), whole)


@pytest.mark.parametrize(
    "options",
    [
        {"num_solutions": 4},
        {"num_solutions": 4, "precision": "fp32", "batch_size": 50},
        {"q_init": np.zeros((2, 7)), "num_solutions": 2},
        {"stats": True, "batch_size": 200},
        {"coarse_sweeps": 1},
        {"coarse_sweeps": 2, "coarse_order": "greedy", "num_solutions": 2},
    ],
    ids=lambda options: " ".join(options),
)
def test_the_same_bits_with_options(gpu: hjcdik.Solver, options: dict[str, Any]) -> None:
    targets = mixed_targets(gpu, 3000, seed=3)
    whole = solve(gpu, targets, **options)
    assert same_bits(solve(hjcdik.Solver("panda", device="cuda", threads=1), targets, **options), whole)
    for size, repeats in ((1, 30), (7, 10), (1000, 2)):
        for first in np.random.default_rng(3).integers(0, len(targets) - size + 1, repeats).tolist():
            part = slice(first, first + size)
            assert same_bits(solve(gpu, targets[part], **options), whole[part]), f"{size} from {first}"


def test_one_row_is_the_first_of_many(gpu: hjcdik.Solver) -> None:
    """They take different ways through the library."""
    targets = gpu.sample_targets(2000, seed=4)
    one, three = solve(gpu, targets), solve(gpu, targets, num_solutions=3)
    with_stats = solve(gpu, targets, stats=True)
    for name in ARRAYS:
        assert getattr(one, name)[:, 0].tobytes() == getattr(three, name)[:, 0].tobytes(), name
    assert same_bits(one, with_stats)


@pytest.mark.parametrize("solvers", [1, 2])
def test_threads_side_by_side_get_what_a_single_one_gets(gpu: hjcdik.Solver, solvers: int) -> None:
    pool = [gpu, hjcdik.Solver("panda", device="cuda")][:solvers]
    targets = mixed_targets(gpu, 8 * 4000, seed=5).reshape(8, 4000, 7)
    expected = [solve(gpu, part) for part in targets]
    rows = [solve(gpu, part[:50], num_solutions=3) for part in targets]
    failures: list[str] = []

    def check(result: hjcdik.Result, wanted: hjcdik.Result, what: str) -> None:
        if not same_bits(result, wanted):
            failures.append(what)

    def work(index: int) -> None:
        solver, mine, wanted = pool[index % solvers], targets[index], expected[index]
        for i in range(40):
            check(solve(solver, mine[i]), wanted[i : i + 1], f"thread {index}, target {i}")
            part = slice(90 * i, 90 * i + 7 * (i + 1))
            check(solve(solver, mine[part]), wanted[part], f"thread {index}, targets {part}")
        check(solve(solver, mine), wanted, f"thread {index}, all")
        check(solve(solver, mine[:50], num_solutions=3), rows[index], f"thread {index}, rows")

    support.run_side_by_side(work, failures)
    assert not failures


def test_a_solve_depends_on_nothing_before_it(gpu: hjcdik.Solver) -> None:
    targets = mixed_targets(gpu, 500, seed=6)
    expected = solve(gpu, targets)
    for options in ({"seed": 3}, {"num_solutions": 9}, {"q_init": np.zeros(7)}, {"coarse_sweeps": 1}):
        solve(gpu, targets[:100], **options)
        assert same_bits(solve(gpu, targets), expected), options


# --- collision ----------------------------------------------------------------------------------

WORLDS: list[dict[str, Any]] = [
    {"boxes": [[0.5, 0, 0.15, 1, 0, 0, 0, 0.4, 0.8, 0.3], [0, 0, -0.3, 1, 0, 0, 0, 3, 3, 0.5]]},
    {
        "spheres": [[0.4, 0.3, 0.5, 0.15], [0.4, -0.3, 0.5, 0.15]],
        "capsules": [[0.3, -1, 0.7, 0.3, 1, 0.7, 0.04]],
    },
    {"cylinders": [[0.5, 0.1, 0.3, 1, 0.1, 0, 0, 0.1, 0.6]], "exact_cylinders": True},
    {},
]
COLLISION_OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_solutions": 4},
    {"num_solutions": 2, "stats": True, "batch_size": 100},
    {"collision": "both", "collision_margin_m": 0.02, "batch_size": 10},
    {"self_collision": False, "precision": "fp32"},
    {"self_motion": False},
    {"q_init": np.tile([0, -0.5, 0, -2, 0, 1.6, 0.8], (3, 1)), "num_solutions": 2},
]


def foam(device: str, **options: Any) -> hjcdik.Solver:
    text = hjcdik.preset_urdf("panda")
    solver = hjcdik.Solver(text, ee_link="panda_hand", spheres="panda_foam", device=device, **options)
    solver.set_worlds(WORLDS)
    return solver


@pytest.fixture(scope="module")
def gpu_foam() -> hjcdik.Solver:
    return foam("cuda")


@pytest.mark.parametrize("options", COLLISION_OPTIONS, ids=lambda options: " ".join(options) or "default")
def test_the_same_bits_in_many_worlds(gpu_foam: hjcdik.Solver, options: dict[str, Any]) -> None:
    targets = mixed_targets(gpu_foam, 4000, seed=20)
    index = np.random.default_rng(20).integers(-1, len(WORLDS), 4000)
    whole = gpu_foam.solve(targets, world_index=index, **options)
    assert {"solved", "environment_collision"} <= set(whole.outcome)
    assert same_bits(foam("cuda", threads=1).solve(targets, world_index=index, **options), whole)
    for size, repeats in ((1, 40), (7, 15), (1000, 3)):
        for first in np.random.default_rng(21).integers(0, 4000 - size + 1, repeats).tolist():
            part = slice(first, first + size)
            found = gpu_foam.solve(targets[part], world_index=index[part], **options)
            assert same_bits(found, whole[part]), f"{size} from {first}"
            if whole.stats is not None:
                assert found.stats is not None
                assert all(found.stats[i] == whole.stats[first + i] for i in range(size))
    # And one world at a time.
    twin = foam("cuda")
    for world, keywords in enumerate(WORLDS):
        twin.set_world(**keywords)
        chosen = np.flatnonzero(index == world)[:200]
        alone = twin.solve(targets[chosen], **options)
        for place, t in enumerate(chosen.tolist()):
            assert same_bits(alone[place : place + 1], whole[t : t + 1]), (world, t)


@pytest.mark.parametrize("options", COLLISION_OPTIONS, ids=lambda options: " ".join(options) or "default")
def test_both_devices_return_only_free_rows_and_find_as_much(
    gpu_foam: hjcdik.Solver, options: dict[str, Any]
) -> None:
    targets = mixed_targets(gpu_foam, 2000, seed=22)
    index = np.arange(2000) % (len(WORLDS) + 1) - 1
    results = []
    for solver in (gpu_foam, foam("cpu")):
        result = solver.solve(targets, world_index=index, **options)
        which, column = np.nonzero(result.valid)
        q = result.q[which, column]
        verdict = solver.check(
            q,
            world_index=index[which],
            collision_margin_m=options.get("collision_margin_m", 0.0),
            self_collision=options.get("self_collision", True),
        )
        assert verdict.free.all()
        assert within_limits(solver.info, q).all()
        solved = result.outcome == "solved"
        own = Oracle(hjcdik.preset_urdf("panda"), solver)
        distances, angles = own.errors(result.q[solved, 0], targets[solved])
        assert max(distances.max(), angles.max()) < 1e-6
        results.append(result)
    a, b = results
    if options.get("precision") != "fp32":  # there it is luck whether a row is within 1e-6
        assert ((a.outcome == "solved") == (b.outcome == "solved")).mean() > 0.99
        assert (a.outcome == b.outcome).mean() > 0.95
    assert a.count.sum() == pytest.approx(b.count.sum(), rel=0.02)


@pytest.mark.parametrize("rows", [1, 4])
def test_soft_on_both_devices(gpu_foam: hjcdik.Solver, rows: int) -> None:
    targets = gpu_foam.sample_targets(500, seed=23)
    index = np.arange(500) % 3
    whole = gpu_foam.solve(targets, collision="soft", world_index=index, num_solutions=rows)
    assert (whole.outcome == "solved").all()
    for first in (0, 17, 250):
        part = slice(first, first + 7)
        found = gpu_foam.solve(targets[part], collision="soft", world_index=index[part], num_solutions=rows)
        assert same_bits(found, whole[part])
    cpu_rows = foam("cpu").solve(targets, collision="soft", world_index=index, num_solutions=rows)
    clear = [
        gpu_foam.check(result.q[:, 0], world_index=index, self_collision=False).free.mean()
        for result in (whole, cpu_rows)
    ]
    assert clear[0] == pytest.approx(clear[1], abs=0.02)


@pytest.mark.alone
def test_memory_stays_flat_while_worlds_change(gpu_foam: hjcdik.Solver, device_memory: DeviceMemory) -> None:
    solver = foam("cuda")
    targets = solver.sample_targets(1000, seed=24)
    index = np.arange(1000) % len(WORLDS)

    def calls(count: int) -> None:
        for i in range(count):
            solver.set_worlds(WORLDS[i % 4 :] + WORLDS[: i % 4])
            solver.solve(targets[i % 1000], world_index=i % 4)
            if i % 20 == 0:
                size = 1 + 37 * i % 1000
                solver.solve(targets[:size], world_index=index[:size], num_solutions=1 + i % 3)
                solver.solve(targets[:5], world_index=index[:5], collision="both", stats=True)

    calls(3000)  # until every size and number of rows has been there
    free, resident = device_memory.free(), resident_bytes()
    calls(3000)
    assert device_memory.free() == free
    assert resident_bytes() - resident < 4 << 20


@pytest.mark.alone
def test_a_large_world_comes_and_goes(gpu_foam: hjcdik.Solver, device_memory: DeviceMemory) -> None:
    solver = foam("cuda")
    target = solver.sample_targets(1, seed=25)
    random = np.random.default_rng(25)
    rows = np.hstack([random.uniform(-1, 1, (100_000, 3)), np.full((100_000, 1), 1e-3)])

    def use(count: int) -> None:
        for _ in range(count):
            solver.set_world(spheres=rows)
            solver.solve(target, batch_size=1)
            solver.clear_world()
            assert solver.solve(target).outcome[0] in ("solved", "self_collision")

    use(3)
    free = device_memory.free()
    use(20)
    assert device_memory.free() >= free - (1 << 20)


# --- rows ---------------------------------------------------------------------------------------


def test_a_hundred_thousand_rows_are_strict(gpu: hjcdik.Solver, oracle: Oracle) -> None:
    targets = gpu.sample_targets(LARGE, seed=7)
    result = solve(gpu, targets)
    assert (result.outcome == "solved").all()
    assert strict(oracle, result, targets).all()
    distances, angles = oracle.errors(result.q[:, 0], targets)
    np.testing.assert_allclose(result.pos_err_m[:, 0], distances, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.ori_err_rad[:, 0], angles, rtol=0, atol=1e-12)
    assert np.median(distances) < 1e-12


@pytest.mark.parametrize("rows", [1, 2, 7, 32, 64])
def test_up_to_64_rows(gpu: hjcdik.Solver, oracle: Oracle, rows: int) -> None:
    targets = gpu.sample_targets(100, seed=8)
    result = solve(gpu, targets, num_solutions=rows)
    assert (result.count >= min(rows, 2)).all()
    assert (result.count == rows).mean() > 0.8
    which, column = np.nonzero(result.valid)
    q = result.q[which, column]
    distances, angles = oracle.errors(q, targets[which])
    assert max(distances.max(), angles.max()) < 1e-6
    assert within_limits(gpu.info, q).all()
    for target in result:
        difference = turn_difference(gpu.info, target.q[:, None], target.q[None]).max(-1)
        assert (difference[~np.eye(target.count, dtype=bool)] >= 0.05).all()
    for name in ARRAYS:
        array = getattr(result, name)
        assert np.isfinite(array[result.valid]).all()
        assert np.isnan(array[~result.valid]).all()


def test_nothing_is_nan_but_padding(gpu: hjcdik.Solver) -> None:
    for size in (1, 50, 20_000):
        targets = mixed_targets(gpu, size, seed=9)
        targets[size // 2] = [1e6, -1e6, 1e6, 1e-200, 0, 0, 0]
        for options in ({}, {"precision": "fp32"}, {"batch_size": 1}, {"num_solutions": 2, "batch_size": 64}):
            result = solve(gpu, targets[: 1000 if "num_solutions" in options else None], **options)
            for name in ARRAYS:
                assert np.isfinite(getattr(result, name)[result.valid]).all(), (size, options, name)
            if "num_solutions" not in options:
                assert (result.count == 1).all()
            assert set(result.outcome) <= {"solved", "approximate"}


def test_outcomes_are_those_of_the_cpu(gpu: hjcdik.Solver, cpu: hjcdik.Solver) -> None:
    """Rows may differ, what was found may not."""
    targets = mixed_targets(gpu, 2000, seed=10)
    a, b = solve(gpu, targets), solve(cpu, targets)
    assert (a.outcome == b.outcome).mean() > 0.999
    far = targets[::97]
    for solver in (gpu, cpu):
        result = solve(solver, far)
        assert (result.outcome == "approximate").all()
        assert not result.ok(5, 0.05).any()
    # Both come about as near to what is out of reach.
    near = [np.median(solve(s, far).pos_err_m + 0.3 * solve(s, far).ori_err_rad) for s in (gpu, cpu)]
    assert near[0] == pytest.approx(near[1], rel=0.1)


@pytest.mark.alone
def test_targets_that_cannot_be_reached_cost_their_budget(gpu: hjcdik.Solver) -> None:
    solver, pose = support.hopeless("cuda")
    result = solve(solver, np.tile(pose, (1000, 1)), batch_size=500)
    assert (result.outcome == "approximate").all()
    assert len(np.unique(result.q, axis=0)) == 1
    assert result.elapsed_ms.sum() < 1000


DOFS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20, 24, 28, 31, 32)


@pytest.mark.parametrize("dof", DOFS)
def test_chains_of_1_to_32_joints(dof: int) -> None:
    text = support.random_chain(dof)
    solver = hjcdik.Solver(text, ee_link=f"l{dof + 1}", device="cuda")
    assert solver.info.dof == dof
    oracle = Oracle(text, solver)
    for count in (3, 300):
        targets = solver.sample_targets(count, seed=dof)
        result = solve(solver, targets)
        assert (result.outcome == "solved").all()
        assert strict(oracle, result, targets).all()
        assert same_bits(solve(solver, targets[:1]), result[:1])
    rows = solve(solver, targets[:20], num_solutions=4, q_init=solver.sample_configurations(2))
    which, column = np.nonzero(rows.valid)
    assert within_limits(solver.info, rows.q[which, column]).all()
    assert (rows.outcome == "solved").all()


@pytest.mark.parametrize(("text", "tool"), [(support.planar(), "l3"), (support.slides(), "l4")])
def test_small_arms(text: str, tool: str) -> None:
    solver = hjcdik.Solver(text, ee_link=tool, device="cuda")
    targets = solver.sample_targets(5000, seed=11)
    assert strict(Oracle(text, solver), solve(solver, targets), targets).all()


# --- life ---------------------------------------------------------------------------------------


class DeviceMemory:
    """Free bytes of GPU 0 as its driver counts them."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL(os.environ.get("HJCDIK_LIBCUDA") or "libcuda.so.1")
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)

    def call(self, name: str, *arguments: Any) -> None:
        assert getattr(self.driver, name)(*arguments) == 0, name

    def free(self) -> int:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuCtxPushCurrent_v2", self.context)
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        self.call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))
        return free.value


@pytest.fixture
def device_memory(gpu: hjcdik.Solver) -> Iterator[DeviceMemory]:
    memory = DeviceMemory()
    yield memory
    memory.call("cuDevicePrimaryCtxRelease_v2", 0)


def resident_bytes() -> int:
    match = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


@pytest.mark.alone
def test_memory_stays_flat_over_20000_calls(gpu: hjcdik.Solver, device_memory: DeviceMemory) -> None:
    targets = gpu.sample_targets(2000)

    def calls(count: int) -> None:
        for i in range(count):
            solve(gpu, targets[i % 2000])
            if i % 50 == 0:
                solve(gpu, targets[: 1 + i % 1000])
                solve(gpu, targets[i % 1000 : i % 1000 + 8], num_solutions=3, stats=True)

    calls(2000)
    free, resident = device_memory.free(), resident_bytes()
    calls(20_000)
    assert device_memory.free() == free
    assert resident_bytes() - resident < 2 << 20


@pytest.mark.alone
def test_solvers_give_back_what_they_took(gpu: hjcdik.Solver, device_memory: DeviceMemory) -> None:
    def use(count: int) -> None:
        for i in range(count):
            solver = hjcdik.Solver(("panda", "ur5e")[i % 2], device="cuda")
            solve(solver, solver.sample_targets(20_000))
            solve(solver, solver.sample_targets(1)[0], num_solutions=2)

    use(4)
    free, resident = device_memory.free(), resident_bytes()
    use(40)
    assert device_memory.free() >= free - (4 << 20)
    assert resident_bytes() - resident < 16 << 20


def program(text: str, **environment: str | Path) -> str:
    """What a Python program prints that must succeed in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_forked_child_may_use_the_cpu_only() -> None:
    program(
        """
import os
import hjcdik

gpu = hjcdik.Solver("panda", device="cuda")
target = gpu.sample_targets(1)
expected = gpu.solve(target, collision=None)
child = os.fork()
if child == 0:
    for attempt in (lambda: gpu.solve(target, collision=None), lambda: hjcdik.Solver("panda", device="cuda")):
        try:
            attempt()
        except hjcdik.DeviceError as error:
            assert "fork" in str(error)
        else:
            os._exit(1)
    for device in (None, "cpu"):
        other = hjcdik.Solver("panda", device=device)
        assert other.info.device == "cpu"
        assert other.solve(target, collision=None).outcome[0] == "solved"
    del gpu
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert (gpu.solve(target, collision=None).q == expected.q).all()
"""
    )


def test_spawned_workers_use_the_gpu(tmp_path: Path) -> None:
    script = tmp_path / "workers.py"
    script.write_text(
        """
import multiprocessing
import hjcdik

def work(solver):
    return solver.info.device, solver.solve(solver.sample_targets(100), collision=None).q.tobytes()

if __name__ == "__main__":
    solver = hjcdik.Solver("panda", device="cuda")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(work, [solver] * 2)
    assert found == [work(solver)] * 2
"""
    )
    subprocess.run([sys.executable, script], check=True, timeout=300)


SECONDS = """
import time
import hjcdik

hjcdik.Solver("ur5e", device="cuda")  # the driver, the context and NVRTC
start = time.perf_counter()
solver = hjcdik.Solver("panda", device="cuda")
print(time.perf_counter() - start)
assert (solver.solve(solver.sample_targets(100), collision=None).outcome == "solved").all()
"""


def entries(cache: Path) -> dict[str, int]:
    """The programs in a cache, with what changes when one is written anew."""
    return {path.name: path.stat().st_ino for path in (cache / "programs").iterdir()}


@pytest.mark.alone
def test_a_second_process_does_not_compile(tmp_path: Path) -> None:
    cold = float(program(SECONDS, HJCDIK_CACHE_DIR=tmp_path))
    stored = entries(tmp_path)
    assert len(stored) == 2
    warm = float(program(SECONDS, HJCDIK_CACHE_DIR=tmp_path, HJCDIK_NVRTC="/nowhere/libnvrtc.so"))
    assert entries(tmp_path) == stored
    print(f"a new robot: {cold * 1e3:.1f} ms cold, {warm * 1e3:.1f} ms warm")
    assert warm < 0.2  # NVRTC is out of reach: nothing was compiled


def test_a_damaged_program_is_compiled_again(tmp_path: Path) -> None:
    program(SECONDS, HJCDIK_CACHE_DIR=tmp_path)
    paths = [tmp_path / "programs" / name for name in entries(tmp_path)]
    good = [path.read_bytes() for path in paths]
    for damaged in (good[0][:-100], good[0][:5000] + b"damage" + good[0][5006:], b""):
        paths[0].write_bytes(damaged)
        program(SECONDS, HJCDIK_CACHE_DIR=tmp_path)
        assert [path.read_bytes() for path in paths] == good


# --- prepared robots ------------------------------------------------------------------------------

NO_COMPILER = {"HJCDIK_NVRTC": "/nowhere/libnvrtc.so"}

ANSWERS = """
import hashlib
assert solver.info.device == "cuda:0"
targets = solver.sample_targets(2000, seed=8)
bits = hashlib.sha256()
for collision in (None, "hard"):
    result = solver.solve(targets, collision=collision)
    assert collision or (result.outcome == "solved").all()
    for field in ("q", "pose", "count", "outcome"):
        bits.update(getattr(result, field).tobytes())
print(bits.hexdigest())
"""


def answers(make: str, **environment: object) -> str:
    """What a new process with this solver gets, as a hash."""
    return program(f"import hjcdik\n{make}\n{ANSWERS}", **environment).strip()


def test_a_prepared_robot_needs_no_compiler(tmp_path: Path) -> None:
    arm = 'hjcdik.preset_urdf("panda"), ee_link="panda_hand", spheres="panda_foam"'
    expected = answers(f"solver = hjcdik.Solver({arm})", HJCDIK_CACHE_DIR=tmp_path / "other")
    program(f"import hjcdik\nhjcdik.build({arm}, name='arm')", HJCDIK_CACHE_DIR=tmp_path)
    prepared = "solver = hjcdik.Solver('arm', allow_build=False)"
    assert answers(prepared, HJCDIK_CACHE_DIR=tmp_path, **NO_COMPILER) == expected


@pytest.mark.parametrize("target", ["native", "compute_75"])
def test_packaged_programs_need_no_compiler(tmp_path: Path, target: str) -> None:
    store = tmp_path / "packaged"
    command = [sys.executable, "-m", "hjcdik._prebuild", store, "--robot", "panda", "--cuda-arch", target]
    subprocess.run(command, check=True, timeout=120)
    environment = {"HJCDIK_STORE": store, "HJCDIK_CACHE_DIR": tmp_path / "cache", **NO_COMPILER}
    found = answers("solver = hjcdik.Solver('panda', allow_build=False)", **environment)
    assert not (tmp_path / "cache").exists()
    if target == "native":  # what the driver makes of PTX is another program
        assert found == answers("solver = hjcdik.Solver('panda')", HJCDIK_CACHE_DIR=tmp_path / "other")
