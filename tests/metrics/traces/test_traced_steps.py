"""Times of the steps of a trace with the work of each, by hand; times in us."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.made_traces import event, traced
from support.trace_tables import by_hand, kernel, step

import perflog
from perflog.metrics import Tables, steps
from perflog.metrics.traces.traced_steps import step_times
from perflog.tables.schema import TABLES


def program(lengths: list[int], waits: bool, annotated: int = 10) -> list[dict[str, Any]]:
    """Steps with a kernel each. The host waits for each kernel, or launches the next step at once."""
    now, free, events = 0, 0, []
    for k, length in enumerate(lengths):
        begin = max(now + 5, free)
        free = begin + length
        end = free if waits else now + annotated
        events += [
            event("user_annotation", f"ProfilerStep#{k}", now, end - now),
            event("cuda_runtime", "cudaLaunchKernel", now + 2, 1, correlation=k + 1),
            event("kernel", "gemm", begin, length, 7, correlation=k + 1, device=0, stream=7) | {"pid": 0},
        ]
        now = end
    return events


@pytest.mark.parametrize("waits", [True, False])
def test_a_step_lasts_as_long_as_its_work(tmp_path: Path, waits: bool) -> None:
    """The host launches 5 us before each kernel if it waits; else only before the first."""
    log = traced(tmp_path / "a.json", *program([100, 120, 90], waits))
    assert Tables(log)["steps"]["step_time_s"].mul(1e6).round().tolist() == ([105, 125, 95] if waits else [10] * 3)
    found = step_times(Tables(log))
    assert np.round(found * 1e6).tolist() == ([105, 125, 95] if waits else [105, 120, 90])
    row = steps(log, warmup=0).query("part == 'all'").iloc[0]
    assert row["max_s"] == pytest.approx(found.max())


def test_a_rank_that_is_late_at_the_end_of_a_step_costs_the_job_once(tmp_path: Path) -> None:
    """Rank 1 ends step 1 at 50 us. Rank 0 begins step 2 at 20 us, and waits: each has a step of 40 us."""
    for rank, edges in enumerate(([0, 10, 20, 60], [0, 10, 50, 60])):
        events = []
        for k, (begin, end) in enumerate(pairwise(edges)):
            call = {"correlation": k + 1}
            events += [
                event("user_annotation", f"ProfilerStep#{k}", begin, end - begin),
                event("cuda_runtime", "cudaLaunchKernel", begin, 1, **call),
                event("kernel", "gemm", begin, end - begin, 7, device=0, stream=7, **call) | {"pid": 0},
            ]
        traced(tmp_path / f"rank{rank}.json", *events)
    tables = Tables(perflog.read(tmp_path))
    times = dict(zip(tables["steps"]["step"], np.round(step_times(tables) * 1e6), strict=True))
    assert times == {0: 10, 1: 40, 2: 10}


def test_steps_without_work_are_as_annotated(tmp_path: Path) -> None:
    host = [e for e in program([100, 120], False) if e["cat"] == "user_annotation"]
    assert np.round(step_times(Tables(traced(tmp_path / "a.json", *host))) * 1e6).tolist() == [10, 10]


def test_comparison_of_steps_that_the_host_does_not_wait_for(tmp_path: Path) -> None:
    from perflog.analysis.compare import compare

    before, after = (
        traced(tmp_path / f"{k}.json", *program([length, length + 1] * 5, False)) for k, length in enumerate((100, 130))
    )
    rows = compare(before, after).rows
    (change,) = rows["change"][(rows["metric"] == "step_time") & (rows["statistic"] == "median")]
    assert 0.28 < change < 0.31


def test_steps_of_two_traces_do_not_follow_one_another() -> None:
    """Each run has a first step of its own: 100 ns in one, and 65 ns in the other one, which ends 5 ns later."""
    events = [
        each | {"run": run}
        for run, begin, length in (("r", 0, 100), ("s", 40, 65))
        for each in (step(1, begin, begin + length), kernel(begin, begin + length, step=1))
    ]
    made = by_hand(events)
    rows = [
        {"run": run, "part": 0, "line": line, "step": 1, "step_time_s": 9.0}
        for run, line in (("r", 1), ("s", 3), ("s", 9))
    ]
    frame = pd.DataFrame(rows).reindex(columns=[column.name for column in TABLES["steps"]])
    assert np.round(step_times(Tables({**made, "steps": frame})) * 1e9).tolist() == [100, 65, 9e9]
