"""Finds printed tables by their rows: lines with as many cells as the line above them has names.

Commas, tabs, bars or spaces separate the cells. A header of words and spaces could be a sentence, so each cell of its
rows must be under its own name, unless a counter or units show that they are numbers of these names.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import pairwise, takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from perflog.arrays import Mask
from perflog.formats.durations import measures
from perflog.formats.families.cell_cutting import (
    cells_in_groups,
    cells_of,
    is_rule,
    names_with_second_line,
    with_bar_of,
    without_bar,
    without_marks,
)
from perflog.formats.families.cell_forms import PYTHON_WARNING, REMARK
from perflog.formats.families.header_columns import QUANTITIES, names_percentiles
from perflog.formats.families.missing_values import NO_VALUE
from perflog.formats.families.name_units import name_and_unit
from perflog.formats.figures import figure_spans
from perflog.formats.vocabulary import COUNTERS, SENTENCE_WORDS
from perflog.lazy_patterns import lazy_pattern
from perflog.parsing.match.ordered.joined_names import joined_names
from perflog.tables.arrow import mask_of
from perflog.units import DURATIONS, MAGNITUDES, SIZES, UNITS, base_of, unit_of

FILE_STYLES = ("tab", "csv")
"""Styles of files for programs: no cell is padded."""

LONGEST = 1 << 14
"""Bytes of a header or a row."""

VALUE = (
    r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?i:nan|[+-]?inf(?:inity)?)"
)
"""Pattern of a number as tables print it."""

_NAME = r'"?[A-Za-z_#][^,:={}"\t]*"?'
_HEADER = lazy_pattern(rf"(?:{_NAME})?(?:, ?{_NAME})+|(?:{_NAME})?(?:\t *{_NAME})+")
_STYLES = ("tab", "csv", "groups", "bars", "boxes", "left", "frame", "blanks", "words")  # in the order of trying
_MARKS = ("tab", "csv", "bars", "boxes")
_PARTS = lazy_pattern(r"[^ \t]+(?: [^ \t]+)*")  # what two spaces separate
_SPANS = {"left": _PARTS, "blanks": _PARTS, "words": re.compile(r"[^ \t]+")}
_NUMBERED = r"(?i:gpu|npu|gcd|xcd|device|rank|node|worker|stage) [0-9]{1,4}"  # a name of a column: `GPU 00`
_WORD_OR_CLOCK = (
    rf"[ \t]*(?:{_NUMBERED}|"
    r"[^ \t]*[A-Za-z][^ \t]*|[|#]+|┃|│|║|\(?%\)?|[0-9]{1,2}(?:\.[0-9]+)?%|[0-9]{1,2}:[0-9]{2}:[0-9]{2})"
)
_COUNTED = rf"(?i:[# \t]*(?:{'|'.join(sorted(COUNTERS))}))[ \t]+[^ \t]*[A-Za-z][^ \t]*"  # `step loss`
_INDENTED = r"[ \t]{2}[ \t]*[^ \t]*[A-Za-z].*"
_POSSIBLE = rf"^(?:(?:{_WORD_OR_CLOCK}){{3,}}(?:[ \t]+[0-9]+%.*)?|(?:{_HEADER.pattern})|{_INDENTED}|{_COUNTED})[ \t]*$"
_BOX_RULE = r"[ \t]*(?:├|┡|┣|╞|╠|┝|┠|\|(?:⎺|⎻|⎼|⎽))"
# A row, a rule or a comment.
_POSSIBLE_BELOW = rf"(?i)(?:^|[ \t,|])\"?[+-]?(?:[0-9.]|nan|inf)|^[-=+|: \t]+$|^#|^{_BOX_RULE}"
_SECOND_LINE = r"^[ \t]{2,}[^0-9]*[A-Za-z%)][ \t]*$"  # of a header: its first column has no part there
_CLOCK = lazy_pattern(r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?: [AP]M)?|[AP]M")  # before the names of a header
_BARRED = r"^[ \t]*\|[^\n]*\|[ \t]*$"
_RULE_OF_BARS = r"^[ \t]*\|(?:[ \t]*:?-+:?[ \t]*\|)+[ \t]*$"  # under the header of a Markdown table
_RULE_BETWEEN_BARS = r"^[ \t]*(?::?-+:?[ \t]*\|[ \t]*)+:?-+:?[ \t]*$"  # the same, without bars at both ends
_MOST_NAMES = 3  # lines of names above a rule, where names span several columns
_ROWS = 200  # rows below a header that show what its columns hold
_MOST_HEADERS = 40  # headers that are tried
_HALF = 0.5  # of the cells of a column that are values
_FEW = 2  # columns of a table that could be a sentence with a comma: it needs as many rows
_VALUE = lazy_pattern(VALUE)
_DECIMAL = lazy_pattern(r"[+-]?[0-9]{1,3}(?:,?[0-9]{3})*\.[0-9]+(?: ?[^\d\s.,][^\s\d]*)?")
_OF_PROCESS = lazy_pattern(_NUMBERED)
_NO_CELL = lazy_pattern(r".*[:=]|[^\w#-]")  # a name with its mark, a mark alone
_NAMED_VALUE = lazy_pattern(r"[A-Za-z)] ?[:=] ?[+-]?[0-9.]+(?![0-9:.])")  # `images/sec: 127.9` names its own figure
VALUE_AND_UNIT = lazy_pattern(rf"(?P<value>{VALUE})(?P<unit> ?[^\d\s.,:/-][^\s\d]*)?")
_INNER_VALUE = lazy_pattern(rf"(?<![\w.])(?:{VALUE})")
_WORDS = lazy_pattern(r"[A-Za-zµμ%]+(?:/[A-Za-z]+)?")
_AROUND = lazy_pattern(r"[^:=,;_{}]*(?:\{\}[^:=,;_{}]*)+")
_NAMED_VALUES = lazy_pattern(r"[A-Za-z][\w/]* ?[:=] ?\{\}(?:[ ,;(]+(?:[A-Za-z][\w/]* ?[:=]|±|\+/?-) ?\{\}[)]?)*")
_LISTED = lazy_pattern(r"\{\} ?[A-Za-zµμ%]+(?:/[A-Za-z]+)?(?:, \{\} ?[A-Za-zµμ%]+(?:/[A-Za-z]+)?){1,3}")
_BETWEEN_SIZES = lazy_pattern(r"\{\} ?[x×*] ?\{\}")
_REMARK = lazy_pattern(  # without figures, but those of a condition: `2459 (VPP=4)`, `3.8% (n=49)`
    r"(?<=\S)[ \t]+\((?:(?=[^()]*[A-Za-z])[^()0-9]*|[A-Za-z]\w*=[0-9.]+)\)$"
)
_AGAIN = lazy_pattern(r"(?<=\S)[ \t]+\((?P<again>[0-9][^()]*)\)$")  # a value in another unit: `90.5s (1.51m)`
_NAME_WITH_SIZE = lazy_pattern(r"[0-9.]+[A-Za-z]+, ?[A-Za-z]")
_ROUNDED = 0.01  # two printed values of one quantity differ by less
_OF_RATE = lazy_pattern(r"(?:/|per)[ _]?s(?:ec(?:ond)?)?\b", re.IGNORECASE)
_MOST_VALUES = 4  # of a cell
_OF_ANY_QUANTITY = frozenset(("value", "result", "metric value"))  # names of a column with a quantity in each row
_OF_ONE_SIZE = frozenset(f"r{unit}" for unit in ("KB", "MB", "GB"))
_GLUED = MAGNITUDES - {"B"} | set("cx×")  # after a number, beside units


def printed_tables(texts: pa.Array, with_ruled: bool = False) -> Iterator[tuple[int, PrintedTable]]:
    """Yield the tables among the lines of a log, and the index of each header.

    Args:
        texts: The lines in order, as binary; a line may be cut off after `LONGEST` bytes.
        with_ruled: Whether the rule of a Markdown table proves its header, whatever its names and cells are.
    """
    indices = np.flatnonzero(~mask_of(pc.match_substring_regex(texts, PYTHON_WARNING)))
    texts = texts if len(indices) == len(texts) else texts.take(pa.array(indices))
    possible = mask_of(pc.match_substring_regex(texts, _POSSIBLE))
    followed = mask_of(pc.match_substring_regex(texts, _POSSIBLE_BELOW))
    followed[:-1] |= followed[1:] & mask_of(pc.match_substring_regex(texts, _SECOND_LINE))[:-1]
    ruled = np.zeros(len(texts), np.bool_)
    if with_ruled:
        ruled[:-1] = mask_of(pc.match_substring_regex(texts, _RULE_OF_BARS))[1:]
        ruled &= mask_of(pc.match_substring_regex(texts, _BARRED))
        below_bar = mask_of(pc.match_substring_regex(texts, _RULE_BETWEEN_BARS))
        ruled[:-1] |= below_bar[1:] & mask_of(pc.match_substring_regex(texts, r"^[ \t]*\|"))[:-1]
        ruled |= _grouped(texts)
    end = 0
    for header in np.flatnonzero((possible[:-1] & followed[1:]) | ruled[:-1])[:_MOST_HEADERS].tolist():
        if header < end:
            continue
        lines = [x.decode("utf-8", "replace").rstrip() for x in texts.slice(header, _ROWS + 1).to_pylist()]
        tables = (PrintedTable.of(lines, style) for style in _STYLES)
        table = next((t for t in tables if t is not None and t.names_columns()), None)
        if ruled[header] and (table is None or table.style != "groups"):
            table = PrintedTable.from_markdown(lines) or table
        if table is not None:
            end = header + len(table.block) + len(table.rows) - 1
            yield int(indices[header]), table


def _grouped(texts: pa.Array) -> Mask:
    """Return which lines are the first of several lines of names above a rule, with names that span columns."""
    first = np.zeros(len(texts), np.bool_)
    rules = mask_of(pc.match_substring_regex(texts, f"{_RULE_OF_BARS}|{_RULE_BETWEEN_BARS}"))
    for rule in np.flatnonzero(rules).tolist()[:_MOST_HEADERS]:
        most = min(rule, _MOST_NAMES)
        *above, below = [x.decode("utf-8", "replace") for x in texts.slice(rule - most, most + 1).to_pylist()]
        names = list(takewhile(partial(_are_names, count=len(cells_of(below, "bars"))), reversed(above)))
        if len(names) > 1 and "||" in names[-1]:
            first[rule - len(names)] = True
    return first


def _are_names(text: str, count: int) -> bool:
    """Return whether a line has so many cells between bars, and no number."""
    return "|" in text and not is_rule(text) and len(cells_of(text, "bars")) == count and not figure_spans(text)


class PrintedTable(Struct, frozen=True):
    """A header and the rows under it, cut into cells.

    Attributes:
        style: What separates the cells: a style of a `[[table]]` entry.
        block: The lines from the header to the first row.
        names: The cells of the header.
        lines: The lines of the rows.
        rows: The cells of the rows, as many in each as in the header.
        is_ruled: Whether the rule under its header proves it.
        second_line: The line below the header with which its names go on; "" for none.
        are_joined: Whether the rows show which words of the header are one name: `Msg Size  P2P Lat Lat Reduc`.
    """

    style: str
    block: Sequence[str]
    names: Sequence[str]
    lines: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_ruled: bool = False
    second_line: str = ""
    are_joined: bool = False

    @classmethod
    def from_markdown(cls, lines: Sequence[str]) -> PrintedTable | None:
        """Return the table that begins with a header and a rule of bars; None if none of its columns holds values."""
        names = cells_of(lines[0], "bars")
        rule = next((k for k, line in enumerate(lines[: _MOST_NAMES + 1]) if is_rule(line)), 0)
        if not rule or len(names) < _FEW or len(_cells_below(names, lines[rule])) != len(names) or not any(names):
            return None
        below = takewhile(lambda line: "|" in line and len(_cells_below(names, line)) == len(names), lines[rule + 1 :])
        rows = {line: _cells_below(names, line) for line in below if not is_rule(line)}
        columns = [[cell for cell in cells if cell not in NO_VALUE] for cells in zip(*rows.values(), strict=True)]
        bare = (list(map(_without_remark, cells)) for cells in columns if cells)
        shares = (sum(map(bool, map(value_and_unit, cells))) / len(cells) for cells in bare)
        return (
            cls("bars", lines[: rule + 2], names, [*rows], [*rows.values()], True)
            if max(shares, default=0) > _HALF
            or any(map(_shape_of_cells, filter(None, columns)))
            or any(map(_are_durations, names, columns))
            or _are_metrics(names, [*rows.values()])
            else None
        )

    @classmethod
    def of(cls, lines: Sequence[str], style: str) -> PrintedTable | None:
        """Return the table that begins with the first of these lines; None if no rows of values follow."""
        if style == "groups":
            bare, cut = list(lines), cells_in_groups(lines[0])
        else:
            bare = [without_marks(line, style) for line in lines]
            cut = _cells_at(bare[0]) if style == "left" else partial(cells_of, style=style)
        names: Sequence[str] = cut(bare[0])
        if not names or (style == "tab" and any(name.startswith("|") for name in names)):
            return None
        rows: dict[int, list[str]] = {}
        following = ""
        names, second = _with_second_line(names, bare, style)
        joined = joined_names(bare) if style == "words" else []
        names = joined or names
        for number, text in enumerate(lines[1:], 1):
            if number == 1 and second:
                continue
            if is_rule(text) or (text[:1] == "#" == lines[0][:1]):
                continue
            cells = with_bar_of(names, cut(bare[number]), text) if style == "bars" else cut(bare[number])
            if len(cells) == len(names) + 1 and _without_remark(last := "  ".join(cells[-2:])) != last:
                cells[-2:] = [last]
            has_value = any(map(value_and_unit, cells))
            own_cells = cells[1:-1] if names[-1].endswith("...") else cells  # `UserCounters...` above pairs
            names_itself = style != "tab" and any(map(_NAMED_VALUE.search, own_cells))
            if len(cells) != len(names) or not has_value or names_itself:
                following = text
                break
            rows[number] = cells
        has_rows = len(rows) >= (_FEW if len(names) <= _FEW else 1)
        words = following.split()
        is_cut_off = sum(_VALUE.fullmatch(x) is not None for x in words) * 2 > len(words)  # a row of other cells
        if not has_rows or (is_cut_off and style not in _MARKS):
            return None
        rows_of_table = [lines[number] for number in rows]
        block, cells_of_rows = lines[: min(rows) + 1], [*rows.values()]
        return cls(style, block, names, rows_of_table, cells_of_rows, second_line=second, are_joined=bool(joined))

    @property
    def is_proved(self) -> bool:
        """Whether its names may be any strings, also of another column: by its rule, or as a file for programs."""
        return self.is_ruled or (self.style in FILE_STYLES and len(self.names) > _FEW < len(self.rows))

    def columns(self) -> dict[str, list[str]]:
        """Return the cells of each column by its name, without prefixes: what the header and each row begin with.

        A name that two columns share, or that is cut off, names neither.
        """
        columns = [(name, [row[k] for row in self.rows]) for k, name in enumerate(self.names)]
        is_prefix = [set(cells) == {name} or (_CLOCK.fullmatch(name) is not None) for name, cells in columns]
        first = is_prefix.index(False) if False in is_prefix else len(columns)
        clear = {name for name in self.names if self.names.count(name) == 1 and not name.endswith(("...", "…"))}
        return {name: cells for name, cells in columns[first:] if name in clear}

    def names_columns(self) -> bool:
        """Whether the first line can only be a header: each column has its own name, and each cell is under it."""
        columns = self.columns()
        names = list(columns)
        if self.style in FILE_STYLES:
            return bool(names) and _HEADER.fullmatch(self.block[0]) is not None
        mark = ":" if self.style != "words" and len(self.rows) >= _FEW else ""  # `Loaded: 0.5 seconds` names its figure
        cells = [cell.removesuffix(mark) for column in columns.values() for cell in column]
        if any(map(_NO_CELL.fullmatch, (*names, *cells))):
            return False
        if self.style not in _MARKS and any(cell.startswith("| ") for cell in cells):
            return False  # a frame around several lines of each row
        if self._is_matrix():
            return True
        are_names = names_percentiles(names) or all(
            re.search("[A-Za-z]", x) and (not figure_spans(x) or _OF_PROCESS.fullmatch(x))
            for x in names
            if x not in ("", "#")
        )
        words = [] if self.style == "boxes" else [word for name in names for word in name.lower().split()]
        if len(names) < _FEW or not are_names or not SENTENCE_WORDS.isdisjoint(words):
            return False
        if self.style == "frame":
            return self._is_frame()
        if len(names) == _FEW and not self._is_ruled():
            return len(self.rows) > _FEW and self._counts_up() and self._holds_numbers()
        if self.style == "groups":
            return all(cell in NO_VALUE or value_and_unit(cell) for row in self.rows for cell in row[1:])
        if self.style in ("bars", "boxes", "left") or self.are_joined:
            return True
        is_aligned = "\t" not in self.block[0] and all(map(self._is_aligned, self.lines))
        return is_aligned or ((self._counts_up() or self._names_units()) and self._holds_numbers())

    def _is_matrix(self) -> bool:
        """Whether the rows have the names of the columns, each in its turn: the bandwidth from each GPU to each."""
        labels = [row[0] for row in self.rows]
        cells = (cell for row in self.rows for cell in row[1:])
        is_square = len(labels) > 1 and labels == list(self.names[1:])
        return is_square and all(cell in NO_VALUE or value_and_unit(cell) for cell in cells)

    def _names_units(self) -> bool:
        """Whether most names have units, in a table of several rows: `size(B)  time(us)`. No sentence has."""
        named = sum(bool(name_and_unit(name)[1]) for name in self.names)
        return len(self.rows) > 1 and named >= _FEW and 2 * named > len(self.names)

    def _holds_numbers(self) -> bool:
        """Whether each cell is a number."""
        return all(_VALUE.fullmatch(x) for row in self.rows for x in row)

    def unitless(self) -> frozenset[str]:
        """Return the names of the columns of fractions that have no unit. The first column names the cases."""
        names = list(self.columns().items())
        first = next((k for k, (name, _) in enumerate(names) if name), 0)
        known = ((name, [cell for cell in cells if cell not in NO_VALUE]) for name, cells in names[first + 1 :])
        return frozenset(name for name, cells in known if name and _are_fractions(cells) and not name_and_unit(name)[1])

    def cell_types(self) -> dict[str, str]:
        """Return how the cells of columns print numbers with units, as `HeaderTable.cell_types` has it.

        Columns that share a name are typed together, but not as words: one of them may hold plain numbers.
        """
        named: dict[str, list[str]] = {}
        for k, name in enumerate(self.names):
            if not name.endswith(("...", "…")):
                named.setdefault(name, []).extend(row[k] for row in self.rows)
        clear = self.columns()
        types = {}
        for name, cells in named.items():
            kind = self._cell_type(name, [cell for cell in cells if cell not in NO_VALUE])
            if kind and (name in clear or (kind != "s" and "{}" not in kind and self.names.count(name) > 1)):
                types[name] = kind
        if "z" in types.values():  # a column of one size is in the units of the others
            types |= {name: "z" for name, kind in types.items() if kind in _OF_ONE_SIZE}
        return types

    def _cell_type(self, name: str, cells: Sequence[str]) -> str:
        """Return how the cells of a column print their numbers; "" for plain numbers in different ways."""
        may_remark = name == self.names[-1] or self.style in _MARKS
        bare = [_without_remark(cell) for cell in cells] if may_remark else cells
        pairs = list(map(value_and_unit, bare))
        if 2 * pairs.count(None) > len(pairs):
            if self.is_ruled and name == self.names[-1] and _are_metrics(self.names, self.rows):
                units = {pair[1] for pair in pairs if pair}
                return "|".join(f",f{unit}{remark}" for unit in sorted(units) for remark in ("", REMARK))
            return "h|t" if _are_durations(name, cells) else _shape_of_cells(cells) or "s"
        units = {pair[1] for pair in pairs if pair}
        number = ",f" if any("," in pair[0] for pair in pairs if pair) and self._groups_thousands() else "r"
        if not any(units) and number != "r":
            return number
        if len(units) > 1 and not name_and_unit(name)[1] and self._lists_quantities():
            return "|".join(f"{number}{unit}{remark}" for unit in sorted(units) for remark in ("", REMARK))
        if not any(units):
            return f"{number}|{number}{REMARK}" if None not in pairs and list(bare) != list(cells) else ""
        words = [cell for cell, pair in zip(cells, pairs, strict=True) if pair is None]
        if words and (len(units) > 1 or "" in units or any(map(_NAME_WITH_SIZE.match, words))):
            return ""  # words beside plain numbers, several quantities, or names: `7B, FSDP`
        ways = _ways_with_units(name, number, units)
        is_bare = ways == "q" or list(bare) == list(cells)
        return ways if is_bare or not ways else "|".join([ways, *(f"{way}{REMARK}" for way in ways.split("|"))])

    def _lists_quantities(self) -> bool:
        """Whether each row is a quantity, in the unit of its cells: `Time | 3 ms | 2 ms`, `Speed | 9 tok/s | 8 tok/s`.

        Shares and ratios in a row are those of its quantity, unless it has no other.
        """
        first = next((k for k, name in enumerate(self.names) if name), 0)  # after the bar that begins a row
        words = [row[first] for row in self.rows]
        is_marked = self.style in ("bars", "boxes") or self._is_ruled()
        if not is_marked or len(set(words)) < len(words) or any(map(value_and_unit, words)):
            return False
        bases = list[set[str]]()
        for row in self.rows:
            pairs = (value_and_unit(_without_remark(cell)) for cell in row[first + 1 :])
            units = {unit_of(pair[1].strip())[0] for pair in pairs if pair}
            own = {base_of(unit) for unit in units} - {""}
            bases.append(own - {"1"} or own)
        return all(len(row) < _FEW for row in bases) and len(set().union(*bases)) >= _FEW

    def _groups_thousands(self) -> bool:
        """Whether commas in numbers are between thousands: the table prints points of decimals, too."""
        return any(_DECIMAL.fullmatch(cell) for row in self.rows for cell in row)

    def _is_ruled(self) -> bool:
        """Whether a rule separates the header from its rows."""
        return any(map(is_rule, self.block[1:-1]))

    def _is_frame(self) -> bool:
        """Whether the rows are a data frame: the header leaves the column of their numbers without a name."""
        firsts = [row[0] for row in self.rows]
        are_numbers = not self.names[0] and all(x.isdecimal() for x in firsts)
        return are_numbers and all(int(a) + 1 == int(b) for a, b in pairwise(firsts))

    def _is_aligned(self, text: str) -> bool:
        """Whether each cell of a row is under its own name, or under none."""
        names, cells = (
            [
                match.span()
                for match in _SPANS[self.style].finditer(without_marks(without_bar(line), self.style))
                if match[0] != ":"
            ]
            for line in (self.block[0], _without_remark_of_row(text))
        )
        names_above = ({i for i, (a, b) in enumerate(names) if a < end and begin < b} for begin, end in cells)
        return len(cells) == len(names) and all(not own or k in own for k, own in enumerate(names_above))

    def _counts_up(self) -> bool:
        """Whether the first column counts steps."""
        firsts = [row[0] for row in self.rows]
        is_counter = self.names[0].strip("# ").lower() in COUNTERS and all(x.isdecimal() for x in firsts)
        return is_counter and len(firsts) > 1 and all(int(a) < int(b) for a, b in pairwise(firsts))


def _are_metrics(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether each row is a metric, one of them a rate or time. Numbers have units, other cells are words."""
    first = next((k for k, name in enumerate(names) if name), 0)  # after the bar that begins a row
    words = [row[first] for row in rows]
    if not QUANTITIES.fullmatch(names[first]) or len(names) - first != _FEW or len(set(words)) < len(words):
        return False
    pairs = (value_and_unit(_without_remark(row[-1])) for row in rows)
    bases = {base_of(unit_of(pair[1].strip())[0]) for pair in pairs if pair}
    return "" not in bases and not bases.isdisjoint(("s", "1/s"))


