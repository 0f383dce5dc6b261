"""Reasons: where the time of a run goes, and what holds it up, in a few sentences with figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from perflog.analysis.overview.run_figures import RunFigure
from perflog.analysis.overview.run_groups import RunGroup, run_names
from perflog.log import Log
from perflog.metrics import (
    Options,
    Tables,
    breakdown,
    collectives,
    device_kernels,
    device_time,
    headroom,
    imbalance,
    kernels,
    pipeline,
    stages,
    waterfall,
)
from perflog.metrics.breakdown import UNTIMED, part_name
from perflog.statistics.samples import NORMAL, mad
from perflog.tables.nulls import none_if_null
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd

_HELD_UP = ("wait", "communication")
_TELLING = 0.03  # of the whole: smaller parts and differences are no reason
_UNTIMED = 0.3  # of the step
_MOSTLY = 0.5  # of the communication: less is hidden badly; of the step: more is its bottleneck
_MOST_GAINS = 3
_FEWEST, _FAR, _FAR_SHARE = 8, 5.0, 0.05  # runs of a group; robust SD, and share of the median, of an outlier
_LISTED = 3  # runs
_TENSOR_CORES = re.compile(
    r"tensorop|hmma|884|1688|16816|xmma|gmma|tf32|bf16|mma\.|_h\d|fp8|hgemm|igemm", re.IGNORECASE
)
_FP32 = re.compile(r"sgemm|gemmsn|ffma", re.IGNORECASE)


@dataclass(frozen=True)
class Part:
    """A part of a run's time, and its share of the whole. `doubt`: why it is less certain than it looks."""

    name: str
    seconds: float
    share: float
    doubt: str | None = None


def parts(tables: Tables, run: str, options: Options) -> list[Part]:
    """Return the parts of a run's time that add up to its step, trace or profile, the largest first.

    Of a run that times no parts, the bars of its waterfall, if it has any.
    """
    rows = _of_run(breakdown.table(tables, options), run)
    if not len(rows):
        rows = _of_run(waterfall.table(tables, options), run)
        bars = rows[rows["bar"] != "warm-up"].sort_values("time_s", ascending=False, kind="stable")
        columns = zip(*(bars[name] for name in ("bar", "time_s", "of_steady", "doubt")), strict=True)
        known = [Part(bar, float(s), float(share), none_if_null(doubt)) for bar, s, share, doubt in columns]
        return known if sum(part.share for part in known if part.name != "unattributed") > _TELLING else []
    names = list(map(part_name, rows["of"], rows["part"], rows["kind"]))
    sums = rows.assign(name=names).groupby("name", sort=False)[["time_s", "share"]].sum()
    sums = sums.sort_values("time_s", ascending=False, kind="stable")
    return [Part(str(name), float(s), float(share)) for name, s, share in sums.itertuples(name=None)]


def why_slower(tables: Tables, base: str, slower: str, marks: tuple[str, str], options: Options) -> Iterator[str]:
    """Yield why a run takes longer than another one: the part of the step that grew most, and waits that did not."""
    rows = breakdown.table(tables, options)
    rows = rows[rows["of"] == "step"]
    of_runs = [rows[rows["run"] == run] for run in (base, slower)]
    if any(not len(of_run) for of_run in of_runs):
        return
    wholes = [float(of_run["whole_s"].iloc[0]) for of_run in of_runs]
    growth = wholes[1] - wholes[0]
    if growth < _TELLING * wholes[0]:
        return
    times = [{part.name: part.seconds for part in parts(tables, run, options)} for run in (base, slower)]
    names = dict.fromkeys([*times[0], *times[1]])
    name = max(names, key=lambda n: times[1].get(n, 0.0) - times[0].get(n, 0.0))
    before, after = (of_run.get(name, 0.0) for of_run in times)
    place = f"{name.removeprefix('untimed in ')} between its timers" if name.startswith("untimed in ") else name
    share = (after - before) / growth
    yield (
        f"Why {marks[1]} is slower than {marks[0]}: +{show(growth, 's', 3)} a step on average, {_percent(share)} of it "
        f"in {place} ({show(before, 's', 3)} -> {show(after, 's', 3)})."
    )
    waits = [sum(float(s) for s in of_run["time_s"][of_run["kind"].isin(_HELD_UP)]) for of_run in of_runs]
    if waits[0] and abs(waits[1] - waits[0]) < _TELLING * growth:
        yield f"Exposed wait and communication are unchanged ({show(waits[1], 's', 3)})."


