"""Series of scalars that a program logs by step, under names of its own: rows of tables `values` and `steps`.

Every scalar is a row of `values` under its name. A row of `steps` takes the scalars with known names, and the
time at which the step was logged. Step times are differences of these times, with the row that was subtracted from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from perflog.formats import vocabulary
from perflog.formats.families.name_units import name_and_unit
from perflog.lazy_patterns import lazy_pattern
from perflog.readers.events.event_table import EventOrigin
from perflog.readers.odd_numbers import LARGEST, nanoseconds
from perflog.tables.schema import column_for
from perflog.units import UNITS

_OTHER_DATA = lazy_pattern(rf"(?:^|[/._ -]){vocabulary.EVALUATION}(?:$|[/._ -])", re.IGNORECASE)


class Scalar(Struct, frozen=True):
    """One number or string of a series: the position of its record, step, name, and seconds since the run began."""

    place: int
    step: int | None
    key: str
    value: float | str
    elapsed: float | None


def value_rows(origin: EventOrigin, scalars: Sequence[Scalar]) -> list[dict[str, object]]:
    """Return rows of table `values`."""
    return [
        _row(origin, scalar) | {"key": scalar.key, "text" if isinstance(scalar.value, str) else "value": scalar.value}
        for scalar in scalars
    ]


def step_rows(origin: EventOrigin, scalars: Sequence[Scalar], began: float | None) -> list[dict[str, Any]]:
    """Return rows of table `steps`: one for each logging of a step by the series that leads.

    `began`: start of the run in seconds since 1970, where the file states it.
    """
    numbers = [s for s in scalars if not isinstance(s.value, str) and s.step is not None]
    counts = Counter(scalar.key for scalar in numbers if not _OTHER_DATA.search(scalar.key))
    columns = _columns(counts)
    leading = next((key for key, (column, _) in columns.items() if column == "loss"), None)
    leading = leading or max(counts, key=lambda key: (key in columns, counts[key]), default=None)
    rows: list[dict[str, Any]] = []
    places: dict[tuple[Any, int], dict[str, Any]] = {}  # step and copy -> row
    copies: Counter[Any] = Counter()
    for scalar in numbers:
        if scalar.key == leading:
            copies[scalar.step] += 1
            row = _row(origin, scalar) | {"copy": copies[scalar.step]}
            rows.append(row)
            places[scalar.step, copies[scalar.step]] = row
    count_by_key: Counter[Any] = Counter()
    for scalar in numbers:
        if scalar.key in columns:
            count_by_key[scalar.key, scalar.step] += 1
            row_of_step = places.get((scalar.step, count_by_key[scalar.key, scalar.step]))
            if row_of_step is not None:
                name, factor = columns[scalar.key]
                row_of_step[name] = float(scalar.value) * factor
    _add_step_times(rows)
    for row in rows:
        if began is not None and row["elapsed_s"] is not None:
            start, elapsed = nanoseconds(began), nanoseconds(row["elapsed_s"])
            row["printed_ns"] = None if start is None or elapsed is None else start + elapsed
    return rows


def _columns(counts: Counter[str]) -> dict[str, tuple[str, float]]:
    """Return the column of `steps` that each series fills, and the factor of its unit.

    Of several series for one column, the longest one fills it.
    """
    chosen: dict[str, tuple[str, float]] = {}
    for key in sorted(counts, key=lambda key: (counts[key], -len(key))):
        if (column := _column(key)) is not None:
            chosen[column[0]] = (key, column[1])
    return {key: (name, factor) for name, (key, factor) in chosen.items()}


def _column(key: str) -> tuple[str, float] | None:
    """Return the column of `steps` for a series, by its name, and the factor of its unit."""
    label, printed = name_and_unit(key)
    field = vocabulary.field_of(label) or vocabulary.field_of(re.split("[/.]", label)[-1])
    quantity = vocabulary.quantities().get(field)
    column = column_for("steps", field) if quantity is not None and not quantity.places else None
    if quantity is None or column is None:
        return None
    unit = UNITS.get(printed or quantity.unit)
    if (unit.base if unit is not None else "") != column.unit:
        return None
    return column.name, unit.factor if unit is not None else 1.0


def _add_step_times(rows: Sequence[dict[str, Any]]) -> None:
    """Add step times by difference of the times at which neighbouring steps were logged."""
    for before, row in zip([None, *rows], rows, strict=False):
        row["steps_averaged"] = None
        if "step_time_s" in row or before is None or row["elapsed_s"] is None or before["elapsed_s"] is None:
            continue
        steps, seconds = row["step"] - before["step"], row["elapsed_s"] - before["elapsed_s"]
        if 0 < steps <= LARGEST and seconds >= 0:
            row |= {"steps_averaged": steps, "step_time_s": seconds / steps, "step_time_from": before["line"]}
            row["step_time_by"] = "clock"


def _row(origin: EventOrigin, scalar: Scalar) -> dict[str, Any]:
    return {
        "run": origin.run, "line": scalar.place, "part": origin.part, "rank": origin.rank, "rank_by": origin.rank_by,
        "step": scalar.step, "elapsed_s": scalar.elapsed,
    }  # fmt: skip
