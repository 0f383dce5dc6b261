"""Runs that ended early: what is compared are the steps that all runs of both sides print.

Steps become faster or slower during a run, so the steps of a run that crashed do not compare with the steps of a
complete run. Most programs print neither how many steps are planned nor that a run is complete. A run of such a program
that has far fewer steps than the others counts as one that ended early: nothing in its log tells it from a killed one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median_high

from msgspec import Struct

from perflog.analysis.compare.sides import Case, LeftOut, Side
from perflog.analysis.lint import Finding
from perflog.metrics.semantics import ending_shapes, semantics_by_run
from perflog.metrics.settings_by_run import STOPPED_BY
from perflog.metrics.step_series import step_series

_STOPPED = "run-stopped"
_CODES = (_STOPPED, "program-error")
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
    telling = [f for side_items in found.values() for f in side_items if f.code in _CODES and f.severity != "note"]
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
