"""What to know before trusting a comparison: findings on the sides together, and on their runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from support.figure_rows import figure_row
from support.metrics_logs import by_hand

from perflog.analysis.compare.explanations.averages import AverageRow
from perflog.analysis.compare.findings import FindingRow, _first_and_last, findings
from perflog.analysis.compare.side_settings import DifferingSetting
from perflog.analysis.compare.sides import Case
from perflog.analysis.lint import Finding
from perflog.metrics import Tables

Runs = Mapping[str, Sequence[int]]


def side(name: str, runs: Runs, printout: str | None = None, **settings: str) -> Any:
    """A side with runs that print these steps."""
    steps = [{"run": run, "step": step} for run, numbers in runs.items() for step in numbers]
    frames = by_hand("steps", steps)
    rows = [frames["runs"].assign(run=run, printout=printout) for run in runs]
    tables = Tables(frames | {"runs": pd.concat(rows, ignore_index=True)})
    labels, config = {run: f"{run}.log" for run in runs}, dict.fromkeys(runs, settings)
    return SimpleNamespace(name=name, tables=tables, settings=config, labels=labels)


def found(*sides: Any, **more: Any) -> list[FindingRow]:
    case = Case("c", tuple(tuple(each.labels) for each in sides))
    linted = {each.name: () for each in sides} | more.get("linted", {})
    return findings(sides, [case], more.get("rows", ()), more.get("settings", ()), more.get("averages", ()), linted)


BASE, SIDE = side("base", {"a": range(10)}), side("side", {"b": range(10)})


def average(side: str, value: float | None, window: tuple[int | None, int | None], figure: str = "loss") -> AverageRow:
    return AverageRow("c", figure, *window, side, "r", 1, value, "s", True)


def test_nothing_is_found_on_sides_that_do_the_same() -> None:
    same = [average(name, 2.0, (5, 9)) for name in ("base", "side")]
    assert found(BASE, SIDE, averages=same, rows=work(2.0, 2.0)) == []


def test_printed_averages_over_other_steps() -> None:
    printed = [average("base", 2.0, (0, 9)), average("side", 1.5, (5, 9))]
    computed = [
        AverageRow("c", "loss", 5, 9, "base", "a", None, 1.75, "s", False),
        AverageRow("c", "loss", 0, 9, "side", "b", None, None, "s", False),
    ]
    time = [average("base", 4.0, (0, 9), "time"), average("side", 3.0, (5, 9), "time")]
    (finding,) = found(BASE, SIDE, averages=[*printed, *computed, *time])
    assert (finding.code, finding.severity, finding.case, finding.side) == ("comparison-windows", "warning", "c", None)
    assert finding.message == (
        "the printed averages (loss, time) cover different steps and cannot be compared: base steps 0..9; side steps "
        "5..9. Printed loss: base 2 s, side 1.5 s. Over steps 5..9: side 1.5 s, base 1.75 s. Compare averages over the "
        "same steps"
    )
    assert [row["figure"] for row in json.loads(finding.evidence)] == ["loss"] * 4 + ["time"] * 2
    unknown = [average("base", 2.0, (None, None)), average("side", 1.5, (5, 9))]
    (finding,) = found(BASE, SIDE, averages=unknown)
    assert "base unknown steps; side steps 5..9" in finding.message and "Over unknown" not in finding.message
    alone = [average("base", 2.0, (0, 9)), average("base", 2.0, (5, 9))]  # one side prints both
    assert found(BASE, SIDE, averages=alone) == []
    several = [average("base", value, (0, 9)) for value in (3.0, 2.0, 2.5)]
    (finding,) = found(BASE, SIDE, averages=[*several, average("side", 1.5, (5, 9))])
    assert "Printed loss: base 2 s .. 3 s, side 1.5 s." in finding.message


def work(base: float, side: float, forward: float = 2.0) -> list[Any]:
    """Rows of forward and backward, with these backward times."""
    values = {"forward": (forward, forward), "backward": (base * forward, side * forward)}
    return [figure_row(case="c", metric=name, base_value=of[0], side_value=of[1]) for name, of in values.items()]


@pytest.mark.parametrize(
    ("rows", "is_found"),
    [
        (work(2.0, 0.6667), False),
        (work(2.0, 0.6666), True),
        (work(0.6, 2.0), True),
        (work(2.0, 2.0), False),
        (work(2.0, 0.0), True),
        (work(0.6, 2.0, forward=0.0), False),
        (work(0.6, 2.0)[:1], False),
        (work(0.6, 2.0)[1:], False),
    ],
)
def test_steps_that_divide_differently(rows: list[Any], is_found: bool) -> None:
    """Backward / forward differs by a factor of three."""
    findings = found(BASE, SIDE, rows=rows)
    assert [each.code for each in findings] == ["comparison-other-work"] * is_found
    for each in findings:
        values = {"base": rows[1].base_value / 2, "side": rows[1].side_value / 2}
        assert json.loads(each.evidence) == values
        assert each.message.startswith(
            f"backward / forward is {values['base']:g} on base and {values['side']:.3g} on side: "
        )


def rates(change: float, metric: str) -> list[Any]:
    """Equal step times, and a rate that changes."""
    times = figure_row(case="c", metric="step_time", change=0.0)
    return [times, figure_row(case="c", metric=metric, unit="1/s", change=change)]


def test_steps_with_other_numbers_of_tokens() -> None:
    """The first of both rates counts."""
    (finding,) = found(BASE, SIDE, rows=[*rates(1.0, "tokens_per_s"), *rates(0.5, "samples_per_s")])
    assert finding.code == "comparison-unequal-steps"
    assert finding.message == "step times: a step has other numbers of tokens, 2 times on side. Compare tokens_per_s"
    assert json.loads(finding.evidence) == {"tokens_per_s": {"side": 2.0}}
    (finding,) = found(BASE, SIDE, rows=rates(0.5, "samples_per_s"))
    assert (
        finding.message == "step times: a step has other numbers of samples, 1.5 times on side. Compare samples_per_s"
    )


@pytest.mark.parametrize(
    ("base", "other", "is_found"),
    [
        (range(10), range(10, 20), True),
        (range(10), range(9, 20), False),
        (range(10, 20), range(10), True),
        (range(9, 20), range(10), False),
        (range(10), range(0), False),
        (range(0), range(10), False),
        (range(10), range(3, 5), False),
    ],
)
def test_sides_without_a_common_step(base: range, other: range, is_found: bool) -> None:
    findings = found(side("base", {"a": base}), side("side", {"b": other}), side("third", {"d": base}))
    assert [each.code for each in findings] == ["comparison-other-steps"] * is_found
    for each in findings:
        ends = {"base": [min(base), max(base)], "side": [min(other), max(other)]}
        assert json.loads(each.evidence) == ends
        windows = "; ".join(f"{name} {low}..{high}" for name, (low, high) in ends.items())
        assert each.message.startswith(f"no step is on both sides ({windows}): ")


@pytest.mark.parametrize(
    ("printouts", "settings", "said"),
    [
        (("model", "model"), ["experts"], "although experts differs"),
        (("model", "model"), ["experts", "top_k"], "although experts, top_k differ:"),
        (("model", "model"), [], None),
        (("model", "model"), ["seed"], None),
        (("model", "other"), ["experts"], None),
        ((None, None), ["experts"], None),
        (("model", None), ["experts"], None),
    ],
)
def test_the_same_model_with_other_settings(
    printouts: tuple[str | None, str | None], settings: list[str], said: str | None
) -> None:
    sides = [
        side(name, {name[0]: range(5)}, printout, **dict.fromkeys(settings, name))
        for name, printout in zip(("base", "side"), printouts, strict=True)
    ]
    differing = [DifferingSetting("c", name, {}) for name in settings]
    findings = found(*sides, settings=[*differing, DifferingSetting("elsewhere", "experts", {})])
    assert [(each.code, each.severity) for each in findings] == [("comparison-same-model", "note")] * bool(said)
    for each in findings:
        assert said is not None and said in each.message and json.loads(each.evidence) == {"settings": settings}


def test_logs_of_other_formats() -> None:
    settings = [DifferingSetting("c", "format", {"base": "x", "side": "y"}), DifferingSetting("c", "lr", {})]
    (finding,) = found(BASE, SIDE, settings=settings)
    assert finding.code == "comparison-formats"
    assert json.loads(finding.evidence) == {"case": "c", "setting": "format", "base": "x", "side": "y"}


def test_the_steps_of_some_runs() -> None:
    made = by_hand("steps", [{"step": step} for step in (7, 5, None, 9, 1)])
    made["steps"] = made["steps"].assign(run=["a", "b", "b", "a", "c"])
    side: Any = SimpleNamespace(tables=Tables(made))
    assert _first_and_last(side, ["a", "b"]) == (5, 9) and _first_and_last(side, ["d"]) is None


def test_a_run_on_both_sides() -> None:
    shared = side("side", {"b": range(10), "a": range(10)})
    (finding,) = found(BASE, shared)
    assert finding.code == "comparison-same-run" and json.loads(finding.evidence) == {"runs": ["a.log"]}
    assert finding.message.startswith("a.log is on both sides, base and side: ")


def test_the_findings_on_the_runs_of_a_case_come_last() -> None:
    """With the severity of the rule, unless the finding has its own."""
    lint = [
        Finding("b", "slow", {"b": [4, 3]}, {"n": 1}, code="drift", action="look"),
        Finding("b", "fast", {"b": [7]}, severity="error", code="drift"),
        Finding("other", "no", {"other": [1]}, code="drift"),
    ]
    rows = found(BASE, side("side", {"b": range(10), "a": range(10)}), linted={"side": lint})
    assert [row.code for row in rows] == ["comparison-same-run", "drift", "drift"]
    first, second = rows[1:]
    assert (first.case, first.side, first.run, first.message, first.action) == ("c", "side", "b", "slow", "look")
    assert (first.severity, second.severity) == ("warning", "error") and first.first_line == 3
    assert json.loads(first.evidence) == {"lines": {"b": [3, 4]}, "count": 2, "n": 1}
