"""The part of slow steps that takes longer, and the rank on which it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.metrics_logs import by_hand

import perflog
from perflog.metrics import Options, Tables
from perflog.metrics.causes import slow_steps as module
from perflog.metrics.causes.run_causes import slow_steps


def by_rank(*longer: tuple[int, int, float]) -> list[dict[str, Any]]:
    """Steps of 8 ranks with their time of compute; `longer`: a step, a rank, and by how much its compute is longer."""
    extra = {(step, rank): seconds for step, rank, seconds in longer}
    rows: list[dict[str, Any]] = []
    for step in range(1, 30):
        time = 1.0 + max((seconds for (at, _), seconds in extra.items() if at == step), default=0.0)
        for rank in range(8):
            compute = 0.9 + extra.get((step, rank), 0.0)
            rows.append({"step": step, "step_time_s": time, "rank": rank})
            rows.append({"table": "phases", "step": step, "rank": rank, "phase": "compute", "time_s": compute})
    return rows


@pytest.mark.parametrize(
    ("longer", "rank", "slowest_only"),
    [
        ([(7, 3, 4.0), (15, 3, 4.0), (23, 3, 4.0)], 3, False),
        ([(7, 1, 4.0), (15, 3, 4.0), (23, 6, 4.0)], None, True),
        ([(at, rank, 4.0) for at in (7, 15, 23) for rank in range(8)], None, False),
        ([(7, 3, 4.0)], 3, False),
    ],
    ids=["one rank", "another one each time", "all", "one step"],
)
def test_the_rank_whose_part_takes_the_time(
    longer: list[tuple[int, int, float]], rank: int | None, slowest_only: bool
) -> None:
    tables = Tables(by_hand("steps", by_rank(*longer)))
    part = module.parts_of_slow_steps(tables)["r"]
    assert (part.name, part.rank, part.slowest_only) == ("compute", rank, slowest_only)
    assert (part.slow_s, part.usual_s, round(part.more_s, 9)) == (4.9, 0.9, 4.0 * len({at for at, *_ in longer}))
    (cause,) = slow_steps(tables, Options())
    assert (cause.name, cause.rank, cause.n) == ("compute", rank, len({at for at, *_ in longer}))


@pytest.mark.parametrize(("name", "rank"), [("wait_time", 1), ("allreduce_time", 1), ("other_time", None)], ids=str)
def test_a_rank_that_waits_is_not_the_one_that_takes_longer(tmp_path: Path, name: str, rank: int | None) -> None:
    """Rank 1 computes 3 s longer in some steps, and rank 0 takes 3.01 s longer in another phase."""
    line = "[rank{rank}] step {step}/40 | loss 2.3 | step_time {time}s | compute_time {compute}s | {name} {other}s\n"
    (tmp_path / "run.log").write_text(
        "".join(
            line.format(rank=rank, step=step, time=1.0 + 3 * slow, name=name, compute=0.6 + 3 * slow * rank,
                        other=0.2 + 3.01 * slow * (1 - rank))
            for step in range(1, 41) for slow in [step % 10 == 0] for rank in (0, 1)
        )
    )  # fmt: skip
    (part,) = module.parts_of_slow_steps(Tables(perflog.read(tmp_path / "run.log"))).values()
    assert part.rank == rank
    assert rank is None or part.name == "compute_time"


@pytest.mark.parametrize(
    ("name", "times", "expected"),
    [
        ("LoopTimeRemaining", [9.0, 9.0, 9.0], True),
        ("t", [10.0, 20.0, 31.0], True),  # a clock
        ("left_s", [30.0, 20.0, 9.0], True),
        ("t", [3.0, 3.1, 3.2], False),  # it becomes slower
        ("t", [10.0, 20.0, 15.0], False),
        ("t", [10.0, 2.0, 1.9], False),  # the first one compiles
        ("t", [10.0, 20.0], False),
    ],
)
def test_times_of_the_run_are_no_times_of_a_step(name: str, times: list[float], expected: bool) -> None:
    steps = np.arange(len(times), dtype=np.int64)
    assert module.is_of_run(name, 10 * steps, np.array(times)) == expected
