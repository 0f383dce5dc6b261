"""Rows of printed tables: lines of several numbers side by side, with a name of any kind before or behind them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from perflog.ingestion.suggest.line_shapes import Key, LineShape
from perflog.ingestion.suggest.naming import Named, slug, unit_of
from perflog.ingestion.suggest.tokens import Token

HEAD, TAIL = "\0head", "\0tail"
"""Keys of a name before, or behind, the numbers of a row."""

_NUMBER, _UNIT = "\0number", "\0unit"
LEAST = 3
"""Numbers side by side that make a row."""

_NAMES = 3  # different names that show that rows are meant
_SAYS = "the table's header says so"
_KERNELS = {
    "share": "time_percent|percentage|percent|share|time_pct|total",
    "time": "time|total_time|total_duration|total|time_total|total_duration_ns",
    "calls": "calls|num_calls|instances|count|of_calls|calls_number",
    "avg": "avg|average|mean|average_ns|avg_time",
    "min": "min|minimum|minimum_ns|min_ns|min_time",
    "max": "max|maximum|maximum_ns|max_ns|max_time",
    "name": "name|kernel|operation|kernel_name",
}


def rows(found: Mapping[Key, LineShape]) -> dict[Key, LineShape]:
    """The shapes, those of rows that differ in their name put together."""
    shapes = dict(found)
    for cut, word in ((_behind, TAIL), (_before, HEAD)):
        groups: dict[Key, list[Key]] = {}
        for key in shapes:
            at = cut(key)
            if at:
                groups.setdefault((*key[:at], TAIL) if word == TAIL else (HEAD, *key[at:]), []).append(key)
        for wild, keys in groups.items():
            if wild[0] == HEAD and all(k[0] == '"' for k in keys):
                wild = ('"', *wild)
            if len(keys) >= _NAMES:
                together = shapes.setdefault(wild, LineShape(min(shapes[k].first for k in keys)))
                for key in keys:
                    part = shapes.pop(key)
                    part.lines = {text: split(wild, taken) for text, taken in part.lines.items()}
                    together.join(part)
    return shapes


def split(wild: Key, line: tuple[Token, ...]) -> tuple[Token, ...]:
    """The tokens of a row, its name as one of them."""
    if HEAD not in wild and TAIL not in wild:
        return line
    at = wild.index(HEAD) if HEAD in wild else sum(x != " " for x in wild) - 1
    behind = len(line) - sum(x != " " for x in wild[wild.index(HEAD) + 1 :]) if HEAD in wild else len(line)
    name = line[at:behind]
    if not name:
        return line
    text = name[0].text + "".join(t.gap + t.text for t in name[1:])
    return (*line[:at], Token("head" if HEAD in wild else "tail", text, name[0].gap), *line[behind:])


def _name(key: str) -> bool:
    return key[0].isalpha() or key[0] == "_"


def _behind(key: Key) -> int:
    """Where the name behind the numbers of a row begins; 0 if this is no row."""
    numbers = 0
    for at, x in enumerate(key):
        if numbers >= LEAST and ((key[at - 1], x) == (",", '"') or (key[at - 1] in (_NUMBER, _UNIT) and x in "[<\"'(")):
            return at
        if numbers >= LEAST and key[at - 1] == " " and (_name(x) or x in "[<\"'("):
            return at - 1  # the blanks are the name's: before a bracket they may be padding
        numbers = numbers + 1 if x == _NUMBER else 0 if _name(x) else numbers
    return 0


def _before(key: Key) -> int:
    """Where the numbers behind the name of a row begin; 0 if this is no row."""
    numbers, at = 0, len(key)
    while at and not _name(key[at - 1]) and key[at - 1] not in (":", "=", ")", "]", ">", HEAD):
        at -= 1
        numbers += key[at] == _NUMBER
    while at < len(key) and key[at] not in (_NUMBER, '"', " "):
        at += 1
    named = at < len(key) and any(_name(x) for x in key[:at])
    return at if numbers >= LEAST and named and key[at] in ('"', " ") else 0


def fits(wild: Key, key: Key, line: tuple[Token, ...]) -> bool:
    """Whether a line, whose own shape is `key`, is of a shape in which words and names vary, or units are settled."""
    own: Key = key
    if TAIL in wild:
        own = (*key[: len(wild) - 1], TAIL) if len(key) >= len(wild) else ()
    elif HEAD in wild:
        at = wild.index(HEAD)
        own = (*key[:at], HEAD, *key[len(key) - len(wild) + at + 1 :]) if len(key) >= len(wild) else ()
    if len(own) != len(wild) or [x == " " for x in own] != [x == " " for x in wild]:
        return False
    line = split(wild, line)
    pairs = [(a, b) for a, b in zip(own, wild, strict=True) if a != " "]
    return len(line) == len(pairs) and all(
        b in (a, "\0word") or (a == _UNIT and b == token.text) for (a, b), token in zip(pairs, line, strict=True)
    )


# --- headers ------------------------------------------------------------------------------------------------------


def header(first: int, width: int, shapes: Iterable[LineShape], exact: bool = False) -> list[Named]:
    """The names of `width` columns, from a line of words shortly before a row's first line, which may have more, in
    front, but for `exact`; empty if there is none.
    """
    best: list[Named] = []
    near = sorted((s for s in shapes if first - 40 <= s.first < first and s.lines), key=lambda s: s.first)
    for shape in near:
        text = next(iter(shape.lines))
        columns, units = _columns(text), [unit_of(x)[0] for x in text.split(",")]
        if len(columns) >= max(width, LEAST) and (len(columns) == width or not exact):
            best = columns[len(columns) - width :]
        elif best and len(units) >= width and any(units) and not re.search("[0-9]", text):  # nvprof --csv
            row = units[len(units) - width :]
            best = [Named(n.name, n.unit or u, _SAYS if u else n.why) for n, u in zip(best, row, strict=True)]
    return best


def _columns(text: str) -> list[Named]:
    if re.search("[0-9]", text):
        return []
    apart = r"\s*,\s*" if text.count(",") > 2 else r"\s{2,}|\t|\s*\|\s*"
    texts = [x.strip(" \"'|") for x in re.split(apart, text.strip())]
    if not all(re.fullmatch(r"[#]?[A-Za-z][\w ./%()#-]*", x) for x in texts if x):
        return []
    return [_column(x) for x in texts if x]


def _column(text: str) -> Named:
    bracket = re.search(r"\(([^()]*)\)", text)
    unit = unit_of(bracket[1])[0] if bracket else ""
    if not unit and text.endswith("Ns"):  # TotalDurationNs
        unit, text = "ns", text[:-2]
    name = slug(text.replace("%", " percent ") if unit == "%" else text.split("(")[0]) or "number"
    return Named(name, unit, _SAYS if unit else "")


def of_kernels(names: list[Named]) -> list[Named] | None:
    """The columns as those of table `kernels`; None if it is no such table."""
    out, used = [], set()
    for named in names:
        column = next((c for c, p in _KERNELS.items() if c not in used and re.fullmatch(p, named.name)), "")
        if column in ("share", "time") and (column == "share") != (named.unit == "%"):
            column = "time" if column == "share" and named.name == "total" and "time" not in used else ""
        used.add(column)
        out.append(Named(column or named.name, named.unit, named.why))
    return out if {"name", "calls"} <= used and used & {"time", "avg"} else None
