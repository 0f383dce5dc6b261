"""The bytes of a log, hashed on their way."""

from __future__ import annotations

import hashlib

from perflog.parsing.input.source import Source


class Hashed:
    """A log's bytes in order. Once they have all been read, the log's digest is known."""

    def __init__(self, source: Source) -> None:
        self._source, self._raw, self._sha = source, source.stream(), hashlib.sha256()
        self.close = self._raw.close

    def fill(self, room: memoryview) -> int:
        """Fill `room`; less than its length only at the end."""
        got = self._raw.fill(room)
        self._sha.update(room[:got])
        if got < len(room):
            self._source.hashed(self._sha.hexdigest())
        return got
