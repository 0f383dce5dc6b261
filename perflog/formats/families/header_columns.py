"""Columns of printed tables: which declared column a printed name belongs to, and the unit that the name carries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field
from msgspec.structs import replace

from perflog.formats.durations import names_duration
from perflog.formats.families.base import IS_NUMBER, KEY_FIELD, FieldNames, column_of_number, fits, glob
from perflog.formats.families.cell_forms import CellForm
from perflog.formats.families.name_units import name_and_unit, split_unit
from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.formats.vocabulary import plain_name
from perflog.lazy_patterns import lazy_pattern
from perflog.units import UNITS, Unit, base_of

UNIT_SUFFIX = " ({unit})"
_LONGEST_NAME = 80
QUANTITIES = lazy_pattern(r"(?i)metrics?|measures?|measurements?|kpis?")
"""Names of a column of quantities, not of settings."""

_PERCENT = lazy_pattern(r"[0-9]{1,2}(?:\.[0-9]+)?%")
_NO_NAME = lazy_pattern(r"[:=][ \t]|[:=]$|=[0-9.]|[.!?]$|(?<![0-9.])[0-9]+:[0-9]")  # pairs, sentences, times of day

NameMatch = tuple["DeclaredColumn | None", str]
"""The column of a printed name, None if no column is declared for it; and the unit in the name, "" if it has none."""


class DeclaredColumn(Struct, frozen=True, eq=False, dict=True):
    """A declared column.

    Attributes:
        name: The name in the header. `*` matches any string, ` ({unit})` at the end for an optional unit. `{unit}`
            elsewhere is the unit of the columns with ` ({unit})` that print none.
        forms: The forms of its cells; the first that fits reads a cell. A header that names a column without forms is
            not a header of this table.
        paths: By field that has the name of a column but does not fill it, the printed name.
        names: The names that any program may print instead of `name`, as they are compared.
        units: The units of fields that their cells print.
        unit: The unit of its numbers, if neither name nor cells print one; "" for none.
    """

    name: str
    forms: tuple[CellForm, ...]
    paths: Mapping[str, str] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    units: Mapping[str, Unit] = field(default_factory=dict)
    unit: str = ""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of the name in a header."""
        parts = (".*?".join(re.escape(x) for x in part.split("*")) for part in self._around_unit)
        name = "(?P<unit>[^()]+)".join(parts)
        return re.compile(name + (r"(?: ?\((?P<unit>[^()]+)\))?" if self.name.endswith(UNIT_SUFFIX) else ""))

    def is_named(self, name: str) -> bool:
        """Return whether it is the column of a name, as names of any program are compared."""
        return name in self.names if self.names else self.pattern.fullmatch(name) is not None

    @property
    def longest(self) -> str:
        """The longest string that each of its names contains."""
        return max((x for part in self._around_unit for x in part.split("*")), key=len)

    @property
    def _around_unit(self) -> list[str]:
        """The name without a unit at its end, cut where a unit is in it: `Name (time in {unit})`."""
        return self.name.removesuffix(UNIT_SUFFIX).split("{unit}")

    @property
    def may_have_unit(self) -> bool:
        """Whether the name may have a unit at its end."""
        return self.name.endswith(UNIT_SUFFIX)

    @property
    def has_unit_of_others(self) -> bool:
        """Whether the unit in the name of a column of strings is that of the columns without one."""
        return len(self._around_unit) > 1

    @cached_property
    def declared_fields(self) -> frozenset[str]:
        """The fields that the declaration names."""
        return frozenset(f.name for x in self.forms for f in x.fields if not f.is_dropped and f.name != KEY_FIELD)

    @property
    def is_cell(self) -> bool:
        """Whether it is one of the columns of a matrix: any name is its label."""
        return self.name == "*"

    @property
    def is_named_by_header(self) -> bool:
        """Whether a field of the column takes its name from the header."""
        return any(f.name == KEY_FIELD for form in self.forms for f in form.fields)

    def with_name(self, name: str, printed: str, paths: Mapping[str, str]) -> DeclaredColumn:
        """Return the column with a name for the field that takes its name from the header.

        A string such as `0:00:24` is a duration only if the printed name says so; otherwise it is a time of day.
        """
        is_timed = names_duration(printed)
        forms = tuple(
            replace(form, template=Template(form.template.text.replace(f"{{{KEY_FIELD}:", f"{{{name}:")))
            for form in self.forms
            if is_timed or all(f.type != "h" for f in form.fields)
        )
        return replace(self, forms=forms, paths={name: paths[name]} if name in paths else {})


_PERCENTS = frozenset((name, "") for name in ("pct", "percent", "percentage", "time_percent", "time_pct"))
"""Names of shares in percent, without a unit beside them."""


