"""Gains of runs from rows of metric `replay`, written by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from perflog.metrics import Options
from perflog.metrics.traces.replays import scenario_gains as module
from perflog.metrics.traces.replays.scenario_changes import SCENARIOS
from perflog.metrics.traces.replays.scenario_gains import _device_gains, _job_gains

_NAMES = ("scenario", "subject", "rank", "device", "time_s", "n", "gain_s", "gain", "bound")


def replayed(*rows: tuple[object, ...]) -> pd.DataFrame:
    table = pd.DataFrame([dict(zip(_NAMES, row, strict=True)) for row in rows])
    return table.assign(run="r", of="traced step", device_name="H100").convert_dtypes()


def test_the_gain_of_a_run_is_the_mean_over_the_steps_of_its_devices() -> None:
    """Device 0 has 3 steps of 2 s, device 1 has one of 4 s; what only device 1 gains is a share of both."""
    host, kernels, other = list(_device_gains(replayed(
        ("host", None, 0, 0, 2.0, 3, 0.5, 0.25, None), ("kernels", "gemm", 0, 0, 2.0, 3, 0.1, 0.05, "a bound"),
        ("host", None, 0, 1, 4.0, 1, 1.0, 0.25, None), ("kernels", "softmax", 0, 1, 4.0, 1, 0.5, 0.125, None),
    ), 2.5))  # fmt: skip
    assert (host.run, host.of, host.scenario, host.subject, host.bound) == ("r", "traced step", "host", None, None)
    assert (host.rank, host.device, host.whole_s) == (None, None, 2.5)
    assert (host.gain, host.gain_s) == pytest.approx((2.5 / 10, 2.5 * 0.25))
    assert (kernels.subject, kernels.bound, other.subject, other.bound) == ("gemm", "a bound", "softmax", None)
    assert (kernels.gain, other.gain) == pytest.approx((0.3 / 10, 0.5 / 10))
    model = f"the same dependencies; {SCENARIOS['kernels']}"
    assert (kernels.model, other.model) == (f"{model}; a bound", model)


def test_the_gain_of_a_rank_is_of_the_job() -> None:
    first, second = _job_gains(replayed(
        ("host", None, 0, 0, 2.0, 3, 0.5, 0.25, None), ("rank", None, 3, 1, 8.0, 3, 2.0, 0.25, "one piece"),
        ("rank", None, None, None, 8.0, 3, 0.0, 0.0, None),
    ))  # fmt: skip
    assert (first.run, first.of, first.scenario, first.subject) == ("r", "traced step", "rank", None)
    assert (first.rank, first.device, first.whole_s, first.gain, first.bound) == (3, 1, 8.0, 0.25, "one piece")
    assert first.gain_s == 2.0
    assert first.model == f"the same dependencies; {SCENARIOS['rank'].split(';')[0]}; one piece"
    assert (second.rank, second.device, second.gain, second.bound) == (None, None, 0, None)


def test_each_run_has_gains_of_devices_and_of_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    gains = replayed(
        ("host", None, 0, 0, 2.0, 1, 0.5, 0.25, None), ("rank", None, 0, 0, 2.0, 1, 0.2, 0.1, None)
    )  # fmt: skip
    rows = pd.concat([gains.assign(run=run) for run in "qr"])
    times = pd.DataFrame({"run": ["q", "r", "r"], "span_s": [1.0, 2.0, 4.0]})
    monkeypatch.setattr(module, "replay", SimpleNamespace(table=lambda *_: rows))
    monkeypatch.setattr(module, "device_time", SimpleNamespace(table=lambda *_: times))
    monkeypatch.setattr(module, "wholes_of_traces", lambda part: part)
    tables: Any = SimpleNamespace(count=lambda _: 1)
    found = module.scenario_gains(tables, Options())
    assert {run: [(each.run, each.scenario, each.whole_s) for each in gains] for run, gains in found.items()} == {
        "q": [("q", "host", 1.0), ("q", "rank", 2.0)], "r": [("r", "host", 3.0), ("r", "rank", 2.0)]
    }  # fmt: skip
