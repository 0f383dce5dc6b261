"""Changes that damage an input: of any bytes, of documents in JSON, of framed records, of databases.

A change is drawn by hypothesis as a `Mutation`: what to do, where as a share of the input, and with which odd value. So
hypothesis can make a failing input simpler, and the same draws give the same input.
"""

from __future__ import annotations

import json
import re
import sqlite3
import struct
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from support.history_files import record, run_file, varint

NUMBERS = [
    0,
    -0.0,
    -1,
    1e308,
    float("inf"),
    float("-inf"),
    float("nan"),
    2**31,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    2**64,
    10**400,
]
NUMBERS += [0.1, 5e-324, 1e18, -1e18]
TEXTS = [
    "",
    " ",
    "\0",
    "\x1b[31m",
    "\u202e",
    "\ud800",
    "\U0010ffff",
    "e\u0301" * 9,
    "NaN",
    "-",
    "x" * 10_000,
    "\n\r\n",
    "{}",
    "[]",
]
TEXTS += ["nccl:all_reduce", "ProfilerStep#7", "0", "1e999", "٣", "1,000.5", "null"]
ODD_NUMBERS_AS_TEXT = [b"nan", b"inf", b"-inf", b"1e999", b"-0", b"9223372036854775808", b"9" * 400, b"0x1f", b"1_000"]
ODD_NUMBERS_AS_TEXT += [b"", b"-", b"1.2.3", b"1e-999", b".", b"00012", b"1,5", "٣".encode(), b"-99999999999999999999"]
PIECES = [
    b"\0",
    b"\xff",
    b"\n",
    b"\r",
    b"\x1b[31m",
    b'"',
    b"\\",
    b"{",
    b"[" * 5000,
    b"}",
    b"]",
    b",",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
]
PIECES += ["\u202e\u2028".encode(), b"\xff\xfe", b"\0" * 64, b" " * 5000, b"\x1f\x8b\x08", b"(" * 3000, b"1" * 5000]


@dataclass(frozen=True)
class Mutation:
    """One change: `what` to do; `at` and `to`, places as shares of the input; `odd`, the number of an odd value."""

    what: int
    at: float
    to: float
    odd: int

    def choice(self, values: Sequence[Any]) -> Any:
        return values[self.odd % len(values)]


SHARES = st.floats(0, 1, exclude_max=True)
MUTATIONS = st.lists(
    st.builds(Mutation, st.integers(0, 999), SHARES, SHARES, st.integers(0, 999)), min_size=1, max_size=4
)


# --- bytes --------------------------------------------------------------------------------------------------------


def _flip(data: bytes, m: Mutation) -> bytes:
    at = int(m.at * len(data))
    return data[:at] + bytes([data[at] ^ (1 << m.odd % 8)]) + data[at + 1 :]


def _cut(data: bytes, m: Mutation) -> bytes:
    return data[: int(m.at * len(data))]


def _piece(data: bytes, m: Mutation) -> tuple[int, int]:
    start = int(m.at * len(data))
    return start, min(len(data), start + 1 + int(m.to**3 * len(data)))


def _drop(data: bytes, m: Mutation) -> bytes:
    start, end = _piece(data, m)
    return data[:start] + data[end:]


def _double(data: bytes, m: Mutation) -> bytes:
    start, end = _piece(data, m)
    return data[:end] + data[start:end] * (1 + m.odd % 3) + data[end:]


def _swap(data: bytes, m: Mutation) -> bytes:
    a, b = sorted((int(m.at * len(data)), int(m.to * len(data))))
    size = 1 + m.odd % 200
    b = max(b, min(a + size, len(data)))
    return data[:a] + data[b : b + size] + data[a + size : b] + data[a : a + size] + data[b + size :]


def _insert(data: bytes, m: Mutation) -> bytes:
    at = int(m.at * len(data))
    piece: bytes = m.choice(PIECES)
    return data[:at] + piece + data[at:]


