"""What the times of a step are made of: gaps, missing gradients, times that something was subtracted from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from perflog.analysis.lint.registry import Finding, rule
from perflog.analysis.lint.view import TIMES, Run, Seen, count, median, percent, seconds, some, span
from perflog.formats.model import WHOLES
from perflog.statistics.samples import Floats
from perflog.tables.schema import column_for

if TYPE_CHECKING:
    import pandas as pd

_GAP = 0.01  # of the step: a gap that is told of one run
_APART, _TIMES = 0.005, 10  # a gap above this share in some runs, ten times that of others
_UNEXPLAINED = 0.05  # of forward or backward, in no phase
_COVERED = 0.5  # of the ranks' step time, by layers
_BACKWARD = 0.5  # backward over forward: a full one does about twice the work of the forward

GRIDS = {1.024e-6: "1.024 us, of CUDA events", 1e-6: "1 us", 5e-7: "0.5 us", 3.2e-8: "32 ns, of CUDA events"}
"""Clock grids that are tried, in seconds, the coarsest first."""

_STRAY, _PARTLY = 0.01, (0.05, 0.8)  # share off the grid: of a clock's own times, of differences
_ENOUGH = 20  # values to tell a grid from
_ROOM = 8  # the grid over the uncertainty of a printed value: else any value is on it


def _gaps(run: Run) -> Floats:
    """Step - forward - backward of each steady step that prints all three; rows: gap, step, what phases explain."""
    s = run.series()
    table = run["steps"].dropna(subset=[*TIMES, "step"])
    if s is None or not len(table) or not len(s.steady):
        return np.empty((3, 0))
    table = table[table["line"].isin(s.lines[s.warmup.cut :])]
    step = table["step_time_s"].to_numpy(np.float64)
    return np.array([step - (table["forward_s"] + table["backward_s"]).to_numpy(np.float64), step, _own(run, table)])


def _own(run: Run, table: pd.DataFrame) -> Floats:
    """Time of the phases that are parts of the step itself, on the rank that prints each of these steps."""
    names = [p.name for p in run.meaning.phases.values() if p.of == ("step",) and not p.hidden and p.name not in WHOLES]
    phases = run["phases"]
    times = phases[phases["phase"].isin(names)].groupby(["step", "rank"])["time_s"].sum()
    asked = zip(table["step"], table["rank"], strict=True)
    return np.array([times.get(each, 0.0) for each in asked], np.float64)


@rule(
    code="backward-short",
    severity="warning",
    title="backward is far shorter than forward",
    why="A full backward computes two products for each one of the forward and takes about twice its time. One that is "
    "far shorter computes no gradients of most of the model; a training FLOP convention still counts them, so "
    "TFLOP/s and MFU are up to 3 times too high.",
    action="check that inputs and parameters require gradients; do not compare this rate with that of a training step",
    needs=("steps",),
)
def backward_short(seen: Seen) -> Iterator[Finding]:
    """Median of the steady backward below half of the forward's."""
    for run in seen.runs:
        forward, backward = run.series("forward_s"), run.series("backward_s")
        if forward is None or backward is None or not len(forward.steady) or not len(backward.steady):
            continue
        one, two = median(forward.steady), median(backward.steady)
        if two >= _BACKWARD * one or one <= 0:
            continue
        message = f"backward {seconds(two)} is {two / one:.2f} of forward {seconds(one)} (steady medians)"
        rate = run.series("tflops")
        if rate is not None and len(rate.steady):
            told = f", by the convention {run.meaning.flops}" if run.meaning.flops else ""
            message += (
                f": the printed {median(rate.steady):.2f} TFLOP/s count a full backward{told}; up to two thirds of "
                "that work may not have been done"
            )
        yield Finding(run.id, message, {run.id: backward.lines}, {"forward": one, "backward": two})


