"""Waiting for other processes. The limits only end a test that hangs: no test says how long something takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 120.0
_PAUSE_S = 0.02


def wait_until(true: Callable[[], object]) -> None:
    """Return when it is true. Looks are counted: on a busy machine, where each comes later, they last longer."""
    for _ in range(round(PATIENCE_S / _PAUSE_S)):
        if true():
            return
        time.sleep(_PAUSE_S)
    raise AssertionError("it hangs")


class SilenceClock:
    """Stands in for module `time` where silence is measured: an hour passes once a program has said its last words.

    So a silence of minutes is over at once, and a program that starts slowly is never taken to hang.
    """

    sleep = staticmethod(time.sleep)

    def __init__(self, log: Path, *last_words: str) -> None:
        self._files = [log, log.with_name(f"{log.name}.err")]
        self._last_words = last_words
        self._before: list[str] = []
        self._ahead_s = 0.0

    def monotonic(self) -> float:
        printed = [path.read_text() if path.is_file() else "" for path in self._files]
        said = all(words in printed[0] for words in self._last_words)
        if said and printed == self._before:  # and nothing has come since the last look
            self._ahead_s = 3600.0
        self._before = printed
        return time.monotonic() + self._ahead_s