def _number(data: bytes, m: Mutation) -> bytes:
    """Replace a number of the text."""
    numbers = [match.span() for match in re.finditer(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", data)]
    if not numbers:
        return _insert(data, m)
    start, end = numbers[int(m.at * len(numbers))]
    number: bytes = m.choice(ODD_NUMBERS_AS_TEXT)
    return data[:start] + number + data[end:]


def _lines(data: bytes, m: Mutation) -> bytes:
    """Exchange two lines, or repeat one of them."""
    lines = data.splitlines(keepends=True)
    a, b = int(m.at * len(lines)), int(m.to * len(lines))
    if m.odd % 2:
        lines[a : a + 1] = [lines[a]] * 3
    else:
        lines[a], lines[b] = lines[b], lines[a]
    return b"".join(lines)


BYTE_CHANGES: Sequence[Callable[[bytes, Mutation], bytes]] = (_flip, _cut, _drop, _double, _swap, _insert)
TEXT_CHANGES: Sequence[Callable[[bytes, Mutation], bytes]] = (*BYTE_CHANGES, _number, _number, _number, _lines, _lines)


def changed_bytes(
    data: bytes, mutations: Sequence[Mutation], changes: Sequence[Callable[[bytes, Mutation], bytes]] = BYTE_CHANGES
) -> bytes:
    for m in mutations:
        if data:
            data = changes[m.what % len(changes)](data, m)
    return data


# --- documents ----------------------------------------------------------------------------------------------------


def _places(document: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Containers of a document with each key in them."""
    keys = list(document) if isinstance(document, dict) else range(len(document))
    for key in keys:
        found.append((document, key))
        if isinstance(document[key], (dict, list)):
            _places(document[key], found)
    return found


def _nested(depth: int, leaf: Any) -> Any:
    for i in range(depth):
        leaf = [leaf] if i % 2 else {"a": leaf}
    return leaf


def changed_document(document: Any, mutations: Sequence[Mutation]) -> Any:
    """Replace, drop, copy, rename or move values of a document. The document itself is changed."""
    for m in mutations:
        places = _places(document, [])
        if not places:
            break
        (home, key), (other, other_key) = (places[int(share * len(places))] for share in (m.at, m.to))
        what = m.what % 8
        if what <= 1:
            home[key] = m.choice(NUMBERS)
        elif what == 2:
            home[key] = m.choice(TEXTS)
        elif what == 3:
            home[key] = m.choice([None, True, [], {}, [None], {"a": 1}, _nested(40, 1), _nested(300, "x"), [1] * 1000])
        elif what == 4:
            del home[key]
        elif what == 5:
            home[key] = json.loads(json.dumps(other[other_key]))
        elif what == 6 and isinstance(home, dict):
            home[m.choice(TEXTS)] = home.pop(key)
        elif isinstance(home, list):
            home[key:key] = [home[key]] * (1 + m.odd % 5)
        else:
            home[key] = str(home[key]) if m.odd % 2 else [home[key]]
    return document


def as_json(document: Any) -> bytes:
    """A document in JSON; half of a surrogate pair is an escape, and infinity is written as Python writes it."""
    return json.dumps(document).encode()


# --- records ------------------------------------------------------------------------------------------------------


def event_records(data: bytes) -> list[bytes]:
    """The records of an event file of TensorBoard."""
    records = []
    while len(data) >= 12:
        (length,) = struct.unpack_from("<Q", data)
        records.append(data[12 : 12 + length])
        data = data[16 + length :]
    return records


def run_records(data: bytes) -> list[bytes]:
    """The records of a short run file of Weights & Biases, in which each record is one piece."""
    records, at = [], 7
    while at + 7 <= len(data):
        length, kind = struct.unpack_from("<HB", data, at + 4)
        assert kind == 1
        records.append(data[at + 7 : at + 7 + length])
        at += 7 + length
    return records


def _varint(data: bytes, m: Mutation) -> bytes:
    """A number of a record, such as a length, becomes odd."""
    at = int(m.at * len(data))
    return data[:at] + varint(m.choice([0, 1, 127, 128, 2**31, 2**32 - 1, 2**63, 2**64 - 1])) + data[at + 1 :]


def _float(data: bytes, m: Mutation) -> bytes:
    at, number = int(m.at * len(data)), m.choice([float("nan"), float("inf"), -0.0, 1e308, 5e-324])
    return data[:at] + struct.pack("<d", number) + data[at + 8 :]


def changed_records(records: Sequence[bytes], mutations: Sequence[Mutation]) -> list[bytes]:
    """Records of which some are damaged inside, doubled, exchanged or left out. Their frames stay right."""
    records = list(records)
    for m in mutations:
        if not records:
            break
        i = int(m.to * len(records))
        what = m.what % 12
        if what == 0:
            records.insert(i, records[int(m.at * len(records))])
        elif what == 1:
            del records[i]
        elif records[i]:
            records[i] = (*BYTE_CHANGES, _varint, _varint, _float)[m.what % 9](records[i], m)
    return records


def framed_events(records: Sequence[bytes]) -> bytes:
    return b"".join(map(record, records))


def framed_run(records: Sequence[bytes]) -> bytes:
    return run_file(*records)


# --- databases ----------------------------------------------------------------------------------------------------

CELLS = [
    "NULL",
    "0",
    "-1",
    "1.5",
    "-9223372036854775808",
    "9223372036854775807",
    "9e999",
    "''",
    "'soon'",
    "x'00ff'",
    "''",
    "'٣'",
]
CELLS += [
    "zeroblob(10000)",
    "char(0, 27, 55296)",
    "'[1, 2'",
    "CAST(x'ff' AS TEXT)",
    "'9' || hex(zeroblob(200))",
    "1e18",
]


def change_database(path: Path, mutations: Sequence[Mutation]) -> None:
    """Change cells, rows, columns and tables of a database."""
    with closing(sqlite3.connect(path)) as db:
        for m in mutations:
            tables = [
                name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
            ]
            if not tables:
                return
            table = tables[int(m.at * len(tables))]
            columns = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]
            (count,) = db.execute(f'SELECT count(*) FROM "{table}"').fetchone()
            column, row = columns[m.odd % len(columns)], 1 + int(m.to * count)
            cell, other = CELLS[m.odd // 7 % len(CELLS)], tables[int(m.to * len(tables))]
            statements = [
                f'UPDATE "{table}" SET "{column}" = {cell} WHERE rowid = {row}',
                f'UPDATE "{table}" SET "{column}" = {cell}',
                f'UPDATE "{table}" SET "{column}" = -"{column}" WHERE rowid = {row}',
                f'INSERT INTO "{table}" SELECT * FROM "{table}"',
                f'DELETE FROM "{table}" WHERE rowid = {row}',
                f'DELETE FROM "{table}"',
                f'ALTER TABLE "{table}" DROP COLUMN "{column}"',
                f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "other {m.odd}"',
                f'ALTER TABLE "{table}" ADD COLUMN "more {m.odd}" DEFAULT {cell if "(" not in cell else 5}',
                f'ALTER TABLE "{table}" RENAME TO "gone {m.odd}"',
                f'CREATE TABLE "{other}x" AS SELECT * FROM "{table}"',
                f'UPDATE "{table}" SET "{column}" = "{columns[0]}"',
            ]
            chances = [0, 0, 0, 0, 0, 0, *range(len(statements))]
            with suppress(sqlite3.Error), db:  # a change that SQLite refuses is none
                db.execute(statements[chances[m.what % len(chances)]])


# --- protocol buffers ---------------------------------------------------------------------------------------------


def changed_message(data: bytes, m: Mutation) -> bytes:
    """Change a field of a message, or of a message in it, at any depth: drop, repeat, move, or another value."""
    parts = _fields(data)
    if not parts:
        return _flip(data, m) if data else data
    index = int(m.at * len(parts))
    tag, content = parts[index]
    if tag & 7 == 2 and m.what % 8 > 2 and len(_fields(content)) > 1:  # deeper, with other draws
        inner = changed_message(content, Mutation(m.what // 8, m.at * 7 % 1, m.to, m.odd))
        parts[index] = tag, inner
    elif m.what % 5 == 0:
        del parts[index]
    elif m.what % 5 == 1:
        parts.insert(int(m.to * len(parts)), parts[index])
    elif m.what % 5 == 2:
        parts.append(parts.pop(index))
    elif tag & 7 == 0:
        parts[index] = tag, varint(m.choice([0, 1, 2, 64, 2**31, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1]))
    elif tag & 7 == 1:
        parts[index] = tag, struct.pack("<d", m.choice([float("nan"), float("inf"), -1e308, 0.0, 1e18]))
    elif tag & 7 == 2:
        parts[index] = tag, m.choice(TEXTS).encode("utf-8", "surrogatepass")
    return b"".join(varint(tag) + (varint(len(content)) if tag & 7 == 2 else b"") + content for tag, content in parts)


def _fields(data: bytes) -> list[tuple[int, bytes]]:
    """The tags and contents of a message; nothing if it is none."""
    place, parts = 0, []
    while place < len(data):
        try:
            tag, place = _read_varint(data, place)
            wire, start = tag & 7, place
            if wire == 0:
                _, place = _read_varint(data, place)
            elif wire == 2:
                length, start = _read_varint(data, place)
                place = start + length
            elif wire in (1, 5):
                place += 8 if wire == 1 else 4
            else:
                return []
        except IndexError:
            return []
        if place > len(data) or tag < 8:
            return []
        parts.append((tag, data[start:place]))
    return parts


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if data[place - 1] < 0x80:
            return value, place
