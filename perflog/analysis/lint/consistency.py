"""Rules on numbers that contradict each other: formulas, figures printed twice, parts longer than their whole."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from perflog.analysis.lint.registry import STEP_TIMES, Finding, LintedRun, LintInput, rule
from perflog.analysis.lint.wording import percent, seconds
from perflog.arrays import Floats, Ints, Mask
from perflog.formats.expressions import Expression
from perflog.formats.model import WHOLES, Format, Line, Phase
from perflog.formats.template import Field
from perflog.metrics.step_time.breakdown import misfits
from perflog.metrics.step_time.phase_table import is_slowest_rank
from perflog.parsing.match.rank_labels import strip_rank_labels
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import median
from perflog.tables.columns import Rows
from perflog.tables.row_order import PART_BITS
from perflog.tables.schema import PER_FIELD, column_for
from perflog.units import count, first_few, show

_STORED = 1e-12  # relative error of a printed number that was converted to its base unit and back
_STEP_SLACK = 1e-3  # of the whole: more than rounding of the printed decimals
_PHASE_SLACK = 0.01
_SAME_FIGURE = 0.02  # one value printed twice may differ by this: the clocks are read some lines apart


@rule(
    code="identity-fails",
    severity="error",
    title="a printed number contradicts its formula",
    why="The format declares how the number follows from the other numbers on the line and the settings of the run. It "
    "does not: the log was edited, lines of several runs were mixed, or the program computes the number differently.",
    action="do not use the number; recompute it from the others, and look at the lines",
    needs=("lines",),
)
def identity_fails(data: LintInput) -> Iterator[Finding]:
    """Each `check` of a format, on all lines of its kind, at printed precision."""
    for run in data.runs:
        if run.semantics.format is None:
            continue
        lines = _lines_of_run(run, run.semantics.format)
        for line in lines:
            if line.check is not None:
                yield from _check_line(run, line, line.check, [x for x in lines if x.table == line.table])


def _lines_of_run(run: LintedRun, form: Format) -> list[Line]:
    """The lines of a format that occur in the run; the lines of families are made from the log's samples."""
    rows = run["lines"].where(run["lines"].one_of("status", ["read"]))
    by_shape = _lines_by_shape(form)
    for shape, sample in rows.records("shape", "sample"):
        if shape not in by_shape and sample is not None:
            text = strip_rank_labels(sample.encode()).decode()
            by_shape |= {shape: None} | {x.template.text: x for family in form.families for x in family.lines(text)}
    return [line for shape in rows["shape"].tolist() if (line := by_shape.get(shape)) and line.read and line.table]


@lru_cache
def _lines_by_shape(form: Format) -> dict[str, Line | None]:
    """The lines of a format by shape. Lines of families are added as logs show them; None for an unknown shape."""
    return {x.template.text: x for x in form.lines}


def _check_line(
    run: LintedRun, line: Line, check: tuple[str, Expression], lines_of_table: Sequence[Line]
) -> Iterator[Finding]:
    """Compare a printed number of a line with its formula, on all records of the line."""
    name, formula = check
    line_numbers, records = _records(run, line, lines_of_table)
    settings = {k: float(v) for k, v in run.semantics.config.items() if type(v) in (int, float)}
    if not len(line_numbers) or any(n not in records and n not in settings for n in (name, *formula.names)):
        return
    printed = records[name]
    expected, slack = _expected(line, name, formula, records, settings)
    with np.errstate(all="ignore"):
        error = np.abs(printed - expected)
        wrong = error > slack * (1 + 1e-9)
    if not wrong.any():
        return
    worst = int(np.argmax(np.where(wrong, error, -1)))
    field = next(f for f in line.template.fields if f.name == name)
    message = (
        f"{int(wrong.sum()):,} of {len(printed):,} lines contradict `{name} == {formula.text.strip()}`: line "
        f"{line_numbers[worst]} prints {name} {field.render(printed[worst]).strip()}, its other numbers give "
        f"{field.render(expected[worst]).strip()}"
    )
    numbers = {"printed": float(printed[worst]), "expected": float(expected[worst]), "of": len(printed)}
    yield Finding(run.id, message, {run.id: line_numbers[wrong]}, numbers)


