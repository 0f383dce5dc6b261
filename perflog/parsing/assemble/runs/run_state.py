"""The state of each run while its log is read: its settings, the count of its lines, and its printout.

In: what the lines of a run say. Out: the row of table `runs`, and the counts that become rows of table `lines`.
The state stays small, however long the run is.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import asdict

from perflog.arrays import Ints
from perflog.formats.families.header_facts import facts_of
from perflog.formats.model import Format, Line
from perflog.formats.registry import COMMON
from perflog.formats.vocabulary import field_name
from perflog.parsing.assemble.column_values import computed
from perflog.parsing.match.records import Records
from perflog.tables.arrow import mask_of, text_array
from perflog.tables.row_order import PART_BITS
from perflog.tables.schema import TABLES

SHAPES = 500
"""Shapes of unread lines that are counted one by one in a run; all others are counted together."""

OTHER_SHAPES = "(lines of other shapes)"
_NULL = frozenset(("null", "None"))  # words that are no value
_FEW = 64  # values that Python compares faster than Arrow
_FIELD_BITS = 6  # the order of a field in its line, below the position of the line
_FIRST_OF_NUMBERS = "iInN"  # letters with which a number may begin: inf, nan
_RUN_COLUMNS = {c.name: c.type for c in TABLES["runs"] if c.by_field}

Rows = Sequence[int]
"""Indices of records, ascending."""

_POSITION = itemgetter(0)
_field_name = lru_cache(1 << 12)(field_name)


class PrintedSetting(NamedTuple):
    """The values that some records of a line print for a key; `rows` are their indices among the line's records.

    `values` has a value for each row, or a single one that all rows have. `field` is the field that holds the values,
    `order` its index in the line.
    """

    key: str
    values: list[Any]
    rows: Rows
    field: str
    order: int

    def numbers_and_texts(self) -> tuple[PrintedSetting | None, PrintedSetting | None]:
        """Return the setting with its numbers only, and with its other values only; None without any."""
        if len(self.values) == 1:  # the common case
            return (self, None) if isinstance(self.values[0], int | float) else (None, self)
        are_numbers = [isinstance(value, int | float) for value in self.values]
        if False not in are_numbers:
            return self, None
        if True not in are_numbers:
            return None, self
        return self._where(are_numbers), self._where([not is_number for is_number in are_numbers])

    def _where(self, wanted: Sequence[bool]) -> PrintedSetting:
        return self._replace(values=list(compress(self.values, wanted)), rows=list(compress(self.rows, wanted)))


def printed_settings(line: Line, records: Records, low: int, high: int) -> Iterator[PrintedSetting]:
    """Yield the settings that the records `low:high` of a line print."""
    names = line.template.names if line.table == "runs" else line.run
    rows = range(low, high)
    lists = {f.name for f in line.template.fields if f.type == "l"}
    words = {f.name for f in line.template.fields if f.type == "j"}
    under_keys: dict[str, list[int]] | None = None
    if "key" in names and line.table == "runs":  # the record prints a name: of its value, or of all its numbers
        under_keys = {}
        for row, key in enumerate(_values(records.columns["key"][low:high])):
            under_keys.setdefault(_field_name(key), []).append(row)
        names = tuple(n for n in names if n not in ("key", "value")) + ("value",) * line.prints_its_key
    for order, name in enumerate(names):
        if name == "rank" or name.startswith("_"):
            continue
        own_key = line.key_of(name)
        column = records.columns[name][low:high]
        if under_keys is None or not (name == "value" or (name in line.paths and not line.prints_its_key)):
            values = _distinct(column)
            if name in words and not _NULL.isdisjoint(values):
                known = [(value, row) for value, row in zip(_values(column), rows, strict=True) if value not in _NULL]
                if known:
                    yield PrintedSetting(own_key, [x for x, _ in known], [row for _, row in known], name, order)
                continue
            if _is_version(own_key):
                values = [_as_printed(line, name, value) for value in values]
            yield PrintedSetting(own_key, [_list(x) for x in values] if name in lists else values, rows, name, order)
            continue
        convert = _list if name in lists else _parsed if name == "value" else None
        texts = _values(column)
        values = texts if convert is None else [convert(value) for value in texts]
        inner = "" if name == "value" else own_key if own_key.startswith("[") else f".{own_key}"
        for key, picked in under_keys.items():
            key_values = [(texts if _is_version(key) else values)[row] for row in picked]
            yield PrintedSetting(
                f"{key}{inner}", key_values, [low + row for row in picked], name, 0 if name == "value" else order
            )


class RunSettings:
    """Settings of a run, by key: every value that the log prints for a key, with the first position of each."""

    def __init__(self) -> None:
        self._values: dict[str, dict[Any, dict[str, int]]] = {}  # key -> value -> name of the line -> position

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def add(self, key: str, value: object, line: str, position: int) -> None:
        """Add a value of a key that a line prints. Different values of one key are all kept."""
        positions = self._values.setdefault(key, {}).setdefault(value, {})
        positions[line] = min(positions.get(line, position), position)

    def add_setting(self, setting: PrintedSetting, line: Line, records: Records) -> None:
        """Add a setting that records of a line print."""
        if len(setting.values) == 1:  # the common case
            self.add(setting.key, setting.values[0], line.name, _position_of(setting, records, setting.rows[0]))
            return
        first: dict[Any, int] = {}
        for value, row in zip(setting.values, setting.rows, strict=False):
            first.setdefault(value, row)
        for value, row in first.items():
            self.add(setting.key, value, line.name, _position_of(setting, records, row))

    def add_records(self, line: Line, records: Records, low: int, high: int) -> None:
        """Add the settings that the records `low:high` of a line print."""
        for setting in printed_settings(line, records, low, high):
            self.add_setting(setting, line, records)
        if line.table == "runs":
            self.add_derived(line, records, low, high)

    def add_derived(self, line: Line, records: Records, low: int, high: int) -> None:
        """Add the settings that a settings line has without printing them: constants, and what it computes."""
        position = int(records.positions[low]) << _FIELD_BITS
        for name, value in line.set.items():
            self.add(name, value, line.name, position)
        for name in _RUN_COLUMNS.keys() & line.compute:
            columns = {key: column[low:high] for key, column in records.columns.items()}
            greatest = computed(line, name, columns, high - low).max().item()
            known = self._values.get(name, {})
            first = min([position, *(each for positions in known.values() for each in positions.values())])
            self._values[name] = {max([greatest, *known]): {line.name: first}}

    def remove(self, key: str, line: str, are_texts: bool) -> None:
        """Remove the numbers, or the strings, that a line printed under a key: they have turned out to be a series."""
        values = self._values.get(key, {})
        for value in [value for value in values if isinstance(value, str if are_texts else int | float)]:
            values[value].pop(line, None)
            if not values[value]:
                del values[value]
        if not values:
            self._values.pop(key, None)

    def add_missing(self, other: RunSettings, most: int | None = None) -> None:
        """Add the keys of other settings that these lack. `most`: only those with at most so many values."""
        for key, values in other._values.items():
            if most is None or len(values) <= most:
                self._values.setdefault(key, {value: dict(positions) for value, positions in values.items()})

    def add_facts(self, records: Records, name: str, low: int, high: int) -> None:
        """Add the facts of the job in the titles `low:high` of results."""
        positions = records.positions[low:high].tolist()
        for text, position in zip(_values(records.columns[name][low:high]), positions, strict=True):
            for order, fact in enumerate(facts_of(text)):
                self.add(fact.name, fact.value, name, (position << _FIELD_BITS) + order)

    def single(self, key: str) -> Any:
        """Return the value of a key that has exactly one value, else None."""
        values = self._values.get(key, {})
        return next(iter(values)) if len(values) == 1 else None

    def numbers_after(self, line: int) -> list[str]:
        """Return the keys with values that are numbers, printed only after a line."""
        end = (line + 1) << PART_BITS << _FIELD_BITS
        return [
            key
            for key, by_value in self._values.items()
            if all(isinstance(value, int | float) and not isinstance(value, bool) for value in by_value)
            and min(position for positions in by_value.values() for position in positions.values()) >= end
        ]

    def to_json(self) -> str:
        """Return all settings as JSON, in the order of the log; a key with several values has a list."""
        settings: list[tuple[int, str, Any]] = []  # by key: its first position, and its value or values
        for key, by_value in self._values.items():
            values = [(min(positions.values()), _json_value(value)) for value, positions in by_value.items()]
            if len(values) == 1:  # the common case
                settings.append((values[0][0], key, values[0][1]))
            else:
                values.sort(key=_POSITION)
                settings.append((values[0][0], key, [value for _, value in values]))
        settings.sort(key=_POSITION)
        return json.dumps({key: value for _, key, value in settings}, ensure_ascii=False)


class ShapeCount(Struct):
    """Number of lines of one shape in a run, with the number and the content of the first of them.

    The number of lines is 0 if each of them also has a part that counts for another shape. `stored`, `dropped` and
    `unread` are numbers of figures.
    """

    count: int
    first_line: int
    sample: str = ""
    stored: int = 0
    dropped: int = 0
    unread: int = 0
    dropped_because: str | None = None


NewShapes = list[tuple[ShapeCount, int]]
"""The counts of new shapes, each with the position of its first line: they need it as a sample."""


class ClockTotal(Struct, frozen=True):
    """The last reading of a run's clock.

    Attributes:
        elapsed_s: Seconds since it started.
        elapsed_from: The line at which it started; None if it counts from 0.
        elapsed_line: The line of the reading.
    """

    elapsed_s: float
    elapsed_from: int | None
    elapsed_line: int


_GENERIC = 2  # after the formats of programs, 0, and of libraries, 1


class RunState(Struct):
    """A run while it is read. Its records have this position or later ones."""

    index: int  # the run's number, from 1, among all runs of the logs that are read together
    position: int
    first_line: int
    last_line: int
    process: int | None = None  # number of the process start that the run belongs to, from 1
    process_format: str | None = None  # the format that printed that start
    settings: RunSettings = field(default_factory=RunSettings)
    assumed: RunSettings = field(default_factory=RunSettings)  # they count only where `settings` lacks them
    titled: RunSettings = field(default_factory=RunSettings)  # facts in titles; those that differ are of cases
    printouts: list[str] = field(default_factory=list)
    shapes: dict[tuple[str, str], ShapeCount] = field(default_factory=dict)  # by status and shape
    record_lines: Counter[str] = field(default_factory=Counter)  # lines that each format reads
    row_lines: Counter[str] = field(default_factory=Counter)  # lines that give rows
    step_lines: Counter[str] = field(default_factory=Counter)  # lines that give steps
    follows: dict[str, int] = field(default_factory=dict)  # by format: 0 a program's, 1 a library's, 2 of any program
    clock: ClockTotal | None = None
    first_stamps: dict[int, tuple[int, int]] = field(default_factory=dict)  # position and time of a stamp, by its clock
    last_stamps: dict[int, tuple[int, int]] = field(default_factory=dict)
    is_stamped: bool = False  # whether some of its step lines or milestones have stamps
    heading: str | None = None  # the words above it, where only they divide the log into runs
    log: int = 0  # position of the run's log among the logs that are read together

    def shape(self, status: str, shape: str, position: int, new: NewShapes) -> ShapeCount:
        """Return the count of a shape. Its first line is at `position` if the shape is new: it is added to `new`."""
        known = self.shapes.get((status, shape))
        if known is None:
            known = self.shapes[status, shape] = ShapeCount(0, position >> PART_BITS)
            new.append((known, position))
        return known

    def count_records(self, form: Format, line: Line, count: int) -> None:
        """Count lines that a format reads as records."""
        self.record_lines[form.name] += count
        if line.gives_rows:
            self.row_lines[form.name] += count
        self.follows[form.name] = _GENERIC if form.generic else int(form.library)
        if line.table == "steps":
            self.step_lines[form.name] += count

    def label(self, template: str | None) -> str | None:
        """Return the printed name of the run, if the log prints every setting that the format's label needs."""
        if template is None:
            return None
        names = re.findall(r"\{(\w+)\}", template)
        values = {n: self.settings.single(n) for n in names}
        return template.format(**values) if all(v is not None for v in values.values()) else None

    @property
    def format(self) -> str | None:
        """The format of most step lines, because metrics are about steps; without steps, of most lines with rows.

        Settings count only where no line gives rows, or a generic format alone gives some. Formats of programs come
        before formats of libraries, generic ones last. Ties go to the format that reads more lines, then to the first
        by name.
        """
        counts = self.step_lines or self.row_lines or self.record_lines
        if not self.step_lines and all(self.follows[n] == _GENERIC for n in counts):
            programs = {n: count for n, count in self.record_lines.items() if self.follows[n] == 0 and n != COMMON}
            counts = Counter(programs) or counts
        return min(counts, key=lambda n: (self.follows[n], -counts[n], -self.record_lines[n], n), default=None)

    @property
    def joined_formats(self) -> str | None:
        """The other formats that read lines of the run, those with most lines first; None if there are none."""
        others = [n for n in self.record_lines if n not in (self.format, COMMON)]
        return ", ".join(sorted(others, key=lambda n: (-self.record_lines[n], n))) or None

    @property
    def world_size(self) -> int | None:
        """The printed number of ranks, if the log prints one and no other."""
        size = self.settings.single("world_size")
        return size if isinstance(size, int) and size > 0 else None

    @property
    def own_process(self) -> int | None:
        """Number of the process start that the run belongs to, if the run's own format printed it."""
        return self.process if self.process_format == self.format else None

    def row(self, formats: Mapping[str, Format]) -> dict[str, Any]:
        """Return the row of table `runs`, without the columns that name the log."""
        name = self.format
        printed = {k: _run_value(self.settings.single(k), _RUN_COLUMNS[k]) for k in self.settings if k in _RUN_COLUMNS}
        return printed | {
            "world_size": self.world_size,
            "format": name,
            "joined_formats": self.joined_formats,
            "index": self.index,
            "label": (self.label(formats[name].label) if name else None) or self.heading,
            "first_line": self.first_line,
            "last_line": self.last_line,
            "process": self.own_process,
            "config": self.settings.to_json(),
            "outcomes": self._outcomes(),
            "printout": "\n".join(self.printouts) or None,
            **(asdict(self.clock) if self.clock else {}),
        }

    def _outcomes(self) -> str | None:
        """The names of the numbers that are known only when the run's clock has stopped, as JSON."""
        late = self.settings.numbers_after(self.clock.elapsed_line) if self.clock else []
        names = [key for key in late if key not in _RUN_COLUMNS]
        return json.dumps(names, ensure_ascii=False) if names else None


