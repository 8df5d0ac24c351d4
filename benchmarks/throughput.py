"""Targets a second over the number of targets, threads, instruction sets and robots; latency of one.

    python benchmarks/throughput.py [--quick] [--robots panda.urdf,...]

Every figure is one whole Python call with collision=None and otherwise defaults. The share of strict
answers is recomputed by common.py's own FK from the URDF.
"""

from __future__ import annotations

import common  # before numpy: it holds the maths libraries to one thread

# isort: split

import argparse
import multiprocessing
import os
import time
from multiprocessing import queues, synchronize
from pathlib import Path
from typing import Any

import numpy as np

import hjcdik


class Robot:
    """One robot: a file of the data folder, or a preset."""

    def __init__(self, name: str) -> None:
        self.name = name
        if name.endswith(".urdf"):
            self.source, self.ee_link = common.robot_file(name), common.ROBOTS[name]
            self.chain = common.Chain(self.source, self.ee_link)
        else:
            self.source, self.ee_link = name, None
            info = hjcdik.Solver(name, device="cpu").info
            self.chain = common.Chain(hjcdik.preset_urdf(name), info.ee_link, info.locked_joints)

    def solver(self, threads: int, isa: str | None = None) -> hjcdik.Solver:
        saved = os.environ.pop("HJCDIK_ISA", None)
        if isa:
            os.environ["HJCDIK_ISA"] = isa
        try:
            solver = hjcdik.Solver(self.source, ee_link=self.ee_link, device="cpu", threads=threads)
        finally:
            os.environ.pop("HJCDIK_ISA", None)
            if saved is not None:
                os.environ["HJCDIK_ISA"] = saved
        if isa and solver.info.isa != isa:
            raise RuntimeError(f"HJCDIK_ISA={isa} gave a solver for {solver.info.isa}")
        return solver


def rate(
    solver: hjcdik.Solver, robot: Robot, count: int, rng: np.random.Generator, seconds: float
) -> dict[str, Any]:
    """Targets a second for calls of `count` fresh targets, for about so many seconds."""
    solver.solve(robot.chain.random_targets(min(count, 256), rng), collision=None)
    times: list[float] = []
    strict = solved = total = 0
    # Making targets takes longer than solving them, so their number is bounded too.
    while len(times) < 5 or (sum(times) < seconds and len(times) < 2000 and len(times) * count < 10**6):
        targets = robot.chain.random_targets(count, rng)
        start = time.perf_counter()
        result = solver.solve(targets, collision=None)
        times.append(time.perf_counter() - start)
        # The independent FK is much slower than the solver: a sample of the calls is judged.
        if total < 20_000:
            verdict = judge(robot, common.first_rows(result), targets)
            strict += verdict["strict_count"]
            solved += int((np.asarray(result.outcome) == "solved").sum())
            total += count
    return {
        "targets": count,
        "targets_per_s": count / float(np.median(times)),
        "calls": len(times),
        "strict": strict / total,
        "solved": solved / total,
        "judged": total,
    }


