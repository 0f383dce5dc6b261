"""Dumps of PyTorch's flight recorder of collectives: what each rank had enqueued when the job hung or was ended.

A file is the dump of one rank, as a pickle of plain data or as JSON. Its entries are the last collectives that the host
enqueued; its status says how many each process group had enqueued and completed.
Sources: torch/csrc/distributed/c10d/FlightRecorder.hpp and FlightRecorderDetail.hpp.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.source import Source
from perflog.readers.dumps.dumped_data import PICKLE, dumped
from perflog.readers.events.event_table import EventAccount, EventOrigin, RunWriter
from perflog.readers.interface import RankInfo, ReadOptions
from perflog.readers.odd_numbers import as_dict, as_list, nanoseconds, whole
from perflog.readers.rank_files import ranks_of_files
from perflog.tables.sink import IngestResult, Sink

_JSON = lazy_pattern(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:version|entries|nccl_\w+|pg_\w+|comm_lib_version)"')
_OWN_KEY = lazy_pattern(rb"pg_config|pg_status|collective_seq_id|nccl_comm_state")
_HEAD = 1 << 14
_STATUS = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
_NUMBER = lazy_pattern(r"[0-9]+")
_PLAIN_NUMBER = lazy_pattern(r"[0-9]{1,18}")
# Ranks of the group: `recv 1<-0` receives from 0.
_PAIR = lazy_pattern(r"(?:(send)|recv) ([0-9]{1,9})(?:->|<-)([0-9]{1,9})$")
_LARGEST_RANK = (1 << 31) - 1
_MOST_DIMENSIONS = 100
_LARGEST = 1 << 30  # bytes of a dump; a buffer of 20,000 entries with stacks takes 100 MB

_STORED = (
    "collective_seq_id", "seq_id", "p2p_seq_id", "thread_id", "input_sizes", "output_sizes", "time_created_ns",
    "duration_ms", "timeout_ms",
)  # fmt: skip
_DROPPED = {
    "record_id": "it counts the entries of the buffer",
    "pg_id": "it numbers the groups of one process; the group's name is stored",
    "op_id": "it counts the operations of the group; the number of the collective is stored",
    "time_discovered_started_ns": "it is when a thread of the host noticed the start, not when it happened",
    "time_discovered_completed_ns": "it is when a thread of the host noticed the end, not when it happened",
}
_ELEMENT_BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz", "Float8_e5m2fnuz"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short", "UInt16"), 2),
    **dict.fromkeys(("Float", "Int", "UInt32", "ComplexHalf"), 4),
    **dict.fromkeys(("Double", "Long", "UInt64", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}


class FlightRecorderReader:
    """Reads dumps of PyTorch's flight recorder. The ranks of a job are one run."""

    name = "flight_recorder"
    title = "dump of PyTorch's flight recorder: collectives that each rank had enqueued"
    source = "torch.distributed with TORCH_NCCL_TRACE_BUFFER_SIZE or TORCH_FR_BUFFER_SIZE, after a timeout"

    def detect(self, source: Source) -> bool:
        """Return whether the file begins like such a dump."""
        head = source.first_bytes(_HEAD)
        return bool((PICKLE.match(head) or _JSON.match(head)) and _OWN_KEY.search(head))

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return the versions of the dump and of NCCL."""
        dump = Dump(source)
        return [(1, "dump", f"version {dump.version}, NCCL {dump.nccl_version}")]

    def rank_info(self, source: Source) -> RankInfo | None:
        """Return the only rank that is in all process groups of the dump, and the number of ranks."""
        dump = Dump(source)
        return RankInfo(dump.rank, None if dump.world_size is None else str(dump.world_size))

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read the dumps of a job into a sink."""
        dumps = [Dump(part) for part in source.parts]
        ranks = ranks_of_files([(dump.name, RankInfo(dump.rank)) for dump in dumps])
        named: set[str] = set()
        with RunWriter(source.name, source.digest(), self.name, sink) as writer:
            for part, (dump, (rank, rank_by)) in enumerate(zip(dumps, ranks, strict=True)):
                account = EventAccount()
                origin = EventOrigin(writer.run, part, rank, rank_by)
                writer.write_dicts("events", list(dump.event_rows(origin, account)))
                writer.write_dicts("counters", list(dump.status_rows(origin, account)))
                writer.write_dicts("values", list(dump.group_rows(origin, named, account)))
                named.update(dump.groups)
                writer.write_account(part, account)
            config = _config(dumps)
            ingested = writer.write_run(
                options.label, max(dump.size for dump in dumps), config, world_size=config["world_size"]
            )
        options.done(source)
        return ingested


