"""Splits a line of an unknown log into tokens: numbers, units, names, marks, lists, and opaque strings.

Opaque strings vary from line to line and measure nothing: dates, paths, hashes, addresses. Which numbers are figures is
decided by `figures`; the patterns here are of strings that look like several tokens.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from operator import itemgetter

from msgspec import Struct
from msgspec.structs import replace

from perflog.formats.durations import DAYS_AND_CLOCK, PARTS
from perflog.formats.figures import figure_spans, name_spans
from perflog.formats.vocabulary import LEVEL
from perflog.lazy_patterns import lazy_pattern

NUMBER, UNIT, NAME, MARK, OPAQUE, LIST = "number", "unit", "name", "mark", "opaque", "list"

_COMMAS = r"(?<!,)[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?(?![0-9]|,[0-9])"
_FIGURE = rf"(?:{_COMMAS}|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NOT_FINITE = r"(?i:nan|inf|infinity)(?!\w| (?!ms\b|s\b|tok)[A-Za-z])"  # but not in `number of nan iterations`
_CLOCK = r"[0-9]{1,3}:[0-9]{2}(?::[0-9]{2})?(?:[.,][0-9]+)?"
_MONTH = "(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)"
_WRITTEN_DATE = (  # Mon Nov 30 10:00:02 2026, 30 Nov 2026 10:00:02
    rf"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?(?:{_MONTH} +[0-9]{{1,2}},?|[0-9]{{1,2}} {_MONTH})(?: [0-9]{{4}},?)? "
    rf"[0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:[.,][0-9]+)?)?(?: [A-Z]{{3,4}})?(?: (?:19|20)[0-9]{{2}})?(?!\w)"
)
_ZONE = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_BEFORE_LEVEL = rf"[)\]]?[ \t|\[]*{LEVEL}\b"
_AFTER_MARK = "|".join(rf"(?<=[:=(\[]{' ' * n})" for n in range(4))
GAPPED = r"[0-9]{1,3}(?: [0-9]{3})+(?:\.[0-9]+)?"
"""Pattern of a number with spaces between its thousands, `1 234.5`: it may also be two numbers, and is not read."""
_GAPPED = rf"(?:(?:{_AFTER_MARK}){GAPPED}|(?<!\S){GAPPED}(?=[ \t]*(?:$|[|;,()\]])))"
_GROUPS = rf"(?:[0-9]{{1,3}}(?:'[0-9]{{3}})+(?:\.[0-9]+)?|{_GAPPED})(?!\w| ?[0-9])"
_OPAQUE = (
    rf"(?<![0-9,])[+-]?(?!{_COMMAS})[0-9]+,[0-9]+(?!\w|,\w)",  # a number with a comma for its point: `12,5`
    r"(?<![0-9,])[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3})+,[0-9]+(?!\w|[.,][0-9])",  # with points between its thousands too
    rf"[+-]?{_GROUPS}",  # one with other marks between its thousands
    r"[+-]?[0-9]+\.(?=[\[({])",  # a number that another line has cut: `loss=4.[rank 2]`
    r"[+-]?[0-9]+\.#[A-Z]+",  # one that is not finite, as Microsoft's library prints it: `1.#INF`
    rf"(?:{PARTS}|{DAYS_AND_CLOCK})(?![\w:])",  # a duration
    r"[A-Za-z][A-Za-z0-9+.-]{0,31}://[^ \t]+",  # an address
    _WRITTEN_DATE,
    rf"[0-9]{{4}}(?:-[0-9]{{2}}-[0-9]{{2}}|/[0-9]{{2}}/[0-9]{{2}})(?:T{_CLOCK}{_ZONE}|[-_][0-9][0-9:.,-]*)?",  # a date
    r"[0-9]{1,2}/[0-9]{1,2}/(?:[0-9]{4}|[0-9]{2})(?![\w/])",
    rf"{_CLOCK}{_ZONE}(?!\w|:[^ \t])",  # a time of day, or an elapsed time
    r"[IWEF][0-9]{3,4}(?= [0-9]{2}:[0-9]{2}:)",  # a date, as glog and c10d print it
    r"[0-9]+\.[0-9]+[eE][+-]?0[0-9]{2,}(?=/[0-9]+ \[)",  # a number joined to the count of a bar: `3.2e-081/1 [==`
    r"(?:[0-9a-fA-F]{4}){1,2}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F](?!\w)",  # a PCI address
    r"(?<=v_num=)[\w-]+",  # the version of a logger, as Lightning prints it
    r"==[0-9]+==",  # a process, as profilers print it
    r"[pt]id=[0-9]+(?!\w)",
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    r"(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}(?!\w)",  # a hash
    r"[0-9]+(?:\.[0-9]+){2,}(?:[-+.]?\w+)*(?::[0-9]+)?",  # a version, an address
    # a line of source code; the bound keeps the time linear in the length of the string
    r"(?:[~.]{0,2}/)?[\w./+-]{0,255}\w\.(?:py|cpp|cc|cu|cuh|h|hpp|c|rs|go|java|jl|sh):(?:[0-9]+| [0-9]+(?=:[ \t]))",
    r"[A-Za-z_][\w./-]{0,255}:[0-9]+(?=:[A-Za-z_<])",  # the same before a function: `trainer:141:train`
    r"(?<=\| )[A-Za-z_][\w.]*(?::(?:\w+|<\w+>))?:[0-9]+(?= -(?: |$))",  # the same, as loguru prints it
    # a line of the source: `train:141 INFO`, `(trainer:453) INFO`; a process on a host, before it
    rf"[A-Za-z_][\w.-]{{0,255}}:[0-9]+(?={_BEFORE_LEVEL})",
    rf"[A-Za-z][\w.-]{{0,255}}:[0-9]+(?=[ \t|]+[A-Za-z_][\w.]*:[0-9]+{_BEFORE_LEVEL})",
    r"(?:(?<=[A-Z][0-9]{2} )|(?<=[A-Z][0-9]{3} )|(?<=[A-Z][0-9]{4} ))[0-9]+ ?[GT]B(?!\w)",  # a device: `H100 80GB HBM3`
    r"(?<=\[)(?!rank|stage|step|iter|epoch|gpu|node|local|[tpdec]p\b)[a-z_.]+:[0-9]+(?=\])",
    r"(?<=[0-9]:[0-9]{2} )[A-Za-z_][\w.]{0,63}:[0-9]+(?=\])",  # the same after a time of day: `nemo_logging:393]`
    r"(?<![<\w.+)\]])(?:~|\.{1,2})?/[\w.+@=~,-]+(?:/[\w.+@=~,-]*)*",  # a path
    r"[\u2501\u2578\u257a\u2580-\u259f]+",  # a progress bar
)
_TOKEN = lazy_pattern(
    r"(?P<blank>[ \t]+)"
    rf"|(?P<list>[\[(][+-]?{_FIGURE}(?:, ?[+-]?{_FIGURE}){{2,}}[\])])"
    r"|(?P<unit>(?<=[0-9])(?:ns|us|µs|ms|s)(?!\w|/\w))"
    rf"|(?<![\w.])(?P<opaque>{'|'.join(_OPAQUE)})"
    rf"|(?P<number>(?!(?<=\[)1/[^\W\d]\w*\]|[0-9]+_[A-Za-z])(?:(?<![\w.\])+-])[+-]|(?<![\w.]))(?:{_FIGURE}|{_NOT_FINITE})|(?<!\w)[+-](?:nan|inf))"
    r"|(?P<name>(?:cuda|cpu|gpu|xpu|npu|hpu|hip|xla|tpu|mlu|mps):[0-9]+(?:/[0-9]+)?(?!\w)"
    r"|(?<=[0-9])[A-Za-z]+(?:/[A-Za-z]+)?(?=[/-][0-9])"  # mW of 3mW/4mW
    r"|(?:[0-9]+_[A-Za-z]\w*|(?:1/)?[^\W\d]\w*(?:(?:[-./]|@(?=[0-9.]+(?:[^\w.%°]|$)))\w+)*)"  # Acc@1, but not CPU@40C
    r"(?:\.\.\.|\([0-9]+(?:\.[0-9]+)?%\)(?= ?[:=]))?)"  # percentile(99%) = 3.1
    r"|(?P<mark>\w+|[^\w \t])"
)
_DIGITS = lazy_pattern(r"[0-9]+")


class Token(Struct, frozen=True):
    """A token of a line.

    Attributes:
        kind: NUMBER, UNIT, NAME, MARK, OPAQUE or LIST.
        text: The token as the line prints it.
        gap: The whitespace before it.
    """

    kind: str
    text: str
    gap: str

    @property
    def key(self) -> str:
        """What tokens of one shape have in common: the letters of a name, the characters of a mark, else the kind."""
        if self.kind == NAME and self.text[-1] != ")":
            return _DIGITS.sub("#", self.text)
        return self.text if self.kind in (NAME, MARK) else f"\0{self.kind}"


@lru_cache(32)  # families ask for the same strings in turn
def tokens(line: str) -> tuple[Token, ...]:
    """Return the tokens of a line. Blanks at the end of the line are dropped.

    Numbers that are no figures, such as process ids, are opaque, with what is joined to them: `20x4MB`.
    """
    text = line.rstrip(" \t")
    figures: list[tuple[int, int]] | None = None  # found where the line has a number
    names: list[tuple[int, int]] = []
    parts: list[Token] = []
    gap, last = "", 0  # last: the end of the string that contains the opaque token before
    for match in _TOKEN.finditer(text):
        kind, (begin, end) = match.lastgroup or "", match.span()
        if kind == "blank":
            gap = match[0]
            continue
        if parts and begin < last and not gap:
            parts[-1] = replace(parts[-1], text=parts[-1].text + match[0])
            continue
        last = 0
        if kind == NUMBER and match[0][-1].isdigit():
            figures = figure_spans(text) if figures is None else figures
            if not _end_of_span(figures, begin, end):
                names = names or name_spans(text)
                kind, last = OPAQUE, _end_of_span(names, begin, end)
        parts.append(Token(kind, match[0], gap))
        gap = ""
    return tuple(parts)


def _end_of_span(spans: list[tuple[int, int]], begin: int, end: int) -> int:
    """Return the end of the first of some ascending spans that shares a character with text[begin:end], 0 for none."""
    k = bisect_right(spans, begin, key=itemgetter(1))
    return spans[k][1] if k < len(spans) and spans[k][0] < end else 0


def skeleton(line: tuple[Token, ...]) -> tuple[str, ...]:
    """Return the key of a line's shape: the keys of its tokens, and " " between tokens that whitespace separates.

    Blanks between a number and a mark, or at the start of the line, may be padding: they do not count.
    """
    key: list[str] = []
    previous_kind = MARK
    for token in line:
        padding = {previous_kind, token.kind} in ({MARK, NUMBER}, {MARK, UNIT}, {OPAQUE, MARK}) or not key
        if token.gap and not padding:
            key.append(" ")
        key.append(token.key)
        previous_kind = token.kind
    return tuple(key)


def split_digits(text: str) -> list[str]:
    """Return a name cut into letters and runs of digits in turn; the first and the last part are letters."""
    return re.split(r"([0-9]+)", text)
