"""Null values: None, NaN and pandas.NA as None, for JSON, for screens, and wherever a single value is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def none_if_null(value: Any) -> Any:
    """Return the value, or None if it is None, NaN or pandas.NA."""
    try:
        return value if value == value else None
    except TypeError:  # pandas.NA == pandas.NA is neither true nor false
        return None


def int_or_none(value: Any) -> int | None:
    """Return the value as an integer, or None if it is null."""
    number = none_if_null(value)
    return None if number is None else int(number)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts, with None for null."""
    objects = table.astype(object)
    rows: list[dict[str, Any]] = objects.where(table.notna(), None).to_dict("records")
    return rows
