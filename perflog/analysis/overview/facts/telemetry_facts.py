"""Telemetry facts: the devices whose clock, temperature or power differs from that of the other devices."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from perflog.grouping import grouped
from perflog.log import Log
from perflog.metrics import Options, Tables
from perflog.metrics.power.unlike_devices import unlike_devices
from perflog.parsing.input.log_names import base_name
from perflog.units import count, first_few, numbered, show

_NAMED = 3  # devices that have a sentence of their own


def unlike_device_facts(tables: Tables, run: str, options: Options) -> Iterator[str]:  # noqa: ARG001 (as all facts)
    """Yield what differs for each device with telemetry unlike that of the others."""
    rows = [row for row in unlike_devices(tables) if row.run == run]
    devices = list(grouped((row.device, row) for row in rows).values())
    for own in devices[:_NAMED]:
        differences = (
            f"{row.quantity} {_value(row.value, row.unit)} instead of {_value(row.usual, row.unit)}" for row in own
        )
        who = f"Device {own[0].number} of {own[0].devices}"
        if own[0].node:
            who = f"Device {own[0].number} of {own[0].node}, one of {own[0].devices} devices,"
        yield f"{who} differs from the others: {', '.join(differences)}."
    further = grouped((own[0].node, own[0].number) for own in devices[_NAMED:])
    if further:
        names = [numbered("device", numbers) + f" of {node}" * bool(node) for node, numbers in further.items()]
        yield f"{count(len(devices) - _NAMED, 'more device')} unlike the others: {first_few(names)}."


def telemetry_beside(tables: Tables, log: Log, beside: Collection[str], options: Options) -> Iterator[str]:
    """Yield what differs for each device whose telemetry is in a log beside the log of its job, by its file."""
    for key in log.run_keys:
        if key.id in beside:
            for text in unlike_device_facts(tables, key.id, options):
                yield f"{base_name(key.log)}: {text[0].lower()}{text[1:]}"


def _value(value: float, unit: str) -> str:
    return f"{value:.0f} {unit}" if unit == "°C" else show(value, unit, 3)
