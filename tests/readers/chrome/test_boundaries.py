"""Where the elements of a JSON array begin and end."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.readers.chrome.boundaries import (
    LongValue,
    find_separator,
    goes_on,
    guess_cut,
    is_end_of_list,
    scan_elements,
    split_at_separators,
)


@given(st.text(st.sampled_from('{}[]"\\,a'), max_size=40))
def test_brackets_in_strings_do_not_count(text: str) -> None:
    events = [json.dumps({"name": text}), json.dumps([text, {"x": [text]}]), json.dumps({text: 1})]
    data = (", ".join(events) + "]tail").encode()
    elements = scan_elements(data)
    cut = [data[a:b].decode() for a, b in zip(elements.starts, elements.ends, strict=True)]
    assert cut == events and data[elements.close :] == b"]tail"


def test_an_array_that_goes_on_has_no_close_and_its_last_element_may_be_cut() -> None:
    elements = scan_elements(rb' {"a": "\\"}, {"b": "\"}"}, {"c": [')
    assert (elements.starts.tolist(), elements.ends.tolist()) == ([1, 14], [12, 26])
    assert (elements.close, elements.remainder) == (-1, 26)
    nothing = scan_elements(b" ] }")
    assert (len(nothing.starts), nothing.close, nothing.remainder) == (0, 1, 0)


@pytest.mark.parametrize(
    ("head", "separator"),
    [(b'{"a": {}},{"b": 1}', b"},{"), (b'{"a": 1}\n , {"b', b"}\n , {"), (b'{"a": 1}]', b"},{"), (b'{"a":', b"},{")],
)
def test_the_separator_is_what_the_writer_puts_between_the_first_events(head: bytes, separator: bytes) -> None:
    assert find_separator(head) == separator


def test_cuts_are_after_an_event() -> None:
    text = bytearray(b"{1}, {2}, {3}")
    assert [guess_cut(text, size, b"}, {") for size in (5, 6, 10, 11)] == [0, 3, 3, 8]
    assert guess_cut(bytearray(b"}, {"), 4, b"}, {") == 1
    assert split_at_separators(bytes(text), 0, b"}, {") == ([(0, 3), (5, 8)], 10)
    assert split_at_separators(bytes(text), 5, b"}, {") == ([(5, 8)], 10)


@pytest.mark.parametrize(
    ("tail", "wrapped", "is_end"),
    [
        (b' , "next": 1', True, True),
        (b"\n}", True, True),
        (b"", True, True),
        (b", ", True, True),
        (b", {", True, False),
        (b", 1", False, False),
        (b" \n", False, True),
        (b"}", False, False),
    ],
)
def test_what_can_follow_the_list_of_events(tail: bytes, wrapped: bool, is_end: bool) -> None:
    assert is_end_of_list(tail, wrapped) == is_end


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (b'{"a": 1', True),
        (b'{"a": "' + b"x" * 99, True),  # the string began long before the end
        (b'{"a": tru', True),
        (b'{"a": 1}', False),
        (b'{"a" 1' + b" " * 99, False),  # damaged long before the end
        (b'{"a": ' + b"9" * 5000 + b"}", False),
        (b"[" * 100_000, False),
    ],
)
def test_whether_an_object_goes_on(text: bytes, more: bool) -> None:
    assert goes_on(text) == more


@given(st.text(st.sampled_from('{}[]"\\,a'), max_size=40), st.integers(1, 9))
def test_a_long_object_ends_at_the_same_byte_whatever_the_pieces(text: str, size: int) -> None:
    event = json.dumps({"name": text, "x": [{}, [text]]}).encode()
    data, value, at, piece = event + b",{}", LongValue(), 0, size
    while True:
        end, read = value.end_in(data[at : at + piece])
        at += read
        if end >= 0:
            break
        piece = size if read else piece + 1  # an escaped byte is still to come
    assert (at, end) == (len(event), read)
