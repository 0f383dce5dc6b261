"""Files of a batch while they are written: rows by table, footers, and nothing of what was discarded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perflog.tables.parquet import footer_crc, footer_texts
from perflog.tables.schema import SCHEMA_VERSION, arrow_schema
from perflog.tables.sink import table_from_columns
from perflog.tables.store.batch_files import BatchFiles, rows_of_logs
from perflog.tables.store.runs_footer import LogNotes, RunsFooter


def rows(table: str, *runs: str) -> pa.Table:
    """A row of each of these runs."""
    values: dict[str, list[Any]] = {
        field.name: [None if field.nullable else "x" if pa.types.is_dictionary(field.type) else 0] * len(runs)
        for field in arrow_schema(table)
    }
    values["run"] = list(runs)
    return table_from_columns(table, list(values.values()))


def test_rows_are_written_by_table_and_the_runs_list_the_others(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path)
    files.add("steps", rows("steps"), 2)
    assert "steps" not in files
    files.add("runs", rows("runs", "b-1", "a-1"), 5)
    files.add("steps", rows("steps", "b-1", "b-1", "b-1"), 2)
    files.add("steps", rows("steps", "a-1"), 2)
    assert "steps" in files and "events" not in files
    notes = LogNotes(ingested={"a": "2026-01-01"})
    written = files.finish(["b", "a"], notes)
    assert written == {name: tmp_path / f"{name}.parquet" for name in ("runs", "steps")}
    assert "steps" not in files
    steps = pq.ParquetFile(written["steps"])
    assert [steps.metadata.row_group(k).num_rows for k in range(steps.num_row_groups)] == [2, 1, 1]
    assert steps.read(["run"])["run"].to_pylist() == ["b-1", "b-1", "b-1", "a-1"]
    texts = steps.metadata.metadata
    assert (texts[b"table"], texts[b"schema_version"]) == (b"steps", str(SCHEMA_VERSION).encode())
    footer = RunsFooter.parse(footer_texts(written["runs"]))
    assert footer == RunsFooter(("a", "b"), notes, {"steps": footer_crc(written["steps"])})


def test_a_batch_without_rows_has_no_files(tmp_path: Path) -> None:
    assert BatchFiles(tmp_path).finish([], LogNotes()) == {} and not list(tmp_path.iterdir())


def test_what_was_discarded_is_no_part_of_the_next_files(tmp_path: Path) -> None:
    files = BatchFiles(tmp_path)
    files.add("steps", rows("steps", "a-1"), 2)
    files.discard()
    assert "steps" not in files
    files.add("runs", rows("runs", "b-1"), 2)
    assert list(files.finish(["b"], LogNotes())) == ["runs"]


@pytest.mark.parametrize(
    ("logs", "runs"),
    [(["aa11"], ["aa-1", "aa-2"]), (["bb", "aa22"], ["aa-1", "bb-1", "aa-2"]), (["cc"], []), ([], []), (["a"], [])],
)  # fmt: skip
def test_rows_of_some_logs(logs: list[str], runs: list[str]) -> None:
    assert rows_of_logs(rows("steps", "aa-1", "bb-1", "aa-2"), logs)["run"].to_pylist() == runs
