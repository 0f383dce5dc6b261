"""The reference trainer on a clock that counts function calls: one call is a millisecond.

So how much of a step its phases cover does not depend on how busy the machine is.
"""

from __future__ import annotations

import sys
from types import FrameType, SimpleNamespace

from perflog.trainer import clock
from perflog.trainer.__main__ import main

count = 0


def note(_: FrameType, event: str, __: object) -> None:
    global count  # noqa: PLW0603 (called by the interpreter)
    count += event in ("call", "c_call")


vars(clock)["time"] = SimpleNamespace(perf_counter=lambda: count / 1e3)
sys.setprofile(note)
main()
