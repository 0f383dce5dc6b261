"""A progress bar."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_BRIEF = 32 << 20  # a log this small is read before a bar could be looked at
_PAUSE = 0.1  # seconds between two looks of the bar


@contextmanager
def bar(total: int | None, logs: int) -> Iterator[Callable[[int], None] | None]:
    """A progress bar in bytes on standard error, if that is a terminal: gives what is to be told of bytes read."""
    if not _seen() or (total is not None and total < _BRIEF):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    name = "1 log" if logs == 1 else f"{logs} logs"
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    # No thread that refreshes it: the reader may fork.
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
    ) as progress:
        task, due = progress.add_task("", total=total), 0.0

        def told(count: int) -> None:
            nonlocal due
            progress.advance(task, count)
            if (now := time.monotonic()) >= due:
                progress.refresh()
                due = now + _PAUSE

        told(0)
        yield told


@contextmanager
def steps(total: int, name: str) -> Iterator[Callable[[int], None] | None]:
    """A progress bar in steps, likewise: gives what is to be told how many are done."""
    if not _seen():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TextColumn("steps"))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(
        *columns, *times, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.update(task, completed=done)


def _seen() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
