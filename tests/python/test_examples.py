"""Every example runs to its end; each exits with an error if its own check fails."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))


def run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path) -> None:
    assert path.with_suffix(".cpp").exists(), "every example comes in both languages"
    run(str(path))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("name", ["README.md", "docs/collision.md", "docs/robots.md"])
def test_python_in_the_documentation_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    monkeypatch.chdir(tmp_path)
    exec("\n".join(blocks), {})


def test_python_about_gpus_runs_block_by_block(tmp_path: Path) -> None:
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs/gpu.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(blocks) == 2
    for i, block in enumerate(blocks):
        path = tmp_path / f"block{i}.py"  # a file, since workers import it
        path.write_text(block)
        run(str(path), cwd=tmp_path)


def test_demo_solves_every_preset_and_the_scene(tmp_path: Path) -> None:
    import hjcdik

    table = run(str(ROOT / "examples" / "demo.py"), "--targets", "300", cwd=tmp_path)
    assert (tmp_path / "demo.png").exists() or "No picture of the scene" in table
    for name in (*hjcdik.presets(), "scene"):
        row = next(line for line in table.splitlines() if line.startswith(name))
        assert "100.00%" in row
