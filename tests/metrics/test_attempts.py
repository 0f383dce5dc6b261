"""Attempts: which runs continue one another as one job, and by which evidence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from msgspec.structs import replace
from support.jobs import Job
from support.metrics_logs import by_hand

import perflog
from perflog.analysis.compare.whole_jobs import with_whole_jobs
from perflog.metrics import Tables
from perflog.metrics.attempts import (
    Extent,
    _Checkpoints,
    _differing,
    _evidence,
    _follows,
    _loaded,
    _restarted,
    attempts,
    extents,
    job_id,
    jobs,
    last_saved,
    step_of,
)
from perflog.tables.columns import NULL


def restarted(load: int | None = 20, settings: str = "data-parallel size: 8") -> Job:
    """40 steps with checkpoints at 20, then an attempt from step 21 on."""
    job = Job()
    job.start(60)
    job.steps(1, 20, 2.0)
    job.save(20, 10.0)
    job.steps(21, 30, 2.0, "repeated")
    job.spend("down", 300)
    job.settings = settings
    job.start(60, load)
    job.steps((load or 0) + 1, 40, 2.0)
    return job


def numbers(log: perflog.Log) -> list[int | None]:
    found: list[int | None] = log.arrow("runs")["attempt"].to_pylist()
    return found


def read(text: str, folder: Path, name: str = "log.txt") -> perflog.Log:
    (folder / name).write_text(text)
    return perflog.read(folder / name)


def test_a_run_that_loads_what_the_run_before_saved_is_its_next_attempt(tmp_path: Path) -> None:
    log = read(restarted().text, tmp_path)
    assert numbers(log) == [1, 2]
    assert log.arrow("runs")["job"].to_pylist() == [log.run_keys[0].id] * 2
    second = attempts(Tables(log))[log.run_keys[1].id]
    assert (second.of, second.step) == (2, 20)
    assert second.evidence == "it loads the checkpoint of step 20, which the attempt before saved"
    assert numbers(log.select(2)) == [None]


def test_attempts_in_files_of_their_own(tmp_path: Path) -> None:
    lines = restarted().text.splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if i and "using world size" in line)
    (tmp_path / "b.log").write_text("".join(lines[:cut]))  # the names tell nothing of the order
    (tmp_path / "a.log").write_text("".join(lines[cut:]))
    log = perflog.read(tmp_path / "a.log", tmp_path / "b.log")
    order = {key.log: number for key, number in zip(log.run_keys, numbers(log), strict=True)}
    assert {Path(name).name: number for name, number in order.items()} == {"a.log": 2, "b.log": 1}


def test_a_repeat_at_the_same_time_has_attempts_of_its_own(tmp_path: Path) -> None:
    text = restarted().text
    (tmp_path / "a.log").write_text(text)
    (tmp_path / "b.log").write_text(text + "done\n")
    log = perflog.read(tmp_path / "a.log", tmp_path / "b.log")
    first, second = (list(runs) for runs in jobs(Tables(log)).values())
    assert [*first, *second] == [key.id for key in log.run_keys]


def test_runs_that_load_nothing_are_no_attempts(tmp_path: Path) -> None:
    assert numbers(read(restarted(load=None).text, tmp_path)) == [None, None]


def test_another_setting_is_another_run(tmp_path: Path) -> None:
    text = restarted().text
    text = text.replace("global batch size:   128", "global batch size:   256", 31).replace("256", "128", 30)
    assert numbers(read(text.replace("/    1000", "/    2000", 30), tmp_path)) == [None, None]


def test_a_checkpoint_that_the_run_before_did_not_save_is_of_another_job(tmp_path: Path) -> None:
    assert numbers(read(restarted(load=25).text, tmp_path)) == [None, None]


def test_a_run_that_began_before_the_other_ended_does_not_continue_it(tmp_path: Path) -> None:
    job = restarted()
    lines = job.text.splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if i and "using world size" in line)
    (tmp_path / "a.log").write_text("".join(lines[:cut]))
    (tmp_path / "b.log").write_text("".join(lines[cut:]).replace("12:08", "12:00").replace("12:09", "12:01"))
    assert numbers(perflog.read(tmp_path / "a.log", tmp_path / "b.log")) == [None, None]


def test_the_step_of_a_checkpoint_is_in_its_path() -> None:
    paths = {"out/checkpoint-500": 500, "global_step150": 150, "/a/iter_0000020": 20, "step-7": 7, "best.pt": None}
    assert {path: step_of(NULL, path) for path in paths} == paths


def test_the_overview_compares_no_attempts(tmp_path: Path) -> None:
    log = read(restarted().text, tmp_path)
    answer = perflog.overview(log)
    assert "1 job, 2 attempts, 40 steps (10 done again)" in answer.what
    assert (answer.base, [line for line in answer.next if line.startswith("perflog compare")]) == ({}, [])
    ends = perflog.lint(log).query("code == 'run-stopped'")
    assert ends.run.tolist() == [log.run_keys[1].id]


def titan(load: int, ranks: int) -> str:
    """Two attempts of torchtitan in one log, as two ranks print them: up to step 60, then from `load` on."""
    lines: list[str] = []

    def tell(seconds: int, text: str, of: int = 2) -> None:
        stamp = f"[titan] 2026-03-01 12:{seconds // 60:02d}:{seconds % 60:02d},000 - root - INFO - "
        lines.extend(f"[rank{rank}]:{stamp}{text}" for rank in range(of))

    def attempt(seconds: int, world: int, load: int, last: int) -> None:
        for rank in range(2):  # a rank measures its memory before the other one starts
            stamp = f"[rank{rank}]:[titan] 2026-03-01 12:{seconds // 60:02d}:00,000 - root - INFO - "
            lines.append(stamp + "Starting job: Llama 3 8B training")
            lines.append(stamp + "CUDA memory usage for model: 3.77GiB(4.77%)")
        tell(seconds, f"Building 1-D device mesh with ['dp_shard'], [{world}]")
        if load:
            tell(seconds + 20, f"Loading the checkpoint at step {load}.")
            tell(seconds + 30, "Finished loading the checkpoint in 10.00 seconds.")
        tell(seconds + 40, f"Training starts at step {load + 1}")
        for step in range(load - load % 10 + 10, last + 1, 10):
            text = f"step: {step:2d}  loss: {8 - step / 100:.4f}  memory: 47.10GiB(59.55%)  tps: 5,850  mfu: 34.18%"
            tell(seconds + 40 + 2 * (step - load), text)

    attempt(0, ranks, 0, 60)
    attempt(600, 8, load, 100)
    return "".join(line + "\n" for line in lines)


def test_a_restart_in_the_same_log_is_a_run_of_its_own(tmp_path: Path) -> None:
    log = read(titan(50, 8), tmp_path)
    assert numbers(log) == [1, 2]
    assert "1 job, 2 attempts, 100 steps (10 done again)" in perflog.overview(log).what


@pytest.mark.parametrize(
    ("settings", "numbers_of_runs"),
    [
        (("lr=0.1", "lr=0.1"), [1, 2]),
        (("lr=0.1", "lr=0.2"), [None, None]),
        (("lr=0.1", "lr=0.1", "lr=0.2"), [1, 2, None]),
        (("lr=0.1", "lr=0.2", "lr=0.2"), [None, 1, 2]),
        (("lr=0.1", "lr=0.2", "lr=0.1"), [None, None, None]),
    ],
)
@pytest.mark.parametrize(
    "form", ["args: Namespace({}, batch_size=32)", "Training with {} on 8 GPUs", "{} | batch_size: 32"]
)
def test_a_program_that_prints_its_start_again_and_goes_back(
    settings: Sequence[str], numbers_of_runs: list[int | None], form: str, tmp_path: Path
) -> None:
    """It says nothing of a checkpoint. With other settings it is another job, also if they are below its first step."""

    def steps(first: int, last: int, minute: int) -> list[str]:
        stamps = ((step, f"2026-07-17 12:{minute + step // 30:02d}:{2 * step % 60:02d}") for step in range(first, last))
        return [f"{stamp} step {step} | loss {9 - step / 20:.3f} | step_time 2.0 s" for step, stamp in stamps]

    lines = []
    for n, setting in enumerate(settings):
        first = 10 * n + 11 if n else 1
        above, below = ("Loading data", form) if form.startswith("{}") else (form, "")
        lines += ["Initializing process group, world size 8", above.format(setting), "Starting training"]
        lines += [*steps(first, first + 1, 3 * n), below.format(setting), *steps(first + 1, 10 * n + 31, 3 * n)]
    log = read("\n".join([*lines, ""]), tmp_path)
    assert numbers(log) == numbers_of_runs
    if numbers_of_runs == [1, 2]:
        (row,) = perflog.metrics.goodput(log).to_dict("records")
        assert (row["attempts"], row["steps_lost"], row["down_s"], row["stall_s"]) == (2, 10, 160, 0)


_START = ("Starting training on 8 GPUs", "model: resnet50", "Loading data set c4")
_FAILURE = ("Traceback (most recent call last):", '  File "train.py", line 1, in main', "RuntimeError: CUDA error: no")


def each_tenth(first: int, last: int, at: int, epochs: bool) -> list[str]:
    """Lines of ten steps of a second each. `at`: seconds before the first of them."""
    found = []
    for n, step in enumerate(range(first, last + 1, 10), 1):
        minute, second = divmod(at + 10 * n, 60)
        epoch, within = divmod(step - 1, 100)
        counted = f"Epoch [{epoch + 1}/12] step [{within + 1}/100]" if epochs else f"step {step}"
        found.append(f"2026-05-01 10:{minute:02d}:{second:02d} INFO {counted} loss: {3 - step / 500:.4f}")
    return found


@pytest.mark.parametrize("header", [_START, ()])
@pytest.mark.parametrize("epochs", [False, True])
def test_each_tenth_step_is_printed_before_and_after_a_restart(
    header: Sequence[str], epochs: bool, tmp_path: Path
) -> None:
    text = [*header, *each_tenth(10, 360, 0, epochs), *_FAILURE, *header, *each_tenth(310, 600, 480, epochs), ""]
    log = read("\n".join(text), tmp_path)
    (row,) = perflog.metrics.goodput(log).to_dict("records")
    assert (row["wall_s"], row["training_s"], row["repeated_s"], row["down_s"]) == (770, 590, 60, 120)
    if numbers(log) == [1, 2]:
        assert "600 steps (60 done again)" in perflog.overview(log).what


@pytest.mark.parametrize("epochs", [False, True])
def test_a_program_that_failed_starts_again_from_its_first_step(epochs: bool, tmp_path: Path) -> None:
    text = [*_START, *each_tenth(10, 360, 0, epochs), *_FAILURE, *_START, *each_tenth(10, 300, 480, epochs), ""]
    log = read("\n".join(text), tmp_path)
    assert numbers(log) == [1, 2]
    assert "1 job, 2 attempts, 360 steps (300 done again)" in perflog.overview(log).what
    assert log.arrow("runs")["first_line"].to_pylist() == [4, 43]
    assert [json.loads(config)["model"] for config in log.arrow("runs")["config"].to_pylist()] == ["resnet50"] * 2


def test_the_same_failure_after_steps_were_done_again_is_another_one(tmp_path: Path) -> None:
    parts = [each_tenth(10, 360, 0, False), each_tenth(310, 430, 480, False), each_tenth(410, 600, 800, False)]
    log = read("\n".join([*_START, *parts[0], *_FAILURE, *parts[1], *_FAILURE, *parts[2], ""]), tmp_path)
    assert log.arrow("failures")["line"].to_pylist() == [40, 56]
    assert perflog.overview(log).outcome[0].startswith("Attempt 2 of 3 ended by a CUDA error")


def test_without_a_failure_the_steps_may_be_those_of_another_rank(tmp_path: Path) -> None:
    text = [*_START, *each_tenth(10, 360, 0, False), *_START, *each_tenth(10, 360, 0, False), ""]
    assert numbers(read("\n".join(text), tmp_path)) == [None]


def test_a_restart_between_two_printed_steps(tmp_path: Path) -> None:
    log = read(titan(45, 8), tmp_path)
    assert "1 job, 2 attempts, 100 steps (15 done again)" in perflog.overview(log).what
    again = perflog.metrics.timeline(log).query("kind == 'repeated'")
    assert (again["first_step"].tolist(), again["last_step"].tolist()) == ([46], [60])


def test_a_restart_on_another_number_of_ranks(tmp_path: Path) -> None:
    log = read(titan(50, 16), tmp_path)
    assert numbers(log) == [1, 2]
    evidence = attempts(Tables(log))[log.run_keys[1].id].evidence
    assert evidence == "it loads the checkpoint of step 50, which the attempt before reached, with another mesh_sizes"
    lines = titan(50, 16).splitlines(keepends=True)  # in files of their own nothing tells that it is the same job
    cut = next(i for i, line in enumerate(lines) if "12:10:00" in line)
    (tmp_path / "a.log").write_text("".join(lines[:cut]))
    (tmp_path / "b.log").write_text("".join(lines[cut:]))
    assert numbers(perflog.read(tmp_path / "a.log", tmp_path / "b.log")) == [None, None]


# --- attempts of programs that print no start, or start again in one log ------------------------------------------

OUT_OF_MEMORY = 'Traceback (most recent call last):\n  File "train.py", line 10, in <module>\ntorch.OutOfMemoryError: '
OUT_OF_MEMORY += "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB\n"
ELASTIC = "INFO:torch.distributed.elastic.agent.server.api:[default] "
RESTARTED = (
    f"{ELASTIC}Worker group FAILED. 3/3 attempts left; will restart worker group\n{ELASTIC}Stopping worker group\n"
)


def deepspeed(first: int, last: int, hour: int = 12) -> str:
    stamps = [f"[2026-03-01 {hour}:{s // 60:02d}:{s % 60:02d},125] [INFO] " for s in range(last + 1)]
    return "".join(
        f"{stamps[s]}[timer.py:215:stop] epoch=0/micro_step={s}/global_step={s}, RunningAvgSamplesPerSec=45.2, "
        f"CurrSamplesPerSec=45.{s % 10}, MemAllocated=12.3GB, MaxMemAllocated=20.1GB\n"
        for s in range(first, last + 1)
    )


def trainer(first: int, last: int) -> str:
    """Lines of Hugging Face's Trainer, as it prints them below a bar."""
    text = ""
    for s in range(first, last + 1):
        text += f"\r {s}%|{'#' * (s // 10)}| {s}/100 [00:{s:02d}<01:00,  1.00s/it]"
        if s % 10 == 0:
            text += f"\n{{'loss': {3 - s / 100:.4f}, 'grad_norm': 1.{s}, 'learning_rate': 1e-05, 'epoch': {s / 100}}}\n"
    return text + "\n"


