"""GPU telemetry joined to the steps of runs by time: power, energy, utilisation, memory, temperature and clocks.

A step covers its time before its line was printed; without a step time, the time since the line of the step before;
in a trace its range. Samples come from the same log, or from any log beside it: another program records them. They are
joined only if both times are on one clock: both in UTC, or both on a machine's clock without a time zone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.row_groups import row_groups
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.over_time.counters import Readings, readings
from perflog.parsing.input.log_names import base_name
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL, Rows
from perflog.tables.schema import LOCAL, NO_DATE, NO_YEAR, UTC

_MEASURED = r"(?!.*(?:limit|cap|max|min|default|percent|memory_temp|throttle))"
_QUANTITIES = {
    "power": (r"power(?:_draw|_draw_instant|_draw_average|_usage|watts|_w)?$", r"pwr$", r"gpu_power\w*$"),
    "utilisation": (
        r"(?:utilization_gpu|gpu_util\w*|util_gpu\w*|gputl|gpu_utilization)$", r"sm$", r"(?:gract|smact)$", r"gpu$",
    ),
    "memory": (r"memory_used\w*$", r"(?:fb|fbusd)$", r"memoryallocatedbytes$"),
    "temperature": (r"(?:temperature_gpu|gtemp|tmptr|temperature|temp|gpu_temp\w*)$",),
    "clock": (r"clocks?_(?:current_)?(?:sm|gr|graphics)$", r"(?:pclk|smclk|sclk|sm_clock)$"),
}  # fmt: skip
"""Quantities by the names that nvidia-smi, dmon, DCGM and Weights & Biases give them, the best first."""

_WITHOUT_UNIT = lazy_pattern(r"power(?:_draw|_usage|_w|watts)?|temperature_gpu|tmptr|gract|smact")
"""Names without a printed unit; their program's manual states it: W, °C, ratios."""

IDLE = 0.5
"""Share of the usual utilisation below which a device has little to do: its clock then falls without a fault."""

BASE_UNITS = {"power": ("W",), "utilisation": ("1",), "memory": ("B",), "temperature": ("°C",), "clock": ("Hz",)}
"""Base units of each quantity."""

_DEVICE_PREFIX = lazy_pattern(r"^(?:gpu|tpu|npu)\.\d+\.", re.IGNORECASE)
_NO_WORD = lazy_pattern(r"\W+")

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("part", meaning="run: from the first step to the last; step: one step"),
    MetricColumn("step", meaning="number of the step; null for the whole run", type="Int64"),
    MetricColumn("device", meaning="device that was sampled, of several nodes counted through them; null if the "
                 "samples do not name it", type="Int64"),
    MetricColumn("node", meaning="node of the device, where the samples are of several nodes", brief=False),
    MetricColumn("samples", meaning="number of times in the window at which the device was sampled", type="Int64"),
    MetricColumn("power_w", "W", None, "mean of the power samples in the window"),
    MetricColumn("power_max_w", "W", None, "largest power sample in the window", brief=False),
    MetricColumn("energy_j", "J", "lower", "energy of the window; null if the samples do not enclose it"),
    MetricColumn("utilisation", "1", "higher", "mean of the utilisation samples"),
    MetricColumn("utilisation_max", "1", "higher", "largest utilisation sample", brief=False),
    MetricColumn("memory_max_bytes", "B", "lower", "largest sample of used memory"),
    MetricColumn("memory_bytes", "B", "lower", "mean of the samples of used memory", brief=False),
    MetricColumn("temperature_c", "°C", None, "mean of the temperature samples", brief=False),
    MetricColumn("temperature_max_c", "°C", None, "largest temperature sample"),
    MetricColumn("clock_hz", "Hz", "higher", "mean of the samples of the clock of the multiprocessors"),
    MetricColumn("clock_max_hz", "Hz", "higher", "largest sample of this clock", brief=False),
    MetricColumn("span_s", "s", None, "length of the window", brief=False),
    MetricColumn("telemetry", meaning="id of the run that has the samples", brief=False),
    MetricColumn("note", meaning="why the clocks of steps and samples cannot be compared; then all values are null",
                 type="object"),
)  # fmt: skip
_MEANS = {"power": "power_w", "utilisation": "utilisation", "memory": "memory_bytes", "temperature": "temperature_c",
          "clock": "clock_hz"}  # fmt: skip
