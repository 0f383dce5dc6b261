"""Numbers of devices and streams in their names."""

from __future__ import annotations

import pytest

from perflog.readers.events.device_names import device_number, stream_number, work_kind, work_tracks
from perflog.readers.events.event_columns import MISSING


@pytest.mark.parametrize("digits", ["9" * 19, "9" * 5000])
def test_a_number_in_a_name_that_64_bits_do_not_hold_is_none(digits: str) -> None:
    assert device_number(f"/device:TPU:{digits}") == device_number(f"GPU {digits}") == -1
    assert stream_number(f"Stream #{digits}") == MISSING
    assert (device_number("GPU 1234567890"), stream_number("stream 123456789012345678")) == (
        1234567890,
        123456789012345678,
    )


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("/device:TPU:3", 3), ("/device:TPU:3 SparseCore", 3), ("/device:CPU:0", None), ("/device:CUSTOM:0", None),
        (" GPU 7 ", 7), ("gpu7", 7), ("NPU#1", 1), ("device: 2 (A100)", 2), ("GPU 7a", None), ("my GPU 7", None),
        ("Ascend Hardware", -1), ("npu", -1), ("GPU", None), ("ascend hardware 1", None), ("", None),
    ],
)  # fmt: skip
def test_the_device_that_a_name_is_of(name: str, number: int | None) -> None:
    assert device_number(name) == number


@pytest.mark.parametrize(
    ("name", "number"), [("stream 7", 7), (" Stream #12", 12), ("my stream 7", MISSING), ("7", MISSING), ("", MISSING)]
)
def test_the_number_of_a_stream(name: str, number: int) -> None:
    assert stream_number(name) == number


@pytest.mark.parametrize(
    ("names", "work"),
    [
        (["Steps", "Stream 1", "XLA Ops", " stream 2"], ["Stream 1", " stream 2"]),
        (["Steps", "XLA Ops", "Async XLA Ops", "TensorCore"], ["XLA Ops", "Async XLA Ops", "TensorCore"]),
        (["Steps", "XLA Modules"], ["Steps", "XLA Modules"]), ([], []),
        (["Plane 0", "Group 0 Communication", "Plane 1"], ["Group 0 Communication"]),
    ],
)  # fmt: skip
def test_tracks_with_work(names: list[str], work: list[str]) -> None:
    has_work = work_tracks(iter(names))
    assert [name for name in names if has_work(name)] == work


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("[CUDA memcpy HtoD]", "kernel"), ("Memcpy DtoD", "memcpy"), ("[hipMemcpy]", "memcpy"),
        ("copy-start.5", "memcpy"), ("my_copyH2D", "memcpy"), ("cudaMemset", "memset"), ("EVENT_WAIT", "sync"),
        ("notify record", "sync"), ("gemm", "kernel"), ("", "kernel"),
    ],
)  # fmt: skip
def test_the_kind_of_work_that_a_name_means(name: str, kind: str) -> None:
    assert work_kind(name) == kind