def lightning(first: int, last: int) -> str:
    bars = (f"\rEpoch 0:  {s}%|#| {s}/100 [00:{s % 60:02d}<01:00,  1.00it/s, v_num=0]" for s in range(first, last + 1))
    return "".join(bars) + "\n"


def nanogpt(first: int, last: int) -> str:
    return "".join(f"iter {s}: loss {4 - s / 100:.4f}, time {250 + s % 7:.2f}ms\n" for s in range(first, last + 1))


def megatron(first: int, last: int) -> str:
    return "".join(
        f" iteration {s:8d}/     100 | consumed samples: {s:12d} | elapsed time per iteration (ms): 2000.{s % 10} | "
        f"global batch size:   128 | lm loss: {8 - s / 100:.6E} |\n"
        for s in range(first, last + 1)
    )


NANOGPT = "tokens per iteration will be: 491,520\nfound vocab_size = 50304 (inside data/meta.pkl)\n"
LOADED = "  successfully loaded checkpoint from /ckpt at iteration 40\n"
IN_ONE_LOG = {
    "DeepSpeed": deepspeed(1, 60) + OUT_OF_MEMORY + "[2026-03-01 13:00:00,000] [INFO] [torch_checkpoint_engine.py:27:"
    "load] [Torch] Loading checkpoint from ckpt/global_step40/mp_rank_00_model_states.pt...\n" + deepspeed(41, 100, 13),
    "Trainer": trainer(1, 60) + OUT_OF_MEMORY + "Resuming from checkpoint out/checkpoint-40\n" + trainer(41, 100),
    "Lightning": lightning(1, 60) + OUT_OF_MEMORY
    + "Restoring states from the checkpoint path at out/step=40-last.ckpt\n" + lightning(41, 100),
    "nanoGPT": NANOGPT + nanogpt(0, 60) + OUT_OF_MEMORY + NANOGPT + "Resuming training from out\n" + nanogpt(40, 100),
    "Megatron": megatron(1, 60) + "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-01T12:20:31 DUE TO JOB "
    "REQUEUE ***\n" + LOADED + megatron(41, 100),
    "a launcher, with a checkpoint": megatron(1, 40) + OUT_OF_MEMORY + RESTARTED + LOADED + megatron(41, 100),
    "a launcher, from the beginning": nanogpt(0, 30) + OUT_OF_MEMORY + RESTARTED + nanogpt(0, 60),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_ONE_LOG)
