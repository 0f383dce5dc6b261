"""Traces of Perfetto: one that its own library wrote, nesting, clocks, interned texts, devices, counters, damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cost import call_growth, cpu_growth
from support.examples import examples
from support.history_files import field as wire
from support.paths import ROOT
from support.perfetto_files import (
    BEGIN,
    COUNTER,
    END,
    INSTANT,
    compressed,
    event,
    interned,
    packet,
    process,
    snapshot,
    thread,
    track,
)
from support.reading import proof_of

import perflog
from perflog.errors import InputError
from perflog.readers.events.event_columns import MISSING
from perflog.readers.perfetto.events import _slices
from perflog.readers.perfetto.packets import begins_as_trace

REAL = ROOT / "tests" / "traces" / "perfetto" / "sdk_python.pftrace"
MAIN = packet(track(1, process=process(7, "train.py"))) + packet(track(2, "", 1, thread=thread(7, 8, "main")))


def read(tmp_path: Path, *packets: bytes) -> perflog.Log:
    path = tmp_path / "a.pftrace"
    path.write_bytes(b"".join(packets))
    return perflog.read(path)


def rows(log: perflog.Log, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in log.arrow("events").to_pylist()]


def test_a_trace_of_the_own_library_is_read() -> None:
    log = perflog.read(REAL)
    assert log.line_account == {"total": 39, "read": 30, "context": 7, "unread": 2}
    steps = log.table("steps")
    assert steps["step_time_s"].tolist() == [513e-6] * 3
    # The sequence counts in differences from 1,000,100,000 ns of the clock that read 1,000,000,000 at 1,795,000,000 s.
    assert int(steps["printed_ns"][0]) == 1_795_000_000_000_000_000 + 100_000 + 100_000 + 513_000
    events = log.table("events")
    (kernel,) = events[events["kind"] == "kernel"].head(1).to_dict("records")
    assert (kernel["device"], kernel["stream"], kernel["step"], kernel["range"]) == (4, 0, 0, "forward")
    assert (kernel["grid"], kernel["block"], kernel["duration_ns"]) == ("4096", "256", 100_000)
    counters = log.table("counters")
    assert counters[["name", "value", "unit"]].values.tolist() == [["memory", n * 1024.0, "B"] for n in (1, 2, 3)]
    idle = perflog.metrics.device_time(log).iloc[0]
    assert idle["compute_s"] == pytest.approx(300e-6)


def test_slices_nest_on_their_track(tmp_path: Path) -> None:
    log = read(
        tmp_path, MAIN,
        packet(event(BEGIN, "outer", 2), at=10), packet(event(BEGIN, "inner", 2), at=20),
        packet(event(END, track=2), at=30), packet(event(INSTANT, "now", 2), at=35), packet(event(END, track=2), at=50),
        packet(event(BEGIN, "open", 2), at=60),
    )  # fmt: skip
    assert rows(log, "line", "name", "kind", "start_ns", "duration_ns", "range", "process", "thread") == [
        (3, "outer", "range", 10, 40, None, "7", "main"),
        (4, "inner", "range", 20, 10, "outer", "7", "main"),
        (6, "now", "mark", 35, None, "outer", "7", "main"),
        (8, "open", "range", 60, None, None, "7", "main"),
    ]
    assert log.line_account == {"total": 8, "read": 6, "context": 2, "unread": 0}


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 3)), max_size=40))
def test_ends_close_the_slice_that_began_last(drawn: list[tuple[int, bool, int]]) -> None:
    """Pairs are those of a stack for each track."""
    time, columns = 0, []
    stacks: dict[int, list[int]] = {}
    expected, lone = {}, []
    for place, (uuid, begins, later) in enumerate(drawn):
        time += later
        columns.append((uuid + 1, BEGIN if begins else END, time))
        if begins:
            stacks.setdefault(uuid, []).append(place)
            expected[place] = MISSING
        elif stacks.get(uuid):
            begin = stacks[uuid].pop()
            expected[begin] = time - columns[begin][2]
        else:
            lone.append(place)
    uuids, types, times = (np.array([row[i] for row in columns], np.int64) for i in range(3))
    table = {"track": uuids, "type": types, "time": times, "generation": np.zeros(len(uuids), np.int64)}
    begins_found, lengths, ends = _slices(table)
    assert dict(zip(begins_found.tolist(), lengths.tolist(), strict=True)) == expected
    assert sorted(ends.tolist()) == lone


def test_a_sequence_has_its_own_texts_and_clock(tmp_path: Path) -> None:
    defaults = wire(59, wire(58, 64) + wire(11, wire(11, 2)))
    named = wire(11, wire(9, BEGIN) + wire(10, 5) + wire(3, 1))
    log = read(
        tmp_path, MAIN,
        packet(snapshot({6: 1000, 1: 2_000_000_000_000_000_000}, own=(64, 40, 10)), defaults, wire(13, 1), sequence=9),
        packet(interned(name={5: "first"}, category={1: "cat"}), named, at=10, sequence=9),
        packet(wire(11, wire(9, END)), at=20, sequence=9),
        packet(wire(13, 1), interned(name={5: "second"}), wire(11, wire(9, BEGIN) + wire(10, 5) + wire(11, 2)), at=2000,
               clock=6, sequence=9),
    )  # fmt: skip
    epoch = 2_000_000_000_000_000_000 - 1000
    # The clock of the sequence reads 400 ns at 1000 ns, and its times are differences in units of 10 ns.
    assert rows(log, "name", "category", "start_ns", "duration_ns") == [
        ("first", "cat", epoch + 1100, 200),
        ("second", None, epoch + 2000, None),
    ]


def test_a_clock_that_no_snapshot_explains_gives_no_time(tmp_path: Path) -> None:
    log = read(tmp_path, MAIN, packet(event(INSTANT, "a", 2), at=5, clock=3), packet(event(INSTANT, "b", 2), at=5))
    assert rows(log, "name", "start_ns") == [("a", None), ("b", 5)]
    assert any("clock 3" in warning for warning in log.warnings)


def test_clocks_that_are_told_by_each_other_stay_within_64_bits(tmp_path: Path) -> None:
    """Each snapshot is later than the one before by all that a reading can hold."""
    far = (1 << 62) - 1
    log = read(
        tmp_path, MAIN, packet(snapshot({6: 1 << 61, 3: 1})), packet(snapshot({3: far, 4: 1})),
        packet(snapshot({4: far, 5: 1})), packet(snapshot({5: far, 2: 1})),
        packet(event(INSTANT, "known", 2), at=5, clock=3), packet(event(INSTANT, "unknown", 2), at=5, clock=2),
    )  # fmt: skip
    assert rows(log, "name", "start_ns") == [("known", (1 << 61) + 4), ("unknown", None)]


def test_each_snapshot_costs_the_same(tmp_path: Path) -> None:
    def read_snapshots(count: int) -> None:
        read(
            tmp_path, MAIN,
            *(packet(snapshot({6: 1000 + i, 3: i}), at=i) + packet(event(INSTANT, "a", 2), at=i, clock=3)
              for i in range(count)),
        )  # fmt: skip

    assert cpu_growth(read_snapshots, 400, 3200) < 16  # 8 times the snapshots


def test_each_track_costs_the_same(tmp_path: Path) -> None:
    """Tracks of a device look at those beside them; each counter has readings of its own."""

    def read_tracks(count: int) -> None:
        counter = wire(3, 3)
        of_device = (
            packet(track(1000 + i, f"x{i}", 1)) + packet(event(BEGIN, "k", 1000 + i), at=i)
            + packet(event(END, track=1000 + i), at=i + 1) + packet(track(9000 + i, f"c{i}", counter=counter))
            + packet(event(COUNTER, track=9000 + i, category=f"of {i}", counter=i), at=i)
            for i in range(count)
        )  # fmt: skip
        read(tmp_path, packet(track(1, "GPU 1")), *of_device)

    assert call_growth(read_tracks, 50, 800) < 18  # 16 times the tracks


def test_tracks_may_be_described_after_their_events(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        packet(event(BEGIN, "memcpyHtoD", 40), at=1), packet(event(END, track=40), at=5),
        packet(event(BEGIN, "relu", 41), at=1), packet(event(END, track=41), at=4),
        packet(track(30, "GPU 3")), packet(track(40, "Stream 5", 30)), packet(track(41, "Ranges", 30)),
    )  # fmt: skip
    assert rows(log, "name", "kind", "device", "stream") == [
        ("memcpyHtoD", "memcpy", 3, 5),
        ("relu", "device_range", 3, None),
    ]


def test_devices_of_rocprof_have_all_digits_of_their_number(tmp_path: Path) -> None:
    names = ["COMPUTE AGENT [1234567890] QUEUE [7] (GPU)", f"COPY to AGENT [{'9' * 5000}] THREAD [1] (GPU)"]
    names += ["STREAM [12]", f"STREAM [{'9' * 19}]"]
    log = read(
        tmp_path,
        *(packet(track(40 + i, name)) + packet(event(BEGIN, "k", 40 + i), at=1) for i, name in enumerate(names)),
    )
    assert rows(log, "kind", "device", "stream") == [
        ("kernel", 1234567890, 7),
        ("kernel", None, None),
        ("kernel", None, 12),
        ("kernel", None, None),
    ]


def test_compressed_packets_stand_in_their_place(tmp_path: Path) -> None:
    plain = [
        packet(event(BEGIN, "a", 2), at=1),
        packet(event(END, track=2), at=3),
        packet(event(INSTANT, "b", 2), at=4),
    ]
    whole = rows(read(tmp_path, MAIN, *plain), "line", "name", "start_ns", "duration_ns")
    packed = rows(read(tmp_path, MAIN, compressed(*plain[:2]), plain[2]), "line", "name", "start_ns", "duration_ns")
    assert whole == packed == [(3, "a", 1, 2), (5, "b", 4, None)]
    damaged = read(tmp_path, MAIN, wire(1, wire(50, b"no zlib")), plain[2])
    assert damaged.line_account["unread"] == 1 and any("compressed" in w for w in damaged.warnings)


def test_compressed_packets_in_compressed_ones_are_unread(tmp_path: Path) -> None:
    """Else a file may unpack to any size, each time to some hundred times the one before."""
    plain = packet(event(INSTANT, "a", 2), at=1)
    log = read(tmp_path, MAIN, compressed(plain, compressed(plain)))
    assert log.line_account == {"total": 4, "read": 1, "context": 2, "unread": 1}


def test_compressed_packets_have_one_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perflog.parsing.input.limits.MOST_UNPACKED", 1 << 20)
    one = compressed(packet(wire(66, b"\0" * 600_000)))
    assert read(tmp_path, MAIN, one, packet(event(INSTANT, "a", 2))).line_account["read"] == 1
    with pytest.raises(InputError, match=r"a\.pftrace: unpacks to more than 250 times its size, and more than 1 MiB"):
        read(tmp_path, MAIN, one, one)


def test_counters_may_count_differences(tmp_path: Path) -> None:
    counter = wire(3, 3) + wire(4, 1024) + wire(5, 1)
    log = read(
        tmp_path, packet(track(9, "sent", counter=counter)),
        packet(event(COUNTER, track=9, counter=2), at=1), packet(event(COUNTER, track=9, real=0.5), at=2),
        packet(event(COUNTER, track=9), at=3),
    )  # fmt: skip
    assert log.table("counters")[["name", "start_ns", "value", "unit"]].values.tolist() == [
        ["sent", 1, 2048.0, "B"],
        ["sent", 2, 2560.0, "B"],
    ]
    assert log.line_account == {"total": 4, "read": 2, "context": 1, "unread": 1}


def test_each_counter_has_its_own_unit_factor_and_way_to_count(tmp_path: Path) -> None:
    """Differences are added in the order of time, whatever the order of the packets. A factor of 0 is none."""
    log = read(
        tmp_path, packet(track(1, "GPU 3")),
        packet(track(9, "sent", counter=wire(3, 3) + wire(4, 1024) + wire(5, 1))),
        packet(track(10, "used", 1, counter=wire(4, 0))), packet(track(11, "plain", counter=b"")),
        packet(event(COUNTER, track=9, counter=2), at=5), packet(event(COUNTER, track=11, counter=7), at=1),
        packet(event(COUNTER, track=9, counter=1), at=4), packet(event(COUNTER, track=10, real=2.5), at=2),
        packet(event(COUNTER, track=11, counter=3), at=6), packet(event(COUNTER, track=9, real=float("nan")), at=7),
    )  # fmt: skip
    found = log.arrow("counters").to_pylist()
    assert sorted((r["name"], r["start_ns"], r["value"], r["unit"], r["device"]) for r in found) == [
        ("plain", 1, 7.0, None, None),
        ("plain", 6, 3.0, None, None),
        ("sent", 4, 1024.0, "B", None),
        ("sent", 5, 3072.0, "B", None),
        ("used", 2, 2.5, None, 3),
    ]
    assert log.line_account["unread"] == 1  # no number


def test_the_kind_of_a_slice_is_that_of_its_category(tmp_path: Path) -> None:
    """Else that of a name on the queue of a device; other slices are ranges, on a device or not."""
    log = read(
        tmp_path, MAIN, packet(track(30, "GPU 3")), packet(track(40, "Stream 5", 30)), packet(track(41, "Ranges", 30)),
        packet(event(BEGIN, "memcpyHtoD", 40), at=1), packet(event(BEGIN, "gemm", 40), at=2),
        packet(event(BEGIN, "forward", 41), at=3), packet(event(BEGIN, "gemm", 2), at=4),
        packet(event(BEGIN, "launch", 2, category="hip_api"), at=5),
        packet(event(BEGIN, "gemm", 40, category="kernel"), at=6), packet(event(BEGIN, "x", 40, category="odd"), at=7),
    )  # fmt: skip
    assert rows(log, "name", "kind") == [
        ("memcpyHtoD", "memcpy"),
        ("gemm", "kernel"),
        ("forward", "device_range"),
        ("gemm", "range"),
        ("launch", "runtime"),
        ("gemm", "kernel"),
        ("x", "kernel"),
    ]


def test_a_counter_of_a_category_may_lack_its_number(tmp_path: Path) -> None:
    named = packet(wire(11, wire(9, COUNTER) + wire(11, 9) + wire(22, "mem")))
    lines = read(tmp_path, packet(track(9, "sent", counter=b"")), named).arrow("lines").to_pylist()
    assert {row["shape"]: row["count"] for row in lines if row["count"]} == {
        "track": 1,
        "counter mem without a number": 1,
    }


def test_events_of_the_system_are_accounted_for(tmp_path: Path) -> None:
    ftrace = wire(1, wire(1, 0) + wire(2, wire(1, 5)) + wire(2, wire(1, 6)))
    log = read(tmp_path, MAIN, packet(ftrace), packet(wire(66, b"")), packet(event(INSTANT, "a", 2), at=1))
    unread = {row["shape"]: row["count"] for row in log.arrow("lines").to_pylist() if row["status"] == "unread"}
    assert unread == {"ftrace events": 1, "samples of perf": 1}
    assert log.figure_account["unread"] == 2


def test_a_cut_trace_has_all_whole_packets(tmp_path: Path) -> None:
    last = packet(event(INSTANT, "b", 2), at=2)
    log = read(tmp_path, MAIN, packet(event(INSTANT, "a", 2), at=1), last[:-3])
    assert rows(log, "name", "start_ns") == [("a", 1)]
    assert log.line_account == {"total": 4, "read": 1, "context": 2, "unread": 1}
    (warning,) = log.warnings
    assert "the trace is cut or damaged from byte" in warning and warning.count("a.pftrace") == 1


def test_a_compressed_packet_may_be_cut(tmp_path: Path) -> None:
    whole = packet(event(INSTANT, "a", 2), at=1)
    log = read(tmp_path, MAIN, compressed(whole, whole[:-3]), whole)
    assert log.line_account == {"total": 5, "read": 2, "context": 2, "unread": 1}
    assert any("a compressed packet is cut or damaged" in warning for warning in log.warnings)


@pytest.mark.parametrize("text", [b"\n\nstep 1 loss 2\n", b"\n\n\n\n", b"", b"\n", b"\n    at main.py\n", b"\n\x12\n"])
def test_other_files_are_none(text: bytes) -> None:
    assert not begins_as_trace(text, True)


@pytest.mark.parametrize(
    ("readings", "clock"), [({6: 1000, 1: 5000}, "epoch"), ({6: 1000, 3: 7}, "trace"), ({}, "trace")]
)
def test_whether_times_count_since_1970(tmp_path: Path, readings: dict[int, int], clock: str) -> None:
    log = read(tmp_path, packet(snapshot(readings)), packet(event(BEGIN, "a"), at=1100), packet(event(END), at=1200))
    config = json.loads(log.table("runs")["config"].iloc[0])
    assert config["clock"] == clock
    assert log.table("events")["start_ns"].tolist() == [5100 if clock == "epoch" else 1100]


def test_the_proof_counts_packets_by_what_they_are(tmp_path: Path) -> None:
    read(tmp_path, MAIN, packet(event(BEGIN, "a", 2), at=10), packet(event(END, track=2), at=30))
    proof = proof_of(tmp_path / "a.pftrace")
    assert [(place, text) for place, _, text in proof] == [
        (1, "2 packets, context"), (3, "1 packets, read"), (4, "1 packets, read")
    ]  # fmt: skip
