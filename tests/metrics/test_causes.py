"""Causes: what binds a run, by hand and on real logs; at most one does, and all sentences agree with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support import trace_tables
from support.commands import DATA
from support.contradictions import (
    PART_OF_STEP,
    denied,
    other_numbers,
    shares,
    sums,
    what_binds,
)
from support.field_logs import needs_corpus, stored
from support.metrics_logs import by_hand, rows
from support.paths import SHARED
from support.trace_tables import kernel, reduce

import perflog
from perflog.metrics import Options, Tables
from perflog.metrics.causes import bound_by, causes, causes_by_run
from perflog.metrics.causes.cause import REPLAY
from perflog.metrics.traces.replays.scenarios import replay

TRACES = sorted((SHARED / "corpus" / "torchtrace").glob("*.json.gz"))


def test_half_of_a_step_binds_it_and_untimed_time_does_not() -> None:
    """Forward takes 0.6 of steps of 1 s, then 0.2, where 0.7 s are in no timer."""
    for forward, binds in ((0.6, "forward"), (0.2, None)):
        lines = [{"table": "steps", "step": step, "step_time_s": 1.0} for step in range(8)]
        phases = [
            {"table": "phases", "step": s, "phase": name, "occurrence": 1, "rank": 0, "time_s": time_s}
            for s in range(8)
            for name, time_s in (("forward", forward), ("backward", 0.1))
        ]
        tables = Tables(by_hand("steps", [*lines, *phases], world=1))
        found = bound_by(tables, "r", Options())
        assert (found and found.name) == binds
        table = causes.table(tables, Options())
        assert table["gain"].max() == pytest.approx(forward if binds else 0.7)


def test_without_launches_the_largest_state_binds() -> None:
    tables = trace_tables.by_hand([kernel(0, 100), reduce(100, 900)])
    found = bound_by(tables, "r", Options())
    assert found is not None and (found.subject, round(found.gain, 2), found.by) == ("communication", 0.89, "bound")


@pytest.mark.parametrize(
    ("phase", "form", "is_slow"),
    [
        ("busy", None, True), ("all_reduce", None, False), ("wait", "moe_layer", False),
        ("gather_gemm", "moe_layer", True),
    ],
)  # fmt: skip
def test_a_rank_that_waits_longer_is_not_slow(phase: str, form: str | None, is_slow: bool) -> None:
    """Rank 1 of 2 takes three times as long: as the format declares the phase, else by its name."""
    values = [{"phase": phase, "step": step, "rank": rank, "occurrence": 1, "time_s": 1.0 + 2 * rank}
              for step in range(12) for rank in (0, 1)]  # fmt: skip
    made = by_hand("phases", values, world=2)
    made["runs"]["format"] = form
    found = [each.rank for each in causes_by_run(Tables(made), Options()).get("r", ()) if each.subject == "slow rank"]
    assert found == ([1] if is_slow else [])


def test_all_columns_of_a_step() -> None:
    """Steps of 10 s, 5 s of them backward; of the forward of 4 s the ranks wait 2 s in the mean."""
    waits = [{"table": "phases", "phase": "wait", "step": step, "rank": rank, "occurrence": 1, "time_s": 1.0 + 2 * rank}
             for step in range(12) for rank in (0, 1)]  # fmt: skip
    steps = [{"step": step, "step_time_s": 10.0, "forward_s": 4.0, "backward_s": 5.0} for step in range(12)]
    made = by_hand("steps", [*steps, *waits], world=2)
    made["runs"]["format"] = "moe_layer"
    nothing = dict.fromkeys(("rank", "device", "dp_rank", "stage", "ratio", "n", "each_s"))
    same = {"run": "r", "label": None, "binds": False, "of": "step", "by": "sum", "whole_s": 10.0, "metric": "phases",
            "model": "it takes no time, and nothing else becomes longer"}  # fmt: skip
    assert rows(causes(made, warmup=0)) == [
        nothing | same | {"subject": subject, "name": name, "time_s": time, "gain_s": time, "share": time / 10,
                          "gain": time / 10}
        for subject, name, time in (("phase", "backward", 5.0), ("waiting", "wait", 2.0), ("untimed", "forward", 2.0),
                                    ("untimed", "step", 1.0))
    ]  # fmt: skip


def test_a_rank_that_stands_out_is_a_cause() -> None:
    """Rank 3 of 8 takes twice as long as the others in each of 20 steps."""
    lines = [
        {
            "table": "values",
            "step": s,
            "key": "busy",
            "rank": r,
            "value": 2.0 if r == 3 else 1.0 + 0.01 * r,
            "unit": "s",
        }
        for s in range(20)
        for r in range(8)
    ]
    tables = Tables(by_hand("values", lines, world=8))
    (found,) = (each for each in causes_by_run(tables, Options())["r"] if each.subject == "slow rank")
    assert (found.rank, found.name, found.binds) == (3, "busy", False)
    assert found.ratio == pytest.approx(2.0, rel=0.05)


def call(name: str, at: float, length: float, number: int) -> dict[str, Any]:
    event = {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 9, "tid": 1, "ts": at, "dur": length}
    return event | {"args": {"correlation": number}}


def work(at: float, length: float, number: int) -> dict[str, Any]:
    event = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at, "dur": length}
    return event | {"args": {"device": 0, "stream": 7, "correlation": number}}


def test_kernels_without_a_name_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    events = [work(at, 90, n) for n, at in enumerate(range(0, 500, 100))]
    for event in events:
        del event["name"]
    path.write_text(json.dumps({"traceEvents": events}))
    log = perflog.read(path)
    assert not any(each["subject"] == "kernel" for each in causes(log).to_dict("records"))
    assert not any("Largest" in text for text in perflog.overview(log).reasons)
    assert perflog.lint(log) is not None


def test_a_late_host_binds_and_the_gain_is_its_time(tmp_path: Path) -> None:
    """Two kernels of 10 us, launched 60 us apart: a host that takes no time would begin the second one right away."""
    path = tmp_path / "a.json"
    events = [call("cudaLaunchKernel", at, 2, n) for n, at in enumerate((0, 60))]
    events += [work(at + 5, 10, n) for n, at in enumerate((0, 60))]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    log = perflog.read(path)
    rows = {row["scenario"]: row for row in replay(log).to_dict("records") if row["subject"] is None}
    assert rows["host"]["time_s"] == pytest.approx(70e-6) and rows["host"]["error_s"] == 0
    # The trace begins with the first kernel, at 5; without the host's 55 us until the second launch it takes 5 + 10
    # behind that launch, or 10 + 10 one after the other.
    assert rows["host"]["gain_s"] == pytest.approx(70e-6 - 20e-6)
    assert rows["device"]["gain_s"] == pytest.approx(10e-6)
    (first, *_) = causes(log).to_dict("records")
    assert (first["binds"], first["subject"], first["by"]) == (True, "host", REPLAY)


@pytest.mark.parametrize(
    ("calls", "subject"),
    [
        ([call("hipStreamBeginCapture", 20, 1, 8), call("hipStreamEndCapture", 900, 1, 9)], "graph capture"),
        ([call("cuModuleLoadDataEx", 20, 800, 8)], "compilation"),
        ([call("cudaStreamSynchronize", 20, 5, 8)], "host"),
        ([call("cudaStreamBeginCapture", 20, 1, 8)], "host"),  # it does not end in the trace
    ],
)
def test_a_trace_of_a_start_says_so_first(tmp_path: Path, calls: list[dict[str, Any]], subject: str) -> None:
    """A kernel of 10 us at each end of a trace of a millisecond, and what the host does between them."""
    path = tmp_path / "a.json"
    events = [
        each for n, at in enumerate((0, 1000)) for each in (call("cudaLaunchKernel", at, 2, n), work(at + 5, 10, n))
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [*events, *calls]}))
    log = perflog.read(path)
    (first, *_) = causes(log).to_dict("records")
    assert (first["binds"], first["subject"]) == (True, subject)


@needs_corpus
@pytest.mark.parametrize(
    ("name", "subject", "least"),
    [("timesformer_h100", "host", 0.5), ("profile-data__train", "device", 0.1), ("trace_diff_control", "host", 0.2)],
)  # fmt: skip
def test_real_traces_are_bound_by_what_their_replay_tells(name: str, subject: str, least: float) -> None:
    (path,) = (path for path in TRACES if name in path.name)
    log = stored(path)
    assert (replay(log)["error_s"] == 0).all()
    (first, *others) = causes(log).to_dict("records")
    assert first["binds"] and not any(row["binds"] for row in others)
    assert first["subject"] == subject and first["gain"] > least


def test_contradictions_are_found() -> None:
    seen = perflog.overview(perflog.read(DATA / "nsys_stats.txt"))
    (told,) = (each for each in seen.reasons if "Bottleneck" in each)
    assert list(what_binds(seen, [told])) == []
    for also in (told, "The host is the bottleneck.", "It is dominated by copies."):
        assert list(what_binds(seen, [told, also]))
    assert list(what_binds(seen, ["Bottleneck: nothing known."]))
    assert list(shares(replace(seen, reasons=["The GPU idles 7 % of the time."])))
    assert list(sums(["On the critical path: host 60 % (runtime 50 %), kernels 42 %."]))
    idle = "The GPU idles 99 % of the time: 8 % host-bound, 91 % with work queued."
    assert list(other_numbers(["No failure.", "5 calls wait.", "6 calls wait."]))
    levels = ["Since step 101: 30 ms -> 50 ms.", "Since step 201: 50 ms -> 80 ms."]
    assert list(other_numbers([idle, idle, *levels])) == []
    doubted = Tables(perflog.read(DATA / "deepep_low_latency.txt"))
    assert list(denied(["The checks found nothing to distrust."], doubted))
    assert list(sums(["On the critical path: host 60 % (runtime 50 %), kernels 40 %."])) == []
    assert PART_OF_STEP.search("step 3 | forward time: 12.5 ms") and not PART_OF_STEP.search("step 3 | loss: 2.5")
