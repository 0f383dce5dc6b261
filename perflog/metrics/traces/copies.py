"""Copies of traces: how much each device copied in which direction, how fast, and what no other work hid."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.device_work import (
    COMMUNICATION,
    COMPUTE,
    DEVICE_COLUMNS,
    TraceDevice,
    seconds,
    trace_devices,
)
from perflog.metrics.traces.intervals import union

_WORDS = {"h": "host", "d": "device", "p": "peer", "a": "array"}
_PLACE = "(host|device|peer|array|[hdpa])"
_DIRECTION = lazy_pattern(f"(?<![a-z])(?:copy|memcpy)?{_PLACE}to{_PLACE}(?![a-z])")
_MEMORY = lazy_pattern(r"pageable|pinned|managed|unified", re.IGNORECASE)

_COLUMNS = (
    *RUN_COLUMNS,
    *DEVICE_COLUMNS,
    MetricColumn("direction", meaning="from where to where, such as `host to device`; else the name as printed"),
    MetricColumn("memory", meaning="pageable, pinned, managed or unified memory of the host; null: unknown"),
    MetricColumn("calls", meaning="number of copies", type="Int64"),
    MetricColumn("bytes", "B", None, "bytes of the copies with a known size", type="Int64"),
    MetricColumn("time_s", "s", "lower", "sum of the times of the copies"),
    MetricColumn("bandwidth", "GB/s", "higher", "bytes / time of the copies with a known size"),
    MetricColumn("median_bytes", "B", None, "median size", brief=False),
    MetricColumn("exposed_s", "s", "lower", "time of these copies in which nothing computes or communicates"),
    MetricColumn("share", "1", None, "exposed_s / time between the device's first and last event"),
    MetricColumn("first_line", meaning="line of the first copy in the trace's file", brief=False, type="Int64"),
)


@metric(
    title="copies",
    needs=("events",),
    columns=_COLUMNS,
    main="bandwidth",
    formula="bandwidth = sum of bytes / sum of times; exposed = |union of the copies - compute - communication|",
    source="directions and memory: names of CUPTI's and ROCm's copies",
)
def copies(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Copies of each device by direction and memory of the host; the longest first. Memsets are no copies.

    Copies of many small sizes are slow whatever the link: compare `bandwidth` with `median_bytes` beside it.
    """
    return [row for device in trace_devices(tables) for row in _rows(device)]


def way_of(name: str) -> tuple[str, str | None]:
    """Return the direction of a copy and the memory of the host, by its name.

    Example:
        >>> way_of("Memcpy HtoD (Pinned -> Device)")
        ('host to device', 'pinned')
        >>> way_of("MEMORY_COPY_DEVICE_TO_HOST")
        ('device to host', None)
    """
    found = _DIRECTION.search(re.sub(r"(?<=[a-z])[-_ ]+to[-_ ]+(?=[a-z])", "to", name.lower()).replace("_", " "))
    memory = _MEMORY.search(name)
    direction = " to ".join(_WORDS.get(word, word) for word in found.groups()) if found else name
    return direction, memory[0].lower() if memory else None


def _rows(device: TraceDevice) -> list[dict[str, Any]]:
    work = device.work
    is_copy = work.rows.one_of("kind", ["memcpy"])
    if not is_copy.any():
        return []
    names, words = work.rows.codes("name")
    ways: dict[tuple[str, str | None], list[int]] = {}
    for code in dict.fromkeys(names[is_copy].tolist()):
        ways.setdefault(way_of(words[code] if code >= 0 else "copy"), []).append(code)
    states = work.states()
    other = states[COMPUTE] | states[COMMUNICATION]
    sizes = np.where(work.rows.known("bytes"), work.rows["bytes"], np.nan)
    lengths = work.ends - work.starts
    rows = []
    for (direction, memory), codes_of_way in ways.items():
        chosen = is_copy & np.isin(names, codes_of_way)
        known = chosen & (sizes > 0) & (lengths > 0)
        exposed = union(work.starts[chosen], work.ends[chosen]) - other
        row = {
            "run": device.run, "rank": device.rank, "device": device.device,
            "device_name": device.device_name, "direction": direction, "memory": memory,
            "calls": int(chosen.sum()), "time_s": float(seconds(lengths[chosen].sum())),
            "exposed_s": float(seconds(exposed.length)), "share": exposed.length / device.span if device.span else None,
            "first_line": int(work.rows["line"][chosen.argmax()]),
        }  # fmt: skip
        if not np.isnan(sizes[chosen]).all():
            row |= {"bytes": int(np.nansum(sizes[chosen])), "median_bytes": float(np.nanmedian(sizes[chosen]))}
        if known.any():
            row["bandwidth"] = float(sizes[known].sum() / lengths[known].sum())  # bytes/ns are GB/s
        rows.append(row)
    return sorted(rows, key=lambda row: -row["time_s"])
