"""Diagnosis: members that slow a job, jobs with a planted culprit, and folders of several jobs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.commands import run, told
from support.flight_recorder_files import call, job
from support.jobs import Job, restarted
from support.paths import SHARED
from support.planted_jobs import KINDS, planted

import perflog

STEADY_STEP = "[rank{rank}]: step {step} | loss: 2.1000 | forward: {forward:.2f}ms | allreduce: {wait:.2f}ms\n"


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_a_planted_culprit_is_named_and_no_other(tmp_path: Path, seed: int) -> None:
    job = planted(tmp_path / "job", seed, most=16)
    found = perflog.diagnose(perflog.read(str(job.folder))).as_json()["culprits"]
    expected = [
        {name: value}
        for name in ("rank", "link", "node", "expert", "stage")
        if (value := getattr(job, name)) is not None
    ]
    assert [{name: each[name] for name in expected[0]} if expected else each for each in found] == expected


def test_what_is_printed_once_accuses_no_rank(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("".join(STEADY_STEP.format(rank=r, step=1, forward=100 + 80 * (r == 5), wait=9) for r in range(8)))
    assert not perflog.diagnose(perflog.read(path)).culprits


def test_a_rank_is_not_accused_of_waiting(tmp_path: Path) -> None:
    """Of a rank that waits longer than the others, the others are slow."""
    lines = [
        STEADY_STEP.format(rank=r, step=s, forward=100 + (7 * r + 3 * s) % 5, wait=20 + 30 * (r == 5) + (r + s) % 3)
        for s in range(1, 13)
        for r in range(8)
    ]
    path = tmp_path / "run.log"
    path.write_text("".join(lines))
    assert not perflog.diagnose(perflog.read(path)).culprits


def folder_of_jobs(folder: Path) -> None:
    """Three jobs: one runs out of memory on rank 3, as a file of that rank tells; one is steady; one is cancelled."""
    texts = {
        "a_rank0.log": ("", 0), "a_rank3.log": ("RuntimeError: CUDA error: out of memory\n", 0), "steady.log": ("", 1),
        "limit.log": ("slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-01T12:20:31 DUE TO TIME LIMIT ***\n", 2),
    }  # fmt: skip
    for name, (tail, number) in texts.items():
        job = Job(settings=f"data-parallel size: {8 + number}")
        job.start(30)
        job.steps(1, 12 + len(name), 5.0 + number)
        (folder / name).write_text(job.text + tail)


def test_each_job_of_a_folder_has_an_answer(tmp_path: Path) -> None:
    folder_of_jobs(tmp_path)
    answer: dict[str, Any] = told("diagnose", tmp_path, "--format", "json")
    kinds = {tuple(job["names"]): job["kind"] for job in answer["jobs"]}
    assert kinds == {
        ("a_rank0.log", "a_rank3.log"): "gpu_out_of_memory", ("limit.log",): "time_limit", ("steady.log",): None
    }  # fmt: skip
    (of_memory,) = [job for job in answer["jobs"] if job["kind"] == "gpu_out_of_memory"]
    assert [culprit["rank"] for culprit in of_memory["culprits"]] == [3]
    text = run("diagnose", tmp_path).output
    assert "1 of 3 jobs report no failure: steady.log" in text


def test_dumps_of_two_jobs_have_an_answer_each_with_the_other_logs_of_their_folders(tmp_path: Path) -> None:
    calls = {0: [call(5), call(6)], 1: [call(5), call(6)], 2: [call(5), call(6)]}
    for name, late in (("first", 2), ("second", 1)):
        counts = {rank: (5 if rank == late else 6, 4) for rank in calls}
        job(tmp_path / name, counts, {rank: of[: 1 + (rank != late)] for rank, of in calls.items()})
        (tmp_path / name / "launcher.log").write_text(f"Fault ranks: [{late}]\nRank {late}, fault_type: GPU_ERROR\n")
    answer: dict[str, Any] = told("diagnose", tmp_path, "--format", "json")
    assert [(job["names"], [each["rank"] for each in job["culprits"]]) for job in answer["jobs"]] == [
        (["first/launcher.log", "first/nccl_trace_rank_{0..2}"], [2]),
        (["second/launcher.log", "second/nccl_trace_rank_{0..2}"], [1]),
    ]
    (tmp_path / "first" / "sizes.csv").write_text("kernel,size,GB/s\na,8,1.25\na,16,2.5\nb,8,1.5\nb,16,2.75\n")
    beside: dict[str, Any] = told("diagnose", tmp_path, "--format", "json")
    assert [job["names"] for job in beside["jobs"] if "first/sizes.csv" in job["names"]] == [["first/sizes.csv"]]
    one: dict[str, Any] = told("diagnose", tmp_path / "second", "--format", "json")
    assert [each["rank"] for each in one["culprits"]] == [1]


def test_attempts_that_end_by_equal_texts_have_a_failure_each(tmp_path: Path) -> None:
    """The number of a collective begins anew with each attempt."""
    job = Job()
    job.start(60)
    job.steps(1, 30, 2.0)
    job.save(30, 10.0)
    begin = len(job.lines)
    job.hang(300)
    texts = job.lines[begin:]
    job.start(60, 30)
    job.steps(31, 60, 2.0)
    job.lines += texts
    path = tmp_path / "run.log"
    path.write_text(job.text)
    log = perflog.read(path)
    failures = log.arrow("failures").to_pylist()
    assert [(row["line"], row["run"], row["count"]) for row in failures] == [
        (begin + 1 + k, log.run_keys[0].id, 1) for k in range(3)
    ] + [(len(job.lines) - 2 + k, log.run_keys[1].id, 1) for k in range(3)]
    answer = perflog.diagnose(log)
    assert (answer.kind, answer.last_step, len(answer.earlier)) == ("collective_timeout", 60, 1)
    assert answer.verdict.startswith("Ended by")


@pytest.mark.skipif(not SHARED.exists(), reason="the campaigns are not here")
def test_the_rank_that_dispatches_at_a_third_of_the_bandwidth() -> None:
    found = perflog.diagnose(perflog.read(SHARED / "campaigns" / "shapes_2026" / "deepep_ll.log"))
    assert [(each.rank, each.certainty) for each in found.culprits] == [(5, "likely")]
    assert Counter(text.partition(" ")[0] for text in found.culprits[0].evidence) == {
        "dispatch_time": 1, "dispatch_bandwidth": 1
    }  # fmt: skip


def test_a_job_that_recovered_says_so_first(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(restarted().text)
    log = perflog.read(path)
    answer = perflog.diagnose(log)
    assert answer.verdict.startswith(
        "The job recovered and went on to step 80 of 1,000; attempt 1 of 2 ended by a collective that timed out"
    )
    assert answer.cost == (
        "300 s in which no step was done; 20 steps done again, 360 s from the end of the attempt to the first new step"
    )
    waited = [row["waited_s"] for row in log.arrow("failures").to_pylist()]
    assert waited == [300.0, 299.999, 299.998]


def test_what_is_not_saved_is_lost(tmp_path: Path) -> None:
    job = Job()
    job.start(100)
    job.steps(1, 40, 2.0)
    job.save(40, 30.0)
    job.steps(41, 60, 2.0)
    job.lines.append("slurmstepd: error: *** JOB 7 ON node1 CANCELLED AT 2026-03-01T12:20:31 DUE TO TIME LIMIT ***")
    path = tmp_path / "run.log"
    path.write_text(job.text)
    assert perflog.diagnose(perflog.read(path)).cost == "20 steps since the checkpoint of step 40"
