"""Event files of TensorBoard: scalars and texts by step, of both generations of summaries.

A file is a list of TFRecords (length, masked CRC-32C, data, masked CRC-32C), each a protocol buffer `Event`. Sources of
the fields: tensorflow/core/util/event.proto, framework/summary.proto, framework/tensor.proto.
"""

from __future__ import annotations

import numpy as np

from perflog.errors import InputError
from perflog.parsing.input.source import Source
from perflog.readers.events.event_table import EventOrigin, RunWriter
from perflog.readers.interface import Reader, ReadOptions
from perflog.readers.messages.protobuf import WireError, fields, only, real, repeated, signed, text
from perflog.readers.odd_numbers import finite
from perflog.readers.rank_files import rank_of_file
from perflog.readers.trackers.record_files import RecordFile, first_tf_record, is_tf_record, tf_records
from perflog.readers.trackers.scalar_series import Scalar, step_rows, value_rows
from perflog.tables.sink import IngestResult, Sink

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


class TensorBoardReader(Reader):
    """Reads event files of TensorBoard."""

    name = "tensorboard"
    title = "event file of TensorBoard: scalars by step"
    source = "SummaryWriter of torch.utils.tensorboard, tensorboardX and tf.summary (events.out.tfevents.*)"

    def detect(self, source: Source) -> bool:
        """Return whether the file begins with a record that is an event."""
        head = source.first_bytes(1 << 12)
        if not is_tf_record(head):
            return False
        event, length = first_tf_record(head)
        return event[:1] == b"\x09" and (b"brain.Event" in event or len(event) < length or _is_event(event))

    def proof(self, source: Source) -> list[tuple[int, str, str]]:
        """Return the first event: the version of the file."""
        event, _ = first_tf_record(source.first_bytes(1 << 12))
        return [(1, "event", text(only(event).get(_FILE_VERSION)))]

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
        options.done(source)
        ingested.warnings += events.warnings
        return ingested


class EventFile(RecordFile):
    """The events of a file. `began`: time of the first, in seconds since 1970."""

    def __init__(self, source: Source) -> None:
        self.began: float | None = None
        self.version = ""
        super().__init__(tf_records(source))

    def add(self, data: bytes) -> tuple[str, str]:
        """Add an event."""
        event = only(data)
        wall_time = finite(real(event.get(_WALL_TIME, 0)))
        self.began = wall_time if self.began is None else self.began
        self.version = self.version or text(event.get(_FILE_VERSION))
        summary = event.get(_SUMMARY)
        if not isinstance(summary, bytes):
            return "context", next((name for number, name in _EVENT_KINDS.items() if number in event), "empty event")
        kinds = [self._add_value(value, signed(event.get(_STEP, 0)), wall_time) for value in repeated(summary, _VALUE)]
        unread = sorted({kind for kind in kinds if kind and kind not in _WITHOUT_FIGURES})
        for kind in unread:
            self.count_figures(kind, unread=kinds.count(kind))
        self.count_figures("scalars and texts", stored=kinds.count(""))
        status = "unread" if unread else "read" if "" in kinds else "context"
        return status, ", ".join(unread or sorted({*kinds} - {""}) or ["scalar"])

    def _add_value(self, message: bytes, step: int, wall_time: float | None) -> str:
        """Add a value of a summary. Return its kind if it is no scalar and no string."""
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
        elapsed = None if wall_time is None or self.began is None else finite(wall_time - self.began)
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


def _is_event(data: bytes) -> bool:
    try:
        return _WALL_TIME in only(data)
    except WireError:
        return False
