"""The number of each key in JSON, against what a decoder finds."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.readers.events.key_counts import KeyCounter, _after_quote, _key_before


def counted(text: str) -> dict[str, int]:
    return dict(KeyCounter().count(text.encode()))


def decoded(text: str) -> Counter[str]:
    """The keys as a decoder finds them."""
    found: Counter[str] = Counter()

    def count(pairs: list[tuple[str, Any]]) -> None:
        found.update(key for key, _ in pairs)

    json.loads(text, object_pairs_hook=count)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1}', {"a": 1}),
        ('[{"name":"x","dur":1.5},{"name":"y"}]', {"name": 2, "dur": 1}),
        ('{"a":{"a":{"b":[]}}}', {"a": 2, "b": 1}),
        ('{"a key of more than sixteen bytes":1,"another key of sixteen bytes":2}',
         {"a key of more than sixteen bytes": 1, "another key of sixteen bytes": 1}),
        ('[1,2,{"x":"a\\\\":b"}]', {"x": 1}),  # a quote inside a string
        ('[1,2,3,4,5,6,7,8,{"x":"a\\\\":b"}]', {"x": 1}),
        ('{"name":":","other":":b"}', {"name": 1, "other": 1}),  # strings that begin with a colon
        ('{"":1}', {"": 1}),
        ("[]", {}),
    ],
)  # fmt: skip
def test_keys_are_counted(text: str, expected: dict[str, int]) -> None:
    assert counted(text) == expected


KEYS = st.sampled_from(["a", "ab", "dur", "seven77", "eight888", "sixteen bytes 16", "more than sixteen bytes", "é"])
VALUES = st.recursive(
    st.sampled_from([1, None, "x", 'a"b', "a:b", "\\", 'q":']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_keys_of_any_json(value: Any) -> None:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert counted(text) == decoded(text)


def test_keys_that_are_new_in_a_piece_with_their_offsets() -> None:
    counter = KeyCounter()
    first, second = b'[{"name":"x","duration of it":2},', b'{"name":"y","other":{"name":1}},{"other":2}]'
    assert counter.count(first) == {"name": 1, "duration of it": 1}
    assert counter.new == {"name": 2, "duration of it": 13}
    assert counter.count(second) == {"name": 2, "other": 2}
    assert counter.new == {"other": 12}
    counter.count(first)
    assert counter.new == {}
    assert first[2:8] == b'"name"' and second[12:19] == b'"other"'


def test_many_different_keys() -> None:
    """More than there are buckets, so that some share one."""
    names = [f"a key {number}" for number in range(2000)]
    text = json.dumps([{name: 0} for name in names * 2], separators=(",", ":"))
    assert counted(text) == dict.fromkeys(names, 2)


@pytest.mark.parametrize(
    ("word", "left", "has_quote"),
    [
        (b"abcdefgh", b"abcdefgh", False), (b'"bcdefgh', b"\0bcdefgh", True), (b'abcdefg"', b"\0" * 8, True),
        (b'ab"d"fgh', b"\0\0\0\0\0fgh", True), (b'\xa2#!"\x22\xff\0b', b"\0\0\0\0\0\xff\0b", True),
        (b"\xa2#!\xff\x02\0\x80 ", b"\xa2#!\xff\x02\0\x80 ", False),
    ],
)  # fmt: skip
def test_characters_after_the_last_quote(word: bytes, left: bytes, has_quote: bool) -> None:
    after, found = _after_quote(np.frombuffer(word, "<u8"))
    assert (after.tobytes(), found.tolist()) == (left, [has_quote])


@pytest.mark.parametrize(
    ("text", "end", "key"),
    [
        (b'{"name":1', 6, "name"), (b'x"y":', 3, "y"), (b'name":1', 4, ","), (b"a" * 256 + b'"', 256, ","),
        (b"b" + b"a" * 256 + b'"', 257, "a" * 256), (b'"' + b"a" * 256 + b'"', 257, "a" * 256),
        (b'"\xff"', 2, "\ufffd"),
    ],
)  # fmt: skip
def test_the_key_before_a_quote(text: bytes, end: int, key: str) -> None:
    assert _key_before(text, end) == key
