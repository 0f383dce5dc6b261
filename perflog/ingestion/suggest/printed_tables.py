"""Finds rows of printed tables: lines of several numbers side by side, with a name of any kind before or after them."""

from __future__ import annotations

from collections.abc import Mapping

from perflog.formats.tokens import Token
from perflog.ingestion.suggest.line_shapes import Key, LineShape

HEAD, TAIL = "\0head", "\0tail"
"""Keys of the name of a row: HEAD is before the numbers, TAIL after them."""

_NUMBER, _UNIT = "\0number", "\0unit"
LEAST = 3
"""A row has at least so many numbers side by side."""

_LEAST_NAMES = 3  # so many different names show that the lines are rows of a table


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
    """Whether the key of a token is a name."""
    return key[0].isalpha() or key[0] == "_"


def _tail_place(key: Key) -> int:
    """Return the index in the key where the name after the numbers of a row begins; 0 if this is not a row."""
    numbers = 0
    for place, x in enumerate(key):
        if numbers >= LEAST and (
            (key[place - 1], x) == (",", '"') or (key[place - 1] in (_NUMBER, _UNIT) and x in "[<\"'(")
        ):
            return place
        if numbers >= LEAST and key[place - 1] == " " and (_is_name(x) or x in "[<\"'("):
            return place - 1  # the spaces belong to the name: before a bracket they may be padding
        numbers = numbers + 1 if x == _NUMBER else 0 if _is_name(x) else numbers
    return 0


def _head_end(key: Key) -> int:
    """Return the index in the key where the name before the numbers of a row ends; 0 if this is not a row."""
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
