"""What a rank does longer than the others between collectives, against loops over the JSON of its trace."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import median_low

import pytest
from support.metrics_logs import rows
from support.rank_traces import OFFSETS, Event, collectives_of, ns, sends_of, trace_job, write_job
from support.trace_tables import in_ns, small_job

import perflog
from perflog.analysis.overview.reasons import bottleneck, late_rank_of
from perflog.metrics import Options, Tables, lateness, stragglers

STATE = {"compute": "compute", "idle": "idle"}


def between(events: list[Event], meetings: set[tuple[str, float]]) -> dict[tuple[str, str | None], int]:
    """What a rank that waits for each of its collectives does after one and before the next, in ns.

    It does one thing at a time: kernels, and before each the range of its launch, in which the host idles.
    """
    kernels = sorted((e for e in events if e["cat"] == "kernel"), key=lambda e: float(e["ts"]))
    calls = {e["args"]["correlation"]: e for e in events if e["cat"] == "cuda_runtime"}
    ranges = [e for e in events if e["cat"] == "user_annotation"]
    found: dict[tuple[str, str | None], int] = defaultdict(int)
    since: int | None = None
    for e in kernels:
        begin, end = ns(e["ts"]), ns(e["ts"]) + round(e["dur"] * 1000)
        if since is not None:
            launched = ns(calls[e["args"]["correlation"]]["ts"])
            covered = 0
            for r in ranges:
                low, high = max(since, ns(r["ts"])), min(launched, ns(r["ts"]) + round(r["dur"] * 1000))
                covered += max(0, high - low)
                found["idle", r["name"]] += max(0, high - low)
            found["idle", None] += begin - since - covered
        if (e["name"], e["ts"]) in meetings:
            since = end
        elif since is not None:
            found["compute", e["name"]] += end - begin
            since = end
    return {what: time for what, time in found.items() if time}


@pytest.mark.parametrize(("seed", "world", "late"), [(23, 4, 3), (24, 4, None), (25, 6, 1)])
def test_what_a_rank_does_between_collectives_is_what_its_trace_says(
    tmp_path: Path, seed: int, world: int, late: int | None
) -> None:
    job = trace_job(seed, world, late=late)
    folder = write_job(tmp_path, job)
    log = perflog.read(folder)
    meetings = {(e["name"], e["ts"]) for events in collectives_of(folder).values() for e in events.values()}
    meetings |= {(e["name"], e["ts"]) for transfers in sends_of(folder).values() for pair in transfers for e in pair}
    wanted = {rank: between(events, meetings) for rank, events in job.items()}
    whats = {what for of_rank in wanted.values() for what in of_rank}
    found = rows(lateness(log))
    times = {(r["rank"], r["doing"], r["name"]): round(r["time_s"] * 1e9) for r in found if r["time_s"]}
    assert times == {(rank, *what): time for rank, of_rank in wanted.items() for what, time in of_rank.items()}
    typical = {what: median_low(of_rank.get(what, 0) for of_rank in wanted.values()) for what in whats}
    for row in found:
        assert row["typical_s"] * 1e9 == pytest.approx(typical[row["doing"], row["name"]])
        assert row["longer_s"] == pytest.approx(row["time_s"] - row["typical_s"], abs=1e-15)
        assert (row["ratio"] is None) == (row["typical_s"] == 0)
    if late is not None:
        assert (found[0]["rank"], found[0]["doing"], found[0]["name"]) == (late, "compute", "sgemm")


def test_where_clocks_differ_nobody_is_late(tmp_path: Path) -> None:
    log = perflog.read(write_job(tmp_path, trace_job(26, offsets=OFFSETS)))
    assert rows(lateness(log)) == [] and {r["straggler"] for r in rows(stragglers(log))} == {"undetermined"}


def test_the_overview_names_the_late_rank_and_what_it_does_longer(tmp_path: Path) -> None:
    log = perflog.read(write_job(tmp_path, trace_job(28, steps=8, late=2)))
    (late,) = rows(stragglers(log), rank=2)
    compute = [r for r in rows(lateness(log), rank=2) if r["doing"] == "compute"]
    (gemm,) = (r for r in compute if r["name"] == "sgemm")
    (run,) = log.runs["run"]
    (sentence,) = (text for text in bottleneck(Tables(log), run, Options()) if "comes last" in text)
    longer = sum(r["longer_s"] for r in compute)
    assert sentence == (
        f"Rank 2 comes last in {late['last_share']:.0%} of its {late['collectives']} collectives. "
        f"In the whole trace, its kernels take "
        f"{longer * 1e6:.3g} us longer than on the median rank, mostly sgemm, {gemm['ratio']:.3g} x."
    ).replace("%", " %")


def test_the_rank_that_binds_one_of_several_runs(tmp_path: Path) -> None:
    for name, late in (("even", None), ("late", 2)):
        write_job(tmp_path / name, trace_job(28, steps=8, late=late))
    tables = Tables(perflog.read(tmp_path))
    even, late_run = tables["runs"].sort_values("log")["run"]
    assert list(late_rank_of(tables, even, Options(), "A")) == []
    first, second = late_rank_of(tables, late_run, Options(), "B")
    assert first.startswith("B: Bottleneck: rank 2; ")
    assert second.startswith("B: Rank 2 comes last in ") and "mostly sgemm" in second


def test_all_columns_of_a_small_job() -> None:
    """Between four collectives each rank computes three times, rank 1 for 40 ns more, and idles for 780 ns."""
    names = ("rank", "doing", "name", "time_s", "longer_s", "ratio", "of_span")
    found = [
        (1, "compute", "gemm", 360, 120, 1.5, 120 / 3220), (0, "compute", "gemm", 240, 0, 1, 0),
        (0, "idle", None, 2340, 0, 1, 0), (1, "idle", None, 2340, 0, 1, 0),
    ]  # fmt: skip
    assert in_ns(lateness(small_job())) == [
        dict(zip(names, row, strict=True))
        | {"device": row[0], "device_name": "H100", "typical_s": 240 if row[1] == "compute" else 2340}
        for row in found
    ]
