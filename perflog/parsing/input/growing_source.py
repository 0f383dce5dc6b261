"""A log as chunks while its file grows: whole lines as they come, and the rest when it has ended."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import closing

from perflog.errors import InputError
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.chunks import CHUNK, PIECE, Chunk, clean_blocks, to_chunk
from perflog.parsing.input.json_documents import as_records
from perflog.parsing.input.notebooks import outputs
from perflog.parsing.input.source import ByteStream, Source, blocks_of

_LAST_END = lazy_pattern(rb"(?s).*(?:\n|\r(?=[^\r\n]))")


def whole_lines(path: str, begin: int = 0) -> int:
    """Return the number of bytes up to the end of the last whole line, or of the last state of a progress bar.

    Bytes before `begin` are not searched; `begin` is returned if no line ends after it.
    """
    with open(path, "rb") as file:
        end = os.fstat(file.fileno()).st_size
        after = b""  # the byte after the block: a CR before LF is half the end of a line
        while end > begin:
            start = max(begin, end - PIECE)
            file.seek(start)
            block = file.read(end - start)
            if found := _LAST_END.match(block + after):
                return start + found.end()
            end, after = start, block[:1]
    return begin


class GrowingSource(Source):
    """A log that is read while its file grows.

    Args:
        name: The log as the user named it.
        path: Where its bytes are. It holds at least one whole line.
        wait: Waits until the file has grown and returns True; returns False if it should not be read further.

    Attributes:
        known: The number of bytes of the whole lines that were there at the beginning.
        has_ended: Whether the bytes after the last whole line are read too. `wait` may set it before it returns False.
    """

    _may_be_whole = False  # an object on the only line so far is a line

    def __init__(self, name: str, path: str, wait: Callable[[], bool]) -> None:
        self.known = whole_lines(path)
        super().__init__(name, path, size=self.known)
        self.has_ended = False
        self._wait = wait
        if self.is_compressed or self._encoding or self._program_lines in (as_records, outputs):
            kind = "compressed" if self.is_compressed else self._encoding or "a JSON document"
            raise InputError(f"{kind}: it cannot be read while it grows", name, "read it when it is complete")

    def size(self) -> int:
        """Return 0: the size is unknown, and reading must not run ahead in threads."""
        return 0

    def digest(self) -> str:
        """Return no digest: nobody knows the bytes to come. The rows of such a reading are shown, not stored."""
        return ""

    def head(self, size: int = 1 << 20) -> Chunk:
        """Return the first whole lines that are there now, about `size` bytes, as one chunk."""
        with closing(super().chunks(size)) as chunks:
            head = next(chunks)
        head.is_last = False
        return head

    def chunks(self, size: int = CHUNK) -> Generator[Chunk]:
        """Yield all lines in order as they come, about `size` bytes at a time at most."""
        line, begin = 1, len(self._bom)
        while True:
            end = whole_lines(self.path, begin)
            if end == begin and not self._wait():
                break
            for chunk in self._between(begin, end, size, line):
                line += chunk.lines
                yield chunk
            begin = end
        if self.has_ended:
            yield from self._between(begin, max(begin, os.stat(self.path).st_size), size, line)

    def _between(self, begin: int, end: int, size: int, line: int) -> Generator[Chunk]:
        """Yield the lines between two positions in the file, where lines or states of a progress bar end."""
        if begin == end:
            return
        with open(self.path, "rb", buffering=0) as file:
            file.seek(end - 1)
            within_line = file.read(1) == b"\r"
            file.seek(begin)
            stream = ByteStream(file, self.name, end - begin)
            if self._program_lines is not None:
                stream = ByteStream(self._program_lines(blocks_of(stream)), self.name)
            for data, stop, is_last, is_unfinished in clean_blocks(stream, size):
                chunk = to_chunk(data, stop, line, is_unfinished=is_unfinished)
                if is_last and within_line:  # the LF that ends the data replaces the CR
                    chunk.lines -= 1
                    chunk.returns.append(chunk.size - 1)
                line += chunk.lines
                yield chunk
