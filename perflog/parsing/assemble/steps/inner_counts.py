"""Counts without a name, such as `[3/60]`: steps of the run, or of a loop inside it, such as an evaluation.

In: the rows of a format, with their steps. Out: rows that count the turns of a loop inside the run are values without a
step. A program that prints larger steps by name than such a count goes to does not count its steps with it. Nor
does one that goes on by name while the count begins again.

Steps may be printed by name after the first counts. Then the log is read again, as the `TimeRoles` have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perflog.arrays import Ints
from perflog.formats.model import Format, Line
from perflog.parsing.assemble.attributed_rows import NO_EPOCH, AttributedRows
from perflog.parsing.assemble.runs.run_state import RunIndex
from perflog.parsing.assemble.steps.time_roles import GivenRoles, Key
from perflog.parsing.assemble.steps.timer_lines import STEP

INNER = "inner"
"""Role of a count of the turns of a loop inside the run. The others count steps."""

_STEP = "step"


class _Count(Struct):
    """A count so far: what it goes to, and whether it has begun again."""

    most: int = 0
    begins_again: bool = False
    last: int = 0

    def add(self, steps: Ints, most: Ints) -> None:
        """Add some of its numbers, and what they go to."""
        self.begins_again |= bool(
            (np.diff(steps, prepend=self.last) < -steps).any()
        )  # less than half of the one before
        self.most, self.last = max(self.most, int(most.max())), int(steps[-1])


class InnerCounts:
    """Decides what counts without a name are. `settled` and `given` mean what they mean for `TimeRoles`."""

    def __init__(self, settled: Mapping[Key, str]) -> None:
        self.given = GivenRoles(settled, self._role)
        self._named: dict[tuple[int, str], _Count] = {}  # by log and format: the steps that are printed by name
        self._unnamed: dict[Key, _Count] = {}

    def fill(self, form: Format, rows: Sequence[AttributedRows], runs: RunIndex) -> None:
        """Take the steps from the rows of a format that count something else."""
        steps = [row for row in rows if len(row) and row.line.table == "steps" and "step" in row.records.columns]
        unnamed = [row for row in steps if is_unnamed(row.line) and (row.epoch == NO_EPOCH).all()]
        for row in steps:
            for run, low, high in runs.split(row.records.positions):
                if not is_unnamed(row.line):
                    self._named.setdefault((run.log, form.name), _Count()).add(row.step[low:high], row.step[low:high])
        for row in unnamed:
            for run, low, high in runs.split(row.records.positions):
                count = self._unnamed.setdefault((run.log, form.name, row.line.name, _STEP), _Count())
                count.add(row.step[low:high], row.records.columns["steps"][low:high])
        for row in unnamed:
            logs = sorted({run.log for run, _, _ in runs.split(row.records.positions)})
            if self.given.role_for([(log, form.name, row.line.name, _STEP) for log in logs]) == INNER:
                row.line = replace(row.line, table="values", run=())
                row.forget_step()

    def _role(self, key: Key) -> str:
        named, unnamed = self._named.get(key[:2], _Count()), self._unnamed.get(key, _Count())
        is_inner = unnamed.most < named.most or (unnamed.begins_again and named.most and not named.begins_again)
        return INNER if is_inner else STEP


@lru_cache(1 << 10)
def is_unnamed(line: Line) -> bool:
    """Return whether the step of a line is a count to a total without a name: `[3/60]`."""
    fields, literals = line.template.fields, line.template.literals
    return any(
        (field.name, after.name) == ("step", "steps") and before[-1:] in ("[", "(") and between == "/"
        for field, after, before, between in zip(fields, fields[1:], literals, literals[1:], strict=False)
    )
