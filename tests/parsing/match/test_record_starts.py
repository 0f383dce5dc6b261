"""Where a line is cut into records: at labels and at the openings of known lines, where another write tore it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.cost import cpu_growth

from perflog.formats.model import Line
from perflog.formats.openings import opening_of
from perflog.formats.registry import known
from perflog.formats.template import Template
from perflog.parsing.match import record_starts
from perflog.parsing.match.record_starts import RecordStarts, _is_inside_word, ends_whole
from perflog.parsing.match.records import lines_of

TITAN = "{printed:s} - {_:b}step: {step:2d}  loss: {loss:8.5f}  mfu: {mfu:.2f}%"
MEGATRON = " iteration {step:8d}/{iterations:8d} | consumed samples: {samples:12.0f} | batch size: {size:5d} |"
RANKED = "Rank {rank:d} | Step {step:d} | loss: {loss:.4f} | grad_norm: {grad_norm:.4f}"
TEMPLATES = (TITAN, MEGATRON, RANKED, "{rank:d} wait time: {wait:r}", "iter {step:d}: loss {loss:.4f}, time {t:.2f}ms")


def parts(text: str, *templates: str) -> list[str]:
    """The parts into which a line is cut, given the lines that are known."""
    form = known()["common"]
    starts = RecordStarts((form, Line("line", Template(t))) for t in templates or TEMPLATES)
    cuts = dict(starts.cuts(pa.array([text.encode()], pa.binary()))).get(0, [])
    raw = text.encode()
    return [raw[a:b].decode() for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


CUT = [
    # the head of rank 15 is torn inside its date
    "[rank15]:[titan] 2026-||[rank2]:[titan] 2026-07-17 12:00:02,271 - root - INFO - step:  2  loss:  1.2283  mfu: 1%",
    # a label that the launcher prints counts for the record behind it
    "2:  iteration        6/     100 | cons||6:  iteration        4/     100 | consumed samples: 5 | batch size: 8 |",
    "2:  iter||13:  iteration        4/     100 | consumed samples: 5 | batch size: 8 |",
    "2:  iteration       ||1:  iteration        4/     100 | consumed samples: 5 | batch size: 8 |",
    # `11: ` may be rank 1 behind a torn `1`, or rank 11: it stays with the torn record
    "2:  iteration        6/     100 | consumed samples:  11: || iteration        4/     100 | consumed samples: 5 |",
    "0: [rank3]:[titan] x - step: 1  lo||1: [rank9]:[titan] 2026-07-17 12:00:02,271 - step:  1  loss:  1.2  mfu: 2%",
    # without labels, the opening of a known line is the sign
    "Ra||Rank 1 | Step 5 | loss: 2.3 | grad_norm: 1.2",
    "Rank 1 | Step 5 | loss: 2.3 | grad_norm: 1.2||Rank 2 | Step 5 | loss: 2.3 | grad_norm: 1.2",
    "iter 340: loss 5.4983, ti||iter 341: loss 5.5000, time 12.00ms",
    "iter 340: lo||2024-05-01 10:11:12 INFO iter 341: loss 5.5000, time 12.00ms",
    '{"a": "}{", "b": 1} ||{"a": 2}',
    '{"step": 1, "message": "a||[rank1]:{"step": 2}',
    "[Rank 0] nothing that is known||[Rank 1] nor here",
    "[rank0]: nothing that is known ||[rank1]: iter 341: loss 5.5000, time 12.00ms",
    "[Rank 0] iter 341: loss 5.5000, time 12.00ms ||[Rank 1] iter 341: loss 5.5000, time 12.00ms",
    "(A pid=7) INFO x - step:  1  loss:  1.2  mfu: 1% ||(A pid=8, ip=10.0.0.1) INFO x - step:  1  loss:  1.3  mfu: 1%",
]

WHOLE = [
    "best so far: Rank 1 | Step 5 | loss: 2.3",
    "2024-01-01 10:00:00 INFO Rank 1 | Step 5 | loss: 2.3 | grad_norm: 1.2",
    "0: [rank3]: Rank 1 | Step 5 | loss: 2.3 | grad_norm: 1.2",
    "global_Rank 1 | Step 5 | loss: 2.3",
    "[rank1]: waits for [rank3]: later",  # a sentence
    "[Rank 1] nothing that is known, see [Rank 3] as well",
    "1 process: 3123 wait time: 2.4",  # 312 and 3, or 31 and 23: nothing says it
    '{"a": "}{", "b": {"c": 1}}',
    '{"step": 1, "loss": NaN, "message": "moved [pod/worker-1] off node 3, [rank0]: waits"}',
]


@pytest.mark.parametrize("text", CUT)
def test_a_line_is_cut_where_a_record_begins(text: str) -> None:
    assert parts(text.replace("||", "")) == text.split("||")


@pytest.mark.parametrize("text", WHOLE)
def test_other_lines_stay_whole(text: str) -> None:
    assert parts(text) == [text]


def test_lines_are_cut_among_many_others_as_alone() -> None:
    """Of many shapes, those that hold one record are found by patterns over all lines together."""
    prose = [
        f"{a} {b} of the {c}"
        for a in "ABCDEF"
        for b in ("end", "begin")
        for c in ("loop", "epoch", "job", "x", "yz", "w")
    ]
    lines = [*prose, *(text.replace("||", "") for text in CUT), *WHOLE]
    form = known()["common"]
    starts = RecordStarts((form, Line("line", Template(t))) for t in TEMPLATES)
    found = dict(starts.cuts(pa.array([line.encode() for line in lines], pa.binary())))
    expected = {}
    for row, text in enumerate(CUT, len(prose)):
        ends = np.cumsum([len(part.encode()) for part in text.split("||")]).tolist()
        expected[row] = ends[:-1]
    assert found == expected


@pytest.mark.parametrize(
    ("template", "text", "is_whole"),
    [
        ("loss: {loss:.4f}", "loss: 2.3456", True),
        ("loss: {loss:.4f}", "loss: 2.34", False),
        ("loss: {loss:.2e}", "loss: 2.34e-0", False),
        ("loss: {loss:.2e}", "loss: 2.34e-05", True),
        ("batch: {batch:d}", "batch: 12", False),
        ("batch: {batch:d} |", "batch: 12 |", True),
        ("wait: {wait:r}", "wait: 2.3456", False),
        ("wait: {wait:f}.", "wait: 2.5.", True),
        ("wait: {wait:f}.", "wait: 2.", False),  # the point may be of the number
        ("host: {_:S}", "host: node", True),  # nothing is lost of a dropped string
        ("host: {_:S}", "host: node 2", False),  # the number may be torn
        ("words alone", "words alone", True),
        ("dtype: {dtype:w}", "dtype: float1", False),
    ],
)
def test_a_number_next_to_a_tear_is_whole_only_with_its_decimals(template: str, text: str, is_whole: bool) -> None:
    assert ends_whole(Template(template), pa.array([text.encode()], pa.binary())).tolist() == [is_whole]


def test_the_words_of_an_indented_heading_begin_no_record() -> None:
    assert parts("GPU Core Temperature (C), GPU Power (W)", "    Temperature", "    Power") == [
        "GPU Core Temperature (C), GPU Power (W)"
    ]


def test_an_opening_needs_letters() -> None:
    assert opening_of(Template("{a:d} {b:d}")) is None
    assert opening_of(Template("end")) is None
    opening = opening_of(Template(MEGATRON))
    assert opening is not None and opening.pattern.startswith(" {0,1}iteration")


def test_blanks_inside_a_record_are_not_tried_in_all_ways() -> None:
    """A line that was cut in the middle of a word, and whose rest is blanks, took Python more than 20 s."""
    starts = RecordStarts(lines_of([known()["mlperf"]]))
    line = b':::MLLOG {"key": "run_stop", "file'

    def cut(blanks: int) -> object:
        return starts.cuts(pa.array([line + b" " * blanks + line], pa.binary()))

    assert cpu_growth(cut, 300, 900) < 20


def test_many_bars_are_cut_in_short_time() -> None:
    """Each bar can be read in several ways."""
    starts = RecordStarts(lines_of(known().values()))
    bar = b"train:  1%|#   | 3/211 [00:10<10:14,  2.95s/it]  "

    def cut(bars: int) -> object:
        return starts.cuts(pa.array([b"iter 7: loss 2.3000, time 12.00ms " + bar * bars], pa.binary()))

    assert cpu_growth(cut, 40, 160) < 20


@pytest.mark.parametrize(
    ("before", "name", "is_inside"),
    [
        (b"global_", b"step", True),
        (b"timing/", b"step", True),
        (b"train.", b"step", True),
        (b"micro-", b"step", True),
        (b"x", b"step", True),
        (b"2.5 ms", b"rank 3", False),  # a unit ends the record before
        (b"2.5 zz", b"rank 3", True),  # no unit
        (b"5/", b"step", False),  # no name before the sign
        (b"/", b"step", False),
        (b": ", b"step", False),
        (b"7", b"step", False),
        (b"loss", b"2.5", False),  # a number
        (b"", b"step", False),
    ],
)
def test_a_record_does_not_begin_inside_a_name(before: bytes, name: bytes, is_inside: bool) -> None:
    assert _is_inside_word(before + name, len(before)) == is_inside


def test_beginnings_after_labels_of_srun_come_in_several_lines() -> None:
    def labelled(*texts: str) -> str | None:
        found = record_starts._labelled_beginnings(pa.array([text.encode() for text in texts]), np.full(len(texts), 99))
        return None if found is None else found.pattern.decode()

    assert labelled("step 3 loss 2.5", "[rank0]: step 4") is None
    assert labelled("0: step 3 loss 2.5", "1: step 4 loss 2.5", "step 5") == r"0: [ \t]*(step\ 0)"


def cut_lines(lines: list[str], label_width: int = 0) -> list[str]:
    """Those of the lines that are cut, with `||` where they are. Lines of one program are known."""
    starts = RecordStarts([(known()["common"], Line("line", Template(TEMPLATES[-1])))])
    texts = [line.replace("||", "") for line in lines]
    found = starts.cuts(pa.array([text.encode() for text in texts], pa.binary()), label_width)
    return ["||".join(texts[row][a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)) for row, cuts in found]


def test_the_beginning_of_a_line_that_comes_again_is_a_record() -> None:
    """Of a program that nobody knows, in few lines and among many."""
    torn = ["own 7 val 2.3||own 8 val 2.2", "own 7 val 2.3  ||own 8 val 2.2"]
    listed = "own 7 val 2.3 own 8 val 2.2"  # one space may separate the items of a list
    assert cut_lines([*torn, listed]) == torn
    assert cut_lines([*(f"own {k} {'x' * k}" for k in range(80)), *torn, listed]) == torn
    assert cut_lines([]) == [] and cut_lines([torn[0], torn[0] + "y" * (1 << 16)]) == [torn[0]]


def test_labels_of_srun_before_what_several_lines_begin_with() -> None:
    lines = [f"{k % 4}: own {k} val 2.5" for k in range(8)]
    torn = "0: own 3 val 2.5 ||1: own 4 val 2.5"
    assert cut_lines([*lines, torn]) == [torn]
    unclear = "0: own 3 val 2.51: ||own 4 val 2.5"  # rank 1, or a digit of the number
    assert cut_lines([*lines, unclear]) == [unclear]


def test_labels_of_a_known_width_have_their_spaces() -> None:
    texts = ["  3: iter 340: loss 5.4983, ti|| 11: iter 341: loss 5.5000, time 12.00ms"]
    assert cut_lines(texts, 3) == texts
    assert cut_lines(texts) == [texts[0].replace("|| 11: ", " 11: ||")]


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        ("loss {loss:f}", {}, True), ("it begins", {}, True), ("it begins", {"role": "context"}, True),
        ("  it begins", {}, False),  # an indented heading
        ("it is {what:s}", {}, False), ("it is {what:s}", {"role": "context"}, False),  # other lines print its words
        ("it is {what:s}.", {"role": "context"}, True), ("loss {loss:f} of {what:s}", {}, True),
        ("loss {loss:f} of {what:s}", {"role": "context"}, False),
        ("loss {loss:f} of {n:d}", {"role": "context"}, True),
        ("loss {loss:f}", {"role": "body"}, False), ("loss {loss:f}", {"under_header": True}, False),
        ("{_:p}loss {loss:f}", {}, False), ("loss {loss:f}{_:a}", {}, False),
    ],
)  # fmt: skip
def test_records_of_which_lines_may_be_glued(text: str, more: dict[str, Any], expected: bool) -> None:
    assert record_starts._may_be_glued(Line("x", Template(text), **more)) is expected
