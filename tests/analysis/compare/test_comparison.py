"""A comparison as a value: its verdict, what speaks against it, and its text."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from support.figure_rows import figure_row, made_sides

import perflog
from perflog.analysis.compare import comparing
from perflog.analysis.compare import comparison as module
from perflog.analysis.compare.comparison import Comparison, Objection, sides_in_words
from perflog.analysis.compare.findings import FindingRow
from perflog.analysis.compare.left_out import CutShort, FailedRun
from perflog.analysis.compare.rows import FigureRow
from perflog.analysis.compare.side_settings import DifferingSetting, OtherSetting
from perflog.analysis.compare.sides import Case, LeftOut
from perflog.analysis.compare.verdicts import DEFAULT_RULE, NOT_COMPARABLE, OTHER_SETTING
from perflog.analysis.lint import RULES
from perflog.errors import NothingToCompareError, UsageError
from perflog.metrics.compared import STEP_TIME, Measure
from perflog.metrics.traces.steady_work import STEP, TRACE

PAIR = (Case("", (("a0",), ("b0",))),)


def compared(*rows: FigureRow, sides: tuple[str, ...] = ("base", "side"), **more: Any) -> Comparison:
    cases = more.pop("cases", PAIR)
    findings = more.pop("findings", ())
    settings = more.pop("settings", ())
    return Comparison(sides, cases, (0,), DEFAULT_RULE, rows, (), settings, (), (), (), (), (), findings, **more)


def finding(code: str, severity: str = "warning", on: str | None = None, **evidence: float) -> FindingRow:
    return FindingRow(code, severity, "", on, None, f"message of {code}", None, None, json.dumps(evidence))


SLOWER = figure_row(change=0.1, verdict="regression", side_value=1.1)
SAME = figure_row(statistic="mean", verdict="equivalent")


# --- the verdict --------------------------------------------------------------------------------------------------


def test_the_most_severe_verdict_of_the_sides() -> None:
    three = [figure_row(side="b", verdict="equivalent"), figure_row(side="c", verdict="inconclusive", change=0.2)]
    sides, cases = ("base", "b", "c"), (Case("", (("a0",), ("b0",), ("c0",))),)
    found = compared(*three, sides=sides, cases=cases)
    assert found.verdict == "inconclusive" and found.leading is three[1] and not found.is_pair
    assert sides_in_words(found) == "b, c against base"
    assert compared().verdict == module.NOTHING and compared().leading is None
    other = OtherSetting("", "c", "gpus", "1", "2")
    assert compared(*three, sides=sides, cases=cases, other_settings=(other,))._verdict_of(three[1]) == OTHER_SETTING
    lost = compared(*three, sides=sides, cases=cases, findings=(finding("diverged", on="b"),))
    assert [lost._verdict_of(row) for row in three] == [NOT_COMPARABLE, "inconclusive"]


def test_of_several_cases_the_largest_change_leads() -> None:
    cases = (Case("x", (("a0",), ("b0",))), Case("y", (("a1",), ("b1",))))
    rows = [figure_row(case=name, change=change) for name, change in (("x", -0.3), ("y", 0.2))]
    found = compared(*rows, cases=cases)
    assert found.leading is rows[0] and not found.is_pair
    failing = [rows[0], figure_row(case="y", change=0.2, fails=True)]
    assert compared(*failing, cases=cases).leading is failing[1]
    (mean,) = found.geomeans()
    assert (mean.metric, mean.side, mean.cases) == ("step_time", "side", 2)
    assert mean.change == pytest.approx(math.sqrt(0.7 * 1.2) - 1)
    assert compared(rows[0]).geomeans() == []
    assert compared(rows[0], figure_row(case="y", change=-1.0), cases=cases).geomeans() == []


# --- objections ---------------------------------------------------------------------------------------------------


def test_an_objection_in_words() -> None:
    whole = Objection("copy", "a copy", "of b", "do it")
    assert (whole.text, whole.with_remedy, whole.sentence) == (
        "a copy: of b",
        "a copy: of b (do it)",
        "A copy: of b (do it).",
    )
    plain = Objection(None, "", "b ended")
    assert (plain.text, plain.with_remedy, plain.sentence) == ("b ended", "b ended", "b ended.")


WORK = finding("comparison-other-work", base=2.0, side=0.5)
NAN = "message of diverged"
OTHER, LOST = "not the same work", "so its speed is not a result"
COPY = "the same bytes are on both sides: a run is compared with itself"
GPUS = OtherSetting("", "side", "gpus", "1", "2")
NO_X = LeftOut("side", "b0", "b.log", "without x")
FAILED, FAILED_BASE = (FailedRun(side, "b0", "b.log", "ended early", "m") for side in ("side", "base"))
ALL_STEPS = "steps after the last one that all runs print are not compared"
CUT = CutShort("", "side", "b0", "b.log", 5, 10)


@pytest.mark.parametrize(
    ("more", "objections"),
    [
        ({}, []),
        ({"cases": (Case("", (("a0", "a1"), ("a1", "a0"))),)}, [("copy", COPY)]),
        ({"copies": ("side", "c")}, [("copy", "a copy: side and c has the runs of base")]),
        (
            {"other_settings": (GPUS, GPUS)},
            [("other settings", f"{OTHER_SETTING}: gpus 1 and 2")],
        ),
        ({"findings": (WORK,)}, [(None, f"{OTHER}: backward / forward is 2 and 0.5")]),
        ({"settings": (DifferingSetting("", "format", {}),)}, [(None, f"{OTHER}: their formats differ")]),
        ({"settings": (DifferingSetting("", "lr", {}),)}, []),
        ({"findings": (finding("diverged", on="side"),)}, [("diverged", f"{OTHER}: {NAN} in side, {LOST}")]),
        ({"findings": (finding("diverged", on="base"),)}, [(None, f"{OTHER}: {NAN} in base, {LOST}")]),
        ({"findings": (finding("diverged", "note", "side"),)}, []),
        ({"findings": (finding("diverged", on="side"), finding("diverged", on="base"))}, []),  # both train nothing
        ({"cut_short": (CUT,)}, [("ended early", f"side {CUT.event}: b.log; {ALL_STEPS}")]),
        ({"cut_short": (CUT,), "left_out": (NO_X,)}, [("ended early", f"side {CUT.event}: b.log")]),
        ({"failed": (FAILED,)}, [("ended early", "failed: side: b.log: m")]),
        ({"failed": (FAILED_BASE,)}, [(None, "failed: base: b.log: m")]),
        ({"without_headline": (NO_X,)}, [("figure missing", "side: b.log is without x")]),
        ({"without_headline": (LeftOut("side", "b0", "b.log", "r"), LeftOut("base", "a0", "a.log", "r"))}, []),
    ],
)  # fmt: skip
def test_what_speaks_against_a_comparison(more: dict[str, Any], objections: list[tuple[str | None, str]]) -> None:
    assert [(each.cause, each.text) for each in compared(SLOWER, **more).objections] == objections


def test_a_failed_run_has_its_own_objection() -> None:
    without = (LeftOut("side", "b0", "b.log", "without x"),)
    assert [each.head for each in compared(SLOWER, without_headline=without, failed=(FAILED,)).objections] == ["failed"]


@pytest.mark.parametrize(
    ("kind", "base", "side", "message"),
    [
        ("value", 2.5, math.nan, {"side": "loss nan where the base has 2.5"}),
        ("summary", 2.5, math.inf, {"side": "loss inf where the base has 2.5"}),
        ("value", math.nan, math.nan, {}),
        ("value", 2.5, 2.0, {}),
        ("step", 2.5, math.nan, {}),
    ],
)
def test_a_value_that_is_lost_on_a_side(kind: str, base: float, side: float, message: dict[str, str]) -> None:
    row = figure_row(kind=kind, metric="loss", unit="", base_value=base, side_value=side)
    assert compared(row).diverged == message


def test_doubts_are_more_than_notes() -> None:
    found = [finding("drift", on="b"), finding("own"), finding("drift", on="a"), finding("few-steps", "note", "a")]
    title = RULES["drift"].title
    assert compared(findings=(*found, finding("drift", on="b"))).doubts == {
        "drift": (title, ("b", "a")), "own": ("message of own", ()),
    }  # fmt: skip


# --- words --------------------------------------------------------------------------------------------------------


def test_the_conclusion() -> None:
    assert compared(SLOWER).conclusion == "step_time: regression"
    assert compared().conclusion == f"nothing: {module.NOTHING}"
    copied = compared(SLOWER, copies=("side",))
    assert copied.conclusion == "a copy: side has the runs of base; step_time +10.0 %, regression"
    other = compared(SLOWER, other_settings=(OtherSetting("", "side", "gpus", "1", "2"),))
    assert other.conclusion == f"{OTHER_SETTING}: gpus 1 and 2; step_time +10.0 %"
    three = (OtherSetting("", "side", "gpus", "1", "2"), OtherSetting("", "c", "gpus", "1", "4"))
    assert compared(SLOWER, sides=("base", "side", "c"), other_settings=three).objections[0].what == "gpus"
    many = tuple(LeftOut("side", str(n), f"{n}.log", "r") for n in range(6))
    assert "; 2 more reasons; step_time" in compared(SLOWER, without_headline=many).conclusion
    assert "more reasons" not in compared(SLOWER, without_headline=many[:4]).conclusion


def test_the_text_of_a_comparison() -> None:
    found = compared(
        SLOWER, SAME, figure_row(kind="phase", metric="x"), figure_row(kind="run", metric="y" * 80, statistic="value")
    )
    lines = str(found).splitlines()
    assert lines[0] == "side against base: step_time: regression"
    assert lines[1].startswith("  side: step_time median 1 s -> 1.1 s, ") and lines[1].endswith(": regression")
    assert lines[3].startswith(f"  side: {'y' * 59}… 1 s -> 1 s, ")
    assert lines[4:] == ["  1 more row in .rows"]
    assert repr(found).startswith("<Comparison: side against base: step_time: regression, ")
    assert len(str(compared(*[SLOWER] * 30)).splitlines()) == 22
    assert "case: side: " in module._line(figure_row(case="case"))
    assert repr(compared(sides=("a", "b", "c"))).endswith(", 1 cases>")


# --- what is compared ---------------------------------------------------------------------------------------------


def test_metrics_that_one_side_lacks() -> None:
    kernel = Measure("kernel", "gemm")
    sides, case, values = made_sides({STEP_TIME: [[1.0], [1.0]], kernel: [[1.0]]}, {Measure("run", "x"): [[1.0]]})
    found = list(comparing._one_sided(sides, [case], values))
    assert [(each.kind, each.metric, each.on, each.runs, each.of) for each in found] == [
        ("step", "step_time", "base", 2, 2), ("run", "x", "side", 1, 1),
    ]  # fmt: skip
    assert list(comparing._one_sided(sides[:1] * 2, [Case("", (case.runs[0],) * 2)], values[:1] * 2)) == []


def test_warnings_of_runs_without_the_headline() -> None:
    runs = [
        LeftOut("a", "1", "x", "without t"),
        LeftOut("a", "2", "y", "without t"),
        LeftOut("b", "3", "z", "without t"),
    ]
    assert list(comparing._headline_warnings(runs)) == [
        "a: without t, so not in this metric: x, y", "b: without t, so not in this metric: z",
    ]  # fmt: skip


def test_a_comparison_of_values() -> None:
    found = perflog.compare({"tokens_per_s": 1000.0, "loss": 2.0}, {"tokens_per_s": 900.0, "mfu": 0.5})
    assert (found.is_pair, len(found.row_records), found.rows["change"].tolist()) == (True, 1, [pytest.approx(-0.1)])
    assert {(each.metric, each.on) for each in found.one_sided} == {("loss", "base"), ("mfu", "side")}
    assert not found.same_bytes and found.to_dict()["sides"] == [*found.sides]


@pytest.mark.parametrize("limits", [{"level": 0}, {"level": 1}, {"threshold": 0}, {"threshold": -0.1}])
def test_limits_that_cannot_be(limits: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="a limit is out of range"):
        perflog.compare({"mfu": 0.4}, {"mfu": 0.5}, **limits)


def test_sides_with_nothing_in_common() -> None:
    with pytest.raises(NothingToCompareError, match="the sides have no metric in common"):
        perflog.compare({"mfu": 0.4}, {"tokens_per_s": 5.0})


def steps(*times: float, **more: float) -> pd.DataFrame:
    return pd.DataFrame({"step": range(len(times)), "step_time_s": times} | more)


def test_the_warm_up_is_common_and_leaves_steps() -> None:
    """Of the side with the longer one."""
    times = [1.0 + 0.01 * (n % 3) for n in range(30)]
    base, side = steps(*times), steps(5.0, 5.0, *times[2:])
    assert perflog.compare(base, side).warmup == (2,)
    with pytest.raises(NothingToCompareError) as error:
        perflog.compare(base, side, warmup=30)
    assert error.value.help == "a warm-up of 30 steps leaves none: the longest run has 30"


def test_whole_traces_are_not_compared_with_steps() -> None:
    left_out: list[str] = []

    def side(**parts: str) -> Any:
        return SimpleNamespace(parts=parts, without_devices=left_out.append)

    sides: Any = [
        SimpleNamespace(name=name, labels={f"{name}{k}": f"{name}{k}.log" for k in range(3)}) for name in "ab"
    ]
    case = Case("", (("a0", "a1"), ("b0", "b1")))
    values = [side(a0=TRACE, a1=STEP), side(b0=STEP)]
    (text,) = comparing._leave_out_whole_traces(sides, [case], values)
    assert left_out == ["a0"] and text.startswith("a: without annotated steps, ") and text.endswith(": a0.log")
    for alike in ([side(a0=TRACE, a1=TRACE), side(b0=TRACE)], [side(a0=STEP), side(b0=STEP)], [side(), side()]):
        assert comparing._leave_out_whole_traces(sides, [case], alike) == []


def test_one_line_and_a_line_for_each_row() -> None:
    """A long name is cut."""
    assert module._one_line(compared(SLOWER)).endswith(f", {SLOWER.change_in_words}>")
    assert module._one_line(compared()).endswith(", 1 cases>")
    cases = (Case("x", (("a0",), ("b0",), ("c0",))),)
    assert module._one_line(compared(SLOWER, sides=("a", "b", "c"), cases=cases)).endswith(", 1 cases>")
    lengths = [len(module._line(figure_row(metric="m" * length)).split()[1]) for length in (60, 61)]
    assert lengths == [60, 60]
