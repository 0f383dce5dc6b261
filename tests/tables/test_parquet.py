"""One Parquet file: what goes in comes out, only what is asked for is read, and damage is named."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.stores import rows

from perflog.errors import StoreError
from perflog.tables import parquet
from perflog.tables.arrow import Where, one_of, rows_where
from perflog.tables.parquet import (
    DamagedError,
    footer_crc,
    footer_texts,
    leads_nowhere,
    read_table,
    stored_row_counts,
    writer_options,
)
from perflog.tables.schema import SCHEMA_VERSION, arrow_schema
from perflog.tables.store.batch_files import BatchFiles
from perflog.tables.store.runs_footer import LogNotes

A, B, C = "a-1", "b-1", "c-1"


def written(folder: Path, *parts: pa.Table, table: str = "steps", group: int = 1 << 17) -> Path:
    """A file of a batch with these rows, each part in row groups of its own."""
    files = BatchFiles(folder)
    for part in parts:
        files.add(table, part, group)
    files.add("runs", rows("runs", A, 1), 1)
    return files.finish(["a"], LogNotes())[table]


def of_part(run: str, part: int, count: int) -> pa.Table:
    return rows("steps", run, count, part=part)


def plain(path: Path, table: pa.Table, **options: Any) -> Path:
    """A file that another writer could have written, with the number of this schema."""
    with pq.ParquetWriter(path, table.schema, store_schema=False, **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"schema_version": str(SCHEMA_VERSION)})
    return path


def test_columns_are_encoded_by_their_types() -> None:
    """Small counts that are never null stay plain; readers leave out row groups by four columns."""
    options = writer_options("steps")
    schema = arrow_schema("steps")
    encodings = options["column_encoding"]
    assert encodings["step"] == encodings["line"] == "DELTA_BINARY_PACKED"
    assert encodings["step_time_s"] == "BYTE_STREAM_SPLIT"
    assert "run" not in encodings and "run" in options["use_dictionary"]
    counts = [f.name for f in schema if f.type == pa.int32() and not f.nullable]
    assert counts and {encodings[name] for name in counts} == {"PLAIN"}
    assert options["write_statistics"] == ["run", "line", "part", "step"]
    assert options["write_page_checksum"] is True and options["store_schema"] is False
    texts = {name for name, codec in writer_options("lines")["compression"].items() if codec == "zstd"}
    assert texts == {"sample", "dropped_because"} and set(options["compression"].values()) == {"lz4"}


def test_rows_of_runs_and_columns(tmp_path: Path) -> None:
    path = written(tmp_path, rows("steps", A, 2), rows("steps", B, 3), rows("steps", C, 1))
    whole = read_table(path, "steps", footer_crc(path))
    assert whole.schema.equals(arrow_schema("steps"), check_metadata=True)
    assert whole["run"].to_pylist() == [A, A, B, B, B, C]
    assert read_table(path, "steps", runs=[B, C])["run"].to_pylist() == [B, B, B, C]
    assert read_table(path, "steps", runs=[])["run"].to_pylist() == []
    some = read_table(path, "steps", runs=[A], columns=["run", "step"])
    assert some.to_pydict() == {"run": [A, A], "step": [7, None]}
    assert read_table(path, "steps", columns=["run"]).column_names == ["run"]


def test_rows_that_pass(tmp_path: Path) -> None:
    path = written(tmp_path, of_part(A, 0, 2), of_part(A, 1, 2), of_part(B, 1, 1))
    for runs, where, expected in (
        (None, {"part": one_of(1)}, [(A, 10), (A, 11), (B, 10)]),
        ([A], {"part": one_of(1)}, [(A, 10), (A, 11)]),
        (None, {"part": one_of(1), "line": one_of(10)}, [(A, 10), (B, 10)]),
        (None, {"part": one_of(5)}, []),
    ):
        found = read_table(path, "steps", None, runs, ["run", "line"], where)
        assert found.column_names == ["run", "line"]
        assert list(zip(*found.to_pydict().values(), strict=True)) == expected
        assert found.schema == arrow_schema("steps").empty_table().select(["run", "line"]).schema
    assert read_table(path, "steps", where={"part": one_of(5)}).column_names == arrow_schema("steps").names


def test_row_groups_of_other_runs_and_parts_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without statistics the rows are the same, but all are looked at."""
    parts = [of_part(A, part, 3) for part in range(4)]
    looked_at: list[int] = []

    def counted(table: pa.Table, where: Where) -> pa.Table:
        looked_at.append(table.num_rows)
        return rows_where(table, where)

    monkeypatch.setattr("perflog.tables.arrow.rows_where", counted)
    for path, expected in (
        (written(tmp_path, *parts), [3]),
        (plain(tmp_path / "other.parquet", pa.concat_tables(parts), write_statistics=False), [12]),
    ):
        looked_at.clear()
        assert read_table(path, "steps", where={"part": one_of(2)})["part"].to_pylist() == [2, 2, 2]
        assert looked_at == expected
        assert stored_row_counts(path, "steps") == {A: dict.fromkeys(range(4), 3)}
    with pq.ParquetFile(written(tmp_path, *parts, of_part(B, 9, 1), of_part(B, 9 + (1 << 17), 1))) as file:
        groups = parquet._groups
        assert groups(file, None) == [0, 1, 2, 3, 4, 5]
        assert groups(file, [B]) == [4, 5] and groups(file, ["a", "z"]) == []
        assert groups(file, None, {"part": one_of(1, 9)}) == [1, 4]
        assert groups(file, [A], {"part": one_of(1, 9)}) == [1]


