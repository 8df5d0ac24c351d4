"""The exceptions of the package. Bad values are plain ValueErrors; "no solution" is a result."""

from __future__ import annotations


class ModelError(ValueError):
    """A robot description is unusable; the message names file, line and element.

    Attributes:
        file: the file's name, or "<string>" for a description given as text.
        line: the line in it, from 1 on; 0 where the fault belongs to no single line.
        element: such as "joint 'elbow'"; empty for the document as a whole.
    """

    def __init__(self, message: str, file: str = "", line: int = 0, element: str = "") -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.element = element


class DeviceError(RuntimeError):
    """The device asked for cannot be used here; the message says why and what to do instead."""


class BuildError(RuntimeError):
    """Compiling a robot's GPU program failed.

    Attributes:
        log: what the compiler said.
    """

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class SolveError(RuntimeError):
    """The device failed during a solve, of which nothing is returned; the message says what to do.

    Attributes:
        target_index: the first target of the part of the call in which it failed.
        completed: how many targets had been solved by then.
    """

    def __init__(self, message: str, target_index: int = -1, completed: int = 0) -> None:
        super().__init__(message)
        self.target_index = target_index
        self.completed = completed
