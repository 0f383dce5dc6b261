"""Devices with a lower clock from a step on, by telemetry of the same time: a GPU that gets hot, or is capped."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from perflog.metrics.power.telemetry import (
    IDLE,
    DeviceSamples,
    Series,
    are_on_one_clock,
    device_samples,
    log_names,
    timed_steps,
)
from perflog.metrics.run_tables import Tables

_LOWER = 0.95  # of the clock before
_HOTTER = 5.0  # °C more: a GPU whose power is capped gets a little warmer or cooler by chance


class DeviceClock(Struct, frozen=True):
    """Medians of a device before and since a step: clock in Hz; temperature in °C and load (utilisation) if known.

    `number`: of the device on its node; `node`: "" where the samples of a log are of one node; `log`: the name of this
    log where several have samples, else "".
    """

    number: int | None
    node: str
    log: str
    clocks: tuple[float, float]
    temperatures: tuple[float, float] | None
    loads: tuple[float, float] | None = None

    @property
    def is_lower(self) -> bool:
        return self.clocks[1] < _LOWER * self.clocks[0]

    @property
    def is_hotter(self) -> bool:
        return self.temperatures is not None and self.temperatures[1] >= self.temperatures[0] + _HOTTER

    @property
    def is_idle(self) -> bool:
        """Whether it has less to do since the step: the clock of an idle device falls without a fault."""
        return self.loads is not None and self.loads[1] < IDLE * self.loads[0]


def device_clocks(tables: Tables, run: str, first: int, since: int, end: int | None) -> list[DeviceClock]:
    """Return the clock of each device before and since a step, of those with samples on both sides.

    Args:
        tables: Tables with steps and samples of devices.
        run: Run with the steps.
        first: First step of the time before.
        since: First step of the time after.
        end: First step that is no more of the time after; None if all are.
    """
    if not tables.count("counters"):
        return []
    windows = next((each for each in timed_steps(tables) if each.run == run), None)
    if windows is None:
        return []
    before = (windows.steps >= first) & (windows.steps < since)
    after = (windows.steps >= since) & (windows.steps < (np.inf if end is None else end))
    if not before.any() or not after.any():
        return []
    spans = [(int(windows.starts[part].min()), int(windows.ends[part].max())) for part in (before, after)]
    samples = [each for each in device_samples(tables) if are_on_one_clock(windows, each)]
    names = log_names(tables, samples)
    return [clock for sampled in samples for clock in _clocks(sampled, names[sampled.run], spans)]


def _clocks(sampled: DeviceSamples, log: str, spans: list[tuple[int, int]]) -> Iterator[DeviceClock]:
    for device, quantities in sampled.devices.items():
        clocks, temperatures, loads = (
            _medians(quantities.get(quantity), spans) for quantity in ("clock", "temperature", "utilisation")
        )
        if clocks is not None:
            node, number = sampled.nodes.get(device, ("", device)) if device is not None else ("", None)
            yield DeviceClock(number, node, log, clocks, temperatures, loads)


def _medians(series: Series | None, spans: list[tuple[int, int]]) -> tuple[float, float] | None:
    """Return the medians of samples in two spans of time; None if one has no sample."""
    if series is None:
        return None
    parts = [series.values[slice(*np.searchsorted(series.times, span))] for span in spans]
    if not all(map(len, parts)):
        return None
    before, after = (float(np.median(part)) for part in parts)
    return before, after
