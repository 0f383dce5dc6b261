"""Bandwidth and latency of measured collectives: benchmarks such as nccl-tests, over all message sizes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perflog.arrays import Floats
from perflog.metrics.compared import Measure, Sample, Steady
from perflog.metrics.directions import Better
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.row_groups import split
from perflog.metrics.run_tables import Tables
from perflog.tables.columns import Rows
from perflog.units import show

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("op", meaning="collective operation"),
    MetricColumn("dtype", meaning="element type"),
    MetricColumn("ranks", meaning="number of ranks"),
    MetricColumn("buffer", meaning="`out of place`, or `in place`: the result replaces the input; `all`: both"),
    MetricColumn("n", meaning="number of measurements"),
    MetricColumn("smallest", "B", None, "smallest message", type="Int64"),
    MetricColumn("largest", "B", None, "largest message", type="Int64"),
    MetricColumn("smallest_s", "s", "lower", "median time of the smallest message: the latency"),
    MetricColumn("largest_s", "s", "lower", "median time of the largest message"),
    MetricColumn("mean_busbw", "GB/s", "higher", "mean bus bandwidth over all measurements, as nccl-tests averages"),
    MetricColumn("peak_busbw", "GB/s", "higher", "highest bus bandwidth"),
    MetricColumn("peak_at", "B", None, "message size of the highest bus bandwidth; algorithm bandwidth where no other "
                 "is printed", type="Int64"),
    MetricColumn("saturated_at", "B", None, "smallest message from which on this bandwidth is at least 90 % of the "
                 "highest", type="Int64"),
    MetricColumn("peak_algbw", "GB/s", "higher", "highest algorithm bandwidth"),
    MetricColumn("wrong", "", "lower", "number of wrong results; null if none was checked"),
    MetricColumn("first_line", meaning="line of the first measurement", brief=False),
    MetricColumn("last_line", meaning="line of the last measurement", brief=False),
)  # fmt: skip
ALL = "all"

_SATURATED = 0.9  # of the highest bus bandwidth


_COMPARED = (("busbw_gbps", "busbw", "GB/s"), ("algbw_gbps", "algbw", "GB/s"), ("time_s", "time", "s"))


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """The mean over the messages of each collective, then each message: bus bandwidth, else what there is.

    A mean is comparable only over the same messages, so its name has their number and sizes.
    """
    for run, run_rows in tables.rows_by_run("collectives").items():
        for op_rows in split(run_rows, "op") if run in steady.cuts else ():
            op = op_rows["op"][0]
            column, quantity, unit = next((c for c in _COMPARED if op_rows.known(c[0]).any()), _COMPARED[-1])
            measured = op_rows.where(op_rows.known(column, "bytes"))
            if not len(measured):
                continue
            better: Better = "lower" if unit == "s" else "higher"
            name = quantity if op is None else f"{op} {quantity}"
            sizes = show(float(measured["bytes"].min()), "B"), show(float(measured["bytes"].max()), "B")
            whole = f"{name}, mean of {len(measured)}, {sizes[0]} to {sizes[1]}"
            yield Measure("collective", whole, unit, better), run, np.array([measured[column].mean()])
            messages: dict[tuple[int, str | None], list[float]] = {}
            for size, buffer, value in measured.records("bytes", "buffer", column):
                messages.setdefault((size, buffer), []).append(value)
            for (size, buffer), values in messages.items():
                place = "" if buffer is None else f", {buffer}"
                yield (
                    Measure("collective", f"{name}, {show(float(size), 'B')}{place}", unit, better),
                    run,
                    np.array(values),
                )


@metric(
    title="collectives",
    needs=("collectives",),
    columns=_COLUMNS,
    main="mean_busbw",
    formula="mean and highest bus bandwidth over message sizes; latency = median time of the smallest message",
    source="NVIDIA/nccl-tests doc/PERFORMANCE.md; bandwidths and times as printed",
    compares=(_samples,),
)
def collectives(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Bandwidth and latency of each collective that a run measures, for each kind of buffer and for both together."""
    return [
        {"run": run, **row}
        for run, run_rows in tables.rows_by_run("collectives").items()
        for group in split(run_rows, "op", "dtype", "ranks")
        for row in _rows(group)
    ]


def _rows(group: Rows) -> Iterator[dict[str, object]]:
    """Rows of one collective: of each buffer, then of all if there are several."""
    buffers = split(group, "buffer")
    for rows in buffers:
        yield _row(rows) | {"buffer": rows["buffer"][0]}
    if len(buffers) > 1:
        yield _row(group) | {"buffer": ALL}


def _row(rows: Rows) -> dict[str, object]:
    row = next(rows.dicts("op", "dtype", "ranks"))
    sizes, times, busbw, algbw, wrong = (rows.floats(name) for name in _FIGURES)
    known = sizes[~np.isnan(sizes)]
    if len(known):
        row |= {"smallest": int(known.min()), "largest": int(known.max())}
        medians = _medians(sizes, times)
        row |= {"smallest_s": medians[known.min()], "largest_s": medians[known.max()]}
    bandwidth = next((values for values in (busbw, algbw) if not np.isnan(values).all()), None)
    if bandwidth is not None:
        measured = busbw[~np.isnan(busbw)]
        row |= {"mean_busbw": float(measured.mean()), "peak_busbw": float(measured.max())} if len(measured) else {}
        at = sizes[int(np.nanargmax(bandwidth))]
        row |= {"peak_at": None if np.isnan(at) else int(at), "saturated_at": _saturated_at(sizes, bandwidth)}
    checked, lines = wrong[~np.isnan(wrong)], rows["line"]
    row |= {"peak_algbw": float(np.nanmax(algbw)) if not np.isnan(algbw).all() else None}
    row |= {"wrong": int(checked.sum()) if len(checked) else None, "n": len(rows)}
    return row | {"first_line": int(lines.min()), "last_line": int(lines.max())}


_FIGURES = ("bytes", "time_s", "busbw_gbps", "algbw_gbps", "wrong")


def _medians(sizes: Floats, values: Floats) -> dict[float, float]:
    """The median of the values of each size that are known, the smallest size first; NaN if none is."""
    measured = ~np.isnan(values)
    by_size = {size: values[(sizes == size) & measured] for size in np.unique(sizes[~np.isnan(sizes)]).tolist()}
    return {size: float(np.median(known)) if len(known) else np.nan for size, known in by_size.items()}


def _saturated_at(sizes: Floats, bandwidth: Floats) -> int | None:
    """Return the smallest message with a bandwidth near the peak; None if it falls again, or of one size."""
    medians = {size: value for size, value in _medians(sizes, bandwidth).items() if not np.isnan(value)}
    if len(medians) < 2:
        return None
    by_size = np.array(list(medians.values()))
    least_of_larger = np.minimum.accumulate(by_size[::-1])[::-1]
    near_peak = np.flatnonzero(least_of_larger >= _SATURATED * by_size.max())
    return int(list(medians)[near_peak[0]]) if len(near_peak) else None
