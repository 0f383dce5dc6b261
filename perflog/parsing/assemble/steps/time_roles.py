"""What the times that a line prints beside its step are: the time of the step, its parts, or times since a start.

In: the rows of lines of families with such times (`whole` and `parts` of the line), with steps and ranks. Out: the same
rows with lines that say it. A time of the step has the name `step_time`, its parts are phases, and a whole that counts
on from step to step is a clock: its differences are the times of the steps. All other times are values.

The names do not decide it (`families.step_parts`), nor does the first line: a step that compiles takes long, and at
step 1 the time since the start is the time of the step. So the numbers of all lines of a log decide. Rows are written
before the last line is read. If it changes a role, the log is read again with the role known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from perflog.arrays import Floats, Ints, Mask
from perflog.formats.families.step_parts import COLUMNS, STEP_TIME, is_total
from perflog.formats.model import Format, Line
from perflog.parsing.assemble.attributed_rows import AttributedRows
from perflog.parsing.assemble.runs.run_state import RunIndex
from perflog.parsing.assemble.steps.timer_lines import BESIDE, PART, STEP, line_beside, times_beside

CLOCK, VALUE = "clock", "value"
"""The other roles of a time."""

Key = tuple[int, str, str, str]
"""A time: position of its log, names of its format and its line, and its field."""

_LEAST, _LEAST_SUM, _ROUNDED = 0.5, 0.6, 1.02
"""Share of lines that decide; share of a total that its parts take, of which one of two micro-batches takes half; what
parts may exceed their whole by, since each is rounded."""
_COMMUNICATION = frozenset("comm comms communication allreduce reduce gather scatter a2a alltoall p2p sync".split())

_RISES_PER_FALL = 10  # of a clock that begins again
_ENOUGH_RISES, _MANY_RISES = 3, 8
_STEEP = 0.25  # mean rise, over the first value: 1 for the clock of equal steps, less after a slow first step
_LARGE = 0.5  # rise in all, over the first value: so much slower may a step become, or the first step was very slow


class _Last(Struct):
    """The last readings of a time by each rank, and the first ones since they began."""

    ranks: Ints
    steps: Ints
    epochs: Ints
    values: Floats
    firsts: Floats


class _Evidence(Struct):
    """What the lines so far show of one time.

    Attributes:
        pairs: Steps at which it was no shorter than at the step before; `rises`: longer; `falls`: shorter.
        growth: The sum of its rises.
        base: The sum, over `pairs`, of the first value since it began.
        lines: Lines with other times. `fits`: of these, lines in which it has the role that its name says.
        differences: Lines with a difference of the whole to the step before. `difference_fits`: the same for these.
        last: The last readings, by run.
    """

    pairs: int = 0
    rises: int = 0
    falls: int = 0
    growth: float = 0.0
    base: float = 0.0
    lines: int = 0
    fits: int = 0
    differences: int = 0
    difference_fits: int = 0
    last: dict[int, _Last] = field(default_factory=dict)

    @property
    def only_rises(self) -> bool:
        return 0 < self.rises >= _RISES_PER_FALL * self.falls

    @property
    def counts_on(self) -> bool:
        """Whether it is the time since a start."""
        return self.only_rises and self.rises >= _ENOUGH_RISES and self.growth >= _STEEP * self.base

    @property
    def may_count_on(self) -> bool:
        """Whether it may be: two steps show little, and steps that become slower and slower look like a slow start."""
        is_large = self.rises >= _MANY_RISES and self.growth * self.pairs >= _LARGE * self.base
        return self.only_rises and (is_large or self.growth >= _STEEP * self.base)

    def fits_mostly(self, as_clock: bool) -> bool:
        """Return whether it has the role of its name in most lines. `as_clock`: as its whole is a clock."""
        fits, lines = (self.difference_fits, self.differences) if as_clock else (self.fits, self.lines)
        return fits >= _LEAST * lines and lines > 0

    @property
    def differences_fit(self) -> bool:
        """Whether its parts fit its differences, and better than itself."""
        return self.fits_mostly(as_clock=True) and self.difference_fits * self.lines > self.fits * self.differences

    def add(self, run: int, ranks: Ints, steps: Ints, epochs: Ints, values: Floats) -> Floats:
        """Add values of a run. Return the differences to the step before of the same rank, NaN where there is none."""
        if not len(values):
            return values
        known = 0
        firsts = values
        if (last := self.last.get(run)) is not None:
            known = len(last.ranks)
            ranks, steps = np.append(last.ranks, ranks), np.append(last.steps, steps)
            epochs, values = np.append(last.epochs, epochs), np.append(last.values, values)
            firsts = np.append(last.firsts, firsts)
        order = np.argsort(ranks, kind="stable")
        ranks, steps, epochs = ranks[order], steps[order], epochs[order]
        values, firsts = values[order], firsts[order]
        is_new = np.append(True, (np.diff(ranks) != 0) | (np.diff(steps) != 0) | (np.diff(epochs) != 0))
        new = np.flatnonzero(is_new)  # repeats say nothing
        change = np.diff(values[new])
        follows = (np.diff(ranks[new]) == 0) & (np.diff(steps[new]) > 0) & (np.diff(epochs[new]) == 0)
        goes_on = follows & (change >= 0)
        begins = np.flatnonzero(np.append(True, ~goes_on))
        first = np.repeat(firsts[new][begins], np.diff(np.append(begins, len(new))))
        self.pairs += int(goes_on.sum())
        self.rises += int((goes_on & (change > 0)).sum())
        self.falls += int((follows & (change < 0)).sum())
        self.growth += float(change[goes_on].sum())
        self.base += float(first[1:][goes_on].sum())
        ends = np.append(np.flatnonzero(np.diff(ranks)), len(ranks) - 1)  # last line of each rank
        newest = np.cumsum(is_new)[ends] - 1
        self.last[run] = _Last(ranks[ends], steps[ends], epochs[ends], values[new[newest]], first[newest])
        differences = np.full(len(values), np.nan)
        differences[order[new[1:]]] = np.where(goes_on, change, np.nan)
        return differences[known:]


class GivenRoles:
    """The roles that the rows of a reading are given, each by the lines so far.

    `settled`: the roles that an earlier reading has settled. `role_of`: the role of a key by all lines so far.
    """

    def __init__(self, settled: Mapping[Key, str], role_of: Callable[[Key], str]) -> None:
        self._settled, self._role_of = settled, role_of
        self._used: dict[Key, str] = {}

    @property
    def corrections(self) -> dict[Key, str]:
        """The keys with another role than rows were given, with that role."""
        roles = {key: self._role_of(key) for key in self._used if key not in self._settled}
        return {key: role for key, role in roles.items() if role != self._used[key]}

    def are_settled(self, keys: Iterable[Key]) -> bool:
        """Return whether an earlier reading has settled the roles of all these keys."""
        return all(key in self._settled for key in keys)

    def role_for(self, keys: Sequence[Key]) -> str:
        """Return the role of rows by the first of their keys. `keys`: one per log; logs that differ are read apart."""
        role = self._settled.get(keys[0]) or self._used.get(keys[0]) or self._role_of(keys[0])
        self._used.update(dict.fromkeys(keys, role))
        return role


class TimeRoles:
    """Decides the roles of the times of a log, or of several that are read together, each by itself.

    `settled`: the roles that an earlier reading has settled. `given.corrections` holds the roles that differ from what
    rows of this reading were given.
    """

    def __init__(self, settled: Mapping[Key, str]) -> None:
        self.given = GivenRoles(settled, self._role)
        self._evidence: dict[Key, _Evidence] = {}
        self._wholes: dict[Key, set[str]] = {}  # by part, the fields of what it may be a part of

    def fill(self, form: Format, rows: Sequence[AttributedRows], runs: RunIndex) -> None:
        """Give the rows of a format the lines that say what their times are."""
        timed = [row for row in rows if len(row) and (row.line.whole or row.line.parts)]
        for name in dict.fromkeys(row.line.name for row in timed):
            shapes = [row for row in timed if row.line.name == name]
            roles = self._roles(form, name, shapes, runs)
            for row in shapes:
                known = tuple((time, roles[time]) for time in times_of(row.line))
                _give_line(row, *line_with(row.line, known))
        # Times of a step that are printed on several lines of values:
        if (beside := times_beside(rows)) is not None:
            roles = self._roles(form, BESIDE, [beside.together], runs)
            for row, named in beside.rows:
                shown = tuple((key, name, roles[name]) for key, name in named.items() if name in roles)
                _give_line(row, *line_beside(row.line, shown))

    def _roles(self, form: Format, name: str, shapes: Sequence[AttributedRows], runs: RunIndex) -> dict[str, str]:
        """Return the roles of the times of one line in all its shapes."""
        logs = sorted({run.log for row in shapes for run, _, _ in runs.split(row.records.positions)})
        times = dict.fromkeys(time for row in shapes for time in times_of(row.line))
        keys = {time: [(log, form.name, name, time) for log in logs] for time in times}
        if not all(map(self.given.are_settled, keys.values())):
            self._observe(form, shapes, runs)
        return {time: self.given.role_for(keys[time]) for time in times}

    def end(self, run: int) -> None:
        """Forget a run that has ended."""
        for evidence in self._evidence.values():
            evidence.last.pop(run, None)

    def _role(self, key: Key) -> str:
        """Return the role of a time by all lines so far."""
        evidence = self._evidence.get(key, _Evidence())
        if key not in self._wholes:
            return _role_of_whole(key[-1], evidence)
        wholes = [(*key[:-1], whole) for whole in self._wholes[key]]
        as_clock = any(self._role(whole) == CLOCK for whole in wholes if whole[-1] != STEP_TIME)
        grows_alone = evidence.counts_on and not any(
            self._evidence[whole].only_rises for whole in wholes if not as_clock and whole in self._evidence
        )
        is_column = key[-1] in COLUMNS
        return PART if not grows_alone and (is_column or evidence.fits_mostly(as_clock)) else VALUE

    def _observe(self, form: Format, shapes: Sequence[AttributedRows], runs: RunIndex) -> None:
        """Add what the rows of one line in all its shapes show."""
        for row in shapes:
            whole = row.line.whole or STEP_TIME
            seconds = {name: _seconds(row, name) for name in {*times_of(row.line), whole}}
            known = row.step_known & np.isfinite(seconds[whole])
            differences = np.full(len(row), np.nan)
            for name, values in seconds.items():
                is_known = known & np.isfinite(values)
                for run, low, high in runs.split(row.records.positions):
                    selected = low + np.flatnonzero(is_known[low:high])
                    key = (run.log, form.name, row.line.name, name)
                    columns = (row.ranks.rank[selected], row.step[selected], row.epoch[selected], values[selected])
                    change = self._evidence.setdefault(key, _Evidence()).add(run.index, *columns)
                    differences[selected] = change if name == whole else differences[selected]
            parts = {name: values for name, values in seconds.items() if name != whole}
            fits = fitting(parts, seconds[whole])
            difference_fits = fitting(parts, differences)
            if is_total(whole):
                fits[whole], difference_fits[whole] = (_is_sum(parts, x) for x in (seconds[whole], differences))
            for run, low, high in runs.split(row.records.positions):
                for name, fit in fits.items():
                    key = (run.log, form.name, row.line.name, name)
                    evidence, has_difference = self._evidence.setdefault(key, _Evidence()), ~np.isnan(differences)
                    is_known = known & np.isfinite(seconds[name])
                    evidence.lines += int(is_known[low:high].sum())
                    evidence.fits += int((is_known & fit)[low:high].sum())
                    evidence.differences += int((is_known & has_difference)[low:high].sum())
                    evidence.difference_fits += int((is_known & difference_fits[name])[low:high].sum())
                    if name != whole:
                        self._wholes.setdefault(key, set()).add(whole)


def _give_line(row: AttributedRows, line: Line, names: Mapping[str, str]) -> None:
    """Give rows another line. `names`: the new names of its fields."""
    row.line = line
    columns = {names.get(name, name): column for name, column in row.records.columns.items()}
    row.records = replace(row.records, columns=columns)


def _role_of_whole(name: str, evidence: _Evidence) -> str:
    if evidence.counts_on or evidence.differences_fit:
        return CLOCK
    fits = evidence.fits_mostly(as_clock=False) if is_total(name) else not evidence.may_count_on
    return STEP if fits else VALUE


def times_of(line: Line) -> list[str]:
    """Return the times of a line that need a role."""
    return sorted(line.parts | ({line.whole} if line.whole else set()))


def _seconds(rows: AttributedRows, name: str) -> Floats:
    """Return a time of each row in seconds, NaN where it has none."""
    values, unit = rows.records.columns.get(name), rows.line.unit.get(name)
    if not isinstance(values, np.ndarray) or unit is None:
        return np.full(len(rows), np.nan)
    return values * unit.factor


def fitting(parts: Mapping[str, Floats], whole: Floats) -> dict[str, Mask]:
    """Return for each time in which lines it is a part of the step: together, parts take no longer than what they are
    parts of.

    What takes longer alone is none, and the others may be. Communication may run beside computation: if the times
    agree without it, it is none. What is named after `backward` is a part of that.
    """
    parents = {name: next((x for x in COLUMNS if name.startswith(f"{x}_") and x in parts), "") for name in parts}
    wholes = {"": whole, **{name: values for name, values in parts.items() if name in COLUMNS}}
    alone = {name: values <= _ROUNDED * wholes[parents[name]] for name, values in parts.items()}

    def fit(names: Collection[str]) -> Mask:
        sums = {parent: np.zeros(len(whole)) for parent in wholes}
        for name in names:
            sums[parents[name]] += np.where(alone[name], parts[name], 0)
        fits: Mask = np.all([sums[parent] <= _ROUNDED * wholes[parent] for parent in wholes], axis=0)
        return fits

    exposed = [name for name in parts if _COMMUNICATION.isdisjoint(name.lower().split("_"))]
    all_fit, exposed_fit = fit(parts), fit(exposed)
    return {name: alone[name] & (all_fit | (exposed_fit if name in exposed else False)) for name in parts}


def _is_sum(parts: Mapping[str, Floats], whole: Floats) -> Mask:
    """Return in which lines a time is the sum of several others, or little more."""
    values = [np.where(np.isfinite(each), each, 0) for each in parts.values()]
    total = np.sum(values, axis=0) if len(values) > 1 else np.zeros(len(whole))
    is_sum: Mask = (total >= _LEAST_SUM * whole) & (total <= _ROUNDED * whole) & (total > 0)
    return is_sum


@lru_cache(1 << 10)
def line_with(line: Line, roles: tuple[tuple[str, str], ...]) -> tuple[Line, dict[str, str]]:
    """Return a line that says what its times are, and the new names of its fields."""
    names, clock = dict[str, str](), line.clock
    phases = set(line.phases)
    for name, role in roles:
        if role == PART and name not in COLUMNS:
            phases.add(name)
        elif role == STEP:
            names[name] = STEP_TIME
        elif role == CLOCK:
            clock = (name,)
        elif role == VALUE and name in COLUMNS:
            names[name] = f"{name}_since_start"
    unit = {names.get(name, name): unit for name, unit in line.unit.items()}
    template = line.template.renamed(names) if names else line.template
    return replace(line, template=template, unit=unit, phases=frozenset(phases), clock=clock), names