@rule(
    code="step-gap",
    severity="note",
    title="time of the step is in neither forward nor backward",
    why="Something is timed with the step but in none of its parts: loss, optimizer, zeroing gradients, a sync. A "
    "speed-up of forward and backward does not carry over to the step. Phases beside them that the log times count.",
    action="count it as a part of its own",
    needs=("steps",),
)
def step_gap(seen: Seen) -> Iterator[Finding]:
    """Median gap above 1 % of the step."""
    for run in seen.runs:
        gaps = _gaps(run)
        if not gaps.size or median((gaps[0] - gaps[2]) / gaps[1]) <= _GAP:
            continue
        share, middle = median(gaps[0] / gaps[1]), median(gaps[0])
        message = f"step - forward - backward is {seconds(middle)} ({percent(share)} of the step), {span(gaps[0])}"
        s = run.series()
        yield Finding(run.id, message, {run.id: s.lines if s else ()}, {"gap": middle, "share": share})


@rule(
    code="gap-differs",
    severity="warning",
    title="forward and backward cover the step in some runs only",
    why="Where the gap between step and forward + backward differs by an order of magnitude, the timers stand at "
    "different places of the program: loss or optimizer belong to backward in one run and to nothing in another.",
    action="compare step times between these runs, not forward or backward",
    needs=("steps",),
)
def gap_differs(seen: Seen) -> Iterator[Finding]:
    """Among the runs of a format: gap above 0.5 % of the step in some, a tenth of that or less in others."""
    formats: dict[str, list[tuple[Run, float, float]]] = {}
    for run in seen.runs:
        gaps = _gaps(run)
        if gaps.size and run.meaning.format:
            one = (run, median(gaps[0] / gaps[1]), median(gaps[0]))
            formats.setdefault(run.meaning.format.name, []).append(one)
    for runs in formats.values():
        most = max(share for _, share, _ in runs)
        wide = [r for r in runs if r[1] > max(most / _TIMES, _APART)]
        slim = [r for r in runs if r[1] <= most / _TIMES]
        if not wide or not slim:
            continue
        said = [
            f"{span([gap for *_, gap in those])} ({some((run.name for run, *_ in those), 3)})" for those in (wide, slim)
        ]
        message = f"step - forward - backward is {said[0]} in {count(len(wide), 'run')}, {said[1]} in {len(slim)}"
        lines = {run.id: s.lines[:1] for run, *_ in (*wide, *slim) if (s := run.series())}
        yield Finding(wide[0][0].id, message, lines, {"gap": {run.id: gap for run, _, gap in runs}})


@rule(
    code="phase-gap",
    severity="note",
    title="time of forward or backward is in no phase",
    why="The timed phases do not explain the whole: what is left is launch overhead, code without a timer, or waiting.",
    action="count it as a part of its own; do not divide the whole among the phases",
    needs=("steps", "phases"),
)
def phase_gap(seen: Seen) -> Iterator[Finding]:
    """Forward or backward less its phases, the mean over ranks, above 5 %. Ranks need not be known for a mean."""
    for run in seen.runs:
        said: list[str] = []
        numbers: dict[str, float] = {}
        phases = run["phases"]
        at = phases["line"]
        for whole in ("forward", "backward"):
            s = run.series(f"{whole}_s")
            inner = [p.name for p in run.meaning.phases.values() if p.of == (whole,) and not p.hidden]
            mine = phases[phases["phase"].isin(inner)]
            if s is None or not len(mine) or not len(s.steady):
                continue
            ranks = mine.groupby(["step", "phase"]).size().mode().iloc[0]
            sums = (mine.groupby("step")["time_s"].sum() / ranks).reindex(s.steps[s.warmup.cut :]).to_numpy(np.float64)
            known = ~np.isnan(sums) & (s.steady > 0)
            left = median(1 - sums[known] / s.steady[known]) if known.any() else 0.0
            if left > _UNEXPLAINED:
                said.append(f"{percent(left)} of {whole} ({seconds(left * median(s.steady))})")
                numbers[whole] = left
        if said:
            message = f"{' and '.join(said)} is in none of its phases (median of the steady steps, mean over ranks)"
            yield Finding(run.id, message, {run.id: at[:1]}, numbers)


