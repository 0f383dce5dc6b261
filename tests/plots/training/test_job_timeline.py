"""The timeline of jobs: which have one, and where its bars are."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from perflog.metrics.jobs.job_intervals import COMPILE, RELATIVE, STALL, STEPS, TRAINING
from perflog.plots.training import job_timeline as module

SECOND = 10**9


@pytest.mark.parametrize(
    ("kinds", "clocks", "is_shown"),
    [
        ([TRAINING, COMPILE], [STEPS, STEPS], False),
        ([TRAINING, STALL], [STEPS, STEPS], True),
        ([TRAINING, TRAINING], [STEPS, "utc"], True),
        ([TRAINING], [next(iter(RELATIVE))], False),
    ],
)
def test_strips_of_one_colour_are_left_out(kinds: list[str], clocks: list[str], is_shown: bool) -> None:
    assert len(module._eventful(pd.DataFrame({"kind": kinds, "clock": clocks}))) == len(kinds) * is_shown


def interval(attempt: int, kind: str, begin: int, time: float) -> dict[str, Any]:
    return {"attempt": attempt, "kind": kind, "begin_ns": (100 + begin) * SECOND, "time_s": time, "clock": "utc"}


def test_a_strip_for_each_attempt() -> None:
    axes, handles = Figure().subplots(), dict[str, Any]()
    rows = [interval(1, TRAINING, 0, 60.0), interval(1, STALL, 60, 20.0), interval(2, TRAINING, 90, 30.0)]
    module._draw(axes, pd.DataFrame(rows), handles)
    drawn: Any = axes.patches
    bars = [(bar.get_x(), bar.get_width(), round(bar.get_y() + bar.get_height() / 2)) for bar in drawn]
    scale = axes.get_xlim()[1] / 120.0  # of a second
    assert sorted(bars) == [pytest.approx((at * scale, long * scale, row)) for at, long, row in
                            ((0, 60, 1), (60, 20, 1), (90, 30, 2))]  # fmt: skip
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2"]
    assert axes.get_ylim() == (2.6, 0.4) and list(handles) == [TRAINING, STALL]
    assert axes.get_xlabel().startswith("time since the job began") and axes.get_ylabel() == "attempt"


def test_printed_durations_have_no_clock() -> None:
    axes = Figure().subplots()
    module._draw(axes, pd.DataFrame([interval(1, TRAINING, 0, 60.0) | {"clock": STEPS}]), {})
    assert axes.get_xlabel().startswith("printed time")
