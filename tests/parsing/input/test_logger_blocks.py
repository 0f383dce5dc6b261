"""Records of Julia's logger, pairs on lines of their own, are read as one line each."""

from __future__ import annotations

import pytest
from support.reading import read

from perflog.parsing.input.logger_blocks import has_blocks, joined_blocks

BLOCKS = """\
┌ Info: Training
│   step = 100
│   loss = 2.3456f0
└   lr = 1.0f-3
[ Info: step done
┌ Warning: Gradient is large
│   norm = 12.5
└ @ Main /home/u/train.jl:31
┌ Info: weights
│   W =
│    2×2 Matrix{Float64}:
│     1.0  2.0
└     3.0  4.0
"""


@pytest.mark.parametrize("size", [1, 7, 50, 1000])
def test_pairs_follow_the_text_and_lines_keep_their_numbers(size: int) -> None:
    data = BLOCKS.encode()
    assert has_blocks(data)
    text = b"".join(joined_blocks(data[k : k + size] for k in range(0, len(data), size))).decode()
    joined = text.split("\n")
    assert joined[:5] == ["[ Info: Training, step = 100, loss = 2.3456, lr = 1.0e-3", "", "", "", "[ Info: step done"]
    assert joined[5:8] == ["[ Warning: Gradient is large, norm = 12.5", "", ""]
    assert joined[8:] == BLOCKS.split("\n")[8:]


def test_a_record_without_its_end_stays_as_it_is() -> None:
    torn = "┌ Info: Training\n│   step = 100\n[ Info: done\n┌ Info: Training\n│   step = 200".encode()
    assert b"".join(joined_blocks([torn])) == torn
    assert not has_blocks("┌ Info: Training\n[ Info: done\n".encode())


def test_steps_are_read() -> None:
    record = "┌ Info: Training\n│   step = {}\n│   loss = {}f0\n└   lr = 0.001\n"
    steps = read((record.format(100, 2.5) + record.format(200, 2.25)).encode()).rows("steps")
    assert [(row["line"], row["step"], row["loss"], row["learning_rate"]) for row in steps] == [
        (1, 100, 2.5, 0.001), (5, 200, 2.25, 0.001),
    ]  # fmt: skip
