"""Shared by all families of lines: field names for keys, specs for numbers, the Line of a shape that a log shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from perflog.formats.model import MIN_LETTERS, Line
from perflog.formats.openings import ENOUGH_OF_HEAD, Opening, opening_of
from perflog.formats.template import DECLARED_DROPPED, GROUPED, UNNAMED, Field, Template, literal, unnamed
from perflog.formats.vocabulary import PLACES, field_name, name_in_script
from perflog.lazy_patterns import lazy_pattern
from perflog.tables.schema import PER_FIELD, TableColumn, column_for
from perflog.units import PRINTED, Unit

IS_NUMBER = lazy_pattern(GROUPED, re.ASCII)
WITNESSES = ("run", "line", "part", "rank_by", "copy", "occurrence", "steps_averaged")
"""Columns that perflog fills itself: they say where a row comes from."""

LONGEST = 1 << 15
"""Longest pattern, in bytes. Matching a longer one takes too much memory."""

NO_PATH = r"[^A-Za-z0-9_.\[\]]+"
"""Characters of a path that the key of a row cannot have."""

_FORM = lazy_pattern(r"[+-]?(?P<whole>[\d,]+)(?:\.(?P<decimals>\d*))?(?:(?P<e>[eE])[+-]\d{2,3})?", re.ASCII)
KEY_FIELD = "key__"  # replaces `*` in the names of fields while the form of a value is a template: key__0 is `*.0`
_STAR = lazy_pattern(r"\{(\w*)\*(?:\.(\d+)|(\w*)):")
T = TypeVar("T")
_OF_FIGURES = ("key", "value", "unit", "text")  # columns of `values` that differ between the numbers of a record


@cache
def glob(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """Return the matcher of a pattern in which `*` matches any string."""
    return re.compile(".*".join(re.escape(x) for x in pattern.split("*")), re.DOTALL).fullmatch


def counted(name: str, digits: str) -> str:
    """Return the field of a whole number that is printed so: `007` keeps its zeros."""
    return f"{{{name}:{f'0{len(digits)}' if digits.startswith('0') and len(digits) > 1 else ''}d}}"


def gap_text(gap: str) -> str:
    """Return whitespace as a template string: one space as it is, others as any whitespace."""
    return gap if gap in ("", " ") else "{_:b}"


def look_up(rows: Mapping[str, T], key: str) -> tuple[str, T] | None:
    """Return the entry of a key with its name or glob: its own, else the first with a glob that fits, else None."""
    if key in rows:
        return key, rows[key]
    return next(((p, x) for p, x in rows.items() if "*" in p and glob(p)(key)), None)


def spec_of(text: str) -> str:
    """Return the spec that prints a number in the form of this string. The spec reads numbers of any form."""
    form = _FORM.fullmatch(text)
    if form is None:
        return "r"
    comma, digits = "," if "," in form["whole"] else "", len(form["decimals"] or "")
    return f"{comma}.{digits}{form['e'] or 'f'}"


def column_of_number(table: str | None, field: str) -> TableColumn | None:
    """Return the column that a number of a line fills; None if there is none, as for a setting of a run."""
    return column_for(table, field) if table != "runs" else None


def fits(column: TableColumn | None, unit: Unit | None, declared: Unit | None = None) -> bool:
    """Return whether a column takes a number with a unit: with a unit of its own, only that one.

    What fills a column of nanoseconds is a date, which has no unit.

    Args:
        column: The column; None for a field that has none.
        unit: The unit that the log prints; None for none.
        declared: The unit of numbers that are printed without one.
    """
    own = column.unit if column is not None and column.unit != "ns" else ""
    known = unit or declared
    return known is not None and known.base == own if own else unit is None


class UniqueNames:
    """Gives out names that are not taken: of equal ones, the second is `name_2`, the third `name_3`."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}  # by name, the first number that may be free

    def is_taken(self, name: str) -> bool:
        """Return whether a name is taken."""
        return name in self._taken

    def take(self, name: str) -> str:
        """Return the name, or the same with a number, that is taken from now on."""
        number = self._next.get(name, 1)
        while (free := name if number == 1 else f"{name}_{number}") in self._taken:
            number += 1
        self._taken.add(free)
        self._next[name] = number + 1
        return free


