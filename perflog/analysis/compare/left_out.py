"""Runs of the sides that are not compared, or only in part, and why.

Four kinds of runs are no repeats of the others: runs that measure something else, copies, runs that failed, and runs
that ended early.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, combinations
from statistics import median_high
from typing import Literal

import numpy as np
from msgspec import Struct

from perflog.analysis.compare.sides import Case, LeftOut, Side, match_runs
from perflog.analysis.lint import Finding, findings
from perflog.analysis.lint.losses import DIVERGED
from perflog.arrays import Floats
from perflog.grouping import grouped
from perflog.log import Log
from perflog.metrics import Tables
from perflog.metrics.semantics import ending_shapes, semantics_by_run
from perflog.metrics.settings_by_run import STOPPED_BY
from perflog.metrics.step_series import step_series
from perflog.tables.schema import TABLES

_STOPPED = "run-stopped"
_ENDED = (_STOPPED, "program-error")


class ChosenRuns(Struct, frozen=True):
    """The runs that are compared.

    Attributes:
        sides: The sides, without runs that are left out.
        cases: Their configurations.
        found: The findings of the linter by side.
        ends: The last step that compares, by run, beside runs that ended early.
        left_out: Runs that are not compared, and why.
        cut_short: Runs that ended early.
        failed: Runs that failed and are not compared.
        copies: Names of the sides that have only runs of the base.
        warnings: Warnings of matching.
    """

    sides: tuple[Side, ...]
    cases: list[Case]
    found: dict[str, list[Finding]]
    ends: dict[str, int]
    left_out: list[LeftOut]
    cut_short: list[CutShort]
    failed: list[FailedRun]
    copies: list[str]
    warnings: list[str]


def chosen_runs(given: Sequence[Side], match: Sequence[str], ignore: Sequence[str], is_split: bool) -> ChosenRuns:
    """Return the runs of the sides that are compared, and why others are not.

    `match` and `ignore`: see `compare`. `is_split`: the sides are the values of a setting.
    """
    sides, foreign = without_foreign(given)
    unique, duplicates = zip(*map(without_copies, sides), strict=True)
    sides, base_copies, copied = without_runs_of_base(unique, is_split)
    cases, unmatched, warnings = match_runs(sides, match, ignore)
    found = linted(sides, cases)
    cut_short = runs_cut_short(sides, cases, found, is_split)
    cases, ends, too_short = shared_ends(sides, cases, cut_short)
    failed = failed_among(given, {each.run for each in (*foreign, *unmatched)})
    left_out = with_failures([*foreign, *chain(*duplicates), *base_copies, *unmatched, *too_short], failed)
    return ChosenRuns(tuple(sides), cases, found, ends, left_out, cut_short, failed, copied, warnings)


def linted(sides: Sequence[Side], cases: Sequence[Case]) -> dict[str, list[Finding]]:
    """Return the linter's findings on the compared runs, by side."""
    found: dict[str, list[Finding]] = {}
    for place, side in enumerate(sides):
        for runs in (case.runs[place] for case in cases):
            subject = side.tables if len(runs) == len(side.log) else side.tables.only(runs)
            found.setdefault(side.name, []).extend(findings(subject) if runs else ())
        side.tables.return_freed()
    return found


# --- runs of another kind ---------------------------------------------------------------------------------------------
# A readable file of another kind in the folder is no repeat, and no configuration of its own: the runs that have the
# metrics are the sample.

_MEASURING = ("steps", "layers", "phases", "events", "kernels", "collectives", "loads", "counters", "summaries")
"""Tables with measurements; a run measures what one of these holds, or its clock."""

_CLOCK = "elapsed_s"


def without_foreign(sides: Sequence[Side]) -> tuple[list[Side], list[LeftOut]]:
    """Return the sides without runs that measure something else, and these.

    What is compared is what most runs of all sides measure, if each side has a run that does. A run of another format
    that does not is foreign; a run of the same format may have failed.
    """
    formats = {run: name for side in sides for run, name in side.tables.rows("runs").records("run", "format")}
    if len(set(formats.values())) < 2:
        return list(sides), []
    by_side = [dict(_measured(side.tables)) for side in sides]
    kinds = [kind for kind in (*_MEASURING, _CLOCK) if all(any(kind in of for of in runs.values()) for runs in by_side)]
    if not kinds:
        return list(sides), []
    runs = dict(item for side_labels in by_side for item in side_labels.items())
    leading = max(kinds, key=lambda kind: sum(kind in of for of in runs.values()))
    with_it = {formats[run] for run, of in runs.items() if leading in of}
    foreign = {run for run, of in runs.items() if leading not in of and formats[run] not in with_it}
    if not foreign:
        return list(sides), []
    labels = [side.labels for side in sides]
    left_out = [
        LeftOut(side.name, run, side_labels[run], "measures something else")
        for side, side_labels in zip(sides, labels, strict=True)
        for run in side_labels
        if run in foreign
    ]
    return [side.without(foreign) for side in sides], left_out


