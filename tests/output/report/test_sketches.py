"""The plots of a page as data: which there are, and in which order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from perflog.output.report import sketches as module
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    import pytest

METRICS: Any = {
    "kernels": SimpleNamespace(needs=("kernels",)), "steps": SimpleNamespace(needs=("phases", "steps")),
    "none": SimpleNamespace(needs=()), "waterfall": SimpleNamespace(needs=("steps",)),
    "trace_timeline": SimpleNamespace(needs=("events",)), "events": SimpleNamespace(needs=("events",)),
}  # fmt: skip


def plot(metric: str, rows: int = 2, is_informative: bool = True) -> Any:
    sketch = SimpleNamespace(is_informative=is_informative)
    return SimpleNamespace(
        name=f"{metric} {rows}", title="T", caption="C", metric=metric, rows=lambda tables, options: [tables] * rows,
        sketched=lambda found, tables, options: sketch if (found, options) == ([tables] * rows, "options") else None,
    )  # fmt: skip


def test_plots_come_in_the_order_of_their_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeline before other plots of traces, the waterfall last; none without rows, or with one value."""
    every = [
        plot("waterfall"), plot("none"), plot("events"), plot("trace_timeline"), plot("kernels", 0),
        plot("steps", 1, False), plot("kernels"), plot("steps"), plot("unknown"),
    ]  # fmt: skip
    monkeypatch.setattr(module, "METRICS", METRICS)
    monkeypatch.setattr(module, "plots", SimpleNamespace(PLOTS={str(k): each for k, each in enumerate(every)}))
    tables: Any = object()
    options: Any = "options"
    drawn = list(module.sketched_plots(tables, options))
    order = [name for name in TABLES if name in ("steps", "kernels", "events")]
    expected = [name for table in order for name in (("trace_timeline", "events") if table == "events" else (table,))]
    assert [each.metric for each in drawn] == [*expected, "none", "waterfall"]
    assert {(each.title, each.caption) for each in drawn} == {("T", "C")}


def test_a_metric_stands_where_its_first_table_does() -> None:
    assert module.metric_order(METRICS["none"]) == len(TABLES)
    assert module.metric_order(METRICS["steps"]) == list(TABLES).index("steps")
