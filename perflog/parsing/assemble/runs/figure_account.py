"""Counts the figures of records in the account of their run: stored in a table, declared as dropped, or unread.

In: the records of each kind. Out: the figures of `RunState.shapes`, columns of table `lines`. `line_account` counts the
figures of unread lines.

Most of it is known for each kind of line: a field of numbers holds one figure, and its name determines the column.
Only strings are searched for figures: the strings of dropped fields, and strings that are stored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from perflog.arrays import Ints, Mask
from perflog.formats.figures import figure_spans
from perflog.formats.model import Format, Line
from perflog.formats.template import DECLARED_DROPPED, NUMBER, UNNAMED, Template
from perflog.formats.vocabulary import DEVICE
from perflog.lazy_patterns import kept_pattern
from perflog.parsing.assemble.column_values import EPOCH, is_list
from perflog.parsing.assemble.runs.line_account import add_samples
from perflog.parsing.assemble.runs.run_state import NewShapes, RunIndex
from perflog.parsing.match.figure_counts import count_figures, masked_digits
from perflog.parsing.match.object_lines import figures_in_dropped_texts
from perflog.parsing.match.rank_labels import MAX_LABELS, RANK_LABEL, strip_rank_labels
from perflog.parsing.match.records import Batch, FormatLine, Records, strings
from perflog.tables.arrow import bytes_array, mask_of, numbers_of, valid_mask
from perflog.tables.schema import column_for

_BLOCK_ROLES = ("begin", "body", "end")
_FEW = 8  # distinct lines, which are read one by one


class LineFigures(Struct, frozen=True):
    """The figures that a line of one shape has.

    Attributes:
        stored: Number of fields with figures that are in a table or among the settings of the run.
        dropped: Number of fields with figures that are dropped for a declared reason.
        unread: Number of fields with figures that are not stored anywhere.
        stored_texts: String fields that are stored and may have figures.
        dropped_texts: String fields that are dropped, in the order of the line: whether a reason is declared.
    """

    stored: int = 0
    dropped: int = 0
    unread: int = 0
    stored_texts: tuple[str, ...] = ()
    dropped_texts: tuple[bool, ...] = ()


@lru_cache(1 << 12)
def figures_of(form: Format, line: Line) -> LineFigures:
    """Return the figures that a line of this shape has. A line of a block has none: perflog keeps the whole line."""
    if line.role in _BLOCK_ROLES:
        return LineFigures()
    in_votes = {name for print_ in form.fingerprints for name in (print_.vote_line, *print_.reads)}
    goes_nowhere = line.table is None and not (line.opens or line.closes or line.name in in_votes)
    named = [f for f in line.template.fields if not f.is_dropped]
    numbers = [f.name for f in named if f.numeric and f.name != DEVICE]
    stored = [name for name in numbers if name in line.run or not goes_nowhere]
    texts = [f.name for f in named if not f.numeric and _text_may_have_figures(line, f.name)]
    counts = {name: _dropped_numbers(line.template, name) for name in (UNNAMED, DECLARED_DROPPED)}
    counts[UNNAMED] += len(numbers) - len(stored)
    dropped = sum(count for name, count in counts.items() if name in line.dropped)
    return LineFigures(
        stored=len(stored),
        dropped=dropped,
        unread=sum(counts.values()) - dropped,
        stored_texts=tuple(texts),
        dropped_texts=() if line.under_header else tuple(f.name in line.dropped for f in line.template.dropped_texts),
    )


def figures_of_text(form: Format, line: Line, text: str) -> tuple[int, int, int]:
    """Return how many figures of a string that a line reads are stored, dropped and unread."""
    per_line, template = figures_of(form, line), line.template
    counts = {True: per_line.dropped, False: per_line.unread}  # by whether a reason is declared
    values = template.match(text) or {}
    stored = per_line.stored + sum(len(figure_spans(str(values[name]))) for name in per_line.stored_texts)
    match = re.fullmatch(f"(?s:{template.dropped_texts_pattern})[ \\t]*".encode(), text.encode())
    dropped = match.groupdict() if match else {}
    for is_declared, dropped_text in zip(per_line.dropped_texts, dropped.values(), strict=False):
        counts[is_declared] += len(figure_spans(dropped_text.decode()))
    return stored, counts[True], counts[False]


def _text_may_have_figures(line: Line, name: str) -> bool:
    """Return whether a stored string is more than a name: a setting, a value, a number as a string."""
    if line.table == "runs" or name in line.run:
        return name != "key"
    if line.table is None:
        return False
    if name in line.paths or line.items or is_list(line, name):  # a list of numbers
        return True
    column = column_for(line.table, name)
    return line.table == "values" if column is None else column.type not in ("word", "text")


def _dropped_numbers(template: Template, name: str) -> int:
    """Return how many dropped number fields of a name hold figures, by the literals around it: none in `a.py:{_:d}`."""

    def line_with(text: str) -> str:
        values = [(text if f.name == name else "0") if f.numeric else "x" for f in template.fields] + [""]
        return "".join(literal + value for literal, value in zip(template.literals, values, strict=True))

    if not any(f.numeric and f.name == name for f in template.fields):
        return 0
    return max(len(figure_spans(line_with("0"))) - len(figure_spans(line_with("x"))), 0)


def count_all_figures(runs: RunIndex, lines: Sequence[FormatLine], batch: Batch) -> None:
    """Add the figures of a batch to the accounts of its runs."""
    new: NewShapes = []
    for kind, records in batch.records.items():
        form, line = lines[kind]
        per_line = figures_of(form, line)
        if per_line == LineFigures() or not len(records):
            continue
        in_texts = _in_texts(line, per_line, records, batch)
        for run, low, high in runs.split(records.positions):
            status, count = "read" if line.read else "context", high - low
            shape = run.shape(status, line.template.text, records.positions.item(low), new)
            stored, dropped, unread = (int(x[low:high].sum()) if x is not None else 0 for x in in_texts)
            shape.stored += per_line.stored * count + stored
            shape.dropped += per_line.dropped * count + dropped
            shape.unread += per_line.unread * count + unread
            if per_line.dropped or dropped:
                shape.dropped_because = "; ".join(dict.fromkeys(line.dropped.values()))
    add_samples(new, batch)


_Counts = Ints | None


def _in_texts(line: Line, figures: LineFigures, records: Records, batch: Batch) -> tuple[_Counts, _Counts, _Counts]:
    """Return the number of figures in the strings of each record: stored, dropped with a reason, unread; None for 0."""
    stored: _Counts = None
    counts: dict[bool, _Counts] = {True: None, False: None}  # by whether a reason is declared
    for name in figures.stored_texts:
        texts = records.columns[name]
        in_text = count_figures(texts)
        is_list = name in line.paths or bool(line.items)
        has_column = line.table not in (None, "runs") and name not in line.run and not is_list
        column = column_for(line.table, name) if has_column else None
        if column is not None and column.type not in ("word", "text"):  # a string that is no number becomes null
            number = EPOCH if column.unit == "ns" else f"^(?:{NUMBER})$"
            is_number = mask_of(pc.match_substring_regex(texts, number))
            counts[False] = _sum(counts[False], np.where(is_number, 0, in_text))
            in_text = is_number.astype(np.int64)
        stored = _sum(stored, in_text)
    if figures.dropped_texts:
        for is_declared, in_text in zip(figures.dropped_texts, _in_dropped_texts(line, records, batch), strict=True):
            counts[is_declared] = _sum(counts[is_declared], in_text)
    return stored, counts[True], counts[False]


def _sum(left: _Counts, right: Ints) -> Ints:
    return right if left is None else left + right


def _in_dropped_texts(line: Line, records: Records, batch: Batch) -> list[Ints]:
    """Return the number of figures in each dropped string of each record.

    Neither a template nor a figure depends on the digits of a string, unless digits are between the fields. So they are
    masked, and each distinct line is read once.
    """
    rows = batch.rows(records.positions)
    line_by_record = np.arange(len(rows))
    if not (rows[1:] > rows[:-1]).all():  # several records on one line
        rows, line_by_record = np.unique(rows, return_inverse=True)
    texts = strings(batch.chunk.data, batch.starts[rows], batch.ends[rows])
    if line.by_object:
        bare = [strip_rank_labels(text) for text in texts.to_pylist()]
        return [count[line_by_record] for count in figures_in_dropped_texts(line, bare)]
    if not any(character.isdigit() for literal in line.template.literals for character in literal):
        shapes = masked_digits(texts).dictionary_encode()
        texts, line_by_record = shapes.dictionary, numbers_of(shapes.indices)[line_by_record]
    pattern = f"(?s:{line.template.dropped_texts_pattern})"
    names = [f"dropped_{i}" for i in range(len(line.template.dropped_texts))]
    captured, whole = _captured(texts, f"(?:{RANK_LABEL}){{0,{MAX_LABELS}}}{pattern}[ \\t]*", names)
    counts = [count_figures(strings) for strings in captured]
    if not whole.all():  # cut lines: the record is only a part of its line
        for row in np.flatnonzero(~whole).tolist():
            match = re.search(pattern.encode(), texts[row].as_py())
            for name, count in zip(names, counts, strict=True):
                count[row] = len(figure_spans(match[name].decode("utf-8", "replace"))) if match else 0
    return [count[line_by_record] for count in counts]


def _captured(texts: pa.Array, pattern: str, names: Sequence[str]) -> tuple[list[pa.Array], Mask]:
    """Return what the groups of a pattern capture in whole strings, and a mask of the strings that match."""
    if len(texts) > _FEW:
        captured = pc.extract_regex(texts, f"^{pattern}$")
        return [captured.field(name) for name in names], valid_mask(captured)
    matches = [kept_pattern(pattern).fullmatch(text) for text in texts.to_pylist()]  # RE2 would compile it for each log
    groups = [bytes_array([match[name] or b"" if match else b"" for match in matches]) for name in names]
    return groups, np.array([match is not None for match in matches], np.bool_)
