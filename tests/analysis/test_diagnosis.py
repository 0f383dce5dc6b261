"""Diagnosis: members that slow a job, jobs with a planted culprit, and folders of several jobs."""

from __future__ import annotations

import pickle
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.allocator_files import block, segment, snapshot
from support.commands import run, told
from support.flight_recorder_files import call, job
from support.jobs import Job, restarted
from support.metrics_logs import by_hand
from support.paths import SHARED
from support.planted_jobs import KINDS, planted

import perflog
from perflog.analysis import diagnosis
from perflog.analysis.compare.sides import named_sides
from perflog.analysis.culprits import EVIDENCE, Culprit
from perflog.analysis.diagnosis import Diagnosis, _held_up, _stuck_text
from perflog.metrics import Tables
from perflog.metrics.jobs.job_intervals import STALL, TRAINING
from perflog.output.presenters.diagnosis import screen

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
    (tmp_path / "nan.log").write_text("".join(f"iter {i}: loss nan, time 20.00ms, mfu 1.00%\n" for i in range(9)))
    alone = run("diagnose", tmp_path / "nan.log").output
    assert "No culprit: " in alone and "How sure" not in alone  # of nobody
    (tmp_path / "nan.log").unlink()
    (of_memory,) = [job for job in answer["jobs"] if job["kind"] == "gpu_out_of_memory"]
    assert [culprit["rank"] for culprit in of_memory["culprits"]] == [3]
    text = run("diagnose", tmp_path).output
    assert "1 of 3 jobs reports no failure: steady.log" in text


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


FAILED = (
    "  time      : 2026-03-01_12:0{minute}:30\n  host      : {host}\n  rank      : {rank} (local_rank: {local})\n"
    "  exitcode  : 1 (pid: {pid})\n  error_file: <N/A>\n"
)


def summary(host: str, ranks: list[int], base: int, pid: int) -> str:
    """What torchrun prints of the ranks of a host that failed; `base`: the first rank that it starts there."""
    values = [{"minute": pid % 9, "host": host, "rank": r, "local": r - base, "pid": pid + r} for r in ranks]
    others = "".join(f"[{k}]:\n" + FAILED.format(**of) for k, of in enumerate(values[1:], 1))
    return (
        f"E0301 failed (exitcode: 1) local_rank: {ranks[0] - base} (pid: {pid + ranks[0]}) of binary: python3\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        f"train.py FAILED\nFailures:\n{others}Root Cause (first observed failure):\n[0]:\n" + FAILED.format(**values[0])
    )


def test_each_summary_of_a_node_is_of_another_attempt(tmp_path: Path) -> None:
    """With steps between them, or none; what ended an earlier attempt does not follow from the last one."""
    job = Job()
    job.start(30)
    job.steps(1, 12, 5.0)
    path = tmp_path / "run.log"
    texts = [summary("n1", [3, 0, 1], 0, 100), summary("n1", [1, 0], 0, 200), summary("n1", [5], 0, 300)]
    path.write_text(job.text + "".join(texts))
    log = perflog.read(path)
    answer = perflog.diagnose(log)
    assert [culprit.rank for culprit in answer.culprits] == [5]
    assert "rank" not in answer.followed
    assert [text.partition(" (node")[0].rpartition(", line")[0] for text in answer.earlier] == [
        "attempt 1 of 3 failed first: a process that failed without a message (exit code 1) on rank 3 (n1)",
        "attempt 2 of 3 ended by a process that failed without a message (exit code 1) on rank 1 (n1)",
    ]
    assert perflog.overview(log).outcome == [answer.verdict]
    (tmp_path / "b.log").write_text("".join(f"iter {i}: loss {9 - i}.5, time 20.00ms, mfu 1.00%\n" for i in range(9)))
    both = perflog.overview(perflog.read(tmp_path)).outcome
    assert [text.partition(": ")[2] for text in both] == [answer.verdict]


