"""What a worker does: a piece of a trace decoded, its rows put into a file, its ranges and calls picked out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from perflog.readers.columns import NONE, Columns
from perflog.readers.decode import Decoded, Decoder
from perflog.readers.filling import STEP, picked
from perflog.readers.spool import Kept, keep


@dataclass
class Found:
    """What a worker found in a piece: its rows lie in the worker's file, what is needed before them comes along."""

    decoded: Decoded
    kept: Kept | None
    ranges: Columns
    calls: Columns
    begin: int  # the earliest start


class Finder:
    """Decodes pieces, puts their rows into a file, and picks out ranges and calls."""

    def __init__(self) -> None:
        self.decoder = Decoder()
        self._steps = np.zeros(0, np.int32)
        self._names = 0

    def __call__(self, text: memoryview, file: Any) -> Found | None:
        """What is found in `[...]`; None if that is no array of whole events."""
        decoded = self.decoder.whole(text)
        return None if decoded is None else self.found(decoded, file)

    def found(self, decoded: Decoded, file: Any) -> Found:
        new, rows = decoded.new["name"], decoded.rows
        more = [self._names + i for i, name in enumerate(new) if STEP.match(name)]
        self._steps = np.concatenate([self._steps, np.array(more, np.int32)])
        self._names += len(new)
        ranges, calls = picked(rows, self._steps)
        kept = keep(file, rows) if len(rows["place"]) else None
        starts = rows["start"][rows["start"] != NONE]
        decoded.rows = {}
        return Found(decoded, kept, ranges, calls, int(starts.min()) if len(starts) else NONE)
