"""Lines that a log's families have shown: unread lines of a batch -> new Lines, in the order of the log.

The result is to depend on the log alone, not on its chunks. So texts are tried in the order of the log, and new Lines
go behind those there are: what was read stays read as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from perflog.arrow import indices, matching
from perflog.batch import Batch, strings
from perflog.columnar import Ints
from perflog.declared import Family, Format, Line
from perflog.scan import BARE, LABELS, Kind, unlabelled
from perflog.template import unnamed

MOST = 256
"""Lines that one family gives at most: a log with more has keys that are no names."""

LONGEST = 1 << 16
"""A line of as many bytes is not tried."""

Families = Sequence[tuple[Format, Family]]


def families_of(formats: Iterable[Format]) -> list[tuple[Format, Family]]:
    """All families of the formats, each with its format."""
    return [(form, family) for form in formats for family in form.families]


def patterns_of(families: Iterable[Family]) -> list[str]:
    """Patterns of lines that could be of one of the families, rank labels in front or not."""
    return [f"^{LABELS}*(?s:{family.pattern})" for family in families]


def line_of(formats: Iterable[Format], shape: str, text: str) -> Line | None:
    """The Line of a shape that a family of one of the formats gave, from a text that it reads."""
    bare = unlabelled(text.encode()).decode()
    lines = (line for _, family in families_of(formats) for line in family.lines(bare))
    return next((line for line in lines if line.template.text == shape), None)


class Grown:
    """The Lines found so far. `warnings` tells of families that have too many."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self._known: set[tuple[str, str, str]] = set()  # format, family, text of the template
        self._count: Counter[tuple[str, str]] = Counter()

    def find(self, families: Families, batch: Batch) -> list[Kind]:
        """New Lines that the unread lines of a batch show."""
        growing = [(form, x) for form, x in families if self._count[form.name, x.name] < MOST]
        if not growing or not len(batch.unread):
            return []
        new: list[Kind] = []
        texts = _bare(batch, patterns_of(x for _, x in growing))
        while len(texts):
            fresh = self._shown(growing, texts[0].as_py())
            new += fresh
            texts = texts.slice(1)
            if fresh and len(texts):
                read = [f"^(?s:{unnamed(line.template.pattern)})$" for _, line in fresh]
                texts = texts.take(indices(~matching(texts, read)))
        return new

    def _shown(self, families: Families, text: bytes) -> list[Kind]:
        """The new Lines of the first family that a text is of."""
        for form, family in families:
            lines = family.lines(text.decode("utf-8", "surrogateescape"))
            if lines:
                fresh = [x for x in lines if (form.name, family.name, x.template.text) not in self._known]
                return self._added(form, family, fresh)
        return []

    def _added(self, form: Format, family: Family, fresh: Sequence[Line]) -> list[Kind]:
        count = self._count[form.name, family.name] + len(fresh)
        if count > MOST:
            self._count[form.name, family.name] = MOST
            more = f"lines of `{family.name}` ({form.name}) have more than {MOST} shapes: the others stay unread"
            if more not in self.warnings:
                self.warnings.append(more)
            return []
        self._count[form.name, family.name] = count
        self._known.update((form.name, family.name, x.template.text) for x in fresh)
        return [(form, x) for x in fresh]


def _bare(batch: Batch, patterns: Iterable[str]) -> pa.Array:
    """Texts of the unread lines that match a pattern, without rank labels and blanks at the end."""
    rows: Ints = batch.rows(batch.unread)
    rows = rows[batch.ends[rows] - batch.starts[rows] < LONGEST]
    texts = strings(batch.chunk.data, batch.starts[rows], batch.ends[rows])
    return pc.replace_substring_regex(texts.take(indices(matching(texts, patterns))), BARE, "")
