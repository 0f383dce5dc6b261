"""Snapshots of PyTorch's caching allocator: the memory of each device in segments and blocks, and who asked for it.

A file is the pickle of one process: plain data. A segment is memory of the driver; its blocks are allocated, freed and
kept, or wait for a stream. Stacks are there if the history of memory was recorded; the innermost frame is first.
Sources: torch/cuda/memory.py (_snapshot, _dump_snapshot), torch/csrc/cuda/memory_snapshot.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.source import Source
from perflog.readers.dumps.dumped_data import PICKLE, dumped
from perflog.readers.events.event_table import EventAccount, EventOrigin, RunWriter
from perflog.readers.interface import RankInfo, Reader, ReadOptions
from perflog.readers.odd_numbers import as_list, whole
from perflog.readers.rank_files import ranks_of_files
from perflog.tables.sink import IngestResult, Sink

_HEAD = 1 << 14
_LARGEST = 1 << 30  # bytes; the history of 100,000 allocations with stacks takes 200 MB
_SEGMENTS = lazy_pattern(rb"segments")
_OWN_KEY = lazy_pattern(rb"total_size|segment_type|allocated_size")
_HISTORY = "what was allocated and freed before: what lived at the snapshot is stored"
_LAYOUT = "addresses and streams of segments: the addresses and streams of their blocks are stored"
OUT_OF_MEMORY = "out of memory"
"""Name of the event of an allocation that failed."""

BLOCK = "block"
"""Name of the events that are blocks of memory at the snapshot; their category is their state."""


class AllocatorSnapshotReader(Reader):
    """Reads snapshots of PyTorch's caching allocator. The ranks of a job are one run."""

    name = "allocator_snapshot"
    title = "snapshot of PyTorch's caching allocator: blocks of memory with the stacks that asked for them"
    source = "torch.cuda.memory._dump_snapshot, and observers of out of memory that call it"

    def detect(self, source: Source) -> bool:
        """Return whether the file begins like such a pickle."""
        head = source.first_bytes(_HEAD)
        return bool(PICKLE.match(head) and _SEGMENTS.search(head) and _OWN_KEY.search(head))

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return the number of segments and blocks."""
        snapshot = Snapshot(source)
        return [(1, "snapshot", f"{len(snapshot.segments)} segments, {snapshot.size} blocks")]

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read the snapshots of a job into a sink."""
        snapshots = [Snapshot(part) for part in source.parts]
        ranks = ranks_of_files([(snapshot.name, RankInfo(None)) for snapshot in snapshots])
        with RunWriter(source.name, source.digest(), self.name, sink) as writer:
            for part, (snapshot, (rank, rank_by)) in enumerate(zip(snapshots, ranks, strict=True)):
                account = EventAccount()
                origin = EventOrigin(writer.run, part, rank, rank_by)
                writer.write_dicts(
                    "events", [*snapshot.block_rows(origin, account), *snapshot.failures(origin, account)]
                )
                writer.write_dicts("counters", list(snapshot.device_rows(origin, account)))
                writer.write_account(part, account)
            settings = snapshots[0].settings
            config = {"clock": "epoch", **settings}
            ingested = writer.write_run(options.label, max(s.size for s in snapshots), config)
        options.done(source)
        return ingested