class FieldNames(UniqueNames):
    """Gives each field of one line a unique name.

    Attributes:
        from_keys: The names that were made from printed keys, not declared.
        paths: By name that was made from a path of an object, the path.
        phases: The names of `from_keys` that are times of phases.
    """

    def __init__(self, table: str | None, taken: Iterable[str] = ()) -> None:
        super().__init__(taken)
        self._table = table
        self.from_keys: set[str] = set()
        self.paths: dict[str, str] = {}
        self.phases: set[str] = set()

    def declared(self, name: str) -> str:
        """Return a declared name, perhaps with a number. Fields that are dropped share their name."""
        return name if name in (UNNAMED, DECLARED_DROPPED) else self.take(name)

    def from_key(self, key: str, number: bool = True) -> str:
        """Return the name that a printed key gives: its letters, digits and underscores.

        The value fills a column of that name only if it is a number and the column holds numbers without a unit. For
        any other column the unit would be a guess, and a string would be lost, so a number is appended to the name.
        In table `values` the names `key`, `value`, `unit` and `text` get a number too: each number of the record has
        these columns for itself.
        """
        name = field_name(key) or "key"
        name = f"_{name}" if name[0].isdigit() else name
        col = column_of_number(self._table, name)
        does_not_fit = col is not None and (not number or col.type != "float64" or bool(col.unit))
        is_cell = self._table == "values" and name in _OF_FIGURES
        has_column = does_not_fit or is_cell or name in (*WITNESSES, *PLACES)
        if has_column:
            self._taken.add(name)
        free = self.declared(name)
        self.from_keys.add(free)
        printed = name_in_script(key)
        shown = printed or (name if has_column else "")
        if shown and self._table != "runs" and shown not in self.paths.values():
            self.paths[free] = shown  # its row has the printed name all the same
        return free

    def from_path(self, path: str) -> str:
        """Return the name of a number that only its path in an object names: `metadata.step`, `loads[3]`.

        The number becomes a row of table `values`, or a setting, with the path as key. A path of one key may fill a
        column, as `from_key` has it.
        """
        key = re.sub(NO_PATH, "_", path).strip("_.") or "key"
        if self._table not in PER_FIELD and not set(".[") & set(key):
            return self.from_key(key)
        name = field_name(key) or "key"
        name = f"key_{name}" if name[0].isdigit() else name
        if self._table and (name in (*WITNESSES, *PLACES) or column_for(self._table, name)):
            self._taken.add(name)
        free = self.declared(name)
        self.paths[free] = key
        return free

    def phases_of(self, template: Template) -> frozenset[str]:
        """Return the fields of a line that are times of phases. A string in a numeric field is no time."""
        return frozenset(field.name for field in template.fields if field.numeric and field.name in self.phases)


