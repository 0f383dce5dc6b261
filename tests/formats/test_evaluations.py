"""Lines about an evaluation, by their words."""

from __future__ import annotations

import pytest

from perflog.formats.families.meters.evaluations import evaluation_of, evaluation_of_words, is_evaluated


@pytest.mark.parametrize(
    ("before", "head", "after", "word"),
    [
        ("", "val loss 2.3 time 3", "", "val"),
        ("Test: ", "", "loss 2", "test"),
        ("Validation Results - Epoch[1]", "", "", "validation"),
        ("val on 'x'", "", "", "val"),
        ("FastEstimator-Eval: step: 3; loss 2", "", "", "eval"),
        ("", "eval", "loss 2", "eval"),  # the first or the last word of the head
        ("", "run eval", "loss 3", "eval"),
        ("", "{x}Eval", "loss 3", "eval"),
        ("epoch 3 val: ", "", "loss 2", "val"),  # a counter is no measured number
        ("", "", "val: 3", ""),  # the name of a number
        ("val foo: 3", "", "", ""),  # part of a name
        ("loss 3 val 3", "", "", ""),  # after a measured number
        ("x 100%|███| 3/3 val", "", "", ""),  # after a bar
        ("train", "", "loss 2", ""),
    ],
)
def test_the_word_of_an_evaluation_is_before_the_first_measured_number(
    before: str, head: str, after: str, word: str
) -> None:
    assert evaluation_of(before, head, after) == word


def test_the_names_after_the_first_must_be_those_of_one_evaluation() -> None:
    assert evaluation_of_words("Epoch [3] | Test Loss: 2.5 | Acc: 12.5% | Time: 1.5s") == "test"
    assert [evaluation_of_words(x) for x in ("Test Loss: 2 | lr: 3", "Loss: 2 | test: 3", "epoch 3", "")] == [""] * 4


def test_all_names_apart_from_counters_belong_to_an_evaluation() -> None:
    assert is_evaluated(["iter", "val_loss"]) and is_evaluated(["test_acc"])
    assert not is_evaluated(["iter"]) and not is_evaluated(["val_loss", "loss"]) and not is_evaluated([])
