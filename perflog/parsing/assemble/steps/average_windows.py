"""Windows of averages: which steps a printed average is the mean of, found by computing it again.

In: the figures of step lines, and the averages that summary lines print. Out: columns `window_first`, `window_last` and
`window_fit` of table `summaries`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints
from perflog.formats.template import Field
from perflog.parsing.assemble.attributed_rows import AttributedRows
from perflog.parsing.assemble.runs.run_state import RunIndex
from perflog.parsing.assemble.steps.step_repeats import by_number
from perflog.parsing.assemble.table_builder import key_names, names_its_number
from perflog.tables.arrow import number_array, with_column, word_array
from perflog.tables.schema import column_for

if TYPE_CHECKING:
    import pyarrow as pa


MOST_STEPS = 4096
"""Steps of a run in which windows are looked for: memory stays flat however long a run is."""

LEAST_STEPS = 256
"""Steps of each rank that are kept, however many ranks print."""

SEARCHES = 50
"""Figures of a log for which all windows are searched in vain; after that only windows at the end of a run are."""


class StepWindow(Struct, frozen=True):
    """Steps `first:last` (indices, last excluded). Their mean is the printed value. `exact`: to the last bit."""

    first: int
    last: int
    exact: bool


def find_window(
    values: Floats, printed: float, decimals: int, hint: int | None = None, everywhere: bool = True
) -> StepWindow | None:
    """Return the window of `values` with the printed mean; None if none fits.

    Windows that end at the last step are tried first, then all others. Without equality to the last bit a window counts
    only if it is the only one within the rounding of the printed values.

    Args:
        values: The figures of the steps as printed.
        printed: The average.
        decimals: Decimals of the values.
        hint: Length of the window at the end that fitted the last average of the log.
        everywhere: Whether to try windows that end before the last step.
    """
    n = len(values)
    slack = 0.5 * 10.0**-decimals + 1e-12 * abs(printed)
    if n == 0 or not np.isfinite(printed):
        return None
    if hint and hint <= n:
        tail = values[n - hint :]
        if abs(float(tail.mean()) - printed) <= slack:
            return StepWindow(n - hint, n, _is_exact(tail, printed))
    for last in range(n, 0, -1):
        starts = _fitting_starts(values, printed, slack, last)
        exact = [s for s in starts if _is_exact(values[s:last], printed)]
        if exact:
            return StepWindow(exact[0], last, True)
        if last == n and len(starts) == 1:
            return StepWindow(starts[0], n, False)
        if last == n and (starts or not everywhere):
            return None
    return None


def _fitting_starts(values: Floats, printed: float, slack: float, last: int) -> list[int]:
    """Return where the windows begin that end at `last` and have the printed mean within the slack."""
    starts = np.arange(last)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    means = (sums[last] - sums[starts]) / (last - starts)
    return [int(s) for s in starts[np.abs(means - printed) <= slack]]


def _is_exact(values: Floats, printed: float) -> bool:
    """Return whether the mean is equal to the last bit.

    Programs sum in order, and their timers hold C floats, so the float32 of each printed value is tried too.
    """
    single = values.astype(np.float32).astype(np.float64)
    return _sequential_mean(single) == printed or _sequential_mean(values) == printed


def _sequential_mean(values: Floats) -> float:
    return float(np.cumsum(values)[-1] / len(values))


class _PrintedWindow(NamedTuple):
    """The steps of an average by their printed numbers, `last` included. `exact`: its mean is equal to the last bit."""

    first: int
    last: int
    exact: bool


class _PrintedValues(Struct, frozen=True):
    """One quantity in some steps of a rank, as printed. `positions`: of the lines in the log, ascending."""

    positions: Ints
    steps: Ints
    values: Floats
    decimals: int
    factor: float  # to the base unit


_RankValues = dict[int, list[_PrintedValues]]


class AverageWindows:
    """Keeps the last steps of each run, and looks for the windows of averages in them."""

    def __init__(self) -> None:
        self._values: dict[int, dict[str, _RankValues]] = {}  # by number of the run, then by name of the quantity
        self._hints: dict[tuple[int, str], int] = {}  # by log and name of the quantity
        self._searches: Counter[int] = Counter()  # by log

    def add_steps(self, rows: Sequence[AttributedRows], runs: RunIndex) -> None:
        """Remember the figures of step lines. Only the first printing of each step counts."""
        for row in rows:
            for run, low, high in runs.split(row.records.positions):
                self._remember(self._values.setdefault(run.index, {}), row, low, high)

    def end(self, run: int) -> None:
        """Forget a run that has ended."""
        self._values.pop(run, None)

    def fill(self, summaries: pa.Table, rows: Sequence[AttributedRows], runs: RunIndex) -> pa.Table:
        """Return table `summaries` with the windows of its figures, which were made from these rows."""
        windows = [window for row in rows for window in self._windows_of(row, runs)]
        known = np.array([window is not None for window in windows], np.bool_)
        for bound, name in enumerate(("window_first", "window_last")):
            steps = np.array([window[bound] if window else 0 for window in windows], np.int64)
            summaries = with_column(summaries, name, number_array(steps, known))
        fits = np.array([-1 if window is None else int(not window.exact) for window in windows], np.int64)
        return with_column(summaries, "window_fit", word_array(fits, ("exact", "rounding")))

    def _remember(self, figures: dict[str, _RankValues], rows: AttributedRows, low: int, high: int) -> None:
        for rank, selected in by_number(rows.ranks.rank[low:high]):
            indices: slice | Ints = slice(low, high) if isinstance(selected, slice) else low + selected
            if rows.copy is not None and not (rows.copy[indices] == 1).all():
                indices = np.arange(low, high)[selected][rows.copy[indices] == 1]
            positions, steps = rows.records.positions[indices].copy(), rows.step[indices].copy()
            for f in rows.line.template.fields:
                if not f.numeric or f.name == "step" or not column_for("steps", f.name):
                    continue
                unit = rows.line.unit.get(f.name)
                values = rows.records.columns[f.name][indices].astype(np.float64)
                ranks = figures.setdefault(f.name, {})
                parts = ranks.setdefault(rank, [])
                parts.append(_PrintedValues(positions, steps, values, _decimals(f), unit.factor if unit else 1.0))
                while sum(len(part.positions) for part in parts[1:]) >= _steps_kept(ranks):
                    parts.pop(0)

    def _windows_of(self, rows: AttributedRows, runs: RunIndex) -> list[_PrintedWindow | None]:
        """Return the window of each value of summary lines."""
        windows: list[_PrintedWindow | None] = []
        run_indices = runs.indices_at(rows.records.positions).tolist()
        for field in _figure_fields(rows):
            if field not in rows.records.columns:  # computed from several numbers
                windows += [None] * len(rows)
                continue
            names = key_names(rows) if names_its_number(rows) else [field] * len(rows)
            unit = rows.line.unit.get(field)
            factor = unit.factor if unit else 1.0
            for i, printed in enumerate(rows.records.columns[field].tolist()):
                run = runs.runs[run_indices[i]]
                figures = self._values.get(run.index, {})
                ranks = figures.get(names[i], {})
                rank, position = int(rows.ranks.rank[i]), int(rows.records.positions[i])
                windows.append(self._window((run.log, names[i]), ranks, rank, position, printed, factor))
        return windows

    def _window(
        self, name: tuple[int, str], ranks: _RankValues, rank: int, position: int, printed: float, factor: float
    ) -> _PrintedWindow | None:
        """Search the steps that the rank printed; if it printed none or is not known (-1), the steps of each rank."""
        for who in [rank] if rank in ranks else sorted(ranks):
            parts = ranks[who]
            in_unit_of_steps = printed if factor == parts[-1].factor else printed * (factor / parts[-1].factor)
            window = self._window_of_rank(name, parts, _steps_kept(ranks), position, in_unit_of_steps)
            if window is not None:
                return window
        return None

    def _window_of_rank(
        self, name: tuple[int, str], parts: list[_PrintedValues], max_steps: int, position: int, printed: float
    ) -> _PrintedWindow | None:
        """Search the last `max_steps` steps before `position` for the window with the printed mean.

        Args:
            name: Log and name of the quantity.
            parts: Its values on one rank, a part for each chunk of the log.
            max_steps: Number of steps to search.
            position: Position of the average in the log.
            printed: The average, in the unit of the values.
        """
        last = parts[-1]
        hint = self._hints.get(name)
        steps, values = last.steps, last.values
        if hint is None or len(steps) < hint or last.positions[-1] > position:  # else the last part is enough
            stop = int(np.searchsorted(np.concatenate([part.positions for part in parts]), position))
            steps = np.concatenate([part.steps for part in parts])[:stop][-max_steps:]
            values = np.concatenate([part.values for part in parts])[:stop][-max_steps:]
        window = find_window(values, printed, last.decimals, hint, self._searches[name[0]] < SEARCHES)
        if window is None or window.last < len(values):
            self._searches[name[0]] += 1  # all windows were tried
        if window is None:
            return None
        if window.last == len(values):
            self._hints[name] = window.last - window.first
        return _PrintedWindow(int(steps[window.first]), int(steps[window.last - 1]), window.exact)


def _figure_fields(rows: AttributedRows) -> list[str]:
    """Return the fields of a summary line that give rows of table `summaries`, in the order of these rows."""
    if names_its_number(rows):
        return ["value"]
    elsewhere = {"rank", "step", *rows.line.run, *rows.line.paths}
    names = (name for name in rows.line.template.names if name not in elsewhere)
    return [name for name in names if name in rows.line.paths or column_for("summaries", name) is None]


def _decimals(f: Field) -> int:
    """Return the decimals of a field of fixed precision; for other fields, the decimals of a double."""
    return int(f.spec.split(".")[1][:-1]) if "." in f.spec and f.type == "f" else 15


def _steps_kept(ranks: Mapping[int, object]) -> int:
    """Return how many steps of each of these ranks are kept, so that a run's total stays the same."""
    return max(LEAST_STEPS, MOST_STEPS // len(ranks))
