"""Sheets of metrics: `perflog analyze`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from perflog.metrics import METRICS, Metric, MetricColumn, Options, Tables, get
from perflog.metrics.profiles.kernel_names import short_kernels
from perflog.output import terminal
from perflog.output.presenters.run_marks import marks_of, printed_names
from perflog.output.sheets import MAX_ROWS, Role, Sheet, SheetColumn, pairs, sheet
from perflog.tables.nulls import none_if_null
from perflog.units import count

if TYPE_CHECKING:
    import pandas as pd

    from perflog.log import Log

_BRIEF = ("text", "md")  # for people

# Columns that say how a value was found, or of which part; where the room is limited, they are left out first.
_DETAILS = frozenset(
    "n n_printed n_agree first_step last_step median_low_s median_high_s tflops_low tflops_high tflops_total "
    "printed_tflops printed_mfu peak_tflops flops_convention warmup left_out rest_by clock hidden kind parent inside "
    "occurrence whole_s readings events outside_s collectives matched_by clock_ok place of_ranks dtype buffer least_s "
    "most_s members target_from better best_step device_kernels.state device_kernels.share_kernel "
    "device_kernels.share_step node_pairs.size".split()
)
_OF_KERNELS = ("kernels", "device_kernels")


def metric_sheets(
    log: Log, names: Sequence[str], options: Options, format: str, limit: int | None = None
) -> Iterator[Sheet]:
    """Return the named metrics of a log (default: all that its tables allow); in JSON also formulas and sources."""
    tables, marks = Tables(log), marks_of(log) if format == "text" else {}
    run_names = printed_names(log) if format in _BRIEF else {}
    chosen = [get(name) for name in names] or list(METRICS.values())
    shown = []
    for metric in chosen:
        table = metric.table(tables, options)
        if len(table) or names:
            shown.append(metric)
            yield replace(metric_sheet(metric, table, format, limit, run_names), marks=marks)
    if format == "json":
        yield pairs("formulas", [(m.name, m.formula) for m in shown])
        yield pairs("sources", [(m.name, m.source) for m in shown])


def metric_sheet(
    metric: Metric, table: pd.DataFrame, format: str, limit: int | None = None, run_names: Mapping[str, str] = {}
) -> Sheet:
    """Return a metric's table. Text and Markdown show some rows, without columns that are empty or for programs.

    Text and Markdown name runs by `run_names`, from their ids; other formats have the ids.
    """
    brief, title = format in _BRIEF, ""
    if run_names:
        table = table.assign(run=table["run"].map(lambda run: run_names.get(run, run)))
    known = table.notna().any() if brief else {}
    columns = [c for c in metric.columns if not brief or (c.brief and known[c.name])]
    note = []
    if brief:
        title, columns = _titled(metric, table, columns)
        limit = MAX_ROWS if limit is None else limit
        if 0 < limit < len(table):
            note.append(f"{count(len(table) - limit, 'more row')}: --limit 0 shows all {len(table):,}")
        note += ["these runs have no data to compute it from"] if not len(table) else [metric.formula, metric.source]
    shown = table.head(limit) if limit else table
    if format == "text" and terminal.width():
        shown = _with_short_kernels(metric, shown)
    shown_columns = tuple(
        SheetColumn(c.name, c.unit, _numeric(table[c.name]), c.short, _role(metric, c, table, columns)) for c in columns
    )
    rows = list(zip(*(map(_plain, shown[c.name].tolist()) for c in columns), strict=True))
    return Sheet(metric.name, shown_columns, rows, title, "\n".join(note))


def _titled(metric: Metric, table: pd.DataFrame, columns: list[MetricColumn]) -> tuple[str, list[MetricColumn]]:
    """Return the title, which names a single run, and the columns; several runs have a column with label or id."""
    if table["run"].nunique(dropna=False) == 1:
        run = table["label"].iloc[0] if table["label"].notna().all() else table["run"].iloc[0]
        return f"{metric.title} of {run}" if run else metric.title, _without(columns, "run", "label")
    labelled = len(table) and table["label"].notna().all()
    return metric.title, _without(columns, "run") if labelled else columns


def _role(metric: Metric, column: MetricColumn, table: pd.DataFrame, shown: Sequence[MetricColumn]) -> Role:
    """The role of a column: the main one of a metric stays on every terminal, as a verdict does.

    A column without a unit that has one value in all rows does not distinguish them, nor does a label that runs share:
    they are left out first.
    """
    name = column.name
    if name == metric.main:
        return "verdict"
    if name == "run" or (name == "label" and not any(c.name == "run" for c in shown)):
        return "run"
    alike = not column.unit and len(table) > 1 and _is_alike(table[name])
    return "detail" if alike or name == "label" or {name, f"{metric.name}.{name}"} & _DETAILS else ""


def _is_alike(column: pd.Series[Any]) -> bool:
    """Return whether a column has one value in all rows, or none. `nunique` takes three times as long."""
    known = column.notna()
    return bool((column == column.iloc[0]).all() if known.all() else not known.any())


def _with_short_kernels(metric: Metric, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with short names of kernels: those with all arguments can have thousands of characters."""
    if metric.name not in _OF_KERNELS:
        return rows
    short = short_kernels(rows.loc[rows["by"] == "name", "name"])
    return rows.assign(name=rows["name"].where(rows["by"] != "name", rows["name"].map(short)))


def _without(columns: list[MetricColumn], *names: str) -> list[MetricColumn]:
    return [c for c in columns if c.name not in names]


def metric_list_sheet() -> Sheet:
    """Return the list of all metrics."""
    rows = [(m.name, m.title, ", ".join(m.needs), m.formula) for m in METRICS.values()]
    return sheet("metrics", "name title needs formula", rows)


def _numeric(column: pd.Series[Any]) -> bool:
    return len(column) > 0 and all(isinstance(value, int | float) or value is None for value in column.tolist())


def _plain(value: object) -> Any:
    """A Python value, not one of numpy; None if it is null."""
    value = none_if_null(value)
    return value.item() if hasattr(value, "item") else value
