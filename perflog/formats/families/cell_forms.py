"""The forms of cells of printed tables: a number, one with its unit, several with marks between them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from perflog.formats.families.name_units import name_and_unit, split_unit
from perflog.formats.template import Field, Template, literal
from perflog.formats.vocabulary import COUNTERS, PLACES, field_name, field_of, plain_name
from perflog.lazy_patterns import lazy_pattern
from perflog.units import MAGNITUDES, UNITS, Unit, base_of, unit_of

_NAME_BEFORE = lazy_pattern(r"([A-Za-z][\w/]*) ?[:=] ?$")  # a number in a cell
_PLUS_MINUS = lazy_pattern(r" ?(?:±|\+/?-) ?")
_UNIT_AFTER = lazy_pattern(r" ?([A-Za-zµμ%]+(?:/[A-Za-z]+)?|×)")
_PART = r"[A-Za-z][\w.%]*"
_PARTS_IN_BRACKETS = lazy_pattern(rf"(?P<stem>.*?) ?\((?P<parts>{_PART}(?: ?/ ?{_PART})+)\)")
_WITH_UNIT = lazy_pattern(r"[^\s()]+(?: ?\([^()]*\))?")
_PARTS_AT_END = lazy_pattern(rf"(?P<stem>(?:.*[^/] )?)(?P<parts>{_PART}(?: ?/ ?{_PART})+)")

PYTHON_WARNING = r"^[^ \t:]+\.py:[0-9]+: [A-Za-z]*Warning: |^  [\w.]*warn\w*\("
"""Pattern of the two lines of a Python warning: it may be printed among the lines of a table."""

REMARK = "()"
"""The end of the way in which a cell prints a number, if a remark in brackets is after it: `0.37x  (vs vllm)`."""

_REMARKS = ("{_:b}({_:w}={_:r})", "{_:b}({_:)c})")  # a condition, `2459 (VPP=4)`: its figure is counted


class CellForm(Struct, frozen=True, eq=False):
    """One way to print a cell.

    Attributes:
        template: The template of the cell.
        set: Constant values of columns of the table, in rows with such a cell.
        unit_of_row: The unit of those numbers of the row that have none; "" for none.
        unit: The unit that such a cell prints, if other cells of the column print another one; "" for none.
    """

    template: Template
    set: Mapping[str, str] = field(default_factory=dict)
    unit_of_row: str = ""
    unit: str = ""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the template."""
        return self.template.fields


def forms_with_units(name: str, ways: Sequence[str], unit: str) -> tuple[list[CellForm], str]:
    """Return the forms of numbers that are printed in one of some ways, and the unit of their column.

    Args:
        name: The field that takes the number.
        ways: How cells print it, as `HeaderTable.cell_types` has it.
        unit: The unit in the name of the column.
    """
    forms = list[CellForm]()
    for way in ways:
        number = way.removesuffix(REMARK)
        after = 2 if number[0] == "," else 1
        printed = number[after:]
        own = f"{name}_{printed.strip()}" if printed.strip() in MAGNITUDES else name  # `10K` is 10,000 or 10,240
        texts = (f"{{{own}:{number[:after]}}}{literal(printed)}{x}" for x in (_REMARKS if number != way else ("",)))
        forms += [CellForm(Template(text), unit=unit_of(printed)[0]) for text in texts]
    if len({form.unit for form in forms}) == 1:  # of `Duration (s)` above `10.1 ms` the cells are right
        unit, forms = forms[0].unit or unit, [replace(form, unit="") for form in forms]
    return forms, unit


