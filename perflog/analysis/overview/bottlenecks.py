"""Bottlenecks: what holds a run up, in sentences with figures, as far as its tables show it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from heapq import nlargest
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from perflog.analysis.compare.printed_measures import names_step_time
from perflog.analysis.job_endings import is_ended
from perflog.analysis.lint.wording import count
from perflog.analysis.overview.host_operators import host_operator_sentences
from perflog.analysis.overview.host_ranges import host_time_of_steps
from perflog.analysis.overview.operators import operators
from perflog.analysis.overview.parts import percent
from perflog.analysis.overview.stuck import stuck
from perflog.analysis.overview.what_if import slowdown_of_job
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics import (
    Options,
    Tables,
    breakdown,
    collectives,
    copies,
    device_kernels,
    device_ranges,
    device_time,
    imbalance,
    kernels,
    lateness,
    launches,
    memory_holders,
    memory_peak,
    pauses,
    pipeline,
    stages,
    stragglers,
    throughput,
)
from perflog.metrics.breakdown import NOT_LISTED, UNTIMED, misfits
from perflog.metrics.kernel_categories import OTHER
from perflog.metrics.kernel_names import short_kernel
from perflog.metrics.settings_by_run import MFU_PEAK_OF, settings_by_run
from perflog.metrics.step_series import step_series
from perflog.metrics.traces.copies import way_of
from perflog.metrics.traces.critical_path import kinds_on_paths
from perflog.metrics.traces.device_time import wholes_of_traces
from perflog.metrics.traces.device_work import STEP_NAME
from perflog.metrics.traces.idle_causes import CAUSES
from perflog.metrics.traces.memory import holders_of
from perflog.metrics.traces.memory_holders import NOT_TRACED
from perflog.metrics.traces.work_tree import OUTSIDE, PATH_MARK, UNKNOWN
from perflog.tables.nulls import none_if_null
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd

_HELD_UP = ("wait", "communication")
_MOST_NAMED = 4  # times that are named in a sentence
_TELLING = 0.03  # of the whole: smaller parts are no reason
_UNTIMED = 0.3  # of the step
_MOSTLY = 0.5  # of the communication: less is hidden badly; of the step: more is its bottleneck
_WHOLE = 0.9  # of the GPU time: a range around nearly all of it is divided
_RANGES = 5  # that a sentence names
_KINDS_OF_PATH = 2
_HOLDERS = 4  # of memory, that a sentence names
_SLOW = 2.0  # times the median step
_MEANWHILE = {
    "compute": "it computes",
    "communication": "it communicates",
    "memory": "it copies",
    "waiting": "its GPU waits",
    "idle": "its GPU idles",
}  # what a rank does that comes last
_ON_PATH = {
    "communication": "communication",
    "memcpy": "copies",
    "memset": "copies",
    "wait": "waiting",
    "launch": "launch",
    "gap": "waiting",
    "waiting": "waiting",
    "unknown": "waiting",
}  # in a sentence on the critical path; other kinds are kernels, or of the host
_TENSOR_CORES = lazy_pattern(
    r"tensorop|hmma|884|1688|16816|xmma|gmma|tf32|bf16|mma\.|_h\d|fp8|hgemm|igemm", re.IGNORECASE
)
_FP32 = lazy_pattern(r"sgemm|gemmsn|ffma", re.IGNORECASE)


def bottleneck(tables: Tables, run: str, options: Options, is_known: bool = False) -> list[str]:
    """Return sentences on what holds a run up; one that says so where its log does not tell, unless `is_known`."""
    return list(_told(tables, run, options)) or ([] if is_known else list(_not_told(tables, run, options)))


def first_bottleneck(tables: Tables, run: str, options: Options) -> str | None:
    """Return the first sentence on what holds a run up; None if its log does not tell."""
    return next(_told(tables, run, options), None)


def _told(tables: Tables, run: str, options: Options) -> Iterator[str]:
    kinds = (
        stuck,
        slowdown_of_job,
        _trace,
        _late_rank,
        _critical,
        _launching,
        _ranges,
        _host_ranges,
        operators,
        _memory,
        _profile,
        _step,
        _slow_steps,
        _paused,
        _outside_steps,
        _pipeline,
        _collective,
        _loads,
        host_operator_sentences,
        _places,
    )
    return (text for kind in kinds for text in kind(tables, run, options))


def _of_run(table: pd.DataFrame, run: str) -> pd.DataFrame:
    return table[table["run"] == run]


def _trace(tables: Tables, run: str, options: Options) -> Iterator[str]:
    rows = wholes_of_traces(_of_run(device_time.table(tables, options), run))
    if not len(rows):
        return
    states = ("idle", "communication", "memory", "waiting", "compute")
    shares = {state: float(rows[f"{state}_s"].sum() / rows["span_s"].sum()) for state in states}
    first = max(shares, key=lambda state: shares[state])
    words = {
        "idle": "idle GPU",
        "communication": "exposed communication",
        "memory": "exposed copies",
        "waiting": "waiting kernels",
        "compute": "compute",
    }
    text = f"Bottleneck: {words[first]}, {percent(shares[first])} of the time"
    if first == "idle":
        text += "".join(_why_idle(tables, run, options))
        if shares["communication"] > _TELLING:
            text += f"; then {_largest_kernel(tables, run, 'communication', options)}"
        elif shares["idle"] < 1:
            busiest = max(states[1:], key=lambda state: shares[state])
            text += f"; of the rest, {percent(shares[busiest] / (1 - shares['idle']))} is {words[busiest]}"
            largest = _largest_kernel(tables, run, busiest, options)
            text += f", the largest {largest}" if largest else ""
    elif largest := _largest_kernel(tables, run, first, options):
        text += f"; {largest}"
    yield f"{text}."


def _late_rank(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """The rank that others wait for longest in collectives, and what it does meanwhile."""
    rows = _of_run(stragglers.table(tables, options), run)
    rows = rows[rows["imposed_share"].astype(float) > _TELLING]
    if not len(rows):
        return
    worst = rows.loc[rows["imposed_s"].astype(float).idxmax()]
    is_rank, did = none_if_null(worst["rank"]) is not None, _of_run(lateness.table(tables, options), run)
    for column in ("rank", "device"):
        is_null = none_if_null(worst[column]) is None
        did = did[did[column].isna() if is_null else (did[column] == worst[column]).fillna(False)]
    shares: dict[tuple[str, str | None], float] = {}
    for doing, path, share in did[["doing", "path", "share"]].itertuples(index=False):
        shares[doing, _outermost(path)] = shares.get((doing, _outermost(path)), 0.0) + float(share)
    (doing, name), share = max(shares.items(), key=lambda item: item[1])
    where = f" in {name}" if name else ""
    yield (
        f"{'Rank' if is_rank else 'Device'} {worst['rank' if is_rank else 'device']} comes last in "
        f"{percent(float(worst['last_share']))} of its {count(int(worst['collectives']), 'collective')}; others wait "
        f"for it in {percent(float(worst['imposed_share']))} of the time, {percent(share)} of that while "
        f"{_MEANWHILE[doing]}{where}."
    )


def _outermost(path: object) -> str | None:
    """The outermost range of a path that is no step; None if it has none."""
    names = [] if not isinstance(path, str) or path in (OUTSIDE, UNKNOWN) else path.split(PATH_MARK)
    return next((name for name in names if not (name.endswith("N") and STEP_NAME.fullmatch(f"{name[:-1]}0"))), None)


def _why_idle(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """How much of the time the device idled for which cause."""
    idle = _idle_shares(tables, run, options)
    causes = (
        (idle["host"] + idle["sync"], "host-bound"),
        (idle["sync"], "of that after a synchronisation"),
        (idle["data"], "while data is loaded"),
        (idle["launch"] + idle["waiting"], "queued"),
    )
    if told := [f"{percent(share)} {words}" for share, words in causes if share > _TELLING]:
        yield f" ({', '.join(told)})"


def _idle_shares(tables: Tables, run: str, options: Options) -> dict[str, float]:
    """The share of each cause of idle time, and of what CUDA graphs would win, in the time of all devices of a run."""
    rows = wholes_of_traces(_of_run(launches.table(tables, options), run))
    whole = float(rows["span_s"].sum())
    return {cause: float(rows[f"{cause}_s"].sum()) / whole if whole else 0.0 for cause in (*CAUSES, "graphs")}


def _critical(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """What the critical path of the steps, else of the trace, consists of, where it is known what launched the work."""
    idle = _of_run(launches.table(tables, options), run)
    if not idle["host_s"].notna().any():
        return
    rows = _of_run(kinds_on_paths(tables), run)
    rows = rows[rows["part"].isin(wholes_of_traces(idle)["part"])]
    whole = float(rows["time_s"].sum())
    times: dict[str, dict[str, float]] = {}
    for where, kind, time in rows[["where", "kind", "time_s"]].itertuples(index=False):
        of_group = times.setdefault(_ON_PATH.get(kind, "kernels" if where == "device" else "host"), {})
        of_group[kind] = of_group.get(kind, 0.0) + float(time) / whole
    told = []
    for group, kinds in sorted(times.items(), key=lambda item: -sum(item[1].values())):
        if (share := sum(kinds.values())) > _TELLING:
            largest = (
                sorted(kinds, key=lambda kind: -kinds[kind])[:_KINDS_OF_PATH] if group in ("kernels", "host") else []
            )
            each = ", ".join(f"{kind} {percent(kinds[kind])}" for kind in largest if kinds[kind] > _TELLING)
            told.append(f"{group} {percent(share)}{each and f' ({each})'}")
    if len(times) > 1 or len(rows) > 1:  # else the states of the device say it
        yield f"On the critical path: {', '.join(told)}."


def _launching(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """What CUDA graphs would win where kernels are too short for the host to keep up."""
    rows = _of_run(launches.table(tables, options), run)
    rows = rows[(rows["part"] == "trace") & rows["graphs_s"].notna()]
    if len(rows) and (share := _idle_shares(tables, run, options)["graphs"]) > _TELLING:
        call, work = (show(float(rows[column].median()), "s", 3) for column in ("call_s", "work_s"))
        yield (
            f"CUDA graphs would win at most {percent(share)} of the time: the median launch takes {call}, what it "
            f"launches {work}."
        )


def _largest_kernel(tables: Tables, run: str, state: str, options: Options) -> str:
    """The kernel that takes most of a state's time; for communication also the share of all of it that is hidden."""
    rows = _of_run(device_kernels.table(tables, options), run)
    rows = rows[(rows["by"] == "name") & (rows["state"] == state)]
    if not len(rows):
        return ""
    sums = rows.groupby("name", sort=False)[["calls", "time_s"]].sum().sort_values("time_s", ascending=False)
    name, (calls, seconds) = str(sums.index[0]), sums.iloc[0]
    text = f"{short_kernel(name)}: {count(int(calls), 'call')} x {show(seconds / calls, 's', 3)}"
    if state == "communication":
        hidden = wholes_of_traces(_of_run(device_time.table(tables, options), run))
        hidden = hidden[hidden["communicating_s"].gt(0)]
        seconds_hidden = (hidden["overlap"] * hidden["communicating_s"]).sum()
        share = float(seconds_hidden / hidden["communicating_s"].sum())
        told = f"{'only ' * (share < _MOSTLY)}{percent(share)} of all"
        if percent(share) == percent(0):
            told = "hardly any" if share else "no"
        text += f"; {told} communication is hidden"
    if state == "memory" and (rate := _copied_at(tables, run, name, options)):
        text += f" at {show(rate, 'GB/s', 3)}"
    return text


