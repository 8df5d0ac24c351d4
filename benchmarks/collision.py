"""Collision-aware solving: MotionBenchMaker problems, the cost of collision, many worlds, clearance.

    python benchmarks/collision.py [--quick] [--device cpu|cuda] [--sets cage_panda,...] [--parts ladder,...]
                                   [--jobs N]

Goals as posed at panda_hand, cylinders as capsules, sphere models panda_foam and panda_curobo, mode "hard".
Every row is judged by benchmarks/judge.py in float64. *Strict*: 1e-6 m, 1e-6 rad, inside the limits exactly,
free of itself and the world. *Loose*: 5 mm, 0.05 rad, free. Shares are over the problems that have a solution
(benchmarks/solvable.py). Times are of single calls, the world set before: of each problem the median of
`--repeats`. `--variant NAME:KEYWORD=VALUE,...` measures another way of solving over the same problems; the
keywords are those of `Solver.solve`. The judge works in `--jobs` processes, idle while solves are timed.
"""

from __future__ import annotations

import common  # before numpy: it holds the maths libraries to one thread

# isort: split

import argparse
import ast
import functools
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import hjcdik
import mbm
from judge import Judge

BATCHES = (1, 10, 100, 1000, 2000)
LOOSE_POSITION_M, LOOSE_ORIENTATION_RAD = 5e-3, 0.05
# The most that sphere centres of library and judge may differ.
AGREEMENT_M = 1e-9
PARTS = ("problems", "ladder", "cost", "worlds", "set_world")
# Rows that go to a process of the judge at once.
JUDGE_ROWS = 8192


@functools.cache
def judge_of(model: str) -> Judge:
    return Judge(common.robot_file(mbm.ROBOT), mbm.TOOL, mbm.sphere_file(model))


