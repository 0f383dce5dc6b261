"""States of devices as tools such as nvidia-smi, rocm-smi and npu-smi print them, with or without a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
from msgspec import Struct

from perflog.metrics.power.telemetry import BASE_UNITS, quantity_of
from perflog.metrics.run_tables import Tables
from perflog.metrics.traces.over_time.counters import readings
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL, Rows
from perflog.tables.nulls import none_if_null

_LIMITS = {
    "power": re.compile(r"power_?(?:limit|cap)$", re.IGNORECASE),
    "memory": re.compile(r"memory_total$", re.IGNORECASE),
}
"""Quantities with a limit, by the names of the counters that print it."""

_VIOLATIONS = {"power limit": re.compile(r"pviol$", re.IGNORECASE), "heat": re.compile(r"tviol$", re.IGNORECASE)}
"""What holds a device back, by the names of counters: the share of the time, of the samples of a flag."""

_REASONS = re.compile(r"clocks_(?:throttle|event)_reasons_(?P<reason>\w+)$")
_MASK = {0x4: "power limit", 0x8: "hardware slowdown", 0x20: "heat", 0x40: "heat (hardware)", 0x80: "power brake"}
"""Bits of the active reasons of NVML (nvmlClocksEventReasons) that hold a device back, by their words here."""
_BY_NAME = {
    "sw_power_cap": "power limit", "hw_slowdown": "hardware slowdown", "sw_thermal_slowdown": "heat",
    "hw_thermal_slowdown": "heat (hardware)", "hw_power_brake_slowdown": "power brake",
}  # fmt: skip


class DeviceState(Struct, frozen=True):
    """What a tool printed of a device: means over its samples, by quantity.

    Attributes:
        device: Number of the device on its node; None if the tool names devices otherwise: see `name`.
        name: Node, or name of the device, where the number does not tell it.
        samples: Number of times at which it was sampled.
        values: Mean of each quantity, in the base unit.
        units: The base unit of each.
        limits: Power and memory that the device may use.
        throttled: By reason the share of the samples in which it holds the device back.
    """

    device: int | None
    name: str
    samples: int
    values: Mapping[str, float]
    units: Mapping[str, str]
    limits: Mapping[str, float]
    throttled: Mapping[str, float]


def device_states(tables: Tables, run: str) -> list[DeviceState]:
    """Return the state of each device of a run, in their order."""
    rows = tables.rows_of("counters", run)
    rows = rows.where(~rows.known("subject") & ~rows.known("duration_ns"))
    rows = rows.where(rows.one_of("name", [name for name in rows.counts("name") if _tells(name)]))
    hosts, devices = rows.keys("process"), rows["device"]
    names = np.where(rows.known("device"), -1, rows.keys("device_name"))
    groups = groups_of(hosts, devices, names)
    reasons = _reasons_by_line(tables, run)
    several = len(np.unique(hosts)) > 1
    return [state for index in groups.rows for state in _states(rows.where(index), reasons, several)]


def _tells(name: str) -> bool:
    """Whether a counter of this name may tell the state of a device."""
    units = (None, *(unit for units in BASE_UNITS.values() for unit in units))
    patterns = (*_LIMITS.values(), *_VIOLATIONS.values())
    return any(quantity_of(name, unit) for unit in units) or any(pattern.search(name) for pattern in patterns)


def _states(rows: Rows, reasons: Mapping[int, Sequence[str]], several_nodes: bool) -> Iterator[DeviceState]:
    found = readings(rows)
    best: dict[str, tuple[int, float, str]] = {}
    limits: dict[str, float] = {}
    throttled: dict[str, float] = {}
    codes, words = found.rows.codes("name")
    for own in groups_of(codes, found.unit).rows:
        name, unit = words[codes[own[0]]], found.units[found.unit[own[0]]]
        mean = float(found.value[own].mean())
        known = quantity_of(name, unit)
        if known is not None and (known[0] not in best or known[1] < best[known[0]][0]):
            best[known[0]] = (known[1], mean, unit or "")
        limits |= {quantity: mean for quantity, pattern in _LIMITS.items() if pattern.search(name) and unit}
        throttled |= {words: mean for words, pattern in _VIOLATIONS.items() if pattern.fullmatch(name) and mean > 0}
    lines = np.unique(found.rows["line"]).tolist()
    sampled = [reasons[line] for line in lines if line in reasons]
    for reason in dict.fromkeys(chain.from_iterable(sampled)):
        throttled[reason] = sum(reason in each for each in sampled) / len(sampled)
    if not best:
        return
    ((device, host, title),) = list(rows.where(np.array([0])).records("device", "process", "device_name"))
    number = None if none_if_null(device) in (None, NULL) else device
    largest = int(max(groups_of(codes).sizes))
    yield DeviceState(
        number, (host or "") if several_nodes else "" if number is not None else title or "", largest,
        {quantity: mean for quantity, (_, mean, _) in best.items()},
        {quantity: unit or BASE_UNITS[quantity][0] for quantity, (_, _, unit) in best.items()}, limits, throttled,
    )  # fmt: skip


def _reasons_by_line(tables: Tables, run: str) -> dict[int, list[str]]:
    """Return what holds the device of each line back, as nvidia-smi --query-gpu names it."""
    rows = tables.rows_of("values", run)
    found: dict[int, list[str]] = {}
    for line, key, text in rows.where(rows.known("text")).records("line", "key", "text"):
        match = _REASONS.search(key)
        if match is None:
            continue
        reasons = found.setdefault(line, [])
        if match["reason"] == "active" and re.fullmatch(r"0x[0-9a-fA-F]+", text):
            reasons += [words for bit, words in _MASK.items() if int(text, 16) & bit]
        elif text == "Active" and match["reason"] in _BY_NAME:
            reasons.append(_BY_NAME[match["reason"]])
    return found
