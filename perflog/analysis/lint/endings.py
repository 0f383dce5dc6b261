"""Rules on how runs end: intervals that stay open, a status that is no success, a failure."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.analysis.job_endings import endings
from perflog.analysis.lint.registry import Finding, LintInput, rule

_START, _STOP = "_start", "_stop"
_SUCCESS = ("success", "succeeded", "completed", "finished", "ok", "true")
_FAILURE = ("abort", "aborted", "fail", "failed", "failure", "error", "cancelled", "killed", "false")


@rule(
    code="open-interval",
    severity="warning",
    title="the log opens an interval and does not close it",
    why="It prints `run_start`, but no `run_stop` after it: the run was cut off, or is still going on. A time to "
    "train cannot be computed.",
    action="leave the run out of comparisons of whole runs, or read the complete log",
    needs=("values",),
)
def open_interval(data: LintInput) -> Iterator[Finding]:
    """Keys `x_start` of `values` without a row `x_stop` after the last, if the log closes intervals or opens a run."""
    keys = [key for key in data.tables.rows("values").codes("key")[1] if key.endswith((_START, _STOP))]
    starts = data.tables.rows("values").one_of("key", [key for key in keys if key.endswith(_START)])
    for run in data.runs_where("values", starts):
        rows = run["values"].where(run["values"].one_of("key", keys))
        last: dict[str, int] = {}
        for key, line in rows.records("key", "line"):
            last[key] = max(line, last.get(key, 0))
        names = sorted(key.removesuffix(_START) for key in last if key.endswith(_START))
        is_open = [name for name in names if last.get(name + _STOP, -1) < last[name + _START]]
        closes_any = any(key.endswith(_STOP) for key in last)
        if is_open and (closes_any or "run" in is_open):
            shown = ", ".join(f"`{name}{_START}`" for name in sorted(is_open, key=lambda name: last[name + _START]))
            lines = sorted(int(last[name + _START]) for name in is_open)
            yield Finding(run.id, f"{shown}: not stopped", {run.id: lines}, {"intervals": len(is_open)})


@rule(
    code="no-success",
    severity="warning",
    title="the log says that the run did not succeed",
    why="The run was aborted or failed: its numbers are not a valid result.",
    action="leave the run out of comparisons",
    needs=("runs",),
)
def no_success(data: LintInput) -> Iterator[Finding]:
    """Runs with a setting `status` or `success` that reports a failure."""
    for run in data.runs:
        for key in ("status", "success"):
            printed = run.semantics.config.get(key)
            words = [str(word).lower() for word in (printed if isinstance(printed, list) else [printed])]
            if any(word in _FAILURE for word in words) and not any(word in _SUCCESS for word in words):
                yield Finding(run.id, f"{key} is {', '.join(words)}", {run.id: [run.last_line]}, {})


@rule(
    code="program-error",
    severity="warning",
    title="a failure ended the run",
    why="The log shows what ended it: an exception, a signal, a GPU, the scheduler. Its last steps may be missing. "
    "If steps follow, the program has caught it.",
    action="`perflog diagnose LOG` shows which rank was first; leave the run out of comparisons of whole runs",
    needs=("failures",),
)
def program_error(data: LintInput) -> Iterator[Finding]:
    """What ended each attempt, and failures after which the run goes on."""
    known = {run.id for run in data.runs}
    has_steps = data.tables.count("steps") > 0
    for ending in endings(data.tables):
        if ending.run in known and ending.is_proven:
            ended = not ending.goes_on or ending.restarts
            which = f"Attempt {ending.number} of {ending.of} ended by" if ending.restarts else "Ended by"
            follows = "steps follow" if has_steps or ending.last_step is not None else "the program goes on"
            text = f"{which} {ending.sentence}" if ended else f"{ending.sentence}; {follows}"
            lines = [row.line for row in ending.judged.first or ending.rows]
            numbers = {"attempt": ending.number} if ending.of > 1 else {}
            yield Finding(ending.run, text, {ending.run: lines}, numbers, "warning" if ended else "note")