def _expected(
    line: Line, name: str, formula: Expression, records: Mapping[str, Floats], settings: dict[str, float]
) -> tuple[Floats, Floats]:
    """The value of the formula in each record, and how far rounding of the printed numbers can move it."""
    values = {**settings, **records}
    rounding = {f.name: _rounding(f, records[f.name]) for f in line.template.fields if f.name in records}
    with np.errstate(all="ignore"):
        expected = np.broadcast_to(np.asarray(formula(values), np.float64), len(records[name]))
        slack = rounding[name] + _STORED * np.abs(records[name])
        for n in {*formula.names} & rounding.keys():
            moved = [np.abs(formula(values | {n: records[n] + sign * rounding[n]}) - expected) for sign in (1, -1)]
            slack = slack + np.maximum(*moved)
    return expected, slack


def _records(run: LintedRun, line: Line, lines_of_table: Sequence[Line]) -> tuple[Ints, dict[str, Floats]]:
    """The numbers of each whole record of a line as printed: the number of its line, and a column per field.

    Empty where another line of the run has the same fields, because the table does not separate their records.
    """
    table = line.table or ""
    if any(other is not line and _field_names(other) == _field_names(line) for other in lines_of_table):
        return np.zeros(0, np.int64), {}
    without_column = [name for name in _field_names(line) if column_for(table, name) is None]
    if table in PER_FIELD:
        places, records = _pivoted(run[table], *PER_FIELD[table], without_column)
    else:
        places, records = _rows_of_line(run[table], line, lines_of_table)
        if without_column:
            records |= _at(places, *_pivoted(run["values"], *PER_FIELD["values"], without_column))
    numeric = [f.name for f in line.template.fields if f.numeric and f.name in records]
    whole = np.ones(len(places), np.bool_)
    for name in numeric:
        whole &= ~np.isnan(records[name])
    factors = {name: line.unit[name].factor if name in line.unit else 1.0 for name in numeric}
    return places[whole] >> PART_BITS, {name: records[name][whole] / factors[name] for name in numeric}


def _places(rows: Rows) -> Ints:
    """The line and part of each row as one number."""
    return rows["line"] << PART_BITS | rows["part"]


def _pivoted(rows: Rows, name: str, value: str, names: Sequence[str]) -> tuple[Ints, dict[str, Floats]]:
    """The fields of a table with one row per field, as one column per field; the first of a field counts."""
    rows = rows.where(rows.one_of(name, names))
    places, row_index = np.unique(_places(rows), return_inverse=True)
    codes, words = rows.codes(name)
    columns = {}
    for code in np.unique(codes).tolist():
        field_rows = np.flatnonzero(codes == code)[::-1]
        columns[words[code]] = np.full(len(places), np.nan)
        columns[words[code]][row_index[field_rows]] = rows[value][field_rows]
    return places, columns


def _at(places: Ints, other: Ints, columns: Mapping[str, Floats]) -> dict[str, Floats]:
    """The values of columns at these places; NaN where they have none."""
    if not len(other):
        return {}
    at = np.minimum(np.searchsorted(other, places), len(other) - 1)
    return {name: np.where(other[at] == places, values[at], np.nan) for name, values in columns.items()}


def _rows_of_line(rows: Rows, line: Line, lines_of_table: Sequence[Line]) -> tuple[Ints, dict[str, Floats]]:
    """The rows of a table that a line printed: those with values in exactly the columns that the line fills."""
    names = _field_names(line)
    table = line.table or ""
    columns = {n: c.name for x in lines_of_table for n in _field_names(x) if (c := column_for(table, n)) is not None}
    filled = np.array([rows.known(column) for column in columns.values()]).reshape(len(columns), len(rows))
    expected = np.array([name in names for name in columns])
    rows = rows.where((filled == expected[:, None]).all(axis=0))
    numbers = {name: rows[column] for name, column in columns.items() if name in names}
    known = {name: values.astype(np.float64) for name, values in numbers.items() if values.dtype != object}
    return _places(rows), known


