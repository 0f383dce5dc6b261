"""Formats that only show later in a log: which unread lines are tried, and what they prove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perflog.formats.model import Family, Line
from perflog.formats.registry import known
from perflog.ingestion import late_formats
from perflog.ingestion.late_formats import LateFormats
from perflog.parsing.input.chunks import as_chunk
from perflog.parsing.match.scanner import Scanner
from perflog.tables.row_order import PART_BITS

if TYPE_CHECKING:
    import pytest

UNKNOWN = [f"after iteration {k} the loss is {9 / (k + 1):.4f}, at {30 + k % 7:.1f} ms/step" for k in range(300)]
NANOGPT = "iter 5: loss 5.4983, time 337.52ms, mfu 0.96%"


def proven(lines: list[str]) -> tuple[str, int] | None:
    """The format that unread lines prove, and the line that proves it."""
    data = "".join(f"{line}\n" for line in lines).encode()
    batch = Scanner([]).scan(as_chunk(data))
    found = LateFormats(known().values()).take_proven(batch)
    return None if found is None else (found[0].name, found[1] >> PART_BITS)


def test_of_lines_that_differ_in_their_numbers_alone_a_few_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: set[bytes] = set()
    reads = late_formats._reads

    def counted(proof: Line | Family, text: bytes) -> bool:
        tried.add(text)
        return reads(proof, text)

    monkeypatch.setattr(late_formats, "_reads", counted)
    assert proven(UNKNOWN) is None
    assert len(tried) == 32
    assert proven([*UNKNOWN, NANOGPT]) == ("nanogpt", 301)
