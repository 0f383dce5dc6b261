"""Reads facts of the job in lines that nothing else reads: `World size: 8`, `Device: NVIDIA H100`.

A title of a table looks alike, and a line of settings may be of a part of the program, which the lines above it show.
So this pass follows the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perflog.formats.families.base import spec_of
from perflog.formats.families.header_facts import CANDIDATE, LONGEST, Fact, facts_of, may_head_facts
from perflog.formats.figures import figure_spans
from perflog.formats.model import Line
from perflog.formats.registry import COMMON
from perflog.formats.template import UNNAMED, Template, literal
from perflog.parsing.match.captures import columns_of
from perflog.parsing.match.ordered.segments import with_records
from perflog.parsing.match.ordered.setting_blocks import Above
from perflog.parsing.match.rank_labels import split_rank_label
from perflog.parsing.match.records import Batch, FormatLine, Records
from perflog.tables.arrow import index_array, matching_mask

_MOST_ABOVE = 40  # lines of a block above an indented fact


def with_facts(lines: list[FormatLine], batch: Batch, above: Above) -> Batch:
    """Return the batch with the facts of its unread lines. Their Lines are added to the lines of the scanner.

    `above`: the last lines before it.
    """
    form = next((form for form, _ in lines if form.name == COMMON), None)
    rows = batch.rows(batch.unread)
    rows = rows[batch.ends[rows] - batch.starts[rows] <= LONGEST]
    if form is None or not len(rows):
        return batch
    positions = batch.positions_of(rows)
    texts = batch.bytes_at(positions)
    mask = matching_mask(texts, [f"(?s:.*?{CANDIDATE})"])
    new: dict[int, list[Records]] = {}
    known = {line.template.text: kind for kind, (other, line) in enumerate(lines) if other is form and line.is_fact}
    for row, text in zip(rows[mask].tolist(), texts.take(index_array(mask)).to_pylist(), strict=True):
        label, bare = split_rank_label(text)
        line = bare.decode("utf-8", "backslashreplace")
        facts = facts_of(line)
        if not facts or not _is_of_job(batch, row, line, above):
            continue
        template = _template(line, facts)
        kind = known.setdefault(template.text, len(lines))
        if kind == len(lines):
            lines.append((form, Line("header_fact", template, table="runs", under_header=True, is_fact=True)))
        values = columns_of(lines[kind][1].template, {fact.name: fact.value for fact in facts})
        labels = None if label < 0 else np.array([label], np.int64)
        new.setdefault(kind, []).append(Records(batch.positions_of(np.array([row])), dict(values), labels))
    return with_records(batch, new, lines) if new else batch


def _template(text: str, facts: Sequence[Fact]) -> Template:
    """Return the template of a line with some facts. Its other figures are unread."""
    spans = [(fact.begin, fact.end, f"{fact.name}:{'d' if isinstance(fact.value, int) else 's'}") for fact in facts]
    spans += [
        (begin, end, f"{UNNAMED}:{spec_of(text[begin:end])}")
        for begin, end in figure_spans(text)
        if all(end <= fact.begin or begin >= fact.end for fact in facts)
        and not any(fact.begin > end and not text[end : fact.begin].strip(" \t:=") for fact in facts)  # `Device 0: `
    ]
    result, last = "", 0
    for begin, end, field in sorted(spans):
        result += f"{literal(text[last:begin])}{{{field}}}"
        last = end
    return Template(result + literal(text[last:]))


def _is_of_job(batch: Batch, row: int, text: str, above: Above) -> bool:
    """Return whether a line is of the whole job: not indented, or below a line that may be above its facts."""
    indent = _indent(text)
    if not indent:
        return True
    positions = batch.positions_of(np.arange(max(row - _MOST_ABOVE, 0), row))
    here = [split_rank_label(line)[1].decode("utf-8", "replace") for line in batch.bytes_at(positions).to_pylist()]
    outer = (line for line in reversed([*above, *here]) if line.strip() and _indent(line) < indent)
    return may_head_facts(next(outer, ""))


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" \t"))