def outliers(figure: RunFigure, groups: Sequence[RunGroup], log: Log) -> Iterator[str]:
    """Yield, for each group of many runs, the runs that are far worse than their group, the worst first.

    Worse by more than 5 robust standard deviations (1.4826 MAD, Leys et al. 2013) and by more than 5 % of the median.
    """
    names = run_names(log.run_keys)
    sign = -1.0 if figure.better == "higher" else 1.0
    for group in groups:
        values = {run: figure.values[run] for run in group.runs if run in figure.values}
        if len(values) < _FEWEST or figure.better is None:
            continue
        numbers = np.array(list(values.values()))
        centre = float(np.median(numbers))
        limit = max(_FAR * NORMAL * mad(numbers), _FAR_SHARE * abs(centre))
        far = sorted(
            (run for run in values if sign * (values[run] - centre) > limit), key=lambda run: -sign * values[run]
        )
        if far:
            listed = ", ".join(f"{names[run]} {show(values[run], figure.unit)}" for run in far[:_LISTED])
            more = f" and {len(far) - _LISTED} more" if len(far) > _LISTED else ""
            place = f"{group.mark}: " if len(groups) > 1 else ""
            yield f"{place}far worse than the median {figure.name} of {show(centre, figure.unit)}: {listed}{more}."


