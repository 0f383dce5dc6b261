"""Divides logs into batches, each read by one process, and says whether several processes pay."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from perflog.ingestion import workers
from perflog.parsing.input.archives import unpacked_path
from perflog.parsing.input.log_names import STDIN, LogName

_BATCHES = 8  # for each process at least: they end their work at about the same time
_SECONDS_A_LOG, _SECONDS_A_BYTE = 0.02, 1e-8  # of reading, about


def in_batches(
    names: Sequence[LogName], most_logs: int, most_bytes: int, processes: int | None = None
) -> Iterator[list[LogName]]:
    """Yield the names in batches of a few logs. A large log and standard input are batches of their own.

    Args:
        names: The logs.
        most_logs: The largest number of logs of a batch.
        most_bytes: The largest size of a batch of several logs.
        processes: The number of processes that share the work; by default the number of processors here.
    """
    most = max(1, min(most_logs, len(names) // (_BATCHES * (processes or workers.cores()))))
    batch: list[LogName] = []
    room = most_bytes
    for name in names:
        room -= size(name)
        if batch and (len(batch) == most or room < 0 or STDIN in (name.log, batch[0].log)):
            yield batch
            batch, room = [], most_bytes - size(name)
        batch.append(name)
    if batch:
        yield batch


def pay(names: Sequence[LogName]) -> bool:
    """Return whether reading these logs takes so long that starting processes for it pays."""
    seconds = len(names) * _SECONDS_A_LOG + sum(map(size, names)) * _SECONDS_A_BYTE
    return len(names) > 1 and seconds > workers.START_SECONDS


def size(name: LogName) -> int:
    """Return the bytes of the files of a log; 0 if they are not known."""
    if name.remote_size is not None:
        return name.remote_size
    try:
        return sum(os.path.getsize(unpacked_path(file)) for file in name.files)
    except OSError:
        return 0
