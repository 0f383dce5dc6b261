"""Sentences on reinforcement learning: levels of reward, entropy and length, and programs of one job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.metrics_logs import by_hand

import perflog
from perflog.analysis.overview.facts.reward_facts import rewards
from perflog.metrics import Options, Tables


def series(key: str, *values: float) -> list[dict[str, Any]]:
    return [
        {"table": "values", "key": key, "value": value, "step": step, "line": step, "part": 0}
        for step, value in enumerate(values)
    ]


def told(*rows: dict[str, Any]) -> list[str]:
    return list(rewards(Tables(by_hand("values", rows)), "r", Options()))


RISING = [k / 100 for k in range(40)]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (RISING, "0.015 -> 0.375"),
        ([*RISING, *[0.01] * 10], "0.02 -> 0.01, after 0.37 at steps 35 to 39"),
        ([0.5, 0.51] * 20, "0.505"),
        ([*[1.0] * 20, *[0.25] * 20], "1 -> 0.25"),  # it was never higher
        ([*[0.0] * 10, *[1.0] * 10, *[0.5] * 10], "0 -> 0.5"),  # half of the way
        ([*[0.0] * 10, *[1.0] * 10, *[0.25] * 10], "0 -> 0.25, after 1 at steps 9 to 11"),
        ([*[1.0] * 10, *[1.25] * 10, *[1.0] * 10], "1"),  # little of its height
        ([2000.0] * 10 + [3080.0] * 10, "2,000 -> 3,080"),
    ],
)
def test_the_course_of_the_reward(values: list[float], text: str) -> None:
    assert told(*series("reward", *values)) == [f"First and last tenth of the steps: reward {text}."]


def test_entropy_and_length_come_with_the_reward() -> None:
    rows = [
        *series("critic_rewards_mean", *[9.0] * 20), *series("critic_score_mean", *[1.0] * 20),
        *series("actor_entropy", *[0.3] * 20), *series("response_length_mean", *[700.0] * 20),
    ]  # fmt: skip
    (text,) = told(*rows)
    assert text.endswith(": critic_score_mean 1; actor_entropy 0.3; response_length_mean 700.")
    assert told(*rows[40:]) == [] == told(*series("reward", *[1.0] * 19)) == told(*series("reward_std", *[1.0] * 20))


def test_means_that_are_called_averages() -> None:
    (text,) = told(*series("kl_rewards_avg", *[0.0] * 20), *series("task_reward_avg", *[2.0] * 20))
    assert text.endswith(": task_reward_avg 2.")


TRAINER = (
    "07:{minute:02d}:52 SUCCESS Step {step} | Time: 60.0{step}s | Loss: 0.0021 | Entropy: 0.2105 | Grad. Norm: 0.068 | "
    "LR: 1.00e-06 | Throughput: 5754 tokens/s | MFU: 31.5% | Peak Mem.: 61.4 GiB"
)
ORCHESTRATOR = (
    "07:{minute:02d}:50 SUCCESS Step {step} | Time: 60.3{step}s | Reward: 0.3887 | Throughput: 5758.9 tokens/s | "
    "Seq. Length: 345.6 tokens/sample | Async Level: 1 | Max. Off-Policy Level: 0"
)


def test_programs_that_run_together_are_not_compared(tmp_path: Path) -> None:
    for name, line in (("trainer", TRAINER), ("orchestrator", ORCHESTRATOR)):
        lines = [line.format(step=step, minute=step + 10) for step in range(9)]
        (tmp_path / f"{name}.log").write_text("\n".join([*lines, ""]))
    overview = perflog.overview(perflog.read(tmp_path))
    assert len(overview.groups) == 2 and not overview.base
