"""The parts of a run's time, as an overview shows them."""

from __future__ import annotations

from msgspec import Struct

from perflog.metrics import Options, Tables, breakdown, waterfall
from perflog.metrics.step_time.breakdown import TRACED_STEP, UNTIMED, part_name, without_pauses
from perflog.metrics.step_time.headroom import untimed_waits
from perflog.metrics.step_time.phase_table import ON_SLOWEST_RANK, runs_of_slowest_ranks
from perflog.metrics.step_time.waterfall import NOT_OF_A_STEP, WAITING_FOR_SLOWEST
from perflog.tables.nulls import none_if_null

_TELLING = 0.03  # of the whole: bars that know less of it say nothing

_LEAST = 1e-6  # of the whole: less comes from rounding

_WHOLES = ("step", "phases", TRACED_STEP, "trace", "gpu", "api")
"""What parts add up to. Of a run with several, the first counts: parts of two of them add up to neither."""


class Part(Struct, frozen=True):
    """A part of a run's time, and its share of the whole. `doubt`: why it is less certain than it looks."""

    name: str
    seconds: float
    share: float
    doubt: str | None = None


def parts(tables: Tables, run: str, options: Options) -> list[Part]:
    """Return the parts of a run's time that add up to its step, phases, trace or profile, the largest first.

    Of a run that times no parts, the bars of its waterfall, if it has any.
    """
    rows = breakdown.table_of(run, tables, options)
    if not len(rows):
        rows = waterfall.table(tables, options)
        if not len(rows):
            return []
        bars = rows[(rows["run"] == run) & ~rows["bar"].isin(NOT_OF_A_STEP)]
        bars = bars.sort_values("time_s", ascending=False, kind="stable")
        columns = zip(*(bars[name] for name in ("bar", "time_s", "of_steady", "doubt")), strict=True)
        known = [Part(bar, float(s), float(share), none_if_null(doubt)) for bar, s, share, doubt in columns]
        return known if sum(part.share for part in known if part.name != "unattributed") > _TELLING else []
    rows = without_pauses(rows[rows["of"] == min(rows["of"], key=_WHOLES.index)], tables, options)
    names = list(map(part_name, rows["of"], rows["part"], rows["kind"]))
    sums = rows.assign(name=names).groupby("name", sort=False)[["time_s", "share"]].sum()
    doubt = ON_SLOWEST_RANK if run in runs_of_slowest_ranks(tables) else None
    found = [Part(str(name), float(s), float(share), doubt) for name, s, share in sums.itertuples(name=None)]
    if rows["of"].iloc[0] == "step":
        found = _with_unequal_ranks(found, untimed_waits(tables, options).get(run, 0.0))
    return sorted(found, key=lambda part: -part.seconds)


def _with_unequal_ranks(parts_of_step: list[Part], lost: float) -> list[Part]:
    """Return the parts of a step with the time that unequal ranks explain as a part of its own, not as untimed."""
    untimed = next((part for part in parts_of_step if part.name == UNTIMED), None)
    explained = min(1.0, lost / untimed.seconds) if untimed is not None and untimed.seconds > 0 else 0.0
    if untimed is None or explained * untimed.share < _TELLING:
        return parts_of_step
    both = (
        Part("unequal ranks", untimed.seconds * explained, untimed.share * explained, WAITING_FOR_SLOWEST),
        Part(UNTIMED, untimed.seconds * (1 - explained), untimed.share * (1 - explained)),
    )
    others = [part for part in parts_of_step if part is not untimed]
    return [*others, *(part for part in both if part.share >= _LEAST)]


def percent(share: float) -> str:
    """Return a share as a string, without decimals."""
    return f"{100 * share:.0f} %"
