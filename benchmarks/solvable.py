"""Which MotionBenchMaker problems have a solution at all, at each rung of the clearance ladder.

    python benchmarks/solvable.py [--sets cage_panda,...] [--models panda_foam,...] [--starts 1000000]

A problem is solvable if one configuration is strict (1e-6 m, 1e-6 rad, inside the limits) and free of
collision by the judge. Looked for, until the first: the problem's own goal_ik, polished; the self-motion
through it (Newton-corrected steps along the null space, both ways, while inside the limits); independent
random starts of the open-world solver; the self-motion through a spread of its first solutions; random starts
up to `--starts`. Nothing of the library's collision code takes part.
"""

from __future__ import annotations

import common  # before numpy: it holds the maths libraries to one thread

# isort: split

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

import hjcdik
import mbm
from judge import Judge

STEP_RAD = 0.01
MOST_STEPS = 3000
STARTS_A_CALL = 2000
WALKS_FROM_RANDOM = 24


def residuals(position: np.ndarray, rotation: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """What is missing to the targets (M, 6): translation and rotation vector, in the base frame."""
    turn = common.rotations_of(targets) @ np.swapaxes(rotation, 1, 2)
    twice = np.stack(
        [turn[:, 2, 1] - turn[:, 1, 2], turn[:, 0, 2] - turn[:, 2, 0], turn[:, 1, 0] - turn[:, 0, 1]], axis=1
    )
    sine = np.linalg.norm(twice, axis=1) / 2
    angle = np.arctan2(sine, (np.trace(turn, axis1=1, axis2=2) - 1) / 2)
    scale = np.where(sine > 1e-9, angle / np.maximum(sine, 1e-9), 1) / 2
    return np.concatenate([targets[:, :3] - position, scale[:, None] * twice], axis=1)


def newton(judge: Judge, q: np.ndarray, targets: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """q after least-norm Newton steps, and the Jacobians where the last step began."""
    for _ in range(steps):
        position, rotation, jacobian = judge.jacobian(q)
        square = jacobian @ np.swapaxes(jacobian, 1, 2) + 1e-12 * np.eye(6)
        missing = np.linalg.solve(square, residuals(position, rotation, targets)[:, :, None])
        step = (np.swapaxes(jacobian, 1, 2) @ missing)[:, :, 0]
        q = q + step * np.minimum(1, 0.3 / np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-12))
    return q, jacobian


def walk(judge: Judge, start: np.ndarray, targets: np.ndarray) -> list[np.ndarray]:
    """Of each strict start (N, 7) the configurations along its self-motion, both ways, inside the limits."""
    n = len(start)
    met: list[list[np.ndarray]] = [[row[None]] for row in start]
    origin = np.concatenate([start, start])
    wanted = np.concatenate([targets, targets])
    q = origin.copy()
    _, _, jacobian = judge.jacobian(q)
    direction = np.linalg.svd(jacobian)[2][:, -1]
    direction[n:] *= -1
    length = np.full(2 * n, STEP_RAD)
    row = np.arange(2 * n)  # the walks that go on
    for count in range(MOST_STEPS):
        tangent = np.linalg.svd(jacobian)[2][:, -1]
        tangent *= np.where((tangent * direction).sum(axis=1) < 0, -1, 1)[:, None]
        ahead = q + length[:, None] * tangent
        moved, moved_jacobian = newton(judge, ahead, wanted[row], 3)
        strict = judge.strict(moved, wanted[row])
        near = np.linalg.norm(moved - ahead, axis=1) < length
        done = strict & near
        # Where Newton went astray or out of the limits, once more with half the step.
        q = np.where(done[:, None], moved, q)
        jacobian = np.where(done[:, None, None], moved_jacobian, jacobian)
        direction = np.where(done[:, None], tangent, direction)
        length = np.where(done, np.minimum(length * 1.5, STEP_RAD), length / 2)
        for i in np.flatnonzero(done):
            met[row[i] % n].append(q[i : i + 1])
        closed = done & (count > 10) & (np.linalg.norm(q - origin[row], axis=1) < 0.6 * STEP_RAD)
        on = (length > STEP_RAD / 40) & ~closed
        if not on.any():
            break
        q, jacobian, direction, length, row = (a[on] for a in (q, jacobian, direction, length, row))
    return [np.concatenate(rows) for rows in met]


def spread(q: np.ndarray, most: int) -> np.ndarray:
    """Up to `most` rows, each the farthest from those before it."""
    chosen = [0]
    gap = np.abs(q - q[0]).max(axis=1)
    while len(chosen) < min(most, len(q)) and gap.max() > 0.1:
        chosen.append(int(gap.argmax()))
        gap = np.minimum(gap, np.abs(q - q[chosen[-1]]).max(axis=1))
    return q[chosen]


class Search:
    """One problem, one sphere model: at which rungs a solution is known, and how it was found."""

    def __init__(self, judge: Judge, problem: dict[str, Any], rungs: tuple[float, ...]) -> None:
        self.judge, self.target = judge, mbm.goal(problem)
        self.worlds = {rung: mbm.world(mbm.grown(problem, rung)) for rung in rungs}
        self.found: dict[float, str] = {}

    def open_rungs(self) -> list[float]:
        return [rung for rung in self.worlds if rung not in self.found]

    def offer(self, q: np.ndarray, how: str) -> None:
        """Judges strict candidates at the open rungs; what is free at one rung is so at all below it."""
        for rung in self.open_rungs():
            q = q[self.judge.free(q, self.worlds[rung])]
            if not len(q):
                return
            if not self.judge.strict(q[:1], self.target).all():
                raise AssertionError("a candidate that is not strict")
            self.found[rung] = how


def random_solutions(
    solver: hjcdik.Solver, judge: Judge, target: np.ndarray, starts: int
) -> Iterator[np.ndarray]:
    """Strict solutions from independent random starts, call by call."""
    for call in range(-(-starts // STARTS_A_CALL)):
        result = solver.solve(
            target,
            num_solutions=STARTS_A_CALL,
            batch_size=STARTS_A_CALL,
            collision=None,
            precision="fp64",
            distinct_rad=0,
            seed=call,
        )
        q = np.array(result.q[0][: int(result.count[0])])
        yield q[judge.strict(q, target)]


def main() -> None:
    parser = common.arguments(__doc__.splitlines()[0], "solvable")
    parser.add_argument("--sets", help="comma-separated (default: all)")
    parser.add_argument("--models", default=",".join(mbm.MODELS), help="sphere models, comma-separated")
    parser.add_argument("--starts", type=int, default=1_000_000, help="random starts before giving up")
    options = parser.parse_args()
    problems = mbm.problems()
    sets = options.sets.split(",") if options.sets else list(problems)
    if options.quick:
        options.starts = min(options.starts, 2 * STARTS_A_CALL)
        problems = {name: rows[:3] for name, rows in problems.items()}
    began = time.perf_counter()
    urdf = common.robot_file(mbm.ROBOT)
    solver = hjcdik.Solver(urdf, ee_link=mbm.TOOL, device="cpu", threads=1)
    kinematics = Judge(urdf, mbm.TOOL)

    # The self-motions through all goal_ik at once.
    places = [(name, i) for name in sets for i in range(len(problems[name]))]
    targets = np.array([mbm.goal(problems[name][i]) for name, i in places])
    posed = np.array([problems[name][i]["goal_ik"][0] for name, i in places])
    # Many lie in a limit, and would leave it by a rounding error: back to it.
    goals = np.clip(newton(kinematics, posed, targets, 8)[0], kinematics.lower, kinematics.upper)
    goals = np.where(kinematics.strict(posed, targets)[:, None], posed, goals)
    usable = kinematics.strict(goals, targets)
    paths = dict(
        zip(np.flatnonzero(usable).tolist(), walk(kinematics, goals[usable], targets[usable]), strict=True)
    )
    common.progress(
        f"{usable.sum()} of {len(places)} goal_ik lie inside the limits; along their self-motions "
        f"{sum(map(len, paths.values()))} configurations, {time.perf_counter() - began:.0f} s"
    )

    record: dict[str, Any] = {
        "claim": "MotionBenchMaker problems that have a strict, free solution, by set and place in the set",
        "environment": common.environment(),
        "quick": options.quick,
        "random_starts": options.starts,
        "step_rad": STEP_RAD,
        "grown_m": "every cuboid but the robot stand, on each face",
        "seconds": 0.0,
        "counts": {},
        "models": {},
    }
    for model in options.models.split(","):
        judge = Judge(urdf, mbm.TOOL, mbm.sphere_file(model))
        searches = []
        for place, (name, i) in enumerate(places):
            search = Search(judge, problems[name][i], mbm.rungs(name))
            if place in paths:
                search.offer(paths[place][:1], "goal_ik")
                search.offer(paths[place], "continuation")
            searches.append(search)
        left = [s for s in searches if s.open_rungs()]
        common.progress(
            f"{model}: {len(left)} problems left for random starts, {time.perf_counter() - began:.0f} s"
        )
        for place, search in enumerate(searches):
            if not search.open_rungs():
                continue
            began_here = time.perf_counter()
            total = 0
            for call, q in enumerate(random_solutions(solver, judge, search.target, options.starts)):
                total += len(q)
                search.offer(q, "random")
                if call == 0 and search.open_rungs() and len(q):
                    starts = spread(q, WALKS_FROM_RANDOM)
                    path = walk(judge, starts, np.broadcast_to(search.target, (len(starts), 7)))
                    search.offer(np.concatenate(path), "random and continuation")
                if not search.open_rungs():
                    break
            common.progress(
                f"{model} {mbm.key(*places[place])}: {search.found or 'nothing'}, {call + 1} calls, "
                f"{total} solutions, {time.perf_counter() - began_here:.1f} s"
            )
        record["models"][model], record["counts"][model] = tables(places, searches)
    record["seconds"] = round(time.perf_counter() - began)
    file = common.write(record, options.output, "solvable")
    for model, counts in record["counts"].items():
        for rung, count in counts.items():
            print(f"{model}, cuboids grown by {rung} m: {count['solvable']} of {count['problems']}")
    print(file)


def tables(
    places: list[tuple[str, int]], searches: list[Search]
) -> tuple[dict[str, dict[str, dict[str, str]]], dict[str, dict[str, int]]]:
    """By rung, set and way of finding, the places in the set (one string: one line of JSON); and counts."""
    rows: dict[str, dict[str, dict[str, list[int]]]] = {}
    counts: dict[str, dict[str, int]] = {}
    for (name, i), search in zip(places, searches, strict=True):
        for rung in search.worlds:
            how = search.found.get(rung, "none")
            rows.setdefault(str(rung), {}).setdefault(name, {}).setdefault(how, []).append(i)
            count = counts.setdefault(str(rung), {"problems": 0, "solvable": 0})
            count["problems"] += 1
            count["solvable"] += how != "none"
            count[how] = count.get(how, 0) + 1
    joined = {
        rung: {
            name: {how: " ".join(map(str, at)) for how, at in ways.items()} for name, ways in by_set.items()
        }
        for rung, by_set in rows.items()
    }
    return joined, counts


if __name__ == "__main__":
    main()