def match_names(names: Iterable[str], declared: Sequence[DeclaredColumn], row: Line) -> list[NameMatch]:
    """Return for each printed name the first declared column that fits it as it is printed."""
    matches: list[NameMatch] = []
    for name in names:
        fits = ((c, c.pattern.fullmatch(name)) for c in declared)
        match = next(((c, m.groupdict().get("unit") or "") for c, m in fits if m), (None, ""))
        matches.append(match)
    return _named(names, matches, row)


def match_names_of_any_program(names: Sequence[str], declared: Sequence[DeclaredColumn], row: Line) -> list[NameMatch]:
    """Return the columns of printed names that any program may have chosen.

    Names are compared by their letters and digits. A declared column that needs a unit takes a name only with such a
    unit, in brackets or as its last part; and a field is filled by one name alone. Other names belong to columns with
    fields that are named by the header.
    """
    matches: list[NameMatch] = []
    taken: set[str] = set()
    for name in names:
        match = next(_fitting_columns(name, declared, row, taken), (None, ""))
        if name and match[0] is not None:  # what is before the first bar has no name either
            taken |= match[0].declared_fields
        matches.append(match)
    return _named(names, matches, row)


def _fitting_columns(name: str, declared: Sequence[DeclaredColumn], row: Line, taken: set[str]) -> Iterator[NameMatch]:
    base, unit = split_unit(name)
    without_unit, unit_in_name = name_and_unit(name)
    readings = [(plain_name(base), unit), (plain_name(without_unit), unit_in_name)]
    readings += [(plain_name(base), unit_in_name)] if not unit else []  # `step_ms` is no step: its unit names it
    readings += [(readings[0][0], "%")] if readings[0] in _PERCENTS else []
    readings += [(plain_name(name), unit)] if "/" in unit or base_of(unit) == "1/s" else []  # `throughput (tokens/s)`
    for c in declared:
        if c.is_named_by_header and not c.declared_fields:
            if c.is_named(readings[0][0]):
                yield c, unit or unit_in_name
            continue
        for key, unit_of_key in readings:
            if c.is_named(key) and not c.declared_fields & taken and _fits(c, unit_of_key, row):
                yield c, unit_of_key


def _fits(column: DeclaredColumn, unit: str, row: Line) -> bool:
    """Return whether a number with a unit can fill the fields of a column."""
    return all(
        fits(column_of_number(row.table, name), UNITS.get(unit), row.unit.get(name)) for name in column.declared_fields
    )


def _named(names: Iterable[str], matches: Sequence[NameMatch], row: Line) -> list[NameMatch]:
    """Return the matches with names for the fields that take their names from the header."""
    fields = FieldNames(row.table, {name for c, _ in matches if c is not None for name in c.declared_fields})
    named: list[NameMatch] = []
    names = [*names]
    percentile = "p" if names_percentiles([name for name in names if name]) else ""
    for name, (column, unit) in zip(names, matches, strict=True):
        if column is not None and column.is_named_by_header:
            without_unit, unit_in_name = name_and_unit(name)
            plain = without_unit if unit == unit_in_name else split_unit(name)[0]
            if unit == "%" and plain != name and plain in names:
                plain = f"{plain} share"  # `Self CUDA`, `Self CUDA %`
            if percentile and name.endswith("%"):
                plain, unit = percentile + name.removesuffix("%"), ""
            column = column.with_name(fields.from_key(plain), plain, fields.paths)
        named.append((column, unit))
    return named


def names_percentiles(names: Sequence[str]) -> bool:
    """Return whether names are of a column of quantities and of their percentiles: `Metric`, `50%`, `99%`."""
    first, *others = names or [""]
    return len(others) > 1 and QUANTITIES.fullmatch(first) is not None and all(map(_PERCENT.fullmatch, others))


def is_header(names: Sequence[str], needs: Iterable[str], is_proved: bool = False) -> bool:
    """Return whether cells are the names of columns and include `needs`: no numbers, and none twice.

    The first name may be empty: pandas writes the number of each row there. `is_proved`: something else proves the
    names, whatever they are.
    """
    if not is_proved and not _are_names(names):
        return False
    plain = [plain_name(split_unit(name)[0]) for name in names]
    return all(any(glob(x)(name) for x in need.split("|") for name in plain) for need in needs)


def _are_names(names: Sequence[str]) -> bool:
    names = names[1:] if names[:2] == ["", ""] else names  # a bar, and a column of row numbers
    if len(names) < 2 or len(set(names)) < len(names) or not all(names[1:]):
        return False
    if any(x.startswith("(") and ")" not in x for x in names):  # `(M, N)`, taken for two; `Box(P` is a name
        return False
    return not any(IS_NUMBER.fullmatch(x) or _NO_NAME.search(x) or len(x) > _LONGEST_NAME for x in names)


def has_needs(names: Iterable[str], needs: Iterable[str]) -> bool:
    """Return whether the declared columns with these names hold all that a table needs; `a|b` is one of both."""
    there = set(names)
    return all(not there.isdisjoint(need.split("|")) for need in needs)