def _measured(tables: Tables) -> Iterator[tuple[str, set[str]]]:
    """Yield each run and what it measures."""
    counts = {name: tables.counts(name) for name in _MEASURING}
    runs = tables.rows("runs")
    timed = set(runs.where(runs.known(_CLOCK))["run"].tolist())
    for run in runs["run"].tolist():
        yield run, {name for name in _MEASURING if counts[name].get(run)} | ({_CLOCK} if run in timed else set())


# --- copies -----------------------------------------------------------------------------------------------------------
# A run that prints what another run prints, or only its beginning, is no repeat: a comparison that counted it would
# take one run for several.

Figures = list[Floats]
"""The numbers of a run in columns: of its steps, then of its values, then of its summaries."""

_FEWEST = 5
"""Different numbers that a run must print to be called a copy: a few rounded ones agree by chance."""


def without_copies(side: Side) -> tuple[Side, list[LeftOut]]:
    """Return the side without copies, and these."""
    found, labels = copies([side]), side.labels
    left_out = [
        LeftOut(side.name, copy, labels[copy], f"a copy of {labels[run]}, or of its beginning")
        for copy, run in found.items()
    ]
    return side.without(found), left_out


def without_runs_of_base(sides: Sequence[Side], is_split: bool = False) -> tuple[list[Side], list[LeftOut], list[str]]:
    """Return the sides without runs of the base or copies of them, these, and the names of sides that have no others.

    A side that has no others stays as it is, and so do the sides that are the values of a setting (`is_split`).
    """
    base, kept = sides[0], [sides[0]]
    left_out: list[LeftOut] = []
    copied: list[str] = []
    for side in sides[1:]:
        labels = side.labels
        same = _same_as(base, side)
        if len(same) < len(labels) and not is_split:
            left_out += [LeftOut(side.name, r, labels[r], f"a run of {base.name}, or a copy of one") for r in same]
            side = side.without(same)
        elif len(same) == len(labels):
            copied.append(side.name)
        kept.append(side)
    return kept, left_out, copied


def _same_as(base: Side, side: Side) -> list[str]:
    """The runs of a side that are runs of the base, or print the same, or more, or less."""
    base_runs, runs = set(base.labels), list(side.labels)
    pairs = {} if base_runs.issuperset(runs) else copies([base, side])
    longer = {run for copy, run in pairs.items() if copy in base_runs}
    return [run for run in runs if run in base_runs or pairs.get(run) in base_runs or run in longer]


def copies(sides: Sequence[Side]) -> dict[str, str]:
    """Return the runs that print what another run prints, or its beginning, and that run."""
    alike = grouped((_first(figures), (run, figures)) for side in sides for run, figures in _figures(side.tables))
    return dict(pair for runs in alike.values() for pair in _copies(runs))


def _copies(runs: list[tuple[str, Figures]]) -> Iterator[tuple[str, str]]:
    """Pairs of a copy and the longer run that has all its figures."""
    left_out: set[str] = set()
    for (run, figures), (other, beginning) in combinations(sorted(runs, key=lambda of: -sum(map(len, of[1]))), 2):
        if run not in left_out and other not in left_out and _begins(figures, beginning):
            left_out.add(other)
            yield other, run


def _begins(figures: Figures, beginning: Figures) -> bool:
    """Whether each column begins as another one: a run that prints its losses again in other times is no copy."""
    return all(np.array_equal(a[: len(b)], b, equal_nan=True) for a, b in zip(figures, beginning, strict=True))


def _first(figures: Figures) -> bytes:
    """The first row of the steps of a run, else its first value, else its first summary."""
    *steps, values, summaries = figures
    return next((b"".join(c[:1].tobytes() for c in of) for of in (steps, [values], [summaries]) if len(of[0])), b"")