def _field_names(line: Line) -> set[str]:
    return {*line.template.names} - {*line.run}


def _rounding(field: Field, values: Floats) -> Floats:
    """The largest rounding error of each printed value: half of its last digit."""
    if field.type == "d":
        return np.zeros_like(values)
    precision = re.search(r"\.(\d+)", field.spec)
    digits = int(precision[1]) if precision else 6  # the default of printf
    if field.type == "f":
        return np.full_like(values, 0.5 * 10.0**-digits)
    significant = {"g": digits, "e": digits + 1, "t": 5}.get(field.type)
    if significant is None:
        return _STORED * np.abs(values)
    exponent = np.floor(np.log10(np.where(values == 0, 1.0, np.abs(values))))
    half_digit: Floats = 0.5 * 10.0 ** (exponent - significant + 1)
    return half_digit


@rule(
    code="figures-disagree",
    severity="warning",
    title="a value of a step is printed twice, differently",
    why="Two programs that write to one log, such as a framework and the library under it, time the same step. Each "
    "has its own clock and counts other work to the step. Their values differ by more than timing errors.",
    action="use one of the two in all runs that you compare, and say which",
    needs=("steps", "values"),
)
def figures_disagree(data: LintInput) -> Iterator[Finding]:
    """Columns of `steps` against rows of `values` of the same name and step, where one rank or none prints both."""
    every_key = data.tables.rows("values").codes("key")[1]
    columns = {key: col for key in every_key if (col := column_for("steps", key)) and col.type == "float64"}
    for run in data.runs_where("values", data.tables.rows("values").one_of("key", columns)):
        values = run["values"].where(run["values"].known("step", "value") & run["values"].one_of("key", columns))
        steps = run["steps"].where(run["steps"].known("step"))
        steps = steps.where(np.sort(groups_of(steps["step"]).first))
        for key in dict.fromkeys(values["key"].tolist()):
            col = columns[key]
            other = values.where(values.one_of("key", [key]))
            other = other.where(groups_of(other["step"]).first)
            mine = steps.where(steps.known(col.name))
            _, places, other_index = np.intersect1d(mine["step"], other["step"], return_indices=True)
            order = np.argsort(places)
            mine, other = mine.where(places[order]), other.where(other_index[order])
            positive = (other["value"] > 0) & (mine[col.name] > 0)
            mine, other = mine.where(positive), other.where(positive)
            if not len(mine):
                continue
            ratio = median(other["value"] / mine[col.name])
            if abs(ratio - 1) <= _SAME_FIGURE:
                continue
            message = (
                f"{key} is printed twice in {count(len(mine), 'step')}, {percent(abs(ratio - 1))} apart (median): step "
                f"{mine['step'][0]} has {show(mine[col.name][0], col.unit)} on line {mine['line'][0]} and "
                f"{show(other['value'][0], col.unit)} on line {other['line'][0]}"
            )
            yield Finding(run.id, message, {run.id: [*mine["line"], *other["line"]]}, {"ratio": ratio})


@rule(
    code="parts-exceed-whole",
    severity="error",
    title="parts take longer than their whole",
    why="Parts that do not overlap cannot take longer than their whole. The times come from different clocks or ranks, "
    "or the parts do overlap. A phase that the format declares to run in parallel to the step is not part of it and "
    "may be longer.",
    action="do not add up these times; find out what each of them covers",
    needs=(),
)
def parts_exceed_whole(data: LintInput) -> Iterator[Finding]:
    """Forward + backward against step, declared parts of phases in each step, and all phases against the mean step."""
    for run in data.runs_where("steps", _steps_exceeded(data.tables.rows("steps"))):
        steps = run["steps"].where(run["steps"].known("step_time_s", "forward_s", "backward_s"))
        wrong, parts = _steps_exceeded(steps), steps["forward_s"] + steps["backward_s"]
        row = int(np.argmax(wrong))
        message = (
            f"forward + backward exceeds the step time on {wrong.sum():,} of {len(steps):,} lines: "
            f"{seconds(parts[row])} against {seconds(steps['step_time_s'][row])} on line {steps['line'][row]}"
        )
        yield Finding(run.id, message, {run.id: steps["line"][wrong]}, {"of": len(steps)})
    for run in data.runs_that(_runs_with_long_parts, "phases"):
        yield from _phases_exceed(run)
    yield from _phases_that_do_not_fit(data)


