"""What the last steps of a growing log show, on a clock that only the test moves."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from perflog.analysis.live_steps import LiveSteps, Now
from perflog.output.presenters.live import line
from perflog.parsing.assemble.runs.run_state import RunSettings
from perflog.tables.schema import arrow_schema


class Log:
    """Step lines that are printed at times of the test."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.steps = LiveSteps(lambda: self.now_s)
        self.settings = RunSettings()
        self._line = 0

    def print(self, *steps: int, run: int = 1, **values: Any) -> None:
        """Print the lines of some steps at once."""
        rows = []
        for step in steps:
            self._line += 1
            rows.append({"run": str(run), "line": self._line, "part": 0, "copy": 1, "step": step} | values)
        self.steps.observe({"steps": pa.Table.from_pylist(rows, arrow_schema("steps"))}, self.settings)

    def now(self) -> Now:
        now = self.steps.now()
        assert now is not None
        return now


@pytest.fixture
def log() -> Log:
    return Log()


def test_before_the_first_step_nothing_is_known(log: Log) -> None:
    assert log.steps.now() is None
    log.steps.observe({}, log.settings)
    assert log.steps.now() is None


def test_the_last_step_of_so_many(log: Log) -> None:
    log.settings.add("max_steps", 100, "line", 1)
    log.print(1, 2, 3, loss=2.5, step_time_s=0.5, tokens_per_s=4000.0)
    now = log.now()
    assert (now.run, now.step, now.steps, now.loss, now.step_time_s) == (1, 3, 100, 2.5, 0.5)
    assert line(now) == "run 1   step 3 of 100   2 steps/s   4000 tokens/s   loss 2.5   step time 500 ms"


def test_a_number_of_steps_that_is_passed_means_something_else(log: Log) -> None:
    log.settings.add("steps", 2, "line", 1)
    log.print(1, 2, 3)
    assert log.now().steps is None


def test_the_slowest_rank_gives_the_time_of_a_step(log: Log) -> None:
    log.print(7, rank=0, step_time_s=0.5)
    log.print(7, rank=1, step_time_s=0.9)
    log.print(7, rank=2, step_time_s=0.7)
    assert log.now().step_time_s == 0.9


def test_the_last_minute_is_compared_with_the_ten_minutes_before(log: Log) -> None:
    log.print(*range(600), step_time_s=1.0)
    log.print(*range(600, 640), step_time_s=1.5)  # sixty seconds
    now = log.now()
    assert now.step_time_s == 1.5
    assert now.change == pytest.approx(0.5)
    assert "+50.0 % in the last minute" in line(now)


def test_few_steps_are_not_compared(log: Log) -> None:
    log.print(*range(64), step_time_s=1.0)
    assert log.now().change is None
    log.print(64, step_time_s=1.0)
    assert log.now().change == 0


def test_without_a_printed_time_the_arrival_tells_it(log: Log) -> None:
    for step in range(0, 50, 10):
        log.now_s += 20.0
        log.print(step, loss=1.0)
    assert log.now().step_time_s == 2.0


def test_a_stall_shows_as_it_happens(log: Log) -> None:
    for step in range(10):
        log.now_s += 1.1
        log.print(step, step_time_s=1.1)
    assert not log.now().stalls
    log.now_s += 5.4  # less than five times as long
    assert not log.now().stalls
    log.now_s += 36.6
    now = log.now()
    assert now.stalls
    assert line(now).endswith("no step for 42 s; steps took 1.1 s")
    log.print(10, step_time_s=1.1)
    assert not log.now().stalls


def test_a_stall_is_at_least_five_seconds(log: Log) -> None:
    for step in range(10):
        log.now_s += 0.5
        log.print(step, step_time_s=0.5)
    log.now_s += 5.0
    assert not log.now().stalls
    log.now_s += 0.5
    assert log.now().stalls


def test_the_clock_of_the_log_tells_what_is_usual(log: Log) -> None:
    """Lines that are read at once have no arrivals of their own."""
    second = 1_000_000_000
    log.steps.set_delay(90.0)
    for step in range(0, 100, 10):
        log.print(step, printed_ns=20 * second * step // 10)
    now = log.now()
    assert (now.step_time_s, now.usual_s, now.quiet_s, now.stalls) == (2.0, 20.0, 90.0, False)
    log.now_s += 11.0
    assert line(log.now()).endswith("no step for 101 s; one came every 20 s")


def test_a_stall_names_what_the_log_told_last(log: Log) -> None:
    for step in range(10):
        log.now_s += 2.0
        log.print(step, step_time_s=2.0)
    marks = [{"run": "1", "line": 11, "part": 0, "kind": kind} for kind in ("checkpoint", "log")]
    log.steps.observe({"milestones": pa.Table.from_pylist(marks, arrow_schema("milestones"))}, log.settings)
    log.now_s += 60.0
    assert line(log.now()).endswith("no step for 60 s; steps took 2 s; the last milestone in the log is a checkpoint")
    log._line += 1
    log.print(10, step_time_s=2.0)
    log.now_s += 60.0
    assert line(log.now()).endswith("no step for 60 s; steps took 2 s")


def test_lines_of_many_steps_are_not_taken_for_a_stall(log: Log) -> None:
    for step in range(100, 500, 100):  # every hundredth step is printed
        log.now_s += 110.0
        log.print(step, step_time_s=1.1)
    log.now_s += 109.0
    assert not log.now().stalls
    log.now_s += 600.0
    assert line(log.now()).endswith("no step for 709 s; one came every 110 s")


def test_old_lines_are_as_old_as_the_file(log: Log) -> None:
    log.steps.set_delay(60.0)
    log.print(*range(5), step_time_s=1.0)
    assert log.now().stalls
    log.steps.set_delay(0.0)
    log.print(5, step_time_s=1.0)
    assert not log.now().stalls


def test_rows_of_an_earlier_reading_are_skipped(log: Log) -> None:
    log.print(1, 2, step_time_s=1.0)
    log.now_s += 100.0
    log._line = 0  # the log is read from its beginning again
    log.print(1, 2, step_time_s=1.0)
    assert log.now().quiet_s == 100.0
    log.print(3, step_time_s=1.0)
    assert (log.now().step, log.now().quiet_s) == (3, 0.0)


def test_a_new_run_begins_anew(log: Log) -> None:
    log.print(*range(20), step_time_s=1.0)
    log.print(0, run=2, step_time_s=3.0)
    now = log.now()
    assert (now.run, now.step, now.step_time_s, now.change) == (2, 0, 3.0, None)


def test_memory_is_bounded(log: Log) -> None:
    log.print(*range(20_000), step_time_s=1.0)
    assert len(log.steps._lines) < 5_000
    assert log.now().step == 19_999
