"""Files of a folder that the ranks and programs of one job print are one log; those of two runs stay apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import perflog
from perflog.analysis.job_endings import endings
from perflog.formats.registry import known
from perflog.ingestion import job_logs as module
from perflog.log import Log
from perflog.metrics import Tables
from perflog.parsing.input.log_names import LogName
from perflog.parsing.input.process_files import Losses
from perflog.tables.schema import LOCAL, UTC

TITAN = (
    "[titan] {day} {hour}:{minute:02d}:{second:02d},271 - root - INFO - step: {step:2d}  loss:  {loss:.5f}  "
    "grad_norm:  3.5720  memory: 47.16GiB(94.32%)  tps: {rate:,}  tflops: 161.41  mfu: 52.95%\n"
)
TIMER = (
    "[{day} {hour}:{minute:02d}:{second:02d},501] [INFO] [timer.py:264:stop] "
    "epoch=0/micro_step={step}/global_step={step}, "
    "RunningAvgSamplesPerSec=51.19, CurrSamplesPerSec=50.66, MemAllocated=21.5GB, MaxMemAllocated=40.2GB\n"
)


def printed(text: str, count: int = 100, rate: int = 53_400, day: str = "2026-07-17", hour: int = 12) -> str:
    """Lines of one program, a second apart."""
    return "".join(
        text.format(day=day, hour=hour, minute=s // 60, second=s % 60, step=s, loss=8 - s * 0.01, rate=rate + s % 7)
        for s in range(1, count + 1)
    )


def without_clock(text: str) -> str:
    return "".join(f"{line.partition(' - INFO - ')[2]}\n" for line in text.splitlines())


def read(folder: Path, files: Mapping[str, str]) -> Log:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return perflog.read(folder)


TRAINER, TIMERS = printed(TITAN), printed(TIMER)
OTHER_RUN = printed(TITAN, 98, 53_500)

ONE_JOB = {
    "ranks": {f"rank_{rank}.log": printed(TITAN, rate=53_400 + rank) for rank in range(3)},
    "a folder with the number of a rank": {
        f"rank_1/rank_{rank}.log": printed(TITAN, rate=53_400 + rank) for rank in range(3)
    },
    "folders of ranks": {f"rank{rank}/log.txt": printed(TITAN, rate=53_400 + rank) for rank in range(3)},
    "ranks by node": {f"gpu-a{rank // 2:02d}/rank_{rank}.log": printed(TITAN, rate=53_400 + rank) for rank in range(3)},
    "folders of ranks by node": {
        f"node{rank // 2}/rank{rank}/log.txt": printed(TITAN, rate=53_400 + rank) for rank in range(3)
    },
    "torchrun": {f"run/attempt_0/{rank}/stdout.log": printed(TITAN, rate=53_400 + rank) for rank in range(3)},
    "ranks without a clock": {
        f"rank_{rank}.log": without_clock(printed(TITAN, rate=53_400 + rank)) for rank in range(3)
    },
    "streams": {"train.out": TRAINER, "train.err": TIMERS},
    "job id": {"slurm-4711.out": TIMERS, "train_job4711.log": TRAINER},
    "clocks": {"engine.log": TIMERS, "train.log": TRAINER},
    "clocks, other order": {"a.log": TRAINER, "z.log": TIMERS},
}
APART = {
    "two runs": {"a.log": TRAINER, "b.log": OTHER_RUN},
    "the log of the run before is renamed": {"train.log.1": TRAINER, "train.log": printed(TITAN, 98, 53_500, hour=13)},
    "dates for ranks": {f"rank_{day}.log": TRAINER + f"{day}\n" for day in (0, 999_999_998)},
    "two runs of one job id": {"slurm-4711.out": TRAINER, "slurm-4711_again.log": OTHER_RUN},
    "two runs as streams": {"train.out": TRAINER, "train.err": OTHER_RUN},
    "two jobs of an array": {"slurm-4711_1.out": TRAINER, "slurm-4711_2.out": TIMERS},
    "ranks of adapters": {"rank8.log": TRAINER, "rank16.log": OTHER_RUN},
    "ranks of adapters, with their name": {"lora_rank_0.log": TRAINER, "lora_rank_1.log": OTHER_RUN},
    "tensor ranks": {"tp_rank_0.log": TRAINER, "tp_rank_1.log": OTHER_RUN},
    "ranks of two days": {"rank_0.log": TRAINER, "rank_1.log": printed(TITAN, day="2026-07-18")},
    "ranks of other lengths without a clock": {
        "rank_0.log": without_clock(TRAINER),
        "rank_1.log": without_clock(TRAINER[: len(TRAINER) // 2]),
    },
    "one clock": {"rank_0.log": TRAINER, "rank_1.log": without_clock(OTHER_RUN)},
    "a log of another day with a number": {"train.log": TRAINER, "train.log.1": printed(TITAN, hour=13)},
    "ranks of two days in numbered folders": {
        "run1/rank_0.log": TRAINER,
        "run2/rank_1.log": printed(TITAN, day="2026-07-18"),
    },
    "numbers": {"run0.log": TRAINER, "run1.log": OTHER_RUN},
    "a library of another day": {"train.log": TRAINER, "engine.log": printed(TIMER, day="2026-07-18")},
    "a library of one of two": {"a_train.log": TRAINER, "b_run.log": OTHER_RUN, "engine.log": TIMERS},
}


@pytest.mark.parametrize("kind", ONE_JOB)
def test_logs_of_one_job_are_one_run(kind: str, tmp_path: Path) -> None:
    files = ONE_JOB[kind]
    log = read(tmp_path, files)
    assert len(log) == 1
    assert any(f"{len(files)} logs of one job are read as one" in text for text in log.warnings)
    steps = log.arrow("steps").to_pylist()
    assert {row["step"] for row in steps} == set(range(1, 101))
    if "attempt" in next(iter(files)) or "rank" in next(iter(files)):
        assert {(row["rank"], row["tokens_per_s"]) for row in steps if row["step"] == 7} == {
            (rank, 53_400 + rank) for rank in range(3)
        }
    else:
        assert {row["tokens_per_s"] for row in steps if row["step"] == 6 and row["tokens_per_s"]} == {53_406}
        assert {row["samples_per_s"] for row in steps if row["samples_per_s"]} == {50.66}


PROCESSES = {
    "workers": ("worker_0/stdout", "worker_1/stdout", "worker_2/stdout"),
    "tasks of Slurm": ("4711_0.out", "4711_1.out", "4711_2.out"),
    "GPUs of nodes": ("node0_gpu0.log", "node0_gpu1.log", "node1_gpu0.log"),
    "folders of hosts": ("host-a/gpu0.log", "host-a/gpu1.log", "host-b/gpu0.log"),
    "pods": ("job-master-0.log", "job-worker-0.log", "job-worker-1.log"),
}


@pytest.mark.parametrize("kind", PROCESSES)
def test_files_of_processes_are_one_run_with_the_names_of_the_processes(kind: str, tmp_path: Path) -> None:
    log = read(tmp_path, {name: printed(TITAN, rate=53_400 + k) for k, name in enumerate(PROCESSES[kind])})
    assert len(log) == 1
    names = [name.removesuffix("/stdout").partition(".")[0] for name in PROCESSES[kind]]
    rows = [row for row in log.arrow("steps").to_pylist() if row["step"] == 7]
    assert [(row["source"], row["rank"], row["tokens_per_s"]) for row in rows] == [
        (name, None, 53_400 + k) for k, name in enumerate(names)
    ]


def with_local_losses(names: Sequence[str], **settings: Sequence[object]) -> dict[str, str]:
    """Files of processes that print the loss of their own part of the batch, and settings before their steps."""
    own = [TRAINER.replace("loss:  ", f"loss:  {n + 1}") for n in range(len(names))]
    heads = ("".join(f"{key}: {values[n]}\n" for key, values in settings.items()) for n in range(len(names)))
    return {name: head + text for name, head, text in zip(names, heads, own, strict=True)}


GRID = [f"node{node:02d}_gpu{gpu}.out" for node in (3, 7) for gpu in (0, 1)]


HOSTS = [f"host-{node}.gpu{gpu}.log" for node in (1, 2, 3) for gpu in (0, 1)]
FOLDERS = [f"node{node}/gpu{gpu}.log" for node in (0, 1) for gpu in (0, 1)]


@pytest.mark.parametrize("names", [GRID, HOSTS, FOLDERS])
def test_the_gpus_of_all_nodes_are_one_run(names: Sequence[str], tmp_path: Path) -> None:
    log = read(tmp_path, with_local_losses(names, lr=[0.1] * 6, local_rank=[0, 1] * 3))
    assert len(log) == 1
    rows = [row for row in log.arrow("steps").to_pylist() if row["step"] == 7]
    assert [(row["source"], row["rank"]) for row in rows] == [(name.rpartition(".")[0], None) for name in names]


@pytest.mark.parametrize(
    ("names", "seeds"),
    [
        (GRID, (1, 2, 3, 4)),  # repeats
        (GRID[:3], (1,) * 3),  # a GPU is missing
        ([name.replace("node", "seed") for name in GRID], (1,) * 4),
        ([name.replace("gpu", "lr") for name in GRID], (1,) * 4),
        ([f"run{name[5]}_{name}" for name in GRID], (1,) * 4),
    ],
)
def test_runs_on_the_gpus_of_nodes_stay_apart(names: Sequence[str], seeds: Sequence[int], tmp_path: Path) -> None:
    assert len(read(tmp_path, with_local_losses(names, seed=seeds))) == len(names)


def test_runs_on_the_gpus_of_nodes_that_are_not_in_step_stay_apart(tmp_path: Path) -> None:
    files = with_local_losses(GRID)
    files[GRID[3]] = files[GRID[3]].replace(" 12:", " 13:")
    assert len(read(tmp_path, files)) == len(GRID)


def test_a_failure_in_the_file_of_a_process_ends_the_job(tmp_path: Path) -> None:
    """The other processes, whose lines follow, do not go on. Only one of them writes errors."""
    files = {f"worker_{k}/stdout": printed(TITAN, 20, rate=53_400 + k) for k in range(3)}
    log = read(tmp_path, files | {"worker_1/stderr": "RuntimeError: CUDA error: an illegal memory access\n"})
    (ending,) = endings(Tables(log))
    assert (len(log), ending.goes_on, ending.culprits[0].name, ending.last_step) == (1, False, "worker_1", 20)
    assert ending.place == "worker_1/stderr:1"


@pytest.mark.parametrize("names", [("gpu0.log", "gpu1.log"), ("run0.log", "run1.log"), ("train.log", "copy/train.log")])
def test_what_is_no_process(names: tuple[str, str], tmp_path: Path) -> None:
    """Other losses; the number of a run; a log of another place and name."""
    other = printed(TITAN, 98, 53_500) if names[0] != "gpu0.log" else printed(TITAN.replace("{loss:.5f}", "9.5"))
    log = read(tmp_path, {names[0]: TRAINER, names[1]: other})
    assert len(log) == 2
    assert not log.warnings


@pytest.mark.parametrize("names", [("lr1/train.log", "lr2/train.log"), ("gpu0.log", "gpu1.log")])
def test_repeats_with_one_seed_at_one_time_are_no_processes(names: tuple[str, str], tmp_path: Path) -> None:
    """Numbers of runs in folders; seconds that do not show that a run with 20 steps/s is slower than one with 25."""
    fast = names[0] == "gpu0.log"
    files = {name: TRAINER.replace("53,4", f"53,{4 + n}") for n, name in enumerate(names)}
    for name, rate in zip(names, (20, 25), strict=True):
        if fast:
            lines = files[name].replace(",271 ", " ").splitlines(keepends=True)
            files[name] = "".join(f"{line[:25]}0:{n // rate:02d}{line[28:]}" for n, line in enumerate(lines))
    assert len(read(tmp_path, files)) == 2


@pytest.mark.parametrize("kind", APART)
def test_logs_of_several_runs_stay_apart(kind: str, tmp_path: Path) -> None:
    log = read(tmp_path, APART[kind])
    assert len(log) == len(APART[kind])
    assert not any("read as one" in text for text in log.warnings)


@pytest.mark.parametrize("delimiter", [",", ";"])
@pytest.mark.parametrize("own", [False, True])
def test_tables_of_ranks_get_a_column_with_the_rank(delimiter: str, own: bool, tmp_path: Path) -> None:
    """If they have none of their own."""
    header = ["step", "loss", "step_time_ms", *["rank"] * own]
    files = {
        f"metrics_rank{rank}.csv": "\n".join(
            delimiter.join([*cells, *[str(rank)] * own])
            for cells in (header[:3], *([str(step), "2.5", f"40{rank}.0"] for step in range(1, 13)))
        ).replace(f"ms{delimiter}{rank}", f"ms{delimiter}rank")
        + "\n"
        for rank in range(3)
    }
    log = read(tmp_path, files)
    assert len(log) == 1
    assert {row["rank"]: row["step_time_s"] for row in log.arrow("steps").to_pylist()} == {
        rank: pytest.approx(0.4 + rank / 1000) for rank in range(3)
    }


def test_equal_ranks_in_numbered_folders_are_of_two_runs(tmp_path: Path) -> None:
    log = read(tmp_path, {f"run{run}/rank_{rank}.log": TRAINER + f"{run}\n" for run in (1, 2) for rank in (0, 1)})
    assert [key.log.removeprefix(f"{tmp_path}/") for key in log.run_keys] == [
        "run1/rank_{0..1}.log",
        "run2/rank_{0..1}.log",
    ]


def test_a_rank_without_a_file_is_named(tmp_path: Path) -> None:
    log = read(tmp_path, {f"rank_{rank}.log": printed(TITAN, rate=53_400 + rank) for rank in (0, 1, 3)})
    assert len(log) == 1 and {row["rank"] for row in log.arrow("steps").to_pylist()} == {0, 1, 3}
    assert log.warnings[0].endswith("there is no file of rank 2")


def test_the_parts_of_a_log_that_was_rotated_are_one(tmp_path: Path) -> None:
    lines = TRAINER.splitlines(keepends=True)
    parts = {"train.log": lines[70:], "train.log.1": lines[30:70], "train.log.2": lines[:30]}
    log = read(tmp_path, {name: "".join(part) for name, part in parts.items()})
    assert [key.log for key in log.run_keys] == [f"{tmp_path}/train.lo{{g.2,g.1,g}}"]
    assert log.arrow("steps")["step"].to_pylist() == [*range(1, 101)]


def test_a_library_whose_job_is_not_known_is_told(tmp_path: Path) -> None:
    log = read(tmp_path, APART["a library of one of two"])
    assert [text.partition(": ")[0] for text in log.warnings] == [f"{tmp_path}/engine.log"]


def test_lines_are_numbered_through_the_files(tmp_path: Path) -> None:
    """A last line without an end is one, and nothing in front of a label is read with it."""
    log = read(tmp_path, {"rank_0.log": TRAINER.rstrip("\n"), "rank_1.log": "\n\n" + TRAINER})
    lines = {row["line"]: row["rank"] for row in log.arrow("steps").to_pylist()}
    assert lines == dict.fromkeys(range(1, 101), 0) | dict.fromkeys(range(103, 203), 1)


def test_labels_that_the_lines_have_stay(tmp_path: Path) -> None:
    files = {f"rank_{rank}.log": "".join(f"[rank{rank}]:{x}\n" for x in TRAINER.splitlines()) for rank in range(2)}
    assert {row["rank"] for row in read(tmp_path, files).arrow("steps").to_pylist()} == {0, 1}


def test_labels_of_a_traceback_are_no_labels_of_the_log(tmp_path: Path) -> None:
    error = "[rank1]: Traceback (most recent call last):\n[rank1]: RuntimeError: CUDA error: no\n"
    log = read(tmp_path, {f"rank_{rank}.log": TRAINER + error * rank for rank in range(2)})
    assert [row["rank"] for row in log.arrow("steps").to_pylist()] == [0] * 100 + [1] * 100


def test_a_store_has_them_as_one(tmp_path: Path) -> None:
    read(tmp_path / "logs", ONE_JOB["ranks"])
    store = tmp_path / "store"
    assert len(perflog.ingest(tmp_path / "logs", store=store)) == 1


def test_the_errors_of_torchruns_ranks_come_after_all_steps(tmp_path: Path) -> None:
    """They are of the rank of their folder, and a rank that loads its checkpoint begins no run of its own."""
    resumed = "Resuming from step 0\n" + TRAINER
    files = {f"run/attempt_0/{rank}/stdout.log": resumed.replace("53,4", f"53,{4 + rank}") for rank in range(3)}
    files |= {"run/attempt_0/1/stderr.log": "Traceback (most recent call last):\nRuntimeError: CUDA error: no\n"}
    files |= {"run/attempt_0/2/stderr.log": "", "run/attempt_0/other.log": TIMERS}
    log = read(tmp_path, files)
    assert [len(each.log.split(",")) for each in log.run_keys] == [4, 1]
    rows = log.arrow("failures").to_pylist()
    assert [(row["rank"], row["line"]) for row in rows] == [(1, 3 * 101 + 1)]
    assert {row["rank"] for row in log.arrow("steps").to_pylist()} >= {0, 1, 2}
    assert perflog.diagnose(log).culprits[0].rank == 1


def test_steps_that_go_back_in_files_of_ranks_begin_no_run(tmp_path: Path) -> None:
    """Where a file holds two attempts, the lines of an attempt are not together."""
    lines = [f"step: {step} | loss: {3 - step / 90:.4f} | time: {900 + step}.5 ms" for step in range(1, 31)]
    text = "\n".join([*lines, "Loading checkpoint from /ckpt/step_20", *lines[20:], ""])
    log = read(tmp_path, {f"rank_{rank}.log": text.replace(".5 ms", f".{rank} ms") for rank in range(3)})
    assert len(log) == 1
    assert {row["rank"] for row in log.arrow("steps").to_pylist()} == {0, 1, 2}


def test_ranks_that_wait_for_a_failed_one_are_no_attempts(tmp_path: Path) -> None:
    """Each rank's file ends with its failure; the steps of the next file do not follow it."""
    call = "WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000)"
    timed_out = f"Watchdog caught collective operation timeout: {call} ran for 600012 milliseconds before timing out.\n"
    ended = [f"[2026-07-17 12:11:50,00{rank}] [Rank {rank}] {timed_out}" for rank in range(3)]
    ended[1] = "Traceback (most recent call last):\nRuntimeError: CUDA error: an illegal memory access\n"
    log = read(tmp_path, {f"rank_{rank}.log": TRAINER + text for rank, text in enumerate(ended)})
    found = perflog.diagnose(log)
    assert [culprit.rank for culprit in found.culprits] == [1] and found.kind == "gpu_error"
    assert "Earlier" not in str(found)


