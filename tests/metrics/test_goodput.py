"""Goodput: which share of the wall time counts, and what the ends of attempts cost; by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.jobs import restarted
from support.metrics_logs import by_hand, row

import perflog
from perflog.metrics import Options, Tables, goodput
from perflog.metrics.jobs import goodput as module
from perflog.metrics.jobs.goodput import losses_of
from perflog.metrics.jobs.job_intervals import KINDS, Interval
from perflog.metrics.jobs.timeline import JobTimeline
from perflog.tables.schema import UTC

STAMP_S = 1.0  # the lines of a start print whole seconds
NS = 10**9

Part = tuple[int, str, float, float, int | None, int | None]
"""Number of the attempt, kind, begin and end in s, first and last step."""


def test_goodput_counts_repeated_steps_once(tmp_path: Path) -> None:
    job = restarted()
    (tmp_path / "log.txt").write_text(job.text)
    (found,) = goodput(perflog.read(tmp_path / "log.txt")).to_dict("records")
    wall = sum(job.seconds.values())
    assert found["wall_s"] == pytest.approx(wall, abs=STAMP_S)
    assert found["goodput"] == pytest.approx(job.seconds["training"] / wall, rel=0.01)
    assert found["scheduling"] * found["runtime"] == pytest.approx(found["goodput"])
    assert (found["attempts"], found["steps"], found["steps_lost"]) == (2, 80, 20)
    assert found["first_step_s"] == pytest.approx(102, abs=STAMP_S)
    assert found["recover_s"] == pytest.approx(200 + 120 + 40, abs=2 * STAMP_S)
    assert found["lost_by"].startswith("collective timeout: 20 steps, 36")
    assert pd.isna(found["program"])
    assert pd.isna(found["ml_productivity"])


def timeline_of(*parts: Part, clock: str = UTC) -> JobTimeline:
    """A job with attempts r1, r2 ..."""
    job = JobTimeline("r1", [f"r{number}" for number in range(1, 1 + max(part[0] for part in parts))], clock)
    for number, kind, begin, end, first, last in parts:
        number_done = 0 if first is None or last is None else last - first + 1
        ends = round(begin * NS), round(end * NS)
        interval = Interval(kind, *ends, first, last, 1, 1, "stamps", 0.0, number_done)
        job.intervals.append((f"r{number}", number, interval))
    return job


def tables_of(job: JobTimeline, failures: Sequence[dict[str, Any]] = ()) -> Tables:
    runs = [{"table": "runs", "run": run, "label": run, "config": "{}"} for run in job.runs]
    step = {"run": "r1", "step": 1, "step_time_s": 1.0}
    frames = by_hand("steps", [*runs, step, *({"table": "failures", **failure} for failure in failures)])
    return Tables(frames | {"runs": frames["runs"][1:]})


RESTARTED = (
    (1, "startup", 0, 100, None, None),
    (1, "training", 100, 180, 1, 40),
    (1, "repeated", 180, 220, 41, 60),
    (1, "stall", 220, 500, None, None),
    (2, "down", 500, 600, None, None),
    (2, "startup", 600, 700, None, None),
    (2, "training", 700, 780, 41, 80),
)  # fmt: skip


def figures(job: JobTimeline, monkeypatch: pytest.MonkeyPatch, **more: float) -> dict[str, Any]:
    monkeypatch.setattr(module, "job_timelines", lambda _: [job])
    monkeypatch.setattr(module, "steady_medians", lambda *_: more)
    return row(goodput.table(tables_of(job), Options()))


def test_goodput_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    found = figures(timeline_of(*RESTARTED), monkeypatch)
    assert (found["attempts"], found["wall_s"], found["steps"], found["steps_lost"]) == (2, 780.0, 80, 20)
    assert found["goodput"] == pytest.approx(160 / 780)
    assert (found["scheduling"], found["runtime"]) == pytest.approx((680 / 780, 160 / 680))
    assert (found["training_s"], found["repeated_s"], found["down_s"], found["startup_s"]) == (160, 40, 100, 200)
    assert (found["checkpoint_s"], found["data_wait_s"]) == (0.0, 0.0)
    assert found["first_step_s"] == 100 + 80 / 40  # the mean of the steps
    assert found["recover_s"] == 200 + 80 * 20 / 40  # 20 of its 40 steps were done before
    assert found["lost_by"] == "no failure reported: 20 steps, 240 s"
    assert (found["program"], found["ml_productivity"]) == (None, None)
    with_rate = figures(timeline_of(*RESTARTED), monkeypatch, r1=0.4, r2=0.5, other=0.9)
    assert with_rate["program"] == pytest.approx(0.45)
    assert with_rate["ml_productivity"] == pytest.approx(0.45 * 160 / 780)


def test_each_kind_of_interval_has_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two intervals of a kind the sum; a job of one attempt recovers from nothing."""
    parts = [
        (1, kind, 100 * k + by, 100 * k + by + k + 1, None, None) for k, kind in enumerate(KINDS) for by in (0, 50)
    ]
    found = figures(timeline_of(*parts), monkeypatch)
    for k, kind in enumerate(KINDS):
        assert found[f"{kind.replace(' ', '_')}_s"] == 2 * (k + 1), kind
    wall = 100 * (len(KINDS) - 1) + 50 + len(KINDS)
    assert (found["wall_s"], found["attempts"], found["clock"], found["recover_s"]) == (wall, 1, UTC, None)
    assert found["goodput"] == pytest.approx(found["training_s"] / wall)


