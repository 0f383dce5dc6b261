"""Drafts `[[table]]` entries for CSV in a log: a line of column names, and rows of values under it."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from perflog.formats.families.missing_values import NO_VALUE
from perflog.formats.figures import figure_spans
from perflog.formats.tokens import NUMBER, OPAQUE, tokens
from perflog.ingestion.suggest import naming, printed_tables
from perflog.ingestion.suggest.line_draft import TEXT, LineDraft, Slot
from perflog.ingestion.suggest.line_shapes import LineShape
from perflog.ingestion.suggest.naming import Named
from perflog.parsing.match.records import Batch, strings
from perflog.tables.arrow import mask_of
from perflog.tables.row_order import PART_BITS

_NAME = r'"?[A-Za-z_#][^,:={}"\t]*"?'
_HEADER = re.compile(rf"(?:{_NAME})?(?:, ?{_NAME})+|(?:{_NAME})?(?:\t{_NAME})+")
_ROWS = 200  # rows below a header that show what its columns hold
_MOST_HEADERS = 40  # headers of a log that are tried
_LONGEST = 1 << 14  # bytes of a header or a row
_FEW = 2  # columns of a table that could be a sentence with a comma: it needs as many rows
_VALUE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:nan|[+-]?inf(?:inity)?)")
_NAMED_VALUE = re.compile(r"[A-Za-z)] ?[:=] ?[+-]?[0-9.]+(?![0-9:.])")  # `images/sec: 127.9` names its own figure
_VALUE_AND_UNIT = re.compile(rf"(?P<value>{_VALUE.pattern})(?P<unit> ?[^\d\s.,:/-][^\s\d]*)")


@dataclass
class CsvDraft(LineDraft):
    """A `[[table]]` entry while it is drafted.

    Attributes:
        style: How the columns are separated: csv or blanks.
        needs: The printed names of columns that every row fills.
        columns: Printed name of each column -> the number or text in its cells.
        forms: Printed name of each column -> the templates of its cells, with `{}` for the name of the field.
        block: The header and some rows.
        dropped: Printed names of columns that hold no figures, each with the reason.
    """

    style: str = "csv"
    needs: list[str] = field(default_factory=list)
    columns: dict[str, Slot] = field(default_factory=dict)
    forms: dict[str, list[str]] = field(default_factory=dict)
    block: str = ""
    dropped: dict[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> dict[str, list[str]]:
        """Return the templates of the cells of each column."""
        return {
            name: [f.replace("{}", slot.field) for f in self.forms[name]][
                : 1 if slot.field in ("rank", "step") else None
            ]
            for name, slot in self.columns.items()
        }


def find_tables(batch: Batch) -> Iterator[CsvDraft]:
    """Yield a draft for each CSV header among the unread lines of a batch that has rows under it."""
    if not len(batch.unread):
        return
    rows = batch.rows(batch.unread)
    begin = batch.starts[rows].astype(np.int64)
    texts = strings(batch.chunk.data, begin, np.minimum(batch.ends[rows].astype(np.int64), begin + _LONGEST))
    possible = mask_of(pc.match_substring_regex(texts, rf"^(?:{_HEADER.pattern})[ \t]*$"))
    end = 0
    for place in np.flatnonzero(possible)[:_MOST_HEADERS].tolist():
        if place < end:
            continue
        lines = [x.decode("utf-8", "replace").rstrip() for x in texts.slice(place, _ROWS + 1).to_pylist()]
        draft = _draft(lines, int(batch.unread[place]) >> PART_BITS)
        if draft is not None:
            end = place + draft.shape.count
            yield draft


def _draft(lines: Sequence[str], first: int) -> CsvDraft | None:
    """Return the table whose header is the first of these lines; None if no rows of values follow."""
    mark = "\t" if "\t" in lines[0] else ","
    names = _cells(lines[0], mark)
    rows: list[list[str]] = []
    for text in lines[1:]:
        cells = _cells(text, mark)
        has_value = any(_VALUE.fullmatch(x) for x in cells)
        if len(cells) != len(names) or not has_value or any(_NAMED_VALUE.search(x) for x in cells):
            break
        rows.append(cells)
    if len(set(names)) < len(names) or len(rows) < (_FEW if len(names) <= _FEW else 1):
        return None
    columns = {name: [row[k] for row in rows] for k, name in enumerate(names)}
    always = [n for n, cells in columns.items() if n and all(_VALUE.fullmatch(x) for x in cells)]
    if not always:
        return None
    draft = CsvDraft(LineShape(first, len(rows)), [], style="csv" if mark == "," else "blanks", needs=always[:2])
    draft.block = "\n".join(lines[: 1 + min(len(rows), 2)])
    for name, cells in columns.items():
        _add_column(draft, name, [x for x in cells if x not in NO_VALUE])
    _name_columns(draft)
    return draft


def _cells(text: str, mark: str) -> list[str]:
    try:
        return [x.strip() for x in next(csv.reader([text], delimiter=mark), [])]
    except csv.Error:  # a cell longer than the module's limit
        return []


def _add_column(draft: CsvDraft, name: str, cells: Sequence[str]) -> None:
    """Add a column with the templates of its cells, if it holds figures or words that a table can take."""
    gaps = [""] * len(cells)
    suffixes = [match["unit"] for x in cells if (match := _VALUE_AND_UNIT.fullmatch(x))]
    if name.lower() in naming.NO_FIGURES:
        draft.dropped[name] = naming.NO_FIGURES[name.lower()]
    elif not cells and name:  # no row fills it: it may hold numbers below
        draft.columns[name], draft.forms[name] = Slot(NUMBER, [], [], "r"), ["{{}:r}"]
    elif cells and all(_VALUE.fullmatch(x) for x in cells) and all(len(x) <= 18 or "." in x for x in cells):
        integers = all(re.fullmatch(r"[+-]?[0-9]+", x) for x in cells)
        draft.columns[name] = Slot(NUMBER, list(cells), gaps, "d" if integers else "r")
        draft.forms[name] = ["{{}:d}", "{{}:r}"] if integers else ["{{}:r}"]
    elif len(suffixes) == len(cells) and len(set(suffixes)) == 1:
        unit = suffixes[0].replace("{", "{{").replace("}", "}}")
        draft.columns[name] = Slot(
            NUMBER, [_VALUE_AND_UNIT.sub(r"\g<value>", x) for x in cells], gaps, "r", Named(unit)
        )
        draft.forms[name] = ["{{}:r}" + unit]
    elif any(figure_spans(x) for x in cells) or not all(t.kind == OPAQUE for x in cells for t in tokens(x)):
        numbers = ["{{}:r}"] if any(_VALUE.fullmatch(x) for x in cells) else []
        draft.columns[name] = Slot(NUMBER if numbers else TEXT, list(cells), gaps, "r" if numbers else "s")
        draft.forms[name] = [*numbers, "{_:s}" if numbers else "{{}:s}"]


def _name_columns(draft: CsvDraft) -> None:
    """Name the columns by the header, and give a list of kernels its table."""
    names = []
    for printed, slot in draft.columns.items():
        suffix = slot.named.name if slot.kind == NUMBER and slot.named.name != "_" else ""
        before = re.sub(r"\[([^\]]*)\]\s*$", r"(\1)", printed.lstrip("#"))
        named = naming.name(naming.Surroundings(f"{before}: ", suffix, slot.texts or ["0.0"]))
        is_column = bool(named.printed) or not naming.says_unit(named)
        names.append(named if is_column else Named(naming.slug(printed)))  # as printed: `epoch_time_ms`
    draft.slots = list(draft.columns.values())
    settled = naming.settled(names, [])
    kernels = printed_tables.kernel_columns([printed_tables.header_column(name) for name in draft.columns])
    is_timed = kernels is not None and any(n.name in ("time", "avg") and n.unit for n in kernels)
    for slot, named in zip(draft.slots, kernels if kernels is not None and is_timed else settled, strict=True):
        slot.named = named
    if is_timed:
        draft.table = "kernels"
        draft.why.append("the table's header names the columns")
