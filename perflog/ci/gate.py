"""Judges the runs of a change: ingests their logs, compares them with a baseline or a base, keeps what may be kept.

Only runs of the main branch are kept. All of them stay in the store, as its history. Those that pass join the baseline;
the first ones make it, if nothing speaks against them; a sure improvement, and a change that somebody accepts, begin a
new level.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from perflog.analysis.compare import Comparison, Gate, baselines, compare
from perflog.analysis.compare.gates import (
    Kind,
    Outcome,
    comparison_outcome,
    error_outcome,
    in_a_line,
    sure_improvement,
)
from perflog.analysis.compare.left_out import failed_runs
from perflog.errors import InputError, PerflogError
from perflog.log import Log, combined
from perflog.opening import load, read
from perflog.provenance import provenance
from perflog.tables.store import default_store, store_exists
from perflog.units import count

BASE, CHANGE = "base", "change"
"""Names of the sides. With a baseline, its name is the name of the base."""

_NEW: tuple[Kind, ...] = ("no baseline", "other settings")  # where no run of the baseline has the settings of the new


class GateTask(Struct, frozen=True):
    """What to judge.

    Attributes:
        logs: The logs of the change: files, folders, globs.
        base_logs: The logs of the base, which ran in turns with the change; empty: the baseline is the base.
        baseline: The name of the baseline.
        store: The store that has it.
        gates: The gates; empty: any regression.
        may_lack: Figures that the change need not have.
        least_runs: The least number of runs of the change.
        options: Keywords of `perflog.compare`.
        tags: What the user says of the runs, by name.
        keep: Whether runs that pass join the baseline.
        accept: Why a change is accepted: the runs begin a new level. Empty: it is not.
    """

    logs: Sequence[str]
    base_logs: Sequence[str] = ()
    baseline: str = "main"
    store: str | None = None
    gates: Sequence[Gate] = ()
    may_lack: Sequence[str] = ()
    least_runs: int = 1
    options: Mapping[str, Any] = {}
    tags: Mapping[str, str] = {}
    keep: bool = False
    accept: str = ""


class GateRun(Struct, frozen=True):
    """What came of it.

    Attributes:
        outcome: The outcome, with its exit code.
        gates: The gates that were judged.
        comparison: The comparison; None if there is none.
        logs: The runs of base and change, or the runs of the change that could be read.
        kept: What became of the baseline, in a sentence; empty if nothing was to become of it.
        has_changed: Whether the store has runs that are to be kept, in the baseline or as history.
        warnings: Warnings about the logs.
        base_dates: When the first and the last run of the baseline were read, in UTC; empty if that is not known.
    """

    outcome: Outcome
    gates: tuple[Gate, ...]
    comparison: Comparison | None = None
    logs: tuple[Log, ...] = ()
    kept: str = ""
    has_changed: bool = False
    warnings: tuple[str, ...] = ()
    base_dates: tuple[str, ...] = ()


def judge(task: GateTask) -> GateRun:
    """Judge the runs of a change. An error of a log or of the comparison is an outcome, too."""
    gates = tuple(task.gates) or (Gate(),)
    store = os.fspath(task.store or default_store())
    try:
        base, unread = _read(task.base_logs) if task.base_logs else (None, [])
        new, unread_too = _read(task.logs) if task.base_logs else _ingested(task, store)
    except PerflogError as error:
        kind: Kind = "not read" if isinstance(error, InputError) else "error"
        return GateRun(Outcome(kind, (in_a_line(error),), error.code), gates)
    unread += unread_too
    if not new or (task.base_logs and not base):
        return GateRun(Outcome("not read", tuple(unread) or ("nothing in the logs is known",), 3), gates)
    against: list[tuple[Kind, str]] = [("not read", text) for text in unread]
    if len(new) < task.least_runs:
        against.append(("not read", f"{count(len(new), 'run')} of {task.least_runs} were read"))
    comparison = None
    try:
        comparison = (
            compare({CHANGE: new}, baseline=task.baseline, store=store, **task.options)
            if base is None
            else compare({BASE: base, CHANGE: new}, **task.options)
        )
    except PerflogError as error:
        outcome = error_outcome(error).and_also([*against, *((each.end, each.text) for each in failed_runs(new))])
    else:
        outcome = comparison_outcome(comparison, gates, task.may_lack).and_also(against)
    is_kept, kept = task.keep and base is None, ""
    try:
        kept = _keep(task, store, new, outcome, comparison) if is_kept else ""
    except PerflogError as error:
        outcome, is_kept = outcome.and_also([("error", in_a_line(error))]), False
    warnings = tuple(new.warnings) if comparison is None else comparison.warnings
    logs = _compared(comparison, store, base, new)
    dates = sorted(logs[0].ingested.values()) if base is None and len(logs) > 1 else []
    return GateRun(outcome, gates, comparison, logs, kept, is_kept, warnings, tuple(dates[:1] + dates[-1:]))


def _ingested(task: GateTask, store: str) -> tuple[Log | None, list[str]]:
    """Ingest the logs of the change. Return their runs, if there are any, and why others were not read."""
    from perflog.ingestion import bulk

    names = bulk.log_names(task.logs)
    job_task = bulk.IngestTask(store, provenance=provenance(), tags=dict(task.tags))
    outcomes, documents = bulk.split_documents(bulk.ingest_many(names, job_task, None, None))
    errors = [in_a_line(outcome) for _, outcome in outcomes if isinstance(outcome, PerflogError)]
    results = [(name, outcome) for name, outcome in outcomes if not isinstance(outcome, PerflogError)]
    digests = {result.sha256 for _, result in results}
    if not store_exists(store):
        return None, errors
    stored = load(store)
    new = stored.select(*(key for key in stored.run_keys if key.sha256 in digests))
    new.warnings += [f"{name}: {text}" for name, result in results for text in result.warnings]
    new.warnings += [f"{name}: left out, because nothing in it is known" for name in documents]
    return new, errors


def _read(texts: Sequence[str]) -> tuple[Log | None, list[str]]:
    """Read logs without storing them. Return their runs, if there are any, and why others were not read.

    A log that a glob has found and that cannot be read is no reason to leave it out: its run may have crashed.
    """
    from perflog.ingestion.bulk import log_names

    logs: list[Log] = []
    errors: list[str] = []
    for name in log_names(texts):
        try:
            logs.append(read(str(name)))
        except InputError as error:
            if not name.is_found_document:
                errors.append(in_a_line(error))
    log = combined(logs) if logs else None
    if log is not None:
        log.warnings = list(dict.fromkeys(text for each in logs for text in each.warnings))
    return log, errors


def _compared(comparison: Comparison | None, store: str, base: Log | None, new: Log) -> tuple[Log, ...]:
    """The runs of base and change."""
    if comparison is None:
        return (new,)
    if base is None:
        runs = {run for case in comparison.cases for run in case.runs[0]}
        stored = load(store)
        base = stored.select(*(key for key in stored.run_keys if key.id in runs))
    return base, new


# --- what is kept -------------------------------------------------------------------------------------------------


def _keep(task: GateTask, store: str, new: Log, outcome: Outcome, comparison: Comparison | None) -> str:
    """Add the runs to the baseline if nothing speaks against them. Return what became of it."""
    name, runs = task.baseline, [key.id for key in new.run_keys]
    known = name in baselines.read(store)
    reasons = [each.text for each in failed_runs(new)]
    if reasons or outcome.kind in ("not read", "error"):
        return f"The runs do not join baseline {name}: {'; '.join(reasons) or outcome.title}."
    if task.accept and known:
        baselines.accept(name, runs, task.accept, store)
        return f"The runs begin a new level of baseline {name}: {task.accept}."
    if not known:
        made = baselines.set_baseline(name, runs, store=store)
        return f"The runs make baseline {name}: {count(len(made.levels[-1].runs), 'run')}."
    if outcome.kind not in ("passed", *(_NEW if comparison is None else ())):
        return f"The runs do not join baseline {name}: {outcome.title}."
    better = sure_improvement(comparison) if comparison and outcome.kind == "passed" else ""
    baselines.accept(name, runs, better, store)
    what = f"begin a new level of baseline {name}: {better}" if better else f"join baseline {name}"
    return f"The runs {what}."


def write_page(run: GateRun, path: str) -> None:
    """Write the page of a report on the compared runs, with this comparison."""
    from perflog.files.whole_files import whole_file
    from perflog.output.report import collect, to_html

    page = to_html(collect(*run.logs, comparison=run.comparison))
    with whole_file(path) as draft:
        draft.write_text(page, encoding="utf-8")