def test_the_results_in_a_document_beside_a_log_are_no_run(tmp_path: Path) -> None:
    results = "# Results\n\nFinal Val Loss: 3.2784\n\n| metric | value |\n| --- | --- |\n| mean train time | 79.7 s |\n"
    log = read(tmp_path, {"train.log": TRAINER, "results.md": results})
    assert [key.log for key in log.run_keys] == [f"{tmp_path}/train.log"]
    assert log.warnings == [f"left out, because nothing in them is known: {tmp_path}/results.md"]
    assert len(perflog.read(tmp_path / "results.md")) == 1  # the user named it


@pytest.mark.parametrize("name", ["node", "train-gn"])
@pytest.mark.parametrize(("ranks", "logs"), [((0, 1, 2, 3), 1), ((0, 1, 0, 1), 2), ((0, 1, 4, 5), 2)])
def test_logs_of_nodes_with_other_ranks_are_one_run(ranks: Sequence[int], logs: int, name: str, tmp_path: Path) -> None:
    """A node that loads a checkpoint begins no run. Logs with the same ranks, or not with all, may be of two runs."""
    files = {
        f"{name}{node}.log": "Loading checkpoint from /ckpt/step_100\n"
        + "".join(
            f"[rank {rank}] step: {step} | loss: {node + 2}.{rank} | time: {900 + rank}.0 ms\n"
            for step in range(101, 113)
            for rank in ranks[2 * node : 2 * node + 2]
        )
        for node in (0, 1)
    }
    log = read(tmp_path, files)
    assert len(log) == logs
    if logs == 1:
        assert {row["rank"]: row["step_time_s"] for row in log.arrow("steps").to_pylist()} == {
            rank: (900 + rank) / 1000 for rank in ranks
        }


