"""Lines that say how long some work took: `Processed 24000 samples in 12.3 s`, `Copied 2.0 GiB in 0.5 s (4.0 GiB/s)`.

The words before the time name it, and what was counted. Rates and other figures may follow, each with its unit. Nothing
else is on such a line: a sentence has a time too. A time that something waits for has not been taken.
"""

from __future__ import annotations

from msgspec import Struct, field

from perflog.formats.families.base import FamilyShape, FieldNames, gap_text, spec_of
from perflog.formats.model import Line
from perflog.formats.number_units import NumberUnit, unit_of_number
from perflog.formats.surroundings import PREFIX, end_of_logger_prefix, prefix_ends
from perflog.formats.template import UNNAMED, literal
from perflog.formats.token_line import TokenLine
from perflog.formats.tokens import NAME, NUMBER, tokens
from perflog.formats.vocabulary import SENTENCE_WORDS, SPEEDS
from perflog.lazy_patterns import lazy_pattern
from perflog.units import UNITS, Unit, base_of, unit_of

_NUMBER = r"[0-9][0-9,]*(?:\.[0-9]+)?"
_WORD = r"[A-Za-z][A-Za-z0-9_+/-]*(?:\(s\))?"
_WORDS = rf"(?:{_WORD} ){{0,4}}{_WORD}"
_WORK = (
    r"(?:tok(?:en)?s?|samples?|images?|imgs?|frames?|sequences?|seqs?|sentences?|documents?|docs?|records?|rows?|items?"
    r"|requests?|reqs?|queries|prompts?|iterations?|iters?|steps?|batches|epochs?|examples?|files?|messages?|layers?"
    r"|episodes?|games?|chunks?|blocks?|trials?|runs?|points?|events?)(?:\(s\))?"
)
"""What programs work on, of which a line counts some."""

_TIME = rf"(?: in| took) {{1,2}}{_NUMBER} ?(?:[munµ]?s|[mu]?secs?|(?:milli|micro)?seconds?|mins?|minutes?)"
_RATE = rf"{_NUMBER} ?(?:[kmgt]?i?b(?:ytes|its?)?/s(?:ec)?|[gt]bps|[a-z]+/s(?:ec|econd)?|(?:[a-z]+ )?tps)"
_FIGURE = rf" ?[,;:|]?[ (]{{0,3}}(?:@ ?|at )?(?:{_WORDS}[ :=]{{1,2}})?{_NUMBER} ?[a-zµ/%]*(?: [a-z/]+)?\)?"
_REST = rf"(?:{_FIGURE}){{0,4}}(?: (?:done|ok))?[.!)]*[ \t]*$"
_LABEL = rf"(?:{_WORDS}(?: [0-9]+/[0-9]+)?: ?)?"
_COUNT = rf"{_NUMBER} (?:(?:{_WORD} ){{0,2}}{_WORK}|[kmgt]i?b)"

_BEGIN = rf"(?i:(?:{PREFIX})?[ \t]*{_LABEL}"
_DONE = rf"(?:(?:{_WORDS} )?{_COUNT}(?: \([0-9]+%\))?(?: {_WORDS})?|{_WORDS}){_TIME}"
PATTERNS = {
    "rated": rf"{_BEGIN}(?:{_DONE} ?[,;:|]?[ (]{{1,3}}(?:@ ?|at |{_WORDS}[ :=]{{1,2}})?{_RATE}\)?{_REST}"
    rf"|{_WORDS} {_COUNT} \({_RATE}(?:, {_RATE})?\)[.!]?[ \t]*$))",
    "timed": rf"{_BEGIN}{_DONE}{_REST})",
}
"""What such a line is: it has the rate of the work, or its time."""

_PATTERNS = {kind: lazy_pattern(pattern) for kind, pattern in PATTERNS.items()}

_IS_AHEAD = lazy_pattern(  # what waits for a time, or was given up after it
    r"(?i).*\b(?:next|eta|again|remaining|retry|retries|timeout|timed out|waited|slept|expires?|starts? in"
    r"|ends? in|left|due|until|aborted|failed|cancell?ed|killed|started in|times)\b"
)
_VERBS = frozenset(
    "loaded loading saved saving finished completed processed running ran took started done".split()
)  # words of sentences that say which work it was
_OF_SENTENCES = SENTENCE_WORDS - _VERBS - set("in of on for to at done took all".split()) | set(
    "it we i you they that this these which who when will".split()
)
_NO_NAMES = SENTENCE_WORDS - _VERBS | {"done", "took"}
_ENDINGS = frozenset("done complete completed finished ready".split())


def work_line(shape: FamilyShape, text: str, kind: str) -> Line | None:
    """Return the Line of a string that says how long some work took; None for another string. `kind`: of `PATTERNS`."""
    bare = text.rstrip(" \t")
    if _IS_AHEAD.match(bare) or not _PATTERNS[kind].match(bare):
        return None
    raw = bare.encode("utf-8", "surrogateescape")
    for end in (end_of_logger_prefix(bare), len(raw) - len(raw.lstrip(b" \t")), *prefix_ends(raw)):
        work = _Work(TokenLine(tokens(raw[end:].decode("utf-8", "surrogateescape"))))
        if work.is_read() and (line := shape.line_after(raw, end, work.text, work.names, work.units)) is not None:
            return line
    return None


