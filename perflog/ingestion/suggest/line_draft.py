"""Turns a line shape into a template string: literals, fields, and how each field is printed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from perflog.formats.durations import measures
from perflog.formats.template import literal
from perflog.formats.tokens import LIST, NAME, NUMBER, OPAQUE, UNIT, Token, split_digits
from perflog.formats.vocabulary import COUNTER
from perflog.ingestion.suggest import name_evidence, naming
from perflog.ingestion.suggest.line_shapes import Key, LineShape
from perflog.ingestion.suggest.name_evidence import Bond
from perflog.ingestion.suggest.naming import Named
from perflog.ingestion.suggest.number_specs import spec_of
from perflog.ingestion.suggest.shape_merging import WORD
from perflog.lazy_patterns import lazy_pattern
from perflog.units import base_of

LITERAL, TEXT = "literal", "text"
UNSURE = "unsure"
"""Kind of a number that stays unread, since nothing names it without doubt."""

MOST_FIELDS = 60
"""A line with more numbers than this is not described."""

_LOOKED_AT = 4  # lines of a shape in which words vary
_SPREADS = frozenset(("±", "+-", "+/-", "+/−"))  # before the spread of a number
_END_OF_NAME = lazy_pattern(r"[,;|]|(?<=[\])}>])(?!\s*[:=])| [-—–] |\t(?=\S)|\s{4,}(?=[^\s:=])")
_PLACE = lazy_pattern(rf"{COUNTER}[_-]?$", re.IGNORECASE)  # of a name: its number counts


class Slot(Struct):
    """A position in a shape.

    Attributes:
        kind: LITERAL, TEXT, NUMBER, UNSURE or OPAQUE.
        texts: What is there in each line of the shape.
        gaps: The whitespace before each.
        spec: The spec that prints it; "" for none.
        named: Its name and unit.
        value: The key, if a literal is the value of a key, as in `dtype = float16`. It becomes a field if the line
            describes a run.
        dropped: Whether the value is thrown away, since the table of the line has no column for it.
        inner: Whether it is digits inside a name.
        listed: Whether it is a list of numbers.
        is_sure: Whether the line, or the header above it, names the number without doubt.
    """

    kind: str
    texts: list[str]
    gaps: list[str]
    spec: str = ""
    named: Named = field(default_factory=lambda: Named("_"))
    value: str = ""
    dropped: bool = False
    inner: bool = False
    listed: bool = False
    is_sure: bool = False

    @property
    def field(self) -> str:
        """The name of its field; `_` if it is dropped."""
        return "_" if self.kind in (OPAQUE, UNSURE) or self.dropped else self.named.name

    @property
    def prints_unit(self) -> bool:
        """Whether its strings are durations that hold their units."""
        return self.spec in ("t", "h")

    @property
    def is_time(self) -> bool:
        """Whether it is a number of seconds or another unit of time."""
        return self.prints_unit or base_of(self.named.unit) == "s"

    @property
    def negative(self) -> list[str]:
        """Its negative numbers."""
        return [] if self.prints_unit else [x for x in self.texts if float(x.replace(",", "")) < 0]


class LineDraft(Struct):
    """An entry of the suggested format file while it is drafted.

    Attributes:
        shape: The lines that it describes.
        slots: The slots of the line, from left to right.
        name: The name of the entry.
        table: The table that its values go to; None while undecided.
        closes: Whether the line closes a step.
        before: Whether the line is printed while a run starts.
        why: The reasons for the table; the file shows them as a guess.
        loose: Whether spaces before numbers are read and dropped, since they are not padding.
        no_roles: The roles that the log has disproved: `step`, `rank`, and `step_time` for a plain `time`.
        has_plain_time: Whether its `step_time` is printed as a plain `time`.
        counts_itself: Whether it prints a count that proves to be no step.
        is_outside: Whether it is printed outside of the steps: the next step line does not name its step.
        within: The field, such as an epoch, in which the steps start again; "" for none.
    """

    shape: LineShape
    slots: list[Slot]
    name: str = ""
    table: str | None = None
    closes: bool = False
    before: bool = False
    why: list[str] = field(default_factory=list)
    loose: bool = False
    no_roles: frozenset[str] = frozenset()
    has_plain_time: bool = False
    counts_itself: bool = False
    is_outside: bool = False
    within: str = ""

    @property
    def numbers(self) -> list[Slot]:
        """The slots that are numbers."""
        return [s for s in self.slots if s.kind == NUMBER]

    def take_back(self, role: str) -> None:
        """Store the number that was taken for the step or the rank, and its total, under printed names or none."""
        words = words_of(self.slots)
        self.counts_itself |= role == "step"
        numbers = [s for s in self.slots if s.kind == NUMBER or s.kind == TEXT]
        taken = next((s.named for s in numbers if s.named.name == role), None)
        for place, slot in enumerate(numbers, 1):
            if taken is None or slot.kind != NUMBER or slot.named.name not in (role, naming.total_of(role)):
                continue
            printed = taken.printed or role
            name = printed if slot.named.name == role else naming.total_of(printed)
            if taken.why == naming.COUNTS_UP:
                name = naming.unnamed(place, words)
            slot.named = Named(f"{name}_printed" if name == role else name, slot.named.unit)
            slot.is_sure &= taken.why != naming.COUNTS_UP

    @property
    def names(self) -> list[str]:
        """The names of the numbers."""
        return [s.named.name for s in self.numbers]

    def leave_unsure(self) -> None:
        """Leave the numbers unread that nothing names without doubt, and lists of numbers that nothing names."""
        for slot in self.slots:
            is_argument = slot.texts[0].startswith("(") and not slot.gaps[0]  # of `percentile(50, 75, 95)`
            is_unsure = slot.kind == NUMBER and not slot.is_sure
            is_unsure |= slot.listed and (is_argument or slot.named.name == "name")
            slot.kind = UNSURE if is_unsure else slot.kind

    @property
    def words(self) -> str:
        """The literals of the line in lower case."""
        return " ".join(s.texts[0] for s in self.slots if s.kind == LITERAL).lower()

    @property
    def unknown(self) -> dict[str, str]:
        """The numbers that mean an unknown time of a step, by field: no time is negative."""
        times = [s for s in self.numbers if s.is_time and s.named.name == "step_time"] if self.table == "steps" else []
        return {s.named.name: s.negative[0] for s in times if s.negative}

    @property
    def read(self) -> bool:
        """Whether the line has numbers or lists of them to read. A line without numbers becomes a `[[context]]`."""
        return any(s.kind == NUMBER or (s.listed and s.kind == TEXT) for s in self.slots)

    @property
    def text(self) -> str:
        """The template string."""
        return text_of(self.slots, self.loose, self.read)


def draft(key: Key, shape: LineShape) -> LineDraft:
    """Return a shape as a line with names, units and specs of its fields, but no table yet."""
    slots = slots_of(key, list(shape.lines.values()))
    is_name = all(s.inner for s in slots if s.kind == NUMBER)
    for place, slot in enumerate(slots):  # `no data will print nan`: a word, not a number
        before = slots[place - 1].texts[0] if place else ""
        if slot.inner and (is_name or not _PLACE.search(before)):  # `gpu0`, `layer_3`, `prefill-10k`
            slot.kind, slot.spec = OPAQUE, ""
        if slot.kind == NUMBER and before[-1:].isalpha() and not any(c.isdigit() for x in slot.texts for c in x):
            slot.kind, slot.spec = OPAQUE, ""
    named_slots(slots)
    return LineDraft(shape, slots)


# --- slots --------------------------------------------------------------------------------------------------------


def slots_of(key: Key, lines: Sequence[tuple[Token, ...]]) -> list[Slot]:
    """Return the slots of a shape, filled from its lines; numbers with the spec that prints them.

    Args:
        key: The key of the shape: a kind or a literal for each token, " " between tokens that whitespace separates.
        lines: The tokens of lines of that shape.
    """
    slots: list[Slot] = []
    for place, kind in enumerate(part for part in key if part != " "):
        texts, gaps = [line[place].text for line in lines], [line[place].gap for line in lines]
        if kind == f"\0{UNIT}" and len(set(texts)) > 1:  # a duration as profilers print it, with the unit that suits it
            slots[-1].spec = "t"
            slots[-1].texts = [number + unit for number, unit in zip(slots[-1].texts, texts, strict=True)]
        elif kind.startswith("\0"):
            slots += _special_slots(kind, texts, gaps)
        elif len(set(texts)) == 1:
            slots.append(Slot(LITERAL, texts, gaps, value=_value(slots, lines[0][place].kind)))
        else:
            slots += [Slot(TEXT, texts, gaps)] if _value(slots, NAME) else _numbered(texts, gaps)
    for slot in slots:
        if slot.kind == NUMBER and not slot.spec:
            spec = spec_of(slot.texts)
            slot.kind, slot.spec = (OPAQUE, "") if spec is None else (NUMBER, spec)
    return slots


def _special_slots(kind: str, texts: list[str], gaps: list[str]) -> list[Slot]:
    """Return the slots of tokens that are no literal: names that vary, lists, units, numbers, opaque strings."""
    if kind in (WORD, f"\0{LIST}"):
        return [Slot(TEXT, texts, gaps, "" if kind == WORD else "s", listed=kind == f"\0{LIST}")]
    if kind == f"\0{UNIT}":
        return [Slot(LITERAL, texts, gaps)]
    if kind == f"\0{NUMBER}" and all(text[0] == "+" for text in texts):  # a template writes no plus sign
        plus = Slot(LITERAL, ["+"] * len(texts), gaps)
        return [plus, Slot(NUMBER, [text[1:] for text in texts], [""] * len(texts))]
    if kind == f"\0{OPAQUE}" and any(" " in text for text in texts):
        return [Slot(OPAQUE, texts, gaps, "s")]
    is_digits = kind == f"\0{OPAQUE}" and all(text.isdecimal() and len(text) < 19 for text in texts)
    return [Slot(kind[1:], texts, gaps, "d" if is_digits else "")]


def _value(slots: Sequence[Slot], kind: str) -> str:
    """Return the key of a word after `=` or `:`, perhaps in quotes; "" if there is none."""
    before = [s.texts[0] for s in slots if s.kind == LITERAL][-4:]
    if kind != NAME or len(slots) < 2 or slots[-1].kind != LITERAL:
        return ""
    if before[-1:] in (["`"], ["'"], ['"']):
        before.pop()
    if len(before) > 1 and before[-1] in ("=", ":") and before[-2][-1:].isalnum():
        return naming.slug(before[-2])
    return ""


def _numbered(texts: list[str], gaps: list[str]) -> list[Slot]:
    """Return the slots of a name with digits that vary: its letters, and the numbers in it."""
    names = [split_digits(text) for text in texts]
    no_gaps = [""] * len(texts)
    slots: list[Slot] = []
    for column in (list(parts) for parts in zip(*names, strict=True)):
        varies = len(set(column)) > 1
        if varies and spec_of(column) is None:
            return [Slot(TEXT, texts, gaps)]
        if column[0] or varies:
            slots.append(Slot(NUMBER if varies else LITERAL, column, no_gaps, inner=varies))
    slots[0].gaps = gaps
    return slots if sum(s.kind == NUMBER for s in slots) <= 2 else [Slot(TEXT, texts, gaps)]


# --- names --------------------------------------------------------------------------------------------------------


def named_slots(slots: Sequence[Slot]) -> None:
    """Name the numbers of a line, and the words in it that vary."""
    chosen = _guesses(slots)
    _rename_batches(chosen)
    _note_evidence(slots, chosen)
    unique = naming.settled([guess.named for guess in chosen], words_of(slots))
    for guess, named in zip(chosen, unique, strict=True):
        guess.slot.named = named


def _note_evidence(slots: Sequence[Slot], chosen: Sequence[_Guess]) -> None:
    """Note which numbers of a line are named without doubt: no other number has their names."""
    sure: dict[str, list[Slot]] = {}
    for guess in chosen:
        place = next(k for k, slot in enumerate(slots) if slot is guess.slot)
        name = guess.named.printed or guess.named.name
        is_pair = place > 1 and slots[place - 1].texts[0] == "/" and slots[place - 2].kind == NUMBER  # `merge=1/3`
        if guess.is_sure and (is_pair or not (guess.is_further and name in sure)):
            sure.setdefault(name, []).append(guess.slot)
    for same_name in sure.values():
        for slot in same_name:
            slot.is_sure = len(same_name) == 1


def words_of(slots: Sequence[Slot]) -> list[str]:
    """Return the words of a line."""
    return [word for s in slots if s.kind == LITERAL for word in naming.WORDS.findall(s.texts[0])]


class _Guess(Struct):
    """A field of a line, the name that is guessed for it, and whether the line bears the name out."""

    slot: Slot
    named: Named
    is_sure: bool = False
    is_further: bool = False


def _guesses(slots: Sequence[Slot]) -> list[_Guess]:
    """Guess the name of each number and of each word that varies, from left to right."""
    text = _literal(slots)
    line_unit = naming.head_unit(_literal([s for s in slots if s.kind == LITERAL]))
    chosen: list[_Guess] = []
    last: Bond | None = None  # of the number before, if only literals are between
    after, end = 0, 0  # the last field
    for slot, bond in zip(slots, _bonds(slots), strict=True):
        begin = end + len(slot.gaps[0])
        end = begin + len(slot.texts[0])
        if slot.kind == LITERAL:
            continue
        before, after = text[after:begin], end
        if slot.kind == OPAQUE and all(measures(naming.slug(" ".join(bond.words)), x) for x in slot.texts):
            slot.kind, slot.spec = NUMBER, "h"
        if slot.kind == TEXT:
            chosen.append(_Guess(slot, Named(naming.slug(_END_OF_NAME.split(before)[-1], 8) or "name")))
        elif slot.kind == NUMBER:
            named = naming.name(bond, slot.texts, line_unit, has_unit=slot.prints_unit)
            guess = _Guess(slot, named, bond.is_sure and not named.vague, bond.is_further)
            is_named = len(bond.words) > bond.is_unit and not bond.is_further
            if last is not None:
                says_what = re.match(r" [A-Za-z]| *\(", text[end:]) is not None
                guess = _further(guess, chosen, before.strip(" "), last, says_what, is_named)
                _share_unit(guess.named, chosen)
            chosen.append(guess)
        last = bond if slot.kind == NUMBER else None
    return chosen


def _bonds(slots: Sequence[Slot]) -> list[Bond]:
    """Return what names the number of each slot in all lines of the shape. Only a few lines are examined."""
    lines = range(len(slots[0].texts)) if slots else range(0)
    varies = any(slot.kind == TEXT and not slot.listed for slot in slots)
    chosen = dict.fromkeys(lines[:: len(lines) // _LOOKED_AT + 1] if varies else lines[:1])
    for slot in slots:
        if slot.inner:  # digits of a name, which differ in some line
            chosen |= dict.fromkeys([next(line for line in lines if slot.texts[line] != slot.texts[0])])
    by_line = [_bonds_of_line(slots, line) for line in chosen]
    return [name_evidence.common(bonds) for bonds in zip(*by_line, strict=True)]


def _bonds_of_line(slots: Sequence[Slot], line: int) -> list[Bond]:
    """Return what names the number of each slot in one line of the shape."""
    text, begins = "", list[int]()
    for slot in slots:
        begins.append(len(text) + len(slot.gaps[line]))
        text += slot.gaps[line] + slot.texts[line]
    bonds = name_evidence.bonds(text)
    inside = {
        begin: naming.WORDS.findall(text[:begin])[-1:] for slot, begin in zip(slots, begins, strict=True) if slot.inner
    }
    begins = [begin - (text[begin - 1 : begin] == "+") for begin in begins]
    return [bonds.get(begin) or Bond(tuple(inside.get(begin, ()))) for begin in begins]  # inside: `STEP-0`


def _further(guess: _Guess, chosen: Sequence[_Guess], mark: str, bond: Bond, says_what: bool, is_named: bool) -> _Guess:
    """Return a number that a mark ties to the one before it, named as its total, its spread, its share.

    Args:
        guess: The number, with the name by the words around it.
        chosen: The fields before it.
        mark: What is between both.
        bond: The bond of the number before.
        says_what: Whether words after it say what is counted: `10/48 features`.
        is_named: Whether words of its own name it.
    """
    named, last = guess.named, chosen[-1].named
    name = last.printed or last.name
    if mark in ("/", "of"):
        named = _total(named, chosen, guess.slot.texts, says_what)
        return replace(guess, named=named, is_sure=guess.is_sure and chosen[-1].is_sure)
    mark = mark.removeprefix(bond.unit).strip(" ")
    if last.vague:
        return guess
    if mark in _SPREADS:
        return replace(guess, named=Named(f"{name}_spread", named.unit or last.unit, named.why or last.why))
    if mark not in ("(", "[", "/") or is_named:
        return guess
    if named.unit == "%":
        return replace(guess, named=Named(f"{name}_share", "%", named.why))
    bases = [base_of(unit) for unit in (named.unit, last.unit)]
    if bases[0] != bases[1] or (mark == "/" and not bases[0]):
        return guess
    return replace(guess, named=Named(name, named.unit, named.why), is_sure=guess.is_sure and guess.is_further)


def _share_unit(named: Named, chosen: Sequence[_Guess]) -> None:
    """Give the number before a total or a spread its unit: `12.5/80 GB`, `21.9 ± 1.2 ms`."""
    if not named.unit or chosen[-1].named.unit:
        return
    last = chosen[-1].named
    is_spread = named.name.endswith("_spread")
    is_total = named.name == naming.total_of(last.name) and base_of(named.unit) in ("B", "W", "J")
    if is_spread or is_total:
        chosen[-1].named = replace(last, unit=named.unit, why=named.why)


def _total(named: Named, chosen: Sequence[_Guess], texts: Sequence[str], says_what: bool) -> Named:
    """Return the name of a number that counts the one before it: in `step 3/10` the steps.

    In `batch 4/300`, `batch 4/400`, `batch 5/100` it is no total: both numbers keep the name.

    If nothing names the number before it, that number may be the step: unless a unit is after both, as in
    `3 / 81559 MB`, or the first is larger than the second.

    Args:
        named: Its name and unit by the words around it.
        chosen: The fields before it.
        texts: The number, as the lines print it.
        says_what: Whether words after it say what is counted.
    """
    last = chosen[-1]
    names_step = any(guess.named.name == "step" for guess in chosen)
    if last.named.vague and not named.unit and not names_step and _counts(last.slot.texts, texts):
        last.named = Named("step", "", naming.COUNTS_UP)
    if last.named.vague:
        return named
    may_count = named.unit or says_what or _may_count(last.named.name, last.slot.texts, texts)
    if not may_count or _counts_on(last.slot.texts, texts):
        return replace(last.named, unit=named.unit, why=named.why, printed="")
    return Named(naming.total_of(last.named.name), named.unit, named.why)


def _counts(texts: Sequence[str], totals: Sequence[str]) -> bool:
    """Whether numbers can count up to others: whole numbers, none larger than its total."""
    pairs = list(zip(texts, totals, strict=True))
    return all(a.isdecimal() and b.isdecimal() and int(a) <= int(b) for a, b in pairs)


def _may_count(name: str, texts: Sequence[str], totals: Sequence[str]) -> bool:
    """Whether numbers of a name count up to others: the name says so, or the numbers grow towards the same one.

    A name alone says nothing: `merge=1/3` are reads and writes.
    """
    return naming.is_counter(name) or (len(set(texts)) > 1 and len(set(totals)) == 1)


def _counts_on(texts: Sequence[str], numbers: Sequence[str]) -> bool:
    """Whether numbers after others are no totals: they are smaller, or they grow while the others stay the same."""
    if not all(x.isdecimal() for x in (*texts, *numbers)):
        return False
    firsts, seconds = [int(x) for x in texts], [int(x) for x in numbers]
    is_smaller = any(second < first for first, second in zip(firsts, seconds, strict=True))
    return is_smaller or (len(set(firsts)) == 1 < len(set(seconds)) and seconds == sorted(seconds))


def _rename_batches(chosen: Sequence[_Guess]) -> None:
    """If another number says that it is the step, a number that only counts up to a total is a batch."""
    steps = [place for place, guess in enumerate(chosen) if guess.named.name == "step"]
    if len(steps) > 1 and chosen[steps[0]].named.why:
        chosen[steps[0]].named, chosen[steps[0] + 1].named = Named("batch"), Named("batches")


def _literal(slots: Sequence[Slot]) -> str:
    """Return the first strings of slots, with the whitespace before each."""
    return "".join(s.gaps[0] + s.texts[0] for s in slots)


# --- template -------------------------------------------------------------------------------------------------------


def text_of(slots: Sequence[Slot], loose: bool, read: bool) -> str:
    """Return the template string, with alignment where whitespace varies as padding does."""
    pieces: list[tuple[str, Slot | None]] = []  # a literal and None, or the spec of a field and its slot
    for slot in slots:
        is_field = slot.kind != LITERAL
        width, margin = _padding(slot, loose)
        if len(set(slot.gaps)) == 1 and not width:
            pieces.append((literal(slot.gaps[0]), None))
        elif width:
            pieces.append((" " * margin, None))
        else:
            firsts = {gap[:1] for gap in slot.gaps}
            blank = firsts.pop() if len(firsts) == 1 else ""  # without it, two numbers could share the digits of one
            pieces.append((blank + "{_:b}", None))
        if not is_field:
            pieces.append((literal(slot.texts[0]), None))
        else:
            pieces.append((f"{'>' if width and slot.kind != NUMBER else ''}{width or ''}{_type(slot)}", slot))
    return "".join(f"{{{s.field if read else '_'}:{text}}}" if s is not None else text for text, s in pieces)


def _type(slot: Slot) -> str:
    """Return the spec of a string field: `w` if all strings are words, else `S`."""
    if slot.spec:
        return slot.spec
    return "w" if slot.kind == TEXT and all(re.fullmatch(r"[A-Za-z0-9_]+", x) for x in slot.texts) else "S"


def _padding(slot: Slot, loose: bool) -> tuple[int, int]:
    """Return the width of a right-aligned field, and how many spaces before it are not padding; 0, 0 for others."""
    if slot.kind == LITERAL or loose or any("\t" in g for g in slot.gaps) or slot.spec.startswith("0"):
        return 0, 0
    ends = [len(g) + len(t) for g, t in zip(slot.gaps, slot.texts, strict=True)]
    if len(set(slot.gaps)) == 1 or (len(set(ends)) > 1 and slot.kind != NUMBER):
        return 0, 0
    margin = min(1, *map(len, slot.gaps))
    return max(ends) - margin, margin
