"""Figures over versions as sheets: what is in each cell, which columns and sheets there are."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import Any

import pytest

from perflog.errors import UsageError
from perflog.metrics.many_runs.version_levels import ChangedSetting, LevelChange
from perflog.metrics.many_runs.versions import Version
from perflog.output.presenters import track as module
from perflog.output.sheets import Quantity, Sheet

COMMIT = "0123456789abcdef"


def change(place: int = 3, at: str = "2026-03-05T02:00:00", low: float = 0.03, **more: Any) -> LevelChange:
    known = {"settings": (), "same_machine": (), "cause": None} | more
    return LevelChange(
        place, Version("a", "a", ("r1",)), Version(COMMIT, at, ("r2",)), 0.2, 0.21, 0.05, low, 0.07, 0.01, 4, **known
    )


def course(test: str = "form, A", name: str = "step_time", changes: Any = (), **more: Any) -> Any:
    """A metric of four versions at one level; the last one is 5 % above it."""
    known: dict[str, Any] = {"missing": (), "is_last_off": False, "levels": 1, "outliers": ()} | more
    return SimpleNamespace(
        test=test, figure=SimpleNamespace(name=name, unit="s"), versions=[None] * 4, values=[0.2, 0.2, 0.2, 0.21],
        course=SimpleNamespace(levels=[None] * known["levels"], outliers=known["outliers"]), changes=changes,
        missing=known["missing"], is_last_off=known["is_last_off"], last_change=0.05, expected=lambda k: 0.2 + k / 1000,
        verdict=lambda size: "regression" if size > 0.02 else "",
    )  # fmt: skip


def track(*courses: Any, **more: Any) -> Any:
    known: dict[str, Any] = {"sentences": ["One."], "left_out": (), "left_out_figures": (), "accepted": {}} | more
    return SimpleNamespace(
        by="commit", courses=courses, changes=[(each, one) for each in courses for one in each.changes],
        acceptance=lambda each, one: known["accepted"].get(one.place), **known,
    )  # fmt: skip


def shown(sheet: Sheet) -> list[dict[str, Any]]:
    """The rows, with the names of their columns."""
    return [dict(zip((column.name for column in sheet.columns), row, strict=True)) for row in sheet.rows]


def sheets(given: Any) -> dict[str, Sheet]:
    return {sheet.key: sheet for sheet in module.sheets(given)}


@pytest.mark.parametrize(("number", "rows"), [(8, 8), (9, 9)])
def test_the_answer_is_a_few_sentences(number: int, rows: int) -> None:
    found = sheets(track(sentences=[f"{k}." for k in range(number)]))
    assert list(found) == ["answer"]
    answer = [*found["answer"].rows]
    assert len(answer) == rows and answer[7] == ["7."] and found["answer"].prose
    assert answer[8:] == [["and 1 more: --format json has all"]] * (number - 8)


def test_a_change_has_its_versions_its_size_and_what_came_with_it() -> None:
    plain = change()
    told = change(
        2, COMMIT, math.nan, cause="settings", settings=(ChangedSetting("batch", "8", "16"),),
    )  # fmt: skip
    accepted = {2: SimpleNamespace(reason="it is wanted")}
    found = sheets(track(course(changes=[plain]), course("form, B", "loss", [told], levels=2), accepted=accepted))
    assert list(found) == ["answer", "changes", "figures"]
    common = {"since": "012345678", "before": "a", "old": Quantity(0.2, "s"), "new": Quantity(0.21, "s"),
              "change": "+5.0 %", "verdict": "regression"}  # fmt: skip
    assert shown(found["changes"]) == [
        {"test": "A", "figure": "step_time", "at": "2026-03-05T02:00", "interval": "+3.0 to +7.0 %", "cause": None,
         "with_it": None, "accepted": None, **common},
        {"test": "B", "figure": "loss", "at": None, "interval": None, "cause": "settings",
         "with_it": "settings changed: batch 8 -> 16", "accepted": "it is wanted", **common},
    ]  # fmt: skip
    (row,) = shown(sheets(track(course(changes=[change(low=math.inf)])))["changes"])
    assert row == {"figure": "step_time", "at": "2026-03-05T02:00", **common}  # columns without a value are left out


def test_the_figures_now_begin_with_those_that_changed() -> None:
    """First the ones with a last version off their level, then the ones of several levels."""
    given = track(
        course(name="calm"), course(name="two", levels=2, outliers=(1,)), course(name="off", is_last_off=True)
    )
    sheet = sheets(given)["figures"]
    common = {"versions": 4, "level": Quantity(0.203, "s"), "last": Quantity(0.21, "s"), "last_change": "+5.0 %"}
    assert sheet.title == "metrics by commit"
    assert shown(sheet) == [
        {"figure": "off", "levels": 1, "last_is": "not confirmed", "outliers": None, **common},
        {"figure": "two", "levels": 2, "last_is": None, "outliers": 1, **common},
        {"figure": "calm", "levels": 1, "last_is": None, "outliers": None, **common},
    ]  # fmt: skip


@pytest.mark.parametrize(("number", "note"), [(40, ""), (41, "1 more {}: --format json has all")])
def test_so_many_rows_are_shown(number: int, note: str) -> None:
    found = sheets(track(*(course(name=f"m{k}", changes=[change()]) for k in range(number))))
    for name, what in (("changes", "change"), ("figures", "metric")):
        assert (len([*found[name].rows]), found[name].note) == (40, note.format(what))


def test_what_is_left_out_is_named_by_reason() -> None:
    runs = [SimpleNamespace(reason="few versions", label=f"r{k}") for k in range(5)]
    figures = [SimpleNamespace(test="form", reason="zero", figure=name) for name in ("loss", "mfu")]
    missing = [Version("b", "b", ()), Version(COMMIT, "c", ())]
    found = sheets(track(course(missing=missing), course(name="loss", missing=missing[:1])))
    assert [*found["left_out"].rows] == [("2 versions", "without a finite value of some metric", "b, 012345678")]
    found = sheets(track(left_out=runs, left_out_figures=figures))
    assert [*found["left_out"].rows] == [
        ("5 runs", "few versions", "r0, r1, r2 and 2 more"), ("2 figures", "form: zero", "loss, mfu"),
    ]  # fmt: skip
    for name in ("left_out", "left_out_figures"):
        assert list(sheets(track(**{name: runs[:1] if name == "left_out" else figures}))) == ["answer", "left_out"]
    assert "left_out" not in sheets(track(course()))


def test_points_and_json_have_all() -> None:
    given: Any = SimpleNamespace(rows=lambda: [{"figure": "loss", "value": 2.5, "other": 1}], as_json=lambda: {"é": 1})
    (row,) = shown(module.points(given))
    assert (len(row), row["figure"], row["value"], row["unit"]) == (16, "loss", 2.5, None)
    text = module.as_json(given)
    assert json.loads(text)["é"] == 1 and "schema_version" in text and "é" in text


def test_nothing_is_drawn_without_points() -> None:
    given: Any = SimpleNamespace(points=[])
    with pytest.raises(UsageError, match="there is nothing to draw"):
        module.draw(given, "a.png")
    with pytest.raises(UsageError, match=r"a\.xyz"):
        module.draw(given, "a.xyz")
