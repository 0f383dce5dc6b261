"""Imbalance of loads, phases, stages and layers: how uneven, who is the slowest, and how persistently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perflog.metrics.phase_table import RunRows, run_rows
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, cached, metric
from perflog.statistics.samples import Floats

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("of", meaning="load (its unit is the name), phase, or layer (by direction)"),
    MetricColumn("name", meaning="what is uneven"),
    MetricColumn("occurrence", meaning="of a phase: k-th time in the step; null: not known which"),
    MetricColumn(
        "over", meaning="rank, expert, stage (sums of its layers) or layer (numbered layers, which are alike)"
    ),
    MetricColumn(
        "kind", meaning="of a phase, as declared: one that also waits (mixed) hides imbalance of the work in it"
    ),
    MetricColumn("members", meaning="how many ranks, experts, stages or layers"),
    MetricColumn("imbalance", "1", "lower", "percent imbalance: max / mean - 1; over experts: MaxVio"),
    MetricColumn("efficiency", "1", "higher", "load-balance efficiency: mean / max"),
    MetricColumn("craypat", "1", "lower", "imbalance % of CrayPat: (max - mean) / max * n / (n - 1)", brief=False),
    MetricColumn("relative", "1", "lower", "relative imbalance of Sakellariou, the loss: 1 - mean / max"),
    MetricColumn("cv", "1", "lower", "coefficient of variation: sd / mean, sd with n: all members are there"),
    MetricColumn("max_over_min", "", "lower", "max / min; null if min is 0", brief=False),
    MetricColumn("largest", meaning="the member that alone has the largest value in most steps: of times, the slowest"),
    MetricColumn("largest_share", "1", None, "share of the steps in which it has"),
    MetricColumn("total", meaning="sum over the members, median; times in s", brief=False),
    MetricColumn("mean", meaning="mean over the members, median; times in s", brief=False),
    MetricColumn("max", meaning="largest, median; times in s", brief=False),
    MetricColumn("entropy", "1", "higher", "over experts: -sum p ln p / ln E, 1 is balanced"),
    MetricColumn("dead", meaning="over experts: those without work, median"),
    MetricColumn("max_share", "1", "lower", "over experts: largest / sum", brief=False),
    MetricColumn("n", meaning="steady steps in which all members are there"),
    MetricColumn("first_step", meaning="first of them"),
    MetricColumn("last_step", meaning="last of them"),
)
_FIGURES = (
    "imbalance", "efficiency", "craypat", "relative", "cv", "max_over_min", "total", "mean", "max", "entropy", "dead",
    "max_share",
)  # fmt: skip
_KEYS = ("of", "name", "occurrence", "over", "kind")


@dataclass(frozen=True)
class _MemberAmounts:
    """What is divided among members in a run. `rows`: step, member (null: not known who), amount."""

    key: tuple[str, str | None, int | None, str, str | None]
    rows: pd.DataFrame
    part: RunRows


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
    """Imbalance of loads, phases, stages and layers of each run."""
    import pandas as pd

    steps = imbalance_steps(tables, options.warmup)
    steps = steps[steps["steady"].astype(bool)]
    rows = [_medians(group) for _, group in steps.groupby(["run", *_KEYS], dropna=False, sort=False)]
    table = pd.DataFrame(rows, columns=[c.name for c in _COLUMNS]).astype({"occurrence": "Int64"})
    table["largest"] = pd.Series([row.get("largest") for row in rows], dtype=object)
    return table


def _medians(steps: pd.DataFrame) -> dict[str, Any]:
    row: dict[str, Any] = {name: steps[name].iloc[0] for name in ("run", "label", *_KEYS, "members")}
    row |= {name: steps[name].median() for name in _FIGURES}
    counts = steps["largest"].value_counts()
    if len(counts):
        row |= {"largest": counts.index[0], "largest_share": float(counts.iloc[0]) / len(steps)}
    return row | {"n": len(steps), "first_step": int(steps["step"].min()), "last_step": int(steps["step"].max())}


def imbalance_steps(tables: Mapping[str, pd.DataFrame], warmup: int | None = None) -> pd.DataFrame:
    """The same step by step: run, label, of, name, occurrence, over, kind, step, members, the figures, largest (null:
    several, or not known who), steady. All steps are there; those of the warm-up are not steady.
    """
    return cached(tables, ("imbalance by step", warmup), lambda: _by_step(tables, warmup)).copy()


def _by_step(tables: Mapping[str, pd.DataFrame], warmup: int | None) -> pd.DataFrame:
    import pandas as pd

    names = ["run", "label", *_KEYS, "step", "members", *_FIGURES, "largest", "steady"]
    found = [_figures(shares) for shares in _divided(tables, warmup)]
    found = [steps for steps in found if len(steps)]
    table = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=names)
    order = {run: at for at, run in enumerate(tables["runs"]["run"])}
    return table.sort_values("run", key=lambda runs: runs.map(order), kind="stable", ignore_index=True)[names]


def _divided(tables: Mapping[str, pd.DataFrame], warmup: int | None) -> Iterator[_MemberAmounts]:
    for name, column, find in (
        ("loads", "amount", _loads),
        ("phases", "time_s", _phases),
        ("layers", "time_s", _layers),
    ):
        for part in run_rows(tables, name, column, warmup):
            yield from find(part)


def _loads(part: RunRows) -> Iterator[_MemberAmounts]:
    """Loads of ranks, and of experts. An expert not named in a step has none in it; the ranks that name it add up."""
    for unit, rows in part.rows.groupby("unit", dropna=False):
        unit = unit if isinstance(unit, str) else None
        if len(ranks := rows[rows["expert"].isna()]):
            yield _MemberAmounts(("load", unit, None, "rank", None), _named(ranks, "rank", "amount"), part)
        if len(experts := rows[rows["expert"].notna()]):
            grid = experts.groupby(["step", "expert"])["amount"].sum().unstack(fill_value=0.0)
            shares = grid.stack().rename("amount").reset_index().rename(columns={"expert": "member"})
            yield _MemberAmounts(("load", unit, None, "expert", None), shares, part)


def _phases(part: RunRows) -> Iterator[_MemberAmounts]:
    """Times of ranks. What a rank waits is not its work."""
    for (name, node), rows in part.phase_table.groupby(["phase", "node"], dropna=False, sort=False):
        declared = part.means.phase(name)
        kind = declared.kind if declared else None
        if kind != "wait":
            key = ("phase", name, None if node != node else int(node), "rank", kind)
            yield _MemberAmounts(key, _named(rows, "rank", "time_s"), part)


def _layers(part: RunRows) -> Iterator[_MemberAmounts]:
    """Times of pipeline stages, and of the numbered layers, whose parts on several ranks add up."""
    for direction, rows in part.rows.groupby("direction", dropna=False):
        direction = direction if isinstance(direction, str) else None
        if rows["stage"].notna().all():
            totals = rows.groupby(["step", "stage", "rank"], dropna=False)["time_s"].sum()
            stages = totals.groupby(["step", "stage"]).mean().reset_index()  # ranks of a stage do the same
            yield _MemberAmounts(("layer", direction, None, "stage", None), _named(stages, "stage", "time_s"), part)
        numbered = rows[rows["layer"].str.isdigit().fillna(False).astype(bool)]
        if len(numbered):
            alike = numbered.groupby(["step", "layer"])["time_s"].sum().reset_index()
            yield _MemberAmounts(("layer", direction, None, "layer", None), _named(alike, "layer", "time_s"), part)


def _named(rows: pd.DataFrame, member: str, amount: str) -> pd.DataFrame:
    return rows[["step", member, amount]].set_axis(["step", "member", "amount"], axis=1)


def _figures(shares: _MemberAmounts) -> pd.DataFrame:
    """The figures of each step in which all members are there; no rows where that is not known, or for one member.

    What a member has more than once in a step adds up.
    """
    import pandas as pd

    rows, part = shares.rows, shares.part
    n = rows["member"].nunique()
    if rows["member"].isna().any():
        n = part.world or 0  # one value each
    else:
        rows = rows.groupby(["step", "member"])["amount"].sum().reset_index()
    rows = rows[rows.groupby("step")["amount"].transform("size") == n].sort_values(["step", "member"])
    if n < 2 or not len(rows):
        return pd.DataFrame()
    values = rows["amount"].to_numpy(np.float64).reshape(-1, n)
    steps = rows["step"].to_numpy(np.int64)[::n]
    found = pd.DataFrame({"step": steps, "members": n, **measures(values, shares.key[3] == "expert")})
    found["largest"] = pd.Series(_largest(values, rows["member"].to_numpy(object).reshape(-1, n)), dtype=object)
    found = found.assign(run=part.run, label=part.label, steady=steps >= part.first)
    return found.assign(**dict(zip(_KEYS, shares.key, strict=True))).dropna(subset="imbalance")


def measures(values: Floats, experts: bool = False) -> dict[str, Floats]:
    """Measures of imbalance of each row of values (steps x members), which are not negative; NaN where all are 0."""
    n = values.shape[1]
    top, mean, least, total = values.max(axis=1), values.mean(axis=1), values.min(axis=1), values.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = {
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
        found["entropy"] = -np.where(values == 0, 0.0, share * np.log(share)).sum(axis=1) / np.log(n)
    found |= {"dead": (values == 0).sum(axis=1).astype(np.float64), "max_share": share.max(axis=1)}
    return found if experts else found | dict.fromkeys(("entropy", "dead", "max_share"), np.full(len(values), np.nan))


def _largest(values: Floats, members: npt.NDArray[np.object_]) -> list[Any]:
    """In each step, the member that alone has the largest value."""
    alone = (values == values.max(axis=1, keepdims=True)).sum(axis=1) == 1
    found = members[np.arange(len(values)), values.argmax(axis=1)]
    whole = [int(m) if isinstance(m, float) and m == m else m for m in found]
    return [m if one and m == m else None for m, one in zip(whole, alone, strict=True)]
