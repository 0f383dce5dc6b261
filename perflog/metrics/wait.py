"""Exposed and hidden time of waits in logs: the phases that a step waits for, and their part in parallel to the step.

For waiting in the collectives of traces see `perflog.metrics.traces.collective_wait`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics.options import Options
from perflog.metrics.phase_table import phases_of_runs, worlds_of
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, metric
from perflog.metrics.run_rows import RunRows, rank_means
from perflog.metrics.run_tables import Tables

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("phase", meaning="phase of kind wait"),
    MetricColumn("exposes", meaning="hidden phase that it waits for, as declared; null: not declared"),
    MetricColumn("rank", meaning="rank; null: mean over the ranks"),
    MetricColumn("exposed_s", "s", "lower", "time waited, median over the steady steps"),
    MetricColumn("hidden_s", "s", "higher", "time of the phase waited for - time waited, median"),
    MetricColumn("total_s", "s", "lower", "time of the phase waited for, median"),
    MetricColumn("hidden_share", "1", "higher", "hidden / total, median"),
    MetricColumn("share", "1", "lower", "exposed_s / median step time"),
    MetricColumn(
        "waits_least",
        "1",
        None,
        "share of the steps in which only this rank waits least. If ranks wait for one another, it is the straggler; "
        "if each waits for a phase of its own, this rank hides the phase best",
    ),
    MetricColumn("waits_most", "1", None, "share of the steps in which only this rank waits most"),
    MetricColumn("n", meaning="number of steady steps"),
    MetricColumn("first_step", meaning="first steady step"),
    MetricColumn("last_step", meaning="last steady step"),
)
_STEP_COLUMNS = ["run", "label", "phase", "exposes", "step", "rank", "exposed_s", "hidden_s", "total_s", "steady"]


@metric(
    title="exposed and hidden time",
    needs=("phases",),
    columns=_COLUMNS,
    main="exposed_s",
    formula="exposed = time of a wait phase; hidden = time of the phase it exposes - exposed; medians",
    source="kind and exposes of the format's [[phase]] entries; warm-up: metric steps",
)
def wait(tables: Tables, options: Options) -> pd.DataFrame:
    """Exposed and hidden time of each wait phase, over the ranks and by rank.

    Example:
        >>> table = perflog.metrics.wait(perflog.read("run.txt"))
        >>> table[["rank", "exposed_s", "hidden_s", "hidden_share"]].head(2).round(4)
           rank  exposed_s  hidden_s  hidden_share
        0  <NA>     0.0022    0.0019        0.5191
        1     0     0.0023    0.0018        0.4272
    """
    import pandas as pd

    steps = _all_steps(tables, options.warmup)
    steady = steps[steps["steady"].astype(bool)]
    names = [c.name for c in _COLUMNS]
    rows = _medians(steady)[names] if len(steady) else pd.DataFrame(columns=names)
    return rows.astype({"rank": "Int64"})


def wait_steps(tables: Mapping[str, pd.DataFrame], warmup: int | None = None) -> pd.DataFrame:
    """Return exposed and hidden time of each wait phase, step by step.

    Columns: run, label, phase, exposes, step, rank (null: mean over the ranks), exposed_s, hidden_s, total_s, steady.
    The steps of the warm-up are included; they are not steady.
    """
    return _all_steps(tables, warmup).astype({"rank": "Int64"})[_STEP_COLUMNS]


def _all_steps(tables: Mapping[str, pd.DataFrame], warmup: int | None) -> pd.DataFrame:
    """The columns of `wait_steps`, with the run's median time of a step; `wait`: the number of the phase in the run."""
    import pandas as pd

    runs, table = phases_of_runs(tables, warmup)
    parts = [] if table is None else [steps for steps in _times_of_phases(runs, table) if len(steps)]
    if not parts:
        return pd.DataFrame(columns=[*_STEP_COLUMNS, "wait", "step_s"])
    steps = pd.concat(parts, ignore_index=True)
    steps = steps.assign(mean=steps["rank"].isna()).sort_values(["place", "wait", "mean", "step", "rank"])
    place = steps["place"].to_numpy()
    run_columns = {
        "run": np.array([run.run for run in runs], object)[place],
        "label": np.array([run.label for run in runs], object)[place],
        "step_s": np.array([run.step_s for run in runs])[place],
        "steady": steps["step"].to_numpy() >= np.array([run.first for run in runs])[place],
    }
    return steps.assign(**run_columns).reset_index(drop=True)


