"""A shape as the text of a line: literals, fields, how each is printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perflog.ingestion.suggest import naming
from perflog.ingestion.suggest.collect import Key, Shape
from perflog.ingestion.suggest.merge import WORD
from perflog.ingestion.suggest.naming import Named
from perflog.ingestion.suggest.rows import HEAD, TAIL
from perflog.ingestion.suggest.specs import spec_of
from perflog.ingestion.suggest.tokens import LIST, NAME, NUMBER, OPAQUE, UNIT, Token, digits

LITERAL, TEXT = "literal", "text"
MOST_FIELDS = 60
"""Numbers of a line that is described."""


@dataclass
class Slot:
    """A place in a shape: what stands there in each of its lines, and the blanks in front.

    `value` says of a literal that it is the value of a key, `dtype = float16`: a field, where the line describes a run.
    """

    kind: str
    texts: list[str]
    gaps: list[str]
    spec: str = ""
    named: Named = field(default_factory=lambda: Named("_"))
    value: str = ""
    dropped: bool = False  # text that the line's table has no place for
    inner: bool = False  # digits in a name
    listed: bool = False  # a list of numbers
    aligned: bool = False  # all blanks in front are padding

    @property
    def field(self) -> str:
        """The name of its field; `_` where it is thrown away."""
        return "_" if self.kind == OPAQUE or self.dropped else self.named.name


@dataclass
class Draft:
    """A line of a format file while it is made."""

    shape: Shape
    slots: list[Slot]
    name: str = ""
    table: str | None = None
    closes: bool = False
    before: bool = False
    why: list[str] = field(default_factory=list)
    loose: bool = False  # blanks in front of numbers are read and thrown away

    @property
    def numbers(self) -> list[Slot]:
        return [s for s in self.slots if s.kind == NUMBER]

    @property
    def names(self) -> list[str]:
        return [s.named.name for s in self.numbers]

    @property
    def words(self) -> str:
        """What the line itself says, in small letters."""
        return " ".join(s.texts[0] for s in self.slots if s.kind == LITERAL).lower()

    @property
    def read(self) -> bool:
        """Whether it is a line that is read; else it is context."""
        return bool(self.numbers)

    @property
    def text(self) -> str:
        return text_of(self.slots, self.loose, self.read)


def draft(key: Key, shape: Shape) -> Draft:
    """A shape as a line whose fields have names, units and printed forms, but no table yet."""
    slots = slots_of(key, list(shape.lines.values()))
    numbers = [s for s in slots if s.kind == NUMBER]
    if all(s.inner for s in numbers):  # `gpu0`, `layer_3`: no figure
        for slot in numbers:
            slot.kind, slot.spec = OPAQUE, ""
    named_slots(slots)
    return Draft(shape, slots)


# --- slots --------------------------------------------------------------------------------------------------------


def slots_of(key: Key, lines: Sequence[tuple[Token, ...]]) -> list[Slot]:  # noqa: C901
    """The places of a shape, filled from its lines; numbers with the spec that prints them."""
    kinds = [x for x in key if x != " "]
    slots: list[Slot] = []
    for at, kind in enumerate(kinds):
        texts, gaps = [x[at].text for x in lines], [x[at].gap for x in lines]
        if kind == TAIL and all(x[0] == x[-1] == '"' and len(x) > 1 for x in texts):
            quote = Slot(LITERAL, ['"'] * len(texts), [""] * len(texts))
            slots += [replace(quote, gaps=gaps), Slot(TEXT, [x[1:-1] for x in texts], quote.gaps, "s"), quote]
        elif kind in (WORD, HEAD, TAIL, f"\0{LIST}"):
            slots.append(Slot(TEXT, texts, gaps, "" if kind == WORD else "s", listed=kind == f"\0{LIST}"))
        elif kind == f"\0{UNIT}" and len(set(texts)) > 1:
            slots[-1].spec = "t"
            slots[-1].texts = [a + b for a, b in zip(slots[-1].texts, texts, strict=True)]
        elif kind == f"\0{UNIT}":
            slots.append(Slot(LITERAL, texts, gaps))
        elif kind == f"\0{NUMBER}" and all(x[0] == "+" for x in texts):  # a format writes no plus
            slots.append(Slot(LITERAL, ["+"] * len(texts), gaps))
            slots.append(Slot(NUMBER, [x[1:] for x in texts], [""] * len(texts)))
        elif kind.startswith("\0"):
            slots.append(Slot(kind[1:], texts, gaps))
        elif len(set(texts)) == 1:
            slots.append(Slot(LITERAL, texts, gaps, value=_value(slots, lines[0][at].kind)))
        elif _value(slots, NAME):
            slots.append(Slot(TEXT, texts, gaps))
        else:
            slots += _numbered(texts, gaps)
    for slot in slots:
        if slot.kind == NUMBER and not slot.spec:
            spec = spec_of(slot.texts)
            slot.kind, slot.spec = (OPAQUE, "") if spec is None else (NUMBER, spec)
    return slots


def _value(slots: Sequence[Slot], kind: str) -> str:
    """The key of a word behind `=` or `:`, perhaps in quotes; "" if it has none."""
    before = [s.texts[0] for s in slots if s.kind == LITERAL][-4:]
    if kind != NAME or len(slots) < 2 or slots[-1].kind != LITERAL:
        return ""
    if before[-1:] in (["`"], ["'"], ['"']):
        before.pop()
    if len(before) > 1 and before[-1] in ("=", ":") and before[-2][-1:].isalnum():
        return naming.slug(before[-2])
    return ""


def _numbered(texts: list[str], gaps: list[str]) -> list[Slot]:
    """A name whose digits vary: its letters, and the numbers in it."""
    parts = [digits(x) for x in texts]
    none = [""] * len(texts)
    slots: list[Slot] = []
    for at in range(len(parts[0])):
        column = [x[at] for x in parts]
        varies = len(set(column)) > 1
        if varies and spec_of(column) is None:
            return [Slot(TEXT, texts, gaps)]
        if column[0] or varies:
            slots.append(Slot(NUMBER if varies else LITERAL, column, none, inner=varies))
    slots[0].gaps = gaps
    return slots if sum(s.kind == NUMBER for s in slots) <= 2 else [Slot(TEXT, texts, gaps)]


# --- names --------------------------------------------------------------------------------------------------------


def named_slots(slots: Sequence[Slot]) -> None:
    """Name the numbers of a line, and the words in it that vary."""
    fields = [at for at, s in enumerate(slots) if s.kind != LITERAL]
    previous: Named | None = None
    chosen: list[list[Any]] = []
    head = naming.head_unit(_literal([s for s in slots if s.kind == LITERAL]))
    for number, at in enumerate(fields):
        slot = slots[at]
        before = _literal(slots[fields[number - 1] + 1 if number else 0 : at]) + slot.gaps[0]
        after = _literal(slots[at + 1 : fields[number + 1] if number + 1 < len(fields) else None])
        if slot.kind == NUMBER:
            named = naming.name(before, after, previous, slot.texts, head, slot.spec == "t")
            if previous and before.strip() in ("/", "of"):  # 3/10: the third of ten
                if previous.vague and not any(n.name == "step" for _, n in chosen):
                    previous = chosen[-1][1] = Named("step", "", "it counts up to the number behind it")
                if not previous.vague and not previous.name.endswith("s"):
                    named = Named(f"{previous.name}s")
            previous = named
            chosen.append([slot, named])
        elif slot.kind == TEXT:
            chosen.append([slot, Named(naming.key_of(before)[0] or "name")])
            previous = None
        else:
            previous = None
    steps = [pair for pair in chosen if pair[1].name == "step"]
    if len(steps) > 1 and steps[0][1].why:  # another number says that it is the step
        at = chosen.index(steps[0])
        chosen[at][1], chosen[at + 1][1] = Named("batch"), Named("batches")
    words = [w for s in slots if s.kind == LITERAL for w in naming.WORDS.findall(s.texts[0])]
    for (slot, _), named in zip(chosen, naming.settled([n for _, n in chosen], words), strict=True):
        slot.named = named


def _literal(slots: Sequence[Slot]) -> str:
    return "".join(s.gaps[0] + s.texts[0] for s in slots)


# --- text ---------------------------------------------------------------------------------------------------------


def text_of(slots: Sequence[Slot], loose: bool, read: bool) -> str:
    """The template's text: alignment where blanks vary as padding does."""
    out: list[tuple[str, Slot | None]] = []  # text; of a field its spec
    for at, slot in enumerate(slots):
        is_field = slot.kind != LITERAL
        width, margin = _padding(slot, loose)
        if len(set(slot.gaps)) == 1 and not width:
            out.append((_escaped(slot.gaps[0]), None))
        elif width:
            out.append((" " * margin, None))
        elif (left := _left(slots[at - 1] if at else None, slot)) and not loose:
            out[-1] = (f"<{left[0]}{out[-1][0]}", out[-1][1])
            out.append((" " * left[1], None))
        else:
            out.append(("{_:b}", None))
        if not is_field:
            out.append((_escaped(slot.texts[0]), None))
        else:
            out.append((f"{'>' if width and slot.kind != NUMBER else ''}{width or ''}{_type(slot)}", slot))
    return "".join(f"{{{s.field if read else '_'}:{text}}}" if s is not None else text for text, s in out)


