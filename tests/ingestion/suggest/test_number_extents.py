"""How far a number reaches: with its unit, and not at all if it is a part of something larger."""

from __future__ import annotations

import pytest

from perflog.formats.tokens import NUMBER, tokens
from perflog.ingestion.suggest.number_extents import NumberLine


def extents(text: str) -> list[str | None]:
    """Each number of a line with its unit; None for a part of something larger."""
    line = NumberLine(tokens(text))
    found: list[str | None] = []
    for k in (k for k, part in enumerate(line.parts) if part.kind == NUMBER):
        end = line.unit_end(k)
        found.append(None if end is None else " ".join(part.text for part in line.parts[k:end]))
    return found


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("time 5.5", ["5.5"]), ("time 5.5 ms", ["5.5 ms"]), ("time 5.5 ms, loss 2.5", ["5.5 ms", "2.5"]),
        ("rate 12.5 GB/s", ["12.5 GB/s"]), ("share 45%", ["45 %"]),
        # parts of something larger
        ("2^16", [None, None]), ("size 736 x 736", [None, "736"]), ("3 million", [None]), ("wave: 12*4", [None, None]),
        ("node#3 5", [None, "5"]), ("step #3", ["3"]), ("iteration #3: 5", ["3", "5"]),
        ("host 1234.host", [None]),
        # its spread is no part
        ("time 21.5 ± 1.5 ms", ["21.5", "1.5 ms"]), ("time 21.5 +- 1.5", ["21.5", "1.5"]),
        # labels in braces
        ('util{gpu="1"} 46', [None, "46"]), ("util {1} 46", ["1", "46"]),
        # labels of what follows
        ("GPU 0: 45 ms", [None, "45 ms"]), ("step 0: 45", ["0", "45"]), ("GPU 0 : loss 45", ["0", "45"]),
        ("n = 5 = 7", [None, "7"]), ("Train: 0 [640]", [None, "640"]),
        ("epoch: 0 [640]", ["0", "640"]),
        # rows, ranges and lists
        ("1.5 2.5 3.5", [None, None, "3.5"]), ("time: [12.5 us 13.5 us 14.5 us]", [None, None, None]),
        ("min 0.5, 12.5", [None, "12.5"]),
        ("min 0.5, 12 files", ["0.5", "12"]), ("5 threads / 8 cores", [None, "8"]),
        ("batch 5/8", ["5", "8"]),
        ("times: ['0.5s', '0.25s']", [None, "0.25 s"]), ("times: ['0.5s', 'x']", ["0.5 s"]),
        ("errors: 0 - 3", [None, "3"]), ("errors: 0 - few", ["0"]),
        ("56 ms - 73 ms", [None, "73 ms"]), ("56 C - 73 C", [None, "73"]), ("56 ms - 73 W", ["56 ms", "73 W"]),
        ("speed 1050 (11.5 TFLOP/s) - 1040 (11.5 TFLOP/s)", [None, "11.5 TFLOP/s", "1040", "11.5 TFLOP/s"]),
    ],
)  # fmt: skip
def test_numbers_with_their_units(text: str, numbers: list[str | None]) -> None:
    assert extents(text) == numbers


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("5 ms loss", 0),
        ("5 ms ± 3", 0),
        ("loss 5 (", 1),
        ("loss", -1),
        ("5% loss", 0),
        ("5 , loss", -1),
        ("a 5 7 b", 2),
    ],
)
def test_the_number_before_the_last_token(text: str, before: int) -> None:
    """If only its unit and marks are between."""
    line = NumberLine(tokens(text))
    assert line.number_before(len(line.parts) - 1) == before


@pytest.mark.parametrize(("text", "is_cut"), [("117...", True), ("117 ..", False), ("117.", False), ("117. .", False)])
def test_a_number_may_be_cut_off(text: str, is_cut: bool) -> None:
    assert NumberLine(tokens(text)).is_cut_off(1) is is_cut
