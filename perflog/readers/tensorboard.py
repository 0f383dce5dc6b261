"""Event files of TensorBoard: scalars and texts by step, of both generations of summaries.

A file is a list of TFRecords (length, masked CRC-32C, data, masked CRC-32C), each a protocol buffer `Event`. Sources of
the fields: tensorflow/core/util/event.proto, framework/summary.proto, framework/tensor.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing

import numpy as np

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.event_table import EventAccount, EventOrigin, RunWriter
from perflog.readers.interface import RankInfo, ReadOptions
from perflog.readers.protobuf import WireError, fields, only, real, repeated, signed, text
from perflog.readers.rank_files import rank_of_file
from perflog.readers.scalar_series import Scalar, step_rows, value_rows
from perflog.tables.sink import IngestResult, Sink

_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_LARGEST = 1 << 31  # bytes of a record: a longer one is none
_SMALL = 1 << 16  # bytes of a record whose checksum is computed; scalars are small, pictures and graphs are not read

# Event
_WALL_TIME, _STEP, _FILE_VERSION, _SUMMARY = 1, 2, 3, 5
_EVENT_KINDS = {3: "file version", 4: "graph", 6: "log message", 7: "session log", 8: "run metadata", 9: "meta graph"}
# Summary.Value
_VALUE, _TAG, _SIMPLE_VALUE, _TENSOR, _METADATA = 1, 1, 2, 8, 9
_VALUE_KINDS = {4: "image", 5: "histogram", 6: "audio"}
_WITHOUT_FIGURES = ("image", "audio", "hparams", "custom_scalars", "graph", "empty")
# TensorProto: type of the elements -> field of the values, and their type in `tensor_content`
_DTYPES = {
    1: (5, "<f4"), 2: (6, "<f8"), 3: (7, "<i4"), 4: (7, "<u1"), 5: (7, "<i2"), 6: (7, "<i1"), 9: (10, "<i8"),
    10: (11, "?"), 17: (7, "<u2"), 19: (13, "<f2"), 22: (16, "<u4"), 23: (17, "<u8"),
}  # fmt: skip
_STRING, _BFLOAT16 = 7, 14


class TensorBoardReader:
    """Reads event files of TensorBoard."""

    name = "tensorboard"
    title = "event file of TensorBoard: scalars by step"
    source = "SummaryWriter of torch.utils.tensorboard, tensorboardX and tf.summary (events.out.tfevents.*)"

    def detect(self, source: Source) -> bool:
        """Return whether the file begins with a record that is an event."""
        head = source.first_bytes(1 << 12)
        if len(head) < _HEADER.size or not _is_record_head(head):
            return False
        (length,) = struct.unpack_from("<Q", head)
        event = head[_HEADER.size : _HEADER.size + length]
        return event[:1] == b"\x09" and (b"brain.Event" in event or len(event) < length or _is_event(event))

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return the first event: the version of the file."""
        head = source.first_bytes(1 << 12)
        (length,) = struct.unpack_from("<Q", head)
        return [(1, "event", text(only(head[_HEADER.size : _HEADER.size + length]).get(_FILE_VERSION)))]

    def rank_info(self, source: Source) -> RankInfo | None:  # noqa: ARG002
        """Each file is a run of its own."""
        return None

    def read(self, source: Source, sink: Sink, options: ReadOptions) -> IngestResult:
        """Read a file into a sink."""
        with RunWriter(source.name, source.digest(), self.name, sink) as writer:
            events = EventFile(source)
            if not events.count:
                raise InputError("no events in this file", source.name, "the program wrote nothing yet")
            origin = EventOrigin(writer.run, 0, *rank_of_file(source.name))
            writer.write_dicts("values", value_rows(origin, events.scalars))
            steps = step_rows(origin, events.scalars, events.began)
            writer.write_dicts("steps", steps)
            writer.write_account(0, events.account)
            config = {"clock": "epoch", "started": events.began, "file_version": events.version}
            elapsed = max((s.elapsed for s in events.scalars if s.elapsed is not None), default=None)
            ingested = writer.write_run(options.label, events.count, config, elapsed_s=elapsed)
        if options.progress is not None:
            options.progress(source.size())
        ingested.warnings += events.warnings
        return ingested