def test_attempts_of_programs_that_print_no_start(tmp_path: Path, name: str) -> None:
    log = read(IN_ONE_LOG[name], tmp_path)
    assert numbers(log) == [1, 2]
    assert perflog.diagnose(log).verdict.startswith("The job recovered and went on to step ")


@pytest.mark.parametrize(
    "text",
    [
        "".join(megatron(s, s) + f"Loading checkpoint from out/step_{s}\n" for s in range(1, 40)),
        megatron(1, 60) + "Loading checkpoint from out/best\ntest loss 2.3\n",
        "Loading checkpoint from out/step_40\n"
        + megatron(41, 60)
        + "Loading checkpoint from out/b\n"
        + megatron(61, 99),
    ],
    ids=["weights that are loaded in each step", "the best checkpoint at the end", "steps that go on"],
)
def test_a_checkpoint_behind_which_steps_go_on_begins_no_attempt(tmp_path: Path, text: str) -> None:
    assert len(read(text, tmp_path).run_keys) == 1


def test_an_evaluation_that_prints_settings_and_loads_a_checkpoint_begins_no_attempt(tmp_path: Path) -> None:
    """A process that evaluates prints the settings as the training did; the training goes on after it."""
    start = "world_size=8 batch_size=64 lr=1e-4\n"
    steps = ["".join(f"step {n} | loss {9 - n / 20:.2f} | step_time 2.5s\n" for n in part)
             for part in (range(1, 41), range(41, 81))]  # fmt: skip
    between = f"Starting evaluation: {start}Loaded checkpoint from out/step_40\neval_loss: 6.5\n"
    log = read(f"Starting training: {start}{steps[0]}Saved checkpoint to out/step_40\n{between}{steps[1]}", tmp_path)
    assert len(log.run_keys) == 1 and log.settings["batch_size"].tolist() == [64]