class ValueForm(Struct, frozen=True, eq=False):
    """One way to print a value: a template. `has_texts`: strings that are no pairs follow it.

    Its field `*` takes its name from the printed key, its fields `*.0`, `*.1` from the key and their index in a list,
    and a field such as `test_*` or `*_mean` from the key and its own prefix or suffix.
    """

    template: Template
    has_texts: bool = False

    @classmethod
    def of(cls, text: str) -> ValueForm:
        """Return the form of a template string. Raises FormatError."""
        return cls(Template(_STAR.sub(rf"{{\g<1>{KEY_FIELD}\g<2>\g<3>:", text)))

    @property
    def fields(self) -> list[Field]:
        """Its fields that have declared names."""
        return [f for f in self.template.fields if not f.is_dropped and KEY_FIELD not in f.name]

    def followed_by(self, text: str) -> ValueForm:
        """Return the form of values before strings that are no pairs. `text`: these strings as a template string."""
        return ValueForm(Template(self.template.text + text), has_texts=True)

    def between(self, before: str, after: str) -> ValueForm:
        """Return the form of values between two strings."""
        return ValueForm(Template(literal(before) + self.template.text + literal(after)), has_texts=self.has_texts)

    def fits(self, value: str, padding: int = 0) -> bool:
        """Return whether a value has this form, with or without `padding` spaces before it."""
        return any(self.template.match(blanks + value) is not None for blanks in {"", " " * padding})

    def template_text(self, names: FieldNames, key: str, dropped: str = UNNAMED) -> str:
        """Return the template string of the value after this key. `dropped` is the name of its dropped fields."""

        def name_of(f: Field) -> str:
            if KEY_FIELD not in f.name:
                return names.declared(dropped if f.name == UNNAMED else f.name)
            before, _, after = f.name.partition(KEY_FIELD)
            dot = "." if after.isdigit() else ""  # `*.0`: a template has no dots in names
            return names.from_key(f"{before}{key}{dot}{after}", f.numeric)

        return self.template.with_fields(f"{{{name_of(f)}:{f.spec}}}" for f in self.template.fields)


class FamilyShape(Struct, frozen=True, eq=False, dict=True):
    """The parts that all lines of a family share.

    Attributes:
        line: A Line with everything except its template.
        heads: Templates; each line begins with one of them.
        tail: The template that ends the line.
        units: Units by field name, or by a glob for fields named after keys.
        dropped: By key or glob, why the figures of the key need no table.
        beside_steps: Whether lines of the family, of a generic format, are read beside the steps of another format.
    """

    line: Line
    heads: tuple[Template, ...]
    tail: Template
    units: Mapping[str, Unit] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    beside_steps: bool = False

    def dropped_field(self, key: str) -> str:
        """Return the name of the field that drops the value of a key."""
        return DECLARED_DROPPED if look_up(self.dropped, key) else UNNAMED

    @property
    def begins(self) -> str:
        """The beginning of the lines, for display."""
        more = len(self.heads) - 1
        return self.heads[0].text + (f" (or {more} other head{'s' * (more > 1)})" if more else "")

    @cached_property
    def required_literal(self) -> bytes:
        """Bytes that every line has in its head or tail; empty if the heads have no word in common."""
        first, *others = self.heads
        texts = [first.required_literal.decode()] if not others else " ".join(first.literals).split()
        common = [x for x in texts if all(any(x in literal for literal in head.literals) for head in others)]
        return max(
            self.tail.required_literal, max(common, key=len, default="").encode("utf-8", "surrogateescape"), key=len
        )

    @cached_property
    def openings(self) -> tuple[Opening, ...]:
        """The openings of the heads that are known by their letters."""
        return tuple(opening for head in self.heads if (opening := opening_of(head, ENOUGH_OF_HEAD)) is not None)

    def head_patterns(self, before: str = "", after: str = "") -> list[tuple[Template, re.Pattern[bytes]]]:
        """Return each head with the pattern of a line from it on. `before`, `after`: patterns around the head."""
        return [(head, lazy_pattern(f"{before}(?s:{unnamed(head.pattern)}){after}".encode())) for head in self.heads]

    @cached_property
    def letters(self) -> int:
        """Least number of literal letters and digits in the heads."""
        return min(head.letters for head in self.heads)

    @cached_property
    def end(self) -> re.Pattern[bytes]:
        """The pattern of the tail, at the end of a line."""
        return re.compile(f"(?s:{unnamed(self.tail.pattern)})$".encode())

    def proves_format(self, letters: int) -> bool:
        """Return whether a line proves the format. `letters`: least number of letters between head and tail."""
        return self.letters + letters >= MIN_LETTERS if self.line.telling is None else self.line.telling

    @property
    def text_rows(self) -> bool:
        """Whether a string without a column can become a row of table `values`."""
        return self.line.table not in ("phases", "summaries", None)

    @property
    def number_rows(self) -> bool:
        """Whether an undeclared number can become a row, or a setting of the run."""
        return self.line.table not in ("phases", None)

    def line_after(
        self, raw: bytes, end: int, text: str, names: FieldNames, units: Mapping[str, Unit], keeps_names: bool = False
    ) -> Line | None:
        """Return the Line of a string that is read after its prefix; None if its template does not match the string.

        Args:
            raw: The string.
            end: The offset at which its prefix ends.
            text: The template string of what follows.
            names: The names of the fields.
            units: The units that the string prints, by field.
            keeps_names: Whether a field has the printed name as its key, also where a column has that name.
        """
        template = template_of("{_:p}" * bool(end) + text)
        if template is None or template.match(raw) is None:
            return None
        line = self.line_of(template, names.from_keys, names.paths if keeps_names else None)
        return replace(line, unit={**line.unit, **units})

    def line_of(
        self,
        template: Template,
        from_keys: Collection[str],
        paths: Mapping[str, str] | None = None,
        named_units: Mapping[str, Unit] | None = None,
        settings: Collection[str] = (),
    ) -> Line:
        """Return the Line of a template. Declarations about fields that it lacks are left out.

        Args:
            template: The template of the shape that the log shows.
            from_keys: Names of fields that were made from printed keys; units are declared for them by globs.
            paths: By name of a field that was made from a path, the path; units are declared for it by globs too.
            named_units: Units by field that the log prints inside the name. A declared unit comes first.
            settings: Fields that describe the run, beside the declared ones.
        """
        paths = paths or {}
        names, numbers = set(template.names), {f.name for f in template.fields if f.numeric or f.type == "l"}
        unitless = numbers - {f.name for f in template.fields if f.type in PRINTED}
        prefixed = {f.name for f in template.fields if f.type in PRINTED and not PRINTED[f.type][0]}  # `1.2 k`: no unit
        units = {n: self.units[n] for n in unitless | prefixed if n in self.units}
        for name in unitless & {*from_keys, *paths} - set(units):
            globs = {pattern: unit for pattern, unit in self.units.items() if "*" in pattern or name not in paths}
            entry = look_up(globs, paths.get(name, name))
            units |= {name: entry[1]} if entry else {}
        units = {**units, **{n: u for n, u in (named_units or {}).items() if n in unitless and n not in units}}
        common = self.line
        return replace(
            common,
            template=template,
            samples=(),
            unit=units,
            unknown={n: number for n, number in common.unknown.items() if n in names},
            compute={k: e for k, e in common.compute.items() if numbers.issuperset(e.names)},
            run=tuple(n for n in template.names if n in common.run or n in settings),
            check=common.check if common.check and common.check[0] in names else None,
            again=common.again if common.again and not names.isdisjoint(common.again.fields.values()) else None,
            dropped=reasons(self.dropped),
            paths=paths,
        )


