"""Ranks in the names of files; coordinates are none."""

from __future__ import annotations

import pytest

from perflog.parsing.input.rank_names import (
    are_divided,
    errors_of_torchrun,
    label_of_file,
    local_rank_in_path,
    node_in_path,
    printed_ranks,
    rank_in_path,
    rank_in_text,
)


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("rank_3.log", 3),
        ("rank3", 3),
        ("Rank=12.json", 12),
        ("run1-rank-03.txt", 3),
        ("global_rank_7", 7),
        ("rank_3_of_rank_3", 3),
        ("rank_3_rank_4", None),  # which?
        ("local_rank_3", None),
        ("tp_rank_1_pp_rank_2", None),
        ("tp_rank_1_rank_9", 9),
        ("TP_rank_1", None),
        ("frank_3", None),  # a word
        ("rank", None),
        ("rank_x", None),
        ("rank_2147483647", 2147483647),
        ("rank_2147483648", None),
        ("node_3", None),
    ],
)
def test_the_rank_that_a_name_states(text: str, rank: int | None) -> None:
    assert rank_in_text(text) == rank


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("logs/rank_3/trace.json", 3),
        ("logs/rank_3/rank_4.json", 4),  # the name of the file counts first
        ("logs/rank_3/local_rank_1.json", None),  # its name states a rank, but none of the job
        ("rank_3/logs/trace.json", None),  # only the folder of the file
        ("trace.json", None),
    ],
)
def test_the_rank_in_a_path(path: str, rank: int | None) -> None:
    assert rank_in_path(path) == rank


@pytest.mark.parametrize(
    ("path", "local", "label"),
    [
        ("out/attempt_0/3/stdout.log", 3, b"[default3]:"),
        ("attempt_12/7/stderr.log", 7, b"[default7]:"),
        ("attempt_0/3/other.log", None, b""),
        ("xattempt_0/3/stdout.log", None, b""),
        ("rank_5.log", None, b"[rank5]:"),
        ("run.log", None, b""),
        ("out/train_node03.log", None, b"[pod/node03] "),
    ],
)
def test_the_label_of_the_lines_of_a_file(path: str, local: int | None, label: bytes) -> None:
    assert (local_rank_in_path(path), label_of_file(path)) == (local, label)


@pytest.mark.parametrize(
    ("path", "errors"),
    [
        ("out/attempt_0/3/stdout.log", "out/attempt_0/3/stderr.log"),
        ("out/attempt_0/3/stderr.log", None),
        ("out/3/stdout.log", None),
        ("stdout.log", None),
    ],
)
def test_the_errors_beside_the_output_of_a_rank(path: str, errors: str | None) -> None:
    assert errors_of_torchrun(path) == errors


@pytest.mark.parametrize(
    ("path", "node"),
    [
        ("node7/train_node03.log", "03"), ("host-12.txt", "12"), ("node7/train.log", None), ("node7/x/train.log", None),
        ("anode3.log", None), ("node.log", None),
    ],
)  # fmt: skip
def test_the_node_that_the_name_of_a_file_states(path: str, node: str | None) -> None:
    found = node_in_path(path)
    assert (None if found is None else found[1]) == node


def test_ranks_that_lines_print() -> None:
    assert printed_ranks(b"rank 3 loss\nRank=4 r5 [R-6] rank 7.5 for9 rank: 1234567") == {3, 4, 5, 6}


@pytest.mark.parametrize(
    ("ranks", "divided"),
    [
        ([{0}, {1}], True), ([{0, 2}, {1}], True), ([{0, 1}], False), ([{0}, {2}], False), ([{1}, {2}], False),
        ([{0}, {0}], False), ([{0}, set()], False), ([], False),
    ],
)  # fmt: skip
def test_logs_that_divide_the_ranks_of_a_job(ranks: list[set[int]], divided: bool) -> None:
    assert are_divided(ranks) == divided
