"""What lines of progress bars become: rows of steps or of values, or lines that are read and dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from msgspec.structs import replace

from perflog.formats.model import Line
from perflog.formats.template import DECLARED_DROPPED, Template
from perflog.parsing.match.records import Batch, FormatLine, Records
from perflog.tables.row_order import PART_BITS
from perflog.units import UNITS

BAR_ELAPSED = "bar_elapsed"
"""The field that holds the time since a bar began, of a line that takes its step from the bar."""

_REDRAWN = "a state of a progress bar near one that is a row: the bar was drawn again, or another process drew it"
_BESIDE = "the time since the bar began is stored with the line that takes its step from the bar"
_STEP, _BAR = "step", "bar"


@lru_cache(1 << 12)
def line_for(line: Line, role: str) -> Line:
    """Return a Line in a role: the Line of a state that is a row of a table or none, or a line with a step of a bar."""
    if role == "with step":
        if line.clock or line.step_by != "bar":  # others are printed at another time than the state
            return replace(line, under_header=True)
        unit = {**line.unit, BAR_ELAPSED: UNITS["s"]}
        return replace(line, under_header=True, clock=(BAR_ELAPSED,), clock_of_bar=True, unit=unit)
    fields = line.bar
    if role == "dropped" or fields is None:
        template = line.template.renamed(dict.fromkeys(field_names(line.template), DECLARED_DROPPED))
        dropped = {DECLARED_DROPPED: _REDRAWN}
        return Line(line.name, template, dropped=dropped, under_header=True, telling=line.telling, bar=line.bar)
    run = (fields.total,) if fields.total else ()
    if role == "steps":
        if line.table == "steps":
            return line
        renamed = {fields.count: _STEP, fields.elapsed: "elapsed"}
        clock = ("elapsed",) if fields.elapsed else ()
        return _moved(line, renamed, table="steps", clock=clock, clock_of_bar=True, run=run)
    if line.table != "steps" and role == "values":
        return line
    if role == "values with step":  # the line beside it is the row of the step
        renamed = {fields.count: _STEP, fields.elapsed: DECLARED_DROPPED} if fields.count != _STEP else {}
        reasons = dict.fromkeys((*line.dropped.values(), _BESIDE))
        dropped = {DECLARED_DROPPED: "; ".join(reasons)}
        return _moved(line, renamed, table="values", within=None, run=run, clock=(), dropped=dropped)
    renamed = {_STEP: _BAR, "elapsed": BAR_ELAPSED} if fields.count == _STEP else {"elapsed": BAR_ELAPSED}
    renamed = {old: new for old, new in renamed.items() if new not in line.template.names}
    return _moved(line, renamed, table="values", within=None, run=())


def _moved(line: Line, renamed: Mapping[str, str], **changes: Any) -> Line:
    """Return the Line of a state with other names and in another table."""
    template = line.template.renamed(renamed)
    unit = {renamed.get(name, name): unit for name, unit in line.unit.items()}
    return replace(line, template=template, samples=(), unit=unit, under_header=True, **changes)


def with_kinds(batch: Batch, lines: Sequence[FormatLine], new: Mapping[int, Mapping[int, Records]]) -> Batch:
    """Return a batch in which the records of some kinds are records of other kinds.

    A physical line with states and another record counts as that record's.
    """
    records = {kind: part for kind, part in batch.records.items() if kind not in new}
    owner = {kind: positions for kind, positions in batch.owner.items() if kind not in new}
    for old, parts in new.items():
        owned = batch.owner.get(old, np.empty(0, np.int64))
        for kind, part in parts.items():
            records[kind] = part
            owner[kind] = owned[np.isin(owned, part.positions)]
    bars = [kind for kind in owner if kind >= 0 and lines[kind][1].bar]
    bar_lines = np.concatenate([np.empty(0, np.int64), *(owner[kind] for kind in bars)]) >> PART_BITS
    for kind, part in records.items():
        if lines[kind][1].read and not lines[kind][1].bar:
            numbers = part.positions >> PART_BITS
            shared, first = np.unique(numbers, return_index=True)
            taken = np.isin(shared, bar_lines)
            if taken.any():
                owner[kind] = np.union1d(owner.get(kind, part.positions[:0]), part.positions[first[taken]])
                owner |= {bar: owner[bar][~np.isin(owner[bar] >> PART_BITS, shared[taken])] for bar in bars}
                bar_lines = bar_lines[~np.isin(bar_lines, shared[taken])]
    return replace(batch, records=records, owner=owner)


def field_names(template: Template) -> list[str]:
    """Return the names of all fields of a template, those that are dropped too."""
    return [f.name for f in template.fields]
