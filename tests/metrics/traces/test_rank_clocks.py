"""How far the clocks of ranks are apart, against the offsets with which traces were made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.metrics_logs import rows
from support.rank_traces import OFFSETS, collectives_of, ns, trace_job, write_job
from support.trace_tables import by_hand, in_ns, reduce, small_job

import perflog
from perflog.metrics import rank_clocks
from perflog.metrics.traces.collectives import rank_clocks as module
from perflog.metrics.traces.collectives.collective_matching import matched_collectives
from perflog.metrics.traces.collectives.rank_clocks import _rows, estimated_offsets


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
        if not rank:
            assert (row["least_s"], row["most_s"], row["possible"]) == (0, 0, True)
        else:
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


def test_offsets_of_many_collectives_are_found_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six collectives of some of three clocks that are 0, 30 and -50 ns ahead; rank 3 is in none with the others."""
    members = np.array([0, 1, 1, 2, 0, 2, 0, 1, 2, 1, 2, 3])
    keys = np.array([0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5])
    ends = keys * 1000 + np.array([0, 30, -50, 7])[members]
    whole, left = estimated_offsets(keys, members, ends, 4)
    assert whole[:3].tolist() == pytest.approx([0, 30, -50], abs=1e-6) and np.isnan(whole[3])
    assert np.abs(left).max() < 1e-6
    for cells in (4, 8, 20):  # 1, 2 and 5 collectives at once
        monkeypatch.setattr(module, "_CELLS", cells)
        assert estimated_offsets(keys, members, ends, 4)[0] == pytest.approx(whole, abs=1e-6, nan_ok=True)


def test_the_spread_is_the_scatter_of_the_ends() -> None:
    """Rank 1 ends 4, 2, 0, -2 and -4 ns after rank 0: each end is half of it off, 1 ns in the median, by 1.4826."""
    lengths = [(10, 10 + late) for late in (4, 2, 0, -2, -4)]
    events = [
        reduce(100 * k, 100 * k + end, rank=r, part=r) for k, ends in enumerate(lengths) for r, end in enumerate(ends)
    ]
    (matched,) = matched_collectives(by_hand(events))
    found = list(_rows(matched))
    assert [row["offset_s"] for row in found] == pytest.approx([0, 0], abs=1e-12)
    assert [row["spread_s"] for row in found] == pytest.approx([1.4826e-9] * 2, rel=1e-3)


def test_all_columns_of_a_small_job() -> None:
    """Rank 1 begins at 140 and ends at 240, rank 0 begins at 100: its clock is at most 100 behind or 140 ahead."""
    same = {"device_name": "H100", "reference": "rank 0", "collectives": 4, "offset_s": 0, "spread_s": 0,
            "possible": True, "clock_ok": True, "reason": None}  # fmt: skip
    assert in_ns(rank_clocks(small_job())) == [
        same | {"rank": rank, "device": rank, "least_s": -100 * rank, "most_s": 140 * rank} for rank in (0, 1)
    ]
