"""The history of the compared runs: other runs that are their repeats, such as runs of the same store.

A single run on each side does not show how much runs of the program differ, and two or three show it badly. Their other
repeats do.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field

from perflog.analysis.compare.left_out import copies
from perflog.analysis.compare.measures import SideValues, side_values
from perflog.analysis.compare.sides import Case, Runs, Side, load_side
from perflog.analysis.compare.verdicts import TESTED
from perflog.arrays import Floats
from perflog.log import combined
from perflog.metrics.compared import Measure
from perflog.metrics.step_series import StepSeries
from perflog.settings.run_settings import Settings, incidental_test, names_machine

SINGLE = 2
"""Sides with fewer runs than this do not show the run-to-run variation."""

_LEAST_STEPS = 0.5
"""Share of the steps of the compared runs that a run needs to count: one that broke off early is not comparable."""


class History(Struct, frozen=True):
    """Other repeats of the compared runs: their values, and the groups of run ids in each case.

    `enough`: the number of runs from which a side needs no history. `has_base`: the runs of the base are repeats of
    these too, because it is a baseline.
    """

    values: SideValues = field(default_factory=SideValues)
    groups: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    enough: int = TESTED
    has_base: bool = False

    def of(self, case: str, measure: Measure, both: Sequence[Sequence[Floats]]) -> Iterator[dict[str, Floats]]:
        """Yield the values of each group of repeats, by run; nothing unless a side has few runs."""
        if min(map(len, both)) < self.enough and (self.enough > SINGLE or max(map(len, both)) < SINGLE):
            least = _LEAST_STEPS * min(len(run) for side_runs in both for run in side_runs)
            for runs in self.groups.get(case, ()):
                by_run = self.values.by_run(measure, runs).items()
                if values := {run: run_values for run, run_values in by_run if len(run_values) >= least}:
                    yield values

    def series(self, case: str) -> Iterator[list[StepSeries]]:
        """Yield the step times with their warm-up of each group of repeats."""
        yield from (self.values.series(runs) for runs in self.groups.get(case, ()))


def find_history(
    references: Sequence[Runs],
    sides: Sequence[Side],
    cases: Sequence[Case],
    cuts: Sequence[int],
    ignored: Container[str] = (),
    is_named: bool = True,
) -> History:
    """Return the repeats of few runs among the runs of some references. Each folder or store has groups of its own.

    A run is a repeat of a compared one if their settings agree, but for incidental and `ignored` ones, and if they ran
    on the same machine where both logs name it. Compared runs, and copies or beginnings of a run, do not count.

    Args:
        references: Where to look: logs, folders, stores, as sides are named.
        sides: The sides of the comparison.
        cases: Their configurations.
        cuts: Number of warm-up steps that is cut, by case.
        ignored: Settings that match no runs.
        is_named: The caller named them. Otherwise they only count where each side has one run, for the store of a side
            may hold other versions of the program.
    """
    enough = TESTED if is_named else SINGLE
    few = [case for case in cases if 0 < min(map(len, filter(None, case.runs))) < enough]
    if not references or not few:
        return History()
    others, place = _others(references)
    known = identities([others, *sides], ignored)
    compared = {run for side in sides for run in side.settings}
    groups: dict[str, list[list[str]]] = {}
    for case in few:
        case_runs = [known[run] for runs in case.runs for run in runs]
        fresh = (run for run in others.settings if run not in compared)
        alike = [run for run in fresh if any(known[run].repeats(other) for other in case_runs)]
        groups[case.name] = _grouped(alike, known, place)
    chosen = {run for case_runs in groups.values() for runs in case_runs for run in runs}
    if not chosen:
        return History()
    repeats = Side("history", others.log.select(*(key for key in others.log.run_keys if key.id in chosen)))
    counted = chosen - _copied(repeats, sides)
    cut_of_run = {run: cut for case, cut in zip(cases, cuts, strict=True)
                  for runs in groups.get(case.name, ()) for run in runs if run in counted}  # fmt: skip
    return History(side_values(repeats, cut_of_run), groups, enough)


def _others(references: Sequence[Runs]) -> tuple[Side, Mapping[str, int]]:
    """The runs of all references, and by run the number of its folder or store; 0 for logs of one run."""
    sides = [load_side([reference]) for reference in references]
    place = {run: k if len(side.log) > 1 else 0 for k, side in enumerate(sides, 1) for run in side.settings}
    return Side("history", combined([side.log for side in sides])), place


class Identity(Struct, frozen=True):
    """What a run computed, by the settings that say so, and the settings that name its machine."""

    settings: Settings
    machine: Settings

    def repeats(self, other: Identity) -> bool:
        """Whether both computed the same, and not on different machines."""
        same_machine = all(other.machine.get(name, value) == value for name, value in self.machine.items())
        return same_machine and self.settings == other.settings


def identities(sides: Sequence[Side], ignored: Container[str]) -> dict[str, Identity]:
    """Return the identity of each run of some sides.

    Args:
        sides: The sides.
        ignored: Settings that do not count.
    """
    runs = dict(chain.from_iterable(side.settings.items() for side in sides))
    incidental = incidental_test(runs.values())
    names = {name for settings in runs.values() for name in settings}
    telling = {name for name in names if name not in ignored and not incidental(name)}
    machines = {name for name in names if names_machine(name)}
    return {run: Identity(_only(settings, telling), _only(settings, machines)) for run, settings in runs.items()}


def _only(settings: Settings, names: Container[str]) -> Settings:
    return {name: value for name, value in settings.items() if name in names}


def _grouped(runs: Sequence[str], known: Mapping[str, Identity], place: Mapping[str, int]) -> list[list[str]]:
    """Groups of runs that are repeats of their first one and were given together."""
    groups: list[list[str]] = []
    for run in runs:
        together = (group for group in groups if place[group[0]] == place[run])
        group = next((group for group in together if known[group[0]].repeats(known[run])), None)
        if group is None:
            groups.append([run])
        else:
            group.append(run)
    return groups


def _copied(repeats: Side, sides: Sequence[Side]) -> set[str]:
    """Runs that are copies of each other (all but one) or of compared runs, or only their beginning."""
    return {copy if copy in repeats.settings else run for copy, run in copies([repeats, *sides]).items()}
