"""Finds the earlier states of a growing log in a store.

A log of the same path is the same log, earlier, if its bytes are the beginning of this one. A log of another path with
the same beginning is a log of its own. So is a log of the same path with other bytes: the file was truncated or
replaced. If several files had the bytes of an earlier state, it stays as long as another of them exists.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct, field

from perflog.files.remote import is_remote, shown
from perflog.parsing.input.log_names import STDIN, LogName
from perflog.parsing.input.source import Source
from perflog.tables.sink import LOG_ID, IngestResult
from perflog.tables.store.runs_footer import Origin


class History(Struct, frozen=True):
    """What a store has of the path of a log.

    Attributes:
        origin: Where the log comes from now; None if it has no path of its own, as standard input has none.
        earlier: The earlier states of the log: the bytes of each, by its id.
        others: The ids of other logs that came from the same path and stay in the store.
    """

    origin: Origin | None = None
    earlier: Mapping[str, int] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    def note(self, result: IngestResult) -> None:
        """Write into the result of a log what the store had of its path."""
        result.others = list(self.others)
        if self.origin and self.earlier:
            result.grown_by = self.origin.size - max(self.earlier.values())


class Origins:
    """Where the logs of a store came from, by their ids and by path: a store may have thousands of logs."""

    def __init__(self, origins_by_log: Mapping[str, Origin]) -> None:
        self.origins_by_log = origins_by_log
        self.at_path: dict[str, dict[str, Origin]] = {}
        for log, origin in origins_by_log.items():
            for path in origin.paths:
                self.at_path.setdefault(path, {})[log] = origin


def history(name: LogName, source: Source, origins: Origins) -> History:
    """Return what a store has of the path of a log. `origins` says where its logs came from."""
    path, size = _path(name), source.length() if len(source.parts) == 1 else None
    if not path or size is None:
        return History()
    log = source.digest()[:LOG_ID]
    same_path = {other: origin for other, origin in origins.at_path.get(path, {}).items() if other != log}
    shorter = {other: origin.size for other, origin in same_path.items() if origin.size < size}
    digests = source.digests_of_first(shorter.values())
    earlier = {
        other: length
        for other, length in shorter.items()
        if digests[length].startswith(other) and not _elsewhere(same_path[other], path)
    }
    now = Origin((path,), size)
    before = origins.origins_by_log.get(log)
    return History(before | now if before else now, earlier, tuple(sorted(same_path.keys() - earlier.keys())))


def _elsewhere(origin: Origin, path: str) -> bool:
    """Return whether another file that had the bytes of a log is still there."""
    return any(is_remote(other) or os.path.exists(other) for other in origin.paths if other != path)


def _path(name: LogName) -> str:
    """Return the absolute path or the address of a log in one file; "" for standard input."""
    if name.log == STDIN or len(name.files) != 1:
        return ""
    return shown(name.log) if is_remote(name.log) else os.path.abspath(name.log)
