"""Forked processes that decode pieces of a trace: a pool ends whatever its workers are doing."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import pytest

from perflog.readers.chrome.worker_pool import WorkerPool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")


def much(text: memoryview, spill_file: Any) -> bytes:
    return bytes(text) * 100_000


def test_a_pool_ends_while_its_workers_send_what_nobody_takes() -> None:
    """A command that is told to end closes the pool in the middle; it waited for its workers without end."""

    def stuck(*_: object) -> None:
        raise AssertionError("the pool does not end")

    pool = WorkerPool(lambda: much, 2, 100)
    pool.submit(memoryview(b"a" * 100))
    assert pool.result() == (0, b"a" * 10_000_000)
    for _ in range(4):
        pool.submit(memoryview(b"b" * 100))
    before = signal.signal(signal.SIGALRM, stuck)
    signal.alarm(20)
    try:
        pool.close()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    for worker in pool._workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker._process, 0)
