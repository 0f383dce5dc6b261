"""The pages of a SQLite file: whether each belongs to one position of one tree.

The pages of a file may lead to the same pages again and again. SQLite would read 10^30 rows of some kilobytes,
and does not notice. In a file that passes this test there are fewer rows than bytes.

Source: "Database File Format", https://www.sqlite.org/fileformat2.html, sections 1.3 and 1.6.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from perflog.arrays import Bytes

_FIRST_HEADER = 100  # bytes of the file's header, before the header of the first page
_INNER_HEADER = 12  # bytes of the header of a page that leads to others
_SMALLEST = 512  # bytes of a page
_INNER = (2, 5)  # kinds of such pages: of an index, of a table


class Pages:
    """The pages of a file, by their numbers from 1. `size`: the bytes of a page.

    The file stays open: to close it gives up the locks that this process has on it, also of SQLite. What the file
    says of its pages is read when it is asked for, since SQLite may undo a transaction when it opens the file.
    """

    def __init__(self, file: Path) -> None:
        self._file = file.open("rb", buffering=0)
        self._maps: list[mmap.mmap] = []  # of the file at different sizes; each has a handle of the file of its own

    def close(self) -> None:
        for data in self._maps:
            data.close()
        self._file.close()

    @property
    def size(self) -> int:
        size = int.from_bytes(os.pread(self._file.fileno(), 2, 16), "big")
        return 65536 if size == 1 else size

    def are_trees(self, roots: Iterable[int]) -> bool:
        """Return whether no page is found twice on the ways down from the roots.

        Pages that lie outside the file are passed over: SQLite reports these.
        """
        data, size = self._bytes(), self.size
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

    def _bytes(self) -> mmap.mmap:
        if not self._maps or len(self._maps[-1]) != os.fstat(self._file.fileno()).st_size:
            self._maps.append(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))
        return self._maps[-1]


def _children(page: Bytes, header: int) -> list[int]:
    """Return the numbers of the pages to which a page leads. Its own header begins at `header`."""
    cells = int(page[header + 3]) << 8 | int(page[header + 4])
    pointers = page[header + _INNER_HEADER :][: 2 * cells]
    places = pointers[: len(pointers) // 2 * 2].view(">u2").astype(np.int64)
    places = np.append(places[places <= len(page) - 4], header + 8)  # the last one is there
    numbers: list[int] = page[places[:, None] + np.arange(4)].reshape(-1).view(">u4").tolist()
    return numbers
