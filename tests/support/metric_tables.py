"""Tables of metrics with given rows, instead of those that a log would have."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    import pytest

MetricRow = dict[str, Any]


def replace_table(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, metric: str, *rows: MetricRow, **other: Any
) -> None:
    """Let a module find these rows of run `r` in the table of a metric; `other`: a row of another run beside them."""
    made = pd.DataFrame([*({"run": "r"} | row for row in rows), {"run": "other"} | other])
    of_run = made[made["run"] == "r"]
    found = {"table": lambda *_: made, "table_of": lambda *_: of_run, "has_rows": lambda *_: True}
    monkeypatch.setattr(module, metric, SimpleNamespace(**found))
