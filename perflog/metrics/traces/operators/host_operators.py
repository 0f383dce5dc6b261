"""Operators on the host by name and shapes: how often they are called, their time, the bytes of their tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics.compared import ALL, Measure, Sample, Steady
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.device_work import seconds
from perflog.metrics.traces.input_shapes import shapes_text
from perflog.metrics.traces.operators.collective_volume import collective_volume
from perflog.metrics.traces.operators.recorded_operators import Operators, operators_by_file
from perflog.metrics.traces.steady_work import devices_by_run
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("rank", meaning="rank of the trace", type="Int64"),
    MetricColumn("operator", meaning="name of the operator", type="object"),
    MetricColumn("shapes", meaning="shapes of its inputs; null: no recording of the process has them", type="object"),
    MetricColumn("calls", meaning="number of calls", type="Int64"),
    MetricColumn("share", "1", None, "self_s / sum of the self times of all operators of the file"),
    MetricColumn("self_s", "s", "lower", "time of the host in these calls, without the operators that they call"),
    MetricColumn("time_s", "s", "lower", "time of the host in these calls, with the operators that they call"),
    MetricColumn("avg_s", "s", "lower", "time_s / number of the calls with a known time", brief=False),
    MetricColumn("bytes", "B", "lower", "bytes of the tensors that these calls take and return, as the trace states",
                 type="Int64"),
    MetricColumn("joined", meaning="run with a recording of the same process, the source of times, or of shapes and "
                 "bytes", type="object"),
    MetricColumn("first_line", meaning="line of the first call", brief=False, type="Int64"),
)  # fmt: skip


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """Yield the values of the operators of traces without work of a device.

    Where they are timed, the self time of all, of each operator and of each of its shapes; else bytes of tensors and of
    collectives, and calls.
    """
    devices = devices_by_run(tables)
    some = tables.only([run for run in steady.cuts if run not in devices])
    rows, volumes = host_operators.table(some, Options()), collective_volume.table(some, Options())
    for run, run_rows in rows.groupby("run", sort=False):
        for name, of, unit, figure in _figures(run_rows, volumes[volumes["run"] == run]):
            yield Measure("operator", name, unit, "lower" if unit else None, of=of), str(run), np.array([figure])


def _figures(rows: pd.DataFrame, volumes: pd.DataFrame) -> Iterator[tuple[str, str | None, str, float]]:
    """Name, the name that it is part of, unit and value."""
    shaped = rows[rows["shapes"].notna()]
    shapes = (shapes_text(printed) or "" for printed in shaped["shapes"])
    shaped = shaped.assign(name=[" ".join(words).strip() for words in zip(shaped["operator"], shapes, strict=True)])
    if rows["self_s"].notna().any():
        yield ALL, None, "s", float(rows["self_s"].sum())
        for name, own in rows.groupby("operator", sort=False)["self_s"].sum().items():
            yield str(name), ALL, "s", float(own)
        # They are no parts of their operator: the other side may have no shapes.
        for name, own in shaped.groupby("name", sort=False)["self_s"].sum().items():
            yield str(name), None, "s", float(own)
        return
    if rows["bytes"].notna().any():
        yield "tensors of all operators", None, "B", float(rows["bytes"].sum())
    yield "calls of all operators", None, "", float(rows["calls"].sum())
    sizes = volumes[volumes["bytes"].notna()].groupby("op", sort=False)["bytes"].sum()
    yield from ((f"messages of {op}", None, "B", float(size)) for op, size in sizes.items())
    for name, name_rows in shaped.groupby("name", sort=False):
        calls, size = float(name_rows["calls"].sum()), float(name_rows["bytes"].sum())
        yield f"calls of {name}", None, "", calls
        if size:
            yield f"tensors of {name}", None, "B", size


@metric(
    title="operators of the host",
    needs=("events",),
    columns=_COLUMNS,
    main="self_s",
    formula="self = time of the calls - times of the operators directly inside them, on the same thread; "
    "share = self / sum of all self times of the file",
    source="operators as PyTorch's profiler, its execution traces and XLA's profiler record them; two recordings of a "
    "process are joined by the number of the recorded function (`rf_id`, `Record function id`)",
    compares=(_samples,),
)
def host_operators(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Calls and host time of the operators of each trace by name and shapes, the longest self time first.

    An execution trace has no times, and a profile often has no shapes. Where both of one process are among the runs,
    each fills in what the other lacks. Times of threads add up.
    """
    return [_rows(operators) for operators in operators_by_file(tables)]


def _rows(operators: Operators) -> pd.DataFrame:
    """Rows of one file."""
    import pandas as pd

    alike = groups_of(operators.name, operators.shapes)
    which, count = alike.inverse, len(alike.first)

    def sums(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums of the known values of each row, NaN where none is known, and their numbers."""
        known = values != NULL
        number = np.bincount(which[known], minlength=count)
        total = np.zeros(count, np.int64)
        np.add.at(total, which[known], values[known])
        return np.where(number > 0, total.astype(np.float64), np.nan), number

    (own, _), (time, timed), (size, sized) = (sums(v) for v in (operators.own, operators.times, operators.bytes))
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, which, operators.lines)
    all_own = np.nansum(own)
    with np.errstate(divide="ignore", invalid="ignore"):
        average, share = seconds(time / timed), own / all_own if all_own else np.full(count, np.nan)
    table = pd.DataFrame(
        {
            "run": operators.run, "rank": operators.rank,
            "operator": np.array([*operators.names, None], object)[operators.name[alike.first]],
            "shapes": np.array([*operators.shape_texts, None], object)[operators.shapes[alike.first]],
            "calls": np.bincount(which, minlength=count), "share": share, "self_s": seconds(own),
            "time_s": seconds(time), "avg_s": average,
            "bytes": pd.array([int(s) if n else pd.NA for s, n in zip(size, sized, strict=True)], "Int64"),
            "joined": operators.other, "first_line": first,
        }
    )  # fmt: skip
    return table.sort_values(["self_s", "calls", "first_line"], ascending=[False, False, True], kind="stable")
