"""From what users pass to what the extension takes: types and shapes are checked here, values in C++."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_FLOAT64 = np.dtype(np.float64)
_CPU_KINDS = (1, 3)  # DLPack device types: CPU, and host memory pinned for CUDA
_ROTATION_TOLERANCE = 1e-5  # matrices printed with six decimals must pass
_LAST_ROW_TOLERANCE = 1e-9


def integer(value: Any, name: str, low: int, high: int | None = None) -> int:
    """`value` as an int in [low, high]; bools and floats are refused."""
    if type(value) is not int:
        try:
            if isinstance(value, (bool, np.bool_)):
                raise TypeError
            value = operator.index(value)
        except TypeError:
            raise ValueError(f"{name} must be an integer, not {value!r}") from None
    if value < low or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"in [{low}, {high}]"
        raise ValueError(f"{name} must be {bounds}, not {value}")
    return int(value)


def number(value: Any, name: str) -> float:
    """`value` as a finite float; bools and texts are refused."""
    if type(value) is not float:
        try:
            if isinstance(value, (bool, np.bool_, str, bytes)) or np.ndim(value) > 0:
                raise TypeError
            value = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{name} must be a number, not {value!r}") from None
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, not {value}")
    return float(value)


def not_negative(value: Any, name: str) -> float:
    """`value` as a finite float that is not negative."""
    result = number(value, name)
    if result < 0:
        raise ValueError(f"{name} must not be negative, not {value}")
    return result


def flag(value: Any, name: str) -> bool:
    if value is True or value is False:
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    raise ValueError(f"{name} must be True or False, not {value!r}")


def text(value: str, name: str) -> str:
    """`value`, if it can be encoded: what stands for undecodable bytes of a command line cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is no valid Unicode text: {value!r}") from None
    return value


def floats(value: Any, name: str) -> Array:
    """`value` as a C-contiguous float64 array, without a copy where it is one."""
    if type(value) is not np.ndarray:
        refuse_device_memory(value, name)
        if np.ma.is_masked(value):
            raise ValueError(f"{name} has masked values; fill or drop them")
        try:
            value = np.asarray(value)
        except ValueError as error:  # rows of different lengths
            raise ValueError(f"{name} is not an array of numbers: {error}") from None
    if value.dtype is not _FLOAT64:
        value = _converted(value, name)
    return np.asarray(value, _FLOAT64, order="C")


def _converted(array: npt.NDArray[Any], name: str) -> Array:
    if array.dtype.kind == "O":
        for item in array.flat:
            if isinstance(item, bool) or not isinstance(item, (numbers.Real, Decimal)):
                raise ValueError(f"{name} must hold real numbers, not {type(item).__name__}")
    elif array.dtype.kind not in "fiu" and array.size:
        raise ValueError(f"{name} must hold real numbers, not {array.dtype}")
    try:
        with np.errstate(over="ignore"):  # what becomes infinite is refused as such
            return array.astype(_FLOAT64)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name} has a number that is no float64: {error}") from None


def refuse_device_memory(value: Any, name: str) -> None:
    device = getattr(value, "__dlpack_device__", None)
    if device is not None and device()[0] not in _CPU_KINDS:
        raise TypeError(
            f"{name} lies in a device's memory, which is not taken yet: copy it to the host first"
        )


def poses(value: Any, name: str = "poses") -> Array:
    """(T, 7) or (7,) rows x y z qw qx qy qz, from those or from (4, 4) or (T, 4, 4) matrices."""
    array = floats(value, name)
    shape = array.shape
    if shape == (7,) or (len(shape) == 2 and shape[1] == 7):
        return array
    if shape[-2:] == (4, 4) and len(shape) <= 3:
        return from_matrices(array.reshape(-1, 4, 4), name)
    if shape == (0,):  # the empty list
        return array.reshape(0, 7)
    if len(shape) == 3 and shape[2] == 7:
        raise ValueError(
            f"{name} has shape {shape}: (T, K, 7) is reserved for robots with several tips, which are not "
            "supported yet; pass (T, 7)"
        )
    raise ValueError(
        f"{name} must have shape (7,) or (T, 7) (rows x y z qw qx qy qz), or (4, 4) or (T, 4, 4) (matrices), "
        f"not {shape}"
    )


