"""Payloads of NVTX events: numbers, JSON and structs as columns of events and as values."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.nsys_files import DOMAINS, STRINGS, TEXTS, TID, Row, call, kernel, nvtx, rows, write_tables

import perflog
from perflog.parsing.input.source import Source
from perflog.readers.databases.sqlite import Database
from perflog.readers.events.event_columns import MISSING, EventColumns
from perflog.readers.events.string_interning import Interners, new_interners
from perflog.readers.nsys.payloads import PayloadReader


def read(
    path: Path, events: list[Row], names: list[str] | None = None, **tables: list[Row]
) -> tuple[EventColumns, list[tuple[int, str, Any]], Interners]:
    """Columns of events filled from their payloads, the other fields, and the strings."""
    (path / "export.sqlite").unlink(missing_ok=True)
    file = write_tables(path / "export.sqlite", {"NVTX_EVENTS": events} | tables)
    db, interners = Database(str(file), Source("export.sqlite", str(file))), new_interners()
    try:
        reader = PayloadReader(db, interners)
        columns = reader.columns()
        selected = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        found = db.rows(f"SELECT {selected} FROM NVTX_EVENTS") if columns else []
        arrays = {name: pa.array([row[at] for row in found]) for at, name in enumerate(columns)}
        rows: EventColumns = {"place": np.arange(1, len(events) + 1)}
        texts = names or [f"range {k}" for k in range(len(events))]
        rows["name"] = np.array([interners["name"].code(text) for text in texts], np.int32)
        values = reader.read(pa.record_batch(arrays), rows) if arrays else []
    finally:
        db.close()
    return rows, values, interners


def shown(column: Any, texts: list[str] | None = None) -> list[Any]:
    return [None if value in (-1, MISSING) else value if texts is None else texts[value] for value in column.tolist()]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"uint64Value": 7}, [(1, "payload", 7)]),
        ({"int32Value": -7}, [(1, "payload", -7)]),
        ({"doubleValue": 2.5}, [(1, "payload", 2.5)]),
        ({"int64Value": 7, "floatValue": 0.5}, [(1, "payload", 7), (1, "payload", 0.5)]),
        ({"jsonText": '{"loss": 2.5, "name": "a", "ok": true, "none": null}'}, [(1, "loss", 2.5), (1, "name", "a")]),
        ({"jsonText": '{"a b": {"c-d": [1, 2]}}'}, [(1, "a_b.c_d.0", 1), (1, "a_b.c_d.1", 2)]),
        ({"jsonText": "[5, [6]]"}, [(1, "0", 5), (1, "1.0", 6)]),
        ({"jsonText": "5"}, [(1, "payload", 5)]),
        ({"jsonText": '{"--": 5}'}, [(1, "unnamed", 5)]),
        ({"jsonText": "no JSON"}, []),
        ({"jsonText": ""}, []),
        ({"text": "a"}, []),
    ],
)
def test_fields_that_no_column_takes_are_values(tmp_path: Path, given: Row, expected: list[Any]) -> None:
    assert read(tmp_path, [given])[1] == expected


def test_each_event_with_a_payload_has_its_values(tmp_path: Path) -> None:
    texts = ['{"a": 1}', None, '{"a": 1}', '{"a": 2}']
    events = [{"jsonText": text, "uint64Value": at or None} for at, text in enumerate(texts)]
    assert sorted(read(tmp_path, events)[1]) == [
        (1, "a", 1), (2, "payload", 1), (3, "a", 1), (3, "payload", 2), (4, "a", 2), (4, "payload", 3)
    ]  # fmt: skip


def test_json_may_be_given_by_number(tmp_path: Path) -> None:
    texts = ((None, 4), ('{"a": 2}', 4), (None, 5))
    events: list[Row] = [{"jsonText": text, "jsonTextId": number} for text, number in texts]
    assert sorted(read(tmp_path, events, StringIds=[{"id": 4, "value": '{"a": 1}'}])[1]) == [(1, "a", 1), (2, "a", 2)]
    assert read(tmp_path, events)[1] == [(2, "a", 2)]


NCCL = {"Message size [bytes]": 4096, "No. of ranks": 8, "NCCL communicator ID": 77}


def test_fields_of_nccl_are_columns(tmp_path: Path) -> None:
    events = [{"jsonText": json.dumps(NCCL | {"Rank": 3})}, {"jsonText": '{"x": 1}'}, {"jsonText": json.dumps(NCCL)}]
    rows, values, interners = read(tmp_path, events, ["ncclAllReduce", "other", "ncclBroadcast"])
    assert (shown(rows["bytes"]), shown(rows["ranks"])) == ([4096, None, 4096], [8, None, 8])
    assert shown(rows["group"], interners["group"].texts) == ["77", None, "77"]
    assert shown(rows["collective"], interners["collective"].texts) == ["ncclAllReduce", None, "ncclBroadcast"]
    assert sorted(values) == [(1, "Rank", 3), (2, "x", 1)]


def test_the_peer_of_a_message_is_its_source_or_target(tmp_path: Path) -> None:
    events = [{"jsonText": json.dumps({"Message size [bytes]": 8, "Peer rank": 5})}] * 2
    rows, values, _ = read(tmp_path, events, ["ncclSend", "ncclRecv"])
    assert (shown(rows["src_rank"]), shown(rows["dst_rank"])) == ([None, 5], [5, None])
    assert values == []


def test_a_size_that_is_no_integer_is_a_value(tmp_path: Path) -> None:
    rows, values, _ = read(tmp_path, [{"jsonText": '{"Message size [bytes]": "large", "Peer rank": 1.5}'}])
    assert {"bytes", "src_rank", "dst_rank"}.isdisjoint(rows)
    assert values == [(1, "Message_size_bytes", "large"), (1, "Peer_rank", 1.5)]


# --- structs --------------------------------------------------------------------------------------------------------


def packed(schema: int, payload: bytes, size: int | None = None) -> bytes:
    return struct.pack("<QQQQ", 0, schema, len(payload) if size is None else size, 0) + payload


def entries(*fields: tuple[str | None, int, int | None]) -> list[Row]:
    return [{"schemaId": 9, "name": name, "type": kind, "offset": offset} for name, kind, offset in fields]


INT, UINT64, DOUBLE = 5, 18, 20
"""Types of NVTX's payloads: int, uint64, double, by the position of their letter in `bBhHiIqQqQbBhHiIqQfd`."""


