"""Tables of cases: rows of `values` of one record, for no step, as one measurement each."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints, Mask
from perflog.formats.bars import OF_BARS
from perflog.formats.families.name_units import split_unit
from perflog.formats.families.title_lines import TABLE_TITLE
from perflog.formats.vocabulary import MOMENTS, STATISTIC
from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.benchmarks.case_parameters import (
    NAMES_WORK,
    PROGRESS,
    TRIAL,
    Cell,
    are_words,
    follows,
    is_failure,
    is_outcome,
    number_in,
    parameters_of,
    sweeps_in,
)
from perflog.metrics.benchmarks.case_titles import under_titles, with_parameters
from perflog.metrics.benchmarks.server_readings import without_readings
from perflog.metrics.directions import better, words_of
from perflog.metrics.possible import are_moments
from perflog.metrics.run_tables import Tables, computed_once
from perflog.statistics.groups import Groups, groups_of
from perflog.tables.columns import Rows
from perflog.units import SIZES, UNITS, base_of, first_few, show, unit_of

_UNIT_COLUMN = lazy_pattern(r"(?:\w+_)?units?", re.IGNORECASE)  # `metric_unit`
_NAMES_QUANTITIES = lazy_pattern(r"metrics?(?:_name)?|quantity|statistics?|measure(?:ment)?|kpi|figure", re.IGNORECASE)
"""Names of a column that lists quantities."""
_NUMBERED = lazy_pattern(r"(?P<stem>[A-Za-z_]*[A-Za-z])_?(?P<number>[0-9]+)")
_SUMMARY = lazy_pattern(
    r"(?i)(?:grand )?(?:average|avg\.?|geo-?mean|geometric mean|overall|total)"
    r"|(?:Δ|delta|diff(?:erence)?|change)(?: ?\(?%\)?)?"
)
_OVER_REPEATS = lazy_pattern(r"(?i)(?P<case>.+)_(?P<statistic>mean|median|stddev|std|stdev|cv)")
_SPREADS = frozenset("stddev std stdev cv".split())
_COLUMN = "column"  # the parameter of such a table, where its columns have no number
_SEVERAL = 2  # units from which on the rows of a table are several quantities
_IS_STATISTIC = lazy_pattern(STATISTIC, re.IGNORECASE)
_IS_LATENCY = lazy_pattern(
    r"(?i)ttft|tpot|itl|e2el|e2e latency|(?:request|inter-?token) latency|time (?:to|per) .*token"
)
"""Cases that are quantities of a server: `TTFT`, `TPOT`."""
_CHANGE = lazy_pattern(r"(?i)(?:.*_)?(?:Δ|delta|change|diff|difference|gain|improvement|reduction|speed_?up)(?:_.*)?")
"""Names of a column with the change from one of the other columns to the next."""
_AMOUNTS = frozenset(
    "size bytes message msg elements numel count m n k batch bs seq seqlen len length tokens context prompt isl osl "
    "dim hidden samples".split()
)
_DIVIDES = frozenset("block chunk tile bucket page cache buffer group thread warp stage split micro".split())
_ROUNDED = 0.005  # what shares may differ from 100 % by
_SIZE = lazy_pattern(r"(?P<number>[0-9]+(?:\.[0-9]+)?) ?(?P<unit>[A-Za-z]+)")
_ALIKE = 0.8
"""Correlation from which on times grow with the work."""
_SPEED_UNITS = ("s", "1/s", "TFLOP/s", "GB/s")
_TIMES = frozenset("time latency cycles".split())
_MOST_GROUPS = 8  # of lines that are printed for each variant; more are a series
_MOMENT_UNITS = ("", "1", "s")  # units of times since 1970
SAME = " = "
"""Between the names of parameters that are equal in each record."""
_MOST_OVER = 5  # parameters that are named


class CaseTable(Struct, frozen=True):
    """Records with the same names: the cases of one table.

    `parameters`, `figures`: values by name, one for each record; a missing value is NaN. `settings`: parameters that
    are the same in all records. `texts`: all other columns of strings. `units`: unit by name. `bad`: by quantity, the
    records that print NaN or infinity. `lines`: the line of each record. `names`: all names of the records.
    """

    parameters: dict[str, list[Cell]]
    figures: dict[str, Floats]
    settings: dict[str, Cell]
    texts: dict[str, list[Cell]]
    units: dict[str, str]
    bad: dict[str, Mask]
    lines: Ints
    names: frozenset[str]

    @property
    def over(self) -> str:
        """The names of the parameters."""
        return first_few(self.parameters, _MOST_OVER, " x ")

    @property
    def is_by_column(self) -> bool:
        """Whether its cases are the columns of what is printed: one column holds several quantities."""
        return not self.names.issuperset(self.figures)

    @property
    def is_of_different_work(self) -> bool:
        """Whether the cases are pieces of work, such as kernels, or statistics: none of them is the best.

        A column of shares that add up to 100 % shows that they are parts of one whole.
        """
        if self._are_parts:
            return True
        columns = map(str, self.parameters.get(_COLUMN, ())) if self.is_by_column else ()
        are_statistics = any(_IS_STATISTIC.fullmatch(column) for column in columns)
        are_statistics |= any(all(map(_IS_LATENCY.fullmatch, map(str, cells))) for cells in self.parameters.values())
        return are_statistics or (len(self.parameters) == 1 and all(map(NAMES_WORK.fullmatch, self.parameters)))

    @property
    def _are_parts(self) -> bool:
        """Whether a column without a better direction has the shares of all cases in one whole, or of all but it."""
        names = [name for name in self.figures if self.units.get(name) == "1" and better(name, "1") is None]
        shares = [column[np.isfinite(column)] for column in (self.figures[name] for name in names)]
        # A last share of 100 % is the row of the total.
        wholes = (each.sum() - (1 if len(each) and each[-1] == 1 else 0) for each in shares if len(each) > _SEVERAL)
        return any(abs(whole - 1) < _ROUNDED for whole in wholes)

    def grows_with_work(self, figure: str) -> bool:
        """Whether a quantity is a time that is longer in cases with more work: the shortest one is not the best.

        Cases with names of the work are of different work, whatever else their parameters are.
        """
        if self.units.get(figure) != "s":
            return False
        words_by_name = {n: {x for x in cells if isinstance(x, str)} for n, cells in self.parameters.items()}
        if any(len(words) > 1 and NAMES_WORK.fullmatch(name) for name, words in words_by_name.items()):
            return True  # the numbers of jobs name no work
        times = self.figures[figure]
        known = np.isfinite(times)
        columns = [values for name, values in self.parameters.items() if _counts_work(name, self.units.get(name, ""))]
        sizes = [np.array(list(map(_amount, column))) for column in columns]
        return known.sum() > _SEVERAL and any(_rise_together(column[known], times[known]) for column in sizes)

    def at(self, record: int, without: str | None = None) -> str:
        """Return the case of a record as a string: `impl flash, seq_len 128`; its line if it has no parameter."""
        known = [name for name, values in self.parameters.items() if name != without and values[record] is not None]
        named = (f"{name} {self.shown_value(name, self.parameters[name][record])}" for name in known)
        return ", ".join(named) if known or without else f"line {self.lines[record]}"

    def shown_value(self, name: str, value: Cell) -> str:
        """Return the value of a parameter or a setting as a string: `2,048`, `512 KiB`."""
        return _text(value, self.units.get(name, ""))

    def cases(self, figure: str, without: str | None = None) -> dict[tuple[Cell, ...], tuple[float, int]]:
        """Return the median of a quantity and the first record of each case, with or without one of its parameters."""
        columns = [values for name, values in self.parameters.items() if name != without]
        found: dict[tuple[Cell, ...], list[int]] = {}
        for record in np.flatnonzero(np.isfinite(self.figures[figure])).tolist():
            found.setdefault(tuple(values[record] for values in columns), []).append(record)
        values = self.figures[figure]
        return {case: (float(np.median(values[records])), records[0]) for case, records in found.items()}


def _counts_work(name: str, unit: str) -> bool:
    """Return whether a parameter is an amount of work by its name or unit, and not of what divides the work."""
    words = words_of(name)
    return (unit == "B" or not _AMOUNTS.isdisjoint(words)) and _DIVIDES.isdisjoint(words)


def _amount(value: Cell) -> float:
    """Return a parameter as a number, also of a size (`4 KB`); NaN for other strings."""
    if not isinstance(value, str):
        return math.nan if value is None else float(value)
    match = _SIZE.fullmatch(value)
    return float(match["number"]) * SIZES[match["unit"]] if match and match["unit"] in SIZES else math.nan


def _rise_together(sizes: Floats, times: Floats) -> bool:
    """Return whether more work takes longer: the ranks of sizes and times are nearly the same."""
    if np.isnan(sizes).any() or sizes.min() == sizes.max() or times.min() == times.max():
        return False
    by_size, by_time = (np.unique(values, return_inverse=True)[1] for values in (sizes, times))
    return bool(np.corrcoef(by_size, by_time)[0, 1] > _ALIKE)


@computed_once
def case_tables(tables: Tables) -> dict[str, list[CaseTable]]:
    """Return the tables of cases of each run that has any, in the order of the log."""
    rows = tables.rows("values")
    steps = tables.rows("steps")
    others = {*steps.where(steps.known("step")).counts("run")}  # other values of a run with steps configure it
    others |= tables.counts("events").keys()  # and values of a trace are details of its events
    rows = rows.where(~rows.known("step") & ~rows.one_of("run", others) & ~rows.one_of("key", _bar_names(rows)))
    messages = tables.rows_by_run("collectives")  # values beside them are measured over operation and size
    by_run = rows.by("run")
    for run in messages.keys() & by_run.keys():
        by_run[run] = by_run[run].where(~np.isin(by_run[run]["line"], messages[run]["line"]))
    trained = steps.where(~steps.known("step") & steps.known("loss")).by("run")  # steps whose numbers are not printed
    for run in trained.keys() & by_run.keys():
        by_run[run] = by_run[run].where(~np.isin(by_run[run]["line"], trained[run]["line"]))
    found = {run: list(_tables_of(without_readings(run_values))) for run, run_values in by_run.items()}
    return {
        run: sorted(tables_of_run, key=lambda table: int(table.lines[0]))
        for run, tables_of_run in found.items()
        if tables_of_run
    }


def names_of_records(tables: Tables) -> set[str]:
    """Return the names of values that stand together with others in several records of a run, for no step."""
    rows = tables.rows("values")
    found: set[str] = set()
    rows = rows.where(~rows.known("step") & ~rows.one_of("run", tables.counts("events")))
    for run_values in rows.by("run").values():
        records = groups_of(run_values["line"], run_values["part"])
        together = run_values.where(records.sizes[records.inverse] > 1)
        found.update(name for name, times in together.counts("key").items() if times > 1)
    return found


def names_without_case(tables: Tables) -> set[str]:
    """Return the names that a run prints several times for cases that cannot be identified: no value represents them.

    They are the `names_of_records` beside a rate of FLOP, as each record measures another shape; in a run without steps
    names beside a counter that does not go on, such as the last epoch of several trainings; and names that are
    alone on their lines in such a run: all of them if it has rows of a name and its value, as there may be a
    table of such rows for each phase, else times, rates and speedups that are printed a few times, as for each variant.
    """
    rows = tables.rows("values")
    shapes = tables.rows("lines").records("run", "shape")
    runs_with_lists = {run for run, shape in shapes if {"{key:", "{value:"} <= set(re.findall(r"{\w+:", str(shape)))}
    record_names = names_of_records(tables)
    found: set[str] = set()
    for run, run_values in rows.where(~rows.known("step")).by("run").items():
        lines = run_values.where(run_values.one_of("unit", ["TFLOP/s"]))["line"]
        counted = run_values.where(np.isin(run_values["line"], lines) & run_values.one_of("key", record_names))
        found.update(name for name, times in counted.counts("key").items() if times > 1)
        if run in tables.rows_by_run("steps"):
            continue
        found |= _names_beside_counter(run_values)
        records = groups_of(run_values["line"], run_values["part"])
        alone = run_values.where((records.sizes[records.inverse] == 1) & run_values.known("value"))
        speeds = alone.where(alone.one_of("unit", _SPEED_UNITS)).counts("key")
        for name, times in alone.counts("key").items():
            is_speed = name in speeds or _CHANGE.fullmatch(name) is not None or not _TIMES.isdisjoint(words_of(name))
            if times > 1 and (run in runs_with_lists or (times <= _MOST_GROUPS and is_speed)):
                found.add(name)
    return found


def _names_beside_counter(rows: Rows) -> set[str]:
    """Return the names of numbers of records with a counter that is the same in all of them, or goes back."""
    found = set[str]()
    for name, counter in rows.where(rows.known("value")).by("key").items():
        if name.lower() not in MOMENTS or len(counter) == 1:
            continue
        changes = np.diff(counter["value"][np.argsort(counter["line"], kind="stable")])
        if (changes < 0).any() or not changes.any():
            beside = rows.where(np.isin(rows["line"], counter["line"])).counts("key")
            found |= {key for key, times in beside.items() if times > 1} - {name}
    return found


def _bar_names(rows: Rows) -> list[str]:
    """The names of states of progress bars."""
    return [name for name in rows.codes("key")[1] if OF_BARS.search(name)]


def _tables_of(rows: Rows) -> Iterator[CaseTable]:
    """The tables of cases among the values of one run."""
    rows, lines, parts_of_lines = under_titles(rows)
    records = groups_of(lines, parts_of_lines)
    if len(records.sizes) < 2 or not (records.sizes > 1).any():
        return
    codes, words = rows.codes("key")
    titles = {code for code, word in enumerate(words) if word == TABLE_TITLE}
    by_names: dict[tuple[int, ...], list[int]] = {}
    order = np.argsort(records.inverse, kind="stable")
    bounds = np.append(0, np.cumsum(records.sizes))
    for record in np.flatnonzero(records.sizes > 1).tolist():
        names = tuple(codes[order[bounds[record] : bounds[record + 1]]].tolist())
        by_names.setdefault(names, []).append(record)
    groups: list[list[tuple[tuple[int, ...], list[int]]]] = []  # the longest names first
    for names, named in sorted(by_names.items(), key=lambda item: -len(item[0])):
        if len(set(names)) < len(names):
            continue  # a name twice: a list, or ranks
        others = ((parts, {*parts[0][0]} - {*names}) for parts in groups if {*names} <= {*parts[0][0]})
        whole = next((parts for parts, more in others if not more & titles), None)
        if whole is not None:  # cells without a value
            whole.append((names, named))
        else:
            groups.append([(names, named)])

    def table_of(names: tuple[int, ...], members: Sequence[int]) -> list[CaseTable]:
        if len(members) < 2:
            return []
        places = np.concatenate([order[bounds[r] : bounds[r + 1]] for r in sorted(members)])
        records = groups_of(lines[places], parts_of_lines[places])
        return list(_tables_with(rows.where(places), records, lines[places], [words[code] for code in names]))

    for parts in groups:
        together = table_of(parts[0][0], [record for _, records_of_part in parts for record in records_of_part])
        # If one of two tables has more columns, each identifies its cases by itself.
        apart = [] if together or len(parts) < 2 else [table_of(*part) for part in parts]
        yield from chain(together, *apart)


def _tables_with(rows: Rows, records: Groups, line: Ints, names: Sequence[str]) -> Iterator[CaseTable]:
    """Yield the tables of records with these names; none if they have no parameters or no measured quantities."""
    number = len(records.sizes)
    codes, words = rows.codes("key")
    units_of_row, unit_words = rows.codes("unit")
    texts, values, nans = rows["text"], rows["value"], rows.nans("value")
    columns: dict[str, list[Cell]] = {}
    codes_of_units: dict[str, dict[int, int]] = {}  # by column and record
    bad: dict[str, Mask] = {}
    for name in names:
        places = np.flatnonzero(codes == words.index(name))
        cells: list[Cell] = [None] * number
        for place in places.tolist():
            value = values[place]
            cells[records.inverse[place]] = (
                texts[place] or None if math.isnan(value) and not nans[place] else float(value)
            )
        columns[name] = cells
        has_unit = (units_of_row[places] >= 0) | (np.nan_to_num(values[places]) != 0)  # 0 needs none
        measured = places[has_unit]
        codes_of_units[name] = dict(
            zip(records.inverse[measured].tolist(), units_of_row[measured].tolist(), strict=True)
        )
        bad[name] = np.array([is_failure(x) for x in cells], np.bool_)
    columns = with_parameters(columns)
    kept = _without_statistics(columns, _without_summary(columns, _last_of_trials(columns)))
    units, units_of_record = _units_of(codes_of_units, unit_words, kept, number)
    names = list(columns)
    units = {name: units.get(name, "") for name in names}
    bad = {name: bad.get(name, np.zeros(number, np.bool_)) for name in names}
    columns = {name: [cells[record] for record in kept] for name, cells in columns.items()}
    bad = {name: of[kept] for name, of in bad.items()}
    lines, number = line[records.first][kept], len(kept)
    parameters, settings = parameters_of(columns, units)
    outcomes = [name for name in names if is_outcome(name, columns[name])]
    has_failed = np.any([bad[name] for name in outcomes], axis=0) if outcomes else np.zeros(number, np.bool_)
    others = {*parameters, *settings, *outcomes}
    rest = [n for n in names if n not in others and n.lower() not in PROGRESS and not TRIAL.fullmatch(n)]
    rest = [name for name in rest if not follows(name, columns[name], units[name], [columns[n] for n in parameters])]
    figures = {name: np.array([number_in(x) for x in columns[name]]) for name in rest}
    figures = {
        name: of
        for name, of in figures.items()
        if np.isfinite(of).any() and not (units[name] in _MOMENT_UNITS and are_moments(of).any())
    }
    for name, of in figures.items():
        bad[name] = bad[name] | (has_failed & np.isnan(of))
    words_beside = {n: columns[n] for n in rest if n not in figures and any(isinstance(x, str) for x in columns[n])}
    has_bad = np.any([bad[name] for name in figures], axis=0)
    for name, of in figures.items():  # 0 TFLOP/s with an infinite time is no measurement, nor 0 of a case that crashed
        instead = (has_failed | (has_bad & (better(name, units[name]) == "higher"))) & (of == 0)
        of[instead], bad[name] = np.nan, bad[name] | instead
    together = _together({name: columns[name] for name in parameters})
    units_of_cells = [units_of_record[record] for record in kept]
    are_measured = _are_measured(figures, units)
    for sweep in sweeps_in(list(zip(*together.values(), strict=True))) if parameters else ():
        table = CaseTable(
            {name: cells[sweep] for name, cells in together.items()},
            {name: of[sweep] for name, of in figures.items()},
            settings,
            {name: cells[sweep] for name, cells in words_beside.items()},
            units,
            {name: of[sweep] for name, of in bad.items()},
            lines[sweep],
            frozenset(names),
        )
        by_column = _turned(table, units_of_cells[sweep])
        if by_column is not None and (are_measured or any(by_column.units.values())):
            yield by_column
        elif are_measured:
            yield from _by_unit(table)


def _units_of(
    codes_of_columns: dict[str, dict[int, int]], words: Sequence[str], kept: Sequence[int], number: int
) -> tuple[dict[str, str], list[set[str]]]:
    """Return the unit of each column, "" for several or none, and of each record those of columns with several.

    A number without a unit beside numbers with one is another quantity: tokens beside milliseconds.
    """
    units: dict[str, str] = {}
    units_of_record: list[set[str]] = [set() for _ in range(number)]
    for name, codes in codes_of_columns.items():
        found = {record: words[codes[record]] if codes[record] >= 0 else "" for record in kept if record in codes}
        units[name] = next(iter(found.values())) if len({*found.values()}) == 1 else ""
        if not units[name] and not _CHANGE.fullmatch(name):
            for record, unit in found.items():
                units_of_record[record].update({unit} - {""})
    return units, units_of_record


def _are_measured(figures: dict[str, Floats], units: dict[str, str]) -> bool:
    """Whether any column is measured: whole numbers without a unit describe, such as offsets of documents."""
    return any(units[n] or better(n, "") or any(x % 1 for x in of[np.isfinite(of)]) for n, of in figures.items())


def _by_unit(table: CaseTable) -> Iterator[CaseTable]:
    """Yield a table for each quantity in a column of units, `ms` or `MB`: figures without a unit have these."""
    columns = {**table.parameters, **table.texts}
    name = next((n for n in columns if _UNIT_COLUMN.fullmatch(n)), "")
    words = [str(word) for word in columns.get(name, ())]
    known = {word: unit_of(word)[0] for word in words}
    if not name or not all(known.values()):
        yield table
        return
    units = [UNITS[known[word]] for word in words]
    for base in dict.fromkeys(unit.base for unit in units):
        rows = np.flatnonzero([unit.base == base for unit in units])
        factors = np.array([units[k].factor for k in rows.tolist()])
        kept = {n: [cells[k] for k in rows.tolist()] for n, cells in table.parameters.items() if n != name}
        varied = {n: cells for n, cells in kept.items() if len(set(cells)) > 1}
        if not varied:
            continue
        scaled = {n for n in table.figures if not table.units[n]}
        yield CaseTable(
            varied,
            {n: of[rows] * (factors if n in scaled else 1) for n, of in table.figures.items()},
            table.settings | {n: cells[0] for n, cells in kept.items() if n not in varied},
            {n: [cells[k] for k in rows.tolist()] for n, cells in table.texts.items() if n != name},
            table.units | dict.fromkeys(scaled, base),
            {n: of[rows] for n, of in table.bad.items()},
            table.lines[rows],
            table.names,
        )


def _turned(table: CaseTable, units_of_cells: Sequence[Set[str]]) -> CaseTable | None:
    """The table with a case for each column, if its rows are quantities; None if they are cases.

    Names of columns show it, or several units in their words, `Mean TTFT (ms)`, `Output (tok/s)`, or in their cells.
    Such columns have no units of their own, apart from those with the change of each quantity. Other parameters,
    such as those of titles, are the same for all quantities of a block.
    """
    figures, units, bad = table.figures, table.units, table.bad
    name = next((n for n in table.parameters if _NAMES_QUANTITIES.fullmatch(n)), next(iter(table.parameters)))
    words, others = table.parameters[name], [n for n in table.parameters if n != name and not _CHANGE.fullmatch(n)]
    columns = [figure for figure in figures if units[figure] != "1" and not _CHANGE.fullmatch(figure)]
    is_named = _NAMES_QUANTITIES.fullmatch(name) is not None
    if others and any(_UNIT_COLUMN.fullmatch(n) for n in (*others, *table.texts)):
        return None
    if not are_words(words) or any(units[figure] for figure in columns) or (others and not is_named):
        return None
    blocks = grouped((tuple(table.parameters[n][row] for n in others), row) for row in range(len(words)))
    split = [split_unit(str(word)) for word in words]
    in_cells = [of - {"1"} or of for of in units_of_cells]  # the share by which a quantity changed has its own unit
    split = [
        (quantity, next(iter(of)) if len(of) == 1 else unit)
        for (quantity, unit), of in zip(split, in_cells, strict=True)
    ]
    units_of_rows = {unit for _, unit in split}
    if all(of <= {"1"} for of in units_of_cells):  # the words need no unit: `requests`
        units_of_rows -= {""}
    if not columns or (not is_named and len(units_of_rows) < _SEVERAL):
        return None
    numbered = [_NUMBERED.fullmatch(column) for column in columns]
    stems = {match["stem"] for match in numbered if match}
    cases: list[Cell] = [float(match["number"]) for match in numbered if match]
    if len(cases) < len(columns) or len(stems) > 1 or all(map(_IS_STATISTIC.fullmatch, columns)):
        stems, cases = {_COLUMN}, list(columns)
    rows_of = _rows_of_quantities(blocks, split, [figures[c] for c in columns], [bad[c] for c in columns])
    if rows_of is None:
        return None
    unit_of_quantity = {quantity: split[next(iter(of.values()))][1] for quantity, of in rows_of.items()}

    def cells(of: dict[tuple[Cell, ...], int], values: Mapping[str, Floats | Mask], unknown: float) -> Any:
        return np.array([values[c][of[block]] if block in of else unknown for block in blocks for c in columns])

    factors = {quantity: UNITS[unit].factor if unit else 1 for quantity, unit in unit_of_quantity.items()}
    parameters: dict[str, list[Cell]] = {
        n: [block[k] for block in blocks for _ in columns] for k, n in enumerate(others)
    }
    if not others or len(columns) > 1:
        parameters[stems.pop()] = cases * len(blocks)
    return CaseTable(
        parameters,
        {quantity: cells(of, figures, math.nan) * factors[quantity] for quantity, of in rows_of.items()},
        {},
        {},
        {quantity: base_of(unit) for quantity, unit in unit_of_quantity.items()},
        {quantity: cells(of, bad, False) for quantity, of in rows_of.items()},
        np.concatenate([np.resize(table.lines[[rows[0], rows[-1]]], len(columns)) for rows in blocks.values()]),
        frozenset((name, *others, *columns)),
    )


def _rows_of_quantities(
    blocks: Mapping[tuple[Cell, ...], Sequence[int]],
    split: Sequence[tuple[str, str]],
    figures: Sequence[Floats],
    bad: Sequence[Mask],
) -> dict[str, dict[tuple[Cell, ...], int]] | None:
    """Return the row of each quantity in each block, where it has a value; None if it has several, or several units.

    `split`: the quantity of each row and its unit. `figures`, `bad`: of each column.
    """
    found: dict[str, dict[tuple[Cell, ...], int]] = {}
    for block, rows in blocks.items():
        if len({split[row][0] for row in rows}) < len(rows):
            return None
        for row in rows:
            if any(np.isfinite(of[row]) or is_bad[row] for of, is_bad in zip(figures, bad, strict=True)):
                found.setdefault(split[row][0], {})[block] = row
    if len(blocks) > 1 and any(len({split[row][1] for row in of.values()}) > 1 for of in found.values()):
        return None
    return found


def _without_summary(columns: dict[str, list[Cell]], records: list[int]) -> list[int]:
    """Return records without the last one if it is what all of them amount to: `average`."""
    lasts = [(cells[records[-1]], [cells[record] for record in records[:-1]]) for cells in columns.values()]
    is_summary = any(isinstance(x, str) and _SUMMARY.fullmatch(x) and x not in others for x, others in lasts)
    return records[:-1] if is_summary and len(records) > _SEVERAL else records


def _without_statistics(columns: dict[str, list[Cell]], records: list[int]) -> list[int]:
    """Return records without statistics over repeats of a case: `BM_Sort/8_stddev`. Without the case its mean stays."""
    for cells in columns.values():
        found = {record: _OVER_REPEATS.fullmatch(str(cells[record])) for record in records}
        matches = [match for match in found.values() if match]
        spread = {match["case"] for match in matches if match["statistic"].lower() in _SPREADS}
        repeated = {match["case"] for match in matches if match["statistic"].lower() not in _SPREADS} & spread
        means = {f"{case}_mean" for case in repeated if case not in cells}
        if repeated:
            return [r for r, match in found.items() if not match or match["case"] not in repeated or cells[r] in means]
    return records


def _last_of_trials(columns: dict[str, list[Cell]]) -> list[int]:
    """The records that count: of each trial of a search the last, for its state is printed again and again."""
    number = len(next(iter(columns.values())))
    trial = next((cells for name, cells in columns.items() if TRIAL.fullmatch(name)), range(number))
    return sorted({name: record for record, name in enumerate(trial)}.values())


def _together(columns: dict[str, list[Cell]]) -> dict[str, list[Cell]]:
    """Parameters that are equal in each record have one name: `M = N = K`."""
    names: dict[tuple[Cell, ...], list[str]] = {}
    for name, cells in columns.items():
        names.setdefault(tuple(cells), []).append(name)
    return {SAME.join(alike): list(cells) for cells, alike in names.items()}


def _text(value: Cell, unit: str) -> str:
    if not isinstance(value, float):
        return str(value)
    return show(value, unit) if unit else f"{value:,.0f}" if value.is_integer() else f"{value:g}"