class EventFile:
    """The events of a file. `began`: time of the first, in seconds since 1970."""

    def __init__(self, source: Source) -> None:
        self.scalars: list[Scalar] = []
        self.account = EventAccount()
        self.warnings: list[str] = []
        self.count = 0
        self.began: float | None = None
        self.version = ""
        for data, fault in _records(source):
            self.count += 1
            if fault:
                self.account.add("unread", fault, 1, self.count)
                self.warnings.append(f"record {self.count}: {fault}")
                continue
            try:
                self._add(data)
            except WireError as error:
                self.account.add("unread", "damaged event", 1, self.count)
                self.warnings.append(f"record {self.count} is no event: {error}")

    def _add(self, data: bytes) -> None:
        event = only(data)
        wall_time = real(event.get(_WALL_TIME, 0))
        self.began = wall_time if self.began is None else self.began
        self.version = self.version or text(event.get(_FILE_VERSION))
        summary = event.get(_SUMMARY)
        if not isinstance(summary, bytes):
            kind = next((name for number, name in _EVENT_KINDS.items() if number in event), "empty event")
            self.account.add("context", kind, 1, self.count)
            return
        kinds = {self._add_value(value, signed(event.get(_STEP, 0)), wall_time) for value in repeated(summary, _VALUE)}
        unread = sorted(kind for kind in kinds if kind and kind not in _WITHOUT_FIGURES)
        status = "unread" if unread else "read" if "" in kinds else "context"
        self.account.add(status, ", ".join(unread or sorted(kinds - {""}) or ["scalar"]), 1, self.count)

    def _add_value(self, message: bytes, step: int, wall_time: float) -> str:
        """Add a value of a summary. Return its kind if it is no scalar and no text."""
        value = only(message)
        number: float | str | None = None
        if _SIMPLE_VALUE in value:
            number = real(value[_SIMPLE_VALUE])
        elif isinstance(tensor := value.get(_TENSOR), bytes):
            number = _scalar_of_tensor(tensor)
        plugin = _plugin(value.get(_METADATA))
        if number is None or plugin in _WITHOUT_FIGURES:
            named = next((name for field, name in _VALUE_KINDS.items() if field in value), "")
            return named or plugin or ("tensor" if _TENSOR in value else "empty")
        elapsed = wall_time - self.began if self.began is not None else None
        self.scalars.append(Scalar(self.count, step, text(value.get(_TAG)), number, elapsed))
        return ""


def _plugin(metadata: bytes | int | None) -> str:
    """Return the name of the plug-in that shows a value."""
    data = only(metadata).get(1) if isinstance(metadata, bytes) else None
    return text(only(data).get(1)) if isinstance(data, bytes) else ""


def _scalar_of_tensor(message: bytes) -> float | str | None:
    """Return the element of a tensor that has only one; None for any other tensor."""
    tensor = only(message)
    dtype = tensor.get(1)
    if dtype == _STRING:
        texts = repeated(message, 8)
        return text(texts[0]) if len(texts) == 1 else None
    shape = tensor.get(2)
    sizes = [signed(only(dim).get(1, 0)) for dim in repeated(shape, 2)] if isinstance(shape, bytes) else []
    if any(size != 1 for size in sizes):
        return None
    content = tensor.get(4)
    if isinstance(content, bytes) and content:
        return _element(dtype, content)
    if dtype == _BFLOAT16:
        return _bfloat16(_integer(message, 13))
    if dtype not in _DTYPES:
        return None
    number, form = _DTYPES[dtype]
    if dtype in (1, 2):
        value = next((v for key, _, v in fields(message) if key == number), b"")
        return real(value) if isinstance(value, bytes) and value else 0.0
    integer = _integer(message, number)
    return float(np.array([integer], np.uint16).view(np.float16)[0]) if form == "<f2" else float(integer)


def _integer(message: bytes, number: int) -> int:
    """Return the first integer of a repeated field, packed or not; 0 is not written."""
    for key, wire, value in fields(message):
        if key == number:
            packed = isinstance(value, bytes) and wire == 2
            return (
                signed(next(iter(fields(b"\x08" + value)))[2]) if packed and isinstance(value, bytes) else signed(value)
            )
    return 0


def _element(dtype: bytes | int | None, content: bytes) -> float | None:
    if dtype == _BFLOAT16:
        return _bfloat16(int.from_bytes(content, "little"))
    if dtype not in _DTYPES or not isinstance(dtype, int):
        return None
    values = np.frombuffer(content, _DTYPES[dtype][1])
    return float(values[0]) if len(values) == 1 else None


def _bfloat16(bits: int) -> float:
    return real((bits << 16 & 0xFFFFFFFF).to_bytes(4, "little"))


# --- records ------------------------------------------------------------------------------------------------------


def _records(source: Source) -> Iterator[tuple[bytes, str]]:
    """Give the data of each record, with its fault or ""."""
    with closing(source.stream()) as stream:

        def take(count: int) -> bytes:
            block = bytearray(count)
            return bytes(block[: stream.fill(memoryview(block))])

        while header := take(_HEADER.size):
            if len(header) < _HEADER.size:
                yield b"", "torn record"
                return
            if not _is_record_head(header):
                yield b"", "damaged record: what follows it cannot be read"
                return
            (length,) = struct.unpack_from("<Q", header)
            data, footer = take(length), take(_FOOTER.size)
            if len(footer) < _FOOTER.size:
                yield b"", "torn record"
                return
            damaged = length <= _SMALL and masked_crc32c(data) != _FOOTER.unpack(footer)[0]
            yield data, "damaged record" if damaged else ""


def _is_record_head(head: bytes) -> bool:
    length, checksum = _HEADER.unpack_from(head)
    return bool(length < _LARGEST and masked_crc32c(head[:8]) == checksum)


def _is_event(data: bytes) -> bool:
    try:
        return _WALL_TIME in only(data)
    except WireError:
        return False


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