@pytest.mark.parametrize(
    ("loaded", "first", "is_one"),
    [
        (20, 21, True), (20, 20, True), (20, 19, False),  # its steps begin before the checkpoint
        (30, 31, True), (31, 32, False), (0, 1, False), (None, 31, True), (None, 32, False), (None, 1, False),
    ],
)  # fmt: skip
def test_a_run_continues_from_a_step_that_the_earlier_one_has(loaded: int | None, first: int, is_one: bool) -> None:
    """The earlier run has the steps 1 to 30."""
    earlier, later = (
        Extent(run, "log", 1, begin, end, 1, 9, None, 0, 0) for run, begin, end in (("a", 1, 30), ("b", first, 60))
    )
    assert (_evidence(loaded, later, [earlier], {}, near=True) is not None) == is_one


def test_the_extent_of_runs_without_steps() -> None:
    """Of a run without any, and of one whose steps have no number."""
    for made in (by_hand("values", []), by_hand("steps", [{"step_time_s": 1.0}])):
        (extent,) = extents(Tables(made)).values()
        assert {extent.first_step, extent.last_step, extent.first_step_line, extent.last_step_line} == {-1}
    (extent,) = extents(Tables(by_hand("steps", [{"step": 7}, {"step": 5}, {"step": 6}]))).values()
    assert (extent.first_step, extent.last_step, extent.first_step_line, extent.last_step_line) == (5, 7, 1, 3)


