"""Imbalance of loads, phases, stages and layers: how uneven they are, who is the slowest, and how often."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints, Mask
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_rows import SteadyRun, printed_steps, step_rows
from perflog.metrics.run_tables import Tables, computed_once, tables_of
from perflog.metrics.step_time.phase_table import phases_of_runs
from perflog.statistics.groups import Groups, groups_of, positions_in
from perflog.tables.columns import RowColumns

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("of", meaning="load (its unit is the name, with a printed layer), phase, or layer (by direction)"),
    MetricColumn("name", meaning="what is uneven", type="object"),
    MetricColumn("occurrence", meaning="of a phase: k-th time in the step; null: not known which", type="Int64"),
    MetricColumn("over", meaning="rank, expert, stage (sum of its layers) or layer (numbered layers, which are alike)"),
    MetricColumn("kind", meaning="of a phase, as declared; a mixed phase also waits, which hides imbalance of work",
                 type="object"),
    MetricColumn("members", meaning="number of ranks, experts, stages or layers"),
    MetricColumn("imbalance", "1", "lower", "percent imbalance: max / mean - 1; over experts: MaxVio"),
    MetricColumn("efficiency", "1", "higher", "load-balance efficiency: mean / max"),
    MetricColumn("craypat", "1", "lower", "imbalance % of CrayPat: (max - mean) / max * n / (n - 1)", brief=False),
    MetricColumn("relative", "1", "lower", "relative imbalance (Sakellariou), the loss: 1 - mean / max"),
    MetricColumn("cv", "1", "lower", "coefficient of variation: sd / mean; sd with n, because no member is missing"),
    MetricColumn("max_over_min", "", "lower", "max / min; null if min is 0", brief=False),
    MetricColumn(
        "largest", meaning="member that alone has the largest value in most steps; of times, the slowest", type="object"
    ),
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
)  # fmt: skip
_FIGURES = (
    "imbalance", "efficiency", "craypat", "relative", "cv", "max_over_min", "total", "mean", "max", "entropy", "dead",
    "max_share",
)  # fmt: skip
_KEYS = ("of", "name", "occurrence", "over", "kind")
_Key = tuple[str, str | None, int | None, str, str | None]


class _Group(Struct, frozen=True):
    """What is compared in each step. `key`: the columns of _KEYS. `world`: number of ranks, NaN if it is not known."""

    run: str
    label: str | None
    key: _Key
    world: float
    first: int
    """The first steady step, as a number in the order of the run."""

    epoch: int


class _Amounts(Struct, frozen=True):
    """Amounts of the members (ranks, experts, stages, layers) of groups in each step, for all groups at once.

    A value a row: `group` (its index in `groups`), `step`, `member` (NaN: unknown) and `amount`. `layers`: names of the
    layers, if `member` is an index of them.
    """

    groups: Sequence[_Group]
    group: Ints
    step: Ints
    member: Floats
    amount: Floats
    layers: Sequence[str] = ()


class _StepFigures(RowColumns, frozen=True):
    """Measures of imbalance, a value for each group and step. `largest`: None if several are, or if it is not known."""

    groups: Sequence[_Group]
    group: Ints
    step: Ints
    members: Ints
    largest: npt.NDArray[np.object_]
    figures: dict[str, Floats]

    def steady(self) -> Mask:
        """Flag the steady steps."""
        return self.step >= np.array([group.first for group in self.groups], np.int64)[self.group]


@metric(
    title="imbalance",
    needs=(),
    columns=_COLUMNS,
    main="imbalance",
    formula="max / mean - 1 over ranks, experts, stages or layers, step by step; median over the steady steps",
    source="percent imbalance: Pearce et al., ICS 2012; efficiency: POP; craypat: DeRose et al. 2007; relative: "
    "Sakellariou and Gurd 1997; MaxVio: Wang et al. 2024 (2408.15664), eq. 4",
)
def imbalance(tables: Tables, options: Options) -> MetricRows:
    """Imbalance of loads, phases, stages and layers of each run.

    Example:
        >>> table = perflog.metrics.imbalance(perflog.read("run.txt"))
        >>> table[["of", "name", "over", "imbalance", "largest"]].head(2).round(4)
              of     name  over  imbalance  largest
        0   load    block  rank     0.1954  ...
        1  phase  process  rank     0.0505  ...
    """
    import pandas as pd

    steps = _by_step(tables, options.warmup)
    steps = steps.where(steps.steady())
    groups = groups_of(steps.group)
    first, last = (printed_steps(steps.groups, steps.group[groups.first], ends) for ends in groups.ends(steps.step))
    medians = {name: groups.medians(values) for name, values in steps.figures.items()}
    most_often, rows = _most_often(steps, groups), []
    for i in groups.in_order.tolist():
        row, n, (largest, times) = int(groups.first[i]), int(groups.sizes[i]), most_often[i]
        group = steps.groups[steps.group[row]]
        rows.append(
            {"run": group.run, "label": group.label, **dict(zip(_KEYS, group.key, strict=True))}
            | {"members": int(steps.members[row]), "n": n, "first_step": int(first[i]), "last_step": int(last[i])}
            | {name: values[i] for name, values in medians.items()}
            | {"largest": largest, "largest_share": times / n if times else np.nan}
        )
    if not rows:
        return []
    return [pd.DataFrame({c.name: pd.Series([row[c.name] for row in rows], dtype=c.type or None) for c in _COLUMNS})]


def _most_often(steps: _StepFigures, groups: Groups) -> list[tuple[Any, int]]:
    """Return the member of each group that is the largest in most steps, of several the first, and their number."""
    members: list[dict[Any, int]] = [{} for _ in groups.sizes]
    for group, largest in zip(groups.inverse.tolist(), steps.largest.tolist(), strict=True):
        if largest is not None:
            members[group][largest] = members[group].get(largest, 0) + 1
    return [max(counts.items(), key=lambda item: item[1], default=(None, 0)) for counts in members]


def imbalance_runs(tables: Tables, warmup: int | None = None) -> list[str]:
    """Return the runs that `imbalance_steps` has rows of, in their order."""
    steps = _by_step(tables, warmup)
    first_rows = np.sort(groups_of(steps.group).first)
    return list(dict.fromkeys(steps.groups[group].run for group in steps.group[first_rows].tolist()))


def imbalance_steps(
    tables: Mapping[str, pd.DataFrame], warmup: int | None = None, runs: Collection[str] | None = None
) -> pd.DataFrame:
    """Return imbalance step by step; `runs`: only of these.

    Columns: run, label, of, name, occurrence, over, kind, step, members, the values of the metric, largest (null:
    several members, or not known which), steady. The steps of the warm-up are included; they are not steady.
    """
    import pandas as pd

    steps = _by_step(tables_of(tables), warmup)
    if runs is not None:
        steps = steps.where(np.array([group.run in runs for group in steps.groups], np.bool_)[steps.group])
    names = np.empty((len(steps.groups), len(_KEYS) + 2), object)
    for i, group in enumerate(steps.groups):
        names[i] = (group.run, group.label, *group.key)
    names_of_rows = zip(("run", "label", *_KEYS), names[steps.group].T, strict=True)
    columns = {
        **{name: pd.Series(values, dtype=object) for name, values in names_of_rows},
        "step": steps.step,
        "members": steps.members,
        **steps.figures,
    }
    return pd.DataFrame({**columns, "largest": pd.Series(steps.largest, dtype=object), "steady": steps.steady()})


@computed_once
def _by_step(tables: Tables, warmup: int | None) -> _StepFigures:
    """The measures of all groups by step, run by run in the order of the runs."""
    parts = [_figures(_loads(tables, warmup))]
    parts += [_figures(_phases(piece, warmup)) for piece in tables.in_pieces("phases")]
    parts.append(_figures(_layers(tables, warmup)))
    groups = [group for part in parts for group in part.groups]
    offsets = np.cumsum([0, *(len(part.groups) for part in parts[:-1])])
    number = np.concatenate([part.group + offset for part, offset in zip(parts, offsets, strict=True)])
    runs = tables.run_order()
    order = np.argsort(np.array([runs[group.run] for group in groups], np.int64)[number], kind="stable")
    columns = {name: [getattr(part, name) for part in parts] for name in ("step", "members", "largest")}
    figures = {name: [part.figures[name] for part in parts] for name in _FIGURES}
    del parts

    def joined(pieces: list[Any]) -> Any:
        """A column in the order of the runs; its pieces are dropped, for these may be hundreds of megabytes."""
        whole = np.concatenate(pieces)
        pieces.clear()
        return whole[order]

    in_order = {name: joined(pieces) for name, pieces in columns.items()}
    return _StepFigures(
        groups, number[order], **in_order, figures={name: joined(pieces) for name, pieces in figures.items()}
    )


def _loads(tables: Tables, warmup: int | None) -> _Amounts:
    """Loads of ranks and of experts. Missing experts count as zero; an expert's loads on several ranks add up."""
    table = step_rows(tables, "loads", "amount", warmup)
    rows, experts = table.rows, table.rows.known("expert")
    printed = groups_of(table.run_index, rows.codes("unit")[0], rows.codes("layer")[0])
    groups = groups_of(
        table.run_index, printed.first[printed.inverse], experts.astype(np.int64)
    )  # in the order of rows
    names = zip(*(rows.where(groups.first)[name].tolist() for name in ("unit", "layer")), strict=True)
    found = [
        _group(table.runs[run_index], ("load", load_name(unit, layer), None, "expert" if by_expert else "rank", None))
        for run_index, by_expert, (unit, layer) in zip(
            table.run_index[groups.first].tolist(), experts[groups.first].tolist(), names, strict=True
        )
    ]
    member = np.where(experts, rows["expert"], table.rank)
    group, step, idle = _idle_experts(groups.inverse[experts], table.step[experts], member[experts])
    return _Amounts(
        found, np.append(groups.inverse, group), np.append(table.step, step), np.append(member, idle),
        np.append(rows["amount"], np.zeros(len(step))),
    )  # fmt: skip


