"""Ranks with another clock than the lowest rank: their times are no times of the run."""

from __future__ import annotations

from typing import Any

import pytest
from support.metrics_logs import by_hand

from perflog.analysis.overview.facts.job_course import course_of_job
from perflog.analysis.overview.run_groups import RunGroup
from perflog.metrics import Options, Tables
from perflog.metrics.attempts import extents
from perflog.metrics.clock_offsets import _offsets, clock_offsets, on_first_clock
from perflog.tables.columns import NULL

NS = 1_000_000_000


def two_ranks(ahead_s: float, grows_s: float = 0.0) -> Tables:
    """Ten steps of a second on two ranks; the clock of rank 1 is ahead, and by more at each step."""
    rows: list[dict[str, Any]] = []
    for rank in (0, 1):
        for step in range(1, 11):
            at = 100 + step + rank * (ahead_s + grows_s * step)
            time = {"printed_ns": round(at * NS), "clock": "utc"}
            rows.append({"table": "steps", "line": len(rows) + 1, "step": step, "rank": rank, "copy": 1, **time})
    frames = by_hand("steps", rows)
    frames["runs"] = frames["runs"].assign(first_line=1, last_line=20, log_sha256="0", index=1)
    return Tables(frames)


@pytest.mark.parametrize(
    ("tables", "offsets", "end_s"),
    [
        (two_ranks(40), {1: 40.0}, 110),
        (two_ranks(-40), {1: -40.0}, 110),
        (two_ranks(0.5), {}, 110.5),  # less than a step: rank 1 may end it later
        (two_ranks(0, 1.0), {}, 120),  # rank 1 falls behind: it is slower, and no clock is off
    ],
)
def test_a_rank_with_another_clock_does_not_end_the_run(tables: Tables, offsets: dict[int, float], end_s: int) -> None:
    assert clock_offsets(tables, "r") == offsets
    assert extents(tables)["r"].end_ns == end_s * NS


def test_the_overview_states_the_other_clock() -> None:
    tables = two_ranks(62.4)
    (text,) = [text for text in course_of_job(tables, [RunGroup("#1", "r", ("r",), {})], Options()) if "Clocks" in text]
    assert text == "Clocks differ from the clock of rank 0: rank 1 by +62 s. Times are by the clock of rank 0."
    assert not any("Clocks" in text for text in course_of_job(two_ranks(0.0), [], Options()))


def offsets_of(*printed: tuple[int, int, float], clock: str = "utc", last: str = "utc") -> dict[int, float]:
    """Of lines by rank, step and time in s; the clock of all but the last."""
    rows = [{"step": step, "rank": rank, "printed_ns": round(at * NS), "clock": clock} for rank, step, at in printed]
    rows[-1]["clock"] = last
    return _offsets(Tables(by_hand("steps", rows)).rows("steps"))


def test_clocks_differ_from_two_steps_and_a_second_on() -> None:
    """Between the first and the last of eight steps, of one, of ten and of a tenth of a second."""

    def ahead(by: float, step_s: float, count: int = 8) -> dict[int, float]:
        return offsets_of(*((rank, k, 100 + k * step_s + by * rank) for rank in (0, 1) for k in range(count)))

    assert ahead(2.0, 1.0) == {1: 2.0} and ahead(1.9, 1.0) == {}
    assert ahead(20.0, 10.0) == {1: 20.0} and ahead(19.0, 10.0) == {}
    assert ahead(1.0, 0.1) == {1: 1.0} and ahead(0.9, 0.1) == {}
    assert ahead(20.0, 1.0, count=7) == {}


@pytest.mark.parametrize(("scatter", "found"), [(4.0, {1: 40.0}), (4.1, {})])
def test_clocks_differ_steadily(scatter: float, found: dict[int, float]) -> None:
    """The difference scatters by a tenth of it at most: half of the steps are as far off as `scatter`."""
    ahead = [-scatter, 0.0, scatter] * 3
    printed = [(0, k, 100.0 + k) for k in range(9)] + [(1, k, 140.0 + k + by) for k, by in enumerate(ahead)]
    assert offsets_of(*printed) == found


def test_steps_that_start_again_in_each_epoch_are_compared_epoch_by_epoch() -> None:
    """Four steps in each of two epochs are eight steps."""
    rows = [
        {"step": k % 4, "epoch": 1 + k // 4, "rank": rank, "printed_ns": (100 + k + 40 * rank) * NS, "clock": "utc"}
        for rank in (0, 1)
        for k in range(8)
    ]
    assert _offsets(Tables(by_hand("steps", rows)).rows("steps")) == {1: 40.0}
    for row in rows:
        row["epoch"] = 1
    assert _offsets(Tables(by_hand("steps", rows)).rows("steps")) == {}


def test_rows_on_the_first_clock() -> None:
    """A row without a rank has the clock of the step before it, before all steps the clock of the first step."""
    tables = two_ranks(40)  # lines 1 to 10 are of rank 0, 11 to 20 of rank 1
    lines = [(0, None), (1, 0), (9, 1), (10, None), (11, None), (12, 0), (12, None), (21, None), (5, 7)]
    rows = Tables(by_hand("values", [{"line": line, "rank": rank} for line, rank in lines])).rows("values")
    kept = on_first_clock(tables, "r", rows)
    assert list(zip(kept["line"].tolist(), [None if r == NULL else r for r in kept["rank"].tolist()], strict=True)) == [
        (0, None), (1, 0), (10, None), (12, 0), (5, 7),
    ]  # fmt: skip
    assert on_first_clock(two_ranks(0), "r", rows) is rows


def test_ranks_on_several_kinds_of_clocks_are_not_compared() -> None:
    both = [(rank, k, 100.0 + k + 40 * rank) for rank in (0, 1) for k in range(9)]
    assert offsets_of(*both) == {1: 40.0} and offsets_of(*both, last="local") == {}
    assert offsets_of(*both[:9]) == {}
    few = [*both[:9], *both[9:16]]  # rank 1 prints seven steps
    assert offsets_of(*few) == {}
    assert offsets_of(*few, *((2, k, 70.0 + k) for k in range(9))) == {2: -30.0}
