"""Tables that a program has in memory as sides of a comparison: each is the log that its CSV would be.

Figures by name are a JSON object.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any, TextIO

from perflog.errors import PerflogError, UsageError
from perflog.files import temporary
from perflog.opening import read

if TYPE_CHECKING:
    import pyarrow as pa

    from perflog.log import Log

_SEVERAL = (list, tuple, Set, Iterator)
_UNNAMED_INDEX = "__index_level_"  # what pandas calls the column of an index without a name


def without_tables(sides: Iterable[object]) -> list[Any]:
    """Return what `compare` takes, with each table replaced by a `Log`: `table 1`, or the name of its side."""
    numbers = itertools.count(1)

    def replaced(given: object, name: str | None = None) -> Any:
        if _is_table(given):
            return _log_of(given, name or f"table {next(numbers)}")
        if isinstance(given, Mapping):
            return {key: replaced(value, key) for key, value in given.items()}
        return [replaced(each, name) for each in given] if isinstance(given, _SEVERAL) else given

    return [replaced(side) for side in sides]


def _is_table(given: object) -> bool:
    """Whether this is a table in memory: one with the Arrow interface, or figures by name."""
    if isinstance(given, Mapping):
        return bool(given) and all(isinstance(name, str) and _is_figure(each) for name, each in given.items())
    return hasattr(given, "__arrow_c_stream__")


def _is_figure(value: object) -> bool:
    """Whether a value is a number, also of numpy, which has its own classes."""
    return not isinstance(value, str | bytes) and hasattr(value, "__float__") and not hasattr(value, "__len__")


def _log_of(given: object, label: str) -> Log:
    path = os.path.join(temporary.folder(), label.replace(os.sep, " "))
    try:
        with open(path, "w", encoding="utf-8", newline="") as file:
            if isinstance(given, Mapping):
                json.dump({name: float(value) for name, value in given.items()}, file)
            else:
                _write_csv(given, file)
        log = read(path, label=label)
        log.name = label
        return log
    except PerflogError as error:
        help = "a table has a row for each step or case, and columns of numbers and strings with names"
        raise UsageError("perflog finds no metric in this table", label, help) from error
    finally:
        if os.path.exists(path):
            os.unlink(path)


def _write_csv(given: Any, file: TextIO) -> None:
    import pyarrow as pa

    if hasattr(given, "reset_index") and any(name is not None for name in given.index.names):
        given = given.reset_index()  # pandas leaves its index out
    table: pa.Table = pa.table(given)
    names = [name for name in table.column_names if not name.startswith(_UNNAMED_INDEX)]
    columns = [table[name].to_pylist() for name in names]
    if len(names) == 1:  # one column is no table
        names, columns = ["row", *names], [list(range(1, len(table) + 1)), *columns]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
