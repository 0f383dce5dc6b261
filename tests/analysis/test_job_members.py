"""Which logs are of one job, by their names, job ids and times."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.metrics_logs import by_hand
from support.paths import SHARED

import perflog
from perflog.analysis.job_members import runs_of_jobs
from perflog.log import RunKey
from perflog.metrics.run_tables import Tables
from perflog.tables.schema import UTC

NS = 10**9


def jobs(logs: dict[str, dict[str, Any]]) -> list[list[str]]:
    """The logs of each job; each log has 12 steps of a second, from its second `at` on, with losses of its `seed`.

    Ranks `ranks` print a failure, each after its label.
    """
    runs, rows = [], []
    for log, facts in logs.items():
        config = json.dumps({"job_id": facts["id"]} if "id" in facts else {})
        runs.append({"table": "runs", "run": f"{log}-1", "log": log, "log_sha256": log, "config": config,
                     "world_size": facts.get("world")})  # fmt: skip
        rows += [{"table": "failures", "run": f"{log}-1", "line": 99, "rank": rank, "rank_by": "label"}
                 for rank in facts.get("ranks", ())]  # fmt: skip
        for step in range(12):
            clock = {"printed_ns": NS * (facts["at"] + step), "clock": UTC} if "at" in facts else {}
            loss = 9.0 - step / 7 + facts.get("seed", 0)
            rows.append({"run": f"{log}-1", "line": step + 1, "step": step, "loss": loss, **clock})
    frames = by_hand("steps", [*runs, *rows])
    keys = [RunKey(f"{log}-1", None, log, log, 1) for log in logs]
    found = runs_of_jobs(Tables(frames | {"runs": frames["runs"][1:]}), keys)
    return [[key.log for key in job.keys] for job in found]


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ({}, {"seed": 1}, True),
        ({"id": 7}, {"id": 7, "seed": 1}, True),
        ({"id": 7}, {"seed": 1}, True),
        ({"id": 7}, {"id": 8, "seed": 1}, False),  # tasks of an array
        ({"at": 1000}, {"at": 1011, "seed": 1}, True),
        ({"at": 1000}, {"at": 9000, "seed": 1}, False),  # on another day, say
        ({"at": 9000}, {"at": 1000, "seed": 1}, False),
    ],
)
def test_names_that_differ_in_a_number(first: dict[str, Any], second: dict[str, Any], is_one: bool) -> None:
    found = jobs({"task1.log": first, "task2.log": second})
    assert found == ([["task1.log", "task2.log"]] if is_one else [["task1.log"], ["task2.log"]])


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ({"at": 1000}, {"at": 1000}, True),
        ({"at": 1000}, {"at": 1001}, True),  # another clock
        ({"at": 1000}, {"at": 1005}, False),
        ({}, {}, False),  # repeats with one seed
        ({"at": 1000, "id": 7}, {"at": 1000}, True),
        ({"at": 1000, "id": 7}, {"at": 1000, "id": 8}, False),
        ({"at": 1000, "world": 8}, {"at": 1000, "world": 8}, True),
        ({"at": 1000, "world": 8}, {"at": 1000, "world": 16}, False),
        ({"at": 1000, "ranks": [0, 1]}, {"at": 1000, "ranks": [2, 3]}, True),
        ({"at": 1000, "ranks": [0, 1]}, {"at": 1000, "ranks": [1]}, False),  # a rank is in one job
    ],
)
def test_equal_losses(first: dict[str, Any], second: dict[str, Any], is_one: bool) -> None:
    assert len(jobs({"a.log": first, "b.log": second})) == (1 if is_one else 2)


def test_a_log_without_a_job_id_joins_no_two_jobs() -> None:
    found = jobs({"task1.log": {}, "task2.log": {"id": 7}, "task3.log": {"id": 8}})
    assert found == [["task1.log", "task2.log"], ["task3.log"]]


@pytest.mark.skipif(not SHARED.exists(), reason="the campaigns are not here")
def test_made_jobs_with_one_seed_and_one_begin_are_apart() -> None:
    """Nine logs begin at the same second with the same losses; in each of them all ranks print."""
    log = perflog.read(SHARED / "campaigns" / "jobs")
    found = [{key.log for key in job.keys} for job in runs_of_jobs(Tables(log), log.run_keys)]
    assert all(len(logs) == 1 for logs in found) and len(found) == len({key.log for key in log.run_keys})
