"""Files of records, one after the other: TFRecords, and the blocks of LevelDB's logs, with their checksums.

A record is data and its fault, or "". A reader of such a file derives from `RecordFile`, which counts all records.
"""

from __future__ import annotations

import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing

from perflog.parsing.input.source import Source
from perflog.readers.events.event_table import EventAccount
from perflog.readers.trackers.scalar_series import Scalar

Record = tuple[bytes, str]
"""The data of a record, and its fault, or ""."""

_TORN, _DAMAGED = (b"", "torn record"), (b"", "damaged record")

_TF_HEADER, _TF_FOOTER = struct.Struct("<QI"), struct.Struct("<I")
_LARGEST = 1 << 31  # bytes of a record: a longer one is no record
_SMALL = 1 << 16  # bytes of a record up to which its checksum is computed; larger pictures and graphs are not read

_BLOCK = 1 << 15
_FRAGMENT = struct.Struct("<IHB")  # checksum, length, type
_CUT, _DAMAGED_FRAGMENT, _FULL, _FIRST, _MIDDLE, _LAST = range(-1, 5)
_CRC_OF_TYPE = {kind: zlib.crc32(bytes([kind])) for kind in (_FULL, _FIRST, _MIDDLE, _LAST)}


class RecordFile(ABC):
    """The records of a file: scalars by step, the account of records and of their figures, warnings."""

    def __init__(self, records: Iterator[Record]) -> None:
        self.scalars: list[Scalar] = []
        self.account = EventAccount()
        self.warnings: list[str] = []
        self.count = 0
        for data, fault in records:
            self.count += 1
            if fault:
                self.account.add("unread", fault, 1, self.count)
                self.warnings.append(f"record {self.count}: {fault}")
                continue
            try:
                status, shape = self.add(data)
            except ValueError as error:  # also if the data is no message
                status, shape = "unread", "damaged record"
                self.warnings.append(f"record {self.count} cannot be read: {error}")
            self.account.add(status, shape, 1, self.count)

    @abstractmethod
    def add(self, data: bytes) -> tuple[str, str]:
        """Add a record. Return its status and its shape, for the account."""

    def count_figures(self, name: str, stored: int = 0, unread: int = 0) -> None:
        """Count figures of the record that is added."""
        if stored or unread:
            figures = self.account.figures_of(name, self.count)
            figures.stored += stored
            figures.unread += unread


def tf_records(source: Source) -> Iterator[Record]:
    """Give the TFRecords of a file: length, masked CRC-32C of it, data, masked CRC-32C of the data."""
    with closing(source.stream()) as stream:

        def take(count: int) -> bytes:
            block = bytearray(count)
            return bytes(block[: stream.fill(memoryview(block))])

        while header := take(_TF_HEADER.size):
            if len(header) < _TF_HEADER.size:
                yield _TORN
                return
            if not is_tf_record(header):
                yield b"", "damaged record: what follows it cannot be read"
                return
            (length,) = struct.unpack_from("<Q", header)
            data, footer = take(length), take(_TF_FOOTER.size)
            if len(footer) < _TF_FOOTER.size:
                yield _TORN
                return
            damaged = length <= _SMALL and masked_crc32c(data) != _TF_FOOTER.unpack(footer)[0]
            yield data, "damaged record" if damaged else ""


def is_tf_record(head: bytes) -> bool:
    """Return whether bytes begin with the header of a TFRecord."""
    if len(head) < _TF_HEADER.size:
        return False
    length, checksum = _TF_HEADER.unpack_from(head)
    return bool(length < _LARGEST and masked_crc32c(head[:8]) == checksum)


def first_tf_record(head: bytes) -> tuple[bytes, int]:
    """Return the data of the first record, as far as the bytes have it, and its length."""
    (length,) = struct.unpack_from("<Q", head)
    return head[_TF_HEADER.size : _TF_HEADER.size + length], length


def block_records(source: Source, header: int) -> Iterator[Record]:
    """Give the records of a log in the format of LevelDB: fragments in blocks of 32 KiB, after a header of the file.

    A record without its start, or with a damaged fragment, is one damaged record.

    Args:
        source: the file.
        header: length of the header in bytes.
    """
    parts: list[bytes] = []  # of the record that has begun
    is_lost = False  # whether the record of the next fragment is known as damaged
    for kind, data in _fragments(source, header):
        if kind == _CUT:  # with or without a record before it
            parts = [data]
            break
        if kind in (_FULL, _FIRST):
            if parts:
                yield _TORN
            parts, is_lost = [data], False
        elif kind == _DAMAGED_FRAGMENT or not parts:
            if kind == _DAMAGED_FRAGMENT or not is_lost:
                yield _DAMAGED
            parts, is_lost = [], True
        else:
            parts.append(data)
        if parts and kind in (_FULL, _LAST):
            yield b"".join(parts), ""
            parts = []
    if parts:
        yield _TORN


def _fragments(source: Source, header: int) -> Iterator[tuple[int, bytes]]:
    """Give the type and the data of each fragment."""
    with closing(source.stream()) as stream:
        block, skip = memoryview(bytearray(_BLOCK)), header
        while size := stream.fill(block):
            place, skip = skip, 0
            while place + _FRAGMENT.size <= size:
                checksum, length, kind = _FRAGMENT.unpack_from(block, place)
                if not kind and not length:
                    break  # padding up to the end of the block
                data = bytes(block[place + _FRAGMENT.size : place + _FRAGMENT.size + length])
                place += _FRAGMENT.size + length
                if place > size:
                    yield _CUT, b""
                    return
                is_whole = kind in _CRC_OF_TYPE and zlib.crc32(data, _CRC_OF_TYPE[kind]) == checksum
                yield (kind, data) if is_whole else (_DAMAGED_FRAGMENT, b"")
            if size < _BLOCK and place < size:
                yield _CUT, b""
                return


# --- the checksum of TFRecords ---------------------------------------------------------------------------------------


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_CRC_TABLE = _crc_table()


def masked_crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of data, masked as TFRecords are."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF
