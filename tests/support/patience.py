"""Waiting for other processes. The limit only ends a test that hangs: no test says how long something takes."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 120.0


def wait_until(true: Callable[[], object]) -> None:
    """Return when it is true."""
    over = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < over, "it hangs"
        time.sleep(0.02)
