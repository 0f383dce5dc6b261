"""Builds the tables from the rows of each line kind.

In: `AttributedRows` with steps and ranks filled in. Out: Arrow tables in the columns of the schema and in base units.
Column `run` holds the number of the run in the log as a string.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perflog.formats.families.base import glob
from perflog.formats.families.name_units import name_and_unit, unit_of_operations
from perflog.formats.model import Cells, Line, SecondRow
from perflog.formats.template import LIST_DEPTH
from perflog.formats.vocabulary import DEVICE, NO_NAME
from perflog.parsing.assemble.attributed_rows import NO_EPOCH, RULES, AttributedRows, ClockColumns
from perflog.parsing.assemble.column_values import (
    clocks_of,
    field_values,
    is_list,
    list_items,
    nested_items,
    scaled,
    typed,
    unit_of,
)
from perflog.parsing.assemble.matrix_cells import names_of_fields, records_of_cells
from perflog.parsing.assemble.ranks.local_ranks import source_names
from perflog.parsing.assemble.steps.phase_counts import PhaseCounter
from perflog.parsing.assemble.steps.step_windows import UNKNOWN
from perflog.tables.arrow import (
    index_array,
    null_array,
    number_array,
    repeated_word,
    text_array,
    text_scalar,
    word_array,
    zero_array,
)
from perflog.tables.row_order import PART_BITS, PART_MASK
from perflog.tables.schema import (
    CLOCKS,
    FIRST_CELL,
    GUESS,
    PER_FIELD,
    STAMPED,
    STEP_TIME_SOURCES,
    TABLES,
    TableColumn,
    arrow_schema,
    column_for,
)
from perflog.units import UNITS, Unit
from perflog.units import unit_of as unit_of_word

Columns = dict[str, pa.Array]
ColumnValues = Iterator[tuple[TableColumn, pa.Array]]

_UNNAMED = "unnamed"
_NOT_NULL = {"copy": 1, "occurrence": 1}  # values of count columns where nothing was counted


def names_its_number(rows: AttributedRows) -> bool:
    """Return whether a line names its number: a field, a constant, or a scope around it, is its table's key column."""
    table = rows.line.table or ""
    key, value = PER_FIELD.get(table, ("", ""))
    if not key or not any(key in names for names in (rows.line.template.names, rows.inherited, rows.line.set)):
        return False
    own = (*(n for n in rows.line.template.names if n not in rows.line.paths), *rows.line.compute)
    return any((c := column_for(table, n)) is not None and c.name == value for n in own)


def key_names(rows: AttributedRows) -> list[str]:
    """Return the name that each line of a kind gives its number."""
    key, _ = PER_FIELD[rows.line.table or ""]
    if key in rows.line.set:
        return [str(rows.line.set[key])] * len(rows)
    names: list[str] = _names_of(rows.records.columns.get(key, rows.inherited.get(key))).to_pylist()
    return names


def _names_of(texts: pa.Array) -> pa.Array:
    """Return printed names as they are in a key column."""
    names = pc.replace_substring_regex(texts.cast(pa.string()), pattern=NO_NAME, replacement="_")
    names = pc.replace_substring_regex(pc.utf8_trim(names, characters="_"), pattern="^$", replacement=_UNNAMED)
    return pc.fill_null(names, text_scalar(_UNNAMED))


