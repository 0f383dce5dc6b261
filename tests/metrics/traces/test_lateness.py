"""What the last rank of a collective did meanwhile, against loops over the JSON of its trace."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from support.metrics_logs import rows
from support.rank_traces import BASE_US, OFFSETS, Event, collectives_of, ns, sends_of, trace_job, write_job

import perflog
from perflog.analysis.overview.reasons import bottleneck
from perflog.metrics import (
    Options,
    Tables,
    lateness,
    stragglers,
)

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
