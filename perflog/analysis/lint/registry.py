"""Registry of lint rules. A rule is a pure function from the tables of some runs to findings, with its texts.

A rule takes `LintInput` and yields `Finding`; `RULES` has all rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from perflog.arrays import Ints, Mask
from perflog.metrics.options import Options
from perflog.metrics.run_tables import Tables, cached, frame_of_rows
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.step_series import StepSeries, step_series
from perflog.parsing.input.log_names import base_name
from perflog.statistics.groups import Groups, groups_of
from perflog.tables.columns import NULL, Rows
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

# --- what a rule gets ---------------------------------------------------------------------------------------------

STEP_TIMES = ("step_time_s", "forward_s", "backward_s")
"""The times in table `steps`."""


@dataclass(frozen=True, eq=False)
class LintedRun:
    """One run. `run["steps"]` are its rows of a table as numpy columns, in the order of the log."""

    id: str
    name: str
    log: str
    process: int | None
    printout: str | None
    first_line: int
    last_line: int
    semantics: RunSemantics
    data: LintInput = field(repr=False)

    def __getitem__(self, table: str) -> Rows:
        return self.data.tables.rows_of(table, self.id)

    def frame(self, table: str) -> pd.DataFrame:
        """Return its rows of a table as a DataFrame."""
        return frame_of_rows(self[table], [column.name for column in TABLES[table]])

    @cached_property
    def shapes(self) -> frozenset[str]:
        """The shapes of its lines."""
        return frozenset(self["lines"]["shape"].tolist())

    def series(self, column: str = "step_time_s") -> StepSeries | None:
        """Return one value per step; None where the run prints none."""
        return self.data.series(column).get(self.id)


class LintInput:
    """The runs that are linted together: their tables, series, and what their formats declare."""

    def __init__(self, tables: Tables, options: Options) -> None:
        self.tables, self.options = tables, options
        self._series: dict[str, dict[str, StepSeries]] = {}

    @cached_property
    def runs(self) -> tuple[LintedRun, ...]:
        """All runs, in their order."""
        table = self.tables.rows("runs")
        semantics = semantics_by_run(table)
        columns = ("run", "label", "log", "index", "process", "printout", "first_line", "last_line")
        return tuple(
            LintedRun(
                id=run,
                name=f"{base_name(log)}#{index}" if label is None else label,
                log=log,
                process=None if process == NULL else process,
                printout=printout,
                first_line=first_line,
                last_line=last_line,
                semantics=semantics[run],
                data=self,
            )
            for run, label, log, index, process, printout, first_line, last_line in table.records(*columns)
        )

    def runs_where(self, table: str, flags: Mask) -> list[LintedRun]:
        """Return the runs that have a row with a flag, in their order; `flags` are of all rows of the table."""
        return self.runs_of(self.tables.rows(table), flags)

    def runs_of(self, rows: Rows, chosen: Mask | Ints) -> list[LintedRun]:
        """Return the runs of some of these rows, by flag or index, in their order."""
        codes, words = rows.codes("run")
        ids = {words[code] for code in np.unique(codes[chosen]).tolist()}
        return [run for run in self.runs if run.id in ids] if ids else []

    def runs_that(self, test: Callable[[LintInput], Iterable[LintedRun]], *tables: str) -> list[LintedRun]:
        """Return the runs that a test finds, in their order. It gets some runs at a time where they have many rows."""
        found = set[str]()
        for some in self.tables.in_pieces(*tables):
            found.update(run.id for run in test(self if some is self.tables else LintInput(some, self.options)))
        return [run for run in self.runs if run.id in found]

    def by_step(self, table: str) -> tuple[Rows, Groups]:
        """Return the rows of a table that have a step, and these rows grouped by run and step."""

        def grouped() -> tuple[Rows, Groups]:
            rows = self.tables.rows(table)
            rows = rows.where(rows.known("step"))
            return rows, groups_of(rows.codes("run")[0], rows["step"])

        return cached(self.tables, ("by step", table), grouped)

    def series(self, column: str) -> dict[str, StepSeries]:
        """Return the series of a column of `steps`, by run."""
        if column not in self._series:
            self._series[column] = {s.run: s for s in step_series(self.tables, column, self.options.warmup)}
        return self._series[column]


# --- what a rule yields -------------------------------------------------------------------------------------------

Severity = Literal["error", "warning", "note"]

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""The most severe first. error: a number is wrong; warning: a number misleads; note: a fact to know."""

_LISTED = 10  # lines of each run in the evidence; the evidence also has their count


@dataclass(frozen=True, repr=False)
class Finding:
    """A finding about a run, or about several runs together (then `run` is the first of them).

    `lines`: the lines of the log that prove it, by run id. `numbers`: the values that prove it, in base units.
    A rule sets a severity only where it differs from the rule's own; code, severity and action come from the rule. Two
    findings are equal if they say the same.
    """

    run: str
    message: str
    lines: Mapping[str, Iterable[int]] = field(compare=False)  # may be arrays, which do not compare as a whole
    numbers: Mapping[str, Any] = field(default_factory=dict, compare=False)
    severity: Severity | None = None
    code: str = ""
    action: str = ""

    def __repr__(self) -> str:
        return f"<Finding {self.severity} {self.code}, run {self.run}, line {self.first_line}: {self.message}>"

    @property
    def first_line(self) -> int:
        """The first line of `run` that proves it."""
        return min(map(int, self.lines[self.run]))

    @property
    def evidence(self) -> dict[str, Any]:
        """The first lines of each run, the number of all lines, and the values."""
        lines_by_run = {run: sorted({int(line) for line in lines}) for run, lines in self.lines.items()}
        total = sum(map(len, lines_by_run.values()))
        listed = {run: lines[:_LISTED] for run, lines in lines_by_run.items()}
        return {"lines": listed, "count": total, **_json_value(self.numbers)}


def _json_value(value: object) -> Any:
    """The value as JSON can hold it: Python numbers, None for NaN and infinity."""
    if isinstance(value, Mapping):
        return {str(k): _json_value(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(v) for v in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- the rules ----------------------------------------------------------------------------------------------------

RuleFunction = Callable[[LintInput], Iterator[Finding]]


@dataclass(frozen=True, eq=False)
class LintRule:
    """A rule; calling it returns its findings.

    `title` says what is found, `why` why it matters, `action` what to do. `needs`: tables; without rows in each of them
    the rule has nothing to check. `severity`: of its most severe finding. `for_other_tools`: what other tools may count
    wrongly, while no metric of perflog does.
    """

    code: str
    severity: Severity
    title: str
    why: str
    action: str
    needs: tuple[str, ...]
    check: RuleFunction = field(repr=False)
    for_other_tools: bool = False

    def __call__(self, data: LintInput) -> list[Finding]:
        if any(not data.tables.count(name) for name in self.needs):
            return []
        return [
            replace(f, code=self.code, severity=f.severity or self.severity, action=self.action)
            for f in self.check(data)
        ]


RULES: dict[str, LintRule] = {}
"""All rules, by code."""


def rule(
    code: str,
    severity: Severity,
    title: str,
    why: str,
    action: str,
    needs: tuple[str, ...],
    for_other_tools: bool = False,
) -> Callable[[RuleFunction], LintRule]:
    """Register a function as the rule with this code."""

    def register(check: RuleFunction) -> LintRule:
        assert code not in RULES, code
        RULES[code] = LintRule(code, severity, title, why, action, needs, check, for_other_tools)
        return RULES[code]

    return register
