"""The tokens of a line by index: any index may be asked for, those outside of the line have nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from perflog.formats.tokens import NAME, NUMBER, OPAQUE, UNIT, Token


class TokenLine(Struct, dict=True):
    """The tokens of a line, or of a part of it."""

    parts: Sequence[Token]

    @cached_property
    def has_one_bar(self) -> bool:
        """Whether the line has a single vertical bar."""
        return sum(part.text == "|" for part in self.parts) == 1

    def text(self, k: int) -> str:
        return self.parts[k].text if 0 <= k < len(self.parts) else ""

    def texts(self, begin: int, end: int) -> list[str]:
        return [part.text for part in self.parts[begin:end]]

    def kind(self, k: int) -> str:
        return self.parts[k].kind if 0 <= k < len(self.parts) else ""

    def gap(self, k: int) -> str:
        """Return the whitespace before a token."""
        return self.parts[k].gap if 0 <= k < len(self.parts) else ""

    def is_glued(self, k: int) -> bool:
        """Whether a token directly follows the token before it, without whitespace."""
        return 0 < k < len(self.parts) and not self.parts[k].gap

    def sticks(self, k: int) -> bool:
        """Whether a word or a number sticks to the token before it: the 8 of `16x8`."""
        return self.is_glued(k) and self.parts[k].kind in (NAME, NUMBER, UNIT, OPAQUE)
