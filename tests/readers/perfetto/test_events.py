"""Packets and events of a Perfetto trace in the account: what each packet is about, and which events are read."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.history_files import field as wire
from support.perfetto_files import BEGIN, COUNTER, END, INSTANT, event, interned, packet, process, snapshot, track

import perflog
from perflog.readers.events.event_columns import KINDS
from perflog.readers.perfetto import events

EVENT = packet(event(BEGIN, "step"), at=5) + packet(event(END), at=9)


def account(path: Path, *packets: bytes) -> dict[tuple[str, str], tuple[int, int]]:
    """Count and first position of each shape of packets, without those of one slice."""
    (path / "trace.pftrace").write_bytes(EVENT + b"".join(packets))
    lines = perflog.read(path / "trace.pftrace").table("lines")
    counted = lines[lines["count"] > 0]
    rows = counted[["status", "shape", "count", "first_line"]].values.tolist()
    return {(status, shape): (count, first) for status, shape, count, first in rows if status != "read"}


@pytest.mark.parametrize(
    ("given", "status", "shape"),
    [
        (packet(snapshot({6: 5})), "context", "clock snapshot"),
        (packet(track(1, process=process(7, "python"))), "context", "track"),
        (packet(interned(name={1: "a"})), "context", "interned data"),  # many packets have it beside something else
        (packet(wire(59, wire(58, 6))), "context", "defaults"),
        (packet(interned(name={1: "a"}), snapshot({6: 5})), "context", "clock snapshot"),
        (packet(snapshot({6: 5}), interned(name={1: "a"})), "context", "clock snapshot"),
        (wire(1, b""), "context", "empty packet"),
        (packet(wire(37, b"")), "unread", "heap profile"),
        (packet(wire(999, b"")), "unread", "packet of type 999"),
    ],
)
def test_what_a_packet_is_about(tmp_path: Path, given: bytes, status: str, shape: str) -> None:
    assert account(tmp_path, given, packet(event(INSTANT, "a"), at=20)) == {(status, shape): (1, 3)}
    assert account(tmp_path, packet(event(INSTANT, "a"), at=20), given, given) == {(status, shape): (2, 4)}


def test_packets_have_the_numbers_of_the_schema(tmp_path: Path) -> None:
    """Field numbers of `TracePacket` in Perfetto's trace_packet.proto."""
    context = {
        "process_tree": 2, "clock_snapshot": 6, "process_stats": 9, "interned_data": 12, "trace_config": 33,
        "ftrace_stats": 34, "trace_stats": 35, "synchronization_marker": 36, "process_descriptor": 43,
        "thread_descriptor": 44, "system_info": 45, "packages_list": 47, "chrome_metadata": 51,
        "trace_packet_defaults": 59, "track_descriptor": 60, "cpu_info": 67, "service_event": 69,
        "extension_descriptor": 72, "translation_table": 82, "trace_uuid": 89, "remote_clock_sync": 107,
    }  # fmt: skip
    unread = {
        "ftrace_events": 1, "inode_file_map": 4, "chrome_events": 5, "sys_stats": 7, "profile_packet": 37,
        "battery": 38, "android_log": 39, "power_rails": 40, "gpu_counter_event": 52, "gpu_render_stage_event": 53,
        "streaming_profile_packet": 54, "graphics_frame_event": 57, "vulkan_memory_event": 62, "vulkan_api_event": 65,
        "perf_sample": 66, "smaps_packet": 68, "gpu_mem_total_event": 71, "etw_event": 95,
    }  # fmt: skip
    numbers = [*context.values(), *unread.values()]
    found = account(tmp_path, *(packet(wire(number, b"")) for number in numbers))
    at = {first: status for (status, _), (_, first) in found.items()}
    assert at == {k: "context" if k < 3 + len(context) else "unread" for k in range(3, 3 + len(numbers))}
    assert not any(shape.startswith("packet of type") for _, shape in found)


def test_kinds_of_categories() -> None:
    for category, kind in (
        ("kernel_dispatch", "kernel"), ("MEMORY_COPY", "memcpy"), ("marker_api", "range"), ("rccl_api", "library"),
        ("hip_runtime_api", "runtime"), ("scratch_memory", "span"), ("kernel", "kernel"), ("cpu_op", "cpu"),
    ):  # fmt: skip
        assert KINDS[events._kind_of_category(category)] == kind, category


def test_slices_of_two_tracks_do_not_close_each_other(tmp_path: Path) -> None:
    packets = [
        packet(event(BEGIN, "a", track=1), at=10), packet(event(BEGIN, "b", track=2), at=12),
        packet(event(END, track=1), at=20), packet(event(BEGIN, "open", track=1), at=22),
        packet(event(END, track=2), at=30), packet(event(END, track=3), at=31),
    ]  # fmt: skip
    (tmp_path / "trace.pftrace").write_bytes(b"".join(packets))
    log = perflog.read(tmp_path / "trace.pftrace")
    found = log.table("events").sort_values("start_ns")[["name", "start_ns", "duration_ns"]].astype(object)
    assert [tuple(row) for row in found.where(found.notna(), None).values.tolist()] == [
        ("a", 10, 10), ("b", 12, 18), ("open", 22, None)
    ]  # fmt: skip
    assert log.line_account["unread"] == 1  # the end without a begin


def test_a_counter_without_a_number_is_unread(tmp_path: Path) -> None:
    given = [packet(event(COUNTER, "power", counter=5), at=1), packet(event(COUNTER, "power"), at=2)]
    (tmp_path / "trace.pftrace").write_bytes(b"".join(given))
    log = perflog.read(tmp_path / "trace.pftrace")
    assert log.table("counters")["value"].tolist() == [5.0]
    assert log.line_account["unread"] == 1
