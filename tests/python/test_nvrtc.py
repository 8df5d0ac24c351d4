"""GPU programs compile without a GPU: for every preset and architecture, within bounds on what they use."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

import hjcdik
import support
from hjcdik import _core, _devices

CORE = Path(__file__).resolve().parents[2] / "src" / "core"
ARCHITECTURES = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))
JUDGING_ARCHITECTURES = ((7, 5), (8, 0), (9, 0), (12, 0))  # it takes long enough
KERNELS = {"hjcdik_search", "hjcdik_polish"}
JUDGING_KERNELS = KERNELS | {"hjcdik_judge"}
REGISTERS_A_THREAD = 255
SHARED_A_BLOCK = 48 * 1024
COLLISION_PRESETS = [
    preset for preset in hjcdik.presets() if hjcdik.Solver(preset, device="cpu").info.collision_enabled
]


class Kernel(NamedTuple):
    """What ptxas says of a kernel: registers and bytes of stack and spills a thread, bytes shared a block."""

    registers: int
    stack: int
    spills: int
    shared: int


class Program(NamedTuple):
    image: bytes
    compiler: str
    kernels: dict[str, Kernel]


def compile_program(
    robot: str | hjcdik.Solver, major: int, minor: int, coarse: bool = False, collision: bool = False
) -> Program:
    solver = hjcdik.Solver(robot, device="cpu") if isinstance(robot, str) else robot
    image, compiler, report = _core.compile_program(solver._robot, coarse, collision, major, minor)
    kernels = {}
    for part in report.split("Compiling entry function '")[1:]:
        figures = [
            re.search(pattern, part)
            for pattern in (
                r"Used (\d+) registers",
                r"(\d+) bytes stack frame",
                r"(\d+) bytes spill stores",
                r"(\d+) bytes spill loads",
            )
        ]
        registers, stack, stores, loads = (int(figure[1]) for figure in figures if figure)
        shared = re.search(r"(\d+) bytes smem", part)
        kernels[part.split("'")[0]] = Kernel(
            registers, stack, max(stores, loads), int(shared[1]) if shared else 0
        )
    assert "warning" not in report, report
    return Program(image, compiler, kernels)


@pytest.fixture(scope="module", autouse=True)
def nvrtc() -> None:
    _devices.find_compilers()
    try:
        compile_program("ur5e", 9, 0)
    except hjcdik.DeviceError as error:
        support.missing(str(error))


@pytest.fixture(scope="module")
def programs() -> dict[tuple[str, int, int], Program]:
    """Of all presets and architectures; compiled side by side, which takes most of this file's time."""
    return compile_all(hjcdik.presets(), ARCHITECTURES, collision=False)


@pytest.fixture(scope="module")
def judging_programs() -> dict[tuple[str, int, int], Program]:
    """The same that judge what they find, of the presets with spheres."""
    return compile_all(COLLISION_PRESETS, JUDGING_ARCHITECTURES, collision=True)


def compile_all(
    presets: list[str], architectures: tuple[tuple[int, int], ...], collision: bool
) -> dict[tuple[str, int, int], Program]:
    keys = [(preset, *architecture) for preset in presets for architecture in architectures]
    with ThreadPoolExecutor(2) as pool:
        made = pool.map(lambda key: compile_program(*key, collision=collision), keys)
        return dict(zip(keys, made, strict=True))


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: f"sm_{a[0]}{a[1]}")
@pytest.mark.parametrize("preset", hjcdik.presets())
def test_presets_compile_within_bounds(
    programs: dict[tuple[str, int, int], Program], preset: str, architecture: tuple[int, int]
) -> None:
    program = programs[(preset, *architecture)]
    assert program.image.startswith(b"\x7fELF")
    assert set(program.kernels) == KERNELS
    assert all(name.encode() in program.image for name in KERNELS)
    search, polish = program.kernels["hjcdik_search"], program.kernels["hjcdik_polish"]
    # Four blocks of 128 threads share a multiprocessor up to 128 registers, three up to 168.
    assert search.registers <= (128 if architecture >= (8, 6) else 168)
    assert polish.registers <= REGISTERS_A_THREAD
    # Where spills begin, memory bounds a solve; the polish is a small part of it.
    assert search.spills == 0
    assert polish.spills <= 160
    # Newer ptxas gives kernels a small frame of their own.
    assert search.stack <= 128
    assert polish.stack <= 256


@pytest.mark.parametrize("architecture", JUDGING_ARCHITECTURES, ids=lambda a: f"sm_{a[0]}{a[1]}")
@pytest.mark.parametrize("preset", COLLISION_PRESETS)
def test_judging_presets_compile_within_bounds(
    judging_programs: dict[tuple[str, int, int], Program], preset: str, architecture: tuple[int, int]
) -> None:
    program = judging_programs[(preset, *architecture)]
    assert program.image.startswith(b"\x7fELF")
    assert set(program.kernels) == JUDGING_KERNELS
    search, polish, judge = (program.kernels[f"hjcdik_{name}"] for name in ("search", "polish", "judge"))
    # At least two blocks of 128 threads a multiprocessor, by registers and by shared memory.
    assert search.registers <= 208
    assert search.shared <= SHARED_A_BLOCK // 2
    # A walk keeps where it began, and a step its way: some of it may be spilled.
    assert search.spills <= 640
    assert search.stack <= 832
    # Both hold all spheres of one configuration a thread, the polish in float64 for the few that need it.
    spheres = len(hjcdik.Solver(preset, device="cpu").info.sphere_links)
    assert polish.registers <= REGISTERS_A_THREAD
    assert polish.stack <= 24 * spheres + 1536
    assert polish.spills <= 320
    assert judge.registers <= 64
    assert judge.stack <= 12 * spheres + 1024
    assert judge.spills == 0


