"""The subject of an overview: what ran, in words."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from perflog.arrays import Ints
from perflog.formats.registry import known as formats
from perflog.log import Log
from perflog.metrics import Tables
from perflog.metrics.attempts import attempts, jobs
from perflog.metrics.jobs.last_steps import last_steps
from perflog.metrics.settings_by_run import settings_by_run
from perflog.metrics.step_orders import epoch_lengths, step_order
from perflog.metrics.traces.device_work import trace_devices
from perflog.statistics.groups import distinct
from perflog.tables.columns import NULL, Rows, rows_from_arrow
from perflog.units import count, show

_TIMED_BY = {"line": "time stamps of the lines", "bar": "a progress bar", "rate": "a printed rate"}
"""Who tells the step times that the program does not print, by column `step_time_by`."""

_FEW, _REGULAR = 5, 0.8  # lines, and share of the distances between them, that show that each n-th step is printed
_FEWEST_EPOCHS = 5
_SEVERAL = 2


def subject(tables: Tables, log: Log) -> Iterator[str]:
    """The program, the number of logs, runs and steps, and what the runs have in common."""
    runs = tables.rows("runs")
    same = {c: _same(runs, c) for c in ("program", "model", "format", "world_size", "device", "dtype")}
    formats = "several formats" if runs.known("format").any() else "no known format"
    yield str(same["program"] or same["model"] or _programs(runs) or same["format"] or formats)
    logs = len({key.sha256 for key in log.run_keys})
    each = _steps_in_words(tables, log) or (_epochs(tables) if len(log) == 1 else "")
    steps = tables.rows("steps")
    runs_by_job = jobs(tables)
    if sum(map(len, runs_by_job.values())) == len(log) > 1:
        yield f"{count(logs, 'log')}, " * (logs > 1) + ", ".join(_job(tables, runs_by_job))
    else:
        yield f"{count(logs, 'log')}, " * (logs > 1) + count(len(log), "run") + each
    yield from _iterations(tables)
    timed = steps.where(steps.known("step_time_s"))
    sources = timed.counts("step_time_by")
    if len(sources) == 1 and sum(sources.values()) == len(timed) and (source := next(iter(sources))) in _TIMED_BY:
        yield f"steps timed by {_TIMED_BY[source]}"
    if same["world_size"] is not None:
        ranks, world = _traced_ranks(tables), int(same["world_size"])
        if len(ranks) == 1:
            yield f"rank {ranks.pop()} of {world:,}"
        else:
            yield (f"{len(ranks):,} of " if 1 < len(ranks) < world else "") + count(world, "rank")
    elif in_words := _printing_ranks(steps) or _printing_ranks(_of_ranks(tables)) or _gpus(tables):
        yield in_words
    yield from (str(same[c]) for c in ("device", "dtype") if same[c] is not None)


def _steps_in_words(tables: Tables, log: Log) -> str:
    """The number of steps of each run, and which of them are printed; empty without steps."""
    steps = tables.rows("steps")
    printed = steps["step"][steps.known("step")]
    counts = [*steps_done(tables).values()]
    lines = [_printed(run_rows) for run_rows in _numbered(tables).values()]
    each = ""
    if counts and not len(printed):
        each = f", {count(len(steps), 'step line')} without numbers"
    elif counts:
        least, most = min(counts), max(counts)
        each = f" x {count(most, 'step')}" if least == most else f" of {least:,} to {most:,} steps"
        if len(counts) < len(log):  # the others print no steps
            each = f", {len(counts)} of {f'{least:,} to ' * (least < most)}{count(most, 'step')}"
        first, last = int(printed.min()), int(printed.max())
        piece, begin = "", last - most + 1
        cover = max(int(steps["steps_averaged"][steps["step"] == first].max()), 1)
        if len(log) == 1 and begin > 1 and begin in (first, first - cover + 1):  # of a run, without gaps
            piece = f"{begin:,}-{last:,}" if last > begin else f"number {last:,}"
        elif len(log) == lines[0] == 1 < first:
            piece = f"number {first:,}"
        shown = f"{lines[0]:,} printed" if len(lines) == 1 and lines[0] < most else ""
        each += f" ({': '.join(filter(None, (shown, piece)))})" * bool(shown or piece)
    return each


def _epochs(tables: Tables) -> str:
    """The epochs of a run that prints no steps, and the time from the first to the last stamp of its log; else empty.

    The epochs count up, else they are parameters of cases.
    """
    rows = tables.rows("values")
    rows = rows.where(rows.known("value") & rows.one_of("key", [x for x in rows.counts("key") if x.lower() == "epoch"]))
    epochs = rows["value"][np.argsort(rows["line"], kind="stable")]
    if len(np.unique(epochs)) < _FEWEST_EPOCHS or (np.diff(epochs) < 0).any() or (epochs % 1).any():
        return ""
    text = f", epochs {epochs[0]:,.0f} to {epochs[-1]:,.0f}"
    stamps = tables.rows("milestones")
    stamps = stamps.where(stamps.one_of("kind", ["log"]) & stamps.known("printed_ns"))
    duration = np.ptp(stamps["printed_ns"]) / 1e9 if len(stamps) else 0
    return f"{text} in a log of {show(duration, 's', 4)}" if duration else text


def steps_done(tables: Tables) -> dict[str, int]:
    """Return the number of steps of each run that prints steps, with those that its lines cover."""
    return {run: _steps(run_rows, last_steps(tables)) for run, run_rows in _numbered(tables).items()}


def _numbered(tables: Tables) -> dict[str, Rows]:
    """Return the rows of steps with a number that are no copies, by run; empty for a run without numbers."""
    steps = tables.rows("steps")
    by_run = steps.where(steps["copy"] == 1).by("run")
    return {run: run_rows.where(run_rows.known("step")) for run, run_rows in by_run.items()}


def _printing_ranks(printed: Rows) -> str | None:
    """The ranks that print the rows of each run, in words; None if there is one.

    Ranks below the highest may print none.
    """
    ranks = {tuple(distinct(rows["rank"]).tolist()) for rows in printed.by("run").values()}
    numbers = ranks.pop() if len(ranks) == 1 else ()
    if len(numbers) < _SEVERAL:
        return None
    least = max(numbers) + 1
    return f"{len(numbers)} ranks" if least == len(numbers) else f"{len(numbers)} of at least {least} ranks"


def _of_ranks(tables: Tables) -> Rows:
    """The values that a rank prints, such as its memory."""
    values = tables.rows("values")
    return values.where(values.known("rank"))


def _gpus(tables: Tables) -> str | None:
    """The number of GPUs that the runs print as a setting, in words; None if they print none, or differ in it."""
    numbers = {settings.get("num_gpus", "") for settings in settings_by_run(tables).values()}
    number = numbers.pop() if len(numbers) == 1 else ""
    return count(int(number), "GPU") if number.isdecimal() and int(number) else None


def _printed(rows: Rows) -> int:
    """The number of steps that lines print. Steps of two epochs are two steps where they begin again in each."""
    epochs = np.where(rows.known("epoch"), rows["epoch"], -1)
    return len(np.unique(np.stack([epochs, rows["step"]]), axis=1).T)


def _steps(printed: Rows, lasts: Mapping[str, int]) -> int:
    """The number of steps of a run: those that its lines cover if most cover several, else those that are printed.

    A program that prints each tenth step has done ten times as many, whatever a line covers.

    `lasts`: the last step of each run, which may come after its last line.
    """
    epochs = np.unique(printed["epoch"])
    if len(epochs) > 1:  # the steps of each begin again
        if len(np.unique(printed["step"])) == 1:  # a bar that was drawn at its end
            return int(printed["step"][0]) * len(epochs)
        epoch_rows = (printed.where(printed["epoch"] == epoch) for epoch in epochs)
        return sum(_steps(rows, {rows["run"][0]: int(rows["step"].max())}) for rows in epoch_rows)
    steps, first = np.unique(printed["step"], return_index=True)
    covered = printed["steps_averaged"][first]
    covered = np.minimum(covered, np.diff(steps, prepend=-(1 << 60)))  # windows of a coarse clock overlap
    known = covered[covered > 0]
    between = np.diff(steps, prepend=0)  # a line of unknown cover, inside a window of a coarse clock
    stride = np.median(between[1:]) if len(steps) > 1 else 1
    if not len(known) or np.median(known) <= 1:
        is_every = len(steps) > _FEW and _is_regular(between[1:]) and steps[0] <= stride
        return max(int(steps[-1]), _printed(printed)) if is_every else _printed(printed)
    covered = np.where(covered > 0, covered, np.minimum(between, stride))
    return int(covered.clip(1).sum()) + lasts[printed["run"][0]] - int(steps[-1])


def _is_regular(strides: Ints) -> bool:
    """Return whether most steps are as far from the step before as the median."""
    return len(strides) > 0 and bool((strides == np.median(strides)).mean() >= _REGULAR)


def _job(tables: Tables, runs_by_job: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The number of jobs, of their attempts, and of their steps, those done twice once."""
    yield count(len(runs_by_job), "job")
    yield count(sum(map(len, runs_by_job.values())), "attempt")
    done = again = 0
    for runs in runs_by_job.values():
        numbers = [each for run in runs if len(each := _covered(tables, run))]
        if numbers:
            job_steps = len(distinct(np.concatenate(numbers)))
            done += job_steps
            again += sum(map(len, numbers)) - job_steps
    yield f"{count(done, 'step')}" + f" ({again:,} done again)" * (again > 0)