class Dump:
    """The dump of one rank.

    `groups`: description and ranks of each process group that the rank is in, by name; () where the dump names no
    ranks. `size`: number of entries, of groups with a status, and of groups.

    Raises:
        InputError: the file is damaged, or is another pickle.
    """

    def __init__(self, source: Source) -> None:
        self.name = source.name
        content = dumped(source, _LARGEST)
        self.version, self.nccl_version = (_text(content.get(key)) for key in ("version", "nccl_version"))
        self.nccl_version = self.nccl_version or _text(content.get("comm_lib_version"))
        self.entries: Sequence[object] = as_list(content.get("entries"))
        self.groups = {
            str(name): (_text(group.get("desc")), _ranks(group.get("ranks")))
            for name, group in as_dict(content.get("pg_config")).items()
            if isinstance(group, dict)
        }
        self._status = {str(key): as_dict(value) for key, value in as_dict(content.get("pg_status")).items()}
        self.size = len(self.entries) + len(self._status) + len(self.groups)
        # Of each group the members; a job of another tool may name the whole job otherwise: the largest group is it.
        self.world_size = max((len(ranks) for _, ranks in self.groups.values()), default=0) or None

    @property
    def rank(self) -> int | None:
        """The rank that dumped: the only one in all its groups, or the one of them that the file's name ends in."""
        members = [set(ranks) for _, ranks in self.groups.values() if ranks]
        common = set.intersection(*members) if members else set()
        if len(common) == 1:
            return common.pop()
        numbers = _NUMBER.findall(os.path.basename(self.name))
        return int(numbers[-1]) if numbers and int(numbers[-1]) in common else None

    def event_rows(self, origin: EventOrigin, account: EventAccount) -> Iterator[dict[str, object]]:
        """Give a row of table `events` for each entry. Its start is when the host enqueued it."""
        place = asdict(origin)
        for line, entry in enumerate(self.entries, 1):
            if not isinstance(entry, dict):
                account.add("unread", "entry that is no record", 1, line)
                continue
            _count_figures(account, entry, line)
            names = as_list(entry.get("process_group"))
            group = str(names[0]) if names else _text(entry.get("pg_id"))
            description = _text(names[1]) if len(names) > 1 else None
            ranks = self.groups.get(group or "", (None, ()))[1]
            point_to_point = bool(entry.get("is_p2p"))
            account.add("read", "point-to-point call" if point_to_point else "collective", 1, line)
            number = entry.get("p2p_seq_id") if point_to_point else entry.get("collective_seq_id", entry.get("seq_id"))
            name = _text(entry.get("profiling_name"))
            operation = (name or "").rpartition(":")[2].partition(" ")[0]
            source, target = _pair(name or "", ranks)
            dtypes = [*as_list(entry.get("input_dtypes")), *as_list(entry.get("output_dtypes"))]
            yield place | {
                "line": line, "kind": "library", "name": name, "category": _text(entry.get("state")),
                "thread": " ".join(str(entry[key]) for key in ("thread_name", "thread_id") if entry.get(key)) or None,
                "start_ns": _integer(entry.get("time_created_ns")),
                "duration_ns": nanoseconds(entry.get("duration_ms"), 1e-3),
                "collective": operation or None, "group": group, "group_description": description,
                "group_ranks": str(list(ranks)) if ranks else None, "ranks": len(ranks) or None,
                "seq": _integer(number), "src_rank": source, "dst_rank": target, "bytes": _bytes(entry),
                "dtype": _text(dtypes[0]) if dtypes else None, "shapes": _text(entry.get("input_sizes")),
                "stack": _stack(entry.get("frames")),
            }  # fmt: skip

    def status_rows(self, origin: EventOrigin, account: EventAccount) -> Iterator[dict[str, object]]:
        """Give a row of table `counters` for each number of a process group's status; -1 says that there is none."""
        group_of = self._groups_by_id()
        for line, (key, status) in enumerate(self._status.items(), len(self.entries) + 1):
            name = group_of.get(key)
            account.add("read", "status of a process group", 1, line)
            for counter in _STATUS:
                value = _integer(status.get(counter))
                if value is None:
                    continue
                account.figures_of("status of a process group", line).stored += value >= 0 and name is not None
                account.figures_of("status of an unknown group", line).unread += value >= 0 and name is None
                if value >= 0 and name is not None:
                    yield asdict(origin) | {"line": line, "name": counter, "subject": name, "value": float(value)}

    def group_rows(
        self, origin: EventOrigin, named: Collection[str], account: EventAccount
    ) -> Iterator[dict[str, object]]:
        """Give a row of table `values` for each process group that is not named yet: its purpose and ranks, as JSON."""
        for line, (name, (purpose, ranks)) in enumerate(self.groups.items(), self.size - len(self.groups) + 1):
            account.add("read", "process group", 1, line)
            account.figures_of("ranks of a process group", line).stored += len(ranks)
            if name not in named:
                text = json.dumps({"purpose": purpose, "ranks": ranks})
                yield asdict(origin) | {"line": line, "key": f"process_group.{name}", "text": text}

    def _groups_by_id(self) -> dict[str, str]:
        """Name of the process group of each status.

        A status is under the number of the group in its process. Entries name both. Without an entry the order decides:
        groups are numbered as they are made, by name and by number, unless it contradicts an entry.
        """
        printed = {
            str(entry["pg_id"]): str(entry["process_group"][0])
            for entry in self.entries
            if isinstance(entry, dict) and "pg_id" in entry and as_list(entry.get("process_group"))
        }
        names, keys = list(self.groups), list(self._status)
        if len(names) == len(keys) and all(_PLAIN_NUMBER.fullmatch(text) for text in (*names, *keys)):
            ordered = dict(zip(sorted(keys, key=int), sorted(names, key=int), strict=True))
            if all(ordered.get(key) == name for key, name in printed.items()):
                return ordered
        return printed


