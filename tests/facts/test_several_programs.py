"""Logs of one job in which several programs print: a framework, a library inside it, a launcher around it."""

from __future__ import annotations

from pathlib import Path

import pytest

import perflog
from perflog.formats.registry import known
from perflog.ingestion.detect import detect
from perflog.parsing.input.chunks import as_chunk

MEMORY = (
    "[2024-05-01 10:00:04,000] [INFO] [utils.py:837:see_memory_usage] "
    "MA 0.36 GB         Max_MA 0.5 GB         CA 0.37 GB         Max_CA 1.0 GB \n"
)
START = "***** Running training *****\n  Num examples = 12,800\n  Total optimization steps = 30\n"
TIMES = (
    "time (ms) | forward_microstep: {0} | backward_microstep: {1} | backward_inner_microstep: {2} "
    "| backward_allreduce_microstep: 0.05 | step_microstep: 0.92\n"
)
PATCH = "[20260507 13:07:31][rank-0/8][INFO] [--patch.py:10] : applying patch number 1\n"
ITERATION = (
    "[20260507 13:08:16][rank-7/8][DEBUG] [--utils.py:425] : [2026-05-07 13:08:16.540024] iteration        1/      10 "
    "| consumed samples:           16 | elapsed time per iteration (ms): 30497.4 | throughput per GPU (TFLOP/s/GPU): 0.3 "
    "| learning rate: 9.755283E-06 | global batch size:    16 | lm loss: 1.191332E+01 | number of skipped iterations:   0 "
    "| number of nan iterations:   0 |\n"
)


def throughput(step: int, samples: float) -> str:
    return (
        f"[2026-04-02 09:00:25,501] [INFO] [timer.py:264:stop] epoch=0/micro_step={step}/global_step={step}, "
        f"RunningAvgSamplesPerSec=51.1908, CurrSamplesPerSec={samples}, MemAllocated=21.5GB, MaxMemAllocated=40.2GB\n"
    )


def read(tmp_path: Path, text: str) -> perflog.Log:
    path = tmp_path / "job.log"
    path.write_text(text)
    return perflog.read(path)


def detected(text: str) -> list[str]:
    return [found.format.name for found in detect(as_chunk(text.encode()), known().values()).formats]


def test_all_processes_of_a_job_start_one_run(tmp_path: Path) -> None:
    """The library measures memory between the starts of four processes."""
    losses = "".join(f"{{'loss': 2.{k}, 'learning_rate': 1e-05, 'epoch': 0.{k}}}\n" for k in (1, 2, 3))
    log = read(tmp_path, MEMORY + (START + MEMORY) * 4 + losses)
    runs = log.table("runs")
    assert list(runs["format"]) == ["hf_trainer"]
    assert list(runs["joined_formats"]) == ["deepspeed"]
    assert perflog.overview(log).what.startswith("Hugging Face Trainer with DeepSpeed, 1 run")


def test_a_second_training_of_the_program_is_a_second_run(tmp_path: Path) -> None:
    loss = "{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 0.5}\n"
    assert len(read(tmp_path, MEMORY + START + loss + MEMORY + START + START + loss).table("runs")) == 2


@pytest.mark.parametrize("old", [True, False])
def test_timers_of_micro_steps_are_those_of_deepspeed(tmp_path: Path, old: bool) -> None:
    text = TIMES.format("193.65", "329.25", "329.14") + TIMES.format("203.21", "323.86", "323.81")
    text = text if old else text.replace("forward", "fwd").replace("backward", "bwd")
    assert detected(text) == ["deepspeed"]
    log = read(tmp_path, text)
    assert list(log.table("runs")["format"]) == ["deepspeed"]
    parts = perflog.overview(log).parts
    forward, backward = ("forward", "backward") if old else ("fwd", "bwd")
    assert {part.name: part.seconds for part in parts if part.seconds > 1e-3} == pytest.approx(
        {f"{forward}_microstep": 0.19843, f"{backward}_inner_microstep": 0.326475}
    )


@pytest.mark.parametrize("lines", [0, 9, 10, 300])
def test_whole_lines_behind_a_prefix_prove_their_format(tmp_path: Path, lines: int) -> None:
    text = PATCH * lines + ITERATION
    assert detected(text) == ["megatron"]
    log = read(tmp_path, text)
    assert list(log.table("runs")["format"]) == ["megatron"]
    assert list(log.table("steps")["tflops"]) == [0.3]
