"""The words of the name before a number, and where the name begins."""

from __future__ import annotations

import pytest

from perflog.formats.tokens import NUMBER, tokens
from perflog.ingestion.suggest.name_words import NamedLine


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("val-loss 5", "0 val-loss"), ("a b c 5", "0 a b c"), ("a, b c 3", "2 b c"), ("a  b c 3", "1 b c"),
        ("a b: c 3", "3 c"),
        ("INFO loss 5", "1 loss"), ("True loss 5", "1 loss"), ("-n 100", "1 n"),
        ("fwd + bwd 5", "2 bwd"), ("fwd + bwd: 5", "0 fwd bwd"), ("fwd * bwd = 5", "0 fwd bwd"),
        ("Thread(s) per core: 5", "0 Threads per core"), ("Thread(s) per core 5", "4 per core"),
        ("Major (with I/O) faults: 5", "0 Major with I/O faults"), ("Major (with I/O) faults 5", "5 faults"),
        ("GPU(s): 3", "0 GPUs"), ("GPU(s) 3", "0 GPUs"), ("time(s): 3", "0 time"), ("time (s) 3", "0 time"),
        ("latency (ms): 3", "0 latency"), ("wave (%): 3", "0 wave"), ("wave [AU]: 3", "0 wave AU"),
        ("lr(1e-3): 2", "4"), ("lr(a: b) 2", "6"),  # a number or a pair in brackets is no part of a name
        ("1.75/s LR 5", "3 LR"), ("71.5 samples/s 19.5", "1 samples/s"), ("71.5 samples/s 19.5 tokens/s", "2"),
        ("16 MiB 25.1 GB/s", "2"), ("16 MiB 25.1", "1 MiB"), ("5 ms wave 2.5", "2 wave"),
        ("95th percentile 5", "2"),
        ("epoch=0/step=10", "5 step"), ("model=llama tp=8", "3 tp"), ("model=llama-7b tp 8", "3 tp"),
    ],
)  # fmt: skip
def test_the_name_before_the_last_number(text: str, words: str) -> None:
    """The index of its first token, and its words. Before a mark, brackets and operators are in it."""
    line = NamedLine(tokens(text))
    number = max(k for k, part in enumerate(line.parts) if part.kind == NUMBER)
    is_marked = line.text(number - 1) in (":", "=")
    found, first = line.name_before(number - 1 - is_marked, is_marked)
    assert " ".join([str(first), *found]) == words


@pytest.mark.parametrize(
    ("text", "unit"),
    [("latency(ms) 3", "ms"), ("time (s) 3", "s"), ("GPU(s) 3", ""), ("latency 3", ""), ("a (b c) 3", "")],
)
def test_the_unit_in_brackets_before_a_number(text: str, unit: str) -> None:
    line = NamedLine(tokens(text))
    assert line.unit_of_name(len(line.parts) - 1) == unit
