"""Sentences below a comparison, from rows with given fields."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from support.figure_rows import figure_row

from perflog.output.presenters import compare_notes as module


def compared(*headlines: Any, sides: tuple[str, ...] = ("old", "new"), **fields: Any) -> Any:
    usual: dict[str, Any] = {"headlines": headlines, "sides": sides, "is_pair": len(sides) == 2, "result": None,
                             "to_targets": None, "row_records": headlines, "causes": (),
                             "is_limited_by_clients": False}  # fmt: skip
    return SimpleNamespace(**usual | fields)


@pytest.mark.parametrize(
    ("runs", "steps", "text", "in_words"),
    [
        ((3, 3), (30, 30), "3 runs, 10 steps", "3 runs, 10 steps per side"),
        ((3, 3), (3, 3), "3 runs", "3 runs per side"),  # one number for each run
        ((1, 1), (2, 2), "1 run, 2 steps", "1 run, 2 steps per side"),
        ((5, 3), (450, 270), "5 / 3 runs, 90 steps", "5 runs of old, 3 of new; 90 steps each"),
        ((3, 3), (30, 60), "3 runs, 10 / 20 steps", "3 runs per side; 10 steps of old, 20 of new"),
        ((1, 2), (1, 2), "1 / 2 runs", "1 run of old, 2 of new"),
    ],
)
def test_numbers_of_runs_and_steps(runs: tuple[int, int], steps: tuple[int, int], text: str, in_words: str) -> None:
    row = figure_row(base_runs=runs[0], side_runs=runs[1], base_steps=steps[0], side_steps=steps[1])
    assert module.counts(row) == text
    assert module.counts_of_sides(row, ("old", "new")) == in_words


def test_the_history_of_an_interval() -> None:
    row = figure_row(scope="history", history_runs=4, history_scatter=0.015, base_runs=1, side_runs=1)
    [text] = module.notes_on_history(compared(row, figure_row()))
    assert text == (
        "one run per side; run-to-run variation, estimated from 4 other repeats (standard deviation): step_time 1.5 %"
    )
    few = figure_row(scope="history", history_runs=4, history_scatter=0.015, case="a", side="new", side_runs=2)
    [text] = module.notes_on_history(compared(few, sides=("old", "new", "other")))
    assert text.startswith("few runs per side (a, new); ") and "from both sides and 4 other repeats" in text
    [text] = module.notes_on_history(compared(few))
    assert text.startswith("few runs per side (a); ")
    none = figure_row(scope="history", history_runs=0, history_scatter=0.015)
    assert "from both sides (" in next(module.notes_on_history(compared(none)))


SIDES = ("base", "side")


def test_a_change_that_the_median_hides() -> None:
    median = figure_row(verdict="equivalent")
    mean = figure_row(statistic="mean", verdict="regression", change=0.05)
    [text] = module.notes_on_hidden_change(compared(median, mean, sides=SIDES), SIDES)
    assert text == "most steps take as long as before, some do not: +5.0 % on the mean, 0.00 % on the median"
    [text] = module.notes_on_hidden_change(compared(figure_row(), mean, sides=SIDES), SIDES)
    assert text.startswith("the median does not show the change: ")
    assert not [*module.notes_on_hidden_change(compared(figure_row(verdict="regression"), mean, sides=SIDES), SIDES)]
    assert not [*module.notes_on_hidden_change(compared(median, sides=SIDES), SIDES)] and not [
        *module.notes_on_hidden_change(compared(mean, sides=SIDES), SIDES)
    ]


@pytest.mark.parametrize(
    ("cause", "text"),
    [
        ({"rank": 3}, ["in slow steps of B, compute of rank 3 takes longer"]),
        ({"rank": None}, ["in slow steps of B, compute takes longer"]),
        ({"name": None}, []),
        ({"subject": "phase"}, []),
        ({"only_on": "base"}, []),
        ({"case": "other"}, []),
    ],
)
def test_what_takes_longer_in_the_steps_that_the_median_hides(cause: dict[str, Any], text: list[str]) -> None:
    which = {"subject": "slow steps", "name": "compute", "rank": 3} | cause
    change = SimpleNamespace(cause=SimpleNamespace(**which), **({"case": "", "only_on": "side"} | cause))
    median, mean = figure_row(verdict="equivalent"), figure_row(statistic="mean", verdict="regression", change=0.05)
    _, *found = module.notes_on_hidden_change(compared(median, mean, sides=SIDES, causes=(change,)), ("A", "B"))
    assert found == text


@pytest.mark.parametrize(
    ("sessions", "scatter", "part"),
    [
        ("same", math.nan, "ran in the same sessions"),
        ("held", 0.02, "includes the variation between them (standard deviation): step_time 2 %"),
        ("held", 0.0, "which differ no more than runs of one session do"),
        ("held", math.nan, "includes the variation between them"),
        ("left out", math.nan, "the variation between sessions is unknown"),
    ],
)
def test_sessions_of_the_sides(sessions: str, scatter: float, part: str) -> None:
    [text] = module.notes_on_sessions(compared(figure_row(sessions=sessions, session_scatter=scatter), figure_row()))
    assert part in text


def test_single_runs_show_no_variation() -> None:
    """Of step times the advice is about the mean."""
    median, mean = (
        figure_row(scope="steps", statistic=name, advice=f"repeat for {name}") for name in ("median", "mean")
    )
    [text] = module.notes_on_single_runs(compared(median, mean))
    assert text == "one run per side does not show run-to-run variation; repeat for mean (step_time mean)"
    [text] = module.notes_on_single_runs(compared(median))
    assert text.endswith("; repeat for median")
    [text] = module.notes_on_single_runs(compared(median, sides=("a", "b", "c")))
    assert text.endswith("; repeat the runs to measure it")
    assert not [*module.notes_on_single_runs(compared(figure_row(scope="steps", error=math.nan), figure_row()))]


def test_the_result_that_the_format_declares() -> None:
    row, other = figure_row(), figure_row(metric="elapsed", kind="run")
    assert "the format of these logs declares it" in next(module.notes_on_result(compared(row, result="step_time")))
    assert "its error is unknown" in next(
        module.notes_on_result(compared(row, result="elapsed", row_records=[row, other]))
    )
    assert not [*module.notes_on_result(compared(row, result="elapsed"))] and not [
        *module.notes_on_result(compared(row))
    ]


def test_names_and_signs() -> None:
    assert (
        module.figure_name(figure_row()) == "step_time"
        and module.figure_name(figure_row(statistic="p99")) == "step_time p99"
    )
    assert (module.signed_time(0.00138), module.signed_time(-2.0), module.signed_time(0.0)) == (
        "+1.38 ms",
        "-2 s",
        "+0 s",
    )
