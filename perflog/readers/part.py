"""What is known of one trace when it has been read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from perflog.parsing.input.source import Source
from perflog.readers.columns import NONE, Columns
from perflog.readers.spool import Kept


@dataclass
class Part:
    """One file, read once. `pieces`: the worker whose file holds the rows, where, and the place they count from.

    `shapes`: (status, shape) -> count, place of the first, its text. Ranges and calls have codes of the vocabularies.
    """

    source: Source
    said: dict[str, Any] = field(default_factory=dict)
    pieces: list[tuple[int, Kept, int]] = field(default_factory=list)
    count: int = 0
    begin: int = NONE  # the earliest start in the first piece that has any
    shapes: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    ranges: list[Columns] = field(default_factory=list)
    calls: list[Columns] = field(default_factory=list)
    processes: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def account(self, status: str, shape: str, count: int, first: int, sample: str) -> None:
        """Count events of a shape."""
        entry = self.shapes.setdefault((status, shape), [0, first, sample])
        entry[0] += count
        if not entry[0]:
            del self.shapes[status, shape]
