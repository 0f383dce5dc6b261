"""Some lines of a log by their numbers, as they are cleaned before they are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.parsing.input import chunks
from perflog.parsing.input.source import Source, open_source
from perflog.parsing.input.text_lines import text_lines


def lines(folder: Path, data: bytes, first: int, last: int) -> list[tuple[int, str]]:
    path = folder / "run.txt"
    path.write_bytes(data)
    return list(text_lines(open_source(str(path)), first, last))


@pytest.mark.parametrize(
    ("data", "first", "last", "expected"),
    [
        (b"a\nb\nc\n", 2, 2, [(2, "b")]),
        (b"a\nb\nc\n", 1, 9, [(1, "a"), (2, "b"), (3, "c")]),
        (b"a\nb\nc\n", 3, 3, [(3, "c")]),
        (b"a\nb\nc\n", 4, 9, []),
        (b"a\nb", 2, 2, [(2, "b")]),
        (b"\n\nx\n", 1, 3, [(1, ""), (2, ""), (3, "x")]),
        (b"a\rb\nc\n", 1, 2, [(1, "a b"), (2, "c")]),
        (b"a\n\x1b[31mred\x1b[0m\n", 2, 2, [(2, "red")]),
    ],
)
def test_lines_by_number(tmp_path: Path, data: bytes, first: int, last: int, expected: list[tuple[int, str]]) -> None:
    assert lines(tmp_path, data, first, last) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize(
    ("data", "first", "last", "expected"),
    [
        (b"a\rb\rc\nd\re\nf\n", 1, 1, [(1, "a b c")]),
        (b"a\rb\rc\nd\re\nf\n", 2, 2, [(2, "d e")]),
        (b"a\rb\rc\nd\re\nf\n", 2, 3, [(2, "d e"), (3, "f")]),
        (b"a\nb\nc\nd\n", 2, 3, [(2, "b"), (3, "c")]),
        (b"a\nlong\rline\rof\rparts\nb\n", 2, 2, [(2, "long line of parts")]),
        (b"a\nb\xff\n", 2, 2, [(2, "b\ufffd")]),
    ],
)
def test_lines_of_parts_in_chunks_of_any_size(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    data: bytes,
    first: int,
    last: int,
    expected: list[tuple[int, str]],
    size: int,
) -> None:
    """A chunk may end inside a line that is long."""
    read = Source.chunks
    monkeypatch.setattr(chunks, "LONGEST", 6)
    monkeypatch.setattr(Source, "chunks", lambda source: read(source, size))
    assert lines(tmp_path, data, first, last) == expected


def test_no_chunk_after_the_last_line_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, numbers = Source.chunks, list[int]()

    def counted(source: Source) -> Iterator[chunks.Chunk]:
        for chunk in read(source, 2):
            numbers.append(chunk.first_line)
            yield chunk

    monkeypatch.setattr(Source, "chunks", counted)
    assert lines(tmp_path, b"a\n" * 9, 3, 4) == [(3, "a"), (4, "a")]
    assert numbers == [1, 2, 3, 4, 5]


def test_of_a_long_line_the_start(tmp_path: Path) -> None:
    ((number, text),) = lines(tmp_path, b"a\n" + b"x" * 100_000 + b"\nb\n", 2, 2)
    assert number == 2 and text == "x" * (1 << 14)


@given(st.lists(st.text("ab ", max_size=6), min_size=1, max_size=12), st.integers(1, 14), st.integers(0, 6))
def test_lines_of_several_chunks(texts: list[str], first: int, more: int) -> None:
    """However small the chunks are."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        read = Source.chunks
        patch.setattr(Source, "chunks", lambda source, size=7: read(source, 7))
        found = lines(Path(folder), "".join(f"{text}\n" for text in texts).encode(), first, first + more)
    stripped = [(number, text) for number, text in enumerate(texts, 1) if first <= number <= first + more]
    assert [(number, text.strip()) for number, text in found] == [(number, text.strip()) for number, text in stripped]
    assert chunks.CHUNK > 7
