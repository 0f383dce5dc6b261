"""GPU telemetry joined to the steps of runs by time: power, energy, utilisation, memory, temperature and clocks.

A step covers its time before its line was printed; without a step time, the time since the line of the step before;
in a trace its range. Samples come from the same log, or from any log beside it: another program records them. They are
joined only if both times are on one clock: both in UTC, or both on a machine's clock without a time zone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.counters import in_base_units
from perflog.tables.schema import LOCAL, NO_DATE, NO_YEAR, UTC

if TYPE_CHECKING:
    import pandas as pd


_NOT_MEASURED = r"(?!.*(?:limit|cap|max|min|default|percent|memory_temp|throttle))"
_QUANTITIES = {
    "power": (r"power(?:_draw|_draw_instant|_draw_average|_usage|watts|_w)?$", r"pwr$", r"gpu_power\w*$"),
    "utilisation": (
        r"(?:utilization_gpu|gpu_util\w*|util_gpu\w*|gputl|gpu_utilization)$", r"sm$", r"(?:gract|smact)$", r"gpu$",
    ),
    "memory": (r"memory_used\w*$", r"(?:fb|fbusd)$", r"memoryallocatedbytes$"),
    "temperature": (r"(?:temperature_gpu|gtemp|tmptr|temperature|temp|gpu_temp\w*)$",),
    "clock": (r"clocks?_(?:current_)?(?:sm|gr|graphics)$", r"(?:pclk|smclk|sclk)$"),
}  # fmt: skip
"""Quantities by the names that nvidia-smi, dmon, DCGM and Weights & Biases give them, the best first."""

_WITHOUT_UNIT = lazy_pattern(r"power(?:_draw|_usage|_w|watts)?|temperature_gpu|tmptr|gract|smact")
"""Names without a printed unit; their program's manual states it: W, °C, ratios."""

_BASE = {"power": ("W",), "utilisation": ("1",), "memory": ("B",), "temperature": ("°C",), "clock": ("Hz",)}
_DEVICE_PREFIX = lazy_pattern(r"^(?:gpu|tpu|npu)\.\d+\.", re.IGNORECASE)
_NO_WORD = lazy_pattern(r"\W+")

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("part", meaning="run: from the first step to the last; step: one step"),
    MetricColumn("step", meaning="number of the step; null for the whole run"),
    MetricColumn("device", meaning="device that was sampled; null if the samples do not name it"),
    MetricColumn("samples", meaning="number of times in the window at which the device was sampled"),
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
    MetricColumn("note", meaning="why the clocks of steps and samples cannot be compared; then all values are null"),
)
_MEANS = {"power": "power_w", "utilisation": "utilisation", "memory": "memory_bytes", "temperature": "temperature_c",
          "clock": "clock_hz"}  # fmt: skip
_MAXIMA = {"power": "power_max_w", "utilisation": "utilisation_max", "memory": "memory_max_bytes",
           "temperature": "temperature_max_c", "clock": "clock_max_hz"}  # fmt: skip


class StepWindows(Struct, frozen=True):
    """Windows [start, end) of the steps of a run in nanoseconds, in their order, and the clock that they are on."""

    run: str
    label: str | None
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
def telemetry(tables: Tables, options: Options) -> pd.DataFrame:  # noqa: ARG001 (all metrics take the same)
    """Power, energy, utilisation, memory, temperature and clock of each device in each step, and in the whole run.

    Example:
        >>> table = perflog.metrics.telemetry(perflog.read("run.txt"))
        >>> list(table.columns[2:7])
        ['part', 'step', 'device', 'samples', 'power_w']
    """
    import pandas as pd

    names = [c.name for c in _COLUMNS]
    samples, clocks = _samples(tables), _clocks(tables)
    rows = [row for windows in step_windows(tables) for row in _rows(windows, samples, clocks)]
    table = pd.DataFrame(rows, columns=names)
    integers = dict.fromkeys(("step", "device", "samples"), "Int64")
    floats = {c.name: "float64" for c in _COLUMNS if c.unit}
    return table.astype(integers | floats | {"note": object, "label": object})


def step_windows(tables: Mapping[str, pd.DataFrame]) -> Iterator[StepWindows]:
    """Yield the windows of the steps of each run with times on its lines; they span all ranks."""
    steps = tables["steps"]
    steps = steps[steps["printed_ns"].notna() & steps["step"].notna() & (steps["copy"] == 1)]
    clocks = _clocks(tables)
    labels = dict(zip(tables["runs"]["run"], tables["runs"]["label"], strict=True))
    for run, rows in steps.groupby("run", sort=False):
        enclosing = _with_starts(rows).groupby("step").agg(start=("start", "min"), end=("end", "max"))
        if not len(enclosing):
            continue
        first = enclosing.sort_values("end")
        printed = set(rows["clock"].dropna())
        clock = printed.pop() if len(printed) == 1 else None if printed else clocks[run]
        label = labels[run] if isinstance(labels[run], str) else None
        columns = (first.index, first["start"], first["end"])
        yield StepWindows(str(run), label, clock, *(column.to_numpy(np.int64) for column in columns))


