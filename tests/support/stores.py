"""Rows for stores, and what must be true of a store whatever happened to it."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perflog.tables.parquet import SEAL, footer_crc, seal
from perflog.tables.schema import TABLES, arrow_schema
from perflog.tables.store import Store

FILLER = {"int64": 7, "int32": 3, "float64": 0.1, "text": "some text", "word": "word"}


def rows(table: str, run: str, count: int, **columns: Any) -> pa.Table:
    """Rows of a table. Every other nullable cell is null; columns take one value for all rows."""
    made = [
        {c.name: None if c.nullable and i % 2 else FILLER[c.type] for c in TABLES[table]}
        | {"run": run, "line": 10 + i}
        | columns
        for i in range(count)
    ]
    return pa.Table.from_pylist(made, arrow_schema(table))


def rewrite(store: Store, name: str, batch: str, table: pa.Table, version: int) -> None:
    """Write the file of a table of a batch anew, without statistics, and list it in the runs file of the batch."""
    runs = store.path / "runs" / f"{batch}.parquet"
    other = store.path / name / runs.name
    runs_rows, texts = pq.ParquetFile(runs).read(), dict(pq.read_metadata(runs).metadata)
    _write(other, table, {"schema_version": str(version)})
    if other != runs:
        texts[b"files"] = json.dumps({**json.loads(texts[b"files"]), name: footer_crc(other)}).encode()
        _write(runs, runs_rows, texts | {b"footer_crc": SEAL["footer_crc"].encode()})
        seal(runs)


def _write(path: Path, table: pa.Table, texts: dict[Any, Any]) -> None:
    with pq.ParquetWriter(path, table.schema, store_schema=False, write_statistics=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(texts)


def files(store: Store) -> dict[str, bytes]:
    return {str(p.relative_to(store.path)): p.read_bytes() for p in sorted(store.path.glob("*/*.parquet"))}


def check_whole(store: Store, tables: Collection[str] = tuple(TABLES)) -> None:
    """Each run has the rows that its runs row announces, and no other rows are shown in these tables."""
    found = {name: store.table(name)["run"].to_pylist() for name in tables}
    for row in store.table("runs").to_pylist():
        counts = {"runs": 1} | eval(row["config"])
        assert {name: n for name in tables if (n := found[name].count(row["run"]))} == counts
    assert {run for name in tables for run in found[name]} == set(found["runs"])
