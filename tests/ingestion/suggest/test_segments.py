"""The segments of a line: what begins and ends one, and which words lead to another number."""

from __future__ import annotations

import pytest

from perflog.formats.tokens import tokens
from perflog.ingestion.suggest.segments import SegmentedLine


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("a b 5", "|a b 5]"), ("a  b", "|a] |b]"), ("a\tb", "|a] |b]"),  # two spaces, a tab
        ("loss 2.5, lr 0.1", "|loss 2.5] ,] |lr 0.1]"), ("a (b) 5", "|a] (] |b] )] |5]"),
        ("loss=2.5 lr=0.1", "|loss = 2.5 lr = 0.1]"),
        ("a - b 5", "|a] -] |b 5]"), ("a-b 5", "|a-b 5]"), ("x / y 3", "|x] /] |y 3]"), ("x/y 3", "|x/y 3]"),
        ("a > b 3", "|a] >] |b 3]"), ("3 ± 1 ms", "|3] ± 1 ms]"),
        ("Total. latency: 0.5", "|Total] . latency : 0.5]"),  # a small letter goes on with the name
        ("Done. Total 0.5", "|Done] .] |Total 0.5]"),
        ("2024-01-01 loss 3", "|2024-01-01] |loss 3]"), ("[1, 2] loss 3", "|[] |1] ,] |2] ]] |loss 3]"),
        ("loss: 2.5", "|loss : 2.5]"), ("INFO: loss 2.5", "|INFO : loss 2.5]"),
        ("INFO : loss 2.5", "|INFO] :] |loss 2.5]"), ("a : b", "|a] :] |b]"),  # a colon that is apart
        ("value: a 3 b 4", "|value :] |a 3 b 4]"), ("step: 5 loss: 2", "|step : 5 loss : 2]"),  # pairs after it
    ],
)  # fmt: skip
def test_segments_are_between_marks_and_gaps(text: str, segments: str) -> None:
    """`|` where a token begins one, `]` where it ends one."""
    line = SegmentedLine(tokens(text))
    shown = ("|" * line.begins_segment(k) + part.text + "]" * line.ends(k + 1) for k, part in enumerate(line.parts))
    assert " ".join(shown) == segments


@pytest.mark.parametrize(
    ("text", "leads"),
    [
        ("loss 2.5, lr 0.1", [0, 3]), ("a b", []), ("val b 5", [0, 1]), ("loss: 2.5", [0]), ("lr=0.1", [0]),
        ("x/y 3", [0]), ("x / y 3", [0, 2]), ("a (b) 5", []), ("time (ms) 5", [0]), ("time (ms)", []),
        ("2024-01-01 loss 3", [1]), ("run 2024-01-01", [0]), ("loss of 3", []), ("/ y 3", [1]), ("5", []),
    ],
)  # fmt: skip
def test_which_words_lead_to_a_number(text: str, leads: list[int]) -> None:
    line = SegmentedLine(tokens(text))
    assert [k for k in range(len(line.parts)) if line.leads_to_number(k)] == leads
    assert line.begins_segment(-1) and line.begins_segment(len(line.parts))
