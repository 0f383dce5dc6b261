"""Memory settings for programs that only read logs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

_LARGE = 8 << 20  # bytes of an array: more than the pieces in which logs are read
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8  # of glibc's malloc.h


def freeze() -> None:
    """Spare the garbage collector all objects that exist, such as imported modules, until the process ends.

    Not with DuckDB: its library reports what the collector has left at the end as leaked.
    """
    if "_duckdb" not in sys.modules:
        gc.freeze()


def keep_freed() -> None:
    """Make the allocator keep freed memory. For programs that only read logs, such as the command line.

    Reading a log frees and allocates megabytes thousands of times a second. By default glibc returns each such block
    to the system and gets it back page fault by page fault. That takes half the time of scanning, and threads wait for
    each other there. Without glibc this function only freezes the garbage collector.
    """
    freeze()
    mallopt = _of_glibc("mallopt")
    if mallopt is None:
        return
    for option, value in (
        (_M_MMAP_THRESHOLD, 1 << 30),
        (_M_TRIM_THRESHOLD, 1 << 30),
        (_M_TOP_PAD, 16 << 20),
        (_M_ARENA_MAX, 3),
    ):
        mallopt(option, value)


def return_freed() -> None:
    """Return freed memory, of Arrow too, to the system, once columns of a large table have become one chunk each.

    The freed chunks are small blocks between others, which no large array fits into. From now on large arrays go back
    as soon as they are freed.
    """
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    mallopt, malloc_trim = _of_glibc("mallopt"), _of_glibc("malloc_trim")
    if mallopt is not None and malloc_trim is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
        malloc_trim(0)


def _of_glibc(name: str) -> Callable[..., int] | None:
    """Return a function of glibc's malloc, or None where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):  # musl
        return None
    return function
