"""Where the parts of a line begin and end: at marks, wide gaps, and strings that are no words."""

from __future__ import annotations

from perflog.formats.number_units import is_unit_in_brackets, plain_end
from perflog.formats.token_line import TokenLine
from perflog.formats.tokens import LIST, NAME, NUMBER, OPAQUE
from perflog.formats.vocabulary import SENTENCE_WORDS

_SEPARATORS = frozenset(",;|()[]{}<>\"`'!?")
_SEPARATORS_APART = frozenset((".", "-", "—", "–", ">", "/"))  # with a space after them
GLUE = frozenset("/-.@#_+%&*°")  # marks inside a name


class SegmentedLine(TokenLine):
    """A line in segments: what is in one may name a number in it, and none in another."""

    def begins_segment(self, k: int) -> bool:
        """Whether a separator is before a token: a mark, a tab, two spaces, a string that is no word."""
        if k <= 0 or k >= len(self.parts):
            return True
        gap, before = self.parts[k].gap, self.parts[k - 1]
        if "\t" in gap or len(gap) > 1 or before.text in _SEPARATORS or before.kind in (OPAQUE, LIST):
            return True
        if before.text == ":":
            begins_pairs = self.kind(k + 1) == NUMBER and self.leads_to_number(plain_end(self, k + 1))
            return bool(before.gap and gap) or self.kind(k - 2) in (OPAQUE, "") or begins_pairs
        is_in_name = before.text == "." and self.parts[k].text[0].islower()  # `Total. latency: 0.5`
        return bool(gap) and before.text in _SEPARATORS_APART and not is_in_name

    def ends(self, k: int) -> bool:
        """Whether a segment ends before a token."""
        text = self.text(k)
        if text == ":" and not self.is_glued(k):
            return True
        return (
            self.begins_segment(k)
            or text in _SEPARATORS
            or text in (".", "-", "/", "+", "±")
            or self.kind(k) in (OPAQUE, LIST)
        )

    def leads_to_number(self, k: int) -> bool:
        """Whether the words from a token on name another number."""
        first = k
        while self.kind(k) == NAME or (k > first and (self.text(k) in GLUE or is_unit_in_brackets(self, k))):
            if self.text(k).lower() in SENTENCE_WORDS:
                return False
            k += 3 if is_unit_in_brackets(self, k) else 1
        return k > first and (self.kind(k) in (NUMBER, OPAQUE) or self.text(k) in (":", "="))
