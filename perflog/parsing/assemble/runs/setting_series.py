"""Settings that a line prints again in one run: with another value they are a series, not a setting.

In: the numbers of settings lines, and the settings that lines of figures print without a declaration, by line and key.
Out: the readings of those that are series, as rows of `values`. A number that other ranks print with other values is a
setting of each rank, and one that is repeated stays a setting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct, field

from perflog.arrays import Ints, Mask
from perflog.formats.model import Line
from perflog.parsing.assemble.attributed_rows import RULES, AttributedRows
from perflog.parsing.assemble.column_values import scaled, unit_of
from perflog.parsing.assemble.runs.run_state import PrintedSetting, RunState, printed_settings
from perflog.parsing.assemble.steps.step_repeats import by_number
from perflog.tables.arrow import null_array, number_array, repeated_word, text_array, word_array
from perflog.tables.row_order import PART_BITS, PART_MASK
from perflog.tables.schema import arrow_schema

MOST_HELD = 1 << 13
"""Readings that are kept of a number while it has the same value for each rank."""


class RecordRows(Struct, frozen=True):
    """What the rows of `values` say of the records `low:high` of a line: where, by which ranks, in which steps."""

    low: int
    positions: Ints
    ranks: Ints
    rank_rules: npt.NDArray[np.int8]
    steps: Ints
    step_known: Mask

    @classmethod
    def of(cls, rows: AttributedRows, low: int, high: int) -> RecordRows:
        """Return a copy of what a line has of its records: the memory of a batch is used again."""
        part, ranks = slice(low, high), rows.ranks
        positions, steps, step_known = rows.records.positions[part], rows.step[part], rows.step_known[part]
        return cls(
            low, positions.copy(), ranks.rank[part].copy(), ranks.rule[part].copy(), steps.copy(), step_known.copy()
        )


class Readings(NamedTuple):
    """Numbers or strings that one line prints under one key in one run. `printed.values` may be one for all rows."""

    printed: PrintedSetting
    line: Line
    records: RecordRows

    @property
    def are_texts(self) -> bool:
        return isinstance(self.printed.values[0], str)

    @property
    def values(self) -> npt.NDArray[Any]:
        """The value of each row."""
        values = np.array(self.printed.values, object if self.are_texts else np.float64)
        return np.broadcast_to(values, len(self.printed.rows)) if len(values) == 1 else values

    @property
    def selection(self) -> slice | Ints:
        """The rows in `records`."""
        rows, low = self.printed.rows, self.records.low
        if isinstance(rows, range):
            return slice(rows.start - low, rows.stop - low)
        return np.array(rows, np.int64) - low

    def table(self, run: int) -> pa.Table:
        """Return the readings as rows of table `values`."""
        rows, records = self.selection, self.records
        count, positions, ranks = len(self.printed.rows), records.positions[rows], records.ranks[rows]
        unit = unit_of(self.line, self.printed.field)
        columns = {
            "run": repeated_word(0, (str(run),), count),
            "line": number_array(positions >> PART_BITS),
            "part": number_array((positions & PART_MASK).astype(np.int32)),
            "step": number_array(records.steps[rows], records.step_known[rows]),
            "rank": number_array(ranks.astype(np.int32), ranks >= 0),
            "rank_by": word_array(records.rank_rules[rows], RULES),
            "key": repeated_word(0, (self.printed.key,), count),
        }
        if self.are_texts:
            columns["text"] = text_array(self.values)
        else:
            columns["value"] = number_array(scaled(self.values, unit))
        if unit is not None:
            columns["unit"] = repeated_word(0, (unit.base,), count)
        schema = arrow_schema("values")
        arrays = [columns[f.name] if f.name in columns else null_array(f.type, count) for f in schema]
        return pa.Table.from_arrays(arrays, schema=schema)


class SettingSeries(Struct):
    """Decides whether the values that one line prints under one key in one run are a series."""

    is_series: bool = False
    _held: list[Readings] = field(default_factory=list)
    _count: int = 0
    _value_of: dict[int, Any] = field(default_factory=dict)  # by rank

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
            self._count += len(readings.printed.rows)
        return ()

    def _changes(self, readings: Readings) -> bool:
        """Return whether a rank prints another value than before."""
        records, numbers = readings.records, readings.printed
        if len(numbers.values) == 1:  # the common case: one record, or all ranks print the same number
            value, row = numbers.values[0], numbers.rows[0] - records.low
            if len(numbers.rows) == 1:
                return _differ(self._value_of.setdefault(records.ranks.item(row), value), value)
            ranks = {*records.ranks[readings.selection].tolist()}
            return any(_differ(self._value_of.setdefault(rank, value), value) for rank in ranks)
        all_values = readings.values
        for rank, rows in by_number(records.ranks[readings.selection]):
            values = all_values[rows]
            first = self._value_of.setdefault(rank, values.item(0))
            if not np.array_equal(values, np.full(len(values), first, values.dtype), equal_nan=not readings.are_texts):
                return True
        return False


def _differ(first: object, value: object) -> bool:
    return bool(value != first and (value == value or first == first))  # nan differs from itself


class SeriesOfRuns:
    """Tells the settings of runs from their series, run by run."""

    def __init__(self) -> None:
        # By run, then by line, key and whether it is a string. A value that one record has printed is no series yet.
        self._by_run: dict[int, dict[tuple[str, str, bool], Readings | SettingSeries]] = {}

    def add(self, run: RunState, row: AttributedRows, low: int, high: int) -> list[pa.Table]:
        """Add what the records `low:high` of a line say of a run. Return the rows of series, for `values`."""
        run_series = self._by_run.setdefault(run.index, {})
        tables = []
        records = RecordRows.of(row, low, high)
        for setting in printed_settings(row.line, row.records, low, high):
            for values in setting.numbers_and_texts():
                if values is None:
                    continue
                if not _may_be_series(row.line, values):
                    run.settings.add_setting(values, row.line, row.records)
                    continue
                readings = Readings(values, row.line, records)
                name = row.line.name, setting.key, readings.are_texts
                if name not in run_series and len(values.rows) == 1:  # the common case
                    run_series[name] = readings
                    run.settings.add_setting(values, row.line, row.records)
                    continue
                series = run_series[name] = _series(run_series.get(name))
                tables += [rows.table(run.index) for rows in series.add(readings)]
                if series.is_series:
                    run.settings.remove(setting.key, row.line.name, readings.are_texts)
                else:
                    run.settings.add_setting(values, row.line, row.records)
        if row.line.table == "runs":
            run.settings.add_derived(row.line, row.records, low, high)
        return tables

    def end(self, run: RunState) -> None:
        """Forget a run that has ended. Settings of its process are none of its settings if they are its series."""
        for (line, key, are_texts), series in self._by_run.pop(run.index, {}).items():
            if isinstance(series, SettingSeries) and series.is_series:
                run.settings.remove(key, line, are_texts)


def _may_be_series(line: Line, values: PrintedSetting) -> bool:
    """Return whether values are a series if they change: numbers of a settings line, settings that nobody declared."""
    value = values.values[0]
    if line.table == "runs":
        return isinstance(value, int | float)
    return values.field in line.paths and isinstance(value, int | float | str)


def _series(known: Readings | SettingSeries | None) -> SettingSeries:
    """Return what decides about a number, with the only reading that is known of it."""
    if isinstance(known, SettingSeries):
        return known
    series = SettingSeries()
    if known is not None:
        series.add(known)
    return series
