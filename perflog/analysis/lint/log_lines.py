"""Rules on the lines of a log: lines that were not read, lines with several records."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.analysis.lint.registry import Finding, LintInput, rule
from perflog.analysis.lint.wording import count
from perflog.tables.schema import TABLES

_SHOWN = 60  # characters of an unread line


@rule(
    code="unread-lines",
    severity="note",
    title="lines of the log were not read",
    why="No template of the format matches them. They may hold numbers, or the reason why the run failed.",
    action="look at them (`perflog show RUN lines`); `perflog formats explain LINE` shows why no template matches",
    needs=("lines",),
)
def unread_lines(data: LintInput) -> Iterator[Finding]:
    """Lines with status unread, the most frequent shape first."""
    for run in data.runs:
        lines = run["lines"][run["lines"]["status"] == "unread"].sort_values("count", ascending=False)
        if len(lines):
            total, first = int(lines["count"].sum()), lines.iloc[0]
            text = str(first["sample"])
            text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
            message = (
                f"{count(total, 'line')} of {count(len(lines), 'shape')} not read; the most frequent shape "
                f"({count(first['count'], 'line')}): {text!r}"
            )
            yield Finding(run.id, message, {run.id: lines["first_line"]}, {"unread": total, "shapes": len(lines)})


@rule(
    code="torn-lines",
    severity="note",
    title="several records are on one line",
    why="Ranks wrote to the log at the same time. Each piece was assigned to its record by the order of the headers "
    "and by what else is known about each rank.",
    action="nothing, if there are no findings on ranks; to be sure, write one log per rank",
    needs=("lines",),
)
def torn_lines(data: LintInput) -> Iterator[Finding]:
    """Lines with a row of a later part. Where table `lines` itself has parts, these are files."""
    for run in data.runs:
        if (run["lines"]["part"] > 0).any():
            continue
        torn: set[int] = set()
        for name in (n for n in TABLES if n not in ("runs", "lines")):
            rows = run[name]
            torn.update(map(int, rows["line"][rows["part"] > 0]))
        if torn:
            yield Finding(run.id, f"{count(len(torn), 'line')} with more than one record", {run.id: torn})
