"""What comes after the last step of an attempt: failures, its last line, and values that are printed on, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.metrics_logs import by_hand

from perflog.metrics import Tables
from perflog.metrics.attempts import Extent
from perflog.metrics.jobs.attempt_end import AfterLastStep, Failures
from perflog.metrics.jobs.job_intervals import STARTUP
from perflog.tables.schema import LOCAL, NO_YEAR, UTC

NS = 10**9
AT = 1_767_323_045 * NS  # 2026-01-02 03:04:05 UTC
NEW_YEAR = int(np.datetime64("2026-01-01", "ns").astype(np.int64))


def after(table: str, *rows: dict[str, Any], clock: str = LOCAL, until: int | None = None) -> AfterLastStep:
    """The last step is on line 10, at AT; the last line of the run is 30."""
    made = by_hand(table, rows)
    made["runs"] = made["runs"].assign(last_line=30)
    lines: Any = SimpleNamespace(lines=np.array([5, 10]), times=np.array([AT - NS, AT]))
    return AfterLastStep(Tables(made), Extent("r", "log", 1, 1, 2, 5, 10, clock, AT - NS, AT), lines, until)


@pytest.mark.parametrize(
    ("time", "clock", "until", "found"),
    [
        (AT + 5, LOCAL, None, AT + 5), (AT, LOCAL, None, AT), (AT - 1, LOCAL, None, None),
        (AT + 86_400 * NS, LOCAL, None, AT + 86_400 * NS), (AT + 86_400 * NS + 1, LOCAL, None, None),
        (AT + 9, LOCAL, AT + 9, AT + 9), (AT + 10, LOCAL, AT + 9, None), (AT + 5, UTC, None, None),
        (AT + 5 - NEW_YEAR, NO_YEAR, None, AT + 5), (AT + 5, None, None, None),
    ],
)  # fmt: skip
def test_times_on_the_clock_of_the_attempt(time: int, clock: str | None, until: int | None, found: int | None) -> None:
    """Up to the next attempt, else for a day."""
    assert after("failures", until=until)._on_clock(time, clock) == found


def test_failures_after_the_last_step() -> None:
    rows: list[dict[str, Any]] = [
        {"line": 9, "last_line": 99, "waited_s": 900.0, "time_ns": AT + NS, "clock": LOCAL},  # before it
        {"line": 11, "last_line": 12, "waited_s": 30.0, "time_ns": AT + 7 * NS, "clock": LOCAL},
        {"line": 13, "last_line": 20, "waited_s": 60.0, "time_ns": AT + 3 * NS, "clock": LOCAL},
        {"line": 15, "last_line": 16, "time_ns": None, "clock": None},
    ]
    assert after("failures", *rows).failures() == Failures((60.0, 13), AT + 3 * NS, 20, True)
    assert after("failures", *rows[3:], *rows[1:2]).failures() == Failures((30.0, 11), None, 16, True)
    assert after("failures", *rows[:1]).failures() == after("values").failures() == Failures()


def test_the_last_line_with_a_time() -> None:
    rows = [{"line": line, "printed_ns": AT + 1000 - line, "clock": LOCAL} for line in (9, 10, 20)]
    assert after("milestones", *rows).end() == AT + 990  # the one of the last step, or behind it
    assert after("milestones", *rows[2:]).end() == AT + 980
    assert after("milestones", {"line": 20, "printed_ns": AT - 5, "clock": LOCAL}).end() == AT
    assert after("values").end() == AT


@pytest.mark.parametrize(("lines", "reads_on"), [((11, 12, 13, 14, 15), True), ((10, 11, 12, 13, 14), False)])
def test_a_value_that_is_printed_five_times_after_the_last_step(lines: tuple[int, ...], reads_on: bool) -> None:
    rows = [{"line": line, "key": "x", "value": 1.0} for line in lines]
    assert after("values", *rows).reads_on() == reads_on
    assert not after("values", *({**row, "key": f"x{k}"} for k, row in enumerate(rows))).reads_on()
    assert not after("values", *({**row, "line": 11} for row in rows)).reads_on()
    assert not after("failures").reads_on()


@pytest.mark.parametrize(
    ("change", "is_end"),
    [({}, True), ({"line": 29}, False), ({"at": AT}, False), ({"seconds": 5.0}, False), ({"edge": "begin"}, False),
     ({"activity": STARTUP}, False)],
)  # fmt: skip
def test_the_last_line_may_report_the_end_of_an_activity(change: dict[str, Any], is_end: bool) -> None:
    mark: Any = SimpleNamespace(**{"line": 30, "at": None, "seconds": None, "edge": "end", "activity": "save"} | change)
    assert after("values").is_end_of(mark) == is_end
