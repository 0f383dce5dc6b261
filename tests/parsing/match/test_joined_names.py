"""Names of several words in the header of a table: the cells below show where each begins and ends."""

from __future__ import annotations

import pytest

from perflog.parsing.match.ordered.joined_names import joined_names

RIGHT = [
    "     64B  512KB     11.0       2.8",
    "     64B    1MB     12.0       3.8",
    "    128B    4MB    113.0      12.8",
]
LEFT = ["64B      512KB 11.0    2.8", "128B     1MB   2.0     12.80", "64B      4MB   13.25   2"]
NAMES = ["Msg Size", "Chunk", "P2P Lat", "Lat Reduc"]
HEADER = "Msg Size  Chunk  P2P Lat Lat Reduc"


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ([HEADER, *RIGHT], NAMES),  # where the cells end
        (["Msg Size Chunk P2P Lat Lat Reduc", *LEFT], NAMES),  # where they begin
        ([HEADER, "-------- ------ ------- ---------", "", *RIGHT, "the end"], NAMES),
        ([HEADER, *RIGHT[:2]], []), ([HEADER, *RIGHT[:1]], []),  # two rows show nothing
        ([HEADER, *RIGHT[:2], "the end", RIGHT[2]], []),
        (["Msg Size  Chunk  P2P", *RIGHT], []),  # no more words than cells
        (["a b  c", "100  2", "100  3", "100  4"], []),  # two columns
        (["a b  c  d", "100  2  3", "200  3  4", "300  4  5"], ["a b", "c", "d"]),
        (["a b  c  d e f", "10   2   3000", "200  30  40", "3    4   500"], ["a b", "c", "d e f"]),  # two spaces
        (["a b  c  d e f", "10   2          3000", "200  30         40", "3    4          500"], []),  # below no name
        (["a b", ""], []), (["a b c d"], []),
    ],
)  # fmt: skip
def test_the_names_of_a_header(lines: list[str], names: list[str]) -> None:
    assert joined_names(lines) == names
