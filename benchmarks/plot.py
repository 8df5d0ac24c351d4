"""Plots of error and time from the records beside this file.

    python benchmarks/plot.py [--results benchmarks/results] [--output benchmarks/results]

compare.png from compare.json, throughput.png and collision.png likewise, where those records exist.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

OURS, OTHERS, WARNING = "#0b6e4f", "#5b6770", "#b3261e"


def machine(record: dict[str, Any]) -> str:
    where = record["environment"]
    commit = (where["commit"] or "no commit")[:12]
    quick = "; QUICK RUN, NOT A MEASUREMENT" if record["quick"] else ""
    return f"{where['cpu']['model']}, {where['date'][:10]}, {commit}{quick}"


def compare(record: dict[str, Any], file: Path) -> None:
    """Left: time of a target. Right: error of the answers, beside the strict bound."""
    solvers = sorted(record["solvers"].items(), key=lambda item: item[1]["mean_us"])
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 1.8 + 0.4 * len(solvers)), sharey=True)
    for row, (short, r) in enumerate(solvers):
        colour = OURS if short.startswith("hjcdik") else OTHERS
        if "call_us" in r:
            call = r["call_us"]
            left.plot([call["median"], call["p99"]], [row, row], color=colour, linewidth=5, alpha=0.45)
        left.plot(r["mean_us"], row, "o", color=colour, markersize=6)
        left.annotate(
            f"{r['mean_us']:.0f}" if r["mean_us"] >= 100 else f"{r['mean_us']:.3g}",
            (r["mean_us"], row),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
        if "pos_err_m" in r:
            # An error of exactly zero has no place on a logarithmic axis.
            low, middle, high = (max(r["pos_err_m"][k], 1e-18) for k in ("p1", "median", "p99"))
            right.plot([low, high], [row, row], color=colour, linewidth=5, alpha=0.45)
            right.plot(middle, row, "o", color=colour, markersize=6)
        share = 100 * r["strict"]
        right.text(
            1.02,
            row,
            f"{share:.5g} %",
            va="center",
            fontsize=9,
            color=WARNING if share < 99.9 else "black",
            transform=right.get_yaxis_transform(),
        )
    left.set_yticks(range(len(solvers)), [r["name"] for _, r in solvers], fontsize=9)
    left.set_ylim(len(solvers) - 0.4, -0.8)
    left.set_xscale("log")
    left.set_xlabel("time of a target, µs\n(dot and figure: mean; bar: median to p99 of single calls)")
    right.set_xscale("log")
    right.axvline(record["strict"]["pos_m"], color=WARNING, linewidth=1, linestyle="--")
    right.set_xlabel("position error of the answers, m\n(dot: median; bar: 1 to 99 %; dashed: strict bound)")
    right.text(1.02, 1.01, "strict", fontsize=9, transform=right.transAxes)
    for axes in (left, right):
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
    figure.suptitle(
        "Franka Panda, random reachable poses, one core unless named; strict: 1 µm, 1 µrad, in the limits\n"
        f"{machine(record)}, hjcdik on {record['isa']}",
        fontsize=10,
    )
    _save(figure, file)


def throughput(record: dict[str, Any], file: Path) -> None:
    """Targets a second over the number of targets in a call."""
    curves: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for entry in record["panda"]:
        point = (entry["targets"], entry["targets_per_s"])
        curves.setdefault((entry["isa"], entry["threads"]), []).append(point)
    most = max(threads for _, threads in curves)
    figure, axes = plt.subplots(figsize=(7.5, 5))
    for (isa, threads), points in curves.items():
        if threads not in (1, most):
            continue
        style = "-" if threads == 1 else "--"
        colour = {"x86-64": "#b07d2b", "avx2": "#35618e", "avx512": OURS}.get(isa, OTHERS)
        label = f"{isa}, {threads} thread{'s' if threads > 1 else ''}"
        axes.plot(*zip(*points, strict=True), style, marker="o", markersize=4, color=colour, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("targets in one call (Python)")
    axes.set_ylabel("targets a second")
    axes.set_title(f"Franka Panda, random reachable poses\n{machine(record)}", fontsize=10)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.legend(fontsize=8)
    _save(figure, file)


def collision(record: dict[str, Any], file: Path) -> None:
    """For each sphere model: success over candidates, time by set, and success over clearance."""
    models = {name: m for name, m in record["models"].items() if "problems" in m}
    if not models:
        raise SystemExit("collision.json has no problems: run collision.py with that part")
    figure, panels = plt.subplots(len(models), 3, figsize=(15, 4.6 * len(models)), squeeze=False)
    for (model, measured), (left, middle, right) in zip(models.items(), panels, strict=True):
        problems = measured["problems"]
        default = problems["default"]
        names = [name for name in next(iter(default.values())) if name != "all"]
        colours = dict(zip(names, plt.get_cmap("tab10").colors, strict=False))
        batches = [int(batch) for batch in default]
        for name in names:
            share = [100 * default[str(batch)][name]["strict"] for batch in batches]
            left.plot(
                batches, share, "o-", markersize=3, linewidth=1, color=colours[name], label=_short(name)
            )
        for variant, by_batch in problems.items():
            share = [100 * by_batch[str(batch)]["all"]["strict"] for batch in batches]
            style = {"default": "-", "without self-motion": "--", "open world": ":"}.get(variant, "-.")
            left.plot(batches, share, style, color="black", linewidth=2.2, label=f"all sets, {variant}")
        left.set_xscale("log")
        left.set_xlabel("candidates allowed (batch_size)")
        left.set_ylabel(f"{model}: strict and free, % of the solvable")
        left.legend(fontsize=7)
        biggest = str(max(batches))
        for row, name in enumerate(names):
            call = default[biggest][name]["call_us"]
            middle.plot(
                [call["median"], call["p99"]], [row, row], color=colours[name], linewidth=6, alpha=0.45
            )
            middle.plot(call["median"], row, "o", color=colours[name], markersize=6)
            middle.annotate(
                f"{call['median']:.0f}",
                (call["median"], row),
                xytext=(0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
        middle.set_yticks(range(len(names)), [_short(name) for name in names], fontsize=8)
        middle.set_ylim(len(names) - 0.4, -0.8)
        middle.set_xscale("log")
        middle.set_xlabel(f"time of one problem, µs, batch_size {biggest}\n(dot: median; bar: to p99)")
        ladder = measured.get("ladder", {})
        for name in (*names, "all"):
            # Not every set is on every rung: "all" is not comparable between those.
            rungs = [r for r in ladder if name in ladder[r] and ladder[r][name]["problems"]]
            if name == "all":
                rungs = [r for r in rungs if len(ladder[r]) == len(ladder["0.0"])]
            centimetres = [100 * float(r) for r in rungs]
            share = [100 * ladder[r][name]["strict"] for r in rungs]
            style = {"color": "black", "linewidth": 2.2} if name == "all" else {"color": colours[name]}
            right.plot(centimetres, share, "o-", markersize=4, **style)
            if name == "all":
                for r, x, y in zip(rungs, centimetres, share, strict=True):
                    right.annotate(
                        f"{ladder[r][name]['problems']} kept",
                        (x, y),
                        xytext=(4, -12),
                        textcoords="offset points",
                        fontsize=8,
                    )
        for axes in (left, right):
            # Round the whole where all is solved.
            axes.set_ylim(min(95, axes.dataLim.y0 - 1), 100.5)
        middle.xaxis.set_minor_formatter(NullFormatter())
        right.set_xlabel("boxes grown on each face, cm")
        right.set_ylabel("strict and free, % of those still solvable")
        for axes in (left, middle, right):
            axes.grid(color="#dddddd", linewidth=0.6)
            axes.set_axisbelow(True)
    where = record["solver_device"] if record["device"] != "cpu" else f"{record['threads']} thread"
    figure.suptitle(
        "MotionBenchMaker, Franka Panda at panda_hand, hard; judged in float64 by an independent program\n"
        f"{machine(record)}, {where}",
        fontsize=10,
    )
    _save(figure, file, dpi=130)


def _save(figure: Figure, file: Path, dpi: int = 150) -> None:
    figure.tight_layout()
    figure.savefig(file, dpi=dpi)
    plt.close(figure)


def _short(name: str) -> str:
    return name.removesuffix("_panda").replace("_panda_", " ").replace("_", " ")


def main() -> None:
    here = Path(__file__).resolve().parent / "results"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=here, help="folder of the records")
    parser.add_argument("--output", type=Path, help="folder of the plots (default: that of the records)")
    options = parser.parse_args()
    folder = options.output or options.results
    folder.mkdir(parents=True, exist_ok=True)
    drawn = 0
    for name, draw in (("compare", compare), ("throughput", throughput), ("collision", collision)):
        source = options.results / f"{name}.json"
        if source.exists():
            draw(json.loads(source.read_text()), folder / f"{name}.png")
            print(folder / f"{name}.png")
            drawn += 1
    if not drawn:
        sys.exit(f"no record in {options.results}: run compare.py, throughput.py or collision.py first")


if __name__ == "__main__":
    main()
