"""Every line of the five logs that is read is written back byte for byte; torn lines piece by piece."""

from __future__ import annotations

import pytest
from seeds import FILES, lines, log, needs_seeds

from perflog.declared import Line
from perflog.formats import COMMON, known
from perflog.glue import Glue

pytestmark = needs_seeds


def rendered(line: Line, text: str) -> str:
    values = line.template.match(text)
    assert values is not None
    return line.template.render(values)


def pieces(declared: list[Line], text: str) -> list[tuple[Line, str]]:
    """The pieces of a torn line with the line kinds that read them; [] if it is none."""
    found = Glue(declared).split(text.encode().rstrip(b" \t")) or []
    return [(declared[kind], match[0].decode()) for kind, match in found]


@pytest.mark.parametrize("name", FILES)
def test_read_lines_are_written_back(name: str) -> None:
    (form,) = {known()[r] for r in log(name).table("runs")["format"]}
    declared = [*known()[COMMON].lines, *form.lines]
    read = [line for line in declared if line.read]
    checked = 0
    for text in lines(name):
        copies = [rendered(line, text) for line in read if line.template.match(text) is not None]
        if copies:
            assert copies == [text]
            checked += 1
        elif torn := pieces(declared, text):
            assert "".join(piece for _, piece in torn) == text.rstrip(" ")
            mine = [(line, piece) for line, piece in torn if line.read]
            assert [rendered(line, piece) for line, piece in mine] == [piece for _, piece in mine]
            checked += bool(mine)
    assert checked == log(name).lines["read"]
