"""Rules on the lines of a log: what is not read, guessed rows, and what the program warns of."""

from __future__ import annotations

from typing import Any

import pytest
from support.linted import TableRow, linted, messages, steps

from perflog.parsing.failures.kinds import kinds
from perflog.tables.schema import FIRST_CELL


def lines(status: str, sample: str, count: int = 1, unread: int = 0, first: int = 1) -> TableRow:
    row = {"table": "lines", "status": status, "shape": sample, "sample": sample, "count": count, "first_line": first}
    return row | {"figures_unread": unread, "figures_stored": 0, "figures_dropped": 0}


def test_unread_lines() -> None:
    rows = [lines("unread", "few 1", 2, first=9), lines("read", "read 1", 99), lines("unread", "many 2", 7, first=4)]
    (finding,) = linted("unread-lines", rows)
    assert finding.message == "9 lines of 2 shapes not read; the most frequent shape (7 lines): 'many 2'"
    assert finding.numbers == {"unread": 9, "shapes": 2} and finding.evidence["lines"] == {"r": [4, 9]}
    assert linted("unread-lines", [lines("read", "x"), lines("context", "y")]) == []
    long = "2026-01-02 03:04:05,678 INFO train: " + "x" * 80
    (cut,) = messages("unread-lines", [lines("unread", long)])
    assert cut == f"1 line of 1 shape not read: '{'x' * 60}...'"
    parts = messages("unread-lines", [lines("unread", "warm-up: 2 epochs", 0)])  # after a record on its line
    assert parts == ["parts of read lines, of 1 shape, not read; the first: 'warm-up: 2 epochs'"]
    short = "2026-01-02 03:04:05,678 INFO train: loss 2.5"
    assert messages("unread-lines", [lines("unread", short)])[0].endswith(f"'{short}'")


def test_unread_figures_of_known_lines() -> None:
    rows = [lines("read", "a 1", unread=3, first=5), lines("context", "b 2", unread=4, first=6)]
    (finding,) = linted("unread-figures", [*rows, lines("unread", "c 3", unread=9), lines("read", "d 4")])
    assert finding.message == "7 figures of 2 shapes of line not read; the shape with most (4 figures): 'b 2'"
    assert finding.evidence["lines"] == {"r": [5, 6]}
    assert linted("unread-figures", [lines("unread", "c 3", unread=9)]) == []
    assert len(linted("unread-figures", [lines("read", "a 1", unread=1)])) == 1


def notice(line: int, count: int, kind: str = "allocator_retry", **more: Any) -> TableRow:
    usual = {"table": "failures", "line": line, "last_line": line, "kind": kind, "severity": "notice", "count": count}
    return usual | more


def test_warnings_of_what_makes_a_program_slower() -> None:
    rows = [row | {"line": 10 * row["step"]} for row in steps(*range(1, 9))]
    found = linted("costly-warnings", [*rows, notice(21, 1, last_line=23, rank=3), notice(51, 2, rank=1)])
    assert [(each.severity, each.numbers, each.first_line) for each in found] == [("warning", {"warnings": 3}, 21)]
    assert found[0].message.endswith(": 3 warnings, lines 21 to 51, steps 2 to 5, ranks 1, 3")
    (one,) = linted("costly-warnings", [*rows, notice(24, 1)])
    assert one.severity == "note" and one.message.endswith(": 1 warning, line 24")  # no step line is beside it
    (two,) = linted("costly-warnings", [notice(24, 2, last_line=29)])
    assert (two.severity, two.message.endswith(": 2 warnings, lines 24 to 29")) == ("note", True)
    share = [{"table": "values", "key": "memory_share", "value": value} for value in (0.5, 0.97, 0.6)]
    assert messages("costly-warnings", [notice(24, 1), *share])[0].endswith("; memory 97.0 % in use")
    other = [kind.name for kind in kinds().values() if kind.costs and kind.name != "allocator_retry"]
    assert "memory" not in messages("costly-warnings", [notice(24, 1, other[0]), *share])[0].partition(": 1 warning")[2]
    assert linted("costly-warnings", [notice(24, 9, severity="fatal")]) == []
    assert linted("costly-warnings", [notice(24, 9, kind="exception")]) == []


def test_guessed_rows() -> None:
    rows = [*steps(1, 2), *steps(3, 4, 5, read_by="guess")]
    values = [{"table": "values", "key": "x", "value": 1.0, "read_by": by} for by in ("guess", "json")]
    (finding,) = linted("guessed-rows", [*rows, *values])
    assert finding.message == "guessed: 3 rows of table steps, 1 row of table values"
    assert finding.evidence["lines"] == {"r": [3, 6]} and finding.numbers == {"steps": 3, "values": 1}
    assert linted("guessed-rows", rows[:2]) == []


@pytest.mark.parametrize(
    ("parts", "found"),
    [([0, 0, 0], 0), ([0, 1, 0], 1), ([0, 1, 2], 1), ([FIRST_CELL], 0), ([FIRST_CELL - 1], 1), ([None], 0)],
)
def test_lines_with_several_records(parts: list[int | None], found: int) -> None:
    rows = [row | {"part": part, "line": 7} for part in parts for row in steps(1)]
    account = [lines("read", "x")]
    assert messages("torn-lines", [*rows, *account]) == ["1 line with more than one record"] * found
    bar = {"table": "values", "key": "smoothed_it_per_s", "value": 2.5, "line": 7, "part": 0}
    assert messages("torn-lines", [*rows, bar, *account]) == []
    files = [lines("read", "x"), lines("read", "x") | {"part": 1}]  # parts are files
    assert messages("torn-lines", [*rows, *files]) == []


@pytest.mark.parametrize(
    ("line", "last", "said"),
    [(25, 28, None), (25, 29, ", step 3"), (21, 28, ", step 2"), (22, 28, None), (21, 29, "steps 2 to 3")],
)
def test_the_steps_beside_a_warning(line: int, last: int, said: str | None) -> None:
    """Of the lines just before and after it, too; steps are printed on every tenth line."""
    rows = [row | {"line": 10 * row["step"]} for row in steps(*range(1, 9))]
    (text,) = messages("costly-warnings", [*rows, notice(line, 1, last_line=last)])
    assert text.endswith(said) if said else "step" not in text