def time_saved(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Yield how much time a run could save at most, one ideal at a time."""
    rows = _of_run(headroom.table(tables, options), run)
    rows = rows[(rows["gain"] >= _TELLING) & (rows["of"] != "trace")].head(_MOST_GAINS)  # the parts of a trace say it
    if not len(rows):
        return
    first, *others = rows.to_dict("records")
    model = "" if first["ideal"].startswith("at ") else "with "
    ideal, now = (show(first[name], "s", 3) for name in ("ideal_s", "time_s"))
    text = f"At best, {model}{first['ideal']} the {first['of']} would take {ideal} instead of {now}"
    text += f" (-{_percent(first['gain'])})"
    yield "; ".join([text, *(f"{row['ideal']} -{_percent(row['gain'])}" for row in others)]) + "."


def extremes(figures: Sequence[RunFigure], log: Log) -> Iterator[str]:
    """Yield the runs with the lowest and the highest value of each figure, where several runs have it."""
    names = run_names(log.run_keys)
    for figure in figures:
        if len(figure.values) > 1:
            ends = [pick(figure.values, key=lambda run: figure.values[run]) for pick in (min, max)]
            low, high = (f"{show(figure.values[run], figure.unit)} in {names[run]}" for run in ends)
            yield f"{figure.name}: from {low} to {high}."


def bottleneck(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Yield sentences on what holds a run up, as far as its tables show it."""
    for reason in (_trace, _profile, _step, _pipeline, _collective, _loads):
        yield from reason(tables, run, options)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _of_run(table: pd.DataFrame, run: str) -> pd.DataFrame:
    return table[table["run"] == run]


def _trace(tables: Tables, run: str, options: Options) -> Iterator[str]:
    rows = _of_run(device_time.table(tables, options), run)
    rows = rows[rows["part"] == "trace"]
    if not len(rows):
        return
    shares = {state: float(rows[f"{state}_share"].mean()) for state in ("idle", "communication", "memory", "compute")}
    first = max(shares, key=lambda state: shares[state])
    words = {
        "idle": "idle GPU",
        "communication": "exposed communication",
        "memory": "exposed copies",
        "compute": "compute",
    }
    text = f"Bottleneck: {words[first]}, {_percent(shares[first])} of the time"
    if first == "idle":
        text += "".join(_why_idle(tables, run, options))
        if shares["communication"] > _TELLING:
            text += f"; then {_largest_kernel(tables, run, 'communication', options)}"
    elif largest := _largest_kernel(tables, run, first, options):
        text += f"; {largest}"
    yield f"{text}."


def _why_idle(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """How much of the idle time the host caused: it had not launched what comes next, or loaded data."""
    rows = _of_run(waterfall.table(tables, options), run).set_index("bar")["share"]
    if rows.get("host-bound idle", 0.0) > _TELLING:
        yield f" ({_percent(rows['host-bound idle'])} before the next launch)"
    if rows.get("data", 0.0) > _TELLING:
        yield f" ({_percent(rows['data'])} while data is loaded)"


def _largest_kernel(tables: Tables, run: str, state: str, options: Options) -> str:
    """The kernel that takes most of a state's time; for communication also the share that is hidden."""
    rows = _of_run(device_kernels.table(tables, options), run)
    rows = rows[(rows["by"] == "name") & (rows["state"] == state)]
    if not len(rows):
        return ""
    sums = rows.groupby("name", sort=False)[["calls", "time_s"]].sum().sort_values("time_s", ascending=False)
    name, (calls, seconds) = str(sums.index[0]), sums.iloc[0]
    text = f"{short_kernel(name)}: {int(calls)} calls x {show(seconds / calls, 's', 3)}"
    if state == "communication":
        hidden = _of_run(device_time.table(tables, options), run)
        hidden = hidden[(hidden["part"] == "trace") & hidden["communicating_s"].gt(0)]
        seconds_hidden = (hidden["overlap"] * hidden["communicating_s"]).sum()
        share = float(seconds_hidden / hidden["communicating_s"].sum())
        text += f", {'only ' * (share < _MOSTLY)}{_percent(share)} hidden"
    return text


def short_kernel(name: str) -> str:
    """Return a kernel's name without return type, template arguments and parameters, at most 40 characters."""
    name = re.sub(r"^void ", "", name)
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)", "", name)) != name:
        name = shorter
    name = re.split(r"[<(]", name)[0].rsplit("::", 1)[-1].strip() or name
    name = re.sub(r"^nccl(Dev)?Kernel_([A-Za-z]+)_.*", r"\2", name)
    return name if len(name) <= 40 else f"{name[:24]}…{name[-15:]}"


def _profile(tables: Tables, run: str, options: Options) -> Iterator[str]:
    rows = _of_run(breakdown.table(tables, options), run)
    categories = rows[rows["of"].isin(["gpu", "api"])]
    if not len(categories):
        return
    of = str(categories["of"].iloc[0])
    work = {"gpu": "GPU work", "api": "time of API calls"}[of]
    names = _of_run(kernels.table(tables, options), run)
    names = names[(names["of"] == of) & (names["by"] == "name")].sort_values("time_s", ascending=False)
    category, share = str(categories["part"].iloc[0]), float(categories["share"].iloc[0])
    of_category = names[names["category"] == category]
    if category == "gemm" and all(_FP32.search(n) and not _TENSOR_CORES.search(n) for n in of_category["name"]):
        words = zip(*(short_kernel(name).split("_") for name in of_category["name"]), strict=False)
        family = "_".join(alike[0] for alike in takewhile(lambda alike: len(set(alike)) == 1, words))
        every = f"every gemm is {family}, " if family else ""
        yield f"Bottleneck: FP32 matrix products, {_percent(share)}: {every}no tensor cores."
    elif category != "other":
        yield f"Bottleneck: {category}, {_percent(share)} of the {work}."
    largest = of_category.iloc[0]
    calls = f"{int(largest['calls'])} calls x {show(float(largest['avg_s']), 's', 3)}, " if largest["calls"] > 0 else ""
    of_all = float(largest["time_s"]) / float(categories["whole_s"].iloc[0])
    noun = "kernel" if of == "gpu" else "call"
    yield f"Largest {noun}: {short_kernel(str(largest['name']))}, {calls}{_percent(of_all)}."


def _step(tables: Tables, run: str, options: Options) -> Iterator[str]:
    rows = _of_run(breakdown.table(tables, options), run)
    rows = rows[rows["of"] == "step"]
    if not len(rows):
        return
    held_up = rows[rows["kind"].isin(_HELD_UP)]
    untimed = rows[rows["kind"] == UNTIMED]
    timed = rows[rows["kind"] != UNTIMED]
    if len(timed) and timed["share"].iloc[0] > _MOSTLY:
        yield f"Bottleneck: {timed['part'].iloc[0]}, {_percent(timed['share'].iloc[0])} of the step."
    if held_up["share"].sum() > _TELLING:
        yield f"Waiting and communication that delay the step: {_percent(held_up['share'].sum())}."
    if len(untimed) > 2 and untimed["share"].sum() > _UNTIMED:  # of several phases, and of the step
        most, total = untimed.iloc[0], _percent(untimed["share"].sum())
        yield f"{total} of the step is in no timer, most of it in {most['part']} ({_percent(most['share'])})."


def _pipeline(tables: Tables, run: str, options: Options) -> Iterator[str]:
    rows = _of_run(stages.table(tables, options), run)
    rows = rows[rows["stage"].notna() & rows["time_s"].notna()]
    if len(rows) > 1:
        longest = rows.loc[rows["time_s"].astype(float).idxmax()]
        ratio = float(longest["time_s"] / rows["time_s"][rows["direction"] == longest["direction"]].mean())
        if ratio < 1 + _TELLING:
            return
        text = (
            f"Bottleneck: stage {int(longest['stage'])} ({longest['direction']}) takes {ratio:.1f} times the mean stage"
        )
        modelled = _of_run(pipeline.table(tables, options), run)
        modelled = modelled[modelled["model"].str.contains("as timed", na=False)]
        if len(modelled):
            text += f"; with 1F1B and these stages the others idle {_percent(float(modelled['idle'].iloc[0]))}"
        yield f"{text}."


def _collective(tables: Tables, run: str, options: Options) -> Iterator[str]:
    rows = _of_run(collectives.table(tables, options), run)
    rows = rows[rows["peak_busbw"].notna()]
    for row in rows.drop_duplicates("op").to_dict("records"):
        size = show(float(row["peak_at"]), "B")
        yield f"{row['op']}: peak {show(row['peak_busbw'], 'GB/s')} at {size}, {row['n']} measurements."
        if row["wrong"]:
            yield f"{row['op']}: {row['wrong']} wrong results."


def _loads(tables: Tables, run: str, options: Options) -> Iterator[str]:
    rows = _of_run(imbalance.table(tables, options), run)
    rows = rows[(rows["of"] == "load") & rows["mean"].gt(0)]
    if len(rows):
        worst = rows.loc[(rows["max"] / rows["mean"]).astype(float).idxmax()]
        ratio, members = float(worst["max"] / worst["mean"]), f"{int(worst['members'])} {worst['over']}s"
        yield f"Loads: the largest of {members} does {ratio:.2f} times the mean."