class TableBuilder:
    """Makes the rows of each table, stretch by stretch of the log.

    The tables with one row per field share one dictionary of field names per table. `pods`: names of pods by number.
    """

    def __init__(self, pods: Mapping[int, str]) -> None:
        self._pods = pods
        self._names: dict[str, tuple[str, ...]] = dict.fromkeys(PER_FIELD, ())
        self._codes: dict[tuple[str, str], int] = {}
        self._phases = PhaseCounter()

    def tables(self, kinds: Iterable[AttributedRows]) -> dict[str, pa.Table]:
        """Return the rows of one stretch of the log, by table."""
        batches: dict[str, list[pa.RecordBatch]] = {}
        kinds = [rows for rows in kinds if len(rows) and rows.line.table not in (None, "runs")]
        for rows in kinds:
            for table, name in _fields_with_rows(rows):
                self._add_key(table, rows.line.key_of(name))
            for name in names_of_fields(rows.line.cells) if rows.line.cells else ():
                self._add_key("values", name)
        for rows in kinds:
            for table, columns in self._rows_per_line(rows):
                batches.setdefault(table, []).append(_record_batch(table, columns, len(columns["run"])))
        return {table: pa.Table.from_batches(parts, arrow_schema(table)) for table, parts in batches.items()}

    def _add_key(self, table: str, key: str) -> None:
        if (table, key) not in self._codes:
            self._codes[table, key] = len(self._names[table])
            self._names[table] = (*self._names[table], key)

    def _rows_per_line(self, rows: AttributedRows) -> Iterator[tuple[str, Columns]]:
        """Yield the columns of the rows that a kind gives, by table: one row per record, or per item of a list."""
        table = rows.line.table or ""
        common = _common_columns(rows, self._pods)
        columns = _line_columns(table, rows)
        columns |= {name: number_array(values, ~np.isnan(values)) for name, values in rows.joined.items()}
        if rows.line.cells:
            yield from self._rows_of_cells(rows, rows.line.cells, {**common, **columns})
            return
        if rows.line.items:
            yield table, _rows_of_items(rows, {**common, **columns})
            return
        if table in PER_FIELD and not names_its_number(rows):
            yield from self._rows_per_field(rows, {**common, **columns})
            return
        is_named_by_scope = PER_FIELD.get(table, ("",))[0] in rows.inherited
        if table in PER_FIELD and (rows.line.under_header or is_named_by_scope):  # parameters come before the value
            yield from self._rows_per_field(rows, common)
            yield table, {**common, **self._named_columns(table, rows, columns)}
            return
        yield table, {**common, **(self._named_columns(table, rows, columns) if table in PER_FIELD else columns)}
        if rows.line.again:
            yield table, {**common, **_line_columns(table, rows, rows.line.again)}
        yield from self._rows_per_field(rows, common)

    def _named_columns(self, table: str, rows: AttributedRows, columns: Columns) -> Columns:
        """Return the columns of lines that name their number. Names of counters stay as printed."""
        if table == "counters":
            return columns
        key, value = PER_FIELD[table]
        names = _names_of(columns[key])
        named = {**columns, key: names.dictionary_encode()}
        if table == "phases":
            named["occurrence"] = number_array(self._phases.count(rows, names.to_pylist()))
            return named
        if rows.line.under_header and "unit" in columns:
            return named | _in_base_units(columns["unit"], columns[value])
        units = [u for n, u in rows.line.unit.items() if (c := column_for(table, n)) is not None and c.name == value]
        if not units and rows.line.under_header and key in rows.line.template.names and value in columns:
            return named | _in_units_of_names(key, columns[key], columns[value])
        if not units:
            return named
        unit_by_name = {name: unit_of_operations(name, units[0].base) for name in names.unique().to_pylist() if name}
        if all(unit == units[0].base for unit in unit_by_name.values()):
            return named | {"unit": repeated_word(0, (units[0].base,), len(rows))}
        return named | _in_base_units(
            text_array([unit_by_name.get(name) for name in names.to_pylist()]), columns[value]
        )

    def _rows_per_field(self, rows: AttributedRows, common: Columns) -> Iterator[tuple[str, Columns]]:
        """Yield the columns of the fields that have rows of their own."""
        counts: pa.Array | None = None
        is_named_by_line = not {"key", "value"}.isdisjoint(rows.line.template.names)
        for table, name in _fields_with_rows(rows):
            values = rows.records.columns[name]
            unit = unit_of(rows.line, name)
            key, value = PER_FIELD[table]
            base = {"unit": repeated_word(0, (unit.base,), len(rows))} if unit and table != "phases" else {}
            if is_list(rows.line, name):
                yield table, _columns_of_items({**common, **base}, rows.line.key_of(name), values, unit)
                continue
            is_named = name in rows.line.paths or (rows.line.under_header and key in rows.line.template.names)
            is_in_block = table == "values" and key in rows.inherited and not is_named_by_line  # of one quantity
            printed = common.get(key) if is_named or is_in_block else None
            columns = {**common, **base, key: self._keys(table, rows.line.key_of(name), len(rows), printed)}
            if isinstance(values, np.ndarray):
                columns[value] = number_array(scaled(values, unit))
                if unit is None and table == "values" and "unit" in rows.inherited:  # below a title that names it
                    columns |= _in_base_units(common["unit"], columns[value])
            else:
                columns["text"] = values
                columns.pop("unit", None)
            if table == "phases":
                if counts is None:
                    counts = number_array(self._phases.count(rows))
                columns["occurrence"] = counts
            yield table, columns

    def _rows_of_cells(self, rows: AttributedRows, cells: Cells, common: Columns) -> Iterator[tuple[str, Columns]]:
        """Yield the columns of the records of cells. Each cell is a part of its line, and so a record of its own."""
        printed = common.pop("key", None)
        part = common["part"].to_numpy()
        for cell_column in records_of_cells(rows, cells):
            taken = {name: values.take(index_array(cell_column.rows)) for name, values in common.items()}
            taken["part"] = number_array(part[cell_column.rows] + np.int32(FIRST_CELL + cell_column.position))
            *_, number = cell_column.fields
            for name, values in cell_column.fields.items():
                number_keys = (
                    printed.take(index_array(cell_column.rows)) if printed is not None and name == number else None
                )
                columns = {**taken, "key": self._keys("values", name, len(cell_column.rows), number_keys)}
                columns |= {"value": number_array(values)} if isinstance(values, np.ndarray) else {"text": values}
                if name == number and cell_column.unit is not None:
                    columns["unit"] = repeated_word(0, (cell_column.unit.base,), len(cell_column.rows))
                yield "values", columns

    def _keys(self, table: str, key: str, count: int, printed: pa.Array | None) -> pa.Array:
        """Return the keys of the rows of a field: its own, after the key that its line prints, if any."""
        if printed is None:
            return repeated_word(self._codes[table, key], self._names[table], count)
        return _under(printed, text_array([key] * count)).dictionary_encode()


