"""Allocator memory at one moment: which code holds it, and how much is reserved but unused. From PyTorch snapshots.

A holder is the innermost frame of a stack outside of the framework: the line of the program that requested the memory.
Blocks of one holder are added up. `during` follows from the framework's frames around it: optimizer, backward.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.readers.dumps.allocator_snapshot import BLOCK, OUT_OF_MEMORY
from perflog.statistics.groups import groups_of
from perflog.tables.arrow import one_of
from perflog.tables.columns import NULL, Rows, rows_from_arrow

ALLOCATED, FREE = "active_allocated", "inactive"
NO_STACK = "(no stack recorded)"
"""Replaces the holder of memory that has no stack in the snapshot."""

_DEVICE = (
    MetricColumn("rank", meaning="rank of the snapshot", type="Int64"),
    MetricColumn("device", meaning="number of the device", type="Int64"),
)
_COLUMNS = (
    *RUN_COLUMNS,
    *_DEVICE,
    MetricColumn("reserved", "B", "lower", "bytes that the allocator holds of the device", type="Int64"),
    MetricColumn("allocated", "B", "lower", "bytes of blocks in use", type="Int64"),
    MetricColumn("free", "B", None, "bytes of blocks that it keeps without use", type="Int64"),
    MetricColumn("waiting", "B", None, "bytes of freed blocks that wait for a stream", brief=False, type="Int64"),
    MetricColumn("largest_free", "B", None, "largest block without use", type="Int64"),
    MetricColumn(
        "private", "B", None, "bytes of blocks in private pools, such as the pools of CUDA graphs", type="Int64"
    ),
    MetricColumn("fragmentation", "1", "lower", "(reserved - allocated) / reserved"),
    MetricColumn("asked", "B", None, "bytes of the allocation that failed, the last one recorded", type="Int64"),
    MetricColumn("would_fit", meaning="whether the free blocks together hold it, though no single one does"),
    MetricColumn("blocks", meaning="number of blocks in use", type="Int64"),
    MetricColumn("first_line", meaning="number of its first block in the snapshot", brief=False, type="Int64"),
)
_HOLDER_COLUMNS = (
    *RUN_COLUMNS,
    *_DEVICE,
    MetricColumn("holder", meaning=f"file, line and function of the program that asked for it; {NO_STACK}"),
    MetricColumn("during", meaning="optimizer, backward, loading: by frames of the framework; null: unknown"),
    MetricColumn("bytes", "B", "lower", "bytes of its blocks in use", type="Int64"),
    MetricColumn("share", "1", None, "bytes / all bytes in use on the device"),
    MetricColumn("blocks", meaning="number of its blocks", type="Int64"),
    MetricColumn("largest", "B", None, "its largest block", brief=False, type="Int64"),
    MetricColumn("first_line", meaning="number of its first block in the snapshot", brief=False, type="Int64"),
)

_FRAME = lazy_pattern(r"(?P<name>.*) \((?P<file>.*):(?P<line>[0-9]+)\)")
_FRAMEWORK = lazy_pattern(
    r"(?:.*/)?(?:site-packages|dist-packages)/.*|.*\.(?:c|cc|cpp|cu|cuh|h|hpp|so)(?:\.[0-9]+)*|\?\?|<.*>|.*/torch/(?:nn|"
    r"optim|autograd|utils|cuda|distributed|_\w+)/.*|.*/lib/python[0-9.]+/.*|"
)
"""Files that are not the program's own: libraries, Python itself, native code."""

_DURING = (
    ("optimizer", lazy_pattern(r".*/(?:optim|optimizers?)/.*:.*|.*/ops/adam/.*")),
    ("backward", lazy_pattern(r".*/autograd/.*|.*:_engine_run_backward")),
    ("loading", lazy_pattern(r".*/(?:serialization|safetensors|checkpoint/state_dict_loader)\b.*")),
)
_SOURCE = "events `block` of a snapshot of PyTorch's caching allocator; names of frames as recorded"


