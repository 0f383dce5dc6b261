"""Imbalance of loads, phases, stages and layers: how uneven they are, who is the slowest, and how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats
from perflog.metrics.options import Options
from perflog.metrics.phase_table import phases_of_runs
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, metric
from perflog.metrics.run_rows import RunRows, first_steady_steps, run_rows
from perflog.metrics.run_tables import Tables, cached
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL
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
_Key = tuple[str, str | None, int | None, str, str | None]


class _Amounts(Struct, frozen=True):
    """Amounts of the members (ranks, experts, stages, layers) of groups in each step, for all groups at once.

    `groups`: a row for each group: run, label, the columns of _KEYS, world (number of ranks, NaN if it is not known)
    and first (the first steady step). `rows`: group (its index in `groups`), step, member (NaN: unknown) and amount.
    `layers`: names of the layers, if `member` is an index of them.
    """

    groups: pd.DataFrame
    rows: pd.DataFrame
    layers: Sequence[str] = ()


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
    steps = imbalance_steps(tables, options.warmup)
    steps = steps[steps["steady"].astype(bool)]
    groups = steps.groupby(["run", *_KEYS], dropna=False, sort=False)
    table = groups.agg(
        label=("label", "first"), members=("members", "first"), n=("step", "size"),
        first_step=("step", "min"), last_step=("step", "max"),
    )  # fmt: skip
    table = table.join(groups[list(_FIGURES)].median()).reset_index()
    counts = steps.assign(group=groups.ngroup()).groupby(["group", "largest"], sort=False).size().rename("steps")
    most = counts.sort_values(ascending=False, kind="stable").reset_index("largest").groupby(level=0).first()
    most = most.astype({"largest": object}).reindex(table.index)
    table = table.assign(largest=most["largest"], largest_share=most["steps"] / table["n"])
    for name in ("name", "kind", "largest"):
        table[name] = table[name].astype(object).where(table[name].notna(), None)
    return table[[c.name for c in _COLUMNS]].astype({"occurrence": "Int64"})


def imbalance_steps(tables: Mapping[str, pd.DataFrame], warmup: int | None = None) -> pd.DataFrame:
    """Return imbalance step by step.

    Columns: run, label, of, name, occurrence, over, kind, step, members, the values of the metric, largest (null:
    several members, or not known which), steady. The steps of the warm-up are included; they are not steady.
    """
    return cached(tables, ("imbalance by step", warmup), lambda: _by_step(tables, warmup)).copy()


def _by_step(tables: Mapping[str, pd.DataFrame], warmup: int | None) -> pd.DataFrame:
    import pandas as pd

    names = ["run", "label", *_KEYS, "step", "members", *_FIGURES, "largest", "steady"]
    known = tables if isinstance(tables, Tables) else Tables(tables)
    figures = [_figures(amounts) for amounts in (_loads(known, warmup), _phases(known, warmup), _layers(known, warmup))]
    figures = [steps for steps in figures if len(steps)]
    table = pd.concat(figures, ignore_index=True) if figures else pd.DataFrame(columns=names)
    order = {run: i for i, run in enumerate(tables["runs"]["run"])}
    return table.sort_values("run", key=lambda runs: runs.map(order), kind="stable", ignore_index=True)[names]


def _loads(tables: Tables, warmup: int | None) -> _Amounts:
    """Loads of ranks and of experts. Missing experts count as zero; an expert's loads on several ranks add up."""
    import pandas as pd

    rows = tables.rows("loads")
    rows = rows.where(rows.known("step", "amount"))
    runs = tables["runs"].set_index("run")
    codes, words = rows.codes("run")
    run = runs.index.get_indexer(words)[codes]
    experts = rows.known("expert")
    printed = groups_of(run, rows.codes("unit")[0], rows.codes("layer")[0])
    groups = groups_of(run, printed.first[printed.inverse], experts.astype(np.int64))  # in the order of their rows
    worlds = runs["world_size"].astype("Float64").to_numpy(np.float64, na_value=np.nan)[run]
    ranks = np.where(rows.known("rank"), rows["rank"], np.where(worlds == 1, 0.0, np.nan))  # 1: there is no other rank
    members = np.where(experts, rows["expert"], ranks)
    rows_of_groups = rows.where(groups.first)
    keys: list[_Key] = [
        ("load", load_name(unit, layer), None, "rank" if expert == NULL else "expert", None)
        for unit, layer, expert in rows_of_groups.records("unit", "layer", "expert")
    ]
    first = first_steady_steps(tables, rows, "amount", warmup)
    names = rows_of_groups["run"].tolist()
    labels = [label if isinstance(label, str) else None for label in runs["label"].reindex(names)]
    steady = [first[name] for name in names]
    run_columns = {"run": names, "label": labels, "world": worlds[groups.first], "first": steady}
    columns = {"group": groups.inverse, "step": rows["step"], "member": members, "amount": rows["amount"]}
    amounts = pd.DataFrame(columns, copy=False)
    idle = _idle_experts(amounts if experts.all() else amounts[experts])
    return _Amounts(_groups(run_columns, keys), pd.concat([amounts, idle], ignore_index=True) if len(idle) else amounts)


