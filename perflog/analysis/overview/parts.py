"""The parts of a run's time, as an overview shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from perflog.metrics import Options, Tables, breakdown, waterfall
from perflog.metrics.step_series import means_without_pauses, step_series
from perflog.metrics.step_time.breakdown import TRACED_STEP, UNTIMED, part_name
from perflog.metrics.step_time.waterfall import NOT_OF_A_STEP
from perflog.tables.nulls import none_if_null

if TYPE_CHECKING:
    import pandas as pd

_TELLING = 0.03  # of the whole: bars that know less of it say nothing

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
    rows = _without_pauses(rows[rows["of"] == min(rows["of"], key=_WHOLES.index)], tables, options)
    names = list(map(part_name, rows["of"], rows["part"], rows["kind"]))
    sums = rows.assign(name=names).groupby("name", sort=False)[["time_s", "share"]].sum()
    sums = sums.sort_values("time_s", ascending=False, kind="stable")
    return [Part(str(name), float(s), float(share)) for name, s, share in sums.itertuples(name=None)]


def _without_pauses(rows: pd.DataFrame, tables: Tables, options: Options) -> pd.DataFrame:
    """The parts of a step without rare pauses that no phase times."""
    run, untimed = rows["run"].iloc[0], (rows["kind"] == UNTIMED) & (rows["part"] == "step")
    usual = means_without_pauses(tables, options.warmup).get(run)
    if usual is None or not untimed.any():
        return rows
    (series,) = (series for series in step_series(tables, warmup=options.warmup) if series.run == run)
    paused = min(max(float(series.steady.mean()) - usual, 0.0), float(rows["time_s"][untimed].iloc[0]))
    times = rows["time_s"].mask(untimed, rows["time_s"] - paused)
    return rows.assign(time_s=times, share=times / (rows["whole_s"] - paused))


def percent(share: float) -> str:
    """Return a share as a string, without decimals."""
    return f"{100 * share:.0f} %"
