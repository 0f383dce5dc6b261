"""Imbalance of loads, phases, stages and layers: how uneven they are, who is the slowest, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perflog.metrics.phase_table import phase_tables
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, cached, metric
from perflog.metrics.run_rows import RunRows, run_rows
from perflog.statistics.samples import Floats
from perflog.tables.nulls import int_or_none

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("of", meaning="load (its unit is the name, with a printed layer), phase, or layer (by direction)"),
    MetricColumn("name", meaning="what is uneven"),
    MetricColumn("occurrence", meaning="of a phase: k-th time in the step; null: not known which"),
    MetricColumn("over", meaning="rank, expert, stage (sum of its layers) or layer (numbered layers, which are alike)"),
    MetricColumn("kind", meaning="of a phase, as declared; a mixed phase also waits, which hides imbalance of work"),
    MetricColumn("members", meaning="number of ranks, experts, stages or layers"),
    MetricColumn("imbalance", "1", "lower", "percent imbalance: max / mean - 1; over experts: MaxVio"),
    MetricColumn("efficiency", "1", "higher", "load-balance efficiency: mean / max"),
    MetricColumn("craypat", "1", "lower", "imbalance % of CrayPat: (max - mean) / max * n / (n - 1)", brief=False),
    MetricColumn("relative", "1", "lower", "relative imbalance (Sakellariou), the loss: 1 - mean / max"),
    MetricColumn("cv", "1", "lower", "coefficient of variation: sd / mean; sd with n, because no member is missing"),
    MetricColumn("max_over_min", "", "lower", "max / min; null if min is 0", brief=False),
    MetricColumn("largest", meaning="member that alone has the largest value in most steps; of times, the slowest"),
    MetricColumn("largest_share", "1", None, "share of the steps in which it alone has the largest value"),
    MetricColumn("total", meaning="sum over the members, median; times in s", brief=False),
    MetricColumn("mean", meaning="mean over the members, median; times in s", brief=False),
    MetricColumn("max", meaning="largest value, median; times in s", brief=False),
    MetricColumn("entropy", "1", "higher", "over experts: -sum p ln p / ln E; 1 is balanced"),
    MetricColumn("dead", meaning="over experts: number of experts without work, median"),
    MetricColumn("max_share", "1", "lower", "over experts: max / sum", brief=False),
    MetricColumn("n", meaning="number of steady steps with all members"),
    MetricColumn("first_step", meaning="first of these steps"),
    MetricColumn("last_step", meaning="last of these steps"),
)
_FIGURES = (
    "imbalance", "efficiency", "craypat", "relative", "cv", "max_over_min", "total", "mean", "max", "entropy", "dead",
    "max_share",
)  # fmt: skip
_KEYS = ("of", "name", "occurrence", "over", "kind")


@dataclass(frozen=True)
class _MemberAmounts:
    """Amounts of the members (ranks, experts, stages, layers) of a run in each step.

    `key`: values of the columns of _KEYS. `rows`: step, member (null: not known which), amount.
    """

    key: tuple[str, str | None, int | None, str, str | None]
    rows: pd.DataFrame
    run: RunRows


@metric(
    title="imbalance",
    needs=(),
    columns=_COLUMNS,
    main="imbalance",
    formula="max / mean - 1 over ranks, experts, stages or layers, step by step; median over the steady steps",
    source="percent imbalance: Pearce et al., ICS 2012; efficiency: POP; craypat: DeRose et al. 2007; relative: "
    "Sakellariou and Gurd 1997; MaxVio: Wang et al. 2024 (2408.15664), eq. 4",
)
def imbalance(tables: Tables, options: Options) -> pd.DataFrame:
    """Imbalance of loads, phases, stages and layers of each run.

    Example:
        >>> table = perflog.metrics.imbalance(perflog.read("run.txt"))
        >>> table[["of", "name", "over", "imbalance", "largest"]].head(2).round(4)
              of     name  over  imbalance  largest
        0   load    block  rank     0.1954  ...
        1  phase  process  rank     0.0505  ...
    """
    import pandas as pd

    steps = imbalance_steps(tables, options.warmup)
    steps = steps[steps["steady"].astype(bool)]
    rows = [_medians(group) for _, group in steps.groupby(["run", *_KEYS], dropna=False, sort=False)]
    table = pd.DataFrame(rows, columns=[c.name for c in _COLUMNS]).astype({"occurrence": "Int64"})
    table["largest"] = pd.Series([row.get("largest") for row in rows], dtype=object)
    return table


def _medians(steps: pd.DataFrame) -> dict[str, Any]:
    """Row of the metric: medians over the steps."""
    row: dict[str, Any] = {name: steps[name].iloc[0] for name in ("run", "label", *_KEYS, "members")}
    row |= {name: steps[name].median() for name in _FIGURES}
    counts = steps["largest"].value_counts()
    if len(counts):
        row |= {"largest": counts.index[0], "largest_share": float(counts.iloc[0]) / len(steps)}
    return row | {"n": len(steps), "first_step": int(steps["step"].min()), "last_step": int(steps["step"].max())}


def imbalance_steps(tables: Mapping[str, pd.DataFrame], warmup: int | None = None) -> pd.DataFrame:
    """Return imbalance step by step.

    Columns: run, label, of, name, occurrence, over, kind, step, members, the figures of the metric, largest (null:
    several members, or not known which), steady. The steps of the warm-up are included; they are not steady.
    """
    return cached(tables, ("imbalance by step", warmup), lambda: _by_step(tables, warmup)).copy()


def _by_step(tables: Mapping[str, pd.DataFrame], warmup: int | None) -> pd.DataFrame:
    import pandas as pd

    names = ["run", "label", *_KEYS, "step", "members", *_FIGURES, "largest", "steady"]
    figures = [_figures(amounts) for amounts in _all_amounts(tables, warmup)]
    figures = [steps for steps in figures if len(steps)]
    table = pd.concat(figures, ignore_index=True) if figures else pd.DataFrame(columns=names)
    order = {run: i for i, run in enumerate(tables["runs"]["run"])}
    return table.sort_values("run", key=lambda runs: runs.map(order), kind="stable", ignore_index=True)[names]


def _all_amounts(tables: Mapping[str, pd.DataFrame], warmup: int | None) -> Iterator[_MemberAmounts]:
    for run in run_rows(tables, "loads", "amount", warmup):
        yield from _loads(run)
    for run, table in phase_tables(tables, warmup):
        yield from _phases(run, table)
    for run in run_rows(tables, "layers", "time_s", warmup):
        yield from _layers(run)


def _loads(run: RunRows) -> Iterator[_MemberAmounts]:
    """Loads of ranks and of experts. Missing experts count as zero; an expert's loads on several ranks add up."""
    for (unit, layer), rows in run.rows.groupby(["unit", "layer"], dropna=False, sort=False):
        unit = unit if isinstance(unit, str) else None
        unit = f"{unit or 'load'} in layer {layer}" if isinstance(layer, str) else unit
        if len(ranks := rows[rows["expert"].isna()]):
            yield _MemberAmounts(("load", unit, None, "rank", None), _by_member(ranks, "rank", "amount"), run)
        if len(experts := rows[rows["expert"].notna()]):
            grid = experts.groupby(["step", "expert"])["amount"].sum().unstack(fill_value=0.0)
            amounts = grid.stack().rename("amount").reset_index().rename(columns={"expert": "member"})
            yield _MemberAmounts(("load", unit, None, "expert", None), amounts, run)


