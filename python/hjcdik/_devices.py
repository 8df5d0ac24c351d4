"""The GPUs of this machine, and what is missing for using them."""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from hjcdik import _core

_log = logging.getLogger("hjcdik")


def gpu_problem() -> str:
    """What is missing for solving on a GPU, and how to get it; "" where nothing is."""
    find_compilers()
    return _core.gpu_problem()


def gpu_names() -> list[str]:
    """The GPUs that the driver sees, by index."""
    return _core.gpu_names()


@functools.cache
def find_compilers() -> None:
    """Tells the library where Python packages keep NVRTC. Needed before the first use of a GPU."""
    _core.set_compiler_folders(compiler_folders(sys.path))


def compiler_folders(entries: Iterable[str]) -> list[str]:
    """The folders of NVIDIA's wheels, below these entries of sys.path, that hold NVRTC; the newest first."""
    roots = [Path(entry, "nvidia") for entry in entries]
    roots += [Path(path) for path in getattr(sys.modules.get("nvidia"), "__path__", ())]
    versions: dict[str, int] = {}
    for root in dict.fromkeys(roots):
        for library in sorted(root.glob("*/lib/libnvrtc.so.*")):
            number = re.fullmatch(r"libnvrtc\.so\.(\d+)", library.name)
            if number is not None:
                folder = str(library.parent)
                versions[folder] = max(int(number[1]), versions.get(folder, 0))
    return sorted(versions, key=lambda folder: -versions[folder])


def log_store_notes() -> None:
    """Logs what the store of GPU programs has to say, such as of a damaged entry."""
    for note in _core.take_store_notes():
        _log.warning("%s", note)


def cpu_count() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def explain_refusal(reason: str) -> None:
    """Logs, once, why solvers that could choose do not use the GPU."""
    # No GPU is the ordinary case; one that cannot be used is not.
    ordinary = reason.startswith("no CUDA driver") or "CUDA_ERROR_NO_DEVICE" in reason
    _log.log(logging.INFO if ordinary else logging.WARNING, "solving on the CPU: %s", reason)