class RunIndex:
    """Finds the run of each position, among runs that follow one another in the log."""

    def __init__(self, runs: Sequence[RunState]) -> None:
        self.runs = runs
        self.starts: Ints = np.array([run.position for run in runs], np.int64)

    def indices_at(self, positions: Ints) -> Ints:
        """Return the index in `runs` of the run at each position."""
        return np.searchsorted(self.starts, positions, "right") - 1

    def split(self, positions: Ints) -> Iterator[tuple[RunState, int, int]]:
        """Yield each run that has some of the ascending positions as (run, low, high): it has `positions[low:high]`."""
        cuts = [0, *np.searchsorted(positions, self.starts[1:]).tolist(), len(positions)]
        for run, low, high in zip(self.runs, cuts, cuts[1:], strict=False):
            if high > low:
                yield run, low, high

    @property
    def first_number(self) -> int:
        """Number in the log of the first of these runs."""
        return self.runs[0].index

    @cached_property
    def numbers(self) -> pa.Array:
        """Numbers of the runs in the log, as strings: what column `run` holds until the log's hash is known."""
        return text_array(str(run.index) for run in self.runs)


def _run_value(value: object, column_type: str) -> Any:
    """Return a setting as a value of a column of table `runs`; null where it does not fit."""
    if column_type.startswith("int"):
        return value if isinstance(value, int) else None
    return None if value is None else str(value)


