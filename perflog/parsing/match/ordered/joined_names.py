"""Finds which words of a table's header are one name: the cells below show where columns begin and end.

Msg Size  Chunk Blocks   P2P Lat Lat Reduc
64B  512KB      1      11.0       2.8
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

from perflog.formats.families.cell_cutting import is_rule
from perflog.lazy_patterns import lazy_pattern

_WORD = lazy_pattern(r"[^ \t]+")
_FEWEST = 3  # rows and columns


def joined_names(lines: Sequence[str]) -> list[str]:
    """Return the names of a header with more words than its rows have cells; [] if the rows do not show them.

    A name ends before two spaces, where the cells of a column end, or before the word where those of the next begin.
    """
    words = [match.span() for match in _WORD.finditer(lines[0])]
    below = [[m.span() for m in _WORD.finditer(line)] for line in lines[1:] if line.strip() and not is_rule(line)]
    rows = list(takewhile(lambda row: len(row) == len(below[0]), below))
    if len(rows) < _FEWEST or not _FEWEST <= len(rows[0]) < len(words):
        return []
    begins, ends = ([{row[k][edge] for row in rows} for k in range(len(rows[0]))] for edge in (0, 1))
    all_begin, all_end = (set().union(*(edge for edge in edges if len(edge) == 1)) for edges in (begins, ends))
    breaks = [
        k + 1
        for k, ((_, end), (begin, _)) in enumerate(pairwise(words))
        if begin - end > 1 or end in all_end or begin in all_begin
    ]
    names = [(words[a][0], words[b - 1][1]) for a, b in pairwise([0, *breaks, len(words)])]
    is_above = len(names) == len(begins) and all(
        begin < min(column_ends) and max(column_begins) < end
        for (begin, end), column_begins, column_ends in zip(names, begins, ends, strict=True)
    )
    return [lines[0][begin:end] for begin, end in names] if is_above else []