def _in_base_units(printed: pa.Array, values: pa.Array) -> Columns:
    """Return the columns of values with units in a column of their own, in base units where these are known."""
    words = printed.to_pylist()
    units = [UNITS.get(unit_of_word(word)[0]) if word else None for word in words]
    factors = np.array([unit.factor if unit else 1.0 for unit in units])
    names = [unit.base if unit else word or None for unit, word in zip(units, words, strict=True)]
    return {"unit": pa.array(names, pa.string()), "value": pc.multiply(values, pa.array(factors))}


def _in_units_of_names(key: str, printed: pa.Array, values: pa.Array) -> Columns:
    """Return the columns of values in rows of a table with the units that their names hold: `Wait (ms) | 12.5`."""
    pairs = [name_and_unit(text or "") for text in printed.to_pylist()]
    units = [unit for _, unit in pairs]
    if not any(units):
        return {}
    names = _names_of(text_array([name for name, _ in pairs]))
    return {key: names.dictionary_encode()} | _in_base_units(text_array(units), values)


def _under(printed: pa.Array, keys: pa.Array) -> pa.Array:
    """Return keys after the names that lines print: `accuracy.value`, `accuracy[0]`."""
    return pc.replace_substring(pc.binary_join_element_wise(_names_of(printed), keys, text_scalar(".")), ".[", "[")


def _rows_of_items(rows: AttributedRows, columns: Columns) -> Columns:
    """Return the columns of lines with a list that fills a column: a row for each of its numbers, with its indices."""
    table = rows.line.table or ""
    name = next(f.name for f in rows.line.template.fields if f.type in LIST_DEPTH)
    amount = column_for(table, name)
    parents, indices, numbers = nested_items(rows.records.columns[name], len(rows.line.items))
    items = {key: values.take(index_array(parents)) for key, values in columns.items()}
    for item, index in zip(rows.line.items, indices, strict=True):
        column = column_for(table, item)
        items |= {column.name: typed(number_array(index), column)} if column is not None else {}
    values = number_array(scaled(numbers, rows.line.unit.get(name)))
    return items | ({amount.name: typed(values, amount)} if amount is not None else {})


