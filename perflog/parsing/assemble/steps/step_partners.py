"""Figures of a library for a step, brought into the rows of table `steps`.

In: the step rows of programs, and the rows of libraries that print figures of a step, such as DeepSpeed's samples/s
inside another trainer, or of a program that prints a step on several lines (`fills_steps`). Out: columns of `steps`
that the rows do not print by themselves. The figures stay in table `values` too, where each has its own line.

Two counters of one name need not count the same: micro-steps, or steps since a restart. So the rows meet only if the
order of the log bears it out: a library prints a step between the program's steps before and after it, or both print
the same steps. Of a run in which no program prints a step, the library's rows are its steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from perflog.arrays import Floats, Ints, Mask
from perflog.formats.model import Format, Line
from perflog.formats.vocabulary import PLACES, field_of, plain_name
from perflog.parsing.assemble.attributed_rows import AttributedRows
from perflog.parsing.assemble.column_values import computed, field_values, typed, unit_of
from perflog.tables.arrow import numbers_of
from perflog.tables.schema import TABLES, TableColumn, column_for

_IN_ORDER = 0.9  # share of the library's lines that are between the steps before and after theirs
_SAME_STEPS = 3  # so many steps that both print, and no others, are no chance


def is_partner(form: Format, line: Line) -> bool:
    """Return whether rows of a line add columns to the steps: rows of a library, and of lines that declare it."""
    return (form.library or line.fills_steps) and bool(step_columns(line))


@lru_cache(1 << 10)
def step_columns(line: Line) -> tuple[tuple[str, TableColumn], ...]:
    """Return the fields of a line that are columns of `steps`, if the line knows its step; else ()."""
    if line.table != "values" or not (line.fills_steps or "step" in line.template.names):
        return ()
    if _prints_names(line):
        return tuple(("value", column) for column in TABLES["steps"] if _is_plain(column))
    names = [f.name for f in line.template.fields if f.numeric and not f.is_dropped]
    fields = [(name, column_for("steps", name) or _known(line, name)) for name in names]
    computed_columns = [(name, column_for("steps", name)) for name in line.compute if line.fills_steps]
    return tuple(
        (name, column)
        for name, column in (*fields, *computed_columns)
        if column is not None and column.type == "float64" and (name in line.compute or _has_unit(line, name, column))
    )


def _known(line: Line, name: str) -> TableColumn | None:
    """Return the column of a quantity that a program of any kind prints under this name, if its line fills steps."""
    return column_for("steps", field_of(name)) if line.fills_steps and field_of(name) not in ("", *PLACES) else None


def _has_unit(line: Line, name: str, column: TableColumn) -> bool:
    """Return whether a number has the unit of a column: without one, nobody knows what `step_time: 412` is in."""
    unit = unit_of(line, name)
    return (unit.base if unit is not None else "") == (column.unit or "")


def _prints_names(line: Line) -> bool:
    """Return whether each record prints the name of its value."""
    return {"key", "value"} <= {*line.template.names}


def _is_plain(column: TableColumn) -> bool:
    """Return whether a number fills the column that is printed under its name, without a unit."""
    return column.by_field and column.type == "float64" and not column.unit


@lru_cache(1 << 10)
def _as_steps(line: Line) -> Line:
    return replace(line, table="steps")


class _Printed(Struct, frozen=True):
    """Rows with a step, in log order: position, number of the run, step, rank (-1: not known), and the row's index."""

    positions: Ints
    runs: Ints
    steps: Ints
    ranks: Ints
    kinds: Ints
    rows: Ints

    @classmethod
    def of(cls, kinds: Sequence[AttributedRows]) -> _Printed:
        parts = [_with_step(kind, i) for i, kind in enumerate(kinds)]
        table = np.hstack(parts) if parts else np.empty((6, 0), np.int64)
        return cls(*table[:, np.argsort(table[0], kind="stable")])

    def in_run(self, run: int) -> _Printed:
        chosen = self.runs == run
        return _Printed(*(column[chosen] for column in (
            self.positions, self.runs, self.steps, self.ranks, self.kinds, self.rows
        )))  # fmt: skip


def _with_step(kind: AttributedRows, number: int) -> Ints:
    rows = np.flatnonzero(kind.step_known)
    columns = kind.records.positions, kind.groups.run_number, kind.step, kind.ranks.rank
    return np.vstack([*(column[rows] for column in columns), np.full(len(rows), number), rows]).astype(np.int64)


class StepPartners:
    """Brings the figures of libraries into the steps of programs, stretch by stretch of the log."""

    def __init__(self) -> None:
        self._led: set[int] = set()  # runs in which a program has printed steps

    def join(
        self, steps: Sequence[AttributedRows], library_rows: Sequence[AttributedRows]
    ) -> dict[int, AttributedRows]:
        """Fill columns of step rows. Return the library's rows that are steps, by the `id` of what they replace."""
        library_rows = [row for row in library_rows if step_columns(row.line)]
        for row in steps:
            runs = row.groups.run_number[row.step_known]  # in log order, so equal ones are adjacent
            self._led.update(runs[np.flatnonzero(np.diff(runs, prepend=-1))].tolist())
        if not library_rows:
            return {}
        program = _Printed.of(steps)
        library = _Printed.of(library_rows)
        for run in np.unique(library.runs).tolist():
            if run in self._led:
                _fill(steps, program.in_run(run), library_rows, library.in_run(run))
        return self._own_steps(library_rows)

    def _own_steps(self, library_rows: Sequence[AttributedRows]) -> dict[int, AttributedRows]:
        """Return the library's rows as steps, of runs in which no program prints any: those with most columns."""
        own = [row for row in library_rows if not _prints_names(row.line) and row.step_known.any()]
        free = [row for row in own if self._led.isdisjoint(row.groups.run_number.tolist())]
        if not free:
            return {}
        names = {row.line.name for row in free}
        most = max(sorted(names), key=lambda name: max(len(step_columns(r.line)) for r in free if r.line.name == name))
        chosen = [row for row in free if row.line.name == most]
        own = [replace(row, line=_as_steps(row.line)) for row in chosen]
        others = [row for row in free if row.line.name != most]
        mine, theirs = _Printed.of(own), _Printed.of(others)
        for run in np.unique(theirs.runs).tolist():
            _fill(own, mine.in_run(run), others, theirs.in_run(run))
        return {id(row): steps for row, steps in zip(chosen, own, strict=True)}

    def end(self, run: int) -> None:
        """Forget a run that has ended."""
        self._led.discard(run)


