"""A comparison as a brief answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from support.figure_rows import figure_row

from perflog.output.presenters import compare_brief as module
from perflog.output.presenters.compare_brief import comparison_brief

if TYPE_CHECKING:
    import pytest


def setting(name: str, *values: object) -> Any:
    return SimpleNamespace(setting=name, values=dict(enumerate(values)))


def part(name: str, difference_s: float, share: float | None, kind: str = "phase", **more: Any) -> Any:
    usual = {"case": "", "side": "side", "of": None, "depth": 0, "base_s": 1.0, "side_s": 1.0 + difference_s}
    return SimpleNamespace(**usual | {"part": name, "kind": kind, "difference_s": difference_s, "share": share} | more)


def shown(monkeypatch: pytest.MonkeyPatch, *words: str, **fields: Any) -> list[str]:
    monkeypatch.setattr(module, "best_sentences", lambda _: ["Best."])
    monkeypatch.setattr(module, "verdict_sentences", lambda _, names: [f"Verdict on {names[-1]}."])
    monkeypatch.setattr(
        module, "differing_settings", lambda compared: [each.setting for each in compared.setting_records]
    )
    usual = dict.fromkeys(("setting_records", "row_records", "headlines", "attribution_records", "warnings"), ())
    compared: Any = SimpleNamespace(**usual | {"sides": ("base", "side"), "doubts": {}, "is_pair": True} | fields)
    return comparison_brief(compared, words)


MEDIAN = figure_row(base_value=1.0, side_value=1.5, change=0.5, verdict="regression")
ENDS = ["Best.", "Verdict on side."]


def test_the_verdict_comes_first_and_the_next_command_last(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, "a b", "c") == [*ENDS, "Next: perflog compare 'a b' c --all"]
    with monkeypatch.context() as patch:
        patch.setattr(module, "brief", lambda lines: [line.text for line in lines if line.whole])
        assert shown(monkeypatch, "a") == ["Next: perflog compare a --all"]  # a part of a command is none
    (_, verdict, _) = shown(monkeypatch, sides=("base", "s" * 60))
    assert verdict == f"Verdict on {'s' * 20}…{'s' * 19}."


def test_settings_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five settings, with three values each."""
    settings = [setting("batch", 8, 16, 32, 64), *(setting(f"s{n}", n, None) for n in range(6))]
    lines = shown(monkeypatch, setting_records=settings)
    assert lines[2] == "Differs: batch 8 -> 16 -> 32; s0 0 -> -; s1 1 -> -; s2 2 -> -; s3 3 -> -"


def test_figures_of_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """The median before the mean; then figures of the steps and of the run."""
    mean = figure_row(statistic="mean", base_value=1.0, side_value=2.0, change=1.0)
    forward, layer = figure_row(metric="forward"), figure_row(kind="layer", metric="x")
    rows = (MEDIAN, mean, forward, layer)
    text = "step time 1 s -> 1.5 s, +50.0 %: regression"
    assert shown(monkeypatch, headlines=[MEDIAN, mean], row_records=rows)[2:-1] == [
        text, "step time mean 1 s -> 2 s, +100 %: inconclusive", "forward 1 s -> 1 s, 0.00 %: inconclusive"
    ]  # fmt: skip
    assert shown(monkeypatch, headlines=[mean])[2] == "step time mean 1 s -> 2 s, +100 %: inconclusive"
    many = shown(monkeypatch, headlines=[MEDIAN] * 14, row_records=[*[MEDIAN] * 14, *[forward] * 9])
    assert sum(line == text for line in many) <= 12 and sum(line.startswith("forward") for line in many) <= 5


def test_figures_of_several_sides_name_these(monkeypatch: pytest.MonkeyPatch) -> None:
    row = figure_row(case="batch 8", side="new", change_low=0.4, change_high=0.6, change=0.5, side_value=1.5)
    lines = shown(monkeypatch, headlines=[row], row_records=[row, figure_row(metric="forward")], is_pair=False)
    assert lines[2].startswith("batch 8: new: step time 1 s -> 1.5 s, +50.0 % [") and not any(
        "forward" in x for x in lines
    )


def test_the_largest_changes_have_room_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the sides."""
    rows = [figure_row(case=f"model {n}", side="new", change=n / 100) for n in range(40)]
    lines = [line for line in shown(monkeypatch, headlines=rows, is_pair=False) if line.startswith("model")]
    assert lines[-3:] == [line for n in (37, 38, 39) for line in lines if line.startswith(f"model {n}: new: ")]
    assert 3 < len(lines) <= 12 and lines == sorted(lines)


def test_where_the_largest_difference_went(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the side with the largest change and the first kind of parts; three of them."""
    small = figure_row(side="other", change=0.1)
    parts = [
        part("step", 0.5, 1.0),
        part("x", 9.0, 1.0, "range"),
        part("forward", 0.3, 0.6),
        part("backward", 0.2, None),
    ]
    parts += [part("not", 0.5, 1.0, side="other")]
    lines = shown(monkeypatch, headlines=[small, MEDIAN], row_records=[], attribution_records=parts)
    assert [line for line in lines if line.startswith("Where")] == [
        "Where: forward 1 s -> 1.3 s (+300 ms, 60 % of the difference)", "Where: backward 1 s -> 1.2 s (+200 ms)"
    ]  # fmt: skip
    assert not any("Where" in line for line in shown(monkeypatch, attribution_records=parts))
    assert not any("Where" in line for line in shown(monkeypatch, headlines=[MEDIAN], attribution_records=parts[:1]))


def test_doubts_and_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    doubts = {1: ("few runs", ["a", "b", "c", "d"]), 2: ("slow", [])}
    lines = shown(monkeypatch, doubts=doubts, warnings=["w1", "w2", "w3", "w4"])
    assert lines[2:-1] == ["Doubt: few runs (a, b, c)", "Doubt: slow", "Warning: w1", "Warning: w2", "Warning: w3"]
