"""Collectives matched over ranks: waiting against transfer, clocks, stragglers, and what is not decidable."""

from __future__ import annotations

import random
from statistics import mean
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.field_logs import needs_corpus
from support.metrics_logs import row, rows
from support.trace_tables import Event, by_hand, in_ns, kernel, real, reduce, small_job

from perflog.metrics import collective_wait, stragglers
from perflog.metrics.traces.collectives import collective_wait as module
from perflog.metrics.traces.collectives.collective_matching import collective_op
from perflog.metrics.traces.collectives.jobs import Job, jobs

EPOCH = 1_712_195_495_505_582_988


def ranks(starts: list[list[int]], length: int = 500, **more: Any) -> list[Event]:
    """All-reduces of a file for each rank: `starts[k][r]` is when rank r comes to the k-th, all end together."""
    ends = [max(one) + length for one in starts]
    return [
        reduce(EPOCH + start, EPOCH + end, rank=r, part=r, device=r, **more)
        for one, end in zip(starts, ends, strict=True)
        for r, start in enumerate(one)
    ]


def late(who: int, many: int = 30, world: int = 4, by: int = 200) -> list[list[int]]:
    """Starts in which one rank always comes last."""
    return [[1000 * k + (by if r == who else 3 * r) for r in range(world)] for k in range(many)]


# --- waiting against transfer -----------------------------------------------------------------------------------------


@examples(12)
@given(st.lists(st.lists(st.integers(0, 400), min_size=3, max_size=3), min_size=3, max_size=8), st.randoms())
def test_wait_and_transfer_are_those_of_the_definition(starts: list[list[int]], order: random.Random) -> None:
    at = [[2000 * k + start for start in one] for k, one in enumerate(starts)]
    events = ranks(at)
    order.shuffle(events)
    found = rows(collective_wait(by_hand(events)))
    assert [r["place"] for r in found] == [k + 1 for k in range(len(starts))]
    for r, one in zip(found, at, strict=True):
        waits = [max(one) - start for start in one]
        assert (r["op"], r["ranks"], r["matched_by"], r["clock_ok"]) == ("all_reduce", 3, "order", True)
        assert r["wait_s"] == pytest.approx(mean(waits) * 1e-9) and r["skew_s"] == pytest.approx(max(waits) * 1e-9)
        assert (r["transfer_s"], r["end_skew_s"]) == (pytest.approx(500e-9), 0)
        alone = one.count(max(one)) == 1
        assert r["last"] == (f"rank {one.index(max(one))}" if alone else None)


def test_sends_and_receives_are_matched_by_their_pair_of_ranks() -> None:
    """Rank 1 receives from rank 0 and sends to rank 2; only the peer is printed, and each rank numbers by itself."""

    def transfer(rank: int, start: int, end: int, kind: str, peer: int, seq: int) -> Event:
        which = "dst_rank" if kind == "send" else "src_rank"
        more = {"rank": rank, "collective": kind, "group": "pp", "ranks": 3, "seq": seq, which: peer}
        return kernel(start, end, "ncclDevKernel_SendRecv", **more)

    events = []
    for k in range(3):
        at = 1000 * k
        events += [transfer(0, at, at + 100, "send", 1, k), transfer(1, at + 40, at + 100, "recv", 0, 2 * k)]
        events += [transfer(1, at + 200, at + 300, "send", 2, 2 * k + 1), transfer(2, at + 270, at + 300, "recv", 1, k)]
    found = rows(collective_wait(by_hand(events)))
    assert len(found) == 6 and {r["ranks"] for r in found} == {r["of_ranks"] for r in found} == {2}
    assert [round(r["wait_s"] * 1e9) for r in found] == [20, 35] * 3
    assert [round(r["transfer_s"] * 1e9) for r in found] == [60, 30] * 3
    assert [r["last"] for r in found] == ["rank 1", "rank 2"] * 3
    told = rows(stragglers(by_hand(events)))
    assert {(r["collectives"], r["imposed_s"], r["straggler"]) for r in told} == {(0, None, "undetermined")}


