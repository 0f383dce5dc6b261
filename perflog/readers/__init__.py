"""Inputs that are not lines: traces and databases. A reader knows its own by their content and gives the same tables.

A reader is a module with NAME (the run's format), TITLE, SOURCE, `sees(source)`, `proof(source)`, and
`read(source, sink, label, threads, progress, processes)`. An event is to it what a line is elsewhere: `line` is the
place of the event in its file, from 1, and `part` the file, from 0, where several make one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from perflog.parsing.input.source import Source, open_source

_READERS = {
    "perflog.readers.rocprof": (b"{",),
    "perflog.readers.chrome": (b"{", b"["),
    "perflog.readers.rocpd": (b"SQLite format 3\0",),
    "perflog.readers.nsys": (b"SQLite format 3\0",),
}
"""Modules, and how their files begin, so that a log of lines loads none of them."""

_BLANK = b"\xef\xbb\xbf \t\r\n"
_LOOK = 1 << 12


def reader_of(source: Source) -> Any:
    """The reader that knows this log, or None: then it is a log of lines."""
    start = source.parts[0].start(_LOOK).lstrip(_BLANK)
    for name, begins in _READERS.items():
        if start.startswith(begins):
            reader = import_module(name)
            if reader.sees(source.parts[0]):
                return reader
    return None


def grouped(names: Sequence[str]) -> list[str]:
    """The logs among names of files: traces that are the ranks of one run become one, named name{0,1}.json."""
    if len(names) < 2:
        return list(names)
    traces: dict[str, dict[str, Any]] = {}
    for name in names:
        told = _told(name)
        if told is not None:
            traces[name] = told
    if len(traces) < 2:
        return list(names)
    from perflog.parsing.input.references import unbraced
    from perflog.readers.ranks import together

    joined = together(list(traces.items()))
    place = {file: name for name in joined for file in (unbraced(name) if name not in traces else [name])}
    return list(dict.fromkeys(place.get(name, name) for name in names))


def _told(name: str) -> dict[str, Any] | None:
    """What a file says of itself if it is a trace; None for all else, and for what only reading tells is wrong."""
    import os

    from perflog.errors import InputError

    if not os.path.isfile(name):
        return None
    try:
        with open_source(name) as source:
            reader = reader_of(source)
            return reader.said(source) if reader is not None and hasattr(reader, "said") else None
    except InputError:
        return None