def test_the_summaries_of_several_nodes_are_of_one_attempt(tmp_path: Path) -> None:
    """Each launcher prints one: of the same attempt, until one of them prints a second."""
    path = tmp_path / "run.log"
    attempt = [summary("n1", [1, 0], 0, 100), summary("n2", [4, 5], 4, 100)]
    path.write_text("".join(attempt))
    assert perflog.diagnose(perflog.read(path)).earlier == []
    path.write_text("".join([*attempt, summary("n1", [0], 0, 200), summary("n2", [6], 4, 200)]))
    answer = perflog.diagnose(perflog.read(path))
    assert len(answer.earlier) == 1
    assert "rank 1" not in answer.followed


def test_each_of_several_culprits_has_evidence(tmp_path: Path) -> None:
    lines = []
    for rank in (2, 5, 6):
        lines += [f"[rank{rank}]: RuntimeError: CUDA error: out of memory, try {k}" for k in range(5)]
    path = tmp_path / "run.log"
    path.write_text("start\n" + "\n".join(lines) + "\n")
    answer = perflog.diagnose(perflog.read(path))
    assert [culprit.rank for culprit in answer.culprits] == [2, 5, 6]
    assert {rank for rank in (2, 5, 6) if any(f"rank {rank}" in text for text in answer.evidence)} == {2, 5, 6}


@pytest.mark.parametrize(
    ("other", "apart", "jobs"),
    [
        ("2.5", 0.0, 1),
        ("2.5", 0.4, 1),  # another clock
        ("2.6", 0.0, 2),  # a run of its own: other losses
        ("2.5", 90.0, 2),  # a repeat with the same seed, later
    ],
)
def test_logs_of_hosts_with_equal_losses_are_one_job(tmp_path: Path, other: str, apart: float, jobs: int) -> None:
    begin = datetime(2026, 11, 1, 10, tzinfo=UTC)
    for host, steps, first, ahead in (("gpu-a12", 20, "2.5", 0.0), ("cn-0113", 14, other, apart)):
        lines = []
        for step in range(steps):
            time = begin + timedelta(seconds=1.7 * step + ahead)
            loss = float(first) - step / 100
            lines.append(
                f"{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03d} INFO step {step + 1} loss {loss:.4f}\n"
            )
        lines += ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"] * (host == "cn-0113")
        (tmp_path / f"{host}.log").write_text("".join(lines))
    answer: dict[str, Any] = told("diagnose", tmp_path, "--format", "json")
    assert len(answer.get("jobs", [answer])) == jobs
    (failed,) = [job for job in answer.get("jobs", [answer]) if job["kind"]]
    assert failed["verdict"] == f"Ended by CUDA out of memory, {'cn-0113.log:15' if jobs == 1 else 'line 15'}"
    assert failed["reason"] == "the messages name no rank, node or device"
    shown = perflog.overview(str(tmp_path))
    assert len(shown.groups) == jobs
    if jobs == 1:
        assert shown.outcome == ["Ended by CUDA out of memory, cn-0113.log:15"]
        assert shown.reasons[0].startswith("2 logs of one job (equal losses or times): cn-0113.log, gpu-a12.log.")
    assert [len(side.log) for side in named_sides([str(tmp_path)])] == [jobs]


def test_of_jobs_that_end_alike_one_is_shown_whole(tmp_path: Path) -> None:
    ends = {
        "a": f"[rank3]: RuntimeError: CUDA error: out of memory {'word ' * 30}\n",
        "b": "Segmentation fault (core dumped)\n",
    }
    ends |= {"c": ends["a"].replace("3", "5"), "d": "x\n" + ends["a"]}
    for number, (name, end) in enumerate(ends.items()):
        job = Job(settings=f"data-parallel size: {number + 2}")
        job.start(30)
        job.steps(1, 12, 5.0 + number)
        (tmp_path / f"{name}.log").write_text(job.text + end)
    lines = run("diagnose", tmp_path).output.splitlines()
    assert [line for line in lines if line.endswith(".log:")] == ["a.log:", "b.log:"]
    assert max(map(len, lines)) <= 80
    begin = lines.index("b.log:")
    assert lines[begin - 2].startswith("c.log: Ended by ") and "rank 5" in lines[begin - 2]
    assert lines[begin - 1].startswith("d.log: Ended by ") and "rank 3" in lines[begin - 1]


