"""The Parquet files of one batch while they are written, and the rows of some of its logs."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perflog.tables.parquet import SEAL, footer_crc, seal, writer_options
from perflog.tables.schema import SCHEMA_VERSION, TABLES, arrow_schema
from perflog.tables.store.runs_footer import LogNotes, RunsFooter

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 1 << 17
"""Rows of a row group of several logs: who asks for one run reads its row groups only."""

_BUFFER = 1 << 14  # bytes that are written at once


class BatchFiles:
    """Parquet files of one batch that are being written, one for each table, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, tuple[Any, Any]] = {}  # writer and file, by table
        self._locks = {table: threading.Lock() for table in TABLES}

    def __contains__(self, table: str) -> bool:
        return table in self._open

    def add(self, table: str, rows: pa.Table, row_group: int) -> None:
        """Append rows to a table, in row groups of so many rows."""
        if rows.num_rows == 0:
            return
        with self._locks[table]:
            if table not in self._open:
                self._open[table] = self._start(table)
            self._open[table][0].write_table(rows, row_group_size=row_group)

    def discard(self) -> None:
        """Forget all rows. No other thread may be writing."""
        for writer, sink in self._open.values():
            writer.is_open = False  # or its destructor writes a footer to the closed file
            with suppress(OSError):
                sink.close()
        self._open = {}

    def finish(self, logs: Sequence[str], notes: LogNotes) -> dict[str, Path]:
        """Write the footers, and return the files by table. `notes`: the notes of the logs."""
        crcs: dict[str, int] = {}
        for table, (writer, sink) in sorted(self._open.items(), key=lambda file: file[0] == "runs"):
            texts = {"schema_version": str(SCHEMA_VERSION), "table": table}
            if table == "runs":
                texts |= RunsFooter(tuple(sorted(logs)), notes, crcs).texts() | SEAL
            writer.add_key_value_metadata(texts)
            writer.close()
            sink.close()
            if table != "runs":
                crcs[table] = footer_crc(self._path(table))
        if self._open:
            seal(self._path("runs"))
        files = {table: self._path(table) for table in self._open}
        self._open = {}
        return files

    def _path(self, table: str) -> Path:
        return self._folder / f"{table}.parquet"

    def _start(self, table: str) -> tuple[Any, Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        # The writer does not own the file: to discard it is to close it. A writer that owns it would write a footer.
        sink = pa.BufferedOutputStream(pa.OSFile(os.fsencode(self._path(table)), "wb"), _BUFFER)
        return pq.ParquetWriter(sink, arrow_schema(table), **writer_options(table)), sink


def rows_of_logs(rows: pa.Table, logs: Sequence[str]) -> pa.Table:
    """Return the rows of some logs. The id of a run begins with the id of its log."""
    import pyarrow.compute as pc

    from perflog.tables.arrow import text_array

    runs = dict.fromkeys(run for part in rows["run"].chunks for run in part.dictionary.to_pylist())
    wanted = [run for run in runs if any(log.startswith(run.rpartition("-")[0]) for log in logs)]
    return rows if len(wanted) == len(runs) else rows.filter(pc.is_in(rows["run"], value_set=text_array(wanted)))
