"""Drafts `[[table]]` entries for printed tables: a header that names columns, and rows with as many cells under it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import field

from perflog.formats.families.missing_values import NO_VALUE
from perflog.formats.figures import figure_spans
from perflog.formats.tokens import MARK, NAME, NUMBER, OPAQUE, skeleton, tokens
from perflog.ingestion.suggest import naming
from perflog.ingestion.suggest.line_draft import LITERAL, TEXT, LineDraft, Slot, draft, text_of
from perflog.ingestion.suggest.line_shapes import LineShape, figures_only
from perflog.ingestion.suggest.naming import Named
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.match.records import Batch, strings
from perflog.parsing.match.table_evidence import (
    FILE_STYLES,
    LONGEST,
    VALUE_AND_UNIT,
    PrintedTable,
    printed_tables,
    value_and_unit,
)
from perflog.tables.row_order import PART_BITS
from perflog.units import DURATIONS, unit_of

_COUNT = lazy_pattern(r"[0-9]+/[0-9]+")  # of a total
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
    texts = strings(batch.chunk.data, begin, np.minimum(batch.ends[rows].astype(np.int64), begin + LONGEST))
    for place, table in printed_tables(texts):
        entry = _draft_table(table, int(batch.unread[place]) >> PART_BITS)
        if entry is not None:
            yield entry


def _draft_table(table: PrintedTable, first: int) -> TableDraft | None:
    """Return the entry for a table; None if no column has a number in each row."""
    columns = table.columns()
    always = [name for name, cells in columns.items() if name and all(map(value_and_unit, cells))]
    if not always:
        return None
    entry = TableDraft(LineShape(first, len(table.rows)), [], style=table.style)
    has_marks = table.style in FILE_STYLES
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
    """Return the column with the names of the rows: the first one, or the last; "" for none."""
    first, last = next(iter(columns)), list(columns)[-1]
    units = {pair and pair[1] for pair in map(value_and_unit, columns[first])}
    if (None in units or len(units) > 1) and not all(map(_COUNT.fullmatch, columns[first])):
        return first
    return last if all(re.match(r"\W*[A-Za-z]", x) for x in columns[last]) else ""


# --- columns ------------------------------------------------------------------------------------------------------


def _add_column(entry: TableDraft, name: str, cells: Sequence[str], can_be_text: bool) -> None:
    """Add a column with the templates of its cells, if it holds figures or words that a table can take.

    Args:
        entry: The table.
        name: The printed name of the column.
        cells: Its cells, without those that have no value.
        can_be_text: Whether it may hold strings with figures.
    """
    numbers = [pair for x in cells if (pair := value_and_unit(x))]
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
    elif bare and (can_be_text or all(value_and_unit(x) or not figure_spans(x) for x in cells)):
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

    Each cell is read as a line with the name of the column before it.
    """
    lines = {f"{name}: {cell}": figures_only(f"{name}: {cell}") for cell in cells}
    shapes = {skeleton(line) for line in lines.values()}
    head = figures_only(f"{name}:")
    is_odd = any(map(VALUE_AND_UNIT.fullmatch, cells))  # a number with a word that is no unit
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
    """Return the name and unit that a header gives a column; `unit`: what is after its numbers."""
    if "%" in (printed[0:1], printed[-1:]):  # `%usr`, `VRAM%`
        percent = "" if "percent" in printed.lower() else " percent "
        return Named(naming.slug(printed.replace("%", percent)), "%", _HEADER_SAYS)
    before = re.sub(r"\[([^\]]*)\]\s*$", r"(\1)", printed.lstrip("#")) or "number"
    before = re.sub(r"\((?=[^)]*$)", " ", before)  # `Box(P`, with its bracket closed in another column
    is_time = any("." in text for text in texts)  # in seconds, where `GPU(s)` counts them
    before = re.sub(r"(?<=\w)\(s\)$", " (s)" if is_time else "s", before)
    named = naming.name_of_key(before, texts or ["0.0"], unit)
    is_column = bool(named.printed) or style != "csv" or not naming.says_unit(named)
    return named if is_column else Named(naming.slug(printed))  # as printed: `epoch_time_ms`


def _settle_names(entry: TableDraft) -> None:
    """Give the numbers and strings of a table unique names, and a list of kernels its table."""
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
    """Return the columns with the names of table `kernels`; None if the table does not list kernels."""
    columns, used = [], set()
    for named in names:
        column = next((c for c, p in _KERNELS.items() if c not in used and re.fullmatch(p, named.name)), "")
        if column in ("share", "time") and (column == "share") != (named.unit == "%"):
            column = "time" if column == "share" and named.name == "total" and "time" not in used else ""
        used.add(column)
        columns.append(Named(column or named.name, named.unit, named.why))
    return columns if {"name", "calls"} <= used and used & {"time", "avg"} else None
