"""Dumps of a process: dictionaries of plain data as pickles or JSON, and what is not taken for one."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from perflog.errors import InputError
from perflog.parsing.input.source import open_source
from perflog.readers.dumps.dumped_data import PICKLE, dumped

CONTENT = {"entries": [{"id": 1, "name": "all_reduce", "sizes": [[4, 2]], "ok": True, "none": None}], "version": "2.1"}


def read(path: Path, data: bytes, largest: int = 1 << 20) -> dict[str, Any]:
    path = path / "dump"
    path.write_bytes(data)
    with open_source(str(path)) as source:
        return dumped(source, largest)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_and_json_of_the_same(tmp_path: Path, protocol: int) -> None:
    data = pickle.dumps(CONTENT, protocol)
    assert PICKLE.match(data)
    assert read(tmp_path, data) == read(tmp_path, json.dumps(CONTENT).encode()) == CONTENT


def test_a_dump_may_have_as_many_bytes_as_the_limit(tmp_path: Path) -> None:
    data = json.dumps(CONTENT).encode()
    assert read(tmp_path, data, len(data)) == CONTENT
    with pytest.raises(InputError, match="more than 0 MiB in one dump"):
        read(tmp_path, data, len(data) - 1)


def deep(levels: int) -> dict[str, Any]:
    """A dictionary in which lists are nested to a depth, itself included."""
    value: Any = 1
    for _ in range(levels - 1):
        value = [value]
    return {"a": value}


@pytest.mark.parametrize("levels", [98, 99])
def test_data_may_be_deep(tmp_path: Path, levels: int) -> None:
    assert read(tmp_path, json.dumps(deep(levels)).encode()) == deep(levels)
    assert read(tmp_path, pickle.dumps(deep(levels))) == deep(levels)


def test_data_that_is_too_deep_or_never_ends_is_no_dump(tmp_path: Path) -> None:
    endless: dict[str, Any] = {"a": []}
    endless["a"].append(endless["a"])
    twice: Any = ["x"] * 10
    for _ in range(20):
        twice = [twice, twice]  # a million values in a few bytes
    for content in (deep(120), endless, {"a": twice}):
        with pytest.raises(InputError, match=r"this is not plain data|cannot be read"):
            read(tmp_path, pickle.dumps(content))


@pytest.mark.parametrize(("bits", "plain"), [(1 << 12, True), ((1 << 12) + 1, False)])
def test_a_number_of_thousands_of_digits_is_no_plain_data(tmp_path: Path, bits: int, plain: bool) -> None:
    content = {"entries": [{"id": (1 << bits) - 1}]}
    if plain:
        assert read(tmp_path, json.dumps(content).encode()) == content
    else:
        with pytest.raises(InputError, match="a number is too long"):
            read(tmp_path, json.dumps(content).encode())


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"[1, 2]", "must be a dictionary"), (b"{", "cannot be read"), (b"\x80\x04}q", "cannot be read")],
)
def test_what_is_no_dump(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, data)
