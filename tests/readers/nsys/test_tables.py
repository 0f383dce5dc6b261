"""Which tables of an export hold events, and which with times are left out."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from perflog.readers.nsys.tables import DROPPED_COLUMNS, EXPORT_TABLES, OTHER_COLUMNS, event_tables, other_tables

TIMES = ("start", "end")


def database(tables: Mapping[str, tuple[str, ...]], counts: Mapping[str, int] | None = None) -> Any:
    """A database of tables with these columns, of one row each where nothing else is said."""
    return SimpleNamespace(tables=tables, count=lambda name: (counts or {}).get(name, 1))


def test_known_tables_come_first_in_their_order() -> None:
    db = database({
        "NEW_EVENTS": (*TIMES, "textId", "nameId"), "OSRT_API": TIMES, "CUPTI_ACTIVITY_KIND_KERNEL": TIMES,
        "NVTX_EVENTS": ("start",), "OTHER_EVENTS": (*TIMES, "textId"), "MORE_EVENTS": ("end", "start"),
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT": ("timestamp",), "CUDNN_EVENTS": ("id",),
    })  # fmt: skip
    assert [(table.name, table.kind, table.name_column) for table in event_tables(db)] == [
        ("NVTX_EVENTS", "range", "textId"), ("CUPTI_ACTIVITY_KIND_KERNEL", "kernel", "demangledName"),
        ("CUPTI_ACTIVITY_KIND_CUDA_EVENT", "", ""), ("OSRT_API", "os", "nameId"),
        ("NEW_EVENTS", "", "nameId"), ("OTHER_EVENTS", "", "textId"), ("MORE_EVENTS", "", ""),
    ]  # fmt: skip


def test_an_unknown_table_needs_start_and_end() -> None:
    assert event_tables(database({"A": ("start",), "B": ("end",), "C": ("timestamp", "end"), "D": ()})) == []


def test_counters_and_tables_left_out_hold_no_events() -> None:
    assert event_tables(database(dict.fromkeys(("GPU_METRICS", "SCHED_EVENTS", "COMPOSITE_EVENTS"), TIMES))) == []


def test_other_tables_with_times_and_rows() -> None:
    columns = {
        "SCHED_EVENTS": ("start",), "COMPOSITE_EVENTS": ("start", "end"), "A": ("rawTimestamp",), "B": ("startedAt",),
        "C": ("timestamp",), "D": ("time",), "EMPTY": ("start",), "GPU_METRICS": ("timestamp",), "EVENTS": TIMES,
        "OSRT_API": TIMES,
    }  # fmt: skip
    assert other_tables(database(columns, {"EMPTY": 0, "A": 3})) == [
        ("SCHED_EVENTS", 1, "times at which threads went on and off a CPU"),
        ("COMPOSITE_EVENTS", 1, "samples of call stacks"), ("A", 3, None), ("B", 1, None), ("C", 1, None),
    ]  # fmt: skip


def test_calls_and_ranges_come_before_work_on_a_device() -> None:
    """The range of a kernel is that of the call that started it."""
    kinds = [table.kind for table in EXPORT_TABLES]
    assert max(kinds.index("range"), len(kinds) - 1 - kinds[::-1].index("runtime")) < kinds.index("kernel")


def test_no_column_is_both_dropped_and_taken() -> None:
    assert OTHER_COLUMNS.isdisjoint(DROPPED_COLUMNS)