def form_of_several(name: str, shape: str, header: str, free: Mapping[str, str]) -> tuple[CellForm, dict[str, Unit]]:
    """Return the form of cells with several values, `3.1 ms / 706 TFLOPS`, and the units of its fields.

    Their names are those in the name of the column: `TTFT p50 / p95`, `Retries (P50/P90)`; a unit after the last value
    is then the unit of all. Else the first has the name of the column, the others also their unit or their number; the
    second of `1/25` is the total of a counter, and of `12.3/80.0 GB` that of a memory. A name in the cell comes before:
    `images/sec: 127.9 (jitter = 0.4)`. It may mean one of the fields `free`, each with its base unit.
    """
    before, *parts = shape.split("{}")
    text, units, taken, named = literal(before), dict[str, Unit](), set[str](), name
    are_apart = all(part.strip() == "/" for part in parts[:-1])
    own_names = _names_of_parts(header, len(parts)) if are_apart else []
    if not any(part.strip("x× ") for part in parts[:-1]):
        own_names = _names_with_units(header, len(parts))
    last = _UNIT_AFTER.match(parts[-1]) if are_apart else None
    is_of_total = last is not None and len(parts) == 2 and base_of(unit_of(last[1])[0]) == "B"  # `12.3/80.0 GB`
    last = last if own_names or is_of_total else None
    for k, part in enumerate(parts, 1):
        printed = _UNIT_AFTER.match(part) or last
        if printed is None and k < len(parts) and _precedes_spread(part):  # `20.9 ± 0.5 ms`: one unit for both
            printed = _UNIT_AFTER.match(parts[k])
        unit = ("1" if printed[1] in "x×" else unit_of(printed[1])[0]) if printed else ""
        front = _NAME_BEFORE.search(parts[k - 2] if k > 1 else before)
        own = f"{name}_{field_name(printed[1]) if printed else k}" if k > 1 else name
        if front is not None:
            label, own_unit = name_and_unit(front[1])
            unit = own_unit or unit
            meant = field_of(front[1])
            own = named = meant if unit and free.get(meant) == base_of(unit) else field_name(label)
        elif own_names:
            label, own_unit = split_unit(own_names[k - 1])
            own, unit = field_name(label), unit or own_unit
        elif k > 1 and _precedes_spread(parts[k - 2]):
            own, unit = f"{named}_spread", unit or next((u for u, x in UNITS.items() if units.get(named) == x), "")
        elif k > 1 and (is_of_total or (shape == "{}/{}" and plain_name(header) in COUNTERS)):
            own = f"{name}_total"
        own = own if own not in taken else f"{own}_{k}"
        taken.add(own)
        units |= {own: UNITS[unit]} if unit in UNITS else {}
        text += f"{{{own}:{'d' if own in PLACES else 'r'}}}{literal(part)}"
    return CellForm(Template(text)), units


def _precedes_spread(text: str) -> bool:
    """Return whether the text after a value says that the next one is its spread: ` ± `, ` ms ± `."""
    unit = _UNIT_AFTER.match(text)
    return _PLUS_MINUS.fullmatch(text, unit.end() if unit is not None else 0) is not None


def _names_of_parts(header: str, count: int) -> list[str]:
    """Return the names of the values in each cell by the name of their column, `TTFT p50 / p95`; [] if it has none."""
    match = _PARTS_IN_BRACKETS.fullmatch(header) or _PARTS_AT_END.fullmatch(header)
    names = [x.strip() for x in match["parts"].split("/")] if match is not None else []
    return [f"{match['stem']} {x}".strip() for x in names] if match is not None and len(names) == count else []


def _names_with_units(header: str, count: int) -> list[str]:
    """Return the names in the name of a column of cells with spaces between their values, `fwd (ms) bwd (ms) ratio`.

    [] if it has another number of names, or no units: a name may be of several words.
    """
    names = _WITH_UNIT.findall(header)
    return names if len(names) == count and sum(bool(split_unit(name)[1]) for name in names) > 1 else []


def with_fields(form: Template, names: Collection[str], dropped: str) -> str:
    """Return the template string of a form in which all other fields have the name of a dropped field."""
    return form.with_fields(f"{{{f.name if f.name in names else dropped}:{f.spec}}}" for f in form.fields)