def _type(slot: Slot) -> str:
    if slot.spec:
        return slot.spec
    return "w" if slot.kind == TEXT and all(re.fullmatch(r"[A-Za-z0-9_]+", x) for x in slot.texts) else "S"


def _padding(slot: Slot, loose: bool) -> tuple[int, int]:
    """Width of a field that is aligned to the right, and the blanks before it that are no padding; 0 if it is not."""
    if slot.kind == LITERAL or loose or any("\t" in g for g in slot.gaps) or slot.spec.startswith("0"):
        return 0, 0
    ends = [len(g) + len(t) for g, t in zip(slot.gaps, slot.texts, strict=True)]
    if slot.aligned:
        return max(ends), 0
    if len(set(slot.gaps)) == 1 or (len(set(ends)) > 1 and slot.kind != NUMBER):
        return 0, 0
    margin = min(1, *map(len, slot.gaps))
    return max(ends) - margin, margin


def _left(field: Slot | None, slot: Slot) -> tuple[int, int] | None:
    """Width of the field before a slot if it is aligned to the left, and the blanks behind it that are no padding."""
    if field is None or field.kind == LITERAL or len(set(field.gaps)) > 1 or any("\t" in g for g in slot.gaps):
        return None
    if field.spec.startswith("0"):
        return None
    ends = {len(t) + len(g) for t, g in zip(field.texts, slot.gaps, strict=True)}
    margin = min(1, *map(len, slot.gaps))
    return (max(ends) - margin, margin) if len(ends) == 1 or field.kind == NUMBER else None


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
