"""Records -> rows of the tables: columns in base units, scopes and ranks filled in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perflog.arrow import array, constant, nothing, text_array, words, zeros
from perflog.batch import PART, PART_BITS, Records
from perflog.columnar import Ints
from perflog.declared import Line
from perflog.families import glob
from perflog.resolve import RULES, Ranks
from perflog.schema import PER_FIELD, TABLES, Column, arrow_schema, column
from perflog.units import PRINTED, UNITS, Unit


@dataclass
class Rows:
    """The records of one line kind with all that is known about each, ready to become rows."""

    line: Line
    records: Records
    frame: Any  # run and group of each record: frames.Frame
    step: Ints
    step_known: npt.NDArray[np.bool_]
    ranks: Ranks
    inherited: dict[str, pa.Array] = field(default_factory=dict)
    copy: Ints | None = None
    averaged: Ints | None = None

    def __len__(self) -> int:
        return len(self.records)


def occurrences(group: Ints, rank: Ints) -> npt.NDArray[np.int32]:
    """k-th record of its rank within its group (a step), from 1."""
    n = len(group)
    if n == 0:
        return np.empty(0, np.int32)
    heads = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]]))
    sizes = np.diff(np.append(heads, n))
    width = int(sizes[0])
    if width <= 16 and bool((sizes == width).all()) and bool((group[heads[1:]] > group[heads[:-1]]).all()):
        who = rank.reshape(-1, width)
        out = np.ones(who.shape, np.int32)
        for j in range(1, width):
            for i in range(j):
                out[:, j] += who[:, i] == who[:, j]
        return out.ravel()
    order = np.lexsort((rank, group))
    fresh = np.ones(n, np.bool_)
    fresh[1:] = (group[order][1:] != group[order][:-1]) | (rank[order][1:] != rank[order][:-1])
    start = np.maximum.accumulate(np.where(fresh, np.arange(n), 0))
    ordinal = np.empty(n, np.int32)
    ordinal[order] = np.arange(n) - start + 1
    return ordinal


class Builder:
    """Rows of each table out of the rows of each line kind; `phases` and `keys` share one dictionary per table."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, ...]] = dict.fromkeys(PER_FIELD, ())
        self._codes: dict[tuple[str, str], int] = {}

    def _code(self, table: str, name: str) -> int:
        if (table, name) not in self._codes:
            self._codes[table, name] = len(self._names[table])
            self._names[table] = (*self._names[table], name)
        return self._codes[table, name]

    def tables(self, found: Iterable[Rows]) -> dict[str, pa.Table]:
        """The rows of one stretch of the log, by table."""
        batches: dict[str, list[pa.RecordBatch]] = {}
        rows = [r for r in found if len(r) and r.line.table not in (None, "runs")]
        for r in rows:
            for name in self._fields(r):
                self._code(*name)
        for r in rows:
            for table, batch in self._batches(r):
                batches.setdefault(table, []).append(batch)
        return {table: pa.Table.from_batches(parts, arrow_schema(table)) for table, parts in batches.items()}

    def _fields(self, r: Rows) -> list[tuple[str, str]]:
        """(table, name) of each field that is a row of its own."""
        table = r.line.table or ""
        own = [n for n in r.line.template.names if column(table, n) is None and n not in r.line.run]
        home = table if table in PER_FIELD else "values"
        helpers = {n for expr in r.line.compute.values() for n in expr.names if n.startswith("_")}
        return [(home, n) for n in own if n not in ("rank", "step") and n not in helpers]

    def _batches(self, r: Rows) -> Iterable[tuple[str, pa.RecordBatch]]:
        table = r.line.table or ""
        common = self._common(r)
        if table not in PER_FIELD:
            yield table, self._batch(table, r, {**common, **self._columns(table, r)})
        given = self._columns(table, r) if table in PER_FIELD else {}
        times: dict[int, pa.Array] = {}
        for home, name in self._fields(r):
            values = r.records.columns[name]
            unit = _unit(r.line, name)
            key, value = PER_FIELD[home]
            columns = {**common, **given}
            columns[key] = constant(self._code(home, name), self._names[home], len(r))
            if isinstance(values, np.ndarray):
                columns[value] = array(_scaled(values, unit))
            else:
                columns["text"] = values
            if home != "phases" and unit:
                columns["unit"] = constant(0, (unit.base,), len(r))
            if home == "phases":
                if not times:
                    times[0] = array(occurrences(r.frame.group, r.ranks.rank))
                columns["occurrence"] = times[0]
            yield home, self._batch(home, r, columns)

    def _common(self, r: Rows) -> dict[str, pa.Array]:
        at, ranks, part = r.records.at, r.ranks, r.records.at & PART
        rule, count = int(ranks.rule[0]), len(r)
        same = bool((ranks.rule == rule).all())
        nobody = same and rule < 0
        common = {
            "run": r.frame.run_words,
            "line": array(at >> PART_BITS),
            "part": array(part.astype(np.int32)) if part.any() else zeros(count),
            "step": r.frame.step_array if r.step is r.frame.step else array(r.step, r.step_known),
            "rank": nothing(pa.int32(), count) if nobody else array(ranks.rank.astype(np.int32), ranks.rank >= 0),
            "rank_by": constant(rule, RULES, count) if same and not nobody else words(ranks.rule, RULES),
        }
        if r.copy is not None:
            common["copy"] = array(r.copy.astype(np.int32))
        if r.averaged is not None:
            common["steps_averaged"] = array(r.averaged)
        return common

    def _columns(self, table: str, r: Rows) -> dict[str, pa.Array]:
        """The columns a line fills by name: its own fields, constants, computed values, inherited ones, maps."""
        line, out = r.line, {}
        for name, values in r.inherited.items():
            col = column(table, name)
            if col is not None:
                out[col.name] = _typed(values, col)
        for name, given in line.set.items():
            col = column(table, name)
            if col is not None:
                out[col.name] = _typed(constant(0, (str(given),), len(r)), col)
        for name in line.template.names:
            col = column(table, name)
            if col is None or name in ("rank", "step") or name in line.run:
                continue
            values = r.records.columns[name]
            if isinstance(values, np.ndarray):
                unit = _unit(line, name)
                # Whole numbers stay whole: a double holds only 53 bits of them.
                whole = unit is None and values.dtype == np.int64
                if col.unit == "ns":
                    values = array(_in_ns(values, unit))
                elif unit is not None and unit.base == "B" and col.type == "int64":
                    values = array(np.rint(_scaled(values, unit)))  # a size is printed rounded
                else:
                    values = array(values.copy() if whole else _scaled(values, unit))
            out[col.name] = _typed(values, col)
        for name, expr in line.compute.items():
            col = column(table, name)
            if col is not None and name != "step":
                out[col.name] = _typed(array(np.asarray(expr(r.records.columns), np.float64)), col)
        self._mapped(table, r, out)
        return out

    def _mapped(self, table: str, r: Rows, out: dict[str, pa.Array]) -> None:
        for target in dict.fromkeys(row[0] for row in r.line.map):
            text: list[str | None] = [None] * len(r)
            for _, source, pattern, value in (row for row in r.line.map if row[0] == target):
                values = out[source].cast(pa.string()).to_pylist() if source in out else [None] * len(r)
                regex = glob(pattern)
                text = [t if t is not None or not regex(v or "") else value for t, v in zip(text, values, strict=True)]
            col = next(c for c in TABLES[table] if c.name == target)
            out[target] = _typed(text_array(text), col)

    def _batch(self, table: str, r: Rows, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        schema = arrow_schema(table)
        full = [columns[f.name] if f.name in columns else _nulls(table, f.name, len(r)) for f in schema]
        return pa.RecordBatch.from_arrays(full, schema=schema)


def _nulls(table: str, name: str, count: int) -> pa.Array:
    field = arrow_schema(table).field(name)
    if field.nullable:
        return nothing(field.type, count)
    one = {"copy": 1, "occurrence": 1, "steps_averaged": 1}
    return array(np.full(count, one[name], np.int64 if field.type == pa.int64() else np.int32))


def _unit(line: Line, name: str) -> Unit | None:
    """The unit of a field: as declared, or that of what is printed with its unit."""
    kind = next(f.type for f in line.template.fields if f.name == name)
    return line.unit.get(name) or (UNITS[PRINTED[kind][0]] if kind in PRINTED else None)


def _scaled(values: npt.NDArray[Any], unit: Unit | None) -> npt.NDArray[np.float64]:
    if unit is None or unit.factor == 1.0:
        return values.astype(np.float64)  # a copy: the batch's memory is used again
    return values * unit.factor


def _in_ns(values: npt.NDArray[Any], unit: Unit | None) -> npt.NDArray[np.int64]:
    """Whole nanoseconds: of the time since 1970 a double holds no more than a quarter of a microsecond."""
    if values.dtype == np.int64:
        return values * np.int64(1 if unit is None else round(unit.factor / UNITS["ns"].factor))
    return np.rint(values * (1.0 if unit is None else unit.factor / UNITS["ns"].factor)).astype(np.int64)


def _typed(values: pa.Array, col: Column) -> pa.Array:
    """A column cast to its schema type. Numbers a text column gets keep their printed form."""
    if col.type == "word":
        if pa.types.is_dictionary(values.type):
            return values.cast(pa.dictionary(pa.int32(), pa.string()))
        return values.cast(pa.string()).dictionary_encode()
    if col.type == "text":
        return values.cast(pa.string())
    target = {"int64": pa.int64(), "int32": pa.int32(), "float64": pa.float64()}[col.type]
    if pa.types.is_dictionary(values.type):
        values = values.cast(pa.string())
    if values.type == target:
        return values
    try:
        return pc.cast(values, target, safe=target != pa.float64())
    except pa.ArrowInvalid:  # a number with a fraction, or too large for the column
        return pa.concat_arrays([_cast_one(values.slice(i, 1), target) for i in range(len(values))])


def _cast_one(value: pa.Array, target: pa.DataType) -> pa.Array:
    try:
        return pc.cast(value, target)
    except pa.ArrowInvalid:
        return nothing(target, 1)
