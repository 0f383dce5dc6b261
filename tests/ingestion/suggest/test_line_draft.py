"""Lines of one shape become a template: the fields, how each is printed, what names it and whether without doubt."""

from __future__ import annotations

import pytest
from support.drafted_lines import drafted, shape_of

from perflog.formats.template import Template
from perflog.formats.tokens import LIST, NUMBER, OPAQUE, UNIT, Token
from perflog.ingestion.suggest import line_draft, naming
from perflog.ingestion.suggest.line_draft import LITERAL, TEXT, UNSURE, Slot, slots_of, text_of

STEPS = ["step 3/10 loss 2.5 time 0.25 s", "step 4/10 loss 2.25 time 0.5 s"]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (STEPS, "step {step:d}/{steps:d} loss {loss:r} time {time:r} s"),
        (["loss: 12.50", "loss:  3.25"], "loss: {loss:5.2f}"),  # right-aligned
        (["loss 12.50 a", "loss  3.25 a", "loss 113.25 a"], "loss {loss:6.2f} a"),
        (["a   5  b", "a  15  b"], "a {number:3d}  b"),
        (["a\t5", "a\t15"], "a\t{number:d}"),
        (["a 5", "a\t15"], "a{_:b}{number:d}"),
        (["a {5}", "a {6}"], "a {{{number:d}}}"),
        (["rate 1,234 tokens/s"], "rate {tokens_per_s:,d} tokens/s"),
        (["took 5ms", "took 3.5s"], "took {time:t}"),  # with the unit that suits it
        (["lr=1e-05 wd=0.1"], "lr={learning_rate:.0e} wd={wd:.1f}"),
        (["x=+1.5 y=-2"], "x=+{x:.1f} y={y:d}"),  # a template writes no plus sign
        (["x=+1.5", "x=-2.5"], "x={x:.1f}"),
        (["a 003", "a 004"], "a {number:03d}"),
        (["a 05", "a 5"], "a {_:S}"),  # no number is printed so
        (["2024-01-01 10:00:00 loss 2"], "{_:S} {_:S} loss {loss:d}"),
        (["no data will print nan"], "no data will print {_:S}"),  # a word
        (["[1, 2, 3] sizes"], "{name:s} sizes"),
        (["loss 3.5 of alpha", "loss 2.5 of beta", "loss 1.5 of gamma"], "loss {loss:.1f} of {name:w}"),
        # numbers in names
        (["gpu0: 45%"], "gpu0: {gpu0:d}%"),
        (["gpu0: 45%", "gpu1: 46%"], "gpu{_:S}: {gpu:d}%"),
        (["gpu1 util 45%"] * 2 + ["gpu0 util 5%"], "gpu{_:S} util {gpu_util:d}%"),
        (["STEP-0 x 3", "STEP-1 x 4"], "STEP-{step:d} x {number_2_of_step_x:d}"),  # its number counts
        (["prefill-10k 5 ms"], "prefill-10k {prefill_10k:d} ms"),
        # numbers that belong to the one before
        (["mem 12.5/80 GB", "mem 13.5/80 GB"], "mem {mem:.1f}/{mem_total:d} GB"),
        (["time 21.9 ± 1.2 ms"], "time {time:.1f} ± {time_spread:.1f} ms"),
        (["used 30 (45%)"], "used {used:d} ({used_share:d}%)"),
        (["latency: 5 us (min 3 us)"], "latency: {latency:d} us (min {min:d} us)"),
        (["batch 4/300", "batch 5/300"], "batch {batch:d}/{batches:d}"),
        (["batch 4 of 300", "batch 5 of 300"], "batch {batch:d} of {batches:d}"),
        (["batch 3/4", "batch 4/4"], "batch {batch:d}/{batches:d}"),  # the last one
        (["batch 4/300", "batch 4/400"], "batch {batch:d}/{batch_2:d}"),  # it grows beside the first
        (["Time 0.5 (0.75)"], "Time {time:.1f} ({time_2:.2f})"),
        (["delay 5 us (3 W)"], "delay {delay:d} us ({power:d} W)"),
        (["merge=1/3"], "merge={merge:d}/{merge_2:d}"),  # reads and writes
        (["merge=1/3", "merge=2/3"], "merge={merge:d}/{merge_total:d}"),
        (["merge=3/1", "merge=3/2"], "merge={merge:d}/{merge_2:d}"),
        # what counts up to another number may be a step
        (["3/10: 0.5", "4/10: 0.75"], "{step:d}/{steps:d}: {number_3:r}"),
        (["13/10: 0.5", "4/10: 0.75"], "{number:d}/{number_2:d}: {number_3:r}"),
        (["3 / 81559 MB"], "{number:d} / {size:d} MB"),
        (["3/10 step 7 loss 2.5", "4/10 step 8 loss 2.5"], "{batch:d}/{batches:d} step {step:d} loss {loss:.1f}"),
    ],
)
def test_the_template_of_lines(lines: list[str], text: str) -> None:
    draft = drafted(*lines)
    assert draft.text == text
    template = Template(text)
    assert all(template.match(line) is not None for line in lines)


