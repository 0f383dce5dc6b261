"""Numbers of one name in different lines have the words that differ before their names."""

from __future__ import annotations

import pytest
from support.drafted_lines import drafted

from perflog.ingestion.suggest.shared_names import tell_apart


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["train: acc 0.5", "other: acc 0.4"], [["train_acc"], ["other_acc"]]),
        (["train: acc 0.5", "acc 0.4"], [["train_acc"], ["acc"]]),
        (["train: acc 0.5", "train: acc 0.4, x=3"], [["acc"], ["acc", "x"]]),  # the same series
        (["train: acc 0.5"], [["acc"]]),
        (["prefill-10k: acc 5", "decode-10k: acc 5"], [["prefill_acc"], ["decode_acc"]]),
        (["train: epoch 5", "other: epoch 4"], [["epoch"], ["epoch"]]),  # it locates a row
        (["INFO train: acc 0.5", "WARNING train: acc 0.4"], [["acc"], ["acc"]]),
        (["one, two, three, four, acc: 0.5", "acc: 0.4"], [["one_two_three_acc"], ["acc"]]),
        (["train_loss: 2.5 acc: 0.5", "val_loss: 2.7 acc: 0.5"], [["loss", "train_acc"], ["val_loss", "val_acc"]]),
        (["s_att: 2.5 acc: 0.5", "loss_att: 2.7 acc: 0.5"], [["s_att", "acc"], ["loss_att", "acc"]]),
        (
            ["prefill: 0.05 s, rate: 553 tok/s", "decode: 0.05 s, rate: 553 tok/s"],
            [["prefill", "prefill_tokens_per_s"], ["decode", "decode_tokens_per_s"]],
        ),
        (["delay: 20.5 (of the first)", "delay: 20.5 (of the last)"], [["first_delay"], ["last_delay"]]),
        (
            ["[main, 4] [total time] host: 5 ms", "[main, 4] [part time] host: 5 ms"],
            [["number_1_of_main_total", "total_time_host"], ["number_1_of_main_part", "part_time_host"]],
        ),
        (
            ["errors: connect 694, read 728", "timeouts: connect 5, read 7"],
            [["errors_connect", "errors_read"], ["timeouts_connect", "timeouts_read"]],
        ),
    ],
)
def test_the_words_that_differ(lines: list[str], expected: list[list[str]]) -> None:
    drafts = [drafted(line) for line in lines]
    for draft in drafts:
        draft.table = "values"
    tell_apart(drafts)
    assert [draft.names for draft in drafts] == expected


def test_only_values_and_summaries_are_renamed_and_columns_keep_their_names() -> None:
    for tables, expected in (
        (("steps", "values"), [["loss"], ["other_loss"]]),
        (("summaries", "summaries"), [["loss"], ["loss"]]),  # the name says what is averaged
        (("summaries", "values"), [["loss"], ["loss"]]),
        (("runs", "values"), [["loss"], ["loss"]]),
    ):
        drafts = [drafted("train: loss 0.5"), drafted("other: loss 0.4")]
        for draft, table in zip(drafts, tables, strict=True):
            draft.table = table
        tell_apart(drafts)
        assert [draft.names for draft in drafts] == expected, tables
