"""Rules on the step numbers: merged, averaged, repeated, missing and unpaired steps, and runs that end early."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np

from perflog.analysis.job_endings import endings
from perflog.analysis.lint.registry import Finding, LintedRun, LintInput, Severity, rule
from perflog.analysis.lint.wording import seconds
from perflog.arrays import Ints
from perflog.metrics.attempts import attempts
from perflog.metrics.jobs.last_steps import last_steps
from perflog.metrics.semantics import ending_shapes
from perflog.metrics.settings_by_run import STOPPED_BY
from perflog.metrics.step_series import usual_cover
from perflog.metrics.unlabelled_ranks import printings
from perflog.statistics.groups import distinct, groups_of
from perflog.tables.columns import NULL, Rows
from perflog.units import count, first_few, numbered

_LAST_EPOCH = np.iinfo(np.int64).max  # an epoch that is not printed
_SIBLINGS = 3  # runs of a log that can show the usual number of steps


STOPPED = "run-stopped"
"""Code of the rule on runs that end early."""


@rule(
    code="steps-merged",
    severity="warning",
    title="a line covers a different number of steps than the others",
    why="Its time covers several steps, and its other numbers may be sums. In a mean, a maximum or a plot it looks "
    "like one slow step.",
    action="leave the line out, as `perflog analyze` does",
    needs=("steps",),
)
def steps_merged(data: LintInput) -> Iterator[Finding]:
    """Lines with another `steps_averaged` than most lines; but the interval at the end of a run may be shorter."""
    for run in data.runs:
        steps = run["steps"]
        covered = steps["steps_averaged"]
        usual = _usual(covered)
        is_odd = steps.known("steps_averaged") & (covered != usual)
        is_odd &= (covered > usual) | (steps["step"] != steps["step"].max(initial=NULL))
        is_odd &= ~steps.one_of("step_time_by", ("line", "bar"))  # readings of such a clock are some lines apart
        odd = steps.where(is_odd)
        if not len(odd):
            continue
        n, time, line, loss, perplexity = (
            odd[name][0].item() for name in ("steps_averaged", "step_time_s", "line", "loss", "perplexity")
        )
        message = f"{count(len(odd), 'line')} of {len(steps)}: line {line} covers {count(n, 'step')}"
        message += f", {'most lines' if 2 * len(odd) < len(steps) else 'others'} {usual}" if usual > 1 else ""
        if not math.isnan(time) and n > 1:
            message += f", so its time of {seconds(time)} covers {count(n, 'step')}"
        if not math.isnan(loss) and n > 1:
            message += f"; its loss {loss:g}, if a sum, is {loss / n:g} per step"
            if perplexity > 0 and abs(math.log(perplexity) - loss) < 0.01:
                message += f", and its perplexity {perplexity:g} is exp of that sum"
        yield Finding(run.id, message, {run.id: odd["line"]}, {"steps": n, "step_time": time})


@rule(
    code="steps-averaged",
    severity="note",
    title="each line covers several steps",
    why="Means scatter less than single steps: percentiles, outliers and standard deviation of single steps cannot be "
    "computed from them.",
    action="log every step where the scatter matters",
    needs=("steps",),
)
def steps_averaged(data: LintInput) -> Iterator[Finding]:
    """Most lines cover more than one step."""
    for run in data.runs:
        steps = run["steps"].where(run["steps"].known("steps_averaged"))
        n = _usual(steps["steps_averaged"])
        if n > 1:
            message = f"{count(len(steps), 'line')}, each a mean over {n} steps"
            yield Finding(run.id, message, {run.id: steps["line"]}, {"steps": n})


@rule(
    code="steps-repeated",
    severity="warning",
    title="steps are printed more than once",
    why="The run was restarted from a checkpoint, two runs write to one log, or several ranks print and their lines do "
    "not name them. A step that is counted twice has double weight.",
    action="count each step once, as `perflog analyze` does; if runs were mixed, separate them",
    needs=("steps",),
)
def steps_repeated(data: LintInput) -> Iterator[Finding]:
    """Rows of `steps` that are not the first printing of their step."""
    for run in data.runs_where("steps", printings(data.tables) > 1):
        repeats = run["steps"].where(run["steps"]["copy"] > 1)
        if (run["steps"]["rank"] != NULL).any():  # a line that has lost its label may be of any rank
            repeats = repeats.where(repeats["rank"] != NULL)
        if (run["steps"]["steps_averaged"] > 1).any():  # a line that covers no known steps sums up its epoch
            repeats = repeats.where(repeats["steps_averaged"] != NULL)
        if not len(repeats):
            continue
        epochs = [epoch for epoch in distinct(repeats["epoch"]).tolist() if epoch != NULL]
        steps = list(dict.fromkeys(zip(repeats["epoch"].tolist(), repeats["step"].tolist(), strict=True)))
        which = first_few("-" if step == NULL else step for _, step in steps)
        if len(epochs) > 1:
            which = numbered("epoch", epochs)
        restarts = sum(ending.restarts for ending in endings(data.tables) if ending.run == run.id)
        is_restart = int(repeats["copy"].max()) <= 1 + restarts  # each attempt prints a step once
        again = "done again after a restart" if is_restart else "printed again"
        yield Finding(
            run.id, f"{count(len(steps), 'step')} {again}: {which}", {run.id: repeats["line"]},
            {"steps": len(steps), "printings": len(repeats)}, "note" if is_restart else "warning",
        )  # fmt: skip


@rule(
    code="steps-missing",
    severity="warning",
    title="steps are missing between printed ones",
    why="Lines were lost, or the program did not print these steps. Totals and means cover only the other steps.",
    action="find the lost lines, or report that these steps are missing",
    needs=("steps",),
)
def steps_missing(data: LintInput) -> Iterator[Finding]:
    """Jumps of the step number that are larger than most, and that no line covers.

    A trace holds only the steps that its profiler recorded.
    """
    for run in data.runs:
        steps = run["steps"].where(run["steps"].known("step"))
        epochs = np.where(steps["epoch"] == NULL, _LAST_EPOCH, steps["epoch"])
        numbers = steps["step"]
        if not ((np.diff(epochs) == 0) & (np.diff(numbers) > 0)).all():
            steps = steps.where(groups_of(epochs, numbers).first)
            epochs = np.where(steps["epoch"] == NULL, _LAST_EPOCH, steps["epoch"])
            numbers = steps["step"]
        jumps = np.diff(numbers)
        jumps[(np.diff(epochs) != 0) & (epochs[1:] != _LAST_EPOCH)] = 0  # the log does not say how many steps
        if not jumps.any():
            continue
        known = jumps[jumps > 0]
        usual = int(np.bincount(known).argmax()) if known.max() < 1 << 20 else int(np.median(known))
        if usual > 1 and (known == usual).sum() == 1:
            continue  # steps 0, 500 and 4999: no interval is the usual one
        if not (jumps >= 2 * usual).any():
            continue
        begins = numbers - _covered(steps)
        after = np.append(begins[2:], numbers.max())  # the line after a jump may cover it too
        after[:-1][np.diff(epochs)[1:] != 0] = numbers.max()
        holes = (jumps >= 2 * usual) & (begins[1:] > numbers[:-1]) & (after > numbers[:-1])
        if holes.any() and not data.tables.only([run.id]).count("events"):
            lost = int((jumps[holes] // usual - 1).sum())
            gaps = [f"{a} to {b}" for a, b in zip(numbers[:-1][holes], numbers[1:][holes], strict=True)]
            message = f"{count(lost, 'step')} missing: the number jumps from {first_few(gaps)}"
            lines = steps["line"][1:][holes]
            yield Finding(run.id, message, {run.id: lines}, {"missing": lost})


@rule(
    code="steps-unpaired",
    severity="note",
    title="steps without details, or details without a step",
    why="The tables of the run cover different steps. What is computed from two tables covers only their common steps.",
    action="join the tables by step, and do not add up steps that only one of them has",
    needs=("steps",),
)
def steps_unpaired(data: LintInput) -> Iterator[Finding]:
    """Steps of phases, loads or layers against table `steps`, including steps that a line covers."""
    for name in ("phases", "loads", "layers"):
        for run in data.runs_that(partial(_runs_with_other_steps, table=name), name, "steps"):
            steps, rows = (run[table].where(run[table].known("step")) for table in ("steps", name))
            if not len(rows) or not len(steps):
                continue
            timed, detailed = distinct(steps["step"]), distinct(rows["step"])
            bare, untimed = np.setdiff1d(timed, detailed), np.setdiff1d(detailed, _covered_steps(steps))
            parts = [f"{count(len(bare), 'step')} without {name}: {first_few(bare)}"] if len(bare) else []
            if len(untimed):
                parts.append(f"{count(len(untimed), 'step')} with {name} but no line of the step: {first_few(untimed)}")
            if parts:
                lines = [*steps["line"][np.isin(steps["step"], bare)], *rows["line"][np.isin(rows["step"], untimed)]]
                numbers = {"without_details": bare.tolist(), "without_time": untimed.tolist()}
                yield Finding(run.id, "; ".join(parts), {run.id: lines}, numbers)


def _runs_with_other_steps(data: LintInput, table: str) -> list[LintedRun]:
    """The runs with rows of a table that cover other steps than table `steps`."""
    if not len(data.by_step(table)[0]):
        return []  # millions of steps are not grouped for nothing
    places = {run.id: place for place, run in enumerate(data.runs)}
    runs, numbers = [], []
    for name in ("steps", table):
        rows, steps = data.by_step(name)
        codes, words = rows.codes("run")
        runs.append(np.array([places.get(word, -1) for word in words], np.int64)[codes[steps.first]])
        numbers.append(rows["step"][steps.first])
    step_groups = groups_of(np.concatenate(runs), np.concatenate(numbers))
    alone = step_groups.first[step_groups.sizes == 1]
    return [data.runs[place] for place in np.unique(np.concatenate(runs)[alone]).tolist()]


def _covered(steps: Rows) -> Ints:
    """The number of steps that each line covers; 1 where it is not known."""
    covered = steps["steps_averaged"]
    return np.where(covered == NULL, 1, covered)


def _covered_steps(steps: Rows) -> Ints:
    """All steps that the lines cover: a line of n steps covers the n - 1 before its own too."""
    covers = np.maximum(_covered(steps), 0)
    if (covers == 1).all():
        return distinct(steps["step"])
    before = np.arange(int(covers.sum())) - np.repeat(np.cumsum(covers) - covers, covers)
    return distinct(np.repeat(steps["step"], covers) - before)


@rule(
    code=STOPPED,
    severity="warning",
    title="the run ends early",
    why="The run was cut off: its steps may still be warm-up, or the last steps before a crash.",
    action="look for the reason at the end of the log, and repeat the run",
    needs=("steps",),
)
def run_stopped(data: LintInput) -> Iterator[Finding]:
    """No line that ends a run of this format, fewer steps than the other runs of the log, or than announced.

    Of the attempts of a job only the last can end early, by the last step.
    """
    usual = _usual_steps(data)
    attempt_by_run = attempts(data.tables)
    for run in data.runs:
        steps = run["steps"].where(run["steps"].known("step"))
        attempt = attempt_by_run.get(run.id)
        if not len(steps) or (attempt and attempt.number < attempt.of):  # the next attempt goes on
            continue
        n = len(distinct(steps["step"]))
        reasons: list[str] = []
        numbers: dict[str, int] = {}
        stopped_by = run.semantics.config.get(STOPPED_BY)
        planned = run.semantics.quantities.get("steps") if stopped_by is None else None
        ended = True if stopped_by is not None else _has_end(run)
        last = last_steps(data.tables)[run.id]
        last_step = f"{last:,}"
        is_short = planned is not None and _is_short(np.append(steps["step"], last), planned)
        if ended is False and (planned is None or is_short):  # a run that prints all its steps is whole
            reasons.append("the line that ends a run is missing")
        if (most := usual.get(run.log, n)) > n:
            reasons.append(f"the other runs of the log have {most}")
            numbers["usual"] = most
        if planned is not None and is_short:
            last_step += f" of {planned:,.0f} announced"
            numbers["planned"] = int(planned)
        if reasons or "planned" in numbers:
            message = "; ".join([f"{count(n, 'printed step')}, the last is step {last_step}", *reasons])
            severity: Severity = "warning" if ended is not True else "note"
            last_line = [int(steps["line"].max())]
            yield Finding(run.id, message, {run.id: last_line}, {"steps": n, **numbers}, severity)


def _usual(covered: Ints) -> int:
    """Return the number of steps that most lines cover; 1 if it is not known of any line."""
    known = covered[covered != NULL]
    return usual_cover(known) if len(known) else 1


def _is_short(steps: Ints, planned: float) -> bool:
    """Return whether the run printed fewer steps than planned; with a line every few steps, whether one is missing."""
    unique = distinct(steps)
    first, last = int(unique[0]), int(unique[-1])
    jump = int(np.median(np.diff(unique))) if len(unique) > 1 else max(first, 1)
    if jump > 1:
        return planned >= last + jump
    is_resumed = first > 1  # from a checkpoint; the steps may be counted from 0
    return planned > (last + 1 if is_resumed else len(unique))


def _has_end(run: LintedRun) -> bool | None:
    """Return whether the run has a line that ends a run; None if its format declares no such line."""
    endings = ending_shapes(run.semantics.format)
    return not endings.isdisjoint(run.shapes) if endings else None


def _usual_steps(data: LintInput) -> dict[str, int]:
    """The number of steps that most runs of a log have, by log."""
    by_log: dict[str, list[int]] = {}
    for run in data.runs:
        steps = run["steps"]
        if len(steps):
            by_log.setdefault(run.log, []).append(len(distinct(steps["step"][steps.known("step")])))
    usual = {log: Counter(counts).most_common(1)[0] for log, counts in by_log.items() if len(counts) >= _SIBLINGS}
    return {log: n for log, (n, times) in usual.items() if 2 * times > len(by_log[log])}
