"""Drafts `[[table]]` entries: a header that names columns, and rows with as many cells under it.

Commas, tabs, bars or blanks separate the cells. A header of words and blanks could be a sentence, so each cell of its
rows must stand under its own name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow.compute as pc
from msgspec import Struct, field

from perflog.formats.families.header_tables import is_rule, split, without_bar
from perflog.formats.families.missing_values import NO_VALUE
from perflog.formats.figures import figure_spans
from perflog.formats.tokens import MARK, NAME, NUMBER, OPAQUE, skeleton, tokens
from perflog.ingestion.suggest import name_evidence, naming
from perflog.ingestion.suggest.line_draft import LITERAL, TEXT, LineDraft, Slot, draft, text_of
from perflog.ingestion.suggest.line_shapes import LineShape, figures_only
from perflog.ingestion.suggest.naming import Named
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.match.records import Batch, strings
from perflog.tables.arrow import mask_of
from perflog.tables.row_order import PART_BITS
from perflog.units import DURATIONS, unit_of

_NAME = r'"?[A-Za-z_#][^,:={}"\t]*"?'
_HEADER = lazy_pattern(rf"(?:{_NAME})?(?:, ?{_NAME})+|(?:{_NAME})?(?:\t *{_NAME})+")
_STYLES = ("tab", "csv", "bars", "left", "blanks", "words")  # of a `[[table]]`, in the order of trying
_MARKS = ("tab", "csv", "bars")
_PLAIN_MARKS = ("tab", "csv")  # of files for programs: no cell is padded
_PARTS = lazy_pattern(r"[^ \t]+(?: [^ \t]+)*")  # what two blanks separate
_SPANS = {"left": _PARTS, "blanks": _PARTS, "words": re.compile(r"[^ \t]+")}
_WORD_OR_CLOCK = r"[ \t]*(?:[^ \t]*[A-Za-z][^ \t]*|[|#]+|\(?%\)?|[0-9]{1,2}:[0-9]{2}:[0-9]{2})"
_POSSIBLE = rf"^(?:(?:{_WORD_OR_CLOCK}){{3,}}(?:[ \t]+[0-9]+%.*)?|(?:{_HEADER.pattern}))[ \t]*$"
_POSSIBLE_BELOW = r"(?i)(?:^|[ \t,|])\"?[+-]?(?:[0-9.]|nan|inf)|^[-=+|: \t]+$|^#"  # a row, a rule or a comment
_CLOCK = lazy_pattern(r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?: [AP]M)?|[AP]M")  # in front of the names of a header
_ROWS = 200  # rows below a header that show what its columns hold
_MOST_HEADERS = 40  # headers of a log that are tried
_LONGEST = 1 << 14  # bytes of a header or a row
_FEW = 2  # columns of a table that could be a sentence with a comma: it needs as many rows
_VALUE = lazy_pattern(
    r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?i:nan|[+-]?inf(?:inity)?)"
)
_NO_CELL = lazy_pattern(r".*[:=]|[^\w#-]")  # a name with its mark, a mark alone
_COUNT = lazy_pattern(r"[0-9]+/[0-9]+")  # of a total
_NAMED_VALUE = lazy_pattern(r"[A-Za-z)] ?[:=] ?[+-]?[0-9.]+(?![0-9:.])")  # `images/sec: 127.9` names its own figure
_VALUE_AND_UNIT = lazy_pattern(rf"(?P<value>{_VALUE.pattern})(?P<unit> ?[^\d\s.,:/-][^\s\d]*)?")
_GLUED = frozenset("k K M G T c x".split())  # behind a number, beside units
_MOST_DIGITS = 18
_HEADER_SAYS = "the table's header says so"
_KERNELS = {
    "share": "time_percent|percentage|percent|share|time_pct|total",
    "time": "time|total_time|total_duration|total|time_total|total_duration_ns",
    "calls": "calls|num_calls|instances|count|of_calls|calls_number",
    "avg": "avg|average|mean|average_ns|avg_time",
    "min": "min|minimum|minimum_ns|min_ns|min_time",
    "max": "max|maximum|maximum_ns|max_ns|max_time",
    "name": "name|kernel|operation|kernel_name",
}


class TableDraft(LineDraft):
    """A `[[table]]` entry while it is drafted.

    Attributes:
        style: The style of the `[[table]]` entry.
        needs: The printed names of columns that every row fills.
        columns: Printed name of each column -> what its cells consist of.
        other_forms: Printed name of a column -> further ways in which its cells are printed, with `{}` for the name
            of the field.
        block: The header and some rows.
        dropped: Printed names of columns that hold no figures, each with the reason.
        comments: Comments of the file between the header, which is one too, and the rows.
    """

    style: str = "csv"
    needs: list[str] = field(default_factory=list)
    columns: dict[str, list[Slot]] = field(default_factory=dict)
    other_forms: dict[str, Sequence[str]] = field(default_factory=dict)
    block: str = ""
    dropped: dict[str, str] = field(default_factory=dict)
    comments: Sequence[str] = ()

    @property
    def header(self) -> tuple[str, ...]:
        """The words of the header."""
        return tuple(self.block.partition("\n")[0].split())

    @property
    def keys(self) -> dict[str, list[str]]:
        """Return the templates of the cells of each column."""
        templates = {}
        for name, slots in self.columns.items():
            field = _main_slot(slots).field
            others = self.other_forms.get(name, ()) if field not in ("rank", "step") else ()
            templates[name] = [text_of(slots, True, True), *(form.replace("{}", field) for form in others)]
        return templates

    def add(self, name: str, slots: list[Slot], *other_forms: str) -> None:
        """Add a column."""
        self.columns[name], self.other_forms[name] = slots, other_forms


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
        tables = (_Printed.of(lines, style) for style in _STYLES)
        table = next((t for t in tables if t is not None and t.names_columns()), None)
        entry = _draft_table(table, int(batch.unread[place]) >> PART_BITS) if table is not None else None
        if table is not None and entry is not None:
            end = place + len(table.block) + len(table.rows) - 1
            yield entry


class _Printed(Struct, frozen=True):
    """A header and the rows under it, cut into cells.

    Attributes:
        style: What separates the cells: one of `_STYLES`.
        block: The lines from the header to the first row.
        names: The cells of the header.
        lines: The lines of the rows.
        rows: The cells of the rows, as many in each as in the header.
    """

    style: str
    block: Sequence[str]
    names: Sequence[str]
    lines: Sequence[str]
    rows: Sequence[Sequence[str]]

    @classmethod
    def of(cls, lines: Sequence[str], style: str) -> _Printed | None:
        """Return the table that begins with the first of these lines; None if no rows of values follow."""
        cut = _cells_at(lines[0]) if style == "left" else partial(_cells, style=style)
        names = cut(lines[0])
        if not names or (style == "tab" and any(name.startswith("|") for name in names)):
            return None
        rows: dict[int, list[str]] = {}
        following = ""
        for place, text in enumerate(lines[1:], 1):
            if is_rule(text) or (text[:1] == "#" == lines[0][:1]):
                continue
            cells = cut(text)
            has_value = any(map(_value_and_unit, cells))
            own_cells = cells[1:-1] if names[-1].endswith("...") else cells  # `UserCounters...` above pairs
            names_itself = style != "tab" and any(map(_NAMED_VALUE.search, own_cells))
            if len(cells) != len(names) or not has_value or names_itself:
                following = text
                break
            rows[place] = cells
        has_rows = len(rows) >= (_FEW if len(names) <= _FEW else 1)
        words = following.split()
        is_cut_off = sum(_VALUE.fullmatch(x) is not None for x in words) * 2 > len(words)  # a row of other cells
        if not has_rows or (is_cut_off and style not in _MARKS):
            return None
        return cls(style, lines[: min(rows) + 1], names, [lines[place] for place in rows], [*rows.values()])

    def columns(self) -> dict[str, list[str]]:
        """Return the cells of each column by its name, without prefixes: what the header and each row begin with.

        A name that two columns share, or that is cut off, names neither.
        """
        columns = [(name, [row[k] for row in self.rows]) for k, name in enumerate(self.names)]
        is_prefix = [set(cells) == {name} or (_CLOCK.fullmatch(name) is not None) for name, cells in columns]
        first = is_prefix.index(False) if False in is_prefix else len(columns)
        clear = {name for name in self.names if self.names.count(name) == 1 and not name.endswith(("...", "…"))}
        return {name: cells for name, cells in columns[first:] if name in clear}

    def names_columns(self) -> bool:
        """Whether the first line can only be a header: each column has its own name, and each cell stands under it."""
        columns = self.columns()
        names = list(columns)
        if self.style in _PLAIN_MARKS:
            return bool(names) and _HEADER.fullmatch(self.block[0]) is not None
        mark = ":" if self.style != "words" and len(self.rows) >= _FEW else ""  # `Loaded: 0.5 seconds` names its figure
        cells = [cell.removesuffix(mark) for column in columns.values() for cell in column]
        if any(map(_NO_CELL.fullmatch, (*names, *cells))):
            return False
        are_names = all(re.search("[A-Za-z]", x) and not figure_spans(x) for x in names if x not in ("", "#"))
        words = [word for name in names for word in name.lower().split()]
        if len(names) <= _FEW or not are_names or not name_evidence.SENTENCE_WORDS.isdisjoint(words):
            return False
        if self.style in ("bars", "left"):
            return True
        is_aligned = "\t" not in self.block[0] and all(map(self._is_aligned, self.lines))
        return is_aligned or (self._counts_up() and all(_VALUE.fullmatch(x) for row in self.rows for x in row))

    def _is_aligned(self, text: str) -> bool:
        """Whether each cell of a row stands under its own name, or under none."""
        names, cells = (
            [match.span() for match in _SPANS[self.style].finditer(without_bar(line)) if match[0] != ":"]
            for line in (self.block[0], text)
        )
        above = ({i for i, (a, b) in enumerate(names) if a < end and begin < b} for begin, end in cells)
        return len(cells) == len(names) and all(not places or k in places for k, places in enumerate(above))

    def _counts_up(self) -> bool:
        """Whether the first column is that of a step."""
        firsts = [row[0] for row in self.rows]
        is_counter = self.names[0].strip("# ").lower() in name_evidence.COUNTERS and all(x.isdecimal() for x in firsts)
        return is_counter and len(firsts) > 1 and all(int(a) < int(b) for a, b in pairwise(firsts))


def _draft_table(table: _Printed, first: int) -> TableDraft | None:
    """Return the entry for a table; None if no column has a number in each row."""
    columns = table.columns()
    always = [name for name, cells in columns.items() if name and all(map(_value_and_unit, cells))]
    if not always:
        return None
    entry = TableDraft(LineShape(first, len(table.rows)), [], style=table.style)
    has_marks = table.style in _PLAIN_MARKS
    entry.comments = [text for text in table.block[1:-1] if text[:1] == "#"]
    entry.block = "\n".join([*table.block, *table.lines[1:2]])
    row_name = "" if has_marks else _row_name(columns)
    for name, cells in columns.items():
        values = [x for x in cells if x not in NO_VALUE]
        if row_name and name == row_name:
            mark = ":" if all(x.endswith(":") for x in values) else ""
            text = _text(entry.style, name, [x.removesuffix(mark) for x in values])
            entry.columns[name] = [text, Slot(LITERAL, [mark], [""])] if mark else [text]
        else:
            _add_column(entry, name, values, can_be_text=has_marks)
    always = [name for name in always if name in entry.columns]
    entry.needs = always[: 2 if has_marks else None]
    if row_name and all(columns[row_name]):
        entry.needs.append(row_name)
    _settle_names(entry)
    return entry if always else None


def _row_name(columns: Mapping[str, Sequence[str]]) -> str:
    """Return the column whose texts name the rows: the first one, or the last; "" for none."""
    first, last = next(iter(columns)), list(columns)[-1]
    units = {pair and pair[1] for pair in map(_value_and_unit, columns[first])}
    if (None in units or len(units) > 1) and not all(map(_COUNT.fullmatch, columns[first])):
        return first
    return last if all(re.match(r"\W*[A-Za-z]", x) for x in columns[last]) else ""


def _value_and_unit(cell: str) -> tuple[str, str] | None:
    """Return the number in a cell, and the unit behind it; None for another cell: `12 openat`, `6.75 B`, `61.2g`."""
    match = _VALUE_AND_UNIT.fullmatch(cell)
    if match is None:
        return None
    value, unit = match["value"], match["unit"] or ""
    if unit == " B" or (unit == "B" and "." in value):  # bytes or billions
        return None
    is_unit = not unit or unit in _GLUED or bool(unit_of(unit)[0]) or (unit[0] != " " and len(unit) > 1)
    return (value, unit) if is_unit else None


def _cells(text: str, style: str) -> list[str]:
    cells = [x.strip() for x in split(text, style)]
    return cells[:-1] if style in _MARKS and cells[1:] and not cells[-1] else cells  # a mark ends each line


def _cells_at(header: str) -> Callable[[str], list[str]]:
    """Return what cuts a row where the names of a header begin; a row in which a cell begins elsewhere has no cells."""
    starts = [match.start() for match in _PARTS.finditer(header)]

    def cut(text: str) -> list[str]:
        cells = [text[begin:end] for begin, end in zip(starts, [*starts[1:], None], strict=True)]
        is_apart = all(text[begin - 1 : begin] in ("", " ") for begin in starts[1:]) and not text[: starts[0]].strip()
        are_left = all(cell[:1] != " " or not cell.strip() for cell in cells) and " :" not in cells[0]
        return [cell.strip() for cell in cells] if is_apart and are_left else []

    return cut


# --- columns ------------------------------------------------------------------------------------------------------


def _add_column(entry: TableDraft, name: str, cells: Sequence[str], can_be_text: bool) -> None:
    """Add a column with the templates of its cells, if it holds figures or words that a table can take.

    Args:
        entry: The table.
        name: The printed name of the column.
        cells: Its cells, without those that have no value.
        can_be_text: Whether it may hold texts with figures.
    """
    numbers = [pair for x in cells if (pair := _value_and_unit(x))]
    bare = [value for value, unit in numbers if not unit and (len(value) <= _MOST_DIGITS or "." in value)]
    units = {unit for _, unit in numbers} if len(numbers) == len(cells) else set()
    unit = units.copy().pop() if len(units) == 1 else ""
    commas = ["{{}:,.2f}" + unit] if any("," in x for x in cells) else []
    if name.lower() in naming.NO_FIGURES:
        entry.dropped[name] = naming.NO_FIGURES[name.lower()]
    elif len(bare) == len(cells) and (cells or name):  # if no row fills it, it may hold numbers below
        is_whole = bool(cells) and all(re.fullmatch(r"[+-]?[0-9]+", x) for x in cells)
        number = _number(entry.style, name, bare, "d" if is_whole else "r")
        entry.add(name, [number], *["{{}:r}"] * is_whole, *commas)
    elif units and units <= set(DURATIONS):
        entry.add(name, [_number(entry.style, name, cells, "t")])
    elif unit:
        number = _number(entry.style, name, [value for value, _ in numbers], "r", unit)
        entry.add(name, [number, Slot(LITERAL, [unit.strip()], [unit[: -len(unit.strip())]])], *commas)
    elif slots := _slots_of_cells(name, cells):
        entry.add(name, slots)
    elif bare and (can_be_text or all(_value_and_unit(x) or not figure_spans(x) for x in cells)):
        number = _number(entry.style, name, bare, "r")
        others = sorted({unit for _, unit in numbers if unit and not set("{}") & set(unit)})
        fields = ["{}" if unit_of(unit)[0] == number.named.unit else "_" for unit in others]
        with_unit = [f"{{{field}:r}}{unit}" for field, unit in zip(fields, others, strict=True)]
        entry.add(name, [number], *commas, *with_unit, "{_:s}")
    elif can_be_text or (cells and not any(map(figure_spans, cells))):
        has_words = any(token.kind != OPAQUE for x in cells for token in tokens(x))
        entry.columns |= {name: [_text(entry.style, name, cells)]} if has_words else {}


def _text(style: str, name: str, texts: Sequence[str]) -> Slot:
    named = _named_by_header(style, name, texts) if name else Named("name")
    return Slot(TEXT, list(texts), [""] * len(texts), "s", named)


def _number(style: str, name: str, texts: Sequence[str], spec: str, unit: str = "") -> Slot:
    named = _named_by_header(style, name, texts, unit)
    return Slot(NUMBER, list(texts), [""] * len(texts), spec, named, is_sure=True)


def _slots_of_cells(name: str, cells: Sequence[str]) -> list[Slot]:
    """Return the slots of cells of one shape, such as `1/25`, `21.5 ± 1.5` or `(98%)`; [] if they hold no sure number.

    Each cell is read as a line with the name of the column in front.
    """
    lines = {f"{name}: {cell}": figures_only(f"{name}: {cell}") for cell in cells}
    shapes = {skeleton(line) for line in lines.values()}
    head = figures_only(f"{name}:")
    is_odd = any(map(_VALUE_AND_UNIT.fullmatch, cells))  # a number with a word that is no unit
    if is_odd or len(shapes) != 1 or any(token.kind not in (NAME, MARK) for token in head):
        return []
    line = draft(shapes.pop(), LineShape(0, len(cells), lines))
    line.leave_unsure()
    slots = line.slots[len(head) :]
    slots[0].gaps = [""] * len(cells)
    for slot in slots:
        if slot.kind == NUMBER and slot.spec not in ("t", "h", "d"):
            slot.spec = "r"
    return slots if any(slot.kind == NUMBER for slot in slots) else []


def _main_slot(slots: Sequence[Slot]) -> Slot:
    """Return the slot of a column that the header names."""
    return next(slot for slot in slots if slot.kind in (NUMBER, TEXT))


def _named_by_header(style: str, printed: str, texts: Sequence[str], unit: str = "") -> Named:
    """Return the name and unit that a header gives a column; `unit`: what stands behind its numbers."""
    if "%" in (printed[0:1], printed[-1:]):  # `%usr`, `VRAM%`
        percent = "" if "percent" in printed.lower() else " percent "
        return Named(naming.slug(printed.replace("%", percent)), "%", _HEADER_SAYS)
    before = re.sub(r"\[([^\]]*)\]\s*$", r"(\1)", printed.lstrip("#")) or "number"
    before = re.sub(r"\((?=[^)]*$)", " ", before)  # `Box(P`, whose bracket closes in another column
    is_time = any("." in text for text in texts)  # in seconds, where `GPU(s)` counts them
    before = re.sub(r"(?<=\w)\(s\)$", " (s)" if is_time else "s", before)
    named = naming.name(naming.Surroundings(f"{before}: ", unit, texts or ["0.0"]))
    is_column = bool(named.printed) or style != "csv" or not naming.says_unit(named)
    return named if is_column else Named(naming.slug(printed))  # as printed: `epoch_time_ms`


def _settle_names(entry: TableDraft) -> None:
    """Give the numbers and texts of a table unique names, and a list of kernels its table."""
    entry.slots = [slot for slots in entry.columns.values() for slot in slots]
    fields = [slot for slot in entry.slots if slot.kind in (NUMBER, TEXT)]
    for slot, named in zip(fields, naming.settled([slot.named for slot in fields], []), strict=True):
        slot.named = named
    kernels = _kernel_columns([_kernel_column(name) for name in entry.columns])
    if kernels is not None and any(named.name in ("time", "avg") and named.unit for named in kernels):
        for slots, named in zip(entry.columns.values(), kernels, strict=True):
            _main_slot(slots).named = named
        entry.table = "kernels"
        entry.why.append("the table's header names the columns")


def _kernel_column(text: str) -> Named:
    """Return the name and unit of a column, as the header prints them: `Total Time (ns)`."""
    bracket = re.search(r"\(([^()]*)\)", text)
    unit = unit_of(bracket[1])[0] if bracket else ""
    if not unit and text.endswith("Ns"):  # TotalDurationNs
        unit, text = "ns", text[:-2]
    name = naming.slug(text.replace("%", " percent ") if unit == "%" else text.split("(")[0]) or "number"
    return Named(name, unit, _HEADER_SAYS if unit else "")


def _kernel_columns(names: list[Named]) -> list[Named] | None:
    """Return the columns renamed to those of table `kernels`; None if the table does not list kernels."""
    columns, used = [], set()
    for named in names:
        column = next((c for c, p in _KERNELS.items() if c not in used and re.fullmatch(p, named.name)), "")
        if column in ("share", "time") and (column == "share") != (named.unit == "%"):
            column = "time" if column == "share" and named.name == "total" and "time" not in used else ""
        used.add(column)
        columns.append(Named(column or named.name, named.unit, named.why))
    return columns if {"name", "calls"} <= used and used & {"time", "avg"} else None