def _with_starts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return steps with start and end of their windows, without steps with an unknown start."""
    rows = rows.assign(end=rows["printed_ns"].astype("int64"))
    lengths = rows["step_time_s"].astype("float64") * rows["steps_averaged"].astype("float64") * 1e9
    before = rows.groupby(["part", "rank"], dropna=False, sort=False)["end"].shift().astype("Int64")
    starts = (rows["end"] - lengths.round().astype("Int64")).fillna(before)
    rows = rows.assign(start=starts)[starts.notna()]
    return rows.astype({"start": "int64"})


def quantity_of(name: str, unit: str | None) -> tuple[str, int] | None:
    """Return the quantity of a counter, by its name and base unit, and the rank of its name (0: best); else None."""
    printed = _NO_WORD.sub("_", _DEVICE_PREFIX.sub("", name)).strip("_").lower()
    if not re.match(_NOT_MEASURED, printed):
        return None
    for quantity, patterns in _QUANTITIES.items():
        for rank, pattern in enumerate(patterns):
            known = _WITHOUT_UNIT.fullmatch(printed) is not None if unit is None else unit in _BASE[quantity]
            if re.match(pattern, printed) and known:
                return quantity, rank
    return None


def _clocks(tables: Mapping[str, pd.DataFrame]) -> dict[str, str | None]:
    """Return the clock of the times of each run that its readers state: utc, or the trace's own."""
    clocks = {}
    for run, config in zip(tables["runs"]["run"], tables["runs"]["config"], strict=True):
        clock = json.loads(config).get("clock") if isinstance(config, str) else None
        clocks[run] = {"epoch": "utc", "trace": f"trace of {run}"}.get(str(clock))
    return clocks


def _samples(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the samples of devices with a known quantity: of several counters for it, the one with the best name."""
    rows = tables["counters"]
    rows = in_base_units(rows[rows["start_ns"].notna() & rows["duration_ns"].isna() & rows["subject"].isna()])
    pairs = rows[["counter", "unit"]].drop_duplicates().itertuples(index=False)
    quantities = {
        pair: quantity_of(pair[0], pair[1] if isinstance(pair[1], str) else None) for pair in map(tuple, pairs)
    }
    kinds = [quantities[pair] for pair in zip(rows["counter"], rows["unit"], strict=True)] if len(rows) else []
    rows = rows.assign(quantity=[k and k[0] for k in kinds], quality=[k[1] if k else -1 for k in kinds])
    rows = rows[rows["quantity"].notna()]
    best = rows.groupby(["run", "quantity"])["quality"].transform("min")
    return rows[rows["quality"] == best]


def _rows(windows: StepWindows, samples: pd.DataFrame, clocks: Mapping[str, str | None]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a run: for each log with samples and each device, of the run and of its steps."""
    for run, run_samples in samples.groupby("run", sort=False):
        printed = set(run_samples["clock"].dropna())
        clock = printed.pop() if len(printed) == 1 else None if printed else clocks[run]
        place = {"run": windows.run, "label": windows.label, "telemetry": run}
        if run != windows.run and (note := _difference(windows.clock, clock)):
            yield place | {"part": "run", "note": note}
            continue
        times = run_samples["start_ns"].to_numpy(np.int64)
        if times.max() < windows.starts.min() or times.min() > windows.ends.max():
            continue  # of another time
        for device, rows in run_samples.groupby("device", sort=True, dropna=False):
            number = None if device != device else int(device)
            yield from _device_rows(windows, rows, place | {"device": number})


def _difference(steps: str | None, samples: str | None) -> str | None:
    """Return why two clocks cannot be compared; None if they can."""
    if steps == samples and steps in (UTC, LOCAL):
        return None
    zones = {
        UTC: "in UTC", LOCAL: "without a time zone", NO_YEAR: "without a year", NO_DATE: "without a date",
        None: "on an unknown clock",
    }  # fmt: skip
    return f"steps are {zones.get(steps, 'on the clock of a trace')}, samples {zones.get(samples, 'on a trace clock')}"


def _device_rows(windows: StepWindows, rows: pd.DataFrame, place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    starts = np.append(windows.starts.min(), windows.starts)
    ends = np.append(windows.ends.max(), windows.ends)
    times = np.unique(rows["start_ns"].to_numpy(np.int64))
    columns: dict[str, Any] = {"samples": np.searchsorted(times, ends) - np.searchsorted(times, starts)}
    for quantity, samples in rows.groupby("quantity", sort=False):
        series = samples.groupby("start_ns")["base_value"].mean()  # one reading for each time
        at, values = series.index.to_numpy(np.int64), series.to_numpy(np.float64)
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
        yield dict(place) | dict(zip(columns, values_of_row, strict=True))


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
