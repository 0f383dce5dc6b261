"""Averages that logs print, and the mean of the same steps on the other sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from support.metrics_logs import by_hand

from perflog.analysis.compare.explanations.averages import averages
from perflog.analysis.compare.sides import Case, Side
from perflog.log import Log
from perflog.metrics.run_tables import Tables
from perflog.tables.sink import MemorySink

Printed = tuple[int | None, int | None, float | None]
"""First and last step of a printed average, and its value."""


def side(name: str, runs: Mapping[str, Sequence[float]], *printed: tuple[str, Printed], **more: Any) -> Side:
    """A side of runs with these step times, and the averages that they print."""
    rows: list[dict[str, Any]] = [{"table": "runs", "run": run, "config": "{}"} for run in runs]
    rows += [{"run": run, "step": n, "step_time_s": time} | more for run, times in runs.items()
             for n, time in enumerate(times, 1)]  # fmt: skip
    rows += [{"table": "summaries", "run": run, "key": "step_time", "unit": "s", "value": value,
              "window_first": first, "window_last": last} for run, (first, last, value) in printed]  # fmt: skip
    frames = by_hand("steps", rows)
    made = Side(name, Log(MemorySink().fetch, []))
    made.__dict__["tables"] = Tables(frames | {"runs": frames["runs"].iloc[1:]})
    return made


def shown(*sides: Side) -> list[tuple[str, str, int | None, int | None, float | None, bool]]:
    case = Case("", tuple(tuple(each.tables.rows("runs")["run"].tolist()) for each in sides))
    return [
        (row.side, row.run, row.window_first, row.window_last, row.value, row.printed)
        for row in averages(sides, [case])
    ]


TIMES = [4.0, 3.0, 2.0, 1.0]


def test_each_window_is_computed_for_all_other_runs() -> None:
    base = side("a", {"r": TIMES, "s": [9.0, 5.0, 5.0, 5.0]}, ("r", (2, 4, 2.0)))
    other = side("b", {"t": [8.0, 6.0, 4.0, 2.0]}, ("t", (3, 4, 3.0)))
    assert shown(base, other) == [
        ("a", "r", 2, 4, 2.0, True), ("a", "s", 2, 4, 5.0, False), ("b", "t", 2, 4, 4.0, False),
        ("a", "r", 3, 4, 1.5, False), ("a", "s", 3, 4, 5.0, False), ("b", "t", 3, 4, 3.0, True),
    ]  # fmt: skip


def test_a_mean_needs_all_steps_of_the_window() -> None:
    base = side("a", {"r": TIMES}, ("r", (2, 5, 2.0)))
    assert shown(base, side("b", {"t": TIMES}))[1] == ("b", "t", 2, 5, None, False)
    assert shown(base, side("b", {"t": [*TIMES, 2.0]}))[1] == ("b", "t", 2, 5, 2.0, False)
    both = side("b", {"q": [], "t": [*TIMES, 2.0]})  # the first run prints no step times
    assert ("b", "t", 2, 5, 2.0, False) in shown(base, both)
    of_two = side("b", {"t": TIMES}, step_time_s=None)
    assert shown(base, of_two) == [("a", "r", 2, 5, 2.0, True)]  # it prints no step times


def test_an_average_of_unknown_steps_is_not_computed() -> None:
    base = side("a", {"r": TIMES}, ("r", (None, None, 2.0)), ("r", (None, None, None)))
    assert shown(base, side("b", {"t": TIMES})) == [
        ("a", "r", None, None, 2.0, True), ("a", "r", None, None, None, True),
    ]  # fmt: skip
    assert shown(side("a", {"r": TIMES}), side("b", {"t": TIMES})) == []


@pytest.mark.parametrize(("averaged", "value"), [(2, 7.0), (1, None)])
def test_lines_of_several_steps(averaged: int, value: float | None) -> None:
    """Lines for steps 2, 4, 6 and 8, each of two steps: steps 5 to 8 are the last two lines."""
    lines = [{"step": 2 * n, "step_time_s": 2.0 * n, "steps_averaged": averaged} for n in range(1, 5)]
    other = side("b", {"t": []})
    frames = by_hand("steps", [{"table": "runs", "run": "t", "config": "{}"}, *(line | {"run": "t"} for line in lines)])
    other.__dict__["tables"] = Tables(frames | {"runs": frames["runs"].iloc[1:]})
    base = side("a", {"r": TIMES}, ("r", (5, 8, 2.0)))
    assert shown(base, other)[1] == ("b", "t", 5, 8, value, False)
