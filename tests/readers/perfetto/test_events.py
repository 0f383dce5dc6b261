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


def raw(*fields: bytes) -> bytes:
    return wire(11, b"".join(fields))


def test_events_of_the_older_kind_have_a_phase_and_a_length(tmp_path: Path) -> None:
    """Field 6 is the legacy event: 2 its phase, 3 its length in us. A type of its own counts before the phase."""
    older = [
        (10, raw(wire(23, "whole"), wire(6, wire(2, ord("X")) + wire(3, 7)))),
        (20, raw(wire(23, "begun"), wire(6, wire(2, ord("B"))))), (25, raw(wire(6, wire(2, ord("E"))))),
        (30, raw(wire(23, "moment"), wire(6, wire(2, ord("I"))))),
        (40, raw(wire(23, "typed"), wire(9, INSTANT), wire(6, wire(2, ord("B"))))),
        (50, raw(wire(23, "no length"), wire(6, wire(2, ord("X"))))),
        (60, raw(wire(23, "odd length"), wire(6, wire(2, ord("X")) + wire(3, -1)))),
        (70, raw(wire(23, "odd"), wire(6, wire(2, ord("Q"))))),
    ]  # fmt: skip
    (tmp_path / "trace.pftrace").write_bytes(b"".join(packet(content, at=at) for at, content in older))
    log = perflog.read(tmp_path / "trace.pftrace")
    found = log.arrow("events").select(["name", "kind", "start_ns", "duration_ns"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("whole", "range", 10, 7000), ("begun", "range", 20, 5), ("moment", "mark", 30, None),
        ("typed", "mark", 40, None),
    ]  # fmt: skip
    assert log.line_account == {"total": 8, "read": 5, "context": 0, "unread": 3}


def test_correlations_and_arguments_are_of_their_event(tmp_path: Path) -> None:
    """Field 52 is the correlation of an event; an argument of this name is one, too."""
    packets = [
        packet(event(INSTANT, "none"), at=1),
        packet(raw(wire(9, BEGIN), wire(23, "own"), wire(52, 77)), at=2), packet(event(END), at=3),
        packet(event(BEGIN, "argument", args={"corr_id": 5, "odd": 2.5}), at=4), packet(event(END), at=5),
    ]  # fmt: skip
    (tmp_path / "trace.pftrace").write_bytes(b"".join(packets))
    log = perflog.read(tmp_path / "trace.pftrace")
    found = log.arrow("events").select(["name", "correlation"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [("none", None), ("own", 77), ("argument", 5)]
    values = log.arrow("values").select(["line", "key", "value"]).to_pylist()
    assert [tuple(row.values()) for row in values] == [(4, "odd", 2.5)]


def test_readings_of_a_counter_that_prints_differences_are_summed_in_the_order_of_time(tmp_path: Path) -> None:
    """Field 5 of a counter says so, field 4 is the factor of its unit."""
    packets = [
        packet(track(1, "sum", counter=wire(5, 1) + wire(4, 10))), packet(track(2, "plain", counter=b"")),
        *(packet(event(COUNTER, track=1, counter=value), at=at) for at, value in ((10, 1), (30, 4), (20, 2))),
        packet(event(COUNTER, track=2, real=0.5), at=40), packet(event(COUNTER, track=2, counter=3), at=50),
    ]  # fmt: skip
    (tmp_path / "trace.pftrace").write_bytes(b"".join(packets))
    found = perflog.read(tmp_path / "trace.pftrace").arrow("counters").select(["name", "start_ns", "value"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        ("plain", 40, 0.5), ("plain", 50, 3), ("sum", 10, 10), ("sum", 20, 30), ("sum", 30, 70),
    ]  # fmt: skip
