"""Lines with one case of a benchmark and its results: `matmul 4096x4096: 0.31 ms`, `seq_len 2048: 1.2 ms, 440 TFLOPS`.

The label before the mark has the numbers of the case, each with the word that names it; the other words name what was
measured. After the mark are results, each with its unit. Nothing else is on such a line. Steps, epochs, ranks and other
things that programs number are no cases: their lines are results of one case at different times or places.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct, field

from perflog.formats.families.base import FamilyShape, FieldNames, counted, gap_text, spec_of
from perflog.formats.families.measured_lines import is_quantity, is_set
from perflog.formats.model import Line
from perflog.formats.surroundings import PREFIX, end_of_logger_prefix, prefix_ends
from perflog.formats.template import literal
from perflog.formats.vocabulary import CONFIGURED, COUNTED_UP, COUNTERS, KINDS, LEVELS, NUMBERED, SENTENCE_WORDS, SPEEDS
from perflog.lazy_patterns import lazy_pattern
from perflog.units import UNITS, Unit, base_of, unit_of

_WHOLE = r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,15}"
_SHAPE = r"[0-9]{1,9}(?:[xX×*][0-9]{1,9}){1,5}"
_WORD = r"[A-Za-z][\w.+/-]{0,39}"
_SIZE = r"(?:[KMG]i?B|B)\b"
_ITEM = rf"\(?(?:{_WORD}=)?(?:{_SHAPE}|{_WHOLE}|{_WORD})(?:{_SIZE})?\)?,?"
_LABEL = rf"{_ITEM}(?:[ \t]{{1,4}}{_ITEM}){{0,11}}"
_NUMBER = r"[0-9]{1,3}(?:,[0-9]{3}){1,4}(?:\.[0-9]{1,12})?|[0-9]{1,12}(?:\.[0-9]{1,12})?(?:e[+-]?[0-9]{1,3})?"
_UNIT = (
    r"(?:[mu]s/[a-z]{1,12}|[mnuµ]?s|[mu]?secs?|(?:milli|micro)?seconds?|[MGTP]fl?ops?(?:/s)?|[KMGT]i?B(?:ytes)?/s(?:ec)?"
    r"|[a-z]{1,12}/s(?:ec)?)\b"
)
_RESULT = rf"(?:{_WORD}(?:[ \t]{_WORD}){{0,2}}[ \t]?[=: \t][ \t]?)?(?:{_NUMBER})[ \t]?{_UNIT}"
_MORE = rf"(?:[ \t]?[,;|/][ \t]?{_RESULT}|[ \t]{{1,4}}\([ \t]?{_RESULT}[ \t]?\)|[ \t]{{1,8}}{_RESULT})"
_RESULTS = rf"{_RESULT}{_MORE}{{0,5}}"
_TAGS = r"(?:\[[A-Za-z0-9][\w.+-]{0,30}\][ \t]{1,4}){0,3}"
_CASE = rf"[ \t]*{_TAGS}{_LABEL}[ \t]{{0,4}}(?::|->|=>)[ \t]{{1,8}}{_RESULTS}[ \t]*$"

PATTERN = rf"(?i:(?:{PREFIX})?{_CASE})"
"""What such a line is."""

_IS_CASE = lazy_pattern(rf"(?i){_CASE}")
_MOST_WORDS = 4  # that name what was measured
_BEFORE = (b"- ", b": ", b"] ")  # a case, if what a logger prints ends in a name
_BEGIN_NAMES = frozenset("num head hidden batch seq input output".split())  # of names of two words
_LEAST_SIZE = 16  # of a number without a name: a smaller one counts something
_NAME = lazy_pattern(r"[A-Za-z]\w*")
_GAPS = lazy_pattern(r"([ \t]+)")
_MARK = lazy_pattern(r"[ \t]*(?::|->|=>)[ \t]+")
_PART = lazy_pattern(
    rf"(?:(?P<key>{_WORD})=)?(?:(?P<shape>{_SHAPE})|(?P<whole>{_WHOLE})(?P<gap>[ \t]?)(?P<unit>{_SIZE})?)(?![\w.])"
    rf"|(?P<word>{_WORD}|[0-9]+[A-Za-z]\w*)|[ \t]+|."
)
_FIGURE = lazy_pattern(
    rf"(?i)(?P<name>{_WORD}(?:[ \t]{_WORD}){{0,2}})?(?P<mark>[ \t]?[=: \t][ \t]?)?(?P<number>{_NUMBER})"
    rf"(?P<gap>[ \t]?)(?P<unit>{_UNIT})(?P<after>[ \t),;|/(]*)"
)

_PARAMETERS = (CONFIGURED - COUNTERS - NUMBERED - COUNTED_UP) | frozenset(
    "m n k b s h d l q bs mbs gbs seq seqlen seq_len ctx context isl osl tokens tp dp pp ep cp sp concurrency conc "
    "message msg bytes numel elements rows cols length head_dim headdim".split()
)
"""Words that name the number of a case beside them."""

_REFUSED = (
    COUNTERS
    | NUMBERED
    | COUNTED_UP
    | SENTENCE_WORDS
    | frozenset(level.lower() for level in LEVELS)
    | frozenset("link lane channel attempt try loop pass call repeat query slot sm bank ring eta".split())
) - _PARAMETERS
"""Words for what programs number or count up, and words of sentences: such a line is no case."""


def case_line(shape: FamilyShape, text: str) -> Line | None:
    """Return the Line of a string with a case and its results; None for another string."""
    bare = text.rstrip(" \t")
    raw = bare.encode("utf-8", "surrogateescape")
    after_names = (end for end in prefix_ends(raw) if raw[end - 2 : end] in _BEFORE)
    for end in dict.fromkeys((0, end_of_logger_prefix(bare), *after_names)):
        rest = raw[end:].decode("utf-8", "surrogateescape")
        case = _Case()
        if _IS_CASE.match(rest) is not None and case.read(rest):
            line = shape.line_after(raw, end, case.text, case.names, case.units, keeps_names=True)
            if line is not None:
                return line
    return None


class _Case(Struct):
    """Reads a line without its prefix.

    Attributes:
        text: The template string.
        names: The names of its numbers.
        units: Their units.
    """

    text: str = ""
    names: FieldNames = field(default_factory=lambda: FieldNames("values"))
    units: dict[str, Unit] = field(default_factory=dict)

    def read(self, text: str) -> bool:
        """Read a line. Return whether it has a case and results."""
        mark = _MARK.search(text)
        words = self._read_label(text[: mark.start()]) if mark is not None else None
        if mark is None or words is None:
            return False
        self._add_text(mark[0])
        return self._read_results(text[mark.end() :], words)

    def _read_label(self, label: str) -> list[str] | None:
        """Read what is before the mark. Return the words that name what was measured; None if it is no case."""
        parts = list(_PART.finditer(label))
        numbers = [part for part in parts if part["shape"] or part["whole"]]
        words: list[str] = []
        names: set[int] = set()  # parts that are the name of the number before them
        at = 0  # where the last word is in the template
        for k, part in enumerate(parts):
            if part["word"] and k not in names:
                at = len(self.text)
                words.append(part["word"])
            if not (part["shape"] or part["whole"]):
                self._add_text(part[0])
                continue
            after = parts[k + 2]["word"] if k + 2 < len(parts) and parts[k + 1][0] == " " else None
            name = _name_of(part, words, label[: part.start()], after)
            if not name or is_set(name.replace(" ", "_")):
                return None
            names |= {k + 2} if name == after else set()
            self._add_parameter(part, name)
        is_alone = not words and all(part["whole"] and not part["unit"] for part in numbers)
        if not numbers or (is_alone and self.names.from_keys == {"size"}) or len(words) > _MOST_WORDS:
            return None
        if is_set("_".join(words)) or not _REFUSED.isdisjoint(map(str.lower, words)):
            return None
        is_marked = all(part["key"] or label[: part.start()].endswith("(") for part in numbers)
        if len(words) == 1 and is_marked and _NAME.fullmatch(words[0]) and not is_quantity(words[0]):
            case = self.names.from_key("case", number=False)  # marks beside the numbers show that it is no step
            self.text = f"{self.text[:at]}{{{case}:w}}{self.text[at + len(literal(words[0])) :]}"
            return []
        return words

    def _add_parameter(self, part: re.Match[str], name: str) -> None:
        """Add a number of the case to the template, with its key and its unit."""
        taken = self.names.from_key(name, part["shape"] is None)
        self._add_text(f"{part['key']}=" if part["key"] else "")
        if part["shape"]:
            self.text += f"{{{taken}:S}}"
            return
        self.text += f"{{{taken}:,d}}" if "," in part["whole"] else counted(taken, part["whole"])
        self._add_text(part["gap"] + (part["unit"] or ""))
        if part["unit"]:
            self.units[taken] = UNITS[unit_of(part["unit"])[0]]

    def _read_results(self, text: str, words: Sequence[str]) -> bool:
        """Read what is after the mark. Return whether it has a speed, or the time of a case."""
        at, is_speed = 0, False
        while at < len(text):
            found = _FIGURE.match(text, at)
            if found is None:
                return False
            unit, per = unit_of(found["unit"])
            if not unit and found["unit"].lower().startswith(("ms/", "us/")):
                unit, _, per = found["unit"].partition("/")
            base = base_of(unit)
            if base not in ("s", "1/s", *SPEEDS):
                return False
            name = found["name"] or ""
            if not name and not is_quantity("_".join(words)):
                name = KINDS["s"] if base == "s" else SPEEDS.get(base) or found["unit"].replace("/", "_per_")
            if per:
                name = f"{name} per {per}"
            if is_set(name.replace(" ", "_")) or SENTENCE_WORDS & set((found["name"] or "").lower().split()):
                return False
            taken = self.names.from_key(" ".join([*words, name]).rstrip())
            self._add_text((found["name"] or "") + (found["mark"] or ""))
            self.text += f"{{{taken}:{spec_of(found['number'])}}}"
            self._add_text(found["gap"] + found["unit"] + found["after"])
            self.units[taken] = UNITS[unit]
            is_speed |= base != "s" or UNITS[unit].factor < 1 or "." in found["number"]
            at = found.end()
        return is_speed

    def _add_text(self, text: str) -> None:
        """Add a string as it is; more than one space is any whitespace."""
        for piece in _GAPS.split(text):
            self.text += gap_text(piece) if piece.isspace() else literal(piece)


def _name_of(part: re.Match[str], words: list[str], before: str, after: str | None) -> str:
    """Return the name of a number of a case; "" if nothing names it, and it may count something.

    Args:
        part: The number, perhaps with its key and its unit.
        words: The words before it. Those that name it are removed.
        before: The string before it.
        after: The word after it.
    """
    if part["key"]:
        return part["key"]
    if words and _is_parameter(words[-1]) and before.rstrip(" \t").endswith(words[-1]):
        name = words.pop()
        begins_name = words and (name.lower() == "size" or words[-1].lower() in _BEGIN_NAMES)
        return f"{words.pop()} {name}" if begins_name else name
    if after is not None and _is_parameter(after) and not part["unit"]:
        return after
    if part["shape"]:
        return "shape"
    return "size" if part["unit"] or int(part["whole"].replace(",", "")) >= _LEAST_SIZE else ""


def _is_parameter(word: str) -> bool:
    return word.lower() in _PARAMETERS or word.lower().rpartition("_")[2] in ("size", "len", "length", "dim", "tokens")
