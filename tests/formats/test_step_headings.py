"""Headings of a step: the figures in the lines below them are those of the step."""

from __future__ import annotations

import pytest
from support.reading import read

from perflog.formats.families.step_headings import heading_text


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
