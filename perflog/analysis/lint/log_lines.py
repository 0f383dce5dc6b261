"""Rules on the lines of a log: lines and figures that were not read, guessed rows, lines with several records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import numpy as np

from perflog.analysis.lint.registry import Finding, LintedRun, LintInput, Severity, rule
from perflog.analysis.lint.wording import percent
from perflog.arrays import Ints, Mask
from perflog.formats.bars import OF_BARS
from perflog.formats.surroundings import prefix_ends
from perflog.parsing.failures.kinds import NOTICE, kinds
from perflog.tables.arrow import Where, numbers_of, one_of
from perflog.tables.columns import Rows
from perflog.tables.schema import FIRST_CELL, TABLES
from perflog.units import count, numbered

_OF_ROWS = [name for name in TABLES if name not in ("runs", "lines", "events", "failures")]
"""Tables with rows that several ranks may print at once, or a guess may fill. Events come from one profiler's file."""

GUESSED = "guessed-rows"
"""Code of the rule on guessed rows."""

_REPEATED = 3  # warnings; fewer may be from the start of the program
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
    yield from _not_read(data, _is_unread, "count", ("line", "", "the most frequent shape"))


@rule(
    code="unread-figures",
    severity="note",
    title="numbers of known lines are in no table",
    why="The format reads or knows the line, but has no field for some of its numbers and does not say why.",
    action="look at them (`perflog show RUN`); give the number a field in the format file, or say why it is `dropped`",
    needs=("lines",),
)
def unread_figures(data: LintInput) -> Iterator[Finding]:
    """Unread figures of lines with status read or context, the shape with most of them first."""
    words = ("figure", " of line", "the shape with most")
    yield from _not_read(data, _with_unread_figures, "figures_unread", words)


def _not_read(
    data: LintInput, selected: Callable[[Rows], Mask], column: str, words: tuple[str, str, str]
) -> Iterator[Finding]:
    """Yield a finding for each run that has such rows of table `lines`, with the sum of a column.

    `words`: what the column counts, what a shape is one of, and what the shape with the most of it is called.
    """
    unit, suffix, first = words
    for run in data.runs_where("lines", selected(data.tables.rows("lines"))):
        lines = run["lines"].where(selected(run["lines"]))
        total, (most, sample) = int(lines[column].sum()), _first_of_most(lines, column)
        if total:
            largest = f"; {first} ({count(most, unit)})" if len(lines) > 1 else ""
            message = f"{count(total, unit)} of {count(len(lines), 'shape')}{suffix} not read{largest}"
        else:  # a line counts as one of its other part
            message = f"parts of read lines, of {count(len(lines), 'shape')}, not read; the first"
        message += f": {_shortened(sample)!r}"
        yield Finding(run.id, message, {run.id: lines["first_line"]}, {"unread": total, "shapes": len(lines)})


def _is_unread(lines: Rows) -> Mask:
    return lines.one_of("status", ["unread"])


def _with_unread_figures(lines: Rows) -> Mask:
    flags: Mask = ~lines.one_of("status", ["unread"]) & (lines["figures_unread"] > 0)
    return flags


def _first_of_most(lines: Rows, name: str) -> tuple[int, str | None]:
    """The largest number of a column, and the sample of the first line that has it."""
    place = int(lines[name].argmax())
    return int(lines[name][place]), lines["sample"][place]


@rule(
    code="costly-warnings",
    severity="warning",
    title="the program warns of what makes it slower",
    why="Such a warning says that steps take longer than they need: memory that is freed and allocated anew, "
    "functions that run without the compiler, GPUs that slow down.",
    action="remove the cause first: it affects every other measurement",
    needs=("failures",),
)
def costly_warnings(data: LintInput) -> Iterator[Finding]:
    """Notices in table `failures` of kinds that cost time, each kind once, with the steps at which they are printed."""
    costly = [kind.name for kind in kinds().values() if kind.costs]
    rows = data.tables.rows("failures")
    for run in data.runs_where("failures", rows.one_of("severity", [NOTICE]) & rows.one_of("kind", costly)):
        own = run["failures"].where(run["failures"].one_of("severity", [NOTICE]))
        for name, told in own.by("kind").items():
            if not kinds()[name].costs:
                continue
            times, first, last = int(told["count"].sum()), int(told["line"].min()), int(told["last_line"].max())
            where = f"lines {first:,} to {last:,}" if times > 1 else f"line {first:,}"
            message = f"{kinds()[name].title}: {count(times, 'warning')}, {where}{_steps_at(run, first, last)}"
            ranks = sorted(set(told["rank"][told.known("rank")].tolist()))
            message += f", {numbered('rank', ranks)}" if ranks else ""
            share = _memory_share(run) if name == "allocator_retry" else None
            message += f"; memory {percent(share)} in use" if share is not None else ""
            severity: Severity = "warning" if times >= _REPEATED else "note"
            yield Finding(run.id, message, {run.id: told["line"]}, {"warnings": times}, severity)


