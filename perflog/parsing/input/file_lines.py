"""Where a line of a log of several files is: in which of them, and its number there.

Lines are numbered through the files. A person opens one of them.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from functools import lru_cache
from itertools import accumulate

from perflog.errors import InputError
from perflog.parsing.input.log_names import LogName
from perflog.parsing.input.source import blocks_of, open_source

_MOST_BYTES = 1 << 30  # of files that are read again for their numbers of lines


def place_in_file(log: str, line: int, lines: int) -> str | None:
    """Return file and number of a line, `rank_5.log:302`; None for a log of one file, or files that have changed.

    Args:
        log: The name of the log.
        line: The number of the line in the log.
        lines: The number of lines that the log had.
    """
    ends = _ends(log)
    if not ends or ends[-1][1] != lines:
        return None
    begin = 0
    folder = os.path.commonpath([os.path.dirname(file) for file, _ in ends])
    for file, end in ends:
        if line <= end:
            return f"{os.path.relpath(file, folder)}:{line - begin}"
        begin = end
    return None


@lru_cache(maxsize=64)
def _ends(log: str) -> tuple[tuple[str, int], ...]:
    """Return the files of a log, each with the number of its last line in the log; empty if they cannot be read."""
    files = LogName.parse(log).files
    counts = []
    if len(files) < 2:
        return ()
    with suppress(InputError, OSError):
        if sum(map(os.path.getsize, files)) > _MOST_BYTES:
            return ()
        for file in files:
            count, last = 0, b"\n"
            with closing(open_source(LogName.from_file(file))) as source, source.text() as text:
                for block in blocks_of(text):
                    count, last = count + block.count(b"\n"), block[-1:]
            counts.append(count + (last != b"\n"))
        return tuple(zip(files, accumulate(counts), strict=True))
    return ()
