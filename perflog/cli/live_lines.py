"""Shows what a growing log prints: one line that is written anew on a terminal, else a line for each news."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from perflog.analysis.live_steps import LiveSteps
from perflog.output import terminal
from perflog.output.presenters import live as presenter
from perflog.parsing.assemble.run_state import RunSettings

if TYPE_CHECKING:
    import pyarrow as pa

_EVERY_S = 10.0  # seconds between two lines where they stay


class LiveLines:
    """Shows the last steps of a log.

    Args:
        err: Whether the lines go to standard error.
        every_s: Seconds between two lines where the output is no terminal.
    """

    def __init__(self, err: bool = False, every_s: float = _EVERY_S) -> None:
        self.steps = LiveSteps()
        self._err, self._every_s = err, every_s
        stream = sys.stderr if err else sys.stdout
        self._is_terminal = stream.isatty()
        self._drawn = False  # whether the cursor stands in a line that is written anew
        self._last, self._due = "", 0.0
        self._stalled_at: int | None = None

    def observe(self, tables: Mapping[str, pa.Table], settings: RunSettings) -> None:
        """Take rows as they are read."""
        self.steps.observe(tables, settings)

    def look(self) -> None:
        """Show the last steps. The rows that come next are printed from now on."""
        self.show()
        self.steps.set_delay(0.0)

    def show(self, force: bool = False) -> None:
        """Show the last steps, if there is news. `force`: now, not only when the next line is due."""
        now = self.steps.now()
        if now is None:
            return
        text, is_due = presenter.line(now), time.monotonic() >= self._due
        if self._is_terminal:
            columns = terminal.width() or 80
            terminal.put(f"\r\x1b[K{terminal.visible(text)[: columns - 1]}", err=self._err, nl=False, raw=True)
            self._drawn = True
            return
        begins_to_stall = now.stalls and self._stalled_at != now.step
        self._stalled_at = now.step if now.stalls else None
        news = presenter.line(now) if not now.stalls else ""
        if begins_to_stall or ((force or is_due) and news and news != self._last):
            terminal.put(text, err=self._err)
            sys.stdout.flush()
            self._last, self._due = news, time.monotonic() + self._every_s

    def tell(self, text: str) -> None:
        """Print a sentence below the line."""
        self.end()
        terminal.tell(text, err=self._err)

    def end(self) -> None:
        """End the line that is written anew."""
        if self._drawn:
            terminal.put("", err=self._err)
            self._drawn = False
