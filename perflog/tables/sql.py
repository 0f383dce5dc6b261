"""SQL over the tables of logs, through DuckDB, which extra `sql` installs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perflog.errors import UsageError
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

SETTINGS = "settings"
"""View with the settings of the runs as columns, beside the tables of the schema."""

VIEWS = (*TABLES, SETTINGS)

_HELP = f"the tables: {', '.join(VIEWS)}; `perflog query 'describe steps'` lists the columns of one"
_OPTIONS: dict[str, Any] = {
    "autoinstall_known_extensions": "false",  # nothing is fetched from a network
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # names are views, not variables of the caller
}
_CLOSED = {"enable_external_access": "false", "lock_configuration": "true"}  # a query reads and writes no file
_TICK_S = 0.1  # between looks at whether a query is over; a signal is seen as soon


def run_query(query: str, fetch: Callable[[str], pa.Table], external: bool = False) -> pa.Table:
    """Return the result of an SQL query.

    Args:
        query: SQL as DuckDB understands it. A table whose name does not occur in it is not read.
        fetch: Returns the view of a name out of `VIEWS`.
        external: Whether the query may read and write files.

    Returns:
        One column per column of the result, in types that pandas knows: a sum of integers is an integer, another
        decimal number a float.

    Raises:
        UsageError: The query is wrong, has no result, or DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise UsageError("SQL needs DuckDB, which is not installed", help="pip install duckdb") from error
    named = set(re.findall(r"\w+", query.lower()))
    with duckdb.connect(config=_OPTIONS) as connection:
        for name in VIEWS:
            if name in named:
                connection.register(name, fetch(name))
        for name, value in () if external else _CLOSED.items():
            connection.execute(f"SET {name} = {value}")
        try:
            result = _interruptible(connection, query)
        except duckdb.PermissionException as error:
            help = "`perflog query --external`, or `external=True`, lets a query read and write files"
            raise UsageError(f"the query may not do this: {str(error).strip()}", help=help) from error
        except duckdb.Error as error:
            raise UsageError(f"the query fails: {str(error).strip()}", help=_HELP) from error
    if result is None:
        raise UsageError("the query has no result", help="begin it with select")
    return _plain(result)


def _interruptible(connection: Any, query: str) -> Any:
    """Return the result of a query as an Arrow table, or None. A signal to this process ends the query at once."""
    from concurrent.futures import ThreadPoolExecutor, wait

    def run() -> Any:
        relation = connection.sql(query)
        return None if relation is None else relation.to_arrow_table()

    with ThreadPoolExecutor(1) as executor:
        found = executor.submit(run)
        try:
            while not wait([found], _TICK_S).done:
                pass
        except BaseException:
            connection.interrupt()
            while not wait([found], _TICK_S).done:  # what had not begun was not interrupted
                connection.interrupt()
            raise
        return found.result()


def _plain(table: pa.Table) -> pa.Table:
    """Return a result without dictionaries and decimals."""
    import pyarrow as pa

    columns = [_plain_column(column) for column in table.columns]
    return pa.Table.from_arrays(columns, names=_distinct(table.column_names))


def _plain_column(column: pa.ChunkedArray) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type):
        whole = column.type.scale == 0
        try:
            return column.cast(pa.int64() if whole else pa.float64())
        except pa.ArrowInvalid:  # more than 63 bits
            return column.cast(pa.float64())
    return column


def _distinct(names: list[str]) -> list[str]:
    """Return names of which no two are equal: `run`, `run_2`, as DuckDB names them in a subquery."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    counts: dict[str, int] = {}
    distinct = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        again = f"{name}_{counts[name]}"
        distinct.append(name if counts[name] == 1 or again in seen else again)
    return distinct
