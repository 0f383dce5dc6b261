"""Parts of the readers, each against another way to compute the same."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from perflog.parsing.input.log_names import LogName
from perflog.readers.chrome.boundaries import scan_elements
from perflog.readers.device_names import device_number, stream_number
from perflog.readers.event_columns import MISSING, distinct_tuples
from perflog.readers.interval_index import IntervalIndex
from perflog.readers.timestamps import parse_integers, parse_timestamps, round_durations

NUMBERS = st.one_of(
    st.integers(-(10**15), 10**15).map(str),
    st.decimals(-(10**15), 10**15, places=3).map(str),
    st.decimals(0, 10**12, places=7).map(lambda d: f"{d:f}"),
)


def nanoseconds(text: str) -> int:
    return int((Decimal(text) * 1000).quantize(Decimal(1), ROUND_HALF_EVEN))


@given(st.lists(NUMBERS, min_size=1, max_size=20))
def test_times_are_exact(texts: list[str]) -> None:
    assert parse_timestamps([t.encode() for t in texts]).tolist() == [nanoseconds(t) for t in texts]
    quoted = [f'"{t}"'.encode() for t in texts]
    assert parse_timestamps(quoted).tolist() == [nanoseconds(t) for t in texts]


@pytest.mark.parametrize("text", ["", "null", '""', "true", '"x"', "1e30", "1e999999", "[1]", "{}"])
def test_what_is_no_time(text: str) -> None:
    assert parse_timestamps([b"1.5", text.encode(), b"2"]).tolist() == [1500, MISSING, 2000]


@pytest.mark.parametrize(
    ("value", "number"),
    [(7, 7), (7.0, 7), ("7", 7), ("-7", -7), (None, MISSING), (7.5, MISSING), ("x", MISSING), ([7], MISSING),
     (True, MISSING), (2**63, MISSING), ("0x10", MISSING), (" +7 ", 7), ("--7", MISSING), ("\u00b2", MISSING),
     ("9" * 19, MISSING), ("9" * 5000, MISSING), ("9223372036854775807", 2**63 - 1)],
)  # fmt: skip
def test_whole_numbers(value: Any, number: int) -> None:
    assert parse_integers([value, 1, None]).tolist() == [number, 1, MISSING]


@pytest.mark.parametrize("digits", ["9" * 19, "9" * 5000])
def test_a_number_in_a_name_that_64_bits_do_not_hold_is_none(digits: str) -> None:
    assert device_number(f"/device:TPU:{digits}") == device_number(f"GPU {digits}") == -1
    assert stream_number(f"Stream #{digits}") == MISSING
    assert (device_number("GPU 1234567890"), stream_number("stream 123456789012345678")) == (
        1234567890,
        123456789012345678,
    )


def test_durations() -> None:
    values = [1, 0.0005, "2.5", None, "x", float("nan"), -3, 4.458677009853422e9]
    assert round_durations(values).tolist() == [1000, 0, 2500, MISSING, MISSING, MISSING, -3000, 4458677009853]


@given(st.lists(st.tuples(st.sampled_from([MISSING, -1, 0, 7, 1 << 62]), st.integers(-2, 2)), min_size=1, max_size=20))
def test_distinct_tuples_are_those_of_a_dictionary(drawn: list[tuple[int, int]]) -> None:
    first, index = distinct_tuples([np.array(column, np.int64) for column in zip(*drawn, strict=True)])
    assert sorted(drawn[row] for row in first) == sorted(set(drawn))
    assert all(drawn.index(drawn[row]) == row for row in first.tolist())
    assert [drawn[first[code]] for code in index.tolist()] == drawn


RANGES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 20)), max_size=12)


@examples(80)
@given(RANGES, st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 70)), max_size=20))
def test_the_innermost_range_is_the_last_that_began_and_has_not_ended(
    ranges: list[tuple[int, int, int]], points: list[tuple[int, int]]
) -> None:
    nested: list[tuple[int, int, int]] = []  # lane, start, end: those that would overlap in part are left out
    for lane, start, length in ranges:
        new = (start, start + length)
        others = [(s, e) for x, s, e in nested if x == lane]
        if length and all(e <= new[0] or new[1] <= s or (s < new[0] and new[1] < e) or
                          (new[0] < s and e < new[1]) for s, e in others):  # fmt: skip
            nested.append((lane, *new))
    columns = [np.array([r[i] for r in nested], np.int64) for i in range(3)]
    index = IntervalIndex(columns[0], columns[1], columns[2], np.arange(len(nested)))

    def inner(lane: int, time: int, but: int = -1) -> int:
        inside = [(s, i) for i, (x, s, e) in enumerate(nested) if x == lane and s <= time < e and i != but]
        return max(inside)[1] if inside else -1

    values = index.find(np.array([p[0] for p in points], np.int64), np.array([p[1] for p in points], np.int64))
    assert values.tolist() == [inner(*p) for p in points]
    far = IntervalIndex(columns[0], columns[1] * 2**56, columns[2] * 2**56, np.arange(len(nested)))  # no overflow
    times = np.array([max(p[1], 0) * 2**56 for p in points], np.int64)
    assert far.find(np.array([p[0] for p in points], np.int64), times).tolist() == [
        inner(p[0], max(p[1], 0)) for p in points
    ]
    assert index.parents.tolist() == [inner(lane, start, i) for i, (lane, start, _) in enumerate(nested)]


@given(st.text(st.sampled_from('{}[]"\\,a'), max_size=40))
def test_brackets_in_strings_do_not_count(text: str) -> None:
    import json

    events = [json.dumps({"name": text}), json.dumps([text, {"x": [text]}]), json.dumps({text: 1})]
    data = (", ".join(events) + "]tail").encode()
    elements = scan_elements(data)
    cut = [data[a:b].decode() for a, b in zip(elements.starts, elements.ends, strict=True)]
    assert cut == events and data[elements.close :] == b"]tail"


@given(st.lists(st.integers(0, 200), min_size=2, max_size=8, unique=True), st.booleans())
def test_names_of_several_files(numbers: list[int], padded: bool) -> None:
    names = [f"/x/run1_rank{n:03d}.7.json" if padded else f"/x/run1_rank{n}.7.json" for n in sorted(numbers)]
    joined = LogName.from_files(names)
    assert joined is not None and joined.files == tuple(names)
    assert LogName.parse(joined.log) == joined


def test_names_with_braces_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a{1,2}.json").write_text("")
    path = str(tmp_path / "a{1,2}.json")
    assert LogName.parse(path) == LogName.from_file(path)
    assert LogName.from_files(["a1{.json", "a2{.json"]) is None
    for text in ("a{1}.json", "a{9..1}"):
        assert LogName.parse(text).files == (text,)
