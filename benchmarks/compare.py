"""This solver beside others on the Franka Panda: same targets, same tolerance, same run, one core.

    python benchmarks/compare.py [--quick] [--targets 100000] [--peers trac-ik,frankik,...]

Errors of every answer are recomputed with Pinocchio in float64; limits count without tolerance. The
ratios are the claim; the absolute times belong to the machine named in the record.
"""

from __future__ import annotations

import common  # before numpy: it holds the maths libraries to one thread

# isort: split

import argparse
import os
import time
from typing import Any

import numpy as np
import pinocchio

import peers


class PinocchioFk:
    """The judge: FK and limits of the Panda by Pinocchio."""

    def __init__(self, urdf: str) -> None:
        self.model = pinocchio.buildModelFromUrdf(urdf)
        self.data = self.model.createData()
        self.frame = self.model.getFrameId(peers.HAND)
        self.lower = self.model.lowerPositionLimit
        self.upper = self.model.upperPositionLimit

    def forward(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        position, rotation = np.empty((len(q), 3)), np.empty((len(q), 3, 3))
        for i, row in enumerate(q):
            pinocchio.forwardKinematics(self.model, self.data, row)
            pose = pinocchio.updateFramePlacement(self.model, self.data, self.frame)
            position[i], rotation[i] = pose.translation, pose.rotation
        return position, rotation

    def judge(self, q: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
        pos, ori = np.full(len(q), np.nan), np.full(len(q), np.nan)
        rows = ~np.isnan(q).any(axis=1)
        pos[rows], ori[rows] = common.pose_errors(*self.forward(q[rows]), targets[rows])
        return common.judge(q, pos, ori, self.lower, self.upper)


def measure(
    peer: peers.Peer, targets: np.ndarray, fk: PinocchioFk, options: argparse.Namespace, core: int
) -> dict[str, Any]:
    every_core = os.sched_getaffinity(0) | options.cores
    if peer.cores > 1:
        others = sorted(every_core - {core})
        os.sched_setaffinity(0, {core, *others[: peer.cores - 1]})
    many = isinstance(peer, peers.HjcdikMany)
    n = len(targets) if many else min(len(targets), options.one, peer.most)
    warm_up = fk_targets(fk, 100 if options.quick else 500, np.random.default_rng(options.seed + 1))
    if isinstance(peer, peers.TracIk):
        peer.tune(warm_up)
    peer.solve(warm_up[: 200 if many else 20], options.peer_seconds)
    wall, cpu = time.perf_counter(), time.process_time()
    runs = [peer.solve(targets[:n], options.peer_seconds) for _ in range(options.repeats if many else 1)]
    share = (time.process_time() - cpu) / (time.perf_counter() - wall)
    os.sched_setaffinity(0, {core})
    runs.sort(key=lambda run: float(run[1].sum()))
    q, seconds = runs[len(runs) // 2]
    record: dict[str, Any] = {"name": peer.name, "note": peer.note, "cores": peer.cores}
    record.update(fk.judge(q, targets[: len(q)]))
    record["targets_per_s"] = len(q) / seconds.sum()
    record["strict_per_s"] = record["strict_count"] / seconds.sum()
    record["mean_us"] = seconds.mean() * 1e6
    # Below 1 on one core: other processes took the rest, and the times are too long by as much.
    record["share_of_core"] = share
    if many:
        record["runs_targets_per_s"] = [len(q) / float(s.sum()) for _, s in runs]
    else:
        record["call_us"] = common.microseconds(seconds)
    return record


def fk_targets(fk: PinocchioFk, n: int, rng: np.random.Generator) -> np.ndarray:
    """Reachable poses: FK of uniform configurations inside the limits."""
    return common.poses_of(*fk.forward(rng.uniform(fk.lower, fk.upper, (n, 7))))


def table(records: dict[str, dict[str, Any]]) -> str:
    lines = [
        f"{'solver':42}{'targets':>9}{'strict':>10}{'strict/s':>11}{'mean us':>10}{'median':>9}{'p99':>10}"
        f"{'pos err m':>11}{'ori rad':>10}{'none':>6}{'limits':>7}"
    ]
    for r in records.values():
        call = r.get("call_us")
        median, p99 = (f"{call['median']:.1f}", f"{call['p99']:.1f}") if call else ("", "")
        errors = [f"{r[k]['median']:.1e}" if k in r else "" for k in ("pos_err_m", "ori_err_rad")]
        lines.append(
            f"{r['name']:42}{r['targets']:>9}{100 * r['strict']:>9.3f}%{r['strict_per_s']:>11.0f}"
            f"{r['mean_us']:>10.2f}{median:>9}{p99:>10}{errors[0]:>11}{errors[1]:>10}"
            f"{r['no_answer']:>6}{r['outside_limits']:>7}"
        )
    return "\n".join(lines)


def ratios(records: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """How many times more strict answers a second than each peer, and how much shorter a call."""
    out: dict[str, dict[str, float]] = {}
    for short, r in records.items():
        if (
            short.startswith("hjcdik")
            or r["strict_per_s"] == 0
            or not {"hjcdik", "hjcdik-one"} & set(records)
        ):
            continue
        out[short] = {}
        if "hjcdik" in records:
            out[short]["strict_per_s_many_targets"] = records["hjcdik"]["strict_per_s"] / r["strict_per_s"]
        if "hjcdik-one" in records:
            one = records["hjcdik-one"]
            out[short]["strict_per_s_one_target"] = one["strict_per_s"] / r["strict_per_s"]
            out[short]["median_call"] = r["call_us"]["median"] / one["call_us"]["median"]
            out[short]["p99_call"] = r["call_us"]["p99"] / one["call_us"]["p99"]
    return out


def main() -> None:
    parser = common.arguments(__doc__.splitlines()[0], "compare")
    parser.add_argument("--targets", type=int, default=100_000, help="for the call with many targets")
    parser.add_argument("--one", type=int, default=5_000, help="for solvers that take one target a call")
    parser.add_argument("--peer-seconds", type=float, default=30, help="time allowed for each solver")
    parser.add_argument("--repeats", type=int, default=5, help="of the call with many targets; median counts")
    parser.add_argument("--core", type=int, help="pin to this core (default: the last one allowed)")
    parser.add_argument("--peers", help="comma-separated short names (default: all)")
    options = parser.parse_args()
    if options.quick:
        options.targets, options.one = min(options.targets, 5000), min(options.one, 300)
        options.peer_seconds, options.repeats = min(options.peer_seconds, 3), 3
    options.cores = os.sched_getaffinity(0)
    core = common.pin_to_core(options.core)

    urdf = common.robot_file("panda.urdf")
    fk = PinocchioFk(urdf)
    targets = fk_targets(fk, max(options.targets, options.one), np.random.default_rng(options.seed))

    builders = peers.builders(urdf, fk.lower, fk.upper)
    wanted = options.peers.split(",") if options.peers else list(builders)
    unknown = sorted(set(wanted) - set(builders))
    if unknown:
        parser.error(f"unknown solver {', '.join(unknown)}; known: {', '.join(builders)}")
    records: dict[str, dict[str, Any]] = {}
    missing: dict[str, str] = {}
    packages: list[str] = ["pin"]
    isa = None
    for short in wanted:
        try:
            peer = builders[short]()
        except ImportError as error:
            if short.startswith("hjcdik"):
                raise
            missing[short] = str(error)
            common.progress(f"{short}: not installed ({error})")
            continue
        if peer.cores > len(options.cores):
            missing[short] = f"needs {peer.cores} cores"
            continue
        common.progress(peer.name)
        isa = getattr(peer, "isa", isa)
        packages += peer.packages
        records[short] = measure(peer, targets, fk, options, core)

    record = {
        "claim": "Franka Panda, panda_hand: strict answers a second on one core, beside other solvers",
        "environment": common.environment(packages),
        "isa": isa,
        "pinned_to_core": core,
        "strict": {"pos_m": common.STRICT_POSITION_M, "ori_rad": common.STRICT_ORIENTATION_RAD},
        "targets": f"FK of uniform configurations inside the limits, seed {options.seed}",
        "quick": options.quick,
        "ratios": ratios(records),
        "solvers": records,
        "not_measured": missing,
    }
    file = common.write(record, options.output, "compare")
    print(f"{record['environment']['cpu']['model']}, core {core}, isa {isa}")
    print(table(records))
    busy = [r["name"] for r in records.values() if r["share_of_core"] < 0.95]
    if busy:
        print(f"WARNING: the core was shared with other processes during {', '.join(busy)}")
    for short, r in record["ratios"].items():
        parts = [f"{value:.1f}x {key.replace('_', ' ')}" for key, value in r.items()]
        print(f"hjcdik against {records[short]['name']}: {', '.join(parts)}")
    print(file)


if __name__ == "__main__":
    main()
