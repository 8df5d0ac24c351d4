"""Files that are written as a whole, or stay as they were."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any


@contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "w", **options: Any) -> Iterator[IO[Any]]:
    """A file to write to that takes the place of `path` at the end, unless something is raised.

    Links are followed, and a file that is there keeps its mode. What is no regular file, such as a pipe or a
    terminal, and a file in a folder that takes no new ones, is written to as it is. `mode` is "w" or "wb".
    Errors name `path`.
    """
    name = os.fspath(path)
    try:
        yield from _replacing(os.path.realpath(name), mode, options)
    except OSError as error:
        error.filename = name
        raise


def _replacing(target: str, mode: str, options: dict[str, Any]) -> Iterator[IO[Any]]:
    try:
        before = os.stat(target)
    except FileNotFoundError:
        before = None
    if before is not None and stat.S_ISREG(before.st_mode) and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
    temporary = f"{target}.{secrets.token_hex(4)}.tmp"
    aside = before is None or stat.S_ISREG(before.st_mode)
    if aside and before is not None:
        aside = os.access(os.path.dirname(target), os.W_OK)
    if not aside:
        with open(target, mode, **options) as file:
            yield file
        return
    try:
        with open(temporary, mode.replace("w", "x"), **options) as file:
            yield file
        if before is not None:
            os.chmod(temporary, stat.S_IMODE(before.st_mode))
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replaces a file by this text, in UTF-8, with the line ends as they are."""
    with replacing(path, encoding="utf-8", newline="") as file:
        file.write(text)
