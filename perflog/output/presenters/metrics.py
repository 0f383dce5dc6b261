"""What the analysis commands show, as sheets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from perflog.metrics import METRICS, Metric, Options, Tables, get
from perflog.output.sheets import SHOWN, Column, Sheet, pairs, sheet
from perflog.tables.nulls import none_if_null

if TYPE_CHECKING:
    import pandas as pd

    from perflog.log import Log


def metrics(log: Log, names: Sequence[str], options: Options, format: str, limit: int | None = None) -> Iterator[Sheet]:
    """The named metrics of a log (default: all that its tables allow), and what they are computed by."""
    tables = Tables(log)
    chosen = [get(name) for name in names] or list(METRICS.values())
    shown = []
    for metric in chosen:
        table = metric.table(tables, options)
        if len(table) or names:
            shown.append(metric)
            yield of_metric(metric, table, format, limit)
    if format == "json":
        yield pairs("formulas", [(m.name, m.formula) for m in shown])
        yield pairs("sources", [(m.name, m.source) for m in shown])


def of_metric(metric: Metric, table: pd.DataFrame, format: str, limit: int | None = None) -> Sheet:
    """A metric's table. Text and Markdown show some rows, without columns that say nothing or are for machines."""
    brief, title = format in ("text", "md"), ""
    columns = [c for c in metric.columns if not brief or (c.brief and table[c.name].notna().any())]
    note = []
    if brief:
        title, columns = _titled(metric, table, columns)
        limit = SHOWN if limit is None else limit
        if 0 < limit < len(table):
            note.append(f"{len(table) - limit} more rows: --limit 0 shows all {len(table)}")
        note += ["nothing in these runs to compute it from"] if not len(table) else [metric.formula, metric.source]
    kinds = tuple(Column(c.name, c.unit, _numeric(table[c.name]), c.short) for c in columns)
    shown = table[[c.name for c in columns]].head(limit) if limit else table[[c.name for c in columns]]
    rows = [tuple(map(_plain, row)) for row in shown.itertuples(index=False, name=None)]
    return Sheet(metric.name, kinds, rows, title, "\n".join(note))


def _titled(metric: Metric, table: pd.DataFrame, columns: list[Any]) -> tuple[str, list[Any]]:
    """The title, with the run in it where there is one only; else a column tells the run, by label if all have one."""
    if table["run"].nunique(dropna=False) == 1:
        who = table["label"].iloc[0] if table["label"].notna().all() else table["run"].iloc[0]
        return f"{metric.title} of {who}" if who else metric.title, _without(columns, "run", "label")
    named = len(table) and table["label"].notna().all()
    return metric.title, _without(columns, "run") if named else columns


def _without(columns: list[Any], *names: str) -> list[Any]:
    return [c for c in columns if c.name not in names]


def known() -> Sheet:
    """All metrics."""
    rows = [(m.name, m.title, ", ".join(m.needs), m.formula) for m in METRICS.values()]
    return sheet("metrics", "name title needs formula", rows)


def _numeric(column: pd.Series[Any]) -> bool:
    return bool(column.map(lambda v: isinstance(v, int | float) or v is None).all()) if len(column) else False


def _plain(value: Any) -> Any:
    """A Python value, not one of numpy; None if it is null."""
    value = none_if_null(value)
    return value.item() if hasattr(value, "item") else value
