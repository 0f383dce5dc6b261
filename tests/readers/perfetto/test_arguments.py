"""Arguments of events in Perfetto traces: which column takes them, which are values, which are dropped or unread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.history_files import field as wire
from support.perfetto_files import argument, interned, packet

from perflog.readers.events.event_columns import MISSING
from perflog.readers.events.event_table import EventAccount
from perflog.readers.events.string_interning import StringInterner, new_interners
from perflog.readers.perfetto.arguments import Arguments
from perflog.readers.perfetto.packets import PacketReader


def read(*events: bytes, before: bytes = b"") -> tuple[Arguments, dict[str, list[Any]]]:
    """The arguments of events, each given as its arguments, and the columns that they fill, strings decoded."""
    interners = new_interners() | {"argument": StringInterner(), "string": StringInterner()}
    found = Arguments(interners, EventAccount())
    data = before + b"".join(packet(wire(11, wire(9, 1) + given)) for given in events)
    reader = PacketReader(memoryview(data), "trace")
    for batch in reader.batches(interners):
        owner, tracked = batch.fields.messages(11)
        rows, notes = tracked.messages(4)
        found.add(rows, batch.generation[owner][rows], notes, reader, 5)
    columns = {
        name: [None if value in (-1, MISSING) else interners[name].texts[value] if name in interners else value
               for value in column.tolist()]
        for name, column in found.columns(len(events)).items()
    }  # fmt: skip
    return found, columns


def given(**values: Any) -> bytes:
    return b"".join(wire(4, argument(name, value)) for name, value in values.items())


def values(found: Arguments) -> list[tuple[int, str, float]]:
    texts = found.interners["key"].texts
    return [
        (row, texts[key], value)
        for rows, keys, numbers in found.others
        for row, key, value in zip(rows.tolist(), keys.tolist(), numbers.tolist(), strict=True)
    ]


def counts(found: Arguments) -> dict[str, tuple[int, int, int]]:
    return {name: (each.stored, each.dropped, each.unread) for name, each in found.account.figures.items()}


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("corr_id", "correlation"), ("Correlation", "correlation"), ("agent", "device"), ("device_id", "device"),
        ("stream", "stream"), ("copy_bytes", "bytes"), ("External id", "external"), ("flops", "flops"),
        ("group_segment_size", "shared_bytes"),
    ],
)  # fmt: skip
def test_a_column_takes_numbers_and_strings_of_digits(name: str, column: str) -> None:
    found, columns = read(given(**{name: 41}), b"", given(**{name: "42"}), given(**{name: "x"}), given(**{name: 0}))
    assert columns == {column: [41, None, 42, None, 0]}
    assert counts(found) == {name: (3, 0, 1)}
    assert found.account.figures[name].first == 5


@pytest.mark.parametrize("value", [-3, 2.5, ""])
def test_what_is_no_number_of_a_column(value: Any) -> None:
    found, columns = read(given(stream=value), given(stream=7))
    assert columns == {"stream": [None, 7]}
    assert counts(found) == {"stream": (1, 0, 1)}


def test_a_bool_and_a_pointer() -> None:
    name = wire(10, "stream")
    found, columns = read(
        wire(4, name + wire(2, 1)), wire(4, name + wire(3, 5)), wire(4, name + wire(7, 5)), wire(4, name)
    )
    assert columns == {"stream": [1, 5, None, None]}
    assert counts(found) == {"stream": (2, 0, 2)}


@pytest.mark.parametrize(("name", "column"), [("grid_size", "grid"), ("workgroup_size", "block"), ("Block", "block")])
def test_the_shape_of_a_launch_is_a_string(name: str, column: str) -> None:
    found, columns = read(given(**{name: "[8,1,1]"}), given(**{name: 256}), given(**{name: ""}), given(**{name: 256}))
    assert columns == {column: ["[8,1,1]", "256", None, "256"]}
    assert counts(found) == {name: (3, 0, 1)}


def test_other_numbers_are_values_by_name() -> None:
    found, columns = read(given(loss=2.5, step=3), given(loss=float("inf")), given(loss="high"), given(loss=-1))
    assert columns == {}
    assert sorted(values(found)) == [(0, "loss", 2.5), (0, "step", 3.0), (3, "loss", -1.0)]
    assert counts(found) == {"loss": (2, 0, 2), "step": (1, 0, 0)}


@pytest.mark.parametrize("name", ["begin_ns", "TID", "queue", "private_segment_size", "kind"])
def test_what_no_table_takes_is_dropped_for_a_reason(name: str) -> None:
    found, columns = read(given(**{name: 5}), given(**{name: "x"}))
    assert (columns, found.others) == ({}, [])
    assert counts(found) == {name: (0, 2, 0)}
    assert found.account.figures[name].because


def test_names_and_strings_may_be_given_by_number() -> None:
    tables = packet(interned(argument={1: "grid", 2: "loss"}, string={9: "[4,1,1]"}))

    def note(number: int, value: bytes) -> bytes:
        return wire(4, wire(1, number) + value)

    found, columns = read(
        note(1, wire(17, 9)), note(1, wire(17, 8)), note(2, wire(5, 0.5)), note(7, wire(4, 3)), before=tables
    )
    assert columns == {"grid": ["[4,1,1]", None, None, None]}
    assert values(found) == [(3, "argument without a name", 3.0), (2, "loss", 0.5)]
    assert counts(found)["grid"] == (1, 0, 1)


def test_the_last_of_several_values_counts() -> None:
    _, columns = read(given(stream=1) + given(stream=2))
    assert columns == {"stream": [2]}


def test_no_arguments_fill_no_columns() -> None:
    found, _ = read(b"")
    assert found.columns(3) == {}
    found.taken["stream"] = [(np.array([1]), np.array([7]))]
    assert found.columns(3)["stream"].tolist() == [MISSING, 7, MISSING]