def _phases_that_do_not_fit(data: LintInput) -> Iterator[Finding]:
    """The phases of a step, and those that are named after another one, if their mean times do not fit into it."""
    timed = {run.id: run for run in data.runs_that(_runs_that_may_not_fit, "phases", "steps")}
    for misfit in misfits(data.tables, data.options.warmup) if timed else ():
        run = timed.get(misfit.run)
        if run is None or (misfit.whole != "step" and all(run.semantics.phase(part) for part in misfit.parts)):
            continue  # declared parts are compared step by step
        rows = run["phases"].where(run["phases"].one_of("phase", misfit.parts))
        whole = "step" if misfit.whole == "step" else "phase"
        why = f"some of them time the same work, or not this {whole}"
        are_largest = bool(is_slowest_rank(rows).any())
        if are_largest:
            why = f"each is the time of its slowest rank, which may be another one, or {why}"
        message = (
            f"{first_few(misfit.parts, 6)} take {seconds(misfit.parts_s)} together, {misfit.whole} "
            f"{seconds(misfit.whole_s)}, in the mean of the steady steps: {why}; it is not divided"
        )
        lines = rows["line"]
        numbers = {"parts": misfit.parts_s, "whole": misfit.whole_s}
        form = run.semantics.format
        are_guessed = form is not None and form.generic  # the log does not say that they are parts
        if len(lines):
            is_minor = are_guessed or are_largest
            yield Finding(run.id, message, {run.id: lines}, numbers, severity="note" if is_minor else None)


def _runs_that_may_not_fit(data: LintInput) -> list[LintedRun]:
    """The runs with phases that take longer than their steps, or than the phase that they name, by rough sums."""
    phases, steps = data.tables.rows("phases"), data.tables.rows("steps")
    phases = phases.where(phases.known("step"))
    first = steps.where((steps["copy"] == 1) & steps.known("step_time_s"))
    if not len(phases) or not len(first):
        return []
    whole: dict[tuple[str, str], float] = {}
    inside: dict[tuple[str, str], float] = {}
    for column, name in zip(STEP_TIMES, WHOLES, strict=True):
        for run, rows in first.by("run").items():
            if (seconds_of_run := float(np.nansum(rows[column]))) > 0:
                whole[run, name] = seconds_of_run
                inside[run, "step"] = inside.get((run, "step"), 0.0) + (0.0 if name == "step" else seconds_of_run)
    names_of_steps = set(whole)
    by_phase = groups_of(phases.codes("run")[0], phases.codes("phase")[0])
    ranks = np.bincount(by_phase.inverse[groups_of(by_phase.inverse, phases["rank"]).first])
    times = np.bincount(by_phase.inverse, phases["time_s"]) / ranks
    semantics = {run.id: run.semantics for run in data.runs}
    named = phases.where(by_phase.first)
    for run, name, time in zip(named["run"].tolist(), named["phase"].tolist(), times.tolist(), strict=True):
        whole.setdefault((run, name), time)
    for run, name, time in zip(named["run"].tolist(), named["phase"].tolist(), times.tolist(), strict=True):
        meaning = semantics[run]
        if (run, name) in names_of_steps or meaning.is_hidden(name, None):
            continue
        around = next((each for each in meaning.lineage(name, 1)[1:] if whole.get((run, each))), "step")
        if around == "step" or not meaning.phase(name):  # declared parts of phases are compared step by step
            inside[run, around] = inside.get((run, around), 0.0) + time
    found = {run for (run, name), seconds_inside in inside.items() if seconds_inside > whole.get((run, name), 0.0)}
    return [run for run in data.runs if run.id in found]


def _steps_exceeded(steps: Rows) -> Mask:
    """Flag the steps that are shorter than forward + backward."""
    parts: Floats = steps["forward_s"] + steps["backward_s"]
    return parts > steps["step_time_s"] * (1 + _STEP_SLACK)