def from_matrices(matrices: Array, name: str) -> Array:
    """(T, 4, 4) homogeneous matrices as (T, 7) rows; raises for any that is no rigid transform."""
    rotations = matrices[:, :3, :3]
    with np.errstate(invalid="ignore", over="ignore"):
        last_row = np.abs(matrices[:, 3] - (0, 0, 0, 1)).max(1, initial=0)
        gram = np.swapaxes(rotations, 1, 2) @ rotations
        defect = np.abs(gram - np.eye(3)).max((1, 2), initial=0)
        determinant = np.linalg.det(rotations)
    # A NaN, as from overflow, compares false and so counts as a fault.
    good = (last_row <= _LAST_ROW_TOLERANCE) & (defect <= _ROTATION_TOLERANCE) & (determinant > 0)
    good &= np.isfinite(matrices).all((1, 2))
    if not good.all():
        i = int(np.argmin(good))
        if not np.isfinite(matrices[i]).all():
            fault = "has a value that is not finite"
        elif not last_row[i] <= _LAST_ROW_TOLERANCE:
            fault = f"has the last row {' '.join(f'{x:.10g}' for x in matrices[i, 3])} instead of 0 0 0 1"
        elif not defect[i] <= _ROTATION_TOLERANCE:
            fault = (
                "has a rotation part R that is not orthonormal: R^T R is off the identity by "
                f"{defect[i]:.2g}, more than {_ROTATION_TOLERANCE:g}"
            )
        else:
            fault = f"has a rotation part that mirrors (determinant {determinant[i]:.3g})"
        row = f"{name}[{i}]" if len(matrices) > 1 else name
        raise ValueError(f"{row}: the matrix {fault}")

    # Every component of the quaternion is one quarter of these sums, squared; the largest is taken from
    # its own sum and the others from sums and differences off the diagonal, so nothing cancels.
    (m00, m01, m02), (m10, m11, m12), (m20, m21, m22) = np.moveaxis(rotations, 0, -1)
    four_products = np.array(
        [
            [1 + m00 + m11 + m22, m21 - m12, m02 - m20, m10 - m01],
            [m21 - m12, 1 + m00 - m11 - m22, m01 + m10, m02 + m20],
            [m02 - m20, m01 + m10, 1 - m00 + m11 - m22, m12 + m21],
            [m10 - m01, m02 + m20, m12 + m21, 1 - m00 - m11 + m22],
        ]
    )
    largest = np.argmax(np.einsum("iin->in", four_products), axis=0)
    quaternions = four_products[largest, :, np.arange(len(matrices))]
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    return np.concatenate([matrices[:, :3, 3], quaternions], axis=1)


def configurations(value: Any, name: str, joints: Sequence[str], ignored: Mapping[str, float]) -> Array:
    """Rows of joint values; a {joint: value} mapping becomes one row in the order of `joints`."""
    if not isinstance(value, Mapping):
        return floats(value, name)
    missing = [joint for joint in joints if joint not in value]
    if missing:
        raise ValueError(f"{name}: no value for joint {', '.join(map(repr, missing))}")
    for joint in value:
        if joint not in joints and joint not in ignored:
            raise ValueError(f"{name}: the robot has no joint {joint!r}; it has {', '.join(joints)}")
    return floats([value[joint] for joint in joints], name)


def world_numbers(value: Any, name: str, count: int, of: str, worlds: int) -> npt.NDArray[np.int32]:
    """(count,) numbers of worlds, from those or from one for all; -1 is the empty one."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu" and array.size:
        raise ValueError(f"{name} must hold integers, not {array.dtype}")
    if array.shape not in ((), (count,)):
        raise ValueError(f"{name} must have shape ({count},), one number for each {of}, not {array.shape}")
    outside = np.flatnonzero((array < -1) | (array >= worlds))
    if len(outside):
        row = f"{name}[{outside[0]}]" if array.ndim else name
        there = "is 1 world" if worlds == 1 else f"are {worlds} worlds"
        raise ValueError(f"{row} is {array.flat[outside[0]]}, but there {there} (-1: the empty one)")
    return np.array(np.broadcast_to(array, (count,)), np.int32)


def pose_xyzw(poses: npt.ArrayLike) -> Array:
    """Reorder poses with a scalar-last quaternion (ROS, SciPy, Eigen, PyBullet) to this package's order.

    Args:
        poses: (7,) or (T, 7) rows ``x y z qx qy qz qw``; positions in metres.

    Returns:
        A new array of the same shape with rows ``x y z qw qx qy qz``.

    Raises:
        ValueError: for any other shape.
    """
    array = floats(poses, "poses")
    if array.ndim not in (1, 2) or array.shape[-1] != 7:
        raise ValueError(f"poses must have shape (7,) or (T, 7) (x y z qx qy qz qw), not {array.shape}")
    return array[..., [0, 1, 2, 6, 3, 4, 5]]