def _fill(
    steps: Sequence[AttributedRows], program: _Printed, library_rows: Sequence[AttributedRows], library: _Printed
) -> None:
    """Fill columns of the step rows of a run that the program prints in none of its rows, if both count the same."""
    if not len(program.positions) or not _counts_the_same(program, library):
        return
    partners = _partners(program, library)
    printed = {
        column.name for i in np.unique(program.kinds).tolist() for column in _columns_printed(steps[i])
    }  # fmt: skip
    for kind, name, column in _fields(library_rows):
        if column.name in printed:
            continue
        row = library_rows[kind]
        chosen = np.flatnonzero((library.kinds == kind) & (partners >= 0))
        chosen = chosen[_is_named(row, column)[library.rows[chosen]]] if _prints_names(row.line) else chosen
        numbers = _numbers(row, name, column)[library.rows[chosen]]
        to = partners[chosen]
        for target in np.unique(program.kinds[to]).tolist():
            is_in_target = program.kinds[to] == target
            joined = steps[target].joined.setdefault(column.name, np.full(len(steps[target]), np.nan))
            rows = program.rows[to[is_in_target]]
            joined[rows] = np.where(np.isnan(joined[rows]), numbers[is_in_target], joined[rows])


def _is_named(rows: AttributedRows, column: TableColumn) -> Mask:
    """Return which rows name a column. Each row prints the name of its value."""
    keys = pa.array(rows.records.columns["key"], pa.string()).dictionary_encode()
    names = np.array([plain_name(key) == column.name for key in keys.dictionary.to_pylist()], np.bool_)
    named: Mask = names[numbers_of(keys.indices)]
    return named


def _numbers(rows: AttributedRows, name: str, column: TableColumn) -> Floats:
    """Return the numbers of a field or of a computed column in base units, NaN for null."""
    if name in rows.line.compute:
        return computed(rows.line, name, rows.records.columns, len(rows)).astype(np.float64)
    values = typed(field_values(rows.records.columns[name], column, rows.line, name), column)
    return numbers_of(pc.fill_null(values, float("nan")))


def _fields(library_rows: Sequence[AttributedRows]) -> Iterator[tuple[int, str, TableColumn]]:
    for kind, row in enumerate(library_rows):
        for name, column in step_columns(row.line):
            if name in row.line.compute or isinstance(row.records.columns.get(name), np.ndarray):
                yield kind, name, column


def _columns_printed(rows: AttributedRows) -> Iterator[TableColumn]:
    """The columns of `steps` that the rows fill by themselves."""
    for name in (*rows.line.template.names, *rows.line.set, *rows.line.compute):
        column = column_for("steps", name)
        if column is not None:
            yield column


def _counts_the_same(program: _Printed, library: _Printed) -> bool:
    """Return whether the steps of two programs are the same: by their order in the log, or because all are equal."""
    after = np.searchsorted(program.positions, library.positions)
    count = len(program.positions)
    before_step = program.steps[np.maximum(after - 1, 0)]
    after_step = program.steps[np.minimum(after, count - 1)]
    has_before, has_after = after > 0, after < count
    equal = (has_before & (before_step == library.steps)) | (has_after & (after_step == library.steps))
    between = (~has_before | (before_step <= library.steps)) & (~has_after | (library.steps <= after_step))
    in_order = float(np.mean(equal | between))
    mine, theirs = np.unique(program.steps), np.unique(library.steps)
    if not len(np.intersect1d(mine, theirs)):
        return False
    return in_order >= _IN_ORDER or (len(mine) >= _SAME_STEPS and np.array_equal(mine, theirs))


def _partners(program: _Printed, library: _Printed) -> Ints:
    """Return the index of the program's row of the same step and rank, the nearest of several; -1 if there is none.

    A line without a rank belongs to no row where several ranks print the step.
    """
    order = np.lexsort((program.positions, program.steps))
    steps = program.steps[order]
    low, high = np.searchsorted(steps, library.steps, "left"), np.searchsorted(steps, library.steps, "right")
    partners = np.full(len(library.positions), -1, np.int64)
    for i in np.flatnonzero(high > low).tolist():
        rows = order[low[i] : high[i]]
        rank, ranks = library.ranks[i], program.ranks[rows]
        if rank >= 0:
            rows = rows[(ranks == rank) | (ranks < 0)]
        elif rank < -1:  # of a process without a known rank
            rows = rows[(ranks == rank) | (ranks == -1)]
        elif len(np.unique(ranks)) > 1:
            continue
        if len(rows):
            partners[i] = rows[np.argmin(np.abs(program.positions[rows] - library.positions[i]))]
    return partners
