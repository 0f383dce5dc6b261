"""Processes of a file that holds several, and the ranks that they state."""

from __future__ import annotations

import pytest

from perflog.readers.processes import merged_labels, process_label, process_ranks


@pytest.mark.parametrize(
    ("process", "label"),
    [("[TP01] 4242", "[TP01]"), ("4242", ""), ("rank3_0", "rank3"), ("python 7", "python"), ("GPU 0 Spans", "GPU 0"),
     ("rank 0 Traces", "rank 0"), ("name", ""), ("a: -1", "a"), ("[TP00-DP01] 12", "[TP00-DP01]"),
     ("[TP00] Spans", "[TP00]"), ("Spans", "")],
)  # fmt: skip
def test_the_label_before_the_number_of_a_process(process: str, label: str) -> None:
    assert process_label(process) == label


def test_labels_count_if_there_are_two() -> None:
    assert merged_labels(["[TP01] 1", "[TP02] 1", "7"]) == {"[TP01] 1": "[TP01]", "[TP02] 1": "[TP02]"}
    assert merged_labels(["[TP01] 1", "[TP01] 2", "7"]) == {}


def test_ranks_of_processes() -> None:
    assert process_ranks(["rank3_0", "rank4_0", "7"], {}) == {"rank3_0": 3, "rank4_0": 4}
    assert process_ranks(["1", "2", "3"], {"1": "rank 0", "2": "rank 1"}) == {"1": 0, "2": 1}
    assert process_ranks(["rank3_0", "2"], {"rank3_0": "rank 9", "2": "rank 1"}) == {"rank3_0": 3, "2": 1}
    assert process_ranks(["rank3_0", "rank3_1"], {}) == {}  # all of one rank
    assert process_ranks(["1"], {"1": "rank 0"}) == {}
