"""The values of a side by measure and run, and the sessions of its runs."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.metrics_logs import by_hand
from support.series import step_series_of
from support.trace_tables import by_hand as trace
from support.trace_tables import kernel, step

from perflog.analysis.compare import measures as module
from perflog.analysis.compare.measures import SideValues, sessions_of, side_values
from perflog.analysis.compare.operator_trees import OperatorNode
from perflog.analysis.compare.sides import Side
from perflog.log import Log
from perflog.metrics.compared import RUN_TIME, STEP_TIME, Measure
from perflog.metrics.run_tables import Tables
from perflog.tables.sink import MemorySink

LOSS, KERNEL, IDLE = Measure("value", "loss", ""), Measure("kernel", "gemm"), Measure("idle", "host")


def test_values_of_some_runs() -> None:
    values = SideValues()
    for measure, run, numbers in ((STEP_TIME, "r", [1.0, 2.0]), (STEP_TIME, "s", [3.0]), (LOSS, "s", [])):
        values.add(measure, run, np.array(numbers))
    assert list(values.by_measure) == [STEP_TIME]  # a run without values has none
    assert [each.tolist() for each in values.of(STEP_TIME, ["s", "t", "r"])] == [[3.0], [1.0, 2.0]]
    assert list(values.by_run(STEP_TIME, ["s", "t", "r"])) == ["s", "r"]
    assert values.of(LOSS, ["r", "s"]) == []
    values.parts_of_steps = {STEP_TIME: {"r": np.array([5.0])}}  # means over ranks
    assert [each.tolist() for each in values.part_of_step(STEP_TIME, ["s", "r"])] == [[5.0]]
    values.add(KERNEL, "r", np.array([7.0]))
    assert [each.tolist() for each in values.part_of_step(KERNEL, ["s", "r"])] == [[7.0]]
    values.step_times = {"r": step_series_of([1.0], "r")}
    assert [series.run for series in values.series(["s", "r"])] == ["r"]


def test_sessions_count_if_all_are_known() -> None:
    values = SideValues(sessions={"r": "monday", "s": "tuesday"})
    assert values.sessions_of(["s", "r"]) == ("tuesday", "monday")
    assert values.sessions_of(["s", "t"]) == () == values.sessions_of([])


def test_a_run_without_its_devices_has_its_other_values() -> None:
    values = SideValues(operators={"r": OperatorNode("", None)})
    for measure in (STEP_TIME, KERNEL, IDLE):
        values.add(measure, "r", np.ones(1))
    values.add(KERNEL, "s", np.ones(1))
    values.without_devices("r")
    assert {measure.kind: list(by_run) for measure, by_run in values.by_measure.items()} == {
        "step": ["r"], "kernel": ["s"],
    }  # fmt: skip
    assert values.operators == {}
    values.without_devices("t")


@pytest.mark.parametrize(
    ("settings", "session"),
    [
        ({"session": "mine", "slurm_job": "7"}, "mine"),
        ({"ci_url": "https://ci/3", "ci_job": "bench", "slurm_job": "7"}, "https://ci/3 bench"),
        ({"ci_url": "https://ci/3"}, "https://ci/3 "),
        ({"ci_job": "bench", "slurm_job": "7"}, "7"),
        ({"batch": "3"}, "2026-01-02 "),
        ({"hostname": "n1", "batch": "3"}, "2026-01-02 n1"),
    ],
)
def test_the_session_of_a_run(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], session: str) -> None:
    """A tag, else a job, else a day on a machine."""
    moment = SimpleNamespace(at=dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC))
    monkeypatch.setattr(module, "moments", lambda _: {"r": moment})
    side: Any = SimpleNamespace(tables=None, settings={"r": settings, "s": {"batch": "3"}, "t": {"slurm_job": "9"}})
    assert sessions_of(side) == {"r": session, "t": "9"}  # nothing tells when run s was


def side_of(rows: list[dict[str, Any]], **elapsed: float) -> Side:
    """A side of runs with the last reading of their clock."""
    runs = [
        {"table": "runs", "run": run, "config": "{}", "elapsed_s": time, "index": k, "log": run, "log_sha256": run,
         "first_line": 1, "last_line": 99}
        for k, (run, time) in enumerate(elapsed.items(), 1)
    ]  # fmt: skip
    frames = by_hand("steps", [*runs, *rows])
    made = Side("a", Log(MemorySink().fetch, []))
    made.__dict__.update(tables=Tables(frames | {"runs": frames["runs"].iloc[1:]}), settings={})
    return made


def step_rows(run: str, *times: float) -> list[dict[str, Any]]:
    return [{"run": run, "step": n, "step_time_s": time} for n, time in enumerate(times, 1)]


def test_values_after_the_first_steps_of_each_run() -> None:
    """Runs without a cut are not compared; of a run that is compared up to a step, the whole run is not."""
    rows = [row for run in "rstu" for row in step_rows(run, 9.0, 3.0, 2.0, 1.0)]
    found = side_values(side_of(rows, r=20.0, s=30.0, t=40.0, u=50.0), {"r": 1, "s": 0, "u": 4}, last={"s": 3})
    assert {run: times.tolist() for run, times in found.by_measure[STEP_TIME].items()} == {
        "r": [3.0, 2.0, 1.0], "s": [9.0, 3.0, 2.0],
    }  # fmt: skip
    assert {run: series.warmup.cut for run, series in found.step_times.items()} == {"r": 1, "s": 0}
    assert list(found.by_measure[RUN_TIME]) == ["r", "u"]
    assert (found.operators, found.parts, found.sessions) == ({}, {}, {})


@pytest.mark.parametrize("in_steps", [True, False])
def test_operators_and_the_part_of_a_trace(in_steps: bool) -> None:
    host: dict[str, Any] = {"kind": "cpu", "device": None, "stream": None, "process": "9", "thread": "1"}
    events = [step(n, 100 * n, 100 * n + 100) for n in (1, 2)] if in_steps else []
    for n in (1, 2):
        events += [kernel(100 * n, 100 * n + 20, "aten::mm", **host),
                   kernel(100 * n + 1, 100 * n + 2, "launch", **host | {"kind": "runtime"}, correlation=n),
                   kernel(100 * n + 30, 100 * n + 30 + 10 * n, correlation=n)]  # fmt: skip
    made = Side("a", Log(MemorySink().fetch, []))
    made.__dict__.update(tables=trace(events), settings={})
    found = side_values(made, {"r": 1 if in_steps else 0})
    assert found.parts == {"r": "step" if in_steps else "trace"}
    own = 1e9 * found.operators["r"].inclusive["r"]
    assert own.tolist() == pytest.approx([20.0] if in_steps else [30.0])
