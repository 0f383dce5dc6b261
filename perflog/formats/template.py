"""Templates: format strings that both read and write a line.

`"STEP-{step:d}: step_time = {step_time:.6f} ms"` is the program's own print string. A template compiles to a regular
expression that means the same to RE2 and to Python's `re`: it has no look-around and no back-references, so RE2 matches
it in linear time. The template also renders a line back, byte for byte.

A field is `{name:spec}`. A field named `_` is read and dropped, and so is one named `__`: that name says that a format
file declares why its numbers are dropped. The spec is Python's: fill and align, width, comma,
precision, and one of the types below. Width and precision matter only when a line is written: reading accepts any
padding and any number of decimals.

    d  integer                 w  word: letters, digits, underscore     t  duration with its unit: 4.0922ms
    f e E g  number            S  no whitespace                         b  whitespace, or nothing
                               x  no numbers: each digit is in a name
    r  number as repr() prints s  any string, or none                  z  size with its unit: 170.67KB, 1.25 Gb
    u  number without a sign       i  name: a word whose first character is a letter
    l  list of numbers: 1, 2.5     j  no number: true, None, <object>   q  number with a metric prefix: 9123.92 G
    m  lists: [1, 2], [3]                                               h  duration: 0:00:24, 2h3m
                                                                        k  time since a start: 05:10, 1:05:10

Types `l` and `m` are the items between the brackets of a list; a number may be in quotes, or null. Type `j` is
a bare word of JSON or Python: no quotes, brackets, commas, colons or whitespace.

Two more types name a separator before the type letter, as in `{name:|c}`: one character that is no letter, or one
or two spaces. Their strings cannot contain the separator. Type `s` would run across repeated separators.

    c  any string without the separator, or none; inside quotes a backslash escapes the next character
    n  like c, but not a number, and without whitespace at its ends

Two types are for what surrounds a line (see `surroundings`):

    p  what is before it: dates, brackets, names of a logger         a  what is after it: a separate string
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import zip_longest

from msgspec import Struct

from perflog.errors import FormatError
from perflog.formats.bars import CLOCK
from perflog.formats.durations import DURATION, clock_seconds, print_clock, print_duration, seconds
from perflog.formats.surroundings import APPENDIX, PREFIX
from perflog.lazy_patterns import lazy_pattern
from perflog.units import PRINTED, print_with_unit

Value = int | float | str

UNNAMED = "_"
"""Name of a field that is read and dropped. Its figures count as unread unless its line declares a reason."""

DECLARED_DROPPED = "__"
"""Name of a field that is dropped for a reason that its format file declares."""

_PIECE = lazy_pattern(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_SPEC = lazy_pattern(
    r"(?:(?P<fill>.)?(?P<align>[<>^]))?\+?0?(?P<width>\d+)?(?P<comma>,)?(?:\.(?P<precision>\d+))?(?P<type>[a-zA-Z])"
)
_SEPARATED = lazy_pattern(r"(?P<stop> {1,2}|[^\w ])(?P<type>[cn])")
NUMBER = r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[nN][aA][nN]|[iI][nN][fF](?:inity)?)"
_ITEM = rf"(?:[\x22\x27]?{NUMBER}[\x22\x27]?|null|None)"
_THOUSANDS = r"(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)"  # `0,125` is an eighth
GROUPED = rf"{NUMBER}|[+-]?{_THOUSANDS}(?:\.\d*)?(?:[eE][+-]?\d+)?"
"""A number, perhaps with commas between its thousands: `12,345.6`. `12,5` is none."""
LIST = rf"(?:[ \t]*{_ITEM}(?:[ \t]*,[ \t]*{_ITEM})*[ \t]*,?)?[ \t]*"
"""The items of a list of numbers, between its brackets."""
LISTS = rf"[ \t]*\x5b{LIST}\x5d(?:[ \t]*,[ \t]*\x5b{LIST}\x5d)*[ \t]*"
"""The items of a list of lists of numbers, between its brackets."""

_TYPES = {
    "d": (r"[+-]?\d+", "an integer"),
    **dict.fromkeys("feEgr", (NUMBER, "a number")),
    "u": (NUMBER.removeprefix("[+-]?"), "a number without a sign"),
    "w": (r"\w+", "a word"),
    "i": (r"[A-Za-z]\w*", "a name"),
    "S": (r"[^\x09-\x0d ]+?", "string without whitespace"),
    "s": (r".*?", "text"),
    "t": (NUMBER, "a duration such as 4.0922ms"),
    "z": (NUMBER, "a size such as 170.67KB"),
    "b": (r"[ \t]*", "blanks"),
    "x": (r"(?:[^0-9]|[A-Za-z_][0-9]+)+", "string without numbers"),
    "T": (r"[^:%\n]+: \w+=[^\s,:=]+(?:,? \w+=[^\s,:=]+)*", "words, a colon and pairs such as `llama: M=64, N=3`"),
    "q": (NUMBER, "a number with a metric prefix such as 9.12 G"),
    "c": ("", "text"),
    "n": ("", "string that is no number"),
    "l": (LIST, "a list of numbers"),
    "m": (LISTS, "lists of numbers"),
    "j": ("", "a word that is no number"),
    "p": (PREFIX, "the prefix of a logger"),
    "a": (APPENDIX, "a separate string after the line"),
    "h": (DURATION, "a duration such as 0:00:24"),
    "k": (CLOCK, "a time since a start such as 05:10"),
}
NUMERIC = frozenset("dfeEgrutzqhk")
READ_BY = {"h": seconds, "k": clock_seconds}
"""Types that a function reads as seconds."""

TEXTS = "sSwcnjbxpaBT"
"""Types of fields that are strings."""

LOOSE = "scnjxpaBT"
"""Types of fields that may hold a whole record: they may have whitespace in them."""

LIST_DEPTH = {"l": 1, "m": 2}
_QUOTES = ('"', "'")
_SIGNED = r"0-9+\-"
_PATTERN_OF_BYTE = [
    chr(byte) if (chr(byte).isalnum() and byte < 128) or byte in b" _" else f"\\x{byte:02x}" for byte in range(256)
]


_AFTER_NUMBER = r"(?:[^0-9A-Za-z_.,'# \t]|,[^0-9]|[.,]$|[ \t]+(?:[^0-9 \t]|$))"  # what cannot continue a number
_LONGEST_SURE = 300  # digits of a number that fits into a double
_SHOWN = 110  # characters around the one at which a match stopped


def fits_64(text: str | bytes) -> bool:
    """Return whether an integer fits into 64 bits, given its string."""
    digits = text.decode() if isinstance(text, bytes) else text
    digits = digits.replace(",", "")
    return len(digits) < 32 and -(1 << 63) <= int(digits) < 1 << 63


def fits_double(text: str | bytes) -> bool:
    """Return whether a printed number fits into a double: `1e400` and 400 digits do not, `inf` does."""
    printed = text.decode() if isinstance(text, bytes) else text
    is_short = len(printed) <= _LONGEST_SURE and "e" not in printed and "E" not in printed
    return is_short or not math.isinf(float(printed.replace(",", ""))) or "n" in printed.lower()


def escape(text: str) -> str:
    """Return a literal as a pattern over UTF-8 bytes that means the same to RE2 and to `re`."""
    return "".join([_PATTERN_OF_BYTE[byte] for byte in text.encode("utf-8", "surrogateescape")])


def literal(text: str) -> str:
    """Return a string as the literal of a template, its braces doubled."""
    return text.replace("{", "{{").replace("}", "}}")


def unnamed(pattern: str) -> str:
    """Return the pattern with non-capturing groups, so that a larger pattern can contain it several times."""
    return re.sub(r"[?]P<[^>]*>", "?:", pattern)


def letters_in(text: str) -> int:
    """Return the number of letters and digits."""
    return sum(map(str.isalnum, text))


def _text_pattern(stop: str) -> str:
    """Return the pattern of type `c`: a string without the separator, or none."""
    if stop == "  ":
        return r"(?:[^ ]| [^ ])*?"
    return rf"(?:[^{stop}\\]|\\.)*?" if stop in _QUOTES else f"[^{escape(stop)}]*?"


_BARE_ENDS = r"\x5b\x5d{}(),:\x22\x27"
"""The characters at which a bare word of JSON ends, beside whitespace."""


def _non_number_pattern(stop: str) -> str:
    """Return the pattern of types `n` and `j`: a string without the separator that is not a number.

    RE2 has no negative look-ahead, so the pattern spells the complement of a number out: at some character the string
    departs from what a number can continue with, or it ends before the number is complete. Outside quotes the string
    neither begins nor ends with whitespace.
    """
    bare = stop == _BARE_ENDS
    mark = stop if bare else escape(stop) if stop.strip() else ""
    blanks = "" if stop in _QUOTES else r"\x09-\x0d " if bare else r" \t"

    def first(without: str) -> str:
        return rf"(?:[^{without}{stop}\\]|\\.)" if stop in _QUOTES else f"[^{without}{mark}{blanks}]"

    gap = "" if bare or stop in _QUOTES or stop == " " else f"| {first('')}" if stop == "  " else rf"|[ \t]+{first('')}"
    tail = f"(?:{first('')}{gap})*?"

    def other(without: str) -> str:
        return f"(?:{first(without)}{gap}){tail}"

    digits, more = (r"\d+", "0-9") if bare or stop == "," else (r"\d[\d,]*", "0-9,")
    odd = rf"(?:\d{{4,}},\d*|\d[\d,]*,\d{{0,2}}|\d[\d,]*,\d{{4,}})(?:{other('0-9')})?"  # `12,5` is no number
    power = rf"[+-](?:{other('0-9')})?|[+-]?\d+{other('0-9')}|{other(_SIGNED)}"
    ways = (
        *([odd] if "," in more else []),
        digits + other(f"{more}.eE"),
        rf"(?:{digits}\.\d*|\.\d+){other('0-9eE')}",
        rf"\.(?:{other('0-9')})?",
        rf"(?:{digits}(?:\.\d*)?|\.\d+)[eE](?:{power})?",
        f"[nN](?:{other('aA')}|[aA](?:{other('nN')}|[nN]{other('')})?)?",
        f"[iI](?:{other('nN')}|[nN](?:{other('fF')}|[fF]{other('')})?)?",
    )
    return f"(?:{first(_SIGNED + '.nNiI')}{tail}|[+-]?(?:{'|'.join(ways)})|[+-](?:{other('0-9.nNiI')})?|)"


class Field(Struct, frozen=True):
    """One field of a template.

    Attributes:
        name: The name of the value; `_` or `__` for one that is dropped.
        type: The type letter.
        spec: What is after the colon, with the type letter.
        width: The least number of characters that the program prints.
        align: "<", ">" or "^".
        comma: Whether the program groups thousands by commas.
        stop: The separator that types `c` and `n` cannot contain.
    """

    name: str
    type: str
    spec: str
    width: int = 0
    align: str = ""
    comma: bool = False
    stop: str = ""

    @property
    def numeric(self) -> bool:
        return self.type in NUMERIC

    @property
    def is_dropped(self) -> bool:
        """Whether the value is read and thrown away."""
        return self.name in (UNNAMED, DECLARED_DROPPED)

    def fits(self, text: str | bytes) -> bool:
        """Return whether the number in a captured string fits into 64 bits."""
        return self.type in READ_BY or (fits_64(text) if self.type == "d" else fits_double(text))

    def pattern(self, group: str) -> str:
        """Return the pattern of the field. `group` names the capture; "" captures nothing."""
        body = _TYPES[self.type][0]
        if self.type == "j":
            body = _non_number_pattern(_BARE_ENDS)
        elif self.comma:
            body = rf"[+-]?{_THOUSANDS}" if self.type == "d" else f"(?:{GROUPED})"
        elif self.stop:
            body = _text_pattern(self.stop) if self.type == "c" else _non_number_pattern(self.stop)
        text = f"(?P<{group}>{body})" if group else f"(?:{body})"
        if self.type in PRINTED and PRINTED[self.type][1]:
            every = PRINTED[self.type][1]
            gap, units = "" if self.type == "t" else " ?", "|".join(escape(u) for u in every if u)
            units = f"(?:{units})?" if "" in every else units
            text += f"{gap}(?P<{group}__unit>{units})" if group else f"{gap}(?:{units})"
        left = " *" if self.width and self.align != "<" else ""
        right = " *" if self.width and self.align in ("<", "^") else ""
        return left + text + right

    def value(self, text: str, unit: str = "") -> Value:
        """Return the value of a captured string, in base units if the string has a unit."""
        if self.type == "d":
            return int(text.replace(",", ""))
        if self.type in READ_BY:
            return READ_BY[self.type](text)
        if self.type in PRINTED:
            return float(text) * PRINTED[self.type][1][unit]
        return float(text.replace(",", "")) if self.numeric else text

    def render(self, value: Value) -> str:
        """Return the value as the program prints it."""
        if self.type in "wiSsbcnlmjpaxT":
            text = str(value)
        elif self.type == "d":
            return format(int(value), self.spec)
        elif self.type in "feEgu":
            return format(float(value), self.spec.replace("u", "g"))
        elif self.type == "h":
            text = print_duration(float(value), self.spec.startswith("0"))
        elif self.type == "k":
            text = print_clock(float(value))
        else:
            text = print_with_unit(float(value), self.spec) if self.type in PRINTED else repr(float(value))
        return f"{text:{self.align or '>'}{self.width}}" if self.width else text


@lru_cache(1 << 12)
def _well_formed_field(body: str) -> Field | None:
    """Return the field of a string between braces, None for a wrong one. Many templates have the same fields."""
    try:
        return _field(body, "", 0)
    except FormatError:
        return None


def _field(body: str, text: str, column: int) -> Field:
    name, colon, spec = body.partition(":")
    where = f"{text}\n{' ' * column}^"
    if not colon or not name.isidentifier():
        raise FormatError(f"`{{{body}}}` is not a field", where, "write {name:type}, and {{ or }} for a brace")
    separated = _SEPARATED.fullmatch(spec)
    if separated is not None:
        return Field(name, separated["type"], spec, stop=separated["stop"])
    match = _SPEC.fullmatch(spec)
    if match is not None and match["type"] in "cn":
        raise FormatError(
            f"`{spec}` names no separator", where, f"write the separator first: {{{name}:|{match['type']}}}"
        )
    if match is None or match["type"] not in _TYPES:
        raise FormatError(f"`{spec}` is not a field type", where, f"the types are {' '.join(_TYPES)}")
    kind, width = match["type"], int(match["width"] or 0)
    if (match["precision"] and kind not in "feEgtz") or (match["comma"] and kind not in "dfeEg"):
        raise FormatError(
            f"`{spec}` cannot be printed",
            where,
            f"type {kind} takes no {'precision' if match['precision'] else 'comma'}",
        )
    align = match["align"] or ("<" if kind in "wiSsblmjx" else ">")
    return Field(name, kind, spec, width, align, bool(match["comma"]))


class Miss(Struct, frozen=True):
    """Where a line stops matching a template.

    Attributes:
        position: Offset in the line, in bytes.
        expected: The string that the template expects there, in words.
        literal: Number of literal bytes of the template that matched before that position.
    """

    position: int
    expected: str
    literal: int = 0


class Template:
    """A line shape that reads and writes lines.

    Literals and fields alternate: `literals` has one more item than `fields`, a literal is first and last.

    Args:
        text: The template string, `"lr: {learning_rate:.3e}"`.

    Raises:
        FormatError: The string is no template. The error has a caret under the offset of the error.

    Example:
        >>> template = Template("STEP-{step:d}: {time:.3f} ms")
        >>> template.match("STEP-7: 21.340 ms")
        {'step': 7, 'time': 21.34}
        >>> template.render({"step": 7, "time": 21.34})
        'STEP-7: 21.340 ms'
    """

    def __init__(self, text: str) -> None:
        self.text = text
        literals, fields, last, current = [], [], 0, ""
        for piece in _PIECE.finditer(text):
            current += text[last : piece.start()]
            last = piece.end()
            if piece[0] in ("{{", "}}"):
                current += piece[0][0]
            elif piece[1] is None:
                raise FormatError("a single brace", f"{text}\n{' ' * piece.start()}^", "write {{ and }} for braces")
            else:
                fields.append(_well_formed_field(piece[1]) or _field(piece[1], text, piece.start()))
                literals.append(current)
                current = ""
        literals.append(current + text[last:])
        self.fields: tuple[Field, ...] = tuple(fields)
        self.literals: tuple[str, ...] = tuple(literals)
        names = [f.name for f in fields if not f.is_dropped]
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise FormatError(f"two fields are named `{twice}`", text, "give each field its own name")

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields if not f.is_dropped)

    def with_fields(self, fields: Iterable[str]) -> str:
        """Return the template string with other strings for its fields, in their order."""
        literals = list(map(literal, self.literals))
        return literals[0] + "".join(map("".join, zip(fields, literals[1:], strict=True)))

    def renamed(self, names: Mapping[str, str]) -> Template:
        """Return the template with other names for some fields. It reads the same lines."""
        return Template(self.with_fields(f"{{{names.get(f.name, f.name)}:{f.spec}}}" for f in self.fields))

    @property
    def is_bare(self) -> bool:
        """Whether the template is a single field, with nothing around it."""
        return len(self.fields) == 1 and not any(self.literals)

    @cached_property
    def pattern(self) -> str:
        """The regular expression of a line without its trailing whitespace. It is not anchored."""
        return self._pattern(["" if f.is_dropped else f.name for f in self.fields])

    def _pattern(self, groups: Sequence[str], spans: Mapping[int, tuple[int, str]] | None = None) -> str:
        """Return the pattern in which these groups capture the fields; "" captures nothing.

        `spans` are groups that capture several fields: by the first of them, the last of them and the name.
        """
        pieces, ends = list(self.literals), {last for last, _ in (spans or {}).values()}
        pieces[-1] = pieces[-1].rstrip(" \t")
        pattern = escape(pieces[0])
        for index, (field, group) in enumerate(zip(self.fields, groups, strict=True)):
            text = field.pattern(group)
            after = pieces[index + 1]
            if not after and index == len(self.fields) - 1:
                text = text.replace(".*?", ".*").replace("]+?", "]+")
            if field.type == "s" and index and not pieces[index] and self.fields[index - 1].numeric:
                body = text[text.index(".*") : -1]  # what cannot continue the number
                text = text.replace(body, f"(?:{_AFTER_NUMBER}{body})?")
            begin = f"(?P<{spans[index][1]}>" if spans and index in spans else ""
            pattern += begin + text + ")" * (index in ends) + escape(after)
        return pattern

    @cached_property
    def _dropped_spans(self) -> list[tuple[int, int]]:
        """First and last field of each dropped string. A date and a time with a space in between are one string."""
        spans: list[tuple[int, int]] = []
        for i, f in enumerate(self.fields):
            if not f.is_dropped or f.numeric or f.type == "b":
                continue
            if spans and self.fields[spans[-1][1]].name == f.name and self._only_blanks_between(spans[-1][1], i):
                spans[-1] = (spans[-1][0], i)
            else:
                spans.append((i, i))
        return spans

    def _only_blanks_between(self, first: int, second: int) -> bool:
        """Return whether only whitespace is between two fields."""
        if second - first == 1:
            return self.literals[second] == " "
        between = self.literals[first + 1] + self.literals[second]
        return second - first == 2 and self.fields[first + 1].type == "b" and not between

    @property
    def dropped_texts(self) -> tuple[Field, ...]:
        """The first field of each string that is read and dropped and is no number. The string may have figures."""
        return tuple(self.fields[first] for first, _ in self._dropped_spans)

    @cached_property
    def dropped_texts_pattern(self) -> str:
        """The pattern that captures only the dropped strings, as groups `dropped_0`, `dropped_1` and so on."""
        spans = {first: (last, f"dropped_{k}") for k, (first, last) in enumerate(self._dropped_spans)}
        return self._pattern([""] * len(self.fields), spans)

    def loose_spans(self, line: bytes) -> list[tuple[int, int]] | None:
        """Return where the strings of a line are that may have whitespace in them; None if the line does not match.

        The line has no trailing whitespace.
        """
        match = self._with_loose_texts.fullmatch(line)
        return None if match is None else [match.span(group) for group in match.groupdict()]

    @cached_property
    def _with_loose_texts(self) -> re.Pattern[bytes]:
        """The pattern that captures only strings that may have whitespace in them."""
        groups = [f"loose_{k}" if f.type in LOOSE else "" for k, f in enumerate(self.fields)]
        return re.compile(self._pattern(groups).encode(), re.DOTALL)

    @cached_property
    def regex(self) -> re.Pattern[bytes]:
        return re.compile(self.pattern.encode(), re.DOTALL)

    @cached_property
    def fails_fast(self) -> bool:
        """Whether Python finds quickly that a short string does not match: few fields may end at any character."""
        types = [f.type for f in self.fields]
        return not {"p", "a", "B"}.intersection(types) and sum(type_ in "sSx" for type_ in types) <= 3

    @cached_property
    def prefix(self) -> bytes:
        """The bytes that every line of this shape starts with."""
        return (
            self.literals[0].encode("utf-8", "surrogateescape")
            if self.fields
            else self.literals[0].rstrip(" \t").encode("utf-8", "surrogateescape")
        )

    @cached_property
    def required_literal(self) -> bytes:
        """Bytes that every line of this shape contains: the literal with the most letters and digits."""
        return max((x.strip(" \t") for x in self.literals), key=letters_in).encode("utf-8", "surrogateescape")

    @cached_property
    def _encoded_literals(self) -> tuple[bytes, ...]:
        """The literals in their order, without trailing whitespace."""
        return tuple(
            x.encode("utf-8", "surrogateescape") for x in (*self.literals[:-1], self.literals[-1].rstrip(" \t"))
        )

    def has_literals(self, text: bytes) -> bool:
        """Return whether the literals are in a string one after the other, and the string begins with the first.

        A string without them does not match. This check takes less time than to compile the expression.
        """
        first, *others = self._encoded_literals
        if not text.startswith(first):
            return False
        offset = len(first)
        for literal in others:
            offset = text.find(literal, offset)
            if offset < 0:
                return False
            offset += len(literal)
        return True

    def may_stand_in(self, text: bytes) -> bool:
        """Return whether the literals are anywhere in a string one after the other."""
        begin = text.find(self._encoded_literals[0])
        return begin >= 0 and self.has_literals(text[begin:])

    @cached_property
    def blanks(self) -> int:
        """Least number of spaces in a line of this shape without its trailing whitespace: the spaces in literals."""
        return sum(literal.count(b" ") for literal in self._encoded_literals)

    @property
    def has_prefix(self) -> bool:
        """Whether a prefix is before the line (type `p`, or `B`)."""
        return any(f.type in "pB" for f in self.fields[:1])

    @property
    def has_appendix(self) -> bool:
        """Whether something else is after the line (type `a`)."""
        return any(f.type == "a" for f in self.fields[-1:])

    @cached_property
    def letters(self) -> int:
        """Number of letters and digits in the literals: the more, the less likely is a match by chance."""
        return letters_in("".join(self.literals))

    def values(self, match: re.Match[bytes]) -> dict[str, Value]:
        """Return the typed values of a match of `regex`, by field name."""
        texts = {name: text.decode("utf-8", "backslashreplace") for name, text in match.groupdict().items()}
        return {
            f.name: f.value(texts[f.name], texts.get(f"{f.name}__unit", "")) for f in self.fields if not f.is_dropped
        }

    def match(self, line: str | bytes) -> dict[str, Value] | None:
        """Match a whole line; trailing whitespace does not matter.

        Returns:
            The values by field name, in their printed units; None if the line does not match, or if a number in it
            does not fit into 64 bits.
        """
        raw = line.encode("utf-8", "surrogateescape") if isinstance(line, str) else line
        match = self.regex.fullmatch(raw.rstrip(b" \t"))
        if match is None or not all(f.fits(match[f.name]) for f in self.fields if f.numeric and not f.is_dropped):
            return None
        return self.values(match)

    def render(self, values: dict[str, Value]) -> str:
        """Return the line of these field values, as the program prints it."""
        line = self.literals[0]
        for field, literal in zip(self.fields, self.literals[1:], strict=True):
            line += field.render(values[field.name]) + literal
        return line

    def explain(self, line: str | bytes) -> Miss | None:
        """Return where a line stops matching; None if it matches."""
        raw = (line.encode("utf-8", "surrogateescape") if isinstance(line, str) else line).rstrip(b" \t")
        if raw.startswith(self.prefix) and self.regex.fullmatch(raw):
            return None
        reached, matched_literal = 0, 0
        for index, literal in enumerate(self.literals):
            text = literal if index < len(self.fields) else literal.rstrip(" \t")
            match = self._beginning(index).match(raw)
            if not match:
                while raw[reached : reached + 1] and text.encode("utf-8", "surrogateescape").startswith(
                    raw[reached : reached + 1]
                ):
                    text, reached, matched_literal = text[1:], reached + 1, matched_literal + 1
                return Miss(reached, f"`{text}`", matched_literal)
            reached = match.end()
            matched_literal += len(text.encode("utf-8", "surrogateescape"))
            if index < len(self.fields):
                match = self._beginning(index, with_field=True).match(raw)
                if not match:
                    return Miss(reached, _TYPES[self.fields[index].type][1], matched_literal)
                reached = match.end()
        return Miss(reached, "the end of the line", matched_literal)

    @cached_property
    def literal_bytes(self) -> int:
        """Number of bytes of the literals: the most that `explain` can find matching."""
        return sum(len(literal.encode("utf-8", "surrogateescape")) for literal in self.literals)

    def _beginning(self, index: int, with_field: bool = False) -> re.Pattern[bytes]:
        """Return the expression of a line up to the literal of this index, or up to the field after it."""
        key = 2 * index + with_field
        if key not in self._beginnings:
            literals = [*self.literals[:-1], self.literals[-1].rstrip(" \t")][: index + 1]
            fields = [f.pattern("") for f in self.fields[: index + with_field]]
            pieces = zip_longest(map(escape, literals), fields, fillvalue="")
            self._beginnings[key] = re.compile("".join(x for pair in pieces for x in pair).encode(), re.DOTALL)
        return self._beginnings[key]

    @cached_property
    def _beginnings(self) -> dict[int, re.Pattern[bytes]]:
        return {}


def caret(line: str, miss: Miss) -> str:
    """Return the line with a caret under the offset at which the match stopped, cut to the characters around it."""
    raw = line.encode("utf-8", "surrogateescape")
    column = len(raw[: miss.position].decode("utf-8", "replace"))
    start = max(0, column - _SHOWN + 20)
    shown = "".join(c if c.isprintable() else "·" for c in line[start : start + _SHOWN])
    return f"{shown}\n{' ' * (column - start)}^ expected {miss.expected}"
