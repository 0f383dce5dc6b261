"""The table of a line, by its words, how often it is printed, and where; names that suit the table."""

from __future__ import annotations

import pytest
from support.drafted_lines import drafted

from perflog.ingestion.suggest.line_draft import LineDraft
from perflog.ingestion.suggest.table_roles import assign_tables

STEPS = (10, 50, "step 3 loss 2.5 time 0.25 s", "step 4 loss 2.5 time 0.5 s")


def assigned(*lines: tuple[int, int, *tuple[str, ...]], only_sure: bool = False) -> list[LineDraft]:
    """Drafts of lines with their first line number and their number, after their tables were assigned."""
    drafts = [drafted(*texts, first=first, count=count) for first, count, *texts in lines]
    assign_tables(drafts, only_sure)
    return drafts


@pytest.mark.parametrize(
    ("first", "count", "text", "table"),
    [
        (1, 1, "hidden size: 512, layers: 12", "runs"),
        (1, 16, "hidden size: 512", "runs"),  # by each rank
        (1, 17, "hidden size: 512", "values"),
        (20, 1, "hidden size: 512, layers: 12", "values"),  # after the first step
        (20, 1, "seed: 1234", "runs"),
        (20, 17, "seed: 1234", "values"),
        (1, 1, "used size: 512", "values"),
        (1, 1, "hidden size: 512, loss: 3", "values"),
        (1, 1, "hidden size: 512.5", "values"),
        (1, 1, "dropout: 0.1", "runs"),  # a fraction of a known name
        (1, 1, "hidden size: 512 MB", "values"),
        (1, 1, "number 512", "values"),
        (1, 1, "| hidden size 512 |", "values"),  # of a table of results
        (1, 1, "saved at epoch 355", "values"),
        (1, 1, "mean hidden size: 512", "summaries"),
        (70, 1, "average loss 2.5", "summaries"),
        (70, 17, "average loss 2.5", "values"),
        (70, 1, "step 70 average loss 2.5", "values"),
        (11, 50, "forward: 3.5 ms, backward: 4.5 ms", "phases"),
        (11, 1, "forward: 3.5 ms, backward: 4.5 ms", "values"),
        (11, 50, "forward: 3.5 ms, loss: 4.5", "values"),
        (11, 50, "step 3 val loss 2.5", "values"),
        (11, 50, "step 3 acc 0.5", "values"),
        (11, 50, "step 3 grad_norm 0.5", "steps"),
        (11, 3, "step 3 grad_norm 0.5", "steps"),
        (11, 2, "step 3 grad_norm 0.5", "values"),  # of 50 steps
    ],
)
def test_the_table_of_a_line_beside_steps(first: int, count: int, text: str, table: str) -> None:
    draft, steps = assigned((first, count, text), STEPS)
    assert draft.table == table
    assert (draft.closes, bool(draft.why)) == (table == "steps", table != "values")
    assert (steps.table, steps.closes, steps.names) == ("steps", True, ["step", "loss", "step_time"])
    assert steps.has_plain_time  # printed as `time`: another line may have the time of the whole step


def test_the_table_of_a_line_without_steps() -> None:
    """A setting is printed once, before the first result. Settings alone are no rows."""
    size, result = (1, 1, "hidden size: 512"), (5, 1, "throughput 5.5 tokens/s")
    for lines, tables in (
        ([size], ["values"]),
        ([size, result], ["runs", "values"]),
        ([(6, 1, "hidden size: 512"), result], ["values", "values"]),
        ([(1, 2, "hidden size: 512"), result], ["values", "values"]),
        ([size, (5, 9, "step 3 lr 0.5")], ["runs", "values"]),  # a setting is no result of a step
        ([(5, 9, "step 3 lr 0.5"), (6, 9, "step 3 loss 0.5")], ["values", "steps"]),
        ([(5, 9, "step 3 val loss 0.5")], ["values"]),
    ):
        assert [draft.table for draft in assigned(*lines)] == tables, lines


def test_names_suit_the_table() -> None:
    for line, names in (
        ((11, 50, "valid loss 2.5"), ["valid_loss"]),
        ((11, 50, "Test set: Average loss: 2.5"), ["test_average_loss"]),
        ((11, 50, "train loss of test 2.5"), ["train_loss_of_test"]),
        ((70, 1, "average loss 2.5"), ["loss"]),  # the column that it averages
        ((70, 1, "average forward 2.5"), ["average_forward"]),
        ((11, 50, "iter 3 lr 0.5"), ["step", "lr"]),
        ((11, 50, "rank 3"), []),  # who printed it measures nothing
    ):
        assert assigned(line, STEPS)[0].names == names, line


@pytest.mark.parametrize(("number", "unit"), [("0.5", "ms"), ("0", "ms"), ("-0.5", "")])
def test_a_negative_number_is_no_time(number: str, unit: str) -> None:
    (slot,) = assigned((70, 9, f"wave delay: {number} ms"), STEPS)[0].numbers
    assert slot.named.unit == unit


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("dtype = float16, size: 3", "dtype = {dtype:w}, size: {size:d}"),
        ("mode: fast  size: 3", "mode: {mode:w}  size: {size:d}"),  # a gap ends a value
        ("mode: fast size: 3", "mode: fast size: {fast_size:d}"),
        ("mode: fast  : size: 3", "mode: fast  : size: {size:d}"),
        ("mode: fast | size: 3", "mode: {mode:w} | size: {size:d}"),
        ("(mode: 'fast') size: 3", "(mode: '{mode:w}') size: {size:d}"),
        ("size: 3, mode: fast", "size: {size:d}, mode: {mode:w}"),
        ("mode: fast, mode: slow, size: 3", "mode: {mode:w}, mode: slow, size: {size:d}"),
    ],
)
def test_a_word_that_is_the_value_of_a_key_is_a_setting(line: str, text: str) -> None:
    assert assigned((1, 1, line), STEPS)[0].text == text


def test_words_of_results_are_no_settings() -> None:
    other, _ = assigned((11, 50, "dtype = float16, loss: 3"), STEPS)
    assert other.text == "dtype = float16, loss: {loss:d}"


def test_lines_have_names_of_their_own() -> None:
    drafts = assigned(
        STEPS, (11, 50, "step 3 loss 2.5 time 0.25 s x"), (12, 9, "The First of Words 5"), (13, 9, "5 = 5.0")
    )
    assert [draft.name for draft in drafts] == ["step", "step_2", "first", "number"]


def test_numbers_that_nothing_names_without_doubt_stay_unread() -> None:
    (draft,) = assigned((1, 9, "rate: 3 (5) 7"), only_sure=True)
    assert draft.names == ["rate"]
    torn, whole = assigned((1, 1, "s_att=3.5"), (2, 9, "loss_att=3.5"), only_sure=True)
    assert (torn.names, whole.names) == ([], ["loss_att"])
    assert assigned((1, 1, "s_att=3.5"), only_sure=True)[0].names == ["s_att"]