def test_without_a_clock_over_all_attempts_there_is_no_goodput(monkeypatch: pytest.MonkeyPatch) -> None:
    job = timeline_of(*RESTARTED)
    job.whole = False
    found = figures(job, monkeypatch)
    assert [found[name] for name in ("wall_s", "goodput", "scheduling", "runtime", "program")] == [None] * 5
    assert found["training_s"] == 160
    added_up = figures(timeline_of(*RESTARTED, clock="steps"), monkeypatch)
    assert [added_up[name] for name in ("first_step_s", "recover_s", "lost_by")] == [None] * 3
    no_steps = figures(timeline_of((1, "startup", 0, 10, None, None)), monkeypatch)
    assert (no_steps["first_step_s"], no_steps["steps"], no_steps["goodput"]) == (None, 0, 0.0)


def test_steps_that_are_done_again_count_for_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ((1, "startup", 5, 10, None, None), (1, "repeated", 10, 30, 1, 10), (2, "training", 40, 60, 1, 10))
    assert figures(timeline_of(*parts), monkeypatch)["first_step_s"] == 5 + 2


@pytest.mark.parametrize(
    ("later", "steps", "seconds"),
    [
        ([(2, "training", 300, 340, 61, 80)], 20, 80),  # nothing is done again: from 220 to 300
        ([(2, "training", 300, 340, 41, 80)], 20, 80 + 20),
        ([(2, "training", 300, 340, 1, 80)], 20, 80 + 30),
        ([(2, "training", 300, 340, 41, 60), (2, "training", 400, 440, 61, 80)], 20, 180),
        ([(2, "repeated", 300, 340, 41, 80), (3, "training", 400, 440, 61, 80)], 20, 180),
        ([(2, "training", 300, 340, 41, 60)], None, None),  # no step is new
        ([(2, "startup", 300, 340, None, None)], None, None),
    ],
)
def test_the_cost_of_the_end_of_an_attempt(later: Sequence[Part], steps: int | None, seconds: float | None) -> None:
    job = timeline_of((1, "training", 100, 180, 1, 40), (1, "repeated", 180, 220, 41, 60), *later)
    first = [loss for loss in losses_of(tables_of(job), job) if loss.run == "r1"]
    assert [(loss.steps, loss.seconds) for loss in first] == ([] if steps is None else [(steps, seconds)])


@pytest.mark.parametrize(
    ("failures", "cause"),
    [
        ([], "no failure reported"),
        ([("echo", "fatal", "lost_process"), ("first", "fatal", "gpu_out_of_memory")], "gpu out of memory"),
        ([("first", "notice", "allocator_retry"), ("echo", "fatal", "lost_process")], "lost process"),
        ([("first", "notice", "allocator_retry")], "no failure reported"),  # the program went on
        ([("first", "notice", "allocator_retry"), ("first", "fatal", "nccl_error")], "nccl error"),
        ([("echo", "fatal", "lost_process"), ("echo", "fatal", "nccl_error")], "lost process"),
    ],
)
def test_the_cause_of_the_end_of_an_attempt(failures: list[tuple[str, str, str]], cause: str) -> None:
    job = timeline_of(*RESTARTED)
    listed = [{"run": "r1", "role": role, "severity": severity, "kind": kind} for role, severity, kind in failures]
    (loss,) = losses_of(tables_of(job, listed), job)
    assert loss.cause == cause