def _config(dumps: Sequence[Dump]) -> dict[str, object]:
    """Return the settings of a job: those that all its dumps share."""
    timeouts = {
        _integer(entry.get("timeout_ms")) for dump in dumps for entry in dump.entries if isinstance(entry, dict)
    }
    versions = {dump.version for dump in dumps}
    libraries = {dump.nccl_version for dump in dumps}
    return {
        "clock": "epoch",
        "world_size": max((dump.world_size or 0 for dump in dumps), default=0) or None,
        "dump_version": versions.pop() if len(versions) == 1 else None,
        "nccl_version": libraries.pop() if len(libraries) == 1 else None,
        "timeout_ms": timeouts.pop() if len(timeouts) == 1 else None,
    }


def _count_figures(account: EventAccount, entry: Mapping[Any, Any], line: int) -> None:
    """Count the figures of an entry, by its key."""
    for key, value in entry.items():
        count = _figures(value) if key not in ("frames", "process_group", "profiling_name") else 0
        if not count or isinstance(value, bool):
            continue
        if key in _DROPPED:
            account.figures_of(key, line, because=_DROPPED[key]).dropped += count
        elif key in _STORED:
            account.figures_of("collectives", line).stored += count
        else:
            account.figures_of(str(key), line).unread += count


def _figures(value: object) -> int:
    """Return how many numbers a value holds, in lists too; a thread's number is a string of digits."""
    if isinstance(value, list | tuple):
        return sum(map(_figures, value))
    return int(isinstance(value, int | float) or (isinstance(value, str) and value.isdecimal()))


def _pair(name: str, ranks: Sequence[int]) -> tuple[int | None, int | None]:
    """Return the ranks that send and receive, from their positions in the group; None where the group is not known."""
    match = _PAIR.search(name)
    if not match:
        return None, None
    places = int(match[2]), int(match[3])
    here, there = (ranks[place] if place < len(ranks) else None for place in places)
    return (here, there) if match[1] else (there, here)


def _bytes(entry: Mapping[Any, Any]) -> int | None:
    """Return the bytes of a collective's inputs or outputs, whichever are more; None if an element type is unknown."""
    sides = []
    for side in ("input", "output"):
        shapes, dtypes = as_list(entry.get(f"{side}_sizes")), as_list(entry.get(f"{side}_dtypes"))
        sizes = [_ELEMENT_BYTES.get(str(dtype)) for dtype in dtypes]
        if len(shapes) != len(sizes) or None in sizes:
            return None
        elements = [_elements(shape) for shape in shapes]
        if None in elements:
            return None
        pairs = zip(sizes, elements, strict=True)
        sides.append(sum(size * count for size, count in pairs if size is not None and count is not None))
    return whole(max(sides)) or None


def _elements(shape: object) -> int | None:
    """Return the number of elements of a tensor; None for what is no shape."""
    lengths = [_integer(length) for length in as_list(shape)]
    known = [length for length in lengths if length is not None and length >= 0]
    return math.prod(known) if len(known) == len(lengths) <= _MOST_DIMENSIONS else None


def _stack(frames: object) -> str | None:
    """Return the call stack, the innermost frame first."""
    shown = [f"{f.get('name')} ({f.get('filename')}:{f.get('line')})" for f in as_list(frames) if isinstance(f, dict)]
    return "; ".join(shown) or None


def _ranks(text: object) -> tuple[int, ...]:
    """Return the ranks of a group, which older dumps hold as a list and newer ones as a string."""
    numbers = _NUMBER.findall(str(text)) if text else []
    return tuple(rank for number in numbers if len(number) < 18 and (rank := int(number)) <= _LARGEST_RANK)


def _integer(value: object) -> int | None:
    """Return a number, which JSON dumps may hold as a string."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
        return int(value)
    return whole(value)


def _text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)
