"""The course of a job, in sentences: which share of its time counts, and since which step it is slower."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from math import isnan
from typing import Any

import numpy as np

from perflog.analysis.overview.facts.epoch_facts import epoch_facts
from perflog.analysis.overview.run_groups import RunGroup
from perflog.grouping import grouped
from perflog.metrics import Options, Tables
from perflog.metrics import levels as levels_of_runs
from perflog.metrics.clock_offsets import clock_offsets
from perflog.metrics.gpu_rates import rates_of_one_gpu
from perflog.metrics.jobs.job_intervals import CHECKPOINT, COMPILE, EVALUATION, STALL, TRAINING, UNKNOWN
from perflog.metrics.jobs.step_drifts import run_drifts
from perflog.metrics.jobs.step_levels import alternate, drifted_phases
from perflog.metrics.jobs.timeline import JobTimeline, job_timelines
from perflog.metrics.power.lower_clocks import device_clocks
from perflog.metrics.series.loss_spikes import loss_spikes
from perflog.parsing.input.log_names import base_name
from perflog.statistics.rank_tests import midranks
from perflog.statistics.samples import median
from perflog.tables.nulls import none_if_null
from perflog.units import count, first_few, numbered, plural, show, show_change

_FEW = 3  # jobs, and runs, that are shown one by one
_LEAST_S = 60.0  # of a job of one attempt
_HIGH = 0.9  # a goodput that is not shown if there is one attempt and no stall
_LEAST_SHARE = 0.005  # of the wall time: a kind below is not shown
_REPEATED = (CHECKPOINT, EVALUATION)
_ALIKE = 1.3  # longest over shortest
_PAUSES, _LEAST_PAUSED = 5, 0.01  # number, and share of the wall time, from which their growth is shown
_LONGER, _IN_ORDER = 1.5, 0.8  # last third over the first; correlation of their ranks with their order
_STEPS_NEAR, _NEAR_NS = 7, 5 * 10**9  # step lines next to a change, and their margin: what is reported then is near it
_SHOWN = 90  # characters of a message
_QUANTITIES = {"step_time_s": "step", "tokens_per_s": "tokens/s", "samples_per_s": "samples/s", "tflops": "TFLOP/s"}


def course_of_job(tables: Tables, groups: Sequence[RunGroup], options: Options) -> Iterator[str]:
    """Yield the goodput of each of a few jobs, then since when runs are at another level."""
    marks = _marks(tables, groups)
    job_marks = marks | {group.runs[0]: f"{group.mark}: " for group in groups if group.is_job}
    jobs = [job for job in job_timelines(tables) if job.whole or not job.is_stamped]
    several = len(jobs) > 1
    if len(jobs) <= _FEW:
        for job in jobs:
            mark = job_marks.get(job.job, "") if several else ""
            if text := _goodput(job):
                yield mark + text
            yield from (mark + text for text in _growing_pauses(job))
    yield from _other_clocks(tables, groups, marks)
    yield from level_changes(tables, options, marks)
    yield from drifts(tables, options, marks)
    yield from spikes(tables, marks)
    yield from epoch_facts(tables, options, marks)


def _marks(tables: Tables, groups: Sequence[RunGroup]) -> dict[str, str]:
    """Return the prefix of sentences on a run, by run: the mark of its group, and which run of several it is."""
    logs = {run: base_name(log or "") for run, log in tables.rows("runs").records("run", "log")}
    marks = {}
    for group in groups:
        names = [logs.get(run, "") for run in group.runs]
        if len(set(names)) < len(names):  # runs of one log, or of folders
            names = [f"run {number} of {len(names)}" for number in range(1, len(names) + 1)]
        for run, name in zip(group.runs, names, strict=True):
            parts = [group.mark] * (len(groups) > 1) + [name] * (len(names) > 1)
            marks[run] = f"{' '.join(parts)}: " if parts else ""
    return marks


def _other_clocks(tables: Tables, groups: Sequence[RunGroup], marks: Mapping[str, str]) -> Iterator[str]:
    """Yield which ranks print the time of another clock, of each of a few runs, and by how much it differs."""
    runs = [run for group in groups for run in group.runs if clock_offsets(tables, run)]
    for run in runs if len(runs) <= _FEW else ():
        by_offset = grouped((round(offset), rank) for rank, offset in sorted(clock_offsets(tables, run).items()))
        first = int(tables.rows_of("steps", run)["rank"].min())
        texts = [f"{numbered('rank', ranks)} by {offset:+,} s" for offset, ranks in by_offset.items()]
        clock = f"the clock of rank {first}"
        yield f"{marks.get(run, '')}Clocks differ from {clock}: {first_few(texts, _FEW, '; ')}. Times are by {clock}."


def _goodput(job: JobTimeline) -> str:
    """Return the goodput; for a job without a clock the printed durations, if not only steps have one."""
    seconds, wall = job.seconds, job.wall_s
    quotient = seconds.get(TRAINING, 0.0) / wall if wall else 0.0
    is_plain = len(job.runs) == 1 and (STALL not in seconds or quotient > _HIGH)
    if not quotient or (is_plain and (wall < _LEAST_S or quotient > _HIGH)):
        return ""
    lost = {kind: s for kind, s in seconds.items() if kind != TRAINING and s >= _LEAST_SHARE * wall}
    if not job.whole:
        lost.pop(UNKNOWN, None)  # as is all other time
    parts = [
        f"{kind} {_s(s)}{_longest(job) if kind == STALL else _each(job, kind)}"
        for kind, s in sorted(lost.items(), key=lambda item: -item[1])
    ]
    if not job.whole:
        known = f"From printed durations: training {_s(seconds[TRAINING])}, {', '.join(parts)}; other time is unknown."
        return known if lost.keys() - {COMPILE} else ""
    others = f"; {', '.join(parts)}" if parts else ""
    least = "at least " if seconds.get(UNKNOWN, 0.0) > seconds[TRAINING] else ""
    return f"Goodput {least}{show(quotient, '1', 3)}: training {_s(seconds[TRAINING])} of {_s(wall)}{others}."


def _pauses(job: JobTimeline, kind: str) -> Iterator[tuple[float, int | None]]:
    """Yield the seconds of each pause of a kind, and the last step before it."""
    step = None
    for _, _, interval in job.intervals:
        step = interval.last_step if interval.last_step is not None else step
        if interval.kind == kind:
            yield (interval.end - interval.begin) / 1e9, step


def _each(job: JobTimeline, kind: str) -> str:
    """Return how many checkpoints or evaluations there were, and how long each took, if all took about as long."""
    seconds = [each for each, _ in _pauses(job, kind)] if kind in _REPEATED else []
    if len(seconds) < 2 or max(seconds) > _ALIKE * min(seconds):
        return ""
    return f" ({len(seconds)} x {_s(median(np.array(seconds)))})"


def _longest(job: JobTimeline) -> str:
    """Return after which step the longest stall of a job began, and how long it was if there were several."""
    stalls = list(_pauses(job, STALL))
    seconds, step = max(stalls, key=lambda stall: stall[0], default=(0.0, None))
    if step is None:
        return ""
    return f" ({f'the longest {_s(seconds)} ' if len(stalls) > 1 else ''}after step {step:,})"


def _growing_pauses(job: JobTimeline) -> Iterator[str]:
    """Yield how much longer checkpoints or evaluations take from one to the next."""
    for kind in _REPEATED:
        found = [(seconds, step) for seconds, step in _pauses(job, kind) if step is not None]
        seconds = np.array([each for each, _ in found])
        if len(found) < _PAUSES or seconds.sum() < _LEAST_PAUSED * job.wall_s or seconds.min() <= 0:
            continue
        order = np.corrcoef(midranks(seconds), np.arange(len(found)))[0, 1] if np.ptp(seconds) else 0.0
        third = len(found) // 3
        if order >= _IN_ORDER and median(seconds[-third:]) >= _LONGER * median(seconds[:third]):
            ends = " -> ".join(f"{_s(each)} after step {step:,}" for each, step in (found[0], found[-1]))
            yield f"{kind.capitalize()}s take longer and longer: {ends} ({len(found)} in all)."


def _s(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 100 else show(seconds, "s", 3)


def _level(value: float, unit: str) -> str:
    """Return a level as a string; the name of a rate is its unit."""
    return show(value, unit) if unit == "s" else f"{value:,.5g}"


def _name(figure: str, gpu_rates: Collection[str]) -> str:
    """Return the name of a metric; a rate of one GPU says so."""
    return f"{_QUANTITIES[figure]}/GPU" if figure in gpu_rates else _QUANTITIES.get(figure, figure)


def level_changes(tables: Tables, options: Options, marks: Mapping[str, str]) -> Iterator[str]:
    """Yield since when each of a few runs is at another level. `marks`: by run, the prefix of its sentences."""
    rows = levels_of_runs.table(tables, options)
    runs = list(dict.fromkeys(rows["run"]))
    if not runs:
        return
    total = len(tables.rows("runs"))
    gpu_rates = rates_of_one_gpu(tables)
    names = {
        (run, figure): _name(figure, gpu_rates[run])
        for run, figure in rows[["run", "figure"]].drop_duplicates().itertuples(index=False)
    }
    if len(runs) > _FEW:
        cuts = {run: tuple(map(int, run_rows["first_step"][1:])) for run, run_rows in rows.groupby("run", sort=False)}
        most = max(set(cuts.values()), key=lambda each: sum(cut == each for cut in cuts.values()))
        alike = [run for run in runs if cuts[run] == most]
        if len(alike) > total / 2:
            first_rows = rows[rows["run"] == alike[0]]
            values = " -> ".join(map(_level, first_rows["value"], first_rows["unit"]))
            figure = names[alike[0], first_rows["figure"].iloc[0]]
            steps = f"{plural('step', len(most))} {', '.join(map(str, most))}"
            yield f"{len(alike)} of {count(total, 'run')} change at {steps}: {figure} {values}."
        return
    for run in runs:
        run_rows = rows[rows["run"] == run].to_dict("records")
        if alternate([row["value"] for row in run_rows]):
            yield f"{marks.get(run, '')}{_to_and_fro(run_rows, names[run, run_rows[0]['figure']])}"
            continue
        ends = [int(row["first_step"]) for row in run_rows[2:]]
        for (before, row), end in zip_longest(pairwise(run_rows), ends):
            at = f" ({str(row['at']).rpartition(' ')[2][:8]})" if none_if_null(row["at"]) else ""
            with_it = f"; with it {text}" if (text := none_if_null(row["with_it"])) else ""
            yield (
                f"{marks.get(run, '')}Since step {int(row['first_step'])}{at}: {names[run, row['figure']]} "
                f"{_level(before['value'], row['unit'])} -> {_level(row['value'], row['unit'])}, "
                f"{show_change(row['change'])}{with_it}."
            )
            yield from (f"{marks.get(run, '')}{text}" for text in _reported_beside(tables, run, int(row["first_step"])))
            if (row["change"] > 0) == (row["unit"] == "s"):  # slower
                yield from _slower_devices(tables, run, int(before["first_step"]), int(row["first_step"]), end)


def _to_and_fro(levels: Sequence[Mapping[str, Any]], name: str) -> str:
    """Return between which values the speed of a run alternates, in which steps it is slower, and what changes then."""
    unit = levels[0]["unit"]
    fast, slow = sorted((levels[::2], levels[1::2]), key=lambda each: each[0]["value"], reverse=unit != "s")
    ends = [median(np.array([level["value"] for level in part])) for part in (fast, slow)]
    steps = first_few([f"{int(level['first_step'])} to {int(level['last_step'])}" for level in slow], _FEW)
    with_it = next((f"; with it {text}" for level in slow if (text := none_if_null(level["with_it"]))), "")
    values = " and ".join(_level(value, unit) for value in ends)
    change = show_change(ends[1] / ends[0] - 1)
    return f"{name[0].upper()}{name[1:]} alternates between {values} ({change}): slower in steps {steps}{with_it}."


def drifts(tables: Tables, options: Options, marks: Mapping[str, str]) -> Iterator[str]:
    """Yield how the speed of each of a few runs drifts; `marks` are before, by run."""
    found = run_drifts(tables, options.warmup)
    for run, drift in found.items() if len(found) <= _FEW else ():
        series, is_time, grows = drift.series, drift.unit == "s", drift.change > 0
        phases = drifted_phases(tables, series) if is_time else []
        with_it = f"; with it {', '.join(phases)} from the first half to the second" if phases else ""
        longer = "longer and longer" if grows else "shorter and shorter"
        name = _name(series.column, rates_of_one_gpu(tables)[run])
        course = f"The step takes {longer}" if is_time else f"{name} {'rises' if grows else 'falls'} steadily"
        first, last = (_level(value, drift.unit) for value in (drift.first, drift.last))
        yield (
            f"{marks.get(run, '')}{course}: {first} in the first tenth of the steps, {last} in the last, "
            f"{show_change(drift.change)}{with_it}."
        )
        if grows == is_time:  # slower
            middle = int(series.steps[series.warmup.cut + len(series.steady) // 2])
            yield from _slower_devices(tables, run, int(series.steps[series.warmup.cut]), middle, None)


def spikes(tables: Tables, marks: Mapping[str, str]) -> Iterator[str]:
    """Yield the highest rise of the loss of each of a few runs, and whether it comes back; `marks` as above."""
    by_run = grouped((spike.run, spike) for spike in loss_spikes(tables))
    for run, found in by_run.items() if len(by_run) <= _FEW else ():
        highest = max(found, key=lambda spike: (not spike.is_back, spike.peak / spike.usual))
        usual, peak = (show(value, "", 3) for value in (highest.usual, highest.peak))
        last = "NaN" if isnan(highest.last) else show(highest.last, "", 3)
        at = f"step {highest.step:,}" if highest.step is not None else f"line {highest.line:,}"
        top = f" (step {highest.peak_step:,})" if highest.peak_step not in (None, highest.step) else ""
        end = f"{last} at step {highest.last_step:,}" if highest.last_step is not None else f"{last} at the end"
        back = "and comes back"
        if not highest.is_back:
            back = f"and does not come back: {end}"
        elif highest.step is not None and highest.back_step is not None:
            back = f"and is back after {count(highest.back_step - highest.step, 'step')}"
        norms = ""
        if highest.grad_norm is not None:
            norms = f"; with it the gradient norm, {' -> '.join(show(value, '', 3) for value in highest.grad_norm)}"
        more = f"; {count(len(found) - 1, 'more rise')}" if len(found) > 1 else ""
        yield f"{marks.get(run, '')}From {at} on the loss rises from {usual} to {peak}{top} {back}{norms}{more}."


def _reported_beside(tables: Tables, run: str, step: int) -> Iterator[str]:
    """Yield what other logs report at the time of a step: an event of the network, of a GPU, of another program."""
    if not tables.count("failures"):
        return
    steps = tables.rows_of("steps", run)
    steps = steps.where(steps.known("step", "printed_ns", "clock"))
    near = steps.where(np.argsort(np.abs(steps["step"] - step), kind="stable")[:_STEPS_NEAR])
    if not len(near):
        return
    begin, end = int(near["printed_ns"].min()) - _NEAR_NS, int(near["printed_ns"].max()) + _NEAR_NS
    failures = tables.rows("failures")
    own = run.partition("-")[0]
    logs = {other: log for other, log in tables.rows("runs").records("run", "log") if other.partition("-")[0] != own}
    at_it = failures.where(failures.one_of("run", logs) & failures.one_of("clock", near.counts("clock")))
    at_it = at_it.where((at_it["time_ns"] >= begin) & (at_it["time_ns"] <= end))
    texts: dict[tuple[str, str], str] = {}
    for other, line, kind, message in at_it.records("run", "line", "kind", "message"):
        first, *_ = message.splitlines()
        shown = first if len(first) <= _SHOWN else f"{first[:_SHOWN]}..."
        texts.setdefault((other, kind), f"`{shown}` ({base_name(logs[other])}:{line})")
    if texts:
        yield f"At that time: {first_few(texts.values(), _FEW)}."


def _slower_devices(tables: Tables, run: str, first: int, since: int, end: int | None) -> Iterator[str]:
    """Yield the devices with a lower clock from a step on, which `device_clocks` compares."""
    devices = device_clocks(tables, run, first, since, end)
    texts = []
    for each in devices:
        if each.is_lower:
            who = "" if each.number is None else f" {each.number}"
            of = f" of {each.node or each.log}" * bool(each.node or each.log)
            heat = each.temperatures
            warmer = f", temperature {heat[0]:.0f} -> {heat[1]:.0f} °C" if heat else ""
            loads = each.loads if each.is_idle else None
            idle = f", {100 * loads[0]:.0f} -> {100 * loads[1]:.0f} % busy" if loads else ""
            clocks = " -> ".join(show(clock, "Hz", 3) for clock in each.clocks)
            texts.append(f"device{who}{of}: clock {clocks}{warmer}{idle}")
    if texts:
        others = len(devices) - len(texts)
        rest = f"; {count(others, 'other device')} as before" if others else ""
        yield f"Since then {first_few(texts, _FEW, '; ')}{rest}."
