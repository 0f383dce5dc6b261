"""Divergence: losses and gradient norms that become NaN or infinite, and where."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np
from msgspec import Struct

from perflog.arrays import Mask
from perflog.grouping import grouped
from perflog.metrics.directions import FACTORS, letter_words
from perflog.metrics.run_tables import Tables, computed_list
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL, Rows

LOSS, GRAD_NORM = "loss", "grad_norm"
_COLUMNS = (LOSS, GRAD_NORM)
_NO_LOSS = FACTORS | {"best", "min", "z"}
"""Words of names with the word `loss` that are not losses: factors, or values that are NaN until they are known."""
_COMPARED, _FAR, _FAR_SHARE = 50, 10.0, 0.5  # values; times their scatter, and share of their median, of a rise
_LONGER, _SPARSE = 3, 3  # times the longest gap before; number of gaps


class Divergence(Struct, frozen=True):
    """A series of a run, on one rank or on ranks that print the same, with values that are NaN or infinite.

    Attributes:
        run: The run.
        name: Name of the series.
        ranks: The ranks that print it so; empty if the lines name no rank, or if all ranks print it so.
        line: Line of the first such value; of those at the end of the series, if it does not become finite again.
        step: Its step; None if the line prints none.
        value: The value there.
        lines: The lines of all such values.
        total: The number of all values.
        last_finite: The last finite value before that line; None if there is none.
        last_finite_step: Its step; None if the line prints none.
        lasts: Whether no finite value follows.
    """

    run: str
    name: str
    ranks: tuple[int, ...]
    line: int
    step: int | None
    value: float
    lines: tuple[int, ...]
    total: int
    last_finite: float | None
    last_finite_step: int | None
    lasts: bool

    @property
    def is_lost(self) -> bool:
        """Whether the series was finite and is not any more; the loss also if it never was."""
        return self.lasts and (self.last_finite is not None or self.name == LOSS)


@computed_list
def divergences(tables: Tables) -> Iterator[Divergence]:
    """Return the losses and gradient norms with NaN or infinite values, grouped by run.

    NaN counts where it is printed; a DataFrame that takes NaN for a missing value holds none.
    """
    steps, values = tables.rows("steps"), tables.rows("values")
    keys = [key for key in values.codes("key")[1] if _is_watched(key)]
    watched = values.where(values.one_of("key", keys)) if keys else values.where(np.zeros(0, np.int64))
    found = grouped((run, (name, rows, name)) for name in _COLUMNS for run, rows in _affected(steps, name).items())
    for run, rows in _affected(watched, "value").items():
        for key, key_rows in rows.by("key").items():
            found.setdefault(run, []).append((key, key_rows, "value"))
    for run in tables.rows("runs")["run"].tolist():
        for name, rows, column in found.get(run, ()):
            yield from _series_divergences(run, name, rows, column)


class Rise(Struct, frozen=True):
    """A series of steps that is far above its usual values just before it, or another one, diverges.

    `line`, `step` and `value`: of the first such value. `usual`: the median of the values before.
    """

    name: str
    line: int
    step: int | None
    value: float
    usual: float


def rises_before(tables: Tables, lost: Divergence) -> Iterator[Rise]:
    """Yield the loss and the gradient norm that rise, without a fall, up to the line where a series diverges."""
    steps = tables.rows_of("steps", lost.run)
    steps = steps.where(steps["line"] < lost.line)
    if lost.ranks:
        steps = steps.where(np.isin(steps["rank"], lost.ranks))
    steps = steps.where(np.argsort(steps["line"], kind="stable"))
    for name in _COLUMNS:
        rows = steps.where(steps.known(name) & ~_not_finite(steps, name))
        values = rows[name][-_COMPARED:]
        if len(values) < _COMPARED // 2:
            continue
        usual = float(np.median(values))
        scatter = float(np.median(np.abs(values - usual)))
        far = values > usual + max(_FAR * scatter, _FAR_SHARE * abs(usual))
        high = len(values) if far.all() else int((~far)[::-1].argmax())
        if high:
            first = len(rows) - high
            step = int(rows["step"][first])
            yield Rise(name, int(rows["line"][first]), None if step == NULL else step, float(rows[name][first]), usual)


def _is_watched(key: str) -> bool:
    words = set(letter_words(key))
    is_norm = bool(words & {"grad", "gradient"}) and "norm" in words
    return (is_norm or "loss" in words) and not words & _NO_LOSS


def _affected(rows: Rows, column: str) -> dict[str, Rows]:
    """The printed values of the runs that print one that is not finite."""
    flags = _not_finite(rows, column)
    if not flags.any():
        return {}
    codes, words = rows.codes("run")
    runs = {words[code] for code in np.unique(codes[flags]).tolist()}
    return rows.where(rows.one_of("run", runs) & (rows.known(column) | rows.nans(column))).by("run")


def _not_finite(rows: Rows, column: str) -> Mask:
    return np.isinf(rows[column]) | rows.nans(column)


def _series_divergences(run: str, name: str, rows: Rows, column: str) -> Iterator[Divergence]:
    """Yield the divergences of a series, one for the ranks that diverge at one step and all recover, or all do not."""
    rows = rows.where(np.argsort(rows["line"], kind="stable"))
    ranks = groups_of(rows["rank"])
    alike: dict[tuple[int | None, bool], list[tuple[int, Divergence]]] = {}
    for number, first in enumerate(ranks.first.tolist()):
        rank_rows = rows.where(ranks.inverse == number)
        if (found := _rank_divergence(run, name, rank_rows, column)) is not None:
            alike.setdefault((found.step, found.lasts), []).append((int(rows["rank"][first]), found))
    for members in alike.values():
        (_, first_found), *_ = members
        numbers = tuple(sorted(rank for rank, _ in members if rank != NULL)) if len(members) < len(ranks.first) else ()
        lines = sorted(line for _, found in members for line in found.lines)
        total = sum(found.total for _, found in members)
        line = min(found.line for _, found in members)
        yield Divergence(
            run, name, numbers, line, first_found.step, first_found.value, tuple(lines), total,
            first_found.last_finite, first_found.last_finite_step, first_found.lasts,
        )  # fmt: skip


def _rank_divergence(run: str, name: str, rows: Rows, column: str) -> Divergence | None:
    flags, numbers = _not_finite(rows, column), rows[column]
    if not flags.any():
        return None
    stretches = [(lost, len(list(members))) for lost, members in groupby(flags.tolist())]
    gaps = [length for lost, length in stretches[1:-1] if lost]
    lasts = stretches[-1][0] and stretches[-1][1] > _LONGER * max(gaps, default=0)
    if len(gaps) >= _SPARSE and not lasts and column not in _COLUMNS:
        return None  # a value that only some lines have, such as a validation loss
    index = len(flags) - stretches[-1][1] if lasts else int(flags.argmax())
    before = np.flatnonzero(~flags[:index])
    finite = int(before[-1]) if len(before) else None
    if finite is None and column not in _COLUMNS and (name != LOSS or len(rows) == 1):
        return None  # a value that is not known yet is printed so too
    steps = [None if step == NULL else step for step in rows["step"].tolist()]
    return Divergence(
        run, name, (), int(rows["line"][index]), steps[index], float(numbers[index]),
        tuple(rows["line"][flags].tolist()), len(rows),
        None if finite is None else float(numbers[finite]), None if finite is None else steps[finite], lasts,
    )  # fmt: skip
