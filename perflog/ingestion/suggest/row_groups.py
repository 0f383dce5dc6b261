"""Groups of rows `| name | number |`: a row `| time/ | |` above them names their group."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from perflog.ingestion.suggest import naming
from perflog.ingestion.suggest.line_draft import LineDraft
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.match.records import Batch, strings
from perflog.tables.arrow import index_array, mask_of
from perflog.tables.row_order import PART_BITS

_ROW = lazy_pattern(r"[ \t]*\|(?P<gap>[ \t]*)(?P<name>[^|]*[^| \t])[ \t]*\|[ \t]*(?P<value>[^|]*?)[ \t]*\|[ \t]*")
_LONGEST = 200  # bytes of a row


class RowGroups(Struct):
    """The groups of the rows of a log.

    Attributes:
        groups: The groups of each row, by its name; "" for none.
    """

    groups: dict[str, set[str]] = field(default_factory=dict)
    _group: str = ""
    _last_line: int = -1

    def add(self, batch: Batch) -> None:
        """Add the unread lines of a batch."""
        if not len(batch.unread):
            return
        rows = batch.rows(batch.unread)
        begin = batch.starts[rows].astype(np.int64)
        texts = strings(batch.chunk.data, begin, np.minimum(batch.ends[rows].astype(np.int64), begin + _LONGEST))
        possible = np.flatnonzero(mask_of(pc.match_substring_regex(texts, r"^[ \t]*\|[^|]*\|[^|]*\|[ \t]*$")))
        for place, text in zip(possible.tolist(), texts.take(index_array(possible)), strict=True):
            self._add_row(int(batch.unread[place]) >> PART_BITS, text.as_py().decode("utf-8", "replace"))

    def _add_row(self, line: int, text: str) -> None:
        match = _ROW.fullmatch(text)
        if match is None or line != self._last_line + 1:
            self._group = ""
        self._last_line = line
        if match is None:
            return
        if match["name"].endswith("/") and not match["value"]:
            self._group = match["name"]
        else:
            self.groups.setdefault(match["name"], set()).add(self._group)

    def rename(self, draft: LineDraft) -> None:
        """Name the number of a row after its group too, if the row always is in the same one."""
        match = _ROW.fullmatch(next(iter(draft.shape.lines), ""))
        if match is None or len(draft.numbers) != 1:
            return
        groups = self.groups.get(match["name"], {""})
        if len(groups) == 1 and (group := next(iter(groups))):
            slot = draft.numbers[0]
            slot.named = replace(slot.named, name=naming.slug(f"{group}{match['name']}", 8), printed="")