class ShapedFamily(Struct, frozen=True, eq=False, kw_only=True):
    """A family of which all lines share some parts. It proves its format unless it says that it proves none.

    Attributes:
        text: The declaration, for display.
        shape: What all lines of the family have in common.
    """

    name: str
    text: str
    samples: tuple[str, ...]
    shape: FamilyShape

    @property
    def openings(self) -> Sequence[Opening]:
        return ()

    @property
    def proves_format(self) -> bool:
        return self.shape.line.telling is not False

    @property
    def required_literal(self) -> bytes:
        return self.shape.required_literal


def reasons(dropped: Mapping[str, str]) -> dict[str, str]:
    """Return the reasons of a Line's dropped fields, from those by key or glob. `*` holds for all fields."""
    every = {UNNAMED: dropped["*"]} if "*" in dropped else {}
    return {DECLARED_DROPPED: "; ".join(dict.fromkeys(dropped.values())), **every} if dropped else {}


def template_of(text: str, is_matched: bool = True) -> Template | None:
    """Return the template of a string; None if the string has bytes that are not UTF-8, or is too long to match.

    `is_matched`: whether lines are matched with its expression.
    """
    try:
        template = Template(text)
        return template if not is_matched or len(template.pattern) <= LONGEST else None
    except UnicodeEncodeError:
        return None
