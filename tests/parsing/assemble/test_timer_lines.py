"""Times on lines of their own, below the heading of a step or after its line, are parts of this step."""

from __future__ import annotations

import pytest
from support.reading import read

BLOCK = "Step {n}\n  forward: {f} ms\n  backward: 240.0 ms\n  optimizer: 31.0 ms\n  total: {t} ms\n"
COLUMNS = """\
=== iteration {n}/9 ===
data loading   10.0 ms
forward pass   {f} ms
backward pass  240.0 ms
step time      {t} ms

"""
BELOW = "step {n} loss 2.5 step_time {t} ms\ntimers: fwd {f} ms | bwd 240.0 ms | opt 31.0 ms\n"
PAIRS = "iter {n} | loss 2.5 | {t} ms\n  timing: forward={f}ms, backward=240.0ms, optim=31.0ms\n"
STAMPED = """\
[2026-01-01 10:00:0{n}] Iteration {n}:
[2026-01-01 10:00:0{n}]     fwd: {f} ms
[2026-01-01 10:00:0{n}]     bwd: 240.0 ms
[2026-01-01 10:00:0{n}]     optimizer step: 31.0 ms
[2026-01-01 10:00:0{n}]     iteration time: {t} ms
"""
SUMMED = """\
--- step {n} / 9 ---
Data loading time: 10.0 ms
Forward pass time: {f} ms
Backward pass time: 240.0 ms
Total step time: {t} ms

"""
BARE = (
    "INFO - step: {n} - loss: 2.5 - step time: {t} ms\nINFO -   forward {f} ms, backward 240.0 ms, optimizer 31.0 ms\n"
)


def steps_of(text: str, count: int = 4) -> bytes:
    return "".join(text.format(n=n, f=120.0 + n, t=392.0 + n) for n in range(1, count + 1)).encode()


@pytest.mark.parametrize(
    ("text", "phase", "seconds"),
    [
        (BLOCK, "optimizer", 0.031), (COLUMNS, "data_loading", 0.01), (BELOW, "opt", 0.031), (PAIRS, "optim", 0.031),
        (STAMPED, "optimizer_step", 0.031), (SUMMED, "Data_loading_time", 0.01), (BARE, "optimizer", 0.031),
    ],
)  # fmt: skip
def test_times_of_a_step_are_its_parts(text: str, phase: str, seconds: float) -> None:
    got = read(steps_of(text))
    names = ("step", "step_time_s", "forward_s", "backward_s")
    assert [[round(row[name], 9) for name in names] for row in got.rows("steps")] == [
        [n, round(0.392 + n / 1000, 9), round(0.12 + n / 1000, 9), 0.24] for n in range(1, 5)
    ]
    assert [(row["step"], row["phase"], row["time_s"]) for row in got.rows("phases")] == [
        (n, phase, seconds) for n in range(1, 5)
    ]


STEP, TIMERS = "step {n} loss 2.5 step_time {t} ms\n", "timers: fwd 121.0 ms | bwd 240.0 ms | opt 31.0 ms\n"


@pytest.mark.parametrize(
    "text",
    [
        TIMERS + STEP,  # before its line
        STEP + TIMERS + TIMERS,  # of micro-batches
        f"[rank 0] {STEP}[rank 1] {STEP}{TIMERS}",  # of which rank
    ],
)
def test_timers_that_may_be_of_another_step_have_none(text: str) -> None:
    got = read(steps_of(text))
    assert not got.rows("phases")
    assert {row["step"] for row in got.rows("values") if row["key"] in ("fwd", "bwd", "opt")} == {None}


def test_timers_of_ranks_are_of_the_steps_of_their_rank() -> None:
    got = read(steps_of(f"[rank 0] {STEP}[rank 1] {STEP}[rank 0] {TIMERS}[rank 1] {TIMERS}", 3))
    phases = [(row["step"], row["rank"], row["phase"]) for row in got.rows("phases")]
    assert sorted(phases) == [(n, rank, "opt") for n in (1, 2, 3) for rank in (0, 1)]


def test_times_that_are_no_parts_stay_values() -> None:
    """They take longer than the step, or nothing says how long the step took."""
    longer = BELOW.replace("opt 31.0", "opt 931.0")
    for text, key in ((longer, "opt"), (BLOCK.replace("  total: {t} ms\n", ""), "optimizer")):
        got = read(steps_of(text))
        assert not got.rows("phases")
        assert [row["step"] for row in got.rows("values") if row["key"] == key] == [1, 2, 3, 4]


def test_a_rate_below_each_step_is_of_this_step() -> None:
    """A rate at the end alone may be of the whole run."""
    step = "step {n} loss 2.5\n"
    for text, end, rates in ((step + "12.5K tokens/s\n", "", 4), (step, "12.5K tokens/s\n", 0)):
        rows = read(steps_of(text) + end.encode()).rows("steps")
        assert [row["tokens_per_s"] for row in rows] == [12500.0] * rates + [None] * (4 - rates)
