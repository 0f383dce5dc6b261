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


@pytest.mark.parametrize(("workers", "turns"), [(0, [0, 0, 0, 0, 0]), (1, [0, 0, 0, 0, 0]), (3, [0, 1, 2, 0, 1])])
def test_workers_take_turns_and_results_come_in_order(workers: int, turns: list[int]) -> None:
    """Without workers, this process works. The second piece is too long for shared memory."""
    own = os.getpid()
    pool = WorkerPool(lambda: lambda text, _: (bytes(text), os.getpid()), workers, 100)
    try:
        assert not pool.is_full() and len(pool.spill_files) == max(workers, 1)
        results = []
        for piece in (b"a", b"b" * 300, b"c", b"d", b"e"):
            pool.submit(memoryview(piece))
            if pool.is_full():
                results.append(pool.result())
        results += [pool.result() for _ in range(5 - len(results))]
    finally:
        pool.close()
    assert [worker for worker, _ in results] == turns
    assert [text for _, (text, _) in results] == [b"a", b"b" * 300, b"c", b"d", b"e"]
    assert {process == own for _, (_, process) in results} == {workers == 0}


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