def test_a_struct_has_the_fields_of_its_schema(tmp_path: Path) -> None:
    schema = entries(("count", INT, None), ("Message size [bytes]", UINT64, 8), ("share", DOUBLE, 16), (None, INT, 0))
    payload = struct.pack("<iiQd", -3, 0, 4096, 0.5)
    rows, values, _ = read(tmp_path, [{"binaryData": packed(9, payload)}], NVTX_PAYLOAD_SCHEMA_ENTRIES=schema)
    assert (shown(rows["bytes"]), values) == ([4096], [(1, "count", -3), (1, "share", 0.5)])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (packed(9, struct.pack("<ii", 5, 6)), [("a", 5), ("b", 6)]),
        (packed(9 + (1 << 32), struct.pack("<ii", 5, 6)), [("a", 5), ("b", 6)]),  # the upper bits are no number
        (packed(9, struct.pack("<ii", 5, 6), 7), [("a", 5)]),  # the second field is cut
        (packed(9, struct.pack("<i", 5)), [("a", 5)]),
        (packed(9, b""), []),
        (packed(8, struct.pack("<ii", 5, 6)), []),  # another schema
        (packed(9, b"")[:-1], []),
    ],
)
def test_a_struct_that_is_cut_has_the_fields_before_its_end(tmp_path: Path, data: bytes, expected: list[Any]) -> None:
    schema = entries(("a", INT, 0), ("b", INT, 4), ("odd", 99, 0), ("before", INT, -4))
    _, values, _ = read(tmp_path, [{"binaryData": data}], NVTX_PAYLOAD_SCHEMA_ENTRIES=schema)
    assert [(key, value) for _, key, value in values] == expected


