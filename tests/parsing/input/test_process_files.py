"""Names of processes in the names of files, and the losses that their lines have in common."""

from __future__ import annotations

import pytest

from perflog.parsing.input.process_files import (
    are_processes,
    labels_of_processes,
    printed_losses,
    process_names,
    shape_of_process,
)


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a/w_0/stdout", "a/w_0/stderr", "a/w_1/stdout"], ["w_0", "w_0", "w_1"]),
        (["a/7_0.out", "a/7_1.out", "a/7_1.err"], ["7_0", "7_1", "7_1"]),
        (["a/host-a/gpu0.log", "a/host-b/gpu0.log"], ["host-a", "host-b"]),
        (["a/0.log", "a/1.log"], ["0", "1"]),
        (["train.out", "train.err"], ["train", "train"]),
        (["a/x.log", "a/b/y.log"], ["x", "b/y"]),
    ],
)
def test_names(paths: list[str], names: list[str]) -> None:
    assert process_names(paths) == names


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("node0_gpu3.out", "node1_gpu0.out", True),
        ("job-master-0.log", "job-worker-12.log", True),
        ("run0.log", "run1.log", False),
        ("rep0/gpu.log", "rep1/gpu.log", False),
        ("train.log", "valid.log", False),
    ],
)
def test_shapes(one: str, other: str, alike: bool) -> None:
    assert (shape_of_process(one) == shape_of_process(other)) is alike


def test_a_table_is_of_no_process() -> None:
    assert shape_of_process("gpu0.csv") is None


def steps(own: float, loss: float = 0.0, first: int = 1, count: int = 12) -> bytes:
    return b"".join(
        b"step %d | loss: %.4f | %.1f ms\n" % (n, 9 - n / 7 + loss, own) for n in range(first, first + count)
    )


def test_processes_print_equal_losses_and_times_of_their_own() -> None:
    def are(*heads: bytes) -> bool:
        return are_processes([printed_losses(head) for head in heads])

    assert are(steps(1.5), steps(2.5), steps(3.5))
    assert are(steps(1.5), steps(2.5, first=2))
    assert not are(steps(1.5), steps(1.5))  # a copy
    assert not are(steps(1.5), steps(2.5, loss=0.1))
    assert not are(steps(1.5), steps(2.5, count=9))  # too few
    assert not are(steps(1.5), b"no step\n")
    assert not are(steps(1.5))


def test_labels() -> None:
    paths = ["w_0/stdout", "w_1/stdout", "w_1/stderr"]
    assert labels_of_processes(paths, [steps(1), steps(2), b"oops\n"]) == [b"[pod/w_0] ", b"[pod/w_1] ", b"[pod/w_1] "]
    assert labels_of_processes(["0.log", "1.log"], [steps(1), steps(2)])[0] == b"[pod/process-0] "
    assert labels_of_processes(paths, [steps(1), b"", b""]) == []
    assert labels_of_processes(["a.csv", "b.csv"], [steps(1), steps(2)]) == []
    assert labels_of_processes(["a.out", "a.err"], [steps(1), steps(2)]) == []