def _position_of(setting: PrintedSetting, records: Records, row: int) -> int:
    """Return the position of a setting that the record `row` prints, and its order in the line."""
    return (records.positions.item(row) << _FIELD_BITS) + setting.order


def _values(column: Any) -> list[Any]:
    values: list[Any] = column.to_pylist() if isinstance(column, pa.Array) else column.tolist()
    return values


def _distinct(column: Any) -> list[Any]:
    """Return the values of a column; a single one if all are the same."""
    if len(column) <= _FEW:  # calls of Arrow take longer
        values = _values(column)
        return values[:1] if all(value == values[0] for value in values) else values
    same = mask_of(pc.equal(column, column[0])) if isinstance(column, pa.Array) else column == column[0]
    return _values(column[:1] if same.all() else column)


def _json_value(value: object) -> Any:
    """Return a setting as JSON can hold it: without nan."""
    if isinstance(value, tuple):
        return [_json_value(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _list(text: str) -> tuple[Any, ...]:
    """Return the items of a list of numbers, given the string between its brackets."""
    items = [item.strip(" \t'\"") for item in text.split(",")]
    return tuple(None if item in ("null", "None") else _parsed(item) for item in items if item)


@lru_cache(1 << 12)
def _is_version(key: str) -> bool:
    """Return whether a setting is a version: 2.10 is not 2.1."""
    return "version" in re.split(r"[^a-z]+", key.lower())


def _as_printed(line: Line, name: str, value: object) -> Any:
    """Return the string of a number that is not whole, as the line prints it; other values as they are."""
    if not isinstance(value, float):
        return value
    return next(field.render(value).strip() for field in line.template.fields if field.name == name)


def _parsed(value: object) -> Any:
    """Return the value of a setting: a number, if its string is one."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if "_" in text or (text[:1].isalpha() and text[0] not in _FIRST_OF_NUMBERS):
        return text  # Python reads 2026_01_16 as a number
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
