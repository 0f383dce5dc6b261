"""Causes between the steps of a run: slow steps, pauses, time outside of steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from support.metrics_logs import by_hand
from support.series import step_series_of

from perflog.metrics import Options, Tables
from perflog.metrics.causes import run_causes as module
from perflog.metrics.causes.cause import Cause
from perflog.metrics.causes.run_causes import covers_most, outside_of_steps, slow_steps
from perflog.metrics.causes.slow_steps import far_longer


def steps(*times: float | None, **more: Any) -> list[dict[str, Any]]:
    return [{"step": n, "step_time_s": time, **more} for n, time in enumerate(times, 1)]


def slow(*rows: dict[str, Any]) -> list[Cause]:
    return list(slow_steps(Tables(by_hand("steps", rows)), Options()))


def test_steps_over_twice_the_median() -> None:
    (found,) = slow(*steps(*[1.0] * 10, 5.0, *[1.0] * 9))
    assert (found.run, found.of, found.subject, found.n) == ("r", "run", "slow steps", 1)
    assert (found.whole_s, found.time_s, found.gain_s, found.each_s, found.may_bind) == (24.0, 5.0, 4.0, 5.0, True)
    assert slow(*steps(*[1.0] * 10, 2.0, *[1.0] * 9)) == []
    (several,) = slow(*steps(*([1.0] * 3 + [3.0]) * 5))
    assert (several.n, several.gain_s) == (5, 10.0)
    assert slow() == [] == slow(*steps(*[1.0] * 20))


def test_a_run_without_steady_steps_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    series = [step_series_of([1.0] * 3, cut=3), step_series_of([*[1.0] * 10, 5.0, *[1.0] * 9])]
    monkeypatch.setattr(module, "step_series", lambda *_, **__: series)
    monkeypatch.setattr(module, "parts_of_slow_steps", lambda *_: {})
    no_tables: Any = None
    assert [each.gain_s for each in slow_steps(no_tables, Options())] == [4.0]


def test_rare_steps_are_pauses() -> None:
    rare = step_series_of([*[1.0] * 19, 5.0])
    assert far_longer(rare).tolist() == [False] * 19 + [True]
    often = step_series_of([1.0, 1.0, 1.0, 2.5, 2.5])
    assert far_longer(often).tolist() == [False, False, False, True, True]
    assert not far_longer(step_series_of([1.0, 1.0, 2.0])).any()


@pytest.mark.parametrize(
    ("numbers", "averaged", "most"),
    [
        (range(1, 11), 1, True),
        (range(10, 110, 10), 10, True),
        (range(10, 110, 10), 1, False),
        (range(2, 22, 2), 1, True),  # half of the steps
        (range(3, 33, 3), 1, False),
        (range(2, 22, 2), 0, True),  # not known: one
    ],
)
def test_whether_the_lines_cover_most_steps(numbers: range, averaged: int, most: bool) -> None:
    assert covers_most(step_series_of([1.0] * 10, steps=[*numbers], averaged=averaged)) == most
    cut = step_series_of([1.0] * 11, steps=[-500, *numbers], averaged=averaged, cut=1)
    assert covers_most(cut) == most


def outside(*rows: dict[str, Any], elapsed_s: float | None = 100.0) -> list[float | None]:
    frames = by_hand("steps", rows)
    frames["runs"] = frames["runs"].assign(elapsed_s=elapsed_s)
    found = list(outside_of_steps(Tables(frames), Options()))
    assert all((each.whole_s, each.gain_s, each.subject) == (100.0, each.time_s, "outside of steps") for each in found)
    return [each.time_s for each in found]


def test_time_of_the_clock_outside_of_steps() -> None:
    rows = steps(*[1.5] * 20)
    assert outside(*rows) == [70.0]
    assert outside(*rows, elapsed_s=None) == [] == outside(*rows, elapsed_s=0.0)
    assert outside(*steps(*[5.0] * 20)) == []  # no time is left
    assert outside(*rows, *steps(*[1.5] * 3, copy=2)) == [70.0]
    assert outside(*rows[:5], *rows[6:]) == []  # a step is missing
    assert outside(*steps(*[1.5] * 20, step_time_by="bar")) == []  # its times are of the clock itself
    assert outside(rows[0]) == []  # one step of many
    later = [row | {"step": row["step"] + 30, "elapsed_s": 50.0 + 1.5 * row["step"]} for row in rows]
    assert outside(*later) == []  # the log may lack 30 steps that the clock has
    assert outside(*({**row, "elapsed_s": row["elapsed_s"] - 45.0} for row in later)) == [70.0]  # a resumed run
    assert outside(*({**row, "elapsed_s": row["elapsed_s"] - 36.5} for row in later)) == [70.0]  # 15 s hold 10 steps
    assert outside(*({**row, "elapsed_s": 1.5 * row["step"]} for row in rows)) == [70.0]  # none lacks
    tens = [row | {"step": 10 * row["step"], "steps_averaged": 10} for row in steps(*[0.5] * 10)]
    assert outside(*tens) == [50.0]
    unknown = [*tens[:5], tens[5] | {"steps_averaged": None}, *tens[6:]]
    assert outside(*unknown) == []


def test_each_run_has_its_own_clock() -> None:
    """Runs without a clock, with few steps or with one that is missing come before one with time outside."""
    rows = steps(*[1.5] * 20)
    of = {"a": (rows, None), "b": (rows[:1], 50.0), "c": ([*rows[:5], *rows[6:]], 50.0), "d": (rows, 100.0)}
    runs = [{"table": "runs", "run": run, "config": "{}", "elapsed_s": elapsed} for run, (_, elapsed) in of.items()]
    frames = by_hand("steps", [*runs, *(row | {"run": run} for run, (own, _) in of.items() for row in own)])
    found = outside_of_steps(Tables(frames | {"runs": frames["runs"][1:]}), Options())
    assert [(each.run, each.time_s) for each in found] == [("d", 70.0)]


def test_validations_and_checkpoints_are_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With their share of the run; other pauses, and those of a run of unknown length, are none."""
    usual = {"run": "r", "share": 0.5, "run_s": 100.0, "total_s": 50.0, "n": 5, "mean_s": 10.0}
    kinds = {"validation": 0.5, "checkpoint, asynchronous": 0.5, "restore": 0.5, "validation again": None}
    table = pd.DataFrame([usual | {"kind": kind, "share": share} for kind, share in kinds.items()])
    monkeypatch.setattr(module, "pauses", SimpleNamespace(table=lambda *_: table, has_rows=lambda *_: True))
    found = list(module.between_steps(Tables(by_hand("steps", [])), Options()))
    assert [(each.subject, each.name) for each in found] == [
        ("validation", "validation"), ("checkpoint", "checkpoint, asynchronous")
    ]  # fmt: skip
    assert {(each.whole_s, each.time_s, each.gain_s, each.n, each.each_s) for each in found} == {(100, 50, 50, 5, 10)}
