"""Lines that hold one object: JSON, or the repr of a Python dict, perhaps after a prefix: `DLLL {"step": [0, 1], ...}`.

The shape of a line is the bytes between its values; each value is a field. A number that the entry does
not name is stored under its path (`metadata.samples_count`), a list of numbers as one field of its items. No two Lines
with different keys read the same line: a string ends at its quote, and a dropped value is one number, word or string.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress, product
from typing import NamedTuple

from msgspec.structs import replace

from perflog.formats import object_shapes
from perflog.formats.durations import is_duration, names_duration
from perflog.formats.families.base import (
    IS_NUMBER,
    FieldNames,
    ShapedFamily,
    column_of_number,
    fits,
    glob,
    look_up,
    spec_of,
    template_of,
)
from perflog.formats.families.name_units import is_statistic, name_and_unit
from perflog.formats.families.step_parts import with_parts
from perflog.formats.model import Line
from perflog.formats.object_shapes import ObjectShape
from perflog.formats.openings import Opening
from perflog.formats.template import (
    DECLARED_DROPPED,
    LIST,
    NUMERIC,
    UNNAMED,
    Template,
    escape,
    fits_64,
    literal,
    unnamed,
)
from perflog.formats.vocabulary import OBJECTS_OF_SETTINGS, PLACES, plain_name
from perflog.lazy_patterns import lazy_pattern
from perflog.tables.schema import TableColumn
from perflog.units import UNITS, Unit, unit_of

MOST_BY_TEMPLATE = 24
"""Greatest number of values of a line that an expression reads: with more it takes longer than to split the line."""

MOST = 500
"""Greatest number of values in a line. A list of numbers counts as one."""

SETTING = ""
"""Name that a setting of an object has before its path gives it another one."""

_DEPTH = 32
_TOKEN = lazy_pattern(
    r"""[ \t]*(?:(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<mark>[][{}(),:])|(?P<bare>[^][{}(),:"'\s]+))"""
)
_CLOSES = {"{": "}", "[": "]", "(": ")"}
_NUMBERS = lazy_pattern(rf"{LIST}(?=[\])])", re.ASCII)
_NULL = ("null", "None")
_BOOLEANS = ("true", "false", "True", "False")
_INTEGER = lazy_pattern(r"[+-]?\d+", re.ASCII)
_INDEX = lazy_pattern(r"\[\d+\]")
_MOST_TIMED = 3  # strings of a line that might be durations
_PLACEHOLDER = 8
"""Greatest length of a string, such as `N/A`, that may be a number in quotes in another line."""


class JsonValue(NamedTuple):
    """A value, text[begin:end]: a string without its quotes, a list without its brackets.

    `kind` is number, word, string or list; a list holds nothing but numbers.
    """

    path: str
    key: str
    kind: str
    begin: int
    end: int


_CARRIERS = lazy_pattern(r"(?i:data|fields|payload|body|record|extra|values|attributes)\.")
"""Names of objects that hold all that is logged: `{"event": "train_step", "data": {"step": 5, "loss": 2.5}}`."""


def _plain_names(path: str) -> tuple[str, ...]:
    """Return the names that a path may be, as they are compared: with its unit and without, and in a carrier."""
    paths = [path, *([path[carrier.end() :]] if (carrier := _CARRIERS.match(path)) else [])]
    labels = [(name, name_and_unit(name)) for name in paths]
    return tuple(
        plain_name(each)
        for name, (label, unit) in labels
        for each in ((name, label, f"{label} {unit}") if unit else (name,))
    )


def last_key(path: str) -> str:
    """Return the last key of a path, without indices."""
    return _INDEX.sub("", path).rpartition(".")[2]


class _NotAnObjectError(Exception):
    """The input is not an object. Never leaves this module."""


class _PlainList(NamedTuple):
    """A list of words and strings, text[begin:end], with the values values[first:last]."""

    begin: int
    end: int
    first: int
    last: int


class _Parser:
    """Parses the object that begins at text[offset].

    Attributes:
        offset: The next character to parse; after `value` the end of the object.
        values: All values of the object, in order.
        lists: Its lists that hold nothing but words and strings.
    """

    def __init__(self, text: str, offset: int, wants_items: Callable[[str], bool]) -> None:
        self.text, self.offset = text, offset
        self.values: list[JsonValue] = []
        self.lists: list[_PlainList] = []
        self._wants_items = wants_items  # of the list of numbers with this path

    def _token(self) -> re.Match[str]:
        token = _TOKEN.match(self.text, self.offset)
        if token is None:
            raise _NotAnObjectError
        self.offset = token.end()
        return token

    def value(self, path: str, key: str, depth: int = 0) -> None:
        """Parse the value that begins here. Raises _NotAnObjectError."""
        token = self._token()
        if depth > _DEPTH or len(self.values) > MOST:
            raise _NotAnObjectError
        if token["string"]:
            self.values.append(JsonValue(path, key, "string", token.start("string") + 1, token.end() - 1))
        elif token["bare"] and IS_NUMBER.fullmatch(token["bare"]):
            self.values.append(JsonValue(path, key, "number", token.start("bare"), token.end()))
        elif token["bare"] and self.text.startswith("(", token.end()):  # a call: tensor(0.5, device='cuda:0')
            self.offset += 1
            self._inside(path, key, depth, "(", is_call=True)
        elif token["bare"]:
            self.values.append(JsonValue(path, key, "word", token.start("bare"), token.end()))
        elif token["mark"] == "{" or token["mark"] not in _CLOSES:
            self._inside(path, key, depth, token["mark"])
        elif (numbers := _NUMBERS.match(self.text, self.offset)) is not None and not self._wants_items(path):
            self.values.append(JsonValue(path, key, "list", self.offset, numbers.end()))
            self.offset = numbers.end() + 1
        else:
            self._inside(path, key, depth, token["mark"])

    def _inside(self, path: str, key: str, depth: int, mark: str, is_call: bool = False) -> None:
        """Parse the values up to the bracket that closes this one. A comma may follow the last value."""
        if mark not in _CLOSES:
            raise _NotAnObjectError
        begin, first, index, plain = self.offset, len(self.values), 0, mark != "{" and not is_call
        while True:
            item_start = self.offset
            token = self._token()
            if index and token["mark"] == ",":
                item_start = self.offset
                token = self._token()
            elif index and token["mark"] != _CLOSES[mark]:
                raise _NotAnObjectError
            if token["mark"] == _CLOSES[mark]:
                break
            if mark == "{":
                self._member(path, depth, token)
            else:
                named = token["bare"] if token["bare"] and token["bare"].endswith("=") else ""
                self.offset = item_start if not named else self.offset
                item = f"{path}.{named[:-1]}" if named else path if is_call and not index else f"{path}[{index}]"
                self.value(item, key, depth + 1)
            index += 1
            plain = plain and len(self.values) == first + index and self.values[-1].kind in ("string", "word")
        end = self.offset - 1
        if plain and _CLOSES[mark] not in self.text[begin:end]:
            self.lists.append(_PlainList(begin, end, first, len(self.values)))

    def _member(self, path: str, depth: int, token: re.Match[str]) -> None:
        """Parse a member of an object from its key on. Keys of a Python dict may be numbers."""
        name = token["string"][1:-1] if token["string"] else token["bare"]
        if not name or self._token()["mark"] != ":":
            raise _NotAnObjectError
        self.value(f"{path}.{name}" if path else name, name, depth + 1)


def object_values(text: str, offset: int) -> tuple[list[JsonValue], int] | None:
    """Return the values of the object that begins at an offset, and the offset of its end; None if there is none."""
    parser = _Parser(text, offset, bool)  # of each list, but none at the top
    try:
        parser.value("", "")
    except _NotAnObjectError:
        return None
    return parser.values, parser.offset


def flat_values(text: str) -> list[JsonValue] | None:
    """Return the values if the whole string is an object or a list, each list of numbers as one; else None."""
    parser = _Parser(text, 0, ().__contains__)
    try:
        parser.value("", "")
    except _NotAnObjectError:
        return None
    return parser.values if parser.offset == len(text) else None


_UNIT_KEY = lazy_pattern(r"(?:[a-z]+_)?units?")
"""The key of a unit: of the value beside it, or with `time_unit` of the times beside it."""


class _ObjectNames(FieldNames):
    """The names of the fields of one object, and what their printed names declare.

    Attributes:
        units: By field, the unit that is printed in its name or beside it.
        settings: Fields that are settings of the run.
        unit_texts: Paths of strings that name the unit of the numbers beside them.
    """

    def __init__(self, table: str | None, taken: Iterable[str], text: str, values: Sequence[JsonValue]) -> None:
        super().__init__(table, taken)
        self.units: dict[str, Unit] = {}
        self.settings: set[str] = set()
        numbers = [value for value in values if value.kind in ("number", "list")]
        words = {x.path: text[x.begin : x.end] for x in values if x.kind == "string" and _UNIT_KEY.fullmatch(x.key)}
        units = {path: unit for path, word in words.items() if (unit := unit_of(word)[0])}
        self._unit_beside: dict[str, str] = {}
        self.unit_texts: set[str] = set()
        for value in numbers:
            parent = value.path.removesuffix(value.key)
            is_value = value.key in ("value", "values") or is_statistic(value.key)  # not a count
            whats = [f"{word}_" for word in value.key.lower().split("_")] + [""] * is_value
            beside = next(
                (path for what in whats for s in ("", "s") if (path := f"{parent}{what}unit{s}") in units), None
            )
            if beside is not None:
                self._unit_beside[value.path] = units[beside]
                self.unit_texts.add(beside)
        self._uses = Counter(name_and_unit(value.path)[0] for value in numbers)

    def measured(self, path: str) -> tuple[str, str]:
        """Return the path of a number without its unit, and the unit, which may be beside it; "" for none."""
        label, unit = name_and_unit(path)
        return (label if self._uses[label] == 1 else path), unit or self._unit_beside.get(path, "")

    def setting(self, path: str) -> str:
        """Return the name of a field that is a setting."""
        name = self.from_path(path)
        self.paths.setdefault(name, path)
        self.settings.add(name)
        return name


class JsonFamily(ShapedFamily, frozen=True, eq=False, dict=True, kw_only=True):
    """A `[[json]]` entry of a format file.

    Attributes:
        keys: By path or glob, the name of the field; `*` names the field after what `*` in the glob matches.
        when: The paths that a line must have, each with a glob of its value; `a|b` means either of two paths.
        lacks: Paths that a line does not have.
        phases: Globs of the paths of numbers that are times of phases.
        distinguishing: Paths with values that distinguish the entries of the file. Such values are part of the shape.
        quotes: The quotation mark of strings, if only one is accepted: JSON has ", a Python dict mostly '.
        has_plain_names: Whether any program may use the keys: they are compared by letters and digits, without their
            unit. A field takes the first of several keys; a column with a unit takes only keys with a unit.
    """

    keys: Mapping[str, str]
    when: Mapping[str, str]
    distinguishing: frozenset[str]
    quotes: str = ""
    lacks: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    has_plain_names: bool = False

    @cached_property
    def proves_format(self) -> bool:
        conditions = "".join(min(path.split("|"), key=len) + value for path, value in self.when.items())
        return self.shape.proves_format(sum(map(str.isalnum, conditions)))

    @property
    def _required_key(self) -> str:
        """The longest key that a line must have."""
        paths = (path.removesuffix(".*") for path in self.when if "|" not in path)
        return max((last_key(path) for path in paths), key=len, default="")

    @property
    def openings(self) -> Sequence[Opening]:
        return self.shape.openings

    @cached_property
    def required_literal(self) -> bytes:
        return max(self._required_key.encode("utf-8", "surrogateescape"), self.shape.required_literal, key=len)

    @cached_property
    def pattern(self) -> str:
        either = next((path for path in self.when if "|" in path), "")
        heads = "|".join(unnamed(head.pattern) for head in self.shape.heads)
        keys = "|".join(
            escape(last_key(path)) for path in ([self._required_key] if self._required_key else either.split("|"))
        )
        if self.has_plain_names and keys:  # `train/Global Step (n)` is one of them: its words, in any case
            words = sorted({plain_name(path).rpartition("_")[2] for path in either.split("|")})
            return rf"(?:{heads})[ \t]*{self._opening}(?i:.*?[\x22\x27][^\x22\x27]*(?:{'|'.join(words)}))"
        need = rf".*?[\x22\x27](?:{keys})[\x22\x27][ \t]*\x3a" if keys else ""
        return rf"(?:{heads})[ \t]*{self._opening}{need}"

    @property
    def _opening(self) -> str:
        """The pattern of the first character of the value. Only an entry that names the path "" takes other values."""
        return r"[^ \t]" if "" in self.keys else r"\x7b"

    @cached_property
    def _begins(self) -> list[tuple[Template, re.Pattern[bytes]]]:
        return self.shape.head_patterns(after=rf"([ \t]*)(?={self._opening})")

    @cached_property
    def _lists_by_item(self) -> frozenset[str]:
        """The paths of lists with single items that the entry names."""
        paths = [*self.keys, *self.distinguishing, *(path for paths in self.when for path in paths.split("|"))]
        return frozenset(path[: index.start()] for path in paths for index in _INDEX.finditer(path))

    def lines(self, text: str) -> tuple[Line, ...]:
        raw = text.encode("utf-8", "surrogateescape").rstrip(b" \t")
        for head, begin in self._begins:
            start = begin.match(raw) if head.has_literals(raw) else None
            if start is not None:
                front = head.text.rstrip(" \t") + start[1].decode()
                return self._lines_of(raw, head, front, raw[start.end() :].decode("utf-8", "surrogateescape"))
        return ()

    def _lines_of(self, raw: bytes, head: Template, front: str, text: str) -> tuple[Line, ...]:
        """Return the Lines of a string that begins with the object; the last is the Line that reads it.

        A key that names a duration may have a duration in another line, and none in this one. So the Lines of the
        other cases are made too, and come first.
        """
        parser = _Parser(text, 0, self._lists_by_item.__contains__)
        try:
            parser.value("", "")
        except _NotAnObjectError:
            return ()
        tail = text[parser.offset :].encode("utf-8", "surrogateescape")
        if self.quotes and re.match(rf"(?!\{{)|\{{[ \t]*{self.quotes}", text) is None:
            return ()
        if not self._has_all(text, parser.values) or self.shape.end.fullmatch(tail) is None:
            return ()
        parts = object_shapes.split(raw) if self._has_object_shapes else None
        by_object = parts is not None and len(parts[1]) > MOST_BY_TEMPLATE
        may_be_timed = [value for value in parser.values if self._may_be_duration(value)]
        timed = frozenset(value.path for value in may_be_timed if is_duration(text[value.begin : value.end]))
        if by_object:  # a duration is a kind of value
            line = self._line_with(head, front, text, parser, timed, parts)
            return () if line is None or not line.by_object else (with_parts(line),)
        others = [value.path for value in may_be_timed if value.path not in timed]
        choices = product((True, False), repeat=len(others)) if len(others) <= _MOST_TIMED else [(False,) * len(others)]
        cases = [timed.union(compress(others, choice)) for choice in choices]  # the last is the case of this line
        lines = [self._line_with(head, front, text, parser, case) for case in cases]
        if lines[-1] is None or lines[-1].template.match(raw) is None:
            return ()
        return tuple(with_parts(line) for line in lines if line is not None)

    @cached_property
    def _has_object_shapes(self) -> bool:
        """Whether lines can be read by the shape of their object: what surrounds it is fixed, and lists are whole."""
        return not self._lists_by_item and not any(t.fields for t in (*self.shape.heads, self.shape.tail))

    def _line_with(
        self,
        head: Template,
        front: str,
        text: str,
        parser: _Parser,
        timed: Collection[str],
        parts: tuple[object_shapes.Key, Sequence[bytes]] | None = None,
    ) -> Line | None:
        """Return the Line in which the strings at these paths are durations; None if its template would be too long.

        `parts`: the line split into its shape and values, None if it is not read so.
        """
        names = _ObjectNames(self.shape.line.table, [*head.names, *self.shape.tail.names], text, parser.values)
        body, copied, fields = "", 0, []
        for begin, end, field in self._fields(text, parser, names, timed):
            body += literal(text[copied:begin]) + field
            copied = end
            fields.append(field)
        shape = _object_shape(parts, fields) if parts is not None and len(fields) == len(parts[1]) else None
        by_object = shape is not None and len(fields) > MOST_BY_TEMPLATE
        whole = front + body + literal(text[copied : parser.offset]) + self.shape.tail.text
        template = template_of(whole, is_matched=not by_object)
        if template is None:
            return None
        line = self.shape.line_of(template, names.from_keys, names.paths, names.units, names.settings)
        return replace(line, object=shape, by_object=by_object, phases=names.phases_of(template))

    def _may_be_duration(self, value: JsonValue) -> bool:
        """Return whether a value is a string that its key calls a duration. A setting stays a string."""
        if value.kind != "string" or self.shape.line.table in ("runs", None) or value.path in self.distinguishing:
            return False
        return names_duration(value.key) and bool(self._entry(value.path)[1])

    def _has_all(self, text: str, values: Sequence[JsonValue]) -> bool:
        """Return whether the object meets all conditions of `when` and `lacks`."""
        if any(value.path in self.lacks for value in values):
            return False
        printed = {x.path: text[x.begin : x.end] for x in values}
        if self.has_plain_names:
            printed |= {name: text[x.begin : x.end] for x in values for name in _plain_names(x.path)}
        for alternatives, value in self.when.items():
            fits, paths = glob(value), alternatives.split("|")
            inner = tuple(path.removesuffix(".*") + mark for path in paths for mark in ".["[: 1 if "*" in path else 2])
            if not any(path in printed and fits(printed[path]) for path in paths) and not (
                value == "*" and any(x.path.startswith(inner) for x in values)
            ):
                return False
        return True

    def _fields(
        self, text: str, parser: _Parser, names: _ObjectNames, timed: Collection[str]
    ) -> Iterator[tuple[int, int, str]]:
        """Yield begin, end and template string of each value. A list of strings that is not named counts as one value.

        `timed`: the paths of strings that are durations.
        """
        k = 0  # values before this one are done
        end_of_text = _PlainList(len(text), 0, len(parser.values), 0)
        for begin, end, first, last in [*parser.lists, end_of_text]:
            for value in parser.values[k:first]:
                yield value.begin, value.end, self._field(text, value, names, value.path in timed)
            k = max(k, first)
            if end and not any(self._is_declared(value) for value in parser.values[first:last]):
                quote = text[begin] if text[begin] in "\"'" else ""  # a list of numbers is another shape
                yield begin + len(quote), end, f"{{{self._dropped(parser.values[first])}:{text[end]}c}}"
                k = last

    def _is_declared(self, value: JsonValue) -> bool:
        """Return whether the entry names the value's path, not only a glob that fits it."""
        entry = look_up(self.keys, value.path)
        return value.path in self.distinguishing or (entry is not None and "*" not in entry[0])

    def _dropped(self, value: JsonValue) -> str:
        return self.shape.dropped_field(value.path)

    def _field(self, text: str, value: JsonValue, names: _ObjectNames, is_timed: bool) -> str:
        """Return the template string of a value: a field, or the value itself where it is part of the shape.

        A number that is not declared is a field too. All else that is not declared, or that its column cannot hold, is
        dropped.
        """
        printed = text[value.begin : value.end]
        quote = text[value.end] if value.kind == "string" else ""
        if value.path in self.distinguishing or value.path in names.unit_texts:
            return literal(printed)
        pattern, name = self._entry(value.path, names)
        if pattern and value.kind == "word" and printed in _NULL:
            return printed
        if name == "*" and self._is_setting(value, printed):
            spec = self._spec(SETTING, value.kind, printed, quote, named=True)
            return f"{{{names.setting(value.path)}:{spec}}}"
        spec = self._spec(name, value.kind, printed, quote, bool(pattern)) if name else None
        spec = "h" if is_timed else spec
        if spec is None:
            return f"{{{self._dropped(value)}:{_spec_of_dropped(value.kind, printed, quote)}}}"
        field = self._name(name, value, pattern, names, spec)
        if name == "*" and any(glob(path)(value.path) for path in self.phases):
            names.phases.add(field)
        return f"{{{field}:{spec}}}"

    def _is_setting(self, value: JsonValue, printed: str) -> bool:
        """Return whether a value that is not declared is a setting: a boolean, or a member of an object of settings."""
        table = self.shape.line.table
        if value.kind == "word":
            return printed in _BOOLEANS and table is not None
        parent, member, _ = value.path.partition(".")
        return bool(member) and plain_name(parent) in OBJECTS_OF_SETTINGS and table not in (None, "runs")

    @cached_property
    def _fields_by_plain_name(self) -> Mapping[str, str]:
        return {plain_name(path): name for path, name in self.keys.items() if "*" not in path}

    def _entry(self, path: str, names: _ObjectNames | None = None) -> tuple[str, str]:
        """Return the path or glob that names a value, and the name; ("", "*") without one, ("", "") if it is dropped.

        Of a glob and a reason to drop the value, the longer one counts. `names`: the names that are taken.
        """
        keys = self.keys
        if self.has_plain_names:
            found = next((name for name in _plain_names(path) if name in self._fields_by_plain_name), None)
            if found is not None and self._takes(self._fields_by_plain_name[found], path, names):
                return found, self._fields_by_plain_name[found]
            keys = self._globs
        entry, dropped = look_up(keys, path), look_up(self.shape.dropped, path)
        if dropped and (entry is None or ("*" in entry[0] and len(dropped[0]) > len(entry[0]))):
            return "", ""
        return entry or ("", "*")

    @cached_property
    def _globs(self) -> Mapping[str, str]:
        return {path: name for path, name in self.keys.items() if "*" in path}

    def _takes(self, field: str, path: str, names: _ObjectNames | None) -> bool:
        """Return whether a field takes the number with a path: no other has it yet, and the unit in its name fits."""
        unit, declared = UNITS.get(name_and_unit(path)[1]), self.shape.units.get(field)
        return fits(self._column(field), unit, declared) and not (names is not None and names.is_taken(field))

    def _column(self, name: str) -> TableColumn | None:
        """Return the column that a field fills; None for a setting and for a field without a column."""
        line = self.shape.line
        return None if name in line.run or name == SETTING else column_of_number(line.table, name)

    def _name(self, name: str, value: JsonValue, pattern: str, names: _ObjectNames, spec: str) -> str:
        """Return the name of the field of a value: as declared, or made from what `pattern` leaves open of its path.

        Numbers that are not declared are named without their unit.
        """
        is_number = spec == "l" or spec[-1] in NUMERIC
        label, unit = value.path, ""
        if is_number and self.shape.line.table != "runs" and (name == "*" or self.has_plain_names):
            label, unit = names.measured(value.path)
        if name != "*":
            free = names.declared(name)
            if value.kind == "list":
                names.paths[free] = "" if name == "value" else free
        else:
            free = self._free_name(value, label, pattern, names)
        if unit:
            names.units[free] = UNITS[unit]
        return free

    def _free_name(self, value: JsonValue, label: str, pattern: str, names: _ObjectNames) -> str:
        """Return the name of a field that is not declared. `label`: its path without its unit."""
        is_one_key = value.path[len(pattern.partition("*")[0]) :] == value.key
        label = label[len(pattern.partition("*")[0]) :]
        if pattern and is_one_key and self.shape.number_rows:
            return names.from_key(label)
        return names.from_path(label)

    def _spec(self, name: str, kind: str, printed: str, quote: str, named: bool) -> str | None:
        """Return the spec that reads a value; None if the value is dropped. A number in quotes is a number.

        `named`: the entry names the value, if only by a glob.
        """
        line = self.shape.line
        is_setting = line.table == "runs" or name in line.run or name == SETTING
        col = self._column(name)
        is_text_column = col is not None and col.type in ("word", "text")
        if kind == "list":
            is_rows = line.table is not None and name not in PLACES
            return "l" if is_rows and (col is None or name == "value") else None
        if IS_NUMBER.fullmatch(printed) and not (is_text_column and quote):
            return self._number_spec(name, printed, is_setting or (col is not None and col.type != "float64"))
        if name == "*":  # a string that only a glob names is a setting, or a string of table `values`
            is_kept = named and kind == "string" and line.table in ("runs", "values")
            return f"{quote}n" if is_kept else None
        if name in PLACES:
            return None
        if not (is_text_column or is_setting or (col is None and self.shape.text_rows)):
            return None
        if kind == "word":
            return "j"
        return f"{quote}c" if is_text_column else f"{quote}n"

    def _number_spec(self, name: str, printed: str, takes_integers: bool) -> str | None:
        """Return the spec that reads a number; None if the number is dropped."""
        needs_integer = name in PLACES
        if (needs_integer or takes_integers) and _INTEGER.fullmatch(printed) and fits_64(printed):
            return "d"
        if needs_integer or (name == "*" and self.shape.line.table is None):
            return None
        return "r" if repr(float(printed.replace(",", ""))) == printed else spec_of(printed)


def _object_shape(parts: tuple[object_shapes.Key, Sequence[bytes]], fields: Sequence[str]) -> ObjectShape:
    """Return the shape of a line, split into its shape and values. `fields`: the template string of each value."""
    key, values = parts
    fixed, read, dropped = [], [], []
    for index, (field, value) in enumerate(zip(fields, values, strict=True)):
        if not field.startswith("{"):
            fixed += [(index, value)] if value not in (b"null", b"None") else []
        elif not field.startswith((f"{{{UNNAMED}:", f"{{{DECLARED_DROPPED}:")):
            read.append(index)
        elif field[-2] not in NUMERIC:
            dropped.append(index)
    return ObjectShape(key, tuple(fixed), tuple(read), tuple(dropped))


def _spec_of_dropped(kind: str, printed: str, quote: str) -> str:
    """Return the spec of a value that is dropped: it reads nothing that another line of the same keys could store."""
    if kind == "number":
        return "r"
    if kind == "string":
        return f"{quote}{'c' if IS_NUMBER.fullmatch(printed) or len(printed) > _PLACEHOLDER else 'n'}"
    return "l" if kind == "list" else "j"
