"""Lines of printed tables cut into cells."""

from __future__ import annotations

import pytest

from perflog.formats.families.cell_cutting import cells_in_groups, cells_of, is_rule, spans, without_frame


@pytest.mark.parametrize(
    ("style", "text", "cells"),
    [
        ("csv", "step, loss,", ["step", "loss"]),
        ("csv", 'device,count,""', ["device", "count", ""]),
        ("csv", '"a, b",2', ["a, b", "2"]),
        ("tab", "step\tloss\t", ["step", "loss"]),
        ("bars", "| step | **loss** |", ["", "step", "loss"]),
        ("bars", "| ~11 | **~83%** | a~5 |", ["", "11", "83%", "a~5"]),
        ("bars", "Time | TPOT (ms) ||", ["Time", "TPOT (ms)", "", ""]),
        ("boxes", "│ step │ loss │", ["", "step", "loss"]),
        ("boxes", "step loss", []),
        ("blanks", "  step  train loss : 5", ["step", "train loss : 5"]),
        ("frame", "   step  loss", ["", "step", "loss"]),
        ("words", "Date   Time loss  5%|# | 1/20 [", ["Date   Time", "loss"]),
    ],
)
def test_cells(style: str, text: str, cells: list[str]) -> None:
    assert cells_of(text, style) == cells


def test_rules_and_frames() -> None:
    assert all(
        map(is_rule, ("-----", "=== ===", "|---|:--:|", "+-----+", "├─────┤", "│ ── Load ── │    │", "| -- a b -- | |"))
    )
    assert not any(map(is_rule, ("--", "- 5 -", "| a | b |", "│ 5 │", "│ ── Load ── │  5 │", "│ Load │   │")))
    assert without_frame("│ a  5 │").split() == ["a", "5"]
    assert without_frame(">> a  5 <<").split() == ["a", "5"]
    assert without_frame("│ a │ 5 │") == "│ a │ 5 │"


def test_spans_of_cells() -> None:
    assert spans("ab  c d", "blanks") == ((0, 2), (4, 7))
    assert spans("ab  c d", "words") == ((0, 2), (4, 5), (6, 7))
    assert spans("ab,c", "csv") == ()


@pytest.mark.parametrize(
    ("row", "cells"),
    [("| 8 | 1.5  2.5 | 3 |", ["8", "1.5", "2.5", "3"]), ("| 8 | 1.5 | 3 |", []), ("8  1.5  2.5  3", [])],
)
def test_cells_in_groups_of_columns(row: str, cells: list[str]) -> None:
    assert cells_in_groups("| n | A (ms)  B (ms) | ratio |")(row) == cells
    assert cells_in_groups("| n | A (ms) | ratio |")(row) == []