def test_the_line_in_which_a_launcher_restarts_and_the_checkpoint_that_a_run_loads() -> None:
    """Steps of the run are on the lines 20 to 40, those of the run before on 3 to 9."""
    later = Extent("b", "log", 2, 1, 9, 20, 40, None, 0, 0)
    before = Extent("a", "log", 1, 1, 9, 3, 9, None, 0, 0)
    lines = [{"line": line, "step": line, "kind": "checkpoint"} for line in (1, 9, 15, 20)]
    tables = Tables(by_hand("milestones", lines))
    rows, checkpoints = tables.rows("milestones"), _Checkpoints(tables, [replace(before, run="r"), later])
    assert _restarted(later, before, {"b": rows}) == 1
    assert _restarted(later, before, {"b": rows.where(rows["line"] >= 20)}) is None
    assert _restarted(later, Extent("a", "log", 1, -1, -1, -1, -1, None, 0, 0), {"b": rows}) is None
    assert _restarted(later, before, {}) is None
    assert _loaded(later, None, {"b": rows}, checkpoints) == (1, 1)
    assert _loaded(later, before, {"a": rows}, checkpoints) == (15, 15)
    assert _loaded(later, before, {"b": rows.where(rows["line"] >= 20), "a": rows}, checkpoints) == (15, 15)
    assert _loaded(later, before, {}, checkpoints) is None


