"""Traces and databases that are damaged in one place: the damage is left out or reported, the rest is read."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perflog
from perflog.errors import InputError, UsageError
from perflog.output import export
from perflog.readers.chrome import scanner as trace_scanner
from perflog.readers.events.event_columns import MISSING, durations_between
from perflog.readers.interface import RankInfo
from perflog.readers.rank_files import runs_of_files


def event(name: Any = "gemm", **fields: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": name, "ts": 1, "dur": 2, "pid": 0, "tid": 7} | fields


def trace(folder: Path, events: str) -> perflog.Log:
    path = folder / "trace.json"
    path.write_text('{"traceEvents": [' + events + "]}")
    return perflog.read(path)


def accounted(log: perflog.Log) -> dict[str, int]:
    lines = log.arrow("lines").to_pylist()
    return {status: sum(x["count"] for x in lines if x["status"] == status) for status in ("read", "unread")}


def test_an_event_that_nests_too_deep_is_unread(tmp_path: Path) -> None:
    deep = json.dumps(event())[:-1] + ', "args": {"x": ' + "[" * 3000 + "]" * 3000 + "}}"
    assert accounted(trace(tmp_path, deep + "," + json.dumps(event()))) == {"read": 1, "unread": 1}


def test_a_file_that_nests_too_deep_before_its_events_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"x": ' + "[" * 30000 + "]" * 30000 + ', "traceEvents": [' + json.dumps(event()) + "]}")
    log = perflog.read(path)
    assert log.arrow("runs")["format"].to_pylist() == ["json_values"] and not len(log.arrow("events"))


def test_a_number_of_a_step_that_no_column_holds_is_no_step(tmp_path: Path) -> None:
    steps = [event(f"ProfilerStep#{n}", cat="user_annotation") for n in ("9" * 20, "7")]
    log = trace(tmp_path, ",".join(map(json.dumps, steps)))
    assert [row["step"] for row in log.arrow("steps").to_pylist()] == [7]


def test_a_duration_beyond_all_numbers_is_unknown(tmp_path: Path) -> None:
    events = [event(), event(dur=1e308), event(dur=10**400)]
    log = trace(tmp_path, ",".join(map(json.dumps, events)))
    assert [row["duration_ns"] for row in log.arrow("events").to_pylist()] == [2000, None, None]


def test_a_begin_and_an_end_may_be_too_far_apart(tmp_path: Path) -> None:
    events = [event(ph=ph, ts=ts) for ph, ts in (("B", -(9 * 10**15)), ("E", 9 * 10**15))]
    log = trace(tmp_path, ",".join(map(json.dumps, events)))
    assert [row["duration_ns"] for row in log.arrow("events").to_pylist()] == [None]


def test_a_start_and_an_end_may_be_too_far_apart() -> None:
    last = (1 << 63) - 1
    start, end = np.array([1, -2, 5, 5, MISSING, 5]), np.array([4, last, MISSING, 2, 5, 5])
    assert durations_between(start, end).tolist() == [3, MISSING, MISSING, -3, MISSING, 0]


def test_names_and_threads_may_be_lists(tmp_path: Path) -> None:
    events = [event("new"), event(["a"], tid=[1]), event({"b": 1})]
    log = trace(tmp_path, ",".join(map(json.dumps, events)))
    assert [row["name"] for row in log.arrow("events").to_pylist()] == ["new", '["a"]', '{"b": 1}']


def test_a_list_of_objects_with_times_is_no_trace_unless_a_phase_is_one_letter(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text(json.dumps([{"id": 1, "ts": 1, "ph": "X-ray"}] * 3))
    log = perflog.read(path)
    assert log.arrow("runs")["format"].to_pylist() == ["json_values"] and not len(log.arrow("events"))


def test_kernels_whose_operators_are_lost_are_judged(tmp_path: Path) -> None:
    """They still name the numbers of these."""
    events = [event(ts=10 * i, args={"External id": i + 1, "device": 0, "stream": 7}) for i in range(5)]
    log = trace(tmp_path, ",".join(map(json.dumps, events)))
    perflog.overview(log)
    assert perflog.lint(log).empty


def test_events_without_times_are_no_trace_to_export(tmp_path: Path) -> None:
    log = trace(tmp_path, json.dumps(event(ts=None)))
    with pytest.raises(UsageError):
        export.perfetto(log, tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("TARGET_INFO_SESSION_START_TIME (utcEpochNs)", [("soon",)]),
        ("TARGET_INFO_GPU (id, name)", [(0, 5), (1, b"\0")]),
        ("META_DATA_EXPORT (name, value)", [(b"\0", "x"), (5, 5), ("KEY", b"\0")]),
        ("META_DATA_CAPTURE (name, value)", [("PROCESS_0:COMMAND", 5), (None, None)]),
    ],
)
def test_what_an_export_says_of_itself_may_be_of_any_type(tmp_path: Path, table: str, rows: list[Any]) -> None:
    path = tmp_path / "export.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end)")
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 9)")
        db.execute(f"CREATE TABLE {table}")
        db.executemany(f"INSERT INTO {table.partition(' ')[0]} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        db.commit()
    assert [row["start_ns"] for row in perflog.read(path).arrow("events").to_pylist()] == [5]


def test_tables_of_an_export_may_be_empty(tmp_path: Path) -> None:
    path = tmp_path / "export.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end)")
    with pytest.raises(InputError, match="no events in this export"):
        perflog.read(path)


@pytest.mark.parametrize(
    ("names", "runs"),
    [
        # Two rounds of two ranks, as a schedule with repeat=2 leaves them; within a round any rank may come first.
        (
            ["h_11.100.pt.json", "h_11.205.pt.json", "h_12.103.pt.json", "h_12.203.pt.json"],
            [["h_11.100.pt.json", "h_12.103.pt.json"], ["h_11.205.pt.json", "h_12.203.pt.json"]],
        ),
        # One rank had its second round before the other had its first: no order is known.
        (
            ["h_11.100.pt.json", "h_11.101.pt.json", "h_12.103.pt.json", "h_12.203.pt.json"],
            [["h_11.100.pt.json"], ["h_11.101.pt.json"], ["h_12.103.pt.json"], ["h_12.203.pt.json"]],
        ),
        # A round lacks a rank.
        (
            ["h_11.100.pt.json", "h_11.205.pt.json", "h_12.103.pt.json"],
            [["h_11.100.pt.json"], ["h_11.205.pt.json"], ["h_12.103.pt.json"]],
        ),
    ],
)
def test_rounds_of_a_profiler_are_runs(names: list[str], runs: list[list[str]]) -> None:
    infos = [RankInfo(int(name.startswith("h_12")), "2") for name in names]
    assert runs_of_files(list(zip(names, infos, strict=True))) == runs


_LONG = {
    "a string": 'a "quoted" } ] \\ [ { text, ' * 9_000,
    "objects": [{"a": "}]", "b": [1, 2]}] * 12_000,
    "events": [{"ph": "X", "name": "inner", "ts": 1, "dur": 1, "pid": 1, "tid": 1}] * 6_000,
}


@pytest.mark.parametrize("value", _LONG)
@pytest.mark.parametrize(
    ("wrapped", "place", "blank"),
    [(True, 0, ""), (True, 0, " "), (True, 50, ""), (True, 100, " "), (False, 50, " "), (False, 100, "")],
)
def test_an_event_that_is_too_long_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, place: int, wrapped: bool, blank: str
) -> None:
    monkeypatch.setattr(trace_scanner, "HEAD", 1 << 15)
    monkeypatch.setattr(trace_scanner, "PIECE", 1 << 15)
    monkeypatch.setattr(trace_scanner, "_MAX_PIECE", 3 << 16)
    events = [{"ph": "X", "name": f"op{k}", "ts": 10 * k, "dur": 5, "pid": 1, "tid": 1} for k in range(100)]
    events.insert(
        place, {"ph": "X", "name": "long", "ts": 0, "dur": 5, "pid": 1, "tid": 1, "args": {"x": _LONG[value]}}
    )
    text = json.dumps({"traceEvents": events, "rank": 0} if wrapped else events, separators=("," + blank, ":" + blank))
    (tmp_path / "trace.json").write_text(text)
    log = perflog.read(tmp_path / "trace.json")
    assert log.arrow("events")["name"].to_pylist() == [f"op{k}" for k in range(100)]
    assert log.line_account == {"total": 101, "read": 100, "context": 0, "unread": 1}
    assert log.warnings == []


def test_a_file_that_ends_in_an_event_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_scanner, "HEAD", 1 << 15)
    monkeypatch.setattr(trace_scanner, "PIECE", 1 << 15)
    monkeypatch.setattr(trace_scanner, "_MAX_PIECE", 3 << 16)
    event = {"ph": "X", "name": "op", "ts": 10, "dur": 5, "pid": 1, "tid": 1}
    text = json.dumps([event, event, {**event, "args": {"x": _LONG["objects"]}}])
    (tmp_path / "trace.json").write_text(text[:-100])
    log = perflog.read(tmp_path / "trace.json")
    assert log.line_account == {"total": 3, "read": 2, "context": 0, "unread": 1}
    assert "is truncated" in log.warnings[0]


def test_one_line_that_is_longer_than_a_chunk_and_ends_in_a_return(tmp_path: Path) -> None:
    """A document that is no trace: its lines go on in the next chunk."""
    (tmp_path / "list.json").write_text(json.dumps([{"x": "y" * (3 << 20)}, {"step": 1, "loss": 2.5}]))
    with pytest.raises(InputError, match="nothing in it is recognised"):
        perflog.read(tmp_path / "list.json")