def _group(run: SteadyRun, key: _Key) -> _Group:
    return _Group(run.run, run.label, key, np.nan if run.world is None else run.world, run.first, run.epoch)


def load_name(unit: str | None, layer: str | None) -> str | None:
    """Return the name of a load: its unit, with the layer if there is one."""
    return unit if layer is None else f"{unit or 'load'} in layer {layer}"


def _idle_experts(group: Ints, step: Ints, expert: Floats) -> tuple[Ints, Ints, Floats]:
    """Return group, step and expert of each expert of a group that its group does not print in one of its steps."""
    experts = expert.astype(np.int64)
    printed, steps, pairs = groups_of(group, step, experts), groups_of(group, step), groups_of(group, experts)
    group_of_step, group_of_pair = group[steps.first], group[pairs.first]
    numbers = np.bincount(group_of_pair, minlength=int(group.max(initial=-1)) + 1)  # experts of each group
    if len(printed.first) == int(numbers[group_of_step].sum()):  # no expert is ever missing
        return group[:0], step[:0], expert[:0]
    begins = np.cumsum(numbers) - numbers
    repeats = numbers[group_of_step]
    nth = np.arange(int(repeats.sum())) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    every = (
        np.repeat(group_of_step, repeats), np.repeat(step[steps.first], repeats),
        experts[pairs.first][np.repeat(begins[group_of_step], repeats) + nth],
    )  # fmt: skip
    found = positions_in(every, [keys[printed.first] for keys in (group, step, experts)])
    missing = found < 0
    return every[0][missing], every[1][missing], every[2][missing].astype(np.float64)


