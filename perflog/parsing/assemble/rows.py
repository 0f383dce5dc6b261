"""Records -> rows of the tables: columns in base units, scopes and ranks filled in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from perflog.formats.families.base import NO_NAME, glob
from perflog.formats.model import Line, SecondRow
from perflog.parsing.assemble.column_values import numbers, read, scaled, typed, unit_of
from perflog.parsing.assemble.rank_votes import RULES, RecordRanks
from perflog.parsing.match.numeric import Ints
from perflog.parsing.match.records import Records
from perflog.tables.arrow import null_array, number_array, repeated_word, text_array, word_array, zero_array
from perflog.tables.row_order import PART_BITS, PART_MASK
from perflog.tables.schema import PER_FIELD, TABLES, arrow_schema, column_for


@dataclass
class LineRows:
    """The records of one line kind with all that is known about each, ready to become rows."""

    line: Line
    records: Records
    frame: Any  # run and group of each record: frames.Frame
    step: Ints
    step_known: npt.NDArray[np.bool_]
    ranks: RecordRanks
    inherited: dict[str, pa.Array] = field(default_factory=dict)
    copy: Ints | None = None
    averaged: Ints | None = None
    closed: bool = True  # whether lines of its format close steps

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


def keyed(r: LineRows) -> bool:
    """Whether a line names what its number is: a field, or a scope it stands in, is the table's key."""
    key, value = PER_FIELD.get(r.line.table or "", ("", ""))
    if not key or (key not in r.line.template.names and key not in r.inherited):
        return False
    return any((c := column_for(r.line.table or "", n)) is not None and c.name == value for n in r.line.template.names)


class PhaseCounter:
    """k-th time of each phase in its step, on its rank. Steps are those that closing lines make; where a line tells its
    own step, or no line closes one, the steps that a rank's records tell one after the other: what was counted of the
    last one goes on in the next stretch of the log. A record that tells no step is the first of its own.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[Line, int], tuple[Any, dict[Any, int]]] = {}

    def of(self, r: LineRows, names: Sequence[Any] | None = None) -> npt.NDArray[np.int32]:
        """The numbers of a kind's records; `names` are their phases, if they differ."""
        closed = r.closed and r.step is r.frame.step
        if names is None and closed:
            return occurrences(r.frame.group, r.ranks.rank)
        names = names or [None] * len(r)
        codes = {name: k for k, name in enumerate(dict.fromkeys(names))}
        who = r.ranks.rank * len(codes) + np.array([codes[name] for name in names], np.int64)
        if closed:
            return occurrences(r.frame.group, who)
        order = np.argsort(r.ranks.rank, kind="stable")
        rank, run, step, known = (x[order] for x in (r.ranks.rank, r.frame.run, r.step, r.step_known))
        other = np.diff(rank) != 0
        fresh = other | (np.diff(run) != 0) | (np.diff(step) != 0) | ~(known[1:] & known[:-1])
        group = np.empty(len(r), np.int64)
        group[order] = np.concatenate([[0], np.cumsum(fresh)])
        found = occurrences(group, who)
        for mine in np.split(order, np.flatnonzero(other) + 1):
            self._go_on(r, mine, group[mine], names, found)
        return found

    def _go_on(self, r: LineRows, mine: Ints, group: Ints, names: Sequence[Any], found: npt.NDArray[np.int32]) -> None:
        """Count the first step of a rank on from where the last stretch left it, and remember its last."""
        key = r.line, int(r.ranks.rank[mine[0]])
        before, counted = self._last.get(key, (None, {}))
        if self._place(r, mine[0]) == before:
            for i in mine[group == group[0]].tolist():
                found[i] += counted.get(names[i], 0)
        place = self._place(r, mine[-1])
        told = {names[i]: int(found[i]) for i in mine[group == group[-1]].tolist()}
        self._last[key] = place, (counted | told if place == before else told)

    def _place(self, r: LineRows, i: int) -> Any:
        """The run and step of a record; without one nothing is equal to it."""
        return (r.frame.run_words[i].as_py(), int(r.step[i])) if r.step_known[i] else math.nan


def _named(table: str, r: LineRows, given: Mapping[str, pa.Array], counts: PhaseCounter) -> dict[str, pa.Array]:
    """The columns of lines that name what their number is."""
    key, value = PER_FIELD[table]
    texts = pc.replace_substring_regex(given[key].cast(pa.string()), pattern=NO_NAME, replacement="_")
    texts = pc.utf8_trim(texts, characters="_").fill_null("unnamed")
    out = {**given, key: texts.dictionary_encode()}
    if table == "phases":
        out["occurrence"] = number_array(counts.of(r, texts.to_pylist()))
    units = [u for n, u in r.line.unit.items() if (c := column_for(table, n)) is not None and c.name == value]
    return out | ({"unit": repeated_word(0, (units[0].base,), len(r))} if units and table != "phases" else {})


