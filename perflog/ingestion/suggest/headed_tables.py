"""Drafts `[[table]]` entries: a header that names columns, and rows with as many cells under it.

Commas, tabs, bars or blanks separate the cells. A header of words and blanks could be a sentence, so each cell of its
rows must stand under its own name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow.compute as pc

from perflog.formats.families.header_tables import is_rule, split
from perflog.formats.families.missing_values import NO_VALUE
from perflog.formats.figures import figure_spans
from perflog.formats.tokens import NUMBER, OPAQUE, tokens
from perflog.ingestion.suggest import name_evidence, naming, printed_tables
from perflog.ingestion.suggest.line_draft import TEXT, LineDraft, Slot
from perflog.ingestion.suggest.line_shapes import LineShape
from perflog.ingestion.suggest.naming import Named
from perflog.parsing.match.records import Batch, strings
from perflog.tables.arrow import mask_of
from perflog.tables.row_order import PART_BITS
from perflog.units import unit_of

_NAME = r'"?[A-Za-z_#][^,:={}"\t]*"?'
_HEADER = re.compile(rf"(?:{_NAME})?(?:, ?{_NAME})+|(?:{_NAME})?(?:\t *{_NAME})+")
STYLES = {"tab": "blanks", "csv": "csv", "bars": "bars", "left": "left", "blanks": "blanks", "words": "words"}
"""What may separate cells -> the style of the `[[table]]` entry, in the order in which they are tried."""
_MARKS = ("tab", "csv", "bars")
_PARTS = re.compile(r"[^ \t]+(?: [^ \t]+)*")  # what two blanks separate
_SPANS = {"left": _PARTS, "blanks": _PARTS, "words": re.compile(r"[^ \t]+")}
_WORD_OR_CLOCK = r"[ \t]*(?:[^ \t]*[A-Za-z][^ \t]*|[|#]+|[0-9]{1,2}:[0-9]{2}:[0-9]{2})"
_POSSIBLE = rf"^(?:(?:{_WORD_OR_CLOCK}){{3,}}|(?:{_HEADER.pattern}))[ \t]*$"
_POSSIBLE_BELOW = r"(?i)(?:^|[ \t,|])\"?[+-]?(?:[0-9.]|nan|inf)|^[-=+|: \t]+$"  # a row or a rule
_CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?: [AP]M)?|[AP]M")  # in front of the names of a header
_ROWS = 200  # rows below a header that show what its columns hold
_MOST_HEADERS = 40  # headers of a log that are tried
_LONGEST = 1 << 14  # bytes of a header or a row
_FEW = 2  # columns of a table that could be a sentence with a comma: it needs as many rows
_VALUE = re.compile(
    r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?i:nan|[+-]?inf(?:inity)?)"
)
_NO_CELL = re.compile(r".*[:=]|[0-9]+/[0-9]+|[^\w-]")  # a name with its mark, a count of a total, a mark alone
_NAMED_VALUE = re.compile(r"[A-Za-z)] ?[:=] ?[+-]?[0-9.]+(?![0-9:.])")  # `images/sec: 127.9` names its own figure
_VALUE_AND_UNIT = re.compile(rf"(?P<value>{_VALUE.pattern})(?P<unit> ?[^\d\s.,:/-][^\s\d]*)?")
_BILLIONS = " B"  # or bytes


@dataclass
class TableDraft(LineDraft):
    """A `[[table]]` entry while it is drafted.

    Attributes:
        style: The style of the `[[table]]` entry.
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


def find_tables(batch: Batch) -> Iterator[TableDraft]:
    """Yield a draft for each header among the unread lines of a batch that has rows under it."""
    if not len(batch.unread):
        return
    rows = batch.rows(batch.unread)
    begin = batch.starts[rows].astype(np.int64)
    texts = strings(batch.chunk.data, begin, np.minimum(batch.ends[rows].astype(np.int64), begin + _LONGEST))
    possible = mask_of(pc.match_substring_regex(texts, _POSSIBLE))
    followed = mask_of(pc.match_substring_regex(texts, _POSSIBLE_BELOW))
    end = 0
    for place in np.flatnonzero(possible[:-1] & followed[1:])[:_MOST_HEADERS].tolist():
        if place < end:
            continue
        lines = [x.decode("utf-8", "replace").rstrip() for x in texts.slice(place, _ROWS + 1).to_pylist()]
        tables = (_Printed.of(lines, style) for style in STYLES)
        table = next((t for t in tables if t is not None and t.names_columns()), None)
        draft = _draft(table, int(batch.unread[place]) >> PART_BITS) if table is not None else None
        if draft is not None:
            end = place + draft.shape.count
            yield draft


