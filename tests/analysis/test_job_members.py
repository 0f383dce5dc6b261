"""Which logs are of one job, by their names, job ids, times, programs and losses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.metrics_logs import by_hand
from support.paths import SHARED

import perflog
from perflog.analysis import job_hosts
from perflog.analysis import job_members as module
from perflog.analysis.job_members import JobRuns, _names_of, _printed, logs_beside, runs_of_jobs
from perflog.log import RunKey
from perflog.metrics.benchmarks.server_readings import RUNNING
from perflog.metrics.run_tables import Tables
from perflog.tables.schema import UTC

NS = 10**9
Facts = dict[str, Any]


def rows_of(log: str, facts: Facts) -> list[Facts]:
    """The rows of a log.

    It has 12 steps of a second from second `at` on, with losses of its `seed`, or other `rows`. Ranks `ranks` print a
    failure, each after its label. `id`: of its job.
    """
    config = json.dumps({"job_id": facts["id"]} if "id" in facts else {})
    run = {"table": "runs", "log": log, "config": config, "world_size": facts.get("world"), "format": facts.get("of")}
    rows = facts.get("rows")
    if rows is None:
        losses = [9.0 - step / 7 + facts.get("seed", 0) for step in range(12)]
        rows = [{"line": step + 1, "step": step, "loss": loss} for step, loss in enumerate(losses)]
        if "at" in facts:
            rows = [row | {"printed_ns": NS * (facts["at"] + row["step"]), "clock": UTC} for row in rows]
    labelled = [{"table": "failures", "line": 99, "rank": rank, "rank_by": "label"} for rank in facts.get("ranks", ())]
    return [row | {"run": f"{log}-1"} for row in (run, *rows, *labelled)]


def made(logs: dict[str, Facts]) -> tuple[Tables, list[RunKey]]:
    frames = by_hand("steps", [row for log, facts in logs.items() for row in rows_of(log, facts)])
    keys = [RunKey(f"{log}-1", None, log, log, 1) for log in logs]
    return Tables(frames | {"runs": frames["runs"][1:]}), keys


def jobs(logs: dict[str, Facts]) -> list[JobRuns]:
    return runs_of_jobs(*made(logs))


def names(found: list[JobRuns]) -> list[list[str]]:
    return [[key.log for key in job.keys] for job in found]


def value(key: str = "busbw") -> Facts:
    """A measured value, which has no time of its own."""
    return {"table": "values", "line": 1, "key": key, "value": 1.0}


def moment(at: int) -> Facts:
    return {"table": "milestones", "line": 1, "printed_ns": NS * at, "clock": UTC}


def failure(kind: str, at: int) -> Facts:
    return {"table": "failures", "line": 1, "kind": kind, "time_ns": NS * at, "clock": UTC}


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ({}, {"seed": 1}, True),
        ({"id": 7}, {"id": 7, "seed": 1}, True),
        ({"id": 7}, {"seed": 1}, True),
        ({"id": 7}, {"id": 8, "seed": 1}, False),  # tasks of an array
        ({"at": 1000}, {"at": 1011, "seed": 1}, True),
        ({"at": 1000}, {"at": 1071, "seed": 1}, True),  # 60 s after its last step
        ({"at": 1000}, {"at": 1072, "seed": 1}, False),
        ({"at": 9000}, {"at": 1000, "seed": 1}, False),
        ({"at": 1000}, {"rows": [failure("exception", 9000)]}, True),  # what ended a rank, after a long wait
    ],
)
def test_names_that_differ_in_a_number(first: Facts, second: Facts, is_one: bool) -> None:
    found = names(jobs({"task1.log": first, "task2.log": second}))
    assert found == ([["task1.log", "task2.log"]] if is_one else [["task1.log"], ["task2.log"]])


@pytest.mark.parametrize(
    ("name", "numbers", "is_one"),
    [
        ("rank", (0, 1, 3), True),
        ("rank", (0, 8), True),
        ("rank", (1, 2, 3), True),
        ("rank", (2, 3, 5, 6), True),
        ("rank", (8, 16), False),  # ranks of adapters
        ("rank", (1, 2, 4), False),
        ("rank", (3, 5, 6), False),  # at least half of them are missing
        ("rank", (3, 4, 5, 7), True),
        ("gpus/gpu", (17, 40), False),
        ("node", (17, 40), True),  # names of nodes
        ("node", (2, 4), False),
    ],
)
def test_numbers_that_count_processes(name: str, numbers: tuple[int, ...], is_one: bool) -> None:
    found = jobs({f"{name}{number}.log": {"seed": number} for number in numbers})
    assert len(found) == (1 if is_one else len(numbers))
    assert len(jobs({f"{name}{number}.log": {"seed": number, "id": 7} for number in numbers})) == 1
    assert len(jobs({f"{name}{number}.log": {"seed": number, "at": 1000} for number in numbers})) == 1


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ({"at": 1000}, {"at": 1000}, True),
        ({"at": 1000}, {"at": 1001}, True),  # another clock
        ({"at": 1000}, {"at": 1005}, False),
        ({"at": 1000}, {"at": 1000, "seed": 1}, False),
        ({}, {}, False),  # repeats with one seed
        ({"at": 1000, "id": 7}, {"at": 1000}, True),
        ({"at": 1000, "id": 7}, {"at": 1000, "id": 8}, False),
        ({"at": 1000, "world": 8}, {"at": 1000, "world": 8}, True),
        ({"at": 1000, "world": 8}, {"at": 1000, "world": 16}, False),
        ({"at": 1000, "ranks": [0, 1]}, {"at": 1000, "ranks": [2, 3]}, True),
        ({"at": 1000, "ranks": [0, 1]}, {"at": 1000, "ranks": [1]}, False),  # a rank is in one job
    ],
)
def test_equal_losses(first: Facts, second: Facts, is_one: bool) -> None:
    assert len(jobs({"a.log": first, "b.log": second})) == (1 if is_one else 2)


def test_a_rank_of_another_log_of_the_job_is_in_one_job_too() -> None:
    logs = {f"{name}.log": {"at": 1000, "ranks": ranks} for name, ranks in (("a", [0]), ("b", [1]), ("c", [1]))}
    assert names(jobs(logs)) == [["a.log", "b.log"], ["c.log"]]


def test_repeats_one_after_the_other_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one seed they are alike: of thousands, each with each would take minutes."""
    monkeypatch.setattr(job_hosts, "_are_one_job", lambda *_: pytest.fail("compared"))
    assert len(jobs({f"{'abcdefgh'[k]}.log": {"at": 1000 + 20 * k} for k in range(8)})) == 8