def load_name(unit: str | None, layer: str | None) -> str | None:
    """Return the name of a load: its unit, with the layer if there is one."""
    return unit if layer is None else f"{unit or 'load'} in layer {layer}"


def _idle_experts(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with amount 0 of each expert of a group in each of its steps; none if no expert is ever missing."""
    group, step, member = (rows[name].to_numpy(np.int64) for name in ("group", "step", "member"))
    experts, steps = np.sort(groups_of(group, member).first), np.sort(groups_of(group, step).first)
    places = rows[["group", "step"]].take(steps).merge(rows[["group", "member"]].take(experts), on="group")
    places = places.assign(amount=0.0)
    return places if len(groups_of(group, step, member).first) < len(places) else places[:0]


def _phases(tables: Tables, warmup: int | None) -> _Amounts:
    """Times of ranks in each phase. Wait phases are left out: waiting is no work."""
    import pandas as pd

    runs, table = phases_of_runs(tables, warmup)
    if table is None:
        return _Amounts(pd.DataFrame(), pd.DataFrame())
    phases, names = pd.factorize(table["phase"])
    groups = groups_of(table["place"].to_numpy(), phases, table["node"].fillna(0).to_numpy(np.int64))
    parts: list[tuple[RunRows, _Key]] = []
    numbers = np.full(len(groups.first), -1)
    for group in np.argsort(groups.first).tolist():  # in the order of their rows
        row = groups.first[group]
        run, name, node = runs[table["place"].iat[row]], names[phases[row]], int_or_none(table["node"].iat[row])
        declared = run.semantics.phase(name)
        kind = declared.kind if declared else None
        if kind != "wait":
            numbers[group] = len(parts)
            parts.append((run, ("phase", name, node, "rank", kind)))
    rows = _by_member(table, "rank").assign(group=numbers[groups.inverse])
    return _Amounts(_groups_of_runs(parts), rows[rows["group"] >= 0])


def _layers(tables: Tables, warmup: int | None) -> _Amounts:
    """Times of pipeline stages, and of numbered layers. The parts of a layer on several ranks add up."""
    numbered = tables["layers"]["layer"].dropna()
    names = sorted(numbered[numbered.str.isdigit().astype(bool)].unique())
    numbers = {name: number for number, name in enumerate(names)}
    parts = []
    for run in run_rows(tables, "layers", "time_s", warmup):
        for direction, rows in run.rows.groupby("direction", dropna=False):
            direction = direction if isinstance(direction, str) else None
            if rows["stage"].notna().all():
                totals = rows.groupby(["step", "stage", "rank"], dropna=False)["time_s"].sum()
                stages = totals.groupby(["step", "stage"]).mean().reset_index()  # ranks of a stage do the same work
                parts.append((run, ("layer", direction, None, "stage", None), _by_member(stages, "stage")))
            rows = rows.assign(number=rows["layer"].map(numbers))
            rows = rows[rows["number"].notna()]
            if len(rows):
                parts.append((run, ("layer", direction, None, "layer", None), _by_member(rows, "number")))
    return _amounts(parts, names)


def _by_member(rows: pd.DataFrame, member: str) -> pd.DataFrame:
    """Columns step, member and amount of times."""
    return rows[["step", member, "time_s"]].set_axis(["step", "member", "amount"], axis=1).astype({"member": "float64"})


def _amounts(parts: Sequence[tuple[RunRows, _Key, pd.DataFrame]], names: Sequence[str] = ()) -> _Amounts:
    """The amounts of groups that were collected one by one: a run, the group's key, and its rows."""
    import pandas as pd

    if not parts:
        return _Amounts(pd.DataFrame(), pd.DataFrame())
    rows = pd.concat([rows.assign(group=group) for group, (_, _, rows) in enumerate(parts)], ignore_index=True)
    return _Amounts(_groups_of_runs([(run, key) for run, key, _ in parts]), rows, names)


def _groups_of_runs(parts: Sequence[tuple[RunRows, _Key]]) -> pd.DataFrame:
    run_columns: dict[str, Sequence[Any]] = {
        "run": [run.run for run, _ in parts], "label": [run.label for run, _ in parts],
        "world": [np.nan if run.world is None else run.world for run, _ in parts],
        "first": [run.first for run, _ in parts],
    }  # fmt: skip
    return _groups(run_columns, [key for _, key in parts])


def _groups(run_columns: Mapping[str, Sequence[Any] | Floats], keys: Sequence[_Key]) -> pd.DataFrame:
    import pandas as pd

    columns = zip(*keys, strict=True) if keys else ([] for _ in _KEYS)
    key_columns = {name: pd.Series(list(column), dtype=object) for name, column in zip(_KEYS, columns, strict=True)}
    return pd.DataFrame({**run_columns, **key_columns})


def _figures(amounts: _Amounts) -> pd.DataFrame:
    """Return the values of each step of a group without missing members: of two known members or more.

    Several amounts of one member in a step add up.
    """
    import pandas as pd

    if not len(amounts.rows):
        return pd.DataFrame()
    rows = _whole_steps(amounts)
    members = rows["members"].to_numpy(np.int64)
    over = amounts.groups["over"].to_numpy(object)[rows["group"]]
    figures = []
    for n, kind in sorted(set(zip(members.tolist(), over.tolist(), strict=True))):
        chosen = (members == n) & (over == kind)
        chosen_rows = rows[chosen]
        values, numbers = (chosen_rows[name].to_numpy(np.float64).reshape(-1, n) for name in ("amount", "member"))
        first_rows = chosen_rows.iloc[::n].reset_index(drop=True)
        part = amounts.groups.take(first_rows["group"]).reset_index(drop=True)
        part = part.assign(group=first_rows["group"], step=first_rows["step"], members=n)
        part = part.assign(steady=part["step"] >= part["first"], **measures(values, experts=kind == "expert"))
        largest = _largest(values, numbers, amounts.layers if kind == "layer" else ())
        figures.append(part.assign(largest=pd.Series(largest, dtype=object)))
    table = pd.concat(figures, ignore_index=True) if figures else pd.DataFrame(columns=["group", "imbalance"])
    return table.sort_values("group", kind="stable").dropna(subset="imbalance")


def _whole_steps(amounts: _Amounts) -> pd.DataFrame:
    """The rows of the steps in which no member is missing, by group, step and member; `members`: their number."""
    import pandas as pd

    rows, groups = amounts.rows, amounts.groups
    unknown = np.isin(rows["group"], rows["group"][rows["member"].isna()])
    keys = ["group", "step", "member"]
    every = (rows[~unknown] if unknown.any() else rows).groupby(keys)["amount"].sum().reset_index()
    every["members"] = every.groupby("group")["member"].transform("nunique")
    if unknown.any():
        anonymous = rows[unknown].sort_values(keys)  # one value for each rank
        world = groups["world"].fillna(0).take(anonymous["group"]).to_numpy()
        every = pd.concat([every, anonymous.assign(members=world)], ignore_index=True)
    whole = (every.groupby(["group", "step"])["amount"].transform("size") == every["members"]) & (every["members"] > 1)
    return every[whole]


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


def _largest(values: Floats, members: Floats, names: Sequence[str]) -> list[Any]:
    """The member that alone has the largest value, in each step; None if several have it or it is not known."""
    is_alone = (values == values.max(axis=1, keepdims=True)).sum(axis=1) == 1
    largest = np.where(is_alone, members[np.arange(len(values)), values.argmax(axis=1)], np.nan)
    numbers = [None if np.isnan(member) else int(member) for member in largest.tolist()]
    return [names[number] if names and number is not None else number for number in numbers]
