"""Settings of memory for programs that only read logs."""

from __future__ import annotations

import gc
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8  # of glibc's malloc.h


def keep_freed() -> None:
    """Reading a log frees and takes megabytes thousands of times a second. glibc hands each such block back to the
    system and fetches it anew, page fault by page fault: half the time of scanning, and threads wait for each other
    there. For programs that only read logs, such as the command line; elsewhere than glibc nothing of this happens.

    What has been imported is there to stay: the collector of cycles need not look at it hundreds of times.
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