def judge(robot: Robot, q: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
    return common.judge(q, *robot.chain.errors(q, targets), robot.chain.lower, robot.chain.upper)


def latency(solver: hjcdik.Solver, robot: Robot, calls: int, rng: np.random.Generator) -> dict[str, Any]:
    """Times of single calls, each with a target not seen before."""
    targets = robot.chain.random_targets(calls + 100, rng)
    for target in targets[calls:]:
        solver.solve(target, collision=None)
    times, q = [], np.empty((calls, robot.chain.dof))
    for i, target in enumerate(targets[:calls]):
        start = time.perf_counter()
        result = solver.solve(target, collision=None)
        times.append(time.perf_counter() - start)
        q[i] = result.q[0, 0]
    return {"call_us": common.microseconds(times), **judge(robot, q, targets[:calls])}


def thread_counts(cores: int) -> list[int]:
    counts = [1]
    while counts[-1] * 2 < cores:
        counts.append(counts[-1] * 2)
    return counts if cores == 1 else [*counts, cores]


def show(label: str, record: dict[str, Any]) -> None:
    print(f"{label:44}{record['targets_per_s']:>12.0f}/s{100 * record['strict']:>10.4f}%", flush=True)


def main() -> None:
    parser = common.arguments(__doc__.splitlines()[0], "throughput")
    parser.add_argument(
        "--robots", help="files of the data folder or presets, comma-separated (default: all)"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="per figure")
    parser.add_argument("--latency-calls", type=int, default=5000)
    options = parser.parse_args()
    sizes = [1, 10, 100, 1000, 10_000, 100_000]
    if options.quick:
        options.seconds, options.latency_calls, sizes = 0.1, 300, [1, 10, 100, 1000, 10_000]
    rng = np.random.default_rng(options.seed)
    cores = common.physical_cores()
    available = list(hjcdik.build_info()["isas"])
    panda = Robot("panda.urdf")
    record: dict[str, Any] = {
        "claim": "targets a second over T, threads, instruction sets and robots; latency of one target",
        "environment": common.environment(),
        "quick": options.quick,
        "isas": available,
        "physical_cores": cores,
    }

    # The Panda over T, for every instruction set on one thread and on all.
    record["panda"] = over_targets(panda, available, thread_counts(cores), sizes, rng, options)

    # One core beside all of them, in turns so that a drift of the clock hits both alike.
    record["scaling"] = scaling(panda, available[-1], cores, sizes[-1], rng, options)
    entry = record["scaling"]
    print(
        f"scaling: {100 * entry['efficiency']:.1f} % of one core x {cores} cores (separate processes: "
        f"{100 * entry['separate_processes_efficiency']:.1f} %); CPU / wall time "
        f"{entry['share_of_one_core']:.2f} on one, {entry['share_of_all_cores']:.2f} on all"
    )

    record["latency"] = {}
    for isa in available:
        entry = latency(panda.solver(1, isa), panda, options.latency_calls, rng)
        record["latency"][isa] = entry
        us = entry["call_us"]
        print(
            f"one target, one thread, {isa:8} median {us['median']:7.1f} us  p90 {us['p90']:7.1f}  "
            f"p99 {us['p99']:7.1f}  strict {100 * entry['strict']:.3f} %",
            flush=True,
        )

    names = options.robots.split(",") if options.robots else [*common.ROBOTS, *hjcdik.presets()]
    record["robots"] = {name: one_robot(name, cores, sizes, rng, options) for name in names}
    print(common.write(record, options.output, "throughput"))


def over_targets(
    robot: Robot,
    available: list[str],
    threads: list[int],
    sizes: list[int],
    rng: np.random.Generator,
    options: argparse.Namespace,
) -> list[dict[str, Any]]:
    records = []
    for isa in available:
        # The lesser instruction sets are shown at the two ends only.
        for count in threads if isa == available[-1] else sorted({threads[0], threads[-1]}):
            solver = robot.solver(count, isa)
            for size in sizes:
                entry = {"isa": isa, "threads": count, **rate(solver, robot, size, rng, options.seconds)}
                records.append(entry)
                show(f"{Path(robot.name).stem} {isa} threads {count} T {size}", entry)
    return records


def scaling(
    robot: Robot, isa: str, cores: int, size: int, rng: np.random.Generator, options: argparse.Namespace
) -> dict[str, Any]:
    one, every = robot.solver(1, isa), robot.solver(cores, isa)
    rates: dict[str, list[float]] = {"one": [], "all": []}
    shares: dict[str, list[float]] = {"one": [], "all": []}
    for _ in range(3 if options.quick else 7):
        targets = robot.chain.random_targets(size, rng)
        for key, solver in (("one", one), ("all", every)):
            start, cpu = time.perf_counter(), time.process_time()
            solver.solve(targets, collision=None)
            took = time.perf_counter() - start
            rates[key].append(size / took)
            shares[key].append((time.process_time() - cpu) / took / (1 if key == "one" else cores))
    single, together = (float(np.median(rates[key])) for key in ("one", "all"))
    apart = separate_processes(robot, isa, cores, min(size, 10_000), 0.3 if options.quick else 1.0)
    return {
        "isa": isa,
        "targets": size,
        "threads": cores,
        "one_core_targets_per_s": single,
        "all_cores_targets_per_s": together,
        "efficiency": together / (single * cores),
        # Below 1: other processes, or waiting, took the rest.
        "share_of_one_core": float(np.median(shares["one"])),
        "share_of_all_cores": float(np.median(shares["all"])),
        # What the machine allows: one pinned process a core, each with one thread and targets of its own.
        # Clocks that fall under load and virtual cores that share a real one show here.
        "separate_processes_targets_per_s": apart,
        "separate_processes_efficiency": apart / (single * cores),
        "of_separate_processes": together / apart,
    }


def separate_processes(robot: Robot, isa: str, cores: int, size: int, seconds: float) -> float:
    """Targets a second of one pinned single-threaded process on every core, all at the same time."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(cores)
    queue = context.SimpleQueue()
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    workers = [
        context.Process(target=_alone, args=(robot.name, isa, core, size, seconds, barrier, queue))
        for core in allowed
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise RuntimeError("a process of the scaling measurement failed; its error stands above")
    return sum(queue.get() for _ in workers)


def _alone(
    name: str,
    isa: str,
    core: int,
    size: int,
    seconds: float,
    barrier: synchronize.Barrier,
    queue: queues.SimpleQueue,
) -> None:
    os.sched_setaffinity(0, {core})
    robot = Robot(name)
    solver = robot.solver(1, isa)
    targets = robot.chain.random_targets(size, np.random.default_rng(core))
    solver.solve(targets, collision=None)
    barrier.wait(timeout=60)
    start, done = time.perf_counter(), 0
    while (now := time.perf_counter()) - start < seconds:
        solver.solve(targets, collision=None)
        done += size
    queue.put(done / (now - start))


def one_robot(
    name: str, cores: int, sizes: list[int], rng: np.random.Generator, options: argparse.Namespace
) -> dict[str, Any]:
    robot = Robot(name)
    size = min(sizes[-1], 10_000)
    entry: dict[str, Any] = {"dof": robot.chain.dof, "ee_link": robot.chain.tip}
    for key, threads in (("one_core", 1), ("all_cores", cores)):
        entry[key] = rate(robot.solver(threads), robot, size, rng, options.seconds)
    entry["latency"] = latency(robot.solver(1), robot, max(300, options.latency_calls // 5), rng)
    show(f"{name} ({robot.chain.dof} joints) one core T {size}", entry["one_core"])
    show(f"{name} ({robot.chain.dof} joints) {cores} cores T {size}", entry["all_cores"])
    return entry


if __name__ == "__main__":
    main()
