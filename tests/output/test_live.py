"""Lines of `perflog watch`."""

from __future__ import annotations

from typing import Any

from perflog.analysis.live_steps import Now
from perflog.output.presenters.live import failure, line, resumed, stall, without_steps

FIELDS: dict[str, Any] = {
    "run": 2, "step": 1200, "steps": None, "loss": None, "step_time_s": None, "tokens_per_s": None, "change": None,
    "quiet_s": 42.4, "usual_s": None, "stalls": False,
}  # fmt: skip


def now(**fields: Any) -> Now:
    return Now(**FIELDS | fields)


def test_what_is_known_is_in_the_line() -> None:
    assert line(now()) == "run 2   step 1200"
    assert line(now(steps=0, loss=0.0, tokens_per_s=0.0)) == "run 2   step 1200 of 0   0 tokens/s   loss 0"
    assert line(now(step_time_s=0.25, tokens_per_s=12345.6, change=-0.05)) == (
        "run 2   step 1200   4 steps/s   1.235e+04 tokens/s   step time 250 ms, -5.0 % in the last minute"
    )
    assert line(now(step_time_s=0.0)) == "run 2   step 1200   step time 0 s"
    assert line(now(step_time_s=2.0, usual_s=2.0, stalls=True)).endswith(
        "step time 2 s   no step for 42 s; steps took 2 s"
    )


def test_a_stall_is_beside_the_usual_rhythm() -> None:
    """A line for ten steps comes every ten steps: that is not the time of a step."""
    assert stall(now(step_time_s=2.0, usual_s=2.9)) == "no step for 42 s; steps took 2 s"
    assert stall(now(step_time_s=2.0, usual_s=3.0)) == "no step for 42 s; one came every 3 s"
    assert stall(now(usual_s=3.0, paused_by="checkpoint")) == (
        "no step for 42 s; one came every 3 s; the last milestone in the log is a checkpoint"
    )
    assert resumed(7, 59.6) == "steps go on: step 7 came after 60 s"
    assert without_steps(9) == "no step so far   rows up to line 9"


def test_a_failure_on_one_line() -> None:
    row = {"line": 4700, "kind": "gpu_out_of_memory", "rank": 0, "message": f"{'m' * 170}\nmore"}
    assert failure(row) == f"line 4,700: CUDA out of memory on rank 0: {'m' * 160}".replace(
        "CUDA out of memory", failure(row | {"rank": None}).split(": ")[1]
    )
    assert " on rank" not in failure(row | {"rank": None})
