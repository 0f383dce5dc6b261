"""The parts of a run's time, as an overview shows them."""

from __future__ import annotations

from msgspec import Struct

from perflog.metrics import Options, Tables, breakdown, waterfall
from perflog.metrics.breakdown import part_name
from perflog.metrics.waterfall import NOT_OF_A_STEP
from perflog.tables.nulls import none_if_null

_TELLING = 0.03  # of the whole: bars that know less of it say nothing

_WHOLES = ("step", "phases", "trace", "gpu", "api")
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
    rows = breakdown.table(tables, options)
    rows = rows[rows["run"] == run]
    if not len(rows):
        rows = waterfall.table(tables, options)
        bars = rows[(rows["run"] == run) & ~rows["bar"].isin(NOT_OF_A_STEP)]
        bars = bars.sort_values("time_s", ascending=False, kind="stable")
        columns = zip(*(bars[name] for name in ("bar", "time_s", "of_steady", "doubt")), strict=True)
        known = [Part(bar, float(s), float(share), none_if_null(doubt)) for bar, s, share, doubt in columns]
        return known if sum(part.share for part in known if part.name != "unattributed") > _TELLING else []
    rows = rows[rows["of"] == min(rows["of"], key=_WHOLES.index)]
    names = list(map(part_name, rows["of"], rows["part"], rows["kind"]))
    sums = rows.assign(name=names).groupby("name", sort=False)[["time_s", "share"]].sum()
    sums = sums.sort_values("time_s", ascending=False, kind="stable")
    return [Part(str(name), float(s), float(share)) for name, s, share in sums.itertuples(name=None)]


def percent(share: float) -> str:
    """Return a share as text, without decimals."""
    return f"{100 * share:.0f} %"