def _columns_of_items(common: Columns, key: str, lists: pa.Array, unit: Unit | None) -> Columns:
    """Return the columns of the rows of a field that is a list of numbers: a row for each, `key[0]`, `key[1]`, ..."""
    parents, index_in_list, numbers = list_items(lists)
    columns = {name: values.take(index_array(parents)) for name, values in common.items() if name != "key"}
    keys = tuple(f"{key}[{k}]" for k in range(int(index_in_list.max(initial=-1)) + 1))
    words = word_array(index_in_list, keys)
    if "key" in common:
        words = _under(common["key"].take(index_array(parents)), words.cast(pa.string())).dictionary_encode()
    return {**columns, "key": words, "value": number_array(scaled(numbers, unit))}


def _fields_with_rows(rows: AttributedRows) -> list[tuple[str, str]]:
    """Return table and name of each field that has rows of its own, because its line's table has no column for it."""
    line, table = rows.line, rows.line.table or ""
    second_row_fields = line.again.fields.values() if line.again else ()
    helpers = {name for expr in line.compute.values() for name in expr.names if name.startswith("_")}
    clock = line.clock if table == "steps" else ()
    filled_elsewhere = {"rank", "step", DEVICE, line.within, *clock, *line.run, *second_row_fields, *helpers}
    home = table if table in PER_FIELD and not names_its_number(rows) else "values"
    loose = [name for name in line.template.names if name in line.paths or column_for(table, name) is None]
    names = [name for name in loose if name not in filled_elsewhere]
    elsewhere = {name for name in names if name in line.paths or _is_no_phase(line, name)}
    elsewhere |= {f.name for f in line.template.fields if not f.numeric} if home == "counters" else set()
    return [("phases" if name in line.phases else "values" if name in elsewhere else home, name) for name in names]


def _is_no_phase(line: Line, name: str) -> bool:
    """Return whether a field of a line of phases is no time by its unit, such as memory at the end of a phase."""
    unit = unit_of(line, name) if line.table == "phases" else None
    return unit is not None and unit.base != "s"


def _common_columns(rows: AttributedRows, pods: Mapping[int, str]) -> Columns:
    """Return the columns that every row of a kind has: its position, step and rank, and counts of its step."""
    count, positions, ranks, groups = len(rows), rows.records.positions, rows.ranks, rows.groups
    part = positions & PART_MASK
    columns = {
        "run": groups.run_words,
        "line": number_array(positions >> PART_BITS),
        "part": number_array(part.astype(np.int32)) if part.any() else zero_array(count),
        "step": groups.step_array if rows.step_is_of_group else number_array(rows.step, rows.step_known),
    }
    rule = int(ranks.rule[0])
    same_rule = bool((ranks.rule == rule).all())
    if same_rule and rule < 0:
        columns["rank"] = null_array(pa.int32(), count)
    else:
        columns["rank"] = number_array(ranks.rank.astype(np.int32), ranks.rank >= 0)
    if same_rule and rule >= 0:
        columns["rank_by"] = repeated_word(rule, RULES, count)
    else:
        columns["rank_by"] = word_array(ranks.rule, RULES)
    sources = ranks.rank < -1
    if sources.any():
        codes, code_index = np.unique(ranks.rank[sources], return_inverse=True)
        words = np.full(count, -1, np.int64)
        words[sources] = code_index
        columns["source"] = word_array(words, tuple(source_names(codes, pods)))
    if rows.guessed:
        columns["read_by"] = repeated_word(0, (GUESS,), count)
    if rows.copy is not None:
        columns["copy"] = number_array(rows.copy.astype(np.int32))
    if rows.steps_averaged is not None:
        columns["steps_averaged"] = number_array(rows.steps_averaged, rows.steps_averaged != UNKNOWN)
        columns["epoch"] = number_array(rows.epoch, rows.epoch != NO_EPOCH)
        columns |= _clock_columns(rows.clock) if rows.clock is not None else {}
    stamps = rows.records.stamps
    if stamps is not None and rows.line.table in STAMPED:
        columns["printed_ns"] = number_array(stamps.time, stamps.time >= 0)
        columns["clock"] = word_array(np.where(stamps.time >= 0, stamps.clock, -1), CLOCKS)
    return columns


