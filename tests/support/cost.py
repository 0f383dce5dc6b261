"""What work costs, counted and not timed: a busy machine counts the same."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType


def calls(act: Callable[[], object]) -> int:
    """Return how many functions of Python and C `act` calls, in threads that it starts too."""
    count = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    act()  # what is done once, such as compiling patterns, does not count
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return count


def call_growth(act: Callable[[int], object], small: int, large: int) -> float:
    """Return how many times as many calls the large size takes as the small one."""
    return calls(lambda: act(large)) / calls(lambda: act(small))


def cpu_growth(act: Callable[[int], object], small: int, large: int) -> float:
    """Return how many times as much processor time the large size takes: for work that is one call of C.

    Time on the processor, not on the clock. It still varies, so a limit lies well between linear and quadratic growth.
    """

    def seconds(size: int) -> float:
        begin = time.process_time()
        act(size)
        return time.process_time() - begin

    act(small)
    return min(seconds(large) for _ in range(2)) / max(seconds(small) for _ in range(3))
