"""Pickles of plain data: checked before Python's unpickler sees them, since a short pickle can hold it up for ever.

Numbers, strings, lists, dictionaries and tuples of numbers and strings are plain. Tuples in tuples are not: as keys of
a dictionary, their hash may take a time that doubles with each level. Nor are numbers of the memo beyond the size of
the file: the unpickler makes room for all of them. Opcodes: Lib/pickletools.py of CPython.
"""

from __future__ import annotations

import pickle
import re
from collections import deque
from typing import Any

from perflog.errors import PerflogError
from perflog.lazy_patterns import lazy_pattern

# Opcodes of a fixed size: those that push a value, get one from the memo, or do neither: marks, lists, dictionaries.
_PUSH = rb"[\x5d\x7d\x4e\x88\x89]|\x4b.|\x4d..|\x4a.{4}|\x47.{8}"
_GET = rb"\x68(?P<short>.)|\x6a(?P<long>.{4})"
_QUIET = rb"\x28|\x61|\x65|\x73|\x75"
_EARLY, _LATE = rb"\x80.|\x71.", rb"\x80.|\x94|\x95.{8}"  # BINPUT numbers the memo up to protocol 3, then MEMOIZE
_TEXTS = {0x58: 4, 0x8C: 1, 0x8A: 1}  # BINUNICODE, SHORT_BINUNICODE, LONG1: bytes of the size before the string
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}  # with so many items
_CODE = b"cRioQP\x81\x82\x83\x84\x92\x93"  # names of code, calls, objects elsewhere
_LONG_BINPUT, _STOP, _MEMOIZE = 0x72, b".", 0x94
_OPCODES = {
    late: lazy_pattern(rb"(?P<push>" + _PUSH + rb")|(?P<get>" + _GET + rb")|" + _QUIET + rb"|" + own, re.DOTALL)
    for late, own in ((False, _EARLY), (True, _LATE))
}
_RUNS = {
    late: lazy_pattern(rb"(?:" + re.sub(rb"[?]P<[a-z]+>", rb"?:", of.pattern) + rb")*", re.DOTALL)
    for late, of in _OPCODES.items()
}


class NotPlainError(PerflogError):
    """A pickle that holds more than plain data, or is cut off."""


def load(data: bytes) -> Any:
    """Return the data of a pickle.

    Raises:
        NotPlainError: It holds more than plain data.
        Exception: It is damaged, as the unpickler reports.
    """
    _check(data)
    return pickle.loads(data)


def _check(data: bytes) -> None:
    """Check the opcodes of a pickle in one pass, most of them in runs."""
    place, size = 0, len(data)
    check = _Check(data)
    while place < size:
        place = check.run(place)
        if data[place : place + 1] == _STOP:
            return
        if place < size:
            place = check.opcode(place)
    raise NotPlainError("it is cut off")


class _Check:
    """The check of one pickle.

    `pushed`: the last runs of opcodes, None for a string. `tuples`: the numbers of the memo that hold tuples.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.is_late = data[1:2] >= b"\x04"  # the protocol
        self.pushed: deque[tuple[int, int] | None] = deque(maxlen=8)
        self.tuples: set[int] = set()
        self._memoized = 0

    def run(self, place: int) -> int:
        """Return the end of the opcodes of fixed sizes from an offset on."""
        match = _RUNS[self.is_late].match(self.data, place)
        end = match.end() if match else place
        if end > place:
            self.pushed.append((place, end))
            if self.is_late:
                opcodes = _OPCODES[True].finditer(self.data, place, end)
                self._memoized += sum(self.data[opcode.start()] == _MEMOIZE for opcode in opcodes)
        return end

    def opcode(self, place: int) -> int:
        """Return the end of another opcode."""
        data, opcode = self.data, self.data[place]
        if opcode in _TEXTS:
            begin = place + 1 + _TEXTS[opcode]
            self.pushed.append(None)
            return begin + int.from_bytes(data[place + 1 : begin], "little")
        if opcode in _TUPLES and self._are_plain(_TUPLES[opcode]):
            self._keep_tuple(place + 1)
            return place + 1
        if opcode == _LONG_BINPUT and not self.is_late:
            if int.from_bytes(data[place + 1 : place + 5], "little") > len(data):
                raise NotPlainError("it numbers more values than it can hold")
            return place + 5
        if opcode in _CODE:
            raise NotPlainError("it names code, which perflog does not run")
        raise NotPlainError(f"it holds more than numbers, strings, lists, dicts and pairs (opcode {opcode:#04x})")

    def _are_plain(self, number: int) -> bool:
        """Return whether the last values that were pushed, the items of a tuple, are numbers and strings."""
        for segment in reversed(self.pushed):
            if segment is None:
                number -= 1
                continue
            for opcode in reversed(list(_OPCODES[self.is_late].finditer(self.data, *segment))) if number > 0 else ():
                is_tuple = opcode["get"] and self._number(opcode["short"] or opcode["long"]) in self.tuples
                if number > 0 and is_tuple:
                    return False
                number -= bool(opcode["get"] or opcode["push"])
        return number <= 0

    def _keep_tuple(self, place: int) -> None:
        """Note the number of a tuple in the memo; what was pushed before it is no item of a later one."""
        self.pushed.clear()
        if self.is_late and self.data[place : place + 1] == bytes([_MEMOIZE]):
            self.tuples.add(self._memoized)
        elif not self.is_late and self.data[place : place + 1] in (b"q", b"r"):
            width = 1 if self.data[place : place + 1] == b"q" else 4
            self.tuples.add(self._number(self.data[place + 1 : place + 1 + width]))

    @staticmethod
    def _number(data: bytes) -> int:
        return int.from_bytes(data, "little")
