"""Lines that a log's families have shown: unread lines of a batch -> new Lines, in the order of the log.

The result is to depend on the log alone, not on its chunks. So texts are tried in the order of the log, and new Lines
go behind those there are: what was read stays read as it was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from perflog.formats.model import Family, Format, Line
from perflog.formats.template import unnamed
from perflog.parsing.match.numeric import Ints
from perflog.parsing.match.rank_labels import BARE, LABELS, strip_rank_labels
from perflog.parsing.match.records import Batch, FormatLine, strings
from perflog.tables.arrow import index_array, matching_mask

MOST = 256
"""Lines that one family gives at most: a log with more has keys that are no names."""

ROOM = 1 << 18
"""Bytes of all their patterns at most: they are compiled anew for each chunk."""

LONGEST = 1 << 14
"""A line of as many bytes is not tried: the patterns of families are Python's, whose time may grow with its square."""

_BLOCK = 64  # texts tried before the rest is asked which of them are read by now
Families = Sequence[tuple[Format, Family]]


def families_of(formats: Iterable[Format]) -> list[tuple[Format, Family]]:
    """All families of the formats, each with its format."""
    return [(form, family) for form in formats for family in form.families]


def patterns_of(families: Iterable[Family]) -> list[str]:
    """Patterns of lines that could be of one of the families, rank labels in front or not."""
    return [f"^{LABELS}*(?s:{family.pattern})" for family in families]


def line_of(formats: Iterable[Format], shape: str, text: str) -> Line | None:
    """The Line of a shape that a family of one of the formats gave, from a text that it reads."""
    bare = strip_rank_labels(text.encode()).decode()
    lines = (line for _, family in families_of(formats) for line in family.lines(bare))
    return next((line for line in lines if line.template.text == shape), None)


class TemplateDiscovery:
    """The Lines found so far. `warnings` tells of families that have too many."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self._known: set[tuple[str, str, str]] = set()  # format, family, text of the template
        self._count: Counter[tuple[str, str]] = Counter()
        self._size: Counter[tuple[str, str]] = Counter()
        self._full: set[tuple[str, str]] = set()
        self._tried: tuple[list[tuple[str, str]], int] = [], -1  # which families, up to which place

    def find(self, families: Families, batch: Batch) -> list[FormatLine]:
        """New Lines that the unread lines of a batch show. Each line is tried once: its text always gives the same."""
        names = [(form.name, family.name) for form, family in families]
        since = self._tried[1] if self._tried[0] == names else -1
        if self._full.issuperset(names) or not len(batch.unread):
            return []
        self._tried = names, int(batch.unread.max())
        new: list[FormatLine] = []
        texts = _bare(batch, since, patterns_of(family for _, family in families))
        while len(texts):
            block, texts, patterns = texts.slice(0, _BLOCK), texts.slice(_BLOCK), []
            while len(block):
                shown = self._shown(families, block[0].as_py(), new)
                block = block.slice(1)
                if shown:
                    read = [f"^(?s:{unnamed(line.template.pattern)})$" for line in shown]
                    block = block.take(index_array(~matching_mask(block, read)))
                    patterns += read
            texts = texts.take(index_array(~matching_mask(texts, patterns))) if patterns else texts
        return new

    def _shown(self, families: Families, text: bytes, new: list[FormatLine]) -> tuple[Line, ...]:
        """The Lines of the first family that a text is of; those not known yet are added to `new`."""
        for form, family in families:
            if (form.name, family.name) in self._full:
                if re.match(f"(?s:{family.pattern})".encode(), text):
                    return ()  # it has taken what begins so
            elif lines := family.lines(text.decode("utf-8", "surrogateescape")):
                new += self._added(form, family, lines)
                return lines
        return ()

    def _added(self, form: Format, family: Family, lines: Sequence[Line]) -> list[FormatLine]:
        of = form.name, family.name
        fresh = [x for x in lines if (*of, x.template.text) not in self._known]
        count = self._count[of] + len(fresh)
        size = self._size[of] + sum(len(x.template.pattern) for x in fresh)
        if count > MOST or size > ROOM:
            self._full.add(of)
            more = f"have more than {self._count[of]} shapes: the others stay unread"
            self.warnings.append(f"lines of `{family.name}` ({form.name}) {more}")
            return []
        self._count[of], self._size[of] = count, size
        self._known.update((*of, x.template.text) for x in fresh)
        return [(form, x) for x in fresh]


def _bare(batch: Batch, since: int, patterns: Iterable[str]) -> pa.Array:
    """Texts of the unread lines behind a place that match a pattern, without rank labels and blanks at the end."""
    rows: Ints = batch.rows(batch.unread[batch.unread > since])
    rows = rows[batch.ends[rows] - batch.starts[rows] < LONGEST]
    texts = strings(batch.chunk.data, batch.starts[rows], batch.ends[rows])
    return pc.replace_substring_regex(texts.take(index_array(matching_mask(texts, patterns))), BARE, "")