def _phases(tables: Tables, warmup: int | None) -> _Amounts:
    """Times of ranks in each phase. Wait phases are left out: waiting is no work."""
    table = phases_of_runs(tables, warmup)
    groups = groups_of(table.run_index, table.phase, table.node)
    number = np.full(len(groups.first), -1)
    found: list[_Group] = []
    for group in groups.in_order.tolist():
        row = int(groups.first[group])
        run, name = table.runs[table.run_index[row]], table.names[table.phase[row]]
        declared = run.semantics.phase(name)
        kind = declared.kind if declared else None
        if kind != "wait":
            number[group] = len(found)
            found.append(_group(run, ("phase", name, int(table.node[row]) or None, "rank", kind)))
    numbers = number[groups.inverse]
    is_work = numbers >= 0
    return _Amounts(found, numbers[is_work], table.step[is_work], table.rank[is_work], table.time_s[is_work])


def _layers(tables: Tables, warmup: int | None) -> _Amounts:
    """Times of pipeline stages, and of numbered layers. The parts of a layer on several ranks add up."""
    table = step_rows(tables, "layers", "time_s", warmup)
    rows = table.rows
    codes, words = rows.codes("layer")
    names = sorted(word for word in words if word.isdigit())
    number_of_word = np.array([*(names.index(word) if word.isdigit() else -1 for word in words), -1], np.int64)
    layers = number_of_word[codes]
    directions, direction_words = rows.codes("direction")
    groups = groups_of(table.run_index, directions)
    staged = ~groups.any_of(~rows.known("stage"))
    found: list[_Group] = []
    parts: list[tuple[Ints, Ints, Floats, Floats]] = []
    for group in groups.in_order.tolist():
        row = int(groups.first[group])
        run, direction = (
            table.runs[table.run_index[row]],
            None if directions[row] < 0 else direction_words[directions[row]],
        )
        in_group = groups.inverse == group
        for over, chosen in (("stage", in_group & staged), ("layer", in_group & (layers >= 0))):
            if not chosen.any():
                continue
            step, member, times = table.step[chosen], layers[chosen], rows["time_s"][chosen]
            if over == "stage":
                step, member, times = _times_of_stages(step, rows["stage"][chosen], table.rank[chosen], times)
            parts.append((np.full(len(step), len(found)), step, member.astype(np.float64), times))
            found.append(_group(run, ("layer", direction, None, over, None)))
    empty, no_values = np.zeros(0, np.int64), np.zeros(0)
    group, step, member, times = map(np.concatenate, zip((empty, empty, no_values, no_values), *parts, strict=True))
    return _Amounts(found, group, step, member, times, names)


