"""Times on lines of their own, below the heading of a step or after its line, are parts of this step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.reading import read

from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.parsing.assemble.attributed_rows import AttributedRows, RecordRanks
from perflog.parsing.assemble.steps import timer_lines as module
from perflog.parsing.match.records import Records
from perflog.units import UNITS

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


# --- the parts on their own -------------------------------------------------------------------------------------------

NO_GROUPS: Any = None
STEPS = Line("step", Template("step {step:d}"), table="steps", within="epoch")
BOTH = Line(
    "timers", Template("fwd {fwd:r} bwd {bwd:r}"), table="values", fills_steps=True,
    unit={"fwd": UNITS["ms"], "bwd": UNITS["ms"]},
)  # fmt: skip


def rows_of(line: Line, *rows: tuple[int, int | None, int], epochs: Sequence[int] = (), **columns: Any) -> Any:
    """Rows with their position, step and rank; other columns by name."""
    positions, steps, ranks = zip(*rows, strict=True) if rows else ((), (), ())
    values = {name: np.array(of, np.float64) for name, of in columns.items()}
    if epochs:
        values["epoch"] = np.array(epochs)
    known = np.array([step is not None for step in steps], np.bool_)
    step = np.array([0 if each is None else each for each in steps], np.int64)
    by = RecordRanks(np.array(ranks, np.int64), np.full(len(rows), -1, np.int8))
    return AttributedRows(line, Records(np.array(positions, np.int64), values), NO_GROUPS, step, known, by, False)


@pytest.mark.parametrize(
    ("steps", "timers", "alternate"),
    [
        ([10, 20, 30, 40], [11, 21, 31, 41], True),
        ([10, 20, 30, 40], [5, 11, 21, 31], False),  # one before the first step
        ([10, 20], [11, 12, 21], False),  # of micro-batches
        (range(0, 100, 10), [1, *range(2, 100, 10)], True),  # one of eleven is a second one
        (range(0, 90, 10), [1, 11, *range(2, 70, 10)], False),
        ([10, 20, 30, 40], [11, 31], True),  # below half of the steps
        ([10, 20, 30, 40, 50], [11, 31], False),
        ([10], [11], False),  # one may be of the whole run
    ],
)
def test_lines_of_timers_follow_those_of_steps(steps: Sequence[int], timers: Sequence[int], alternate: bool) -> None:
    assert module._alternate(np.array(steps), np.array(timers)) == alternate


@pytest.mark.parametrize(
    ("text", "units", "more", "is_one"),
    [
        ("fwd {fwd:r} bwd {bwd:r}", {"fwd": "ms", "bwd": "ms"}, {}, True),
        ("fwd {fwd:r} bwd {bwd:r} share {share:r}", {"fwd": "ms", "bwd": "ms", "share": "%"}, {}, True),
        ("fwd {fwd:r} bwd {bwd:r} {_:r}, rank {rank:d}", {"fwd": "ms", "bwd": "ms"}, {}, True),
        ("fwd {fwd:r}", {"fwd": "ms"}, {}, False),  # both passes
        ("fwd {fwd:r} bwd {bwd:r}", {"fwd": "ms"}, {}, False),
        ("fwd {fwd:r} bwd {bwd:r} loss {loss:r}", {"fwd": "ms", "bwd": "ms"}, {}, False),
        ("fwd {fwd:r} bwd {bwd:r} mem {mem:r}", {"fwd": "ms", "bwd": "ms", "mem": "GB"}, {}, False),
        ("fwd {fwd:r} bwd {bwd:r}", {"fwd": "ms", "bwd": "ms"}, {"fills_steps": False}, False),
        ("fwd {fwd:r} bwd {bwd:r}", {"fwd": "ms", "bwd": "ms"}, {"table": "phases"}, False),
        ("{tokens_per_s:r} tokens/s", {}, {}, True),
        ("{samples_per_s:r} samples/s", {}, {}, True),
        ("{speed:r} of it", {}, {}, False),
        ("{tokens_per_s:r} tokens/s, {samples_per_s:r}", {}, {}, False),
    ],
)
def test_lines_that_have_nothing_but_timers(
    text: str, units: dict[str, str], more: dict[str, Any], is_one: bool
) -> None:
    usual: dict[str, Any] = {"table": "values", "fills_steps": True}
    line = Line("own", Template(text), unit={name: UNITS[unit] for name, unit in units.items()}, **(usual | more))
    assert module._is_of_timers(line) == is_one


def test_the_step_above_a_line() -> None:
    """Lines of a step that are printed again at once are one step, unless another epoch begins."""
    rows = [rows_of(STEPS, (10, 1, 0), (30, 2, 0), (31, 9, 1)), rows_of(STEPS, (20, 1, 0), (40, 1, 1))]
    printed = module._Steps.of(rows, 0)
    assert (printed.positions.tolist(), printed.steps.tolist(), printed.numbers.tolist()) == (
        [10, 20, 30], [1, 1, 2], [0, 0, 1],
    )  # fmt: skip
    timers = rows_of(BOTH, (5, 1, 0), (10, 1, 0), (15, 1, 0), (25, 2, 0), (35, 2, 0), (36, None, 0))
    assert printed.above(timers).tolist() == [-1, 0, 0, -1, 1, -1]
    assert module._Steps.of(rows, 7).above(timers).tolist() == [-1] * 6
    again = module._Steps.of([rows_of(STEPS, (10, 1, 0), (20, 1, 0), epochs=[0, 1])], 0)
    assert again.numbers.tolist() == [0, 1]


def test_the_times_of_each_step_of_each_rank_are_together() -> None:
    """A time that a step prints twice, or that is of another step, is not known."""
    steps = rows_of(STEPS, (10, 1, 0), (11, 1, 1), (30, 2, 0), (31, 2, 1), step_time=[9.0, 8.0, 7.0, 6.0])
    timers = [(12, 1, 0), (13, 1, 1), (32, 2, 0), (33, 2, 1), (34, 2, 1), (35, 1, 0)]
    rows = rows_of(BOTH, *timers, fwd=[1, 2, 3, 4, 5, 6], bwd=[10, np.nan, 30, 40, 50, 60])
    of_steps = Line("step", STEPS.template, table="steps", within="epoch", unit={"step_time": UNITS["s"]})
    steps.line = of_steps
    found = module.times_beside([steps, rows])
    assert found is not None
    together = found.together
    assert together.records.positions.tolist() == [10, 11, 30, 31] and together.step.tolist() == [1, 1, 2, 2]
    assert together.ranks.rank.tolist() == [0, 1, 0, 1] and set(together.ranks.rule.tolist()) == {-1}
    columns = {name: together.records.columns[name].tolist() for name in ("forward", "backward", "step_time")}
    expected = {
        "forward": [0.001, 0.002, 0.003, np.nan], "backward": [0.01, np.nan, 0.03, np.nan], "step_time": [9, 8, 7, 6],
    }  # fmt: skip
    assert columns == {name: pytest.approx(values, nan_ok=True) for name, values in expected.items()}
    assert [(row is rows, names) for row, names in found.rows] == [(True, {"fwd": "forward", "bwd": "backward"})]
    assert (together.line.parts, together.line.whole) == (frozenset({"forward", "backward"}), "step_time")
    assert module.times_beside([steps]) is None is module.times_beside([rows])
