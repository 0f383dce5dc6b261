"""Forked processes that decode pieces of a trace: a pool ends whatever its workers are doing."""

from __future__ import annotations

import os
import sys
from threading import Thread
from typing import Any

import pytest
from support.patience import wait_until

from perflog.readers.chrome.worker_pool import WorkerPool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")


def much(text: memoryview, spill_file: Any) -> bytes:
    return bytes(text) * 100_000


def test_a_pool_ends_while_its_workers_send_what_nobody_takes() -> None:
    """A command that is told to end closes the pool in the middle; it waited for its workers without end."""
    pool = WorkerPool(lambda: much, 2, 100)
    pool.submit(memoryview(b"a" * 100))
    assert pool.result() == (0, b"a" * 10_000_000)
    for _ in range(4):
        pool.submit(memoryview(b"b" * 100))
    closing = Thread(target=pool.close, daemon=True)
    closing.start()
    wait_until(lambda: not closing.is_alive())
    for worker in pool._workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker._process, 0)