def test_others_wait_once_for_collectives_that_overlap() -> None:
    """Rank 1 comes 200 ns late to two groups of which the kernels run side by side, and 50 ns later to one of them."""
    on_time, starts = [1000 * k for k in range(20)], [1000 * k + 200 for k in range(20)]
    events = [*ranks([list(each) for each in zip(on_time, starts, strict=True)], group="0", stream=7)]
    events += ranks([[a, b + 50] for a, b in zip(on_time, starts, strict=True)], group="1", stream=8)
    found = rows(stragglers(by_hand(events)))
    assert [r["collectives"] for r in found] == [40, 40]
    assert [round(r["imposed_s"] * 1e9) for r in found] == [0, 20 * 250]


def test_group_and_number_match_what_order_would_not() -> None:
    """Rank 1 lost its first two collectives: their numbers tell which is which."""
    events = ranks(late(1, 6))
    numbered = [event | {"group": "3", "seq": 10 + k // 4} for k, event in enumerate(events)]
    kept = [e for e in numbered if (e["rank"], e["seq"]) not in {(1, 10), (1, 11)}]
    found = rows(collective_wait(by_hand(kept)))
    assert [(r["place"], r["ranks"], r["matched_by"], r["last"]) for r in found] == [
        *((n, 3, "seq", "rank 3") for n in (10, 11)), *((n, 4, "seq", "rank 1") for n in (12, 13, 14, 15))
    ]  # fmt: skip
    bare = [e | {"group": None, "seq": None} for e in kept]
    (one,) = rows(collective_wait(by_hand(bare)))
    assert (one["place"], one["collectives"], one["transfer_s"]) == (None, 22, None)
    assert one["reason"] == (
        "no number is printed, and the ranks have different numbers of them: rank 0 6, rank 1 4, rank 2 6, rank 3 6"
    )


def test_a_rank_with_a_trace_that_ends_early_is_matched_as_far_as_it_goes() -> None:
    """Rank 1 has the first four of six collectives: the others are matched too, with one rank less."""
    events = ranks(late(1, 6))
    kept = [e for k, e in enumerate(events) if e["rank"] != 1 or k // 4 < 4]
    found = rows(collective_wait(by_hand([e | {"group": None, "seq": None} for e in kept])))
    assert [(r["place"], r["ranks"], r["reason"]) for r in found] == [
        *((n, 4, None) for n in range(1, 5)), *((n, 3, None) for n in (5, 6))
    ]  # fmt: skip


def test_groups_of_some_ranks() -> None:
    """Ranks 0 and 1 are a group, and 2 and 3; each is matched by itself, on any stream."""
    events = [
        event | {"group": "ab"[event["rank"] // 2], "stream": 10 + event["rank"]}
        for event in ranks([[1000 * k, 1000 * k + 10, 1000 * k + 100, 1000 * k + 50] for k in range(3)])
    ]
    found = rows(collective_wait(by_hand(events)))
    assert {(r["group"], r["ranks"], r["last"]) for r in found} == {("a", 2, "rank 1"), ("b", 2, "rank 2")}


def test_other_operations_in_order_are_no_match() -> None:
    events = ranks(late(0, 4, world=2))
    other = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    swapped = [e | {"name": other} if (e["rank"], k // 2) in {(0, 1), (1, 2)} else e for k, e in enumerate(events)]
    (one,) = rows(collective_wait(by_hand(swapped)))
    assert (one["collectives"], one["reason"]) == (8, "the ranks' operations come in another order")


def test_what_only_one_rank_has() -> None:
    events = [*ranks(late(0, 3, world=2), group="0"), reduce(EPOCH, EPOCH + 5, group="1")]
    assert [r["reason"] for r in rows(collective_wait(by_hand(events)))] == [None, None, None, "only rank 0 has it"]


@pytest.mark.parametrize(
    ("name", "factor"), [("allreduce", 1.5), ("_allgather_base", 0.75), ("all_to_allv", 0.75), ("broadcast", 1.0)]
)
def test_bus_bandwidth_is_that_of_nccl_tests(name: str, factor: float) -> None:
    """500 ns for 100,000 B: 200 GB/s."""
    said: dict[str, Any] = {"collective": name, "bytes": 100_000, "ranks": 4}
    found = rows(collective_wait(by_hand(ranks(late(0, 3, world=2), **said))))
    assert [r["busbw_gbps"] for r in found] == pytest.approx([200 * factor] * 3)
    assert {(r["ranks"], r["of_ranks"], r["bytes"]) for r in found} == {(2, 4, 100_000)}


def test_no_bus_bandwidth_is_guessed() -> None:
    for said in ({"bytes": 10}, {"ranks": 4}, {"bytes": 10, "ranks": 4, "name": "ncclDevKernel_Generic"}):
        (found,) = {r["busbw_gbps"] for r in rows(collective_wait(by_hand(ranks(late(0, 3, world=2), **said))))}
        assert found is None


def test_sends_and_receives_are_no_collectives() -> None:
    """Of a pipeline: they wait in pairs. A kernel's name does not tell: an all-to-all is made of them too."""
    sends = [e | {"collective": "send", "group": "0", "seq": 9} for e in ranks(late(0, 2))]
    both = [e | {"group": "0", "seq": k // 4} for k, e in enumerate(ranks(late(0, 3)))]
    found = rows(collective_wait(by_hand([*sends, *both])))
    assert [r["reason"] for r in found[:3]] == [None] * 3
    assert found[3]["reason"] == "sends and receives are between two ranks each, which are not printed"


def test_groups_that_are_called_the_same() -> None:
    events = [e | {"group": "tp", "seq": k // 4, "ranks": 2} for k, e in enumerate(ranks(late(0, 3)))]
    (one,) = rows(collective_wait(by_hand(events)))
    assert one["reason"] == "more ranks have it than the group has: other groups are called the same"


def test_a_rank_without_collectives() -> None:
    events = [*ranks(late(0, 3, world=1)), kernel(EPOCH, EPOCH + 10, rank=1, part=1, device=1)]
    (one,) = rows(collective_wait(by_hand(events)))
    assert one["reason"].endswith("rank 0 3, rank 1 0")
    assert {r["straggler"] for r in rows(stragglers(by_hand(events)))} == {"undetermined"}


# --- clocks -----------------------------------------------------------------------------------------------------------


def test_clocks_that_start_with_each_trace() -> None:
    """Transfer needs no common clock where numbers match; waiting does. The zero of a clock may be that of its host."""
    events = [e | {"seq": k // 2, "group": "0"} for k, e in enumerate(ranks(late(0, 30, world=2)))]
    assert {r["clock_ok"] for r in rows(collective_wait(by_hand(events, clock="trace")))} == {True}
    events = [e | {"start_ns": e["start_ns"] + 20 * e["rank"]} for e in events]
    found = rows(collective_wait(by_hand(events, clock="trace")))
    assert {(round(r["transfer_s"] * 1e9), r["wait_s"], r["last"], r["clock_ok"]) for r in found} == {
        (500, None, None, False)
    }
    assert {r["reason"] for r in found} == {"the ranks' clocks differ"}
    told = rows(stragglers(by_hand(events, clock="trace")))
    assert {(r["straggler"], r["reason"], r["wait_s"]) for r in told} == {
        ("undetermined", "the ranks' clocks differ", None)
    }


@pytest.mark.parametrize(("offset", "ok"), [(0, True), (20, True), (300, False), (100_000, False)])
def test_clocks_are_judged_by_their_collectives(offset: int, ok: bool) -> None:
    """Collectives overlap, and end together: an offset shows in both."""
    events = [e | {"seq": k // 2, "group": "0"} for k, e in enumerate(ranks(late(0, 30, world=2)))]
    moved = [e | {"start_ns": e["start_ns"] + offset * (e["rank"] == 1)} for e in events]
    found = rows(collective_wait(by_hand(moved)))
    assert {r["clock_ok"] for r in found} == {ok}
    assert all((r["wait_s"] is not None) == ok for r in found)


def test_in_order_without_overlap_nothing_is_known() -> None:
    moved = [e | {"start_ns": e["start_ns"] + 10**6 * e["rank"]} for e in ranks(late(0, 30, world=2))]
    (one,) = rows(collective_wait(by_hand(moved)))
    assert one["reason"].startswith("in order of time, 0 of 30 overlap on all ranks")
    assert one["transfer_s"] is None


def test_devices_of_one_file_have_one_clock() -> None:
    events = [e | {"rank": None, "part": 0} for e in ranks([[0, 40]])]
    found = row(collective_wait(by_hand(events, clock="trace")))
    assert (found["clock_ok"], found["last"], found["skew_s"]) == (True, "device 1", pytest.approx(40e-9))


@needs_corpus
def test_the_real_trace_is_a_sample_whose_order_does_not_match() -> None:
    """Ends tell: the second call of rank 0 and the first of rank 1 end in one microsecond. Order would pair others."""
    found = rows(collective_wait(real(0, 1)))
    (left,) = (r for r in found if r["stream"] == 84)
    assert left["collectives"] == 16 and left["transfer_s"] is None
    assert left["reason"].startswith("in order of time, 2 of 8 overlap on all ranks")
    both = [r for r in found if r["stream"] == 203]
    assert [round(r["transfer_s"] * 1e6) for r in both] == [42496, 62163]
    assert {(r["op"], r["wait_s"], r["clock_ok"]) for r in both} == {("send_recv", None, None)}
    assert {r["straggler"] for r in rows(stragglers(real(0, 1)))} == {"undetermined"}


# --- stragglers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("world", [2, 4, 8])
def test_a_straggler_is_named(world: int) -> None:
    found = rows(stragglers(by_hand(ranks(late(1, world=world)))))
    assert [r["straggler"] for r in found] == ["no", "yes", *["no"] * (world - 2)]
    assert found[1]["last_share"] == 1 and found[1]["wait_s"] == 0
    assert found[1]["imposed_s"] == pytest.approx(30 * 200e-9) == found[0]["wait_s"]
    assert {round(r["transfer_s"] * 1e9) for r in found} == {30 * 500}


@pytest.mark.parametrize(("world", "straggler"), [(4, "yes"), (5, "no")])
def test_among_five_ranks_a_straggler_is_an_outlier(world: int, straggler: str) -> None:
    """Two ranks come last in turn, the one in 18 of 30 collectives: of five it is none, of four nobody can tell."""
    starts = [[1000 * k + 200 * (r == (k % 5 > 2)) for r in range(world)] for k in range(30)]
    found = rows(stragglers(by_hand(ranks(starts))))
    assert [r["score"] is None for r in found] == [world < 5] * world
    assert [r["last_share"] for r in found[:2]] == [0.6, 0.4]
    assert [r["straggler"] for r in found] == [straggler, *["no"] * (world - 1)]


def test_little_imposed_time_or_few_collectives_name_nobody() -> None:
    little = rows(stragglers(by_hand(ranks(late(1, by=15), length=900))))
    assert {r["straggler"] for r in little} == {"no"}
    few = rows(stragglers(by_hand(ranks(late(1, many=19)))))
    assert {r["straggler"] for r in few} == {"undetermined"} and few[1]["imposed_s"] == pytest.approx(19 * 200e-9)
    assert few[0]["reason"] == "19 collectives in which its waiting is known: at least 20 are needed"


def test_turns_name_nobody() -> None:
    turns = [[1000 * k + 200 * (k % 3 == r) for r in range(3)] for k in range(30)]
    found = rows(stragglers(by_hand(ranks(turns))))
    assert {r["straggler"] for r in found} == {"no"}
    assert [r["last_share"] for r in found] == pytest.approx([1 / 3] * 3)


# --- which traces are one job -----------------------------------------------------------------------------------------


def apart(names: dict[str, int]) -> list[Event]:
    return [kernel(0, 10, run=name, rank=rank, device=rank) for name, rank in names.items()]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ({"a": 0, "b": 1}, [["a", "b"]]),
        ({"rank0": 0}, []),
        ({"a_r0": 0, "a_r1": 1, "b_r0": 0, "b_r1": 1}, [["a_r0", "a_r1"], ["b_r0", "b_r1"]]),
        ({"old_00_of_16": 0, "old_10_of_16": 10, "new_00_of_16": 0}, [["old_00_of_16", "old_10_of_16"]]),
    ],
)  # fmt: skip
def test_traces_of_a_folder_are_a_job(names: dict[str, int], found: list[list[str]]) -> None:
    told = [[one.run for one in job.members] for job in jobs(by_hand(apart(names)))]
    assert sorted(told) == found
    assert not any(job.doubt for job in jobs(by_hand(apart(names))))


def test_a_rank_that_is_there_twice_is_matched_with_nobody() -> None:
    events = [e | {"part": e["rank"] + 2 * k} for k in (0, 1) for e in ranks(late(0, world=2))]
    (one,) = rows(collective_wait(by_hand(events)))
    assert (one["reason"], one["transfer_s"]) == ("rank 0 has two traces", None)


def test_runs_of_a_rank_each_are_matched() -> None:
    events = [e | {"run": f"r{e['rank']}", "part": 0} for e in ranks(late(1))]
    found = collective_wait(by_hand(events))
    assert len(found) == 30 and set(found["last"]) == {"rank 1"} and found["run"].isna().all()
    assert [r["run"] for r in rows(stragglers(by_hand(events)), straggler="yes")] == ["r1"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "all_reduce"), ("_allgather_base", "all_gather"),
        ("ncclKernel_ReduceScatter_RING_LL_Sum_float", "reduce_scatter"), ("all_to_allv", "all_to_all"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "send_recv"), ("nccl:broadcast", "broadcast"),
        ("ncclDevKernel_Generic", None), ("deep_ep::intranode::dispatch<8>", "dispatch"),
    ],
)  # fmt: skip
def test_operations_by_name(name: str, found: str | None) -> None:
    assert collective_op(name) == found


@pytest.mark.parametrize(
    ("matched", "unmatched", "clock_ok", "why"),
    [
        (["clocks"], [], False, "clocks"),
        (["clocks"], ["order"], None, "clocks"),
        (["clocks"], ["order"], True, None),
        ([], ["order"], True, "order"),
        ([], [], None, None),
    ],
)
def test_why_a_straggler_is_undetermined(
    matched: list[str], unmatched: list[str], clock_ok: bool | None, why: str | None
) -> None:
    """The reason of the collectives if the clocks differ; of those that are not matched if there are no others."""
    frames = (pd.DataFrame({"reason": reasons}) for reasons in (matched, unmatched))
    of: Any = SimpleNamespace(clock_ok=clock_ok, **dict(zip(("collectives", "unmatched"), frames, strict=True)))
    few = "19 collectives in which its waiting is known: at least 20 are needed"
    assert module._why_undetermined(of, 19) == (why or few)
    assert module._why_undetermined(of, 20) is None


def test_rows_have_the_label_of_the_first_member_of_one_run() -> None:
    members: list[Any] = [SimpleNamespace(label=label, run="r") for label in "ab"]
    assert Job(tuple(members), None, None).run_columns() == {"run": "r", "label": "a"}
    members[1].run = "s"
    assert Job(tuple(members), None, None).run_columns() == {"run": None, "label": None}


def test_all_columns_of_a_small_job() -> None:
    """Rank 0 waits 40 ns for rank 1 each time; the transfer of 4096 B takes 100 ns."""
    same = {"op": "all_reduce", "group": "dp", "group_ranks": "[0, 1]", "stream": 8, "matched_by": "seq",
            "collectives": 1, "ranks": 2, "of_ranks": 2, "bytes": 4096, "transfer_s": 100, "busbw_gbps": 40.96,
            "wait_s": 20, "skew_s": 40, "end_skew_s": 0, "last": "rank 1", "clock_ok": True}  # fmt: skip
    same["reason"] = None
    found = in_ns(collective_wait(small_job()))
    assert found == [same | {"place": k, "first_line": 4 + 4 * k} for k in range(4)]
    few = "4 collectives in which its waiting is known: at least 20 are needed"
    same = {"device_name": "H100", "collectives": 4, "transfer_s": 400, "score": None, "straggler": "undetermined",
            "clock_ok": True, "reason": few}  # fmt: skip
    names = ("rank", "device", "last_share", "wait_s", "imposed_s", "imposed_share")
    assert in_ns(stragglers(small_job())) == [
        same | dict(zip(names, row, strict=True)) for row in ((0, 0, 0, 160, 0, 0), (1, 1, 1, 0, 160, 160 / 3220))
    ]
