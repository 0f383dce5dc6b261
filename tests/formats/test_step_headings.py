"""Headings of a step: the figures in the lines below them are those of the step."""

from __future__ import annotations

import pytest
from support.reading import read

from perflog.formats.families.step_headings import EPOCH, heading_text


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("Step 1:", "Step {step:d}:"),
        ("  === Iteration 5/100 ===", "  === Iteration {step:d}/{__:d} ==="),
        ("[step 0012]", "[step {step:04d}]"),
        ("Step 1: install", None),
        ("step 5 of the guide", None),
        ("Epoch 5:", None),
    ],
)
def test_a_heading_has_a_step_alone(text: str, template: str | None) -> None:
    assert heading_text(text) == template


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ("Epoch 1/3", "Epoch {epoch:d}/{epochs:d}"),
        ("--- epoch 1 of 3 ---", "--- epoch {epoch:d} of {epochs:d} ---"),
        ("Starting training epoch 4", "Starting training epoch {epoch:d}"),
        ("Epoch [1/2]", "Epoch [{epoch:d}/{epochs:d}]"),
        ("Step 5:", None),
        ("Epoch 1/3 loss 2.5", None),
        ("Epoch 1 done", None),
    ],
)
def test_a_heading_has_an_epoch_alone(text: str, template: str | None) -> None:
    assert heading_text(text, EPOCH) == template


@pytest.mark.parametrize(
    ("heading", "step"),
    [
        ("Epoch {}/2", "[{:3d}/200] loss: 2.5 acc: 0.11 41.5 it/s"),
        ("--- epoch {} of 2 ---", "  batch {:3d}/200  loss 2.5  41.5 batches/s"),
    ],
)
def test_steps_below_the_heading_of_an_epoch_begin_again_in_it(heading: str, step: str) -> None:
    lines = [text for epoch in (1, 2) for text in (heading.format(epoch), step.format(90), step.format(100))]
    got = read("\n".join([*lines, ""]).encode())
    rows = [(row["epoch"], row["step"], row["copy"], row["loss"], row["step_time_by"]) for row in got.rows("steps")]
    assert rows == [(epoch, step, 1, 2.5, "rate") for epoch in (1, 2) for step in (90, 100)]
    assert {x["key"]: x["value"] for x in got.rows("values")}.keys() <= {"acc", "it_per_s", "batches_per_s"}


def test_figures_below_a_heading_are_of_its_step() -> None:
    """Those of the whole run, and those without a unit where a column has one, are not."""
    step = "Step {}:\n  train loss: 2.5\n  time per iteration: 400.0 ms\n  tokens/s: 120\n"
    got = read((step.format(1) + step.format(2) + "Average throughput: 118.5 tokens/s\n").encode())
    names = ("step", "loss", "step_time_s", "tokens_per_s")
    assert [tuple(row[name] for name in names) for row in got.rows("steps")] == [(1, 2.5, 0.4, 120), (2, 2.5, 0.4, 120)]
    assert [row["step"] for row in got.rows("values") if row["key"].startswith("Average")] == [None]
    got = read(
        b"Step 1:\nloss: 2.5\nstep time: 400\ntokens/s: 120\nStep 2:\nloss: 2.5\nstep time: 400\ntokens/s: 120\n"
    )
    assert [(row["step"], row["step_time_s"]) for row in got.rows("steps")] == [(1, None), (2, None)]