def test_a_list_is_text_and_a_line_of_opaque_strings_is_not_read() -> None:
    assert [drafted(line).read for line in ("[1, 2, 3] sizes", "no data will print nan", "a 5")] == [True, False, True]
    assert drafted("no data will print nan").names == []
    assert drafted(*STEPS).names == ["step", "steps", "loss", "time"]
    assert not drafted(*STEPS).closes and drafted(*STEPS).table is None  # until its table is assigned
    assert drafted("Loss 5 (Mean)").words == "loss ( mean )"


def sure(*lines: str) -> dict[str, bool]:
    return {slot.named.name: slot.is_sure for slot in drafted(*lines).numbers}


def test_which_names_are_without_doubt() -> None:
    for lines, expected in (
        (STEPS, {"step": True, "steps": True, "loss": True, "time": True}),
        (["3/10: 0.5", "4/10: 0.5"], {"step": False, "steps": False, "number_3": False}),
        (["acc 0.5 acc 0.6"], {"acc": False, "acc_2": False}),  # two of one name
        (["used 30 (45%)"], {"used": True, "used_share": False}),
        (["merge=1/3"], {"merge": False, "merge_2": False}),
        (["time 21.9 ± 1.2 ms"], {"time": True, "time_spread": True}),
    ):
        assert sure(*lines) == expected, lines


def test_a_number_before_a_total_or_a_spread_has_its_unit() -> None:
    for line, units in (
        ("mem 12.5/80 GB", ["GB", "GB"]),
        ("time 21.9 ± 1.2 ms", ["ms", "ms"]),
        ("used 30 (45%)", ["", "%"]),
        ("batch 4/300 ms", ["", "ms"]),
        ("latency [ms]: p50=3.5 p99=7.5", ["ms", "ms"]),  # the line states it for all its times
        ("latency [MB]: p50=3.5 p99=7.5", ["", ""]),
    ):
        assert [slot.named.unit for slot in drafted(line).numbers] == units, line


def test_a_role_that_the_log_disproves_is_taken_back() -> None:
    """Under the printed name, or none; a total goes with it."""
    for lines, role, expected in (
        (["iter 3/10 loss 2.5", "iter 4/10 loss 2.5"], "step", ["iter", "iters", "loss"]),
        (STEPS, "step", ["step_printed", "steps", "loss", "time"]),
        (["3/10: 0.5", "4/10: 0.5"], "step", ["number", "number_2", "number_3"]),
        (["rank 3 loss 2.5"], "rank", ["rank_printed", "loss"]),
        (["loss 2.5"], "step", ["loss"]),
    ):
        draft = drafted(*lines)
        draft.take_back(role)
        assert (draft.names, draft.counts_itself) == (expected, role == "step"), lines
    assert sure(*STEPS)["step"]


def test_numbers_in_doubt_stay_unread() -> None:
    for line, kinds in (
        ("used 30 (45%)", [NUMBER, UNSURE]),
        ("percentile(50, 75, 95) 3.5", [UNSURE, UNSURE]),  # arguments
        ("[1, 2, 3] sizes", [UNSURE]),
        ("sizes: [1, 2, 3]", [TEXT]),
        ("sizes=[1, 2, 3]", [TEXT]),
        ("sizes: (1, 2, 3)", [TEXT]),
    ):
        draft = drafted(line)
        draft.leave_unsure()
        assert [slot.kind for slot in draft.slots if slot.kind != LITERAL] == kinds, line