def test_the_type_of_a_field_may_be_an_enumeration(tmp_path: Path) -> None:
    schema, names = entries(("op", 200, 0)), [{"schemaId": 200, "name": "sum", "value": 0}]
    events = [{"binaryData": packed(9, struct.pack("<i", value))} for value in (0, 1)]
    _, values, _ = read(tmp_path, events, NVTX_PAYLOAD_SCHEMA_ENTRIES=schema, NVTX_PAYLOAD_ENUM_ENTRIES=names)
    assert sorted(values) == [(1, "op", "sum"), (2, "op", 1)]


def test_bytes_without_a_schema_are_not_read(tmp_path: Path) -> None:
    assert read(tmp_path, [{"binaryData": packed(9, bytes(8))}])[1] == []
    schema = entries(("a", INT, 0))
    assert read(tmp_path, [{"binaryData": "text"}], NVTX_PAYLOAD_SCHEMA_ENTRIES=schema)[1] == []


def test_only_payloads_with_a_needed_field(tmp_path: Path) -> None:
    file = write_tables(tmp_path / "export.sqlite", {
        "NVTX_EVENTS": [{"binaryData": packed(9, bytes(4)), "jsonText": None}],
        "NVTX_PAYLOAD_SCHEMA_ENTRIES": entries(("a", INT, 0)),
    })  # fmt: skip
    db = Database(str(file), Source("export.sqlite", str(file)))
    try:
        reader = PayloadReader(db, new_interners())
        data = packed(9, struct.pack("<i", 5)).hex()
        batch = pa.record_batch({"payload_text": ['{"a": 1}', '{"b": 1}', ""], "payload_struct": ["", "", data]})
        found = {name: [(index.tolist(), fields) for index, fields in reader.fields(batch, name)] for name in "ab"}
    finally:
        db.close()
    assert found == {"a": [([0], {"a": 1}), ([2], {"a": 5})], "b": [([1], {"b": 1})]}


# --- as columns of the events of a log ---


def check_nccl(log: perflog.Log) -> None:
    (init, reduce, send) = rows(log)
    assert (init["ranks"], init["group"], init["bytes"], init["collective"]) == (16, "18446744073709551615", None, None)
    assert (reduce["bytes"], reduce["collective"], reduce["group"]) == (1 << 33, "ncclAllReduce", "77")
    assert (send["bytes"], send["collective"], send["group"]) == (4096, "ncclSend", "77")
    assert (send["dst_rank"], send["src_rank"]) == (3, None)
    values = [(r["line"], r["key"], r["value"], r["text"]) for r in rows(log, "values")]
    assert values == [
        (3, "Rank", 5.0, None), (3, "CUDA_device", 1.0, None), (4, "Reduction_operation", None, "Sum"),
    ]  # fmt: skip
    assert {(r["rank"], r["rank_by"]) for r in rows(log)} == {(5, "process")}


def test_payloads_of_nccl_as_json(tmp_path: Path) -> None:
    payloads = [
        {"NCCL communicator ID": (1 << 64) - 1, "No. of ranks": 16, "Rank": 5, "CUDA device": 1},
        {"NCCL communicator ID": 77, "Message size [bytes]": 1 << 33, "Reduction operation": "Sum"},
        {"NCCL communicator ID": 77, "Message size [bytes]": 4096, "Peer rank": 3},
    ]
    names = ("ncclCommInitRank", "ncclAllReduce", "ncclSend")
    ranges = [
        nvtx(n, n + 1, text=name, domainId=1, jsonText=json.dumps(payload))
        for n, (name, payload) in enumerate(zip(names, payloads, strict=True))
    ]
    domains = [domain | {"jsonText": None} for domain in DOMAINS]
    check_nccl(perflog.read(write_tables(tmp_path / "j.sqlite", {"StringIds": TEXTS, "NVTX_EVENTS": domains + ranges})))


