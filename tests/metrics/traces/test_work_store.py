"""The work of many devices: what is read again, because not all of it is held, gives the same metrics."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from support.paths import ROOT

import perflog
from perflog.metrics import METRICS, Options, Tables
from perflog.metrics.traces.device_work import trace_devices

TRACES = sorted((ROOT / "tests" / "traces").glob("*.json"))
OF_TRACES = ("device_time", "device_kernels", "device_ranges", "copies", "collective_wait", "waterfall", "breakdown")


@pytest.mark.parametrize("source", ["memory", "store", "frames"])
def test_work_that_is_read_again_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    log = perflog.read(*TRACES)
    log.save(tmp_path / "store")
    whole = Tables(log)
    wanted = {name: METRICS[name].table(whole, Options()) for name in OF_TRACES}
    monkeypatch.setattr("perflog.metrics.traces.device_work._MOST_HELD", 1)
    monkeypatch.setattr("perflog.metrics.registry._AT_ONCE", 1)
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
