"""Shows what a growing log prints: on a terminal one line that is updated, elsewhere a line for each update."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from perflog.analysis.live_steps import LiveSteps, Now
from perflog.output import terminal
from perflog.output.presenters import live as presenter
from perflog.parsing.assemble.runs.run_state import RunSettings
from perflog.parsing.failures.kinds import NOTICE
from perflog.units import count

if TYPE_CHECKING:
    import pyarrow as pa

_EVERY_S = 10.0  # seconds between two lines where they stay
_FAILURES = 5  # that are printed at once
_REFRESH_S = 0.5  # seconds between two updates of the line while the part of the log that is there already is read


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
        self._drawn = 0  # lines that are updated; the cursor is in the last of them
        self._last, self._due = "", 0.0
        self._stalled_at: int | None = None  # the step after which none came
        self._again_s = 0.0  # seconds without a step after which a stall is reported again
        self._failed_at = 0  # the last line with a failure that was shown

    def observe(self, tables: Mapping[str, pa.Table], settings: RunSettings) -> None:
        """Take rows as they are read. A terminal shows how far the reading of a long log is."""
        self.steps.observe(tables, settings)
        if "failures" in tables:
            self._tell_failures(tables["failures"])
        if self._is_terminal and time.monotonic() >= self._due and (now := self.steps.now()) is not None:
            self._draw(presenter.line(replace(now, stalls=False)))

    def _tell_failures(self, rows: pa.Table) -> None:
        """Print each failure once, as soon as it is read; of many the first few. The log may be read again."""
        new = [row for row in rows.to_pylist() if row["line"] > self._failed_at and row["severity"] != NOTICE]
        for row in new[:_FAILURES]:
            self.tell(presenter.failure(row))
        if len(new) > _FAILURES:
            self.tell(f"and {count(len(new) - _FAILURES, 'more failure')}: perflog diagnose")
        self._failed_at = max((row["line"] for row in new), default=self._failed_at)

    def forget(self) -> None:
        """Forget all that was shown: another log follows."""
        self.steps.forget()
        self._failed_at, self._stalled_at = 0, None

    def look(self) -> None:
        """Show the last steps. The rows that come next are printed from now on."""
        self.show()
        self.steps.set_delay(0.0)

    def _draw(self, text: str) -> None:
        """Update the line, on as many lines of the terminal as it needs."""
        lines = _broken(terminal.visible(text), (terminal.width() or 80) - 1)
        up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
        terminal.put(f"\r{up}\x1b[J" + "\n".join(lines), err=self._err, nl=False, raw=True)
        (sys.stderr if self._err else sys.stdout).flush()
        self._drawn, self._due = len(lines), time.monotonic() + _REFRESH_S

    def show(self, force: bool = False) -> None:
        """Show the last steps, if there is news. `force`: now, not only when the next line is due."""
        now = self.steps.now()
        if now is None and not self.steps.last_line:
            return
        text = presenter.line(now) if now is not None else presenter.without_steps(self.steps.last_line)
        is_reported = now is not None and self._follow_stall(now)
        is_due = time.monotonic() >= self._due
        if self._is_terminal:
            self._draw(text)
            return
        news = text if now is None or not now.stalls else ""
        if is_reported or ((force or is_due) and news and news != self._last):
            terminal.put(text, err=self._err)
            sys.stdout.flush()
            self._last, self._due = news, time.monotonic() + self._every_s

    def _follow_stall(self, now: Now) -> bool:
        """Print that steps go on after a stall. Return whether a stall is to be reported: once, then as it doubles."""
        before, self._stalled_at = self._stalled_at, now.step if now.stalls else None
        if before is not None and before != now.step:
            quiet = self.steps.quiet_before_next(before)
            if quiet is not None:
                self.tell(presenter.resumed(now.step, quiet))
        if not now.stalls or (before == now.step and now.quiet_s < self._again_s):
            return False
        self._again_s = 2 * now.quiet_s
        return True

    def tell(self, text: str) -> None:
        """Print a sentence below the line."""
        self.end()
        terminal.tell(text, err=self._err)

    def end(self) -> None:
        """End the line that is updated."""
        if self._drawn:
            terminal.put("", err=self._err)
            self._drawn = 0


def _broken(text: str, columns: int) -> list[str]:
    """Return a line of facts, as lines of a terminal; a fact that is wider than the terminal is cut."""
    lines = [""]
    for fact in text.split(presenter.GAP):
        longer = lines[-1] + presenter.GAP * bool(lines[-1]) + fact[:columns]
        if len(longer) > columns:
            lines.append(fact[:columns])
        else:
            lines[-1] = longer
    return lines
