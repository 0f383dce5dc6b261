"""Finds rows of printed tables: lines of several numbers side by side, with a name of any kind before or after them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from perflog.formats.figures import figure_spans
from perflog.formats.tokens import Token
from perflog.ingestion.suggest.line_shapes import Key, LineShape
from perflog.ingestion.suggest.naming import Named, slug
from perflog.units import unit_of

HEAD, TAIL = "\0head", "\0tail"
"""Keys of the name of a row: HEAD stands before the numbers, TAIL after them."""

_NUMBER, _UNIT = "\0number", "\0unit"
LEAST = 3
"""A row has at least so many numbers side by side."""

_LEAST_NAMES = 3  # so many different names show that the lines are rows of a table
_LINES_ABOVE, _LINES_ABOVE_NAMES = 3, 40  # a header, a rule and units; with rows of other shapes between them
HEADER_SAYS = "the table's header says so"
_CELL = re.compile(r"[^\s|](?:[^\t|]*?[^\s|])??(?=\s{2,}|\s*[\t|]|\s*$)")
_BAR = re.compile(r":?\s+[0-9]+%.*$")  # a progress bar behind a header
_RULE = re.compile(r"[-=+|: \t]*[-=+]{2}[-=+|: \t]*")
_HEADER_NAME = re.compile(r"%? ?[A-Za-z][^:=,]*")
_KERNELS = {
    "share": "time_percent|percentage|percent|share|time_pct|total",
    "time": "time|total_time|total_duration|total|time_total|total_duration_ns",
    "calls": "calls|num_calls|instances|count|of_calls|calls_number",
    "avg": "avg|average|mean|average_ns|avg_time",
    "min": "min|minimum|minimum_ns|min_ns|min_time",
    "max": "max|maximum|maximum_ns|max_ns|max_time",
    "name": "name|kernel|operation|kernel_name",
}


def merge_rows(shapes: Mapping[Key, LineShape]) -> dict[Key, LineShape]:
    """Return the shapes. Rows that differ only in their name become one shape."""
    merged = dict(shapes)
    for cut, word in ((_tail_place, TAIL), (_head_end, HEAD)):
        groups: dict[Key, list[Key]] = {}
        for key in merged:
            place = cut(key)
            if place:
                groups.setdefault((*key[:place], TAIL) if word == TAIL else (HEAD, *key[place:]), []).append(key)
        for wild, keys in groups.items():
            if wild[0] == HEAD and all(k[0] == '"' for k in keys):
                wild = ('"', *wild)
            if len(keys) >= _LEAST_NAMES:
                shape = merged.setdefault(wild, LineShape(min(merged[k].first for k in keys)))
                for key in keys:
                    part = merged.pop(key)
                    part.lines = {text: join_name(wild, line) for text, line in part.lines.items()}
                    shape.join(part)
    return merged


def join_name(wild: Key, line: tuple[Token, ...]) -> tuple[Token, ...]:
    """Return the tokens of a row, with the tokens of its name joined into one."""
    if HEAD not in wild and TAIL not in wild:
        return line
    begin = wild.index(HEAD) if HEAD in wild else sum(x != " " for x in wild) - 1
    end = len(line) - sum(x != " " for x in wild[wild.index(HEAD) + 1 :]) if HEAD in wild else len(line)
    name = line[begin:end]
    if not name:
        return line
    text = name[0].text + "".join(t.gap + t.text for t in name[1:])
    return (*line[:begin], Token("head" if HEAD in wild else "tail", text, name[0].gap), *line[end:])


def _is_name(key: str) -> bool:
    """Whether the key of a token is that of a name."""
    return key[0].isalpha() or key[0] == "_"


def _tail_place(key: Key) -> int:
    """Return the place in the key where the name after the numbers of a row begins; 0 if this is not a row."""
    numbers = 0
    for place, x in enumerate(key):
        if numbers >= LEAST and (
            (key[place - 1], x) == (",", '"') or (key[place - 1] in (_NUMBER, _UNIT) and x in "[<\"'(")
        ):
            return place
        if numbers >= LEAST and key[place - 1] == " " and (_is_name(x) or x in "[<\"'("):
            return place - 1  # the blanks belong to the name: before a bracket they may be padding
        numbers = numbers + 1 if x == _NUMBER else 0 if _is_name(x) else numbers
    return 0


def _head_end(key: Key) -> int:
    """Return the place in the key where the name before the numbers of a row ends; 0 if this is not a row."""
    numbers, place = 0, len(key)
    while place and not _is_name(key[place - 1]) and key[place - 1] not in (":", "=", ")", "]", ">", HEAD):
        place -= 1
        numbers += key[place] == _NUMBER
    while place < len(key) and key[place] not in (_NUMBER, '"', " "):
        place += 1
    named = place < len(key) and any(_is_name(x) for x in key[:place])
    return place if numbers >= LEAST and named and key[place] in ('"', " ") else 0


def fits(wild: Key, key: Key, line: tuple[Token, ...]) -> bool:
    """Whether a line belongs to a merged shape, in which words or row names vary, or units are fixed.

    Args:
        wild: The key of the merged shape.
        key: The key of the line itself.
        line: The tokens of the line.
    """
    row_key: Key = key
    if TAIL in wild:
        row_key = (*key[: len(wild) - 1], TAIL) if len(key) >= len(wild) else ()
    elif HEAD in wild:
        place = wild.index(HEAD)
        row_key = (*key[:place], HEAD, *key[len(key) - len(wild) + place + 1 :]) if len(key) >= len(wild) else ()
    if len(row_key) != len(wild) or [x == " " for x in row_key] != [x == " " for x in wild]:
        return False
    line = join_name(wild, line)
    pairs = [(a, b) for a, b in zip(row_key, wild, strict=True) if a != " "]
    return len(line) == len(pairs) and all(
        b in (a, token.text, "\0word") for (a, b), token in zip(pairs, line, strict=True)
    )


# --- headers ------------------------------------------------------------------------------------------------------


def header_names(row: str, first: int, width: int, shapes: Iterable[LineShape], exact: bool = False) -> list[Named]:
    """Return the column names from the header above a table; empty if there is no header.

    Args:
        row: The text of the first row. Its header separates columns as it does: by bars, or without them.
        first: The line number of the first row.
        width: The number of columns. If the header has more columns, the last `width` count.
        shapes: The shapes of the log. The header is one of the lines before the first row.
        exact: Whether the header must have exactly `width` columns and stand right above the row.
    """
    names: list[Named] = []
    lines_above = _LINES_ABOVE if exact else _LINES_ABOVE_NAMES
    near = sorted((s for s in shapes if first - lines_above <= s.first < first and s.lines), key=lambda s: s.first)
    for shape in near:
        text = next(iter(shape.lines))
        if ("|" in text) != ("|" in row) or is_shifted(text, row):
            continue
        columns, units = (
            _columns(text, is_above=exact and shape.first == first - 1),
            [unit_of(x)[0] for x in text.split(",")],
        )
        if len(columns) >= max(width, LEAST) and (len(columns) == width or not exact):
            names = columns[len(columns) - width :]
        elif names and len(units) >= width and any(units) and not re.search("[0-9]", text):  # nvprof --csv
            row_units = units[len(units) - width :]
            names = [
                Named(n.name, n.unit or u, HEADER_SAYS if u else n.why) for n, u in zip(names, row_units, strict=True)
            ]
    return names


def header_cells(row: str, first: int, shapes: Iterable[LineShape]) -> list[tuple[int, int, str]]:
    """Return begin, end and header of each cell of a row; empty if no header stands above it.

    Only rows with as many cells, and rules, may stand between them.

    Args:
        row: The text of the row. Two or more blanks, tabs or bars separate its cells.
        first: Its line number.
        shapes: The shapes of the log.
    """
    cells = _cell_spans(row)
    near = [s for s in shapes if first - _LINES_ABOVE_NAMES <= s.first < first and s.lines]
    above = {s.first: next(iter(s.lines)) for s in near}
    rule = next((text for text in above.values() if _RULE.fullmatch(text)), "")  # printed again, its shape is not new
    for shape in sorted(near, key=lambda s: s.first):  # a header printed twice
        if shape.count > 1:
            above.setdefault(shape.first + 1, next(iter(shape.lines)))
    for number in range(first - 1, first - 1 - _LINES_ABOVE_NAMES, -1) if len(cells) >= LEAST else ():
        text = _BAR.sub("", above.get(number, rule))
        spans = _cell_spans(text)
        for names in (
            [text[slice(*span)] for span in spans],
            text.split() if len(spans) == 1 or text.startswith("#") else [],
        ):
            names = [name.strip(" #()") or "number" for name in names]
            are_names = all(_HEADER_NAME.fullmatch(name) for name in names) and not figure_spans(text)
            if len(names) == len(cells) and are_names:
                if is_shifted(text, row):
                    return []
                return [(*span, name.replace("(", " ")) for span, name in zip(cells, names, strict=True)]
        is_comment = text.lstrip().startswith("#")
        if not is_comment and not _RULE.fullmatch(text) and len(_cell_spans(text)) != len(cells):
            return []
    return []


def is_shifted(header: str, row: str) -> bool:
    """Return whether a cell of a row stands under the name of another column than its place says.

    Then cells in front of it are empty. Bars need no places: they show empty cells.
    """
    if header.count("|") == row.count("|") > 0:
        return False
    names, cells = (_cell_spans(text.expandtabs()) for text in (header, row))
    if len(names) != len(cells):
        return False
    over = [{k for k, (a, b) in enumerate(names) if a < end and begin < b} for begin, end in cells]
    return any(places and k not in places for k, places in enumerate(over))


def _cell_spans(text: str) -> list[tuple[int, int]]:
    """Return begin and end of each cell of a row. A colon behind the first one is none."""
    return [match.span() for match in _CELL.finditer(text) if match[0] != ":"]


def _columns(text: str, is_above: bool = False) -> list[Named]:
    """Return the columns that a header names; empty if the line is not a header.

    Args:
        text: The line.
        is_above: Whether the line stands right above the row, so that one blank may separate its columns.
    """
    if re.search("[0-9]", text):
        return []
    separator = r"\s*,\s*" if text.count(",") > 2 else r"\s{2,}|\t|\s*\|\s*"
    texts = [x.strip(" \"'|") for x in re.split(separator, text.strip())]
    if len(texts) == 1 and is_above:
        texts = text.split()
    if not all(re.fullmatch(r"[#%]?[A-Za-z][\w ./%()#-]*", x) for x in texts if x):
        return []
    return [header_column(x) for x in texts if x]


def header_column(text: str) -> Named:
    """Return the name and unit of a column, as the header prints them: `Total Time (ns)`."""
    bracket = re.search(r"\(([^()]*)\)", text)
    unit = unit_of(bracket[1])[0] if bracket else ""
    if not unit and text.endswith("Ns"):  # TotalDurationNs
        unit, text = "ns", text[:-2]
    name = slug(text.replace("%", " percent ") if unit == "%" else text.split("(")[0]) or "number"
    return Named(name, unit, HEADER_SAYS if unit else "")


def kernel_columns(names: list[Named]) -> list[Named] | None:
    """Return the columns renamed to those of table `kernels`; None if the table does not list kernels."""
    columns, used = [], set()
    for named in names:
        column = next((c for c, p in _KERNELS.items() if c not in used and re.fullmatch(p, named.name)), "")
        if column in ("share", "time") and (column == "share") != (named.unit == "%"):
            column = "time" if column == "share" and named.name == "total" and "time" not in used else ""
        used.add(column)
        columns.append(Named(column or named.name, named.unit, named.why))
    return columns if {"name", "calls"} <= used and used & {"time", "avg"} else None