def test_a_log_without_a_job_id_joins_no_two_jobs() -> None:
    found = names(jobs({"task1.log": {}, "task2.log": {"id": 7}, "task3.log": {"id": 8}}))
    assert found == [["task1.log", "task2.log"], ["task3.log"]]


@pytest.mark.parametrize(
    ("other", "is_of_job"),
    [
        ({"rows": []}, True),
        ({"rows": [moment(950)]}, True),
        ({"rows": [moment(900)]}, False),  # it ended before the job began
        ({"rows": [failure("gpu_fault", 900)]}, True),  # by the clock of a kernel
        ({"rows": [failure("gpu_out_of_memory", 900)]}, False),
        ({"rows": [value(), moment(1005)]}, True),
        ({"rows": [value(), moment(1012)]}, False),  # measured after the job
        ({"rows": [value()]}, True),
        ({"rows": [value()], "of": "llmc"}, True),  # the program of the job
        ({"rows": [value(), {"table": "collectives", "line": 2}], "of": "nccl_tests"}, False),
        ({"rows": [value(), moment(1005)], "id": 8}, False),
        ({"rows": [value(), moment(9000)], "id": 7}, True),
    ],
)
def test_a_log_without_steps_beside_a_job(other: Facts, is_of_job: bool) -> None:
    found = names(jobs({"train.log": {"at": 1000, "id": 7, "of": "llmc"}, "x.log": other}))
    assert found == ([["train.log", "x.log"]] if is_of_job else [["train.log"], ["x.log"]])


@pytest.mark.parametrize(
    ("other", "job"),
    [
        ({"rows": []}, "a/train.log"),
        ({"rows": [value()]}, None),
        ({"rows": [value()], "of": "nccl"}, "a/train.log"),  # a library
        ({"rows": [value()], "of": "nanogpt"}, "b/train.log"),
        ({"rows": [value(), moment(5005)]}, "b/train.log"),
        ({"rows": [], "id": 8}, "b/train.log"),
        ({"rows": [], "id": 9}, None),
    ],
)
def test_a_log_without_steps_beside_two_jobs(other: Facts, job: str | None) -> None:
    logs = {"a/train.log": {"at": 1000, "id": 7, "of": "llmc"}, "b/train.log": {"at": 5000, "id": 8, "of": "nanogpt"}}
    found = names(jobs({**logs, "a/x.log": other}))
    assert next(logs for logs in found if "a/x.log" in logs)[0] == (job or "a/x.log")


def test_of_two_jobs_in_a_folder_a_log_belongs_to_none() -> None:
    found = names(jobs({"a.log": {}, "b.log": {"seed": 1}, "x.log": {"rows": []}}))
    assert found == [["a.log"], ["b.log"], ["x.log"]]


