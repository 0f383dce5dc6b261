"""A log that is read while it grows has the lines of the whole log."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.errors import InputError
from perflog.parsing.input import growing_source
from perflog.parsing.input.chunks import Chunk
from perflog.parsing.input.growing_source import GrowingSource, whole_lines


@pytest.mark.parametrize(
    ("data", "begin", "whole"),
    [
        (b"", 0, 0),
        (b"a", 0, 0),
        (b"a\n", 0, 2),
        (b"a\nbc", 0, 2),
        (b"a\nbc", 2, 2),  # nothing after it
        (b"a\rb", 0, 2),  # the state of a progress bar
        (b"a\r", 0, 0),  # half of the end of a line
        (b"a\r\n", 0, 3),
        (b"a\n\r", 0, 2),
        (b"ab\ncd\nef", 4, 6),
    ],
)
def test_up_to_the_end_of_the_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, begin: int, whole: int
) -> None:
    path = tmp_path / "run.txt"
    path.write_bytes(data)
    for piece in (1, 2, 1 << 16):
        monkeypatch.setattr(growing_source, "PIECE", piece)
        assert whole_lines(str(path), begin) == whole


def lines_of(chunks: list[Chunk]) -> list[tuple[int, bytes]]:
    """The number and the bytes of each line."""
    found = []
    for chunk in chunks:
        parts = bytes(chunk.data[: chunk.size]).split(b"\n")[:-1]
        assert len(parts) - len(chunk.returns) == chunk.lines
        number, at = chunk.first_line, 0
        for part in parts:
            found.append((number, part))
            at += len(part) + 1
            number += at - 1 not in chunk.returns
    return found


def growing(path: Path, pieces: list[bytes], has_ended: bool) -> list[tuple[int, bytes]]:
    """The lines of a log that grows by pieces. Nothing more comes then; `has_ended`: and it is at its end."""
    path.write_bytes(b"first line\n")
    left = list(pieces)

    def wait() -> bool:
        if left:
            with path.open("ab") as file:
                file.write(left.pop(0))
            return True
        source.has_ended = has_ended
        return False

    source = GrowingSource("run.txt", str(path), wait)
    return lines_of(list(source.chunks(16)))


@pytest.mark.parametrize("has_ended", [True, False])
def test_the_rest_is_read_when_it_has_ended(tmp_path: Path, has_ended: bool) -> None:
    found = growing(tmp_path / "run.txt", [b"se", b"cond\nthird", b""], has_ended)
    rest = [(3, b"third")] if has_ended else []
    assert found == [(1, b"first line"), (2, b"second"), *rest]


@given(st.lists(st.text("ab \n", max_size=9).map(str.encode), max_size=8))
def test_lines_as_they_come_are_those_of_the_whole_log(pieces: list[bytes]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = growing(Path(folder) / "run.txt", pieces, True)
    expected = (b"first line\n" + b"".join(pieces)).split(b"\n")
    expected = expected[:-1] if not expected[-1] else expected
    assert [(number, line.rstrip()) for number, line in found] == [
        (number, line.rstrip()) for number, line in enumerate(expected, 1)
    ]


def test_states_of_a_bar_are_parts_of_one_line(tmp_path: Path) -> None:
    found = growing(tmp_path / "run.txt", [b"1%\r2%", b"\r3%", b"\nend\n"], True)
    assert found == [(1, b"first line"), (2, b"1%"), (2, b"2%"), (2, b"3%"), (3, b"end")]


def test_the_head_is_what_is_there_now(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_bytes(b"one\ntwo\nthr")
    source = GrowingSource("run.txt", str(path), lambda: False)
    head = source.head()
    assert (bytes(head.data[: head.size]), head.is_last, source.known) == (b"one\ntwo\n", False, 8)
    assert source.size() == 0 and source.digest() == ""


def test_a_compressed_log_cannot_be_read_while_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_bytes(gzip.compress(b"one\ntwo\n") + b"\n")
    with pytest.raises(InputError, match="compressed: it cannot be read while it grows"):
        GrowingSource("run.txt", str(path), lambda: False)


def test_lines_go_on_in_each_part_that_comes(tmp_path: Path) -> None:
    pieces = [b"a\nbb\n", b"ccc\n", b"d\n" * 20, b"last"]
    expected = [b"first line", b"a", b"bb", b"ccc", *[b"d"] * 20, b"last"]
    assert growing(tmp_path / "run.txt", pieces, has_ended=True) == list(enumerate(expected, 1))


def test_what_cannot_be_read_while_it_grows_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    for data, kind in (
        (gzip.compress(b"a\n"), "compressed"),
        ("a\nb\n".encode("utf-16"), "utf-16"),
        (b'{\n "a": 1,\n "b": 2\n', "a JSON document"),
    ):
        path.write_bytes(data)
        with pytest.raises(InputError, match="(?i)^run.txt: " + kind + ".*: it cannot be read while it grows"):
            GrowingSource("run.txt", str(path), lambda: False)