class _Work(Struct):
    """Reads the tokens of a line without its prefix.

    Attributes:
        text: The template string.
        names: The names of its numbers.
        units: Their units.
    """

    line: TokenLine
    text: str = ""
    names: FieldNames = field(default_factory=lambda: FieldNames("values"))
    units: dict[str, Unit] = field(default_factory=dict)
    _words: list[str] = field(default_factory=list)  # since the last number or mark
    _work: list[str] = field(default_factory=list)  # what was done
    _label: list[str] = field(default_factory=list)  # the words before a colon at the begin
    _is_timed: bool = False

    def is_read(self) -> bool:
        """Read the line. Return whether it begins with words or a count, and has a time or a rate."""
        line, k = self.line, 0
        if not line.parts or line.kind(0) not in (NAME, NUMBER):
            return False
        while k < len(line.parts):
            k = self._add_number(k) if line.kind(k) == NUMBER else self._add_text(k)
        is_sentence = not _OF_SENTENCES.isdisjoint(part.text.lower() for part in line.parts)
        return bool(self.units) and bool(self._work) and self._is_timed and not is_sentence

    def _add_text(self, k: int) -> int:
        part = self.line.parts[k]
        self.text += (gap_text(part.gap) if k else "") + literal(part.text)
        if part.kind == NAME:
            is_plural = part.text == "s" and self.line.text(k - 1) == "("  # `sample(s)`
            self._words += [] if is_plural else [part.text]
        elif part.text in "+&" and self.line.is_glued(k):
            pass  # `forward+score in 1.08s` is no time of the score
        elif part.text not in "()" or not self._words or not self.line.is_glued(k):
            self._label = self._words if part.text == ":" and not self._work else self._label
            self._words = []
        return k + 1

    def _add_number(self, k: int) -> int:
        """Add a number with its unit. Return the index of the token after them."""
        line, part = self.line, self.line.parts[k]
        found = unit_of_number(line, k, "time")
        last, printed = self._words[-1:], line.text(k + 1)
        if not found.unit and last in (["in"], ["took"]) and base_of(unit_of(printed)[0]) == "s":
            found = NumberUnit(unit_of(printed)[0], k + 2, printed)  # `in 4.12 seconds: 31.07 tok/s`
        name = self._name_of(k, found.unit, found.text)
        field_name = self.names.from_key(name) if name else UNNAMED
        unit = found.unit or (unit_of(line.text(k + 2))[0] if name == " ".join(line.texts(k + 1, k + 3)) else "")
        self.text += f"{gap_text(part.gap) if k else ''}{{{field_name}:{spec_of(part.text)}}}"
        self.text += "".join(gap_text(p.gap) + literal(p.text) for p in line.parts[k + 1 : found.end])
        if name and unit:
            self.units[field_name] = Unit("1/s", found.scale) if found.scale else UNITS[unit]
        self._words = []
        return found.end

    def _name_of(self, k: int, unit: str, printed: str) -> str:
        """Return the name of a number; "" for none."""
        line, base = self.line, base_of(unit)
        words = [word for word in self._words if word.lower() not in _NO_NAMES]
        last = self._words[-1].lower() if self._words else ""
        if self._is_timed or self._counts_parts(k):
            return self._name_after(k, unit, printed)
        if base == "s" and last in ("in", "took"):
            is_ahead = last == "in" and [*self._work, *words, ""][0].endswith("ing")  # `Retrying 3 requests in 5 s`
            self._is_timed = not is_ahead or not _ENDINGS.isdisjoint(map(str.lower, words))
            self._work += [word for word in words if word.lower() not in _ENDINGS or not self._work]
            self._work = self._work or self._label
            return f"{' '.join(self._work)} time"
        if base == "B":
            self._work += words or self._label
            return f"{' '.join(self._work)} size".lstrip()
        if not unit and line.kind(k + 1) == NAME and line.gap(k + 1) == " ":
            self._work += words
            after = line.texts(k + 1, len(line.parts))
            counted = [word for word in after[: self._end_of_words(k + 1) - k - 1] if word.lower() not in _NO_NAMES]
            self._is_timed = line.text(self._end_of_words(k + 1)) == "(" and "in" not in after and "took" not in after
            return " ".join([*words, *counted])
        return self._name_after(k, unit, printed) if self._work else ""

    def _counts_parts(self, k: int) -> bool:
        """Return whether a number is one of several parts, or their number: `run 1/5:`."""
        return "/" in (self.line.text(k + 1), self.line.text(k - 1)) and not self._work

    def _end_of_words(self, k: int) -> int:
        """Return the index after the words that say what was counted."""
        while self.line.kind(k) == NAME and self.line.text(k).lower() not in ("in", "took", *_ENDINGS):
            k += 1
        return k

    def _name_after(self, k: int, unit: str, printed: str) -> str:
        """Return the name of a figure after the work: its words, or what its unit says."""
        words = [word for word in self._words if word.lower() not in SENTENCE_WORDS]
        if self._counts_parts(k):
            return " ".join(words) if self.line.text(k + 1) == "/" else ""
        if words:
            return " ".join(words)
        if unit and base_of(unit) == "1/s" and "/" in printed:
            return printed.replace("/", "_per_")
        if not unit and self.line.kind(k + 1) == NAME and base_of(unit_of(self.line.text(k + 2))[0]) == "1/s":
            return f"{self.line.text(k + 1)} {self.line.text(k + 2)}"  # `18.54 decode TPS`
        return SPEEDS.get(base_of(unit), "")
