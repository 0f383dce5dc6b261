"""Drifts of the speed: which runs have one, and what the overview says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.metrics_logs import by_hand

from perflog.analysis.overview.facts.job_course import drifts
from perflog.metrics import Options, Tables
from perflog.metrics.jobs.step_drifts import run_drifts

SLOWER = 1 + 0.25 * np.arange(100) / 99  # the tenths are 0.025 apart, and their medians 1.0114 to 1.2386
JITTER = 1 + 0.01 * np.random.default_rng(1).normal(size=100)


def tables(times: Any, column: str = "step_time_s") -> Tables:
    return Tables(by_hand("steps", [{"step": k, column: float(t)} for k, t in enumerate(times, 1)]))


@pytest.mark.parametrize(
    ("times", "is_found"),
    [
        (SLOWER, True),
        (SLOWER[::-1], True),
        (SLOWER * JITTER, True),
        (1 + (SLOWER - 1) / 6, False),  # 4 % in all
        (JITTER, False),
        (np.where(np.arange(100) < 50, 1.0, 1.3) * JITTER, False),  # two levels
        (1 + 0.2 * np.sin(np.arange(100) / 16), False),  # up and down
        (SLOWER[::3], False),  # too few
    ],
    ids=["slower", "faster", "noisy", "little", "steady", "levels", "up and down", "few"],
)
def test_which_runs_drift(times: Any, is_found: bool) -> None:
    assert bool(run_drifts(tables(times))) == is_found


def test_what_the_overview_says() -> None:
    (text,) = drifts(tables(SLOWER), Options(), {"r": "A: "})
    assert text == (
        "A: The step takes longer and longer: 1.011 s in the first tenth of the steps, 1.239 s in the last, +22.5 %."
    )
    (text,) = drifts(tables(1000 / SLOWER, "tokens_per_s"), Options(), {})
    assert text == ("tokens/s falls steadily: 988.77 in the first tenth of the steps, 807.34 in the last, -18.3 %.")


def test_the_phase_that_drifts_with_it() -> None:
    rows = [{"step": k, "step_time_s": t} for k, t in enumerate(SLOWER.tolist(), 1)]
    phases = [
        {"table": "phases", "step": k, "phase": "data", "time_s": t - 0.5} for k, t in enumerate(SLOWER.tolist(), 1)
    ]
    lines = [row | {"line": row["step"]} for row in (*rows, *phases)]
    (text,) = drifts(Tables(by_hand("steps", lines)), Options(), {})
    assert text.endswith("+22.5 %; with it data 561.9 ms -> 688.1 ms from the first half to the second.")
