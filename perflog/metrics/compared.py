"""What comparisons read of metrics: which columns of a metric compare, or how its steady steps are sampled.

`Metric.compares` holds the declarations, `Metric.samples` yields what they give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Floats
from perflog.metrics.directions import Better
from perflog.tables.columns import Rows
from perflog.tables.nulls import none_if_null

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal[
    "target", "step", "run", "phase", "layer", "device", "idle", "kernel", "range", "path", "call", "collective",
    "summary", "value", "memory", "holder", "energy", "counter", "rate", "operator", "load",
]  # fmt: skip

KINDS: tuple[Kind, ...] = get_args(Kind)
"""Kinds of measures, in the order of a reader's questions."""

ALL = "all"
"""Name of the sum of all layers, all kernels, all operators, all API calls, or the work of all ranges."""


class Measure(Struct, frozen=True):
    """A compared measure: its kind and name, base unit, which way is better.

    `derived`: computed from another measure, so it is no further evidence. `of`: the measure of the time that contains
    this one.
    """

    kind: Kind
    name: str
    unit: str = "s"
    better: Better | None = "lower"
    derived: bool = False
    of: str | None = None

    @property
    def column(self) -> str:
        """The column of `steps` that it is of."""
        return self.name + {"s": "_s", "B": "_bytes"}.get(self.unit, "")


STEP_MEASURES = (
    Measure("step", "step_time"),
    Measure("step", "forward", of="step_time"),
    Measure("step", "backward", of="step_time"),
    Measure("step", "tflops", "TFLOP/s", "higher", derived=True),
    Measure("step", "mfu", "1", "higher", derived=True),
    Measure("step", "tokens_per_s", "1/s", "higher", derived=True),
    Measure("step", "samples_per_s", "1/s", "higher", derived=True),
    Measure("step", "memory", "B"),
)
"""Columns of `steps` that are compared. Programs compute the rates from the step time."""

STEP_TIME, TOKENS_PER_S = STEP_MEASURES[0], STEP_MEASURES[5]

RUN_TIME = Measure("run", "elapsed")
"""The last reading of a run's clock."""

Sample = tuple[Measure, str, Floats]
"""A measure, the id of a run, and the values of its steady steps, or its one value."""


class Steady(Struct, frozen=True):
    """The part of each run that is compared.

    `cuts`: number of steps removed at the start, by run; other runs are not compared. `first`: first steady step of the
    runs that print step times. `at`: by run, the steps at which series with different last steps are compared. `last`:
    last step of runs that are compared only up to the end of another run, which ended early. `targets`: values to
    reach, by series.
    """

    cuts: Mapping[str, int]
    first: Mapping[str, int]
    at: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    targets: Mapping[str, float] | None = None
    last: Mapping[str, int] = field(default_factory=dict)

    def rows(self, run: str, rows: Rows) -> Rows:
        """The rows of steady steps of a run. If it prints no step times, the first steps among the rows are cut."""
        rows = self.until_last(run, rows.where(rows.known("step")))
        first = self.first.get(run)
        if first is None:
            steps, cut = np.unique(rows["step"]), self.cuts[run]
            if cut >= len(steps):
                return rows.where(np.zeros(len(rows), np.bool_))
            first = int(steps[cut])
        return rows.where(rows["step"] >= first)

    def until_last(self, run: str, rows: Rows) -> Rows:
        """The rows of the steps that count, and those without a step."""
        last = self.last.get(run)
        return rows if last is None else rows.where(~rows.known("step") | (rows["step"] <= last))


class ComparedColumn(Struct, frozen=True):
    """A column of a metric's table that compares: one value for each run and each value of the key columns.

    The value is the sum of the rows with equal keys; with `per`, their sum / the sum of that column; with `weight`,
    their mean with these weights; with `largest`, the largest of them. Null is left out.

    Attributes:
        kind: Kind of its measures.
        name: Their name, with the keys in braces: "{kind} pause"; or a function of the keys.
        column: The column.
        unit: Base unit of the value, or in braces the column that has it.
        by: The key columns.
        better: Which way is better; None if unknown.
        rows: Which rows of the table count.
    """

    kind: Kind
    name: str | Callable[[Mapping[str, object]], str]
    column: str
    unit: str = "s"
    by: tuple[str, ...] = ()
    better: Better | None = "lower"
    per: str | None = None
    weight: str | None = None
    largest: bool = False
    rows: Callable[[pd.DataFrame], pd.DataFrame] | None = None

    def samples(self, table: pd.DataFrame) -> Iterator[Sample]:
        """Yield the values of a metric's table, which has rows."""
        rows = table if self.rows is None else self.rows(table)
        rows = rows[rows[self.column].notna()]
        for values, alike in rows.groupby(["run", *self.by], dropna=False, sort=False) if len(rows) else ():
            run, *keys = map(none_if_null, values)
            named = dict(zip(self.by, keys, strict=True))
            name = self.name.format(**named) if isinstance(self.name, str) else self.name(named)
            unit = named[self.unit[1:-1]] or "" if self.unit.startswith("{") else self.unit
            yield Measure(self.kind, name, unit, self.better), run, np.array([self._figure(alike)])

    def _figure(self, rows: pd.DataFrame) -> float:
        values = rows[self.column].astype(float)
        if self.largest:
            return float(values.max())
        if self.weight is not None:
            weights = rows[self.weight].astype(float)
            return float((values * weights).sum() / weights.sum())
        return float(values.sum() / rows[self.per].astype(float).sum()) if self.per else float(values.sum())
