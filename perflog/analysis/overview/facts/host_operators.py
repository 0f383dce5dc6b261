"""The host in an overview: which operators or ranges take the time of a trace without a device; recordings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from perflog.analysis.overview.parts import percent
from perflog.metrics import Options, Tables, collective_volume, device_ranges, host_operators
from perflog.metrics.traces.device_work import trace_devices
from perflog.metrics.traces.input_shapes import shapes_text
from perflog.metrics.traces.work_tree import OUTSIDE, PATH_MARK
from perflog.tables.nulls import none_if_null
from perflog.units import count, show

if TYPE_CHECKING:
    import pandas as pd

_NAMED = 3  # operators, or collectives, that a sentence names
_TELLING = 0.03  # of the self time


def host_operator_sentences(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Say which operators take most of the host's time, if no device did the work, or are called most; and collectives.

    What another recording of the process fills in is named.
    """
    if any(device.run == run for device in trace_devices(tables)):
        return
    rows = host_operators.table_of(run, tables, options)
    if not len(rows):
        return
    timed = rows["self_s"].notna().any()
    by_name = rows.groupby("operator", sort=False)[["self_s", "calls"]].sum().reset_index()
    whole = float(rows["self_s"].sum())
    if timed and whole:
        largest = by_name.sort_values("self_s", ascending=False, kind="stable").head(_NAMED).to_dict("records")
        parts = [
            f"{percent(row['self_s'] / whole)} {row['operator']} "
            f"({count(int(row['calls']), 'call')}{_shapes(rows, row)})"
            for row in largest
            if row["self_s"] > _TELLING * whole
        ]
        yield f"Operators of the host take {show(whole, 's', 3)}{_over(rows)}: {', '.join(parts)}."
    else:
        most = by_name.sort_values("calls", ascending=False, kind="stable").head(_NAMED).to_dict("records")
        parts = [f"{row['operator']} ({int(row['calls']):,} times{_shapes(rows, row)})" for row in most]
        calls = count(int(rows["calls"].sum()), "call")
        yield f"{calls} of {count(len(by_name), 'operator')}, without times; most: {', '.join(parts)}."
    yield from _collectives(tables, run, options)


def _over(rows: pd.DataFrame) -> str:
    ranks = rows["rank"].nunique()
    return f" over {ranks} ranks" if ranks > 1 else ""


def _shapes(rows: pd.DataFrame, row: dict[str, object]) -> str:
    """The shapes with which an operator takes most time, or is called most."""
    operator_rows = rows[(rows["operator"] == row["operator"]) & rows["shapes"].notna()]
    if not len(operator_rows):
        return ""
    by = "self_s" if operator_rows["self_s"].notna().any() else "calls"
    shapes = shapes_text(str(operator_rows.sort_values(by, ascending=False, kind="stable")["shapes"].iloc[0]))
    return f", most with inputs {shapes}" if shapes else ""


def _collectives(tables: Tables, run: str, options: Options) -> Iterator[str]:
    rows = collective_volume.table_of(run, tables, options)
    if not len(rows):
        return
    keys = ["op", "group", "group_description", "dtype"]
    sums = rows.groupby(keys, sort=False, dropna=False)[["calls", "bytes"]].sum(min_count=1).reset_index()
    largest = sums.sort_values("bytes", ascending=False, kind="stable", na_position="last").head(_NAMED)
    yield f"Collectives{_over(rows)}: {'; '.join(_volume(row) for row in largest.to_dict('records'))}."


def _volume(row: dict[str, Any]) -> str:
    size, group = none_if_null(row["bytes"]), none_if_null(row["group_description"]) or none_if_null(row["group"])
    words = [
        f"{row['op']} {count(int(row['calls']), 'call')}",
        "bytes unknown" if size is None else show(float(size), "B", 3),
    ]
    words += [f"group {group}"] if group else []
    dtype = none_if_null(row["dtype"])
    return ", ".join(words + ([str(dtype)] if dtype else []))


# --- ranges of the host ----------------------------------------------------------------------------------------------


def host_time_of_steps(tables: Tables, run: str, options: Options) -> tuple[float, dict[str, float]] | None:
    """Return the mean host time of a step in s, and of each range directly inside; the longest first.

    Returns:
        The times, with OUTSIDE for the rest of the step, last. None if the trace has device work, since its time shows
        more, or if no range lies in its steps.
    """
    rows = device_ranges.table_of(run, tables, options)
    steps = rows[(rows["kind"] == "step") & (rows["depth"] == 0)]
    if not len(steps) or rows["gpu_s"].notna().any():
        return None
    entered = float(steps["entered"].sum())
    inside, names = rows[rows["depth"] == 1], set(steps["path"])
    inside = inside[[path.partition(PATH_MARK)[0] in names for path in inside["path"]]]
    if not len(inside):
        return None
    times = inside.groupby("range")["host_s"].sum().sort_values(ascending=False, kind="stable") / entered
    whole = float(steps["host_s"].sum()) / entered
    return whole, {**times.to_dict(), OUTSIDE: whole - float(times.sum())}
