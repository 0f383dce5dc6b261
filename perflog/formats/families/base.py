"""What the families of lines share: names for keys, specs for numbers, and a Line made of a text that is met."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeVar

from perflog.formats.model import Line
from perflog.formats.template import NUMBER, Field, Template
from perflog.tables.schema import TABLES, column_for
from perflog.units import Unit

IS_NUMBER = re.compile(rf"{NUMBER}|[+-]?\d[\d,]*(?:\.\d*)?(?:[eE][+-]?\d+)?", re.ASCII)
WITNESSES = ("run", "line", "part", "rank_by", "copy", "occurrence", "steps_averaged")
"""Columns that perflog fills itself, to say where a row comes from."""

LONGEST = 1 << 15
"""Bytes of a pattern: one of more takes too much memory to be matched."""

NO_NAME = "[^A-Za-z0-9_]+"
"""What stands in a printed name and not in a field's: one `_` instead."""

_FORM = re.compile(r"[+-]?(?P<whole>[\d,]+)(?:\.(?P<decimals>\d*))?(?:(?P<e>[eE])[+-]\d{2,3})?", re.ASCII)
_OF_KEY = "key__"  # the field `*`, while its piece is a template
T = TypeVar("T")


def name_of(text: str) -> str:
    """A name as it is printed, as that of a field: `num_layers L` is num_layers_L."""
    return re.sub(NO_NAME, "_", text).strip("_")


@cache
def glob(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """Matches texts that fit a pattern in which `*` is any text."""
    return re.compile(".*".join(re.escape(x) for x in pattern.split("*")), re.DOTALL).fullmatch


def literal(text: str) -> str:
    """A text as the literal of a template."""
    return text.replace("{", "{{").replace("}", "}}")


def look_up(rows: Mapping[str, T], key: str) -> tuple[str, T] | None:
    """The row of a key: its own, else the first whose glob (`*` is any text) fits."""
    if key in rows:
        return key, rows[key]
    return next(((p, x) for p, x in rows.items() if "*" in p and glob(p)(key)), None)


def spec_of(text: str) -> str:
    """The spec that prints a number as it is printed here; it reads any other number too."""
    form = _FORM.fullmatch(text)
    if form is None:
        return "r"
    comma, digits = "," if "," in form["whole"] else "", len(form["decimals"] or "")
    return f"{comma}.{digits}{form['e'] or 'f'}"


class FieldNames:
    """FieldNames of the fields of one line, each given once; `of_keys` are those that come of keys."""

    def __init__(self, table: str | None, given: Iterable[str] = ()) -> None:
        self._table = table
        self._given = set(given)
        self.of_keys: set[str] = set()

    def own(self, name: str) -> str:
        """A declared name; name_2 if it is given already."""
        k = 1
        while (free := name if k == 1 else f"{name}_{k}") in self._given:
            k += 1
        if name != "_":
            self._given.add(free)
        return free

    def of_key(self, key: str) -> str:
        """The name that a key gives: its letters, digits and _. It fills a column only where that holds a plain number:
        of any other the unit would be a guess.
        """
        name = name_of(key) or "key"
        name = f"_{name}" if name[0].isdigit() else name
        col = column_for(self._table, name) if self._table in TABLES and self._table != "runs" else None
        guess = col is not None and (col.type != "float64" or bool(col.unit))
        if guess or name in (*WITNESSES, "rank", "step"):
            self._given.add(name)
        free = self.own(name)
        self.of_keys.add(free)
        return free


@dataclass(frozen=True, eq=False)
class ValueForm:
    """How a value is printed: a template, whose field `*` takes the name of the key."""

    template: Template

    @classmethod
    def of(cls, text: str) -> ValueForm:
        """Raises FormatError."""
        return cls(Template(text.replace("{*:", f"{{{_OF_KEY}:")))

    @property
    def fields(self) -> list[Field]:
        """Its fields of a name of their own."""
        return [f for f in self.template.fields if f.name not in ("_", _OF_KEY)]

    def fits(self, value: str, padding: int = 0) -> bool:
        """Whether a value is printed so, the blanks in front being of it or not."""
        return any(self.template.match(blanks + value) is not None for blanks in {"", " " * padding})

    def written(self, names: FieldNames, key: str) -> str:
        """Its text in a line where the key stands."""
        out = literal(self.template.literals[0])
        for f, behind in zip(self.template.fields, self.template.literals[1:], strict=True):
            name = names.of_key(key) if f.name == _OF_KEY else names.own(f.name)
            out += f"{{{name}:{f.spec}}}{literal(behind)}"
        return out


@dataclass(frozen=True, eq=False)
class FamilyShape:
    """What a family's entry says of its lines. `line` has all but the template; units are by field name, those of a
    glob for fields named after keys. `heads` and `tail`: what stands before and behind.
    """

    line: Line
    heads: tuple[Template, ...]
    tail: Template
    units: Mapping[str, Unit] = field(default_factory=dict)

    @property
    def begins(self) -> str:
        """What the lines begin with, to be shown."""
        more = len(self.heads) - 1
        return self.heads[0].text + (f" (or {more} other head{'s' * (more > 1)})" if more else "")

    @property
    def required_literal(self) -> bytes:
        """What every line holds outside the middle; nothing where there are several heads."""
        return max(self.tail.required_literal, self.heads[0].required_literal if len(self.heads) == 1 else b"", key=len)

    @property
    def letters(self) -> int:
        """Letters and digits that every line has in front."""
        return min(head.letters for head in self.heads)

    @property
    def text_rows(self) -> bool:
        """Whether a text without a column can become a row: of `values`."""
        return self.line.table not in ("phases", "summaries", None)

    @property
    def number_rows(self) -> bool:
        """Whether a number of which nothing is declared can become a row, or an entry of `config`."""
        return self.line.table not in ("phases", None)

    def made(self, template: Template, globbed: Collection[str]) -> Line:
        """The Line of a template. What speaks of fields that it has not is left out."""
        names, numbers = set(template.names), {f.name for f in template.fields if f.numeric}
        units = {n: self.units[n] for n in numbers if n in self.units}
        for name in numbers & set(globbed) - set(units):
            found = look_up(self.units, name)
            units |= {name: found[1]} if found else {}
        given = self.line
        return replace(
            given,
            template=template,
            samples=(),
            unit=units,
            compute={k: e for k, e in given.compute.items() if numbers.issuperset(e.names)},
            run=tuple(n for n in template.names if n in given.run),
            check=given.check if given.check and given.check[0] in names else None,
        )


def template_of(text: str) -> Template | None:
    """The template of this text; None for one too long to be matched, or of bytes that are no text."""
    try:
        made = Template(text)
        return made if len(made.pattern) <= LONGEST else None
    except UnicodeEncodeError:
        return None
