"""Key-value lines with keys that come and go: ` iteration 1/ 200 | lm loss: 1.1 | grad norm: 22.0 |`.

Each sequence of keys with each way to print their values gives a Line. No two Lines with different keys read the same
line: a string value cannot contain the separator and cannot be a number.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from perflog.errors import FormatError
from perflog.formats.durations import names_duration
from perflog.formats.families.base import (
    IS_NUMBER,
    KEY_FIELD,
    FieldNames,
    ShapedFamily,
    ValueForm,
    glob,
    look_up,
    spec_of,
    template_of,
)
from perflog.formats.families.json_lines import flat_values
from perflog.formats.families.missing_values import NO_VALUE, pattern_with_gaps, without_missing
from perflog.formats.families.step_parts import with_parts
from perflog.formats.model import Line
from perflog.formats.openings import Opening
from perflog.formats.template import NUMBER, UNNAMED, Template, escape, literal, unnamed
from perflog.formats.tokens import GAPPED
from perflog.formats.vocabulary import field_name
from perflog.lazy_patterns import lazy_pattern
from perflog.tables.schema import column_for

_NUMBER = lazy_pattern(NUMBER, re.ASCII)
_NUMBER_LIST = lazy_pattern(rf"[\[({{][ ]*{NUMBER}(?:[ ]*[,; ][ ]*{NUMBER})*[ ]*[,;]?[ ]*[\])}}]", re.ASCII)

_GAPPED = lazy_pattern(GAPPED)
_CALL = lazy_pattern(rf"[A-Za-z_][\w.]*\((?P<number>{NUMBER})(?:,[^()]*)?\)", re.ASCII)
"""A number as the repr of another library: `np.float64(0.5)`, `tensor(0.5, device='cuda:0')`."""

_CLOSES = {"{": "}", "[": "]", "(": ")"}
_RARE = 4  # characters of a literal that is rare enough to look for

MOST = 64
"""Greatest number of Lines that one printed line can give."""

MOST_PAIRS = 256
"""Greatest number of pairs in a line."""


class Pair(NamedTuple):
    """A key, its value, and the number of spaces before the value beyond the declared ones.

    A string that is no pair, where one is expected, has no key.
    """

    key: str
    value: str
    padding: int = 0


class PairSyntax(Struct, frozen=True, eq=False, dict=True):
    """The literals around keys and values: `before` a key, `mid` between key and value, `after` a value."""

    before: str
    mid: str
    after: str

    @property
    def between(self) -> str:
        """The separator between two pairs."""
        return self.after + self.before

    @property
    def stop(self) -> str:
        """The separator that a string value cannot contain."""
        return self.between.strip()[:1] or self.between[:2]

    @cached_property
    def _separator(self) -> re.Pattern[str]:
        return re.compile(_separator_pattern(self.between))

    @cached_property
    def _middle(self) -> re.Pattern[str]:
        """The literal between key and value, from its first visible character on.

        If only whitespace separates the pairs, whitespace before `mid` belongs to it and must be there.
        """
        leading = " +" if self.mid.startswith(" ") and not self.between.strip() else ""
        return re.compile(f"{leading}(?P<core>{_separator_pattern(self.mid)})")

    def split(self, text: str) -> list[Pair]:
        """Return the pairs of a string that begins with a key; [] if the string does not consist of pairs."""
        close = self.after.strip()
        end = len(text) - (len(close) if close and text.endswith(close) else 0)
        nested = _objects(text) if "{" in text and not self.before.strip() else []
        mids = [m for m in self._middle.finditer(text, 0, end) if not _inside(nested, m.start())]
        starts = [m.start() for m in mids]
        separators = [m.span() for m in self._separator.finditer(text, 0, end) if not _inside(nested, m.start())]
        if mids and self._middle.pattern.startswith(" "):  # leave out separators that lie inside a middle
            next_mids = [(span, bisect_left(starts, span[1])) for span in separators]
            separators = [span for span, k in next_mids if not k or mids[k - 1].end() < span[1]]
        pairs: list[Pair] = []
        key_start = 0
        while key_start >= 0:
            k = bisect_left(starts, key_start)
            if k == len(mids) or len(pairs) == MOST_PAIRS:
                return []
            if len(pairs) < len(separators) and separators[len(pairs)][0] < starts[k] and not any(x.key for x in pairs):
                if not self.between.strip():
                    return []  # a word before the first pair belongs to the head: this is another line
                text_end, next_start = separators[len(pairs)]
                pairs.append(Pair("", text[key_start:text_end].rstrip(" \t")))
                key_start = next_start
                continue
            key, value_start = text[key_start : starts[k]].rstrip(" \t"), mids[k].end()
            value_end, key_start = self._next_pair(separators, starts, value_start, end)
            padding = value_start - mids[k].start("core") - len(self.mid.lstrip())
            if not key:
                return []
            pairs.append(Pair(key, text[value_start:value_end].rstrip(" \t"), max(padding, 0)))
        return pairs

    def cut(self, value: str) -> tuple[str, list[str]]:
        """Return a value up to its first separator outside of brackets, and the strings after that separator."""
        depth, last, parts = 0, 0, []
        for mark in re.finditer(rf"[][(){{}}]|{self._separator.pattern}", value):
            if mark[0] in ("[", "(", "{"):
                depth += 1
            elif mark[0] in ("]", ")", "}"):
                depth -= 1
            elif depth <= 0:
                parts.append(value[last : mark.start()])
                last = mark.end()
        parts.append(value[last:])
        return parts[0].rstrip(" \t"), parts[1:]

    def texts(self, texts: Sequence[str]) -> str:
        """Return the template string of some strings that are no pairs, each after a separator."""
        return "".join(f"{_with_any_blanks(self.between)}{{_:{self.text_type(text, 'c')}}}" for text in texts)

    def text_type(self, text: str, kind: str) -> str:
        """Return the type of a field with this string: `kind`, c or n, with the stop; S for a word that holds the stop.

        The stop is one character of the separator, and may be in a word all the same: ` - ` and `val-loss`.
        """
        return "S" if self.stop in text and " " not in text else f"{self.stop}{kind}"

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
        """Return (key, field) parts as a template string. `loose` accepts any whitespace around separators."""
        as_text = _with_any_blanks if loose else literal
        before, mid, between = as_text(self.before), as_text(self.mid), as_text(self.between)
        after = as_text(self.after) if closed else ""
        return before + between.join(f"{literal(key)}{mid}{field}" if key else field for key, field in parts) + after


def _objects(text: str) -> list[tuple[int, int]]:
    """Return begin and end of each object in a string, without the objects inside another one."""
    spans, depth, begin = list[tuple[int, int]](), 0, 0
    for mark in re.finditer(r"[{}]", text):
        begin = begin if depth else mark.start()
        depth = max(depth + (1 if mark[0] == "{" else -1), 0)
        if not depth and mark[0] == "}":
            spans.append((begin, mark.end()))
    return spans


def _inside(spans: Sequence[tuple[int, int]], offset: int) -> bool:
    return any(begin < offset < end for begin, end in spans)


def _separator_pattern(text: str) -> str:
    """Return the pattern of a separator and the whitespace after it.

    If the separator ends in a space, at least one is required: `10,050` is not split at its comma.
    """
    core = text.strip(" ")
    if not core:
        return f" {{{len(text)},}}"
    return re.escape(core) + (r"[ \t]+" if text.endswith(" ") else r"[ \t]*")


def _with_any_blanks(text: str) -> str:
    """Return a separator as a template string that accepts any whitespace around it."""
    core = text.strip(" ")
    if core:
        return f"{{_:b}}{literal(core)}{{_:b}}"
    return f"{text}{{_:b}}" if text else ""


def _list_form(text: str, name: str) -> str:
    """Return the form of a printed list: a field for each number, `*.0`, `*.1`, ... if `name` is `*`."""
    form, last = "", 0
    for k, item in enumerate(_NUMBER.finditer(text)):
        field = f"*.{k}" if name == "*" else name
        form += f"{literal(text[last : item.start()])}{{{field}:{spec_of(item[0])}}}"
        last = item.end()
    return form + literal(text[last:])


class NestedForm(ValueForm, frozen=True, eq=False):
    """An object or a list of objects as a value: `{'loss': 1.2, 'top': {'acc': [0.5, 0.25]}}`.

    Attributes:
        leaves: For each named field, in order, the path of its number: `.loss`, `.top.acc`.
    """

    leaves: tuple[str, ...] = ()

    @classmethod
    def from_object(cls, text: str, dropped: str) -> NestedForm | None:
        """Return the form of a printed object; None if the string is none, or holds no number.

        Args:
            text: The value.
            dropped: The name of the fields that drop what is no number.
        """
        values = flat_values(text)
        if not values or not any(value.kind in ("number", "list") for value in values):
            return None
        form, last, leaves = "", 0, list[str]()
        for value in values:
            printed, quote = text[value.begin : value.end], text[value.end : value.end + 1]
            form += literal(text[last : value.begin])
            if value.kind in ("number", "list"):
                form += f"{{{KEY_FIELD}{len(leaves)}:{'l' if value.kind == 'list' else spec_of(printed)}}}"
                leaves.append(value.path if value.path.startswith("[") else f".{value.path}")
            else:
                form += f"{{{dropped}:{f'{quote}c' if value.kind == 'string' else 'j'}}}"
            last = value.end
        try:
            return cls(Template(form + literal(text[last:])), leaves=tuple(leaves))
        except FormatError:
            return None

    def template_text(self, names: FieldNames, key: str, dropped: str = UNNAMED) -> str:  # noqa: ARG002  # in the template
        leaves, fields = iter(self.leaves), self.template.fields
        paths = (f.name if f.is_dropped else names.from_path(f"{key}{next(leaves)}") for f in fields)
        return self.template.with_fields(f"{{{name}:{f.spec}}}" for name, f in zip(paths, fields, strict=True))


class KeyValueFamily(ShapedFamily, frozen=True, eq=False, dict=True, kw_only=True):
    """A `[[pairs]]` entry of a format file.

    Attributes:
        syntax: The literals around keys and values.
        keys: By key or glob, the ways to print its value; the first that fits decides.
        needs: For each key that a line must have, its alternatives; `*` in them matches any string.
        lacks: The keys that it must not have.
        phases: The entries of `keys` with numbers that are times of phases.
    """

    syntax: PairSyntax
    keys: Mapping[str, tuple[ValueForm, ...]]
    needs: tuple[tuple[str, ...], ...] = ()
    lacks: tuple[str, ...] = ()
    phases: frozenset[str] = frozenset()

    @cached_property
    def proves_format(self) -> bool:
        return self.shape.proves_format(sum(min(sum(map(str.isalnum, key)) for key in keys) for keys in self.needs))

    @property
    def openings(self) -> Sequence[Opening]:
        return self.shape.openings

    @cached_property
    def required_literal(self) -> bytes:
        needs = [keys[0] for keys in self.needs if len(keys) == 1]
        if needs:
            key = max((piece for need in needs for piece in need.split("*")), key=len)
            ends = any(need.endswith(key) for need in needs) and len(key) < _RARE and " " not in self.syntax.mid
            return (key + self.syntax.mid if ends else key).encode("utf-8", "surrogateescape")
        return self.shape.required_literal or self.syntax.mid.strip().encode("utf-8", "surrogateescape")

    @cached_property
    def pattern(self) -> str:
        heads = "|".join(unnamed(pattern_with_gaps(head)) for head in self.shape.heads)
        keys = self.needs[0] if self.needs else ()
        need = "|".join(".*?".join(map(escape, key.split("*"))) for key in keys)
        mid = escape(self.syntax.mid.strip() or self.syntax.mid)
        before = rf"[ \t]*{escape(text)}" if (text := self.syntax.before.strip()) else ""
        return rf"(?:{heads}){before}.*?(?:{need})[ \t]*{mid}"

    @property
    def _before_pairs(self) -> str:
        """The pattern between the head and the first key."""
        return rf"[ \t]*{escape(self.syntax.before.strip())}[ \t]*"

    @cached_property
    def _begins(self) -> list[tuple[Template, re.Pattern[bytes]]]:
        return self.shape.head_patterns(after=self._before_pairs)

    @cached_property
    def _first_key(self) -> re.Pattern[bytes]:
        return re.compile(self._before_pairs.encode())

    def lines(self, text: str) -> tuple[Line, ...]:
        raw = text.encode("utf-8", "surrogateescape").rstrip(b" \t")
        for head, begin in self._begins:
            start = begin.match(raw) if head.has_literals(raw) else None
            if start is not None:
                return self._lines_after(raw, head, start.end())
        for head in self.shape.heads:
            without = without_missing(head, raw)
            if without is not None:
                start = self._first_key.match(raw, without[1])
                return self._lines_after(raw, without[0], start.end()) if start else ()
        return ()

    def _lines_after(self, raw: bytes, head: Template, begin: int) -> tuple[Line, ...]:
        """Return the Lines of a line with a head that ends at an offset."""
        end = self.shape.end.search(raw, begin)
        return () if end is None else self._lines_of(raw, head, begin, end.start())

    def _lines_of(self, raw: bytes, head: Template, begin: int, end: int) -> tuple[Line, ...]:
        """Return the Lines of a line with the pairs raw[begin:end]."""
        text = raw[begin:end].decode("utf-8", "surrogateescape").rstrip(" \t")
        pairs = self.syntax.split(text)
        known = [pair.key for pair in pairs if pair.key]
        if (
            len(known) * 2 < len(pairs)
            or not known
            or not all(any(any(map(glob(key), known)) for key in keys) for keys in self.needs)
        ):
            return ()
        if any(any(map(glob(key), known)) for key in self.lacks):
            return ()
        forms = [self._forms(pair) for pair in pairs]
        partial = any(not pair.key for pair in pairs) or any(form.has_texts for choices in forms for form in choices)
        if math.prod(map(len, forms)) > MOST:
            return ()
        closed = bool(self.syntax.after.strip()) and text.endswith(self.syntax.after.strip())
        keys = [pair.key for pair in pairs]
        for loose in (False, True):
            template = self._template(head, keys, [choices[-1] for choices in forms], loose, closed)
            if template is None or template[0].match(raw) is None:
                continue
            templates = (self._template(head, keys, choice, loose, closed) for choice in product(*forms))
            lines = (self._line(*each) for each in templates if each is not None)
            return tuple(with_parts(replace(line, partial=partial)) for line in lines)
        return ()

    def _line(self, template: Template, names: FieldNames) -> Line:
        line = self.shape.line_of(template, names.from_keys, names.paths)
        return replace(line, phases=names.phases_of(template))

    def _forms(self, pair: Pair) -> list[ValueForm]:
        """Return the forms that the value could have: the declared ones up to the first that fits, else a new one.

        The forms before the one that fits make Lines too: these must be first, so that another value of the key is
        read by the form that comes first in the declaration.
        """
        if not pair.key:
            return [ValueForm.of(f"{{_:{self.syntax.text_type(pair.value, 'c')}}}")]
        declared = look_up(self.keys, pair.key)
        forms = list(declared[1]) if declared else []
        fits = next((k for k, form in enumerate(forms) if form.fits(pair.value, pair.padding)), None)
        if fits is not None:
            return forms[: fits + 1]
        call = _CALL.fullmatch(pair.value)
        if call is not None:
            before, after = pair.value[: call.start("number")], pair.value[call.end("number") :]
            return [form.between(before, after) for form in self._forms(pair._replace(value=call["number"]))]
        value, texts = self.syntax.cut(pair.value)
        if texts:
            after = self.syntax.texts(texts)
            if not self.syntax.between.strip() and _GAPPED.fullmatch(" ".join([value, *texts])):
                return [ValueForm.of(f"{{_:S}}{after}")]
            return [form.followed_by(after) for form in self._forms(pair._replace(value=value))]
        return [*forms, *self._undeclared(pair)]

    def _undeclared(self, pair: Pair) -> list[ValueForm]:
        """Return the forms of a value that is printed in no declared way: where its key names a duration, as such."""
        form = self._undeclared_form(pair)
        is_text = any(not f.numeric for f in form.template.fields)
        if is_text and self.shape.line.table != "runs" and self.shape.number_rows and names_duration(pair.key):
            dropped = self.shape.dropped_field(pair.key)
            duration = ValueForm.of(f"{{{'*' if dropped == UNNAMED else dropped}:h}}")
            return [duration] if duration.fits(pair.value) else [duration, form]
        return [form]

    def _undeclared_form(self, pair: Pair) -> ValueForm:
        """Return the form of a value that is printed in no declared way, and is no duration."""
        dropped = self.shape.dropped_field(pair.key)
        number = "*" if self.shape.number_rows else dropped
        if IS_NUMBER.fullmatch(pair.value):
            return ValueForm.of(f"{{{number}:{pair.padding + len(pair.value)}{spec_of(pair.value)}}}")
        if pair.value in NO_VALUE and self._is_number(pair.key):
            return ValueForm.of(literal(pair.value))
        if _NUMBER_LIST.fullmatch(pair.value):
            return ValueForm.of(_list_form(pair.value, number))
        if pair.value[:1] in _CLOSES and self.shape.number_rows:
            nested = NestedForm.from_object(pair.value, dropped)
            if nested is not None:
                return nested
        return ValueForm.of(f"{{{'*' if self.shape.text_rows else dropped}:{self.syntax.text_type(pair.value, 'n')}}}")

    def _is_number(self, key: str) -> bool:
        """Return whether the values of a key should be numbers: it is declared, or names a column of plain numbers."""
        col = column_for(self.shape.line.table, field_name(key))
        return look_up(self.keys, key) is not None or (col is not None and col.type == "float64" and not col.unit)

    def _template(
        self, head: Template, keys: Sequence[str], forms: Sequence[ValueForm], loose: bool, closed: bool
    ) -> tuple[Template, FieldNames] | None:
        """Return the template of keys with values of these forms, and the names of its fields.

        None if the template would be too long to match.
        """
        names = FieldNames(self.shape.line.table, [*head.names, *self.shape.tail.names])
        parts = list[tuple[str, str]]()
        for key, form in zip(keys, forms, strict=True):
            entry, before = look_up(self.keys, key), set(names.from_keys)
            parts.append((key, form.template_text(names, key, self.shape.dropped_field(key))))
            if entry is not None and entry[0] in self.phases:
                names.phases |= names.from_keys - before
        template = template_of(head.text + self.syntax.written(parts, loose, closed) + self.shape.tail.text)
        return None if template is None else (template, names)
