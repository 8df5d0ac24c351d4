"""Fixtures shared by all Python tests; plain helpers are in support.py beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import hjcdik
import support


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of test data: HJCDIK_TEST_DATA, else ../shared/data beside the checkout."""
    if not support.DATA.is_dir():
        pytest.skip(f"no test data in {support.DATA}: set HJCDIK_TEST_DATA")
    return support.DATA


@pytest.fixture(scope="session")
def panda() -> hjcdik.Solver:
    return hjcdik.Solver("panda", device="cpu")


@pytest.fixture(scope="session")
def presets() -> dict[str, hjcdik.Solver]:
    """A solver for every packaged robot."""
    return {name: hjcdik.Solver(name, device="cpu") for name in hjcdik.presets()}


@pytest.fixture(params=hjcdik.build_info()["isas"])
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every instruction set in turn; solvers made in the test use it."""
    monkeypatch.setenv("HJCDIK_ISA", request.param)
    return request.param
