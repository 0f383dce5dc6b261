"""SQL over tables: what a query may read, what its result holds, and what is wrong with one."""

from __future__ import annotations

import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from perflog.errors import UsageError
from perflog.tables import sql
from perflog.tables.sql import VIEWS, _distinct, _interruptible, _plain, run_query


def query(text: str, **options: Any) -> list[dict[str, Any]]:
    """The rows of a query over tables of which each holds its own name and the numbers 1 to 3."""

    def fetch(name: str) -> pa.Table:
        return pa.table({"name": [name] * 3, "number": [1, 2, 3]})

    rows: list[dict[str, Any]] = run_query(text, fetch, **options).to_pylist()
    return rows


def test_only_tables_that_a_query_names_are_read() -> None:
    fetched: list[str] = []

    def fetch(name: str) -> pa.Table:
        fetched.append(name)
        return pa.table({"a": [1]})

    run_query("SELECT * FROM STEPS, settings WHERE 'phases_' <> ''", fetch)
    assert sorted(fetched) == ["settings", "steps"]
    assert {*VIEWS} > {"runs", "steps", "settings"}


def test_rows_of_a_result() -> None:
    assert query("SELECT sum(number) AS total FROM steps") == [{"total": 6}]
    assert [row["number"] for row in query("SELECT * FROM steps", most=2)] == [1, 2]
    assert query("SELECT 1 AS a", memory="100MB") == [{"a": 1}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT", "the query fails"), ("SELECT * FROM nothing", "the query fails"),
        ("-- only words", "the query has no result"), ("", "the query has no result"),
        ("SELECT * FROM read_csv('/etc/passwd')", "the query may not do this"),
        ("SET enable_external_access = true", "the query"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_query(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        query(text)


def test_a_query_reads_files_only_if_it_may(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    assert query(f"SELECT x FROM '{tmp_path}/a.csv'", external=True) == [{"x": 1}]


def test_an_error_in_memory_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="the query fails"):
        query("SELECT list(i) FROM range(9000000) r(i)", memory="1MB")


@pytest.mark.parametrize(
    ("names", "distinct"),
    [
        (["run", "step"], ["run", "step"]), (["run", "run", "run"], ["run", "run_2", "run_3"]),
        (["run", "run", "run_2"], ["run", "run", "run_2"]), ([], []),
    ],
)  # fmt: skip
def test_names_of_columns_differ(names: list[str], distinct: list[str]) -> None:
    assert _distinct(names) == distinct


def test_columns_have_types_that_pandas_knows() -> None:
    table = pa.Table.from_arrays(
        [
            pa.chunked_array([pa.array(["a", None]).dictionary_encode()]),
            pa.chunked_array([pa.array([Decimal(7), None], pa.decimal128(38, 0))]),
            pa.chunked_array([pa.array([Decimal("0.25"), None], pa.decimal128(10, 2))]),
            pa.chunked_array([pa.array([Decimal(2**70), None], pa.decimal128(38, 0))]),
            pa.chunked_array([pa.array([Decimal("2.00"), None], pa.decimal128(10, 2))]),
            pa.chunked_array([pa.array([1, None])]),
        ],
        ["word", "whole", "part", "large", "two", "same"],
    )
    plain = _plain(table)
    assert plain.schema.types == [pa.string(), pa.int64(), pa.float64(), pa.float64(), pa.float64(), pa.int64()]
    first = {"word": "a", "whole": 7, "part": 0.25, "large": float(2**70), "two": 2.0, "same": 1}
    assert plain.to_pylist()[0] == first
    assert set(plain.to_pylist()[1].values()) == {None}


def test_a_signal_ends_a_query_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Connection:
        """A query that ends when it is interrupted for the second time."""

        def __init__(self) -> None:
            self.interrupts, self.ended = 0, threading.Event()

        def sql(self, text: str) -> None:
            assert self.ended.wait(5)

        def interrupt(self) -> None:
            self.interrupts += 1
            if self.interrupts == 2:
                self.ended.set()

    class Over(threading.Event):
        """What is waited for: a signal comes meanwhile."""

        def wait(self, timeout: float | None = None) -> bool:
            raise KeyboardInterrupt

    connection = Connection()
    monkeypatch.setattr(sql, "_TICK_S", 0.001)
    monkeypatch.setattr(sql, "threading", SimpleNamespace(Event=Over, Thread=threading.Thread))
    with pytest.raises(KeyboardInterrupt):
        _interruptible(connection, "SELECT 1")
    assert connection.interrupts >= 2


def test_duckdb_reports_no_leaks_at_the_end_of_a_process() -> None:
    code = "import duckdb, perflog.ingestion.memory as memory; memory.keep_freed(); duckdb.connect().sql('select 1')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