@dataclass(frozen=True)
class _Printed:
    """A header and the rows under it, cut into cells.

    Attributes:
        style: What separates the cells: a key of `STYLES`.
        lines: The lines, the header first.
        names: The cells of the header.
        rows: The cells of the rows, as many in each as in the header.
        rules: The number of rules between the header and the first row.
    """

    style: str
    lines: Sequence[str]
    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    rules: int

    @classmethod
    def of(cls, lines: Sequence[str], style: str) -> _Printed | None:
        """Return the table that begins with the first of these lines; None if no rows of values follow."""
        cut = _cells_at(lines[0]) if style == "left" else partial(_cells, style=style)
        names = cut(lines[0])
        rules = next((k for k, text in enumerate(lines[1:]) if not is_rule(text)), 0)
        rows: list[list[str]] = []
        following = ""
        for text in lines[1 + rules :]:
            cells = cut(text)
            has_value = any(_value_and_unit(x) for x in cells)
            if len(cells) != len(names) or not has_value or any(_NAMED_VALUE.search(x) for x in cells):
                following = text
                break
            rows.append(cells)
        has_rows = len(rows) >= (_FEW if len(names) <= _FEW else 1)
        words = following.split()
        is_cut_off = sum(_VALUE.fullmatch(x) is not None for x in words) * 2 > len(words)  # a row of other cells
        if not has_rows or (is_cut_off and style not in _MARKS):
            return None
        return cls(style, lines[: 1 + rules + len(rows)], names, rows, rules)

    def columns(self) -> dict[str, list[str]]:
        """Return the cells of each column by its name, without prefixes: what the header and each row begin with."""
        columns = [(name, [row[k] for row in self.rows]) for k, name in enumerate(self.names)]
        is_prefix = [set(cells) == {name} or (_CLOCK.fullmatch(name) is not None) for name, cells in columns]
        first = is_prefix.index(False) if False in is_prefix else len(columns)
        return dict(columns[first:])

    def names_columns(self) -> bool:
        """Whether the first line can only be a header: each column has its own name, and each cell stands under it."""
        columns = self.columns()
        names = list(columns)
        if not names or len(set(self.names)) < len(self.names):
            return False
        if self.style in ("csv", "tab"):
            return _HEADER.fullmatch(self.lines[0]) is not None
        if any(_NO_CELL.fullmatch(x) for name, cells in columns.items() for x in (name, *cells)):
            return False
        are_names = all(re.search("[A-Za-z]", name) and not figure_spans(name) for name in names if name)
        words = [word for name in names for word in name.lower().split()]
        if len(names) <= _FEW or not are_names or not name_evidence.SENTENCE_WORDS.isdisjoint(words):
            return False
        if self.style in ("bars", "left"):
            return True
        return "\t" not in self.lines[0] and all(self._is_aligned(text) for text in self.lines[1 + self.rules :])

    def _is_aligned(self, text: str) -> bool:
        """Whether each cell of a row stands under its own name, or under none."""
        names, cells = ([match.span() for match in _SPANS[self.style].finditer(line)] for line in (self.lines[0], text))
        above = ({i for i, (a, b) in enumerate(names) if a < end and begin < b} for begin, end in cells)
        return len(cells) == len(names) and all(not places or k in places for k, places in enumerate(above))


def _draft(table: _Printed, first: int) -> TableDraft | None:
    """Return the entry for a table; None if no column has a number in each row."""
    columns = table.columns()
    always = [n for n, cells in columns.items() if n and all(_VALUE.fullmatch(x) for x in cells)]
    if not always:
        return None
    needs = always[:2] if table.style in ("csv", "tab") else always
    draft = TableDraft(LineShape(first, len(table.rows)), [], style=STYLES[table.style], needs=needs)
    draft.block = "\n".join(table.lines[: 1 + table.rules + min(len(table.rows), 2)])
    for name, cells in columns.items():
        values = [x for x in cells if x not in NO_VALUE]
        if table.style in ("csv", "tab"):
            _add_column(draft, name, values)
        elif not draft.columns and not all(_VALUE.fullmatch(x) for x in values):  # the names of the rows
            draft.columns[name], draft.forms[name] = Slot(TEXT, values, [""] * len(values), "s"), ["{{}:s}"]
        elif not any(figure_spans(x) and not _value_and_unit(x) for x in values):
            _add_column(draft, name, values)
            if name in draft.columns and draft.columns[name].kind == TEXT and any(map(figure_spans, values)):
                del draft.columns[name], draft.forms[name]  # units that differ: `24.5KiB`, `1.5MiB`
    _name_columns(draft)
    return draft