def _parts_of_phases(declared: Mapping[str, Phase]) -> Iterator[tuple[str, list[str]]]:
    """Each phase that has parts on the same clock, with these parts."""
    for name, whole in declared.items():
        parts = [p.name for p in declared.values() if p.of == (name,) and not p.hidden and p.clock == whole.clock]
        if parts:
            yield name, parts


def _runs_with_long_parts(data: LintInput) -> list[LintedRun]:
    """The runs in which a phase may be shorter than its parts, by sums of all runs at once, which are not exact."""
    phases, steps = data.by_step("phases")
    times = phases["time_s"]
    if (times < 0).any():  # rough sums could be far from the exact ones
        return list(data.runs)

    def rough_sums(names: Collection[str]) -> Floats:
        chosen = phases.one_of("phase", names)
        return np.bincount(steps.inverse[chosen], times[chosen], len(steps.first)).astype(np.float64)

    too_long = np.zeros(len(steps.first), np.bool_)
    for form in {run.semantics.format for run in data.runs}:
        for name, parts in _parts_of_phases({p.name: p for p in form.phases} if form else {}):
            with np.errstate(all="ignore"):
                too_long |= rough_sums(parts) / rough_sums([name]) > 1 + _PHASE_SLACK / 2
    return data.runs_of(phases, steps.first[too_long])


def _phases_exceed(run: LintedRun) -> Iterator[Finding]:
    """Phases shorter than their parts on the same clock, all ranks of a step summed: ranks need not be known.

    The largest times of several parts may be of several ranks: only the smallest are added, and each part is compared.
    """
    phases, declared = run["phases"].where(run["phases"].known("step")), run.semantics.phases
    if not len(phases):
        return
    codes, words = phases.codes("phase")
    groups = groups_of(codes, phases["step"])
    steps, step_index = np.unique(phases["step"][groups.first], return_inverse=True)
    times: dict[str, Floats] = {}  # of each step
    least: dict[str, Floats] = {}
    counts: dict[str, Ints] = {}
    group_codes, sums = codes[groups.first], groups.sums(phases["time_s"])
    are_largest = is_slowest_rank(phases)
    smallest = np.where(np.isnan(phases["min_s"]), np.where(are_largest, 0.0, phases["time_s"]), phases["min_s"])
    least_sums = groups.sums(smallest)
    for code in np.unique(group_codes).tolist():
        chosen = group_codes == code
        times[words[code]], counts[words[code]] = np.full(len(steps), np.nan), np.zeros(len(steps), np.int64)
        times[words[code]][step_index[chosen]] = sums[chosen]
        least[words[code]] = np.full(len(steps), np.nan)
        least[words[code]][step_index[chosen]] = least_sums[chosen]
        counts[words[code]][step_index[chosen]] = groups.sizes[chosen]
    for name, parts in _parts_of_phases(declared):
        inner = [part for part in parts if part in times]
        if name not in times or not inner:
            continue
        complete = (counts[name] > 0) & np.all([counts[part] == counts[name] for part in inner], axis=0)
        cases = [(inner, least, "the fastest rank of each" if are_largest.any() else "all ranks of a step summed")]
        if are_largest.any():
            cases += [([part], times, "the slowest rank of each") for part in inner]
        for some, seconds_of, ranks in cases:
            with np.errstate(all="ignore"):
                ratio = np.sum([seconds_of[part] for part in some], axis=0) / times[name]
            exceeds = complete & (ratio > 1 + _PHASE_SLACK)
            if exceeds.any():
                wrong = steps[exceeds]
                excess = float(ratio[exceeds].max() - 1)
                message = (
                    f"{' + '.join(some)} exceeds {name} in {len(wrong):,} of {len(steps):,} steps, by up to "
                    f"{percent(excess)} ({ranks})"
                )
                lines = phases["line"][np.isin(phases["step"], wrong) & phases.one_of("phase", [name])]
                yield Finding(run.id, message, {run.id: lines}, {"excess": excess, "of": len(steps)})
