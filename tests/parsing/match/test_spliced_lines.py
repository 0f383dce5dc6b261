"""Lines that torn writes make of two records, in logs whose lines `test_torn_lines` glues."""

from __future__ import annotations

import random

import pytest
from parsing.match.test_torn_lines import _VARIED, GLUED, Row, rows, written
from support.reading import read

from perflog.parsing.match.spliced_lines import is_spliced

USUAL = "step: 0 | loss: 0.0 | time: 0.0 ms | norm: 0.0"


@pytest.mark.parametrize(
    "shape",
    [
        "step: 0 | loss: 0.0 | loss: 0.0 | time: 0.0 ms | norm: 0.0",  # a name comes twice
        "step: 0 | lo0.0 | time: 0.0 ms | norm: 0.0",  # a word that no line has
        "step: 0 | loss: 0.0 ms | norm: 0.0",  # the unit of another number
        "step: 0 | loss: 0 | norm: 0.0",  # a name with the number of another one
        "step: 0 | loss: .0 | time: 0.0 ms | norm: 0.0",
        "step: 0 | loss: 0. | time: 0.0 ms | norm: 0.0",
        "step: 0 | loss: 0.0 time: 0.0 ms | norm: 0.0",  # a mark is missing
        "step: 0 | loss: 0.0 | tistep: 0 | los ms | norm: 0.0",  # three parts
        "p: 0 | loss: 0.0 | time: 0.0 ms | norm: 0.0",  # a tail
        "|step: loss: 0 0.0| |loss: time: 0.0 0.0 | ms | norm: norm: 0.0",  # words of two records in turn
    ],
)
def test_pieces_of_a_usual_line_are_told(shape: str) -> None:
    assert is_spliced(shape.encode(), USUAL.encode())


@pytest.mark.parametrize(
    "shape",
    [
        USUAL,
        "step: 0 | time: 0.0 ms | norm: 0.0",  # without a field
        "step: 0 | loss: 0.0 | time: 0.0 ms",
        "step: 0 | loss: 0.0 | time: 0.0 ms | norm: 0.0 | lr: 0.0",
        "step: 0 | val loss: 0.0 | time: 0.0 ms | norm: 0.0",
        "step: 0 | loss: nan | time: 0.0 ms | norm: 0.0",
        "epoch: 0 | loss: 0.0 | best loss: 0.0 | norm: 0.0 | norm: 0.0",
        "epoch: 0 | loss: 0.0 | time: 0.0 ms | norm: 0.0",
    ],
)
def test_a_line_with_fewer_or_other_fields_is_none(shape: str) -> None:
    assert not is_spliced(shape.encode(), USUAL.encode())


def test_a_name_may_have_a_number_or_none() -> None:
    assert not is_spliced(b"name:item, args:(x_0, 0)", b"name:item_0, args:(x_0, 0)")


@pytest.mark.parametrize("shape", ["bars", "keys", "srun"])
def test_hardly_any_row_of_torn_lines_is_made_of_two(shape: str) -> None:
    """Of one write in ten both halves stand in other lines. Some of these fit, and nothing tells them."""
    rng = random.Random(shape)
    lines = {
        rank: [
            _VARIED.sub(lambda m: f"{m[1]}{rng.randrange(10 ** len(m[2])):0{len(m[2])}}", GLUED[shape])
            for _ in range(1500)
        ]
        for rank in range(4)
    }
    texts = {r: [f"{text.format(r=r, s=s)}\n" for s, text in enumerate(of_rank, 1)] for r, of_rank in lines.items()}
    log, whole = written(texts, rng)
    right = rows(read("".join(text for of_rank in texts.values() for text in of_rank).encode()))
    got = rows(read(log.encode()))
    known = set(right)
    exact = [row for row in got if row in known]
    others = [row for row in got if row not in known]
    of_value: dict[str, list[Row]] = {}
    for row in right:
        for value in row.values:
            of_value.setdefault(value, []).append(row)

    def is_right(row: Row) -> bool:
        near = min((of_value.get(value, []) for value in row.values), key=len, default=[])
        return any(row.values <= each.values and row.rank in (None, each.rank) for each in near)

    wrong = [row for row in others if not is_right(row)]
    assert len(exact) >= 0.99 * len(right) * whole / 6000
    assert len(wrong) <= 0.005 * len(got), wrong[:5]


def test_a_rare_line_that_lacks_a_word_of_a_name_shows_no_columns() -> None:
    """`| loss:` is what a tear leaves of `| val loss:`."""
    usual = [
        f"[rank{r}]: step: {s} | time: {s + r}.25 ms | val loss: {s}.5{r} | norm: 1.0\n"
        for s in range(40)
        for r in (0, 1)
    ]
    glued = "[rank0]: step: 40 | time: 4[rank1]: step: 40 | time: 41.25 ms | val loss: 40.51 | norm: 1.0\n"
    torn = "[rank0]: step: 41 | time: 41.25 ms | loss: 7.25 | norm: 1.0\n"
    got = rows(read("".join([*usual, glued, torn]).encode()))
    assert len(got) >= len(usual)
    assert not any("7.25" in row.values for row in got)
