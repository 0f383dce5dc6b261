"""Words above indented lines that measure something are the case of these lines."""

from __future__ import annotations

import pytest
from support.reading import read

CASES = "Prefill:\n  Latency: 12.5 ms\n  Rate: 100.5 tok/s\n✅ Decode\n  - Latency: 2.5 ms\n  - Rate: 10.5 tok/s\n"


def headings(text: str) -> list[tuple[int, str]]:
    return [(row["line"], row["text"]) for row in read(text.encode()).rows("values") if row["key"] == "heading"]


def test_words_above_indented_lines_are_a_heading() -> None:
    log = read(CASES.encode())
    assert headings(CASES) == [(1, "Prefill"), (4, "Decode")]
    assert log.done.lines["unread"] == 0


def test_what_is_measured_before_the_first_heading_is_of_no_case() -> None:
    assert headings(f"Load time: 7.5 ms\n{CASES}") == [(2, "Prefill"), (5, "Decode")]


def test_a_log_that_is_read_in_parts_has_no_headings() -> None:
    assert not [row for row in read(CASES.encode(), chunk=30).rows("values") if row["key"] == "heading"]


@pytest.mark.parametrize(
    "text",
    [
        CASES.replace("  ", ""),  # not indented
        CASES.replace("Prefill:", "It starts now."), CASES.replace("Prefill:", "Epoch 3:"),
        CASES.replace("Prefill:", "Prefill:\nready"),  # not directly above
        CASES.replace("- Latency", "- Wall time"),  # no name comes again
        f"{CASES}Load time: 7.5 ms\n",  # of which case?
    ],
)  # fmt: skip
def test_what_is_no_heading(text: str) -> None:
    assert headings(text) == []


BLOCKS = (
    "Results (A):\nConfiguration: M=8, N=9\nLatency: 8.5 ms\nResults (B):\nConfiguration: M=8, N=9\nLatency: 1.5 ms\n"
)


def test_words_with_a_colon_above_equal_blocks_are_headings() -> None:
    assert [words for _, words in headings(BLOCKS)] == ["Results (A)", "Results (B)"]


@pytest.mark.parametrize(
    "text",
    [
        f"{BLOCKS}Throughput: 9.5 tok/s\n", f"Latency: 9.5 ms\n{BLOCKS}", BLOCKS.replace("(B)", "(A)"),
        BLOCKS[: BLOCKS.index("Results (B)")],
        BLOCKS.replace("Results (B):", "ready"), BLOCKS.replace("Results (B):", "Server config:"),
    ],
)  # fmt: skip
def test_unequal_blocks_have_no_headings(text: str) -> None:
    assert headings(text) == []
