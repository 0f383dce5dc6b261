"""Whether sides ran in the same setting: devices, their driver, number of ranks and model.

A step on other hardware is no slower version of the same step. So such a change is no regression and no improvement,
unless the reader asks: the setting is ignored, or its values are the sides.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import product

from msgspec import Struct

from perflog.analysis.compare.sides import Case, Side
from perflog.metrics.hardware import are_other_devices


class OtherSetting(Struct, frozen=True):
    """A setting in which a side differs from the base: the case, the side, the name, and both values as printed."""

    case: str
    side: str
    setting: str
    base_value: str
    side_value: str


def _are_other_texts(a: str, b: str) -> bool:
    return a.casefold() != b.casefold()


_DIFFERENT: Mapping[str, Callable[[str, str], bool]] = {
    "device": are_other_devices,
    "gpu_name": are_other_devices,  # printed by a monitor, where the program prints no device
    "driver_version": _are_other_texts,
    "world_size": _are_other_texts,
    "model": _are_other_texts,
}
"""How two values of each setting differ. Values that only one log prints say nothing."""


def other_settings(sides: Sequence[Side], cases: Sequence[Case], asked: Container[str] = ()) -> list[OtherSetting]:
    """Return where a side differs from the base in its devices, their driver, number of ranks or model.

    `asked`: settings that the reader ignores.
    """
    return [
        OtherSetting(case.name, side.name, name, *both)
        for case in cases
        for side, runs in zip(sides[1:], case.runs[1:], strict=True)
        for name in _DIFFERENT
        if name not in asked
        for both in _differing(name, (sides[0], case.runs[0]), (side, runs))
    ]


def _differing(name: str, *members: tuple[Side, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Yield the values of both sides, if no value of one is one of the other."""
    base, side = (
        dict.fromkeys(value for run in runs if (value := side.settings[run].get(name)) is not None)
        for side, runs in members
    )
    if base and side and all(_DIFFERENT[name](*pair) for pair in product(base, side)):
        yield " | ".join(base), " | ".join(side)
