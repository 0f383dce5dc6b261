"""Times on lines of their own, below the heading of a step or after its line.

    Step 12                        step 12 loss 2.31 step_time 0.41s
      forward: 121 ms              timers: fwd 121 ms | bwd 240 ms
      backward: 240 ms
      total: 371 ms                12.3K tokens/s

In: the rows of a format, with their steps. Out: the same rows: a line of timers has the step of the line above it, and
the times of each step are together, so that `time_roles` can decide what they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.arrays import Floats, Ints, Mask
from perflog.formats.families.step_parts import COLUMNS, STEP_TIME, is_total, may_be_part, time_of_step
from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.formats.vocabulary import field_of
from perflog.parsing.assemble.attributed_rows import AttributedRows, RecordRanks
from perflog.parsing.assemble.runs.run_state import RunIndex
from perflog.parsing.match.records import Records
from perflog.tables.schema import column_for
from perflog.units import UNITS

PART, STEP = "part", "step"
"""Roles of a time. A part has a row in table `phases`, or a column."""

BESIDE = ""
"""Name of the line that has the times of a step which are printed on several lines."""

_ALTERNATE = 0.9  # share of the lines of timers that come after the line of another step
_AFTER_MOST = 0.5  # share of the steps that have one: a single one may be of the whole run
_RATES = ("tokens_per_s", "samples_per_s")


def give_steps(rows: Sequence[AttributedRows], runs: RunIndex) -> None:
    """Give lines of timers and rates the step of the line above them, in runs where both alternate.

    A line without a rank is of no step where several ranks print steps.
    """
    timers = [row for row in rows if len(row) and not row.step_known.any() and _is_of_timers(row.line)]
    steps = [row for row in rows if row.line.table == "steps" and row.step_known.any()]
    if not timers or not steps:
        return
    ranks = np.unique(np.concatenate([row.ranks.rank[row.step_known] for row in steps])).tolist()
    for rank in ranks:
        printed = _Steps.of(steps, rank)
        run_of_step = runs.indices_at(printed.positions)
        for name in dict.fromkeys(row.line.name for row in timers):
            shapes = [
                (row, (row.ranks.rank == rank) | ((row.ranks.rank == -1) & (len(ranks) == 1)))
                for row in timers
                if row.line.name == name
            ]
            positions = np.sort(np.concatenate([row.records.positions[mine] for row, mine in shapes]))
            for run, low, high in runs.split(positions):
                is_in_run = run_of_step == run.index - runs.first_number
                if _alternate(printed.positions[is_in_run], positions[low:high]):
                    for row, mine in shapes:
                        _give(row, mine & np.isin(row.records.positions, positions[low:high]), printed)


def _alternate(steps: Ints, timers: Ints) -> bool:
    """Return whether most of the lines of steps have a line of timers below them, and hardly any has two."""
    above = np.searchsorted(steps, timers) - 1
    count = len(np.unique(above))
    return bool(above[0] >= 0) and count >= max(2, _ALTERNATE * len(above), _AFTER_MOST * len(steps))


def _give(row: AttributedRows, chosen: Mask, printed: _Steps) -> None:
    """Give some rows the steps of the lines above them."""
    index = np.searchsorted(printed.positions, row.records.positions) - 1
    row.step = np.where(chosen, printed.steps[index], row.step)
    row.step_known = row.step_known | chosen


@lru_cache(1 << 10)
def _is_of_timers(line: Line) -> bool:
    """Return whether a line has nothing but the times of parts of a step, among them both passes, or its rate."""
    if line.table != "values" or not line.fills_steps:
        return False
    names = [f.name for f in line.template.fields if f.numeric and not f.is_dropped and f.name != "rank"]
    are_times = all(name in line.unit and line.unit[name].base in ("s", "1") for name in names)
    times = {field_of(name) for name in names if name in line.unit and line.unit[name].base == "s"}
    return (are_times and times.issuperset(COLUMNS)) or (len(names) == 1 and field_of(names[0]) in _RATES)


_Times = tuple[AttributedRows, Mapping[str, str]]
"""Rows, and the names of their times in all lines by field."""


class TimesBeside(Struct, frozen=True):
    """The times of the steps of a format that are printed on several lines.

    Attributes:
        together: A row for each step, with all its times: as if one line printed them.
        rows: The rows of values with some of these times, and the names of each in `together`.
    """

    together: AttributedRows
    rows: Sequence[_Times]


def times_beside(rows: Sequence[AttributedRows]) -> TimesBeside | None:
    """Return the times of steps that lines of values print; None if nothing among them may be the time of a step."""
    found = [(row, names) for row in rows if (names := _times(row))]
    has_steps = any(row.line.table == "steps" and row.step_known.any() for row in rows)
    if not has_steps or not any(row.line.table == "values" for row, _ in found):
        return None
    units = {name: row.line.unit[key] for row, names in found for key, name in names.items()}
    whole = STEP_TIME if STEP_TIME in units else time_of_step(units)
    parts = frozenset(name for name in units if name != whole and not is_total(name))
    if not whole or not parts:
        return None
    unit = dict.fromkeys(sorted(units), UNITS["s"])
    line = Line(BESIDE, Template(""), table="steps", unit=unit, parts=parts, whole=whole, within="epoch")
    together = _together(rows, found, line)
    return TimesBeside(together, [(row, names) for row, names in found if row.line.table == "values"])


def _times(row: AttributedRows) -> dict[str, str]:
    """Return the times of rows that may be parts of a step or its time, each with the name that all lines give it."""
    line = row.line
    if not (len(row) and row.step_known.any()):
        return {}
    known = [key for key, unit in line.unit.items() if unit.base == "s"]
    known = [key for key in known if isinstance(row.records.columns.get(key), np.ndarray)]
    if line.table == "steps":
        return {STEP_TIME: STEP_TIME} if STEP_TIME in known else {}
    if not line.fills_steps or line.table != "values":
        return {}
    names: dict[str, str] = {}
    for key in known:
        field = field_of(key)
        if field == STEP_TIME or (field in COLUMNS and may_be_part(key)):
            names[key] = field
        elif column_for("steps", key) is None and (is_total(key) or may_be_part(key)):
            names[key] = key
    return names


class _Steps(Struct, frozen=True):
    """The printed steps of a rank, in log order: those that are printed again at once count once."""

    positions: Ints
    steps: Ints
    epochs: Ints
    numbers: Ints

    @classmethod
    def of(cls, rows: Sequence[AttributedRows], rank: int) -> _Steps:
        chosen = [row.step_known & (row.ranks.rank == rank) for row in rows]
        columns = [
            np.stack([row.records.positions, row.step, row.epoch])[:, each]
            for row, each in zip(rows, chosen, strict=True)
        ]
        table = np.hstack(columns)
        positions, steps, epochs = table[:, np.argsort(table[0], kind="stable")]
        is_new = np.append(True, (np.diff(steps) != 0) | (np.diff(epochs) != 0))[: len(steps)]
        return cls(positions, steps, epochs, np.cumsum(is_new) - 1)

    def above(self, row: AttributedRows) -> Ints:
        """Return the number of the step above each record, -1 where the record is of another step."""
        if not len(self.steps):
            return np.full(len(row), -1)
        index = np.searchsorted(self.positions, row.records.positions, "right") - 1
        is_mine = (index >= 0) & row.step_known & (self.steps[index] == row.step)
        return np.where(is_mine, self.numbers[index], -1)


def _together(rows: Sequence[AttributedRows], found: Sequence[_Times], line: Line) -> AttributedRows:
    """Return a row for each step, in log order. A time that a step prints several times is not known."""
    steps = [row for row in rows if row.line.table == "steps" and row.step_known.any()]
    numbers: list[Ints] = []  # by rank, of each step: its first position, its number, its epoch and the rank
    seconds: list[list[Floats]] = []  # by rank, the times of each step
    for rank in np.unique(np.concatenate([row.ranks.rank for row in steps])).tolist():
        printed = _Steps.of(steps, rank)
        first = np.unique(printed.numbers, return_index=True)[1]
        columns = printed.positions[first], printed.steps[first], printed.epochs[first], np.full(len(first), rank)
        numbers.append(np.stack(columns))
        times = {name: np.full(len(first), np.nan) for name in line.unit}
        counts = {name: np.zeros(len(first), np.int64) for name in line.unit}
        for row, names in found:
            above = np.where(row.ranks.rank == rank, printed.above(row), -1)
            for key, name in names.items():
                values = row.records.columns[key] * row.line.unit[key].factor
                known = np.flatnonzero((above >= 0) & np.isfinite(values))
                times[name][above[known]] = values[known]
                np.add.at(counts[name], above[known], 1)
        seconds.append([np.where(counts[name] == 1, values, np.nan) for name, values in times.items()])
    table, values = np.hstack(numbers), np.hstack(seconds)
    order = np.argsort(table[0], kind="stable")
    positions, step, epoch, rank_of = table[:, order]
    records = Records(positions, {**dict(zip(line.unit, values[:, order], strict=True)), "epoch": epoch})
    ranks = RecordRanks(rank_of, np.full(len(order), -1, np.int8))
    return AttributedRows(line, records, steps[0].groups, step, np.ones(len(order), np.bool_), ranks, False)


@lru_cache(1 << 10)
def line_beside(line: Line, roles: tuple[tuple[str, str, str], ...]) -> tuple[Line, dict[str, str]]:
    """Return a line of values that says what its times are, and the new names of its fields.

    `roles`: a field, the name of its time in all lines, and its role.
    """
    names = {key: STEP_TIME for key, _, role in roles if role == STEP}
    names |= {key: f"{name}_since_start" for key, name, role in roles if role not in (PART, STEP) and name in COLUMNS}
    phases = frozenset(key for key, name, role in roles if role == PART and name not in COLUMNS)
    unit = {names.get(name, name): unit for name, unit in line.unit.items()}
    template = line.template.renamed(names) if names else line.template
    return replace(line, template=template, unit=unit, phases=phases), names
