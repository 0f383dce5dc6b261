"""Sheets of a comparison: values, operators, findings, and gates in words."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from support.figure_rows import figure_row

from perflog.analysis.compare import Comparison, GateFailure
from perflog.analysis.compare.explanations.operators import OperatorRow
from perflog.analysis.compare.findings import FindingRow
from perflog.output.presenters import compare as module


def test_a_value_with_the_longer_arm_of_its_interval() -> None:
    row = figure_row(base_value=1.0, base_low=0.9, base_high=1.05, side_value=2.0, side_low=2.0, side_high=2.5)
    assert module._value(row, "base") == "1 s ± 10 %" and module._value(row, "side") == "2 s ± 25 %"
    assert module._value(row, "base", alone=True) == "1 s"
    assert module._value(figure_row(base_low=math.nan, base_high=math.nan), "base") == "1 s"
    assert module._value(figure_row(base_value=0.0, base_low=0.0, base_high=0.0), "base") == "0 s"


def test_p_within_single_runs_is_not_shown() -> None:
    assert module._p(figure_row(p_holm=0.2)) == 0.2
    assert module._p(figure_row(p_holm=0.2, scope="steps")) is None is module._p(figure_row(p_holm=math.nan))


def test_long_paths_are_cut_and_numbered_where_they_are_alike() -> None:
    """Paths of ranges and operators; the same path in several rows is one."""
    long = ["a" * 50 + f"/{k}/" + "b" * 50 for k in range(3)]
    names = [("range", long[0]), ("range", long[1]), ("range", long[0]), ("range", "short"), ("step", long[2])]
    nothing: Any = dict.fromkeys(Comparison.__struct_fields__)
    compared = Comparison(**nothing)
    given = replace(compared, row_records=tuple(figure_row(kind=kind, metric=name) for kind, name in names))
    found = [row.metric for row in module._with_short_paths(given).row_records]
    assert len(found[0]) == 60 and found == [found[0], f"{found[0]} #2", found[0], "short", long[2]]


@pytest.mark.parametrize(
    ("width", "verdicts", "shown", "title"),
    [
        (None, ["exploratory regression"], ["exploratory regression"], "verdict"),
        (100, ["exploratory regression"], ["exploratory regression"], "verdict"),
        (99, ["exploratory regression", "inconclusive"], ["regression", "inconclusive"], "exploratory"),
        (99, ["exploratory regression", "regression"], ["exploratory regression", "regression"], "verdict"),
        (99, ["inconclusive"], ["inconclusive"], "verdict"),
    ],
)
@pytest.mark.parametrize("p", [0.25, math.nan])
def test_what_a_small_terminal_has_no_room_for(
    width: int | None, verdicts: list[str], shown: list[str], title: str, p: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scatter beside values, and `exploratory` in each row if all have it."""
    monkeypatch.setattr(module, "terminal", SimpleNamespace(width=lambda: width))
    monkeypatch.setattr(module, "_title", lambda _: "title")
    monkeypatch.setattr(module, "_notes", lambda *_: ["one", "two"])
    rows = [figure_row(verdict=verdict, p_holm=p, base_low=0.9, base_high=1.1) for verdict in verdicts]
    compared: Any = SimpleNamespace(cases=[""], sides=("base", "new"), row_records=rows, headlines=rows)
    sheet = module._rows(compared, False)
    names = ["metric", "base", "new", "change", "interval", *["p"] * (p == p), "n", title]
    assert [column.name for column in sheet.columns] == names and (sheet.title, sheet.note) == ("title", "one\ntwo")
    assert [row[-1] for row in sheet.rows] == shown
    assert [row[1] for row in sheet.rows] == ["1 s" if width == 99 else "1 s ± 10 %"] * len(rows)
    assert {column.name: column.role for column in sheet.columns if column.role} == {
        "change": "verdict", "n": "detail", title: "verdict"
    }  # fmt: skip


def operator(name: str, depth: int, old: float, new: float, **more: Any) -> OperatorRow:
    usual: dict[str, Any] = dict.fromkeys(OperatorRow.__struct_fields__)
    usual |= {"case": "", "base": "old", "side": "new", "operator": name, "depth": depth, "part": "step"}
    return OperatorRow(**usual | {"base_s": old, "side_s": new, "difference_s": new - old} | more)


def operators(*rows: OperatorRow, cases: tuple[str, ...] = ("",), everything: bool = False) -> list[Any]:
    named = [SimpleNamespace(name=case) for case in cases]
    compared: Any = SimpleNamespace(cases=named, sides=("old", "new"), operator_records=rows)
    return list(module._operators(compared, everything))


