"""Payloads of NVTX events in an export of Nsight Systems: numbers, JSON, and binary structs with a schema.

NCCL annotates its calls so: communicator, size of the message, number of ranks. An export holds these structs only if
it was made with `nsys export --include-blobs=true`.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perflog.arrays import Codes, Ints, Mask
from perflog.lazy_patterns import lazy_pattern
from perflog.readers.databases.sqlite import Database, columns_of, integers, reals
from perflog.readers.events.event_columns import MISSING, EventColumns
from perflog.readers.events.string_interning import Interners

if TYPE_CHECKING:
    import pyarrow as pa

PAYLOAD_TEXTS = ("payload_text", "payload_struct")
"""Columns of a query for events that are strings."""

Fields = dict[str, int | float | str]

_TABLE = "NVTX_EVENTS"
_INTEGERS = ("uint64Value", "int64Value", "uint32Value", "int32Value")
_REALS = ("doubleValue", "floatValue")
# Fields of NCCL's payloads that have a column in table `events` (nvtx_payload_schemas.h of NCCL).
SIZE, _PEER = "Message size [bytes]", "Peer rank"
RANK, RANKS = "Rank", "No. of ranks"
_COLUMN_OF_FIELD = {SIZE: "bytes", RANKS: "ranks", "NCCL communicator ID": "group"}

_HEADER = struct.Struct("<QQQQ")  # domain, schema, size of the payload, size of all
# Formats of the types of nvtxPayloadSchemaEntry_t (nvToolsExtPayload.h): C integers, sized integers, reals, size_t.
_FORMATS = dict(enumerate("bBhHiIqQqQbBhHiIqQfd", 1)) | {22: "Q"}
_NO_NAME = lazy_pattern(r"\W+", re.ASCII)


class PayloadReader:
    """Reads the payloads of NVTX events, each distinct string of a batch once."""

    def __init__(self, db: Database, interners: Interners) -> None:
        """Look up which columns hold payloads: depending on the version, others are missing, or null everywhere."""
        self.db, self.interners = db, interners
        self._texts = self._present("jsonText", "jsonTextId")
        has_column = "binaryData" in db.tables.get(_TABLE, ())
        self._has_structs = has_column and bool(self.schemas) and self._any("typeof(binaryData) = 'blob'")
        self._numbers = self._present(*_INTEGERS, *_REALS)

    def columns(self) -> dict[str, str]:
        """Return the columns that a query for events needs for their payloads, as SQL by name."""
        chosen = {}
        text = [f'"{name}"' for name in self._texts if name == "jsonText"]
        if "jsonTextId" in self._texts and "value" in self.db.tables.get("StringIds", ()):
            text.append('(SELECT value FROM StringIds WHERE id = "jsonTextId")')
        if text:
            chosen["payload_text"] = f"coalesce({', '.join(text)}, '')"
        if self._has_structs:
            chosen["payload_struct"] = "CASE WHEN typeof(binaryData) = 'blob' THEN hex(binaryData) ELSE '' END"
        for name, ways in (("payload_integer", _INTEGERS), ("payload_real", _REALS)):
            if present := [f'"{way}"' for way in ways if way in self._numbers]:
                chosen[name] = f"coalesce({', '.join(present)}, NULL)"
        return chosen

    def read(self, batch: pa.RecordBatch, rows: EventColumns) -> list[tuple[int, str, float | str]]:
        """Fill columns of events from their payloads; return the other fields by position and key, for `values`."""
        values = self._number_values(batch, rows["place"])
        for index, fields in self.fields(batch):
            rest = self.fill(rows, index, fields, rows["name"][index])
            values += [(place, _key(name), rest[name]) for name in rest for place in rows["place"][index].tolist()]
        return values

    def fill(self, rows: EventColumns, index: Ints, fields: Fields, names: Codes) -> Fields:
        """Fill columns of the events at these rows from one payload; return the fields that no column takes.

        `names`: for each of the events the code of the name of the range that has the payload.
        """
        rest = Fields()
        for name, value in fields.items():
            column = _COLUMN_OF_FIELD.get(name)
            if column == "group":
                _writable(rows, column, -1)[index] = self.interners["group"].code(str(value))
            elif column is not None and isinstance(value, int):
                _writable(rows, column, MISSING)[index] = value
            elif name == _PEER and isinstance(value, int):
                receives = self._named(names, "Recv")
                _writable(rows, "src_rank", MISSING)[index[receives]] = value
                _writable(rows, "dst_rank", MISSING)[index[~receives]] = value
            else:
                rest[name] = value
        if SIZE in fields:
            _writable(rows, "collective", -1)[index] = self._collectives(names)
        return rest

    def _named(self, names: Codes, word: str) -> Mask:
        """Return which names contain a word."""
        texts = self.interners["name"].texts
        return np.array([code >= 0 and word in texts[code] for code in names.tolist()], np.bool_)

    def _collectives(self, names: Codes) -> Codes:
        """Return the codes of the names of events as collectives."""
        texts, interner = self.interners["name"].texts, self.interners["collective"]
        return np.array([interner.code(texts[code]) if code >= 0 else -1 for code in names.tolist()], np.int32)

    def fields(self, batch: pa.RecordBatch, needed: str = "") -> list[tuple[Ints, Fields]]:
        """Return the distinct payloads of a batch that have a needed field, each with the rows that have it."""
        payloads: list[tuple[Ints, Fields]] = []
        columns, taken = columns_of(batch), np.zeros(batch.num_rows, np.bool_)
        for name, decode in (("payload_text", _decode_json), ("payload_struct", self._decode_struct)):
            if name not in columns:
                continue
            encoded = columns[name].dictionary_encode()
            codes = encoded.indices.to_numpy(zero_copy_only=False)
            order = np.argsort(codes, kind="stable")
            ends = np.searchsorted(codes[order], np.arange(len(encoded.dictionary)), "right")
            for text, index in zip(encoded.dictionary.to_pylist(), np.split(order, ends[:-1]), strict=True):
                index = index[~taken[index]]
                if text and len(index) and (fields := decode(text, needed)):
                    payloads.append((index, fields))
                    taken[index] = True
        return payloads

    @cached_property
    def schemas(self) -> dict[int, list[tuple[str, int, int]]]:
        """Fields of each schema: name, type and offset."""
        table = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
        columns = self.db.tables.get(table, ())
        if not {"schemaId", "name", "type", "offset"} <= set(columns):
            return {}
        schemas: dict[int, list[tuple[str, int, int]]] = {}
        for schema, name, kind, offset in self.db.rows(
            f'SELECT DISTINCT schemaId, name, "type", "offset" FROM {table}'
        ):
            if name:
                schemas.setdefault(schema, []).append((str(name), kind, offset or 0))
        return schemas

    @cached_property
    def _enums(self) -> dict[int, dict[int, str]]:
        """Names of the values of each enumeration, which is the type of some fields."""
        table = "NVTX_PAYLOAD_ENUM_ENTRIES"
        if not {"schemaId", "name", "value"} <= set(self.db.tables.get(table, ())):
            return {}
        enums: dict[int, dict[int, str]] = {}
        for schema, name, value in self.db.rows(f"SELECT schemaId, name, value FROM {table}"):
            enums.setdefault(schema, {})[value] = str(name)
        return enums

    def _decode_struct(self, text: str, needed: str) -> Fields:
        raw = bytes.fromhex(text)
        if len(raw) < _HEADER.size:
            return {}
        _, schema, size, _ = _HEADER.unpack_from(raw)
        payload, fields = raw[_HEADER.size : _HEADER.size + size], Fields()
        entries = self.schemas.get(schema & 0xFFFFFFFF, [])
        if needed and all(name != needed for name, _, _ in entries):
            return fields
        for name, kind, offset in entries:
            enum = self._enums.get(kind)
            code = "i" if enum is not None else _FORMATS.get(kind, "")
            if code and 0 <= offset <= len(payload) - struct.calcsize(code):
                (value,) = struct.unpack_from("<" + code, payload, offset)
                fields[name] = value if enum is None else enum.get(value, value)
        return fields

    def _number_values(self, batch: pa.RecordBatch, places: Ints) -> list[tuple[int, str, float | str]]:
        columns, values = columns_of(batch), []
        if "payload_integer" in columns:
            numbers = integers(columns["payload_integer"], batch.num_rows)
            known = numbers != MISSING
            values += list(zip(places[known].tolist(), numbers[known].tolist(), strict=True))
        if "payload_real" in columns:
            real = reals(columns["payload_real"], batch.num_rows)
            known = ~np.isnan(real)
            values += list(zip(places[known].tolist(), real[known].tolist(), strict=True))
        return [(place, "payload", number) for place, number in values]

    def _present(self, *names: str) -> list[str]:
        """Return which of these columns of the events exist and are not null everywhere."""
        columns = [name for name in names if name in self.db.tables.get(_TABLE, ())]
        if not columns:
            return []
        (known,) = self.db.rows(f"SELECT {', '.join(f'count({name})' for name in columns)} FROM {_TABLE}")
        return [name for name, count in zip(columns, known, strict=True) if count]

    def _any(self, condition: str) -> bool:
        """Return whether any event meets a condition, in SQL."""
        return bool(self.db.rows(f"SELECT 1 FROM {_TABLE} WHERE {condition} LIMIT 1"))


def _writable(rows: EventColumns, column: str, missing: int) -> npt.NDArray[Any]:
    """Return a column of rows that may be written, with `missing` everywhere if it is new."""
    if column not in rows:
        rows[column] = np.full(len(rows["place"]), missing, np.int64)
    elif not rows[column].flags.writeable:
        rows[column] = rows[column].copy()
    return rows[column]


def _decode_json(text: str, needed: str) -> Fields:
    if needed not in text:
        return {}
    try:
        value: Any = json.loads(text)
    except ValueError:
        return {}
    fields = Fields()
    _flatten("", value, fields)
    return fields


def _flatten(prefix: str, value: object, fields: Fields) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _flatten(f"{prefix}.{key}" if prefix else str(key), inner, fields)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            _flatten(f"{prefix}.{place}" if prefix else str(place), inner, fields)
    elif isinstance(value, int | float | str) and not isinstance(value, bool):
        fields[prefix or "payload"] = value


def _key(name: str) -> str:
    """Return the key of a field in table `values`: letters, digits and _, and dots between the levels."""
    return ".".join(_NO_NAME.sub("_", part).strip("_") or "unnamed" for part in name.split("."))
