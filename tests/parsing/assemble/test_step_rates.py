"""Rates of steps beside a step: only of what the step counts, and only with enough digits."""

from __future__ import annotations

import numpy as np
import pytest

from perflog.formats.model import RUNNING_MEAN, Line
from perflog.formats.template import Template
from perflog.parsing.assemble.steps.step_rates import rate_of_steps, seconds_of_steps
from perflog.units import UNITS, Unit


def line(text: str, unit: str = "1/s", covers: int = 1) -> Line:
    template = Template(text)
    return Line("x", template, unit={name: UNITS[unit] for name in template.names if name != "step"}, covers=covers)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("step={step:d} steps_per_sec={steps_per_sec:.2f}", "steps_per_sec"),
        ("step={step:d} {step_s:.2f}", "step_s"), ("STEP {step:d} {Steps_per_s:.2f}", "Steps_per_s"),
        ("iteration {step:d}/9 {it_per_second:.2f}", "it_per_second"), ("Iter: {step:d} {its_s:f}", "its_s"),
        ("updates {step:d} {update_sec:f}", "update_sec"), ("batch {step:d} {batches_per_s:f}", "batches_per_s"),
        ("global_step {step:d} {steps_s:f}", "steps_s"),
        ("[{step:d}/{steps:d}] {it_per_s:f}", "it_per_s"), ("writer.py:{_:d}] [{step:d}] {it_per_s:f}", "it_per_s"),
        # of something else
        ("[{step:d}/{steps:d}] {steps_per_s:f}", None), ("epoch [{step:d}/{steps:d}] {it_per_s:f}", None),
        ("iteration {step:d} {steps_per_s:f}", None), ("step {step:d} {tokens_per_s:f}", None),
        ("epoch {step:d} {steps_per_s:f}", None), ("{step:d} {steps_per_s:f}", None), ("step {a:d} {steps_s:f}", None),
        ("step {step:d} {steps_per_min:f}", None), ("step {step:d} {steps:f}", None),
        # the first that is one
        ("step {step:d} {tokens_s:f} {steps_s:f} {step_s:f}", "steps_s"),
    ],
)  # fmt: skip
def test_the_rate_of_what_the_step_counts(text: str, rate: str | None) -> None:
    assert rate_of_steps(line(text)) == rate


def test_a_time_or_a_mean_of_all_steps_is_no_rate() -> None:
    text = "step {step:d} {steps_s:f}"
    assert rate_of_steps(line(text, "ms")) is rate_of_steps(line(text, covers=RUNNING_MEAN)) is None
    assert rate_of_steps(Line("x", Template(text))) is None


@pytest.mark.parametrize(
    ("spec", "rate", "seconds"),
    [
        (".2f", 0.5, 2.0), (".2f", 0.49, None), (".1f", 5.0, 0.2), (".1f", 4.9, None), ("d", 50, 0.02), ("d", 49, None),
        ("r", 0.01, 100.0), (".2f", 0.0, None), (".2f", -5.0, None), ("r", 0.0, None), (".2f", np.inf, None),
        (".2f", np.nan, None), ("06.1f", 10.0, 0.1),
    ],
)  # fmt: skip
def test_a_rate_of_enough_digits_gives_the_time_of_a_step(spec: str, rate: float, seconds: float | None) -> None:
    given = line(f"step {{step:d}} {{steps_s:{spec}}}")
    (found,) = seconds_of_steps(given, "steps_s", np.array([rate], np.float64)).tolist()
    assert found == (pytest.approx(seconds) if seconds else pytest.approx(np.nan, nan_ok=True))


def test_a_rate_is_in_its_unit() -> None:
    given = Line("x", Template("step {step:d} {steps_s:r}"), unit={"steps_s": Unit("1/s", 1000.0)})
    assert seconds_of_steps(given, "steps_s", np.array([2.0])).tolist() == [0.0005]
