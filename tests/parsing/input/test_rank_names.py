"""Ranks in the names of files; coordinates are none."""

from __future__ import annotations

import pytest

from perflog.parsing.input.rank_names import MAX_RANK, label_of_file, local_rank_in_path, rank_in_path, rank_in_text


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
        (f"rank_{MAX_RANK}", MAX_RANK),
        (f"rank_{MAX_RANK + 1}", None),
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
    ],
)
def test_the_label_of_the_lines_of_a_file(path: str, local: int | None, label: bytes) -> None:
    assert (local_rank_in_path(path), label_of_file(path)) == (local, label)
