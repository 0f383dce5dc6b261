"""Missing values.

Inside perflog a missing number is NaN or None. What leaves perflog has one convention: `pandas.NA` in the nullable
columns of a DataFrame (`nullable_frame`), None in JSON, on screens, and where a single value is read (`none_if_null`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from perflog.arrays import Floats


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
    if not len(table):
        return []
    objects = table.astype(object)
    rows: list[dict[str, Any]] = objects.where(table.notna(), None).to_dict("records")
    return rows


def row_dicts(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts, with nulls as they are. pandas takes long for no rows, too."""
    return table.to_dict("records") if len(table) else []


def floats(column: pd.Series[Any]) -> Floats:
    """Return a column of numbers as an array, with NaN for null."""
    values: Floats = column.to_numpy("float64", na_value=math.nan)
    return values


def known_values(keys: Iterable[str], values: Floats) -> dict[str, float]:
    """Return the values by key that are not NaN."""
    return {key: value for key, value in zip(keys, values.tolist(), strict=True) if not math.isnan(value)}


@cache
def _dtype(type: str) -> Any:
    """The type that a name means; pandas tries all that it knows."""
    import pandas as pd

    return pd.api.types.pandas_dtype(type)


@cache
def _no_values(type: str) -> Any:
    """An empty column of a type."""
    import pandas as pd

    return pd.Series([], dtype=type).array


def _values_as(column: pd.Series[Any], type: str) -> Any:
    """The values of a column in another type: as `Series.astype`, which takes three times as long."""
    if type == "object":  # a column, not its array: pandas makes strings of an array of objects
        return column.astype(object)
    return column.array.astype(_dtype(type))


def as_types(table: pd.DataFrame, types: Mapping[str, str]) -> pd.DataFrame:
    """Return a table with some columns in other types: as `DataFrame.astype`, which takes three times as long."""
    import pandas as pd

    if len(table):
        columns = {n: _values_as(column, types[n]) if n in types else column for n, column in table.items()}
    else:
        columns = {n: _no_values(types[n]) if n in types else table[n].array for n in table.columns.tolist()}
    return pd.DataFrame(columns, index=table.index, copy=False)


def copied(table: pd.DataFrame) -> pd.DataFrame:
    """Return a copy of a table. From pandas 3 on, its values are copied when somebody writes to them."""
    return table.copy(deep=_copies_at_once())


@cache
def _copies_at_once() -> bool:
    import pandas as pd

    return int(pd.__version__.partition(".")[0]) < 3


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a DataFrame of nullable types."""
    import pandas as pd
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(i, field.name, table[i].cast(pa.string()))
    types = {
        pa.int64(): pd.Int64Dtype(),
        pa.int32(): pd.Int32Dtype(),
        pa.float64(): pd.Float64Dtype(),
        pa.string(): pd.StringDtype("pyarrow"),
    }
    return table.to_pandas(types_mapper=types.get)


def nullable(values: Sequence[Any]) -> Any:
    """Return values as a pandas array of the narrowest nullable type that holds them all; None and NaN become NA.

    Example:
        >>> nullable([3.5, None])
        <FloatingArray>
        [3.5, <NA>]
        Length: 2, dtype: Float64
    """
    import pandas as pd

    known = [none_if_null(value) for value in values]
    types = {type(value) for value in known if value is not None}
    if len(types) == 1:
        dtype = {bool: "boolean", int: "Int64", float: "Float64", str: "string"}.get(types.pop(), "object")
    else:
        dtype = "Float64" if types == {int, float} else "object"
    return pd.array([pd.NA if value is None else value for value in known], dtype=dtype)


def nullable_frame(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with nullable types: Float64, Int64, boolean, string; NA for missing values."""
    import pandas as pd

    dtypes = {"f": "Float64", "i": "Int64", "b": "boolean"}
    columns = {}
    for name, column in table.items():
        if isinstance(column.dtype, pd.StringDtype):  # the default one of pandas has NaN for missing values
            columns[name] = _values_as(column, "string")
        elif isinstance(column.dtype, pd.api.extensions.ExtensionDtype):
            columns[name] = column.array
        elif column.dtype.kind in dtypes:
            columns[name] = _values_as(column, dtypes[column.dtype.kind])
        else:
            columns[name] = nullable(column.tolist())
    return pd.DataFrame(columns, index=table.index, copy=False)
