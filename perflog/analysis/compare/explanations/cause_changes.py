"""By causes: what takes the time of each side or holds it up, on both sides, in the words of metric `causes`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from perflog.analysis.compare.sides import Case, Side
from perflog.metrics import Options
from perflog.metrics.causes import causes_by_run
from perflog.metrics.causes.cause import Cause

SLOW_RANK = "slow rank"
"""The subject of a rank that is worse than all others."""


class CauseKey(Struct, frozen=True):
    """Which cause: columns of metric `causes`."""

    of: str
    subject: str
    name: str | None = None
    rank: int | None = None
    device: int | None = None
    dp_rank: int | None = None
    stage: int | None = None

    @property
    def words(self) -> str:
        """Its name, and its rank, device or stage."""
        if self.subject == "rank" and self.rank is not None:
            return f"rank {self.rank}"
        positions = {"rank": self.rank, "device": self.device, "data-parallel rank": self.dp_rank, "stage": self.stage}
        where = ", ".join(f"{name} {number}" for name, number in positions.items() if number is not None)
        text = f"{self.subject} {self.name}" if self.name else self.subject
        if self.name and self.subject in self.name:  # `data_time` says that it is data
            text = self.name
        return f"{text} ({where})" if where else text


class CauseChange(Struct, frozen=True):
    """A cause on both sides: means over the runs that list it, in s; None where no run of a side lists it.

    Attributes:
        case: Name of the configuration.
        side: Name of the side.
        cause: Which cause.
        base_s: Its time in the whole on the base.
        side_s: The same on the side.
        base_whole_s: Time of the whole on the base.
        side_whole_s: The same on the side.
        base_gain_s: How much shorter the whole were without it, on the base.
        side_gain_s: The same on the side.
        base_binds: Whether it binds runs of the base.
        side_binds: Whether it binds runs of the side.
        only_on: The side that alone lists it.
    """

    case: str
    side: str
    cause: CauseKey
    base_s: float | None
    side_s: float | None
    base_whole_s: float | None
    side_whole_s: float | None
    base_gain_s: float | None
    side_gain_s: float | None
    base_binds: bool
    side_binds: bool
    only_on: str | None = None

    @property
    def difference_s(self) -> float | None:
        """How much more time it takes on the side; None where one side does not list it."""
        return None if self.base_s is None or self.side_s is None else self.side_s - self.base_s


class _OnSide(Struct, frozen=True):
    """A cause on one side: time, gain, time of the whole, and whether it binds."""

    time_s: float | None = None
    gain_s: float | None = None
    whole_s: float | None = None
    binds: bool = False


def cause_changes(sides: Sequence[Side], cases: Sequence[Case], warmup: int | None) -> list[CauseChange]:
    """Return the causes of each case and side but the base: the causes of the bound whole first, then by difference.

    A cause that one side does not list may be there too, but smaller than a log shows.
    """
    changes: list[CauseChange] = []
    for case in cases:
        base, *others = (_of_side(side, runs, warmup) for side, runs in zip(sides, case.runs, strict=True))
        for side, own in zip(sides[1:], others, strict=True):
            if base or own:
                changes += _ranked([*_changes(case.name, (sides[0].name, side.name), base, own)])
    return changes


def grown(changes: Sequence[CauseChange], threshold: float) -> Iterator[tuple[CauseChange, float]]:
    """Yield each cause in the first whole that differs by this share of the whole, with the difference."""
    for change in (each for each in changes if each.cause.of == changes[0].cause.of):
        whole, difference = change.base_whole_s, change.difference_s
        if whole and difference is not None and abs(difference) >= threshold * whole:
            yield change, difference


def slow_ranks(changes: Sequence[CauseChange]) -> Iterator[CauseChange]:
    """Yield the ranks that are slow on one side alone: there the communication of the others grows, as they wait."""
    yield from (change for change in changes if change.only_on and change.cause.subject == SLOW_RANK)


def _ranked(changes: Sequence[CauseChange]) -> list[CauseChange]:
    """Causes of the whole that is bound come first. Times of a whole trace or run grow with its length."""
    first = next((each for each in changes if each.side_binds or each.base_binds), changes[0]).cause.of
    return sorted(changes, key=lambda c: (c.cause.of != first, c.difference_s is None, -abs(c.difference_s or 0.0)))


def _changes(
    case: str, names: tuple[str, str], base: Mapping[CauseKey, _OnSide], own: Mapping[CauseKey, _OnSide]
) -> Iterator[CauseChange]:
    for key in dict.fromkeys([*base, *own]):
        a, b = base.get(key, _OnSide()), own.get(key, _OnSide())
        yield CauseChange(
            case, names[1], key, a.time_s, b.time_s, a.whole_s, b.whole_s, a.gain_s, b.gain_s, a.binds, b.binds,
            None if key in base and key in own else names[key in own],
        )  # fmt: skip


def _of_side(side: Side, runs: Sequence[str], warmup: int | None) -> dict[CauseKey, _OnSide]:
    """The causes of the runs of a side: means over the runs that list them."""
    causes_of_runs = causes_by_run(side.tables, Options(warmup=warmup))
    listed: dict[CauseKey, list[_OnSide]] = {}
    for run in runs:
        for key, causes in _by_key(causes_of_runs.get(run, ())).items():
            time, gain = (_sum([getattr(cause, name) for cause in causes]) for name in ("time_s", "gain_s"))
            listed.setdefault(key, []).append(_OnSide(time, gain, causes[0].whole_s, any(c.binds for c in causes)))
    return {key: _over_runs(found) for key, found in listed.items()}


def _over_runs(found: Sequence[_OnSide]) -> _OnSide:
    time, gain, whole = (_mean([getattr(each, name) for each in found]) for name in ("time_s", "gain_s", "whole_s"))
    return _OnSide(time, gain, whole, any(each.binds for each in found))


def _by_key(causes: Sequence[Cause]) -> dict[CauseKey, list[Cause]]:
    """Causes by what they are. A phase that is timed several times in a step has a row for each."""
    by_key: dict[CauseKey, list[Cause]] = {}
    for cause in causes:
        key = CauseKey(*(getattr(cause, name) for name in CauseKey.__struct_fields__))
        by_key.setdefault(key, []).append(cause)
    return by_key


def _sum(figures: Sequence[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return sum(known) if len(known) == len(figures) else None


def _mean(figures: Sequence[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return float(np.mean(known)) if known else None
