"""Files of records with checksums: TFRecords, and fragments in the blocks of LevelDB's logs."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from perflog.parsing.input.source import open_source
from perflog.readers.trackers.record_files import (
    Record,
    RecordFile,
    block_records,
    first_tf_record,
    is_tf_record,
    masked_crc32c,
    tf_records,
)

TORN, DAMAGED = (b"", "torn record"), (b"", "damaged record")


def test_the_checksum_is_that_of_its_specification() -> None:
    """The CRC-32C of these nine digits is E3069283 (RFC 3720), rotated by 15 bits, plus a constant."""
    rotated = (0xE3069283 >> 15) | (0xE3069283 << 17) & 0xFFFFFFFF
    assert masked_crc32c(b"123456789") == (rotated + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_crc32c(b"") == 0xA282EAD8


# --- TFRecords --------------------------------------------------------------------------------------------------------


def record(data: bytes, checksum: int | None = None) -> bytes:
    length = struct.pack("<Q", len(data))
    footer = masked_crc32c(data) if checksum is None else checksum
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", footer)


def read(folder: Path, data: bytes) -> list[Record]:
    path = folder / "records"
    path.write_bytes(data)
    with open_source(str(path)) as source:
        return list(tf_records(source))


ONE, TWO = record(b"one"), record(b"")
LONG = b"x" * (1 << 16)
HEADER = b"", "damaged record: what follows it cannot be read"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (ONE + TWO + ONE, [(b"one", ""), (b"", ""), (b"one", "")]),
        (record(b"one", 5) + ONE, [(b"one", "damaged record"), (b"one", "")]),
        (record(LONG, 5) + ONE, [(LONG, "damaged record"), (b"one", "")]),
        (record(LONG + b"x", 5) + ONE, [(LONG + b"x", ""), (b"one", "")]),  # large ones are not checked
        (ONE + b"\1" + ONE, [(b"one", ""), HEADER]),
        (ONE + ONE[:11], [(b"one", ""), TORN]),
        (ONE + ONE[:12], [(b"one", ""), TORN]),
        (ONE + ONE[:-1], [(b"one", ""), TORN]),
        (struct.pack("<QI", 1 << 31, masked_crc32c(struct.pack("<Q", 1 << 31))), [HEADER]),  # too long
        (b"", []),
    ],
    ids=range(10),
)
def test_records_in_their_order(tmp_path: Path, data: bytes, expected: list[Record]) -> None:
    assert read(tmp_path, data) == expected


def test_the_first_record_of_the_head_of_a_file() -> None:
    assert is_tf_record(ONE) and is_tf_record(ONE[:12])
    assert not is_tf_record(ONE[:11]) and not is_tf_record(b"x" * 20)
    assert first_tf_record(ONE + TWO) == (b"one", 3)
    assert first_tf_record(ONE[:13]) == (b"o", 3)


# --- blocks -----------------------------------------------------------------------------------------------------------

FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
BLOCK = 1 << 15


def fragment(data: bytes, kind: int = FULL, checksum: int | None = None) -> bytes:
    crc = zlib.crc32(data, zlib.crc32(bytes([kind]))) if checksum is None else checksum
    return struct.pack("<IHB", crc, len(data), kind) + data


def blocks(folder: Path, data: bytes, header: int = 0) -> list[Record]:
    path = folder / "log"
    path.write_bytes(data)
    with open_source(str(path)) as source:
        return list(block_records(source, header))


START, END = fragment(b"a", FIRST), fragment(b"c", LAST)
FILLED = b"y" * (BLOCK - 7 - 7 - 3)  # with a fragment of three bytes before it, it fills a block


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (fragment(b"one") + fragment(b""), [(b"one", ""), (b"", "")]),
        (START + fragment(b"b", MIDDLE) + END + fragment(b"d"), [(b"abc", ""), (b"d", "")]),
        (fragment(b"one") + fragment(FILLED, FIRST) + fragment(b"end", LAST), [(b"one", ""), (FILLED + b"end", "")]),
        ((fragment(b"one")).ljust(BLOCK, b"\0") + fragment(b"two"), [(b"one", ""), (b"two", "")]),  # padding
        (fragment(b"one", checksum=5) + fragment(b"two"), [DAMAGED, (b"two", "")]),
        (fragment(b"one", 7) + fragment(b"two"), [DAMAGED, (b"two", "")]),
        # A record without its start is not read as one: its fragments are one fault
        (START + fragment(b"b", MIDDLE, 5) + END + fragment(b"d"), [DAMAGED, (b"d", "")]),
        (START + fragment(b"b", MIDDLE, 5) + fragment(b"b", MIDDLE) + END, [DAMAGED]),
        (fragment(b"b", MIDDLE) + END + fragment(b"d"), [DAMAGED, (b"d", "")]),
        (START + fragment(b"d") + END, [TORN, (b"d", ""), DAMAGED]),
        (START + START + END, [TORN, (b"ac", "")]),
        (fragment(b"one")[:-1], [TORN]),
        (fragment(b"one") + fragment(b"two")[:5], [(b"one", ""), TORN]),
        (START, [TORN]),
        (START + END[:-1], [TORN]),
        (START + END[:3], [TORN]),
        (b"", []),
    ],
    ids=range(17),
)  # fmt: skip
def test_records_of_fragments(tmp_path: Path, data: bytes, expected: list[Record]) -> None:
    assert blocks(tmp_path, data) == expected


def test_the_header_of_a_file_is_in_its_first_block(tmp_path: Path) -> None:
    data = (b"HEADER!" + fragment(b"one")).ljust(BLOCK, b"\0") + fragment(b"two")
    assert blocks(tmp_path, data, 7) == [(b"one", ""), (b"two", "")]


# --- the account ------------------------------------------------------------------------------------------------------


class Lengths(RecordFile):
    """Each record is read, if it is no `x`."""

    def add(self, data: bytes) -> tuple[str, str]:
        if data == b"x":
            raise ValueError("it is an x")
        self.count_figures("length", stored=len(data), unread=1)
        return "read", "record"


def test_each_record_is_in_the_account() -> None:
    found = Lengths(iter([(b"abc", ""), TORN, (b"x", ""), (b"de", "")]))
    assert found.count == 4
    assert found.warnings == ["record 2: torn record", "record 3 cannot be read: it is an x"]
    figures = found.account.figures_of("length", 9)
    assert (figures.stored, figures.unread) == (5, 2)
