"""What the schedule of a pipeline leaves idle by simulation, and what another one would leave, in a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from perflog.metrics import Options, Tables
from perflog.metrics.schedule_simulation import ONE_F_ONE_B
from perflog.metrics.schedules import TIMED, ScheduleRow, schedule_rows
from perflog.units import show

_BETTER = 0.01  # of the step: a smaller gain is not worth another schedule


def schedules(tables: Tables, run: str, options: Options) -> Iterator[str]:
    """Yield the idle share under the schedule of a run, under better ones, and with more micro-batches."""
    rows = [row for row in schedule_rows(tables, options) if row.run == run]
    if not rows:
        return
    own = [row for row in rows if row.micro_batches == rows[0].micro_batches]
    now = next((row for row in own if row.used), None)
    base = now or next(row for row in own if row.schedule == ONE_F_ONE_B)
    unsaid = "" if now is not None else ", if that is its schedule"
    stages = "equal stages"
    if base.of == TIMED:
        stages = f"its stages as timed{', the backward as twice the forward' if base.backward_by_rule else ''}"
    text = (
        f"Pipeline of {base.stages} stages and {base.micro_batches:,} micro-batches, simulated with {stages}: "
        f"{_share(base)} idle under {base.schedule}{unsaid}"
    )
    others = []
    cheap = [row for row in own if row.activations <= base.activations and row.copies <= base.copies]
    best = min(cheap, key=_idle)
    if base.idle - best.idle >= _BETTER:
        others.append(f"{_share(best)} under {best.schedule} with the same memory")
    large = min(own, key=_idle)
    if best.idle - large.idle >= _BETTER:
        more = "two copies of the parameters" if large.copies > base.copies else "more activations"
        others.append(f"{_share(large)} under {large.schedule} with {more}")
    more_batches = (row for row in rows if row.micro_batches > base.micro_batches)
    twice = next((row for row in more_batches if row.schedule == base.schedule), None)
    if twice is not None and base.idle - twice.idle >= _BETTER:
        others.append(f"{_share(twice)} with {twice.micro_batches:,} micro-batches of half the size")
    yield f"{text}; {', '.join(others)}." if others else f"{text}."


def _idle(row: ScheduleRow) -> float:
    return row.idle


def _share(row: ScheduleRow) -> str:
    return show(row.idle, "1", 3)
