"""What every benchmark shares: robots, targets, an FK of its own, statistics and JSON records.

Import this module before numpy: it holds the maths libraries to one thread, so that a core
stands for a core.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import os
import platform
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results"

# The measure of the project: errors recomputed in float64, limits without tolerance.
STRICT_POSITION_M = 1e-6
STRICT_ORIENTATION_RAD = 1e-6

# File in the data folder -> tool link.
ROBOTS = {
    "ur5e.urdf": "tool0",
    "panda.urdf": "panda_hand",
    "iiwa14.urdf": "iiwa_link_ee_kuka",
    "fetch_arm.urdf": "gripper_link",
    "fetch_planar_reference.urdf": "ee_link",
    "panda_ext_12dof.urdf": "panda_hand",
    "panda_ext_18dof.urdf": "panda_hand",
    "panda_ext_24dof.urdf": "panda_hand",
}


def data_folder() -> Path:
    """Where robots and targets lie: HJCDIK_TEST_DATA, else ../shared/data."""
    folder = Path(os.environ.get("HJCDIK_TEST_DATA") or REPOSITORY.parent / "shared" / "data")
    if not (folder / "robots").is_dir():
        sys.exit(f"no robots in {folder}: set HJCDIK_TEST_DATA to the data folder")
    return folder


def robot_file(name: str) -> str:
    return str(data_folder() / "robots" / name)


def stored_targets(robot: str) -> np.ndarray:
    """The 100 reachable targets that the data folder holds for a robot file."""
    with gzip.open(data_folder() / "open_targets_seed0.json.gz", "rt") as file:
        for entry in json.load(file)["sets"]:
            if entry["robot"] in (robot, Path(robot).stem):
                return np.array(entry["targets"], dtype=float)
    raise KeyError(robot)


# --- kinematics, independent of the library under test ---------------------------------------


def _rpy(roll: float, pitch: float, yaw: float) -> np.ndarray:
    cr, sr, cp, sp, cy, sy = (f(a) for a in (roll, pitch, yaw) for f in (np.cos, np.sin))
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def _turns(angle: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """Rotations (n, 3, 3) by angle (n,) about a unit axis: I + sin K + (1 - cos) K^2 (Rodrigues)."""
    k = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.eye(3) + np.sin(angle)[:, None, None] * k + (1 - np.cos(angle))[:, None, None] * (k @ k)


def _floats(text: str) -> np.ndarray:
    return np.array([float(x) for x in text.split()])


class Chain:
    """Forward kinematics of many configurations at once, straight from a URDF (its path or its text)."""

    def __init__(self, urdf: str, tip: str, locked: Mapping[str, float] | None = None) -> None:
        root = ElementTree.fromstring(urdf if urdf.lstrip().startswith("<") else Path(urdf).read_bytes())
        joints = {j.find("child").get("link"): j for j in root.findall("joint")}
        path = []
        link = tip
        while link in joints:
            path.append(joints[link])
            link = joints[link].find("parent").get("link")
        self.base = link
        self.tip = tip
        # (fixed rotation, fixed position, type, unit axis) from base to tip.
        self.steps: list[tuple[np.ndarray, np.ndarray, str, np.ndarray]] = []
        lower, upper = [], []
        for joint in reversed(path):
            origin = joint.find("origin")
            xyz = _floats(origin.get("xyz", "0 0 0")) if origin is not None else np.zeros(3)
            rpy = _floats(origin.get("rpy", "0 0 0")) if origin is not None else np.zeros(3)
            kind = joint.get("type")
            axis_element = joint.find("axis")
            axis = _floats(axis_element.get("xyz")) if axis_element is not None else np.array([1.0, 0.0, 0.0])
            axis = axis / np.linalg.norm(axis)
            rotation = _rpy(*rpy)
            if locked and joint.get("name") in locked:
                value = locked[joint.get("name")]
                if kind == "prismatic":
                    xyz = xyz + value * (rotation @ axis)
                else:
                    rotation = rotation @ _turns(np.array([value]), axis)[0]
                kind = "fixed"
            self.steps.append((rotation, xyz, kind, axis))
            if kind == "continuous":
                lower.append(-np.pi)
                upper.append(np.pi)
            elif kind in ("revolute", "prismatic"):
                lower.append(float(joint.find("limit").get("lower", 0)))
                upper.append(float(joint.find("limit").get("upper", 0)))
            elif kind != "fixed":
                raise ValueError(f"joint '{joint.get('name')}': type '{kind}' is not supported here")
        self.lower = np.array(lower)
        self.upper = np.array(upper)
        self.dof = len(lower)

    def forward(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions (n, 3) and rotations (n, 3, 3) of the tool for q (n, dof)."""
        n = len(q)
        position = np.zeros((n, 3))
        rotation = np.broadcast_to(np.eye(3), (n, 3, 3)).copy()
        column = 0
        for fixed, offset, kind, axis in self.steps:
            position = position + rotation @ offset
            rotation = rotation @ fixed
            if kind == "fixed":
                continue
            value = q[:, column]
            column += 1
            if kind == "prismatic":
                position = position + value[:, None] * (rotation @ axis)
                continue
            rotation = rotation @ _turns(value, axis)
        return position, rotation

    def random_configurations(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(self.lower, self.upper, (n, self.dof))

    def random_targets(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Reachable poses (n, 7), x y z qw qx qy qz: FK of uniform configurations inside the limits."""
        parts = [self.random_configurations(min(20_000, n - i), rng) for i in range(0, n, 20_000)]
        poses = [poses_of(*self.forward(q)) for q in parts]
        return np.concatenate(poses) if poses else np.zeros((0, 7))

    def errors(self, q: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Position (m) and orientation (rad) errors of q (n, dof); NaN where q is NaN."""
        pos, ori = np.empty(len(q)), np.empty(len(q))
        for i in range(0, len(q), 20_000):
            rows = slice(i, i + 20_000)
            position, rotation = self.forward(q[rows])
            pos[rows], ori[rows] = pose_errors(position, rotation, targets[rows])
        return pos, ori


def rotations_of(targets: np.ndarray) -> np.ndarray:
    """Rotation matrices (n, 3, 3) of poses (n, 7)."""
    w, x, y, z = (targets[:, 3:] / np.linalg.norm(targets[:, 3:], axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def matrices_of(targets: np.ndarray) -> np.ndarray:
    """Homogeneous matrices (n, 4, 4) of poses (n, 7)."""
    out = np.zeros((len(targets), 4, 4))
    out[:, :3, :3] = rotations_of(targets)
    out[:, :3, 3] = targets[:, :3]
    out[:, 3, 3] = 1
    return out


def poses_of(position: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """Poses (n, 7) of positions and rotation matrices."""
    # Four times the outer product of the quaternion with itself; its longest row is the best scaled.
    m = rotation
    trace = m[:, 0, 0] + m[:, 1, 1] + m[:, 2, 2]
    square = np.empty((len(m), 4, 4))
    square[:, 0, 0] = 1 + trace
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        square[:, i + 1, i + 1] = 1 + m[:, i, i] - m[:, j, j] - m[:, k, k]
        square[:, 0, i + 1] = square[:, i + 1, 0] = m[:, k, j] - m[:, j, k]
        square[:, j + 1, k + 1] = square[:, k + 1, j + 1] = m[:, k, j] + m[:, j, k]
    best = np.argmax(np.einsum("nii->ni", square), axis=1)
    quaternion = square[np.arange(len(m)), best]
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    return np.concatenate([position, quaternion], axis=1)


def random_rotations(n: int, rng: np.random.Generator) -> np.ndarray:
    """Uniform unit quaternions (n, 4)."""
    q = rng.normal(size=(n, 4))
    return q / np.linalg.norm(q, axis=1, keepdims=True)


def pose_errors(
    position: np.ndarray, rotation: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distances (m) and rotation angles (rad), exact near 0 and near pi."""
    distance = np.linalg.norm(position - targets[:, :3], axis=1)
    e = np.swapaxes(rotation, 1, 2) @ rotations_of(targets)
    sine = np.stack([e[:, 2, 1] - e[:, 1, 2], e[:, 0, 2] - e[:, 2, 0], e[:, 1, 0] - e[:, 0, 1]], axis=1) / 2
    cosine = (np.trace(e, axis1=1, axis2=2) - 1) / 2
    return distance, np.arctan2(np.linalg.norm(sine, axis=1), cosine)


def judge(
    q: np.ndarray, pos: np.ndarray, ori: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> dict[str, Any]:
    """Shares and error quantiles of the answers q (n, dof); a row of NaN is no answer."""
    answered = ~np.isnan(q).any(axis=1)
    accurate = answered & (pos < STRICT_POSITION_M) & (ori < STRICT_ORIENTATION_RAD)
    inside = answered & (q >= lower).all(axis=1) & (q <= upper).all(axis=1)
    strict = accurate & inside
    record: dict[str, Any] = {
        "targets": len(q),
        "strict": float(strict.mean()),
        "strict_count": int(strict.sum()),
        "no_answer": int((~answered).sum()),
        "outside_limits": int((answered & ~inside).sum()),
        "inaccurate": int((answered & ~accurate).sum()),
    }
    if answered.any():
        levels = [0.01, 0.5, 0.99, 1.0]
        for name, values in (("pos_err_m", pos[answered]), ("ori_err_rad", ori[answered])):
            record[name] = dict(
                zip(("p1", "median", "p99", "max"), np.quantile(values, levels).tolist(), strict=True)
            )
    return record


def first_rows(result: Any) -> np.ndarray:
    """Row 0 of every target of an hjcdik.Result; NaN where a target has none."""
    return np.asarray(result.q)[:, 0, :]


# --- time, machine, records ------------------------------------------------------------------


def microseconds(seconds: Iterable[float]) -> dict[str, float]:
    """Median, p90, p99, mean and max of times, in microseconds."""
    us = np.asarray(list(seconds)) * 1e6
    p50, p90, p99 = np.quantile(us, [0.5, 0.9, 0.99])
    return {"median": p50, "p90": p90, "p99": p99, "mean": us.mean(), "max": us.max(), "calls": len(us)}


def pin_to_core(core: int | None = None) -> int:
    """Hold this process, and all threads it will start, to one core."""
    cores = sorted(os.sched_getaffinity(0))
    core = cores[-1] if core is None else core
    os.sched_setaffinity(0, {core})
    return core


def physical_cores() -> int:
    """Cores, not hardware threads, that this process may use; a container's quota counts."""
    allowed = os.sched_getaffinity(0)
    cores = set()
    for cpu in allowed:
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        try:
            cores.add(tuple((topology / n).read_text().strip() for n in ("physical_package_id", "core_id")))
        except OSError:
            cores.add((cpu,))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return len(cores) if quota == "max" else max(1, min(len(cores), int(quota) // int(period)))
    except (OSError, ValueError):
        return len(cores)


def _cpu() -> dict[str, Any]:
    fields = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if not key.strip():
            break
        fields[key.strip()] = value.strip()
    return {
        "model": fields.get("model name", platform.processor()),
        "family_model_stepping": " ".join(fields.get(k, "?") for k in ("cpu family", "model", "stepping")),
        "physical_cores": physical_cores(),
        "hardware_threads": len(os.sched_getaffinity(0)),
        "virtual_machine": "hypervisor" in fields.get("flags", "").split(),
    }


def _commit() -> str | None:
    """Of the sources measured; HJCDIK_COMMIT names it where they were copied without their history."""
    if named := os.environ.get("HJCDIK_COMMIT"):
        return named
    try:
        git = ["git", "-C", str(REPOSITORY)]
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
        dirty = subprocess.run(
            [*git, "status", "--porcelain"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.strip() + ("+changes" if dirty.strip() else "")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


# Taken at import: a benchmark that pins itself later still reports the whole machine.
_MACHINE = _cpu()


def environment(packages: Sequence[str] = ()) -> dict[str, Any]:
    """Where and with what a figure was measured."""
    versions = {name: _version(name) for name in ("hjcdik", "numpy", *packages)}
    arguments = []
    skip = False
    for argument in sys.argv[1:]:
        # Where the record went says nothing about it.
        if skip or argument.startswith("--output"):
            skip = argument == "--output"
            continue
        arguments.append(argument.replace(f"{REPOSITORY}/", ""))
    script = os.path.relpath(sys.argv[0], REPOSITORY)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": _commit(),
        "command": " ".join(["python", script, *arguments]),
        "cpu": _MACHINE,
        "load_average_1min": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {k: v for k, v in versions.items() if v is not None},
    }


def arguments(description: str, name: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small counts: a smoke test, not a measurement")
    parser.add_argument("--seed", type=int, default=2026, help="of the random targets")
    parser.add_argument(
        "--output",
        type=Path,
        default=RESULTS,
        help=f"file, or folder for {name}.json (default: benchmarks/results)",
    )
    return parser


def write(record: dict[str, Any], output: Path, name: str) -> Path:
    """Write a record as JSON; `output` is a .json file or a folder."""
    file = output if output.suffix == ".json" else output / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record, indent=1, default=_plain) + "\n")
    return file


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value)} in a benchmark record")


def progress(text: str) -> None:
    """A line on stderr: what is being measured now."""
    print(text, file=sys.stderr, flush=True)