def _times_of_stages(step: Ints, stage: Ints, rank: Floats, times: Floats) -> tuple[Ints, Ints, Floats]:
    """Return step, stage and time of the stages: the mean over their ranks, which do the same work."""
    on_ranks = groups_of(step, stage, np.where(np.isnan(rank), -1, rank).astype(np.int64))
    step, stage, sums = step[on_ranks.first], stage[on_ranks.first], on_ranks.sums(times)
    stages = groups_of(step, stage)
    return step[stages.first], stage[stages.first], stages.means(sums)


def _figures(amounts: _Amounts) -> _StepFigures:
    """Return the values of each step of a group without missing members: of two known members or more.

    Several amounts of one member in a step add up.
    """
    rows, members = _whole_steps(amounts)
    by_expert = np.array([group.key[3] == "expert" for group in amounts.groups], np.bool_)[rows.group]
    by_layer = np.array([group.key[3] == "layer" for group in amounts.groups], np.bool_)[rows.group]
    parts = []
    kinds = groups_of(members, by_expert.astype(np.int64), by_layer.astype(np.int64))
    for kind, row in enumerate(kinds.first.tolist()):
        chosen, n = kinds.inverse == kind, int(members[row])
        values, numbers = rows.amount[chosen].reshape(-1, n), rows.member[chosen].reshape(-1, n)
        figures = measures(values, experts=bool(by_expert[row]))
        largest = _largest(values, numbers, amounts.layers if by_layer[row] else ())
        steps = rows.group[chosen][::n], rows.step[chosen][::n]
        part = _StepFigures(amounts.groups, *steps, np.full(len(values), n), largest, figures)
        parts.append(part.where(~np.isnan(figures["imbalance"])))
    none, no_values = np.zeros(0, np.int64), dict.fromkeys(_FIGURES, np.zeros(0))
    parts.append(_StepFigures(amounts.groups, none, none, none, none.astype(object), no_values))
    group, step, counts, most = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("group", "step", "members", "largest")
    )
    every = {name: np.concatenate([part.figures[name] for part in parts]) for name in _FIGURES}
    whole = _StepFigures(amounts.groups, group, step, counts, most, every)
    return whole.where(np.lexsort((whole.step, whole.group)))


def _whole_steps(amounts: _Amounts) -> tuple[_Amounts, Ints]:
    """The amounts of the steps in which no member is missing, by group, step and member; and the number of members."""
    unknown = np.isnan(amounts.member)
    anonymous = np.zeros(len(amounts.groups), np.bool_)
    anonymous[amounts.group[unknown]] = True
    is_anonymous = anonymous[amounts.group]  # one value for each rank
    known = ~is_anonymous
    member = np.where(known, amounts.member, 0).astype(np.int64)
    nth = np.where(known, -1, np.arange(len(member)))  # values of unknown members do not add up
    each = groups_of(amounts.group, amounts.step, member, nth)
    sums, first = each.sums(amounts.amount), each.first
    group, step = amounts.group[first], amounts.step[first]
    groups = groups_of(group)
    numbers = groups.numbers_of(member[first], np.ones(len(first), np.bool_))
    worlds = np.array([0 if np.isnan(each.world) else each.world for each in amounts.groups], np.int64)
    members = np.where(anonymous[group], worlds[group], numbers[groups.inverse])
    moments = groups_of(group, step)
    whole = (moments.sizes[moments.inverse] == members) & (members > 1)
    values = _Amounts(
        amounts.groups, group[whole], step[whole], amounts.member[first][whole], sums[whole], amounts.layers
    )
    return values, members[whole]


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


def _largest(values: Floats, members: Floats, names: Sequence[str]) -> npt.NDArray[np.object_]:
    """The member that alone has the largest value, in each step; None if several have it or it is not known."""
    is_alone = (values == values.max(axis=1, keepdims=True)).sum(axis=1) == 1
    member = members[np.arange(len(values)), values.argmax(axis=1)]
    known = is_alone & ~np.isnan(member)
    largest = np.full(len(values), None, object)
    numbers = member[known].astype(np.int64)
    largest[known] = np.array(names, object)[numbers] if names else numbers.astype(object)
    return largest
