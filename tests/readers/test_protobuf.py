"""Fields of protocol buffers by number, as their specification writes them."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.history_files import field, varint

from perflog.readers.messages import protobuf
from perflog.readers.messages.protobuf import BYTES, FIXED32, FIXED64, VARINT, WireError

MESSAGE = field(1, 300) + field(2, "text") + field(3, 2.5) + b"\x25" + struct.pack("<f", 1.5) + field(2, b"")


def test_fields_in_their_order() -> None:
    assert list(protobuf.fields(MESSAGE)) == [
        (1, VARINT, 300),
        (2, BYTES, b"text"),
        (3, FIXED64, struct.pack("<d", 2.5)),
        (4, FIXED32, struct.pack("<f", 1.5)),
        (2, BYTES, b""),
    ]
    assert list(protobuf.fields(b"")) == []


def test_the_last_value_of_a_field_and_all_values_of_a_repeated_one() -> None:
    message = field(1, 300) + field(2, "a") + field(2, "b") + field(2, 5) + field(1, 7)
    assert protobuf.only(message) == {1: 7, 2: 5}
    assert protobuf.repeated(message, 2) == [b"a", b"b"]  # numbers are no messages
    assert protobuf.repeated(message, 3) == []


@pytest.mark.parametrize("length", range(1, len(MESSAGE)))
def test_a_cut_message_is_an_error_or_ends_with_a_field(length: int) -> None:
    whole = list(protobuf.fields(MESSAGE))
    ends = [3, 9, 18, 23, 25]
    if length in ends:
        assert list(protobuf.fields(MESSAGE[:length])) == whole[: ends.index(length) + 1]
    else:
        with pytest.raises(WireError):
            list(protobuf.fields(MESSAGE[:length]))


@pytest.mark.parametrize("wire", [3, 4, 6, 7])
def test_other_wire_types_are_errors(wire: int) -> None:
    with pytest.raises(WireError, match=f"wire type {wire}"):
        list(protobuf.fields(bytes([1 << 3 | wire, 0])))


@given(st.integers(0, (1 << 64) - 1), st.binary(max_size=3))
def test_integers(number: int, after: bytes) -> None:
    data = b"x" + varint(number) + after
    assert protobuf.varint(data, 1) == (number, len(data) - len(after))
    assert protobuf.varint(memoryview(data), 1)[0] == number
    assert protobuf.signed(number) == number - ((1 << 64) if number >= 1 << 63 else 0)


def test_an_integer_of_more_than_64_bits_has_no_end() -> None:
    assert protobuf.varint(b"\xff" * 9 + b"\x7f", 0) == ((1 << 64) - 1, 10)
    for data in (b"\xff" * 10, b"\xff" * 11 + b"\x01", b"\x80", b""):
        with pytest.raises(WireError, match="no end"):
            protobuf.varint(data, 0)


def test_values() -> None:
    assert (protobuf.signed((1 << 64) - 5), protobuf.signed((1 << 63) - 1), protobuf.signed(b"\x02\x01")) == (
        -5, (1 << 63) - 1, 258,
    )  # fmt: skip
    assert (protobuf.real(struct.pack("<d", 2.5)), protobuf.real(struct.pack("<f", 1.5))) == (2.5, 1.5)
    assert all(math.isnan(protobuf.real(value)) for value in (7, b"", b"abc", b"12345"))
    assert [protobuf.text(value) for value in ("é".encode(), b"\xff", 7, None)] == ["é", "\ufffd", "", ""]
