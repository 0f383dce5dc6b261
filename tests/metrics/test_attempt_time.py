"""The time of one attempt in intervals: steps, what lines report between them, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.metrics_logs import by_hand

from perflog.metrics import Tables
from perflog.metrics.attempts import Extent
from perflog.metrics.jobs.attempt_clock import on_a_clock, step_lines
from perflog.metrics.jobs.attempt_time import attempt_time
from perflog.metrics.jobs.job_intervals import Interval
from perflog.metrics.jobs.pause_marks import marks

NS = 1_000_000_000
Rows = Sequence[dict[str, Any]]


def step(line: int, number: int, at: float, seconds: float | None = 1.0, **more: Any) -> dict[str, Any]:
    """A step line with its time stamp, and with a time since a start 100 s earlier."""
    times = {"printed_ns": round(at * NS), "clock": "utc", "elapsed_s": at + 100}
    return {"table": "steps", "line": line, "step": number, **times, "step_time_s": seconds, **more}


def since_start(rows: Rows) -> list[dict[str, Any]]:
    """The same steps without time stamps, with the time since a start."""
    return [row | {"printed_ns": None, "clock": None, "elapsed_s": row["elapsed_s"] - 100} for row in rows]


def mark(
    line: int, kind: str, edge: str | None = None, at: float | None = None, took: float | None = None
) -> dict[str, Any]:
    times = {"printed_ns": None if at is None else round(at * NS), "clock": None if at is None else "utc"}
    return {"table": "milestones", "line": line, "kind": kind, "edge": edge, "duration_s": took, **times}


def failure(line: int, **more: Any) -> dict[str, Any]:
    return {"table": "failures", "line": line, "last_line": line, **more}


def every_second(count: int = 12, seconds: float | None = 1.0) -> list[dict[str, Any]]:
    """Steps 1 to `count` on lines 2 and following. The first is done at 10 s."""
    return [step(2 + k, 1 + k, 10 + k, seconds) for k in range(count)]


def with_pause(seconds: float | None = 1.0) -> list[dict[str, Any]]:
    """Six steps, done at 15 s, then six on lines 10 and following. The first of these is done at 30 s."""
    return [*every_second(6, seconds), *(step(10 + k, 7 + k, 30 + k, seconds) for k in range(6))]


def job(rows: Rows, clock: str = "utc", end: float | None = None, log: str = "no such log") -> tuple[Tables, Extent]:
    frames = by_hand("steps", rows)
    steps = [row for row in rows if row["table"] == "steps"]
    lines = [row["line"] for row in rows]
    frames["runs"] = frames["runs"].assign(first_line=1, last_line=max(lines), log=log)
    last = max((row["printed_ns"] or 0) / NS or row["elapsed_s"] or 0 for row in steps) if end is None else end
    extent = Extent(
        "r", "no such log", 1, steps[0]["step"], steps[-1]["step"], steps[0]["line"], steps[-1]["line"], clock, 0,
        round(last * NS),
    )  # fmt: skip
    return Tables(frames), extent


def intervals(
    rows: Rows, clock: str = "utc", end: float | None = None, again: int | None = None, until: float | None = None
) -> list[Interval]:
    tables, extent = job(rows, clock, end)
    return attempt_time(tables, extent, again, None if until is None else round(until * NS))


def shown(found: Sequence[Interval]) -> list[str]:
    return [
        f"{each.kind} {each.begin / NS:g}-{each.end / NS:g}"
        + ("" if each.first_step is None else f": {each.first_step}-{each.last_step}")
        for each in found
    ]


START, BEFORE, AFTER = "startup 0-9", "training 9-15: 1-6", "training 29-35: 7-12"


def test_the_lines_of_intervals_and_how_they_are_known() -> None:
    rows = [*with_pause(), mark(8, "checkpoint", "begin", 15.5), mark(9, "checkpoint", "end", 29.5)]
    assert [(i.first_line, i.last_line, i.known_by, i.error_s) for i in intervals(rows, end=40)] == [
        (1, 2, "stamps", 0.1),
        (2, 7, "stamps", 1),
        (7, 10, "stamps", 1),
        (10, 15, "stamps", 1),
        (15, 15, "stamps", 0.1),
    ]


@pytest.mark.parametrize("seconds", [1.0, None])
def test_start_up_steps_and_shutdown(seconds: float | None) -> None:
    assert shown(intervals(every_second(seconds=seconds), end=30)) == [
        START, "training 9-21: 1-12", "shutdown 21-30",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("marks_of_pause", "expected"),
    [
        ([], ["stall 15-29"]),
        ([mark(8, "checkpoint")], ["checkpoint 15-29"]),
        ([mark(8, "evaluation")], ["evaluation 15-29"]),
        ([mark(8, "validation")], ["evaluation 15-29"]),
        ([mark(8, "restore")], ["startup 15-29"]),
        ([mark(8, "lunch")], ["stall 15-29"]),  # of no known kind
        # Two kinds: each as long as printed, in the order of their lines
        (
            [mark(8, "checkpoint", took=4), mark(9, "evaluation", took=6)],
            ["checkpoint 15-19", "evaluation 19-25", "unknown 25-29"],
        ),
        ([mark(8, "evaluation", took=4), mark(9, "checkpoint")], ["evaluation 15-19", "checkpoint 19-29"]),
        ([mark(8, "evaluation"), mark(9, "checkpoint")], ["unknown 15-29"]),
        ([mark(8, "evaluation", took=9), mark(9, "checkpoint", took=5)], ["evaluation 15-24", "checkpoint 24-29"]),
        (
            [
                mark(8, "evaluation", "begin", 15), mark(8, "evaluation", "end", 18),
                mark(9, "checkpoint", "begin", 18), mark(9, "checkpoint", "end", 29),
            ],
            ["evaluation 15-18", "checkpoint 18-29"],
        ),
    ],
)  # fmt: skip
def test_a_pause_between_two_steps(marks_of_pause: Rows, expected: list[str]) -> None:
    assert shown(intervals([*with_pause(), *marks_of_pause])) == [START, BEFORE, *expected, AFTER]
    assert shown(intervals([*with_pause(None), *marks_of_pause])) == [START, BEFORE, *expected, AFTER]


def test_steps_between_two_pauses() -> None:
    """The number of step lines between two pauses: none, one, two."""
    for count, expected in (
        (1, ["training 29-30: 7-7", "stall 30-48", "training 48-52: 8-11"]),
        (2, ["training 29-31: 7-8", "stall 31-49", "training 49-53: 9-12"]),
        (3, ["training 29-32: 7-9", "stall 32-50", "training 50-54: 10-13"]),
    ):
        between = [step(10 + k, 7 + k, 30 + k) for k in range(count)]
        after = [step(20 + k, 7 + count + k, 48 + count + k) for k in range(4)]
        assert shown(intervals([*every_second(6), *between, *after])) == [START, BEFORE, "stall 15-29", *expected]


@pytest.mark.parametrize(
    ("phase", "seconds", "kind"),
    [
        ("data", 7.0, "data wait"),
        ("data", 6.9, "stall"),  # less than half of the pause
        ("dataloader_time", 14.0, "data wait"),
        ("batch-generator", 14.0, "data wait"),
        ("load", 14.0, "data wait"),
        ("metadata", 14.0, "stall"),
        ("forward", 14.0, "stall"),
    ],
)
def test_a_stall_that_waited_for_data(phase: str, seconds: float, kind: str) -> None:
    waited = {"table": "phases", "line": 10, "step": 7, "phase": phase, "time_s": seconds}
    assert shown(intervals([*with_pause(), waited])) == [START, BEFORE, f"{kind} 15-29", AFTER]
    assert shown(intervals([*with_pause(), waited | {"step": 6}])) == [START, BEFORE, "stall 15-29", AFTER]


@pytest.mark.parametrize(("at", "is_stall"), [(26, True), (25, False)])
def test_a_stall_takes_ten_steps_or_more(at: int, is_stall: bool) -> None:
    rows = [*every_second(6), *(step(10 + k, 7 + k, at + k) for k in range(6))]
    kinds = [each.kind for each in intervals(rows)]
    assert kinds == (["startup", "training", "stall", "training"] if is_stall else ["startup", "training"])


@pytest.mark.parametrize(
    ("pause", "marked", "expected"),
    [
        (30, False, [("stall", 30.1)]),
        (19.5, False, []),  # less than ten usual steps
        (20.5, False, [("stall", 20.6)]),
        (3, True, [("checkpoint", 3)]),  # a line reports it: the printed time of the steps is known
        (0.5, True, [("checkpoint", 0.5)]),
        (0.1, True, []),  # within twice the resolution of the clock
    ],
)
def test_a_pause_between_lines_of_several_steps(pause: float, marked: bool, expected: list[tuple[str, float]]) -> None:
    """Each line is of five steps of 1.98, 2, or 2.02 s, as it prints. The third line comes after a pause."""
    at, rows = 0.0, []
    for k in range(16):
        seconds = 2 + 0.02 * (k % 3 - 1)
        at += 5 * seconds + (pause if k == 2 else 0)
        rows.append(step(2 + 2 * k, 5 * (k + 1), at, seconds, steps_averaged=5))
    found = intervals([*rows, *([mark(5, "checkpoint")] if marked else [])])
    pauses: list[Any] = [
        (each.kind, pytest.approx((each.end - each.begin) / NS)) for each in found if each.kind != "training"
    ]
    assert pauses == expected
    assert (found[0].first_step, found[-1].last_step, found[-1].end) == (1, 80, round(at * NS))


@pytest.mark.parametrize(("outside", "kinds"), [(0.0, 0), (0.1, 0), (4.0, 1)])
def test_time_beside_the_printed_time_of_each_step_is_no_pause(outside: float, kinds: int) -> None:
    """Each iteration takes half a second more than the step that it prints; a checkpoint may take longer."""
    at, rows = 10.0, []
    for k in range(14):
        at += 1.5 + (outside if k == 7 else 0)
        rows.append(step(2 + 2 * k, 1 + k, at, 1.0))
    found = intervals([*rows, mark(15, "checkpoint")])
    assert sum(each.kind == "checkpoint" for each in found) == kinds
    assert shown(found)[0] == "startup 0-10.5"


def test_a_mark_without_a_pause_takes_no_time() -> None:
    rows = [step(2 + 2 * k, 1 + k, 10 + k) for k in range(12)]
    assert shown(intervals([*rows, mark(11, "checkpoint")])) == [START, "training 9-21: 1-12"]


# --- the beginning ----------------------------------------------------------------------------------------------------


def test_a_long_gap_is_no_checkpoint_where_each_gap_has_one() -> None:
    """The other gaps show that a checkpoint takes no such time; with a gap that has none, it may."""
    ends = [10, 20, 30, 40, 50, 90, 100]
    steps = [step(2 * k + 2, k + 1, at, None) for k, at in enumerate(ends)]
    saves = [mark(2 * k + 3, "checkpoint") for k in range(len(ends) - 1)]
    assert "unknown 50-80" in shown(intervals([*steps, *saves]))
    assert "checkpoint 50-80" in shown(intervals([*steps, *saves[1:]]))


def test_what_first_steps_take_longer_is_compilation() -> None:
    rows = [step(2, 1, 14, 5), step(3, 2, 17, 3), *(step(4 + k, 3 + k, 18 + k) for k in range(10))]
    assert shown(intervals(rows)) == [
        START, "compile 9-13", "training 13-14: 1-1", "compile 14-16", "training 16-27: 2-12",
    ]  # fmt: skip


def test_slow_steps_at_the_end_of_the_first_few_are_no_compilation() -> None:
    """Only the steps before the first usual one warm up."""
    rows = [step(2, 1, 10, 1), step(3, 2, 11, 1), step(4, 3, 14, 3), *(step(5 + k, 4 + k, 15 + k) for k in range(10))]
    assert shown(intervals(rows)) == [START, "training 9-24: 1-13"]


def test_the_first_step_begins_when_the_start_up_ends() -> None:
    rows = [mark(1, "startup", "end", 4), *every_second(seconds=None)]
    assert shown(intervals(rows)) == ["startup 0-4", "compile 4-9", "training 9-21: 1-12"]
    rows = [mark(1, "startup"), *rows, mark(1, "startup", "end", 11)]  # without a time, and behind the first step
    assert shown(intervals(rows)) == ["startup 0-4", "compile 4-9", "training 9-21: 1-12"]
    rows = [mark(1, "startup", "end", 4), *every_second()]  # the printed time counts
    assert shown(intervals(rows)) == [START, "training 9-21: 1-12"]


# --- the end ----------------------------------------------------------------------------------------------------------

TRAINED = [START, "training 9-17: 1-8"]


@pytest.mark.parametrize(
    ("after", "end", "until", "expected"),
    [
        ([], 17, None, []),
        ([mark(10, "checkpoint", "end", 22)], 25, None, ["checkpoint 17-22", "shutdown 22-25"]),
        ([mark(10, "checkpoint", "begin", 22)], 25, None, ["shutdown 17-25"]),
        ([mark(10, "checkpoint", took=3)], 25, None, ["checkpoint 17-20", "shutdown 20-25"]),
        ([mark(10, "startup", took=3)], 25, None, ["shutdown 17-25"]),  # of the next attempt
        ([mark(10, "evaluation", "end", 30)], 17, None, ["evaluation 17-30"]),
        ([mark(10, "evaluation")], 30, None, ["evaluation 17-30"]),  # its result is the last line
        ([mark(10, "evaluation"), failure(12)], 18, None, ["shutdown 17-18"]),
        # A hang lasts as long as its watchdog reports, or until the next attempt begins
        ([failure(12, waited_s=600.0)], 25, None, ["stall 17-617"]),
        ([failure(11, waited_s=300.0), failure(12, waited_s=600.0)], 25, None, ["stall 17-617"]),
        ([failure(12, waited_s=600.0)], 25, 100, ["stall 17-100"]),
        # Silence before a failure
        ([failure(12, time_ns=60 * NS, clock="utc")], 25, None, ["stall 17-60"]),
        ([failure(12, time_ns=26 * NS, clock="utc")], 30, None, ["shutdown 17-30"]),  # less than ten steps
        ([failure(12, time_ns=27 * NS, clock="utc")], 30, None, ["stall 17-27", "shutdown 27-30"]),
        ([failure(12, time_ns=60 * NS, clock="utc")], 25, 50, ["shutdown 17-25"]),  # after the next attempt began
        ([failure(12, time_ns=60 * NS, clock="time of day")], 25, None, ["shutdown 17-25"]),
        ([failure(12, time_ns=20 * NS, clock="utc")], 90, 100, ["down 17-90"]),  # the next attempt prints the last line
        ([failure(12)], 60, None, ["unknown 17-60"]),  # it may have failed long before the last line
        ([failure(9, waited_s=600.0)], 25, None, ["shutdown 17-25"]),  # of an earlier line
    ],
)
def test_what_follows_the_last_step(after: Rows, end: float, until: float | None, expected: list[str]) -> None:
    assert shown(intervals([*every_second(8), *after], end=end, until=until)) == [*TRAINED, *expected]


@pytest.mark.parametrize(("silent", "kinds"), [(19, ["shutdown"]), (20, ["stall", "shutdown"])])
def test_a_silence_before_a_failure_is_as_long_as_ten_steps(silent: int, kinds: list[str]) -> None:
    """Steps of 2 s; the last one is done at 24 s."""
    steps = [step(2 + k, 1 + k, 10 + 2 * k, 2.0) for k in range(8)]
    found = intervals([*steps, failure(12, time_ns=(24 + silent) * NS, clock="utc")], end=25 + silent)
    assert [each.kind for each in found] == ["startup", "training", *kinds]


@pytest.mark.parametrize(
    ("lines", "kind"), [(range(10, 14), "shutdown"), (range(10, 15), "unknown"), ([10] * 9, "shutdown")]
)
def test_a_value_that_is_printed_on_and_on_is_of_no_shutdown(lines: Sequence[int], kind: str) -> None:
    values = [{"table": "values", "run": "r", "line": line, "key": "rate", "value": 1.5} for line in lines]
    assert shown(intervals([*every_second(8), *values], end=30)) == [*TRAINED, f"{kind} 17-30"]


# --- repeated steps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        (13, ["training 9-21: 1-12"]),
        (12, ["training 9-20: 1-11", "repeated 20-21: 12-12"]),
        (9, ["training 9-17: 1-8", "repeated 17-21: 9-12"]),
        (1, ["repeated 9-21: 1-12"]),
        (0, ["repeated 9-21: 1-12"]),
    ],
)
def test_steps_that_a_later_attempt_does_again(again: int, expected: list[str]) -> None:
    assert shown(intervals(every_second(), again=again)) == [START, *expected]


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        (31, ["training 10-40: 1-30", "repeated 40-70: 31-60"]),
        (35, ["training 10-44: 1-34", "repeated 44-70: 35-60"]),  # four of ten steps of a line
    ],
)
def test_a_line_of_several_steps_is_divided(again: int, expected: list[str]) -> None:
    rows = [step(2 + k, 10 * (k + 1), 20 + 10 * k, steps_averaged=10) for k in range(6)]
    assert shown(intervals(rows, again=again)) == ["startup 0-10", *expected]


# --- clocks -----------------------------------------------------------------------------------------------------------


def test_printed_time_since_a_start() -> None:
    found = intervals(since_start(every_second()), "elapsed")
    assert shown(found) == [START, "training 9-21: 1-12"]
    assert {each.known_by for each in found} == {"elapsed"}
    rows = [step(2 + k, 41 + k, 50 + k) for k in range(6)]  # steps before it are not in the log
    assert shown(intervals(since_start(rows), "elapsed")) == ["training 49-55: 41-46"]
    rows = every_second(seconds=None)  # a bar begins with the first step
    assert shown(intervals(since_start(rows), "elapsed")) == ["compile 0-9", "training 9-21: 1-12"]


def test_durations_are_added_up_where_no_clock_is_printed() -> None:
    rows = [*every_second(), mark(5, "checkpoint", took=4), mark(20, "checkpoint", took=3)]
    found = intervals(rows, "steps", end=16)
    assert shown(found) == ["training 0-3: 1-3", "checkpoint 3-7", "training 7-16: 4-12", "checkpoint 16-19"]
    assert {each.known_by for each in found} == {"printed"}


def test_a_step_that_includes_a_printed_pause_is_no_longer_than_others() -> None:
    rows = [*every_second(5), step(7, 6, 16, 5.0), mark(7, "checkpoint", took=4), step(8, 7, 17)]
    found = intervals(rows, "steps", end=11)
    assert shown(found) == ["training 0-5: 1-5", "checkpoint 5-9", "training 9-11: 6-7"]


def test_durations_beyond_all_clocks_are_no_clock() -> None:
    _, extent = job(every_second(seconds=1e10), "steps")
    assert step_lines(job(every_second(seconds=1e10))[0], extent) is None


@pytest.mark.parametrize(
    ("change", "clock", "end"),
    [
        ({}, "utc", 21),
        ({"printed_ns": None}, "elapsed", 121),
        ({"clock": "local"}, "elapsed", 121),  # not the clock of the attempt
        ({"printed_ns": None, "elapsed_s": None}, "steps", 12),
        ({"printed_ns": None, "elapsed_s": None, "step_time_s": None}, "utc", 21),  # none
        ({"printed_ns": None, "elapsed_s": None, "step_time_by": "bar"}, "utc", 21),  # read from a clock
    ],
)
def test_the_best_clock_of_an_attempt(change: dict[str, Any], clock: str, end: float) -> None:
    _, extent = job(every_second())
    tables, _ = job([row | change for row in every_second()], end=0)
    found = on_a_clock(tables, extent)
    assert (found.clock, found.begin_ns, found.end_ns) == (clock, 0, end * NS)


def lines_of(rows: Rows, clock: str = "utc") -> list[tuple[int, int, int, int]] | None:
    """Line, step, index and number of steps done of each step line."""
    tables, extent = job(rows, clock)
    found = step_lines(tables, extent)
    if found is None:
        return None
    return list(
        zip(*(each.tolist() for each in (found.lines, found.steps, found.places, found.steps_done)), strict=True)
    )


def test_step_lines_are_those_of_the_lowest_rank_where_steps_and_clock_go_up() -> None:
    rows = [
        step(2, 1, 10, rank=0), step(3, 1, 11, rank=1), step(4, 2, 11, rank=0), step(5, 2, 12, copy=2, rank=0),
        step(6, 1, 11, rank=0), step(7, 4, 11.5, rank=0), step(8, 3, 9, rank=0), step(9, 8, 12, rank=0),
    ]  # fmt: skip
    assert lines_of(rows) == [(2, 1, 1, 1), (4, 2, 2, 1), (7, 4, 4, 2), (9, 8, 8, 4)]


@pytest.mark.parametrize(
    "rows",
    [
        [step(2, 1, 10)],
        [step(2, 1, 10), step(3, 1, 11)],
        [step(2, 9, 10), step(3, 8, 11), step(4, 7, 12), step(5, 6, 13), step(6, 10, 14)],  # most go back
        [step(2 + k, 1 + k, 5000 + k - 3600 * (k > 5)) for k in range(10)],  # the end of summer time
    ],
)
def test_too_few_step_lines(rows: Rows) -> None:
    assert lines_of(rows) is None
    tables, extent = job(rows)
    assert attempt_time(tables, extent, None, None) == []


def test_steps_of_several_epochs_go_on() -> None:
    rows = [step(2 + k, n, 10 + k, epoch=e) for k, (e, n) in enumerate([(0, 1), (0, 2), (0, 3), (1, 1), (1, 2)])]
    assert lines_of(rows) == [(2, 1, 1, 1), (3, 2, 2, 1), (4, 3, 3, 1), (5, 1, 5, 1), (6, 2, 6, 1)]


@pytest.mark.parametrize(
    ("steps", "averaged", "first"),
    [([10, 20, 30], 10, 10), ([10, 20, 30], None, 10), ([5, 15, 25], None, 5), ([100, 110, 120], None, 10)],
)
def test_how_many_steps_the_first_line_covers(steps: list[int], averaged: int | None, first: int) -> None:
    found = lines_of([step(2 + k, n, 10 + k, steps_averaged=averaged) for k, n in enumerate(steps)])
    assert found is not None and [done for *_, done in found] == [first, 10, 10]


@pytest.mark.parametrize(
    ("times", "resolution"),
    [([10, 11], 1), ([10, 11.5], 0.1), ([10, 11.25], 0.01), ([10, 11.125], 0.001), ([10, 11.0001], 1e-4),
     ([10, 11.00001], 1e-6)],
)  # fmt: skip
def test_the_resolution_of_a_clock_is_that_of_its_readings(times: list[float], resolution: float) -> None:
    tables, extent = job([step(2 + k, 1 + k, at) for k, at in enumerate(times)])
    found = step_lines(tables, extent)
    assert found is not None and found.resolution_s == resolution


def test_lines_that_report_a_pause() -> None:
    """Milestones with their times on the clock of the attempt, and printed values."""
    rows = [
        *every_second(),
        mark(9, "checkpoint", "end", 20, took=2),
        mark(8, "checkpoint", "begin") | {"printed_ns": 5, "clock": "local"},
        mark(7, "other"),
        {"table": "values", "line": 5, "key": "validation_time", "unit": "s", "value": 3.0},
    ]
    tables, extent = job(rows)
    assert [(m.kind, m.line, m.edge, m.at, m.seconds) for m in marks(tables, extent)] == [
        ("validation", 5, None, None, 3),
        ("validation", 5, None, None, None),
        ("checkpoint", 8, "begin", None, None),
        ("checkpoint", 9, "end", 20 * NS, 2),
    ]


def test_what_follows_the_last_step_for_long_is_not_known() -> None:
    """The job may have hung, or copied its last checkpoint."""
    rows = [*every_second(8), mark(20, "other")]
    assert [shown(intervals(rows, end=end))[-1] for end in (70, 90)] == ["shutdown 17-70", "unknown 17-90"]


def test_attempts_in_one_run_are_down_and_do_steps_again() -> None:
    """A mark shows where one begins, a failure, or the steps alone: other ranks print them at nearly the same time."""
    again = [step(20 + k, 5 + k, 34 + k, copy=2) for k in range(4)]
    rows = [*every_second(8), *again, *(step(30 + k, 9 + k, 38 + k) for k in range(6))]
    for begins in ([mark(15, "restore", "end", 33)], [{"table": "failures", "run": "r", "line": 15}], []):
        assert shown(intervals([*rows, *begins], end=43))[2:4] == ["down 17-33", "repeated 33-37"]
    late = [row | {"printed_ns": (17 + k) * 10**9} for k, row in enumerate(again[:1])]
    assert shown(intervals([*every_second(8), *late, *rows[-6:]], end=43))[2] == "stall 17-37"
    failed = {"table": "failures", "run": "r", "line": 15, "severity": "fatal"}
    assert shown(intervals([*every_second(8), failed, *rows[-6:]], end=43))[2] == "down 17-37"


def test_a_checkpoint_before_a_restart_and_the_start_up_after_it_have_their_times() -> None:
    again = [step(20 + k, 5 + k, 34 + k, copy=2) for k in range(4)]
    rows = [*every_second(8), *again, *(step(30 + k, 9 + k, 38 + k) for k in range(6))]
    saved, loaded = mark(11, "checkpoint", took=3.0), mark(15, "restore", at=30)
    found = shown(intervals([*rows, saved, {"table": "failures", "run": "r", "line": 12}, loaded], end=43))
    assert found[2:6] == ["checkpoint 17-20", "down 20-30", "startup 30-33", "repeated 33-37"]


def test_of_files_of_ranks_only_the_lowest_rank_reports_a_pause_unless_others_alone_do() -> None:
    """Rank 1's lines come after all of rank 0's: its checkpoint is no second one, its evaluation is found by time."""
    rows = [row | {"rank": 0} for row in with_pause()]
    checkpoints = [mark(8, "checkpoint", took=4.0) | {"rank": 0}, mark(40, "checkpoint", took=4.0) | {"rank": 1}]
    evaluation = mark(41, "evaluation", at=20) | {"rank": 1}
    for log, lines in (("rank_{0..1}.log", [8, 41]), ("all.log", [8, 40, 41])):
        found = marks(*job([*rows, *checkpoints, evaluation], log=f"/logs/{log}"))
        assert [each.line for each in found] == lines
    tables, extent = job([*rows, evaluation], log="/logs/rank_{0..1}.log")
    assert [each.kind for each in attempt_time(tables, extent, None, None)][1:] == [
        "training",
        "evaluation",
        "training",
    ]


def test_a_restart_that_prints_how_long_its_start_took() -> None:
    rows = [*every_second(8), *(step(30 + k, 9 + k, 38 + k) for k in range(4)), mark(12, "restore", took=10)]
    rows += [step(20 + k, 5 + k, 34 + k, copy=2) for k in range(4)]
    assert shown(intervals(rows, end=41))[2:5] == ["down 17-23", "startup 23-33", "repeated 33-37"]
    without = [row | {"printed_ns": None, "clock": None, "elapsed_s": None} for row in rows]
    assert shown(intervals(without, "steps", end=0))[1:3] == ["startup 8-18", "training 18-22: 9-12"]
