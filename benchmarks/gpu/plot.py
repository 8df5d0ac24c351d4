"""Plot of throughput and latency from gpu.json.

python benchmarks/gpu/plot.py [gpu.json [gpu.png]]      (default: those in benchmarks/results)
python benchmarks/gpu/plot.py --table [gpu.json]        the figures as lines of text
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "results"
DEVICE, HOST, PYTHON, HARD, FLOOR = "#0b6e4f", "#35618e", "#b07d2b", "#8e3b46", "#5b6770"


def cases(record: dict[str, Any], name: str, **wanted: Any) -> list[dict[str, Any]]:
    """The cases of this name, and with these values, in the order of their targets."""
    found = [
        case
        for case in record["cases"]
        if case["case"] == name and all(case.get(key) == value for key, value in wanted.items())
    ]
    return sorted(found, key=lambda case: case.get("targets", 0))


def throughput(axes: Any, record: dict[str, Any]) -> None:
    """Solves a second over the number of targets in a call."""
    curves = [
        ("arrays on the device", DEVICE, cases(record, "device arrays", robot="panda")),
        ("host arrays, C++", HOST, cases(record, "host arrays")),
        ("numpy arrays", PYTHON, cases(record, "numpy arrays")),
        ("hard in many worlds, on the device", HARD, cases(record, "hard, many worlds, device arrays")),
    ]
    for label, colour, points in curves:
        if not points:
            continue
        rates = [point["solves_per_s"] for point in points]
        axes.plot([p["targets"] for p in points], rates, marker="o", markersize=4, color=colour, label=label)
        axes.annotate(
            f"{rates[-1] / 1e6:.3g} M/s",
            (points[-1]["targets"], rates[-1]),
            xytext=(0, 6),
            textcoords="offset points",
            ha="right",
            fontsize=8,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("targets in one call")
    axes.set_ylabel("solves a second, polish included")
    axes.legend(fontsize=8)
    axes.grid(color="#dddddd", linewidth=0.6)


def latency(axes: Any, record: dict[str, Any]) -> None:
    """One target host to host: median to p99, beside an empty launch and the wait for it."""
    rows = [
        ("C++ call", HOST, cases(record, "one target, host to host")),
        ("Python call", PYTHON, cases(record, "one target, Python")),
        ("C++ call, hard\nin a scene", HARD, cases(record, "one target, hard, in a scene")),
    ]
    names = []
    for place, (label, colour, found) in enumerate(rows):
        names.append(label)
        if not found:
            continue
        median, p99 = found[0]["median_us"], found[0]["p99_us"]
        axes.plot([median, p99], [place, place], color=colour, linewidth=5, alpha=0.45)
        axes.plot(median, place, "o", color=colour)
        axes.annotate(
            f"{median:.1f} (p99 {p99:.1f})",
            (median, place),
            xytext=(0, 8),
            textcoords="offset points",
            fontsize=8,
        )
    for case in cases(record, "one target, host to host"):
        axes.axvline(case["launch_and_sync_us"], color=FLOOR, linestyle="--", linewidth=1)
        axes.text(case["launch_and_sync_us"], -0.42, " empty launch and wait", fontsize=8, color=FLOOR)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel("one fresh target, host to host, µs (dot: median; bar: to p99)")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)


def joints(axes: Any, record: dict[str, Any]) -> None:
    """Solves a second of a million targets on the device, over the number of joints."""
    found = cases(record, "device arrays", targets=1_000_000)
    found.sort(key=lambda case: (case["dof"], case["robot"]))
    for place, case in enumerate(found):
        rate = case["solves_per_s"] / 1e6
        axes.barh(place, rate, color=DEVICE, alpha=0.8)
        axes.text(rate, place, f" {rate:.0f}  ({100 * case['strict']:.5g} % strict)", va="center", fontsize=8)
    names = [f"{case['robot']}, {case['dof']} joints" for case in found]
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.35)
    axes.set_xlabel("million solves a second, 10⁶ targets on the device")


def draw(record: dict[str, Any], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    where = record["environment"]
    quick = "; QUICK RUN, NOT A MEASUREMENT" if record["quick"] else ""
    name = where["gpu"].get("name", "GPU unknown")
    figure, axes = plt.subplots(1, 3, figsize=(16, 5), width_ratios=[1.2, 1, 1.2])
    for plot, place in zip((throughput, latency, joints), axes, strict=True):
        plot(place, record)
    commit = (where["commit"] or "no commit")[:12]
    figure.suptitle(f"Franka Panda unless named; {name}, {where['date'][:10]}, {commit}{quick}", fontsize=10)
    figure.tight_layout()
    figure.savefig(file, dpi=150)
    print(file)


def table(record: dict[str, Any]) -> None:
    """One line a case: its name and figures."""
    for case in record["cases"]:
        values = ", ".join(
            f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in case.items()
            if key not in ("case", "calls", "mean_us", "max_us")
        )
        print(f"{case['case']}: {values}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("record", nargs="?", type=Path, default=RESULTS / "gpu.json")
    parser.add_argument("image", nargs="?", type=Path, help="default: beside the record")
    parser.add_argument("--table", action="store_true", help="print the figures and draw nothing")
    options = parser.parse_args()
    record = json.loads(options.record.read_text())
    if options.table:
        table(record)
    else:
        draw(record, options.image or options.record.with_suffix(".png"))


if __name__ == "__main__":
    main()
