"""To which table each line of a log goes: a guess from what it says, how often, and where."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from perflog.ingestion.suggest import naming, printed_tables
from perflog.ingestion.suggest.line_draft import LITERAL, TEXT, LineDraft, Slot
from perflog.ingestion.suggest.line_shapes import LineShape
from perflog.ingestion.suggest.naming import Named
from perflog.ingestion.suggest.tokens import NUMBER
from perflog.tables.schema import PER_FIELD, TABLES, column_for
from perflog.units import UNITS

_BARE = {c.name.removesuffix("_s").removesuffix("_bytes"): c for c in TABLES["steps"]}
_MEASURED = set(_BARE) - {"step", "rank", "rank_by", "run", "line", "part", "copy", "steps_averaged"}
_CHOSEN = {"learning_rate", "memory"}  # set, or had, rather than reached: they alone make no step line
_PLACE = ("rank", "step", "world_size")
_OTHER_DATA = re.compile(r"\b(val|valid|validation|eval|evaluation|test|dev)\b|\b(val|eval|test|valid)_")
_SUMS_UP = re.compile(r"\b(averages?|avg|mean|median|total|overall|final|finished|best|peak|std)\b|[a-z]*summary")
_FEW = 16  # lines that may say the same of a run, one a rank


def assign(drafts: Sequence[LineDraft], shapes: Collection[LineShape]) -> None:
    """Give each line that carries numbers its table, and its name. `shapes` are all of the log."""
    read = [d for d in drafts if d.read]
    for line in read:
        _row(line, shapes)
    loose = [d for d in read if d.table is None]
    steps = _step_lines(loose)
    first = min((d.shape.first for d in steps), default=None)
    many = max((d.shape.count for d in steps), default=0)
    usual = next((s.named.unit for d in steps for s in d.numbers if _is_time(s) and s.named.why != naming.NO_UNIT), "")
    for line in loose:
        if line in steps:
            line.table, line.closes = "steps", True
            line.why.append("it prints the number of a step" + (" and times" if _times(line) else ""))
        else:
            line.table = _table(line, first, many)
        if line.table == "runs":
            _take_values(line)
        _rename(line, usual)
    for line in read:
        _fit(line)
    _name(drafts)


# --- tables -------------------------------------------------------------------------------------------------------


def _row(line: LineDraft, shapes: Collection[LineShape]) -> None:
    """A row of a printed table: its header names the columns."""
    name = next((s for s in line.slots if s.kind == TEXT and s.spec == "s" and not s.listed), None)
    fields = [s for s in line.slots if s.kind in (NUMBER, TEXT)]
    if name is None and sum(s.named.vague for s in line.numbers) * 2 < max(len(fields), printed_tables.LEAST):
        return  # the line itself says what its numbers are
    names = printed_tables.header_names(line.shape.first, len(fields), shapes, exact=name is None)
    if not names:
        return
    kernels = printed_tables.kernel_columns(names)
    if kernels and any(n.name == "time" and not n.unit and s.spec != "t" for n, s in zip(kernels, fields, strict=True)):
        kernels = None  # in seconds, if nothing is said: hardly
    line.table = "kernels" if kernels else "values"
    line.why.append("the table's header names the columns")
    for slot, named in zip(fields, kernels or names, strict=True):
        slot.named = Named(named.name, named.unit or slot.named.unit, named.why or slot.named.why)


def _step_lines(read: Sequence[LineDraft]) -> list[LineDraft]:
    """The lines that close a step: they print its number and what was measured of it, not of a validation."""
    found = [d for d in read if "step" in d.names and _measures(d)]
    if not found:
        found = [d for d in read if "epoch" in d.names and _measures(d)]
        for line in found:
            slot = next(s for s in line.numbers if s.named.name == "epoch")
            if slot.spec != "d":
                return []
            slot.named = Named("step", "", "an epoch: no step is printed")
    found = [d for d in found if not _OTHER_DATA.search(d.words)] or found
    timed = [d for d in found if _times(d)]
    best = max((d.shape.count for d in timed or found), default=0)
    have = {n for d in timed for n in d.names}
    more = [d for d in found if d not in timed and (not timed or _MEASURED & set(d.names) - have - _CHOSEN)]
    return [d for d in [*timed, *more] if d.shape.count * 20 >= best]


def _measures(line: LineDraft) -> bool:
    named = set(line.names) - _CHOSEN
    figures = any(n == "time" or n.endswith("loss") for n in named)
    return _times(line) or ((bool(_MEASURED & named) or figures) and not _OTHER_DATA.search(line.words))


def _is_time(slot: Slot) -> bool:
    return slot.spec == "t" or bool(slot.named.unit and UNITS[slot.named.unit].base == "s")


def _times(line: LineDraft) -> bool:
    return any(_is_time(s) for s in line.numbers)


def _table(line: LineDraft, first: int | None, steps: int) -> str:
    figures = [s for s in line.numbers if s.named.name not in _PLACE]
    text = any(s.kind == TEXT and not s.listed for s in line.slots)
    few = line.shape.count <= max(_FEW, steps // 4) if first is not None else line.shape.count == 1
    timed = [s for s in figures if _is_time(s)]
    if few and first is not None and line.shape.first < first and "step" not in line.names:
        line.why.append("printed before the first step")
        return "runs"
    if few and _SUMS_UP.search(line.words) and "step" not in line.names:
        line.why.append("it sums up")
        return "summaries"
    if first is not None and figures and len(timed) == len(figures) and not text and line.shape.count > 1:
        line.why.append("all its numbers are times, and steps are printed")
        return "phases"
    if few and first is None and not timed and not text:
        line.why.append("printed once, and no time")
        return "runs"
    return "values"


# --- names --------------------------------------------------------------------------------------------------------


def _rename(line: LineDraft, usual: str) -> None:
    """Names that suit the table; `usual` is the unit in which the log's step lines print times."""
    for slot in line.numbers:
        named = slot.named
        if named.why == naming.NO_UNIT and usual and line.table != "steps":
            named = Named(named.name, usual, "of the times of the step line: none is printed", named.said)
        if line.table == "steps":
            if named.name == "time" and "step_time" not in line.names:
                unit, why = (named.unit, named.why) if named.unit or slot.spec == "t" else ("s", naming.NO_UNIT)
                named = Named("step_time", unit, why)
        elif line.table == "summaries":  # an average of a column: its window can be found
            own = named.said if named.said and not naming.names(named.name, named.said) else named.name
            bare = next((c for c in _MEASURED if f"_{own}".endswith(f"_{c}") and c not in line.names), "")
            unit = UNITS[named.unit].base if named.unit else ""
            fits = bool(bare) and unit == _BARE[bare].unit
            named = Named(bare if fits else own, named.unit, named.why)
        elif named.said and named.name not in _PLACE:
            named = Named(named.said, named.unit, named.why)
        slot.named = named


