"""Arguments of events in Perfetto traces (debug annotations): those that columns take, dropped ones, and all others."""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Floats, Ints
from perflog.readers.events.event_columns import MISSING, distinct_values, rows_by_number
from perflog.readers.events.event_table import EventAccount
from perflog.readers.events.string_interning import Interners
from perflog.readers.events.timestamps import parse_integer
from perflog.readers.messages.message_columns import FieldColumns
from perflog.readers.messages.protobuf import BYTES, FIXED64, VARINT
from perflog.readers.perfetto.packets import PacketReader

_NAME_NUMBER, _BOOL, _UNSIGNED, _SIGNED, _REAL, _TEXT, _POINTER, _JSON, _NAME, _TEXT_NUMBER = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    9,
    10,
    17,
)
_PLAIN = (_BOOL, _UNSIGNED, _SIGNED, _REAL)

# By the names of rocprofv3, Kineto's and the usual ones; in lower case.
_NUMBERS = {
    **dict.fromkeys(("corr_id", "correlation_id", "correlation"), "correlation"),
    **dict.fromkeys(("agent", "device", "device_id"), "device"),
    **dict.fromkeys(("stream", "stream_id"), "stream"),
    **dict.fromkeys(("bytes", "copy_bytes"), "bytes"),
    **dict.fromkeys(("external id", "external_id"), "external"),
    "group_segment_size": "shared_bytes", "flops": "flops",
}  # fmt: skip
_TEXTS = {"workgroup_size": "block", "grid_size": "grid", "block": "block", "grid": "grid"}
_TIMES = "the times of the event, printed again"
_JOINS = "joins events of the profiler"
DROPPED = {
    **dict.fromkeys(("begin_ns", "end_ns", "delta_ns"), _TIMES),
    **dict.fromkeys(("ancestor_id", "stack_id", "parent_stack_id", "kernel_id", "thread_id"), _JOINS),
    **dict.fromkeys(("kind", "operation"), "number of what name and category say"),
    **dict.fromkeys(("tid", "agent_type", "queue", "src_agent", "dst_agent"), "the track of the event says it"),
    "private_segment_size": "detail of the launch, beyond grid, block and LDS",
}  # fmt: skip
"""Arguments that no table takes, each with the reason."""


class Arguments(Struct):
    """The arguments of events of one file.

    `taken`: by column the rows of the events, and the values: numbers, or codes of strings. `others`: row of the event,
    code of the name and value of each number that nobody declared.
    """

    interners: Interners
    account: EventAccount
    taken: dict[str, list[tuple[Ints, Ints]]] = field(default_factory=dict)
    others: list[tuple[Ints, Ints, Floats]] = field(default_factory=list)

    def add(self, rows: Ints, generation: Ints, notes: FieldColumns, reader: PacketReader, place: int) -> None:
        """Add arguments: the row and the generation of the event of each, and its fields.

        `place`: position of the first of these events in the file, for the account.
        """
        names = reader.texts_of(notes, _NAME_NUMBER, _NAME, generation, "argument", self.interners["argument"])
        form, value, size = self._values(notes)
        for code, chosen in rows_by_number(names.astype(np.int64)):
            name = self.interners["argument"].texts[code] if code >= 0 else "argument without a name"
            figures = self.account.figures_of(name, place, because=DROPPED.get(name.lower(), ""))
            column = _NUMBERS.get(name.lower()) or _TEXTS.get(name.lower())
            if column is None and name.lower() in DROPPED:
                figures.dropped += len(chosen)
                continue
            if column is not None:
                texts = [self._text(notes, reader, generation, form, value, size, i) for i in chosen[form[chosen] > 5]]
                numbers = self._column(column, form[chosen], value[chosen], texts)
                known = numbers != (-1 if column in _TEXTS.values() else MISSING)
                self.taken.setdefault(column, []).append((rows[chosen[known]], numbers[known]))
                figures.stored += int(known.sum())
                figures.unread += int((~known).sum())
                continue
            plain = np.isin(form[chosen], _PLAIN)
            at = chosen[plain]
            reals = np.where(form[at] == _REAL, value[at].view(np.float64), value[at].astype(np.float64))
            known = np.isfinite(reals)
            key = np.full(int(known.sum()), self.interners["key"].code(name), np.int64)
            self.others.append((rows[at[known]], key, reals[known]))
            figures.stored += len(key)
            figures.unread += len(chosen) - len(key)

    def columns(self, count: int) -> dict[str, Ints]:
        """Return the columns that arguments fill, for `count` events."""
        columns = {}
        for name, parts in self.taken.items():
            columns[name] = np.full(count, -1 if name in _TEXTS.values() else MISSING, np.int64)
            for rows, values in parts:
                columns[name][rows] = values
        return columns

    def _values(self, notes: FieldColumns) -> tuple[Ints, Ints, Ints]:
        """Return for each argument the number of the field with its value, the value, and the size of a string."""
        form, value, size = np.zeros((3, len(notes.damaged)), np.int64)
        wires = {
            VARINT: (_BOOL, _UNSIGNED, _SIGNED, _POINTER, _TEXT_NUMBER), FIXED64: (_REAL,), BYTES: (_TEXT, _JSON),
        }  # fmt: skip
        for wire, numbers in wires.items():
            chosen = (notes.wire == wire) & np.isin(notes.number, numbers)
            owner = notes.owner[chosen]
            form[owner], value[owner], size[owner] = notes.number[chosen], notes.value[chosen], notes.size[chosen]
        return form, value, size

    def _text(
        self, notes: FieldColumns, reader: PacketReader, generation: Ints, form: Ints, value: Ints, size: Ints,
        i: int,
    ) -> str:  # fmt: skip
        if form[i] == _TEXT:
            return notes.text_at(int(value[i]), int(value[i] + size[i]))
        if form[i] == _TEXT_NUMBER:
            code = int(reader.codes("string", generation[i : i + 1], value[i : i + 1])[0])
            return self.interners["string"].texts[code] if code >= 0 else ""
        return ""

    def _column(self, column: str, form: Ints, value: Ints, texts: list[str]) -> Ints:
        """Return the values of a column: numbers, or codes of strings."""
        plain, string_rows = form <= _SIGNED, np.flatnonzero(form > _REAL)
        if column in _TEXTS.values():
            codes = np.full(len(form), -1, np.int64)
            distinct, which = distinct_values(value[plain])
            code_of = self.interners[column].code
            codes[plain] = np.array([code_of(str(number)) for number in distinct.tolist()], np.int64)[which]
            codes[string_rows] = [code_of(text) if text else -1 for text in texts]
            return codes
        numbers = np.where(plain & (form > 0) & (value >= 0), value, MISSING)
        numbers[string_rows] = [parse_integer(text) for text in texts]
        return numbers
