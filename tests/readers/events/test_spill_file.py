"""Temporary files: what is spilled comes back; a packed log has a path to its bytes while it is read."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perflog.errors import InputError
from perflog.parsing.input.source import open_source
from perflog.readers.events.event_columns import EventColumns
from perflog.readers.events.spill_file import decompressed_path, load_spilled, mapped_file, open_spill_file, spill


def test_columns_come_back_in_any_order() -> None:
    first: EventColumns = {"a": np.arange(5), "b": np.array([1.5, np.nan]), "empty": np.zeros(0, np.int8)}
    second: EventColumns = {"c": np.arange(12, dtype=np.int8)[::2]}  # not contiguous
    with open_spill_file() as file:
        places = [spill(file, columns) for columns in (first, second)]
        assert [place.offset for place in places] == [0, 56]
        for place, columns in reversed(list(zip(places, (first, second), strict=True))):
            loaded = load_spilled(file, place)
            assert loaded.keys() == columns.keys()
            for name, column in columns.items():
                assert loaded[name].dtype == column.dtype
                np.testing.assert_array_equal(loaded[name], column)


class Slow:
    """A file that takes a few bytes at a time."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def write(self, data: memoryview) -> int:
        return int(self.file.write(bytes(data[:3])))

    def readinto(self, view: memoryview) -> int:
        return int(self.file.readinto(view[:2]))

    def seek(self, *place: int) -> int:
        return int(self.file.seek(*place))


def test_a_file_may_take_fewer_bytes_than_it_is_given() -> None:
    with open_spill_file() as file:
        slow = Slow(file)
        columns: EventColumns = {"a": np.arange(9), "b": np.arange(3, dtype=np.int16)}
        loaded = load_spilled(slow, spill(slow, columns))
    assert {name: column.tolist() for name, column in loaded.items()} == {"a": list(range(9)), "b": [0, 1, 2]}


@pytest.mark.parametrize("packed", [False, True])
def test_the_decompressed_bytes_of_a_log_have_a_path(tmp_path: Path, packed: bool) -> None:
    data = bytes(range(256)) * 9000  # more than a block
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(data) if packed else data)
    with open_source(str(path)) as source:
        with decompressed_path(source) as at:
            assert Path(at).read_bytes() == data
            assert (at == str(path)) is not packed
        assert os.path.exists(at) is not packed
        with mapped_file(source) as view:
            assert view == data


def test_a_full_disk_is_an_error() -> None:
    class Full(Slow):
        def write(self, data: memoryview) -> int:
            raise OSError(28, "No space left on device")

    with open_spill_file() as file, pytest.raises(InputError, match="cannot be written: No space left on device"):
        spill(Full(file), {"a": np.arange(3)})
