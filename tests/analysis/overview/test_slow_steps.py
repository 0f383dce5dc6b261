"""Steps that take far longer than the median: how many, how often, and which part of them on which rank."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.metrics_logs import by_hand

from perflog.analysis.overview.facts import slow_steps as module
from perflog.metrics import Options, Tables
from perflog.metrics.causes.cause import Cause


@pytest.fixture
def causes(monkeypatch: pytest.MonkeyPatch) -> Any:
    def replaced(*found: Any) -> None:
        monkeypatch.setattr(module, "causes_by_run", lambda *_: {"r": list(found)})

    return replaced


def cause(subject: str, **more: Any) -> Any:
    usual = dict.fromkeys(Cause.__struct_fields__) | {"subject": subject, "may_bind": True}
    return SimpleNamespace(**(usual | more))


def said(*rows: dict[str, Any]) -> list[str]:
    """What is said of a log with these rows, each with the name of its table."""
    return list(module.slow_steps(Tables(by_hand("steps", rows)), "r", Options()))


TIMES = [1.0] * 20 + [3.0, 9.1234, 5.0, 1.0]
THREE = "3 of 24 steady steps take over twice the median"
STEPS = [{"step": 10 * n + 10, "step_time_s": time} for n, time in enumerate(TIMES)]


@pytest.mark.parametrize(
    ("of", "text"),
    [
        ({"gain": 0.03, "n": 3}, None),
        ({"gain": 0.25, "n": 3}, f"{THREE} and cost 25 % of the time; "),
        ({"gain": 0.25, "n": 1}, "1 of 24 steady steps takes over twice the median and costs 25 % of the time; "),
        (
            {"gain": 0.25, "n": 3, "gain_s": 14.0, "may_bind": False},
            f"{THREE}, by 14 s together, 25 % of the printed time (24 of 231 steps are printed); ",
        ),
    ],
)
def test_steps_that_take_far_longer(causes: Any, of: dict[str, Any], text: str | None) -> None:
    causes(cause("other"), cause("slow steps", **of))
    assert said(*STEPS) == ([f"{text}the longest is step 220 with 9.12 s."] if text else [])
    assert said() == []


def test_of_means_over_several_steps_the_longest_is_no_step(causes: Any) -> None:
    causes(cause("slow steps", gain=0.25, n=3))
    text = "3 of 24 means of 10 steps are 10 % and more above the median and cost 25 % of the time"
    found = said(*(row | {"steps_averaged": 10} for row in STEPS))
    assert found == [f"{text}; the longest is 9.12 s up to step 220."]


def test_slow_steps_have_a_period_and_a_part_that_takes_the_time(causes: Any) -> None:
    causes(cause("slow steps", gain=0.25, n=3))
    rows = [{"step": n, "step_time_s": 5.0 if n % 8 == 0 else 1.0} for n in range(1, 29)]
    load = [{"table": "values", "step": row["step"], "key": "data_time", "unit": "s",
             "value": 3.8 if row["step"] % 8 == 0 else 0.2} for row in rows]  # fmt: skip
    clocks = [{"table": "values", "step": row["step"], "key": key, "unit": "s", "value": 2.0 * row["step"]}
              for key in ("since_start", "elapsed") for row in rows]  # fmt: skip
    assert said(*rows, *load, *clocks)[1:] == [
        "One of these comes every 8 steps, the first at step 8.",
        "90 % of the extra time is data_time: 3.8 s in them instead of 200 ms.",
    ]
    assert said(*rows)[2:] == []
    of_bar = [{**row, "key": "smoothed_s_per_it"} for row in load]  # the same time once more, no part of it
    assert said(*rows, *of_bar)[2:] == []


@pytest.mark.parametrize(
    ("slow", "every", "text"),
    [
        ([4, 8, 12], 1, "One of these comes every 4 steps, the first at step 4."),
        ([4, 8], 1, None),  # fewer show no period
        ([4, 8, 13], 1, None),
        ([2, 4, 6], 1, "One of these comes every 2 steps, the first at step 2."),
        ([4, 6, 8], 2, None),  # each printed step is slow
    ],
)
def test_slow_steps_that_come_again_and_again(slow: list[int], every: int, text: str | None) -> None:
    steps = np.arange(0, 20, every)
    assert list(module._period(steps, np.isin(steps, slow))) == ([text] if text else [])
