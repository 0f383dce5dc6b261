"""What surrounds the events of a Chrome trace: its head, its trailer, the rank, clock and devices that it names."""

from __future__ import annotations

from typing import Any

import pytest

from perflog.parsing.input.rank_names import MAX_RANK
from perflog.readers.chrome.metadata import (
    TraceHeader,
    base_time_ns,
    device_names,
    distributed_info_in,
    parse_header,
    parse_trailer,
    rank_info,
    without_rank,
    world_size,
)
from perflog.readers.interface import RankInfo

Row = dict[str, Any]

EVENT = b'{"ph": "X", "ts": 1}'


@pytest.mark.parametrize(
    ("head", "first", "metadata", "wrapped"),
    [
        (b"[" + EVENT, 1, {}, False), (b"\xef\xbb\xbf [ \n" + EVENT + b", ", 7, {}, False),
        (b'[{"ph": "M"}]', 1, {}, False), (b'{"a": 1, "traceEvents": [', 25, {"a": 1}, True),
        (b'{"traceEvents" : [', 18, {}, True),
        (b'{"n": {"traceEvents": [7]}, "traceEvents": [', 44, {"n": {"traceEvents": [7]}}, True),
    ],
)  # fmt: skip
def test_the_head_of_a_trace(head: bytes, first: int, metadata: Row, wrapped: bool) -> None:
    assert parse_header(head) == TraceHeader(first, metadata, wrapped)


@pytest.mark.parametrize(
    "head",
    [b"[", b"[7", b'[{"ph": "XX", "ts": 1}]', b'[{"ph": "X"}]', b'[{"ts": 1}]', b'[{"ph": 5, "ts": 1}]', b"[{", b"{",
     b"x", b'{"a": [', b'{"a" "traceEvents": [', b'x{"traceEvents": ['],
)  # fmt: skip
def test_other_heads(head: bytes) -> None:
    assert parse_header(head) is None


def test_metadata_after_the_events() -> None:
    assert parse_trailer(b', "a": 1}') == {"a": 1} and parse_trailer(b"}") == {}
    assert parse_trailer(b', "a"') is parse_trailer(b"]") is None
    assert distributed_info_in(b'..."distributedInfo" : {"rank": 3}, ...') == {"distributedInfo": {"rank": 3}}
    assert distributed_info_in(b'"distributedInfo": {x, "distributedInfo": {"rank": 4}') == {
        "distributedInfo": {"rank": 4}
    }
    assert distributed_info_in(b'"distributedInfo": {"rank": 3') == distributed_info_in(b"") == {}


@pytest.mark.parametrize(
    ("job", "rank", "size"),
    [
        ({"rank": 3, "world_size": 8}, 3, "8"), ({"rank": "3"}, 3, None), ({"rank": 0}, 0, None), ({}, None, None),
        ({"rank": -1}, None, None), ({"rank": True}, None, None), ({"rank": "a"}, None, None), ("x", None, None),
        ({"rank": MAX_RANK}, MAX_RANK, None), ({"rank": MAX_RANK + 1}, None, None), ({"rank": 1.0}, None, None),
    ],
)  # fmt: skip
def test_the_rank_of_a_trace(job: Any, rank: int | None, size: str | None) -> None:
    assert rank_info({"distributedInfo": job}) == RankInfo(rank, size)
    assert rank_info({}) == RankInfo()


def test_metadata_without_the_rank() -> None:
    given = {"a": 1, "distributedInfo": {"rank": 3, "world_size": 8}}
    assert without_rank(given) == {"a": 1, "distributedInfo": {"world_size": 8}}
    assert given["distributedInfo"] == {"rank": 3, "world_size": 8}
    assert without_rank({"distributedInfo": 5}) == {"distributedInfo": 5}


def test_the_clock_the_size_of_the_job_and_the_devices() -> None:
    assert [base_time_ns({"baseTimeNanoseconds": base}) for base in (7, "8", "x", None)] == [7, 8, 0, 0]
    jobs: tuple[Any, ...] = ({"world_size": 8}, {"world_size": "4"}, {}, 5, None)
    assert [world_size({"distributedInfo": job}) for job in jobs] == [8, 4, None, None, None]
    devices = [{"name": "A100"}, 5, {"name": 7}, {}, {"name": "T4"}]
    assert list(device_names({"deviceProperties": devices})) == ["A100", "T4"]
    assert list(device_names({"deviceProperties": 5})) == list(device_names({})) == []