def _clock_columns(clock: ClockColumns) -> Columns:
    """Return the columns that the clock of the run gives."""
    return {
        "elapsed_s": number_array(clock.elapsed, ~np.isnan(clock.elapsed)),
        "step_time_s": number_array(clock.step_time, clock.source >= 0),
        "step_time_from": number_array(clock.line, clock.line > 0),
        "step_time_by": word_array(clock.source, STEP_TIME_SOURCES),
    }


def _line_columns(table: str, rows: AttributedRows, second: SecondRow | None = None) -> Columns:
    """Return the columns that a line fills by name; of two sources of a column the later one counts.

    `second`: the columns of the second row that the line gives.
    """
    sources = chain(
        _inherited_columns(table, rows),
        _constant_columns(table, rows, second),
        _field_columns(table, rows, second),
        _computed_columns(table, rows),
    )
    columns = {column.name: typed(values, column) for column, values in sources}
    _add_mapped_columns(table, rows, columns)
    return columns


def _inherited_columns(table: str, rows: AttributedRows) -> ColumnValues:
    for name, values in rows.inherited.items():
        column = column_for(table, name)
        if column is not None:
            yield column, values


def _constant_columns(table: str, rows: AttributedRows, second: SecondRow | None) -> ColumnValues:
    constants = {**rows.line.set, **(second.set if second else {})}
    for name, value in constants.items():
        column = column_for(table, name)
        if column is not None:
            yield column, repeated_word(0, (str(value),), len(rows))


def _field_columns(table: str, rows: AttributedRows, second: SecondRow | None) -> ColumnValues:
    line = rows.line
    sources = {name: name for name in line.template.names} | dict(second.fields if second else {})
    for name, source in sources.items():
        column = column_for(table, name)
        if source not in rows.records.columns:  # a line of a family may lack it
            continue
        is_list = bool(line.items) and any(f.name == source and f.type in LIST_DEPTH for f in line.template.fields)
        if column is not None and not is_list and name not in ("rank", "step", *line.run, *line.paths):
            values = rows.records.columns[source]
            yield column, field_values(values, column, line, source)
            clock = next((c for c in TABLES[table] if c.name == "clock"), None)
            if column.unit == "ns" and clock is not None and not isinstance(values, np.ndarray):
                yield clock, clocks_of(values)


def _computed_columns(table: str, rows: AttributedRows) -> ColumnValues:
    for name, expr in rows.line.compute.items():
        column = column_for(table, name)
        if column is not None and name != "step":
            values = np.broadcast_to(np.asarray(expr(rows.records.columns), np.float64), len(rows))
            is_known = ~np.isnan(values) if "if_equal(" in expr.text else None
            yield column, number_array(values.copy(), is_known)


def _add_mapped_columns(table: str, rows: AttributedRows, columns: Columns) -> None:
    """Add the columns that the line's `map` derives from strings of others: the first pattern that matches counts."""
    for target in dict.fromkeys(rule[0] for rule in rows.line.map):
        texts: list[str | None] = [None] * len(rows)
        for _, source, pattern, text in (rule for rule in rows.line.map if rule[0] == target):
            values = columns[source].cast(pa.string()).to_pylist() if source in columns else [None] * len(rows)
            matches = glob(pattern)
            texts = [t if t is not None or not matches(v or "") else text for t, v in zip(texts, values, strict=True)]
        column = next(c for c in TABLES[table] if c.name == target)
        columns[target] = typed(text_array(texts), column)


def _record_batch(table: str, columns: Mapping[str, pa.Array], count: int) -> pa.RecordBatch:
    """Return columns as rows of a table; columns that are not given are null."""
    arrays = [columns[name] if name in columns else _default(field, count) for name, field in _fields(table)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(table))


@cache
def _fields(table: str) -> list[tuple[str, pa.Field]]:
    """Return the names and fields of a table's columns: to ask Arrow for them takes longer than to make a column."""
    return [(field.name, field) for field in arrow_schema(table)]


def _default(field: pa.Field, count: int) -> pa.Array:
    if field.nullable:
        return null_array(field.type, count)
    return number_array(np.full(count, _NOT_NULL[field.name], np.int64 if field.type == pa.int64() else np.int32))
