"""Fixtures shared by all Python tests; plain helpers are in support.py beside it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import hjcdik
import support
from fakes import compile_fakes


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") is not None and support.GPU_PROBLEM:
        support.missing(support.GPU_PROBLEM)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of test data: HJCDIK_TEST_DATA, else ../shared/data beside the checkout."""
    if not support.DATA.is_dir():
        support.missing(f"no test data in {support.DATA}: set HJCDIK_TEST_DATA")
    return support.DATA


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames and metafunc.definition.get_closest_marker("all_devices"):
        devices = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
        metafunc.parametrize("device", devices, indirect=True, scope="session")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """Where solvers of the other fixtures run: the CPU; in tests marked all_devices the GPU in its turn."""
    return getattr(request, "param", "cpu")


@pytest.fixture(scope="session")
def panda(device: str) -> hjcdik.Solver:
    return hjcdik.Solver("panda", device=device)


@pytest.fixture(scope="session")
def presets(device: str) -> dict[str, hjcdik.Solver]:
    """A solver for every packaged robot."""
    return {name: hjcdik.Solver(name, device=device) for name in hjcdik.presets()}


@pytest.fixture(params=hjcdik.build_info()["isas"])
def isa(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every instruction set in turn; solvers made in the test on the CPU use it."""
    monkeypatch.setenv("HJCDIK_ISA", request.param)
    return request.param


@pytest.fixture(params=[*hjcdik.build_info()["isas"], pytest.param("cuda", marks=pytest.mark.gpu)])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The device for solvers made in the test: the CPU with every instruction set in turn, and the GPU."""
    if request.param == "cuda":
        return "cuda"
    monkeypatch.setenv("HJCDIK_ISA", request.param)
    return "cpu"


@pytest.fixture(scope="session")
def fakes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The fake libraries by name."""
    return compile_fakes(tmp_path_factory.mktemp("fakes"))


@pytest.fixture
def fake_gpu(fakes: dict[str, Path], tmp_path: Path) -> dict[str, str | Path]:
    """The environment of a program that sees the fake GPU and has a cache of its own."""
    return {
        "HJCDIK_LIBCUDA": fakes["driver"],
        "HJCDIK_NVRTC": fakes["nvrtc"],
        "HJCDIK_CACHE_DIR": tmp_path / "cache",
    }
