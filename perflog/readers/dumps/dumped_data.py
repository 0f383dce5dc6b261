"""Dumps of a process: dictionaries of plain data, as pickles or as JSON, with limits to what they may hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from perflog.errors import InputError
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.input.source import Source
from perflog.readers.dumps import plain_pickles

PICKLE = lazy_pattern(rb"\x80[\x02-\x05](?:\x95.{8})?\}", re.DOTALL)
"""The opcodes of a dictionary."""

_DEEPEST = 100  # lists in lists
_BITS = 1 << 12  # of a number that Python still prints
_SHARED = 100  # values for each byte of a pickle: it may name a list twice, and this list another twice, and so on


def dumped(source: Source, largest: int) -> dict[str, object]:
    """Return the data of a dump.

    Args:
        source: its file.
        largest: most bytes that it may have.

    Raises:
        InputError: it is larger, damaged, or more than plain data.
    """
    if source.size() > largest:
        raise InputError(f"more than {largest >> 20} MiB in one dump", source.name, "check that it is a dump")
    data = b"".join(map(bytes, source.blocks()))
    try:
        content = plain_pickles.load(data) if PICKLE.match(data) else json.loads(data)
    except Exception as error:
        raise InputError(f"the dump cannot be read: {error}", source.name, "copy it again from its node") from error
    if not _is_plain(content, _SHARED * len(data)):
        raise InputError(
            "this is not plain data: a list contains itself, or a number is too long",
            source.name,
            "check where the file comes from",
        )
    if not isinstance(content, dict):
        raise InputError("a dump must be a dictionary", source.name, "check where the file comes from")
    return content


def _is_plain(content: object, most: int) -> bool:
    """Whether a document ends: it has at most so many values, is not deep, and has no number of thousands of digits."""
    level, count = [content], 0
    for _ in range(_DEEPEST):
        containers = [value for value in level if isinstance(value, dict | list | tuple)]
        count += len(level)
        if any(isinstance(value, int) and value.bit_length() > _BITS for value in level):
            return False
        if not containers:
            return True
        if count + sum(map(len, containers)) > most:
            return False
        level = [part for value in containers for part in _parts(value)]
    return False


def _parts(container: Mapping[Any, Any] | Sequence[Any]) -> Iterator[Any]:
    """Give the values of a container, and the keys of a dictionary."""
    yield from container
    if isinstance(container, dict):
        yield from container.values()
