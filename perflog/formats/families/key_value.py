"""Key-value lines whose keys come and go: ` iteration 1/ 200 | lm loss: 1.1 | grad norm: 22.0 |`.

Each sequence of keys with each way to print their values gives a Line. No two Lines with different keys read the same
text: a text value cannot contain the separator and cannot be a number.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

from perflog.formats.families.base import (
    IS_NUMBER,
    FamilyShape,
    FieldNames,
    ValueForm,
    literal,
    look_up,
    spec_of,
    template_of,
)
from perflog.formats.model import MIN_LETTERS, Line
from perflog.formats.template import Template, escape, unnamed

MOST = 64
"""Greatest number of pairs in a text, and of Lines that one text can give."""


class Pair(NamedTuple):
    """A key, its value, and the number of blanks in front of the value beyond the declared ones."""

    key: str
    value: str
    padding: int = 0


@dataclass(frozen=True, eq=False)
class PairSyntax:
    """The literals around keys and values: `before` a key, `mid` between key and value, `after` a value."""

    before: str
    mid: str
    after: str

    @property
    def between(self) -> str:
        """The text between two pairs."""
        return self.after + self.before

    @property
    def stop(self) -> str:
        """The separator that a text value cannot contain."""
        return self.between.strip()[:1] or self.between[:2]

    @cached_property
    def _separator(self) -> re.Pattern[str]:
        return re.compile(_separator_pattern(self.between))

    @cached_property
    def _middle(self) -> re.Pattern[str]:
        """The text between key and value, from its first visible character on.

        Where only blanks separate the pairs, blanks in front of `mid` belong to it and must be there.
        """
        leading = " +" if self.mid.startswith(" ") and not self.between.strip() else ""
        return re.compile(f"{leading}(?P<core>{_separator_pattern(self.mid)})")

    def split(self, text: str) -> list[Pair]:
        """Return the pairs of a text that begins with a key; [] if the text does not consist of pairs."""
        close = self.after.strip()
        end = len(text) - (len(close) if close and text.endswith(close) else 0)
        mids = list(self._middle.finditer(text, 0, end))
        starts = [m.start() for m in mids]
        separators = [m.span() for m in self._separator.finditer(text, 0, end)]
        if mids and self._middle.pattern.startswith(" "):  # leave out separators that lie inside a middle
            next_mids = [(span, bisect_left(starts, span[1])) for span in separators]
            separators = [span for span, k in next_mids if not k or mids[k - 1].end() < span[1]]
        pairs: list[Pair] = []
        key_start = 0
        while key_start >= 0:
            k = bisect_left(starts, key_start)
            if k == len(mids) or len(pairs) == MOST or (separators and not pairs and separators[0][0] < starts[k]):
                return []
            key, value_start = text[key_start : starts[k]].rstrip(" \t"), mids[k].end()
            value_end, key_start = self._next_pair(separators, starts, value_start, end)
            padding = value_start - mids[k].start("core") - len(self.mid.lstrip())
            if not key:
                return []
            pairs.append(Pair(key, text[value_start:value_end].rstrip(" \t"), max(padding, 0)))
        return pairs

    def _next_pair(
        self, separators: list[tuple[int, int]], mid_starts: list[int], value_start: int, end: int
    ) -> tuple[int, int]:
        """Return where a value ends and where the next pair begins.

        The value ends at the first separator that a key and a middle follow. Without one it ends at `end`, and there is
        no next pair: -1.
        """
        for i in range(bisect_left(separators, (value_start, 0)), len(separators)):
            k = bisect_left(mid_starts, separators[i][1])
            if k == len(mid_starts):
                break
            if i + 1 == len(separators) or mid_starts[k] < separators[i + 1][0]:
                return separators[i]
        return end, -1

    def written(self, parts: Sequence[tuple[str, str]], loose: bool, closed: bool) -> str:
        """Return (key, field) parts as the text of a template. `loose` accepts any blanks around separators."""
        as_text = _with_any_blanks if loose else literal
        before, mid, between = as_text(self.before), as_text(self.mid), as_text(self.between)
        after = as_text(self.after) if closed else ""
        return before + between.join(f"{literal(key)}{mid}{field}" for key, field in parts) + after


def _separator_pattern(text: str) -> str:
    """Return the pattern of a separator and the blanks after it.

    If the separator ends in a blank, at least one is required: `10,050` is not split at its comma.
    """
    core = text.strip(" ")
    if not core:
        return f" {{{len(text)},}}"
    return re.escape(core) + (r"[ \t]+" if text.endswith(" ") else r"[ \t]*")


def _with_any_blanks(text: str) -> str:
    """Return a separator as the text of a template that accepts any blanks around it."""
    core = text.strip(" ")
    return f"{{_:b}}{literal(core)}{{_:b}}" if core else f"{text}{{_:b}}" if text else ""


@dataclass(frozen=True, eq=False)
class KeyValueFamily:
    """A `[[pairs]]` entry of a format file.

    Attributes:
        text: The declaration, for display.
        shape: What all lines of the family have in common.
        syntax: The literals around keys and values.
        keys: By key or glob, the ways to print its value; the first that fits decides.
        needs: The keys that a line must have.
    """

    name: str
    text: str
    samples: tuple[str, ...]
    shape: FamilyShape
    syntax: PairSyntax
    keys: Mapping[str, tuple[ValueForm, ...]]
    needs: tuple[str, ...] = ()

    @property
    def proves_format(self) -> bool:
        return self.shape.letters + sum(c.isalnum() for key in self.needs for c in key) >= MIN_LETTERS

    @property
    def required_literal(self) -> bytes:
        if self.needs:
            return max(self.needs, key=len).encode()
        return self.shape.required_literal or self.syntax.mid.strip().encode()

    @cached_property
    def pattern(self) -> str:
        heads = "|".join(unnamed(head.pattern) for head in self.shape.heads)
        need = escape(self.needs[0]) if self.needs else ""
        return rf"(?:{heads}){self._before_pairs}.*?{need}[ \t]*{escape(self.syntax.mid.strip() or self.syntax.mid)}"

    @property
    def _before_pairs(self) -> str:
        """The pattern of the text between the head and the first key."""
        return rf"[ \t]*{escape(self.syntax.before.strip())}[ \t]*"

    @cached_property
    def _begins(self) -> list[tuple[Template, re.Pattern[bytes]]]:
        return [
            (head, re.compile(f"(?s:{unnamed(head.pattern)}){self._before_pairs}".encode()))
            for head in self.shape.heads
        ]

    @cached_property
    def _end(self) -> re.Pattern[bytes]:
        return re.compile(f"(?s:{unnamed(self.shape.tail.pattern)})$".encode())

    def lines(self, text: str) -> tuple[Line, ...]:
        raw = text.encode("utf-8", "surrogateescape").rstrip(b" \t")
        for head, begin in self._begins:
            start = begin.match(raw)
            if start is not None:
                end = self._end.search(raw, start.end())
                if end is not None:
                    return self._lines_of(raw, head, start.end(), end.start())
        return ()

    def _lines_of(self, raw: bytes, head: Template, begin: int, end: int) -> tuple[Line, ...]:
        """Return the Lines of a line whose pairs are raw[begin:end]."""
        text = raw[begin:end].decode("utf-8", "surrogateescape").rstrip(" \t")
        pairs = self.syntax.split(text)
        if not pairs or not set(self.needs) <= {pair.key for pair in pairs}:
            return ()
        forms = [self._forms(pair) for pair in pairs]
        if math.prod(map(len, forms)) > MOST:
            return ()
        closed = bool(self.syntax.after.strip()) and text.endswith(self.syntax.after.strip())
        keys = [pair.key for pair in pairs]
        for loose in (False, True):
            template = self._template(head, keys, [choices[-1] for choices in forms], loose, closed)
            if template is None or template[0].match(raw) is None:
                continue
            templates = (self._template(head, keys, choice, loose, closed) for choice in product(*forms))
            return tuple(self.shape.line_of(*template) for template in templates if template is not None)
        return ()

    def _forms(self, pair: Pair) -> list[ValueForm]:
        """Return the forms that the value could have: the declared ones up to the first that fits, else a new one.

        The forms before the one that fits make Lines too: these must stand first, so that another value of the key is
        read by the form that comes first in the declaration.
        """
        declared = look_up(self.keys, pair.key)
        forms = list(declared[1]) if declared else []
        fits = next((k for k, form in enumerate(forms) if form.fits(pair.value, pair.padding)), None)
        return forms[: fits + 1] if fits is not None else [*forms, self._undeclared(pair)]

    def _undeclared(self, pair: Pair) -> ValueForm:
        """Return the form of a value that is printed in no declared way."""
        dropped = self.shape.dropped_field(pair.key)
        if IS_NUMBER.fullmatch(pair.value):
            name = "*" if self.shape.number_rows else dropped
            spec = f"{pair.padding + len(pair.value)}{spec_of(pair.value)}"
        else:
            name, spec = "*" if self.shape.text_rows else dropped, f"{self.syntax.stop}n"
        return ValueForm.of(f"{{{name}:{spec}}}")

    def _template(
        self, head: Template, keys: Sequence[str], forms: Sequence[ValueForm], loose: bool, closed: bool
    ) -> tuple[Template, set[str]] | None:
        """Return the template of keys with values of these forms, and its field names that come from keys.

        None if the template would be too long to match.
        """
        names = FieldNames(self.shape.line.table, [*head.names, *self.shape.tail.names])
        parts = [
            (key, form.written(names, key, self.shape.dropped_field(key)))
            for key, form in zip(keys, forms, strict=True)
        ]
        template = template_of(head.text + self.syntax.written(parts, loose, closed) + self.shape.tail.text)
        return None if template is None else (template, names.from_keys)
