"""What needs the steps of a run in a row: repeated printings, intervals, and the windows of printed averages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perflog.arrow import array, words
from perflog.columnar import Ints
from perflog.runs import Run
from perflog.schema import column
from perflog.tables import Builder, Rows
from perflog.windows import TAIL, find

if TYPE_CHECKING:
    import pyarrow as pa

SEARCHES = 50
"""Figures of a log for which all windows are searched in vain; after that only those at the end of a run are."""

_DENSE = 1 << 24


def copies(runs: Sequence[Run], row: Rows, cuts: list[int]) -> Ints:
    """k-th printing of the same step in its run, from 1."""
    out = np.ones(len(row), np.int64)
    for run, low, high in zip(runs, cuts, [*cuts[1:], len(row)], strict=True):
        steps = row.step[low:high]
        if high == low:
            continue
        rising = bool((steps[1:] > steps[:-1]).all()) and int(steps[0]) > run.top
        run.top = max(run.top, int(steps.max()))
        if rising and int(steps[-1]) < _DENSE:
            _seen(run, int(steps[-1]))[steps] = 1
            continue
        for i, step in enumerate(steps.tolist()):
            if 0 <= step < _DENSE:
                seen = _seen(run, step)
                seen[step] += 1
                out[low + i] = seen[step]
            else:
                run.copies[step] = run.copies.get(step, 0) + 1
                out[low + i] = run.copies[step]
    return out


def _seen(run: Run, step: int) -> npt.NDArray[np.uint16]:
    """How often each step was printed, as an array long enough for `step`."""
    if step >= len(run.seen):
        grown = np.zeros(max(2 * len(run.seen), step + 1, 128), np.uint16)
        grown[: len(run.seen)] = run.seen
        run.seen = grown
    return run.seen


def averaged(runs: Sequence[Run], row: Rows, cuts: list[int]) -> Ints:
    """Steps a line covers: 1, or all since the step printed before it, counted from 1."""
    out = np.ones(len(row), np.int64)
    if not row.line.covers:
        return out
    for run, low, high in zip(runs, cuts, [*cuts[1:], len(row)], strict=True):
        last, span = run.last_step, 1
        for i, step in enumerate(row.step[low:high].tolist()):
            if step != last:
                span = step - last if step > last else 1
                last = step
            out[low + i] = span
        run.last_step = last
    return out


class Series:
    """The last steps of each run as they were printed, to find the windows of averages in."""

    def __init__(self) -> None:
        self._hints: dict[str, int] = {}
        self._searches = 0

    def add(self, runs: Sequence[Run], row: Rows, cuts: list[int]) -> None:
        """Remember the numbers of step lines, with their places. Only one printing of each step counts."""
        fields = [f for f in row.line.template.fields if f.numeric and column("steps", f.name) and f.name != "step"]
        for run, low, high in zip(runs, cuts, [*cuts[1:], len(row)], strict=True):
            if high == low:
                continue
            first = np.ones(high - low, np.bool_) if row.copy is None else row.copy[low:high] == 1
            for f in fields:
                unit = row.line.unit.get(f.name)
                decimals = int(f.spec.split(".")[1][:-1]) if "." in f.spec and f.type == "f" else 15
                parts = run.series.setdefault(f.name, [])
                values = row.records.columns[f.name][low:high][first].astype(np.float64)
                factor = unit.factor if unit else 1.0
                parts.append((row.records.at[low:high][first], row.step[low:high][first], values, decimals, factor))
                while sum(len(p[0]) for p in parts[1:]) >= TAIL:
                    parts.pop(0)

    def window(self, run: Run, key: str, place: int, printed: float, factor: float) -> tuple[int, int, str] | None:
        """First and last step of the window whose mean is the printed figure, and how well it fits."""
        parts = run.series.get(key)
        if not parts:
            return None
        decimals, unit = parts[-1][3], parts[-1][4]
        if unit != factor:
            printed *= factor / unit
        hint = self._hints.get(key)
        at, steps, values = parts[-1][:3]
        if hint is None or len(at) < hint or at[-1] > place:
            at, steps, values = (np.concatenate([p[i] for p in parts]) for i in range(3))
            stop = int(np.searchsorted(at, place))
            steps, values = steps[:stop][-TAIL:], values[:stop][-TAIL:]
        found = find(values, printed, decimals, hint, self._searches < SEARCHES)
        if found is None:
            self._searches += 1
            return None
        if found.last == len(values):
            self._hints[key] = found.last - found.first
        return int(steps[found.first]), int(steps[found.last - 1]), "exact" if found.exact else "rounding"


def summaries(builder: Builder, series: Series, runs: Sequence[Run], rows: list[Rows], edges: Ints) -> pa.Table:
    """The rows of printed figures, each with its window."""
    windows: list[list[Any]] = []
    for row in rows:
        names = [n for n in row.line.template.names if n not in row.line.run and n not in ("rank", "step")]
        owner = np.searchsorted(edges, row.records.at, "right") - 1
        for name in names:
            unit = row.line.unit.get(name)
            for i, value in enumerate(row.records.columns[name].tolist()):
                place, factor = int(row.records.at[i]), unit.factor if unit else 1.0
                windows.append(list(series.window(runs[owner[i]], name, place, value, factor) or (None, None, None)))
    table = builder.tables(rows)["summaries"]
    known = np.array([w[0] is not None for w in windows], np.bool_)
    for position, name in ((0, "window_first"), (1, "window_last")):
        values = array(np.array([w[position] or 0 for w in windows], np.int64), known)
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)
    fits = {"exact": 0, "rounding": 1}
    codes = np.array([fits.get(w[2], -1) for w in windows], np.int64)
    index = table.schema.get_field_index("window_fit")
    return table.set_column(index, table.schema.field(index), words(codes, tuple(fits)))