def test_the_panda_on_sm_90_keeps_to_registers(programs: dict[tuple[str, int, int], Program]) -> None:
    """The machine and robot of the benchmarks."""
    kernels = programs[("panda", 9, 0)].kernels
    assert kernels["hjcdik_search"].registers <= 128
    for kernel in kernels.values():
        assert (kernel.stack, kernel.spills) == (0, 0)


def test_every_robot_and_architecture_has_its_own_program(
    programs: dict[tuple[str, int, int], Program], judging_programs: dict[tuple[str, int, int], Program]
) -> None:
    images = {program.image for both in (programs, judging_programs) for program in both.values()}
    assert len(images) == len(programs) + len(judging_programs)
    version = programs[("panda", 9, 0)].compiler
    assert re.fullmatch(r"\d+\.\d+", version)
    assert {program.compiler for program in programs.values()} == {version}


def test_the_same_input_gives_the_same_program(programs: dict[tuple[str, int, int], Program]) -> None:
    again = compile_program("panda", 9, 0)
    assert again.image == programs[("panda", 9, 0)].image


@pytest.mark.parametrize("preset", hjcdik.presets())
def test_the_coarse_search_compiles(preset: str) -> None:
    kernels = compile_program(preset, 9, 0, coarse=True).kernels
    assert set(kernels) == KERNELS
    assert kernels["hjcdik_search"].registers <= 128
    assert kernels["hjcdik_search"].spills <= 64


@pytest.mark.parametrize("preset", COLLISION_PRESETS)
def test_the_coarse_search_compiles_with_judging(preset: str) -> None:
    kernels = compile_program(preset, 9, 0, coarse=True, collision=True).kernels
    assert set(kernels) == JUDGING_KERNELS
    assert kernels["hjcdik_search"].spills <= 640


@pytest.mark.parametrize("dof", [1, 12, 24, 32])
def test_short_and_long_chains_compile(dof: int) -> None:
    """Long chains do not fit into registers; what they spill must not explode."""
    solver = hjcdik.Solver(support.random_chain(dof), ee_link=f"l{dof + 1}", device="cpu")
    kernels = compile_program(solver, 9, 0).kernels
    assert set(kernels) == KERNELS
    assert kernels["hjcdik_search"].spills <= (0 if dof <= 24 else 512)
    assert kernels["hjcdik_polish"].spills <= 150 * dof


@pytest.mark.parametrize("dof", [1, 12, 24, 32])
def test_short_and_long_chains_compile_with_judging(dof: int) -> None:
    model = {"spheres": {f"l{k}": [[0, 0, 0.01 * i, 0.01] for i in range(8)] for k in range(1, dof + 1)}}
    solver = hjcdik.Solver(
        support.random_chain(dof), ee_link=f"l{dof + 1}", spheres=json.dumps(model), device="cpu"
    )
    kernels = compile_program(solver, 9, 0, collision=True).kernels
    assert set(kernels) == JUDGING_KERNELS
    assert kernels["hjcdik_search"].spills <= 160 * max(dof, 4)
    assert kernels["hjcdik_polish"].spills <= 200 * dof


def test_as_many_spheres_as_a_robot_may_have_compile() -> None:
    model = {"spheres": {"panda_link6": [[0, 0, 0.0001 * i, 0.01] for i in range(768)]}}
    solver = hjcdik.Solver(
        hjcdik.preset_urdf("panda"), ee_link="panda_hand", spheres=json.dumps(model), device="cpu"
    )
    for architecture in ((7, 5), (9, 0)):
        kernels = compile_program(solver, *architecture, collision=True).kernels
        assert kernels["hjcdik_search"].shared <= SHARED_A_BLOCK


def test_as_many_spheres_on_a_long_chain_compile() -> None:
    """Their places do not fit into a block's shared memory."""
    model = {"spheres": {f"l{k}": [[0, 0, 0.001 * i, 0.01] for i in range(24)] for k in range(1, 33)}}
    solver = hjcdik.Solver(support.random_chain(32), ee_link="l33", spheres=json.dumps(model), device="cpu")
    for architecture in ((7, 5), (9, 0)):
        kernels = compile_program(solver, *architecture, collision=True).kernels
        assert kernels["hjcdik_search"].shared <= SHARED_A_BLOCK


def test_a_gpu_newer_than_the_compiler_gets_ptx() -> None:
    """Of the newest architecture that the compiler knows; the driver compiles the rest of the way."""
    image, _, _ = compile_program("panda", 99, 0)
    text = image.decode().rstrip("\0")
    assert ".version" in text
    target = re.search(r"\.target sm_(\d+)", text)
    assert target is not None
    assert int(target[1]) >= 120
    for kernel in KERNELS:
        assert f".entry {kernel}(" in text


def test_a_gpu_older_than_the_compiler_supports_is_refused() -> None:
    with pytest.raises(hjcdik.DeviceError, match=r"5\.0.*older than NVRTC.*'cpu'"):
        compile_program("panda", 5, 0)


def test_core_includes_nothing_but_itself() -> None:
    if not CORE.is_dir():
        pytest.skip(f"no sources in {CORE}")
    own = {f"core/{path.name}" for path in CORE.glob("*.h")}
    assert own
    for path in CORE.glob("*.h"):
        for line in path.read_text().splitlines():
            if line.startswith("#include"):
                assert line.split('"')[1] in own, f"{path.name}: {line}"
