"""Reads what only the order of the lines shows: rows of printed tables, bodies of blocks, blocks of settings, headings,
facts of the job above its results.

These passes follow the scan of each batch. What is open where a batch ends goes on in the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perflog.parsing.match.ordered.block_bodies import OpenBlocks, ends_with_body, read_bodies
from perflog.parsing.match.ordered.fact_lines import with_facts
from perflog.parsing.match.ordered.header_rows import HeaderRowReader, OpenTables
from perflog.parsing.match.ordered.indented_headings import with_headings
from perflog.parsing.match.ordered.setting_blocks import Above, without_settings
from perflog.parsing.match.records import Batch, FormatLine


class OpenAtEnd(Struct, frozen=True):
    """What may go on after a batch: its open tables and blocks, and its last lines."""

    tables: OpenTables = {}
    blocks: OpenBlocks = {}
    above: Above = ()


class OrderedLines:
    """Reads the lines of one log, batch after batch."""

    def __init__(self) -> None:
        self._header_rows = HeaderRowReader()

    @property
    def warnings(self) -> Sequence[str]:
        """What the user should know of the tables."""
        return self._header_rows.warnings

    def read(self, lines: list[FormatLine], batch: Batch, before: OpenAtEnd) -> tuple[Batch, OpenAtEnd]:
        """Return a batch with these lines, and what is open where it ends.

        Args:
            lines: The lines of the scanner; the Lines of rows are added to them.
            batch: The batch as scanned.
            before: What is open where it begins.
        """
        batch, tables = self._header_rows.read(lines, batch, before.tables)
        batch, blocks = read_bodies(lines, batch, before.blocks)
        batch, above = without_settings(lines, batch, before.above)
        batch = with_facts(lines, with_headings(lines, batch), before.above)
        return batch, OpenAtEnd(tables, blocks, above)

    def undecided(self, lines: Sequence[FormatLine], batch: Batch) -> bool:
        """Return whether only the next batch shows what the last lines of a batch belong to."""
        return self._header_rows.ends_with_rule(lines, batch) or ends_with_body(lines, batch)