def _phases(run: RunRows, table: pd.DataFrame) -> Iterator[_MemberAmounts]:
    """Times of ranks in each phase of a run's phase table. Wait phases are left out: waiting is no work."""
    for (name, node), rows in table.groupby(["phase", "node"], dropna=False, sort=False):
        declared = run.semantics.phase(name)
        kind = declared.kind if declared else None
        if kind != "wait":
            key = ("phase", name, int_or_none(node), "rank", kind)
            yield _MemberAmounts(key, _by_member(rows, "rank", "time_s"), run)


def _layers(run: RunRows) -> Iterator[_MemberAmounts]:
    """Times of pipeline stages, and of numbered layers. The parts of a layer on several ranks add up."""
    for direction, rows in run.rows.groupby("direction", dropna=False):
        direction = direction if isinstance(direction, str) else None
        if rows["stage"].notna().all():
            totals = rows.groupby(["step", "stage", "rank"], dropna=False)["time_s"].sum()
            stages = totals.groupby(["step", "stage"]).mean().reset_index()  # the ranks of a stage do the same work
            yield _MemberAmounts(("layer", direction, None, "stage", None), _by_member(stages, "stage", "time_s"), run)
        numbered = rows[rows["layer"].str.isdigit().fillna(False).astype(bool)]
        if len(numbered):
            sums = numbered.groupby(["step", "layer"])["time_s"].sum().reset_index()
            yield _MemberAmounts(("layer", direction, None, "layer", None), _by_member(sums, "layer", "time_s"), run)