def _steps_at(run: LintedRun, first: int, last: int) -> str:
    """Return the steps between two lines, and those beside them: `, steps 10 to 2,000`."""
    steps = run["steps"].where(run["steps"].known("step"))
    numbers = steps["step"][(steps["line"] >= first - 1) & (steps["line"] <= last + 1)]
    if not len(numbers):
        return ""
    first_step, last_step = int(numbers.min()), int(numbers.max())
    return f", step {first_step:,}" if first_step == last_step else f", steps {first_step:,} to {last_step:,}"


def _memory_share(run: LintedRun) -> float | None:
    """Return the largest share of the device's memory that the run prints."""
    values = run["values"]
    shares = values["value"][values.one_of("key", ["memory_share"])]
    return float(shares.max()) if len(shares) else None


@rule(
    code=GUESSED,
    severity="warning",
    title="perflog guessed what the rows mean",
    why="No format describes these lines. perflog made one from the log: names, units and tables are guesses from the "
    "words around the numbers.",
    action="check names and units; `perflog formats suggest LOG` prints a format file that you can correct and keep",
    needs=("runs",),
)
def guessed_rows(data: LintInput) -> Iterator[Finding]:
    """Rows with `read_by` guess."""
    guessed = _lines_of_rows(data, {"read_by": one_of("guess")})
    for run in data.runs if guessed else ():
        if lines := guessed.get(run.id):
            counts = {name: len(table_lines) for name, table_lines in lines.items()}
            message = "guessed: " + ", ".join(f"{count(n, 'row')} of table {name}" for name, n in counts.items())
            firsts = {int(table_lines.min()) for table_lines in lines.values()}
            yield Finding(run.id, message, {run.id: sorted(firsts)}, counts)


def _shortened(sample: object) -> str:
    """Return the begin of a line, without labels, time and level before its message."""
    text = str(sample)
    if len(text) > _SHOWN:
        raw = text.encode("utf-8", "surrogateescape")
        text = raw[max(prefix_ends(raw, every=True), default=0) :].decode("utf-8", "surrogateescape")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@rule(
    code="torn-lines",
    severity="note",
    title="several records are on one line",
    why="Ranks wrote to the log at the same time. Each record was read from its own head to its end, with the label "
    "before it; the torn halves of others are unread. Two halves that fit together are read as one record: "
    "nothing shows that they are two.",
    action="nothing to do if few lines are unread; to be sure, write one log per rank",
    needs=("lines",),
)
def torn_lines(data: LintInput) -> Iterator[Finding]:
    """Lines with a row of a later part. Where table `lines` itself has parts, these are files.

    The state of a progress bar is a part by its carriage return: nobody tore a line that has one.
    """
    later = _lines_of_rows(data, {"part": _is_later_part})
    bar_lines = _lines_of_rows(data, {"key": _is_of_bar}, ("values",)) if later else {}
    for run in data.runs if later else ():
        torn, with_bar = (
            {line for lines in found.get(run.id, {}).values() for line in lines.tolist()}
            for found in (later, bar_lines)
        )
        torn -= with_bar
        if torn and not (run["lines"]["part"] > 0).any():
            yield Finding(run.id, f"{count(len(torn), 'line')} with more than one record", {run.id: torn})


def _is_later_part(part: int | None) -> bool:
    return part is not None and 0 < part < FIRST_CELL


def _is_of_bar(key: str | None) -> bool:
    return key is not None and OF_BARS.search(key) is not None


def _lines_of_rows(data: LintInput, where: Where, names: Collection[str] = _OF_ROWS) -> dict[str, dict[str, Ints]]:
    """The lines of the rows that pass, by run and table. They are few: no table is read as a whole for them."""
    lines: dict[str, dict[str, Ints]] = {}
    for name in names:
        for (run, _), rows in data.tables.arrow_by_file(name, where):
            before = lines.setdefault(run, {}).get(name, np.zeros(0, np.int64))
            lines[run][name] = np.append(before, numbers_of(rows["line"].chunk(0)))
    return lines
