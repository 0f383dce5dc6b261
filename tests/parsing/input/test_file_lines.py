"""Where a line of a log of several files is."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from perflog.parsing.input.file_lines import place_in_file


@pytest.mark.parametrize(
    ("line", "lines", "place"),
    [
        (1, 6, "0/out.log:1"),
        (2, 6, "0/out.log:2"),
        (3, 6, "1/out.log:1"),  # the last line of the first file has no end
        (6, 6, "2/out.log:1"),
        (7, 6, None),
        (3, 5, None),  # the files have changed
    ],
)
def test_file_and_number_of_a_line(line: int, lines: int, place: str | None, tmp_path: Path) -> None:
    for number, text in enumerate(("a\nb", "a\nb\nc\n", "a\n")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "out.log").write_text(text)
    assert place_in_file(f"{tmp_path}/{{0..2}}/out.log", line, lines) == place


def test_logs_without_a_place(tmp_path: Path) -> None:
    (tmp_path / "a0.log").write_text("a\n")
    assert place_in_file(f"{tmp_path}/a0.log", 1, 1) is None
    assert place_in_file(f"{tmp_path}/a{{0..1}}.log", 1, 1) is None  # one is gone
    for number in (0, 1):
        (tmp_path / f"b{number}.log.gz").write_bytes(gzip.compress(b"a\nb\n"))
    assert place_in_file(f"{tmp_path}/b{{0..1}}.log.gz", 3, 4) == "b1.log.gz:1"
