"""The file of diagnostics: ``ik_stats.csv``, with one row per solved target.

Solves never open files; what ``stats=True`` collected is appended when asked for, in the columns that the
native interface writes with ``write_stats``. A column of -1 was not measured. A file does not say under which
collision mode its rows were made: keep "soft" apart from the others.

>>> import hjcdik
>>> solver = hjcdik.Solver("panda")
>>> result = solver.solve(solver.sample_targets(3), collision=None, stats=True)
>>> hjcdik.stats.append_csv("/dev/null", result.stats)
"""

from __future__ import annotations

import csv
import fcntl
import io
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hjcdik._result import STATS_DTYPE, Stats

__all__ = ["COLUMNS", "Summary", "append_csv", "read_csv", "summary"]

_FIELDS: tuple[str, ...] = STATS_DTYPE.names or ()
_NAMES = {"batch_size": "b_size", "n_refined": "krep"}
COLUMNS: tuple[str, ...] = tuple(_NAMES.get(field, field) for field in _FIELDS)
_REAL = {"env_cost_min_mm", "env_cost_max_mm", "env_cost_mean_mm", "pct_returned_coll_free"}


def append_csv(path: str | os.PathLike[str], stats: Stats | None) -> None:
    """Append one row per target to a file, and its heading where the file is new or empty.

    Args:
        path: of the file, such as "ik_stats.csv".
        stats: of a ``Result`` of a solve with ``stats=True``.

    Raises:
        ValueError: for None, which a solve without ``stats=True`` has.
        RuntimeError: if the file cannot be opened or written, or has another heading; the message names it.
    """
    if not isinstance(stats, Stats):
        raise ValueError("stats is None: solve with stats=True")
    name = os.fspath(path)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for i in range(len(stats.batch_size)):
        writer.writerow([getattr(stats, field)[i].item() for field in _FIELDS])
    rows = text.getvalue().encode()
    heading = ",".join(COLUMNS).encode()
    plain = not os.path.exists(path) or os.path.isfile(path)
    try:
        file = open(path, "a+b" if plain else "wb", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise RuntimeError(f"cannot open {name}: {error.strerror}") from error
    try:
        with file:
            if plain:
                fcntl.flock(file, fcntl.LOCK_EX)  # processes must not both find the file empty
            if not plain or file.seek(0, os.SEEK_END) == 0:
                rows = heading + b"\n" + rows
            else:
                file.seek(0)
                if file.readline(1000).rstrip(b"\r\n") != heading:
                    raise RuntimeError(
                        f"cannot append to {name}: it begins with another heading than ik_stats.csv has; "
                        "move it away"
                    )
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":  # behind a row that was cut off
                    rows = b"\n" + rows
            while rows:
                rows = rows[file.write(rows) :]
    except OSError as error:
        raise RuntimeError(f"cannot write {name}: {error.strerror}") from error


def read_csv(path: str | os.PathLike[str]) -> list[dict[str, float]]:
    """The rows of a file, as numbers by column.

    Args:
        path: of a file that ``append_csv`` or the native interface wrote.

    Raises:
        OSError: if it cannot be read.
        ValueError: for another heading, or a row that does not fit it; the message names the line.
    """
    name = os.fspath(path)
    rows: list[dict[str, float]] = []
    with open(path, encoding="utf-8", newline="") as file:
        try:
            for line, cells in enumerate(csv.reader(file), 1):
                if line == 1:
                    if tuple(cells) != COLUMNS:
                        raise ValueError(
                            f"{name}:1: not the heading of a statistics file: {','.join(COLUMNS)}"
                        )
                    continue
                rows.append(_numbers(cells, f"{name}:{line}"))
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{name}: not a statistics file: {error}") from None
    return rows


@dataclass(frozen=True)
class Summary:
    """What the rows of a statistics file come to; None where nothing was measured, or nothing to divide by.

    Attributes:
        targets: rows of the file.
        refined: refined candidates, over all rows.
        returned: returned rows, over all targets.
        targets_with_rows: targets with a returned row.
        pct_refined_accurate: accurate candidates (5 mm, 0.001 rad) among the refined, in per cent.
        pct_refined_coll_free: collision-free candidates among the refined of rows that measured it.
        pct_refined_feasible: both, likewise.
        pct_accurate_lost: accurate candidates that were lost to collision, of the accurate.
        pct_coarse_in_collision: candidates in collision before the refinement, of all candidates.
        pct_returned_accurate: accurate rows among the returned.
        pct_returned_coll_free: collision-free rows among the returned of targets that measured it.
        pct_returned_feasible: both, likewise.
        env_cost_min_mm: smallest penetration of the environment in any row that measured it.
        env_cost_mean_mm: mean over these rows of their means.
        env_cost_max_mm: the largest.
    """

    targets: int
    refined: int
    returned: int
    targets_with_rows: int
    pct_refined_accurate: float | None
    pct_refined_coll_free: float | None
    pct_refined_feasible: float | None
    pct_accurate_lost: float | None
    pct_coarse_in_collision: float | None
    pct_returned_accurate: float | None
    pct_returned_coll_free: float | None
    pct_returned_feasible: float | None
    env_cost_min_mm: float | None
    env_cost_mean_mm: float | None
    env_cost_max_mm: float | None


def summary(rows: Sequence[dict[str, float]]) -> Summary:
    """Summarise the rows of ``read_csv``.

    Values that were not measured (-1) count neither above nor below a fraction.

    Args:
        rows: such as ``read_csv`` returns.
    """

    def share(part: str, whole: str) -> float | None:
        measured = [row for row in rows if row[part] >= 0 and row[whole] >= 0]
        total = sum(row[whole] for row in measured)
        return 100 * sum(row[part] for row in measured) / total if total else None

    def cost(name: str) -> list[float]:
        return [row[name] for row in rows if row[name] >= 0]

    least, mean, most = (cost(f"env_cost_{name}_mm") for name in ("min", "mean", "max"))
    return Summary(
        targets=len(rows),
        refined=_total(row["krep"] for row in rows),
        returned=_total(row["n_returned"] for row in rows),
        targets_with_rows=sum(row["n_returned"] > 0 for row in rows),
        pct_refined_accurate=share("n_ik_accurate", "krep"),
        pct_refined_coll_free=share("n_coll_free_refined", "krep"),
        pct_refined_feasible=share("n_feasible", "krep"),
        pct_accurate_lost=share("n_ik_lost", "n_ik_accurate"),
        pct_coarse_in_collision=share("n_coll_in_coarse", "b_size"),
        pct_returned_accurate=share("n_returned_ik_accurate", "n_returned"),
        pct_returned_coll_free=share("n_returned_coll_free", "n_returned"),
        pct_returned_feasible=share("n_returned_feasible", "n_returned"),
        env_cost_min_mm=min(least, default=None),
        env_cost_mean_mm=sum(mean) / len(mean) if mean else None,
        env_cost_max_mm=max(most, default=None),
    )


def _total(values: Iterable[float]) -> int:
    return int(sum(value for value in values if value >= 0))


def _numbers(cells: list[str], place: str) -> dict[str, float]:
    if len(cells) != len(COLUMNS):
        raise ValueError(f"{place}: {len(cells)} values for {len(COLUMNS)} columns")
    row: dict[str, float] = {}
    for column, cell in zip(COLUMNS, cells, strict=True):
        try:
            value = float(cell)
        except ValueError:
            raise ValueError(f"{place}: {column} is {cell!r:.40}, not a number") from None
        if not math.isfinite(value) or (column not in _REAL and value != int(value)):
            raise ValueError(f"{place}: {column} is {cell!r:.40}")
        row[column] = value
    return row
