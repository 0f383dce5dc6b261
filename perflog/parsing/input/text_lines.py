"""Some lines of a log as strings, by the numbers that tables and findings have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from perflog.parsing.input.source import Source

_MOST = 1 << 14  # bytes of a line that are read


def text_lines(source: Source, first: int, last: int) -> Iterator[tuple[int, str]]:
    """Yield number and string of the lines from `first` to `last`, cleaned as they are before they are read.

    Parts of a line that carriage returns divide are joined by spaces. Of a long line only the start is there.

    Raises:
        InputError: The log cannot be read.
    """
    with closing(source.chunks()) as chunks:
        number, parts = 0, list[str]()
        for chunk in chunks:
            if chunk.first_line > last:
                break
            if chunk.first_line + chunk.lines < first:
                continue
            returns, begin, line = set(chunk.returns), 0, chunk.first_line
            if parts and line != number:
                parts = []
            data = bytes(memoryview(chunk.data)[: chunk.size])
            while begin < chunk.size and line <= last:
                end = data.find(b"\n", begin)
                end = chunk.size if end < 0 else end
                number = line
                if line >= first and sum(map(len, parts)) < _MOST:
                    parts.append(data[begin : min(end, begin + _MOST)].decode("utf-8", "replace"))
                if end not in returns:
                    if line >= first:
                        yield line, " ".join(parts)
                    parts, line = [], line + 1
                begin = end + 1
        if parts:
            yield number, " ".join(parts)
