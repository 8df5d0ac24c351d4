"""Files that are written as a whole, or stay as they were."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any


@contextmanager
def replacing(path: str | os.PathLike[str], mode: str = "w", **options: Any) -> Iterator[IO[Any]]:
    """A file to write to that takes the place of `path` at the end, unless something is raised.

    Links are followed, and a file that is there keeps its mode. Written to as they are: what is no regular
    file, such as a pipe or a terminal, a descriptor of this process (/dev/stdout), and files of others, with
    several names, or in a folder that takes no new ones. `mode` is "w" or "wb". Errors name `path`.
    """
    name = os.fspath(path)
    try:
        yield from _replacing(name, mode, options)
    except OSError as error:
        error.filename = name
        raise


def _replacing(name: str, mode: str, options: dict[str, Any]) -> Iterator[IO[Any]]:
    descriptor = _descriptor(name)
    if descriptor is not None:
        with open(os.dup(descriptor), mode, **options) as file:
            yield file
        return
    try:
        before = os.stat(name)
    except FileNotFoundError:
        before = None
    target = os.path.realpath(name)
    if before is not None and not _is_replaceable(before, target):
        with open(target, mode, **options) as file:
            yield file
        return
    temporary = os.path.join(os.path.dirname(target), f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, mode.replace("w", "x"), **options) as file:
            yield file
        if before is not None:
            with suppress(PermissionError):  # of a group that is not ours
                os.chown(temporary, before.st_uid, before.st_gid)
            os.chmod(temporary, stat.S_IMODE(before.st_mode))
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _is_replaceable(before: os.stat_result, target: str) -> bool:
    if not stat.S_ISREG(before.st_mode):
        return False
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)
    own = os.geteuid() in (0, before.st_uid)
    return own and before.st_nlink == 1 and os.access(os.path.dirname(target), os.W_OK)


def _descriptor(name: str) -> int | None:
    """The open file that /dev/stdout, /dev/fd/N and links to these stand for."""
    for _ in range(40):
        folder, last = os.path.split(os.path.abspath(name))
        if last.isdecimal() and os.path.realpath(folder) == f"/proc/{os.getpid()}/fd":
            return int(last)
        if not os.path.islink(name):
            return None
        name = os.path.join(folder, os.readlink(name))
    return None


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replaces a file by this text, in UTF-8, with the line ends as they are."""
    with replacing(path, encoding="utf-8", newline="") as file:
        file.write(text)


def check_outputs(written: Iterable[str], read: Iterable[str | None]) -> None:
    """Raises where a file would be written twice, or over one that is read."""
    inputs = {os.path.realpath(name) for name in read if name and os.path.isfile(name)}
    outputs: set[str] = set()
    for name in written:
        path = os.path.realpath(name)
        if os.path.exists(path) and not os.path.isfile(path):
            continue
        if path in inputs:
            raise ValueError(f"{name}: is read here, and cannot be written too: give another file")
        if path in outputs:
            raise ValueError(f"{name}: would be written twice")
        outputs.add(path)
