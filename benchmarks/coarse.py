"""Does a coarse phase pay? Coordinate-descent sweeps 0, 1, 2 in both orders, over all robots.

    python benchmarks/coarse.py [--quick] [--robots panda.urdf,...]

For each robot: CPU time per target of one call with many targets, time of one target a call, candidates
needed (how many were refined up to the winner's key, at batch_size 2000 where each candidate is one start),
and the share solved by a single candidate (batch_size 1). The decision is printed last: the fewest sweeps
within 2 % of the smallest geometric mean time. It justifies the default of `coarse_sweeps`.
"""

from __future__ import annotations

import common  # before numpy: it holds the maths libraries to one thread

# isort: split

import time
from typing import Any

import numpy as np

import hjcdik
from throughput import Robot, judge

VARIANTS = [(0, "sweep"), (1, "sweep"), (1, "greedy"), (2, "sweep"), (2, "greedy")]


def label(variant: tuple[int, str]) -> str:
    sweeps, order = variant
    return "0" if sweeps == 0 else f"{sweeps} {order}"


def rotated(variants: list[tuple[int, str]], by: int) -> list[tuple[int, str]]:
    """Another variant goes first every time: the first pays for cold caches."""
    by %= len(variants)
    return variants[by:] + variants[:by]


def many(
    solver: hjcdik.Solver, robot: Robot, targets: np.ndarray, repeats: int, variants: list[tuple[int, str]]
) -> dict[str, dict[str, Any]]:
    """CPU time per target of one call, the variants in turns so that a drift of the clock hits all alike."""
    times: dict[tuple[int, str], list[float]] = {v: [] for v in variants}
    out = {}
    for turn in range(repeats + 1):
        for variant in rotated(variants, turn):
            sweeps, order = variant
            # One thread does it all, and its CPU time is not disturbed by other processes.
            start = time.thread_time()
            result = solver.solve(targets, collision=None, coarse_sweeps=sweeps, coarse_order=order)
            took = time.thread_time() - start
            if turn:
                times[variant].append(took)
                continue
            out[label(variant)] = {"strict": judge(robot, common.first_rows(result), targets)["strict"]}
    for variant, values in times.items():
        out[label(variant)]["us_per_target"] = float(np.median(values)) / len(targets) * 1e6
    return out


def one(
    solver: hjcdik.Solver, targets: np.ndarray, variants: list[tuple[int, str]]
) -> dict[str, dict[str, float]]:
    """Times of single calls, each target solved by every variant in turn."""
    times: dict[tuple[int, str], list[float]] = {v: [] for v in variants}
    for i, target in enumerate(targets):
        for variant in rotated(variants, i):
            sweeps, order = variant
            start = time.perf_counter()
            solver.solve(target, collision=None, coarse_sweeps=sweeps, coarse_order=order)
            took = time.perf_counter() - start
            if i >= 20:
                times[variant].append(took)
    return {label(v): common.microseconds(t) for v, t in times.items()}


def candidates(
    solver: hjcdik.Solver, targets: np.ndarray, variant: tuple[int, str]
) -> tuple[dict[str, float], float]:
    """Candidates refined up to the winner, and the share solved with one candidate only."""
    sweeps, order = variant
    result = solver.solve(targets, collision=None, stats=True, coarse_sweeps=sweeps, coarse_order=order)
    refined = np.asarray(result.stats.n_refined, dtype=float)
    median, p90, p99 = np.quantile(refined, [0.5, 0.9, 0.99])
    single = solver.solve(targets, collision=None, batch_size=1, coarse_sweeps=sweeps, coarse_order=order)
    solved = float((np.asarray(single.outcome) == "solved").mean())
    return {"mean": refined.mean(), "median": median, "p90": p90, "p99": p99, "max": refined.max()}, solved


