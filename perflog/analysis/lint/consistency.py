"""Rules on numbers that contradict each other: formulas, figures printed twice, parts longer than their whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from perflog.analysis.lint.registry import Finding, LintedRun, LintInput, rule
from perflog.analysis.lint.wording import count, percent, seconds
from perflog.formats.expressions import Expression
from perflog.formats.model import Format, Line
from perflog.formats.template import Field
from perflog.parsing.match.rank_labels import strip_rank_labels
from perflog.statistics.samples import Floats
from perflog.tables.schema import PER_FIELD, column_for
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd

_STORED = 1e-12  # relative error of a printed number that was converted to its base unit and back
_STEP_SLACK = 1e-3  # of the whole: more than rounding of the printed decimals
_PHASE_SLACK = 0.01
_SAME_FIGURE = 0.02  # two printings of one figure may differ by this: they are taken some lines apart


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
    """The lines of a format that occur in the run; those of families are made from the log's samples."""
    shapes = run["lines"]
    shapes = shapes[shapes["status"] == "read"]
    by_shape = {x.template.text: x for x in form.lines}
    for shape, sample in zip(shapes["shape"], shapes["sample"], strict=True):
        if shape not in by_shape and isinstance(sample, str):
            text = strip_rank_labels(sample.encode()).decode()
            by_shape |= {x.template.text: x for family in form.families for x in family.lines(text)}
    lines = (by_shape[shape] for shape in shapes["shape"] if shape in by_shape)
    return [line for line in lines if line.read and line.table]


def _check_line(
    run: LintedRun, line: Line, check: tuple[str, Expression], lines_of_table: Sequence[Line]
) -> Iterator[Finding]:
    """Compare a printed number of a line with its formula, on all records of the line."""
    name, formula = check
    records = _records(run, line, lines_of_table)
    settings = {k: float(v) for k, v in run.semantics.config.items() if type(v) in (int, float)}
    if not len(records) or any(n not in records and n not in settings for n in (name, *formula.names)):
        return
    printed = records[name].to_numpy(np.float64)
    expected, slack = _expected(line, name, formula, records, settings)
    with np.errstate(all="ignore"):
        error = np.abs(printed - expected)
        wrong = error > slack * (1 + 1e-9)
    if not wrong.any():
        return
    line_numbers = records.index.get_level_values("line").to_numpy(np.int64)
    worst = int(np.argmax(np.where(wrong, error, -1)))
    field = next(f for f in line.template.fields if f.name == name)
    message = (
        f"{int(wrong.sum()):,} of {len(records):,} lines contradict `{name} == {formula.text.strip()}`: line "
        f"{line_numbers[worst]} prints {name} {field.render(printed[worst]).strip()}, its other numbers give "
        f"{field.render(expected[worst]).strip()}"
    )
    numbers = {"printed": float(printed[worst]), "expected": float(expected[worst]), "of": len(records)}
    yield Finding(run.id, message, {run.id: line_numbers[wrong]}, numbers)


def _expected(
    line: Line, name: str, formula: Expression, records: pd.DataFrame, settings: dict[str, float]
) -> tuple[Floats, Floats]:
    """The value of the formula in each record, and how far rounding of the printed numbers can move it."""
    values = settings | {n: records[n].to_numpy(np.float64) for n in records.columns}
    rounding = {f.name: _rounding(f, values[f.name]) for f in line.template.fields if f.name in records}
    with np.errstate(all="ignore"):
        expected = np.broadcast_to(np.asarray(formula(values), np.float64), len(records))
        slack = rounding[name] + _STORED * np.abs(values[name])
        for n in {*formula.names} & rounding.keys():
            moved = [np.abs(formula(values | {n: values[n] + sign * rounding[n]}) - expected) for sign in (1, -1)]
            slack = slack + np.maximum(*moved)
    return expected, slack


def _records(run: LintedRun, line: Line, lines_of_table: Sequence[Line]) -> pd.DataFrame:
    """The numbers of each record of a line as printed: a column per field, indexed by line number and part.

    Empty where another line of the run has the same fields, because the table does not separate their records.
    """
    table = line.table or ""
    if any(other is not line and _field_names(other) == _field_names(line) for other in lines_of_table):
        return run[table].iloc[:0]
    without_column = [name for name in _field_names(line) if column_for(table, name) is None]
    if table in PER_FIELD:
        records = _pivoted(run[table], *PER_FIELD[table], without_column)
    else:
        records = _rows_of_line(run[table], line, lines_of_table)
        if without_column:
            records = records.join(_pivoted(run["values"], *PER_FIELD["values"], without_column))
    numeric = [f.name for f in line.template.fields if f.numeric and f.name in records.columns]
    in_base_units = records[numeric].astype("float64").dropna()
    return in_base_units / [line.unit[n].factor if n in line.unit else 1.0 for n in numeric]


def _pivoted(rows: pd.DataFrame, name: str, value: str, names: Sequence[str]) -> pd.DataFrame:
    """The fields of a table with one row per field, as one column per field."""
    rows = rows[["line", "part", name, value]]
    rows = rows[rows[name].isin(names)].drop_duplicates(["line", "part", name])
    return rows.pivot(index=["line", "part"], columns=name, values=value)