def test_sizes_of_messages_are_those_of_the_kernels(tmp_path: Path) -> None:
    """By the call that launched a kernel, on its thread. A group launches behind the ranges: its kernel has no size."""
    payload = {"NCCL communicator ID": 77, "Message size [bytes]": 1 << 33}
    ranges = [
        nvtx(10, 20, text="ncclAllReduce", domainId=1, jsonText=json.dumps(payload)),
        nvtx(30, 40, text="ncclSend", domainId=1, jsonText=json.dumps(payload | {"Peer rank": 3})),
        nvtx(45, 60, text="ncclGroupEnd", domainId=1, jsonText=None),
        nvtx(10, 20, text="ncclBroadcast", domainId=1, jsonText=json.dumps(payload), globalTid=TID + 1),
    ]
    tables: dict[str, list[Row]] = {
        "StringIds": STRINGS,
        "NVTX_EVENTS": ranges,
        "CUPTI_ACTIVITY_KIND_RUNTIME": [call(12, 13, 1), call(35, 36, 2), call(50, 51, 3), call(70, 71, 4)],
        "CUPTI_ACTIVITY_KIND_KERNEL": [kernel(100 * n, 100 * n + 9, correlationId=n) for n in (1, 2, 3, 4)],
    }
    events = rows(perflog.read(write_tables(tmp_path / "n.sqlite", tables)))
    columns = ("bytes", "collective", "group", "dst_rank", "range")
    assert [tuple(r[c] for c in columns) for r in events if r["kind"] == "kernel"] == [
        (1 << 33, "ncclAllReduce", "77", None, "ncclAllReduce"),
        (1 << 33, "ncclSend", "77", 3, "ncclSend"),
        (None, None, None, None, "ncclGroupEnd"),
        (None, None, None, None, None),
    ]


def test_payloads_of_nccl_as_structs(tmp_path: Path) -> None:
    """As `nsys export --include-blobs=true` writes them, with their schemas."""
    fields = {
        100: [("NCCL communicator ID", 18, None), ("No. of ranks", 5, 8), ("Rank", 5, 12), ("CUDA device", 5, 16)],
        101: [("NCCL communicator ID", 18, None), ("Message size [bytes]", 22, 8), ("Reduction operation", 900, 16)],
        102: [("NCCL communicator ID", 18, None), ("Message size [bytes]", 22, 8), ("Peer rank", 5, 16)],
    }
    payloads = [
        (100, struct.pack("<Qiiii", (1 << 64) - 1, 16, 5, 1, 0)),
        (101, struct.pack("<QQii", 77, 1 << 33, 0, 0)),
        (102, struct.pack("<QQii", 77, 4096, 3, 0)),
    ]
    names = ("ncclCommInitRank", "ncclAllReduce", "ncclSend")
    ranges = [
        nvtx(n, n + 1, text=name, domainId=1,
             binaryData=struct.pack("<IIIIQQ", 1, 0, schema, 0, len(raw), 32 + len(raw)) + raw)
        for n, (name, (schema, raw)) in enumerate(zip(names, payloads, strict=True))
    ]  # fmt: skip
    tables: dict[str, list[Row]] = {
        "StringIds": TEXTS,
        "NVTX_PAYLOAD_SCHEMAS": [{"domainId": 1, "schemaId": n, "payloadSize": 24} for n in fields],
        "NVTX_PAYLOAD_SCHEMA_ENTRIES": [
            {"domainId": 1, "schemaId": n, "idx": k, "type": kind, "name": name, "offset": offset}
            for n, of_schema in fields.items()
            for k, (name, kind, offset) in enumerate(of_schema)
        ],
        "NVTX_PAYLOAD_ENUM_ENTRIES": [{"domainId": 1, "schemaId": 900, "idx": 0, "name": "Sum", "value": 0}],
        "NVTX_EVENTS": [domain | {"binaryData": None} for domain in DOMAINS] + ranges,
    }
    check_nccl(perflog.read(write_tables(tmp_path / "b.sqlite", tables)))


def test_a_number_as_payload(tmp_path: Path) -> None:
    ranges = [
        nvtx(1, 2, text="tokens", int64Value=4096, doubleValue=None),
        nvtx(3, 4, text="loss", int64Value=None, doubleValue=2.5),
        nvtx(5, 6, text="none", int64Value=None, doubleValue=None),
    ]
    log = perflog.read(write_tables(tmp_path / "n.sqlite", {"NVTX_EVENTS": ranges}))
    assert [(r["line"], r["key"], r["value"]) for r in rows(log, "values")] == [
        (1, "payload", 4096),
        (2, "payload", 2.5),
    ]