def test_pauses_of_files_of_processes_count_once(tmp_path: Path) -> None:
    """Four processes print equal losses at equal times, and each that it saves a checkpoint after each tenth step."""

    def lines(process: int) -> str:
        text, second = "", 0
        for step in range(1, 31):
            second += 1
            head = f"2026-11-03 09:{second // 60:02d}:{second % 60:02d},{process:03d} INFO "
            text += f"{head}step {step}/30 loss={9 / (1 + step / 20):.4f} step_time={1 + process / 1000:.3f}s\n"
            if step % 10 == 0:
                second += 6
                head = f"2026-11-03 09:{second // 60:02d}:{second % 60:02d},{process:03d} INFO "
                text += f"{head}saved checkpoint at step {step} in 6.0 s\n"
        return text

    log = read(tmp_path, {f"4711_{process}.out": lines(process) for process in range(4)})
    assert [key.log for key in log.run_keys] == [f"{tmp_path}/4711_{{0..3}}.out"]
    (goodput,) = perflog.metrics.goodput(log).to_dict("records")
    assert (goodput["training_s"], goodput["checkpoint_s"]) == pytest.approx((29.0, 18.0), abs=0.1)


def test_files_of_ranks_that_hold_two_attempts(tmp_path: Path) -> None:
    """Each rank fails after step 30 and goes on from step 21. Its file has both attempts; rank 2 has the cause."""

    def lines(rank: int) -> str:
        head = "2026-11-03 09:{:02d}:{:02d},{:03d} INFO trainer - "
        step = "step {}/60 loss=2.5 step_time=1.000s compute={:.3f}s\n"
        error = "CUDA error: uncorrectable ECC error encountered" if rank == 2 else "NCCL error: remote process exited"
        steps = [head.format(0, s, rank) + step.format(s, 0.9 + rank / 1000) for s in range(1, 31)]
        again = [head.format(2, s - 20, rank) + step.format(s, 0.9 + rank / 1000) for s in range(21, 61)]
        return "".join([*steps, f"{head.format(0, 31, rank)}RuntimeError: {error}\n", *again])

    log = read(tmp_path, {f"rank_{rank}.log": lines(rank) for rank in range(4)})
    assert [key.log for key in log.run_keys] == [f"{tmp_path}/rank_{{0..3}}.log"]
    (ending,) = endings(Tables(log))
    assert (ending.number, ending.of, ending.restarts, ending.last_step) == (1, 2, True, 30)
    assert {culprit.rank for culprit in ending.culprits} == {2}
    parts = perflog.metrics.breakdown(log)
    assert dict(zip(parts["part"], parts["time_s"], strict=True)) == pytest.approx({"compute": 0.9015, "step": 0.0985})
    (goodput,) = perflog.metrics.goodput(log).to_dict("records")
    assert (goodput["training_s"], goodput["repeated_s"], goodput["down_s"]) == (59.0, 10.0, 90.0)


