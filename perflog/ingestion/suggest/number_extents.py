"""How far a number reaches: with its unit, and whether it is a part of something larger, such as a list or a label."""

from __future__ import annotations

from perflog.formats.number_units import SIZE, glued_end, is_rate, is_unit, may_be_unit, plain_end
from perflog.formats.tokens import NAME, NUMBER, UNIT
from perflog.formats.vocabulary import COUNTERS
from perflog.ingestion.suggest.segments import SegmentedLine
from perflog.units import MAGNITUDES

PARTS = frozenset(("^", "*", "x", "~", "-", "&", "."))  # between the parts of something larger
FACTORS = MAGNITUDES.union("million billion thousand mln bn millions billions thousands".split())


class NumberLine(SegmentedLine):
    """A line with the extents of its numbers."""

    def unit_end(self, k: int) -> int | None:
        """Return the index after a number and its unit; None if the number is a part of something larger."""
        is_part = self.is_glued(k) and self.text(k - 1) in PARTS
        is_joined_after = self.is_glued(k + 1) and self.is_glued(k + 2)
        is_part |= self.text(k + 1) == "." and is_joined_after and self.kind(k + 2) == NAME  # `1234.host`
        is_part |= self._is_in_labels(k)
        is_numbered = self.is_glued(k) and self.text(k - 1) == "#" and self.text(k - 2).lower() not in COUNTERS
        if (is_part and not self.is_spread(k - 1)) or is_numbered:
            return None
        end = glued_end(self, k)
        unit = "".join(self.texts(k + 1, end))
        if unit and not may_be_unit(unit):
            return None
        end += not unit and is_unit(self, end)
        return None if self._is_label(k, end) or self._is_in_row(k, end) else end

    def is_spread(self, k: int) -> bool:
        return self.text(k) == "±" or (self.text(k) == "-" and self.text(k - 1) in ("+", "/"))

    def number_before(self, k: int) -> int:
        """Return the index of the last number before a token, if only its unit and marks follow it; -1 for none."""
        k -= 1
        while k >= 0 and self.parts[k].kind != NUMBER and (self.text(k) in "+-/±%" or self.kind(k) in (UNIT, NAME)):
            k -= 1
        return k if self.kind(k) == NUMBER else -1

    def is_cut_off(self, end: int) -> bool:
        """Whether dots replace the rest of a number: `Min: 117...`."""
        return self.text(end) == self.text(end + 1) == "." and self.is_glued(end) and self.is_glued(end + 1)

    def _is_in_labels(self, k: int) -> bool:
        """Whether a number is in the labels of a name: the 1 of `util{gpu="1",host="a"} 46`."""
        opening = next((i for i in range(k - 1, -1, -1) if self.text(i) in ("{", "}")), -1)
        return self.text(opening) == "{" and self.is_glued(opening) and self.kind(opening - 1) == NAME

    def _is_in_row(self, k: int, end: int) -> bool:
        """Whether another number without a name follows: in a row, a range, a list after commas."""
        following, is_number = self.text(end), self.kind(end + 1) == NUMBER
        unit = self.texts(k + 1, end)
        is_last = bool(unit) and self.texts(max(k - len(unit), 0), k) == unit
        if is_last and self.kind(k - len(unit) - 1) == NUMBER:  # `[12.5 Kelem/s 13.5 Kelem/s]`
            return True
        if self.kind(end) == NUMBER:
            is_same = self.texts(end + 1, end + 1 + len(unit)) == unit
            is_size = len(unit) == 1 and SIZE.fullmatch(unit[0]) is not None
            return is_same or not ((is_rate(self, k, end) or is_size) and is_rate(self, end, plain_end(self, end)))
        if following in ("…", "–") or self.text(end + 1) == "x":
            return True
        if is_number and self.kind(end) in (NAME, UNIT) and self.text(end + 2) == following:
            return True  # `time: [12.5 us 13.5 us 14.5 us]`
        words = next((p for p in range(end, len(self.parts)) if self.kind(p) != NAME), end)
        if words > end and self.text(words) == "/" and self.kind(words + 1) == NUMBER:
            return True  # `Cores : 16 threads / 8 cores`
        if following == "/" and is_number:
            return self.text(end + 2) == "/" and self.kind(end + 3) == NUMBER
        if following in ("'", '"') and self.text(end + 1) == "," and self.text(end + 2) == following:
            return self.kind(end + 3) == NUMBER  # `times: ['0.5s', '0.25s']`
        if following == ",":
            names_itself = self.kind(end + 2) in (NAME, UNIT) or self.text(end + 2) in ("%", "/", ":", "=")
            return is_number and not names_itself
        return self._is_before_dash(k, end)

    def _is_before_dash(self, k: int, end: int) -> bool:
        """Whether a dash and another number in the same unit follow: `errors: 0 - 3`, `1050 (11.9 TFLOP/s) - 1040`."""
        end += self.kind(end) == NAME and self.text(end + 1) == "-"  # `56 C - 73 C`
        unit = self.texts(k + 1, end)
        closing = next((p for p in range(end, len(self.parts)) if self.text(p) == ")"), end)
        dash = closing + 1 if self.text(end) == "(" else end
        if self.text(dash) != "-" or self.kind(dash + 1) != NUMBER:
            return False
        following = dash + 2 + len(unit)
        is_same_unit = self.texts(dash + 2, following) == unit
        return self.is_glued(dash) or (is_same_unit and self.ends(following))

    def _is_label(self, k: int, end: int) -> bool:
        """Whether a number labels what follows, or is a factor of it: `GPU 0: 45`, `2^16`, `736 x 736`, `3 million`."""
        following = self.text(end)
        if following == ":":
            word = self.text(k - 2 if self.text(k - 1) in (":", "=", "#") else k - 1)
            is_apart = not (self.is_glued(end) or self.is_glued(end + 1))
            is_separator = is_apart and (self.kind(end + 1) == NAME or end > k + 1)
            return not (is_separator or word.lower() in COUNTERS)
        if following == "[" and self.text(k).isdecimal() and self.kind(end + 1) == NUMBER:
            return self.text(k - 2).lower() not in COUNTERS  # `Train: 0 [640/60000 (1%)]`
        is_factor = following.partition("-")[0] in FACTORS or (following == "*" and self.is_glued(end))
        return is_factor or following in ("=", "^", "x", "~")
