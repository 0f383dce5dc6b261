"""A forked process scans the chunks of a log into shared memory: the batches are those of one process."""

from __future__ import annotations

import mmap
import os
import signal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.reading import write

from perflog.errors import InputError
from perflog.formats.registry import known
from perflog.ingestion import forked_scanner
from perflog.ingestion.forked_scanner import scanned_in_fork
from perflog.parsing.input.source import Source
from perflog.parsing.match.records import Batch, lines_of
from perflog.parsing.match.scanner import Scanner

STEP = "[titan] step: {:2}  loss:  8.12  memory: 10.50GiB(11.00%)  tps: 1,234  tflops: 5.00  mfu: 12.34%\n"
TEXT = "".join(STEP.format(step) + f"note {step}\n" for step in range(1, 60)).encode() + b"bar 1\rbar 2\nlast\n"


def scanner() -> Scanner:
    return Scanner(lines_of([known()["torchtitan"]]))


def content(batch: Batch) -> tuple[Any, ...]:
    """All that a batch holds, as plain values: its arrays are overwritten later."""
    columns = {
        (kind, name): column.to_pylist() if isinstance(column, pa.Array) else column.tolist()
        for kind, records in batch.records.items()
        for name, column in {**records.columns, "positions": records.positions}.items()
    }
    chunk = batch.chunk
    owner = {kind: positions.tolist() for kind, positions in batch.owner.items()}
    text = bytes(memoryview(chunk.data)[: chunk.size])
    positions = batch.positions_of(np.arange(len(batch.starts))).tolist()
    ends = batch.starts.tolist(), batch.ends.tolist()
    return text, chunk.first_line, chunk.is_last, *ends, columns, owner, positions, batch.has_parts


def test_batches_are_those_of_one_process() -> None:
    source = write(TEXT)
    for size in (300, 1000, 1 << 16):
        own = [content(scanner().scan(chunk)) for chunk in source.chunks(size)]
        assert [content(batch) for batch in scanned_in_fork(source, scanner(), size)] == own
        assert len(own) > 2 or size > len(TEXT)


def test_a_batch_too_large_for_its_slot_is_sent_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    source, packed = write(TEXT), forked_scanner._pack
    monkeypatch.setattr(forked_scanner, "_pack", lambda batch, _: packed(batch, mmap.mmap(-1, 1)))
    own = [content(scanner().scan(chunk)) for chunk in source.chunks(1000)]
    assert [content(batch) for batch in scanned_in_fork(source, scanner(), 1000)] == own


def test_a_packed_batch_is_in_its_slot() -> None:
    (chunk,) = write(TEXT).chunks(1 << 16)
    batch = scanner().scan(chunk)
    whole = content(batch)
    slot = mmap.mmap(-1, 1 << 17)
    packed = forked_scanner._pack(batch, slot)
    assert packed is not None
    rest, spots = packed
    assert len(rest) < chunk.size < sum(size for _, size in spots)
    assert all(first % 64 == 0 for first, _ in spots)
    assert all(first + size <= after for (first, size), (after, _) in pairwise(spots))
    assert content(forked_scanner._unpack(packed, slot)) == whole
    assert [forked_scanner._aligned(size) for size in (0, 1, 63, 64, 65)] == [0, 64, 64, 64, 128]


def test_errors_and_warnings_come_back_from_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    source, chunks = write(TEXT), Source.chunks

    def failing(self: Source, size: int) -> Any:
        yield from list(chunks(self, size))[:2]
        self.warnings.append("half of it")
        if size == 300:
            raise InputError("damaged", "log")

    monkeypatch.setattr(Source, "chunks", failing)
    found = scanned_in_fork(source, scanner(), 300)
    with pytest.raises(InputError, match="damaged"):
        list(found)
    assert len(list(scanned_in_fork(source, scanner(), 400))) == 2
    assert source.warnings == ["half of it"]


def test_a_process_that_is_killed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Source, "chunks", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(InputError, match="the process that scanned the log was killed") as found:
        list(scanned_in_fork(write(TEXT), scanner(), 300))
    assert (found.value.where, "--processes 1" in found.value.help) == ("log", True)


def test_who_stops_reading_ends_the_process() -> None:
    found = scanned_in_fork(write(TEXT), scanner(), 300)
    assert isinstance(next(found).starts, np.ndarray)
    found.close()  # type: ignore[attr-defined]  # it waits for the process
