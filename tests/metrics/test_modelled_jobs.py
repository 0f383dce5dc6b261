"""Jobs that are modelled from layers and phases: their replay against the schedule, and the phases that count."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.metrics_logs import by_hand

from perflog.metrics import Options, Tables
from perflog.metrics.pipelines.pipeline import StageTimes
from perflog.metrics.pipelines.schedule_simulation import BACKWARD, FORWARD, as_timed
from perflog.metrics.semantics import semantics_by_run
from perflog.metrics.what_if import modelled_jobs as module
from perflog.metrics.what_if.operation_graph import COMPUTE
from perflog.metrics.what_if.step_replay import Job


def timed(stages: int, batches: int, directions: Sequence[str], **more: Any) -> StageTimes:
    """Times of each stage in three steps."""
    draw = np.random.default_rng(stages * 10 + batches)
    seconds = {direction: draw.uniform(1.0, 2.0, (stages, 3)) for direction in directions}
    usual: dict[str, Any] = {"run": "r", "micro_batches": batches, "steps": [4, 5, 6], "seconds": seconds}
    return StageTimes(**(usual | {"ranks": dict(enumerate(range(10, 10 + stages)))} | more))


def whole(job: Job) -> list[float]:
    times: list[float] = job.step_times(np.ones((1, len(job.kinds), len(job.replicas)), np.bool_))[0].tolist()
    return times


@pytest.mark.parametrize(("stages", "batches"), [(2, 1), (2, 5), (4, 3), (3, 8)])
@pytest.mark.parametrize("directions", [[FORWARD], [FORWARD, BACKWARD]])
def test_a_job_of_layers_takes_as_long_as_its_schedule(stages: int, batches: int, directions: list[str]) -> None:
    of = timed(stages, batches, directions)
    job = module._job_of_layers(of, directions)
    for step, time in enumerate(whole(job)):
        forward, backward = (of.seconds[d][:, step].tolist() if d in directions else None for d in (FORWARD, BACKWARD))
        assert forward is not None
        assert time == pytest.approx(as_timed(forward, batches, backward).makespan_s)
    assert (job.steps, job.replicas, job.rests_on) == ([4, 5, 6], [0], "layers")
    assert len(job.kinds) == stages * batches * len(directions)
    assert set(job.kinds) == set(COMPUTE[: len(directions)])
    assert job.ranks == {(0, stage): 10 + stage for stage in range(stages)}


def test_jobs_of_layers_have_several_stages_and_not_too_many_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[StageTimes] = []
    monkeypatch.setattr(module, "stage_times", lambda *_: found)
    monkeypatch.setattr(module, "_MOST_OPERATIONS", 6)
    for stages, batches, is_job in ((1, 3, False), (2, 3, True), (3, 3, False)):
        found[:] = [timed(stages, batches, [FORWARD])]
        assert len(list(module.jobs_of_layers(Tables(by_hand("steps", [])), Options()))) == is_job
    found[:] = [timed(2, 1, [FORWARD, BACKWARD], ranks={0: None, 1: 7})]
    ((run, job),) = module.jobs_of_layers(Tables(by_hand("steps", [])), Options())
    assert run == "r" and job.ranks == {(0, 1): 7} and "forward and backward is left out" in job.assumes


Printed = tuple[int, int, str, float]
"""Step, rank, phase and time of a row."""


def same(*printed: Printed, ranks: Sequence[int] = (0, 1)) -> tuple[list[str], list[int], list[Any]] | None:
    names = list(dict.fromkeys(name for _, _, name, _ in printed))
    steps, of_rank, phases, times = zip(*printed, strict=True)
    rows: Any = SimpleNamespace(
        names=names, step=np.array(steps), rank=np.array(of_rank, np.float64), line=np.arange(len(printed)),
        part=np.zeros(len(printed), np.int64), phase=np.array([names.index(name) for name in phases]),
        time_s=np.array(times),
    )  # fmt: skip
    found = module._same_on_all_ranks(rows, ranks)
    return found and (found[0], found[1], found[2].tolist())


def step(number: int, *phases: str, ranks: Sequence[int] = (0, 1)) -> list[Printed]:
    """A step in which all ranks print the same phases; each has a time of its own."""
    return [(number, r, name, number * 100 + r * 10 + k) for r in ranks for k, name in enumerate(phases)]


def test_steps_in_which_all_ranks_print_the_same_phases() -> None:
    rows = [*step(1, "a", "b"), *step(2, "b", "a"), *step(3, "a", "b"), *step(4, "a")]
    a, b = [[100.0, 110.0], [300.0, 310.0]], [[101.0, 111.0], [301.0, 311.0]]
    assert same(*rows) == (["a", "b"], [1, 3], [a, b])
    assert same(*rows[::-1]) == (["b", "a"], [1, 3], [b, a])


def test_of_two_orders_that_are_as_frequent_the_first_counts() -> None:
    found = same(*step(2, "b"), *step(1, "a"))
    assert found is not None and found[:2] == (["a"], [1])


@pytest.mark.parametrize(
    "rows",
    [
        step(1, "a", ranks=(0,)),  # a rank is missing
        step(1, "a", ranks=(0, 2)),
        [*step(1, "a", "b", ranks=(0,)), *step(1, "b", "a", ranks=(1,))],  # the ranks differ
        [*step(1, "a", "b", ranks=(0,)), *step(1, "a", ranks=(1,))],
    ],
)
def test_steps_that_are_not_the_same_on_all_ranks(rows: list[Printed]) -> None:
    assert same(*rows) is None


def phases(rank: int | None, step: int, **times: float) -> list[dict[str, Any]]:
    row = {"table": "phases", "rank": rank, "step": step, "occurrence": 1}
    return [row | {"phase": name, "time_s": time} for name, time in times.items()]


def test_only_ranks_with_peers_are_a_job() -> None:
    for ranks in ((0,), (None,), (3,)):
        rows = [row for n in range(4) for rank in ranks for row in phases(rank, n, forward_compute=1.0)]
        assert list(module.jobs_of_phases(Tables(by_hand("phases", rows)), Options(warmup=0))) == []
    rows = [
        row
        for n in range(4)
        for rank in (0, 1)
        for row in phases(rank, n, forward_compute=1.0 + rank, backward_compute=2.0)
    ]
    ((run, job),) = module.jobs_of_phases(Tables(by_hand("phases", rows, world=2)), Options(warmup=0))
    assert (run, job.replicas, job.steps, job.left_out) == ("r", [0, 1], [0, 1, 2, 3], 0)
    assert whole(job) == [4.0] * 4 and job.ranks == {(0, 0): 0, (1, 0): 1}
    assert list(module.jobs_of_phases(Tables(by_hand("phases", rows, world=3)), Options(warmup=0))) == []
    staged = by_hand("phases", rows, world=2)  # ranks of other stages do other work
    staged["runs"] = staged["runs"].assign(format="reference", config=json.dumps({"stages": 2}))
    assert "stages" in semantics_by_run(Tables(staged).rows("runs"))["r"].quantities
    assert list(module.jobs_of_phases(Tables(staged), Options(warmup=0))) == []


def test_what_a_job_of_phases_assumes() -> None:
    assert "left out:" not in module._assumed_of_phases([])
    assert module._assumed_of_phases(["a", "b"]).endswith(" or may hold waiting, are left out: a, b")
