"""The MotionBenchMaker problems of the data folder, read without the library's help."""

from __future__ import annotations

import common  # before numpy: it holds the maths libraries to one thread

# isort: split

import gzip
import json
from typing import Any

import numpy as np

FILE = "mbm_panda_even.json.gz"
ROBOT, TOOL = "panda.urdf", "panda_hand"
MODELS = ("panda_foam", "panda_curobo")
# The robot stands on it: it is no obstacle to keep a distance from.
STAND = "cube_robot_stand"
# Metres by which every cuboid but the stand is grown on each face: the clearance ladder.
RUNGS = (0.0, 0.005, 0.01)
TABLE_RUNG = 0.015


def problems() -> dict[str, list[dict[str, Any]]]:
    """Problems by set, 50 each."""
    with gzip.open(common.data_folder() / FILE, "rt") as file:
        return json.load(file)["problems"]


def sphere_file(model: str) -> str:
    return str(common.data_folder() / "spheres" / f"{model}.json")


def rungs(name: str) -> tuple[float, ...]:
    return (*RUNGS, TABLE_RUNG) if name.startswith("table") else RUNGS


def world(problem: dict[str, Any], grown: float = 0.0) -> dict[str, np.ndarray]:
    """Keywords of set_world; cuboids grown by `grown` metres on each face, the robot stand excepted."""
    boxes = [
        _pose(cuboid) + [side + 2 * grown * (name != STAND) for side in cuboid["dims"]]
        for name, cuboid in problem["obstacles"].get("cuboid", {}).items()
    ]
    cylinders = [
        [*_pose(cylinder), cylinder["radius"], cylinder["height"]]
        for cylinder in problem["obstacles"].get("cylinder", {}).values()
    ]
    return {
        "boxes": np.array(boxes, dtype=float).reshape(-1, 10),
        "cylinders": np.array(cylinders, dtype=float).reshape(-1, 9),
    }


def goal(problem: dict[str, Any]) -> np.ndarray:
    """The goal pose (7,): x y z qw qx qy qz."""
    pose = problem["goal_pose"]
    if pose["frame"] != TOOL or problem["world_frame"] != "panda_link0":
        raise ValueError(f"a goal of {pose['frame']} in {problem['world_frame']}")
    return np.array([*pose["position_xyz"], *pose["quaternion_wxyz"]], dtype=float)


def key(name: str, index: int) -> str:
    """What names a problem in records: set and place in it. Its source_idx is twice the place."""
    return f"{name}/{index}"


def _pose(obstacle: dict[str, Any]) -> list[float]:
    x, y, z, qw, qx, qy, qz = obstacle["pose"]
    return [x, y, z, qw, qx, qy, qz]
