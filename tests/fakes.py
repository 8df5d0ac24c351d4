"""A GPU that is not there: the fake driver and the fake NVRTC of tests/cuda.

The driver's kernels write rows without solving anything, and the NVRTC compiles nothing. Both are loaded
once a process, so that every test runs a program of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

HOOKS = {
    "driver": """
        #include "fakes/driver.cpp"
        EXPORTED void fake_fail(const char* function, long at, int code) {
          fake_driver()->fail(function, at, code);
        }
    """,
    "nvrtc": """
        #include "fakes/nvrtc.cpp"
        EXPORTED long fake_compiled() { return fake_nvrtc()->compiled; }
        EXPORTED void fake_nvrtc_fail(const char* function) { fake_nvrtc()->fail_function = function; }
    """,
}

PRELUDE = """
import ctypes, logging, os, pickle
import numpy as np
import hjcdik

logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)

def raises(kind, call, *words):
    try:
        call()
    except kind as error:
        assert type(error) is kind, type(error)
        for word in words:
            assert word in str(error), f"{word!r} not in {error}"
        return error
    raise AssertionError(f"no {kind.__name__}")

def fake(variable):
    return ctypes.CDLL(os.environ[variable])
"""


def run(program: str, **environment: str | Path) -> tuple[str, str]:
    """Standard output and error of a Python program that must succeed."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


def compile_fakes(folder: Path) -> dict[str, Path]:
    """The fake libraries by name."""
    compiler = os.environ.get("CXX") or shutil.which("g++")
    if compiler is None or not (ROOT / "tests" / "cuda" / "fakes").is_dir():
        pytest.skip("needs g++ and the fakes of tests/cuda")
    libraries = {}
    for name, text in HOOKS.items():
        source, libraries[name] = folder / f"{name}.cpp", folder / f"{name}.so"
        source.write_text(text)
        includes = [f"-I{ROOT / part}" for part in ("src", "include", "tests/cuda")]
        options = ["-std=c++20", "-w", "-shared", "-fPIC", *includes]
        subprocess.run([compiler, *options, source, "-o", libraries[name]], check=True)
    return libraries
