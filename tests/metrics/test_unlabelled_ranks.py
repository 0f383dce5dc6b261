"""Ranks whose lines have no label: told from steps that are printed again, and their spread is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from support.metrics_logs import by_hand

import perflog
from perflog.log import Log
from perflog.metrics import Tables, ranks, throughput
from perflog.metrics.unlabelled_ranks import _ranks_of, printings, unlabelled_ranks

Read = Callable[[Iterable[str]], Log]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def of_lines(lines: Iterable[str]) -> Log:
        (tmp_path / "run.log").write_text("\n".join(lines) + "\n")
        return perflog.read(tmp_path / "run.log")

    return of_lines


def titan(step: int, tps: float, loss: float | None = None, label: str = "") -> str:
    return (
        f"{label}[titan] 2026-01-01 10:{step % 60:02d}:02,145 - root - INFO - step: {step:2d}  "
        f"loss:  {7 - step / 50 if loss is None else loss:.4f}  grad_norm: 46.5  memory: 66.9GiB(37.51%)  "
        f"tps: {tps:,.0f}  tflops: {tps / 32:.2f}  mfu: {tps / 718:.2f}%"
    )


def job(members: int, steps: int = 40, slow: float = 1.0, lost: float = 0.0, label: str = "") -> list[str]:
    """The last member takes `slow` times as long; some lines are lost; ranks print in any order."""
    generator = np.random.default_rng(members)
    return [
        titan(step, 10_000 * np.exp(generator.normal(0, 0.01)) / (slow if rank == members - 1 else 1), label=label)
        for step in range(1, steps + 1)
        for rank in generator.permutation(members).tolist()
        if generator.random() >= lost
    ]


def number(log: Log) -> list[int]:
    return list(unlabelled_ranks(Tables(log)).values())


def test_two_lines_of_one_step_are_two_ranks(read: Read) -> None:
    log = read([titan(5, 10_007, 7.0), titan(5, 5_007, 7.0)])
    assert number(log) == [2]
    assert "2 ranks (unlabelled) print each step" in " ".join(perflog.overview(log).reasons)
    assert "tokens/s/GPU 5007 to 10,007" in " ".join(perflog.overview(log).reasons)


@pytest.mark.parametrize("members", [2, 3, 8, 64])
@pytest.mark.parametrize("label", ["", "[rank0]:"])
def test_the_ranks_are_counted_and_the_slow_one_is_seen(read: Read, members: int, label: str) -> None:
    log = read(job(members, slow=2.0, lost=0.02 if members < 64 else 0.002, label=label))
    assert number(log) == [members]
    assert "steps-repeated" not in set(perflog.lint(log)["code"])
    assert "no-rank" in set(perflog.lint(log)["code"])
    row = ranks(log).query("figure == 'tokens_per_s'").iloc[0]
    assert row["ranks"] == members
    assert abs(row["min"] / 5_000 - 1) < 0.03
    assert abs(row["max"] / 10_000 - 1) < 0.04
    steady = throughput(log).query("part == 'steady'")
    assert abs(steady["tokens_per_s_gpu"].item() / 5_000 - 1) < 0.03  # a step takes as long as its slowest rank


def test_as_many_printings_as_ranks_need_no_equal_loss(read: Read) -> None:
    lines = [titan(step, 9_000 + 10 * step + rank, 7.0 + rank / 10) for step in range(1, 9) for rank in range(2)]
    log = read(lines)
    for world_size, expected in ((2, [2]), (4, [])):
        tables = {"runs": log.table("runs").assign(world_size=world_size), "steps": log.table("steps")}
        assert list(unlabelled_ranks(Tables(tables)).values()) == expected


def test_loss_and_time_of_a_step_in_two_lines(read: Read) -> None:
    lines = [f"Epoch 1/2, Step {k}/9, {what}" for k in range(1, 10) for what in (f"loss: 0.{k}", f"step time: 1{k} ms")]
    log = read(lines)
    assert printings(Tables(log)).tolist() == [1] * 18
    assert "steps-repeated" not in set(perflog.lint(log)["code"])
    again = read([*lines, *lines])
    assert "steps-repeated" in set(perflog.lint(again)["code"])


def test_steps_of_a_second_attempt_are_printed_again(read: Read) -> None:
    generator = np.random.default_rng(1)
    steps = [*range(1, 41), *range(1, 41)]
    log = read([titan(step, 10_000 * np.exp(generator.normal(0, 0.01))) for step in steps])
    assert number(log) == []
    assert "steps-repeated" in set(perflog.lint(log)["code"])


def test_a_line_that_is_written_twice_is_no_second_rank(read: Read) -> None:
    assert number(read(line for line in job(1) for _ in range(2))) == []


def test_lines_of_one_step_with_losses_of_their_own_are_no_ranks(read: Read) -> None:
    """They may be micro-batches."""
    log = read(titan(step, 9_000 + 10 * k + step, 7 - 0.1 * k) for step in range(1, 30) for k in range(4))
    assert number(log) == []


def test_a_step_here_and_there_is_printed_again(read: Read) -> None:
    lines = job(1)
    lines[20:20] = [titan(20, 9_500)]
    assert number(read(lines)) == []


def test_unlabelled_ranks_of_named_pods_are_counted_over_all_pods(read: Read) -> None:
    lines = [
        f"[pod/moe-{k % 2}] {line}" for step in range(40) for k, line in enumerate(job(4)[4 * step : 4 * step + 4])
    ]
    counts = {row["ranks"] for row in ranks(read(lines)).to_dict("records") if row["figure"] == "tokens_per_s"}
    assert max(counts) == 4


@pytest.mark.parametrize(
    ("sizes", "differing", "alike", "world", "found"),
    [
        ([2] * 10, 10, 10, None, 2), ([2] * 9 + [1], 10, 10, None, 2), ([2] * 8 + [1] * 2, 10, 10, None, 1),
        ([2] * 6 + [3] * 4, 10, 10, None, 2), ([2] * 5 + [3] * 5, 10, 10, None, 1), ([1] * 10, 10, 10, None, 1),
        ([2] * 10, 5, 10, None, 2), ([2] * 10, 4, 10, None, 1),
        ([2] * 10, 10, 9, None, 2), ([2] * 10, 10, 8, None, 1), ([2] * 10, 10, 0, 2, 2), ([2] * 10, 10, 0, 4, 1),
    ],
)  # fmt: skip
def test_how_many_printings_of_a_step_are_ranks(
    sizes: list[int], differing: int, alike: int, world: int | None, found: int
) -> None:
    """Nine in ten of ten steps are printed several times with one loss, six equally often, half with other speeds."""
    steps = [
        {"step": step, "loss": 2.0 + k * (step >= alike), "tokens_per_s": 100.0 + k * (step < differing)}
        for step, size in enumerate(sizes)
        for k in range(size)
    ]
    assert _ranks_of(Tables(by_hand("steps", steps)).rows("steps"), [world] if world else []) == found
