"""Where the first line of a log is printed again, the program has started again."""

from __future__ import annotations

import pytest

from perflog.parsing.failures.failure import Failure
from perflog.parsing.failures.kinds import kinds
from perflog.parsing.failures.log_starts import LogStarts
from perflog.parsing.failures.origins import Origin
from perflog.parsing.input.chunks import as_chunk
from perflog.parsing.match.scanner import Scanner
from perflog.tables.row_order import PART_BITS

FIRST, FAILS = "Starting the training", "ValueError: no"


def sections(*batches: str, last_lines: int = 0) -> list[int]:
    """The number of starts before each failure. `batches`: lines, with `F` for the first line, `E` for a failure."""
    starts, failures, line = LogStarts(), list[Failure](), 1
    for batch in batches:
        texts = [{"F": FIRST, "E": FAILS}.get(text, text) for text in batch.split("|")]
        chunk = as_chunk("".join(f"{text}\n" for text in texts).encode())
        chunk.first_line = line
        starts.find(Scanner([]).scan(chunk))
        for text in texts:
            if text == FAILS:
                place = line << PART_BITS
                failures.append(Failure(place, line + last_lines, kinds()["exception"], text, {}, Origin(), ""))
            line += 1
    starts.set_sections(failures)
    return [failure.section for failure in failures]


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        (["F|x|y|E"], [0]),
        (["F|x|E|F|x|y|E"], [0, 1]), (["F|x|E", "F|x|y|E"], [0, 1]), (["F|x|E", "x", "F|x|y|E|F|x|y|E"], [0, 1, 2]),
        (["E"], [0]), (["F"], []),
        (["F|x|y|F|x|y|E"], [1]),  # without a failure before it
        (["F|x|F|x|y|E"], [0]),  # printed too often to be the first line of a program
        (["F|x|y|Starting the trainings|x|y|E"], [0]), (["F|x|y|Starting thetraining!|x|y|E"], [0]),
        (["short|x|y|short|x|y|E"], [0]), (["exactly 10|x|y|exactly 10|x|y|E"], [1]),
        (["at most 9|x|y|at most 9|x|y|E"], [0]),
        (["E|x|y|E|x|y|E"], [0, 0, 0]),  # a failure is no start
        (["12:00 start it|x|E|12:01 start it|x|y|E"], [0, 1]),  # other digits, after a failure
        (["12:00 start it|x|E|a|b|c|12:01 start it|x|y|E"], [0, 1]),
        (["12:00 start it|x|E|a|b|c|d|12:01 start it|E"], [0, 0]),  # too late
        (["12:00 start it|x|y|12:01 start it|x|y|E"], [0]),
        (["12:00 start it|x|y|12:00 start it|x|y|E"], [1]),
        (["12:00 start it|x|y|1a:00 start it|x|y|E"], [0]),
    ],
)  # fmt: skip
def test_the_first_line_of_a_log_begins_a_section(batches: list[str], expected: list[int]) -> None:
    assert sections(*batches) == expected


def test_lines_after_a_failure_are_counted_from_its_last_one() -> None:
    log = "12:00 start it|x|E|a|b|c|d|12:01 start it|E"
    assert [sections(log, last_lines=more) for more in (0, 1)] == [[0, 0], [0, 1]]