def _ways_with_units(name: str, number: str, units: Collection[str]) -> str:
    """Return how a column of this name prints its numbers with these units; "" if that is not clear."""
    plain = {unit.strip() for unit in units}
    if plain <= MAGNITUDES - {"B"} and (len(plain) > 1 or _OF_RATE.search(name)):
        return "q" if _OF_RATE.search(name) else ""  # `10K` is 10,000 or 10,240. But rates count in thousands
    if len(units) == 1:
        return f"{number}{next(iter(units))}"
    if plain <= set(DURATIONS) and units == plain:
        return "t"
    if plain <= SIZES.keys() and units == plain:
        return "z"
    are_factors = plain <= {"x", "×"}
    is_clear = (
        are_factors or _have_one_base(plain) or (name.lower() in _OF_ANY_QUANTITY and all(map(_is_clear_unit, plain)))
    )
    return "|".join(f"{number}{unit}" for unit in sorted(units)) if is_clear else ""


def _shape_of_cells(cells: Sequence[str]) -> str:
    """Return what all cells print around their values, `{} ms / {} TFLOPS`; "" unless they share that shape.

    Most of them need to share it if each value has a unit and commas separate them: `{} us, {} GB/s`. Around the values
    are their names, each with a mark: `images/sec: {} (jitter = {})`; or units, `x` and marks only, since other words
    would name them too. `2048x2048` is one value, a shape.
    """
    shapes = Counter(_INNER_VALUE.sub("{}", cell) for cell in cells)
    shape, times = shapes.most_common(1)[0]
    words = _WORDS.findall(shape)
    if _LISTED.fullmatch(shape) and times > _HALF * len(cells) and all(unit_of(word)[0] for word in words):
        return shape
    shape = shape if len(shapes) == 1 else ""
    if _NAMED_VALUES.fullmatch(shape) and shape.count("{}") <= _MOST_VALUES:
        return shape
    are_units = all(word == "x" or unit_of(word)[0] for word in words)
    count = shape.count("{}")
    is_several = 1 < count <= _MOST_VALUES or (count == 1 and shape[0] + shape[-1] == "()")
    is_several = is_several and not _BETWEEN_SIZES.search(shape)
    return shape if is_several and are_units and _AROUND.fullmatch(shape) else ""


