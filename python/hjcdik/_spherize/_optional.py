"""What the spherizer needs besides numpy, imported when it is first used."""

from __future__ import annotations

import importlib
from typing import Any


def need(module: str, purpose: str) -> Any:
    """The module, or an ImportError that names the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{purpose} needs {package}: pip install 'hjcdik[spherize]'", name=package
        ) from error
