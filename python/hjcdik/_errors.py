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
