"""A robot as one self-contained C++ header."""

from __future__ import annotations

from collections.abc import Mapping

from hjcdik import _inputs
from hjcdik._info import NAME_SPACE
from hjcdik._solver import Solver
from hjcdik._sources import Source


def codegen(
    robot: Source | Solver | None = None,
    *,
    ee_link: str | None = None,
    spheres: Source | None = None,
    locked_joints: Mapping[str, float] | None = None,
    srdf: Source | None = None,
    check_base: bool = False,
    name_space: str = NAME_SPACE,
) -> str:
    """The robot as the text of one C++ header: joint count, limits, kinematics, spheres and ``config_free``.

    g++, clang, nvcc and NVRTC compile it as C++17; it includes nothing. With the default `name_space` its
    SHA-256 is ``info.grid_header_sha256``. docs/native.md lists what it declares.

    Args:
        robot: as for ``Solver``, or a solver, whose robot it is; then the arguments below must be left out.
        ee_link: as for ``Solver``.
        spheres: as for ``Solver``.
        locked_joints: as for ``Solver``.
        srdf: as for ``Solver``.
        check_base: as for ``Solver``.
        name_space: the C++ namespace, an identifier. Headers of several robots in one program need one each.

    Returns:
        The text, the same on every machine.

    Raises:
        ValueError: for a `name_space` that is no identifier, and as ``Solver`` does.
    """
    _inputs.text(name_space, "name_space")
    if not isinstance(robot, Solver):
        robot = Solver(
            robot,
            ee_link=ee_link,
            spheres=spheres,
            device="cpu",
            locked_joints=locked_joints,
            srdf=srdf,
            check_base=check_base,
        )
    elif (ee_link, spheres, locked_joints, srdf, check_base) != (None, None, None, None, False):
        raise ValueError("a solver has its robot already: leave ee_link, spheres and the like out")
    return robot._robot.codegen(name_space)
