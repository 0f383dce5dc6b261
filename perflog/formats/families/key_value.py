"""Lines of keys and values whose keys come and go: ` iteration 1/ 200 | lm loss: 1.1 | grad norm: 22.0 |`.

Each sequence of keys, each way to print a value, gives a Line. What one Line reads, no Line of other keys reads: a text
among the values holds no separator, and is no number.
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
"""Lines that one text gives at most, and pairs that it holds at most."""


class Pair(NamedTuple):
    """A key, its value, and how many blanks stand in front of that beyond those declared."""

    key: str
    value: str
    padding: int = 0


@dataclass(frozen=True, eq=False)
class PairSyntax:
    """How pairs are written: `before` a key, `mid` between key and value, `after` a value."""

    before: str
    mid: str
    after: str

    @property
    def between(self) -> str:
        """What stands between two pairs."""
        return self.after + self.before

    @property
    def stop(self) -> str:
        """What a text among the values may not hold."""
        return self.between.strip()[:1] or self.between[:2]

    @cached_property
    def _separator(self) -> re.Pattern[str]:
        return re.compile(_behind(self.between))

    @cached_property
    def _middle(self) -> re.Pattern[str]:
        """What stands between key and value, from its first sign on. Where only blanks part the pairs, those in front
        of it are none of these: they have to be there, and belong to it.
        """
        own = " +" if self.mid.startswith(" ") and not self.between.strip() else ""
        return re.compile(f"{own}(?P<core>{_behind(self.mid)})")

    def split(self, text: str) -> list[Pair]:
        """The pairs that a text is made of, from its first key on; [] if it is of something else."""
        close = self.after.strip()
        end = len(text) - (len(close) if close and text.endswith(close) else 0)
        mids = list(self._middle.finditer(text, 0, end))
        starts = [m.start() for m in mids]
        seps = [m.span() for m in self._separator.finditer(text, 0, end)]
        if mids and self._middle.pattern.startswith(" "):
            within = [(k, bisect_left(starts, k[1])) for k in seps]
            seps = [k for k, after in within if not after or mids[after - 1].end() < k[1]]
        found: list[Pair] = []
        at = 0
        while at >= 0:
            k = bisect_left(starts, at)
            if k == len(mids) or len(found) == MOST or (seps and not found and seps[0][0] < starts[k]):
                return []
            key, value = text[at : starts[k]].rstrip(" \t"), mids[k].end()
            stop, at = self._next(seps, starts, value, end)
            blanks = value - mids[k].start("core") - len(self.mid.lstrip())
            if not key:
                return []
            found.append(Pair(key, text[value:stop].rstrip(" \t"), max(blanks, 0)))
        return found

    def _next(self, seps: list[tuple[int, int]], starts: list[int], at: int, end: int) -> tuple[int, int]:
        """Where a value ends and the next pair begins: at the first separator that a key and a middle follow; if there
        is none, the end and -1.
        """
        for i in range(bisect_left(seps, (at, 0)), len(seps)):
            k = bisect_left(starts, seps[i][1])
            if k == len(starts):
                break
            if i + 1 == len(seps) or starts[k] < seps[i + 1][0]:
                return seps[i]
        return end, -1

    def written(self, parts: Sequence[tuple[str, str]], loose: bool, closed: bool) -> str:
        """Keys and fields as the text of a template; `loose` takes any blanks around them."""
        before, mid, between = (_blanks(x) if loose else literal(x) for x in (self.before, self.mid, self.between))
        after = (_blanks(self.after) if loose else literal(self.after)) if closed else ""
        return before + between.join(f"{literal(key)}{mid}{field}" for key, field in parts) + after


def _behind(text: str) -> str:
    """Pattern of a separator and the blanks behind it. There must be some where it has some: `10,050` is no pair."""
    core = text.strip(" ")
    if not core:
        return f" {{{len(text)},}}"
    return re.escape(core) + (r"[ \t]+" if text.endswith(" ") else r"[ \t]*")


def _blanks(text: str) -> str:
    """A separator as the text of a template that takes any blanks around it."""
    core = text.strip(" ")
    return f"{{_:b}}{literal(core)}{{_:b}}" if core else f"{text}{{_:b}}" if text else ""


@dataclass(frozen=True, eq=False)
class KeyValueFamily:
    """A `[[pairs]]` entry. `keys` are the ways to print the value of a key, or of those that fit a glob, in order;
    `needs` the keys that a line must have.
    """

    name: str
    text: str
    samples: tuple[str, ...]
    shape: FamilyShape
    mould: PairSyntax
    keys: Mapping[str, tuple[ValueForm, ...]]
    needs: tuple[str, ...] = ()

    @property
    def proves_format(self) -> bool:
        return self.shape.letters + sum(c.isalnum() for key in self.needs for c in key) >= MIN_LETTERS

    @property
    def required_literal(self) -> bytes:
        if self.needs:
            return max(self.needs, key=len).encode()
        return self.shape.required_literal or self.mould.mid.strip().encode()

    @cached_property
    def pattern(self) -> str:
        heads = "|".join(unnamed(head.pattern) for head in self.shape.heads)
        need = escape(self.needs[0]) if self.needs else ""
        return rf"(?:{heads}){self._before}.*?{need}[ \t]*{escape(self.mould.mid.strip() or self.mould.mid)}"

    @property
    def _before(self) -> str:
        """Pattern of what stands between the head and the first key."""
        return rf"[ \t]*{escape(self.mould.before.strip())}[ \t]*"

    @cached_property
    def _begins(self) -> list[tuple[Template, re.Pattern[bytes]]]:
        return [(head, re.compile(f"(?s:{unnamed(head.pattern)}){self._before}".encode())) for head in self.shape.heads]

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
                    return self._of(raw, head, start.end(), end.start())
        return ()

    def _of(self, raw: bytes, head: Template, begin: int, end: int) -> tuple[Line, ...]:
        """The Lines of a text whose pairs are raw[begin:end]."""
        text = raw[begin:end].decode("utf-8", "surrogateescape").rstrip(" \t")
        found = self.mould.split(text)
        if not found or not set(self.needs) <= {pair.key for pair in found}:
            return ()
        ways = [self._ways(pair) for pair in found]
        if math.prod(map(len, ways)) > MOST:
            return ()
        closed = bool(self.mould.after.strip()) and text.endswith(self.mould.after.strip())
        keys = [pair.key for pair in found]
        for loose in (False, True):
            if self._made(head, keys, [way[-1] for way in ways], loose, closed, raw) is None:
                continue
            made = (self._made(head, keys, way, loose, closed) for way in product(*ways))
            return tuple(line for line in made if line is not None)
        return ()

    def _ways(self, pair: Pair) -> list[ValueForm]:
        """How the value could be printed: in each declared way up to the first that fits, else in one of its own."""
        declared = look_up(self.keys, pair.key)
        pieces = list(declared[1]) if declared else []
        fits = next((k for k, piece in enumerate(pieces) if piece.fits(pair.value, pair.padding)), None)
        return pieces[: fits + 1] if fits is not None else [*pieces, self._undeclared(pair)]

    def _undeclared(self, pair: Pair) -> ValueForm:
        if IS_NUMBER.fullmatch(pair.value):
            name, spec = (
                "*" if self.shape.number_rows else "_",
                f"{pair.padding + len(pair.value)}{spec_of(pair.value)}",
            )
        else:
            name, spec = "*" if self.shape.text_rows else "_", f"{self.mould.stop}n"
        return ValueForm.of(f"{{{name}:{spec}}}")

    def _made(
        self,
        head: Template,
        keys: Sequence[str],
        ways: Sequence[ValueForm],
        loose: bool,
        closed: bool,
        raw: bytes = b"",
    ) -> Line | None:
        """The Line of keys with their values printed in these ways; None if it cannot be, or does not read `raw`."""
        names = FieldNames(self.shape.line.table, [*head.names, *self.shape.tail.names])
        parts = [(key, piece.written(names, key)) for key, piece in zip(keys, ways, strict=True)]
        text = head.text + self.mould.written(parts, loose, closed) + self.shape.tail.text
        made = template_of(text)
        if made is None or (raw and made.match(raw) is None):
            return None
        return self.shape.made(made, names.of_keys)
