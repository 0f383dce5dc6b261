"""Rank labels before lines: which number they hold, and what is left of the line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perflog.parsing.match.rank_labels import (
    NO_LABEL,
    NO_RANK,
    bare_texts,
    carried_labels,
    is_local,
    is_nested,
    is_pod,
    local_label,
    local_rank_of,
    nested_labels,
    node_of,
    pod_name,
    pod_of,
    process_labels,
    split_rank_label,
    strip_rank_labels,
    without_each_label,
)


def array(*labels: int) -> Any:
    return np.array(labels, np.int64)


@pytest.mark.parametrize("rank", [0, 1, 7, 8, (1 << 30) - 1])
def test_a_local_rank_as_a_label(rank: int) -> None:
    label = local_label(array(rank))
    assert is_local(label).all() and not is_nested(label).any() and not is_pod(label).any()
    assert (local_rank_of(label).tolist(), node_of(label).tolist()) == ([rank], [-1])


@pytest.mark.parametrize("node", [0, 3, (1 << 30) - 2])
@pytest.mark.parametrize("rank", [0, 5])
def test_the_number_before_a_local_rank_is_the_node(node: int, rank: int) -> None:
    label = nested_labels(array(node), local_label(array(rank)))
    assert is_local(label).all() and not is_nested(label).any()
    assert (node_of(label).tolist(), local_rank_of(label).tolist()) == ([node], [rank])


def test_two_plain_numbers_are_both_kept() -> None:
    label = nested_labels(array(2, 3, 4), array(7, 3, 0))
    assert is_nested(label).all() and not is_local(label).any()
    assert (node_of(label).tolist(), local_rank_of(label).tolist()) == ([2, 3, 4], [7, 3, 0])
    assert process_labels(label).tolist() == [label[0], 3, label[2]]  # of two equal numbers one


def test_numbers_that_do_not_fit_are_not_kept() -> None:
    alone = nested_labels(array((1 << 30) - 1), local_label(array(5)))
    assert (node_of(alone).tolist(), local_rank_of(alone).tolist()) == ([-1], [5])
    assert nested_labels(array(3, 3), array(1 << 30, (1 << 30) - 1))[0] == 1 << 30
    assert is_nested(nested_labels(array(3, 3), array(1 << 30, (1 << 30) - 1))).tolist() == [False, True]


def test_of_two_labels_the_one_with_a_number() -> None:
    assert nested_labels(array(5, NO_LABEL, NO_RANK, NO_LABEL), array(NO_RANK, 5, 5, NO_LABEL)).tolist() == [
        5,
        5,
        5,
        -1,
    ]
    assert nested_labels(array(NO_LABEL), array(NO_RANK)).tolist() == [NO_RANK]
    assert nested_labels(local_label(array(2)), array(7)).tolist() == [7]  # the program's own


@pytest.mark.parametrize(
    ("text", "label", "rest"),
    [
        (b"[rank3]:step", 3, b"step"),
        (b"3: step", 3, b"step"),
        (b" 13: step", 13, b"step"),
        (b"[1,4]<stdout>:step", 4, b"step"),
        (b"[1,4]<stderr>:step", 4, b"step"),
        (b"(Worker pid=7, ip=10.0.0.1) step", NO_RANK, b"step"),
        (b"step 3: x", NO_LABEL, b"step 3: x"),
        (b"[Rank 3] step", NO_LABEL, b"[Rank 3] step"),  # the program's: it may belong to the line
        (b"3:step", NO_LABEL, b"3:step"),
        (b"[rank3]:[rank5]:[rank7]:x", None, b"[rank7]:x"),  # two at most
    ],
)
def test_the_label_of_a_launcher(text: bytes, label: int | None, rest: bytes) -> None:
    found, left = split_rank_label(text)
    assert left == rest and (label is None or found == label)
    assert strip_rank_labels(text + b" \t") == rest
    assert bare_texts(pa.array([text + b" \t"])).to_pylist() == [rest]


def test_a_local_label_and_its_node() -> None:
    label, rest = split_rank_label(b"2: [default5]:step")
    assert (rest, node_of(array(label)).tolist(), local_rank_of(array(label)).tolist()) == (b"step", [2], [5])
    assert is_local(array(label)).all()


def test_the_name_of_a_pod_is_a_number() -> None:
    label, rest = split_rank_label(b"[pod/train-0/main] step")
    assert rest == b"step" and is_pod(array(label)).all()
    number, name = pod_name("[pod/train-0/main] step")
    assert name == "train-0/main" and pod_of(array(label)).tolist() == [number]
    assert pod_name("step") == (-1, "")
    for rank in (0, 3):
        both, _ = split_rank_label(b"[pod/train-0/main] [default%d]:step" % rank)
        assert (node_of(array(both)).tolist(), local_rank_of(array(both)).tolist()) == ([number], [rank])
        plain, _ = split_rank_label(b"[pod/train-0/main] [rank%d]:step" % rank)
        assert (node_of(array(plain)).tolist(), local_rank_of(array(plain)).tolist()) == ([number], [rank])
    assert split_rank_label(b"[pod/stdout] step") == (NO_RANK, b"step")  # a stream is no pod


def test_a_line_without_each_of_its_labels() -> None:
    assert without_each_label(b"[rank3]:[Rank 3] x") == [b"[rank3]:[Rank 3] x", b"[Rank 3] x", b"x"]
    assert without_each_label(b"x") == [b"x"]


def test_a_label_is_carried_to_the_records_after_it() -> None:
    """A record with as many labels of its own is of another process."""
    assert carried_labels([b"[rank3]:a", b"b", b"c"]) == [-1, 3, 3]
    assert carried_labels([b"[rank3]:a", b"[rank4]:b", b"c"]) == [-1, -1, 4]
    assert carried_labels([b"a", b"b"]) == [-1, -1]
