"""Rules on the lines of a log: lines and figures that were not read, guessed rows, lines with several records."""

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
            message = (
                f"{count(total, 'line')} of {count(len(lines), 'shape')} not read; the most frequent shape "
                f"({count(first['count'], 'line')}): {_shortened(first['sample'])!r}"
            )
            yield Finding(run.id, message, {run.id: lines["first_line"]}, {"unread": total, "shapes": len(lines)})


@rule(
    code="unread-figures",
    severity="note",
    title="figures of known lines are in no table",
    why="The format reads or knows the line, but has no field for some of its numbers and does not say why.",
    action="look at them (`perflog show RUN`); give the number a field in the format file, or say why it is `dropped`",
    needs=("lines",),
)
def unread_figures(data: LintInput) -> Iterator[Finding]:
    """Unread figures of lines with status read or context, the shape with most of them first."""
    for run in data.runs:
        lines = run["lines"][(run["lines"]["status"] != "unread") & (run["lines"]["figures_unread"].fillna(0) > 0)]
        lines = lines.sort_values("figures_unread", ascending=False)
        if len(lines):
            total, first = int(lines["figures_unread"].sum()), lines.iloc[0]
            message = (
                f"{count(total, 'figure')} of {count(len(lines), 'shape')} of line not read; the shape with most "
                f"({count(first['figures_unread'], 'figure')}): {_shortened(first['sample'])!r}"
            )
            yield Finding(run.id, message, {run.id: lines["first_line"]}, {"unread": total, "shapes": len(lines)})


@rule(
    code="guessed-rows",
    severity="warning",
    title="perflog guessed what the rows mean",
    why="No format describes these lines. perflog made one from the log: names, units and tables are guesses from the "
    "words around the numbers.",
    action="check names and units; `perflog formats suggest LOG` prints a format file that you can correct and keep",
    needs=("runs",),
)
def guessed_rows(data: LintInput) -> Iterator[Finding]:
    """Rows with `read_by` guess."""
    for run in data.runs:
        rows = {name: run[name] for name in TABLES if name not in ("runs", "lines")}
        guessed = {name: of_table[of_table["read_by"] == "guess"] for name, of_table in rows.items()}
        counts = {name: len(of_table) for name, of_table in guessed.items() if len(of_table)}
        if counts:
            message = "guessed: " + ", ".join(f"{count(n, 'row')} of table {name}" for name, n in counts.items())
            lines = {int(guessed[name]["line"].min()) for name in counts}
            yield Finding(run.id, message, {run.id: sorted(lines)}, counts)


def _shortened(sample: object) -> str:
    text = str(sample)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


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
