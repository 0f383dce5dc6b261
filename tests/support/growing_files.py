"""A file that a job writes while perflog reads it, on a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from perflog.parsing.input.followed_file import Patience

IDLE_S = 5.0

Deed = bytes | Callable[[], object]


class Job:
    """Does one thing to a file at each second for which the reader sleeps.

    Args:
        path: The file. It is made, empty, at once.
        deeds: What is done, in order: bytes are written behind the file, a function is called.
    """

    def __init__(self, path: Path, deeds: Sequence[Deed]) -> None:
        self.path, self.now = path, 0.0
        self._deeds: Iterator[Deed] = iter(deeds)
        path.write_bytes(b"")

    def patience(self, until_idle: float | None = IDLE_S) -> Patience:
        """Return when the reader looks at the file."""
        return Patience(1.0, until_idle, self._sleep, lambda: self.now)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        deed = next(self._deeds, None)
        if isinstance(deed, bytes):
            with self.path.open("ab") as file:
                file.write(deed)
        elif deed is not None:
            deed()


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Cut data at some places, in any order."""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places)]