def _times_of_phases(runs: Sequence[RunRows], table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Times of each wait phase by step, on each rank and as means over the ranks. `table`: the phase table."""
    import pandas as pd

    numbers: dict[tuple[str, str | None], dict[int, int]] = {}  # number in each run, by phase and hidden phase
    for i, run in enumerate(runs):
        for number, (name, phase) in enumerate(run.semantics.phases.items()):
            if phase.kind == "wait":
                numbers.setdefault((name, phase.exposes), {})[i] = number
    phases, world = table["phase"].to_numpy(), worlds_of(runs)
    for (name, exposes), number_of in numbers.items():
        number_in_run = np.array([number_of.get(i, -1) for i in range(len(runs))])
        declared = number_in_run[table["place"]] >= 0
        waits, awaited = (table[declared & (phases == phase)] for phase in (name, exposes))
        by_rank = _times(*(rows.groupby(["place", "step", "rank"])["time_s"].sum() for rows in (waits, awaited)))
        (exposed, ranks), (total, others) = (
            rank_means(rows, world[rows["place"]], ["place", "step"]) for rows in (waits, awaited)
        )
        means = _times(exposed, total[others.reindex(total.index) == ranks.reindex(total.index)])
        steps = pd.concat([by_rank.reset_index(), means.reset_index().assign(rank=np.nan)], ignore_index=True)
        yield steps.assign(phase=name, exposes=exposes, wait=number_in_run[steps["place"].to_numpy(np.int64)])


def _times(exposed: pd.Series[float], total: pd.Series[float]) -> pd.DataFrame:
    """Exposed, total and hidden time; null if the phase waited for is not printed."""
    total = total.reindex(exposed.index)
    return exposed.to_frame("exposed_s").assign(total_s=total, hidden_s=total - exposed)


def _medians(steps: pd.DataFrame) -> pd.DataFrame:
    """Rows of the metric: medians over the steady steps, of the means over the ranks first, then of each rank."""
    keys = ["place", "wait", "rank"]
    groups = steps.assign(hidden_share=steps["hidden_s"] / steps["total_s"]).groupby(keys, dropna=False)
    medians = groups[["exposed_s", "hidden_s", "total_s", "hidden_share"]].median().assign(n=groups.size())
    medians = medians.assign(first_step=groups["step"].min(), last_step=groups["step"].max())
    for which, name in (("min", "waits_least"), ("max", "waits_most")):
        medians = medians.assign(**{name: _extreme_shares(steps, which).reindex(medians.index)})
    names = steps.drop_duplicates(keys[:2]).set_index(keys[:2])[["run", "label", "phase", "exposes", "step_s"]]
    rows = medians.reset_index().join(names, on=keys[:2]).sort_values(keys, na_position="first", ignore_index=True)
    return rows.assign(share=rows["exposed_s"] / rows["step_s"])


def _extreme_shares(steps: pd.DataFrame, which: str) -> pd.Series[float]:
    """Share of the steps in which only this rank waits least (min) or most (max), of the steps with all ranks.

    By index of the run, number of the phase, and rank.
    """
    phase = ["place", "wait"]
    ranked = steps[steps["rank"].notna()]
    members = ranked.groupby(phase)["rank"].transform("nunique")
    whole = ranked[(ranked.groupby([*phase, "step"])["rank"].transform("size") == members) & (members > 1)]
    by_step = whole.groupby([*phase, "step"])["exposed_s"]
    extreme = whole["exposed_s"] == by_step.transform(which)
    alone = extreme.groupby([whole[key] for key in (*phase, "step")]).transform("sum") == 1
    by_rank = (extreme & alone).groupby([whole[key] for key in (*phase, "rank")])
    return by_rank.sum() / by_rank.size()
