"""Tables and progress bars, with the help of rich where it is installed and the output is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager


def print_table(header: tuple[str, ...], rows: Sequence[Sequence[str]]) -> None:
    """A table, with the help of rich on a terminal where it is installed."""
    if sys.stdout.isatty():
        try:
            from rich.console import Console
            from rich.table import Table
        except ImportError:
            pass
        else:
            table = Table(*header)
            for row in rows:
                table.add_row(*row)
            Console(highlight=False, markup=False).print(table)
            return
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    for row in (header, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """What moves a bar on stderr to so many of so many; None where that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with ExitStack() as stack:
        advance: Callable[[int], None] | None = None
        ready = 0

        def move(done: int, total: int) -> None:
            nonlocal ready, advance
            if advance is None:
                advance = stack.enter_context(progress_bar(what, total))
            advance(done - ready)
            ready = done

        yield move


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr; yields the function that moves it on."""
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            print(f"\r{what} {done}/{total} ({100 * done // total} %)", end="", file=sys.stderr, flush=True)

        try:
            yield advance
        finally:
            print(file=sys.stderr)
        return
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)