def test_a_negative_time_of_a_step_means_unknown() -> None:
    draft = drafted("step_time: -1.0 s, loss: -2.5", "step_time: 0.5 s, loss: -2.5")
    assert draft.unknown == {}
    draft.table = "steps"
    assert draft.unknown == {"step_time": "-1.0"}
    assert Slot(NUMBER, ["-1,000", "5"], ["", ""], "d").negative == ["-1,000"]
    assert Slot(NUMBER, ["-1ms"], [""], "t").negative == []
    assert Slot(NUMBER, ["5ms"], [""], "t").is_time and not Slot(NUMBER, ["5"], [""], "d").is_time


def test_a_word_after_a_mark_is_the_value_of_a_key() -> None:
    for line, expected in (
        ("dtype = float16, size 3", ["dtype"]),
        ("dtype: `float16`", ["dtype"]),
        ("dtype float16", []),
        ("(a) = float16", []),
    ):
        slots = slots_of(*_key_and_lines(line))
        assert [slot.value for slot in slots if slot.value] == expected, line


def _key_and_lines(*lines: str) -> tuple[tuple[str, ...], list[tuple[Token, ...]]]:
    key, shape = shape_of(*lines)
    return key, list(shape.lines.values())


def test_spaces_that_are_no_padding_are_dropped() -> None:
    slots = [Slot(LITERAL, ["a", "a"], ["", ""]), Slot(NUMBER, ["5", "15"], ["  ", " "], "d")]
    slots[1].named = naming.Named("x")
    assert text_of(slots, loose=False, read=True) == "a {x:2d}"
    assert text_of(slots, loose=True, read=True) == "a {_:b}{x:d}"
    assert text_of(slots, loose=False, read=False) == "a {_:2d}"
    text = [Slot(TEXT, ["ab", "c"], [" ", "  "]), Slot(OPAQUE, ["1-2", "3"], [" ", " "])]
    text[0].named = naming.Named("word")
    assert text_of(text, loose=False, read=True) == " {word:>2w} {_:S}"
    text[0].texts = ["a-b", "c"]
    assert text_of(text, loose=False, read=True) == " {_:b}{word:S} {_:S}"


def test_slots_of_tokens_that_are_no_literals() -> None:
    """Whole numbers that are no figures are digits; a plus sign before each of some numbers is a literal."""
    gaps = ["", " "]
    for kind, texts, expected in (
        (OPAQUE, ["12", "345"], [(OPAQUE, "d", ["12", "345"])]),
        (OPAQUE, ["12", "3" * 19], [(OPAQUE, "", ["12", "3" * 19])]),
        (OPAQUE, ["12", "3x"], [(OPAQUE, "", ["12", "3x"])]),
        (OPAQUE, ["1 2", "3"], [(OPAQUE, "s", ["1 2", "3"])]),
        (NUMBER, ["+1", "+2"], [(LITERAL, "", ["+", "+"]), (NUMBER, "", ["1", "2"])]),
        (NUMBER, ["+1", "-2"], [(NUMBER, "", ["+1", "-2"])]),
        (LIST, ["[1]", "[2]"], [(TEXT, "s", ["[1]", "[2]"])]),
        (UNIT, ["ms", "ms"], [(LITERAL, "", ["ms", "ms"])]),
    ):
        slots = line_draft._special_slots(f"\0{kind}", texts, gaps)
        assert [(slot.kind, slot.spec, slot.texts) for slot in slots] == expected
        assert slots[0].gaps == gaps and slots[0].listed == (kind == LIST)


def test_digits_in_names_that_vary_are_numbers() -> None:
    for texts, expected in (
        (["gpu0", "gpu1"], [(LITERAL, "gpu"), (NUMBER, "0")]),
        (["a1b2", "a1b3"], [(LITERAL, "a"), (LITERAL, "1"), (LITERAL, "b"), (NUMBER, "2")]),
        (["a1b2c3", "a2b3c4"], [(TEXT, "a1b2c3")]),  # three of them: a word that varies
        (["a01", "a1"], [(TEXT, "a01")]),  # padded in another way
    ):
        slots = line_draft._numbered(texts, [" ", "  "])
        assert [(slot.kind, slot.texts[0]) for slot in slots] == expected, texts
        assert slots[0].gaps == [" ", "  "] and all(slot.inner == (slot.kind == NUMBER) for slot in slots)
