"""Facts of the steps, runs and jobs of a log, in sentences: waits, pauses, loads.

None of them says what binds the run: `headline` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import nlargest
from typing import Any

import numpy as np

from perflog.analysis.job_endings import is_ended
from perflog.analysis.overview.parts import percent
from perflog.formats.vocabulary import field_of
from perflog.metrics import Options, Tables, breakdown, collectives, imbalance, throughput
from perflog.metrics.benchmarks.server_readings import without_readings
from perflog.metrics.causes import causes_by_run
from perflog.metrics.causes.cause import Cause
from perflog.metrics.causes.slow_steps import is_of_run
from perflog.metrics.directions import names_time
from perflog.metrics.possible import are_moments
from perflog.metrics.profiles.kernel_names import short_kernel
from perflog.metrics.series.series_ends import names_step_time
from perflog.metrics.settings_by_run import MFU_PEAK_OF, settings_by_run
from perflog.metrics.step_time.breakdown import UNTIMED, misfits
from perflog.metrics.step_time.phase_table import runs_of_slowest_ranks
from perflog.tables.columns import Rows
from perflog.tables.nulls import records
from perflog.units import count, first_few, show

KERNELS = "kernels"
JOB_STATE = "job_state"
_HELD_UP = ("wait", "communication")
_MOST_NAMED = 4  # times that are named in a sentence
_TELLING = 0.03  # of the whole: smaller parts are no reason
_UNTIMED = 0.3  # of the step

_PARTS_OF_STEP = ("forward", "backward")
"""Columns of steps, in seconds, for times inside of a step."""


def held_up(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """What delays the step, what no timer covers, and timed phases that cannot be its parts."""
    yield from _unfit(tables, run, options)
    rows = breakdown.table_of(run, tables, options)
    rows = rows[rows["of"].isin(["step", "phases"])]
    waits = float(rows["share"][rows["kind"].isin(_HELD_UP)].sum())
    if waits > _TELLING:
        yield f"Waiting and communication that delay the step: {percent(waits)}."
    untimed = rows[rows["kind"] == UNTIMED]
    if len(untimed) > 2 and untimed["share"].sum() > _UNTIMED:  # of several phases, and of the step
        most, total = untimed.iloc[0], percent(untimed["share"].sum())
        yield f"{total} of the step is untimed, most of it in {most['part']} ({percent(most['share'])})."


def _unfit(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """That the timed phases cannot be the parts of the step."""
    for misfit in misfits(tables, options.warmup):
        if misfit.run == run and misfit.whole == "step":
            parts, ratio = count(len(misfit.parts), "timed phase"), percent(misfit.parts_s / misfit.whole_s)
            add = "add" if len(misfit.parts) > 1 else "adds"
            is_slowest = run in runs_of_slowest_ranks(tables)
            why = "each is timed on its slowest rank" if is_slowest else "some time the same work"
            yield f"{parts} {add} up to {ratio} of the step: {why}, so none has a share of the step."


def between_steps(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Validations and checkpoints, and other time of the run's clock outside of the steps."""
    for cause in causes_by_run(tables, options).get(run, ()):
        if cause.subject in ("validation", "checkpoint") and cause.share > _TELLING:
            each = f"{cause.n} x {show(cause.each_s, 's', 3)}"
            yield f"{str(cause.name).capitalize()} takes {percent(cause.share)} of the run's time: {each}."
    outside = _cause(tables, run, options, "outside of steps")
    if outside is not None and outside.share > _TELLING:
        yield f"{show(outside.time_s, 's', 3)} of the total, {percent(outside.share)}, are outside of the steps."


def _cause(tables: Tables, run: str, options: Options, subject: str) -> Cause | None:
    return next((each for each in causes_by_run(tables, options).get(run, ()) if each.subject == subject), None)


