"""A Parquet file with one table of some logs: the encodings of its columns, its checksums, and the reading of it.

In: an Arrow table in the columns of the schema. Out: the same.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from perflog.errors import StoreError
from perflog.tables.schema import SCHEMA_VERSION, TABLES, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from perflog.tables.arrow import Where

_LARGE = 1 << 20  # bytes of a file from which on several threads read its columns faster than one
_BATCH = 1 << 17  # rows
_FILTERED = ("run", "line", "part", "step")
"""Columns by which readers leave out row groups."""
_MANY_PARTS = 1 << 16
_FEW_ROWS = 1 << 14
"""Fewer rows are checked for words that are not there.

The header of a page, which states how many words it has, has no checksum. Of a large file the headers are a tiny part,
and to look at all rows would take a tenth of the time of reading.
"""


@cache
def writer_options(table: str) -> dict[str, Any]:
    """Return the options of pyarrow's ParquetWriter for a table, chosen by measurement.

    They are 1.5 times as fast as zstd with plain floats.
    """
    types = {c.name: c.type for c in TABLES[table]}
    encodings = {"int64": "DELTA_BINARY_PACKED", "int32": "DELTA_BINARY_PACKED", "float64": "BYTE_STREAM_SPLIT"}
    # Small counts that are never null are almost always 0 or 1: lz4 shrinks them to nothing, and faster than DELTA.
    encoded = {
        c.name: "PLAIN" if (c.type, c.nullable) == ("int32", False) else encodings[c.type]
        for c in TABLES[table]
        if c.type in encodings
    }
    return {
        "use_dictionary": [name for name, column_type in types.items() if column_type == "word"],
        "column_encoding": encoded,
        # There are few strings, and they compress well. There are many numbers; once encoded, lz4 is as small as zstd.
        "compression": {name: "zstd" if column_type == "text" else "lz4" for name, column_type in types.items()},
        "write_batch_size": 262144,
        "write_page_checksum": True,  # a flipped bit is damage, not another value
        "write_statistics": [name for name in _FILTERED if name in types],
        "store_schema": False,  # else pandas reads words as categories, polars as enums
    }


NO_FOOTER = -1
"""The CRC of no footer."""

SEAL = {"footer_crc": "0" * 8}
"""The string in a footer that `seal` sets."""

_SEAL = next(iter(SEAL)).encode()
_SEALED = _SEAL + b"\x18\x08"  # before its 8 digits, as Thrift writes the length of a string
_OTHER_COLUMNS = "its columns do not match its schema"
_ENDING = 8  # bytes after the footer: its size, and a mark


class DamagedError(StoreError):
    """A file of a store that is damaged."""


def _damaged(path: Path, reason: object) -> DamagedError:
    return DamagedError(f"damaged: {reason}", str(path), "ingest the logs in it again: that replaces it")


def missing(path: Path) -> DamagedError:
    """Return the error that a file of a batch is missing."""
    return _damaged(path, "the batch lists this file, and it is missing")


def leads_nowhere(path: str | Path) -> bool:
    """Return whether a path is a link to nothing, or one of a loop of links."""
    return os.path.islink(path) and not os.path.exists(path)


@contextmanager
def damage_of(path: Path) -> Iterator[None]:
    """Turn an error of Arrow, or of a string in the footer, into a DamagedError. Errors of the system stay."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        raise _damaged(path, error) from error


def read_table(
    path: Path,
    name: str,
    crc: int | None = None,
    runs: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    where: Where | None = None,
) -> pa.Table:
    """Return rows of one file.

    Args:
        path: The file.
        name: Name of its table.
        crc: The CRC of its footer, if known.
        runs: Runs whose rows are returned; None: all. Row groups without these runs are skipped.
        columns: Columns to return, `run` among them; None: all.
        where: Condition on the rows. The file is then read in batches, so that rows that fail it take no memory.

    Raises:
        StoreError: The file has another schema.
        DamagedError: The file is damaged.
        OSError: The file cannot be opened.
    """
    with damage_of(path), _opened(path) as source:
        file = _open(source, path, name, crc)
        if where is not None:
            return _where(file, name, runs, columns, where)
        wanted, groups = columns or arrow_schema(name).names, _groups(file, runs)
        rows = file.read_row_groups(groups, wanted, use_threads=source.size() > _LARGE)
        _check_rows(file, groups, rows.num_rows)
        table = _in_schema(name, rows, wanted)
        if runs is None:
            return table
        import pyarrow as pa
        import pyarrow.compute as pc  # takes longer than listing a store

        run_ids = pa.lib.StringBuilder()  # pa.array() imports pandas
        run_ids.append_values(list(runs))
        return table.filter(pc.is_in(table["run"], value_set=run_ids.finish()))