def _value_and_unit(cell: str) -> tuple[str, str] | None:
    """Return the number in a cell, and the unit behind it; None for another cell: `12 openat`, `6.75 B`."""
    match = _VALUE_AND_UNIT.fullmatch(cell)
    unit = (match["unit"] or "") if match is not None else ""
    is_word = unit[:1] == " " and (unit == _BILLIONS or not unit_of(unit)[0])
    return (match["value"], unit) if match is not None and not is_word else None


def _cells(text: str, style: str) -> list[str]:
    cells = [x.strip() for x in split(text, style)]
    return cells[:-1] if style in _MARKS and cells[1:] and not cells[-1] else cells  # a mark ends each line


def _cells_at(header: str) -> Callable[[str], list[str]]:
    """Return what cuts a row where the names of a header begin; a row in which a cell begins elsewhere has no cells."""
    starts = [match.start() for match in _PARTS.finditer(header)]

    def cut(text: str) -> list[str]:
        cells = [text[begin:end] for begin, end in zip(starts, [*starts[1:], None], strict=True)]
        is_apart = all(text[begin - 1 : begin] in ("", " ") for begin in starts[1:]) and not text[: starts[0]].strip()
        are_left = all(cell[:1] != " " or not cell.strip() for cell in cells)
        return [cell.strip() for cell in cells] if is_apart and are_left else []

    return cut


def _add_column(draft: TableDraft, name: str, cells: Sequence[str]) -> None:
    """Add a column with the templates of its cells, if it holds figures or words that a table can take."""
    gaps = [""] * len(cells)
    reals = ["{{}:r}", "{{}:,.2f}"] if any("," in x for x in cells) else ["{{}:r}"]
    numbers = [number for x in cells if (number := _value_and_unit(x))]
    units = {unit for _, unit in numbers}
    if name.lower() in naming.NO_FIGURES:
        draft.dropped[name] = naming.NO_FIGURES[name.lower()]
    elif not cells and name:  # no row fills it: it may hold numbers below
        draft.columns[name], draft.forms[name] = Slot(NUMBER, [], [], "r"), ["{{}:r}"]
    elif cells and all(_VALUE.fullmatch(x) for x in cells) and all(len(x) <= 18 or "." in x for x in cells):
        integers = all(re.fullmatch(r"[+-]?[0-9]+", x) for x in cells)
        draft.columns[name] = Slot(NUMBER, list(cells), gaps, "d" if integers else "r")
        draft.forms[name] = ["{{}:d}", *reals] if integers else reals
    elif len(numbers) == len(cells) and len(units) == 1:
        unit = units.pop().replace("{", "{{").replace("}", "}}")
        draft.columns[name] = Slot(NUMBER, [value for value, _ in numbers], gaps, "r", Named(unit))
        draft.forms[name] = [real + unit for real in reals]
    elif any(figure_spans(x) for x in cells) or not all(t.kind == OPAQUE for x in cells for t in tokens(x)):
        bare = [x for x in cells if _VALUE.fullmatch(x)]
        texts = bare or list(cells)
        draft.columns[name] = Slot(NUMBER if bare else TEXT, texts, [""] * len(texts), "r" if bare else "s")
        draft.forms[name] = [*reals, "{_:s}"] if bare else ["{{}:s}"]


def _name_columns(draft: TableDraft) -> None:
    """Name the columns by the header, and give a list of kernels its table."""
    names = []
    for printed, slot in draft.columns.items():
        suffix = slot.named.name if slot.kind == NUMBER and slot.named.name != "_" else ""
        if "%" in (printed[0:1], printed[-1:]):  # `%usr`, `VRAM%`
            names.append(Named(naming.slug(printed.replace("%", " percent ")), "%", printed_tables.HEADER_SAYS))
            continue
        before = re.sub(r"\[([^\]]*)\]\s*$", r"(\1)", printed.lstrip("#"))
        is_time = any("." in text for text in slot.texts)  # in seconds, where `GPU(s)` counts them
        before = re.sub(r"(?<=\w)\(s\)$", " (s)" if is_time else "s", before)
        named = naming.name(naming.Surroundings(f"{before}: ", suffix, slot.texts or ["0.0"]))
        is_column = bool(named.printed) or draft.style != "csv" or not naming.says_unit(named)
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