def _figures(tables: Tables) -> Iterator[tuple[str, Figures]]:
    """The columns of figures of each run that prints enough different ones."""
    columns: dict[str, Sequence[str]] = {
        "steps": [c.name for c in TABLES["steps"] if c.type == "float64"], "values": ["value"], "summaries": ["value"]
    }  # fmt: skip
    by_table = {name: tables.rows_by_run(name) for name in columns}
    for run in dict.fromkeys(run for rows in by_table.values() for run in rows):
        rows = {name: tables.rows_of(name, run) for name in columns}
        figures = [rows[name][column] for name in columns for column in columns[name]]
        if any(
            _vary([rows[name][column][:size] for column in columns[name]])
            for name in columns
            for size in (_FEWEST, None)
        ):
            yield run, figures


def _vary(figures: Figures) -> bool:
    """Whether there are enough different figures. NaN is none: it also replaces null."""
    printed = np.concatenate(figures)
    return len(np.unique(printed[~np.isnan(printed)])) >= _FEWEST


# --- runs that failed -------------------------------------------------------------------------------------------------
# They have no part in the comparison, and nothing passes because a crashed run is silent.

End = Literal["ended early", "diverged"]

ENDINGS: dict[str, End] = {_STOPPED: "ended early", "program-error": "ended early", DIVERGED: "diverged"}
"""Findings for which runs are no base for others, and what they say of the run."""


class FailedRun(Struct, frozen=True):
    """A run that failed: its side (or empty), id and label, how it ended, and what the finding says."""

    side: str
    run: str
    label: str
    end: End
    message: str

    @property
    def text(self) -> str:
        """The run and what happened to it: `new: 2#1: Ended by a process that was killed, line 2`."""
        return f"{self.side}: {self.label}: {self.message}" if self.side else f"{self.label}: {self.message}"


def failed_runs(log: Log, side: str = "") -> list[FailedRun]:
    """Return the runs that ended early, or with a loss that became NaN, one for each finding that says so."""
    labels = {key.id: key.label or f"{key.log}#{key.index}" for key in log.run_keys}
    return [
        FailedRun(side, finding.run, labels[finding.run], ENDINGS[finding.code], finding.message)
        for finding in findings(log)
        if finding.code in ENDINGS and finding.severity != "note"
    ]


def failed_among(sides: Sequence[Side], runs: Collection[str]) -> list[FailedRun]:
    """Return the failed runs among some. Logs of another kind, such as the log of a monitor, are no such runs."""
    found = []
    for side in sides:
        if keys := [key for key in side.log.run_keys if key.id in runs]:
            found += failed_runs(side.log.select(*keys), side.name)
    return found


def with_failures(left_out: Sequence[LeftOut], failed: Sequence[FailedRun]) -> list[LeftOut]:
    """Return the runs that are not compared. The reason is that they failed, of those that did."""
    runs = {each.run for each in failed}
    return [LeftOut(r.side, r.run, r.label, "it failed") if r.run in runs else r for r in left_out]


# --- runs that ended early --------------------------------------------------------------------------------------------
# Steps become faster or slower during a run, so the steps of a run that crashed do not compare with the steps of a
# complete run: what is compared are the steps that all runs of both sides print. Most programs print neither how many
# steps are planned nor that a run is complete. A run of such a program that has far fewer steps than the others counts
# as one that ended early: nothing in its log distinguishes it from a killed one.

_SAME_END = 0.9  # of the usual last step: runs that a clock ends do not reach exactly the same one
_REACHED = 0.5  # of the usual last step: a run that stopped before shortens no other run of its side


class CutShort(Struct, frozen=True):
    """A run that ended early: its case, side, label and last step, and the last step of the others.

    `is_known`: its log shows that it ended early. Otherwise it only has far fewer steps than the others, and its log
    does not print how many were planned. `planned`: the announced number of steps; 0 if it is not known.
    """

    case: str
    side: str
    run: str
    label: str
    last_step: int
    usual_last_step: int
    is_known: bool = True
    planned: int = 0

    @property
    def is_short(self) -> bool:
        """Whether it stopped so early that no other run is cut there."""
        return self.last_step < _REACHED * self.usual_last_step

    @property
    def event(self) -> str:
        """What happened: `ended early at step 180 of 300`."""
        if self.is_known:
            of = max(self.usual_last_step, self.planned)
            return f"ended early at step {self.last_step:,}" + f" of {of:,}" * (of > self.last_step)
        return f"stopped at step {self.last_step:,} where others reach {self.usual_last_step:,}"


