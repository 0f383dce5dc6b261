"""Messages that a terminal wrapped at its width: their lines, but the last one, have one length, and none is longer.

People paste what a terminal or a multiplexer shows. One message of a watchdog is then several lines, and what it says
is cut in the middle: `OpTy` on one line, `pe=BROADCAST` on the next.
"""

from __future__ import annotations

import numpy as np

from perflog.arrays import Ints
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.match.records import Batch
from perflog.tables.row_order import PART_BITS, PART_MASK

_NARROWEST, _MOST_LINES = 60, 40  # columns of a terminal; lines of a message
_IS_WHOLE = lazy_pattern(rb"[.:!?)\]}>]$")
"""The end of a line that is a sentence or a value as a whole: another one of its length may follow by chance."""

_BEGINS = lazy_pattern(
    rb"\s*(?:\[\w*rank\d+\]|\[\d+\]:|\d+: |\([^()\n]{1,40} pid=\d+|[EWIF]\d{4} |\[?\d{4}-\d\d-\d\d|\[?\d\d:\d\d:\d\d"
    rb'|Traceback |  File "|frame #\d+|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Warning)\b|terminate called'
    rb"|\S+: error:)"
)
"""How a line begins that goes on with no other line: a label, a time, a traceback, an exception."""


def wrapped_lines(batch: Batch, positions: Ints, starts: Ints, ends: Ints) -> dict[int, int]:
    """Return the rows of wrapped messages: by the row of a message's first line that of its last one.

    Args:
        batch: A scanned chunk.
        positions: The positions of lines, in order.
        starts: The bytes of the chunk at which they begin.
        ends: The bytes at which they end.
    """
    widths = batch.ends - batch.starts
    width = int(widths.max(initial=0))
    if width < _NARROWEST or np.count_nonzero(widths == width) < 2:
        return {}
    is_next = (np.diff(positions) == 1 << PART_BITS) & (positions[1:] & PART_MASK == 0)
    found: dict[int, int] = {}
    last = -1
    for k in np.flatnonzero(is_next & (ends - starts == width)[:-1]).tolist():
        if k < last:
            continue
        begin = last = k
        while last < len(positions) - 1 and last - begin < _MOST_LINES and is_next[last]:
            data, following = (bytes(batch.chunk.data[starts[k] : ends[k]]) for k in (last, last + 1))
            is_cut = len(data) == width and data.isascii() and _IS_WHOLE.search(data.rstrip()) is None
            if not is_cut or _BEGINS.match(following) is not None:
                break
            last += 1
        if last > begin:
            found[begin] = last
    return found
