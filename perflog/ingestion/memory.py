"""Memory settings for programs that only read logs."""

from __future__ import annotations

import gc
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8  # of glibc's malloc.h


def keep_freed() -> None:
    """Make the allocator keep freed memory. For programs that only read logs, such as the command line.

    Reading a log frees and allocates megabytes thousands of times a second. By default glibc returns each such block
    to the system and gets it back page fault by page fault. That takes half the time of scanning, and threads wait for
    each other there. Without glibc this function only freezes the garbage collector.

    `gc.freeze` spares the collector from looking at all imported modules hundreds of times.
    """
    gc.freeze()
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # musl
        return
    for option, value in (
        (_M_MMAP_THRESHOLD, 1 << 30),
        (_M_TRIM_THRESHOLD, 1 << 30),
        (_M_TOP_PAD, 16 << 20),
        (_M_ARENA_MAX, 3),
    ):
        mallopt(option, value)
