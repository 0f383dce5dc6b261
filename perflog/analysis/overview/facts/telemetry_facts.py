"""Telemetry facts: the state of each device, and the devices with a clock, temperature or power unlike the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from perflog.grouping import grouped
from perflog.log import Log
from perflog.metrics import Options, Tables
from perflog.metrics.power.device_states import DeviceState, device_states
from perflog.metrics.power.unlike_devices import unlike_devices
from perflog.parsing.input.log_names import base_name
from perflog.units import count, first_few, numbered, show

_NAMED = 3  # devices that have a sentence of their own
_STATES = 8  # devices with a sentence on their state
_IN_ORDER = ("power", "temperature", "clock", "utilisation", "memory")


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


def states_of_devices(tables: Tables, run: str, options: Options) -> Iterator[str]:  # noqa: ARG001 (as all facts)
    """Yield power, temperature, clock, load and memory of each device, of a log that is of no program's steps."""
    if tables.counts("steps").get(run) or not tables.counts("counters").get(run):
        return
    states = device_states(tables, run)
    if len(states) < 2 and not any(state.throttled for state in states):
        return
    samples = {state.samples for state in states}
    for state in states[:_STATES]:
        who = f"{state.name} " * bool(state.name) + (f"device {state.device}" if state.device is not None else "")
        means = f" (means of {state.samples} samples)" if samples != {1} and state is states[0] else ""
        texts = [_quantity(state, name) for name in _IN_ORDER if name in state.values]
        held = ", ".join(f"{words}{_share(share)}" for words, share in state.throttled.items())
        text = f"{who.strip() or 'device'}{means}: {', '.join(texts)}{f'; held back by {held}' if held else ''}."
        yield text[0].upper() + text[1:]
    if len(states) > _STATES:
        yield f"{count(len(states) - _STATES, 'more device')}."


def _share(share: float) -> str:
    return f" ({100 * share:.0f} %)" if share < 1 else ""


def _quantity(state: DeviceState, name: str) -> str:
    """Return a quantity of a device in words, with its limit."""
    value, unit = state.values[name], state.units[name]
    text = _value(value, unit) if name != "utilisation" else f"{100 * value:.0f} % busy"
    limit = state.limits.get(name)
    return f"{text} of {_value(limit, unit)}" if limit and limit >= value else text


def telemetry_beside(tables: Tables, log: Log, beside: Collection[str], options: Options) -> Iterator[str]:
    """Yield what differs for each device whose telemetry is in a log beside the log of its job, by its file."""
    for key in log.run_keys:
        if key.id in beside:
            for text in unlike_device_facts(tables, key.id, options):
                yield f"{base_name(key.log)}: {text[0].lower()}{text[1:]}"


def _value(value: float, unit: str) -> str:
    return f"{value:.0f} {unit}" if unit == "°C" else show(value, unit, 3)