def _rows_of_line(rows: pd.DataFrame, line: Line, lines_of_table: Sequence[Line]) -> pd.DataFrame:
    """The rows of a table that a line printed: those with values in exactly the columns that the line fills."""
    names = _field_names(line)
    table = line.table or ""
    columns = {n: c.name for x in lines_of_table for n in _field_names(x) if (c := column_for(table, n)) is not None}
    wide = rows[["line", "part", *dict.fromkeys(columns.values())]].set_index(["line", "part"])
    filled = wide[list(columns.values())].notna().to_numpy()
    printed_by_line = (filled == [n in names for n in columns]).all(axis=1)
    records = wide.loc[printed_by_line, [c for n, c in columns.items() if n in names]]
    records.columns = records.columns.map({c: n for n, c in columns.items()})
    return records


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
    title="a figure of a step is printed twice, with different values",
    why="Two programs that write to one log, such as a framework and the library under it, time the same step. Each "
    "has its own clock and counts other work to the step. Their values differ by more than timing errors.",
    action="use one of the two in all runs that you compare, and say which",
    needs=("steps", "values"),
)
def figures_disagree(data: LintInput) -> Iterator[Finding]:
    """Columns of `steps` against rows of `values` of the same name and step, where one rank or none prints both."""
    for run in data.runs:
        values = run["values"].dropna(subset=["step", "value"])
        steps = run["steps"].dropna(subset=["step"]).drop_duplicates("step")
        for key in values["key"].unique():
            col = column_for("steps", key)
            if col is None or col.type != "float64" or len(steps) < 1:
                continue
            other = values[values["key"] == key].drop_duplicates("step")
            both = steps[["step", "line", col.name]].dropna().merge(other[["step", "line", "value"]], on="step")
            both = both[(both["value"] > 0) & (both[col.name] > 0)]
            ratio = float((both["value"] / both[col.name]).median())
            if not len(both) or abs(ratio - 1) <= _SAME_FIGURE:
                continue
            first = both.iloc[0]
            message = (
                f"{key} is printed twice in {count(len(both), 'step')}, {percent(abs(ratio - 1))} apart (median): step "
                f"{first['step']:.0f} has {show(first[col.name], col.unit)} on line {first['line_x']:.0f} and "
                f"{show(first['value'], col.unit)} on line {first['line_y']:.0f}"
            )
            yield Finding(run.id, message, {run.id: [*both["line_x"], *both["line_y"]]}, {"ratio": ratio})


@rule(
    code="parts-exceed-whole",
    severity="error",
    title="parts take longer than their whole",
    why="Parts that do not overlap cannot take longer than their whole. The times come from different clocks or ranks, "
    "or the parts do overlap. A phase that the format declares to run in parallel to the step is no part of it and may "
    "be longer.",
    action="do not add up these times; find out what each of them covers",
    needs=(),
)
def parts_exceed_whole(data: LintInput) -> Iterator[Finding]:
    """Forward + backward against step, and declared parts of phases, summed over the ranks of a step."""
    for run in data.runs:
        steps = run["steps"].dropna(subset=["step_time_s", "forward_s", "backward_s"])
        whole, parts = steps["step_time_s"], steps["forward_s"] + steps["backward_s"]
        wrong = (parts > whole * (1 + _STEP_SLACK)).to_numpy(bool)
        if wrong.any():
            row = int(np.argmax(wrong))
            message = (
                f"forward + backward exceeds the step time on {wrong.sum():,} of {len(steps):,} lines: "
                f"{seconds(parts.iloc[row])} against {seconds(whole.iloc[row])} on line {steps['line'].iloc[row]}"
            )
            yield Finding(run.id, message, {run.id: steps["line"][wrong]}, {"of": len(steps)})
        yield from _phases_exceed(run)


def _phases_exceed(run: LintedRun) -> Iterator[Finding]:
    """Phases shorter than their parts on the same clock, all ranks of a step summed: ranks need not be known."""
    phases, declared = run["phases"], run.semantics.phases
    parts_of = {
        name: [p.name for p in declared.values() if p.of == (name,) and not p.hidden and p.clock == whole.clock]
        for name, whole in declared.items()
    }
    steps = phases.groupby(["step", "phase"])["time_s"]
    times, counts = steps.sum().unstack(), steps.count().unstack()
    for name, parts in parts_of.items():
        inner = [p for p in parts if p in times]
        if name not in times or not inner:
            continue
        complete = counts[inner].eq(counts[name], axis=0).all(axis=1)
        ratio = times[inner].sum(axis=1) / times[name]
        wrong = times.index[complete & (ratio > 1 + _PHASE_SLACK)]
        if len(wrong):
            excess = float(ratio[wrong].max() - 1)
            message = (
                f"{' + '.join(inner)} exceeds {name} in {len(wrong):,} of {len(times):,} steps, by up to "
                f"{percent(excess)} (all ranks of a step summed)"
            )
            lines = phases["line"][phases["step"].isin(wrong) & (phases["phase"] == name)]
            yield Finding(run.id, message, {run.id: lines}, {"excess": excess, "of": len(times)})
