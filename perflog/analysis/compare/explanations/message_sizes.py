"""Which sizes of messages make the change of a collective's mean, where the other sizes are about equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median

from msgspec import Struct

from perflog.analysis.compare.rows import FigureRow
from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern

_MESSAGE = lazy_pattern(r"(?P<name>.+), (?P<size>[0-9.]+ [KMGTP]?i?B)(?:, (?:in|out of) place)?")
_LEAST = 0.02  # change of the mean; a smaller one may be chance
_REST = 0.25  # of the change of the mean: what the other sizes change by, at most


class SizesThatChange(Struct, frozen=True):
    """Neighbouring sizes that change, and the median changes of them and of the `others` by number."""

    first: str
    last: str
    change: float
    others: int
    rest: float


def sizes_that_change(headlines: Sequence[FigureRow], rows: Sequence[FigureRow]) -> Iterator[SizesThatChange]:
    """Yield the sizes that make the change of each headline that is a mean over messages. Rows are in their order."""
    for headline in headlines:
        name, _, is_mean = headline.metric.partition(", mean of ")
        if not is_mean or abs(headline.change) < _LEAST:
            continue
        group = headline.kind, headline.case, headline.side
        side_rows = (row for row in rows if (row.kind, row.case, row.side) == group)
        found = ((row, match) for row in side_rows if (match := _MESSAGE.fullmatch(row.metric)))
        by_size = grouped((match["size"], row.change) for row, match in found if match["name"] == name)
        sizes, changes = list(by_size), [median(each) for each in by_size.values()]
        moved = [change * headline.change > 0 and abs(change) >= abs(headline.change) for change in changes]
        stretches = [list(indices) for is_moved, indices in groupby(range(len(sizes)), moved.__getitem__) if is_moved]
        longest = max(stretches, key=len, default=[])
        others = [change for index, change in enumerate(changes) if index not in longest]
        if 0 < len(longest) <= len(others) and abs(rest := median(others)) <= _REST * abs(headline.change):
            change = median(changes[index] for index in longest)
            yield SizesThatChange(sizes[longest[0]], sizes[longest[-1]], change, len(others), rest)
