"""Plots of error and time from the records beside this file.

    python benchmarks/plot.py [--results benchmarks/results] [--output benchmarks/results]

compare.png from compare.json, and throughput.png from throughput.json where that exists.
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
    figure.tight_layout()
    figure.savefig(file, dpi=150)
    plt.close(figure)


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
    figure.tight_layout()
    figure.savefig(file, dpi=150)
    plt.close(figure)


def main() -> None:
    here = Path(__file__).resolve().parent / "results"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=here, help="folder of the records")
    parser.add_argument("--output", type=Path, help="folder of the plots (default: that of the records)")
    options = parser.parse_args()
    folder = options.output or options.results
    folder.mkdir(parents=True, exist_ok=True)
    drawn = 0
    for name, draw in (("compare", compare), ("throughput", throughput)):
        source = options.results / f"{name}.json"
        if source.exists():
            draw(json.loads(source.read_text()), folder / f"{name}.png")
            print(folder / f"{name}.png")
            drawn += 1
    if not drawn:
        sys.exit(f"no record in {options.results}: run compare.py or throughput.py first")


if __name__ == "__main__":
    main()
