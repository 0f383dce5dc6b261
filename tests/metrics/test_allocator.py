"""Memory of the caching allocator at a moment: sums by state, holders by stack."""

from __future__ import annotations

from typing import Any

import pytest
from support.metrics_logs import by_hand, row, rows

from perflog.metrics import Tables, allocator, allocator_holders
from perflog.metrics.profiles.allocator import holder_of

TRAIN = "step (/app/train.py:52); main (/app/train.py:90)"
MODEL = "forward (/app/model.py:7); main (/app/train.py:90)"


def block(size: int | None, state: str = "active_allocated", **more: Any) -> dict[str, Any]:
    return {"name": "block", "rank": 0, "device": 1, "category": state, "bytes": size, **more}


def failed(size: int, **more: Any) -> dict[str, Any]:
    return {"name": "out of memory", "rank": 0, "device": 1, "bytes": size, **more}


def tables(*events: dict[str, Any]) -> Tables:
    return Tables(by_hand("events", events))


def test_memory_by_state() -> None:
    waiting = "active_pending_free"
    found = row(
        allocator(
            tables(
                block(None, "inactive"),
                block(40, stack=TRAIN),
                block(20, domain="(0, 1)"),
                block(30, "inactive"),
                block(5, "inactive"),
                block(7, waiting, domain="(0, 1)"),
                {"name": "alloc", "rank": 0, "device": 1, "category": "active_allocated", "bytes": 1000},
            )
        )
    )
    assert found == {
        "run": "r", "label": None, "rank": 0, "device": 1, "reserved": 102, "allocated": 60, "free": 35, "waiting": 7,
        "largest_free": 30, "private": 27, "fragmentation": pytest.approx(42 / 102), "asked": None, "would_fit": None,
        "blocks": 2, "first_line": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "would_fit"),
    [(30, False), (31, True), (50, True), (51, False)],  # the largest free block has 30 bytes, all of them 50
)
def test_an_allocation_that_failed_though_there_was_room(asked: int, would_fit: bool) -> None:
    found = row(allocator(tables(block(30, "inactive"), block(20, "inactive"), failed(999), failed(asked))))
    assert (found["asked"], found["would_fit"]) == (asked, would_fit)


def test_each_device_of_each_rank_by_itself() -> None:
    found = rows(
        allocator(
            tables(
                block(1), block(2, device=0), block(4, rank=1), block(8, rank=None, device=None), block(16),
                failed(3, device=0),
            )
        )
    )  # fmt: skip
    assert {(each["rank"], each["device"]): (each["allocated"], each["asked"]) for each in found} == {
        (0, 1): (17, None), (0, 0): (2, 3), (1, 1): (4, None), (None, None): (8, None),
    }  # fmt: skip


def test_a_device_without_memory_has_no_fragmentation() -> None:
    found = row(allocator(tables(block(0))))
    assert (found["reserved"], found["fragmentation"], found["largest_free"]) == (0, None, 0)


def test_holders_with_the_largest_first() -> None:
    """Freed blocks do not count. A block without a stack has no known holder."""
    found = rows(
        allocator_holders(
            tables(
                block(10, stack=MODEL), block(3), block(30, stack=TRAIN), block(50, "inactive", stack=MODEL),
                block(7, stack=TRAIN), block(10, stack="run (/venv/site-packages/torch/autograd/graph.py:1); " + MODEL),
            )
        )
    )  # fmt: skip
    assert [
        tuple(each[name] for name in ("holder", "during", "bytes", "share", "blocks", "largest", "first_line"))
        for each in found
    ] == [
        ("train.py:52 step", None, 37, pytest.approx(37 / 60), 2, 30, 3),
        ("model.py:7 forward", None, 10, pytest.approx(1 / 6), 1, 10, 1),
        ("model.py:7 forward", "backward", 10, pytest.approx(1 / 6), 1, 10, 6),
        ("(no stack recorded)", None, 3, pytest.approx(1 / 20), 1, 3, 2),
    ]


def test_blocks_of_no_bytes_have_no_share() -> None:
    assert row(allocator_holders(tables(block(0, stack=MODEL))))["share"] is None


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        (TRAIN, ("train.py:52 step", None)),
        ("f (C:\\app\\train.py:5)", ("train.py:5 f", None)),
        # Files of libraries, of Python and of native code are not the program's own
        ("f (/venv/site-packages/torch/x.py:1); g (/app/a.py:2)", ("a.py:2 g", None)),
        ("f (/usr/dist-packages/x.py:1); g (/app/a.py:2)", ("a.py:2 g", None)),
        ("f (/usr/lib/python3.11/threading.py:1); g (/app/a.py:2)", ("a.py:2 g", None)),
        ("f (/src/torch/nn/x.py:1); g (/app/a.py:2)", ("a.py:2 g", None)),
        ("f (alloc.cpp:1); g (libc.so.6:0); h (??:0); i (<frozen runpy>:8); g (/app/a.py:2)", ("a.py:2 g", None)),
        ("f (alloc.cpp:1); g (/venv/site-packages/x.py:3)", ("x.py:3 g", None)),  # no other Python
        ("f (alloc.cpp:1); g (b.cpp:2)", ("native code: f", None)),
        ("", ("(no stack recorded)", None)),
        ("no frame", ("(no stack recorded)", None)),
        # During what: by frames of the framework anywhere in the stack
        ("step (/venv/site-packages/torch/optim/adamw.py:12); " + TRAIN, ("train.py:52 step", "optimizer")),
        ("step (/app/optimizers/muon.py:12)", ("muon.py:12 step", "optimizer")),
        ("_engine_run_backward (/x/graph.py:12); " + TRAIN, ("graph.py:12 _engine_run_backward", "backward")),
        ("load (/venv/site-packages/torch/serialization.py:1); " + TRAIN, ("train.py:52 step", "loading")),
    ],
)
def test_who_asked_for_memory_and_during_what(stack: str, expected: tuple[str, str | None]) -> None:
    assert holder_of(stack) == expected