def _covered(tables: Tables, run: str) -> Ints:
    """The steps that an attempt did, in the order of the job: those that its lines cover, from its checkpoint on."""
    steps = tables.rows_of("steps", run)
    steps = steps.where(steps.known("step"))
    last, lines = np.unique(step_order(tables, steps), return_index=True)
    steps = steps.where(lines)
    covers = np.maximum(steps["steps_averaged"], 1)
    in_epoch = np.diff(steps["epoch"]) == 0
    if len(last) > _FEW and _is_regular(strides := np.diff(last)[in_epoch]):
        stride = np.minimum(int(np.median(strides)), np.maximum(steps["step"], 1))  # each tenth step is printed
        covers = np.where(covers > 1, covers, stride)
    loaded = attempts(tables)[run].step
    if len(last) and loaded is not None and loaded < last[0]:
        covers[0] = min(covers[0], last[0] - loaded) if run in epoch_lengths(tables) else last[0] - loaded
    begins = np.maximum(last - covers, np.append(-1, last[:-1])) + 1  # windows of a coarse clock overlap
    counts = last - begins + 1
    covered: Ints = np.repeat(last, counts) - (np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts))
    return covered


def _programs(runs: Rows) -> str | None:
    """The programs that print together in each of the runs: `Hugging Face Trainer with DeepSpeed`.

    None if the runs differ in them, or if one program printed alone.
    """
    printed = set(runs.records("format", "joined_formats"))
    first, others = printed.pop() if len(printed) == 1 else (None, None)
    if first is None or others is None:
        return None
    known = formats()
    joined = [known[name] for name in others.split(", ") if name in known]
    joined = [form for form in joined if form.program and not form.generic]
    leads = known.get(first)
    if leads is None or leads.generic or not leads.program:  # its lines do not show which rank printed them
        leads = next((form for form in joined if not form.library), leads)
    names = list(dict.fromkeys(form.program for form in joined if form is not leads))
    if not names:
        return None
    name = leads.program if leads is not None and leads.program and not leads.generic else first
    return f"{name} with {' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))}"


