"""SQL over the tables of logs, through DuckDB."""

from __future__ import annotations

import re
import threading
import time
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
_STARTS_S = 2.0  # until a thread has begun, on a busy machine


def run_query(
    query: str,
    fetch: Callable[[str], pa.Table],
    external: bool = False,
    most: int | None = None,
    memory: str | None = None,
) -> pa.Table:
    """Return the result of an SQL query.

    Args:
        query: SQL as DuckDB understands it. A table is not read if its name does not occur in it.
        fetch: Returns the view of a name out of `VIEWS`.
        external: Whether the query may read and write files.
        most: Number of rows that are fetched of the result; by default all.
        memory: How much memory the query may use, such as "2GB"; by default what DuckDB takes.

    Returns:
        One column per column of the result, in types that pandas knows: a sum of integers is an integer, another
        decimal number a float.

    Raises:
        UsageError: The query is wrong or has no result.
    """
    import duckdb

    named = set(re.findall(r"\w+", query.lower()))
    with duckdb.connect(config=_OPTIONS) as connection:
        for name in VIEWS:
            if name in named:
                connection.register(name, fetch(name))
        if memory is not None:
            connection.execute("SET memory_limit = ?", [memory])
        for name, value in () if external else _CLOSED.items():
            connection.execute(f"SET {name} = {value}")
        try:
            result = _interruptible(connection, query, most)
        except duckdb.PermissionException as error:
            help = "`perflog query --external`, or `external=True`, lets a query read and write files"
            raise UsageError(f"the query may not do this: {str(error).strip()}", help=help) from error
        except duckdb.Error as error:
            raise UsageError(f"the query fails: {str(error).strip()}", help=_HELP) from error
    if result is None:
        raise UsageError("the query has no result", help="begin the query with select")
    return _plain(result)


def _interruptible(connection: Any, query: str, most: int | None = None) -> Any:
    """Return the result of a query as an Arrow table, or None. A signal to this process ends the query at once.

    `Thread.join` is not asked: a signal in it lets Python 3.11 take a running thread for an ended one.
    """
    found, errors, is_over = list[Any](), list[BaseException](), threading.Event()

    def result() -> Any:
        relation = connection.sql(query)
        if relation is not None and most is not None:
            relation = relation.limit(most)
        return None if relation is None else relation.to_arrow_table()

    def run() -> None:
        try:
            found.append(result())
        except BaseException as error:  # noqa: BLE001  # who waits raises it
            errors.append(error)
        finally:
            is_over.set()

    thread = threading.Thread(target=run, daemon=True)
    try:
        thread.start()
        while not is_over.wait(_TICK_S):
            pass
    except BaseException:
        latest = time.monotonic() + _STARTS_S
        while not is_over.is_set() and (thread.ident is not None or time.monotonic() < latest):
            connection.interrupt()  # again and again: what has not begun is not interrupted
            time.sleep(_TICK_S)
        raise
    if errors:
        raise errors[0]
    return found[0]


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
    """Return names that differ: `run`, `run_2`, as DuckDB names them in a subquery."""
    counts: dict[str, int] = {}
    distinct = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        again = f"{name}_{counts[name]}"
        distinct.append(name if counts[name] == 1 or again in names else again)
    return distinct
