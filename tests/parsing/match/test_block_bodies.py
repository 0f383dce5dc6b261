"""Lines under the first line of a block, and the rule above it, belong to the block; elsewhere they are unread."""

from __future__ import annotations

import pytest

from perflog.formats.registry import known
from perflog.parsing.input.chunks import as_chunk
from perflog.parsing.match.ordered.block_bodies import OpenBlocks, ends_with_body, read_bodies
from perflog.parsing.match.rank_labels import Labels
from perflog.parsing.match.records import Batch, lines_of
from perflog.parsing.match.scanner import Scanner
from perflog.tables.row_order import PART_BITS

LINES = lines_of([known()["ncu"], known()["rocm_smi"]])
ADVICE = "    OPT   This kernel grid is too small to fill the available resources"
MORE = "          waves across all SMs"
WARNING = "    WRN   This kernel exhibits low compute throughput"
HEAD = "====================== ROCm System Management Interface ======================"
RULE = "=============================================================================="


def scan(*lines: str, first: int = 1, labels: Labels | None = None) -> Batch:
    chunk = as_chunk("".join(f"{line}\n" for line in lines).encode())
    chunk.first_line = first
    return Scanner(LINES, labels or Labels()).scan(chunk)


def unread(batch: Batch) -> list[int]:
    return [position >> PART_BITS for position in batch.unread.tolist()]


def left(*lines: str, logs: tuple[int, ...] = (), labels: Labels | None = None) -> list[int]:
    """The lines that are still unread."""
    return unread(read_bodies(LINES, scan(*lines, labels=labels), {}, logs)[0])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([MORE, ADVICE, MORE, MORE], [1]),  # nothing is open above the first line
        ([ADVICE, MORE, "another line", MORE], [3, 4]),  # another line ends the block
        ([ADVICE, "", MORE, "  ", MORE], []),  # empty lines do not
        ([ADVICE, MORE, WARNING, MORE, ADVICE], []),
        ([ADVICE, WARNING, MORE], []),
        ([ADVICE, RULE], [2]),  # the body of another block
        ([HEAD, RULE, RULE], []),
        ([HEAD, MORE], [2]),
        # the rule above the first line
        ([RULE, HEAD], []),
        ([RULE, RULE, HEAD], [1]),
        ([RULE, "", HEAD], [1]),
        (["another line", HEAD], [1]),
        (["=== 1 line ===", HEAD], [1]),
        ([MORE, HEAD], [1]),
        ([HEAD, RULE, HEAD, RULE], []),
        (["another line"], [1]),
    ],
)
def test_which_lines_belong_to_a_block(lines: list[str], expected: list[int]) -> None:
    assert left(*lines) == expected
    # the same in two batches: what is open where the first one ends goes on in the second
    for cut in range(1, len(lines)):
        open_blocks: OpenBlocks = {}
        found: list[int] = []
        for first, part in ((1, lines[:cut]), (cut + 1, lines[cut:])):
            batch, open_blocks = read_bodies(LINES, scan(*part, first=first), open_blocks)
            found += unread(batch)
        is_cut_from_rule = lines[cut - 1] == RULE and lines[cut] == HEAD  # `ends_with_body` joins such batches
        assert found == expected or is_cut_from_rule


def test_a_block_is_open_until_another_line() -> None:
    def still_open(*lines: str) -> list[tuple[int, str]]:
        return [(label, line.name) for label, (_, line) in read_bodies(LINES, scan(*lines), {})[1].items()]

    assert still_open(ADVICE) == still_open(ADVICE, MORE, "") == [(-1, "advice_opt")]
    assert still_open(ADVICE, MORE, "another line") == still_open("another line") == []
    assert still_open(ADVICE, "another line", WARNING) == [(-1, "advice_wrn")]


def test_a_block_does_not_go_on_in_another_log() -> None:
    assert left(ADVICE, MORE, MORE, MORE, logs=(2,)) == [3, 4]
    assert left(ADVICE, MORE, ADVICE, MORE, logs=(2,)) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["another line", RULE], True),
        ([f"  {RULE}"], False),
        ([f"3: {RULE}"], True),
        ([RULE, "another line"], False),
        (["=== 1 line ==="], False),
        (["------"], False),
        ([HEAD], False),
        ([ADVICE, "another line"], False),
        (["another line"], False),
    ],
)
def test_a_rule_at_the_end_may_be_above_a_block(lines: list[str], expected: bool) -> None:
    assert ends_with_body(LINES, scan(*lines)) is expected


LABELS = Labels(has_launcher_labels=True, has_labels=True)


def test_each_rank_has_a_block_of_its_own() -> None:
    ranks = [f"{rank}: {line}" for line in (RULE, HEAD, RULE) for rank in (0, 1)]
    assert left(*ranks, labels=LABELS) == []
    lines = [
        f"0: {ADVICE}",
        f"1: {MORE}",
        f"0: {MORE}",
        "1: another line",
        f"0: {MORE}",
        "0: another line",
        f"0: {MORE}",
    ]
    assert left(*lines, labels=LABELS) == [2, 4, 6, 7]


@pytest.mark.parametrize(("between", "expected"), [(63, []), (64, [1])])
def test_the_rule_above_a_block_is_at_most_64_lines_above_it(between: int, expected: list[int]) -> None:
    lines = [f"0: {RULE}", *["1: another line"] * between, f"0: {HEAD}"]
    found = left(*lines, labels=LABELS)
    assert [line for line in found if line == 1] == expected


def test_lines_of_blocks_have_the_label_of_their_block() -> None:
    batch, _ = read_bodies(LINES, scan(f"0: {HEAD}", f"1: {ADVICE}", f"1: {MORE}", f"0: {RULE}", labels=LABELS), {})
    labels = {
        (LINES[kind][1].name, LINES[kind][1].role): records.labels.tolist()
        for kind, records in batch.records.items()
        if records.labels is not None
    }
    assert (labels["frame", "body"], labels["advice_opt", "body"]) == ([0], [1])
