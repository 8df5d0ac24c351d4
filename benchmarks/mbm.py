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
SOLVABLE = common.RESULTS / "solvable.json"
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


def grown(problem: dict[str, Any], metres: float) -> dict[str, Any]:
    """The problem with every cuboid but the robot stand larger by that much on each face."""
    obstacles = dict(problem["obstacles"])
    obstacles["cuboid"] = {
        name: cuboid if name == STAND else {**cuboid, "dims": [side + 2 * metres for side in cuboid["dims"]]}
        for name, cuboid in obstacles.get("cuboid", {}).items()
    }
    return {**problem, "obstacles": obstacles}


def world(problem: dict[str, Any]) -> dict[str, np.ndarray]:
    """Its obstacles as keywords of set_world."""
    boxes = [
        _pose(cuboid) + list(cuboid["dims"]) for cuboid in problem["obstacles"].get("cuboid", {}).values()
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


def solvable(model: str, rung: float) -> dict[str, list[int]]:
    """By set the places of the problems that have a solution at a rung; what solvable.py found."""
    by_set = json.loads(SOLVABLE.read_text())["models"][model][str(rung)]
    return {
        name: sorted(int(i) for how, places in ways.items() if how != "none" for i in places.split())
        for name, ways in by_set.items()
    }


def key(name: str, index: int) -> str:
    """What names a problem in records: set and place in it. Its source_idx is twice the place."""
    return f"{name}/{index}"


def _pose(obstacle: dict[str, Any]) -> list[float]:
    x, y, z, qw, qx, qy, qz = obstacle["pose"]
    return [x, y, z, qw, qx, qy, qz]
