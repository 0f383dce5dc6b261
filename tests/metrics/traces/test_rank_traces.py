"""Traces of several ranks, read as files, against loops over their JSON: groups, sizes, pairs, clocks, late ranks."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from support.field_logs import needs_corpus
from support.metrics_logs import rows
from support.rank_traces import BASE_US, ITEM, Event, collectives_of, ns, sends_of, trace_job, write_job
from support.trace_tables import raw, real

import perflog
from perflog.analysis.overview.bottlenecks import bottleneck
from perflog.metrics import (
    Options,
    Tables,
    collective_bandwidth,
    collective_wait,
    lateness,
    rank_clocks,
    rank_pairs,
    stragglers,
)
from perflog.metrics.traces.collective_matching import listed_numbers


@pytest.mark.parametrize(("seed", "world"), [(1, 4), (2, 6), (3, 2)])
def test_groups_of_one_name_are_kept_apart_by_their_ranks(tmp_path: Path, seed: int, world: int) -> None:
    folder = write_job(tmp_path, trace_job(seed, world))
    wanted = collectives_of(folder)
    found = {(r["group"], r["group_ranks"], r["place"]): r for r in rows(collective_wait(perflog.read(folder)))}
    pairs = {key: found.pop(key) for key in list(found) if key[0] == "pp"}
    assert set(found) == set(wanted) and len({ranks for name, ranks, _ in found if name == "tp"}) == world // 2
    assert all(r["reason"] is None for r in pairs.values())
    for key, events in wanted.items():
        starts = {rank: ns(event["ts"]) for rank, event in events.items()}
        last = max(starts.values())
        row = found[key]
        assert (row["ranks"], row["of_ranks"], row["reason"]) == (len(events), len(events), None)
        assert row["wait_s"] == pytest.approx(sum(last - s for s in starts.values()) / len(starts) * 1e-9)
        assert row["transfer_s"] == pytest.approx(min(event["dur"] for event in events.values()) * 1e-6)


def test_groups_of_one_name_whose_ranks_are_not_printed_are_not_matched(tmp_path: Path) -> None:
    job = trace_job(4)
    for events in job.values():
        for event in events:
            event["args"].pop("Process Group Ranks", None)
    found = rows(collective_wait(perflog.read(write_job(tmp_path, job))), group="tp")
    assert [r["reason"] for r in found] == ["more ranks have it than the group has: other groups are called the same"]


def test_ranks_that_one_rank_does_not_print_are_those_of_the_only_group_of_this_name(tmp_path: Path) -> None:
    job = trace_job(5)
    for event in job[2]:
        if event["args"].get("Process Group Name") == "dp":
            event["args"] |= {"Process Group Ranks": "", "Group size": ""}
    found = rows(collective_wait(perflog.read(write_job(tmp_path, job))), group="dp")
    assert [(r["ranks"], r["of_ranks"], r["group_ranks"]) for r in found] == [(4, 4, "[0, 1, 2, 3]")] * 4


@pytest.mark.parametrize(
    ("printed", "ranks"),
    [("[4, 5]", (4, 5)), ("[3]", (3,)), ("[0, 1, ..., 127]", None), ("[]", None), ("", None), (None, None)],
)
def test_listed_numberss_are_read_where_the_list_is_whole(printed: str | None, ranks: tuple[int, ...] | None) -> None:
    assert listed_numbers(printed) == ranks


# --- bytes and bandwidth ----------------------------------------------------------------------------------------------

OPS = {"allreduce": "all_reduce", "all_to_allv": "all_to_all", "_allgather_base": "all_gather"}


def buffer(event: Event) -> int:
    args = event["args"]
    return max(int(args["In msg nelems"]), int(args["Out msg nelems"])) * ITEM[args["dtype"]]


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


# --- pairs of ranks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "world"), [(10, 4), (11, 6)])
def test_sends_by_their_ranks(tmp_path: Path, seed: int, world: int) -> None:
    folder = write_job(tmp_path, trace_job(seed, world))
    wanted = sends_of(folder)
    found = {(r["sender"], r["receiver"]): r for r in rows(rank_pairs(perflog.read(folder)), op="send_recv")}
    assert set(found) == set(wanted) == {(rank, rank + 1) for rank in range(world - 1)}
    for pair, transfers in wanted.items():
        size, time = (sum(map(buffer, (s for s, _ in transfers))), sum(min(s["dur"], r["dur"]) for s, r in transfers))
        starts = [(ns(s["ts"]), ns(r["ts"])) for s, r in transfers]
        row = found[pair]
        assert (row["calls"], row["bytes"], row["timed"]) == (len(transfers), size, "transfer")
        assert (row["time_s"], row["bandwidth"]) == pytest.approx((time * 1e-6, size / time / 1e3))
        assert row["wait_s"] == pytest.approx(sum(abs(s - r) for s, r in starts) * 1e-9)
        assert row["later"] == pytest.approx(sum(s > r for s, r in starts) / len(starts))


def test_sends_of_one_trace(tmp_path: Path) -> None:
    """Rank 1 receives from rank 0 and sends to rank 2, which have no traces."""
    folder = write_job(tmp_path, {1: trace_job(12)[1]})
    found = rows(rank_pairs(perflog.read(folder)), op="send_recv")
    assert [(r["sender"], r["receiver"], r["calls"], r["timed"], r["wait_s"]) for r in found] == [
        (0, 1, 2, "kernel", None), (1, 2, 2, "kernel", None)
    ]  # fmt: skip


@pytest.mark.parametrize(("seed", "traced"), [(13, [0, 1, 2, 3]), (14, [0, 2]), (15, [3])])
def test_all_to_alls_by_their_splits(tmp_path: Path, seed: int, traced: list[int]) -> None:
    """What ranks without a trace send is printed by those that receive it."""
    job = trace_job(seed)
    matrix: dict[tuple[int, int], float] = defaultdict(float)
    for rank, events in job.items():
        for args in (event["args"] for event in events):
            if args.get("Collective name") == "all_to_allv":
                for other, elements in enumerate(json.loads(args["In split size"])):
                    if {rank, other} & set(traced):
                        width = args["In msg nelems"] / sum(json.loads(args["In split size"]))
                        matrix[rank, other] += elements * width * 2
    found = rows(rank_pairs(perflog.read(write_job(tmp_path, {r: job[r] for r in traced}))), op="all_to_all")
    assert {(r["sender"], r["receiver"]): r["bytes"] for r in found} == pytest.approx(matrix)
    assert {r["calls"] for r in found} == {4} and sum(r["share"] for r in found) == pytest.approx(1)


@pytest.mark.parametrize("printed", ["[]", "[1, 2, ..., 4]", "[1, 2]"])
def test_without_whole_splits_no_matrix_is_guessed(tmp_path: Path, printed: str) -> None:
    job = trace_job(16)
    for event in (event for events in job.values() for event in events):
        if event["args"].get("Process Group Name") == "ep":
            event["args"]["In split size"] = printed
    assert rows(rank_pairs(perflog.read(write_job(tmp_path, job))), op="all_to_all") == []


# --- clocks -----------------------------------------------------------------------------------------------------------

OFFSETS = {0: 0, 1: 250_000, 2: -1_700_000, 3: 33, 4: 9_000_000_000, 5: -12}


@pytest.mark.parametrize(("seed", "world"), [(17, 4), (18, 6)])
def test_clocks_are_estimated_and_bounded(tmp_path: Path, seed: int, world: int) -> None:
    folder = write_job(tmp_path, trace_job(seed, world, offsets=OFFSETS))
    found = rows(rank_clocks(perflog.read(folder)))
    both = list(collectives_of(folder).values())
    assert [r["rank"] for r in found] == list(range(world)) and {r["reference"] for r in found} == {"rank 0"}
    for rank, row in enumerate(found):
        pairs = [(events[rank], events[0]) for events in both if rank in events and 0 in events]
        assert row["offset_s"] == pytest.approx(OFFSETS[rank] * 1e-9, abs=2e-9)
        assert row["spread_s"] == pytest.approx(0, abs=2e-9)
        assert row["collectives"] == sum(rank in events for events in both)
        if rank:
            least = max(ns(own["ts"]) - ns(other["ts"] + other["dur"]) for own, other in pairs)
            most = min(ns(own["ts"] + own["dur"]) - ns(other["ts"]) for own, other in pairs)
            assert (row["least_s"], row["most_s"]) == pytest.approx((least * 1e-9, most * 1e-9), abs=3e-9)
            assert row["least_s"] < row["offset_s"] < row["most_s"] and row["possible"] and not row["clock_ok"]


def test_a_rank_that_leaves_some_collectives_late_does_not_move_the_estimate(tmp_path: Path) -> None:
    job = trace_job(19, steps=12, offsets={1: 5_000_000})
    kernels = [e for e in job[1] if e["cat"] == "kernel" and "Seq" in e["args"]]
    for event in kernels[::4]:
        event["dur"] += 300
    found = rows(rank_clocks(perflog.read(write_job(tmp_path, job))))
    assert [r["offset_s"] for r in found] == pytest.approx([0, 5e-3, 0, 0], abs=2e-7)


def test_ranks_that_no_collectives_join_have_no_offset(tmp_path: Path) -> None:
    """Groups of two ranks only: ranks 2 and 3 know nothing of rank 0."""
    job = {r: [e for e in of if e["args"].get("Process Group Name") == "tp"] for r, of in trace_job(20).items()}
    found = rows(rank_clocks(perflog.read(write_job(tmp_path, job))))
    assert [r["offset_s"] is None for r in found] == [False, False, True, True]
    assert found[2]["reason"] == "no collectives join it with rank 0, directly or over other ranks"


def test_a_clock_that_drifts_fits_no_offset(tmp_path: Path) -> None:
    job = trace_job(21, steps=8)
    for event in job[2]:
        event["ts"] += (event["ts"] - job[0][0]["ts"]) * 0.5
    found = rows(rank_clocks(perflog.read(write_job(tmp_path, job))))
    assert [r["possible"] for r in found] == [True, True, False, True]


def test_of_few_collectives_no_clock_is_estimated(tmp_path: Path) -> None:
    found = rows(rank_clocks(perflog.read(write_job(tmp_path, {r: e[-2:] for r, e in trace_job(22).items()}))))
    assert {(r["offset_s"], r["reason"]) for r in found} == {
        (None, "1 matched collectives that end together: at least 3 are needed")
    }


# --- what the last rank did -------------------------------------------------------------------------------------------

STATE = {"gpu_memcpy": "memory", "kernel": "compute"}
ORDER = ("compute", "communication", "memory")


def more_work(events: list[Event], rank: int, seed: int) -> list[Event]:
    """The events with work on another stream that overlaps anything: kernels and copies."""
    chance = random.Random(seed)
    first, last = ns(events[0]["ts"]), ns(events[-1]["ts"])
    more: list[Event] = []
    for number in range(30):
        start, length = chance.randrange(first, last), chance.randrange(50, 1500)
        cat, name = chance.choice([("kernel", "softmax"), ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)")])
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 2}
        inside = {"ph": "X", "cat": "user_annotation", "name": f"side {number % 3}", "pid": 7, "tid": 2}
        at = BASE_US + (first - 10_000 + 100 * number) / 1000
        work = {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 9, "ts": BASE_US + start / 1000}
        args = {"device": rank, "stream": 9, "correlation": 10_000 + number}
        joins = {"args": {"correlation": 10_000 + number}}
        more += [inside | {"ts": at, "dur": 0.09}, call | {"ts": at + 0.02, "dur": 0.03} | joins]
        more.append(work | {"dur": length / 1000, "args": args})
    return [*events, *(event if "args" in event else event | {"args": {}} for event in more)]


def doing(events: list[Event], start: int, end: int) -> dict[tuple[str, str], int]:
    """What a rank did in a window, ns by ns between all edges, by state and the range around the launch."""
    calls = {e["args"]["correlation"]: e for e in events if e["cat"] == "cuda_runtime"}
    ranges = [e for e in events if e["cat"] == "user_annotation"]
    work = []
    for e in (e for e in events if e["cat"] in STATE):
        call = calls[e["args"]["correlation"]]
        around = [
            r for r in ranges
            if (r["pid"], r["tid"]) == (call["pid"], call["tid"])
            and ns(r["ts"]) <= ns(call["ts"]) and ns(call["ts"] + call["dur"]) <= ns(r["ts"] + r["dur"])
        ]  # fmt: skip
        name = min(around, key=lambda r: float(r["dur"]))["name"] if around else "(outside of ranges)"
        state = "communication" if "nccl" in e["name"] else STATE[e["cat"]]
        work.append((ns(e["ts"]), ns(e["ts"]) + round(e["dur"] * 1000), state, name))
    edges = sorted({start, end, *(edge for w in work for edge in w[:2] if start < edge < end)})
    found: dict[tuple[str, str], int] = defaultdict(int)
    for low, high in pairwise(edges):
        running = [w for w in work if w[0] <= low and high <= w[1]]
        if running:
            state = min((w[2] for w in running), key=ORDER.index)
            found[state, min(w for w in running if w[2] == state)[3]] += high - low
        else:
            found["idle", min(w for w in work if w[0] >= high)[3]] += high - low
    return found


@pytest.mark.parametrize(("seed", "world", "late"), [(23, 4, 3), (24, 4, None), (25, 6, 1)])
def test_what_the_last_rank_did_is_what_its_trace_says(tmp_path: Path, seed: int, world: int, late: int | None) -> None:
    job = {r: more_work(events, r, seed + r) for r, events in trace_job(seed, world, late=late).items()}
    folder = write_job(tmp_path, job)
    log = perflog.read(folder)
    meetings = [{r: ns(e["ts"]) for r, e in events.items()} for events in collectives_of(folder).values()]
    for (sender, receiver), transfers in sends_of(folder).items():
        meetings += [{sender: ns(s["ts"]), receiver: ns(r["ts"])} for s, r in transfers]
    wanted: dict[tuple[int, str, str], int] = defaultdict(int)
    for starts in meetings:
        last = max(starts, key=lambda rank: starts[rank])
        if list(starts.values()).count(starts[last]) == 1:
            for key, time in doing(job[last], min(starts.values()), starts[last]).items():
                wanted[(last, *key)] += time
    found = rows(lateness(log))
    assert {(r["rank"], r["doing"], r["range"]): round(r["time_s"] * 1e9) for r in found} == wanted
    for row in rows(stragglers(log)):
        of_rank = [r for r in found if r["rank"] == row["rank"]]
        assert sum(r["time_s"] for r in of_rank) == pytest.approx(row["imposed_s"])
        assert sum(r["share"] for r in of_rank) == pytest.approx(1)
        assert sum(r["of_span"] for r in of_rank) == pytest.approx(row["imposed_share"])
    if late is not None:
        most = max(found, key=lambda r: float(r["time_s"]))
        assert (most["rank"], most["doing"], most["range"]) == (late, "compute", "forward")


def test_where_clocks_differ_nobody_is_late(tmp_path: Path) -> None:
    log = perflog.read(write_job(tmp_path, trace_job(26, offsets=OFFSETS)))
    assert rows(lateness(log)) == [] and {r["straggler"] for r in rows(stragglers(log))} == {"undetermined"}


def test_without_ranges_the_state_is_known(tmp_path: Path) -> None:
    job = {r: [e for e in of if e["cat"] != "user_annotation"] for r, of in trace_job(27, late=2).items()}
    found = rows(lateness(perflog.read(write_job(tmp_path, job))), rank=2)
    assert found[0]["doing"] == "compute" and {r["range"] for r in found} == {None}


def test_the_overview_names_the_late_rank_and_what_it_did(tmp_path: Path) -> None:
    log = perflog.read(write_job(tmp_path, trace_job(28, steps=8, late=2)))
    (late,) = rows(stragglers(log), rank=2)
    did = [r for r in rows(lateness(log), rank=2) if (r["doing"], r["range"]) == ("compute", "forward")]
    (run,) = log.runs["run"]
    (sentence,) = (text for text in bottleneck(Tables(log), run, Options()) if "comes last" in text)
    assert sentence == (
        f"Rank 2 comes last in {late['last_share']:.0%} of its {late['collectives']} collectives; others wait for it "
        f"in {late['imposed_share']:.0%} of the time, {did[0]['share']:.0%} of that while it computes in forward."
    ).replace("%", " %")


# --- comparison, and a real trace --------------------------------------------------------------------------------


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