class Snapshot:
    """The snapshot of one process. `segments`: those that are records. `size`: number of blocks.

    Raises:
        InputError: the file is damaged, or holds more than plain data.
    """

    def __init__(self, source: Source) -> None:
        self.name = source.name
        content = dumped(source, _LARGEST)
        self.segments = [each for each in as_list(content.get("segments")) if isinstance(each, dict)]
        self._traces = as_list(content.get("device_traces"))
        self.size = sum(len(as_list(segment.get("blocks"))) for segment in self.segments)
        known = content.get("allocator_settings")
        settings = known.items() if isinstance(known, dict) else ()
        self.settings = {f"allocator.{key}": value for key, value in settings if isinstance(value, str | int | float)}

    def block_rows(self, origin: EventOrigin, account: EventAccount) -> Iterator[dict[str, object]]:
        """Give a row of table `events` for each block, with its state, bytes and stack."""
        line = 0
        for segment in self.segments:
            for block in as_list(segment.get("blocks")):
                line += 1
                size = whole(block.get("size")) if isinstance(block, dict) else None
                if size is None:
                    account.add("unread", "block that is no record", 1, line)
                    continue
                account.add("read", "block of memory", 1, line)
                account.figures_of("blocks", line).stored += 2
                yield asdict(origin) | {
                    "line": line, "kind": "memory", "name": BLOCK, "category": str(block.get("state")),
                    "device": whole(segment.get("device")), "stream": whole(segment.get("stream")), "bytes": size,
                    "address": whole(block.get("address")), "domain": _pool(segment), "stack": stack_of(block),
                }  # fmt: skip

    def failures(self, origin: EventOrigin, account: EventAccount) -> Iterator[dict[str, object]]:
        """Give a row of table `events` for each allocation of the history that failed; count the rest."""
        line = self.size
        for device, history in enumerate(self._traces):
            entries = as_list(history)
            for entry in entries:
                if isinstance(entry, dict) and entry.get("action") == "oom":
                    line += 1
                    account.add("read", OUT_OF_MEMORY, 1, line)
                    account.figures_of(OUT_OF_MEMORY, line).stored += 1
                    time = whole(entry.get("time_us"))
                    yield asdict(origin) | {
                        "line": line, "kind": "mark", "name": OUT_OF_MEMORY, "device": device,
                        "bytes": whole(entry.get("size")), "start_ns": None if time is None else time * 1000,
                        "stack": stack_of(entry), "category": "oom",
                    }  # fmt: skip
            if entries:
                account.add("context", "history of a device", 1, line + 1)
                account.figures_of("history", line + 1, because=_HISTORY).dropped += len(entries)

    def device_rows(self, origin: EventOrigin, account: EventAccount) -> Iterator[dict[str, object]]:
        """Give rows of table `counters`: what each device reserved and allocated, and its largest free block."""
        for line, (device, (names, sizes)) in enumerate(self._of_devices().items(), 1):
            account.figures_of("sizes of segments", line).stored += len(self.segments)
            account.figures_of("layout", line, because=_LAYOUT).dropped += len(self.segments)
            for name, size in zip(names, sizes, strict=True):
                yield asdict(origin) | {
                    "line": line, "name": name, "device": device, "value": float(size), "unit": "B",
                }  # fmt: skip

    def _of_devices(self) -> dict[int | None, tuple[Sequence[str], Sequence[int]]]:
        """The counters of each device: reserved memory, also by private pool, and memory of blocks by state."""
        found: dict[int | None, dict[str, int]] = {}
        for segment in self.segments:
            of = found.setdefault(whole(segment.get("device")), {"reserved": 0, "allocated": 0, "requested": 0})
            of["reserved"] += whole(segment.get("total_size")) or 0
            if _pool(segment):
                of["reserved in private pools"] = of.get("reserved in private pools", 0) + (
                    whole(segment.get("total_size")) or 0
                )
            for block in as_list(segment.get("blocks")):
                state = str(block.get("state")) if isinstance(block, dict) else ""
                size = (whole(block.get("size")) or 0) if isinstance(block, dict) else 0
                if state == "active_allocated":
                    of["allocated"] += size
                    of["requested"] += whole(block.get("requested_size")) or size
                elif state == "inactive":
                    of["largest free block"] = max(of.get("largest free block", 0), size)
        return {device: (list(of), list(of.values())) for device, of in found.items()}


def stack_of(block: Mapping[Any, Any]) -> str | None:
    """Return the call stack of a block, the innermost frame first; older snapshots have it in a history."""
    frames = as_list(block.get("frames"))
    history = as_list(block.get("history"))
    if not frames and history and isinstance(history[0], dict):
        frames = as_list(history[0].get("frames"))
    shown = [f"{f.get('name')} ({f.get('filename')}:{f.get('line')})" for f in frames if isinstance(f, dict)]
    return "; ".join(shown) or None


def _pool(segment: Mapping[Any, Any]) -> str | None:
    """Return the name of a private pool, such as a CUDA graph has; None for the pool of all others."""
    number = segment.get("segment_pool_id")
    return str(tuple(number)) if isinstance(number, list | tuple) and any(number) else None