def measure(name: str, options: Any, rng: np.random.Generator) -> dict[str, Any]:
    robot = Robot(name)
    solver = robot.solver(1)
    targets = robot.chain.random_targets(options.targets, rng)
    variants = VARIANTS
    by_variant = many(solver, robot, targets, options.repeats, variants)
    calls = one(solver, robot.chain.random_targets(options.one + 20, rng), variants)
    print(f"{name} ({robot.chain.dof} joints)")
    for variant in variants:
        entry = by_variant[label(variant)]
        entry["call_us"] = calls[label(variant)]
        entry["candidates_needed"], entry["solved_at_batch_size_1"] = candidates(
            solver, targets[: options.one], variant
        )
        need = entry["candidates_needed"]
        print(
            f"  sweeps {label(variant):9} {entry['us_per_target']:8.3f} us a target;  one target "
            f"{entry['call_us']['median']:7.1f} us, p99 {entry['call_us']['p99']:7.1f};  candidates mean "
            f"{need['mean']:6.2f} p99 {need['p99']:5.0f} max {need['max']:5.0f};  batch_size 1 solves "
            f"{100 * entry['solved_at_batch_size_1']:7.3f} %;  strict {100 * entry['strict']:.4f} %",
            flush=True,
        )
    return {"dof": robot.chain.dof, "ee_link": robot.chain.tip, "sweeps": by_variant}


def geometric_means(robots: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Over the robots, each relative to no sweep at all."""
    out: dict[str, dict[str, float]] = {}
    for variant in VARIANTS:
        name = label(variant)
        ratios: dict[str, list[float]] = {"many_targets": [], "one_target_median": [], "one_target_p99": []}
        for entry in robots.values():
            this, none = entry["sweeps"][name], entry["sweeps"]["0"]
            ratios["many_targets"].append(this["us_per_target"] / none["us_per_target"])
            ratios["one_target_median"].append(this["call_us"]["median"] / none["call_us"]["median"])
            ratios["one_target_p99"].append(this["call_us"]["p99"] / none["call_us"]["p99"])
        out[name] = {k: float(np.exp(np.mean(np.log(v)))) for k, v in ratios.items()}
    return out


def fastest(means: dict[str, dict[str, float]], key: str) -> str:
    """The first variant, in the order of VARIANTS, within 2 % of the best: noise must not add a sweep."""
    best = min(mean[key] for mean in means.values())
    return next(name for name, mean in means.items() if mean[key] <= 1.02 * best)


def main() -> None:
    parser = common.arguments(__doc__.splitlines()[0], "coarse")
    parser.add_argument(
        "--robots", help="files of the data folder or presets, comma-separated (default: all)"
    )
    parser.add_argument("--targets", type=int, default=10_000, help="of one call")
    parser.add_argument("--one", type=int, default=1000, help="single calls per variant")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    if options.quick:
        options.targets, options.one, options.repeats = 1000, 100, 2
    core = common.pin_to_core()
    rng = np.random.default_rng(options.seed)
    names = options.robots.split(",") if options.robots else [*common.ROBOTS, *hjcdik.presets()]
    robots = {name: measure(name, options, rng) for name in names}
    means = geometric_means(robots)
    best = {key: fastest(means, key) for key in ("many_targets", "one_target_median", "one_target_p99")}
    record = {
        "claim": "how many coarse sweeps are fastest, over all robots, on one core",
        "environment": common.environment(),
        "quick": options.quick,
        "isa": Robot(names[0]).solver(1).info.isa,
        "pinned_to_core": core,
        "targets": options.targets,
        "time_relative_to_no_sweep": means,
        "fastest": best,
        "robots": robots,
    }
    print("geometric mean of the time over the robots, relative to no sweep:")
    for name, mean in means.items():
        print(f"  sweeps {name:9} " + "  ".join(f"{k} {v:.3f}" for k, v in mean.items()))
    print("fastest (fewest sweeps within 2 %): " + ", ".join(f"{k}: {v}" for k, v in best.items()))
    print(common.write(record, options.output, "coarse"))


if __name__ == "__main__":
    main()
