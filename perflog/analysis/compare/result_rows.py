"""Rows of the tables of a result: typed, each field with what its column holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, Protocol, get_type_hints

from msgspec.structs import asdict, replace

from perflog.metrics import MetricColumn
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


def column(
    meaning: str, unit: str = "", better: Literal["lower", "higher"] | None = None, brief: bool = True
) -> MetricColumn:
    """Return what a field of a row holds, for its `Annotated` type."""
    return MetricColumn("", unit, better, meaning, brief)


def columns_of(row_type: type[Struct]) -> tuple[MetricColumn, ...]:
    """Return the columns of a table of such rows."""
    hints = get_type_hints(row_type, include_extras=True)
    return tuple(replace(hints[name].__metadata__[0], name=name) for name in row_type.__struct_fields__)


def records(rows: Iterable[Struct]) -> list[dict[str, object]]:
    """Return rows as dictionaries with None for NaN, ready for JSON."""
    return [{name: none_if_null(value) for name, value in asdict(row).items()} for row in rows]
