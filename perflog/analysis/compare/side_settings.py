"""Settings in which sides differ, those that vary between repeats, and those by which sides do not compare."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import product

from msgspec import Struct

from perflog.analysis.compare.sides import Case, Side
from perflog.metrics.hardware import are_other_devices
from perflog.settings.run_settings import incidental_test, varying

_NOT_REPORTED = ("pid", "tag", "started", "files", "traceName", "trace_id", "baseTimeNanoseconds", "settings_from")
"""Settings that differ between any two runs: the list of differences leaves them out."""

_MISSING = "-"  # shown for a setting that a run does not have


class DifferingSetting(Struct, frozen=True):
    """A setting in which sides differ: the case, its name, and its values by the name of the side."""

    case: str
    setting: str
    values: Mapping[str, str]

    @property
    def record(self) -> dict[str, str]:
        """One row of a table that has a column for each side."""
        return {"case": self.case, "setting": self.setting, **self.values}


class VariedSetting(Struct, frozen=True):
    """A setting that varies between the repeats of a side, with its values in the order of the runs."""

    case: str
    side: str
    setting: str
    values: tuple[str, ...]


def differing_settings(all_sides: Sequence[Side], cases: Sequence[Case]) -> list[DifferingSetting]:
    """Return the settings in which the sides differ, by case, with all values that the runs of a side have.

    Incidental settings that vary between the repeats of a side differ anyway; they are left out.
    """
    rows: list[DifferingSetting] = []
    incidental = incidental_test(settings for side in all_sides for settings in side.settings.values())
    for case in cases:
        settings = [[side.settings[run] for run in runs] for side, runs in zip(all_sides, case.runs, strict=True)]
        for name in dict.fromkeys(name for runs in settings for run_settings in runs for name in run_settings):
            values = [tuple(dict.fromkeys(run.get(name, _MISSING) for run in runs)) for runs in settings]
            if name in _NOT_REPORTED or len({frozenset(v) for v in values if v}) < 2:
                continue
            if max(map(len, values)) == 1 or not incidental(name):
                texts = dict(zip((side.name for side in all_sides), map(" | ".join, values), strict=True))
                rows.append(DifferingSetting(case.name, name, texts))
    return rows


def varied_settings(all_sides: Sequence[Side], cases: Sequence[Case]) -> list[VariedSetting]:
    """Return the settings that vary between the repeats of a side, with their values in the order of the runs."""
    rows: list[VariedSetting] = []
    for case in cases:
        for side, runs in zip(all_sides, case.runs, strict=True):
            settings = [side.settings[run] for run in runs]
            for name in varying(settings):
                values = tuple(dict.fromkeys(run_settings.get(name, _MISSING) for run_settings in settings))
                rows.append(VariedSetting(case.name, side.name, name, values))
    return rows


class OtherSetting(Struct, frozen=True):
    """A setting in which a side differs from the base: the case, the side, the name, and both values as printed."""

    case: str
    side: str
    setting: str
    base_value: str
    side_value: str


def _are_other_texts(a: str, b: str) -> bool:
    return a.casefold() != b.casefold()


# A step on other hardware is no slower version of the same step. So such a change is no regression and no improvement,
# unless the reader asks: the setting is ignored, or its values are the sides.
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
