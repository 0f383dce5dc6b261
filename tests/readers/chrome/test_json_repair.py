"""Events that are almost JSON become JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perflog.readers.chrome.json_repair import BARE_NAN, TIMESTAMP, repaired_variants, replace_bare_nan


def no_constant(name: str) -> None:
    raise ValueError(name)  # Python reads NaN, which JSON does not have


def repaired(text: bytes) -> Any:
    for variant in repaired_variants(text):
        try:
            return json.loads(variant, parse_constant=no_constant)
        except ValueError:
            continue
    return "none"


@pytest.mark.parametrize(
    ("text", "event"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b'{"name": "say "hi" there", "ph": "X"}', {"name": 'say "hi" there', "ph": "X"}),
        (b'{"name": "a\\b "c"", "ts": 1}', {"name": 'a\\b "c"', "ts": 1}),
        (b'{"name": "a", "dur": nan, "ts": -inf}', {"name": "a", "dur": None, "ts": None}),
        (b'{"a": [NaN, +Infinity , 1]}', {"a": [None, None, 1]}),
        (b'{"a": nano}', "none"),
    ],
)
def test_what_tools_write(text: bytes, event: Any) -> None:
    assert repaired(text) == event


def test_nan_in_a_string_stays() -> None:
    text = b'{"a": "x: nan, inf", "b": nan, "c\\"": inf}'
    assert replace_bare_nan(text) == b'{"a": "x: nan, inf", "b": null, "c\\"": null}'
    assert BARE_NAN.search(b'{"b": nan}') and not BARE_NAN.search(b'{"b": nano}')


@given(st.recursive(st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.text(), st.lists, max_leaves=8))
def test_json_stays_what_it_is(value: Any) -> None:
    text = json.dumps({"v": value}).encode()
    assert next(iter(repaired_variants(text))) == text == replace_bare_nan(text)


def test_the_time_of_an_event_as_it_is_printed() -> None:
    for text, printed in ((b'{"ts": 1.50,', b"1.50"), (b'{"ts" : "1 2"}', b'"1 2"'), (b'{"ts":7}', b"7")):
        match = TIMESTAMP.search(text)
        assert match is not None and match[1] == printed