@rule(
    code="layers-cover-little",
    severity="note",
    title="layer times are a small part of the step",
    why="Most of the ranks' time lies outside what was timed as layers. Idle time, bubble or communication cannot be "
    "computed as the rest: it holds all that was not timed.",
    action="take what is computed from these layers for a model of the pipeline, not for a measurement of it",
    needs=("steps", "layers"),
)
def layers_cover_little(seen: Seen) -> Iterator[Finding]:
    """Sum of the layers of a step against its time on all ranks, below half."""
    for run in seen.runs:
        s, layers = run.series(), run["layers"]
        if s is None or not len(layers) or s.averaged > 1:  # what such a line prints may be a sum or a mean
            continue
        ranks = max(int(layers["rank"].nunique()), 1)
        sums = layers.groupby("step")["time_s"].sum().reindex(s.steps).to_numpy(np.float64)
        shares = (sums / (ranks * s.values))[~np.isnan(sums)]
        if len(shares) and median(shares) < _COVERED:
            message = (
                f"the layers add up to {seconds(float(np.nanmedian(sums)))} per step over {count(ranks, 'rank')}, "
                f"{percent(median(shares))} of {ranks} x {seconds(median(s.values))}"
            )
            yield Finding(run.id, message, {run.id: layers["line"][:1]}, {"share": median(shares), "ranks": ranks})


@rule(
    code="time-subtracted",
    severity="warning",
    title="a time is not what the clock measured: something was subtracted from it",
    why="Other times of the run lie on the grid of the clock, all of them; these only in part. So they are "
    "differences: a part of the step was taken out of them, and they are not the time that the step took.",
    action="find out what was taken out before comparing them with step times of other programs",
    needs=("steps",),
)
def time_subtracted(seen: Seen) -> Iterator[Finding]:
    """Columns of `steps` partly on the grid on which other times of the run are."""
    for run in seen.runs:
        times = {c: _times(run, "steps", c) for c in TIMES}
        others = {p.name: _times(run, "phases", p.name) for p in run.meaning.phases.values() if p.clock == "gpu"}
        for grid, name in GRIDS.items():
            off = {c: _off_grid(rows["time"], last, grid) for c, (rows, last) in {**times, **others}.items()}
            known = [c for c, x in off.items() if len(x) and x.mean() <= _STRAY]
            partly = {c: x for c in TIMES if len(x := off[c]) and _PARTLY[0] <= x.mean() <= _PARTLY[1]}
            if known and partly:
                said = (f"{c.removesuffix('_s')} on {percent(1 - x.mean())}" for c, x in partly.items())
                message = (
                    f"{some(c.removesuffix('_s') for c in known)} lie on the clock's grid ({name}) on all their lines, "
                    f"{' and '.join(said)} of the lines"
                )
                lines = {line for c, x in partly.items() for line in times[c][0]["line"][x.index[x]]}
                on = {c: 1 - float(x.mean()) for c, x in partly.items()}
                yield Finding(run.id, message, {run.id: lines}, {"grid": grid, "on_grid": on})
                break


def _times(run: Run, table: str, name: str) -> tuple[pd.DataFrame, float]:
    """Lines and times of a column, or of a phase, and the last printed digit in seconds; no rows if it is not known."""
    rows = run[table]
    rows = rows[rows["phase"] == name] if table == "phases" else rows.assign(time_s=rows[name])
    rows = rows[["line", "time_s"]].dropna().rename(columns={"time_s": "time"})
    read = set(run["lines"]["shape"])
    for line in run.meaning.format.lines if run.meaning.format else ():
        for field in line.template.fields if line.table == table and line.template.text in read else ():
            known = column_for(table, field.name)
            if (known.name if known else field.name) == name and field.type in "fr" and field.name in line.unit:
                digits = re.search(r"\.(\d+)", field.spec)
                last = 10.0 ** -int(digits[1] if digits else 6) if field.type == "f" else 0.0
                return rows, last * line.unit[field.name].factor
    return rows.iloc[:0], 0.0


def _off_grid(times: pd.Series[float], last_digit: float, grid: float) -> pd.Series[bool]:
    """Which times are no multiples of the grid, as C floats and as printed; none where too few can tell.

    A timer that computes milliseconds as a C float may be off by the last digit of one: a long time has too few digits
    left, and is not among the answers.
    """
    import pandas as pd

    values = times.to_numpy(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # no C float holds it: its slack is no number, and it drops out
        single = np.spacing((values * 1e3).astype(np.float32)).astype(np.float64) * 1e-3
        slack = 0.5 * last_digit + single + 1e-15
        off = pd.Series(np.abs(values - np.round(values / grid) * grid) > slack, times.index)[slack < grid / _ROOM]
    return off if len(off) >= _ENOUGH else off.iloc[:0]
