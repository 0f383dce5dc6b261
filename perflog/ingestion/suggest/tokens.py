"""A line of an unknown log as tokens: numbers, names, blanks, and what varies and says nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

NUMBER, UNIT, NAME, MARK, OPAQUE, LIST = "number", "unit", "name", "mark", "opaque", "list"

_COMMAS = r"(?<!,)[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?(?![0-9]|,[0-9])"
_FIGURE = rf"(?:{_COMMAS}|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NONE = r"(?i:nan|inf|infinity)(?!\w| (?!ms\b|s\b|tok)[A-Za-z])"  # not: number of nan iterations
_CLOCK = r"[0-9]{1,3}:[0-9]{2}(?::[0-9]{2})?(?:[.,][0-9]+)?"
_ZONE = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_OPAQUE = (
    r"[A-Za-z][A-Za-z0-9+.-]*://[^ \t]+",  # an address
    rf"[0-9]{{4}}(?:-[0-9]{{2}}-[0-9]{{2}}|/[0-9]{{2}}/[0-9]{{2}})(?:T{_CLOCK}{_ZONE}|[-_][0-9][0-9:.,-]*)?",  # a date
    r"[0-9]{1,2}/[0-9]{1,2}/(?:[0-9]{4}|[0-9]{2})(?![\w/])",
    rf"{_CLOCK}{_ZONE}(?![\w:])",  # a time of day, or one that has passed
    r"[IWEF][0-9]{4}(?= [0-9]{2}:[0-9]{2}:)",  # a date, as glog prints it
    r"0x[0-9a-fA-F]+",
    r"==[0-9]+==",  # a process, as profilers print it
    r"(?<=, line )[0-9]+(?=, in )",
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    r"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}(?!\w)",  # a hash
    r"[0-9]+(?:\.[0-9]+){2,}(?:[-+.]?\w+)*(?::[0-9]+)?",  # a version, an address
    r"(?:[~.]{0,2}/)?[\w./+-]*\w\.(?:py|cpp|cc|cu|cuh|h|hpp|c|rs|go|java|jl|sh):[0-9]+",  # a place in a program
    r"[A-Za-z_][\w./-]*:[0-9]+(?=:[A-Za-z_<])",
    r"(?<=\[)(?!rank|stage|step|iter|epoch|gpu|node|local|[tpdec]p\b)[a-z_.]+:[0-9]+(?=\])",
    r"(?<![<\w.+)\]])(?:~|\.{1,2})?/[\w.+@=~,-]+(?:/[\w.+@=~,-]*)*",  # a path
    r"[\u2580-\u259f]+",  # a bar
)
_TOKEN = re.compile(
    r"(?P<blank>[ \t]+)"
    rf"|(?P<list>[\[(][+-]?{_FIGURE}(?:, ?[+-]?{_FIGURE}){{2,}}[\])])"
    r"|(?P<unit>(?<=[0-9])(?:ns|us|µs|ms|s)(?!\w|/\w))"
    rf"|(?<![\w.])(?P<opaque>{'|'.join(_OPAQUE)})"
    rf"|(?P<number>(?:(?<![\w.\])])[+-]|(?<![\w.]))(?:{_FIGURE}|{_NONE})|(?<!\w)[+-](?:nan|inf))"
    r"|(?P<name>(?:cuda|cpu|gpu|xpu|npu|hpu|hip):[0-9]+(?!\w)|[^\W\d]\w*(?:[-./]\w+)*(?:\.\.\.)?)"
    r"|(?P<mark>\w+|[^\w \t])"
)
_DIGITS = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class Token:
    """A token with the blanks in front of it."""

    kind: str
    text: str
    gap: str

    @property
    def key(self) -> str:
        """The same for tokens of one shape: of a number that it is one, of a name its letters."""
        if self.kind == NAME:
            return _DIGITS.sub("#", self.text)
        return self.text if self.kind == MARK else f"\0{self.kind}"


def tokens(line: str) -> tuple[Token, ...]:
    """The tokens of a line without the blanks at its end."""
    out, gap = [], ""
    for match in _TOKEN.finditer(line.rstrip(" \t")):
        kind = match.lastgroup or ""
        if kind == "blank":
            gap = match[0]
        else:
            out.append(Token(kind, match[0], gap))
            gap = ""
    return tuple(out)


def skeleton(line: tuple[Token, ...], units: bool = False) -> tuple[str, ...]:
    """What lines of one shape have in common: keys, and whether there are blanks between them; with `units` also which
    units stand there.

    Blanks between a number and a mark, or at the begin, may be padding: they do not count.
    """
    out: list[str] = []
    before = MARK
    for token in line:
        padding = {before, token.kind} in ({MARK, NUMBER}, {MARK, UNIT}, {OPAQUE, MARK}) or not out
        if token.gap and not padding:
            out.append(" ")
        out.append(token.text if units and token.kind == UNIT else token.key)
        before = token.kind
    return tuple(out)


def digits(text: str) -> list[str]:
    """A name as letters and runs of digits in turn, letters first and last."""
    return re.split(r"([0-9]+)", text)
