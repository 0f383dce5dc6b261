"""Collectives of several ranks are matched by group and number, against loops over the JSON of their traces."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from support.metrics_logs import rows
from support.rank_traces import collectives_of, ns, trace_job, write_job
from support.trace_tables import by_hand, kernel, log

import perflog
from perflog.metrics import (
    collective_wait,
)
from perflog.metrics.traces.collectives import collective_matching as matching
from perflog.metrics.traces.collectives.collective_matching import (
    _clock_ok,
    _with_places,
    all_collectives,
    bus_factor,
    listed_numbers,
)
from perflog.metrics.traces.collectives.jobs import Job


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


@pytest.mark.parametrize(
    ("whole", "apart", "count", "is_one", "is_own"),
    [
        (10, 0, 10, True, True), (10, 10**9, 10, False, False), (0, 0, 10, False, False), (10, 0, 1, None, False),
        (0, 10**9, 1, None, False), (10, 20, 10, True, False), (10, 10, 10, True, True), (9, 0, 10, True, False),
    ],
)  # fmt: skip
def test_one_clock_shows_in_collectives_that_overlap_and_end_together(
    whole: int, apart: int, count: int, is_one: bool | None, is_own: bool
) -> None:
    """Clocks that each file may have for itself must agree more closely."""
    collectives = pd.DataFrame({
        "op": "all_reduce", "whole": [n < whole for n in range(count)], "end_skew": apart, "longest": 1000,
    })  # fmt: skip
    assert _clock_ok(Job((), None, None), collectives) is is_one
    assert _clock_ok(Job((), False, None), collectives) is is_own
    assert _clock_ok(Job((), True, None), collectives) is True


def test_operations_of_a_group_on_two_streams_may_begin_in_another_order_on_a_late_rank() -> None:
    """As with sharded data parallelism: the next layer's parameters are gathered beside the last layer's gradients."""
    events = []
    for rank, late in ((0, 0), (1, 40)):
        for k in range(4):
            gather, scatter = 100 * k + 10 + late, 100 * k + 20
            usual = {"rank": rank, "part": rank, "device": rank, "group": "dp", "group_ranks": "[0, 1]", "ranks": 2}
            events += [
                kernel(gather, 100 * k + 60, "ncclDevKernel_AllGather_RING_LL", stream=20, **usual),
                kernel(scatter, 100 * k + 30, "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", stream=24, **usual),
            ]
    found = rows(collective_wait(log(by_hand(events))))
    assert {(r["op"], r["place"], r["ranks"], r["reason"]) for r in found} == {
        (op, place, 2, None) for op in ("all_gather", "reduce_scatter") for place in range(1, 5)
    }
    assert {round(r["skew_s"] * 1e9) for r in found if r["op"] == "all_gather"} == {40}


def calls_of(*rows: tuple[int, int, str | None, str, int | None]) -> pd.DataFrame:
    """Calls by lane, member, group, operation and printed number."""
    return pd.DataFrame(rows, columns=["lane", "member", "group", "op", "seq"]).astype({"seq": "Float64"})


def test_calls_of_a_lane_have_their_printed_number_or_their_place() -> None:
    """Lane 0 prints numbers, of which one has two parts; lane 1 does not print all, so each operation counts alone."""
    found = _with_places(calls_of(
        (0, 0, "g", "a", 7), (0, 0, "g", "b", 7), (0, 0, "g", "b", 9), (0, 1, "g", "a", 7),
        (1, 0, "g", "a", 1), (1, 0, "g", "b", None), (1, 0, "g", "a", 3), (1, 1, "g", "b", 1),
        (2, 0, None, "a", 5), (2, 0, None, "b", 6),
    ))  # fmt: skip
    assert found["place"].tolist() == [7, 7, 9, 7, 1, 1, 2, 1, 1, 2]
    assert found["by"].tolist() == ["seq"] * 4 + ["order"] * 6
    assert found["again"].tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    lanes = found["lane"].tolist()
    assert lanes[4] == lanes[6] != lanes[5] == lanes[7] and lanes[0] == lanes[3] and lanes[8] == lanes[9]
    assert len(set(lanes)) == 4


def test_numbers_of_operations_make_no_lane_of_calls_that_have_none() -> None:
    """A lane of a group that counts both operations, and one stream without a group."""
    found = _with_places(
        calls_of((0, 0, "g", "a", None), (0, 0, "g", "b", None), (0, 0, None, "b", None), (0, 0, None, "a", None))
    )
    assert found["place"].tolist() == [1, 1, 1, 2] and len(set(found["lane"])) == 3


UNLIKE = "no number is printed, and the ranks have different numbers of them: "
APART = "order does not match them, or the clocks differ"


def job_of(*ranks: int) -> Any:
    return SimpleNamespace(members=ranks, name=lambda member: f"rank {ranks[member]}")


@pytest.mark.parametrize(
    ("members", "fields", "reason"),
    [
        ([0, 0, 1, 1], {}, None),
        ([0, 0], {}, "only rank 4 has it"),
        ([1, 1], {}, "only rank 5 has it"),
        ([0, 1], {"paired": True}, "sends and receives are between two ranks each, which are not printed"),
        ([0, 0, 1], {}, None),  # a named group need not have all ranks
        ([0, 0, 1], {"group": None}, f"{UNLIKE}rank 4 2, rank 5 1, rank 6 0"),
        ([0, 0, 1], {"group": None, "by": "seq"}, None),
    ],
)  # fmt: skip
def test_lanes_that_cannot_be_matched_by_order(members: list[int], fields: dict[str, Any], reason: str | None) -> None:
    calls = [{"member": member, "group": "dp", "by": "order", "paired": False} | fields for member in members]
    assert matching._doubt(job_of(4, 5, 6), pd.DataFrame(calls)) == reason


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{}, {}], None),
        ([{}, {"ranks": 5}], "more ranks have it than the group has: other groups are called the same"),
        ([{}, {"most": 1}], "the ranks' operations come in another order"),
        ([{"whole": False}] * 9 + [{}], f"in order of time, 1 of 10 overlap on all ranks: {APART}"),
        ([{"whole": False, "by": "seq"}] * 9 + [{"by": "seq"}], None),
        ([{}] * 9 + [{"whole": False}], None),
    ],
)  # fmt: skip
def test_matches_that_cannot_be_right(rows: list[dict[str, Any]], reason: str | None) -> None:
    usual = {"ranks": 4, "size": 4, "least": 0, "most": 0, "whole": True, "by": "order"}
    assert matching._doubt_after_matching(pd.DataFrame([usual | row for row in rows])) == reason


def test_all_that_is_known_of_the_collectives_of_a_job() -> None:
    """Rank 0 does not communicate; rank 1 waits 20 ns three times, then 30 ns with a send; its last calls are alone."""

    def on(rank: int, start: int, end: int, name: str = "ncclDevKernel_AllReduce_Sum", **more: Any) -> dict[str, Any]:
        return kernel(start, end, name, rank=rank, part=rank, device=rank) | more

    group: dict[str, Any] = {"group": "dp", "group_ranks": "[1, 2]", "ranks": 2, "dtype": "bf16", "bytes": 64}
    pair: dict[str, Any] = {"group": "pp", "group_ranks": "[1, 2]", "ranks": 2}
    events = [on(0, 0, 1000, "gemm")]
    for k in range(3):
        events += [
            on(1, 100 * k, 100 * k + 50, seq=k, stream=None, **group),
            on(2, 100 * k + 20, 100 * k + 50, seq=k, **group),
        ]
    events += [
        on(1, 400, 460, "nccl", collective="send", dst_rank=2, seq=4, **pair),
        on(2, 430, 460, "nccl", collective="recv", src_rank=1, seq=9, **pair),
        on(1, 500, 520, seq=8, stream=None, **group), on(1, 600, 650, "ncclDevKernel_AllGather", stream=5),
        *(on(rank, 700, 710, "nccl", collective=op, group="one") for rank, op in ((1, "send"), (2, "recv"))),
    ]  # fmt: skip
    (found,) = all_collectives(by_hand(events))

    def table(name: str, *columns: str) -> list[tuple[Any, ...]]:
        return [tuple(row[column] for column in columns) for row in rows(getattr(found, name))]

    assert (found.clock_ok, len(found.job.members), len(found.splits)) == (True, 3, 0)
    assert table("calls", "key", "member", "start", "wait", "length", "line") == [
        (0, 1, 0, 20, 50, 2), (1, 1, 100, 20, 50, 4), (2, 1, 200, 20, 50, 6), (3, 1, 400, 30, 60, 8),
        (0, 2, 20, 0, 30, 3), (1, 2, 120, 0, 30, 5), (2, 2, 220, 0, 30, 7), (3, 2, 430, 0, 30, 9),
    ]  # fmt: skip
    assert table("collectives", "op", "group", "src_rank", "dst_rank", "place", "by", "ranks", "size", "bytes", "line",
                 "start", "transfer", "skew", "end_skew", "last", "reason") == [
        *(("all_reduce", "dp", None, None, k, "seq", 2, 2, 64, 2 + 2 * k, 100 * k, 30, 20, 0, 2, None)
          for k in range(3)),
        ("send_recv", "pp", 1, 2, 1, "order", 2, 2, None, 8, 400, 30, 30, 0, 2, None),
    ]  # fmt: skip
    assert table("loose", "member", "op", "group", "dtype", "size", "bytes", "length", "line") == [
        (1, "all_reduce", "dp", "bf16", 2, 64, 20, 10), (1, "all_gather", None, None, None, None, 50, 11),
        (1, "send_recv", "one", None, None, None, 10, 12), (2, "send_recv", "one", None, None, None, 10, 13),
    ]  # fmt: skip
    assert table("unmatched", "op", "group", "stream", "member", "line", "calls", "reason") == [
        ("all_gather", None, 5, 1, 11, 1, f"{UNLIKE}rank 0 0, rank 1 1, rank 2 0"),
        ("send_recv", "one", 7, 1, 12, 2, "sends and receives are between two ranks each, which are not printed"),
    ]


def test_members_that_arrive_together_are_not_last_and_clocks_show_in_broadcasts_where_nothing_else_is() -> None:
    usual = {"stream": 7, "group": "dp", "group_ranks": "[0, 1]", "ranks": 2}
    events = [
        kernel(100 * k, 100 * k + 50, "ncclDevKernel_Broadcast", rank=rank, part=rank, device=rank, seq=k, **usual)
        for k in range(3)
        for rank in (0, 1)
    ]
    (found,) = all_collectives(by_hand(events, clock="trace"))
    assert (found.collectives["last"].tolist(), found.clock_ok) == ([-1] * 3, True)


def test_of_a_collective_whose_kernels_do_not_overlap_no_wait_is_known() -> None:
    """Rank 1 comes to the third of ten collectives when rank 0 has left it."""
    events = [
        kernel(100 * k + 60 * (rank and k == 2), 100 * k + 50 + 40 * (rank and k == 2), "ncclDevKernel_Broadcast",
               rank=rank, part=rank, device=rank, seq=k, group="dp", group_ranks="[0, 1]", ranks=2)
        for k in range(10) for rank in (0, 1)
    ]  # fmt: skip
    found = rows(collective_wait(by_hand(events)))
    assert [row["reason"] for row in found] == [None, None, "its kernels do not overlap", *[None] * 7]
    assert [row["wait_s"] for row in found] == [0, 0, None, *[0] * 7]


def test_bus_factors_of_nccl_tests() -> None:
    ops: Any = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", None, "all_reduce"]
    factors = bus_factor(ops, [4, 4, 4, 4, 4, 4, 4, math.nan]).tolist()
    assert factors == pytest.approx([1.5, 0.75, 0.75, 0.75, 1, 1, math.nan, math.nan], nan_ok=True)


@pytest.mark.parametrize(
    ("members", "by", "whole", "is_unlike"),
    [([0, 0, 1], "order", False, True), ([0, 0, 1], "order", True, False), ([0, 0, 1], "seq", False, False),
     ([0, 1], "order", False, False)],
)  # fmt: skip
def test_numbers_that_differ_are_a_doubt_where_order_matches_and_not_all_overlap(
    members: list[int], by: str, whole: bool, is_unlike: bool
) -> None:
    calls, matched = pd.DataFrame({"member": members}), pd.DataFrame({"by": [by] * 2, "whole": [True, whole]})
    found = matching._unlike_numbers(job_of(4, 5), calls, matched)
    assert found == (f"{UNLIKE}rank 4 2, rank 5 1" if is_unlike else None)
