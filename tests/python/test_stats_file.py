"""The file of diagnostics: what is written, what is read, and what its summary says."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import hjcdik
from hjcdik import cli, stats

HEADING = (
    "b_size,krep,n_ik_accurate,n_coll_free_refined,n_feasible,n_ik_lost,n_coll_in_refined,n_coll_in_coarse,"
    "env_cost_min_mm,env_cost_max_mm,env_cost_mean_mm,n_returned,n_returned_ik_accurate,n_returned_coll_free,"
    "pct_returned_coll_free,n_returned_feasible"
)


@pytest.fixture(scope="module")
def panda() -> hjcdik.Solver:
    return hjcdik.Solver("panda", device="cpu")


def solved(solver: hjcdik.Solver, collision: str | None) -> hjcdik.Stats:
    result = solver.solve(solver.sample_targets(5), batch_size=64, collision=collision, stats=True)
    assert result.stats is not None
    return result.stats


def test_rows_are_appended_under_one_heading(tmp_path: Path, panda: hjcdik.Solver) -> None:
    path = tmp_path / "ik_stats.csv"
    open_world, hard = solved(panda, None), solved(panda, "hard")
    stats.append_csv(path, open_world)
    stats.append_csv(path, hard)
    lines = path.read_text().splitlines()
    assert lines[0] == HEADING
    assert len(lines) == 11
    rows = stats.read_csv(path)
    for i, row in enumerate(rows):
        of_target = (open_world if i < 5 else hard)[i % 5]
        assert row["b_size"] == 64
        assert row["krep"] == of_target["n_refined"]
        for column in stats.COLUMNS[2:]:
            assert row[column] == of_target[column], column
    assert rows[0]["n_coll_free_refined"] == -1


def test_what_cannot_be_written_says_so(tmp_path: Path, panda: hjcdik.Solver) -> None:
    rows = solved(panda, None)
    with pytest.raises(RuntimeError, match=r"cannot open .*ik_stats\.csv"):
        stats.append_csv(tmp_path / "none" / "ik_stats.csv", rows)
    if Path("/dev/full").exists():
        with pytest.raises(RuntimeError, match="cannot write /dev/full"):
            stats.append_csv("/dev/full", rows)
    with pytest.raises(ValueError, match="stats=True"):
        stats.append_csv(tmp_path / "ik_stats.csv", None)
    assert list(tmp_path.iterdir()) == []


def row(**values: float) -> str:
    return ",".join(str(values.get(column, -1)) for column in stats.COLUMNS)


def test_the_summary_leaves_out_what_was_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "ik_stats.csv"
    rows = [
        row(b_size=10, krep=10, n_ik_accurate=5, n_returned=2, n_returned_ik_accurate=1),
        row(
            b_size=20, krep=30, n_ik_accurate=15, n_coll_free_refined=6, n_feasible=3, n_ik_lost=12,
            n_coll_in_refined=24, n_coll_in_coarse=5, n_returned=0, n_returned_ik_accurate=0,
            n_returned_coll_free=0, pct_returned_coll_free=0, n_returned_feasible=0,
        ),
        row(
            b_size=10, krep=10, n_ik_accurate=10, env_cost_min_mm=1.5, env_cost_max_mm=9, env_cost_mean_mm=4,
            n_returned=1, n_returned_ik_accurate=1,
        ),
    ]  # fmt: skip
    path.write_text("\n".join([HEADING, *rows]) + "\n")
    found = stats.summary(stats.read_csv(path))
    assert (found.targets, found.refined, found.returned, found.targets_with_rows) == (3, 50, 3, 2)
    assert found.pct_refined_accurate == pytest.approx(60)
    assert found.pct_refined_coll_free == pytest.approx(20)
    assert found.pct_refined_feasible == pytest.approx(10)
    assert found.pct_accurate_lost == pytest.approx(80)
    assert found.pct_coarse_in_collision == pytest.approx(25)
    assert found.pct_returned_accurate == pytest.approx(200 / 3)
    assert found.pct_returned_coll_free is None  # measured for the one target without rows
    assert (found.env_cost_min_mm, found.env_cost_mean_mm, found.env_cost_max_mm) == (1.5, 4, 9)


def test_the_command_prints_the_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ik_stats.csv"
    path.write_text(HEADING + "\n" + row(b_size=10, krep=10, n_ik_accurate=5, n_returned=2) + "\n")
    assert cli.main(["stats-summary", str(path)]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["targets"] == "1"
    assert lines["pct_refined_accurate"] == "50"
    assert lines["pct_refined_coll_free"] == "n/a"
    assert cli.main(["stats-summary", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pct_refined_coll_free"] is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ""),
        ("a,b\n1,2\n", ":1: not the heading"),
        (HEADING + "\n1,2\n", ":2: 2 values for 16 columns"),
        (HEADING + "\n" + row(b_size=1).replace("-1", "x", 1) + "\n", ":2: krep is 'x', not a number"),
        (HEADING + "\n" + row(b_size=1.5) + "\n", ":2: b_size is '1.5'"),
        (HEADING + "\n" + row(b_size=float("nan")) + "\n", ":2: b_size is 'nan'"),
    ],
)
def test_other_files_are_refused_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = tmp_path / "ik_stats.csv"
    path.write_text(text)
    assert cli.main(["stats-summary", str(path)]) == (2 if message else 0)
    assert message in capsys.readouterr().err


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["stats-summary", "/none/ik_stats.csv"]) == 2
    assert "/none/ik_stats.csv: No such file" in capsys.readouterr().err


def test_rows_go_only_under_their_own_heading(tmp_path: Path, panda: hjcdik.Solver) -> None:
    path = tmp_path / "ik_stats.csv"
    rows = solved(panda, None)
    path.write_text("foo,bar\n1,2\n")
    with pytest.raises(RuntimeError, match=r"ik_stats\.csv.*another heading"):
        stats.append_csv(path, rows)
    assert path.read_text() == "foo,bar\n1,2\n"
    path.unlink()
    stats.append_csv(path, rows)
    whole = path.read_text()
    path.write_text(whole[:-5])  # cut off
    stats.append_csv(path, rows)
    assert path.read_text() == whole[:-5] + "\n" + whole.partition("\n")[2]


def test_many_processes_append_whole_rows(tmp_path: Path, panda: hjcdik.Solver) -> None:
    path = tmp_path / "ik_stats.csv"
    result = panda.solve(panda.sample_targets(500), batch_size=1, collision=None, stats=True)
    (tmp_path / "stats.pickle").write_bytes(pickle.dumps(result.stats))
    program = """
import pickle, sys
from hjcdik import stats
rows = pickle.load(open(sys.argv[2], "rb"))
for _ in range(5):
    stats.append_csv(sys.argv[1], rows)
"""
    command = [sys.executable, "-c", program, path, tmp_path / "stats.pickle"]
    workers = [subprocess.Popen(command) for _ in range(8)]
    assert [worker.wait(timeout=120) for worker in workers] == [0] * 8
    assert path.read_text().count("b_size") == 1
    assert len(stats.read_csv(path)) == 8 * 5 * 500


def test_a_pipe_gets_rows_under_a_heading(tmp_path: Path, panda: hjcdik.Solver) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        stats.append_csv(pipe, solved(panda, None))
        assert reader.communicate(timeout=60)[0].splitlines()[0] == HEADING