def test_logs_that_say_more_of_the_only_run_with_steps() -> None:
    logs: dict[str, Facts] = {"a/train.log": {"at": 1000}, "a/dmesg": {"rows": [failure("gpu_fault", 1005)]}}
    beside = {"a/dmesg-1": "a/train.log-1"}
    assert logs_beside(*made(logs)) == beside
    assert logs_beside(*made(logs), others={"a/dmesg-1"}) == {}  # it has a row
    assert logs_beside(*made({**logs, "b/train.log": {"at": 5000, "seed": 1}})) == beside
    assert logs_beside(*made({**logs, "a/other.log": {"at": 5000, "seed": 1}})) == {}
    assert logs_beside(*made({"a/dmesg": logs["a/dmesg"]})) == {}


def test_logs_beside_the_attempts_of_one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """They belong to the first attempt, though two runs have steps."""
    logs: dict[str, Facts] = {
        "a/train.log": {"at": 1000},
        "a/next.log": {"at": 5000, "seed": 1},
        "a/seff": {"rows": []},
    }
    assert logs_beside(*made(logs)) == {}
    monkeypatch.setattr(module, "jobs", lambda _: {"job": ["a/train.log-1", "a/next.log-1"]})
    assert logs_beside(*made(logs)) == {"a/seff-1": "a/train.log-1"}


def test_benchmarks_have_names() -> None:
    results = [value(), {"table": "collectives", "line": 2}]
    logs: dict[str, Facts] = {"a.log": {"at": 1000}, "nccl.log": {"rows": results, "of": "nccl_tests"}}
    logs |= {"t.log": {"rows": [value(), moment(9000)]}, "s.log": {"rows": [value(key=RUNNING), moment(9000)]}}
    logs |= {"early.log": {"rows": [moment(1)]}}
    found = {job.keys[0].log: job.benchmark for job in jobs(logs)}
    assert found == {"a.log": None, "nccl.log": "nccl-tests", "t.log": "unknown program", "s.log": None,
                     "early.log": None}  # fmt: skip


@pytest.mark.parametrize(
    ("formats", "name"),
    [
        ({"nccl_tests", "bars"}, "nccl-tests"), ({"osu", "nccl_tests"}, "nccl-tests, OSU micro-benchmarks"),
        ({"mlperf"}, "MLPerf"), ({"mlperf", "nccl_tests"}, "nccl-tests"),  # a library of some program
        ({"csv"}, "unknown program"), ({"of_no_one"}, "unknown program"), (set(), "unknown program"),
    ],
)  # fmt: skip
def test_the_name_of_a_benchmark_is_its_program(formats: set[str], name: str) -> None:
    assert _names_of(formats) == name


def test_the_results_of_any_run_of_a_log_count() -> None:
    """The first run of the log prints some, the second none."""
    rows: list[Facts] = [{"table": "runs", "run": run, "log": "a.log"} for run in ("a-1", "a-2")]
    rows.append({"table": "collectives", "line": 2, "run": "a-1"})
    frames = by_hand("collectives", rows)
    keys = [RunKey(run, None, "a.log", "a.log", 1) for run in ("a-1", "a-2")]
    tables = Tables(frames | {"runs": frames["runs"][1:]})
    found = _printed(tables, {"a.log": keys}, {"a.log": "a.log"})["a.log"]
    assert (found.runs, found.has_results, found.measures) == (["a-1", "a-2"], True, True)


def test_logs_without_steps_are_one_job() -> None:
    assert names(jobs({"a.log": {"rows": []}, "b.log": {"rows": [value()]}})) == [["a.log", "b.log"]]


@pytest.mark.skipif(not SHARED.exists(), reason="the campaigns are not here")
def test_made_jobs_with_one_seed_and_one_begin_are_apart() -> None:
    """They begin at the same second and print the same losses; in each of them all ranks print."""
    log = perflog.read(*sorted(map(str, (SHARED / "campaigns" / "jobs").glob("ends_by_[eho]*.log"))))
    found = [{key.log for key in job.keys} for job in runs_of_jobs(Tables(log), log.run_keys)]
    assert all(len(logs) == 1 for logs in found) and len(found) == len({key.log for key in log.run_keys})


def printed(folder: str, measures: bool = False) -> Any:
    return module._Printed(folder, [], set(), {}, set(), measures, False, False, True)


def test_the_only_job_owns_logs_of_other_folders() -> None:
    """Of several jobs the one in the folder of the log does."""
    log, here, there = printed("a"), printed("a"), printed("b")
    assert module._job_of(log, {"j": there}) == "j"
    assert module._job_of(log, {"j": there, "k": here}) == "k"
    assert module._job_of(log, {"j": there, "k": there}) is None
    assert module._job_of(log, {"j": here, "k": here}) is None
