"""Inverse kinematics at the speed of the hardware.

>>> import hjcdik
>>> solver = hjcdik.Solver()                       # the packaged Panda; solver.info says more
>>> targets = solver.sample_targets(10, seed=0)    # (10, 7) reachable poses
>>> result = solver.solve(targets, num_solutions=4, collision=None)
>>> best = result[0]                               # the rows of target 0, possibly none
>>> usable = best.q[best.ok(pos_mm=0.001, ori_rad=1e-6)]

Poses are ``x y z qw qx qy qz``: metres and a scalar-first quaternion, the tool link in the base
link's frame. A returned row is no success certificate: check ``ok()`` or ``outcome``.

The package logs to ``logging.getLogger("hjcdik")`` and is silent by default.
"""

import logging
from contextlib import suppress
from pathlib import Path

from hjcdik import _core, stats, worlds
from hjcdik._builds import Artifact, build, list_builds, load
from hjcdik._check import CheckResult
from hjcdik._codegen import codegen
from hjcdik._errors import BuildError, DeviceError, ModelError, SolveError
from hjcdik._info import Info, build_info, preset_urdf, presets, sphere_presets
from hjcdik._inputs import pose_xyzw
from hjcdik._result import Result, Stats, TargetResult
from hjcdik._solver import Solver
from hjcdik._spherize import SphereModel, spherize
from hjcdik._world import world_arrays

_BINDING_ABI = 5
if _core.BINDING_ABI != _BINDING_ABI:
    raise ImportError(
        f"hjcdik's extension module {_core.__file__} has interface {_core.BINDING_ABI} but the package "
        f"needs {_BINDING_ABI}: reinstall hjcdik"
    )

__version__: str = _core.VERSION

__all__ = [
    "Artifact",
    "BuildError",
    "CheckResult",
    "DeviceError",
    "Info",
    "ModelError",
    "Result",
    "SolveError",
    "Solver",
    "SphereModel",
    "Stats",
    "TargetResult",
    "__version__",
    "build",
    "build_info",
    "codegen",
    "list_builds",
    "load",
    "pose_xyzw",
    "preset_urdf",
    "presets",
    "sphere_presets",
    "spherize",
    "stats",
    "world_arrays",
    "worlds",
]

logging.getLogger("hjcdik").addHandler(logging.NullHandler())

# The GPU programs of the packaged robots, where this installation has them.
_STORE = Path(__file__).parent / "_store"
if _STORE.is_dir():
    with suppress(TypeError):  # a path that is not UTF-8
        _core.set_packaged_store(str(_STORE))