def _by_member(rows: pd.DataFrame, member: str, amount: str) -> pd.DataFrame:
    """Columns step, member and amount from columns of other names."""
    return rows[["step", member, amount]].set_axis(["step", "member", "amount"], axis=1)


def _figures(amounts: _MemberAmounts) -> pd.DataFrame:
    """Figures of each step in which no member is missing. No rows if that is not known, or for a single member.

    Several amounts of one member in a step add up.
    """
    import pandas as pd

    rows, run = amounts.rows, amounts.run
    n = rows["member"].nunique()
    if rows["member"].isna().any():
        n = run.world or 0  # one value for each rank
    else:
        rows = rows.groupby(["step", "member"])["amount"].sum().reset_index()
    rows = rows[rows.groupby("step")["amount"].transform("size") == n].sort_values(["step", "member"])
    if n < 2 or not len(rows):
        return pd.DataFrame()
    values = rows["amount"].to_numpy(np.float64).reshape(-1, n)
    steps = rows["step"].to_numpy(np.int64)[::n]
    figures = pd.DataFrame({"step": steps, "members": n, **measures(values, amounts.key[3] == "expert")})
    figures["largest"] = pd.Series(_largest(values, rows["member"].to_numpy(object).reshape(-1, n)), dtype=object)
    figures = figures.assign(run=run.run, label=run.label, steady=steps >= run.first)
    return figures.assign(**dict(zip(_KEYS, amounts.key, strict=True))).dropna(subset="imbalance")


def measures(values: Floats, experts: bool = False) -> dict[str, Floats]:
    """Return the measures of imbalance of each row of `values` (steps x members, not negative).

    NaN where all values are 0. `experts`: also the measures over experts, which are NaN otherwise.
    """
    n = values.shape[1]
    top, mean, least, total = values.max(axis=1), values.mean(axis=1), values.min(axis=1), values.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        figures = {
            "imbalance": top / mean - 1,
            "efficiency": mean / top,
            "craypat": (top - mean) / top * n / (n - 1),
            "relative": 1 - mean / top,
            "cv": values.std(axis=1) / mean,
            "max_over_min": np.where(least > 0, top / least, np.nan),
            "total": total,
            "mean": mean,
            "max": top,
        }
        share = values / total[:, None]
        figures["entropy"] = -np.where(values == 0, 0.0, share * np.log(share)).sum(axis=1) / np.log(n)
    figures |= {"dead": (values == 0).sum(axis=1).astype(np.float64), "max_share": share.max(axis=1)}
    if not experts:
        figures |= dict.fromkeys(("entropy", "dead", "max_share"), np.full(len(values), np.nan))
    return figures


def _largest(values: Floats, members: npt.NDArray[np.object_]) -> list[Any]:
    """The member that alone has the largest value, in each step; None if several have it or it is not known."""
    is_alone = (values == values.max(axis=1, keepdims=True)).sum(axis=1) == 1
    largest = members[np.arange(len(values)), values.argmax(axis=1)]
    names = [int(m) if isinstance(m, float) and m == m else m for m in largest]
    return [name if alone and name == name else None for name, alone in zip(names, is_alone, strict=True)]
