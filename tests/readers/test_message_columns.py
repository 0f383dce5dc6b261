"""Fields of messages as columns are those that are read one by one, also of damaged messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cost import calls
from support.examples import examples
from support.history_files import field, single, varint

from perflog.readers.messages.message_columns import FieldColumns, fields_of, message_batches, outline, padded
from perflog.readers.messages.protobuf import BYTES, WireError, fields

NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 1, 127, 128, 2**56 - 1, 2**56, 2**63, 2**64 - 1])
)
VALUES = st.one_of(NUMBERS, st.floats(allow_nan=False), st.binary(max_size=300))
FIELDS = st.lists(st.tuples(st.integers(1, 2**20), VALUES, st.booleans()), max_size=8)

Drawn = list[tuple[int, int | float | bytes, bool]]


def written(drawn: Drawn) -> bytes:
    return b"".join(
        single(number, 0.5) if short and isinstance(value, float) else field(number, value)
        for number, value, short in drawn
    )


def in_columns(found: FieldColumns, index: int) -> list[tuple[int, int, bytes | int]]:
    rows = np.flatnonzero(found.owner == index).tolist()
    return [
        (
            int(found.number[row]),
            int(found.wire[row]),
            found.bytes_at(int(found.value[row]), int(found.value[row] + found.size[row]))
            if found.wire[row] == BYTES
            else int(found.value[row]) & 0xFFFFFFFFFFFFFFFF,
        )
        for row in rows
    ]


def one_by_one(message: bytes) -> tuple[list[tuple[int, int, bytes | int]], bool]:
    """The fields up to the first damage, and whether there is any."""
    found = []
    try:
        for number, wire, value in fields(message):
            if wire != BYTES and isinstance(value, bytes):
                value = int.from_bytes(value, "little")
            found.append((number, wire, value))
    except WireError:
        return found, True
    return found, False


@pytest.mark.parametrize("few", [2, 256])
@examples(300)
@given(drawn=st.lists(FIELDS, min_size=1, max_size=6), data=st.data())
def test_columns_hold_the_same_fields(few: int, drawn: list[Drawn], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("perflog.readers.messages.message_columns._FEW", few)
        check_columns(drawn, data)


def check_columns(drawn: list[Drawn], data: st.DataObject) -> None:
    messages = [written(of_message) for of_message in drawn]
    if data.draw(st.booleans()) and messages[0]:  # one is damaged
        place = data.draw(st.integers(0, len(messages[0]) - 1))
        messages[0] = messages[0][:place] + data.draw(st.binary(max_size=3))
    joined = b"".join(messages)
    ends = np.cumsum([len(message) for message in messages])
    found = fields_of(padded(joined, 0, len(joined)), ends - [len(message) for message in messages], ends)
    for index, message in enumerate(messages):
        expected, damaged = one_by_one(message)
        # A field of number 0 or of more than 29 bits is none, which the one reader finds and the other does not.
        if all(0 < number < 1 << 29 for number, _, _ in expected):
            assert in_columns(found, index) == expected
            assert found.damaged[index] == damaged


@examples(100)
@given(FIELDS)
def test_an_outline_has_the_places_of_all_fields(drawn: Drawn) -> None:
    message = written(drawn)
    found = outline(memoryview(b"xx" + message), 2, 2 + len(message))
    assert found.damage == -1
    expected = [(number, wire) for number, wire, _ in fields(message)]
    assert list(zip(found.numbers.tolist(), found.wires.tolist(), strict=True)) == expected
    texts = [value for _, wire, value in fields(message) if wire == BYTES]
    spans = [
        (start, end)
        for wire, start, end in zip(found.wires.tolist(), found.starts.tolist(), found.ends.tolist(), strict=True)
        if wire == BYTES
    ]
    assert [(b"xx" + message)[start:end] for start, end in spans] == texts


def test_a_large_message_is_read_in_batches() -> None:
    count = 70_000
    message = b"".join(field(4, field(1, number) + field(2, "x" * (number % 40))) for number in range(count))
    found = outline(memoryview(message), 0, len(message))
    starts, ends = found.of(4)
    numbers = [
        (first, columns.integers(1, -1)) for first, columns in message_batches(memoryview(message), starts, ends)
    ]
    assert len(numbers) > 1
    assert np.concatenate([column for _, column in numbers]).tolist() == list(range(count))


def test_an_outline_ends_where_a_message_is_cut() -> None:
    message = field(4, "whole") + field(4, "cut")[:-1]
    found = outline(memoryview(message), 0, len(message))
    assert (len(found.numbers), found.damage) == (1, len(field(4, "whole")))


def test_many_fields_of_one_message_cost_few_calls() -> None:
    count = 20_000
    messages = [field(1, 7) * count, field(1, 7)]
    joined = b"".join(messages)
    data, ends = padded(joined, 0, len(joined)), np.cumsum([len(message) for message in messages])
    starts = ends - [len(message) for message in messages]
    found = fields_of(data, starts, ends)
    assert found.counts(1).tolist() == [count, 1] and not found.damaged.any()
    assert calls(lambda: fields_of(data, starts, ends)) < 10 * count


@pytest.mark.parametrize(
    "tag", [varint(1 << 32), varint(1 << 63), varint((1 << 64) - 8), b"\xf8" + b"\xff" * 8 + b"\x7f"]
)
def test_a_number_that_no_field_has_is_damage(tag: bytes) -> None:
    whole = field(4, "whole")
    message = whole + tag + b"\x00"
    found = outline(memoryview(message), 0, len(message))
    assert (len(found.numbers), found.damage) == (1, len(whole))
    columns = fields_of(padded(message, 0, len(message)), np.array([0]), np.array([len(message)]))
    assert (columns.number.tolist(), columns.damaged.tolist()) == ([4], [True])


def test_fields_by_their_number() -> None:
    """The last of several counts. Another type of the same number is no integer, or no content."""
    messages = [
        field(1, 7) + field(1, -8) + single(2, 0.5) + field(3, 2.5) + field(4, "ab") + field(4, field(1, 9)),
        field(2, "no integer") + field(4, 5),
        field(4, "c" * 200) + field(3, 1),
    ]
    joined = b"".join(messages)
    ends = np.cumsum([len(message) for message in messages])
    found = fields_of(padded(joined, 0, len(joined)), ends - [len(message) for message in messages], ends)
    assert found.integers(1, -1).tolist() == [-8, -1, -1] and found.integers(2, -1).tolist() == [-1, -1, -1]
    assert found.fixed64(3, 0).view(np.float64).tolist() == [2.5, 0, 0]
    assert found.counts(4).tolist() == [2, 1, 1] and found.counts(9).tolist() == [0, 0, 0]
    owner, starts, ends = found.contents(4)
    assert owner.tolist() == [0, 0, 2]
    assert [found.text_at(*span) for span in zip(starts.tolist(), ends.tolist(), strict=True)][::2] == ["ab", "c" * 200]
    inner_owner, inner = found.messages(4)
    assert inner_owner.tolist() == [0, 0, 2] and inner.integers(1, -1)[1] == 9
    starts, ends = found.last_contents(4)
    assert (ends - starts).tolist() == [len(field(1, 9)), 0, 200]


@pytest.mark.parametrize("size", [127, 128, 300, 20_000])
def test_a_long_content_has_its_length_in_several_bytes(size: int) -> None:
    message = field(5, "x" * size) + field(6, 1)
    found = outline(memoryview(message), 0, len(message))
    assert (found.ends - found.starts).tolist() == [size, 1] and found.damage == -1
