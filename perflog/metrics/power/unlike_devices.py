"""Devices with telemetry unlike the other devices of the run: a lower clock, a higher temperature, less power.

A GPU that is hot or capped works at a lower clock than its neighbours, and all ranks wait for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.arrays import Floats
from perflog.metrics.power.telemetry import IDLE, DeviceSamples, Series, device_samples, log_names
from perflog.metrics.run_tables import Tables, computed_once
from perflog.statistics.standing_out import standing_out

_LEAST = {"clock": ("Hz", 1.05), "temperature": ("°C", 1.15), "power": ("W", 1.1)}
"""By quantity its unit, and the least ratio to the other devices."""

_FEWEST = 3
"""Devices: of two, nothing shows which is unlike."""


class UnlikeDevice(Struct, frozen=True):
    """A device with a quantity that differs from the others: their median is `usual`.

    `number`: of the device on its node; `node`: "" where the samples of a log are of one node; `log`: the name of this
    log where several have samples, else "". `is_idle`: whether it has less to do than the others, by its utilisation.
    """

    run: str
    device: int
    devices: int
    quantity: str
    unit: str
    value: float
    usual: float
    number: int
    node: str
    log: str = ""
    is_idle: bool = False


@computed_once
def unlike_devices(tables: Tables) -> list[UnlikeDevice]:
    """Return the devices unlike the others of their run, by quantity: the clock first.

    Limitation: samples are compared by their order, as the devices are sampled in turn.
    """
    samples = device_samples(tables)
    names = log_names(tables, samples)
    return [each for sampled in samples for each in _unlike(sampled, names[sampled.run])]


def _unlike(sampled: DeviceSamples, log: str) -> Iterator[UnlikeDevice]:
    devices = {device: series for device, series in sampled.devices.items() if device is not None}
    for quantity, (unit, least) in _LEAST.items():
        values = {device: series[quantity].values for device, series in devices.items() if quantity in series}
        size = min(map(len, values.values()), default=0)
        matrix = np.array([each[:size] for each in values.values()])
        if len(values) < _FEWEST or not size or not (matrix > 0).all():
            continue
        numbers = list(values)
        for found in standing_out(matrix, len(_LEAST)):
            if abs(math.log(found.ratio)) >= math.log(least):
                device = numbers[found.member]
                node, number = sampled.nodes.get(device, ("", device))
                found_device = _device(sampled.run, device, quantity, unit, values, (number, node, log))
                yield replace(found_device, is_idle=_is_idle(device, devices))


def _is_idle(device: int, devices: Mapping[int, Mapping[str, Series]]) -> bool:
    loads = {other: series["utilisation"].values for other, series in devices.items() if "utilisation" in series}
    own = loads.pop(device, None)
    return own is not None and bool(loads) and np.median(own) < IDLE * np.median(np.concatenate([*loads.values()]))


def _device(
    run: str, device: int, quantity: str, unit: str, values: Mapping[int, Floats], place: tuple[int, str, str]
) -> UnlikeDevice:
    others = np.concatenate([own for other, own in values.items() if other != device])
    value, usual = (float(np.median(own)) for own in (values[device], others))
    return UnlikeDevice(run, device, len(values), quantity, unit, value, usual, *place)
