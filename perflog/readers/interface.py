"""Interface of a reader of traces or databases, and the entry with which a package declares its readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from perflog.parsing.input.source import Source

if TYPE_CHECKING:
    from perflog.tables.sink import IngestResult, RunLabels, Sink


class RankInfo(Struct, frozen=True):
    """Rank and world size as a file states them; None where it states nothing."""

    rank: int | None = None
    world_size: str | None = None


class ReadOptions(Struct, frozen=True):
    """Options for reading a log.

    Args:
        label: the name of its run, or a function that returns names by index.
        threads: number of processes or threads that may work on it.
        progress: called with numbers of bytes as they are read.
        processes: whether the reader may fork; not in programs that use threads themselves, such as notebooks.
    """

    label: RunLabels = None
    threads: int = 1
    progress: Callable[[int], None] | None = None
    processes: bool = False

    def done(self, source: Source) -> None:
        """Report all bytes of a file as read."""
        if self.progress is not None:
            self.progress(source.size())

    def label_of(self, number: int) -> str | None:
        """Return the name given to the run of a number; a single name is for the only run."""
        return self.label().get(number) if callable(self.label) else self.label


class Reader(Protocol):
    """Reads one type of file that is not a text log, such as a trace or a database. All of a log becomes one run;
    of a history of benchmarks, each commit does.

    An event is to a reader what a line is to a format: column `line` holds the position of the event in its file, from
    1, and `part` the file, from 0, where several files make one run (`source.parts`).
    """

    name: str
    """Name of the format, as in column `format` of table `runs`."""
    title: str
    """What such a file is, in a few words, for `perflog detect` and docs/formats.md."""
    source: str
    """Which programs and options write such files."""

    def detect(self, source: Source) -> bool:
        """Return whether this reader reads the file. It is asked only about files with its magic bytes."""

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return what proves the format: position, name and content of some events, for `perflog detect`."""

    def rank_info(self, source: Source) -> RankInfo | None:  # noqa: ARG002
        """Return what the file states about its rank; None if files of this type are never ranks of one run."""
        return None

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read a log into a sink: see `RunWriter` in `perflog.readers.events.event_table`.

        Raises:
            InputError: the file is damaged as a whole, or holds no events.
        """


class RankFileReader(Reader):
    """Reads files of which several are the ranks of one run. A file does not contain its rank; only its name can."""

    def rank_info(self, source: Source) -> RankInfo | None:  # noqa: ARG002
        return RankInfo()


class ReaderEntry(Struct, frozen=True):
    """Declares a reader, so that its module is imported only for a file that begins with its magic bytes.

    Args:
        reader: where the reader's class is, as `package.module:Class`. It is called without arguments.
        magic: how its files begin once they are decompressed; a byte order mark and whitespace may be before it.
        fallback: the reader accepts every file with its magic bytes, to say what the file lacks. It is asked last.
        then: what follows after whitespace, if other files begin with these magic bytes too: one of these; () for any.
    """

    reader: str
    magic: tuple[bytes, ...]
    fallback: bool = False
    then: tuple[bytes, ...] = ()


def proof_by_counts(counts: Sequence[tuple[str, int]], noun: str) -> list[tuple[int, str, str]]:
    """Return the proof of a file that stores its events in tables: the first position in each that has some.

    Args:
        counts: the tables in the order in which they are read, with their numbers of events.
        noun: what the events are in the file, such as "rows".
    """
    ends = accumulate(count for _, count in counts)
    return [(end - n + 1, name, f"{n} {noun}") for (name, n), end in zip(counts, ends, strict=True) if n]
