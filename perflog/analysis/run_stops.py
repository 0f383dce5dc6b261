"""Where a log stops that tells of no failure: the last step, its line and time, and the ranks that stop before it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from perflog.formats.vocabulary import field_of
from perflog.metrics import Tables
from perflog.metrics.attempts import extents
from perflog.metrics.semantics import semantics_by_run
from perflog.metrics.settings_by_run import STOPPED_BY
from perflog.tables.columns import NULL, Rows
from perflog.tables.schema import LOCAL, NO_DATE, NO_YEAR, UTC
from perflog.units import numbered, numbers_in_words

_FORMS = {UTC: "%Y-%m-%d %H:%M:%S UTC", LOCAL: "%Y-%m-%d %H:%M:%S", NO_YEAR: "%m-%d %H:%M:%S", NO_DATE: "%H:%M:%S"}
_FEW = 3  # ranks; fewer show no outlier


class Stop(Struct, frozen=True):
    """Where a run stops.

    Attributes:
        run: The run.
        step, line: Its last step, and the line that prints it.
        time: When that was printed, in words; None if unknown.
        planned: The number of steps that the log announces; None if it announces none.
        behind: Ranks with an earlier last step, and that step.
        stride: Number of steps between the last two printed steps.
    """

    run: str
    step: int
    line: int
    time: str | None
    planned: int | None
    behind: dict[int, int]
    stride: int = 1

    @property
    def place(self) -> str:
        """The last step: `step 40 of 1,000`."""
        return f"step {self.step:,}" + (f" of {self.planned:,}" if self.planned is not None else "")

    @property
    def is_early(self) -> bool:
        """Whether the log announces more steps, and more than the next line may cover."""
        return self.planned is not None and self.step + self.stride < self.planned

    @property
    def sentence(self) -> str:
        """Where the log stops: `the log stops at step 40 of 1,000 (line 46, 12:20:31)`."""
        verb = "stops at" if self.is_early else "ends with"
        where = f"line {self.line:,}" + (f", {self.time}" if self.time else "")
        return f"the log {verb} {self.place} ({where})"

    @property
    def evidence(self) -> list[str]:
        """The ranks that stop before the others."""
        if not self.behind:
            return []
        steps = numbers_in_words(self.behind.values())
        return [f"the last step of {numbered('rank', self.behind)} is {steps}, of the others {self.step:,}"]


def last_stop(tables: Tables) -> Stop | None:
    """Return where the last run of the last log stops; None if it has no steps."""
    by_run = tables.rows_by_run("steps")
    last = None
    for run, extent in extents(tables).items():
        if run in by_run and extent.last_step >= 0:
            last = run
    if last is None:
        return None
    steps = by_run[last]
    steps = steps.where(steps.known("step"))
    reached = int(steps["step"].max())
    at_end = steps.where(steps["step"] == reached)
    line = int(at_end["line"].max())
    semantics = semantics_by_run(tables.rows("runs"))[last]
    planned = semantics.quantities.get("steps") or _counted_to(steps, semantics.numbers)
    if STOPPED_BY in semantics.config:
        planned = None
    is_number = planned is not None and planned >= reached
    return Stop(
        last,
        reached,
        line,
        _time(at_end),
        int(planned) if is_number and planned is not None else None,
        _behind(steps),
        max(int(np.diff(np.unique(steps["step"]))[-1:].sum()), 1),
    )


def _counted_to(steps: Rows, numbers: Mapping[str, float]) -> float | None:
    """Return the 500 of `step 40/500`; None if the steps are counted anew in each epoch."""
    stems = {name: name.removesuffix("_total") for name in numbers if name.endswith("_total")}
    totals = {numbers[name] for name, stem in stems.items() if field_of(stem) == "step"}
    epochs = {epoch for epoch in steps["epoch"].tolist() if epoch != NULL}
    return totals.pop() if len(totals) == 1 and len(epochs) < 2 else None


def _time(steps: Rows) -> str | None:
    """Return the time of the last of some rows, as far as its clock tells."""
    stamped = steps.where(steps.known("printed_ns"))
    if not len(stamped):
        return None
    clock, time = max(stamped.records("clock", "printed_ns"), key=lambda row: row[1])
    form = _FORMS.get(clock)
    return f"{dt.datetime.fromtimestamp(time // 10**9, dt.UTC):{form}}" if form else None


def _behind(steps: Rows) -> dict[int, int]:
    """Return the few ranks that miss at least the last two steps of the others, with their last step."""
    last: dict[int, int] = {}
    for rank, step in steps.records("rank", "step"):
        if rank is not None and rank != NULL:
            last[rank] = max(step, last.get(rank, step))
    most = max(last.values(), default=0)
    behind = {rank: step for rank, step in last.items() if step < most - 1}
    return behind if len(last) >= _FEW and 2 * len(behind) < len(last) else {}