class TableBuilder:
    """Rows of each table out of the rows of each line kind; `phases` and `keys` share one dictionary per table."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, ...]] = dict.fromkeys(PER_FIELD, ())
        self._codes: dict[tuple[str, str], int] = {}
        self._counts = PhaseCounter()

    def _code(self, table: str, name: str) -> int:
        if (table, name) not in self._codes:
            self._codes[table, name] = len(self._names[table])
            self._names[table] = (*self._names[table], name)
        return self._codes[table, name]

    def tables(self, found: Iterable[LineRows]) -> dict[str, pa.Table]:
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

    def _fields(self, r: LineRows) -> list[tuple[str, str]]:
        """(table, name) of each field that is a row of its own."""
        table = r.line.table or ""
        second = r.line.again.fields.values() if r.line.again else ()
        helpers = {n for expr in r.line.compute.values() for n in expr.names if n.startswith("_")}
        placed = {"rank", "step", *r.line.run, *second, *helpers}
        home = table if table in PER_FIELD and not keyed(r) else "values"
        return [(home, n) for n in r.line.template.names if column_for(table, n) is None and n not in placed]

    def _batches(self, r: LineRows) -> Iterable[tuple[str, pa.RecordBatch]]:
        table = r.line.table or ""
        common = self._common(r)
        per_line = table not in PER_FIELD or keyed(r)
        given = self._columns(table, r)
        if per_line:
            told = _named(table, r, given, self._counts) if keyed(r) else given
            yield table, self._batch(table, r, {**common, **told})
            if r.line.again:
                yield table, self._batch(table, r, {**common, **self._columns(table, r, r.line.again)})
            given = {}
        times: dict[int, pa.Array] = {}
        for home, name in self._fields(r):
            values = r.records.columns[name]
            unit = unit_of(r.line, name)
            key, value = PER_FIELD[home]
            columns = {**common, **given}
            columns[key] = repeated_word(self._code(home, name), self._names[home], len(r))
            if isinstance(values, np.ndarray):
                columns[value] = number_array(scaled(values, unit))
            else:
                columns["text"] = values
            if home != "phases" and unit:
                columns["unit"] = repeated_word(0, (unit.base,), len(r))
            if home == "phases":
                if not times:
                    times[0] = number_array(self._counts.of(r))
                columns["occurrence"] = times[0]
            yield home, self._batch(home, r, columns)

    def _common(self, r: LineRows) -> dict[str, pa.Array]:
        at, ranks, part = r.records.places, r.ranks, r.records.places & PART_MASK
        rule, count = int(ranks.rule[0]), len(r)
        same = bool((ranks.rule == rule).all())
        nobody = same and rule < 0
        common = {
            "run": r.frame.run_words,
            "line": number_array(at >> PART_BITS),
            "part": number_array(part.astype(np.int32)) if part.any() else zero_array(count),
            "step": r.frame.step_array if r.step is r.frame.step else number_array(r.step, r.step_known),
            "rank": null_array(pa.int32(), count)
            if nobody
            else number_array(ranks.rank.astype(np.int32), ranks.rank >= 0),
            "rank_by": repeated_word(rule, RULES, count) if same and not nobody else word_array(ranks.rule, RULES),
        }
        if r.copy is not None:
            common["copy"] = number_array(r.copy.astype(np.int32))
        if r.averaged is not None:
            common["steps_averaged"] = number_array(r.averaged)
        return common

    def _columns(self, table: str, r: LineRows, again: SecondRow | None = None) -> dict[str, pa.Array]:  # noqa: C901
        """The columns a line fills by name: its own fields, constants, computed values, inherited ones, maps.

        `again`: those of its second row.
        """
        line, out = r.line, {}
        fields, constants = dict(zip(line.template.names, line.template.names, strict=True)), {**line.set}
        if again:
            fields.update(again.fields)
            constants.update(again.set)
        for name, values in r.inherited.items():
            col = column_for(table, name)
            if col is not None:
                out[col.name] = typed(values, col)
        for name, given in constants.items():
            col = column_for(table, name)
            if col is not None:
                out[col.name] = typed(repeated_word(0, (str(given),), len(r)), col)
        for name, source in fields.items():
            col = column_for(table, name)
            if col is None or name in ("rank", "step") or name in line.run:
                continue
            values = r.records.columns[source]
            if isinstance(values, np.ndarray):
                values = numbers(values, col, unit_of(line, source), line.unknown.get(source))
            elif col.type not in ("word", "text"):
                values = read(values, line.unit.get(source))
            out[col.name] = typed(values, col)
        for name, expr in line.compute.items():
            col = column_for(table, name)
            if col is not None and name != "step":
                out[col.name] = typed(number_array(np.asarray(expr(r.records.columns), np.float64)), col)
        self._mapped(table, r, out)
        return out

    def _mapped(self, table: str, r: LineRows, out: dict[str, pa.Array]) -> None:
        for target in dict.fromkeys(row[0] for row in r.line.map):
            text: list[str | None] = [None] * len(r)
            for _, source, pattern, value in (row for row in r.line.map if row[0] == target):
                values = out[source].cast(pa.string()).to_pylist() if source in out else [None] * len(r)
                regex = glob(pattern)
                text = [t if t is not None or not regex(v or "") else value for t, v in zip(text, values, strict=True)]
            col = next(c for c in TABLES[table] if c.name == target)
            out[target] = typed(text_array(text), col)

    def _batch(self, table: str, r: LineRows, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        schema = arrow_schema(table)
        full = [columns[f.name] if f.name in columns else _nulls(table, f.name, len(r)) for f in schema]
        return pa.RecordBatch.from_arrays(full, schema=schema)


def _nulls(table: str, name: str, count: int) -> pa.Array:
    field = arrow_schema(table).field(name)
    if field.nullable:
        return null_array(field.type, count)
    one = {"copy": 1, "occurrence": 1, "steps_averaged": 1}
    return number_array(np.full(count, one[name], np.int64 if field.type == pa.int64() else np.int32))
