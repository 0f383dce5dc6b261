"""Traces and CSV: what is exported is what was measured, in a shape that other programs read."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.paths import TESTS

import perflog
from perflog.errors import StoreError, UsageError
from perflog.metrics import Tables
from perflog.output import export
from perflog.output.export.step_timeline import StepTimeline
from perflog.output.terminal import visible

DATA = TESTS / "data"


def one(name: str, index: int = 1) -> perflog.Log:
    return perflog.read(DATA / f"{name}.txt").select(index)


def trace(log: perflog.Log, path: Path) -> list[dict[str, Any]]:
    count = export.perfetto(log, path)
    document = json.loads(path.read_text("utf-8"))
    assert document["displayTimeUnit"] == "ms"
    assert document["otherData"]["run"] == log.run_keys[0].id
    events: list[dict[str, Any]] = document["traceEvents"]
    assert len(events) == count
    return events


def check(events: list[dict[str, Any]]) -> None:
    """The trace event format: each kind of event has its fields, and slices of a thread nest."""
    threads: dict[tuple[int, int], list[tuple[float, float]]] = {}
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    for event in events:
        assert {"ph", "name", "pid", "tid"} <= set(event)
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        if event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0 and event["cat"]
            threads.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
        elif event["ph"] == "C":
            assert all(isinstance(v, float) for v in event["args"].values())
        else:
            assert event["ph"] == "M" and event["name"] in ("process_name", "process_sort_index", "thread_name")
    assert named == set(threads)
    for slices in threads.values():
        ends: list[float] = []
        for begin, length in sorted(slices, key=lambda s: (s[0], -s[1])):
            while ends and ends[-1] <= begin + 1e-3:
                ends.pop()
            assert not ends or begin + length <= ends[-1] + 1e-2  # nanoseconds: rounding of the printed parts
            ends.append(begin + length)


@pytest.mark.parametrize("name", ["moe_layer", "pipeline_layers"])
def test_a_trace_is_well_formed_and_holds_every_time(name: str, tmp_path: Path) -> None:
    log = one(name)
    events = trace(log, tmp_path / "t.json")
    check(events)
    slices = [e for e in events if e["ph"] == "X"]
    tables = Tables(log)
    for table in ("phases", "layers"):
        timed = tables[table][tables[table]["step"].notna()]
        lines = {e["args"]["line"] for e in slices if e["cat"] != "step" and "line" in e["args"]}
        assert set(timed["line"]) <= lines
    times = sum(tables[t].loc[tables[t]["step"].notna(), "time_s"].sum() for t in ("phases", "layers"))
    assert sum(e["dur"] for e in slices if e["cat"] != "step") == pytest.approx(times * 1e6)
    printed = tables["steps"].loc[tables["steps"]["step_time_s"].notna()]
    drawn = [e for e in slices if e["cat"] == "step" and e["name"].startswith("step ")]
    assert sum(e["dur"] for e in drawn) == pytest.approx(printed["step_time_s"].sum() * 1e6)


def test_a_phase_stands_inside_what_it_is_part_of(tmp_path: Path) -> None:
    events = [e for e in trace(one("moe_layer"), tmp_path / "t.json") if e["ph"] == "X"]
    for part, whole in (("gate", "process"), ("exchange", "process"), ("weight_grad", "linear1_backward")):
        for e in (e for e in events if e["name"] == part):
            assert any(
                w["pid"] == e["pid"] and w["tid"] == e["tid"] and w["name"] == whole
                and w["ts"] - 1e-3 <= e["ts"] and e["ts"] + e["dur"] <= w["ts"] + w["dur"] + 1e-2
                for w in events
            )  # fmt: skip


@pytest.mark.parametrize(("printed", "name"), [("0", "0"), (None, "layer")])
def test_layers_may_lack_rank_direction_and_name(printed: str | None, name: str) -> None:
    runs = pd.DataFrame({"run": ["r"]})
    layers = pd.DataFrame({"run": ["r"], "line": [1], "part": [0], "step": [2], "layer": [printed], "time_s": [0.5]})
    (layer, *_) = StepTimeline(Tables({"runs": runs, "layers": layers})).events()
    assert (layer["name"], layer["cat"], layer["dur"], layer["args"]["stage"]) == (name, "layer", 500_000.0, None)


def test_a_trace_may_be_packed(tmp_path: Path) -> None:
    count = export.perfetto(one("training_sweep"), tmp_path / "t.json.gz")
    assert len(json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))["traceEvents"]) == count


def test_totals_of_a_profiler_are_no_trace(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing in this run belongs to a step"):
        export.perfetto(one("nvprof"), tmp_path / "t.json")
    assert list(tmp_path.iterdir()) == []


def test_a_trace_is_of_one_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a trace shows one run, but the log has 2 runs"):
        export.perfetto(perflog.read(DATA / "training_sweep.txt"), tmp_path / "t.json")


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be written"):
        export.perfetto(one("training_sweep"), tmp_path / "none" / "t.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        export.csv(one("training_sweep"), tmp_path / "file")


@pytest.mark.parametrize("name", ["moe_layer", "nvprof", "pipeline_layers"])
def test_csv_holds_every_row_and_digit(name: str, tmp_path: Path) -> None:
    log = perflog.read(DATA / f"{name}.txt")
    assert export.csv(log, tmp_path / "out", raw=True) == log.table_names
    for table in log.table_names:
        with (tmp_path / "out" / f"{table}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        wanted = log.arrow(table).to_pylist()
        assert len(rows) == len(wanted)
        for got, row in zip(rows, wanted, strict=True):
            for key, value in row.items():
                assert got[key] == "" if value is None else type(value)(got[key]) == value


def test_texts_of_a_trace_control_no_terminal(tmp_path: Path) -> None:
    name = "k\x1b[31m\u202e\x9b\u2028 é"
    event = {"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": 10, "dur": 5, "cat": "kernel"}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [event]}))
    perflog.export.perfetto(perflog.read(path), tmp_path / "out.json")
    text = (tmp_path / "out.json").read_text("utf-8")
    assert text == visible(text) and " é" in text
    names = [written["name"] for written in json.loads(text)["traceEvents"] if written["ph"] == "X"]
    assert names == [name, name]  # the second is on the critical path