# --- what decides, by itself ------------------------------------------------------------------------------------------


def given(path: str, **known: Any) -> Any:
    """A file of which this is known: nothing of it is read."""
    file = module._File(LogName.from_file(path))
    vars(file).update(known)
    return file


def spans(*ends: tuple[int, int] | None, clock: str = UTC) -> list[Any]:
    return [given(f"{k}.log", span=end and (clock, *end)) for k, end in enumerate(ends)]


@pytest.mark.parametrize(
    ("ends", "meet"),
    [
        ([(0, 10), (5, 20)], True), ([(0, 10), (10, 20)], True), ([(0, 10), (11, 20)], False),
        ([(11, 20), (0, 10)], False), ([(0, 10), (5, 20), (10, 30)], True), ([(0, 10), (5, 20), (12, 30)], False),
    ],
)  # fmt: skip
def test_logs_of_one_time_have_a_moment_that_all_span(ends: list[tuple[int, int]], meet: bool) -> None:
    files = spans(*ends)
    assert module._overlap(files) is meet and module._are_apart(files) is not meet
    if len(ends) == 2:
        assert module._meet(*(file.span for file in files)) is meet


def test_logs_by_other_clocks_or_none_neither_overlap_nor_are_apart() -> None:
    for files in ([*spans((0, 10)), *spans((0, 10), clock=LOCAL)], spans((0, 10), None), spans(None, (0, 10))):
        assert not module._overlap(files) and not module._are_apart(files)
    assert module._are_apart([*spans((0, 1), None, (5, 6)), *spans((0, 9), clock=LOCAL)])


