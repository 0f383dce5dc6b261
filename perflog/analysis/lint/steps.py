"""Rules on the step numbers: merged, averaged, repeated, missing and unpaired steps, and runs that end early."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from perflog.analysis.lint.registry import Finding, LintedRun, LintInput, Severity, rule
from perflog.analysis.lint.wording import count, first_few, seconds

if TYPE_CHECKING:
    import pandas as pd

_SIBLINGS = 3  # runs of a log that can show the usual number of steps


@rule(
    code="steps-merged",
    severity="warning",
    title="a line covers another number of steps than the others",
    why="Its time is that of several steps, and its other numbers may be sums. In a mean, a maximum or a plot it looks "
    "like one slow step.",
    action="leave the line out, as `perflog analyze` does",
    needs=("steps",),
)
def steps_merged(data: LintInput) -> Iterator[Finding]:
    """Lines whose `steps_averaged` is not that of most lines."""
    for run in data.runs:
        steps = run["steps"]
        if not len(steps):
            continue
        covered = steps["steps_averaged"].dropna()
        odd = steps.loc[covered.index[covered != _usual(covered)]]
        if not len(odd):
            continue
        first = odd.iloc[0]
        n, time = int(first["steps_averaged"]), float(first["step_time_s"])
        message = f"{count(len(odd), 'line')} of {len(steps)}: line {first['line']} covers {count(n, 'step')}"
        if not math.isnan(time):
            message += f", so its time {seconds(time)} is that of {count(n, 'step')}"
        if first["loss"] == first["loss"]:
            message += f"; its loss {first['loss']:g}, if a sum, is {first['loss'] / n:g} per step"
            if first["perplexity"] > 0 and abs(math.log(first["perplexity"]) - first["loss"]) < 0.01:
                message += f", and its perplexity {first['perplexity']:g} is exp of that sum"
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
        steps = run["steps"]
        n = _usual(steps["steps_averaged"])
        if n > 1:
            message = f"{count(len(steps), 'line')} of {n} steps each"
            yield Finding(run.id, message, {run.id: steps["line"]}, {"steps": n})


@rule(
    code="steps-repeated",
    severity="warning",
    title="steps are printed more than once",
    why="The run was restarted from a checkpoint, two runs write to one log, or several ranks print and their lines do "
    "not name them. A step that is counted twice has double weight.",
    action="take one printing of each step, as `perflog analyze` does; if runs were mixed, separate them",
    needs=("steps",),
)
def steps_repeated(data: LintInput) -> Iterator[Finding]:
    """Rows of `steps` that are not the first printing of their step."""
    for run in data.runs:
        repeats = run["steps"][run["steps"]["copy"] > 1]
        if len(repeats):
            steps = repeats["step"].drop_duplicates()
            message = f"{count(len(steps), 'step')} printed again: {first_few(steps)}"
            yield Finding(run.id, message, {run.id: repeats["line"]}, {"steps": len(steps), "printings": len(repeats)})


@rule(
    code="steps-missing",
    severity="warning",
    title="steps are missing between printed ones",
    why="Lines were lost, or the program did not print these steps. Totals and means cover only the other steps.",
    action="find the lost lines, or report that these steps are missing",
    needs=("steps",),
)
def steps_missing(data: LintInput) -> Iterator[Finding]:
    """Jumps of the step number that are larger than most, and that no line covers."""
    for run in data.runs:
        steps = run["steps"].dropna(subset=["step"]).drop_duplicates(["epoch", "step"]).sort_values(["epoch", "step"])
        numbers = steps["step"].to_numpy(np.int64)
        jumps = np.diff(numbers)
        new_epoch = steps["epoch"].diff().iloc[1:].fillna(0).to_numpy(np.int64) != 0
        jumps[new_epoch] = 0  # the log does not say how many steps the epoch before had
        if not jumps.any():
            continue
        known = jumps[jumps > 0]
        usual = int(np.bincount(known).argmax()) if known.max() < 1 << 20 else int(np.median(known))
        holes = (jumps > usual) & (steps["steps_averaged"].fillna(1).to_numpy(np.int64)[1:] < jumps)
        if holes.any():
            lost = int((jumps[holes] // usual - 1).sum())
            gaps = [f"{a} to {b}" for a, b in zip(numbers[:-1][holes], numbers[1:][holes], strict=True)]
            message = f"{count(lost, 'step')} missing: the number jumps from {first_few(gaps)}"
            lines = steps["line"].to_numpy(np.int64)[1:][holes]
            yield Finding(run.id, message, {run.id: lines}, {"missing": lost})


@rule(
    code="steps-unpaired",
    severity="note",
    title="steps have a time but no details, or details but no time",
    why="The tables of the run cover different steps. What is computed from two tables covers only their common steps.",
    action="join the tables by step, and do not add up steps that only one of them has",
    needs=("steps",),
)
def steps_unpaired(data: LintInput) -> Iterator[Finding]:
    """Steps of phases, loads or layers against those of `steps`, including steps that a line covers."""
    for run in data.runs:
        steps = run["steps"].dropna(subset=["step"])
        for name in ("phases", "loads", "layers"):
            rows = run[name].dropna(subset=["step"])
            if not len(rows) or not len(steps):
                continue
            timed = set(steps["step"])
            covers = steps["steps_averaged"].fillna(1)
            covered = {int(s) - k for s, n in zip(steps["step"], covers, strict=True) for k in range(int(n))}
            detailed = set(rows["step"])
            bare, untimed = sorted(timed - detailed), sorted(detailed - covered)
            parts = [f"{count(len(bare), 'step')} with a time but no {name}: {first_few(bare)}"] if bare else []
            parts += [f"{count(len(untimed), 'step')} with {name} but no time: {first_few(untimed)}"] if untimed else []
            if parts:
                lines = [*steps["line"][steps["step"].isin(bare)], *rows["line"][rows["step"].isin(untimed)]]
                numbers = {"without_details": bare, "without_time": untimed}
                yield Finding(run.id, "; ".join(parts), {run.id: lines}, numbers)


@rule(
    code="run-stopped",
    severity="warning",
    title="the run ends early",
    why="The run was cut off: its steps may still be warm-up, or the last steps before a crash.",
    action="look for the reason at the end of the log, and repeat the run",
    needs=("steps",),
)
def run_stopped(data: LintInput) -> Iterator[Finding]:
    """No line that ends a run of this format, fewer steps than the other runs of the log, or than announced."""
    usual = _usual_steps(data)
    for run in data.runs:
        steps = run["steps"].dropna(subset=["step"])
        if not len(steps):
            continue
        n = int(steps["step"].nunique())
        reasons: list[str] = []
        numbers: dict[str, int] = {}
        planned = run.semantics.quantities.get("steps")
        ended = _has_end(run)
        if ended is False:
            reasons.append("the line that ends a run is missing")
        if (most := usual.get(run.log, n)) > n:
            reasons.append(f"the other runs of the log have {most}")
            numbers["usual"] = most
        if planned is not None and _is_short(steps["step"].to_numpy(np.int64), planned):
            reasons.append(f"{planned:,.0f} steps were announced")
            numbers["planned"] = int(planned)
        if reasons:
            message = f"{count(n, 'printed step')}, the last is step {steps['step'].max()}: {'; '.join(reasons)}"
            severity: Severity = "warning" if ended is not True else "note"
            last_line = [int(steps["line"].max())]
            yield Finding(run.id, message, {run.id: last_line}, {"steps": n, **numbers}, severity)


def _usual(covered: pd.Series[int]) -> int:
    """Return the number of steps that most lines cover; 1 if it is not known of any line."""
    known = covered.mode()
    return int(known.iloc[0]) if len(known) else 1


def _is_short(steps: npt.NDArray[np.int64], planned: float) -> bool:
    """Return whether the run printed fewer steps than planned; with a line every few steps, whether one is missing."""
    unique = np.unique(steps)
    jump = int(np.median(np.diff(unique))) if len(unique) > 1 else max(int(unique[0]), 1)
    return planned > len(unique) if jump == 1 else planned >= int(unique[-1]) + jump


def _has_end(run: LintedRun) -> bool | None:
    """Return whether the run has a line that ends a run; None if its format declares no such line."""
    lines = run.semantics.format.lines if run.semantics.format else ()
    endings = {x.template.text for x in lines if x.closes == "run" or x.table == "summaries"}
    return bool(endings & set(run["lines"]["shape"])) if endings else None


def _usual_steps(data: LintInput) -> dict[str, int]:
    """The number of steps that most runs of a log have, by log."""
    by_log: dict[str, list[int]] = {}
    for run in data.runs:
        if len(run["steps"]):
            by_log.setdefault(run.log, []).append(int(run["steps"]["step"].nunique()))
    usual = {log: Counter(counts).most_common(1)[0] for log, counts in by_log.items() if len(counts) >= _SIBLINGS}
    return {log: n for log, (n, times) in usual.items() if 2 * times > len(by_log[log])}