def stored_row_counts(path: Path, name: str, crc: int | None = None) -> dict[str, dict[int, int]]:
    """Return the number of rows in a file by run and part. Only row groups of several parts are read for it.

    Raises:
        StoreError, DamagedError, OSError: As `read_table` does.
    """
    from perflog.tables.arrow import row_counts

    counts: dict[str, dict[int, int]] = {}
    mixed = []
    with damage_of(path), _opened(path) as source:
        file = _open(source, path, name, crc)
        place = _columns_of(file).index("part")
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number)
            run, part = (group.column(column).statistics for column in (0, place))
            known = all(of is not None and of.has_min_max and of.min == of.max for of in (run, part))
            if known:
                parts = counts.setdefault(run.min, {})
                parts[part.min] = parts.get(part.min, 0) + group.num_rows
            else:
                mixed.append(number)
        mixed_counts = row_counts(_batches(file, mixed, ["run", "part"])) if mixed else {}
    for word, parts in mixed_counts.items():
        known_parts = counts.setdefault(word, {})
        counts[word] = known_parts | {part: rows + known_parts.get(part, 0) for part, rows in parts.items()}
    return counts


def _check_schema(metadata: pq.FileMetaData, path: Path) -> dict[bytes, bytes]:
    """Return the strings in the footer of a file, which must have the number of this schema.

    Raises:
        StoreError: It has another one.
        ArrowInvalid: It has none.
    """
    import pyarrow as pa

    texts: dict[bytes, bytes] = metadata.metadata or {}
    number = texts.get(b"schema_version", b"").decode()
    if not number:
        raise pa.ArrowInvalid("not written by perflog")
    if number != str(SCHEMA_VERSION):
        raise other_schema(number, str(path))
    return texts


def other_schema(number: object, where: str) -> StoreError:
    """Return the error that a store, or a file of it, has a schema of another number."""
    help = "use the perflog that wrote it, or ingest the logs into another store"
    return StoreError(f"it has schema {number}; this perflog reads schema {SCHEMA_VERSION}", where, help)


def _where(
    file: pq.ParquetFile,
    name: str,
    runs: Sequence[str] | None,
    columns: Sequence[str] | None,
    where: Where,
) -> pa.Table:
    """Return the rows of these runs that pass, from a file that is read batch by batch."""
    import pyarrow as pa

    from perflog.tables.arrow import rows_where, with_runs

    columns = columns or arrow_schema(name).names
    tests = where if runs is None else with_runs(where, runs)
    read = list(dict.fromkeys([*columns, *tests]))
    parts = []
    for batch in _batches(file, _groups(file, runs, where), read):
        rows = _in_schema(name, pa.Table.from_batches([batch]), read)
        parts.append(rows_where(rows, tests).select(columns))
    if not parts:
        return pa.Table.from_batches([], arrow_schema(name)).select(columns)  # empty_table() imports pandas
    return pa.concat_tables(parts).unify_dictionaries()