def test_jobs_that_end_for_different_reasons_are_each_shown_whole() -> None:
    whys = ("they have not enqueued 9 calls", "they have not enqueued 4 calls", "they have not completed them")
    verdict = "Held up: ranks 9, 14 hold up the others"
    jobs = [Diagnosis([f"{name}.log"], verdict, "stuck", why=why) for name, why in zip("abc", whys, strict=True)]
    lines = [*screen(jobs)]
    assert [line for line in lines if line.endswith(".log:")] == ["a.log:", "c.log:"]
    assert f"b.log: {verdict}" in lines


def test_a_long_list_of_quiet_jobs_ends_with_their_number(tmp_path: Path) -> None:
    for number in range(9):
        job = Job(settings=f"data-parallel size: {number + 2}")
        job.start(30)
        job.steps(1, 12, 5.0 + number)
        name = f"a-long-name-of-a-log-of-a-job-{'abcdefghi'[number]}.log"
        (tmp_path / name).write_text(job.text + ("Segmentation fault (core dumped)\n" if not number else ""))
    lines = run("diagnose", tmp_path).output.splitlines()
    (begin,) = [k for k, line in enumerate(lines) if "jobs report no failure" in line]
    text = " ".join(line.strip() for line in lines[begin:])
    shown = text.count(".log")
    assert text.endswith(f" and {8 - shown} more"), text


NCCL_TESTS = """# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1
#
# Using devices
#  Rank  0 Group  0 Pid 2207955 on node-2 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  947529 on node-3 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
  4294967296     268435456    double     sum      -1  55165.9   77.86   38.93       0  49145.0   87.39   43.70    N/A
  8589934592     536870912    double     sum      -1   110523   77.72   38.86       0  98221.0   87.46   43.73    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 41.2951
"""


def test_a_benchmark_beside_a_job_is_a_run_of_its_own(tmp_path: Path) -> None:
    """Whatever its file is called; the log of the kernel belongs to the job."""
    job = Job()
    job.start(30)
    job.steps(1, 12, 5.0)
    (tmp_path / "train.log").write_text(job.text)
    (tmp_path / "train2.log").write_text(
        NCCL_TESTS + "node-2: Test NCCL failure all_reduce.cu:105 'unhandled cuda error'\n"
    )
    (tmp_path / "kernel.txt").write_text("[ 9012.221] NVRM: Xid (PCI:0000:9a:00): 79, GPU has fallen off the bus.\n")
    answer: dict[str, Any] = told("diagnose", tmp_path, "--format", "json")
    assert {tuple(each["names"]): (each["kind"], each["benchmark"]) for each in answer["jobs"]} == {
        ("kernel.txt", "train.log"): ("gpu_fault", None), ("train2.log",): ("nccl_error", "nccl-tests")
    }  # fmt: skip
    lines = run("diagnose", tmp_path).output.splitlines()
    assert lines[0].startswith("Ended by a GPU fault")
    assert "Benchmark train2.log (nccl-tests):" in lines
    (tmp_path / "train2.log").write_text(NCCL_TESTS)
    (tmp_path / "sizes.csv").write_text(
        "kernel,size,GB/s\na,8,1.25\na,16,2.5\nb,8,1.5\nb,16,2.75\n"
    )  # of the job, or not
    text = run("diagnose", tmp_path).output
    assert "Not of the job: 1 benchmark that reports no failure: train2.log (nccl-tests)" in text
    assert "sizes.csv" not in text


