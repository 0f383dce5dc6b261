"""String interning: one code for each string of a column, also if several workers number strings independently."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Codes, Ints
from perflog.readers.events.event_columns import MISSING, TEXT_COLUMNS, distinct_values
from perflog.tables.arrow import text_array

if TYPE_CHECKING:
    import pyarrow as pa


class StringInterner:
    """Strings of one column and their codes. -1 means no string."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._codes: dict[str, int] = {}
        self._translations: dict[int, Codes] = {}  # worker -> our code at index (code of the worker) + 1
        self._arrow: pa.Array | None = None

    def code(self, text: str) -> int:
        """Return the code of a string; a new string gets the next code."""
        code = self._codes.setdefault(text, len(self.texts))
        if code == len(self.texts):
            self.texts.append(text)
            self._arrow = None
        return code

    def codes_of_numbers(self, numbers: Ints) -> Codes:
        """Return the codes of numbers as strings; -1 where a number is missing. Expects few distinct numbers."""
        distinct, index = distinct_values(numbers)
        codes = [-1 if number == MISSING else self.code(str(number)) for number in distinct.tolist()]
        return np.array(codes, np.int32)[index]

    def learn(self, worker: int, texts: Sequence[str]) -> None:
        """Add the strings that a worker has numbered since the last call for this worker."""
        if texts or worker not in self._translations:
            known = self._translations.get(worker, np.array([-1], np.int32))
            self._translations[worker] = np.concatenate([known, np.array([self.code(t) for t in texts], np.int32)])

    def translate(self, worker: int, codes: Codes) -> Codes:
        """Return the codes of a worker as codes of this interner."""
        return self._translations[worker][codes + 1]

    def arrow(self) -> pa.Array:
        """Return the strings in the order of their codes."""
        if self._arrow is None:
            self._arrow = text_array(self.texts)
        return self._arrow


_NO_TEXT = (None, b"")

Interners = dict[str, StringInterner]


def new_interners() -> Interners:
    """Return an empty interner for each string column of tables `events` and `counters`."""
    return {name: StringInterner() for name in (*TEXT_COLUMNS, "range", "subject", "unit")}


class WorkerInterner:
    """Codes that one worker gives to the values of a column, the same in all its pieces of a file.

    Values are strings, numbers, and JSON that was not decoded (bytes).
    """

    def __init__(self) -> None:
        self._codes: dict[Any, int] = dict.fromkeys(_NO_TEXT, -1)
        self._reported = 0

    def codes(self, values: list[Any]) -> Codes:
        """Return the codes of values, which are strings or represent strings; None and b"" are -1."""
        known = self._codes
        try:
            return np.fromiter(map(known.__getitem__, values), np.int32, len(values))
        except (KeyError, TypeError):  # a new value; a list, which has no hash
            pass
        try:
            distinct = dict.fromkeys(values)
        except TypeError:
            values = [v if v is None or isinstance(v, str | bytes | int | float) else json.dumps(v) for v in values]
            distinct = dict.fromkeys(values)
        for value in distinct:
            known.setdefault(value, len(known) - len(_NO_TEXT))
        return np.fromiter(map(known.__getitem__, values), np.int32, len(values))

    def codes_of_json(self, pieces: Sequence[Any]) -> Codes:
        """Return the codes of pieces of JSON that were not decoded, given as buffers; an empty one is -1."""
        import pyarrow as pa

        from perflog.tables.arrow import numbers_of

        joined = b"\0".join(pieces) + b"\0"
        ends = np.flatnonzero(np.frombuffer(joined, np.uint8) == 0) + 1  # no JSON holds a zero byte
        if len(ends) != len(pieces):
            return self.codes([bytes(piece) for piece in pieces])
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        array = pa.Array.from_buffers(pa.binary(), len(pieces), [None, pa.py_buffer(offsets), pa.py_buffer(joined)])
        distinct = array.dictionary_encode()
        codes = self.codes([text[:-1] for text in distinct.dictionary.to_pylist()])
        return np.asarray(codes[numbers_of(distinct.indices)])

    def new_texts(self) -> list[str]:
        """Return the strings that got a code since the last call, for `StringInterner.learn`."""
        texts = [_text(value) for value in list(self._codes)[self._reported + len(_NO_TEXT) :]]
        self._reported += len(texts)
        return texts


def _text(value: object) -> str:
    """Return a value as a string; JSON without the line breaks and indents of its writer, or the quotes of a string."""
    if not isinstance(value, bytes):
        return str(value)
    text = " ".join(value.decode("utf-8", "replace").split())
    return text[1:-1] if text[:1] == '"' == text[-1:] and len(text) > 1 else text
