"""The parts of a run's time, as an overview shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from perflog.metrics import Options, Tables, breakdown, waterfall
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.step_time.breakdown import TRACED_STEP, UNTIMED, part_name, without_pauses
from perflog.metrics.step_time.headroom import untimed_waits
from perflog.metrics.step_time.phase_table import ON_SLOWEST_RANK, runs_of_slowest_ranks
from perflog.metrics.step_time.waterfall import NOT_OF_A_STEP, WAITING_FOR_SLOWEST
from perflog.tables.nulls import none_if_null

if TYPE_CHECKING:
    import pandas as pd

_TELLING = 0.03  # of the whole: bars that know less of it say nothing

UNEQUAL_RANKS = "unequal ranks"
"""The part of a step in which ranks wait for the slowest one, where no phase times it."""

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


def parts_of_both(tables: Tables, runs: Sequence[str], options: Options) -> list[dict[str, float]]:
    """Return the parts of the steps of some runs, by name, such that each part is the same work in all of them.

    A phase that one run divides, or times, and another does not is no part: its time counts to the phase around it that
    all of them time. Without such a phase it is in `untimed`. Empty if they time no phase in common.
    """
    each = [{part.name: part.seconds for part in parts(tables, run, options)} for run in runs]
    timed = [{name for name in names if not name.startswith(UNTIMED) and name != UNEQUAL_RANKS} for names in each]
    if all(names == timed[0] for names in timed):
        return each
    semantics = semantics_by_run(tables.rows("runs"))
    paths = [list(_paths(breakdown.table_of(run, tables, options), semantics[run], tables, options)) for run in runs]
    common = set.intersection(*({name for path, _ in steps for name in path} for steps in paths))
    if not common - {"step"}:
        return [{} for _ in runs]
    divided = {above for steps in paths for path, _ in steps for name, above in pairwise(path) if name in common}
    sums: list[dict[str, float]] = []
    for steps in paths:
        sums.append({})
        for path, seconds in steps:
            phase = next(name for name in path if name in common)
            name = part_name("step", phase, UNTIMED) if phase in divided or phase == "step" else phase
            sums[-1][name] = sums[-1].get(name, 0.0) + seconds
    return sums


def _paths(
    rows: pd.DataFrame, semantics: RunSemantics, tables: Tables, options: Options
) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the phase of each part of a step with the phases around it, up to the step, and its time in s."""
    rows = without_pauses(rows[rows["of"] == "step"], tables, options)
    for part, kind, inside, seconds in zip(*(rows[n] for n in ("part", "kind", "inside", "time_s")), strict=True):
        around = semantics.lineage(str(inside), None) if none_if_null(inside) else ()
        yield (around if kind == UNTIMED else (str(part), *around)), float(seconds)


def _with_unequal_ranks(parts_of_step: list[Part], lost: float) -> list[Part]:
    """Return the parts of a step with the time that unequal ranks explain as a part of its own, not as untimed."""
    untimed = next((part for part in parts_of_step if part.name == UNTIMED), None)
    explained = min(1.0, lost / untimed.seconds) if untimed is not None and untimed.seconds > 0 else 0.0
    if untimed is None or explained * untimed.share < _TELLING:
        return parts_of_step
    both = (
        Part(UNEQUAL_RANKS, untimed.seconds * explained, untimed.share * explained, WAITING_FOR_SLOWEST),
        Part(UNTIMED, untimed.seconds * (1 - explained), untimed.share * (1 - explained)),
    )
    others = [part for part in parts_of_step if part is not untimed]
    return [*others, *(part for part in both if part.share >= _LEAST)]


def percent(share: float) -> str:
    """Return a share as a string, without decimals."""
    return f"{100 * share:.0f} %"
