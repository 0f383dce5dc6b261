"""One table in one Parquet file: how it is laid out, and how it is read back."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perflog.errors import StoreError, UsageError
from perflog.tables.schema import SCHEMA_VERSION, TABLES, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

MEND = "ingest that log again: it replaces the file"

_FULL = ("the disk is full", "free some space or store elsewhere; the store is as it was")

_DENIED = ("permission denied", "change the permissions or use another folder for the store")

_NO_FOLDER = ("a file is in the way", "a store is a folder: use another path")

_NO_LOCKS = ("this file system has no file locks", "use a folder on another file system for the store")

_CAUSES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _FULL),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _DENIED),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST, errno.EISDIR), _NO_FOLDER),
    **dict.fromkeys((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP), _NO_LOCKS),
}


@contextmanager
def explained(where: Path) -> Iterator[None]:
    """Turn an error of the system into a StoreError."""
    try:
        yield
    except OSError as error:
        reason, help = _CAUSES.get(error.errno or 0, (error.strerror or str(error), ""))
        raise StoreError(reason, str(where), help) from error


def checked(table: str) -> str:
    """A table's name, if there is such a table."""
    if table not in TABLES:
        raise UsageError(f"there is no table {table!r}", help=f"the tables: {', '.join(TABLES)}")
    return table


@cache
def layout(table: str) -> dict[str, Any]:
    """How a table is written, by measurement: 1.5 x as fast as zstd with plain floats."""
    kinds = {c.name: c.type for c in TABLES[table]}
    encodings = {"int64": "DELTA_BINARY_PACKED", "int32": "DELTA_BINARY_PACKED", "float64": "BYTE_STREAM_SPLIT"}
    # Small counts that are never null are almost always 0 or 1: lz4 makes nothing of them, sooner than DELTA does.
    encoded = {
        c.name: "PLAIN" if (c.type, c.nullable) == ("int32", False) else encodings[c.type]
        for c in TABLES[table]
        if c.type in encodings
    }
    return {
        "use_dictionary": [name for name, kind in kinds.items() if kind == "word"],
        "column_encoding": encoded,
        # Text is little and shrinks well; numbers are many, and after their encoding lz4 is as small as zstd.
        "compression": {name: "zstd" if kind == "text" else "lz4" for name, kind in kinds.items()},
        "write_batch_size": 262144,
        "write_statistics": [name for name in ("run", "line", "step") if name in kinds],  # what readers filter by
        "store_schema": False,  # else pandas reads words as categories, polars as enums
    }


def _migrate(version: int, name: str, table: pa.Table) -> pa.Table:
    """Bring a table of schema `version` to this one: columns it lacks are null, others are cast."""
    import pyarrow as pa

    columns = []
    for field in arrow_schema(name):
        if field.name in table.column_names:
            column = table[field.name]
            words = pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(column.type)
            columns.append((column.dictionary_encode() if words else column).cast(field.type))
        elif field.nullable:
            columns.append(pa.nulls(table.num_rows, field.type))
        else:
            raise pa.ArrowInvalid(f"no column {field.name} (schema {version})")
    return pa.Table.from_arrays(columns, schema=arrow_schema(name))


def load(path: Path, name: str, runs: Sequence[str] | None) -> pa.Table:
    """Read one file. Row groups whose statistics rule the runs out are skipped."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with pa.OSFile(str(path)) as source:
        footer = pq.read_metadata(source)
        version = int((footer.metadata or {}).get(b"schema_version", 0))
        if version > SCHEMA_VERSION:
            raise StoreError("written by a newer perflog", str(path), "update perflog, or ingest into another store")
        if version < 1:
            raise pa.ArrowInvalid("not written by perflog")
        have = set(footer.schema.names)
        words = [c.name for c in TABLES[name] if c.type == "word" and c.name in have]
        file = pq.ParquetFile(source, metadata=footer, read_dictionary=words)
        columns = [c.name for c in TABLES[name] if c.name in have]
        if runs is None:
            return _migrate(version, name, file.read(columns))
        groups = [i for i in range(footer.num_row_groups) if _may_hold(footer.row_group(i), runs)]
        table = _migrate(version, name, file.read_row_groups(groups, columns))
        names = pa.lib.StringBuilder()  # pa.array() imports pandas
        names.append_values(list(runs))
        return table.filter(pc.is_in(table["run"], value_set=names.finish()))


def _may_hold(group: Any, runs: Sequence[str]) -> bool:
    stats = group.column(0).statistics  # `run` is the first column of every table
    return stats is None or not stats.has_min_max or any(stats.min <= run <= stats.max for run in runs)