def test_rows_are_counted_by_run_and_part(tmp_path: Path) -> None:
    """Also of row groups with several runs or parts."""
    path = written(tmp_path, of_part(A, 0, 2), of_part(A, 0, 1), pa.concat_tables([of_part(A, 0, 2), of_part(B, 1, 3)]))
    assert stored_row_counts(path, "steps", footer_crc(path)) == {A: {0: 5}, B: {1: 3}}


def test_a_range_of_parts_that_is_too_wide_may_hold_any(tmp_path: Path) -> None:
    wide = pa.concat_tables([of_part(A, 0, 1), of_part(A, (1 << 16) + 1, 1)])
    narrow = pa.concat_tables([of_part(A, 0, 1), of_part(A, 1 << 16, 1)])
    with pq.ParquetFile(written(tmp_path, wide, narrow)) as file:
        assert parquet._groups(file, None, {"part": lambda part: False}) == [0]


def test_a_flipped_bit_of_a_value_or_of_a_footer_is_damage(tmp_path: Path) -> None:
    path = written(tmp_path, rows("steps", A, 300))
    whole, crc = path.read_bytes(), footer_crc(path)
    column = pq.read_metadata(path).row_group(0).column(0)
    last = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size - 1
    for place, message in ((last, "CRC|corrupt"), (len(whole) - 40, "not the file that its batch lists")):
        for bit in range(8):
            spoiled = bytearray(whole)
            spoiled[place] ^= 1 << bit
            path.write_bytes(spoiled)
            with pytest.raises(DamagedError, match=message) as found:
                read_table(path, "steps", crc)
            assert found.value.where == str(path) and "ingest" in found.value.help


