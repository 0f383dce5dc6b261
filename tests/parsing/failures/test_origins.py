"""Where a failure comes from: the labels before its line, and what the line names."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import asdict

from perflog.parsing.failures.origins import Origin, npu_of, origin_of, rank_of_logger, split_labels, tasks_of


def origin(line: str, message: str = "") -> dict[str, Any]:
    """What a line says of the origin of a message in it."""
    labels, text = split_labels(line)
    found = asdict(origin_of(labels, text, text.index(message) if message else 0))
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize(
    ("line", "labels", "text"),
    [
        ("[rank3]: Error", "[rank3]:", "Error"),
        ("[rank3]:   File", "[rank3]:", "  File"),  # PyTorch prints one space after its label
        ("[rank3]:", "[rank3]:", ""),
        ("[default3]:  File", "[default3]:", "  File"),
        ("3: Error", "3: ", "Error"),
        ("[1,3]<stderr>:Error", "[1,3]<stderr>:", "Error"),
        ("(Worker pid=7, ip=10.0.0.1) Error", "(Worker pid=7, ip=10.0.0.1) ", "Error"),
        ("[pod/train-0/main] 1: [rank3]: x", "[pod/train-0/main] 1: [rank3]:", "x"),
        ("EI0002: [PID: 7] Error", "", "EI0002: [PID: 7] Error"),  # a code of CANN is no node
        ("ERR00100: Error", "", "ERR00100: Error"),
        ("gpu0002: Error", "gpu0002: ", "Error"),
        ("[pod/train-0/main 2026-05-18T16:04:46.3Z] 1: x", "[pod/train-0/main] 1: ", "x"),
        ("n1: 1: [rank3]: [default0]:x", "n1: 1: [rank3]:", "[default0]:x"),  # three labels at most
        ("Error: 3: x", "", "Error: 3: x"),
        ("", "", ""),
    ],
)
def test_labels_are_before_the_line(line: str, labels: str, text: str) -> None:
    assert split_labels(line) == (labels, text)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[rank3]: Error", {"rank": 3, "rank_by": "label"}),
        ("[rank3]:[rank11]: Error", {"rank": 11, "rank_by": "label", "local_rank": 3}),
        ("[1,3]<stderr>:Error", {"rank": 3, "rank_by": "label"}),
        ("[default3]:Error", {"local_rank": 3}),
        ("12: Error", {"task": 12}),
        ("gpu-node7: Error", {"node": "gpu-node7"}),
        ("10.0.0.7: Error", {"node": "10.0.0.7"}),
        ("(Worker pid=7, ip=10.0.0.1) Error", {"process": "Worker pid=7", "node": "10.0.0.1"}),
        ("(Worker pid=7) Error", {"process": "Worker pid=7"}),
        ("[pod/train-0/main] Error", {"node": "train-0"}),
        ("[pod/stderr/main] Error", {}),
        ("Error on cuda:5", {"gpu": 5}),
        ("Error", {}),
    ],
)  # fmt: skip
def test_what_labels_say(line: str, expected: dict[str, Any]) -> None:
    assert origin(line, "Error") == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[PG 0 Rank 5] Error", {"rank": 5, "rank_by": "printed"}),
        ("Error in rank 5", {"rank": 5, "rank_by": "printed"}),
        ("rank=5: Error in rank 6", {"rank": 5, "rank_by": "printed"}),  # before the message counts first
        ("Error of rank 5 and rank 6", {}),
        ("Error of rank 5, rank 5", {"rank": 5, "rank_by": "printed"}),
        ("Error of rank 5/8", {}),
        ("[rank3]: Error of rank 5", {"rank": 3, "rank_by": "label"}),
        ("local_rank: 2 Error", {"local_rank": 2}),
        ("--local_rank=2 Error", {}),
        ("[default3]:local_rank: 2 Error", {"local_rank": 3}),
        ("n7:991:1002 [4] NCCL Error", {"node": "n7", "gpu": 4}),
        ("n7:991:1002 [4] Error on cuda:1", {"node": "n7", "gpu": 4}),
        ("[n7:991 :0:991] Error", {"node": "n7"}),
        ("May  1 12:00:00 n7 kernel: Error", {"node": "n7"}),
        ("2024-05-01T12:00:00 n7 kernel: Error", {"node": "n7"}),
        ("[2024-05-01 12:00:00 TP3] Error", {"rank": 3, "rank_by": "printed"}),
    ],
)
def test_what_a_line_names(line: str, expected: dict[str, Any]) -> None:
    assert origin(line, "Error") == expected


@pytest.mark.parametrize(
    ("labels", "text", "rank"),
    [
        ("[rank9]:", "[E1216 13:21:26.967375581 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught", 9),
        ("", "[E1216 13:21:26.967375581 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught", None),
        ("[rank9]:", "[Rank 1] Watchdog caught", None),
    ],
)
def test_the_rank_of_a_line_of_pytorchs_logger(labels: str, text: str, rank: int | None) -> None:
    assert rank_of_logger(labels, text) == rank


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("3", [3]), ("1,3-5", [1, 3, 4, 5]), ("0-2,7", [0, 1, 2, 7]), ("", []), ("x", []), ("2-", [2]), ("2-y", [2]),
        ("5-3", []),
        ("0-4194303", list(range(1 << 22))), ("0-4194304", []), ("7,0-99999999", []),
    ],
)  # fmt: skip
def test_a_list_of_tasks(text: str, tasks: list[int]) -> None:
    assert tasks_of(text) == tasks


@pytest.mark.parametrize(
    ("rank", "gpu", "origin"),
    [(0, 0, Origin(0, "printed", gpu=0)), (3, -1, Origin(3, "printed")), (-1, 5, Origin(gpu=5)), (-1, -1, Origin())],
)
def test_the_process_that_torch_npu_names(rank: int, gpu: int, origin: Origin) -> None:
    text = f"[ERROR] 2025-10-11-15:09:34 (PID:2969, Device:{gpu}, RankID:{rank}) ERR00100 PTA call acl api failed"
    assert npu_of(text) == origin and npu_of("RankID:3") is None
