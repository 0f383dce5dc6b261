"""Telemetry facts: the devices whose clock, temperature or power differs from that of the other devices."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.metrics import Options, Tables
from perflog.metrics.power.unlike_devices import unlike_devices
from perflog.units import show


def unlike_device_facts(tables: Tables, run: str, options: Options) -> Iterator[str]:  # noqa: ARG001 (as all facts)
    """Yield what differs for each device with telemetry unlike that of the others."""
    rows = [row for row in unlike_devices(tables) if row.run == run]
    for device in dict.fromkeys(row.device for row in rows):
        own = [row for row in rows if row.device == device]
        differences = (
            f"{row.quantity} {_value(row.value, row.unit)} instead of {_value(row.usual, row.unit)}" for row in own
        )
        yield f"Device {device} of {own[0].devices} differs from the others: {', '.join(differences)}."


def _value(value: float, unit: str) -> str:
    return f"{value:.0f} {unit}" if unit == "°C" else show(value, unit, 3)
