"""Scans the chunks of a long log in a forked process, while this one assembles.

Scanning is thousands of short numpy calls. Threads of one process would queue for the interpreter lock and gain
nothing. A forked process scans into shared memory instead: a ring of slots, each with the bytes of a chunk and the
columns of its records. The parent uses the slot without a copy and then hands it back.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import pickle
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from perflog.errors import InputError
from perflog.parsing.input.chunks import SLACK
from perflog.parsing.input.source import Source
from perflog.parsing.match.records import Batch
from perflog.parsing.match.scanner import Scanner

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_SLOTS = 2
_KILLED = "memory may have run out; `--processes 1` reads the log in one process"


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


Packed = tuple[bytes, list[tuple[int, int]]]
"""A batch: its pickle without its arrays, and where each array is in the slot: first byte and number of bytes."""


def _pack(batch: Batch, slot: mmap.mmap) -> Packed | None:
    """Copy the bytes and arrays of a batch into a slot; return the small rest. None if the slot is too small.

    Columns of Arrow are copied with the rest: tables may keep them, and the slot is used again.
    """
    arrays: list[memoryview] = []

    def is_in_rest(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if not isinstance(view.obj, np.ndarray):
            return True
        arrays.append(view)
        return False

    rest = pickle.dumps(_compact(batch), 5, buffer_callback=is_in_rest)
    ends = [*accumulate((_aligned(array.nbytes) for array in arrays), initial=0)]
    if ends[-1] > len(slot):
        return None
    spots = [(first, array.nbytes) for first, array in zip(ends, arrays, strict=False)]
    for (first, size), array in zip(spots, arrays, strict=True):
        slot[first : first + size] = array
    return rest, spots


def _compact(batch: Batch) -> Batch:
    """A batch with its bytes as an array, offsets of 32 bits, and without positions that follow from the lines."""
    chunk = batch.chunk
    data: Any = np.frombuffer(chunk.data, np.uint8, chunk.size + SLACK)  # an array serves as bytes
    positions = batch.positions if batch.has_parts else batch.positions[:0]
    starts, ends = (offsets.astype(np.int32) for offsets in (batch.starts, batch.ends))
    return replace(batch, chunk=dataclasses.replace(chunk, data=data), starts=starts, ends=ends, positions=positions)


def _aligned(size: int) -> int:
    """Round up to a multiple of 64 bytes."""
    return (size + 63) & ~63


def _unpack(packed: Packed, slot: mmap.mmap) -> Batch:
    """Return the batch in a slot, as views of the shared memory."""
    rest, spots = packed
    view = memoryview(slot)
    batch: Batch = pickle.loads(rest, buffers=[view[first : first + size] for first, size in spots])
    return batch
