"""The runs as the rules see them, and the words their messages are made of."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from perflog.metrics.registry import Options, Tables
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.step_series import StepSeries, step_series
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd

TIMES = ("step_time_s", "forward_s", "backward_s")
"""The times of table `steps`."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run. `run["steps"]` are its rows of a table, in the order of the log."""

    id: str
    name: str
    log: str
    process: int | None
    printout: str | None
    first_line: int
    last_line: int
    meaning: RunSemantics
    seen: Seen = field(repr=False)

    def __getitem__(self, table: str) -> pd.DataFrame:
        return self.seen.rows(table, self.id)

    def series(self, column: str = "step_time_s") -> StepSeries | None:
        """One value per step; None where the run prints none."""
        return self.seen.series(column).get(self.id)


class Seen:
    """What was read of some runs: their tables, what their formats declare, their series."""

    def __init__(self, tables: Tables, options: Options) -> None:
        self.tables, self.options = tables, options
        self._series: dict[str, dict[str, StepSeries]] = {}

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All runs, in their order."""
        table = self.tables["runs"]
        meant = semantics_by_run(table)
        return tuple(
            Run(
                id=r["run"],
                name=r["label"] if isinstance(r["label"], str) else f"{os.path.basename(r['log'])}#{r['index']}",
                log=r["log"],
                process=r["process"] if isinstance(r["process"], int) else None,
                printout=r["printout"] if isinstance(r["printout"], str) else None,
                first_line=int(r["first_line"]),
                last_line=int(r["last_line"]),
                meaning=meant[r["run"]],
                seen=self,
            )
            for r in table.to_dict("records")
        )

    def rows(self, table: str, run: str) -> pd.DataFrame:
        """The rows of a table that are of a run."""
        rows = self.tables.by_run(table).get(run)
        return self.tables[table].iloc[:0] if rows is None else rows

    def series(self, column: str) -> dict[str, StepSeries]:
        """The series of a column of `steps`, by run."""
        if column not in self._series:
            self._series[column] = {s.run: s for s in step_series(self.tables, column, self.options.warmup)}
        return self._series[column]


# --- words ------------------------------------------------------------------------------------------------------


def count(number: int, noun: str) -> str:
    """`1 step`, `3 steps`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def some(names: Iterable[object], most: int = 5) -> str:
    """The first few of them, and how many more there are."""
    every = list(map(str, names))
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def seconds(value: float) -> str:
    """A time in a unit that suits it."""
    return show(float(value), "s")


def span(values: Sequence[float]) -> str:
    """`3.1 ms to 4 ms`, or one value where they are shown alike."""
    low, high = seconds(min(values)), seconds(max(values))
    return low if low == high else f"{low} to {high}"


def percent(share: float, sign: bool = False) -> str:
    """A share in percent: `1.2 %`, with `sign` `+1.2 %`."""
    digits = 2 if abs(share) < 0.01 else 1
    return f"{share * 100:{'+' if sign else ''}.{digits}f} %"


def median(values: Iterable[float]) -> float:
    """The median of some numbers."""
    return float(np.median(np.asarray(list(values), np.float64)))
