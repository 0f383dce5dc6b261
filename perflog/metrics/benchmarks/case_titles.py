"""Titles of cases: a line such as `=== batch=8, seq=2048 ===` names what the lines below it measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from perflog.arrays import Ints
from perflog.formats.families.title_lines import HEADING, TABLE_TITLE, TITLE, TITLES
from perflog.formats.vocabulary import field_name
from perflog.lazy_patterns import lazy_pattern
from perflog.tables.columns import Rows

_PAIR = lazy_pattern(r"(?P<name>[A-Za-z_][\w.-]*) ?[=:] ?(?P<value>[^\s,;|=:()\[\]]+)")
_ONE_PAIR = lazy_pattern(r"(?P<name>[A-Za-z][\w-]*(?: [A-Za-z][\w-]*){0,3})(?: = |: )(?P<value>[^\s,;|=:()\[\]]+)")
"""A title of words: `World Size = 2`."""
_BARE_PAIR_TEXT = r"[A-Za-z_][\w.-]* [0-9][0-9.]*(?![\w.])"
_BARE_PAIR = lazy_pattern(r"(?P<name>[A-Za-z_][\w.-]*) (?P<value>[0-9][0-9.]*)(?![\w.])")
_BARE_PAIRS = lazy_pattern(rf"{_BARE_PAIR_TEXT}(?:[,;|]? {_BARE_PAIR_TEXT})*")  # `batch 8, seq 2048`, and nothing else
_BETWEEN_ROWS = 2  # lines from a row of a table to the next one: a rule may be between
_REST = lazy_pattern(r"(?:[\s,;:|()\[\]#=*>]|(?<!\w)-|-(?!\w))+")  # but the hyphen of `EAGLE-3`
_NUMBER = lazy_pattern(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def under_titles(rows: Rows) -> tuple[Rows, Ints, Ints]:
    """Return rows of `values` of one run, and the line and part of the record that each belongs to.

    The lines below a title are one record with it if no name comes twice there; else each of them is a record that has
    the title too.
    """
    lines, parts = rows["line"], rows["part"]
    codes, words = rows.codes("key")
    titles = {words.index(key): key for key in (*TITLES, HEADING) if key in words}
    if not np.isin(codes, [*titles]).any():
        return rows, lines, parts
    current, below = dict[str, int](), list[int]()
    found: list[tuple[int, int]] = []  # each row and the first row of its record

    def close() -> None:
        names = codes[below]
        first = below[0] if below and current and len(set(names.tolist())) == len(names) else None
        begins = dict[tuple[int, int], int]()
        for place in below:
            begin = begins.setdefault((int(lines[place]), int(parts[place])), place if first is None else first)
            if begin == place:
                found.extend((title, begin) for title in current.values())
            found.append((place, begin))
        below.clear()

    for place in np.lexsort((parts, lines)).tolist():
        key = titles.get(int(codes[place]))
        if key is None:
            if TABLE_TITLE in current and below and lines[place] - lines[below[-1]] > _BETWEEN_ROWS:
                close()  # another table without a title
                del current[TABLE_TITLE]
            below.append(place)
            continue
        close()
        current = {TITLE: place} if key == TITLE else {**current, key: place}
    close()
    places, begins = np.array(found, np.int64).reshape(-1, 2).T
    return rows.where(places), lines[begins], parts[begins]


def with_parameters(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return columns with titles replaced by the parameters that they name: `batch=8, seq=2048`."""
    result: dict[str, list[Any]] = {}
    for name, cells in columns.items():
        result |= _parameters(name, cells, columns) if name in TITLES else {name: cells}
    return result


def _parameters(name: str, titles: Sequence[Any], columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the columns that replace titles: pairs that all of them have, and the remaining words."""
    whole = ((_ONE_PAIR, _ONE_PAIR), (_BARE_PAIRS, _BARE_PAIR))
    pair = next((of for every, of in whole if all(title and every.fullmatch(title) for title in titles)), _PAIR)
    pairs = [{field_name(match["name"]): match["value"] for match in pair.finditer(title or "")} for title in titles]
    names = [*pairs[0]]
    name = "table" if name == TABLE_TITLE and "table" not in columns else name
    titles = titles if names else _without_common_words(titles)
    if any([*named] != names for named in pairs) or not names or set(names) & set(columns):
        return {name: list(titles)}
    words = _without_common_words([_REST.sub(" ", pair.sub(" ", title or "")).strip() for title in titles])
    parameters: dict[str, list[Any]] = {key: [_value(named[key]) for named in pairs] for key in names}
    return {name: words, **parameters} if any(words) else parameters


def _without_common_words(titles: Sequence[Any]) -> list[Any]:
    """Return titles without the words that all of them begin with, if words are left of each: these name the case."""
    words = {title: title.split() for title in titles if title}
    number = 0
    while len(words) > 1 and all(len(of) > number + 1 for of in words.values()):
        is_name = any(len(of) == number + 2 and _NUMBER.fullmatch(of[-1]) for of in words.values())  # `batch 8`
        if is_name or len({of[number] for of in words.values()}) > 1:
            break
        number += 1
    return [title and " ".join(words[title][number:]) if number else title for title in titles]


def _value(text: str) -> Any:
    return float(text) if _NUMBER.fullmatch(text) else text
