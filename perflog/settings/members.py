"""Members of settings that are printed as one string: `Namespace(lr=0.1, seed=1)`, JSON objects, command lines.

Taken apart, a seed or a path inside such a string does not separate runs that computed the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perflog.lazy_patterns import lazy_pattern

_OBJECT = lazy_pattern(  # Namespace(, namespace(, BertConfig {, {; or a list of arguments: lr=0.1, seed=1
    r"\s*(?:[A-Za-z_][\w.]*\s*)?[({]|(?=\s*[A-Za-z_]\w*=\S)"
)
_MEMBER = lazy_pattern(r"""\s*(?:"([^"]+)"|'([^']+)'|([A-Za-z_][\w./-]*))\s*[=:]\s*(.*?)\s*""", re.DOTALL)
_OPTION = lazy_pattern(r"(?:^|\s)--([A-Za-z][\w.-]*)")
_PATH = lazy_pattern(r"""(?:Pure)?(?:Posix|Windows)?Path\(["'](.*)["']\)""")
_MARKS = lazy_pattern(r"""["'()\[\]{},]""")
_DEEPEST = 8


def members(name: str, text: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the members of a setting as name and value: (`args.lr`, `0.1`); the setting itself if it has none.

    Example:
        >>> dict(members("args", "Namespace(lr=0.1, data='/x', model=Config(layers=4))"))
        {'args.lr': '0.1', 'args.data': '/x', 'args.model.layers': '4'}
        >>> dict(members("program", "train.py --seed 1 --fp16 --lr=0.1"))
        {'program': 'train.py', 'program.seed': '1', 'program.fp16': '', 'program.lr': '0.1'}
    """
    if '\\"' in text:  # escaped, as a string inside JSON is
        text = text.replace('\\"', '"').replace("\\n", "\n")
    pairs = _pairs(text) if depth < _DEEPEST else None
    if pairs is not None:
        for key, value in pairs:
            yield from members(f"{name}.{key}", value, depth + 1)
    elif not depth and (options := list(_OPTION.finditer(text))):
        yield name, text[: options[0].start()].strip()
        ends = [*(option.start() for option in options[1:]), len(text)]
        for option, end in zip(options, ends, strict=True):
            yield f"{name}.{option[1]}", text[option.end() : end].strip().removeprefix("=").strip()
    else:
        yield name, text


def _pairs(text: str) -> list[tuple[str, str]] | None:
    """Keys and values of an object, or of several arguments; None if the string is none. Its end may be missing."""
    opening = _OBJECT.match(text)
    if not opening:
        return None
    parts = _parts(text, opening.end())
    matches = [_MEMBER.fullmatch(part) for part in parts or ()]
    found = [match for match in matches if match is not None]
    if len(found) < (1 if opening[0] else 2) or len(found) < len(matches):
        return None
    return [(match[1] or match[2] or match[3], _unquoted(match[4])) for match in found]


def _parts(text: str, start: int) -> list[str] | None:
    """The strings between the commas of an object that opens before `start`; None if more follows after its end."""
    parts, first, depth, quote = [], start, 0, ""
    for mark in _MARKS.finditer(text, start):
        char, place = mark[0], mark.start()
        if quote or char in "\"'":
            escaped = bool(quote) and text[place - 1] == "\\"
            quote = quote if escaped or (quote and char != quote) else "" if quote else char
        elif char in "([{":
            depth += 1
        elif char != ",":
            depth -= 1
        elif not depth:
            parts.append(text[first:place])
            first = place + 1
        if depth < 0:
            last = text[first:place]
            return [*parts, *([last] if last.strip() else [])] if not text[place + 1 :].strip() else None
    return [*parts, text[first:]] if text[first:].strip() else parts


def _unquoted(text: str) -> str:
    if path := _PATH.fullmatch(text):
        return path[1]
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text