@pytest.mark.parametrize("where", [None, {"step": lambda step: True}])
def test_a_page_of_another_type_is_damage(tmp_path: Path, where: Where | None) -> None:
    """The header of a page has no checksum: Arrow skips a page of a type that it does not know."""
    path = written(tmp_path, rows("steps", A, 2))
    whole, crc = bytearray(path.read_bytes()), footer_crc(path)
    header = pq.read_metadata(path).row_group(0).column(0).dictionary_page_offset
    assert header is not None and whole[header : header + 2] == bytes([0x15, 2 << 1])  # the first field is the type: 2
    whole[header + 1] = 0  # a page of data
    path.write_bytes(whole)
    with pytest.raises(DamagedError, match="rows are missing"):
        read_table(path, "steps", crc, columns=["run"], where=where)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), "damaged"),
        (lambda path: path.write_bytes(b""), "damaged"),
        (lambda path: path.write_bytes(b"PAR1"), "damaged"),
        (lambda path: path.write_bytes(bytes(9) + path.read_bytes()[9:-400] + bytes(400)), "damaged"),
        (lambda path: pq.write_table(pa.table({"run": ["x"]}), path), "not written by perflog"),
        (lambda path: plain(path, rows("steps", A, 3).drop_columns(["mfu"])), "columns|mfu"),
        (lambda path: plain(path, rows("steps", A, 3).drop_columns(["rank_by"])), "its columns do not match"),
        (lambda path: plain(path, rows("steps", A, 3).drop_columns(["part"])), "columns|part"),
        (lambda path: plain(path, rows("phases", A, 3)), "columns"),
        (lambda path: (path.unlink(), path.mkdir()), "no file"),
        (lambda path: (path.unlink(), path.symlink_to("/dev/zero")), "no file"),
        (lambda path: (path.unlink(), path.symlink_to(path)), "a link to nothing or to itself"),
        (lambda path: (path.unlink(), path.symlink_to("nothing")), "a link to nothing or to itself"),
        (_pipe, "no file"),
    ],
)
def test_what_is_no_such_file_is_damage(tmp_path: Path, spoil: Callable[[Path], Any], message: str) -> None:
    """A pipe is not waited for, and a device is not read."""
    path = written(tmp_path, rows("steps", A, 300))
    spoil(path)
    with pytest.raises(DamagedError, match=message):
        read_table(path, "steps")


def test_a_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "none.parquet", "steps")
    assert not leads_nowhere(tmp_path / "none.parquet") and not leads_nowhere(tmp_path)


def test_a_file_of_another_schema_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    for number in (SCHEMA_VERSION - 1, SCHEMA_VERSION + 1):
        with pq.ParquetWriter(path, pa.schema([])) as writer:
            writer.add_key_value_metadata({"schema_version": str(number)})
        with pytest.raises(StoreError, match=f"schema {number}; this perflog reads schema {SCHEMA_VERSION}") as found:
            read_table(path, "steps")
        assert not isinstance(found.value, DamagedError)


def test_the_footer_of_a_runs_file_is_sealed(tmp_path: Path) -> None:
    path = written(tmp_path, rows("steps", A, 1)).with_name("runs.parquet")
    texts = footer_texts(path)
    assert texts["schema_version"] == str(SCHEMA_VERSION) and texts["table"] == "runs"
    assert len(texts["footer_crc"]) == 8 != texts["footer_crc"].count("0")
    whole = path.read_bytes()
    footer = whole[-8 - int.from_bytes(whole[-8:-4], "little") : -8]
    unsealed = footer.replace(texts["footer_crc"].encode(), b"0" * 8)
    assert texts["footer_crc"] == f"{crc32(unsealed):08x}"
    path.write_bytes(whole.replace(b'"a"', b'"b"'))
    with pytest.raises(DamagedError, match="a checksum is wrong"):
        footer_texts(path)
    path.write_bytes(whole.replace(texts["footer_crc"].encode(), b"0" * 8))
    parquet.seal(path)
    assert path.read_bytes() == whole


def test_a_file_that_was_read_leaves_nothing_for_the_collector(tmp_path: Path) -> None:
    """The command line hardly ever looks for cycles: the footer of a large file is megabytes."""
    path = written(tmp_path, rows("steps", A, 3))
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            read_table(path, "steps", where={"part": one_of(0)})
            stored_row_counts(path, "steps")
        held = [type(each).__name__ for each in gc.get_objects() if type(each).__module__ == "pyarrow._parquet"]
    finally:
        gc.enable()
    assert not [name for name in held if "Schema" in name or "MetaData" in name]