def _iterations(tables: Tables) -> Iterator[str]:
    """The number of iterations of traces without annotated steps, if all devices repeat equally many."""
    found = {len(each.steps.numbers) for each in trace_devices(tables) if not len(each.annotated.numbers)}
    if len(found) == 1 and (number := found.pop()):
        yield f"{count(number, 'iteration')} found by repeated kernels"


def _traced_ranks(tables: Tables) -> set[int]:
    """The ranks of the devices in traces; without any, of the events."""
    if devices := trace_devices(tables):
        return {device.rank for device in devices if device.rank is not None}
    events = (rows_from_arrow(rows) for _, rows in tables.arrow_by_file("events", {}, "rank"))
    return {rank for rows in events for rank in distinct(rows["rank"]).tolist() if rank != NULL}


def _same(runs: Rows, column: str) -> Any:
    """The value that all runs have; None if they differ or one has none."""
    values = set(runs[column].tolist())
    return values.pop() if runs.known(column).all() and len(values) == 1 else None


def common_name(log: Log) -> str:
    """Return the name by which these runs were found; else the name of their only log, or of their folder."""
    if log.name:
        return log.name
    logs = list(dict.fromkeys(key.log for key in log.run_keys))
    if len(logs) < 2:
        return logs[0] if logs else "no log"
    are_mixed = len(set(map(os.path.isabs, logs))) > 1
    return os.path.commonpath(map(os.path.abspath, logs) if are_mixed else logs) or "."
