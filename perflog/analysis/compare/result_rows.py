"""Rows of the tables of a result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import asdict

from perflog.tables.nulls import none_if_null

if TYPE_CHECKING:
    from msgspec import Struct


class TreeRow(Protocol):
    """A row of a tree of differences: the whole first, each part below what it is part of."""

    @property
    def side(self) -> str: ...
    @property
    def depth(self) -> int: ...
    @property
    def base_s(self) -> float: ...
    @property
    def side_s(self) -> float: ...
    @property
    def difference_s(self) -> float: ...
    @property
    def share(self) -> float | None: ...


def records(rows: Iterable[Struct]) -> list[dict[str, object]]:
    """Return rows as dictionaries with None for NaN, ready for JSON."""
    return [{name: none_if_null(value) for name, value in asdict(row).items()} for row in rows]
