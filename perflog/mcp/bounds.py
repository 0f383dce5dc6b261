"""Bounds of an answer: rows, characters of a string, bytes of the whole. What is cut is counted in the answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

MOST_BYTES = 24_000
"""Bytes of an answer as JSON."""

MOST_ROWS = 500
"""Rows of a list that a caller can ask for."""

_TEXT = 800  # characters of a string
_INNER = 20  # items of a list within a row
_SHOWN_OF_LIST = 0.5  # of the longest list stays, until the answer is small enough


def bounded(answer: Mapping[str, Any], rows: int, size: int = MOST_BYTES) -> dict[str, Any]:
    """Return an answer with at most `rows` items of each list, and at most `size` bytes as JSON.

    Key `cut` has a row for each list that is cut (`part`, `shown`, `of`); `texts_cut` counts the texts that are.
    `brief` has bounds of its own.
    """
    texts = [0]
    short = {name: value if name == "brief" else _short(value, texts, rows) for name, value in answer.items()}
    lists = {name: len(value) for name, value in answer.items() if isinstance(value, list) and name != "brief"}
    while True:
        cut = [{"part": name, "shown": len(short[name]), "of": n} for name, n in lists.items() if len(short[name]) < n]
        whole = short | {"cut": cut} | ({"texts_cut": texts[0]} if texts[0] else {})
        if _size(whole) <= size:
            return whole
        longest = max(lists, key=lambda name: _size(short[name]), default=None)
        if longest is None or not short[longest]:
            return {"schema_version": answer.get("schema_version"), "cut": [{"part": "all", "shown": 0, "of": 1}]}
        short[longest] = short[longest][: math.floor(len(short[longest]) * _SHOWN_OF_LIST)]


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _short(value: object, texts: list[int], most: int) -> Any:
    """The value with shorter lists and texts, as JSON can hold it: neither NaN nor half of a character."""
    if isinstance(value, str):
        value = value.encode("utf-8", "replace").decode()
        if len(value) <= _TEXT:
            return value
        texts[0] += 1
        return f"{value[:_TEXT]} … ({len(value) - _TEXT} more characters)"
    if isinstance(value, Mapping):
        return {_short(str(key), texts, most): _short(each, texts, _INNER) for key, each in list(value.items())[:_TEXT]}
    if isinstance(value, list | tuple):
        return [_short(each, texts, _INNER) for each in value[:most]]
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, int | float | bool | None) else _short(str(value), texts, most)
