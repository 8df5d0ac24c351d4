"""What hopeless targets cost: 10,000 targets, half of them reachable, half a grid in a 2 m cube.

    python benchmarks/unreachable.py [--quick] [--threads N]

The grid poses have random orientations and most are out of reach. A target inside the reach bound that has
no solution costs at most batch_size x R x 20 iterations (R = ceil(64 / batch_size)); the time of such
targets is measured apart, at several batch sizes, beside that bound.
"""

from __future__ import annotations

import common  # before numpy: it holds the maths libraries to one thread

# isort: split

import time
from typing import Any

import numpy as np

import hjcdik

ITERATIONS_PER_START = 20
STARTS = 64


def bound(batch_size: int) -> int:
    """The most LM iterations that one target may cost."""
    return batch_size * -(-STARTS // batch_size) * ITERATIONS_PER_START


def grid(n: int, rng: np.random.Generator) -> np.ndarray:
    """About n poses: a cubic grid over [-1, 1]^3 m around the base, uniform orientations."""
    side = np.linspace(-1, 1, max(2, round(n ** (1 / 3))))
    points = np.stack(np.meshgrid(side, side, side, indexing="ij"), axis=-1).reshape(-1, 3)
    return np.concatenate([points, common.random_rotations(len(points), rng)], axis=1)


def timed(solver: hjcdik.Solver, targets: np.ndarray, **options: Any) -> tuple[hjcdik.Result, float]:
    start = time.perf_counter()
    result = solver.solve(targets, collision=None, **options)
    return result, time.perf_counter() - start


def tally(result: hjcdik.Result) -> dict[str, int]:
    names, counts = np.unique(np.asarray(result.outcome).astype(str), return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def main() -> None:
    parser = common.arguments(__doc__.splitlines()[0], "unreachable")
    parser.add_argument("--targets", type=int, default=10_000)
    parser.add_argument("--threads", type=int, help="default: as the solver chooses")
    options = parser.parse_args()
    if options.quick:
        options.targets = min(options.targets, 600)
    rng = np.random.default_rng(options.seed)
    urdf = common.robot_file("panda.urdf")
    chain = common.Chain(urdf, "panda_hand")
    solver = hjcdik.Solver(urdf, ee_link="panda_hand", device="cpu", threads=options.threads)

    cube = grid(options.targets // 2, rng)
    reachable = chain.random_targets(options.targets - len(cube), rng)
    mixed = np.concatenate([cube, reachable])
    from_grid = np.arange(len(mixed)) < len(cube)
    order = rng.permutation(len(mixed))
    mixed, from_grid = mixed[order], from_grid[order]
    timed(solver, reachable[:200])

    result, seconds = timed(solver, mixed)
    refined = np.asarray(timed(solver, mixed, stats=True)[0].stats.n_refined, dtype=float)
    q = common.first_rows(result)
    pos, ori = chain.errors(q, mixed)
    solved = np.asarray(result.outcome) == "solved"
    verdict = {
        name: common.judge(q[part], pos[part], ori[part], chain.lower, chain.upper)
        for name, part in (("grid", from_grid), ("reachable", ~from_grid))
    }
    record: dict[str, Any] = {
        "claim": "10,000 targets, half of them a grid in a 2 m cube: rate and cost of hopeless targets",
        "environment": common.environment(),
        "quick": options.quick,
        "isa": solver.info.isa,
        "threads": options.threads,
        "robot": "panda.urdf, panda_hand",
        "targets": len(mixed),
        "grid_targets": len(cube),
        "seconds": seconds,
        "targets_per_s": len(mixed) / seconds,
        "solved": float(solved.mean()),
        "solved_of_grid": float(solved[from_grid].mean()),
        "solved_of_reachable": float(solved[~from_grid].mean()),
        "strict_by_independent_fk": verdict,
        "outcomes": tally(result),
        # A candidate is one start of at most 20 iterations at the default batch_size.
        "iterations_per_target_at_most": {
            name: float(refined[part].mean()) * ITERATIONS_PER_START
            for name, part in (("all", slice(None)), ("solved", solved), ("not_solved", ~solved))
        },
    }
    print(
        f"{len(mixed)} targets in {seconds:.3f} s, {record['targets_per_s']:.0f}/s; solved: "
        f"{100 * record['solved_of_reachable']:.3f} % of the reachable, "
        f"{100 * record['solved_of_grid']:.1f} % of the grid; outcomes {record['outcomes']}"
    )
    print(f"LM iterations a target, at most, on average: {record['iterations_per_target_at_most']}")

    # Hopeless targets alone: unsolved ones of the grid, by whether the reach bound already tells.
    hopeless = mixed[from_grid & ~solved]
    one = hjcdik.Solver(urdf, ee_link="panda_hand", device="cpu", threads=1)
    distance = np.linalg.norm(hopeless[:, :3] - first_joint_origin(chain), axis=1)
    far = distance > reach(chain)
    record["hopeless"] = {}
    for name, part in (("beyond_reach_bound", hopeless[far]), ("inside_reach_bound", hopeless[~far])):
        part = part[: 50 if options.quick else 500]
        if not len(part):
            continue
        record["hopeless"][name] = rows = []
        for batch_size in (1, 10, 64, 200, 2000):
            result, seconds = timed(one, part, batch_size=batch_size, stats=True)
            unsolved = int((np.asarray(result.outcome) != "solved").sum())
            _, seconds = timed(one, part, batch_size=batch_size)
            row = {
                "batch_size": batch_size,
                "targets": len(part),
                "still_unsolved": unsolved,
                "bound_iterations": bound(batch_size),
                "candidates_refined_mean": float(np.mean(result.stats.n_refined)),
                "us_per_target": seconds / len(part) * 1e6,
                "ns_per_bound_iteration": seconds / len(part) / bound(batch_size) * 1e9,
            }
            rows.append(row)
            print(
                f"{name:20} batch_size {batch_size:5}: {row['us_per_target']:10.1f} us a target on one core; "
                f"bound {row['bound_iterations']:6} iterations, {row['ns_per_bound_iteration']:.1f} ns each"
            )
    print(common.write(record, options.output, "unreachable"))


def first_joint_origin(chain: common.Chain) -> np.ndarray:
    position, rotation = np.zeros(3), np.eye(3)
    for fixed, offset, kind, _ in chain.steps:
        position = position + rotation @ offset
        rotation = rotation @ fixed
        if kind != "fixed":
            break
    return position


def reach(chain: common.Chain) -> float:
    """The sum of the distances between joints, and of prismatic ranges, from the first joint to the tool."""
    moving = [i for i, step in enumerate(chain.steps) if step[2] != "fixed"]
    total, column = 0.0, 0
    for i, (_, offset, kind, _) in enumerate(chain.steps):
        if i > moving[0]:
            total += float(np.linalg.norm(offset))
        if kind == "prismatic":
            total += float(max(abs(chain.lower[column]), abs(chain.upper[column])))
        column += kind != "fixed"
    return total


if __name__ == "__main__":
    main()