def test_a_job_has_several_attempts_among_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another one only the last attempt is among these runs."""
    known = {run: SimpleNamespace(job=job) for run, job in (("r", "r"), ("s", "r"), ("t", "q"), ("u", "r"))}
    monkeypatch.setattr("perflog.metrics.attempts.attempts", lambda _: known)
    made = by_hand("steps", [])
    runs = pd.concat([made["runs"].assign(run=run) for run in "rst"])
    assert jobs(Tables({"runs": runs})) == {"r": ["r", "s"]}


def extent(run: str = "a", log: str = "log", first: int = 1, last: int = 30, **more: Any) -> Extent:
    usual = {"clock": None, "begin_ns": 0, "end_ns": 0}
    return Extent(run, log, 1, first, last, 10, 90, *(usual | more).values())


@pytest.mark.parametrize(
    ("earlier", "later", "follows"),
    [
        ({}, {"first": 21}, True),
        ({"first": -1}, {"first": 21}, False),  # it has no steps
        ({}, {"first": 1, "log": "other"}, False),
        ({}, {"first": 2, "log": "other"}, True),
        ({"clock": "utc", "end_ns": 5}, {"clock": "utc", "begin_ns": 5}, True),
        ({"clock": "utc", "end_ns": 5}, {"clock": "utc", "begin_ns": 4}, False),
        ({"clock": "utc", "end_ns": 5}, {"clock": "local", "begin_ns": 4}, True),
        ({"clock": "utc", "end_ns": 5}, {"clock": "utc", "begin_ns": 4, "log": "other", "first": 9}, False),
        ({"clock": "no_date", "end_ns": 5}, {"clock": "no_date", "begin_ns": 4}, False),
        ({"clock": "no_date", "end_ns": 5}, {"clock": "no_date", "begin_ns": 4, "log": "other", "first": 9}, True),
    ],
)
def test_a_run_follows_another_as_far_as_clocks_show(
    earlier: dict[str, Any], later: dict[str, Any], follows: bool
) -> None:
    """Clocks without a date compare in one log; without a clock it has later steps, or is in the same log."""
    assert _follows(extent(**earlier), extent("b", **later)) is follows


@pytest.mark.parametrize(
    ("step", "first", "saved", "near", "words"),
    [
        (20, 21, {20}, False, "it loads the checkpoint of step 20, which the attempt before saved"),
        (20, 21, {10, 20}, False, "it loads the checkpoint of step 20, which the attempt before saved"),
        (10, 11, {10, 20}, False, None),  # further back than to the last one
        (10, 11, {10, 20}, True, "it loads the checkpoint of step 10, which the attempt before saved"),
        (15, 16, {10, 20}, True, None),
        (20, 21, set(), False, "it loads the checkpoint of step 20, which the attempt before reached"),
        (None, 21, {5}, False, "it loads a checkpoint and goes on at step 21, which the attempt before reached"),
        (None, 2, set(), False, "it loads a checkpoint and goes on at step 2, which the attempt before reached"),
        (1200, 1201, set(), False, "it loads the checkpoint of step 1,200, which the attempt before reached"),
    ],
)
def test_what_shows_that_a_run_continues_another(
    step: int | None, first: int, saved: set[int], near: bool, words: str | None
) -> None:
    member = extent(last=2000 if step == 1200 else 30)
    assert _evidence(step, extent("b", first=first, last=60), [member], {"a": saved}, near) == words
    of_others = _evidence(step, extent("b", first=first, last=60), [member], {"other": saved}, near)
    assert (of_others is None) == (words is None and step is None)


def test_attempts_that_begin_no_earlier_continue_nothing() -> None:
    """Without a printed step of the checkpoint, some attempt has to begin before it."""
    members = [extent(first=21), extent("c", first=21, last=40)]
    assert _evidence(None, extent("b", first=21, last=60), members, {}, True) is None
    assert _evidence(None, extent("b", first=22, last=60), members, {}, True) is not None


def test_the_last_saved_step_before_a_line() -> None:
    saves = [
        (1, "checkpoint", 10, "end"), (2, "checkpoint", 30, None), (3, "checkpoint", 20, "end"),
        (4, "restore", 90, None), (5, "checkpoint", 40, "begin"), (6, "checkpoint", None, "end"),
        (9, "checkpoint", 50, "end"),
    ]  # fmt: skip
    rows = [{"line": line, "kind": kind, "step": step, "edge": edge} for line, kind, step, edge in saves]
    tables = Tables(by_hand("milestones", rows))
    assert [last_saved(tables, "r", until) for until in (1, 2, 3, 9, 10)] == [None, 10, 30, 30, 50]


@pytest.mark.parametrize(
    ("one", "other", "same_log", "differing"),
    [
        ({"lr": "1"}, {"lr": "2"}, False, {"lr"}), ({"lr": "1"}, {"lr": "1"}, False, set()),
        ({"lr": "1"}, {"bs": "1"}, False, {"lr", "bs"}), ({"lr": "1", "bs": "2"}, {"bs": "3"}, True, {"bs"}),
    ],
)  # fmt: skip
def test_settings_in_which_runs_differ(
    one: dict[str, str], other: dict[str, str], same_log: bool, differing: set[str]
) -> None:
    """In one log, settings before the first run are not printed again."""
    assert _differing(one, other, same_log) == differing


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ('{"SLURM_JOB_ID": 4711}', "4711"),
        ('{"env.job_id": "a7"}', "a7"),
        ('{"jobs": 3}', None),
        ("{}", None),
        (None, None),
    ],
)
def test_the_id_of_a_job(config: str | None, found: str | None) -> None:
    assert job_id(config) == found


@pytest.mark.parametrize(
    ("steps", "milestones", "expected"),
    [
        ([(10, "utc"), (20, "utc")], [(5, "utc"), (30, "local")], ("utc", 5, 20)),
        ([(10, "utc"), (20, "local"), (30, "local")], [(1, "utc")], ("local", 20, 30)),  # the clock of most steps
        ([(None, None)], [(5, "local"), (8, "local")], ("local", 5, 8)),  # steps without a time
        ([], [(5, "local")], ("local", 5, 5)),
        ([(None, None)], [], (None, 0, 0)),
    ],
)
def test_the_clock_of_a_run_is_that_of_its_steps(
    steps: list[tuple[int | None, str | None]], milestones: list[tuple[int, str]], expected: tuple[Any, ...]
) -> None:
    rows = [{"step": k, "printed_ns": at, "clock": clock} for k, (at, clock) in enumerate(steps)]
    marks = [{"table": "milestones", "printed_ns": at, "clock": clock} for at, clock in milestones]
    found = extents(Tables(by_hand("steps", [*rows, *marks])))["r"]
    assert (found.clock, found.begin_ns, found.end_ns) == expected


STAMP = "2026-10-03 09:{:02}:{:02} INFO "


def epochs(first: int, last: int, at: int, step_s: float = 2.0, checkpoint: str = "/ckpt/epoch_{}") -> str:
    """Epochs of 40 steps, of which each tenth is printed; each epoch is saved at its end. `at`: the time in s."""
    lines = []
    for epoch in range(first, last + 1):
        for step in range(10, 50, 10):
            at += round(10 * step_s)
            lines.append(f"Epoch [{epoch}/9] step [{step}/40] loss: {9 - epoch - step / 100:.3f} step_time: {step_s}s")
            lines[-1] = STAMP.format(*divmod(at, 60)) + lines[-1]
        lines.append(f"{STAMP.format(*divmod(at, 60))}Saved checkpoint to {checkpoint.format(epoch)}")
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("checkpoint", ["/ckpt/epoch_{}", "/ckpt/{}.pt", "/ckpt/e{}-final"])
def test_steps_that_begin_again_in_each_epoch_are_in_the_order_of_the_job(tmp_path: Path, checkpoint: str) -> None:
    """The attempt before printed 5 epochs; the restart goes back to the end of the third."""
    start = f"{STAMP.format(0, 0)}Starting training: world_size=64 batch_size=512\n"
    again = start.replace("09:00", "09:07") + f"{STAMP.format(7, 0)}Loaded checkpoint from {checkpoint.format(3)}\n"
    log = read(start + epochs(1, 5, 0, 2.0, checkpoint) + again + epochs(4, 7, 420, 2.5, checkpoint), tmp_path)
    assert numbers(log) == [1, 2]
    tables = Tables(log)
    first, second = extents(tables).values()
    loaded = attempts(tables)[second.run]
    assert loaded.step == 3 * first.epoch + 40
    assert loaded.evidence == "it loads the checkpoint of epoch 3, step 40, which the attempt before saved"
    (found,) = perflog.metrics.goodput(log).to_dict("records")
    assert (found["steps"], found["steps_lost"], found["repeated_s"], found["down_s"]) == (280, 80, 160, 20)
    assert "1 job, 2 attempts, 280 steps (80 done again)" in repr(perflog.overview(log))
    whole = with_whole_jobs(log, tables)
    assert whole.table("steps")[["epoch", "step"]].to_numpy().tolist() == [
        [epoch, step] for epoch in range(1, 8) for step in range(10, 50, 10)
    ]
    assert whole.table("steps").step_time_s.tolist() == [2.0] * 12 + [2.5] * 16


def test_a_checkpoint_with_one_path_is_the_last_that_was_saved(tmp_path: Path) -> None:
    """The attempt before was in its sixth epoch when it failed."""
    start = f"{STAMP.format(0, 0)}Starting training: world_size=64 batch_size=512\n"
    again = start.replace("09:00", "09:08") + f"{STAMP.format(8, 0)}Loaded checkpoint from last.pt\n"
    sixth = epochs(6, 6, 400).splitlines(keepends=True)[:2]
    first = start + epochs(1, 5, 0, checkpoint="last.pt") + "".join(sixth)
    log = read(first + again + epochs(6, 8, 480, checkpoint="last.pt"), tmp_path)
    (found,) = perflog.metrics.goodput(log).to_dict("records")
    assert (found["steps"], found["steps_lost"], found["repeated_s"], found["down_s"]) == (320, 20, 40, 40)
    assert attempts(Tables(log))[log.run_keys[1].id].evidence.startswith("it loads the checkpoint of epoch 5, step 40,")


def test_epochs_that_are_printed_again_without_a_restart(tmp_path: Path) -> None:
    log = read(epochs(1, 4, 0) + epochs(3, 6, 360), tmp_path)
    table = perflog.lint(log)
    assert table[table.code == "steps-repeated"].message.tolist() == ["8 steps printed again: epochs 3, 4"]
