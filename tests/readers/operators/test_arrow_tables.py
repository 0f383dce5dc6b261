"""Tables of the operations of a job: rows of events and steps, what is no operation, and other tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc
from support.reading import proof_of

import perflog
from perflog.errors import PerflogError

Columns = dict[str, list[Any]]

NAMES = ("step", "dp_rank", "stage", "optype", "start_ts", "duration", "mc", "mb_id", "rank")
ROWS = [
    (5, 0, 0, "forward", 10.0, 0.5, 0, 0, 0),
    (5, 0, 1, "forward", 10.5, 0.25, 1, 1, -1),
    (6, 1, 0, "send", 20.0, 2.0, 0, 0, 2),
    (6, 1, 0, "forward", 19.0, 0.125, 0, 1, 2),
]


def columns(rows: list[tuple[Any, ...]] | None = None) -> Columns:
    return dict(zip(NAMES, map(list, zip(*(rows or ROWS), strict=True)), strict=True))


def read(path: Path, given: Columns, name: str = "trace-1.parquet") -> perflog.Log:
    pq.write_table(pa.table(given), path / name)
    return perflog.read(path / name)


def rows(log: perflog.Log, table: str, *names: str) -> list[tuple[Any, ...]]:
    found = log.table(table)[list(names)].astype(object)
    return [tuple(row) for row in found.where(found.notna(), None).values.tolist()]


def test_operations_are_events_with_times_in_nanoseconds(tmp_path: Path) -> None:
    log = read(tmp_path, columns())
    names = ("line", "step", "dp_rank", "stage", "name", "start_ns", "duration_ns", "chunk", "micro_batch", "rank")
    assert rows(log, "events", *names) == [
        (1, 5, 0, 0, "forward", 10_000_000_000, 500_000_000, 0, 0, 0),
        (2, 5, 0, 1, "forward", 10_500_000_000, 250_000_000, 1, 1, None),  # below 0 a number is not known
        (3, 6, 1, 0, "send", 20_000_000_000, 2_000_000_000, 0, 0, 2),
        (4, 6, 1, 0, "forward", 19_000_000_000, 125_000_000, 0, 1, 2),
    ]
    assert rows(log, "events", "rank_by", "kind") == [
        ("printed", "operation"), (None, "operation"), *[("printed", "operation")] * 2
    ]  # fmt: skip


def test_a_step_is_from_its_first_start_to_its_last_end(tmp_path: Path) -> None:
    log = read(tmp_path, columns())
    assert rows(log, "steps", "line", "step", "step_time_s", "copy") == [(1, 5, 0.75, 1), (3, 6, 3.0, 1)]


@pytest.mark.parametrize(
    ("odd", "read_rows"),
    [
        ({"duration": -1.0}, 3), ({"duration": float("nan")}, 3), ({"duration": 0.0}, 4), ({"duration": 5e9}, 3),
        ({"start_ts": -1.0}, 4), ({"start_ts": float("inf")}, 3), ({"step": -1}, 3), ({"step": 0}, 4),
        ({"stage": None}, 3), ({"optype": None}, 3), ({"rank": -7}, 4), ({"mc": None}, 4), ({"dp_rank": -1}, 3),
    ],
)  # fmt: skip
def test_what_is_no_operation_is_unread(tmp_path: Path, odd: dict[str, Any], read_rows: int) -> None:
    given = columns()
    for name, value in odd.items():
        given[name][1] = value
    log = read(tmp_path, given)
    assert len(log.table("events")) == read_rows
    assert log.line_account["unread"] == 4 - read_rows
    shapes = log.table("lines")
    unread = shapes[shapes["status"] == "unread"]
    assert unread[["first_line", "count"]].values.tolist() == ([[2, 1]] if read_rows == 3 else [])


def test_a_job_has_the_sizes_that_its_operations_show(tmp_path: Path) -> None:
    def sizes(given: Columns) -> dict[str, int]:
        config = json.loads(read(tmp_path, given).table("runs")["config"][0])
        return {name: value for name, value in config.items() if name.endswith("_size")}

    assert sizes(columns()) == {"dp_size": 2, "pp_size": 2, "vpp_size": 2}
    assert sizes(columns() | {"mc": [None, 2, -1, 0]}) == {"dp_size": 2, "pp_size": 2, "vpp_size": 3}
    assert sizes(columns() | {"mc": [None] * 4}) == {"dp_size": 2, "pp_size": 2}  # no chunk is known


def test_the_kinds_of_operations_are_counted(tmp_path: Path) -> None:
    lines = read(tmp_path, columns()).table("lines")
    counted = lines[lines["shape"].isin(["forward", "send"])]
    assert counted[["shape", "count", "first_line", "status"]].values.tolist() == [
        ["forward", 3, 1, "read"], ["send", 1, 3, "read"]
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "values", "stored", "dropped", "unread"),
    [
        ("gmc", [0, 3, 0, 0], 32, 4, 0),  # chunk times 2 stages and stage: it follows
        ("gmc", [0, 3, 0, -1], 32, 4, 0),
        ("gmc", [0, 2, 0, 0], 32, 0, 4),
        ("mc", [None] * 4, 32, 0, 0),
        ("seq_id", [1, 2, 3, 4], 36, 0, 0),
        ("other", [1.5, 2, 3, 4], 32, 0, 4),
        ("note", ["a", "b", "c", "d"], 32, 0, 0),
    ],
)  # fmt: skip
def test_what_becomes_of_each_column(
    tmp_path: Path, name: str, values: list[Any], stored: int, dropped: int, unread: int
) -> None:
    lines = read(tmp_path, columns() | {name: values}).table("lines")
    sums = [int(lines[f"figures_{what}"].sum()) for what in ("stored", "dropped", "unread")]
    assert sums == [stored, dropped, unread]


def test_a_number_that_nothing_else_follows_from_is_unread_and_the_columns_are_the_proof(tmp_path: Path) -> None:
    """Without the chunk of a stage, the number over all chunks says more than the stage."""
    given = {name: values for name, values in columns().items() if name != "mc"} | {"gmc": [0, 3, 0, 0]}
    log = read(tmp_path, given)
    assert int(log.table("lines")["figures_unread"].sum()) == 4
    (path,) = tmp_path.iterdir()
    assert proof_of(path) == [(1, "columns", ", ".join(given))]


def test_an_arrow_file_is_read_as_a_parquet_file_is(tmp_path: Path) -> None:
    table = pa.table(columns())
    with ipc.new_file(tmp_path / "trace-1.arrow", table.schema) as writer:
        writer.write_table(table)
    names = ("line", "step", "name", "start_ns", "duration_ns", "rank")
    found = rows(perflog.read(tmp_path / "trace-1.arrow"), "events", *names)
    assert found == rows(read(tmp_path, columns()), "events", *names)


def test_names_may_be_a_dictionary(tmp_path: Path) -> None:
    given: dict[str, Any] = dict(columns())
    given["optype"] = pa.array(given["optype"]).dictionary_encode()
    assert rows(read(tmp_path, given), "events", "name") == [("forward",), ("forward",), ("send",), ("forward",)]


def test_a_number_that_its_column_does_not_hold_is_not_known(tmp_path: Path) -> None:
    given = columns()
    given["step"][0] = given["mb_id"][0] = 1 << 40
    assert rows(read(tmp_path, given), "events", "step", "micro_batch")[0] == (1 << 40, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optype": [None] * 4}, "no row of this table is an operation"),
        ({"duration": ["a", "b", "c", "d"]}, "a numeric column has other values"),
        ({"step": None}, "columns that perflog does not know"),
    ],
)
def test_a_table_of_something_else_is_an_error(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    given = {name: values for name, values in (columns() | change).items() if values is not None}
    if given.get("optype") == [None] * 4:
        given["optype"] = pa.array([None] * 4, pa.string())
    with pytest.raises(PerflogError, match=message):
        read(tmp_path, given)


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "trace-1.parquet"
    pq.write_table(pa.table(columns()), path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(PerflogError, match="a Parquet file that cannot be read"):
        perflog.read(path)
