"""The pages of a SQLite file: whether each belongs to one place of one tree.

A file can be made whose pages lead to the same pages again and again. SQLite would read 10^30 rows of some kilobytes,
and does not notice. In a file that passes this test there are fewer rows than bytes.

Source: "Database File Format", https://www.sqlite.org/fileformat2.html, sections 1.3 and 1.6.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path

import numpy as np

_FIRST_HEADER = 100  # bytes of the file's header, before the header of the first page
_INNER_HEADER = 12  # bytes of the header of a page that leads to others
_SMALLEST = 512  # bytes of a page
_INNER = (2, 5)  # kinds of such pages: of an index, of a table


def are_trees(file: Path, roots: Iterable[int]) -> bool:
    """Return whether no page is found twice on the ways down from the roots (page numbers, from 1).

    Pages that lie outside the file are passed over: SQLite tells of these.
    """
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        size = int.from_bytes(data[16:18], "big")
        size = 65536 if size == 1 else size
        if size < _SMALLEST:
            return True  # SQLite reads no such file
        count = len(data) // size
        found = bytearray(count + 1)
        waiting = sorted(set(roots))
        while waiting:
            page = waiting.pop()
            if not 0 < page <= count:
                continue
            if found[page]:
                return False
            found[page] = 1
            header = _FIRST_HEADER if page == 1 else 0
            if data[(page - 1) * size + header] in _INNER:
                waiting += _children(np.frombuffer(data[(page - 1) * size : page * size], np.uint8), header)
    return True


def _children(page: np.ndarray[tuple[int], np.dtype[np.uint8]], header: int) -> list[int]:
    """Return the numbers of the pages to which a page leads, whose own header begins at `header`."""
    cells = int(page[header + 3]) << 8 | int(page[header + 4])
    pointers = page[header + _INNER_HEADER :][: 2 * cells]
    places = pointers[: len(pointers) // 2 * 2].view(">u2").astype(np.int64)
    places = np.append(places[places <= len(page) - 4], header + 8)  # there stands the last one
    numbers: list[int] = page[places[:, None] + np.arange(4)].reshape(-1).view(">u4").tolist()
    return numbers
