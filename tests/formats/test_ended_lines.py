"""Lines that a step or an epoch has ended, with its time; means over a range of steps; a loss without a step."""

from __future__ import annotations

import re

import pytest
from support.reading import read

from perflog.formats.families.ended_lines import PATTERNS, ended_parts
from perflog.formats.families.measured_lines import PAIRS_ALONE
from perflog.formats.families.step_headings import EPOCH, STEP


@pytest.mark.parametrize(
    ("text", "what", "shape", "factor"),
    [
        ("Iteration 10 completed in 512 ms", STEP, "Iteration {step:d} completed in {step_time:.0f} ms", 1e-3),
        ("step 007/100 done (took 1.25s)", STEP, "step {step:03d}/{__:d} done (took {step_time:.2f}s)", 1),
        ("Step 5 took 1.5 sec", STEP, "Step {step:d} took {step_time:.1f} sec", 1),
        ("Iter 2/9 END: OK (elapsed 2 s)", STEP, "Iter {step:d}/{__:d} END: OK (elapsed {elapsed:.0f} s)", 1),
        ("step 3 done in 2 s  <- slow", STEP, "step {step:d} done in {step_time:.0f} s{_:b}<-{_:s}", 1),
        ("Epoch 3/10 finished in 56.8s", EPOCH, "Epoch {epoch:d}/{__:d} finished in {epoch_time:.1f}s", 1),
        ("Epoch 3 took 2.5 min", EPOCH, "Epoch {epoch:d} took {epoch_time:.1f} min", 60),
        ("epoch 2 of 3 completed in 1m 12s", EPOCH, "epoch {epoch:d} of {__:d} completed in {epoch_time:h}", None),
        ("Training finished in 56.8s", EPOCH, "Training finished in {training_time:.1f}s", 1),
        ("Completed training in 1h 6m 9s!", EPOCH, "Completed training in {training_time:h}!", None),
        ("Done with epoch 3 in 12.5 seconds.", EPOCH, "Done with epoch {epoch:d} in {epoch_time:.1f} seconds.", 1),
    ],
)  # fmt: skip
def test_what_ends_and_its_time(text: str, what: str, shape: str, factor: float | None) -> None:
    assert re.fullmatch(PATTERNS[what], text)
    parts = ended_parts(text, what)
    assert parts is not None
    assert parts[1] == shape
    assert [unit.factor for unit in parts[3].values()] == ([] if factor is None else [factor])


@pytest.mark.parametrize(
    "text",
    [
        "Checkpoint of step 500 completed in 3.2 s", "Evaluation at step 5 finished in 12 s",
        "step 5 of the guide took a day", "Epoch 3 done", "Step 3 done, loss 2.5",
        "Our training finished in 56.8s", "Training of the tokenizer took 5 s", "step 5 took 3 tries",
    ],
)  # fmt: skip
def test_other_lines_have_no_end(text: str) -> None:
    assert not any(re.fullmatch(pattern, text) for pattern in PATTERNS.values())


@pytest.mark.parametrize(
    ("text", "are_pairs"),
    [
        ("2026-01-02 10:00:00,123 - train - INFO - rl_loss: -0.0027, time: 109.08, l2_norm: 0.14", True),
        ("train_loss=2.31 grad_norm=0.5 lr=1e-4", True),
        ("Test set: Average loss: 0.05, Accuracy: 98%", True),
        ("Loss: 2.31 | Acc: 51.2% | LR: 0.001", True),
        ("loss: 2.31", False),
        ("We saw a loss: 2.31, and a norm of 0.5", False),
        ("loss: 2.31, lr: 0.1, as in the paper", False),
    ],
)
def test_lines_of_pairs_alone(text: str, are_pairs: bool) -> None:
    assert bool(re.fullmatch(PAIRS_ALONE, text)) == are_pairs


def test_ranges_of_steps_have_their_last_step() -> None:
    rows = read(b"steps 1-20: 0.51 s/step\nsteps 21-40: 0.49 s/step\n").rows("steps")
    got = [(row["step"], row["steps_averaged"], row["step_time_s"]) for row in rows]
    assert got == [(20, 20, 0.51), (40, 20, 0.49)]


def test_a_speed_without_a_unit_is_read_beside_measured_lines() -> None:
    rows = read(b"Ref latency: 1.86\nRef TFLOPS: 51.5\nLatency limit: 12.5\nLatency: 3\n").rows("values")
    found = {row["key"]: (row["value"], row["unit"]) for row in rows}
    assert found == {"Ref_latency": (1.86, None), "Ref_TFLOPS": (51.5, "TFLOP/s")}


def test_a_rank_and_its_time_are_of_the_title_above() -> None:
    log = read(b"Testing AllReduce with 128 elements\nRank 0: 0.125 ms.\nRank 1: 0.25 ms.\nRank 1: 15 s timeout\n")
    rows = [row for row in log.rows("values") if row["key"] != "subtitle"]
    assert [(row["rank"], row["key"], row["value"]) for row in rows] == [
        (0, "time", pytest.approx(0.000125)), (1, "time", pytest.approx(0.00025)),
    ]  # fmt: skip
