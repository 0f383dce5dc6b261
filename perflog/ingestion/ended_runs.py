"""The runs of a log that have ended, as rows of tables `runs` and `lines`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from perflog.formats.model import Format
from perflog.parsing.assemble.runs.run_state import RunState, ShapeCount
from perflog.tables.schema import arrow_schema
from perflog.tables.sink import IngestResult, RunLabels, run_id, table_from_columns

if TYPE_CHECKING:
    import pyarrow as pa


class EndedRuns:
    """Collects the runs of one log, and counts their lines in its result.

    Args:
        result: The result of the log.
        label: The label of its runs.
        runs_before: Number of runs of the logs before it, where several are read together.
        lines_before: Number of lines of these logs.
    """

    def __init__(self, result: IngestResult, label: RunLabels, runs_before: int = 0, lines_before: int = 0) -> None:
        self.lines: list[tuple[Any, ...]] = []  # rows of table `lines`
        self.runs: list[dict[str, Any]] = []  # rows of table `runs`, without what needs the hash of the log
        self._result, self._label = result, label
        self._runs_before, self._lines_before = runs_before, lines_before

    def add(self, run: RunState, formats: Mapping[str, Format], many: bool) -> None:
        """Add a run that has ended. `many`: whether the log has several."""
        row = run.row(formats)
        row["index"] -= self._runs_before
        for name in ("first_line", "last_line", "elapsed_from", "elapsed_line"):
            if row.get(name) is not None:
                row[name] -= self._lines_before
        if isinstance(self._label, str):
            row["label"] = f"{self._label}#{row['label'] or row['index']}" if many else self._label
        row |= {"run": str(run.index), "log": self._result.log, "line": row["first_line"], "part": 0}
        self.runs.append(row)
        for (status, shape), lines in sorted(run.shapes.items(), key=_first_line):
            figures = lines.stored, lines.dropped, lines.unread
            first = lines.first_line - self._lines_before
            self._result.add_shape(status, lines.count, figures, first, lines.sample)
            counts = lines.count, first, lines.sample, *figures, lines.dropped_because
            self.lines.append((row["run"], first, 0, status, shape, *counts))

    def take_runs(self, digest: str) -> list[dict[str, Any]]:
        """Take out the rows of `runs`, with what needs the hash of the log; add the runs to the result."""
        rows, self.runs = self.runs, []
        for row in rows:
            row["log_sha256"] = digest
            row["label"] = self._given_labels.get(row["index"]) or row["label"]
            summary = {k: row[k] for k in ("run", "label", "index", "format")}
            self._result.runs.append(summary | {"run": run_id(digest, row["index"])})
        return rows

    def take_lines(self) -> list[tuple[Any, ...]]:
        """Take out the rows of `lines`."""
        rows, self.lines = self.lines, []
        return rows

    @cached_property
    def _given_labels(self) -> Mapping[int, str | None]:
        return self._label() if callable(self._label) else {}


def runs_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows as table `runs`."""
    return table_from_columns("runs", [[row.get(name) for row in rows] for name in arrow_schema("runs").names])


def lines_table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return rows, at least one, as table `lines`."""
    return table_from_columns("lines", list(zip(*rows, strict=True)))


def _first_line(shape: tuple[Any, ShapeCount]) -> int:
    return shape[1].first_line