@pytest.mark.parametrize(
    ("one", "other", "lies"),
    [
        ((0, 10), (0, 10), True), ((0, 10), (5, 99), True), ((0, 10), (6, 99), False), ((5, 15), (0, 10), True),
        ((6, 16), (0, 10), False), ((7, 7), (0, 10), True), ((11, 11), (0, 10), False), (None, (0, 10), False),
    ],
)  # fmt: skip
def test_half_of_the_time_of_a_log_lies_within_another(
    one: tuple[int, int] | None, other: tuple[int, int], lies: bool
) -> None:
    assert module._lies_within(*spans(one, other)) is lies
    assert not module._lies_within(*spans(one), *spans(other, clock=LOCAL))


def steps(moments: Sequence[float], clock: str = "2026-07-17 12:00:{:06.3f} step") -> Losses:
    return {(0, n): (b"1", clock.format(at).encode()) for n, at in enumerate(moments)}


@pytest.mark.parametrize(
    ("other", "are_in_step"),
    [
        (steps([1.5 * n + 0.25 for n in range(10)]), True),
        (steps([1.5 * n + 0.25 for n in range(9)]), False),  # too few
        (steps([1.5 * n + 2.0 for n in range(10)]), False),  # another step is done then
        (steps([2.0 * n for n in range(10)]), False),  # they drift apart
        (steps([1.5 * n + 0.25 for n in range(10)], "12:00:{:06.3f} step"), False),  # another clock
        (steps([1.5 * n + 0.25 for n in range(10)], "step {}"), False),
    ],
)
@pytest.mark.parametrize("place", [1, 2])
def test_processes_do_the_same_steps_at_the_same_times(
    other: Losses, are_in_step: bool, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are compared with the first one."""
    monkeypatch.setattr(module, "_is_of_lines", lambda _: True)
    files = spans(*[(0, 9)] * 3)
    for k, file in enumerate(files):
        vars(file)["losses"] = other if k == place else steps([1.5 * n + 0.125 * k for n in range(12)])
    assert module._are_in_step(files) is are_in_step
    assert not module._are_in_step([*files, *spans((20, 30))])
    monkeypatch.setattr(module, "_is_of_lines", lambda file: file is not files[0])
    assert not module._are_in_step(files)


@pytest.mark.parametrize(
    ("folders", "end", "joined"),
    [
        ({"node0": [0, 1], "node1": [2]}, 9, {"node#": [0, 1, 2]}),
        ({"node0": [0, 1], "node1": [2]}, 8, {"node0": [0, 1], "node1": [2]}),  # one after the other
        ({"run0": [0, 1], "run1": [0], "a": [1]}, 9, {"run0": [0, 1], "run1": [0], "a": [1]}),  # a rank of two runs
        ({"a": [0], "node0": [0], "node1": [1]}, 9, {"a": [0], "node#": [0, 1]}),
    ],
)
def test_ranks_of_numbered_folders_are_of_one_job(
    folders: dict[str, list[int]], end: int, joined: dict[str, list[int]]
) -> None:
    """If none is in two folders, and they print at one time: rank 2 begins at the moment 9."""
    alike = {
        (f"{folder}/#.log", "rank"): {
            rank: given(f"{folder}/{rank}.log", span=(UTC, 9 * (rank > 1), 10 if rank > 1 else end)) for rank in ranks
        }
        for folder, ranks in folders.items()
    }
    found = module._of_all_folders(alike)
    assert {path.partition("/")[0]: sorted(by_rank) for (path, _), by_rank in found.items()} == joined


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("run/node12/gpu3.log", "run/node#/gpu3.log"), ("job7/logs/a1.log", "job#/logs/a1.log"),
        ("j1/n2-3/a.log", "j1/n#-#/a.log"), ("logs/rank_3.log", "logs/rank_3.log"), ("a1.log", "a1.log"),
    ],
)  # fmt: skip
def test_the_innermost_folder_with_a_number(path: str, shape: str) -> None:
    assert module._numbered_folder(path) == shape


@pytest.mark.parametrize(
    ("path", "rank", "kind", "shape"),
    [
        ("run/rank_3.log", 3, "rank", "run/rank_#.log"),
        ("job_rank_3/rank_3.log", 3, "rank", "job_rank_3/rank_#.log"),
        ("rank3/log.txt", 3, "rank", "rank#/log.txt"),
        ("rank_03.log", 3, "rank", "rank_#.log"),
        ("rank_3/rank_7.log", 3, "rank", "rank_#/rank_7.log"),
        ("attempt_0/3/stdout.log", 3, "local rank", "attempt_0/#/stdout.log"),
        ("attempt_3/3/stdout.log", 3, "local rank", "attempt_3/#/stdout.log"),
    ],
)
def test_paths_without_their_rank(path: str, rank: int, kind: str, shape: str) -> None:
    assert module._without(path, rank, kind) == shape


@pytest.mark.parametrize(
    ("path", "job", "stream"),
    [
        ("run/slurm-4711.out", ("run", "4711"), ("run/slurm-4711.#",)),
        ("run/train_job-4711_3.log", ("run", "4711_3"), None),
        ("run/train.o4711", ("run", "4711"), ("run/train.#4711",)),
        ("run/job12.log", None, None),  # too short for an id
        ("run/job4711_slurm-4712.log", None, None),  # two ids
        ("run/job4711_slurm-4711.log", ("run", "4711"), None),
        ("run/stderr.log", None, ("run/#.log",)),
        ("run/out/train.err", None, None),  # two streams
        ("run/output.log", None, None),
    ],
)
def test_ids_of_jobs_and_streams_in_names(path: str, job: tuple[str, ...], stream: tuple[str, ...]) -> None:
    assert (module._job_id(given(path)), module._stream(given(path))) == (job, stream)


def form(name: str, library: bool = False) -> Any:
    return SimpleNamespace(name=name, library=library, named_by=lambda base: base.startswith("named"))


@pytest.mark.parametrize(
    ("sizes", "names", "spans", "formats", "words"),
    [
        ((100, 120), ("a", "b"), (None, None), ("x", "x"), "they print alike without a clock"),
        ((100, 121), ("a", "b"), (None, None), ("x", "x"), ""),  # another length
        ((100, 100), ("a", "b"), (None, None), ("x", "y"), ""),  # another program
        ((100, 100), ("a", "named"), (None, None), ("x", "x"), ""),  # the names say more
        ((100, 100), ("a", "b"), ((UTC, 0, 9), None), ("x", "x"), ""),
        ((100, 999), ("a", "b"), ((UTC, 0, 9), (UTC, 5, 20)), ("x", "y"), "their clocks overlap"),
    ],
)
def test_what_shows_that_logs_are_of_one_time(
    sizes: Sequence[int], names: Sequence[str], spans: Sequence[Any], formats: Sequence[str], words: str, tmp_path: Path
) -> None:
    files = []
    for name, size, span, program in zip(names, sizes, spans, formats, strict=True):
        (tmp_path / name).write_bytes(b"x" * size)
        files.append(given(str(tmp_path / name), span=span, formats=[form(program)]))
    assert module._clocks(files) == words


def test_programs_that_print_in_a_file() -> None:
    """A file of libraries alone adds figures to the runs of others; one in which nothing is known does not."""
    files = [given("a", formats=[form(name, name == "library") for name in names.split()])
             for names in ("x library", "library", "")]  # fmt: skip
    assert [(file.programs, file.only_adds) for file in files] == [({"x"}, False), (set(), True), (set(), False)]
    assert [module._are_of_one_program(pair) for pair in (files[:1] * 2, files[:2], files[1:2] * 2)] == [
        True, False, False
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ages", "first_steps", "whole"),
    [
        ((2, 1), (1, 5, 9), True), ((2, 1), (1, None, 9), True), ((2, 1), (1, 1, 9), False),  # it starts again
        ((3, 1), (1, 5, 9), False),  # a part is missing
    ],
)  # fmt: skip
@pytest.mark.parametrize("gap", [1, 0, -1])
def test_parts_of_a_log_go_on_where_the_last_one_ended(
    ages: Sequence[int], first_steps: Sequence[int | None], whole: bool, gap: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_is_of_lines", lambda _: True)
    names = [*(f"train.log.{age}" for age in ages), "train.log"]
    files = [
        given(name, span=(UTC, (10 + gap) * k, (10 + gap) * k + 10), first_step=step and (0, step), formats=[form("x")])
        for k, (name, step) in enumerate(zip(names, first_steps, strict=True))
    ]
    found = [[file.path for file in parts] for parts, _ in module._rotated(files[::-1])]
    assert found == [names] * (whole and gap >= 0)


def test_a_log_has_the_times_of_its_first_and_last_line_with_one(tmp_path: Path) -> None:
    def span(*lines: str) -> Any:
        (tmp_path / "a.log").write_text("\n".join(lines))
        return module._File(LogName.from_file(str(tmp_path / "a.log"))).span

    day = "2026-07-17 12:00:{:02d},000 step"
    found = span("title", "[rank3]: " + day.format(1), day.format(5), "", "12:00:59 a part", day.format(9), "end")
    assert (found[0], found[2] - found[1]) == (LOCAL, 8 * 10**9)
    assert span(day.format(9), day.format(1)) is None  # it goes back
    one = span(day.format(9))
    assert one[1] == one[2] and span("none") is None
    assert span(*["none"] * 200, day.format(1)) is None and span(*["none"] * 199, day.format(1)) is not None


def logs(*rows: tuple[str, str, str | None]) -> list[str]:
    import pyarrow as pa

    return module.apart(pa.table(dict(zip(("log", "format", "joined_formats"), zip(*rows, strict=True), strict=True))))


def test_logs_of_libraries_alone_are_told_where_several_logs_are_beside_them() -> None:
    library = next(name for name, each in known().items() if each.library and not each.generic)
    programs = [("b", "torchtitan", None), ("c", "megatron", None)]
    told = [f"x/{library}: only libraries print in it, and nothing shows to which job it belongs: read apart"]
    alone = (f"x/{library}", library, None)

    def beside(*others: tuple[str, str, str | None]) -> list[str]:
        return logs(alone, *((f"x/{name}", form, more) for name, form, more in others))

    assert beside(*programs) == told
    assert beside(programs[0]) == [] and beside(programs[0], ("d", "meters", None)) == []
    assert beside(("d", "meters", None), ("e", "meters", None)) == told  # none of a known program
    assert beside(*programs, ("b", library, None)) == told  # a run of a library in the log of a program
    assert logs((alone[0], "torchtitan", library), *((f"x/{name}", form, None) for name, form, _ in programs)) == []
    assert logs(alone, *((f"y/{name}", form, None) for name, form, _ in programs)) == []  # of another folder
    assert beside(*programs, *((f"f{k}", "megatron", None) for k in range(6))) == []  # too many to tell
    assert beside(*programs, *((f"f{k}", "megatron", None) for k in range(5))) == told
