"""Settings of the allocator and of the garbage collector, where they exist."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from perflog.ingestion import memory

if TYPE_CHECKING:
    import pytest

MMAP, TRIM, PAD, ARENAS = -3, -1, -2, -8  # of malloc.h


def test_freed_memory_is_kept_and_large_arrays_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[tuple[int, ...]]()

    def noted(*given: int) -> int:
        calls.append(given)
        return 1

    frozen = list[int]()
    monkeypatch.delitem(sys.modules, "_duckdb", raising=False)  # which another test may have loaded
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    monkeypatch.setattr(memory, "_of_glibc", lambda name: noted)
    memory.keep_freed()
    assert calls == [(MMAP, 1 << 30), (TRIM, 1 << 30), (PAD, 16 << 20), (ARENAS, 3)] and frozen == [1]
    calls.clear()
    memory.return_freed()
    assert calls == [(MMAP, 8 << 20), (0,)]
    for missing in ("mallopt", "malloc_trim"):
        calls.clear()
        monkeypatch.setattr(memory, "_of_glibc", lambda name, missing=missing: None if name == missing else noted)
        memory.return_freed()
        assert calls == []
    monkeypatch.setattr(memory, "_of_glibc", lambda _: None)
    memory.keep_freed()
    monkeypatch.setitem(sys.modules, "_duckdb", sys)
    memory.freeze()
    assert calls == [] and frozen == [1, 1]


def test_functions_of_the_allocator_are_those_of_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory._of_glibc("no_such_function") is None
    if sys.platform == "linux":
        assert memory._of_glibc("mallopt") is not None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert memory._of_glibc("mallopt") is None