def _have_one_base(printed: Collection[str]) -> bool:
    """Return whether units measure one quantity. Sizes such as `KB` do not: they are multiples of 1,000 or 1,024."""
    units = [unit_of(unit)[0] for unit in printed]
    bases = {base_of(unit) for unit in units}
    is_clear = bases != {"B"} or all("i" in unit for unit in units if unit != "B")
    return len(bases) == 1 and "" not in bases and is_clear and not any("|" in unit for unit in printed)


def _is_clear_unit(printed: str) -> bool:
    return bool(unit_of(printed)[0]) or printed in "x×"


def _without_remark(cell: str) -> str:
    """Return a cell without the remark in brackets after its number: `0.37x  (vs vllm)`, `90.5s (1.51m)`."""
    match = _REMARK.search(cell)
    if match is not None and value_and_unit(cell[: match.start()]):
        return cell[: match.start()]
    match = _AGAIN.search(cell)
    return cell[: match.start()] if match is not None and _are_equal(cell[: match.start()], match["again"]) else cell


def _are_equal(first: str, second: str) -> bool:
    """Return whether two printed values measure one quantity in two units, and are equal: `90.5s`, `1.51m`."""
    value, base = _in_base(value_and_unit(first))
    other, other_base = _in_base(value_and_unit(f"{second}in" if re.search("[0-9]m$", second) else second))
    return bool(base) and base == other_base and abs(value - other) < _ROUNDED * abs(value)


