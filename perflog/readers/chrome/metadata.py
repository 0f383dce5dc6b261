"""Metadata of a Chrome trace, before and after its events: rank, world size, devices, zero of its clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct, field

from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.rank_names import MAX_RANK
from perflog.readers.chrome.boundaries import scan_elements
from perflog.readers.events.event_columns import MISSING
from perflog.readers.events.timestamps import parse_integer
from perflog.readers.interface import RankInfo

HEAD = 1 << 20
"""Bytes at the start of a file in which its events begin; else the file is no trace."""

Metadata = dict[str, Any]

_LIST = lazy_pattern(rb"(?:\xef\xbb\xbf)?\s*\[\s*(?=\{)")
_OBJECT = lazy_pattern(rb"(?:\xef\xbb\xbf)?\s*\{")
_EVENTS = lazy_pattern(rb'"traceEvents"\s*:\s*\[')
_DISTRIBUTED_INFO = lazy_pattern(rb'"distributedInfo"\s*:\s*(?=\{)')


class TraceHeader(Struct, frozen=True):
    """The offset of the first event, the metadata before it, and whether an object wraps the list of events."""

    first_event: int
    metadata: Metadata = field(default_factory=dict)
    wrapped: bool = True


def parse_header(head: bytes) -> TraceHeader | None:
    """Parse the start of a trace: an object with a list `traceEvents`, or that list alone; None for anything else."""
    if match := _LIST.match(head):
        first = scan_elements(head[match.end() : match.end() + (1 << 16)])
        text = head[match.end() : match.end() + int(first.ends[0])] if len(first.ends) else b""
        return TraceHeader(match.end(), {}, wrapped=False) if _is_event(text) else None
    if not _OBJECT.match(head):
        return None
    for match in _EVENTS.finditer(head):
        metadata = _parse_object(head[: match.end()] + b"]}")
        if metadata is not None and "traceEvents" in metadata:
            del metadata["traceEvents"]
            return TraceHeader(match.end(), metadata)
    return None


def parse_trailer(tail: bytes) -> Metadata | None:
    """Parse the metadata after the events; None if it cannot be read."""
    return _parse_object(b'{"":0' + tail)


def distributed_info_in(tail: bytes) -> Metadata:
    """Return the metadata `distributedInfo` in the last bytes of a trace, where some versions of torch write it."""
    for match in _DISTRIBUTED_INFO.finditer(tail):
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(tail[match.end() :].decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        return {"distributedInfo": value}
    return {}


def _is_event(text: bytes) -> bool:
    try:
        event = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    phase = event.get("ph") if isinstance(event, dict) else None
    return isinstance(phase, str) and len(phase) == 1 and ("ts" in event or phase == "M")


def _parse_object(text: bytes) -> Metadata | None:
    try:
        value = json.loads(text.decode("utf-8-sig", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        value.pop("", None)
        return value
    return None


# --- what the metadata means --------------------------------------------------------------------------------------


def rank_info(metadata: Metadata) -> RankInfo:
    """Return the rank and the world size that torch.profiler writes into `distributedInfo`."""
    job = metadata.get("distributedInfo")
    job = job if isinstance(job, dict) else {}
    rank, world_size = job.get("rank"), job.get("world_size")
    if isinstance(rank, str) and rank.isdecimal():
        rank = int(rank)
    known = isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank <= MAX_RANK
    return RankInfo(rank if known else None, None if world_size is None else str(world_size))


def without_rank(metadata: Metadata) -> Metadata:
    """Return the metadata without the rank, in which the files of a run differ."""
    job = metadata.get("distributedInfo")
    if not isinstance(job, dict):
        return metadata
    return metadata | {"distributedInfo": {key: value for key, value in job.items() if key != "rank"}}


def base_time_ns(metadata: Metadata) -> int:
    """Return the zero of the trace's clock in nanoseconds; 0 where the trace does not state it."""
    base = parse_integer(metadata.get("baseTimeNanoseconds"))
    return 0 if base == MISSING else base


def world_size(metadata: Metadata) -> int | None:
    """Return the number of ranks of the job."""
    job = metadata.get("distributedInfo")
    size = parse_integer(job.get("world_size")) if isinstance(job, dict) else MISSING
    return None if size == MISSING else size


def device_names(metadata: Metadata) -> Iterator[str]:
    """Give the names of the devices."""
    devices = metadata.get("deviceProperties")
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, dict) and isinstance(device.get("name"), str):
            yield device["name"]