def _take_values(line: LineDraft) -> None:
    """Words that are the value of a key are fields of a line that describes a run."""
    used = set(line.names)
    for at, slot in enumerate(line.slots):
        behind = line.slots[at + 1] if at + 1 < len(line.slots) else None
        ends = behind is None or len(behind.gaps[0]) > 1 or behind.texts[0] in (",", ";", "|", ")", "`", "'", '"', "]")
        if slot.kind == LITERAL and slot.value and ends and slot.value not in used:
            slot.kind, slot.named = TEXT, Named(slot.value)
            used.add(slot.value)


def _fit(line: LineDraft) -> None:
    """Give up text that the table has no place for, and names that are those of its columns for other things."""
    table = line.table or ""
    used: set[str] = set()
    for slot in line.slots:
        if slot.kind not in (NUMBER, TEXT):
            continue
        own = column_for(table, slot.named.name) if table != "runs" else None
        words = own is not None and own.type in ("word", "text")
        slot.dropped = (
            slot.kind == TEXT and ((slot.listed and table != "runs") or (table in ("steps", "phases") and not words))
        ) or (slot.kind == TEXT and table == "kernels" and not words)
        name = slot.named.name
        if name in ("rank", "step"):
            taken = slot.kind == TEXT or slot.spec[-1:] != "d"
        elif table in PER_FIELD:
            taken = own is not None
        else:
            taken = own is not None and words != (slot.kind == TEXT)
        base, count = f"{name}_printed" if taken else name, 2
        name = base
        while name in used:
            name, count = f"{base}_{count}", count + 1
        used.add(name)
        if name != slot.named.name:
            slot.named = Named(name, slot.named.unit, slot.named.why)


def _name(drafts: Sequence[LineDraft]) -> None:
    """Names of their own for lines."""
    used: set[str] = set()
    for line in drafts:
        if not line.read:
            continue
        words = [w for s in line.slots if s.kind == LITERAL for w in re.findall(r"[A-Za-z]{2,}", s.texts[0])]
        base = {"steps": "step", "kernels": "kernel"}.get(line.table or "") or naming.slug(" ".join(words[:3]), 3)
        base = base or line.names[0]
        name, count = base, 2
        while name in used:
            name, count = f"{base}_{count}", count + 1
        used.add(name)
        line.name = name