def _in_base(pair: tuple[str, str] | None) -> tuple[float, str]:
    """Return a value in the base unit of its unit, and that unit; "" if it has none that is known."""
    value, printed = pair or ("nan", "")
    unit = UNITS.get(unit_of(printed.strip())[0])
    return (float(value.replace(",", "")) * unit.factor, unit.base) if unit is not None else (math.nan, "")


def _without_remark_of_row(text: str) -> str:
    """Return a row without the remark in brackets after its last cell."""
    match = _REMARK.search(text)
    cells = text[: match.start()].split() if match is not None else []
    return text[: match.start()] if match is not None and cells and value_and_unit(cells[-1]) else text


def value_and_unit(cell: str) -> tuple[str, str] | None:
    """Return the number in a cell, and the unit after it; None for another cell: `12 openat`, `6.75 B`, `61.2g`."""
    match = VALUE_AND_UNIT.fullmatch(cell)
    if match is None:
        return None
    value, unit = match["value"], match["unit"] or ""
    if unit == " B" or (unit == "B" and "." in value):  # bytes or billions
        return None
    is_unit = (
        not unit
        or unit in _GLUED
        or unit.strip() in MAGNITUDES
        or bool(unit_of(unit)[0])
        or (unit[0] != " " and len(unit) > 1)
    )
    return (value, unit) if is_unit else None