@metric(
    title="allocator: what it holds of each device at the moment of a snapshot",
    needs=("events",),
    columns=_COLUMNS,
    main="allocated",
    formula="sums over blocks by state; fragmentation = (reserved - allocated) / reserved",
    source=_SOURCE,
)
def allocator(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001 (all metrics take the same)
    """Reserved and allocated memory of each device in a snapshot, and whether free blocks are too small."""
    return [device._asdict() | row for device, row in _devices(tables)]


@metric(
    title="allocator: who held the memory at the moment of a snapshot",
    needs=("events",),
    columns=_HOLDER_COLUMNS,
    main="bytes",
    formula="sum over the blocks in use with the same line as innermost frame outside of the framework",
    source=_SOURCE,
)
def allocator_holders(tables: Tables, options: Options) -> MetricRows:  # noqa: ARG001
    """The lines of the program that hold memory, the largest first."""
    rows = []
    for device, blocks in _blocks(tables):
        used = blocks.where(blocks.one_of("category", (ALLOCATED,)))
        rows += [device._asdict() | row for row in _held(used)]
    return rows


class _Device(NamedTuple):
    run: str
    rank: int | None
    device: int | None


def _blocks(tables: Tables, name: str = BLOCK) -> Iterator[tuple[_Device, Rows]]:
    """Yield the blocks of each device."""
    columns = ("rank", "device", "category", "domain", "bytes", "stack")
    for (run, _part), events in tables.arrow_by_file("events", {"name": one_of(name)}, "name", *columns):
        rows = rows_from_arrow(events)
        rows = rows.where(rows.known("bytes"))
        if not len(rows):
            continue
        devices = groups_of(rows["rank"], rows["device"])
        for first, number in zip(devices.first.tolist(), range(len(devices.sizes)), strict=True):
            rank, device = (int(rows[column][first]) for column in ("rank", "device"))
            found = _Device(run, None if rank == NULL else rank, None if device == NULL else device)
            yield found, rows.where(devices.inverse == number)


def _devices(tables: Tables) -> Iterator[tuple[_Device, dict[str, object]]]:
    asked = {device: int(rows["bytes"][-1]) for device, rows in _blocks(tables, OUT_OF_MEMORY)}
    for device, rows in _blocks(tables):
        sizes = rows["bytes"]
        used, free = rows.one_of("category", (ALLOCATED,)), rows.one_of("category", (FREE,))
        reserved, allocated = int(sizes.sum()), int(sizes[used].sum())
        largest, unused = int(sizes[free].max(initial=0)), int(sizes[free].sum())
        failed = asked.get(device)
        yield device, {
            "reserved": reserved, "allocated": allocated, "free": unused, "largest_free": largest,
            "waiting": reserved - allocated - unused, "private": int(sizes[rows.known("domain")].sum()),
            "fragmentation": (reserved - allocated) / reserved if reserved else None, "asked": failed,
            "would_fit": None if failed is None else largest < failed <= unused, "blocks": int(used.sum()),
            "first_line": int(rows["line"].min()),
        }  # fmt: skip


def _held(used: Rows) -> Iterator[dict[str, object]]:
    """Yield a row for each holder of blocks in use, the largest first. A block without a stack has no known holder.

    Holders of the same name during different operations (see `holder_of`) have a row each.
    """
    codes, stacks = used.codes("stack")
    holders = [holder_of(stack) for stack in stacks]
    blocks: dict[tuple[str, str | None], list[int]] = {}
    for block, code in enumerate(codes.tolist()):
        blocks.setdefault(holders[code] if code >= 0 else (NO_STACK, None), []).append(block)
    sizes, lines, whole = used["bytes"], used["line"], int(used["bytes"].sum())
    held = {key: int(sizes[indices].sum()) for key, indices in blocks.items()}
    for (holder, during), size in sorted(held.items(), key=lambda item: -item[1]):
        indices = blocks[holder, during]
        yield {
            "holder": holder, "during": during, "bytes": size, "share": size / whole if whole else None,
            "blocks": len(indices), "largest": int(sizes[indices].max()), "first_line": int(np.min(lines[indices])),
        }  # fmt: skip


@lru_cache(maxsize=4096)
def holder_of(stack: str) -> tuple[str, str | None]:
    """Return who asked for memory, by a stack with the innermost frame first, and during what.

    Example:
        >>> holder_of("wrapper (/venv/site-packages/torch/optim/adamw.py:12); main (/app/train.py:52)")
        ('train.py:52 main', 'optimizer')
    """
    frames = [match for text in stack.split("; ") if (match := _FRAME.fullmatch(text))]
    own = next((frame for frame in frames if not _FRAMEWORK.fullmatch(frame["file"])), None)
    python = own or next((frame for frame in frames if frame["file"].endswith(".py")), None)
    around = [f"{frame['file']}:{frame['name']}" for frame in frames]
    during = next((name for name, pattern in _DURING if any(pattern.fullmatch(text) for text in around)), None)
    if python is None:
        return (f"native code: {frames[0]['name']}" if frames else NO_STACK), during
    file = python["file"].replace("\\", "/").rpartition("/")[2]
    return f"{file}:{python['line']} {python['name']}", during
