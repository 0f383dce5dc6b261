"""A batch of logs appears as a whole or not at all, with notes of where its logs came from and when."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from support.stores import rows

from perflog.errors import StoreError, UsageError
from perflog.tables.store import writer
from perflog.tables.store.commits import LocalStore
from perflog.tables.store.folder import batch_name
from perflog.tables.store.runs_footer import Origin
from perflog.tables.store.writer import BatchWriter, utc_now

A, B, C = (letter * 16 for letter in "abc")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def fill(store: LocalStore, *logs: str, **attributes: object) -> None:
    with BatchWriter(store, logs) as out:
        for name, value in attributes.items():
            setattr(out, name, value)
        for log in logs:
            out.add("runs", rows("runs", f"{log}-1", 1))


def test_rows_are_tables_or_batches_of_rows_and_logs_may_be_known_at_the_end(store: LocalStore) -> None:
    logs: list[str] = []
    with BatchWriter(store, lambda: logs) as out:
        out.add("steps", rows("steps", f"{A}-1", 2))
        out.reset()
        out.add("steps", rows("steps", f"{A}-1", 3).to_batches())
        out.add_logs("runs", pa.concat_tables([rows("runs", f"{log}-1", 1) for log in (A, B)]))
        logs += [A, B]
    assert sorted(files_of(store)) == [f"{table}/{batch_name([A, B])}.parquet" for table in ("runs", "steps")]
    assert store.logs_of(batch_name([A, B])) == (A, B)


def files_of(store: LocalStore) -> list[str]:
    return [path.relative_to(store.path).as_posix() for path in store.path.glob("*/*.parquet")]


def test_nothing_is_stored_after_an_error_or_without_runs(store: LocalStore) -> None:
    def put(table: str, count: int, failure: BaseException | None = None) -> None:
        with BatchWriter(store, [A]) as out:
            out.add(table, rows("runs", f"{A}-1", count))
            if failure:
                raise failure

    for failure in (RuntimeError(), KeyboardInterrupt()):
        with pytest.raises(type(failure)):
            put("runs", 1, failure)
    with pytest.raises(StoreError, match="nothing to store: the log has no runs"):
        put("runs", 0)
    with pytest.raises(UsageError, match="there is no table 'stairs'"):
        put("stairs", 1)
    assert files_of(store) == [] and list(store.drafts.iterdir()) == []


def test_a_log_keeps_its_date_and_provenance_and_gets_new_tags(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = iter(["2026-01-01", "2026-01-02", "2026-01-03"])
    monkeypatch.setattr(writer, "utc_now", lambda: next(days))
    origin = Origin(("run.log",), 7)
    fill(store, A, B, provenance={"commit": "1"}, origins={A: origin})
    fill(store, B, C, provenance={"commit": "2"}, tags={"kind": "test"})
    notes = store.notes()
    assert notes.ingested == {A: "2026-01-01", B: "2026-01-01", C: "2026-01-02"}
    assert notes.provenance == {
        A: {"commit": "1"}, B: {"commit": "1", "kind": "test"}, C: {"commit": "2", "kind": "test"},
    }  # fmt: skip
    assert notes.origins == {A: origin}


def test_earlier_states_leave_with_the_same_commit(store: LocalStore) -> None:
    fill(store, A, B)
    fill(store, C, earlier={A})
    assert sorted(store.readable_logs()) == [B, C]


def test_each_so_many_batches_are_merged(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_MANY_BATCHES", 3)
    for log, number in ((A, 1), (B, 2), (C, 1), ("d" * 16, 2), ("e" * 16, 1)):
        fill(store, log)
        assert len(store.batches()) == number


def test_the_time_of_a_log_has_milliseconds() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", utc_now())
