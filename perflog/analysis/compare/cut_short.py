"""Runs that ended early beside others that went on: what is compared are the steps that all of them print.

Steps become faster or slower during a run, so the steps of a run that crashed and those of a whole one do not compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median_high

from msgspec import Struct

from perflog.analysis.compare.sides import Case, LeftOut, Side
from perflog.analysis.lint import Finding
from perflog.metrics.step_series import step_series

_CODES = ("run-stopped", "program-error")
_REACHED = 0.5  # of the usual last step: a run that stopped before shortens no other run of its side


class CutShort(Struct, frozen=True):
    """A run that ended early: its case, side, label and last step, and the last step of the others."""

    case: str
    side: str
    run: str
    label: str
    last_step: int
    usual_last_step: int

    @property
    def is_short(self) -> bool:
        """Whether it stopped so early that no other run is cut there."""
        return self.last_step < _REACHED * self.usual_last_step


def runs_cut_short(
    sides: Sequence[Side], cases: Sequence[Case], found: Mapping[str, Sequence[Finding]]
) -> list[CutShort]:
    """Return the runs that ended early, by the linter, while other runs of their case went on.

    Runs whose steps start again in each epoch are left alone.

    Args:
        sides: The sides.
        cases: Their configurations.
        found: The findings of the linter by side.
    """
    stopped = {f.run for of_side in found.values() for f in of_side if f.code in _CODES and f.severity != "note"}
    cut: list[CutShort] = []
    for case in cases:
        lasts = _last_steps(sides, case)
        whole = [last for run, last in lasts.items() if run not in stopped]
        usual = median_high(whole) if whole else max(lasts.values(), default=0)
        cut += [
            CutShort(case.name, side.name, run, side.labels[run], lasts[run], usual)
            for side, runs in zip(sides, case.runs, strict=True)
            for run in runs
            if run in stopped and lasts.get(run, usual) < usual
        ]
    return cut


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
        of_case = {each.run: each for each in cut if each.case == case.name}
        sample = []
        for runs in case.runs:
            too_short = {run for run in runs if run in of_case and of_case[run].is_short}
            too_short = too_short if len(too_short) < len(runs) else set()
            left_out += [
                LeftOut(of_case[r].side, r, of_case[r].label, f"it ended early, at step {of_case[r].last_step:,} of "
                        f"{of_case[r].usual_last_step:,}")
                for r in runs if r in too_short
            ]  # fmt: skip
            sample.append(tuple(run for run in runs if run not in too_short))
        kept.append(Case(case.name, tuple(sample)))
        if any(run in of_case for runs in sample for run in runs):
            lasts = _last_steps(sides, kept[-1])
            end = min(lasts.values())
            ends |= dict.fromkeys((run for runs in sample for run in runs), end)
    return kept, ends, left_out


def _last_steps(sides: Sequence[Side], case: Case) -> dict[str, int]:
    """The last step of each run that prints step times."""
    runs = {run for of_side in case.runs for run in of_side}
    series = [s for side in sides for s in step_series(side.tables) if s.run in runs and (s.order == s.steps).all()]
    return {s.run: int(s.steps[-1]) for s in series}
