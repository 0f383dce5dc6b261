"""Tables of rocpd databases: their sets, the meanings of their numbers, and the queries for their events."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from support.nsys_files import Row, write_tables

from perflog.parsing.input.source import Source
from perflog.readers.databases.sqlite import Database
from perflog.readers.rocprof.tables import COUNTERS, TableSet, table_sets

EVENT = {"start": 1, "end": 5}
Made = Callable[..., list[TableSet]]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """A function that gives the sets of a database of these tables, the names without `rocpd_`."""
    with ExitStack() as stack:

        def sets(tables: Mapping[str, list[Row]]) -> list[TableSet]:
            named = {f"rocpd_{name}": rows for name, rows in tables.items()}
            stack.close()
            (tmp_path / "a.db").unlink(missing_ok=True)
            path = str(write_tables(tmp_path / "a.db", named or {"other": [{"a": 1}]}))
            return table_sets(stack.enter_context(closing(Database(path, Source("a.db", path)))))

        yield sets


@pytest.fixture
def loaded(made: Made) -> Callable[..., TableSet]:
    """A function that gives the only set, which has a table of regions, with its names."""

    def tables(**more: list[Row]) -> TableSet:
        (only,) = made({"region": [EVENT]} | more)
        only.load_names()
        return only

    return tables


def rows(tables: TableSet, query: str | None) -> list[dict[str, Any]]:
    """The rows of a query."""
    assert query is not None
    with closing(sqlite3.connect(tables.db.uri, uri=True)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(query)]


# --- sets -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "suffixes"),
    [
        (("region", "kernel_dispatch"), [""]), (("region_b", "region_a", "sample_a"), ["_a", "_b"]),
        (("region", "region_b"), ["_b"]),  # those without a suffix show the same again
        (("regions",), []), (("string",), []), ((), []),
    ],
)  # fmt: skip
def test_sets_of_tables(made: Made, names: tuple[str, ...], suffixes: list[str]) -> None:
    assert [tables.suffix for tables in made({name: [EVENT] for name in names})] == suffixes


def test_a_table_of_events_has_a_start(made: Made) -> None:
    (tables,) = made({
        "memory_copy": [{"start_id": 1}], "kernel_dispatch": [EVENT], "sample": [{"timestamp": 1}],
        "region": [{"end": 1}], "memory_allocate": [{"timestamp_id": 1}], "string": [{"start": 1}],
    })  # fmt: skip
    assert tables.present == ["sample", "kernel_dispatch", "memory_copy", "memory_allocate"]
    assert (tables.count("sample"), tables.count("timestamp")) == (1, 0)


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_by_number(loaded: Callable[..., TableSet]) -> None:
    tables = loaded(
        string=[{"id": number, "string": text} for number, text in ((1, "a"), (2, None), (None, "b"), (3, ""))],
        info_kernel_symbol=[
            {"id": 1, "kernel_name": "k", "display_name": "d"}, {"id": 2, "kernel_name": "k", "display_name": ""},
            {"id": 3, "kernel_name": "k", "display_name": None},
        ],
        info_process=[{"id": 0, "pid": 700}], info_thread=[{"id": 5, "tid": 0}],
    )  # fmt: skip
    assert tables.strings == tables.categories == {1: "a"}
    assert tables.kernels == {1: "d", 2: "k", 3: "k"}
    assert (tables.pids, tables.tids) == ({0: "700"}, {5: "0"})
    assert (tables.counters, tables.devices, tables.device_names, tables.host) == ({}, {}, {}, "")


def test_categories_may_have_a_table_of_their_own(loaded: Callable[..., TableSet]) -> None:
    tables = loaded(string=[{"id": 1, "string": "a"}], info_category=[{"id": 9, "name": "c"}])
    assert tables.categories == {9: "c"}


def test_names_of_counters(loaded: Callable[..., TableSet]) -> None:
    counters = [
        {"id": 4, "name": "N", "symbol": "S", "units": "KiB"}, {"id": 5, "name": "N", "symbol": "", "units": None},
        {"id": 6, "name": None, "symbol": None, "units": ""},
    ]  # fmt: skip
    assert loaded(info_pmc=counters).counters == {4: ("S", "KiB"), 5: ("N", ""), 6: ("counter 6", "")}


def test_a_counter_without_a_number_has_no_name(loaded: Callable[..., TableSet]) -> None:
    assert loaded(info_pmc=[{"name": "N"}]).counters == {}


def agent(id: Any, index: Any = None, type: str = "GPU", **names: Any) -> Row:
    return {"id": id, "type": type, "type_index": index, "product_name": "", "model_name": "", "name": ""} | names


@pytest.mark.parametrize(
    ("agents", "devices"),
    [
        ([agent(0, 0, "CPU"), agent(3, 1), agent(4, 0)], {3: 1, 4: 0}),
        ([agent(3, 1), agent(4, 1)], {3: 0, 4: 1}),  # numbers that do not tell them apart are none
        ([agent(3, 1), agent(4)], {3: 0, 4: 1}),
        ([agent(3, "1"), agent(4, "2")], {3: 0, 4: 1}),
        ([agent("x", 0), agent(4, 5)], {4: 5}),
    ],
)  # fmt: skip
def test_devices_are_the_gpus_by_their_own_numbers(
    loaded: Callable[..., TableSet], agents: list[Row], devices: dict[int, int]
) -> None:
    assert loaded(info_agent=agents).devices == devices


def test_names_of_devices(loaded: Callable[..., TableSet]) -> None:
    agents = [
        agent(1, 2, product_name="P", model_name="M", name="N"), agent(2, 1, model_name="M", name="N"),
        agent(3, 0, name="N"), agent(4, 3), agent(5, 4, "CPU", name="C"),
    ]  # fmt: skip
    assert loaded(info_agent=agents).device_names == {2: "P", 1: "M", 0: "N", 3: ""}


@pytest.mark.parametrize(("hosts", "host"), [(["a"], "a"), (["a", "b"], ""), ([None], ""), ([7], "7")])
def test_the_host_is_that_of_the_only_node(loaded: Callable[..., TableSet], hosts: list[Any], host: str) -> None:
    assert loaded(info_node=[{"hostname": name} for name in hosts]).host == host


def test_the_config_has_the_metadata_and_who_ran_where(loaded: Callable[..., TableSet]) -> None:
    tables = loaded(
        metadata=[{"tag": "schema_version", "value": "3"}, {"tag": 5, "value": None}],
        info_process=[{"id": 1, "pid": 7, "command": "./a"}], info_node=[{"hostname": "h", "release": "6"}],
        info_agent=[{"id": 1, "type": "CPU", "uuid": "x"}],
    )  # fmt: skip
    assert tables.config() == {
        "schema_version": "3", "5": None, "processes": [{"pid": 7, "command": "./a"}],
        "nodes": [{"hostname": "h", "release": "6"}], "agents": [{"id": 1, "type": "CPU"}],
    }  # fmt: skip
    assert loaded(metadata=[{"value": "3"}]).config() == {"processes": [], "nodes": [], "agents": []}


# --- figures ----------------------------------------------------------------------------------------------------------


def test_columns_that_are_read_dropped_and_unknown(loaded: Callable[..., TableSet]) -> None:
    kernel = EVENT | {"id": 1, "kernel_id": 7, "agent_id": 1, "grid_size_x": 1, "workgroup_size_z": 1,
                      "group_segment_size": 0, "private_segment_size": 5, "odd": 2, "empty": None}  # fmt: skip
    tables = loaded(kernel_dispatch=[kernel, kernel | {"odd": None}],
                    memory_allocate=[EVENT | {"type": "x", "level": 1}],
                    pmc_event=[{"id": 1, "event_id": 1, "pmc_id": 4, "value": 2.5}])  # fmt: skip
    found = {column: (count, reason) for column, count, reason in tables.figures("kernel_dispatch")}
    taken = ("start", "end", "kernel_id", "agent_id", "grid_size_x", "workgroup_size_z", "group_segment_size")
    assert {name for name, (_, reason) in found.items() if reason is None} == {*taken}
    assert found["odd"] == (1, "") and "empty" not in found
    assert found["id"][1] and found["private_segment_size"] == (2, "detail of the launch, beyond grid, block and LDS")
    assert {name: reason for name, _, reason in tables.figures("memory_allocate")} == {
        "start": None, "end": None, "type": None, "level": "level of the memory"
    }  # fmt: skip
    reasons = {name: reason for name, _, reason in tables.figures(COUNTERS)}
    assert [name for name, reason in reasons.items() if reason is None] == ["pmc_id", "value"]
    assert list(tables.figures("sample")) == []


def test_sizes_of_kernels_are_read_of_kernels_only(loaded: Callable[..., TableSet]) -> None:
    tables = loaded(memory_copy=[EVENT | {"grid_size_x": 1, "group_segment_size": 1}])
    assert {name: reason for name, _, reason in tables.figures("memory_copy")}["grid_size_x"] == ""


# --- queries ----------------------------------------------------------------------------------------------------------


def test_numbers_of_an_event_are_its_own_or_those_of_its_track_event_and_times(loaded: Callable[..., TableSet]) -> None:
    tables = loaded(
        memory_copy=[{"id": 1, "start_id": 3, "end_id": 4, "event_id": 2, "track_id": 6, "pid": 8, "size": 64}],
        timestamp=[{"id": 3, "value": 100}, {"id": 4, "value": 150}],
        event=[{"id": 2, "category_id": 5, "stack_id": 11, "correlation_id": 12, "extdata": '{"message": "m"}'}],
        track=[{"id": 6, "pid": 9, "tid": 10, "stream_id": None, "queue_id": 3}],
    )  # fmt: skip
    assert rows(tables, tables.query("memory_copy")) == [
        {"start": 100, "end": 150, "pid": 8, "tid": 10, "stream": None, "bytes": 64, "category": 5, "internal": 11,
         "external": 12, "text": "m"}
    ]  # fmt: skip


def test_a_sample_begins_at_its_timestamp(loaded: Callable[..., TableSet]) -> None:
    tables = loaded(sample=[{"timestamp_id": 3}], timestamp=[{"id": 3, "value": 100}])
    assert rows(tables, tables.query("sample")) == [{"start": 100}]


def test_an_event_without_what_it_refers_to_stays(loaded: Callable[..., TableSet]) -> None:
    tables = loaded(memory_copy=[EVENT | {"event_id": 99}], event=[{"id": 2, "category_id": 5, "extdata": "{}"}])
    assert rows(tables, tables.query("memory_copy")) == [{"start": 1, "end": 5, "category": None, "text": ""}]


def test_a_table_without_ids_is_not_joined(loaded: Callable[..., TableSet]) -> None:
    tables = loaded(memory_copy=[EVENT | {"event_id": 2}], event=[{"category_id": 5}])
    assert rows(tables, tables.query("memory_copy")) == [EVENT]


@pytest.mark.parametrize(
    ("extdata", "text"),
    [('{"message": "m"}', "m"), ('{"message": 5}', "5"), ("{}", ""), ("{torn", ""), (None, "")],
)  # fmt: skip
def test_the_message_of_a_range_is_in_its_event(
    loaded: Callable[..., TableSet], extdata: str | None, text: str
) -> None:
    tables = loaded(region=[EVENT | {"event_id": 2}], event=[{"id": 2, "extdata": extdata}])
    assert [row["text"] for row in rows(tables, tables.query("region"))] == [text]


def test_an_allocation_has_its_type_as_text(loaded: Callable[..., TableSet]) -> None:
    tables = loaded(memory_allocate=[EVENT | {"type": "ALLOC", "event_id": 2}, EVENT | {"type": None, "event_id": 2}],
                    event=[{"id": 2, "extdata": '{"message": "m"}'}])  # fmt: skip
    assert [row["text"] for row in rows(tables, tables.query("memory_allocate"))] == ["ALLOC", ""]


def test_sizes_of_kernels(loaded: Callable[..., TableSet]) -> None:
    sizes = {f"{size}_{d}": k for size in ("grid_size", "workgroup_size") for k, d in enumerate("xyz", 1)}
    kernels = [
        EVENT | sizes | {"group_segment_size": 64},
        EVENT | sizes | {"grid_size_z": None, "group_segment_size": 0},
    ]
    tables = loaded(kernel_dispatch=kernels, memory_copy=kernels)
    found = rows(tables, tables.query("kernel_dispatch"))
    assert [(row["grid"], row["block"], row["shared"]) for row in found] == [
        ("[1, 2, 3]", "[1, 2, 3]", 64), ("", "[1, 2, 3]", 0)
    ]  # fmt: skip
    assert rows(tables, tables.query("memory_copy"))[0].keys() == {"start", "end"}


def test_ranges_alone_have_their_positions_among_all_regions(loaded: Callable[..., TableSet]) -> None:
    tables = loaded(
        string=[{"id": 1, "string": "HIP_RUNTIME_API"}, {"id": 2, "string": "MARKER_CORE_RANGE_API"}],
        region=[EVENT | {"event_id": 1}, EVENT | {"event_id": 2}, EVENT | {"event_id": 1}, EVENT | {"event_id": 2}],
        event=[{"id": 1, "category_id": 1}, {"id": 2, "category_id": 2}],
    )  # fmt: skip
    assert [row["ordinal"] for row in rows(tables, tables.query("region", only_ranges=True))] == [2, 4]
    assert len(rows(tables, tables.query("region"))) == 4
    without = loaded(region=[EVENT])
    assert rows(without, without.query("region", only_ranges=True)) == []


def test_readings_of_counters_have_the_numbers_of_what_was_counted(loaded: Callable[..., TableSet]) -> None:
    tables = loaded(
        kernel_dispatch=[EVENT | {"event_id": 1, "kernel_id": 7, "agent_id": 3}],
        sample=[{"timestamp": 15, "event_id": 2}], memory_copy=[EVENT | {"event_id": 3}],
        pmc_event=[{"event_id": 1, "pmc_id": 4, "value": 2.5}, {"event_id": 2, "pmc_id": 5, "value": 3.5},
                   {"event_id": 3, "pmc_id": 6, "value": 4.5}],
    )  # fmt: skip
    names = ("value", "counter", "start", "end", "agent", "kernel")
    assert [tuple(row[name] for name in names) for row in rows(tables, tables.counter_query())] == [
        (2.5, 4, 1, 5, 3, 7), (3.5, 5, 15, None, None, None), (4.5, 6, None, None, None, None)
    ]  # fmt: skip


def test_readings_of_unnamed_counters_of_nothing(loaded: Callable[..., TableSet]) -> None:
    tables = loaded(pmc_event=[{"event_id": 1, "value": 2.5}], kernel_dispatch=[EVENT])
    assert rows(tables, tables.counter_query()) == [{"value": 2.5}]


@pytest.mark.parametrize("row", [{"event_id": 1}, {"value": 1}, None])
def test_a_table_without_readings(loaded: Callable[..., TableSet], row: Row | None) -> None:
    assert loaded(**({"pmc_event": [row]} if row else {})).counter_query() is None