def footer_texts(path: Path) -> dict[str, str]:
    """Return the strings in the footer of a file, by key.

    Raises:
        StoreError: The file has another schema.
        DamagedError: The file is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with damage_of(path), _opened(path) as source:
        texts = _check_schema(pq.read_metadata(source), path)
        if texts.get(_SEAL) != _seal_of(_footer(source)):
            raise pa.ArrowInvalid("a checksum is wrong")
        return {key.decode(): text.decode() for key, text in texts.items()}


def footer_crc(path: Path) -> int:
    """Return the CRC of the footer of a file. The pages of a file have each their own."""
    with _opened(path) as source:
        return crc32(_footer(source))


def seal(path: Path) -> None:
    """Write the CRC of the footer of a file into the footer. No other file lists this file."""
    with _opened(path) as source:
        footer = _footer(source)
        start = source.size() - _ENDING - len(footer)
    with path.open("r+b") as file:
        file.seek(start + footer.index(_SEALED) + len(_SEALED))
        file.write(_seal_of(footer))


def _seal_of(footer: bytes) -> bytes:
    """Return the digits of the CRC of a footer in which they are zeros."""
    before, sealed, after = footer.partition(_SEALED)
    return b"%08x" % crc32(before + sealed + b"0" * 8 + after[8:])


def _footer(source: pa.OSFile) -> bytes:
    """Return the footer of a file; no bytes if there is none."""
    size = source.size()
    length = int.from_bytes(source.read_at(4, size - _ENDING), "little") if size > _ENDING else 0
    footer: bytes = source.read_at(length, size - _ENDING - length) if length < size - _ENDING else b""
    return footer


def _opened(path: Path) -> pa.OSFile:
    """Open a file. A pipe, which would be waited for, a device, and a link that leads nowhere are damage."""
    import pyarrow as pa

    if leads_nowhere(path):
        raise pa.ArrowInvalid("a link to nothing or to itself")
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise pa.ArrowInvalid("no file")
    return pa.OSFile(os.fsencode(path))


def _open(source: pa.OSFile, path: Path, name: str, crc: int | None) -> pq.ParquetFile:
    """Open a file so that its words are read as dictionaries. Its footer must have the CRC, if one is given.

    `pre_buffer` would read all columns before the first is decoded: for files on other machines. Here it costs a
    quarter of the time of a small file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if crc is not None and crc32(_footer(source)) != crc:
        raise pa.ArrowInvalid("it is not the file that its batch lists")
    metadata = pq.read_metadata(source)
    _check_schema(metadata, path)
    words = [c.name for c in TABLES[name] if c.type == "word"]
    options: dict[str, Any] = {"pre_buffer": False, "page_checksum_verification": True}
    try:
        return pq.ParquetFile(source, metadata=metadata, read_dictionary=words, **options)
    except KeyError as error:  # of a word
        raise pa.ArrowInvalid(_OTHER_COLUMNS) from error


def _in_schema(name: str, table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the columns of a file with the units and meanings of the schema."""
    import pyarrow as pa

    for column in table.columns if table.num_rows < _FEW_ROWS else ():
        if pa.types.is_dictionary(column.type):
            column.validate(full=True)
    whole = arrow_schema(name)
    schema = pa.schema([whole.field(column) for column in columns], whole.metadata)
    if not table.schema.equals(schema):
        raise pa.ArrowInvalid(_OTHER_COLUMNS)
    return pa.Table.from_arrays(table.columns, schema=schema)


def _batches(file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of row groups, some at a time."""
    rows = 0
    for batch in file.iter_batches(_BATCH, groups, columns):
        rows += batch.num_rows
        yield batch
    _check_rows(file, groups, rows)


def _check_rows(file: pq.ParquetFile, groups: Sequence[int], rows: int) -> None:
    """Raise ArrowInvalid if row groups gave fewer rows than they have: Arrow skips a page of an unknown type."""
    import pyarrow as pa

    if rows != sum(file.metadata.row_group(number).num_rows for number in groups):
        raise pa.ArrowInvalid("rows are missing")


def _columns_of(file: pq.ParquetFile) -> list[str]:
    """Return the names of the columns. `metadata.schema` has them too, but it and the footer would hold each other.

    They would stay in memory until Python looks for cycles, megabytes for each opening of a large file.
    """
    names: list[str] = file.schema_arrow.names
    return names


def _groups(file: pq.ParquetFile, runs: Sequence[str] | None, where: Where | None = None) -> list[int]:
    """Return the row groups that can hold rows of these runs and parts, by their statistics if they have some."""
    tests: dict[int, Callable[[Any, Any], bool]] = {}
    if runs is not None:
        tests[0] = lambda first, last: any(first <= run <= last for run in runs)  # `run` is the first column
    if where and (passes := where.get("part")):
        part = _columns_of(file).index("part")
        tests[part] = lambda first, last: last - first > _MANY_PARTS or any(map(passes, range(first, last + 1)))

    def may_hold(place: int) -> bool:
        group = file.metadata.row_group(place)
        found = ((group.column(column).statistics, test) for column, test in tests.items())
        return all(of is None or not of.has_min_max or test(of.min, of.max) for of, test in found)

    return list(filter(may_hold, range(file.num_row_groups)))