_MAXIMA = {"power": "power_max_w", "utilisation": "utilisation_max", "memory": "memory_max_bytes",
           "temperature": "temperature_max_c", "clock": "clock_max_hz"}  # fmt: skip


class TimedSteps(Struct, frozen=True):
    """Windows [start, end) of the steps of a run in nanoseconds, in their order, and the clock that they are on."""

    run: str
    clock: str | None
    steps: Ints
    starts: Ints
    ends: Ints


@metric(
    title="telemetry of steps",
    needs=("steps", "counters"),
    columns=_COLUMNS,
    main="power_w",
    formula="mean and maximum of the samples in [end - step_time * steps_averaged, end), without step times since the "
    "line of the step before; energy = integral of the power over this window, linear between samples",
    source="trapezoidal rule; samples of nvidia-smi, dmon, DCGM, Weights & Biases by their names; end: printed time",
)
def telemetry(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Power, energy, utilisation, memory, temperature and clock of each device in each step, and in the whole run."""
    samples = device_samples(tables)
    return [row for windows in timed_steps(tables) for row in _rows(windows, samples)]


def timed_steps(tables: Tables) -> Iterator[TimedSteps]:
    """Yield the windows of the steps of each run with times on its lines; they span all ranks."""
    steps = tables.rows("steps")
    steps = steps.where(steps.known("printed_ns", "step") & (steps["copy"] == 1))
    clocks = _clocks(tables)
    for run, rows in steps.by("run").items():
        starts, ends = _starts(rows), rows["printed_ns"]
        known = starts != NULL
        groups = groups_of(rows["step"][known])
        start, end = groups.ends(starts[known])[0], groups.ends(ends[known])[1]
        order = np.argsort(end, kind="stable")
        if len(order):
            numbers = rows["step"][known][groups.first]
            yield TimedSteps(run, _clock(rows, clocks[run]), numbers[order], start[order], end[order])


def _starts(rows: Rows) -> Ints:
    """Return the start of the window of each step of a run; NULL if it is not known."""
    ends = rows["printed_ns"]
    lengths = rows["step_time_s"] * rows.floats("steps_averaged") * 1e9
    order, firsts = row_groups(rows, "part", "rank").sorted_rows()
    before = np.full(len(rows), NULL)
    before[order[1:]] = ends[order[:-1]]
    before[order[firsts]] = NULL
    known = ~np.isnan(lengths)
    before[known] = ends[known] - np.rint(lengths[known]).astype(np.int64)
    return before


def _clock(rows: Rows, default: str | None) -> str | None:
    """Return the only clock of some rows; None if they have several, the default if they print none."""
    printed = list(rows.counts("clock"))
    if not printed:
        return default
    return printed[0] if len(printed) == 1 else None


def quantity_of(name: str, unit: str | None) -> tuple[str, int] | None:
    """Return the quantity of a counter, by its name and base unit, and the rank of its name (0: best); else None."""
    printed = _NO_WORD.sub("_", _DEVICE_PREFIX.sub("", name)).strip("_").lower()
    if not re.match(_MEASURED, printed):
        return None
    for quantity, patterns in _QUANTITIES.items():
        for rank, pattern in enumerate(patterns):
            known = _WITHOUT_UNIT.fullmatch(printed) is not None if unit is None else unit in BASE_UNITS[quantity]
            if re.match(pattern, printed) and known:
                return quantity, rank
    return None


def _clocks(tables: Tables) -> dict[str, str | None]:
    """Return the clock of the times of each run that its readers state: utc, or the trace's own."""
    clocks = {}
    for run, config in tables.rows("runs").records("run", "config"):
        clock = json.loads(config or "{}").get("clock")
        clocks[run] = {"epoch": "utc", "trace": f"trace of {run}"}.get(str(clock))
    return clocks


class Series(Struct, frozen=True):
    """Samples of a quantity of a device, one for each time, in the order of the times."""

    times: Ints
    values: Floats


class DeviceSamples(Struct, frozen=True):
    """The samples of a run on a clock, by device (None: not known) and quantity.

    `nodes`: by device its node and its number there, where the samples are of several nodes.
    """

    run: str
    clock: str | None
    devices: Mapping[int | None, Mapping[str, Series]]
    first: int
    last: int
    nodes: Mapping[int, tuple[str, int]]


def device_samples(tables: Tables) -> list[DeviceSamples]:
    """Return the samples of devices with a known quantity: of several counters for it, the one with the best name."""
    rows = tables.rows("counters")
    rows = rows.where(rows.known("start_ns") & ~rows.known("duration_ns") & ~rows.known("subject"))
    found = readings(rows)
    codes, words = found.rows.codes("name")
    names = groups_of(codes, found.unit)
    quantities = [quantity_of(words[codes[row]], found.units[found.unit[row]]) for row in names.first.tolist()]
    numbers = {quantity: number for number, quantity in enumerate(_QUANTITIES)}
    number = np.array([numbers[each[0]] if each else -1 for each in quantities], np.int64)[names.inverse]
    quality = np.array([each[1] if each else -1 for each in quantities], np.int64)[names.inverse]
    found, number, quality = found.where(number >= 0), number[number >= 0], quality[number >= 0]
    groups = groups_of(found.rows.keys("run"), number)
    is_best = quality == groups.ends(quality)[0][groups.inverse]
    return list(_sampled(tables, found.where(is_best), number[is_best]))


def log_names(tables: Tables, samples: Sequence[DeviceSamples]) -> dict[str, str]:
    """Return the name of the log of some samples, by run; "" if only one log has samples."""
    logs = dict(tables.rows("runs").records("run", "log"))
    return {each.run: base_name(logs[each.run]) if len(samples) > 1 else "" for each in samples}


def _sampled(tables: Tables, found: Readings, quantity: Ints) -> Iterator[DeviceSamples]:
    """Yield the samples of each run. `quantity`: index of the quantity of each."""
    runs, words = found.rows.codes("run")
    device_of_row, nodes = _of_nodes(found.rows)
    keys = (runs, device_of_row, quantity)
    moments = groups_of(*keys, found.rows["start_ns"])  # one reading for each time
    times, values = found.rows["start_ns"][moments.first], moments.means(found.value)
    series = groups_of(*(key[moments.first] for key in keys))
    devices: dict[str, dict[int | None, dict[str, Series]]] = {}
    for first, index in zip(moments.first[series.first].tolist(), series.rows, strict=True):
        run, device, name = words[runs[first]], int(keys[1][first]), list(_QUANTITIES)[quantity[first]]
        quantities = devices.setdefault(run, {}).setdefault(None if device == NULL else device, {})
        quantities[name] = Series(times[index], values[index])
    clocks = _clocks(tables)
    for run, rows in found.rows.by("run").items():
        in_order = dict(sorted(devices[run].items(), key=lambda item: (item[0] is None, item[0] or 0)))
        ends = int(rows["start_ns"].min()), int(rows["start_ns"].max())
        yield DeviceSamples(run, _clock(rows, clocks[run]), in_order, *ends, nodes.get(run, {}))


def _of_nodes(rows: Rows) -> tuple[Ints, dict[str, dict[int, tuple[str, int]]]]:
    """Return the device of each row, and by run the node of each, where samples of several nodes number devices alike.

    Devices of several nodes are counted through the nodes, in the order in which these are printed.
    """
    devices = rows["device"]
    if not len(rows) or not (rows.known("clock", "process", "device")).any():
        return devices, {}
    runs, run_words = rows.codes("run")
    hosts, words = rows.codes("process")
    is_sampled = rows.known("clock", "process", "device")
    hosts = np.where(is_sampled, hosts, -1)
    members = groups_of(runs, hosts, devices)
    numbers = devices[members.first].copy()
    nodes: dict[str, dict[int, tuple[str, int]]] = {}
    for run in np.unique(runs[is_sampled]).tolist():
        places = np.flatnonzero((runs[members.first] == run) & is_sampled[members.first])
        firsts = members.first[places]
        if len(np.unique(hosts[firsts])) > 1:
            nodes[run_words[run]] = {
                number: (words[hosts[row]], int(devices[row])) for number, row in enumerate(firsts.tolist())
            }
            numbers[places] = np.arange(len(places))
    return numbers[members.inverse], nodes


def _rows(windows: TimedSteps, samples: Sequence[DeviceSamples]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a run: for each log with samples and each device, of the run and of its steps."""
    for sampled in samples:
        run_columns = {"run": windows.run, "telemetry": sampled.run}
        if not are_on_one_clock(windows, sampled):
            yield run_columns | {"part": "run", "note": _difference(windows.clock, sampled.clock)}
            continue
        if sampled.last < windows.starts.min() or sampled.first > windows.ends.max():
            continue  # of another time
        for device, quantities in sampled.devices.items():
            node, _ = sampled.nodes.get(device, (None, device)) if device is not None else (None, None)
            yield from _device_rows(windows, quantities, run_columns | {"device": device, "node": node})


def are_on_one_clock(windows: TimedSteps, samples: DeviceSamples) -> bool:
    """Return whether the times of steps and of samples can be compared."""
    return samples.run == windows.run or _difference(windows.clock, samples.clock) is None


def _difference(steps: str | None, samples: str | None) -> str | None:
    """Return why two clocks cannot be compared; None if they can."""
    if steps == samples and steps in (UTC, LOCAL):
        return None
    zones = {
        UTC: "in UTC", LOCAL: "without a time zone", NO_YEAR: "without a year", NO_DATE: "without a date",
        None: "on an unknown clock",
    }  # fmt: skip
    return f"steps are {zones.get(steps, 'on the clock of a trace')}, samples {zones.get(samples, 'on a trace clock')}"


def _device_rows(
    windows: TimedSteps, quantities: Mapping[str, Series], run_columns: Mapping[str, Any]
) -> Iterator[dict[str, object]]:
    starts = np.append(windows.starts.min(), windows.starts)
    ends = np.append(windows.ends.max(), windows.ends)
    times = np.unique(np.concatenate([series.times for series in quantities.values()]))
    columns: dict[str, Any] = {"samples": np.searchsorted(times, ends) - np.searchsorted(times, starts)}
    for quantity, series in quantities.items():
        at, values = series.times, series.values
        low, high = np.searchsorted(at, starts), np.searchsorted(at, ends)
        sums = np.append(0.0, np.cumsum(values))
        with np.errstate(invalid="ignore", divide="ignore"):
            columns[_MEANS[quantity]] = np.where(high > low, (sums[high] - sums[low]) / (high - low), np.nan)
        columns[_MAXIMA[quantity]] = [values[a:b].max() if b > a else np.nan for a, b in zip(low, high, strict=True)]
        if quantity == "power":
            columns["energy_j"] = energy(at, values, starts, ends)
    parts = ["run"] + ["step"] * len(windows.steps)
    numbers = [None, *windows.steps.tolist()]
    columns |= {"part": parts, "step": numbers, "span_s": (ends - starts) / 1e9}
    for values_of_row in zip(*columns.values(), strict=True):
        yield dict(run_columns) | dict(zip(columns, values_of_row, strict=True))


def energy(times: Ints, power: Floats, starts: Ints, ends: Ints) -> Floats:
    """Return the energy of windows in joules: the integral of a power in watts that is linear between its samples.

    Args:
        times: times of the samples in nanoseconds, growing.
        power: power at these times in watts.
        starts: starts of the windows in nanoseconds.
        ends: ends of the windows.

    Returns:
        The energy of each window; NaN where no sample is at or before its start, or at or after its end.
    """
    if len(times) < 2:
        return np.full(len(starts), np.nan)
    seconds = (times - times[0]) / 1e9
    until = np.append(0.0, np.cumsum((power[1:] + power[:-1]) / 2 * np.diff(seconds)))

    def total(edges: Ints) -> Floats:
        at = (edges - times[0]) / 1e9
        before = np.clip(np.searchsorted(times, edges, "right") - 1, 0, len(times) - 2)
        passed = at - seconds[before]
        slope = (power[before + 1] - power[before]) / (seconds[before + 1] - seconds[before])
        result: Floats = until[before] + passed * (power[before] + slope * passed / 2)
        return result

    enclosed = (starts >= times[0]) & (ends <= times[-1])
    return np.where(enclosed, total(ends) - total(starts), np.nan)
