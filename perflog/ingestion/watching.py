"""Reads a log while it grows, in one pass: what it prints is seen as it comes, and nothing is stored.

The formats of a log are detected from its first bytes (`detect`), so a log that is still shorter than that is read
from the beginning whenever it has grown, with the rows that wait for later lines. A longer one is read on from where
reading stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from perflog.errors import InputError
from perflog.formats.model import Format
from perflog.ingestion.pipeline import Observer, ingest
from perflog.parsing.input.followed_file import Ending, GrowingFile, Patience
from perflog.parsing.input.growing_source import GrowingSource, whole_lines
from perflog.readers.registry import find_reader

if TYPE_CHECKING:
    import pyarrow as pa

HEAD = 1 << 20
"""Bytes of a log from which its formats are detected."""

_CHUNK = 1 << 20  # bytes that are read at once: what is there already should be seen soon


class _NoSink:
    """A sink that keeps nothing."""

    def add(self, table: str, data: pa.Table) -> None:
        """Drop rows."""


class Watching:
    """Reads a log while it grows, until it ends.

    Args:
        name: The log as the user named it.
        file: The file of the log.
        patience: When to look at the file.
        formats: The formats to read the log with; by default the detected formats.
        observer: Is called with rows as soon as they are complete.
        on_look: Is called before each look at the file, when all rows so far were observed.
        sink: Returns an empty sink for all rows. It is called whenever the log is read from its beginning.
    """

    def __init__(
        self,
        name: str,
        file: GrowingFile,
        patience: Patience,
        formats: Sequence[Format] | None,
        observer: Observer,
        on_look: Callable[[], None],
        sink: Callable[[], Any] = _NoSink,
    ) -> None:
        self._name, self._file, self._patience, self._formats = name, file, patience, formats
        self._observer, self._on_look, self._sink = observer, on_look, sink
        self._ending: Ending | None = None
        self._error: InputError | None = None  # of the last reading

    def run(self) -> Ending:
        """Read one log to its end, and return why it ended. After a rename, the next call reads the new file.

        Raises:
            InputError: The file is no log of lines, or at its end nothing was recognised.
        """
        # Each turn reads a short log from its beginning, if it has new lines. The turn that reads a long log waits for
        # more (`_has_grown`), and returns at its end: then `_ending` is set.
        bytes_read, self._ending = 0, self._file.look()
        while self._ending is not Ending.TRUNCATED:
            size = whole_lines(self._file.path) if self._ending is None else self._file.size
            if size > bytes_read:
                self._read()
                bytes_read = size
            if self._ending is not None:
                break
            self._wait_and_look()
        if self._error is not None and self._ending not in (Ending.REPLACED, Ending.TRUNCATED):
            raise self._error
        return self._ending

    def _read(self) -> None:
        """Read a short log as far as it goes now, a longer one to its end."""
        source = GrowingSource(self._name, self._file.path, lambda: self._has_grown(source))
        if self._formats is None and find_reader(source) is not None:
            raise InputError(
                "this is not a text log, and cannot be read while it grows", self._name, "read it when it is complete"
            )
        try:
            ingest(source, self._sink, self._formats, threads=1, chunk=_CHUNK, observer=self._observer)
            self._error = None
        except InputError as error:  # nothing is recognised yet
            self._error = error

    def _has_grown(self, source: GrowingSource) -> bool:
        """Wait until a long log has grown; return False if it has ended, and for a short one."""
        size = self._file.size
        while source.known >= HEAD and self._ending is None:
            self._wait_and_look()
            if self._file.size > size:
                return True
        source.has_ended = self._ending not in (None, Ending.TRUNCATED)
        return False

    def _wait_and_look(self) -> None:
        """Wait, then look at the file."""
        self._on_look()
        self._patience.sleep(self._patience.interval)
        self._ending = self._file.look()
