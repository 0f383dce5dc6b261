"""Progress bars on standard error, if it is a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_BRIEF = 32 << 20  # bytes: a smaller log is read before anyone could look at a bar
_REFRESH = 0.1  # seconds between two updates


@contextmanager
def byte_progress(total: int | None, logs: int) -> Iterator[Callable[[int], None] | None]:
    """Show the progress of reading logs.

    Yields:
        A function to call with the number of bytes read since the last call; None if no bar is shown.
    """
    if not _is_visible() or (total is not None and total < _BRIEF):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    name = "1 log" if logs == 1 else f"{logs} logs"
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    # No thread refreshes the bar: the reader may fork, and a fork must not meet a second thread.
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
    ) as progress:
        task, due = progress.add_task("", total=total), 0.0

        def advance(count: int) -> None:
            nonlocal due
            progress.advance(task, count)
            if (now := time.monotonic()) >= due:
                progress.refresh()
                due = now + _REFRESH

        advance(0)
        yield advance


@contextmanager
def step_progress(total: int, name: str) -> Iterator[Callable[[int], None] | None]:
    """Show the progress of training.

    Yields:
        A function to call with the number of steps that are done; None if no bar is shown.
    """
    if not _is_visible():
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
        yield lambda steps: bar.update(task, completed=steps)


def _is_visible() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
