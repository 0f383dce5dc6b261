"""What the reader of the log could not use."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.analysis.lint.registry import Finding, rule
from perflog.analysis.lint.view import Seen, count
from perflog.tables.schema import TABLES

_SHOWN = 60  # characters of an unread line


@rule(
    code="unread-lines",
    severity="note",
    title="lines of the log were not read",
    why="No template of the format knows them. They may hold numbers, or the reason why the run went wrong.",
    action="look at them (`perflog show RUN lines`); `perflog formats explain LINE` says why none fits",
    needs=("lines",),
)
def unread_lines(seen: Seen) -> Iterator[Finding]:
    """Lines with status unread, the commonest shape first."""
    for run in seen.runs:
        lines = run["lines"][run["lines"]["status"] == "unread"].sort_values("count", ascending=False)
        if len(lines):
            total, first = int(lines["count"].sum()), lines.iloc[0]
            text = str(first["sample"])
            text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
            message = (
                f"{count(total, 'line')} of {count(len(lines), 'shape')}; the commonest ({first['count']}) is {text!r}"
            )
            yield Finding(run.id, message, {run.id: lines["first_line"]}, {"unread": total, "shapes": len(lines)})


@rule(
    code="torn-lines",
    severity="note",
    title="several records stand on one line",
    why="Ranks wrote to the log at once. Its pieces were put to the records they belong to, by the order of the "
    "headers and by what else is known of each rank.",
    action="nothing, if the findings on ranks are empty; write one log per rank to be sure",
    needs=("lines",),
)
def torn_lines(seen: Seen) -> Iterator[Finding]:
    """Lines with a row of a later part. Where the account of lines has parts, these are files."""
    for run in seen.runs:
        if (run["lines"]["part"] > 0).any():
            continue
        torn: set[int] = set()
        for name in (n for n in TABLES if n not in ("runs", "lines", "findings")):
            rows = run[name]
            torn.update(map(int, rows["line"][rows["part"] > 0]))
        if torn:
            yield Finding(run.id, f"{count(len(torn), 'line')} hold more than one record", {run.id: torn})
