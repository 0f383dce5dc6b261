"""Where a log stops that tells of no failure."""

from __future__ import annotations

from typing import Any

import pytest
from support.metrics_logs import by_hand

from perflog.analysis.run_stops import Stop, last_stop
from perflog.metrics.run_tables import Tables
from perflog.tables.schema import LOCAL, NO_DATE, NO_YEAR, UTC

NS = 10**9
AT = 1_767_323_045 * NS  # 2026-01-02 03:04:05 UTC


def step(number: int | None, line: int, rank: int | None = None, **more: Any) -> dict[str, Any]:
    return {"step": number, "line": line, "rank": rank, "step_time_s": 1.0, "run": "a-1", **more}


def stop_of(*rows: dict[str, Any], config: str = "{}", format: str = "llmc") -> Stop | None:
    runs = dict.fromkeys(row.get("run", "a-1") for row in rows)
    made = [{"table": "runs", "run": run, "index": k, "log": run, "log_sha256": run, "format": format, "config": config,
             "first_line": 1, "last_line": 99} for k, run in enumerate(runs, 1)]  # fmt: skip
    frames = by_hand("steps", [*made, *rows])
    return last_stop(Tables(frames | {"runs": frames["runs"][1:]}))


def last(*rows: dict[str, Any], **more: str) -> Stop:
    found = stop_of(*rows, **more)
    assert found is not None
    return found


def test_the_last_step_and_its_line() -> None:
    found = last(step(1, 2), step(3, 5), step(3, 7), step(2, 9), step(None, 12))
    assert (found.run, found.step, found.line, found.time, found.planned) == ("a-1", 3, 7, None, None)
    assert found.sentence == "the log ends with step 3 (line 7)"
    assert stop_of(step(None, 3)) is None
    assert last(step(0, 2)).step == 0
    assert last(step(9, 2), step(None, 4, run="b-1")).run == "a-1"
    assert last(step(9, 2), step(4, 1, run="b-1")).run == "b-1"


@pytest.mark.parametrize(
    ("planned", "sentence"),
    [
        (1000, "the log stops at step 40 of 1,000 (line 1,046)"),
        (40, "the log ends with step 40 of 40 (line 1,046)"),
        (39, "the log ends with step 40 (line 1,046)"),  # the number does not fit
    ],
)
def test_the_announced_number_of_steps(planned: int, sentence: str) -> None:
    assert last(step(40, 1046), config=f'{{"steps": {planned}}}').sentence == sentence


def test_a_log_of_each_tenth_step_ends_before_the_last_one() -> None:
    rows = [step(number, number) for number in (970, 980, 990)]
    assert last(*rows, config='{"steps": 1000}').sentence == "the log ends with step 990 of 1,000 (line 990)"
    assert last(*rows, config='{"steps": 1001}').sentence == "the log stops at step 990 of 1,001 (line 990)"


@pytest.mark.parametrize(
    ("config", "epochs", "planned"),
    [
        ('{"iter_total": 500}', (None, None), 500),
        ('{"Step_total": 500}', (1, 1), 500),
        ('{"Step_total": 500}', (1, 2), None),  # of each epoch
        ('{"file_total": 500}', (None, None), None),
        ('{"iter_total": 500, "step_total": 400}', (None, None), None),
    ],
)
def test_the_number_after_the_slash_of_a_step(config: str, epochs: tuple[int | None, ...], planned: int | None) -> None:
    rows = [step(40 + k, k, epoch=epoch) for k, epoch in enumerate(epochs, 1)]
    assert last(*rows, config=config).planned == planned


@pytest.mark.parametrize(
    ("clock", "time"),
    [
        (UTC, "2026-01-02 03:04:05 UTC"),
        (LOCAL, "2026-01-02 03:04:05"),
        (NO_YEAR, "01-02 03:04:05"),
        (NO_DATE, "03:04:05"),
        ("seconds", None),
    ],
)
def test_the_time_of_the_last_step(clock: str, time: str | None) -> None:
    stamped = [step(3, line, printed_ns=AT - later * NS, clock=clock) for line, later in ((7, 60), (8, 0), (9, 30))]
    assert last(step(2, 5, printed_ns=AT + NS, clock=clock), *stamped, step(3, 10)).time == time
    sentence = last(step(3, 7, printed_ns=AT, clock=clock)).sentence
    assert sentence == f"the log ends with step 3 (line 7{'' if time is None else f', {time}'})"


def test_ranks_that_stop_before_the_others() -> None:
    def behind(*steps: int) -> dict[int, int]:
        return last(*(step(number, rank + 1, rank) for rank, number in enumerate(steps))).behind

    assert behind(9, 7, 9) == {1: 7} and behind(9, 8, 9) == {}
    assert behind(9, 7) == {}  # of two ranks, none is the odd one
    assert behind(9, 7, 6, 9) == {} and behind(9, 7, 6, 9, 9) == {1: 7, 2: 6}  # fewer than half
    assert last(*(step(n, n, rank) for rank, n in ((0, 9), (1, 3), (1, 7), (1, 5), (2, 9)))).behind == {1: 7}
    several = last(*(step(1000, 9, rank) for rank in range(5)), step(7, 9, 5), step(6, 9, 6))
    assert several.evidence == ["the last step of ranks 5, 6 is 6, 7, of the others 1,000"]
    assert last(step(9, 1)).evidence == []


def test_few_ranks_and_their_steps_are_named() -> None:
    behind = {rank: 10 + rank for rank in range(7)}
    assert Stop("r", 40, 1, None, None, behind, 1).evidence == ["the last step of ranks 0-6 is 10-16, of the others 40"]
    assert Stop("r", 40, 1, None, None, {}, 1).evidence == []


def test_the_distance_of_the_last_steps() -> None:
    assert last(step(1, 1), step(2, 2), step(12, 3)).stride == 10
    assert last(step(1, 1), step(2, 2)).stride == last(step(1, 1), step(1, 2)).stride == 1
