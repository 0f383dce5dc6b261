"""The values of a side by measure and run, and the sessions of its runs."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.series import step_series_of

from perflog.analysis.compare import measures as module
from perflog.analysis.compare.measures import SideValues, sessions_of
from perflog.analysis.compare.operator_trees import OperatorNode
from perflog.metrics.compared import STEP_TIME, Measure

LOSS, KERNEL, IDLE = Measure("value", "loss", ""), Measure("kernel", "gemm"), Measure("idle", "host")


def test_values_of_some_runs() -> None:
    values = SideValues()
    for measure, run, numbers in ((STEP_TIME, "r", [1.0, 2.0]), (STEP_TIME, "s", [3.0]), (LOSS, "s", [])):
        values.add(measure, run, np.array(numbers))
    assert list(values.by_measure) == [STEP_TIME]  # a run without values has none
    assert [each.tolist() for each in values.of(STEP_TIME, ["s", "t", "r"])] == [[3.0], [1.0, 2.0]]
    assert list(values.by_run(STEP_TIME, ["s", "t", "r"])) == ["s", "r"]
    assert values.of(LOSS, ["r", "s"]) == []
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