def _copied_at(tables: Tables, run: str, name: str, options: Options) -> float | None:
    """The bandwidth of a kind of copies in GB/s, if the trace has their sizes."""
    rows = _of_run(copies.table(tables, options), run)
    direction, memory = way_of(name)
    alike = rows["memory"].isna() if memory is None else rows["memory"] == memory
    rows = rows[(rows["direction"] == direction) & alike & rows["bandwidth"].notna()]
    times = rows["bytes"].astype(float) / rows["bandwidth"].astype(float)
    return float(rows["bytes"].sum() / times.sum()) if len(rows) else None


def _ranges(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """The ranges of the program that launched most of the GPU time: those inside of its steps, and beside them."""
    rows = _of_run(device_ranges.table(tables, options), run)
    total = float(rows["exclusive_s"].sum())
    if not total > 0:
        return
    sums = rows.groupby("path", sort=False).agg(name=("range", "first"), kind=("kind", "first"), time=("gpu_s", "sum"))
    sums = sums.assign(parent=[path.rpartition(PATH_MARK)[0] for path in sums.index])
    # A step is one range around all others, and so may be a range around the whole program: what is inside tells more.
    is_whole = (sums["kind"] == "step") | ((sums["time"] > _WHOLE * total) & sums.index.isin(sums["parent"]))
    around = {"", *sums.index[is_whole]}
    shown = sums[sums["parent"].isin(around) & ~is_whole & sums["parent"].map(lambda path: _all_in(path, around))]
    largest = shown[shown["time"] > _TELLING * total].sort_values("time", ascending=False, kind="stable").head(_RANGES)
    if len(largest) > 1 and not set(largest["name"]) <= {OUTSIDE, UNKNOWN}:
        each = (f"{name} {percent(time / total)}" for name, time in zip(largest["name"], largest["time"], strict=True))
        yield f"GPU time by range: {', '.join(each)}."


def _host_ranges(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Without a device: the ranges in which the host spends its steps."""
    if (found := host_time_of_steps(tables, run, options)) is None:
        return
    whole, times = found
    largest = [(name, time / whole) for name, time in times.items() if time > _TELLING * whole][:_RANGES]
    if largest:
        each = (f"{name} {percent(share)}" for name, share in largest)
        yield f"Host time of the steps by range: {', '.join(each)}."


def _memory(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """The largest peak of the memory of a device, or else of the host, and who held it."""
    rows = _of_run(memory_peak.table(tables, options), run)
    on_device = rows[rows["memory"] == "device"]
    rows = on_device if len(on_device) else rows
    if not len(rows):
        return
    peak = rows.loc[rows["peak"].astype(float).idxmax()].to_dict()
    place = "the host" if peak["memory"] == "host" else f"device {peak['device']}"
    rank = f" (rank {peak['rank']})" if none_if_null(peak["rank"]) is not None else ""
    text = f"Memory of {place}{rank}: {show(float(peak['peak']), 'B', 3)} at most"
    text += f", {show(peak['at_s'], 's', 4)} into the trace"
    text += f", in step {peak['step']}" if none_if_null(peak["step"]) is not None else ""
    if none_if_null(peak["reserved_peak"]) is not None:
        text += f"; {show(float(peak['reserved_peak']), 'B', 3)} reserved"
    held = holders_of(peak, memory_holders.table(tables, options))
    # Places of one name are one here: those of layers, say.
    shares = held.groupby("holder", sort=False)["share"].sum().astype(float).sort_values(ascending=False, kind="stable")
    largest = shares[shares > _TELLING].head(_HOLDERS)
    names = ["memory from before the trace" if name == NOT_TRACED else name for name in largest.index]
    each = ", ".join(f"{name} {percent(share)}" for name, share in zip(names, largest, strict=True))
    yield f"{text}{f'. Held by {each}' if each else ''}."


def _all_in(path: str, some: set[str]) -> bool:
    """Whether a path, and each path that it lies in, is one of some."""
    while path:
        if path not in some:
            return False
        path = path.rpartition(PATH_MARK)[0]
    return True


def _profile(tables: Tables, run: str, options: Options) -> Iterator[str]:
    rows = _of_run(breakdown.table(tables, options), run)
    rows = rows[rows["of"].isin(["gpu", "api"]) & (rows["part"] != NOT_LISTED)]
    if not len(rows):
        return
    of, category = str(rows["of"].iloc[0]), str(rows["part"].iloc[0])
    share, whole = float(rows["share"].iloc[0]), float(rows["whole_s"].iloc[0])
    work = {"gpu": "GPU work", "api": "time of API calls"}[of]
    names = _of_run(kernels.table(tables, options), run)
    names = names[(names["of"] == of) & (names["by"] == "name")].sort_values("time_s", ascending=False)
    of_category = names[names["category"] == category]
    largest = of_category.iloc[0]
    kernel, of_all = short_kernel(str(largest["name"])), float(largest["time_s"]) / whole
    each = f"{count(int(largest['calls']), 'call')} x {show(float(largest['avg_s']), 's', 3)}"
    calls = f"{each}, " if largest["calls"] > 0 else ""
    noun = "kernel" if of == "gpu" else "call"
    if category == OTHER:  # says nothing about what its kernels do
        yield f"Bottleneck: {noun} {kernel}, {calls}{percent(of_all)} of the {work}."
        return
    if category == "gemm" and all(_FP32.search(n) and not _TENSOR_CORES.search(n) for n in of_category["name"]):
        words = zip(*(short_kernel(name).split("_") for name in of_category["name"]), strict=False)
        family = "_".join(alike[0] for alike in takewhile(lambda alike: len(set(alike)) == 1, words))
        every = f"every gemm is {family}, " if family else ""
        yield f"Bottleneck: FP32 matrix products, {percent(share)}: {every}no tensor cores."
    else:
        yield f"Bottleneck: {category}, {percent(share)} of the {work}."
    yield f"Largest {noun}: {kernel}, {calls}{percent(of_all)}."


# --- steps --------------------------------------------------------------------------------------------------------


def _step(tables: Tables, run: str, options: Options) -> Iterator[str]:
    rows = _of_run(breakdown.table(tables, options), run)
    rows = rows[rows["of"].isin(["step", "phases"])]
    yield from _unfit(tables, run, options)
    if not len(rows):
        return
    whole = "step" if rows["of"].iloc[0] == "step" else "phases"
    held_up = rows[rows["kind"].isin(_HELD_UP)]
    untimed = rows[rows["kind"] == UNTIMED]
    timed = rows[rows["kind"] != UNTIMED]
    if len(timed) and timed["share"].iloc[0] > _MOSTLY:
        clock = " by the clock of the host" if timed["kind"].iloc[0] == "data" else ""
        yield f"Bottleneck: {timed['part'].iloc[0]}, {percent(timed['share'].iloc[0])} of the {whole}{clock}."
    elif len(timed) > 1 and untimed["share"].sum() < timed["share"].iloc[1]:
        (first, share), (second, share2) = timed[["part", "share"]].head(2).to_numpy()
        yield f"Bottleneck: {first}, {percent(share)} of the {whole}; then {second}, {percent(share2)}."
    if held_up["share"].sum() > _TELLING:
        yield f"Waiting and communication that delay the step: {percent(held_up['share'].sum())}."
    if len(untimed) > 2 and untimed["share"].sum() > _UNTIMED:  # of several phases, and of the step
        most, total = untimed.iloc[0], percent(untimed["share"].sum())
        yield f"{total} of the step is in no timer, most of it in {most['part']} ({percent(most['share'])})."


def _unfit(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """That the timed phases cannot be the parts of the step."""
    for misfit in misfits(tables, options.warmup):
        if misfit.run == run and misfit.whole == "step":
            parts, ratio = count(len(misfit.parts), "timed phase"), percent(misfit.parts_s / misfit.whole_s)
            yield f"{parts} add up to {ratio} of the step: some time the same work, so none has a share of the step."


def _slow_steps(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Steps that take far longer than the median, such as those with an evaluation or a checkpoint inside."""
    series = next((each for each in step_series(tables, warmup=options.warmup) if each.run == run), None)
    if series is None or not len(series.steady):
        return
    times, steps = series.steady, series.steps[series.warmup.cut :]
    centre = float(np.median(times))
    slow = series.pauses if series.pauses.any() else times > _SLOW * centre
    cost = float((times[slow] - centre).sum() / times.sum())
    if cost > _TELLING:
        verb, longest = "take" if slow.sum() > 1 else "takes", int(times.argmax())
        take = f"{slow.sum()} of {len(times)} steady steps {verb} over twice the median"
        last = f"the longest is step {steps[longest]:,} with {show(float(times[longest]), 's', 3)}."
        done = int(series.order[-1] - series.order[series.warmup.cut])
        if max(series.averaged, 1) * (len(times) - 1) >= _MOSTLY * done:
            cost_verb = "cost" if slow.sum() > 1 else "costs"
            yield f"{take} and {cost_verb} {percent(cost)} of the time; {last}"
        else:  # steps that are not printed took most of the time
            extra = show(float((times[slow] - centre).sum()), "s", 3)
            printed = f"{len(times):,} of {count(done + 1, 'step')} are printed"
            yield f"{take}, by {extra} together, {percent(cost)} of the printed time ({printed}); {last}"


def _paused(tables: Tables, run: str, options: Options) -> Iterator[str]:
    rows = _of_run(pauses.table(tables, options), run)
    for row in rows[rows["share"] > _TELLING].to_dict("records"):
        each = f"{row['n']} x {show(row['mean_s'], 's', 3)}"
        yield f"{row['kind'].capitalize()} takes {percent(row['share'])} of the run's time: {each}."


def _outside_steps(tables: Tables, run: str, options: Options) -> Iterator[str]:  # noqa: ARG001 (as all kinds)
    """The part of a run's clock in which it did no step, if the step lines cover all steps."""
    (total,) = tables.rows_of("runs", run)["elapsed_s"].tolist()
    if not total > 0:
        return
    steps = tables.rows_of("steps", run)
    steps = steps.where((steps["copy"] == 1) & steps.known("step_time_s") & ~steps.known("step_time_by"))
    numbers = steps["step"][steps.known("step")]
    if not len(numbers):
        return
    covers = steps.known("steps_averaged")
    covered = np.where(covers, steps["steps_averaged"], 0)
    announced = int(numbers.max()) - int(numbers.min()) + 1
    outside = total - float(covered @ steps["step_time_s"])
    if covered.sum() >= announced and _TELLING * total < outside:
        yield f"{show(outside, 's', 3)} of the total, {percent(outside / total)}, are outside of the steps."


def _not_told(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """What the log lacks, and the one figure that tells how much there is to win."""
    rates = _of_run(throughput.table(tables, options), run)
    rates = rates[rates["part"] == "steady"]
    mfu = rates["mfu"].astype(float).fillna(rates["printed_mfu"].astype(float)).dropna()
    named = [f"{name} {show(time, 's', 3)}" for name, time in _named_times(tables, run)]
    if len(mfu):
        used = show(float(mfu.iloc[0]), "1", 3)
        rest = "" if named else "; the log does not tell what takes the rest"
        other = settings_by_run(tables)[run].get(MFU_PEAK_OF)
        uses = f"The model uses {used} of the device's peak (MFU)"
        yield f"{uses if other is None else f'The MFU, {used}, is of the peak of {other}, another device'}{rest}."
    if named:
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        yield f"Times that each step prints by name, medians: {', '.join(named[:_MOST_NAMED])}{more}."
    elif len(mfu) or run in tables.rows_by_run("phases"):
        return
    elif is_ended(tables, run):
        return  # what ended the job counts, and is told above
    elif run in tables.rows_by_run("steps") or run in tables.rows_by_run("summaries"):
        yield "Why it takes this long is not in the log: it times nothing inside a step."


def _named_times(tables: Tables, run: str) -> list[tuple[str, float]]:
    """Return the medians of the times that most steps print by name, the longest first: their meaning is not known."""
    steps, values = tables.rows_of("steps", run), tables.rows_of("values", run)
    values = values.where(values.known("step", "value") & values.one_of("unit", ["s"]))
    by_name = [(n, rows) for n, rows in values.by("key").items() if "_per_" not in n and not names_step_time(n, "s")]
    times = [(name, float(np.median(rows["value"]))) for name, rows in by_name if 2 * len(rows) > len(steps) > 0]
    return sorted(times, key=lambda time: -time[1])


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
            idle = percent(float(modelled["idle"].iloc[0]))
            text += f"; with 1F1B and these stages {idle} of all stages' time is idle"
        yield f"{text}."


def _collective(tables: Tables, run: str, options: Options) -> Iterator[str]:
    rows = _of_run(collectives.table(tables, options), run)
    rows = rows[rows["peak_busbw"].notna()].sort_values("n", ascending=False, kind="stable")  # both buffers first
    for row in rows.drop_duplicates("op").to_dict("records"):
        name, largest = row["op"] or "Collective without a name", row["largest"]
        text = f"{name}: peak {show(row['peak_busbw'], 'GB/s')}"
        if largest is not None and largest == largest:
            text += f" at {show(float(row['peak_at']), 'B')}"
        if (from_size := row["saturated_at"]) is None or from_size != from_size:
            pass  # messages of one size, or the bandwidth falls again
        elif from_size == largest:
            text += "; it still rises at the largest message"
        elif from_size == row["smallest"]:
            text += "; all sizes reach at least 90 % of it"
        else:
            text += f"; smaller messages than {show(float(from_size), 'B')} reach less than 90 % of it"
        yield f"{text}."
        if row["wrong"]:
            yield f"{name}: {row['wrong']} wrong results."


def _loads(tables: Tables, run: str, options: Options) -> Iterator[str]:
    rows = _of_run(imbalance.table(tables, options), run)
    rows = rows[(rows["of"] == "load") & rows["mean"].gt(0)]
    if len(rows):
        worst = rows.loc[(rows["max"] / rows["mean"]).astype(float).idxmax()]
        ratio, members = float(worst["max"] / worst["mean"]), f"{int(worst['members'])} {worst['over']}s"
        yield f"Loads: the largest of {members} does {ratio:.2f} times the mean."


def _places(tables: Tables, run: str, options: Options) -> Iterator[str]:  # noqa: ARG001 (all kinds take the same)
    """Of values that the log prints for each pipeline stage or replica, and for no step, the largest."""
    rows = tables.rows_of("values", run)
    rows = rows.where(rows.known("value") & ~rows.known("step"))
    for column, place in (("stage", "stage"), ("dp_rank", "data-parallel rank")):
        for key, of_key in rows.where(rows.known(column)).by("key").items():
            last = {number: (value, unit) for number, value, unit in of_key.records(column, "value", "unit")}
            if len(last) > 1:
                (number, (first, unit)), (_, (second, _)) = nlargest(2, last.items(), key=lambda item: item[1][0])
                largest = f"{key}: {place} {number} has the largest, {show(first, unit or '')}"
                yield f"{largest}; the next {show(second, unit or '')}."
