"""Scans the chunks of a long log in a forked process, while this one assembles.

Scanning is thousands of short numpy calls. Threads of one process would queue for the interpreter lock and gain
nothing. A forked process scans into shared memory instead: a ring of slots, each with the bytes of a chunk and the
columns of its records. The parent uses the slot without a copy and then hands it back.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.errors import InputError
from perflog.parsing.input.chunks import SLACK, Chunk
from perflog.parsing.input.source import Source
from perflog.parsing.match.records import Batch, Records
from perflog.parsing.match.scanner import Scanner

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_SLOTS = 2
_KILLED = "memory may have run out; `--threads 1` reads the log in one process"


def scanned_in_fork(source: Source, scanner: Scanner, size: int) -> Iterator[Batch]:
    """Yield batches in order, scanned by a process that is forked at once.

    A batch is valid until the next one is read. Raises InputError if the process is killed.
    """
    from multiprocessing.connection import Pipe

    slots = [mmap.mmap(-1, 4 * size + (1 << 20)) for _ in range(_SLOTS)]
    here, there = Pipe()
    child = os.fork()
    if child == 0:
        here.close()
        _serve(source, scanner, size, slots, there)
    there.close()
    return _received(source, slots, child, here)


def _received(source: Source, slots: list[mmap.mmap], child: int, pipe: Connection) -> Iterator[Batch]:
    """Yield the batches that the forked process sends; hand their slots back."""
    try:
        while True:
            try:
                slot, payload = pipe.recv()
            except (EOFError, ConnectionError) as error:
                raise InputError("the process that scanned the log was killed", source.name, _KILLED) from error
            if slot == _END:
                source.warnings[:] = payload
                return
            if slot == _FAILED:
                raise payload
            yield _unpack(payload, slots[slot]) if slot >= 0 else payload
            if slot >= 0:
                with suppress(BrokenPipeError):  # the process has sent all batches and ended
                    pipe.send(slot)
    finally:
        pipe.close()
        os.waitpid(child, 0)


_END, _FAILED, _INLINE = -1, -2, -3


def _serve(source: Source, scanner: Scanner, size: int, slots: list[mmap.mmap], pipe: Connection) -> None:
    """Scan all chunks and send their batches. Runs in the forked process and never returns."""
    waiting = deque(range(len(slots)))
    try:
        try:
            for chunk in source.chunks(size):
                batch = scanner.scan(chunk)
                if not waiting:
                    try:
                        waiting.append(pipe.recv())
                    except (EOFError, ConnectionError):
                        return  # the parent has stopped reading
                packed = _pack(batch, slots[waiting[0]])
                pipe.send((waiting.popleft(), packed) if packed else (_INLINE, batch))
            pipe.send((_END, source.warnings))
        except Exception as error:  # noqa: BLE001  # the parent raises it
            with suppress(BrokenPipeError):
                pipe.send((_FAILED, error))
    finally:
        os._exit(0)


def _pack(batch: Batch, slot: mmap.mmap) -> tuple[Any, ...] | None:
    """Copy the bytes and arrays of a batch into a slot; return the small rest. None if the slot is too small."""
    used = 0
    arrays: list[np.ndarray[Any, Any]] = []

    def place(array: np.ndarray[Any, Any]) -> tuple[int, int, str]:
        nonlocal used
        array = np.ascontiguousarray(array)
        spot = used, len(array), array.dtype.str
        used += _aligned(array.nbytes)
        arrays.append(array)
        return spot

    chunk = batch.chunk
    spots = [place(np.frombuffer(chunk.data, np.uint8, chunk.size + SLACK))]
    spots += [place(batch.starts.astype(np.int32)), place(batch.ends.astype(np.int32))]
    spots += [place(batch.unread), place(batch.unread_parts)]
    plain = not batch.has_parts
    spots.append(place(batch.places[:0] if plain else batch.places))
    records = {}
    for kind, r in batch.records.items():
        columns = {n: place(c) if isinstance(c, np.ndarray) else c for n, c in r.columns.items()}
        records[kind] = place(r.places), columns, None if r.labels is None else place(r.labels)
    owner = {
        k: None if k in batch.records and a is batch.records[k].places else place(a) for k, a in batch.owner.items()
    }
    if used > len(slot):
        return None
    for array, offset in zip(arrays, _offsets(arrays), strict=True):
        target = np.frombuffer(slot, array.dtype, len(array), offset)
        target[:] = array
    chunk_fields = chunk.size, chunk.first_line, chunk.lines, chunk.returns, chunk.cut, chunk.unfinished
    return spots, records, owner, batch.open_places, chunk_fields


def _offsets(arrays: list[np.ndarray[Any, Any]]) -> Iterator[int]:
    offset = 0
    for array in arrays:
        yield offset
        offset += _aligned(array.nbytes)


def _aligned(size: int) -> int:
    """Round up to a multiple of 64 bytes."""
    return (size + 63) & ~63


def _unpack(packed: tuple[Any, ...], slot: mmap.mmap) -> Batch:
    """Return the batch in a slot, as views of the shared memory."""
    spots, records, owner, open_places, (size, first_line, lines, returns, cut, unfinished) = packed

    def view(spot: tuple[int, int, str]) -> np.ndarray[Any, Any]:
        return np.frombuffer(slot, np.dtype(spot[2]), spot[1], spot[0])

    data, starts, ends, unread, unread_parts, places = (view(s) for s in spots)
    by_kind = {}
    for kind, (place, columns, labels) in records.items():
        values = {name: view(c) if isinstance(c, tuple) else c for name, c in columns.items()}
        by_kind[kind] = Records(view(place), values, None if labels is None else view(labels))
    owned = {kind: by_kind[kind].places if spot is None else view(spot) for kind, spot in owner.items()}
    chunk = Chunk(data, size, first_line, lines, returns, cut, unfinished=unfinished)  # type: ignore[arg-type]  # an array serves as bytes
    return Batch(chunk, by_kind, owned, unread, unread_parts, starts, ends, places, open_places)
