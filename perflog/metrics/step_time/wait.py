"""Exposed and hidden time of waits in logs: the phases that a step waits for, and their part in parallel to the step.

For waiting in the collectives of traces see `perflog.metrics.collective_wait`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from perflog.arrays import Floats, Ints, Mask
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_rows import SteadyRun, is_steady, printed_steps, rank_means, worlds_of
from perflog.metrics.run_tables import Tables, tables_of
from perflog.metrics.step_time.phase_table import PhaseTable, phases_of_runs, times_on_ranks
from perflog.statistics.groups import Groups, groups_of, positions_in, values_at
from perflog.tables.columns import RowColumns
from perflog.tables.nulls import as_types

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("phase", meaning="phase of kind wait"),
    MetricColumn("exposes", meaning="hidden phase that it waits for, as declared; null: not declared", type="object"),
    MetricColumn("rank", meaning="rank; null: mean over the ranks", type="Int64"),
    MetricColumn("exposed_s", "s", "lower", "time waited, median over the steady steps"),
    MetricColumn("hidden_s", "s", "higher", "time of the phase waited for - time waited, median"),
    MetricColumn("total_s", "s", "lower", "time of the phase waited for, median"),
    MetricColumn("hidden_share", "1", "higher", "hidden / total, median"),
    MetricColumn("share", "1", "lower", "exposed_s / median step time"),
    MetricColumn("waits_least", "1", None, "share of the steps in which only this rank waits least. If ranks wait for "
                 "one another, it is the straggler; if each waits for a phase of its own, this rank hides the phase "
                 "best"),
    MetricColumn("waits_most", "1", None, "share of the steps in which only this rank waits most"),
    MetricColumn("n", meaning="number of steady steps"),
    MetricColumn("first_step", meaning="first steady step"),
    MetricColumn("last_step", meaning="last steady step"),
)  # fmt: skip


@metric(
    title="exposed and hidden time",
    needs=("phases",),
    columns=_COLUMNS,
    main="exposed_s",
    formula="exposed = time of a wait phase; hidden = time of the phase it exposes - exposed; medians",
    source="kind and exposes of the format's [[phase]] entries; warm-up: metric steps",
)
def wait(tables: Tables, options: Options) -> MetricRows:
    """Exposed and hidden time of each wait phase, over the ranks and by rank.

    Example:
        >>> table = perflog.metrics.wait(perflog.read("run.txt"))
        >>> table[["rank", "exposed_s", "hidden_s", "hidden_share"]].head(2).round(4)
           rank  exposed_s  hidden_s  hidden_share
        0  <NA>     0.0022    0.0019        0.5191
        1     0     0.0023    0.0018        0.4272
    """
    rows: list[dict[str, object]] = []
    for piece in tables.in_pieces("phases"):
        steps = _all_steps(piece, options.warmup)
        rows += _medians(steps.where(steps.steady()))
    return rows


def wait_steps(tables: Mapping[str, pd.DataFrame], warmup: int | None = None) -> pd.DataFrame:
    """Return exposed and hidden time of each wait phase, step by step.

    Columns: run, label, phase, exposes, step, rank (null: mean over the ranks), exposed_s, hidden_s, total_s, steady.
    The steps of the warm-up are included; they are not steady.
    """
    import pandas as pd

    known = tables_of(tables)
    pieces = [*known.in_pieces("phases")] or [known]  # no pieces without runs
    parts = [_frame(_all_steps(piece, warmup)) for piece in pieces]
    return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)


def _frame(steps: _WaitSteps) -> pd.DataFrame:
    import pandas as pd

    columns = {name: pd.Series(values, dtype=object) for name, values in steps.names().items()}
    columns |= {
        "step": steps.step, "rank": steps.rank, "exposed_s": steps.exposed_s,
        "hidden_s": steps.total_s - steps.exposed_s, "total_s": steps.total_s, "steady": steps.steady(),
    }  # fmt: skip
    return as_types(pd.DataFrame(columns), {"rank": "Int64"})


class _WaitSteps(RowColumns, frozen=True):
    """Times of wait phases by step: on each rank, then as means over the ranks (rank NaN).

    `run_index`: index of the run. `wait`: the number of the phase among those that the run declares. `total_s`: time
    of the phase waited for, NaN if the log does not print it.
    """

    runs: Sequence[SteadyRun]
    run_index: Ints
    wait: Ints
    step: Ints
    rank: Floats
    exposed_s: Floats
    total_s: Floats

    def steady(self) -> Mask:
        """Flag the steady steps."""
        return is_steady(self.runs, self.run_index, self.step)

    def names(self) -> dict[str, npt.NDArray[np.object_]]:
        """Return the columns run, label, phase and exposes."""
        groups = groups_of(self.run_index, self.wait)
        names = [_names_of(self.runs[self.run_index[row]], self.wait[row]) for row in groups.first.tolist()]
        table = np.array(names, object).reshape(-1, 4)[groups.inverse]
        return dict(zip(("run", "label", "phase", "exposes"), table.T, strict=True))


def _names_of(run: SteadyRun, wait: int) -> tuple[str, str | None, str, str | None]:
    """Return the run, its label, the wait phase, and the phase that it waits for."""
    name, phase = list(run.semantics.phases.items())[wait]
    return run.run, run.label, name, phase.exposes


def _all_steps(tables: Tables, warmup: int | None) -> _WaitSteps:
    table = phases_of_runs(tables, warmup)
    numbers, values = np.zeros(0, np.int64), np.zeros(0)
    parts = [(numbers, numbers, numbers, values, values, values), *_times_of_phases(table)]
    run_index, wait, step, rank, exposed, total = map(np.concatenate, zip(*parts, strict=True))
    order = np.lexsort((rank, step, np.isnan(rank), wait, run_index))
    return _WaitSteps(table.runs, run_index, wait, step, rank, exposed, total).where(order)


_Times = tuple[Ints, Ints, Ints, Floats, Floats, Floats]
"""The columns of _WaitSteps."""


def _times_of_phases(table: PhaseTable) -> Iterator[_Times]:
    """Yield the times of each wait phase on each rank, and the means over the ranks."""
    numbers: dict[tuple[str, str | None], dict[int, int]] = {}  # number in each run, by phase and hidden phase
    for i, run in enumerate(table.runs):
        for number, (name, phase) in enumerate(run.semantics.phases.items()):
            if phase.kind == "wait":
                numbers.setdefault((name, phase.exposes), {})[i] = number
    world = worlds_of(table.runs)
    for (name, exposes), number_of in numbers.items():
        number_in_run = np.array([number_of.get(i, -1) for i in range(len(table.runs))], np.int64)
        declared = number_in_run[table.run_index] >= 0
        waits, awaited = (table.where(declared & table.named(phase)) for phase in (name, exposes))
        exposed, total = (
            rank_means(rows.run_index, rows.step, rows.rank, rows.time_s, world) for rows in (waits, awaited)
        )
        found = positions_in(*((means.run_index, means.step, means.ranks) for means in (exposed, total)))
        no_rank = np.full(len(found), np.nan)
        yield (
            exposed.run_index, number_in_run[exposed.run_index], exposed.step, no_rank, exposed.time_s,
            values_at(total.time_s, found),
        )  # fmt: skip
        (run_index, step, rank, seconds), (*others, totals) = (
            times_on_ranks(rows, rows.rank) for rows in (waits, awaited)
        )
        found = positions_in((run_index, step, rank), others)
        yield run_index, number_in_run[run_index], step, rank.astype(np.float64), seconds, values_at(totals, found)


def _medians(steps: _WaitSteps) -> Iterator[dict[str, object]]:
    """Yield the rows of the metric: of each phase the medians over the steps of the means, then of each rank."""
    ranks = np.where(np.isnan(steps.rank), -1, steps.rank).astype(np.int64)
    groups = groups_of(steps.run_index, steps.wait, ranks)
    hidden = steps.total_s - steps.exposed_s
    with np.errstate(divide="ignore", invalid="ignore"):
        values = {
            "exposed_s": steps.exposed_s, "hidden_s": hidden, "total_s": steps.total_s,
            "hidden_share": hidden / steps.total_s,
        }  # fmt: skip
    columns: dict[str, Floats | Ints] = {name: groups.medians(column) for name, column in values.items()}
    ends = (printed_steps(steps.runs, steps.run_index[groups.first], each) for each in groups.ends(steps.step))
    columns |= {"n": groups.sizes, **dict(zip(("first_step", "last_step"), ends, strict=True))}
    columns |= dict(zip(("waits_least", "waits_most"), _extreme_shares(steps, groups), strict=True))
    for group, row in enumerate(groups.first.tolist()):
        run = steps.runs[steps.run_index[row]]
        names = dict(zip(("run", "label", "phase", "exposes"), _names_of(run, steps.wait[row]), strict=True))
        figures = {name: column[group] for name, column in columns.items()}
        share = figures["exposed_s"] / run.step_s if run.step_s else np.nan
        yield {**names, **figures, "rank": steps.rank[row], "share": share}


def _extreme_shares(steps: _WaitSteps, ranks: Groups) -> tuple[Floats, Floats]:
    """Return the share of the steps in which only this rank waits least, and most, of the steps with all ranks.

    `ranks`: the rows by run, phase and rank; NaN for a rank without such steps, and for means.
    """
    chosen = ~np.isnan(steps.rank)
    phases = groups_of(steps.run_index, steps.wait)
    members = phases.numbers_of(ranks.inverse, chosen)[phases.inverse]
    moments = groups_of(steps.run_index, steps.wait, steps.step, chosen.astype(np.int64))
    whole = chosen & (moments.sizes[moments.inverse] == members) & (members > 1)
    size = len(ranks.sizes)
    counts = np.bincount(ranks.inverse[whole], minlength=size)
    least, _, most = moments.order_statistics(steps.exposed_s)
    shares = []
    for extreme in (least, most):
        is_extreme = whole & (steps.exposed_s == extreme[moments.inverse])
        alone = np.bincount(moments.inverse[is_extreme], minlength=len(moments.sizes)) == 1
        times = np.bincount(ranks.inverse[is_extreme & alone[moments.inverse]], minlength=size)
        shares.append(np.where(counts > 0, times / np.maximum(counts, 1), np.nan))
    return shares[0], shares[1]
