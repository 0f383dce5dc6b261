"""What pairs of ranks send each other, against loops over the JSON of their traces."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from support.metrics_logs import rows
from support.rank_traces import buffer, ns, sends_of, trace_job, write_job

import perflog
from perflog.metrics import (
    rank_pairs,
)


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


def test_an_all_to_all_that_moves_nothing_sends_no_bytes(tmp_path: Path) -> None:
    job = trace_job(16)
    for event in (event for events in job.values() for event in events):
        if event["args"].get("Process Group Name") == "ep":
            event["args"] |= {"In split size": "[0, 0, 0, 0]", "Out split size": "[0, 0, 0, 0]"}
    found = rows(rank_pairs(perflog.read(write_job(tmp_path, job))), op="all_to_all")
    assert len(found) == 16 and {r["bytes"] for r in found} == {0}


@pytest.mark.parametrize("printed", ["[]", "[1, 2, ..., 4]", "[1, 2]"])
def test_without_whole_splits_no_matrix_is_guessed(tmp_path: Path, printed: str) -> None:
    job = trace_job(16)
    for event in (event for events in job.values() for event in events):
        if event["args"].get("Process Group Name") == "ep":
            event["args"]["In split size"] = printed
    assert rows(rank_pairs(perflog.read(write_job(tmp_path, job))), op="all_to_all") == []


@pytest.mark.parametrize(("size", "is_known"), [(4, True), (2, False)])
def test_a_group_without_its_ranks_is_the_job_if_it_is_as_large(tmp_path: Path, size: int, is_known: bool) -> None:
    job = trace_job(13)
    whole = rows(rank_pairs(perflog.read(write_job(tmp_path, job))), op="all_to_all")
    for event in (event for events in job.values() for event in events):
        if event["args"].get("Process Group Name") == "ep":
            event["args"] |= {"Process Group Ranks": "", "Group size": size}
    (tmp_path / "b").mkdir()
    found = rows(rank_pairs(perflog.read(write_job(tmp_path / "b", job))), op="all_to_all")
    pairs = [[(r["sender"], r["receiver"], r["bytes"]) for r in each] for each in (found, whole)]
    assert pairs[0] == (pairs[1] if is_known else [])
