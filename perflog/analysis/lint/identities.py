"""Numbers that contradict one another: declared identities, parts longer than their whole, rows of a profile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from perflog.analysis.lint.registry import Finding, rule
from perflog.analysis.lint.view import Run, Seen, count, percent, seconds
from perflog.formats.expressions import Expression
from perflog.formats.model import Format, Line
from perflog.formats.template import Field
from perflog.parsing.match.rank_labels import strip_rank_labels
from perflog.statistics.samples import Floats
from perflog.tables.schema import PER_FIELD, column_for
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd

_STORED = 1e-12  # relative: what is lost when a printed number goes to its base unit and back
_STEP_SLACK = 1e-3  # of the whole: more than printed decimals lose
_PHASE_SLACK = 0.01
_SAME_FIGURE = 0.02  # what two printings of one figure may differ by: they are taken some lines apart


@rule(
    code="identity-fails",
    severity="error",
    title="a printed identity fails",
    why="The line prints a number that its other numbers and the settings of the run give otherwise: the log was "
    "edited, lines of several runs were mixed, or the program computes something else than it prints.",
    action="do not use the number; recompute it from the others, and look at the lines",
    needs=("lines",),
)
def identity_fails(seen: Seen) -> Iterator[Finding]:
    """Each `check` of a format, on all lines of its kind, at the precision they are printed with."""
    for run in seen.runs:
        if run.meaning.format is None:
            continue
        present = _lines_read(run, run.meaning.format)
        for line in present:
            if line.check is not None:
                yield from _failing(run, line, line.check, [x for x in present if x.table == line.table])


def _lines_read(run: Run, form: Format) -> list[Line]:
    """The lines of a format that the run has, those of families as the log shows them."""
    lines = run["lines"]
    lines = lines[lines["status"] == "read"]
    every = {x.template.text: x for x in form.lines}
    for shape, sample in zip(lines["shape"], lines["sample"], strict=True):
        if shape not in every and isinstance(sample, str):
            text = strip_rank_labels(sample.encode()).decode()
            every |= {x.template.text: x for family in form.families for x in family.lines(text)}
    return [every[shape] for shape in lines["shape"] if shape in every and every[shape].read and every[shape].table]


def _failing(run: Run, line: Line, check: tuple[str, Expression], alike: Sequence[Line]) -> Iterator[Finding]:
    left, expr = check
    records = _records(run, line, alike)
    given = {k: float(v) for k, v in run.meaning.config.items() if type(v) in (int, float)}
    if not len(records) or any(n not in records and n not in given for n in (left, *expr.names)):
        return
    values = given | {name: records[name].to_numpy(np.float64) for name in records.columns}
    grains = {f.name: _grain(f, values[f.name]) for f in line.template.fields if f.name in records}
    with np.errstate(all="ignore"):
        expected = np.broadcast_to(np.asarray(expr(values), np.float64), len(records))
        slack = grains[left] + _STORED * np.abs(values[left])
        for name in {*expr.names} & grains.keys():
            moved = [np.abs(expr(values | {name: values[name] + s * grains[name]}) - expected) for s in (1, -1)]
            slack = slack + np.maximum(*moved)
        wrong = np.abs(values[left] - expected) > slack * (1 + 1e-9)
    if not wrong.any():
        return
    at = records.index.get_level_values("line").to_numpy(np.int64)
    worst = int(np.argmax(np.where(wrong, np.abs(values[left] - expected), -1)))
    field = next(f for f in line.template.fields if f.name == left)
    message = (
        f"`{left} == {expr.text}` fails on {int(wrong.sum()):,} of {len(records):,} lines: line {at[worst]} prints "
        f"{left} {field.render(values[left][worst]).strip()}, the rest of it gives "
        f"{field.render(expected[worst]).strip()}"
    )
    numbers = {"printed": float(values[left][worst]), "expected": float(expected[worst]), "of": len(records)}
    yield Finding(run.id, message, {run.id: at[wrong]}, numbers)


def _records(run: Run, line: Line, alike: Sequence[Line]) -> pd.DataFrame:
    """The numbers of each record of a line kind as printed, indexed by line and part.

    A row is of the kind whose fields it has, and no others; no rows where two kinds of the run have the same.
    """
    table = line.table or ""
    if any(x is not line and _fields(x) == _fields(line) for x in alike):
        return run[table].iloc[:0]
    own = [n for n in _fields(line) if column_for(table, n) is None]
    home = table if table in PER_FIELD else "values"
    name, value = PER_FIELD[home]
    rows = run[home][["line", "part", name, value]]
    if own or table == home:
        rows = rows[rows[name].isin(own)].drop_duplicates(["line", "part", name])
        found = rows.pivot(index=["line", "part"], columns=name, values=value)
    if table not in PER_FIELD:
        cells = {n: c.name for x in alike for n in _fields(x) if (c := column_for(table, n)) is not None}
        wide = run[table][["line", "part", *dict.fromkeys(cells.values())]].set_index(["line", "part"])
        filled = wide[list(cells.values())].notna().to_numpy()
        mine = (filled == [n in _fields(line) for n in cells]).all(axis=1)
        kept = wide.loc[mine, [c for n, c in cells.items() if n in _fields(line)]]
        kept.columns = kept.columns.map({c: n for n, c in cells.items()})
        found = kept.join(found) if own else kept
    numeric = [f.name for f in line.template.fields if f.numeric and f.name in found.columns]
    found = found[numeric].astype("float64").dropna()
    return found / [line.unit[n].factor if n in line.unit else 1.0 for n in numeric]


def _fields(line: Line) -> set[str]:
    return {*line.template.names} - {*line.run}


def _grain(field: Field, values: Floats) -> Floats:
    """Half of the last printed digit of each value."""
    if field.type == "d":
        return np.zeros_like(values)
    precision = re.search(r"\.(\d+)", field.spec)
    digits = int(precision[1]) if precision else 6  # what printf takes
    if field.type == "f":
        return np.full_like(values, 0.5 * 10.0**-digits)
    significant = {"g": digits, "e": digits + 1, "t": 5}.get(field.type)
    if significant is None:
        return _STORED * np.abs(values)
    size = np.floor(np.log10(np.where(values == 0, 1.0, np.abs(values))))
    grain: Floats = 0.5 * 10.0 ** (size - significant + 1)
    return grain


@rule(
    code="figures-disagree",
    severity="warning",
    title="the same figure of a step is printed twice, and differs",
    why="Two programs of one log (a framework and the library under it, say) time the same step, each with its own "
    "clock and its own idea of what belongs to the step. Their rates and times differ by more than timing errors.",
    action="take one of the two for all runs that are compared, and say which",
    needs=("steps", "values"),
)
def figures_disagree(seen: Seen) -> Iterator[Finding]:
    """Columns of `steps` against rows of `values` of the same name and step, where one rank or none prints both."""
    for run in seen.runs:
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
                f"{key} of {count(len(both), 'step')} is printed twice, {percent(abs(ratio - 1))} apart (median): "
                f"for step {first['step']:.0f} line {first['line_x']:.0f} prints {show(first[col.name], col.unit)}, "
                f"line {first['line_y']:.0f} {show(first['value'], col.unit)}"
            )
            yield Finding(run.id, message, {run.id: [*both["line_x"], *both["line_y"]]}, {"ratio": ratio})


@rule(
    code="parts-exceed-whole",
    severity="error",
    title="parts take longer than what they are parts of",
    why="Parts that do not overlap cannot take longer than their whole: the times come from different clocks, from "
    "different ranks, or overlap although they are called parts. A phase that its format declares to run beside the "
    "step is no part of it and may well be longer.",
    action="do not add these times up; find out what each of them really covers",
    needs=(),
)
def parts_exceed_whole(seen: Seen) -> Iterator[Finding]:
    """Forward + backward against step, and declared parts of phases, summed over the ranks of a step."""
    for run in seen.runs:
        steps = run["steps"].dropna(subset=["step_time_s", "forward_s", "backward_s"])
        whole, parts = steps["step_time_s"], steps["forward_s"] + steps["backward_s"]
        wrong = (parts > whole * (1 + _STEP_SLACK)).to_numpy(bool)
        if wrong.any():
            row = int(np.argmax(wrong))
            message = (
                f"forward + backward exceed the step time on {wrong.sum():,} of {len(steps):,} lines: "
                f"{seconds(parts.iloc[row])} against {seconds(whole.iloc[row])} on line {steps['line'].iloc[row]}"
            )
            yield Finding(run.id, message, {run.id: steps["line"][wrong]}, {"of": len(steps)})
        yield from _phases_exceed(run)


def _phases_exceed(run: Run) -> Iterator[Finding]:
    """Whole phases shorter than their parts on the same clock. Ranks need not be known: all of a step are added up."""
    phases, known = run["phases"], run.meaning.phases
    parts_of = {
        name: [p.name for p in known.values() if p.of == (name,) and not p.hidden and p.clock == whole.clock]
        for name, whole in known.items()
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
            verb = "exceed" if len(inner) > 1 else "exceeds"
            message = (
                f"{' + '.join(inner)} {verb} {name} in {len(wrong):,} of {len(times):,} steps, by up to "
                f"{percent(excess)} (all ranks of a step added up)"
            )
            at = phases["line"][phases["step"].isin(wrong) & (phases["phase"] == name)]
            yield Finding(run.id, message, {run.id: at}, {"excess": excess, "of": len(times)})
