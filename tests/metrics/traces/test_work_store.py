"""The work of many devices: what is read again, because not all of it is held, gives the same metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.paths import ROOT
from support.rank_traces import trace_job, write_job

import perflog
from perflog.metrics import METRICS, Options, Tables
from perflog.metrics.traces.device_work import trace_devices

TRACES = sorted((ROOT / "tests" / "traces").glob("*.json"))
OF_RANKS = ("collective_bandwidth", "rank_pairs", "rank_clocks", "lateness", "launches")
OF_TRACES = ("device_time", "device_kernels", "device_ranges", "copies", "collective_wait", "waterfall", "breakdown")


@pytest.fixture(scope="module")
def whole() -> Tables:
    """The tables of all traces, with their metrics."""
    tables = Tables(perflog.read(*TRACES))
    for name in OF_TRACES:
        METRICS[name].table(tables, Options())
    return tables


@pytest.mark.parametrize("source", ["memory", "store", "frames"])
def test_work_that_is_read_again_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Tables, source: str
) -> None:
    log = perflog.read(*TRACES)
    if source == "store":
        log.save(tmp_path / "store")
    wanted = {name: METRICS[name].table(whole, Options()) for name in OF_TRACES}
    monkeypatch.setattr("perflog.metrics.traces.device_work._MOST_HELD", 1)
    monkeypatch.setattr("perflog.metrics.run_tables._AT_ONCE", 1)
    frames = {name: log.table(name) for name in ("runs", "events", "steps", "lines", "phases", "kernels")}
    some = Tables(frames if source == "frames" else log if source == "memory" else perflog.load(tmp_path / "store"))
    for name in OF_TRACES:
        pd.testing.assert_frame_equal(METRICS[name].table(some, Options()), wanted[name], check_dtype=False)
    first, *others = trace_devices(some)
    assert len(others) > 3
    held = first.work
    assert held.rows["line"].tolist() == trace_devices(whole)[0].work.rows["line"].tolist()
    assert others[0].work is others[0].work
    assert first.work is not held


def test_ranks_of_one_run_are_read_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of many ranks is not in memory as a whole, and has the same metrics."""
    log = perflog.ingest(write_job(tmp_path / "job", trace_job(5)), store=tmp_path / "store")
    assert len(log) == 1 and sorted(log.part_counts("events")[log.run_keys[0].id]) == [0, 1, 2, 3]
    wanted = {name: METRICS[name].table(Tables(log), Options()) for name in (*OF_TRACES, *OF_RANKS)}
    monkeypatch.setattr("perflog.metrics.traces.device_work._MOST_HELD", 1)
    monkeypatch.setattr("perflog.metrics.run_tables._AT_ONCE", 1)
    read: list[int] = []
    some_rows = perflog.Log.some_rows

    def counted(self: perflog.Log, *args: Any, **options: Any) -> Any:
        rows = some_rows(self, *args, **options)
        read.append(rows.num_rows)
        return rows

    monkeypatch.setattr(perflog.Log, "some_rows", counted)
    tables = Tables(perflog.load(tmp_path / "store"))
    for name, table in wanted.items():
        pd.testing.assert_frame_equal(METRICS[name].table(tables, Options()), table, check_dtype=False)
    assert max(read) <= max(log.part_counts("events")[log.run_keys[0].id].values())
