"""Signals that end a program: they raise an exception, so that all is tidied up before it ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_NAMES = ("SIGTERM", "SIGHUP")


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SystemExit with 128 and the signal's number, as a shell shows it.

    A signal that the program ignores or handles already stays as it is.
    """

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = {}
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
        before = {n: signal.signal(n, leave) for n in numbers if signal.getsignal(n) is signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_at_once() -> None:
    """Let all signals that end a program end this process at once: the process that started it tidies up."""
    for name in ("SIGINT", *_NAMES):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