def test_what_a_scheduler_says_of_a_full_host_does_not_follow_from_it(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(
        "start\nsrun: error: node018: task 7: Out Of Memory\n"
        "slurmstepd: error: Detected 1 oom_kill event in StepId=81234.0. Some of the step tasks have been OOM Killed.\n"
    )
    answer = perflog.diagnose(perflog.read(path))
    assert (answer.kind, answer.followed) == ("host_out_of_memory", "")


MEASURED = "2026-03-01 {time},000 - INFO - Throughput: {value:.1f} tokens/s\n"


def test_the_times_in_a_log_show_whether_it_is_of_the_job(tmp_path: Path) -> None:
    """What was measured while the job ran is of the job, and what a program printed before it began is not."""
    job = Job()
    job.start(30)
    job.steps(1, 60, 5.0)
    (tmp_path / "train.log").write_text(job.text)
    for name, time in (("other.log", "11:10:{:02}"), ("beside.log", "12:01:{:02}")):
        lines = [MEASURED.format(time=time.format(k), value=20 + k % 3) for k in range(30)]
        (tmp_path / name).write_text("".join(lines))
    (tmp_path / "check.log").write_text("2026-03-01 11:00:00,000 - ERROR - CUDA Error: out of memory\n")
    answer: dict[str, Any] = told("diagnose", tmp_path, "--format", "json")
    kinds = {tuple(each["names"]): each["kind"] for each in answer["jobs"]}
    assert kinds == {("beside.log", "train.log"): None, ("other.log",): None, ("check.log",): "gpu_out_of_memory"}


def test_a_snapshot_of_the_allocator_shows_who_held_the_memory(tmp_path: Path) -> None:
    """Of the rank that ran out of memory, not of the fullest one."""
    job = Job()
    job.start(30)
    job.steps(1, 12, 5.0)
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 1 has a total capacity of 39 G"
    (tmp_path / "train.log").write_text(f"{job.text}[rank1]: {error}\n")
    of_ranks = [
        snapshot(segment(block(30 << 30, "backward"))),
        snapshot(segment(block(20 << 30, "forward"), block(5 << 30, "optimizer"), device=1), failed=[]),
    ]
    for rank, content in enumerate(of_ranks):
        (tmp_path / f"memory_rank{rank}.pickle").write_bytes(pickle.dumps(content, 4))
    answer: dict[str, Any] = told("diagnose", tmp_path, "--format", "json")
    assert [culprit["rank"] for culprit in answer["culprits"]] == [1]
    assert answer["memory"][0].startswith("Memory of device 1 (rank 1) at the snapshot: 25 GiB in use of 25 GiB")
    assert "model.py:88 forward 80 %" in answer["memory"][-1] and "train.py:52 main, optimizer" in answer["memory"][-1]
    lines = run("diagnose", tmp_path).output.splitlines()
    assert any(line.startswith("Memory: device 1 (rank 1) at the snapshot") for line in lines)
    (tmp_path / "memory_rank1.pickle").unlink()  # what rank 0 held says nothing of the device of rank 1
    assert told("diagnose", tmp_path, "--format", "json")["memory"] == []


@pytest.mark.parametrize(("purpose", "where"), [("dp", "dp"), (None, "3"), (float("nan"), "3")])
def test_a_group_is_named_by_its_purpose_if_it_has_one(purpose: object, where: str) -> None:
    row = {"purpose": purpose, "group": "3", "stuck": "device", "behind": 1.0, "lacks": "all_reduce", "waiting": "1, 2"}
    assert _stuck_text(row) == f"has not completed 1 call of {where} that others have"
    assert _stuck_text(row | {"stuck": "mismatch"}) == f"calls all_reduce, in {where}"
    assert _stuck_text(row | {"stuck": "host", "behind": 2.0}) == f"lacks 2 calls of {where}; waiting: 1, 2"


def test_who_reports_a_failure_of_two_ends(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    end = "NET/IB : Got completion from peer 10.4.0.12<41220> with status=12 opcode=0 len=0 vendor err 129 (Recv)"
    path.write_text(f"start\nnode7:2211:2290 [3] NCCL WARN {end}\n[rank27]: {end}\n")
    answer = perflog.diagnose(perflog.read(path))
    assert (answer.kind, answer.culprits) == ("link_error", [])
    assert answer.reason == "reported by rank 27 and node7, which need not be at fault; the peer is 10.4.0.12"


def test_a_failure_after_which_the_run_goes_on_ended_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    caught: Any = SimpleNamespace(goes_on=True, restarts=False, rows=[1, 2, 3])
    monkeypatch.setattr(diagnosis, "endings", lambda _: [caught])
    answer = diagnosis._ended(Tables(by_hand("steps", [{"step": 1}])), {"r": "a.txt"}, ("a.txt",))
    assert (
        answer.verdict
        == "no failure is reported; the log ends with step 1 (line 1); the program went on after 3 failure texts"
    )


def test_the_steps_since_a_checkpoint_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint of the last step, of step 0 or of no known step shows no loss; nor does an attempt that goes on."""
    monkeypatch.setattr(diagnosis, "job_timelines", lambda _: [])

    def cost(saved: int | None, **ending: Any) -> str:
        monkeypatch.setattr(diagnosis, "last_saved", lambda *_: saved)
        usual = {"run": "r", "line": 9, "last_step": 1500, "goes_on": False}
        return diagnosis._cost(None, SimpleNamespace(**usual | ending))  # type: ignore[arg-type]

    assert cost(300) == "1,200 steps since the checkpoint of step 300" and cost(1499).startswith("1 step since")
    assert [cost(saved) for saved in (1500, 0, None)] == [""] * 3
    assert cost(300, goes_on=True) == cost(300, last_step=None) == ""


def test_the_time_without_a_step_and_after_an_attempt_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stalls of this attempt, of its end if its last step is known; other kinds of time and other attempts are none."""

    def interval(kind: str, seconds: int, last_line: int) -> Any:
        return SimpleNamespace(kind=kind, begin=5 * 10**9, end=(5 + seconds) * 10**9, last_line=last_line)

    spans = [("a", 1, interval(STALL, 100, 3)), ("a", 1, interval(STALL, 20, 9)), ("a", 1, interval(TRAINING, 50, 9)),
             ("b", 2, interval(STALL, 7, 9))]  # fmt: skip
    job = SimpleNamespace(runs=["a", "b"], intervals=spans, is_stamped=True)
    losses = [SimpleNamespace(run="a", steps=2, seconds=1234.0), SimpleNamespace(run="b", steps=0, seconds=30.0)]
    monkeypatch.setattr(diagnosis, "job_timelines", lambda _: [SimpleNamespace(runs=["x"]), job])
    monkeypatch.setattr(diagnosis, "losses_of", lambda *_: losses)

    def cost(run: str, last_step: int | None = 5) -> str:
        ending: Any = SimpleNamespace(run=run, line=9, last_step=last_step, goes_on=True)
        return diagnosis._cost(None, ending)  # type: ignore[arg-type]

    after = "s from the end of the attempt to the first new step"
    assert cost("a") == f"20 s in which no step was done; 2 steps done again, 1,234 {after}"
    assert cost("a", None).startswith("120 s in which")
    assert cost("b") == f"7 s in which no step was done; 30 {after}"
    job.is_stamped = False
    assert cost("b") == "7 s in which no step was done" and cost("c") == ""


def test_several_culprits_have_a_few_lines_of_evidence_each() -> None:
    lines = [f"line {n}" for n in range(20)]
    assert diagnosis._of_each([lines]) == lines[:EVIDENCE]
    assert diagnosis._of_each([lines, lines[5:]]) == [*lines[:2], *lines[5:7]]
    assert len(diagnosis._of_each([lines] * 99)) == 2 * diagnosis._OF_MANY < 2 * 99 and EVIDENCE > 2


@pytest.mark.parametrize(
    ("rank", "gpu", "slow"), [(3, None, "rank 3 slows the job: its GPU is"), (None, 3, "GPU 3 slows the job: it is")]
)
def test_words_on_a_throttled_gpu(rank: int | None, gpu: int | None, slow: str) -> None:
    hot = Culprit(rank, None, None, gpu, None, "throttling", "likely", ())
    assert _held_up(["a.log"], [hot]).verdict == f"No failure is reported; {slow} throttled"
