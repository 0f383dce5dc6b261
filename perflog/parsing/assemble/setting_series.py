"""Numbers that a settings line prints again in one run: with another value they are a series, not a setting.

In: the numbers of settings lines, by line and key. Out: the readings of those that are series, as rows of `values`.
A number that other ranks print with other values is a setting of each rank, and one that is repeated stays a setting.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from perflog.parsing.assemble.column_values import scaled, unit_of
from perflog.parsing.assemble.line_rows import RULES, LineRows
from perflog.parsing.assemble.run_state import PrintedSetting, RunState, printed_settings
from perflog.parsing.assemble.step_repeats import by_number
from perflog.parsing.match.numeric import Ints
from perflog.tables.arrow import number_array, repeated_word, word_array
from perflog.tables.row_order import PART_BITS, PART_MASK
from perflog.tables.schema import arrow_schema
from perflog.units import Unit

MOST_HELD = 1 << 13
"""Readings that are kept of a number while it has the same value for each rank."""


@dataclass(frozen=True)
class Readings:
    """Numbers that one line prints under one key in one run: where, by which ranks, in which steps."""

    key: str
    unit: Unit | None
    values: npt.NDArray[np.float64]
    places: Ints
    ranks: Ints
    rank_rules: npt.NDArray[np.int8]
    steps: Ints
    step_known: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, setting: PrintedSetting, row: LineRows, is_number: npt.NDArray[np.bool_]) -> Readings:
        """Return the numbers of a setting that some records of a line print."""
        rows = setting.rows[is_number]
        return cls(
            setting.key,
            unit_of(row.line, setting.field),
            np.array([value for value in setting.values if isinstance(value, int | float)], np.float64),
            row.records.places[rows],
            row.ranks.rank[rows],
            row.ranks.rule[rows],
            row.step[rows],
            row.step_known[rows],
        )

    def table(self, run: int) -> pa.Table:
        """Return the readings as rows of table `values`."""
        count = len(self.places)
        columns = {
            "run": repeated_word(0, (str(run),), count),
            "line": number_array(self.places >> PART_BITS),
            "part": number_array((self.places & PART_MASK).astype(np.int32)),
            "step": number_array(self.steps, self.step_known),
            "rank": number_array(self.ranks.astype(np.int32), self.ranks >= 0),
            "rank_by": word_array(self.rank_rules, RULES),
            "key": repeated_word(0, (self.key,), count),
            "value": number_array(scaled(self.values, self.unit)),
        }
        if self.unit is not None:
            columns["unit"] = repeated_word(0, (self.unit.base,), count)
        schema = arrow_schema("values")
        arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in schema]
        return pa.Table.from_arrays(arrays, schema=schema)


@dataclass
class SettingSeries:
    """Decides whether the numbers that one line prints under one key in one run are a series."""

    is_series: bool = False
    _held: list[Readings] = field(default_factory=list)
    _count: int = 0
    _value_of: dict[int, float] = field(default_factory=dict)  # by rank

    def add(self, readings: Readings) -> Iterable[Readings]:
        """Add readings. Return those that are rows now."""
        if self.is_series:
            return [readings]
        self.is_series = self._changes(readings)
        if self.is_series:
            held, self._held = [*self._held, readings], []
            return held
        if self._count < MOST_HELD:
            self._held.append(readings)
            self._count += len(readings.places)
        return ()

    def _changes(self, readings: Readings) -> bool:
        """Return whether a rank prints another value than before."""
        for rank, rows in by_number(readings.ranks):
            values = readings.values[rows]
            first = self._value_of.setdefault(rank, float(values[0]))
            if not np.array_equal(values, np.full(len(values), first), equal_nan=True):
                return True
        return False


class SeriesOfRuns:
    """Tells the settings of runs from their series, run by run."""

    def __init__(self) -> None:
        self._by_run: dict[int, dict[tuple[str, str], SettingSeries]] = {}  # by run, then by line and key

    def add(self, run: RunState, row: LineRows, low: int, high: int) -> list[pa.Table]:
        """Add what the records `low:high` of a settings line say of a run. Return the rows of series, for `values`."""
        of_run = self._by_run.setdefault(run.index, {})
        tables = []
        for setting in printed_settings(row.line, row.records, low, high):
            series = of_run.setdefault((row.line.name, setting.key), SettingSeries())
            is_number = np.array([isinstance(value, int | float) for value in setting.values])
            if is_number.any():
                tables += [readings.table(run.index) for readings in series.add(Readings.of(setting, row, is_number))]
            if series.is_series:
                run.settings.remove_numbers(setting.key, row.line.name)
                setting = setting.where(~is_number)
            run.settings.add_setting(setting, row.line, row.records)
        run.settings.add_derived(row.line, row.records, low, high)
        return tables

    def end(self, run: RunState) -> None:
        """Forget a run that has ended. Settings of its process are none of its settings if they are its series."""
        for (line, key), series in self._by_run.pop(run.index, {}).items():
            if series.is_series:
                run.settings.remove_numbers(key, line)
