"""Formats that only show later in a log: which unread lines are tried, and what they prove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perflog.formats.model import Family, Format, Line
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
    proves = late_formats._proves

    def counted(form: Format, proof: Line | Family, text: bytes) -> bool | None:
        tried.add(text)
        return proves(form, proof, text)

    monkeypatch.setattr(late_formats, "_proves", counted)
    assert proven(UNKNOWN) is None
    assert len(tried) == 32
    assert proven([*UNKNOWN, NANOGPT]) == ("nanogpt", 301)


def test_a_format_is_proved_once_by_the_first_line_that_it_reads() -> None:
    """A bare line proves none, nor does a line without numbers that only its beginning is like."""
    torchtitan = "step:  3  loss:  8.12  memory: 10.50GiB(11.00%)  tps: 1,234  tflops: 5.00  mfu: 12.34%"
    late = LateFormats([known()[name] for name in ("nanogpt", "torchtitan", "csv")])
    assert [form.name for form in late.formats][-1] == "csv"  # of any program

    def take(*lines: str) -> tuple[str, int] | None:
        batch = Scanner([]).scan(as_chunk("".join(f"{line}\n" for line in lines).encode()))
        found = late.take_proven(batch)
        return None if found is None else (found[0].name, found[1] >> PART_BITS)

    assert take() is None and take("") is None and take("5", "a line") is None
    assert take("a line", "[rank3]:" + torchtitan, NANOGPT) == ("torchtitan", 2)
    assert take("a line", torchtitan, NANOGPT, NANOGPT) == ("nanogpt", 3)
    assert take(torchtitan, NANOGPT) is None
    assert [form.name for form in late.formats] == ["csv"]


def test_a_line_that_is_known_in_part_proves_its_format_unless_lines_are_torn() -> None:
    """In a torn log it may be half of a record."""
    part = "iter 5: loss 5.4983, time 337.52ms, mfu None"
    for lines, form in (((part,), "nanogpt"), ((part, "[rank0]:x[rank1]:y"), None)):
        batch = Scanner([]).scan(as_chunk("".join(f"{line}\n" for line in lines).encode()))
        assert batch.is_torn is (form is None)
        found = LateFormats([known()["nanogpt"]]).take_proven(batch)
        assert (found and found[0].name) == form


def test_which_lines_could_be_read_by_lines_that_came_later() -> None:
    lines = known()["nanogpt"].lines

    def may_read(*texts: str) -> bool:
        batch = Scanner([]).scan(as_chunk("".join(f"{text}\n" for text in texts).encode()))
        return late_formats.may_read(batch, lines)

    assert [may_read(), may_read("a line"), may_read("a line", NANOGPT), may_read("[rank3]:" + NANOGPT + "  ")] == [
        False, False, True, True,
    ]  # fmt: skip
    assert not may_read(NANOGPT + " and more")
