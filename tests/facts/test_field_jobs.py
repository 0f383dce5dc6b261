"""Logs of jobs of many processes: what belongs to one run, which rank printed a line, how many ranks there are."""

from __future__ import annotations

from typing import Any

import pytest
from support.reading import Reading, read

CONFIG = b"""\
[2024-03-01 10:00:00,100] [INFO] [config.py:996:print]   train_batch_size ............. 256
[2024-03-01 10:00:00,101] [INFO] [config.py:996:print]   zero_enabled ................. True
"""
START = b"""\
***** Running training *****
  Num examples = 51,760
  Num Epochs = 3
  Instantaneous batch size per device = 4
  Total train batch size (w. parallel, distributed & accumulation) = 256
  Gradient Accumulation steps = 4
  Total optimization steps = 606
  Number of trainable parameters = 20,185,088
"""
STEPS = b"".join(
    b"{'loss': %.4f, 'learning_rate': 1e-05, 'epoch': %.2f, 'step': %d}\n" % (2.5 - k / 100, k / 100, 10 * k)
    for k in (1, 2, 3)
)


def runs(log: Reading) -> list[dict[str, Any]]:
    return sorted(log.rows("runs"), key=lambda row: row["index"])


def steps_by_run(data: bytes) -> list[int]:
    log = read(data)
    return [sum(row["run"] == run["run"] for row in log.rows("steps")) for run in runs(log)]


def interleaved(text: bytes, processes: int) -> bytes:
    """The lines of `processes` processes that print the same text at the same time."""
    return b"".join(line * processes for line in text.splitlines(keepends=True))


@pytest.mark.parametrize("start", [START * 16, interleaved(START, 16), interleaved(START, 2) * 8])
def test_sixteen_processes_that_start_training_are_one_run(start: bytes) -> None:
    (run,) = runs(read(start + STEPS))
    assert '"max_steps": 606' in run["config"]
    assert steps_by_run(start + STEPS) == [3]
    assert steps_by_run(b"".join(b"[default%d]:" % k + START for k in range(8)) + STEPS) == [3]


def test_two_trainings_of_sixteen_processes_are_two_runs() -> None:
    assert steps_by_run((interleaved(START, 16) + STEPS) * 2) == [3, 3]


def test_the_configuration_of_engines_belongs_to_the_steps() -> None:
    """DeepSpeed prints its configuration for each engine, before the trainer says that it starts."""
    data = CONFIG + CONFIG.replace(b"256", b"128") + interleaved(START, 16) + STEPS
    log = read(data)
    (run,) = runs(log)
    assert '"zero_enabled": "True"' in run["config"]
    assert [row["value"] for row in log.rows("values") if row["key"] == "train_batch_size"] == [256, 128]
    assert steps_by_run(data) == [3]
    assert steps_by_run(CONFIG + START + CONFIG + STEPS) == [3]


def test_a_profile_in_the_middle_of_a_run_begins_no_run() -> None:
    """Each engine of a job prints one; the steps before and behind it are those of one run."""
    profile = b"Profile Summary at step 2:\nworld size:                                                   4       \n"
    assert steps_by_run(CONFIG + START + STEPS + profile * 2 + STEPS) == [6]
