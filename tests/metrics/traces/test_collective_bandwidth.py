"""Bytes and bandwidth of collectives, against loops over the JSON of the traces."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from support.field_logs import needs_corpus
from support.metrics_logs import rows
from support.rank_traces import buffer, collectives_of, trace_job, write_job
from support.trace_tables import in_ns, raw, real, small_job

import perflog
from perflog.metrics import (
    collective_bandwidth,
    lateness,
    rank_clocks,
    rank_pairs,
    stragglers,
)

OPS = {"allreduce": "all_reduce", "all_to_allv": "all_to_all", "_allgather_base": "all_gather"}


@pytest.mark.parametrize(("seed", "world"), [(6, 4), (7, 6)])
def test_bandwidths_are_those_of_the_matched_kernels(tmp_path: Path, seed: int, world: int) -> None:
    folder = write_job(tmp_path, trace_job(seed, world))
    sizes, times = defaultdict(list), defaultdict(list)
    for (group, ranks, _), events in collectives_of(folder).items():
        op = OPS[events[min(events)]["args"]["Collective name"]]
        sizes[op, group, ranks].append(max(map(buffer, events.values())))
        times[op, group, ranks].append(min(event["dur"] for event in events.values()) * 1e-6)
    found = [r for r in rows(collective_bandwidth(perflog.read(folder))) if r["op"] != "send_recv"]
    assert len(found) == len(sizes) and {r["timed"] for r in found} == {"transfer"}
    for row in found:
        key = (row["op"], row["group"], row["group_ranks"])
        algbw = sum(sizes[key]) / sum(times[key]) / 1e9
        n = len(json.loads(row["group_ranks"]))
        factor = (2 if row["op"] == "all_reduce" else 1) * (n - 1) / n
        assert (row["calls"], row["bytes"], row["largest"]) == (len(sizes[key]), sum(sizes[key]), max(sizes[key]))
        assert (row["algbw"], row["busbw"]) == pytest.approx((algbw, algbw * factor))
        fastest = max(size / time for size, time in zip(sizes[key], times[key], strict=True))
        assert row["peak_busbw"] == pytest.approx(fastest * factor / 1e9)


def test_of_one_rank_the_kernels_are_timed_with_their_waiting(tmp_path: Path) -> None:
    events = trace_job(8)[2]
    (row,) = rows(collective_bandwidth(perflog.read(write_job(tmp_path, {2: events}))), group="dp")
    kernels = [e for e in events if e["args"].get("Process Group Name") == "dp"]
    algbw = sum(map(buffer, kernels)) / sum(e["dur"] for e in kernels) / 1e3
    assert (row["timed"], row["rank"], row["calls"]) == ("kernel", 2, len(kernels))
    assert (row["algbw"], row["busbw"]) == pytest.approx((algbw, algbw * 0.75))


def test_no_bandwidth_is_guessed_where_sizes_or_groups_are_not_printed(tmp_path: Path) -> None:
    job = trace_job(9)
    for event in (event for events in job.values() for event in events):
        group = event["args"].get("Process Group Name")
        for key in ("Group size", "Process Group Ranks") if group == "dp" else ("dtype",) if group == "ep" else ():
            event["args"].pop(key)
    found = {r["group"]: r for r in rows(collective_bandwidth(perflog.read(write_job(tmp_path, job))))}
    assert found["dp"]["busbw"] is None and found["dp"]["algbw"] > 0
    assert (found["ep"]["bytes"], found["ep"]["algbw"], found["ep"]["calls"]) == (None, None, 4)


def test_bandwidths_and_waits_are_compared(tmp_path: Path) -> None:
    logs = [perflog.read(write_job(tmp_path / str(k), trace_job(29, late=late))) for k, late in enumerate((None, 2))]
    compared = perflog.compare(*logs).rows
    of_collectives = compared[compared["kind"] == "collective"].set_index("metric")
    for side, log in zip(("base_value", "side_value"), logs, strict=True):
        (tp,) = (r for r in rows(collective_bandwidth(log)) if r["group_ranks"] == "[0, 1]")
        named = of_collectives.loc["all_reduce bus bandwidth, group tp, [0, 1], BFloat16"]
        assert named[side] == pytest.approx(tp["busbw"])
        waits = rows(stragglers(log))
        mean = sum(r["wait_s"] for r in waits) / sum(r["collectives"] for r in waits)
        assert of_collectives.loc["wait of a rank, mean"][side] == pytest.approx(mean)


@needs_corpus
def test_of_the_real_trace_all_kernels_of_collectives_are_timed_and_nothing_is_guessed() -> None:
    for rank in (0, 1):
        lengths = [event["dur"] for event in raw(rank) if event["cat"] == "kernel" and "nccl" in event["name"].lower()]
        (row,) = rows(collective_bandwidth(real(rank)))
        assert (row["timed"], row["rank"], row["calls"]) == ("kernel", rank, len(lengths))
        assert row["time_s"] == pytest.approx(sum(lengths) * 1e-6)
        assert row["bytes"] is row["algbw"] is row["busbw"] is None
    both = rows(collective_bandwidth(real(0, 1)))
    assert sum(r["calls"] * (2 if r["timed"] == "transfer" else 1) for r in both) == 20
    assert rows(rank_pairs(real(0, 1))) == [] and rows(lateness(real(0, 1))) == []
    assert [r["offset_s"] for r in rows(rank_clocks(real(0, 1)))] == [None, None]


def test_all_columns_of_a_small_job() -> None:
    assert in_ns(collective_bandwidth(small_job())) == [
        {
            "op": "all_reduce", "group": "dp", "group_ranks": "[0, 1]", "dtype": "BFloat16", "of_ranks": 2,
            "timed": "transfer", "rank": None, "calls": 4, "time_s": 400, "bytes": 4 * 4096, "median_bytes": 4096,
            "largest": 4096, "algbw": 40.96, "busbw": 40.96, "peak_busbw": 40.96, "first_line": 4,
        }
    ]  # fmt: skip
