"""Entries for lines of one object: the head, the measured numbers, the step, and what is dropped."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from perflog.formats.tokens import skeleton, tokens
from perflog.ingestion.suggest.json_objects import OBJECT, JsonDraft, draft_json, merge_json_shapes, parts
from perflog.ingestion.suggest.line_shapes import Key, LineShape


def shapes(lines: Sequence[str]) -> dict[Key, LineShape]:
    found: dict[Key, LineShape] = {}
    for number, text in enumerate(lines, 1):
        shape = found.setdefault(skeleton(tokens(text)), LineShape(number))
        shape.count += 1
        shape.keep(text, tokens(text))
    return found


def draft(*lines: str) -> JsonDraft:
    """The only entry of lines."""
    objects, _ = merge_json_shapes(shapes(lines))
    ((key, shape),) = objects.items()
    return draft_json(key, shape)


@pytest.mark.parametrize(
    "text", ["words", "{", '{"a": 1} words', "x" * 121 + '{"a": 1}', "{a}", '{"a": 1}{"b": 2}', ""]
)
def test_other_lines_hold_no_object(text: str) -> None:
    assert parts(text) is None


def test_a_line_is_cut_into_its_head_and_its_object() -> None:
    line = parts("x" * 120 + '{"a": 1, "b": {"c": "2.5", "d": "x", "seed": 7}, "ts": 8, "e": nan} \t')
    assert line is not None
    assert line.head == "x" * 120
    assert line.numbers == {"a": "1", "b.c": "2.5", "e": "nan"}


@pytest.mark.parametrize(
    "key", ["timestamp", "time_stamp", "datetime", "lineno", "pid", "Seed", "version", "port", "_ts"]
)
def test_numbers_that_are_not_measured(key: str) -> None:
    line = parts(f'{{"{key}": 5, "loss": 2.5}}')
    assert line is not None and line.numbers == {"loss": "2.5"}


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ('{"step": 5, "loss": 2.5}', "step"), ('{"step": 5}', ""), ('{"step": 5, "epoch": 1, "lr": 0.1}', ""),
        ('{"loss": 2.5}', ""), ('{"step": 5.5, "loss": 2.5}', ""),
        ('{"step": 1, "a": {"iter": 2}, "loss": 3.5}', "a.iter"),
        ('{"step": 5, "rank": 1}', ""), ('{"step": 5, "x": "2"}', "step"),
    ],
)  # fmt: skip
def test_the_step_of_an_object_with_measured_numbers(text: str, step: str) -> None:
    line = parts(text)
    assert line is not None and line.step == step
    assert line.key[:2] == (OBJECT, step)


def test_objects_with_a_step_and_others_are_an_entry_each() -> None:
    lines = [
        '{"step": 1, "loss": 2.5}',
        '{"step": 2, "loss": 2.0, "mfu": 0.5}',
        '{"eval": 3.5}',
        '{"note": "x"}',
        "words 5",
    ]
    objects, others = merge_json_shapes(shapes(lines))
    assert [(key[1], shape.first, shape.count, list(shape.lines)) for key, shape in objects.items()] == [
        ("step", 1, 2, lines[:2]), ("", 3, 2, lines[2:4])
    ]  # fmt: skip
    assert [list(shape.lines) for shape in others.values()] == [lines[4:]]


def test_objects_of_words_alone_are_none() -> None:
    objects, others = merge_json_shapes(shapes(['{"note": "x"}']))
    assert objects == {} and len(others) == 1
    assert merge_json_shapes({("a",): LineShape(1)}) == ({}, {("a",): LineShape(1)})


def test_the_keys_of_an_entry_of_steps() -> None:
    made = draft('INFO  {"step": 1, "grad": 3.5, "loss": 2.5}', 'INFO  {"step": 2, "loss": 2.0, "pid": 7}')
    assert (made.step, made.head_text.strip(), made.blanks) == ("step", "INFO", "  ")
    assert made.when == {"step": "*", "loss": "*"}
    assert made.keys == {"step": "step", "grad": "grad", "loss": "loss", "*": "*"}
    assert made.dropped == {"pid": "process id"}
    assert {path: slot.spec for path, slot in made.paths.items()} == {"step": "d", "grad": "r", "loss": "r"}


def test_without_a_loss_a_number_that_all_lines_have_tells_them() -> None:
    made = draft('{"step": 1, "a": 2.5, "b": 1.5}', '{"step": 2, "b": 2.0}')
    assert made.when == {"step": "*", "b": "*"}


def test_objects_without_a_step_have_no_names() -> None:
    made = draft('{"eval": 3.5}')
    assert (made.when, made.keys) == ({}, {"*": "*"})


def test_with_many_numbers_only_the_step_has_a_name() -> None:
    for count, names in ((39, 41), (40, 2)):
        numbers = ", ".join(f'"n{chr(97 + k // 26)}{chr(97 + k % 26)}": 1.5' for k in range(count))
        assert len(draft(f'{{"step": 1, {numbers}}}').keys) == names


def test_of_several_steps_the_last_is_one() -> None:
    made = draft('{"iteration": 1, "step": 2, "loss": 2.5}')
    assert made.step == "step"
    assert {path: slot.named.name for path, slot in made.paths.items()} == {
        "iteration": "epoch", "step": "step", "loss": "loss"
    }  # fmt: skip


def test_objects_with_a_step_are_known_by_one_number_that_all_have() -> None:
    """A loss if there is one, else the first; objects without a step by nothing."""
    for lines, when in (
        (['{"step": 3, "a": 1.5, "loss": 2.5, "val_loss": 3.5}'] * 2, {"step": "*", "loss": "*"}),
        (['{"step": 3, "a": 1.5, "b": 2.5}', '{"step": 4, "c": 1.5, "b": 2.5}'], {"step": "*", "b": "*"}),
        (['{"step": 3, "a": 1.5, "b": 2.5}'] * 2, {"step": "*", "a": "*"}),
        (['{"a": 1.5, "loss": 2.5}'] * 2, {}),
    ):
        assert draft(*lines).when == when, lines
