"""Rows of a table grouped by the values of several columns; null is a value of its own."""

from __future__ import annotations

from perflog.statistics.groups import Groups, groups_of
from perflog.tables.columns import Rows


def row_groups(rows: Rows, *names: str) -> Groups:
    """Return the groups of rows with equal values in columns of words or integers."""
    return groups_of(*(rows.keys(name) for name in names))


def split(rows: Rows, *names: str) -> list[Rows]:
    """Return the rows of each combination of values in columns of words or integers, in the order of first rows."""
    groups = row_groups(rows, *names)
    parts = groups.rows
    return [rows.where(parts[group]) for group in groups.in_order.tolist()]
