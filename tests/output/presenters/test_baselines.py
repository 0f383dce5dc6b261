"""Baselines as sheets: their levels, and their runs with what is known of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from perflog.analysis.compare.baselines import Baseline, Level
from perflog.errors import UsageError
from perflog.output.presenters import baselines as module
from perflog.output.sheets import Sheet
from perflog.units import UTC

if TYPE_CHECKING:
    from collections.abc import Mapping

DATES = {"r1": "2026-03-01", "r2": "2026-03-02", "r3": "2026-03-03"}
LEVELS = (Level(runs=("r1", "r2")), Level("2026-03-03", "a new driver", ("r3",)))
LOG: Any = SimpleNamespace(ingested=DATES, run_keys=[SimpleNamespace(id=run) for run in ("r3", "r1", "r2", "r4")])


def rows(sheet: Sheet) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in sheet.rows]


def test_a_baseline_is_a_row_with_its_present_level() -> None:
    known = {
        "main": Baseline("main", last=3, levels=LEVELS),
        "old": Baseline("old", levels=LEVELS[:1], without=("r2",)),
    }
    sheet = module.list_sheet(known, LOG)
    assert [column.name for column in sheet.columns] == [
        "baseline",
        "runs",
        "where",
        "last",
        "level",
        "since",
        "reason",
    ]
    assert rows(sheet) == [
        ("main", 1, "", 3, 2, "2026-03-03", "a new driver"), ("old", 1, "", Baseline("x").last, 1, "", "")
    ]  # fmt: skip
    assert rows(module.list_sheet({}, LOG)) == []


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> dict[str, Mapping[str, object]]:
    """The facts of runs, which a test fills."""
    known: dict[str, Mapping[str, object]] = {}

    class Runs:
        def __init__(self, log: object) -> None:
            self.keys: list[Any] = []

        def facts(self, name: str) -> Mapping[str, object]:
            if name not in known:
                raise UsageError("no run has it", name)
            return known[name]

        def unit(self, name: str) -> str:
            return {"ingested": UTC, "median_step": "s"}.get(name, "")

    monkeypatch.setattr(module, "RunList", Runs)
    return known


def test_a_baseline_shows_its_runs_the_latest_first(facts: dict[str, Mapping[str, object]]) -> None:
    """With the facts that one of them has."""
    facts |= {"label": {"r1": "one", "r3": None}, "commit": {"r9": "other"}, "median_step": {"r3": 0.25, "r2": 0.5},
              "ingested": DATES}  # fmt: skip
    about, levels, runs = module.show_sheets(Baseline("main", last=3, levels=LEVELS), LOG)
    assert rows(about) == [("baseline", "main"), ("last", 3)] and about.title == "main"
    assert rows(levels) == [(1, "", 2, ""), (2, "2026-03-03", 1, "a new driver")]
    assert [(column.title, column.unit, column.number, column.role) for column in runs.columns] == [
        ("level", "", True, ""), ("run", "", False, "run"), ("label", "", False, "detail"),
        ("ingested (UTC)", UTC, False, "detail"), ("median_step", "s", True, ""),
    ]  # fmt: skip
    assert rows(runs) == [
        (2, "r3", None, "2026-03-03", 0.25), (1, "r2", None, "2026-03-02", 0.5), (1, "r1", "one", "2026-03-01", None)
    ]  # fmt: skip
