"""What words and numbers mean in any line of meters."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perflog.formats.families.meters import line_words as module
from perflog.formats.token_line import TokenLine
from perflog.formats.tokens import tokens
from perflog.formats.vocabulary import DEVICE


def line_of(text: str) -> TokenLine:
    return TokenLine(tokens(text))


def names(words: str = "", measures: bool = False, taken: str = "", **more: Any) -> Any:
    """The names of a line so far, the last words of which name the next number."""
    fields = SimpleNamespace(is_taken=taken.split().__contains__)
    state = {"is_bound": False, "counts_steps": True, "counter": "", "last": ""} | more
    return SimpleNamespace(declaration=SimpleNamespace(measures=measures), fields=fields, words=words.split(), **state)


def test_a_number_with_letters_after_model_is_a_name() -> None:
    line = line_of("model=7b x")
    assert module.names_model(names("model", is_bound=True), line, 2)
    assert module.names_model(names("own Model", is_bound=True), line, 2)
    assert not module.names_model(names("model"), line, 2)
    assert not module.names_model(names("size", is_bound=True), line, 2)
    assert not module.names_model(names("model", is_bound=True), line_of("model=7 b"), 2)


def test_the_only_device_of_a_line_is_that_of_its_process() -> None:
    line = line_of("loss cuda:1 2.5")
    assert module.is_own_device(names("loss"), line, 1)
    assert not module.is_own_device(names("loss"), line_of("loss cuda:1 2.5 cuda:2 3.5"), 1)
    assert not module.is_own_device(names("loss"), line_of("loss cuda:1 x"), 1)
    for other in (names(), names("loss", counts_steps=False), names("loss", taken=DEVICE)):
        assert not module.is_own_device(other, line, 1)


@pytest.mark.parametrize(
    ("text", "is_group"),
    [
        ("lm_head: lr=0.1, weight_decay=0.0", True),
        ("lm_head: lr=0.1, b: 3", False),
        ("lm_head: step=3", False),  # a counter
        ("val: lr=0.1", False),
        ("INFO: lr=0.1", False),
        ("lm_head= lr=0.1", False),
        ("lm_head: lr 0.1", False),
        ("TTFT: mean=3", True),
    ],
)
def test_a_word_with_a_colon_names_a_group_of_pairs(text: str, is_group: bool) -> None:
    assert module.names_group(line_of(text)) is is_group


def test_statistics_of_a_measured_line_are_no_group() -> None:
    assert not module.names_group(line_of("TTFT: mean=3"), measures=True)
    assert module.names_group(line_of("TTFT: lr=3"), measures=True)


def test_a_number_in_a_bracket_counts_a_plural() -> None:
    counted = [module.is_counted(line_of(f"( {x}"), 1) for x in ("20 requests)", "20 steps, x", "1 x)", "20requests)")]
    assert counted == [True, True, False, False]
    assert not module.is_counted(line_of("( 2.5 requests)"), 1) and not module.is_counted(line_of("( 20 requests x"), 1)


def test_a_label_of_a_rank_holds_nothing_else() -> None:
    labels = ("(rank 0)", "[Rank 3]", "(rank 0 x)", "(step 0)", "(rank 1.5)", "(rank x)")
    assert [module.is_rank_label(line_of(text), 0) for text in labels] == [True, True, False, False, False, False]


@pytest.mark.parametrize(
    ("text", "rest"), [("D(G(z)) 3", "3"), ("D() x", "x"), ("D(a b)", "("), ("D(3)", "("), ("D x", "x"), ("D(a", "(")]
)
def test_a_call_ends_with_its_bracket(text: str, rest: str) -> None:
    line = line_of(text)
    assert line.text(module.end_of_call(line, 1)) == rest


def test_a_call_has_at_most_32_tokens() -> None:
    for depth, end in ((16, 33), (17, 1)):
        assert module.end_of_call(line_of("D" + "(" * depth + ")" * depth), 1) == end


def test_the_name_of_an_event_is_around_its_time() -> None:
    def event(text: str, begin: int, k: int, end: int) -> str:
        return module.event_of(line_of(text), k, begin, end)

    assert event("model saved, took 5 s to disk", 0, 4, 6) == "model saved took to disk"
    assert event("took 5 s to save", 0, 1, 3) == "took to save"
    assert event("took 5 s lr 3", 0, 1, 3) == event("took 5 s lr: x", 0, 1, 3) == "took"  # the name of the next number
    assert event("a b c d e f g took 5 s", 0, 8, 10) == "c d e f g took"  # six words
    assert event("x [1, 2, 3] took 5 s", 0, 3, 5) == "took"


@pytest.mark.parametrize(
    ("words", "unit", "counter", "ends"),
    [
        ("finished in", "s", "epoch", True),
        ("Done in", "min", "step", True),
        ("finished in", "GB", "epoch", False),
        ("finished in", "s", "batch_size", False),
        ("was finished in", "s", "epoch", False),
        ("loaded in", "s", "epoch", False),
        ("finished", "s", "epoch", False),
    ],
)
def test_a_time_ends_the_step_or_epoch_before_it(words: str, unit: str, counter: str, ends: bool) -> None:
    line = line_of("in 86.0s, loss=2.3")
    assert module.ends_counted(names(words, counter=counter), line, unit, 3) is ends
    assert not module.ends_counted(names(words, counter=counter), line, unit, len(line.parts))  # nothing follows
    assert not module.ends_counted(names(words, counter=counter, is_bound=True), line, unit, 3)


@pytest.mark.parametrize(
    ("text", "words", "unit", "named"),
    [
        ("x 12 it/s", "", ("1/s", "it/s"), "it_per_s"),
        ("x 12 ms/step", "", ("ms", "ms/step"), "step time"),
        ("x 12 ms/step", "time", ("ms", "ms/step"), "step time"),
        ("x 12 ms/step", "wait", ("ms", "ms/step"), None),
        ("x 12 ms/tok", "", ("ms", "ms/tok"), "time per tok"),
        ("x 12 ms/tok", "wait", ("ms", "ms/tok"), None),
        ("x 12 ms", "", ("ms", "ms"), None),
        ("x 12% MFU", "", ("%", "%"), "MFU"),
        ("x 12% x", "", ("%", "%"), None),
        ("x 12% MFU", "wait", ("%", "%"), None),
    ],
)
def test_a_unit_may_name_its_number(text: str, words: str, unit: tuple[str, str], named: str | None) -> None:
    given: tuple[str, str | None] = (words or "x", None)
    state = names(words, last="copy")
    end = 3
    assert module.named_by_unit(state, line_of(text), (1, end), unit, given) == ((named, "") if named else given)


def test_a_rate_in_a_column_is_of_the_case_before_it() -> None:
    def named(text: str, **more: Any) -> tuple[str, str | None]:
        return module.named_by_unit(names(last="copy", **more), line_of(text), (1, 3), ("1/s", "it/s"), ("x", None))

    assert named("x   12 it/s", measures=True) == ("copy it_per_s", "")
    assert named("x 12 it/s", measures=True) == named("x   12 it/s") == ("it_per_s", "")
    line = line_of("x 12 it/s")
    assert module.named_by_unit(names(), line, (1, 3), ("1/s", "it/s"), ("x", "own")) == ("x", "own")
