"""Lines that torn writes make of two records, in logs whose lines `test_torn_lines` glues."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from parsing.match.test_torn_lines import _VARIED, GLUED, Row, rows, written
from support.reading import read

from perflog.parsing.match import spliced_lines
from perflog.parsing.match.spliced_lines import is_spliced, torn_texts

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


def test_a_line_of_a_few_thousand_bytes_is_compared() -> None:
    step, words = "step: 5 | loss: 2.5", "x" * 4062
    for more, expected in (("", "piece"), ("x", "")):
        lines = [(f"{step} | {words}{more}", 20), (f"{step} | loss: 2.5 | {words}{more}", 1)]
        assert [len(line) for line, _ in lines] == [4084 + len(more), 4096 + len(more)]
        assert found(*lines) == ["", expected]


def test_a_name_may_have_a_number_or_none() -> None:
    assert not is_spliced(b"name:item, args:(x_0, 0)", b"name:item_0, args:(x_0, 0)")


def found(*lines: tuple[str, int]) -> list[str]:
    """For each of some lines that come so often: whether it is a `piece` of usual lines, the `head` of one, or none."""
    texts = pa.array([line.encode() for line, count in lines for _ in range(count)])
    masks = [mask.tolist() for mask in torn_texts(texts)]
    firsts = np.cumsum([0, *(count for _, count in lines[:-1])]).tolist()
    assert all(len(mask) == len(texts) for mask in masks)
    return ["piece" if masks[0][first] else "head" if masks[1][first] else "" for first in firsts]


def test_rare_lines_are_compared_with_usual_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty times as many lines make a shape usual for an odd one."""
    step, twice, head = "step: 5 | loss: 2.5", "step: 5 | loss: 2.5 | loss: 2.5", "step: 5 | lo"
    for lines, expected in (
        ([(step, 20), (twice, 1)], ["", "piece"]),
        ([(step, 19), (twice, 1)], ["", ""]),
        ([(step, 40), (twice, 2)], ["", "piece"]),
        ([(step, 39), (twice, 2)], ["", ""]),
        ([(step, 20), (head, 1)], ["", "head"]),
        ([(step, 20), ("step: | loss: | loss:", 1)], ["", ""]),  # without a number
        ([(step, 20), ("step:  7 |  loss: 3.25", 1)], ["", ""]),  # of the same shape
        ([(step, 20), ("step: 7 | loss: nan", 1)], ["", ""]),
        ([(step, 20), (f"{twice} {'x' * 4096}", 1)], ["", ""]),
        ([("step: | loss: x", 60), (step, 20), (twice, 1)], ["", "", "piece"]),
    ):
        assert found(*lines) == expected, lines
    monkeypatch.setattr(spliced_lines, "_MOST_USUAL", 1)
    assert found(("other: 5", 21), (step, 20), (twice, 1)) == ["", "", ""]
    assert found((step, 21), ("other: 5", 20), (twice, 1)) == ["", "", "piece"]


def test_words_of_two_records_in_turn_are_three_or_more() -> None:
    usual = b"loss: 0.0 time: 0.0 norm: 0.0"
    for shape, expected in (
        (b"timeloss: 0 normtime: losstime: 0.0x", True),
        (b"timeloss: 0 normtime: 0.0x", False),
        (b"timeloss: 0 normtime: otherloss: 0.0x", False),
    ):
        assert spliced_lines._are_mixed(spliced_lines._words(shape), spliced_lines._words(usual), usual) is expected


@pytest.mark.parametrize("shape", ["bars", "keys", "srun"])
def test_hardly_any_row_of_torn_lines_is_made_of_two(shape: str) -> None:
    """Of one write in ten both halves stand in other lines. Some of these fit, and nothing tells them."""
    rng = random.Random(shape)
    lines = {
        rank: [
            _VARIED.sub(lambda m: f"{m[1]}{rng.randrange(10 ** len(m[2])):0{len(m[2])}}", GLUED[shape])
            for _ in range(600)
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
    assert len(exact) >= 0.99 * len(right) * whole / 2400
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