def judged(
    model: str, q: np.ndarray, targets: np.ndarray, world: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of rows in one world: errors of position and orientation, whether inside the limits, whether free."""
    judge = judge_of(model)
    return *judge.pose_errors(q, targets), judge.inside_limits(q), judge.free(q, world)


def free_poses(model: str, n: int, world: dict[str, Any], seed: list[int]) -> np.ndarray | None:
    """Poses of n uniform configurations that are free in a world; None where there are too few."""
    judge = judge_of(model)
    q = free_configurations(judge, world, n, np.random.default_rng(seed))
    return None if q is None else judge.poses(q)


class Workers:
    """Processes for the judge; with one job there are none, and this one does it."""

    def __init__(self, jobs: int) -> None:
        # Spawned: a process that uses a GPU must not fork.
        self.pool = multiprocessing.get_context("spawn").Pool(jobs) if jobs > 1 else None

    def each(self, function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]]) -> list[Any]:
        if self.pool is None:
            return [function(*row) for row in arguments]
        return self.pool.starmap(function, arguments, chunksize=1)

    def close(self) -> None:
        if self.pool is not None:
            self.pool.close()
            self.pool.join()


class Bench:
    """One sphere model: the library's solver and the judge."""

    def __init__(self, model: str, options: argparse.Namespace, workers: Workers) -> None:
        urdf = common.robot_file(mbm.ROBOT)
        self.model, self.options, self.workers = model, options, workers
        self.solver = hjcdik.Solver(
            urdf, ee_link=mbm.TOOL, spheres=model, device=options.device, threads=options.threads
        )
        self.judge = judge_of(model)
        self.same_spheres()
        self.solver.solve(self.solver.sample_targets(1000), collision="hard")  # threads started, code loaded

    def same_spheres(self) -> None:
        """Both must mean the same robot, or the verdicts say nothing."""
        rng = np.random.default_rng(1)
        q = rng.uniform(self.judge.lower, self.judge.upper, (20, self.judge.dof))
        ours, theirs = np.asarray(self.solver.spheres_at(q)), self.judge.spheres_at(q)
        if ours.shape != theirs.shape:
            raise SystemExit(f"{self.model}: {ours.shape[1]} spheres, the judge has {theirs.shape[1]}")
        apart = np.abs(ours[:, :, None] - theirs[:, None]).max(axis=3)
        if max(apart.min(axis=1).max(), apart.min(axis=2).max()) > AGREEMENT_M:
            raise SystemExit(f"{self.model}: the spheres are not where the judge sees them")

    def timed(self, poses: np.ndarray, repeats: int, **keywords: Any) -> tuple[hjcdik.Result, list[float]]:
        seconds = []
        for _ in range(repeats):
            start = time.perf_counter()
            result = self.solver.solve(poses, **keywords)
            seconds.append(time.perf_counter() - start)
        return result, seconds

    def free_targets(self, n: int, world: dict[str, Any], seed: list[int]) -> np.ndarray:
        """Poses of n configurations that are free in a world, made in pieces."""
        jobs = [(self.model, min(JUDGE_ROWS, n - i), world, [*seed, i]) for i in range(0, n, JUDGE_ROWS)]
        return np.concatenate(self.workers.each(free_poses, jobs))

    def verdicts(
        self, q: np.ndarray, targets: np.ndarray, worlds: Iterable[tuple[np.ndarray, dict[str, Any]]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Which rows are strict, and which are free; `worlds`: the rows in each."""
        parts = [
            (rows[i : i + JUDGE_ROWS], world)
            for rows, world in worlds
            for i in range(0, len(rows), JUDGE_ROWS)
        ]
        jobs = [(self.model, q[rows], targets[rows], world) for rows, world in parts]
        strict, free = np.zeros(len(q), dtype=bool), np.zeros(len(q), dtype=bool)
        for (rows, _), verdict in zip(parts, self.workers.each(judged, jobs), strict=True):
            strict[rows], free[rows] = is_strict(*verdict[:3]), verdict[3]
        return strict, free


def is_strict(pos: np.ndarray, ori: np.ndarray, inside: np.ndarray) -> np.ndarray:
    return inside & (pos < common.STRICT_POSITION_M) & (ori < common.STRICT_ORIENTATION_RAD)


class Tally:
    """What became of the problems of one set under one way of solving."""

    def __init__(self) -> None:
        self.problems = self.strict = self.loose = 0
        self.colliding_rows = self.rows_outside_limits = self.rows = 0
        self.unsolvable = self.unsolvable_strict = 0
        self.outcomes: Counter[str] = Counter()
        self.seconds: list[float] = []
        self.first_seconds: list[float] = []
        self.unsolvable_seconds: list[float] = []
        self.refined: list[int] = []
        self.missed: list[str] = []

    def add(
        self,
        name: str,
        solvable: bool,
        verdict: tuple[bool, bool],
        rows: tuple[int, int, int],
        runs: list[float],
        outcome: str,
        refined: int | None,
    ) -> None:
        for attribute, count in zip(("rows", "colliding_rows", "rows_outside_limits"), rows, strict=True):
            setattr(self, attribute, getattr(self, attribute) + count)
        if not solvable:
            self.unsolvable += 1
            self.unsolvable_strict += verdict[0]  # would refute the list
            self.unsolvable_seconds.append(float(np.median(runs)))
            return
        self.problems += 1
        self.strict += verdict[0]
        self.loose += verdict[1]
        self.outcomes[outcome] += 1
        self.seconds.append(float(np.median(runs)))
        self.first_seconds.append(runs[0])
        if refined is not None:
            self.refined.append(refined)
        if not verdict[0]:
            self.missed.append(name)

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "problems": self.problems,
            "strict": self.strict / max(self.problems, 1),
            "loose": self.loose / max(self.problems, 1),
            "strict_count": self.strict,
            "loose_count": self.loose,
            "rows": self.rows,
            "colliding_rows": self.colliding_rows,
            "rows_outside_limits": self.rows_outside_limits,
            "outcomes": dict(self.outcomes),
            "missed": " ".join(self.missed),
        }
        if self.seconds:
            record["call_us"] = common.microseconds(self.seconds)
            # Of the repeated calls the first: nothing of that problem is in a cache yet.
            record["first_call_us"] = common.microseconds(self.first_seconds)
        if self.unsolvable:
            record["unsolvable"] = self.unsolvable
            record["unsolvable_solved"] = self.unsolvable_strict
            record["unsolvable_call_us"] = common.microseconds(self.unsolvable_seconds)
        if self.refined:
            levels = np.quantile(self.refined, [0.5, 0.9, 0.99, 1])
            record["candidates_used"] = dict(
                zip(("median", "p90", "p99", "max"), levels.tolist(), strict=True)
            )
        return record


def solve_problems(
    bench: Bench,
    problems: dict[str, list[dict[str, Any]]],
    rung: float,
    ways: dict[str, dict[str, Any]],
    repeats: int,
    count_candidates: bool = False,
) -> dict[str, dict[str, Any]]:
    """By way of solving (keywords of solve) and set, and over all sets, what became of the problems."""
    solvable = mbm.solvable(bench.model, rung)
    tallies = {way: {name: Tally() for name in (*problems, "all")} for way in ways}
    places = [
        (name, index, mbm.grown(problem, rung))
        for name, rows in problems.items()
        for index, problem in enumerate(rows)
    ]
    # The library's own reading of the problems; the judge has another.
    posed = [
        (hjcdik.worlds.from_mbm_problem(problem), hjcdik.worlds.goal_pose(problem)) for *_, problem in places
    ]
    # One way after the other, so that the first call is the first in its world.
    runs = {}
    for way, keywords in ways.items():
        runs[way] = []
        for world, pose in posed:
            bench.solver.set_world(**world)
            runs[way].append(bench.timed(pose, repeats, **keywords))
    found = [
        {way: np.array(runs[way][place][0].q[0][: int(runs[way][place][0].count[0])]) for way in ways}
        for place in range(len(places))
    ]
    verdicts = bench.workers.each(
        judged,
        (
            (bench.model, np.concatenate(list(rows.values())), mbm.goal(problem), mbm.world(problem))
            for rows, (*_, problem) in zip(found, places, strict=True)
        ),
    )
    for place, (name, index, problem) in enumerate(places):
        bench.solver.set_world(**posed[place][0])
        pos, ori, inside, free = verdicts[place]
        strict = free & is_strict(pos, ori, inside)
        loose = free & inside & (pos < LOOSE_POSITION_M) & (ori < LOOSE_ORIENTATION_RAD)
        first = 0
        for way, (result, seconds) in ((way, runs[way][place]) for way in ways):
            rows_here = slice(first, first + len(found[place][way]))
            first = rows_here.stop
            refined = None
            if count_candidates:
                stats = bench.solver.solve(mbm.goal(problem), stats=True, **ways[way]).stats
                refined = int(stats.n_refined[0])
            counts = (len(found[place][way]), int((~free[rows_here]).sum()), int((~inside[rows_here]).sum()))
            verdict = (bool(strict[rows_here].any()), bool(loose[rows_here].any()))
            for tally in (tallies[way][name], tallies[way]["all"]):
                tally.add(
                    mbm.key(name, index),
                    index in solvable[name],
                    verdict,
                    counts,
                    seconds,
                    str(result.outcome[0]),
                    refined,
                )
    return {way: {name: tally.record() for name, tally in by_set.items()} for way, by_set in tallies.items()}


def measure_problems(bench: Bench, problems: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """By variant and batch_size: each set, and all."""
    options = bench.options
    ways = {
        f"{variant}/{batch}": {"collision": "hard", "batch_size": batch, **keywords}
        for variant, keywords in options.variants.items()
        for batch in options.batches
    }
    flat = solve_problems(bench, problems, 0.0, ways, options.repeats, count_candidates=True)
    record: dict[str, Any] = {}
    for way, by_set in flat.items():
        variant, batch = way.split("/")
        record.setdefault(variant, {})[batch] = by_set
        for name, r in by_set.items():
            if name == "all" or variant == "default":
                line(f"{bench.model} {variant} {name} B {batch}", r)
    return record


def measure_ladder(bench: Bench, problems: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """By rung (metres): sets with the kept problems, and success over those."""
    record = {}
    for rung in (*mbm.RUNGS, mbm.TABLE_RUNG):
        kept = {name: rows for name, rows in problems.items() if rung in mbm.rungs(name)}
        if not kept:
            continue
        solved = solve_problems(bench, kept, rung, {"default": {"collision": "hard"}}, bench.options.repeats)[
            "default"
        ]
        record[str(rung)] = solved
        for name, r in solved.items():
            line(f"{bench.model} grown {100 * rung:.1f} cm, {name}: {r['problems']} kept", r)
    return record


def line(what: str, r: dict[str, Any]) -> None:
    nothing = {"median": np.nan, "p99": np.nan}
    call, first = r.get("call_us", nothing), r.get("first_call_us", nothing)
    print(
        f"{what:64} strict {100 * r['strict']:7.2f} % loose {100 * r['loose']:7.2f} %  "
        f"colliding rows {r['colliding_rows']}  us: median {call['median']:8.1f} p99 {call['p99']:9.1f}, "
        f"first call {first['median']:8.1f} p99 {first['p99']:9.1f}"
    )


def free_configurations(
    judge: Judge, world: dict[str, Any], n: int, rng: np.random.Generator
) -> np.ndarray | None:
    """n uniform configurations inside the limits that are free in a world; None where there are too few."""
    rows: list[np.ndarray] = []
    found = tried = 0
    while found < n:
        q = rng.uniform(judge.lower, judge.upper, (max(2 * (n - found), 64), judge.dof))
        tried += len(q)
        q = q[judge.free(q, world)]
        found += len(q)
        rows.append(q)
        if tried > 1000 * n + 10_000:
            return None
    return np.concatenate(rows)[:n]


def measure_cost(bench: Bench) -> dict[str, Any]:
    """Mode "hard" without obstacles beside the open world: rates and latencies, by turns."""
    options = bench.options
    targets = bench.free_targets(options.cost_targets, {}, [options.seed])
    bench.solver.set_world()
    modes: dict[str, str | None] = {"none": None, "hard": "hard"}
    for mode in modes.values():
        bench.timed(targets[:1000], 1, collision=mode)
    seconds: dict[str, list[float]] = {name: [] for name in modes}
    results = {}
    for _ in range(options.cost_repeats):
        for name, mode in modes.items():
            results[name], once = bench.timed(targets, 1, collision=mode)
            seconds[name] += once
    single: dict[str, list[float]] = {name: [] for name in modes}
    for target in targets[: options.latency_targets]:
        for name, mode in modes.items():
            single[name] += bench.timed(target, 1, collision=mode)[1]
    record: dict[str, Any] = {"targets": len(targets), "modes": {}}
    for name, result in results.items():
        rows = common.first_rows(result)
        strict, free = bench.verdicts(rows, targets, [(np.arange(len(rows)), {})])
        record["modes"][name] = {
            "targets_per_s": len(targets) / float(np.median(seconds[name])),
            "runs_s": seconds[name],
            "strict": float(strict.mean()),
            "strict_and_free": float((strict & free).mean()),
            "colliding_rows": int((~free & ~np.isnan(rows).any(axis=1)).sum()),
            "call_us": common.microseconds(single[name]),
        }
    none, hard = record["modes"]["none"], record["modes"]["hard"]
    record["hard_time_over_none"] = none["targets_per_s"] / hard["targets_per_s"]
    record["hard_latency_over_none"] = hard["call_us"]["median"] / none["call_us"]["median"]
    print(
        f"{bench.model} without obstacles, {len(targets)} targets: hard {hard['targets_per_s']:.0f}/s, "
        f"open world {none['targets_per_s']:.0f}/s: {record['hard_time_over_none']:.2f} times the time; "
        f"single call {hard['call_us']['median']:.1f} and {none['call_us']['median']:.1f} us: "
        f"{record['hard_latency_over_none']:.2f} times; "
        f"strict and free {100 * hard['strict_and_free']:.3f} and {100 * none['strict_and_free']:.3f} %"
    )
    return record


def measure_worlds(bench: Bench, problems: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Many worlds in one call; the targets are reached by configurations that are free in their worlds."""
    options = bench.options
    rng = np.random.default_rng(0)
    # By turns from each set, so that few worlds are of all kinds.
    turns = [row for i in range(50) for rows in problems.values() for row in rows[i : i + 1]]
    worlds, poses = [], []
    while turns and len(worlds) < options.worlds:
        missing = options.worlds - len(worlds)
        tried, turns = turns[:missing], turns[missing:]
        jobs = [(bench.model, options.per_world, mbm.world(p), [len(turns), i]) for i, p in enumerate(tried)]
        for problem, made in zip(tried, bench.workers.each(free_poses, jobs), strict=True):
            if made is not None:
                worlds.append(problem)
                poses.append(made)
    targets = np.concatenate(poses)
    index = np.repeat(np.arange(len(worlds)), options.per_world)
    order = rng.permutation(len(targets))
    targets, index = targets[order], index[order]
    start = time.perf_counter()
    bench.solver.set_worlds([hjcdik.worlds.from_mbm_problem(problem) for problem in worlds])
    set_seconds = time.perf_counter() - start
    bench.timed(targets[:1000], 1, collision="hard", world_index=index[:1000])
    result, seconds = bench.timed(targets, options.cost_repeats, collision="hard", world_index=index)
    q = common.first_rows(result)
    answered = ~np.isnan(q).any(axis=1)
    strict, free = bench.verdicts(
        q, targets, ((np.flatnonzero(index == i), mbm.world(problem)) for i, problem in enumerate(worlds))
    )
    record = {
        "worlds": len(worlds),
        "targets_each": options.per_world,
        "targets": len(targets),
        "set_worlds_ms": set_seconds * 1e3,
        "targets_per_s": len(targets) / float(np.median(seconds)),
        "strict_free_per_s": int((strict & free).sum()) / float(np.median(seconds)),
        "runs_s": seconds,
        "strict": float((strict & free).mean()),
        "colliding_rows": int((answered & ~free).sum()),
        "no_answer": int((~answered).sum()),
        "outcomes": dict(Counter(np.asarray(result.outcome).astype(str).tolist())),
    }
    print(
        f"{bench.model}, {record['worlds']} worlds x {record['targets_each']} targets in one call: "
        f"{record['targets_per_s']:.0f} targets/s, strict and free {100 * record['strict']:.4f} %, "
        f"colliding rows {record['colliding_rows']}; set_worlds {record['set_worlds_ms']:.1f} ms"
    )
    return record


def measure_set_world(bench: Bench) -> dict[str, Any]:
    """set_world with 50 obstacles."""
    rng = np.random.default_rng(bench.options.seed)
    boxes = np.concatenate(
        [rng.uniform(-1, 1, (30, 3)), common.random_rotations(30, rng), rng.uniform(0.05, 0.5, (30, 3))],
        axis=1,
    )
    capsules = np.concatenate([rng.uniform(-1, 1, (20, 6)), np.full((20, 1), 0.05)], axis=1)
    seconds = []
    for _ in range(50 if bench.options.quick else 2000):
        start = time.perf_counter()
        bench.solver.set_world(boxes=boxes, capsules=capsules)
        seconds.append(time.perf_counter() - start)
    bench.solver.clear_world()
    record = {"obstacles": 50, "call_us": common.microseconds(seconds)}
    call = record["call_us"]
    print(f"set_world with 50 obstacles: median {call['median']:.1f} us, p99 {call['p99']:.1f} us")
    return record


def variant(text: str) -> tuple[str, dict[str, Any]]:
    name, _, keywords = text.partition(":")
    pairs = [pair.partition("=") for pair in keywords.split(",") if pair]
    return name, {key: ast.literal_eval(value) for key, _, value in pairs}


def main() -> None:
    parser = common.arguments(__doc__.splitlines()[0], "collision")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, help="of the solver (default: 1, on a GPU all)")
    parser.add_argument(
        "--jobs",
        type=int,
        default=common.physical_cores(),
        help="processes of the judge (default: the cores, %(default)s)",
    )
    parser.add_argument("--sets", help="comma-separated (default: all eight)")
    parser.add_argument("--models", default=",".join(mbm.MODELS), help="sphere models, comma-separated")
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated (default: %(default)s)")
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)), help="batch sizes")
    parser.add_argument("--repeats", type=int, default=3, help="of each single call; their median counts")
    parser.add_argument("--variant", action="append", default=[], help="NAME:KEYWORD=VALUE,... of solve")
    parser.add_argument("--cost-targets", type=int, default=100_000)
    parser.add_argument("--cost-repeats", type=int, default=3, help="of calls with many targets")
    parser.add_argument("--latency-targets", type=int, default=2000)
    parser.add_argument("--worlds", type=int, help="in one call (default: 40, on a GPU 400)")
    parser.add_argument("--per-world", type=int, help="targets in each (default: 250, on a GPU 2500)")
    options = parser.parse_args()
    gpu = options.device != "cpu"
    options.threads = options.threads or (None if gpu else 1)
    options.worlds = options.worlds or (400 if gpu else 40)
    options.per_world = options.per_world or (2500 if gpu else 250)
    options.batches = [int(batch) for batch in options.batches.split(",")]
    options.variants = {
        "default": {},
        "without self-motion": {"self_motion": False},
        "open world": {"collision": None},  # what is free by luck
        **dict(map(variant, options.variant)),
    }
    parts, models = options.parts.split(","), options.models.split(",")
    problems = mbm.problems()
    wanted = options.sets.split(",") if options.sets else list(problems)
    for given, known in ((parts, PARTS), (models, mbm.MODELS), (wanted, problems)):
        unknown = sorted(set(given) - set(known))
        if unknown:
            parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    problems = {name: problems[name] for name in wanted}
    if options.quick:
        problems = {name: rows[:2] for name, rows in problems.items()}
        options.batches, options.repeats = [b for b in options.batches if b in (10, 2000)] or [10], 1
        options.cost_targets = min(options.cost_targets, 2000)
        options.latency_targets = min(options.latency_targets, 50)
        options.worlds, options.per_world = min(options.worlds, 8), min(options.per_world, 20)

    record: dict[str, Any] = {
        "claim": "collision-aware solving: MotionBenchMaker success and time, cost of collision, many worlds",
        "environment": common.environment(),
        "quick": options.quick,
        "device": options.device,
        "threads": options.threads,
        "judge_processes": options.jobs,
        "strict": {"pos_m": common.STRICT_POSITION_M, "ori_rad": common.STRICT_ORIENTATION_RAD},
        "loose": {"pos_m": LOOSE_POSITION_M, "ori_rad": LOOSE_ORIENTATION_RAD},
        "variants": options.variants,
        "models": {},
    }
    workers = Workers(options.jobs)
    for model in models:
        bench = Bench(model, options, workers)
        record["isa"], record["solver_device"] = bench.solver.info.isa, str(bench.solver.info.device)
        measured = record["models"][model] = {}
        # What costs little and is judged by ratio comes first, while the machine is as it was.
        if "cost" in parts:
            measured["cost_of_hard"] = measure_cost(bench)
        if "set_world" in parts:
            measured["set_world"] = measure_set_world(bench)
        if "problems" in parts:
            measured["problems"] = measure_problems(bench, problems)
        if "ladder" in parts:
            measured["ladder"] = measure_ladder(bench, problems)
        if "worlds" in parts:
            measured["worlds"] = measure_worlds(bench, problems)
    workers.close()
    print(common.write(record, options.output, "collision"))


if __name__ == "__main__":
    main()
