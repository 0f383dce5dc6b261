"""Attempts: runs that continue one another are one job, such as runs before and after a restart from a checkpoint.

A run continues an earlier one if it loads a checkpoint of it. The evidence: a line of the log that reports that a
checkpoint is loaded, at a step that the earlier run saved, or reached where it prints no saves; the same settings; and
clocks in order, as far as the logs have any. A restart on another number of ranks has other settings of its world: it
continues a run of the same log, or of the same job id. Runs of a sweep or of an array of jobs load no checkpoint of
each other. A run of the same log with the same settings that goes on at a step which the run before it reached
continues that run, too; at its first step only if that run failed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from perflog.arrays import Ints
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.clock_offsets import on_first_clock
from perflog.metrics.run_moments import moments
from perflog.metrics.run_tables import Tables, computed_of_all
from perflog.metrics.settings_by_run import settings_by_run
from perflog.metrics.step_orders import epoch_lengths, step_order
from perflog.parsing.failures.rows import FATAL
from perflog.settings.run_settings import Settings, incidental_test
from perflog.tables.arrow import with_column
from perflog.tables.columns import NULL, Rows
from perflog.tables.sink import column_of
from perflog.units import STEP_NAMES

if TYPE_CHECKING:
    import pyarrow as pa

    from perflog.log import Log

CHECKPOINT, RESTORE, STARTUP = "checkpoint", "restore", "startup"

_STEP_IN_NAME = lazy_pattern(
    rf"(?:{STEP_NAMES}|checkpoint|ckpt|update|batch)s?[-_=]?0*([0-9]{{1,12}})(?![0-9])", re.IGNORECASE
)
_RESTART_SETTINGS = lazy_pattern(
    r"first_step|start_(?:step|iter)|resum|restart|(?:^|_)load(?:$|_)|ckpt|checkpoint|consumed|attempt", re.IGNORECASE
)
"""Names of settings that change with a restart."""

_WORLD_SETTINGS = lazy_pattern(
    r"(?:^|_)(?:world_size|mesh\w*|n?nodes|num_nodes|n(?:um)?_?(?:gpus|devices|ranks|processes)|nproc\w*"
    r"|(?:data|tensor|pipeline|context|expert|model)\w*parallel\w*|(?:data|tensor|pipeline|context|expert)_size"
    r"|[dtpce]p(?:_\w+)?|global_batch(?:_size)?|gradient_accumulation(?:_steps)?|micro_batches)$",
    re.IGNORECASE,
)
"""Names of settings that change with the number of ranks."""

_JOB_ID = lazy_pattern(r"(?:slurm_?)?job_?id|(?:slurm_)?array_job_id", re.IGNORECASE)


class Attempt(Struct, frozen=True):
    """A run that is an attempt of a job.

    Attributes:
        job: The run id of the first attempt.
        number: Its number in the job, from 1.
        of: The number of attempts of the job.
        step: The step of the checkpoint that it loads, in the order of the job (see `step_order`); None for the first
            attempt, and if it is unknown.
        line: The line that reports the loading of a checkpoint; None for the first attempt.
        evidence: What shows that it continues the attempt before, in words; "" for the first attempt.
    """

    job: str
    number: int
    of: int
    step: int | None
    line: int | None
    evidence: str


class Extent(Struct, frozen=True):
    """The extent of a run: its log and position in it, its steps, and its time on a clock (0 to 0: unknown).

    Steps are in the order of the job; see `step_order`. `epoch`: length of an epoch if the steps start again in each,
    else 0.
    """

    run: str
    log: str
    index: int
    first_step: int
    last_step: int
    first_step_line: int
    last_step_line: int
    clock: str | None
    begin_ns: int
    end_ns: int
    epoch: int = 0

    def position(self, step: int) -> str:
        """Return a step of the order in words: `step 30`; `epoch 2, step 30` where the steps start again in each."""
        if not self.epoch:
            return f"step {step:,}"
        return f"epoch {step // self.epoch:,}, step {step % self.epoch:,}"


@computed_of_all
def attempts(tables: Tables) -> dict[str, Attempt]:
    """Return the attempts of all jobs with several attempts, by run id, in the order of each job.

    All runs that were read count, not only the runs of `tables`.
    """
    milestones = tables.rows("milestones")
    restores = milestones.where(milestones.one_of("kind", [RESTORE])).by("run")
    restarts = milestones.where(milestones.one_of("kind", [STARTUP]) & milestones.one_of("edge", ["begin"])).by("run")
    has_several = bool((tables.rows("runs")["index"] > 1).any())  # in one log
    if not (restores or restarts or has_several) or len(tables.rows("runs")) < 2:
        return {}
    return _Chains(tables, restores, restarts).attempts()


def jobs(tables: Tables) -> dict[str, list[str]]:
    """Return the runs of each job with several attempts among these runs, by job."""
    found: dict[str, list[str]] = {}
    here = set(tables.rows("runs")["run"].tolist())
    for run, attempt in attempts(tables).items():
        if run in here:
            found.setdefault(attempt.job, []).append(run)
    return {job: runs for job, runs in found.items() if len(runs) > 1}


@computed_of_all
def extents(tables: Tables) -> dict[str, Extent]:
    """Return the extent of each run that was read, by run id, in the order of the logs."""
    found: dict[str, Extent] = {}
    lengths = epoch_lengths(tables)
    steps, milestones = tables.rows_by_run("steps"), tables.rows_by_run("milestones")
    for run, log, index in tables.rows("runs").records("run", "log_sha256", "index"):
        own = steps.get(run)
        own = own.where(own.known("step")) if own is not None else None
        if own is None or not len(own):
            first = last = first_line = last_line = -1
        else:
            order = step_order(tables, own)
            first, last = int(order.min()), int(order.max())
            first_line, last_line = int(own["line"].min()), int(own["line"].max())
        parts = [on_first_clock(tables, run, rows) for rows in (own, milestones.get(run)) if rows is not None]
        clock, begin, end = _time(parts)
        found[run] = Extent(run, log, index, first, last, first_line, last_line, clock, begin, end, lengths.get(run, 0))
    return found


def _time(parts: Sequence[Rows]) -> tuple[str | None, int, int]:
    """Return the clock of a run, and its first and last time on it: the clock of its steps, else of most lines."""
    parts = [rows.where(rows.known("printed_ns", "clock")) for rows in parts]
    parts = [rows for rows in parts if len(rows)]
    if not parts:
        return None, 0, 0
    counts = parts[0].counts("clock")
    clock = max(counts, key=lambda name: counts[name])
    times = np.concatenate([rows["printed_ns"][rows.one_of("clock", [clock])] for rows in parts])
    return clock, int(times.min()), int(times.max())


def step_of(step: int, name: str | None) -> int | None:
    """Return the step of a checkpoint: the printed one, else that in its path."""
    if step != NULL:
        return step
    found = _STEP_IN_NAME.findall(name or "")
    return int(found[-1]) if found else None


_Continued = tuple[Extent, tuple[int | None, int, str]]
"""The run that another one continues; the step of the checkpoint, the line that loads it, the evidence."""


class _Chains:
    """Joins runs that continue each other, in the order of their times."""

    def __init__(self, tables: Tables, restores: Mapping[str, Rows], restarts: Mapping[str, Rows]) -> None:
        self._restores, self._restarts, self._known = restores, restarts, extents(tables)
        order, started = sorted(self._known.values(), key=lambda e: (e.log or "", e.index)), moments(tables)
        if len({e.log for e in order}) > 1:  # times determine the order across logs
            order.sort(key=lambda e: (e.begin_ns, str(started[e.run].at) if e.run in started else "", e.first_step))
        self._order = order
        self._neighbours = {(extent.log, extent.index): extent for extent in order}
        self._checkpoints = _Checkpoints(tables, order)
        self._settings = _comparable(settings_by_run(tables))
        runs = tables.rows("runs")
        self._ids = {run: job_id(config) for run, config in runs.records("run", "config")}
        self._labels = dict(runs.records("run", "label"))
        failures = tables.rows("failures")
        failures = failures.where(failures.one_of("severity", [FATAL]))
        self._failed = dict(failures.records("run", "last_line"))  # the last line of the last failure
        self._job_of: dict[str, list[str]] = {}

    def attempts(self) -> dict[str, Attempt]:
        found: dict[str, tuple[int | None, int, str]] = {}
        for place, extent in enumerate(self._order):
            continued = self._continued(extent, self._order[:place]) if extent.first_step >= 0 else None
            if continued is not None:
                earlier, found[extent.run] = continued
                members = self._members(earlier)
                members.append(extent.run)
                self._job_of |= dict.fromkeys(members, members)
        return {
            run: Attempt(members[0], number, len(members), *found.get(run, (None, None, "")))
            for members in {id(members): members for members in self._job_of.values()}.values()
            for number, run in enumerate(members, 1)
        }

    def _members(self, extent: Extent) -> list[str]:
        return self._job_of.get(extent.run, [extent.run])

    def _continued(self, extent: Extent, earlier: Sequence[Extent]) -> _Continued | None:
        """The run that a run continues; None for none."""
        before = self._neighbours.get((extent.log, extent.index - 1))
        loaded = _loaded(extent, before, self._restores, self._checkpoints)
        if before is not None and (line := _restarted(extent, before, self._restarts)) is not None:
            step = None if loaded is None else loaded[0]
            return before, (step, line, "the launcher starts the processes of the attempt before again")
        if loaded is None:
            return None if before is None else self._went_back(before, extent)
        own_last = sorted(earlier, key=lambda each: each.log == extent.log)  # repeats may run at the same time
        for each in reversed(own_last):
            if evidence := self._evidence(each, extent, loaded[0]):
                return each, (*loaded, evidence)
        return None

    def _went_back(self, before: Extent, extent: Extent) -> _Continued | None:
        """The run before in the log, if a run with its settings goes on at a step that it reached after its first.

        Or at its first one, if the run before failed after its last.
        """
        has_failed = self._failed.get(before.run, 0) > before.last_step_line
        first = min(self._known[member].first_step for member in self._members(before))
        is_within = first + (not has_failed) <= extent.first_step <= before.last_step
        differing = _differing(self._settings[before.run], self._settings[extent.run], same_log=True)
        labels = {self._labels[before.run], self._labels[extent.run]} - {None}
        if not is_within or differing or len(labels) > 1 or not _follows(before, extent):
            return None
        evidence = f"it goes on at {extent.position(extent.first_step)}, which the attempt before reached"
        if extent.first_step == first:
            evidence = f"it starts again at {extent.position(extent.first_step)}, and the attempt before failed"
        return before, (None, extent.first_step_line, evidence)

    def _evidence(self, earlier: Extent, extent: Extent, step: int | None) -> str | None:
        """What shows that a run continues an earlier one, in words; None if it does not."""
        own_id = self._ids[extent.run]
        same_id, same_log = own_id is not None and self._ids[earlier.run] == own_id, earlier.log == extent.log
        differing = _differing(self._settings[earlier.run], self._settings[extent.run], same_log)
        if not _follows(earlier, extent):
            return None
        if differing and not ((same_id or same_log) and step and _is_of_world(differing)):
            return None
        members = [self._known[member] for member in self._members(earlier)]
        evidence = _evidence(step, extent, members, self._checkpoints.saved, same_id or same_log)
        if evidence is None:
            return None
        evidence += f", the same job id {own_id}" if same_id else ""
        return evidence + (f", with another {', '.join(sorted(differing))}" if differing else "")


def with_attempts(runs: pa.Table, log: Log) -> pa.Table:
    """Return table `runs` of a log with the job and the attempt of each run that is an attempt."""
    attempt_by_run = attempts(Tables(log))
    found = [attempt_by_run.get(run) for run in runs["run"].to_pylist()]
    jobs_of, numbers = [each and each.job for each in found], [each and each.number for each in found]
    for name, values in (("job", jobs_of), ("attempt", numbers)):
        runs = with_column(runs, name, column_of("runs", name, list(values)))
    return runs


class _Checkpoints:
    """The steps of checkpoints in the order of the job. `saved`: the steps that each run saved.

    They are printed, or in the path of a checkpoint. Where the steps start again in each epoch, neither gives the
    order: there the checkpoint is of the last step before the line that reports its saving, by its path. A path that
    is saved again and again, such as `last.pt`, has the last of them before the run that loads it.

    Args:
        tables: The tables of the runs.
        order: The runs in the order of their times.
    """

    def __init__(self, tables: Tables, order: Sequence[Extent]) -> None:
        self.saved: dict[str, set[int]] = {}
        self._by_name: dict[str, dict[str, int]] = {}  # by run
        self._order = {extent.run: extent for extent in order}
        orders: dict[str, tuple[Ints, Ints]] = {}
        milestones = tables.rows("milestones")
        rows = milestones.where(milestones.one_of("kind", [CHECKPOINT]))
        for run, line, step, name in rows.records("run", "line", "step", "name"):
            if not self._order[run].epoch:
                saved = step_of(step, name)
            else:
                if run not in orders:
                    orders[run] = _highest_by_line(tables, run)
                lines, highest = orders[run]
                before = int(np.searchsorted(lines, line))
                saved = int(highest[before - 1]) if before else None
                if saved is not None and name is not None:
                    self._by_name.setdefault(run, {})[name] = saved
            if saved is not None:
                self.saved.setdefault(run, set()).add(saved)

    def step(self, run: str, step: int, name: str | None) -> int | None:
        """Return the step of a checkpoint that a run loads; None if it is not known."""
        if not self._order[run].epoch:
            return step_of(step, name)
        before = takewhile(lambda each: each != run, self._order)
        return next(
            (known[name] for each in reversed([*before]) if name in (known := self._by_name.get(each, {}))), None
        )


def _highest_by_line(tables: Tables, run: str) -> tuple[Ints, Ints]:
    """Return the lines of the steps of a run, and the last step of the order up to each."""
    steps = tables.rows_of("steps", run)
    steps = steps.where(steps.known("step"))
    by_line = np.argsort(steps["line"], kind="stable")
    return steps["line"][by_line], np.maximum.accumulate(step_order(tables, steps)[by_line])


def last_saved(tables: Tables, run: str, until: int) -> int | None:
    """Return the last step of a run saved by a checkpoint before a line; None if its lines report none."""
    rows = tables.rows_of("milestones", run)
    rows = rows.where(rows.one_of("kind", [CHECKPOINT]) & (rows["line"] < until))
    ended = rows.where(~rows.one_of("edge", ["begin"]))  # a save may be under way
    steps = [step_of(step, name) for step, name in ended.records("step", "name")]
    return max((step for step in steps if step is not None), default=None)


def _differing(one: Mapping[str, str], other: Mapping[str, str], same_log: bool) -> set[str]:
    """The settings in which two runs differ; in one log a run may begin after some of its settings."""
    names = one.keys() & other.keys() if same_log else one.keys() | other.keys()
    return {name for name in names if one.get(name) != other.get(name)}


def _restarted(extent: Extent, before: Extent, restarts: Mapping[str, Rows]) -> int | None:
    """The line in which a launcher starts the processes of the run before again, as this run; None if none does."""
    if extent.run not in restarts:
        return None
    lines = restarts[extent.run]["line"]
    lines = lines[lines < extent.first_step_line]
    return int(lines[0]) if len(lines) and before.first_step >= 0 else None


def _loaded(
    extent: Extent, before: Extent | None, restores: Mapping[str, Rows], checkpoints: _Checkpoints
) -> tuple[int | None, int] | None:
    """The step and the line of the checkpoint that a run loads before its first step; None if it loads none.

    A line that loads a checkpoint may be printed before the line that begins the run.
    """
    rows = [restores.get(extent.run), restores.get(before.run) if before else None]
    for restored, after in zip(rows, (0, before.last_step_line if before else 0), strict=True):
        if restored is None:
            continue
        lines = restored["line"]
        here = restored.where((lines < extent.first_step_line) & (lines > after))
        steps = [checkpoints.step(extent.run, step, name) for step, name in here.records("step", "name")]
        if len(here):
            return next((step for step in steps if step is not None), None), int(here["line"][0])
    return None


def _follows(earlier: Extent, later: Extent) -> bool:
    """Whether a run began after another had ended, as far as their clocks show."""
    if earlier.first_step < 0:
        return False
    if (
        earlier.clock is not None
        and earlier.clock == later.clock
        and (later.log == earlier.log or "no_" not in earlier.clock)
    ):
        return later.begin_ns >= earlier.end_ns
    return later.log == earlier.log or later.first_step > earlier.first_step


def _evidence(
    step: int | None, later: Extent, members: list[Extent], saves: Mapping[str, set[int]], near: bool
) -> str | None:
    """What shows that a run continues these attempts, in words; None if it does not.

    `near`: it is in the same log, or has the same job id: it may go back further than to the last checkpoint.
    """
    loaded = later.first_step - 1 if step is None else step
    last = max(member.last_step for member in members)
    if not 0 < loaded <= last or later.first_step <= loaded - 1:
        return None
    saved = {each for member in members for each in saves.get(member.run, ())}
    if saved and step is not None:
        if loaded not in saved or (not near and loaded != max(saved)):
            return None
        return f"it loads the checkpoint of {later.position(loaded)}, which the attempt before saved"
    if step is not None:
        return f"it loads the checkpoint of {later.position(loaded)}, which the attempt before reached"
    if min(member.first_step for member in members) >= later.first_step:
        return None
    return f"it loads a checkpoint and goes on at {later.position(later.first_step)}, which the attempt before reached"


def _comparable(settings: Mapping[str, Settings]) -> dict[str, dict[str, str]]:
    """Return the settings that attempts have in common, without incidental ones and ones that a restart changes."""
    incidental = incidental_test(settings.values())
    names = {name for known in settings.values() for name in known if name != "process"}
    names = {name for name in names if not incidental(name) and not changes_with_a_restart(name)}
    return {run: {n: v for n, v in known.items() if n in names} for run, known in settings.items()}


def changes_with_a_restart(setting: str) -> bool:
    """Return whether a setting is another one in each attempt of a job, by its name."""
    return _RESTART_SETTINGS.search(setting.rpartition(".")[2]) is not None


def same_world(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Return whether two runs, by their settings, have as many ranks, as far as both print it."""
    return not any(_is_of_world([name]) and one[name] != other[name] for name in one.keys() & other.keys())


def _is_of_world(names: Iterable[str]) -> bool:
    """Whether all these settings change with the number of ranks."""
    return all(_WORLD_SETTINGS.search(name.rpartition(".")[2].replace("-", "_").replace(" ", "_")) for name in names)


def job_id(config: object) -> str | None:
    """Return the id of the job in the settings of a run (JSON); None without one."""
    if not isinstance(config, str):
        return None
    for name, value in json.loads(config).items():
        if _JOB_ID.fullmatch(name.rpartition(".")[2]):
            return str(value)
    return None