def runs_cut_short(
    sides: Sequence[Side], cases: Sequence[Case], found: Mapping[str, Sequence[Finding]], is_split: bool = False
) -> list[CutShort]:
    """Return the runs that ended early while others went on; where none is whole, those before the announced step.

    These are runs that ended early by the linter, and runs with less than 90 % of the steps of the others, if their
    logs show neither how many were planned nor that they are complete. Runs with steps that start again in each epoch
    are left alone.

    Args:
        sides: The sides.
        cases: Their configurations.
        found: The findings of the linter by side.
        is_split: The sides are the values of a setting, on which the number of steps may depend: only runs count that
            ended early by the linter.
    """
    telling = [f for side_items in found.values() for f in side_items if f.code in _ENDED and f.severity != "note"]
    stopped = {f.run for f in telling}
    planned = {f.run: int(f.evidence["planned"]) for f in telling if f.code == _STOPPED and "planned" in f.evidence}
    open_ended = set() if is_split else {run for side in sides for run in _open_ended(side)} - stopped
    cut: list[CutShort] = []
    for case in cases:
        series = _series(sides, case)
        lasts = {run: last for run, (_, last) in series.items()}
        begun = max((first for first, _ in series.values()), default=0)
        whole = [[lasts[run] for run in runs if run in lasts and run not in stopped] for runs in case.runs]
        usual = max(map(median_high, filter(None, whole)), default=max(lasts.values(), default=0))
        none_is_whole = not any(whole)
        cut += [
            CutShort(
                case.name, side.name, run, side.labels[run], lasts[run], usual, run in stopped, planned.get(run, 0)
            )
            for side, runs in zip(sides, case.runs, strict=True)
            for run in runs
            if (run in stopped and lasts.get(run, usual) < usual)
            or (none_is_whole and run in lasts and lasts[run] < planned.get(run, 0))
            or (run in open_ended and begun <= lasts.get(run, usual) < _SAME_END * usual)
        ]
    return cut


def _open_ended(side: Side) -> Iterator[str]:
    """Yield the runs for which no log shows how many steps are planned or that the run is complete."""
    for run, semantics in semantics_by_run(side.tables.rows("runs")).items():
        is_announced = "steps" in semantics.quantities or STOPPED_BY in semantics.config
        if not is_announced and not ending_shapes(semantics.format):
            yield run


def shared_ends(
    sides: Sequence[Side], cases: Sequence[Case], cut: Sequence[CutShort]
) -> tuple[list[Case], dict[str, int], list[LeftOut]]:
    """Return the cases, the last step that compares of each run beside runs that ended early, and the runs left out.

    A run that stopped before half of the steps is left out, if its side has another one.
    """
    ends: dict[str, int] = {}
    kept: list[Case] = []
    left_out: list[LeftOut] = []
    for case in cases:
        cut_runs = {each.run: each for each in cut if each.case == case.name}
        sample = []
        for runs in case.runs:
            too_short = {run for run in runs if run in cut_runs and cut_runs[run].is_short}
            too_short = too_short if len(too_short) < len(runs) else set()
            left_out += [
                LeftOut(cut_runs[r].side, r, cut_runs[r].label, f"it {cut_runs[r].event}")
                for r in runs if r in too_short
            ]  # fmt: skip
            sample.append(tuple(run for run in runs if run not in too_short))
        kept.append(Case(case.name, tuple(sample)))
        if any(run in cut_runs for runs in sample for run in runs):
            end = min(last for _, last in _series(sides, kept[-1]).values())
            ends |= dict.fromkeys((run for runs in sample for run in runs), end)
    return kept, ends, left_out


def _series(sides: Sequence[Side], case: Case) -> dict[str, tuple[int, int]]:
    """The first and last step of each run that prints step times."""
    runs = {run for side_items in case.runs for run in side_items}
    series = [s for side in sides for s in step_series(side.tables) if s.run in runs and (s.order == s.steps).all()]
    return {s.run: (int(s.steps[0]), int(s.steps[-1])) for s in series}