def test_operators_are_a_tree_of_what_moves_a_noticeable_part() -> None:
    """2 % of the difference of all work, which is at least 2 % of its time. The whole is always there."""
    rows = [
        operator("all", 0, 10.0, 11.0), operator("mm", 1, 5.0, 5.9, shapes="[2, 3]", base_calls=4, side_calls=5),
        operator("add", 2, 1.0, 1.019), operator("relu", 1, 1.0, 0.98),
    ]  # fmt: skip
    (found,) = operators(*rows)
    assert found.title == "GPU time by operator, a step: new"
    assert [row[:7] for row in found.rows] == [
        ["all", "-", 10.0, 11.0, 1.0, None, None],
        ["  mm", "[2, 3]", 5.0, 5.9, pytest.approx(0.9), 4, 5],
        ["  relu", "-", 1.0, 0.98, pytest.approx(-0.02), None, None],
    ]
    assert [column.name for column in found.columns] == [
        "operator", "shapes", "old", "new", "difference", "calls old", "calls new", "kernels"
    ]  # fmt: skip
    assert [(column.number, column.role) for column in found.columns] == [
        *[(False, "")] * 2, *[(True, "")] * 3, *[(True, "detail")] * 2, (False, ""),
    ]  # fmt: skip
    assert [row[0] for row in operators(*rows, everything=True)[0].rows] == ["all", "  mm", "    add", "  relu"]
    equal = operators(operator("all", 0, 10.0, 10.0), operator("mm", 1, 5.0, 5.005), operator("add", 1, 5.0, 4.99))
    assert [row[0] for row in equal[0].rows] == ["all", "  mm", "  add"]


def test_operators_of_each_configuration() -> None:
    rows = [operator("all", 0, 1.0, 2.0, case="a", part="trace"), operator("all", 0, 1.0, 2.0, case="a", side="other")]
    assert [sheet.title for sheet in operators(*rows, cases=("a", "b"))] == [
        "GPU time by operator, whole trace: new (a)"
    ]  # fmt: skip


def finding(message: str, side: str | None = "new", severity: str = "warning", code: str = "x", case: str = "") -> Any:
    return FindingRow(code, severity, case, side, None, message, None, None, "")


def findings(*rows: Any, format: str = "text", everything: bool = False) -> Any:
    return module._findings(SimpleNamespace(finding_records=rows), format, everything)  # type: ignore[arg-type]


def test_the_same_finding_of_several_sides_is_shown_once() -> None:
    """Errors first. Of more than two different ones of a rule the first is shown, unless all are asked for."""
    one, two = finding("slow", "old"), finding("slow", "new")
    assert list(findings(one, two, finding("bad", None, "error", "y")).rows) == [
        ("error y: bad",), ("warning x (old, new): slow",)
    ]  # fmt: skip
    three = [finding(f"slow {k}", side, case="a") for k, side in enumerate(("old", "new", "old"))]
    assert list(findings(*three).rows) == [("warning x (a: old, new): slow 0 (and 2 more like it: --all shows them)",)]
    assert [text for (text,) in findings(*three[:2]).rows] == [
        "warning x (a: old): slow 0", "warning x (a: new): slow 1"
    ]  # fmt: skip
    assert len(findings(*three, everything=True).rows) == 3


def test_notes_on_single_sides_are_counted() -> None:
    rows = [finding("odd", severity="note"), finding("both", None, "note"), finding("slow")]
    assert [text for (text,) in findings(*rows).rows] == ["warning x (new): slow", "note x: both"]
    assert findings(*rows).note == "1 more note on single runs: --all shows them"
    assert findings(*rows, everything=True).note == ""
    assert list(findings(rows[2], format="md").rows) == [("warning", "x", "new", "slow")]


def test_why_a_gate_fails_in_words() -> None:
    row = figure_row(case="a", side="new", verdict="regression", change=0.1, side_value=1.1)
    words = module.sentence(row)
    assert words.startswith("new (a): step_time: regression: 1 s -> 1.1 s, +10.0 % [")
    assert module.gate_failure(GateFailure("change", "too slow", row)) == f"{words}: too slow"
    assert module.gate_failure(GateFailure("inconclusive", "few runs", row)) == f"inconclusive: {words}: few runs"
    assert module.gate_failure(GateFailure("cannot judge", "no runs")) == "cannot judge: no runs"