def _with_second_line(names: Sequence[str], lines: Sequence[str], style: str) -> tuple[Sequence[str], str]:
    """Return the names of a header with what the second line adds to them, and this line; "" if it adds nothing."""
    second = lines[1] if style in ("left", "blanks") and len(lines) > _FEW else ""
    if not second.strip() or is_rule(second) or figure_spans(second) or "\t" in lines[0]:
        return names, ""
    whole = names_with_second_line(names, [match.span() for match in _PARTS.finditer(lines[0])], second)
    return (whole, second.strip()) if whole else (names, "")


def _are_durations(name: str, cells: Sequence[str]) -> bool:
    """Return whether most cells of a column are durations: `5h26m`."""
    return 2 * sum(measures(name, cell) for cell in cells) > len(cells)


def _are_fractions(cells: Sequence[str]) -> bool:
    """Return whether cells are numbers, and half of them fractions."""
    return 2 * sum("." in cell for cell in cells) > len(cells) and all(map(_VALUE.fullmatch, cells))


def _cells_below(names: Sequence[str], text: str) -> list[str]:
    """Return the cells between bars of a line under these names."""
    return with_bar_of(names, cells_of(text, "bars"), text)


def _cells_at(header: str) -> Callable[[str], list[str]]:
    """Return what cuts a row where the names of a header begin; a row in which a cell begins elsewhere has no cells.

    Nor has one of as many numbers as names with two under one name: `1 2.5 10.5` under `step  loss  time_ms`.
    """
    starts = [match.start() for match in _PARTS.finditer(header)]

    def cut(text: str) -> list[str]:
        cells = [text[begin:end] for begin, end in zip(starts, [*starts[1:], None], strict=True)]
        is_apart = all(text[begin - 1 : begin] in ("", " ") for begin in starts[1:]) and not text[: starts[0]].strip()
        are_left = all(cell[:1] != " " or not cell.strip() for cell in cells) and " :" not in cells[0]
        words = text.split() if any(not cell.strip() for cell in cells) else []
        are_numbers = len(words) == len(starts) and all(map(_VALUE.fullmatch, words))
        return [cell.strip() for cell in cells] if is_apart and are_left and not are_numbers else []

    return cut
