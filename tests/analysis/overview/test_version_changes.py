"""The runs from which on metrics are at another level, in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from perflog.analysis.overview.facts import version_changes as module
from perflog.metrics import Options
from perflog.tables.columns import rows_from_frame

if TYPE_CHECKING:
    from support.metric_tables import MetricRow

ROW: MetricRow = {
    "run": "r", "history": "h", "at": "2026-01-02", "version": "0123456789abcdef", "figure": "step_time_s", "unit": "s",
    "change": 0.25, "level_value": 2.5, "p": 0.00123, "level_versions": 7, "cause": None, "with_it": None,
}  # fmt: skip


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Any:
    runs = pd.DataFrame({"run": ["r"], "log": ["a/b/c.json"]})
    tables: Any = SimpleNamespace(rows=lambda name: rows_from_frame(runs, name))

    def sentences(*rows: MetricRow) -> list[str]:
        made = pd.DataFrame([*rows, ROW | {"change": 0.00999, "at": "2027-01-01"}])
        monkeypatch.setattr(module, "history", SimpleNamespace(table=lambda *_: made))
        return list(module.since_when(tables, Options()))

    return sentences


BEGIN = "Since 2026-01-02 (012345678): step 2 s -> 2.5 s, +25.0 %, p 0.0012, 7 versions"


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({}, f"{BEGIN}."),
        ({"with_it": "torch 2.1 -> 2.2"}, f"{BEGIN}; with it torch 2.1 -> 2.2."),
        (
            {"with_it": "gpu A -> B", "cause": "a machine"},
            f"{BEGIN}; the machine changed with it: gpu A -> B.",
        ),
        (
            {"version": "2026-01-02", "figure": "tokens_per_s", "unit": "1/s", "change": -0.01, "level_value": 99.0},
            "Since 2026-01-02 (c.json): tokens/s 100 1/s -> 99 1/s, -1.0 %, p 0.0012, 7 versions.",
        ),
        (
            {"figure": "loss", "unit": "", "change": 1.0, "level_value": 3.0},
            "Since 2026-01-02 (012345678): loss 1.5 -> 3, +100 %, p 0.0012, 7 versions.",
        ),
    ],
)
def test_a_change_of_level(said: Any, row: MetricRow, text: str) -> None:
    assert said(ROW | row) == [text]


def test_the_last_three_changes_are_shown(said: Any) -> None:
    """Of figures that change with one version of a history the first is shown; smaller changes than 1 % are not."""
    assert said() == []
    rows = [ROW | {"at": f"2026-01-0{day}"} for day in (3, 5, 2, 4)]
    texts = said(*rows, ROW | {"at": "2026-01-05", "figure": "elapsed_s"})
    assert [text[:16] for text in texts] == [
        "Since 2026-01-05", "Since 2026-01-04", "Since 2026-01-03", "1 earlier change"
    ]  # fmt: skip
    assert all(" step " in text for text in texts[:3])
    assert len(said(*rows[:3])) == 3
    two = said(ROW, ROW | {"history": "other", "at": "2026-01-01"})
    assert [text.partition(" 2026")[0] for text in two] == ["h: since", "other: since"]
