"""Lines of `perflog watch`: where a log is, how fast it goes, what has changed, and a stall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perflog.analysis.live_steps import Now
from perflog.parsing.failures.kinds import title_of
from perflog.units import show, show_change

GAP = "   "
"""What is between two facts of a line."""

_BREAK, _MESSAGE = "\n", 160  # characters of the message of a failure
_SAME = 1.5  # times the time of a step: a shorter time between two step lines is the time of one step


def line(now: Now) -> str:
    """Return one line with what the last steps show.

    Example:
        >>> line(Now(1, 1200, 5000, 2.31, 0.5, None, 0.031, 0.2, 0.5, stalls=False))
        'run 1   step 1200 of 5000   2 steps/s   loss 2.31   step time 500 ms, +3.1 % in the last minute'
    """
    return GAP.join([f"run {now.run}", *_facts(now), *([stall(now)] if now.stalls else [])])


def without_steps(last_line: int) -> str:
    """Return one line for a log that prints no steps, or none yet."""
    return f"no step so far{GAP}rows up to line {last_line}"


def stall(now: Now) -> str:
    """Return for how long no step was printed, and the last milestone of the log.

    Example:
        >>> stall(Now(1, 1200, None, None, 1.1, None, None, 42.0, 1.1, stalls=True))
        'no step for 42 s; steps took 1.1 s'
    """
    step_time, usual = now.step_time_s, now.usual_s
    is_of_step = step_time is not None and usual is not None and usual < _SAME * step_time
    rhythm = f"steps took {show(step_time, 's')}" if is_of_step else f"one came every {show(usual, 's')}"
    told = f"; the last milestone in the log is a {now.paused_by}" if now.paused_by else ""
    return f"no step for {now.quiet_s:.0f} s; {rhythm}{told}"


def resumed(step: int, quiet_s: float) -> str:
    """Return that steps follow after a stall.

    Example:
        >>> resumed(1201, 600.4)
        'steps go on: step 1201 came after 600 s'
    """
    return f"steps go on: step {step} came after {quiet_s:.0f} s"


def failure(row: Mapping[str, Any]) -> str:
    """Return what a row of table `failures` tells, in one line.

    Example:
        >>> failure({"line": 47, "kind": "gpu_out_of_memory", "rank": 5, "message": "CUDA out of memory."})
        'line 47: CUDA out of memory on rank 5: CUDA out of memory.'
    """
    who = f" on rank {row['rank']}" if row["rank"] is not None else ""
    title = title_of(row["kind"], row["message"])
    return f"line {row['line']:,}: {title}{who}: {row['message'].partition(_BREAK)[0][:_MESSAGE]}"


def _facts(now: Now) -> list[str]:
    facts = [f"step {now.step}" + (f" of {now.steps}" if now.steps is not None else "")]
    if now.step_time_s:
        facts.append(f"{1 / now.step_time_s:.4g} steps/s")
    if now.tokens_per_s is not None:
        facts.append(f"{now.tokens_per_s:.4g} tokens/s")
    if now.loss is not None:
        facts.append(f"loss {now.loss:g}")
    if now.step_time_s is not None:
        changed = f", {show_change(now.change)} in the last minute" if now.change is not None else ""
        facts.append(f"step time {show(now.step_time_s, 's')}{changed}")
    return facts
