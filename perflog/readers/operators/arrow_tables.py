"""Parquet and Arrow files with known columns: the operations of all ranks of a job, summed up by its profiler.

Each row is an operation (compute, send, collective, optimizer) of a data-parallel rank and pipeline stage in a profiled
step. A file `meta-NAME.yaml` beside `trace-NAME.parquet` is part of it: it has the parallel sizes of the job.
Source: the traces of "Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perflog.arrays import Floats
from perflog.errors import InputError, UnknownTableError
from perflog.parsing.input.source import Source
from perflog.readers.companions import settings_beside
from perflog.readers.events.event_columns import KIND_CODE, KINDS
from perflog.readers.events.event_table import EventAccount, RunWriter
from perflog.readers.events.spill_file import decompressed_path
from perflog.readers.interface import Reader, ReadOptions
from perflog.tables.arrow import null_array, number_array, repeated_word, storable, word_array
from perflog.tables.schema import arrow_schema
from perflog.tables.sink import IngestResult, Sink
from perflog.units import first_few

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET, ARROW = b"PAR1", b"ARROW1"

_NEEDED = ("dp_rank", "stage", "step", "optype", "start_ts", "duration")
_INTEGERS = {
    "dp_rank": "dp_rank", "stage": "stage", "rank": "rank", "step": "step", "seq_id": "seq", "mc": "chunk",
    "mb_id": "micro_batch",
}  # fmt: skip
"""Columns of whole numbers, and the columns of table `events` that hold them. Below 0 they are not known."""
_TIMES = {"start_ts": "start_ns", "duration": "duration_ns"}
_GLOBAL_CHUNK = "gmc"
_FOLLOWS = "it is the chunk times the number of stages, and the stage"
_LARGEST = 1 << 32  # bytes of a table, which is in memory as a whole
_LONGEST_S = 4e9  # a start and a duration up to this fit into the nanoseconds of a column
_NAMED = 12  # columns in an error


class ArrowTableReader(Reader):
    """Reads Parquet and Arrow files of a known schema; of others it says which columns they have."""

    name = "operations"
    title = "operations of all ranks of a job in profiled steps, as a table"
    source = "traces of StragglerAnalysis (trace-*.parquet, with meta-*.yaml), and tables of the same columns"

    def detect(self, source: Source) -> bool:
        """Return whether the file is a Parquet or Arrow file: one of an unknown schema has no other reader."""
        return source.first_bytes(len(ARROW)).startswith((PARQUET, ARROW))

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return the columns of the table."""
        with _opened(source) as (schema, _):
            _check(schema, source)
            return [(1, "columns", ", ".join(schema.names))]

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read the operations of a job into a sink."""
        with _opened(source) as (schema, read):
            _check(schema, source)
            if source.size() > _LARGEST:
                raise InputError(f"more than {_LARGEST >> 30} GiB of operations", source.name, "read some of its steps")
            table = read()
        operations = _Operations(table, source.name)
        meta = settings_beside(source.name)
        account = EventAccount()
        with RunWriter(source.name, source.digest(), self.name, sink) as writer:
            writer.write_events(operations.events(writer.run, account))
            writer.write_dicts("steps", [{"run": writer.run, "part": 0} | row for row in operations.steps()])
            operations.count_figures(account)
            writer.write_account(0, account)
            label = options.label_of(1) or meta.get("trial_name")
            ingested = writer.write_run(
                None if label is None else str(label), table.num_rows, {"clock": "step"} | operations.sizes | meta,
                world_size=meta.get("world_size"),
            )  # fmt: skip
        options.done(source)
        return ingested


class _Operations:
    """The rows of a table that have what an operation needs, as numpy columns.

    `sizes`: the numbers of data-parallel ranks, stages and model chunks that have operations.
    """

    def __init__(self, table: pa.Table, name: str) -> None:
        self._table = table
        known = np.ones(table.num_rows, np.bool_)
        columns: dict[str, npt.NDArray[Any]] = {}
        for column in (*_INTEGERS, *_TIMES):
            if column in table.column_names:
                numbers = _numbers(table[column], name)
                is_known = np.isfinite(numbers) & (np.abs(numbers) < (_LONGEST_S if column in _TIMES else 1 << 62))
                if column in _NEEDED:
                    known &= is_known & ((numbers >= 0) | (column == "start_ts"))
                columns[column] = np.where(is_known, numbers, -1)
        kinds = table["optype"].combine_chunks().dictionary_encode() if _is_text(table["optype"]) else table["optype"]
        kinds = kinds.combine_chunks() if hasattr(kinds, "combine_chunks") else kinds
        known &= np.array(kinds.is_valid())
        self.rows = np.flatnonzero(known)
        if not len(self.rows):
            raise InputError("no row of this table is an operation", name, "check its step, duration and start_ts")
        self._kinds = np.array(kinds.indices.fill_null(0))[self.rows]
        self._names = [storable(str(text)) for text in kinds.dictionary.to_pylist()]
        self._columns = {column: numbers[self.rows] for column, numbers in columns.items()}
        self.sizes = {
            size: int(self._columns[column].max()) + 1
            for column, size in (("dp_rank", "dp_size"), ("stage", "pp_size"), ("mc", "vpp_size"))
            if column in self._columns and (self._columns[column] >= 0).any()
        }

    def events(self, run: str, account: EventAccount) -> pa.Table:
        """Return rows of table `events`. Times count from the start of the step."""
        import pyarrow as pa

        count = len(self.rows)
        arrays = {
            "run": repeated_word(0, (run,), count),
            "line": number_array(self.rows + 1),
            "part": number_array(np.zeros(count, np.int32)),
            "kind": word_array(np.full(count, KIND_CODE["operation"]), KINDS),
            "name": word_array(self._kinds, self._names),
        }
        for column, target in _INTEGERS.items():
            if column in self._columns:
                numbers = self._columns[column]
                dtype = np.int64 if target in ("step", "seq") else np.int32
                inside = (numbers >= 0) & (numbers <= np.iinfo(dtype).max)
                arrays[target] = number_array(np.where(inside, numbers, 0).astype(dtype), inside)
        if "rank" in arrays:
            arrays["rank_by"] = word_array(np.where(self._columns["rank"] >= 0, 0, -1), ("printed",))
        for column, target in _TIMES.items():
            arrays[target] = number_array(np.rint(self._columns[column] * 1e9).astype(np.int64))
        for code, name in enumerate(self._names):
            account.add_places("read", name, self.rows[self._kinds == code] + 1)
        unread = np.setdiff1d(np.arange(self._table.num_rows), self.rows)
        account.add_places("unread", "row that is no operation", unread + 1)
        schema = arrow_schema("events")
        return pa.Table.from_arrays(
            [arrays[c.name] if c.name in arrays else null_array(c.type, count) for c in schema], schema=schema
        )

    def steps(self) -> Iterator[dict[str, object]]:
        """Give a row of table `steps` for each step: from the start of its first operation to the end of its last."""
        steps, first = np.unique(self._columns["step"], return_index=True)
        index = np.searchsorted(steps, self._columns["step"])
        starts, ends = np.full(len(steps), np.inf), np.full(len(steps), -np.inf)
        np.minimum.at(starts, index, self._columns["start_ts"])
        np.maximum.at(ends, index, self._columns["start_ts"] + self._columns["duration"])
        for step, row, time in zip(steps, first, ends - starts, strict=True):
            yield {
                "line": int(self.rows[row]) + 1, "step": int(step), "copy": 1, "steps_averaged": 1,
                "step_time_s": float(time),
            }  # fmt: skip

    def count_figures(self, account: EventAccount) -> None:
        """Count the figures of each column."""
        for column in self._table.column_names:
            if column == "optype":
                continue
            count = len(self.rows)
            if column in _INTEGERS or column in _TIMES:
                account.figures_of("operations", 1).stored += count
            elif column == _GLOBAL_CHUNK and self._global_chunk_follows():
                account.figures_of(column, 1, because=_FOLLOWS).dropped += count
            else:
                account.figures_of(column, 1).unread += count * _is_number(self._table[column])

    def _global_chunk_follows(self) -> bool:
        if "mc" not in self._columns:
            return False
        chunk, stage = self._columns["mc"], self._columns["stage"]
        printed = _numbers(self._table[_GLOBAL_CHUNK], "")[self.rows]
        known = (chunk >= 0) & (printed >= 0)
        return bool((printed[known] == (chunk * self.sizes["pp_size"] + stage)[known]).all())


@contextmanager
def _opened(source: Source) -> Iterator[tuple[pa.Schema, Any]]:
    """Give the schema of a file, which costs little, and a function that reads its table."""
    import pyarrow as pa
    from pyarrow import ipc, parquet

    with decompressed_path(source) as path:
        try:
            if _kind(source) == "a Parquet":
                with parquet.ParquetFile(path) as file:
                    yield file.schema_arrow, file.read
            else:
                with pa.memory_map(path) as mapped:
                    opened = ipc.open_file(mapped)
                    yield opened.schema, opened.read_all
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{_kind(source)} file that cannot be read: {error}", source.name, "copy it again"
            ) from error


def _kind(source: Source) -> str:
    return "a Parquet" if source.first_bytes(len(PARQUET)) == PARQUET else "an Arrow"


def _check(schema: pa.Schema, source: Source) -> None:
    """Raise UnknownTableError for a table of other columns."""
    names = schema.names
    if set(_NEEDED).issubset(names):
        return
    if b"schema_version" in (schema.metadata or {}):
        raise UnknownTableError(
            "this is a table of a perflog store", source.name, "name the store: the folder of these tables"
        )
    raise UnknownTableError(
        f"{_kind(source)} file of columns that perflog does not know: {first_few(names, _NAMED)}",
        source.name,
        "its columns are a table already: pandas, polars and DuckDB read it",
    )


def _numbers(column: pa.ChunkedArray, name: str) -> Floats:
    """Return the numbers of a column; NaN where there is none."""
    import pyarrow as pa

    try:
        return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
    except pa.ArrowException as error:
        raise InputError(f"a numeric column has other values: {error}", name, "write numbers in it") from error


def _is_number(column: pa.ChunkedArray) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(column.type) or pa.types.is_floating(column.type))


def _is_text(column: pa.ChunkedArray) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))