def profile(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """The kernel, or API call, that takes most of the largest category of a profile, if its category can bind.

    Of a profile without kernels and calls, as of the CPU alone, what takes most of it.
    """
    found = [cause for cause in causes_by_run(tables, options).get(run, ()) if cause.metric == KERNELS]
    if not found:
        yield from _by_name(tables, run)
        return
    cause = next((cause for cause in found if cause.may_bind), None)
    if cause is None or cause.subject == "kernel":
        return
    kernel = _cause(tables, run, options, "kernel")
    if kernel is not None and kernel.metric == KERNELS:
        calls = f"{count(kernel.n, 'call')} x {show(kernel.each_s, 's', 3)}, " if kernel.n else ""
        noun = "kernel" if kernel.of == "gpu" else "call"
        yield f"Largest {noun}: {short_kernel(str(kernel.name))}, {calls}{percent(kernel.share)}."


def _by_name(tables: Tables, run: str) -> Iterator[str]:
    """What takes most of the time of a profile without kernels and API calls, by the printed shares."""
    rows = tables.rows_of("kernels", run)
    rows = rows.where(~rows.known("kind") & rows.known("share") & rows.known("calls"))
    shares: dict[str, tuple[float, int]] = {}
    for name, share, calls in rows.records("name", "share", "calls"):
        sum_of_shares, sum_of_calls = shares.get(name, (0.0, 0))
        shares[name] = sum_of_shares + share, sum_of_calls + calls
    largest = sorted(shares.items(), key=lambda item: -item[1][0])[:_MOST_NAMED]
    told = [f"{name} {percent(share)} ({count(calls, 'call')})" for name, (share, calls) in largest if share > _TELLING]
    if told:
        yield f"Largest in the profile: {', '.join(told)}."


def unknown_causes(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """What the log lacks, and the one number that shows how much there is to win."""
    rates = throughput.table_of(run, tables, options)
    rates = rates[rates["part"] == "steady"]
    mfu = rates["mfu"].astype(float).fillna(rates["printed_mfu"].astype(float)).dropna()
    is_divided = len(breakdown.table_of(run, tables, options)) > 0
    times = _named_times(tables, run, is_divided)
    if not is_divided:  # steps without numbers, or ranks that are not known
        times = sorted([*times, *_times_of_phases(tables, run)], key=lambda time: -time[1])
    named = [f"{name} {show(time, 's', 3)}" for name, time in times]
    without_unit = [f"{name} {time:.4g}" for name, time in _times_without_unit(tables, run)]
    if len(mfu):
        used = show(float(mfu.iloc[0]), "1", 3)
        rest = "" if named or without_unit else "; the log does not show what takes the rest"
        other = settings_by_run(tables)[run].get(MFU_PEAK_OF)
        uses = f"The model uses {used} of the device's peak (MFU)"
        yield f"{uses if other is None else f'The MFU, {used}, is of the peak of {other}, another device'}{rest}."
    if named:
        covered = tables.rows_of("steps", run)["steps_averaged"]
        each = "line" if len(covered) and np.median(covered) > 1 else "step"  # the time may be of all of its steps
        yield f"Times that each {each} prints by name, medians: {first_few(named, _MOST_NAMED)}."
    elif without_unit:
        yield f"The log prints times without their unit, medians: {first_few(without_unit, _MOST_NAMED + 1)}."
    elif len(mfu) or run in tables.rows_by_run("phases"):
        return
    elif is_ended(tables, run):
        return  # what ended the job counts, and is shown above
    elif _is_timed(tables, run, has_rates=len(rates) > 0):
        yield "Why it takes this long is not in the log: it times nothing inside a step."


def _is_timed(tables: Tables, run: str, has_rates: bool) -> bool:
    """Whether a run prints steps of work, not only the memory at a step, or a mean of their times."""
    steps = tables.rows_of("steps", run)
    is_work = has_rates or any(bool(steps.known(name).any()) for name in ("step_time_s", "elapsed_s", "loss"))
    is_work |= not bool(steps.known("memory_bytes").any())
    return (len(steps) > 0 and is_work) or any(
        names_step_time(key, unit) for key, unit in tables.rows_of("summaries", run).records("key", "unit")
    )


def _times_without_unit(tables: Tables, run: str) -> list[tuple[str, float]]:
    """Return the medians of what most steps print under the names of times; nothing if steps have a time."""
    if tables.rows_of("steps", run).known("step_time_s").any():
        return []
    values = _values_of_steps(tables, run, "")
    times = {name: rows for name, rows in values.items() if names_time(name)}
    return _medians(tables, run, times)


def _times_of_phases(tables: Tables, run: str) -> Iterator[tuple[str, float]]:
    """Yield the median of each phase that most lines of steps print."""
    steps = len(tables.rows_of("steps", run))
    for name, rows in tables.rows_of("phases", run).by("phase").items():
        if 2 * len(rows) > steps > 0:
            yield name, float(np.median(rows["time_s"]))


def _medians(tables: Tables, run: str, values: Mapping[str, Rows]) -> list[tuple[str, float]]:
    """Return the median of each value that most steps print, the largest first."""
    steps = len(tables.rows_of("steps", run))
    often = ((name, rows["step"], rows["value"]) for name, rows in values.items() if 2 * len(rows) > steps > 0)
    times = ((name, float(np.median(seconds))) for name, at, seconds in often if not is_of_run(name, at, seconds))
    return sorted(times, key=lambda time: -time[1])


def _values_of_steps(tables: Tables, run: str, unit: str) -> dict[str, Rows]:
    """Return the numbers of a unit, "" for none, that the lines of steps print by name."""
    steps, values = tables.rows_of("steps", run), tables.rows_of("values", run)
    values = values.where((values.one_of("unit", [unit]) if unit else ~values.known("unit")) & values.known("value"))
    if steps.known("step").any():
        return values.where(values.known("step")).by("key")
    return values.where(np.isin(values["line"], steps["line"])).by("key")  # the lines of steps have no number


def _named_times(tables: Tables, run: str, is_divided: bool) -> list[tuple[str, float]]:
    """Return the medians of the times that most steps print by name, the longest first: their meaning is not known."""
    steps, values = tables.rows_of("steps", run), _values_of_steps(tables, run, "s")
    times = _medians(
        tables, run, {n: rows for n, rows in values.items() if "_per_" not in n and not names_step_time(n, "s")}
    )
    if not is_divided or run not in tables.rows_by_run("phases"):
        named = {field_of(name) for name, _ in times}
        for name in (part for part in _PARTS_OF_STEP if part not in named):
            known = steps.known(f"{name}_s")
            if 2 * known.sum() > len(steps):
                times.append((name, float(np.median(steps.where(known)[f"{name}_s"]))))
    return sorted(times, key=lambda time: -time[1])


def collective(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """The peak of each measured collective, and the size from which it is reached."""
    rows = collectives.table_of(run, tables, options)
    if not len(rows):
        return
    peaks = rows["peak_busbw"].astype(float).fillna(rows["peak_algbw"].astype(float))
    rows = rows.assign(peak=peaks).sort_values("n", ascending=False, kind="stable")  # both buffers first
    for row in records(rows.drop_duplicates("op")):
        name, largest = row["op"] or "Collective without a name", row["largest"]
        if row["peak"] is None:
            yield from _latency(name, row)
            continue
        text = f"{name}: peak {show(row['peak'], 'GB/s')}"
        if largest is not None:
            text += f" at {show(float(row['peak_at']), 'B')}"
        if (from_size := row["saturated_at"]) is None:
            pass  # messages of one size, or the bandwidth falls again
        elif from_size == largest:
            text += "; it still rises at the largest message"
        elif from_size == row["smallest"]:
            text += "; all sizes reach at least 90 % of it"
        else:
            text += f"; smaller messages than {show(float(from_size), 'B')} reach less than 90 % of it"
        yield f"{text}."
        if row["wrong"]:
            yield f"{name}: {count(int(row['wrong']), 'wrong result')}."


def _latency(name: str, row: dict[str, Any]) -> Iterator[str]:
    """The times of the smallest and the largest message of a collective without a bandwidth, if they are known."""
    if row["smallest_s"] is None:
        return
    text = f"{name}: latency {show(row['smallest_s'], 's')} at {show(float(row['smallest']), 'B')}"
    if row["largest"] > row["smallest"]:
        text += f", {show(row['largest_s'], 's')} at {show(float(row['largest']), 'B')}"
    yield f"{text}."


def loads(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """How far the most loaded rank or expert lies above the mean."""
    rows = imbalance.table_of(run, tables, options)
    if not len(rows):
        return
    rows = rows[(rows["of"] == "load") & rows["mean"].gt(0)]
    if len(rows):
        worst = rows.loc[(rows["max"] / rows["mean"]).astype(float).idxmax()]
        ratio, members = float(worst["max"] / worst["mean"]), f"{int(worst['members'])} {worst['over']}s"
        yield f"Loads: the largest of {members} does {ratio:.2f} times the mean."


def places(tables: Tables, run: str, options: Options) -> Iterator[str]:  # noqa: ARG001 (all kinds take the same)
    """Of values that the log prints for each pipeline stage or replica, and for no step, the largest."""
    rows = tables.rows_of("values", run)
    rows = rows.where(~rows.known("step"))
    rows = without_readings(rows.where(rows.known("value")))
    for column, place in (("stage", "stage"), ("dp_rank", "data-parallel rank")):
        for key, key_rows in rows.where(rows.known(column)).by("key").items():
            last = {number: (value, unit) for number, value, unit in key_rows.records(column, "value", "unit")}
            if len(last) > 1:
                (number, (first, unit)), (_, (second, _)) = nlargest(2, last.items(), key=lambda item: item[1][0])
                largest = f"{key}: {place} {number} has the largest, {show(first, unit or '')}"
                if first > second:
                    yield f"{largest}; the next {show(second, unit or '')}."


def job_states(tables: Tables, run: str, options: Options) -> Iterator[str]:  # noqa: ARG001
    """The states of jobs in the scheduler's accounting, where the log is nothing else."""
    if run in tables.rows_by_run("steps"):
        return
    rows = tables.rows_of("values", run)
    listed = [text for (text,) in rows.where(rows.one_of("key", [JOB_STATE])).records("text")]
    states = [state for state in dict.fromkeys([settings_by_run(tables)[run].get(JOB_STATE), *listed]) if state]
    if states:
        yield f"Job state in the scheduler's accounting: {', '.join(map(str, states[:_MOST_NAMED]))}."


# --- summaries that each process prints ------------------------------------------------------------------------------

_LISTED = 4  # further figures that are named
_TIME_DIGITS = 5  # run times of minutes differ by hundredths


def process_summaries(tables: Tables, run: str) -> Iterator[str]:
    """Yield the value that is printed several times after the last step, with its spread, and the means of the others.

    Without steps, every place counts. A time comes first. Equal values say nothing: a process may print one twice.
    """
    rows, steps = tables.rows_of("summaries", run), tables.rows_of("steps", run)
    last = int(steps["line"].max()) if len(steps) else -1
    rows = rows.where((rows["line"] > last) & rows.known("value"))
    rows = rows.where(~are_moments(rows["value"]))
    by_key = {key: (each["value"], _unit(each)) for key, each in rows.by("key").items() if len(each) > 1}
    spread = [key for key, (values, _) in by_key.items() if values.min() < values.max()]
    first = min(spread, key=lambda key: by_key[key][1] != "s", default=None)
    if first is None:
        return
    values, unit = by_key.pop(first)
    others = [
        f"{key} {show(float(np.mean(numbers)), of)}"
        for key, (numbers, of) in by_key.items()
        if len(numbers) == len(values)
    ]
    means = f"; mean {', '.join(others[:_LISTED])}" if others else ""
    sizes = tables.rows_of("runs", run)["world_size"]
    who = f"by each of the {len(values)} ranks" if len(values) in sizes.tolist() else f"{len(values)} times"
    least, most = (show(float(end), unit, _TIME_DIGITS) for end in (values.min(), values.max()))
    when = " after the last step" if len(steps) else ""
    yield f"{first} is printed {who}{when}: {least} to {most}{means}."


def _unit(rows: Rows) -> str:
    codes, words = rows.codes("unit")
    unit = words[codes[0]] if codes[0] >= 0 else ""
    return "" if unit == "1" else unit
