"""Solves in an environment that has nothing but the wheel and numpy, and looks for its GPU programs.

Run by scripts/make_wheel.sh, with the options that the programs were made by; mypy checks it, as a program
of a user, against the installed package.
"""

import argparse
import importlib.metadata
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import hjcdik
from hjcdik import _core
from hjcdik._builds import ARCHITECTURES, targets_of
from hjcdik._sources import RobotArguments


def reach(robot: str) -> NDArray[np.bool_]:
    solver = hjcdik.Solver(robot, device="cpu")
    targets = solver.sample_targets(200, seed=1)
    result = solver.solve(targets, num_solutions=2, collision=None)
    first: hjcdik.TargetResult = result[0]
    assert first.q.shape[1] == len(solver.info.joint_names)
    return result.ok(pos_mm=1e-3, ori_rad=1e-6)[:, 0]


def look_for_programs(robots: list[str], architectures: str) -> int:
    """Counts the programs; all of them must be in the package."""
    store = Path(hjcdik.__file__).parent / "_store"
    assert Path(_core.packaged_store()) == store
    keys: set[str] = set()
    for name in robots:
        planned = hjcdik.build(name, cuda_arch=architectures, name="planned", plan_only=True)
        keys |= {program.key for program in planned.programs}
        robot = RobotArguments(preset=name, urdf=None, name="", ee_link="", locked_joints={}).make()
        for target in targets_of(architectures):
            for collision in (False, True) if planned.collision_enabled else (False,):
                # What a solver asks before it looks for a compiler; PTX comes after that.
                assert target.ptx or _core.has_program(
                    robot, False, collision, target.major, target.minor, ""
                )
    assert all(_core.is_stored(str(store), key) for key in keys)
    assert {path.stem for path in (store / "programs").iterdir()} == keys
    return len(keys)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--robot", action="append")
    parser.add_argument("--cuda-arch", default=",".join(ARCHITECTURES))
    options = parser.parse_args()
    packages = {distribution.metadata["Name"] for distribution in importlib.metadata.distributions()}
    assert packages == {"hjcdik", "numpy"}, packages
    for name in hjcdik.presets():
        assert reach(name).all(), name
    assert (hjcdik.Solver("panda", device="cpu").solve([0.5, 0.1, 0.4, 0, 1, 0, 0]).outcome == "solved").all()
    programs = look_for_programs(options.robot or list(hjcdik.presets()), options.cuda_arch)
    assert not Path(os.environ["HJCDIK_CACHE_DIR"]).exists()
    print(f"solves with numpy alone; {programs} GPU programs need no compiler")


if TYPE_CHECKING:
    # The types arrive: an ignored error that is none is an error.
    wrong_argument = hjcdik.Solver("panda").solve([0.0], num_solution=2)  # type: ignore[call-arg]
    wrong_type: int = hjcdik.__version__  # type: ignore[assignment]
    wrong_native_type: int = _core.program_key  # type: ignore[assignment]

if __name__ == "__main__":
    main()
