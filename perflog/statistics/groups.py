"""Sums over groups of rows, such as the ranks of a step, for all groups at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from perflog.arrays import Floats, Ints, Keys, Mask

_WIDEST = 1 << 62  # of the integers that combine several keys
_DENSE = 4  # combined keys for each row, up to which counting is faster than sorting
_PART, _MOST_PARTS = 1 << 20, 8  # rows of groups that are sorted together: the order of many takes memory
_BLOCK = 1 << 18  # rows that are converted to Python objects at a time
_SHORT = 1 << 16  # up to this number of groups, an index takes two bytes, which NumPy sorts by radix


class Groups(Struct, frozen=True):
    """Rows grouped by equal keys. Groups are in the order of their keys.

    `inverse[i]`: index of the group of row i, as `np.unique` returns it. `first[g]`: first row of group g. `sizes[g]`:
    number of rows of group g.
    """

    inverse: Ints
    first: Ints
    sizes: Ints

    def any_of(self, flags: Mask) -> Mask:
        """Flag all rows of the groups that have a flagged row."""
        flagged = np.zeros(len(self.sizes), np.bool_)
        flagged[self.inverse[flags]] = True
        return flagged[self.inverse]

    @property
    def in_order(self) -> Ints:
        """The groups in the order of their first rows."""
        return np.argsort(self.first)

    @property
    def last(self) -> Ints:
        """Last row of each group."""
        rows = np.empty(len(self.sizes), np.int64)
        rows[self.inverse] = np.arange(len(self.inverse))  # of rows of one group the last that is assigned stays
        return rows

    @property
    def rows(self) -> list[Ints]:
        """The rows of each group, as they come."""
        order, starts = self.sorted_rows()
        return np.split(order, starts)[1:]

    def parts(self) -> Iterator[tuple[Groups, Mask]]:
        """Yield some of the groups at a time, so that these have not too many rows, and flags of their rows."""
        ends, begin = np.cumsum(self.sizes), 0
        most = max(_PART, len(self.inverse) // _MOST_PARTS)
        while begin < len(ends):
            end = max(int(np.searchsorted(ends, ends[begin] - self.sizes[begin] + most, "right")), begin + 1)
            chosen = (self.inverse >= begin) & (self.inverse < end)
            first = np.searchsorted(np.flatnonzero(chosen), self.first[begin:end])
            yield Groups(self.inverse[chosen] - begin, first, self.sizes[begin:end]), chosen
            begin = end

    @property
    def _has_parts(self) -> bool:
        return len(self.inverse) > _PART and len(self.sizes) > 1

    def sorted_rows(self, *keys: npt.NDArray[Any]) -> tuple[Ints, Ints]:
        """Return the rows by group, in a group by these keys, else as they come; and where each group begins."""
        inverse = self.inverse.astype(np.uint16) if len(self.sizes) <= _SHORT else self.inverse
        order = np.lexsort((*reversed(keys), inverse)) if keys else np.argsort(inverse, kind="stable")
        return order, np.cumsum(self.sizes) - self.sizes

    def ends(self, values: Ints) -> tuple[Ints, Ints]:
        """Return the smallest and the largest integer of each group."""
        if not len(values):
            return values, values
        order, starts = self.sorted_rows()
        in_groups = values[order]
        return np.minimum.reduceat(in_groups, starts), np.maximum.reduceat(in_groups, starts)

    def order_statistics(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the least, the median and the largest value of each group. NaN does not count."""
        if len(self.sizes) == len(values):  # one value each
            single = np.empty(len(values))
            single[self.inverse] = values
            return single, single, single
        if self._has_parts:
            least, medians, most = zip(*(few.order_statistics(values[rows]) for few, rows in self.parts()), strict=True)
            return np.concatenate(least), np.concatenate(medians), np.concatenate(most)
        order, starts = self.sorted_rows(values)  # NaN comes last
        in_groups = values[order]
        known = np.bincount(self.inverse, ~np.isnan(values), len(self.sizes)).astype(np.int64)
        last = starts + np.maximum(known, 1) - 1
        middle = (in_groups[(starts + last) // 2] + in_groups[starts + known // 2]) / 2
        return in_groups[starts], middle, in_groups[last]

    def medians(self, values: Floats) -> Floats:
        """Return the median of each group, NaN for a group without values."""
        return self.order_statistics(values)[1]

    def means(self, values: Floats) -> Floats:
        """Return the mean of each group, from its exact sum."""
        return self.sums(values) / self.sizes

    def numbers_of(self, keys: Keys, chosen: Mask) -> Ints:
        """Return the number of distinct keys among the chosen rows of each group."""
        groups = self.inverse[chosen]
        return np.bincount(groups[groups_of(groups, keys[chosen]).first], minlength=len(self.sizes))

    def sums(self, values: Floats) -> Floats:
        """Return the exact sum of each group, rounded once.

        A sum does not depend on the order of the rows or on other groups, and equal values have equal sums. Otherwise
        rank statistics of sums would count rounding errors as differences.
        """
        if len(self.sizes) == len(values):
            alone = np.empty(len(values))
            alone[self.inverse] = values
            return alone
        if self._has_parts:
            return np.concatenate([few.sums(values[rows]) for few, rows in self.parts()])
        order, starts = self.sorted_rows()
        in_groups, ends = values[order], np.append(starts, len(values))
        sums = np.zeros(len(self.sizes))
        begin = 0
        while begin < len(sums):  # some groups at a time: a value as a Python object takes four times as much memory
            end = max(int(np.searchsorted(ends, ends[begin] + _BLOCK, "right")) - 1, begin + 1)
            values_of_block = in_groups[ends[begin] : ends[end]].tolist()
            cuts = (ends[begin : end + 1] - ends[begin]).tolist()
            groups = [values_of_block[start:stop] for start, stop in pairwise(cuts)]
            try:
                sums[begin:end] = list(map(math.fsum, groups))
            except (OverflowError, ValueError):
                sums[begin:end] = list(map(_exact_sum, groups))
            begin = end
        return sums


def _exact_sum(values: list[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # beyond the largest float, or infinity less infinity
        return sum(values)


def groups_of(*keys: Keys) -> Groups:
    """Return the rows grouped by integer keys, the first key first in the order of the groups."""
    codes, span = np.zeros(len(keys[0]), np.int64), 1
    for key in keys if len(codes) else ():
        least = int(key.min())
        width = int(key.max()) - least + 1
        if width == 1:
            continue
        if width >= _WIDEST:
            key, least = np.unique(key, return_inverse=True)[1], 0
            width = int(key.max()) + 1
        if span * width >= _WIDEST:
            codes = np.unique(codes, return_inverse=True)[1]
            span = int(codes.max()) + 1
        codes *= width  # in-place operations save memory for whole tables
        codes += key
        codes -= least
        span *= width
    if span <= _DENSE * len(codes):
        return _counted(codes, span)
    _, first, inverse, sizes = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    return Groups(inverse, first, sizes)


def positions_in(keys: Sequence[Keys], others: Sequence[Keys]) -> Ints:
    """Return the index of the row of `others` that has the same keys as each row of `keys`; -1: none.

    No two rows of `others` have the same keys.
    """
    size = len(keys[0])
    groups = groups_of(*(np.append(some, more) for some, more in zip(keys, others, strict=True)))
    position = np.full(len(groups.sizes), -1)
    position[groups.inverse[size:]] = np.arange(len(others[0]))
    return position[groups.inverse[:size]]


def values_at(values: Floats, positions: Ints) -> Floats:
    """Return the values at some positions, NaN for the position -1."""
    return np.append(values, np.nan)[positions]


def _counted(codes: Ints, span: int) -> Groups:
    """Return the rows grouped by numbers from 0 to `span`, without sorting them. Their array becomes `inverse`."""
    sizes = np.bincount(codes, minlength=span)
    there = np.flatnonzero(sizes)
    blocks = [codes[start : start + _BLOCK] for start in range(0, len(codes), _BLOCK)]
    if len(there) < span:
        number = np.zeros(span, np.int64)
        number[there] = np.arange(len(there))
        sizes = sizes[there]
        for block in blocks:
            block[:] = number[block]
    first, end = np.empty(len(sizes), np.int64), len(codes)
    for block in reversed(blocks):
        first[block[::-1]] = np.arange(end - 1, end - len(block) - 1, -1)  # of one number the last assigned stays
        end -= len(block)
    return Groups(codes, first, sizes)


def distinct(numbers: Ints) -> Ints:
    """Return the distinct numbers in ascending order. Numbers in ascending order, such as steps, are not sorted again.

    `np.unique` would hash integers, which takes ten times as long where millions of them are mostly distinct. A stable
    sort merges parts that ascend, such as begins and ends of calls.
    """
    if (numbers[1:] > numbers[:-1]).all():
        return numbers
    ordered = np.sort(numbers, kind="stable")
    found: Ints = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found
