"""What the analysis commands show, as sheets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from perflog.metrics import METRICS, Metric, Options, Tables, get
from perflog.report import Column, Sheet, pairs

if TYPE_CHECKING:
    import pandas as pd

    from perflog.log import Log


def metrics(log: Log, names: Sequence[str], options: Options, format: str) -> Iterator[Sheet]:
    """The named metrics of a log (default: all that its tables allow), and what they are computed by."""
    tables = Tables(log)
    chosen = [get(name) for name in names] or list(METRICS.values())
    shown = []
    for metric in chosen:
        table = metric.table(tables, options)
        if len(table) or names:
            shown.append(metric)
            yield of_metric(metric, table, format)
    if format == "json":
        yield pairs("formulas", [(m.name, m.formula) for m in shown])
        yield pairs("sources", [(m.name, m.source) for m in shown])


def of_metric(metric: Metric, table: pd.DataFrame, format: str) -> Sheet:
    """A metric's table. Text and Markdown leave out columns that say nothing, or are for machines."""
    brief = format in ("text", "md")
    columns = [c for c in metric.columns if not brief or (c.brief and table[c.name].notna().any())]
    if brief and len(table) and table["label"].notna().all():
        columns = [c for c in columns if c.name != "run"]
    kinds = tuple(Column(c.name, c.unit, _numeric(table[c.name]), c.short) for c in columns)
    rows = [tuple(map(_plain, row)) for row in table[[c.name for c in columns]].itertuples(index=False, name=None)]
    note = f"{metric.formula}\n{metric.source}" if brief else ""
    return Sheet(metric.name, kinds, rows, metric.title if brief else "", note)


def _numeric(column: pd.Series[Any]) -> bool:
    return bool(column.map(lambda v: isinstance(v, int | float) or v is None).all()) if len(column) else False


def _plain(value: Any) -> Any:
    """A Python value; what is missing is None."""
    import pandas as pd

    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return None
    return value.item() if hasattr(value, "item") else value
