"""Recordings of one run in several files, by their losses; repeats and other runs stay apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.metrics_logs import by_hand

from perflog.analysis import equal_curves as module
from perflog.analysis.equal_curves import decimals_of, equal_curves
from perflog.metrics import Tables

LOSSES = [10.123456 * (n + 1) ** -0.3 for n in range(30)]


def recording(log: str, form: str, losses: list[float] = LOSSES, first: int = 1, **more: Any) -> tuple[str, str, Any]:
    """A recording: the path of its log, its format, and rows of steps; `every`: steps from one row to the next."""
    every, time = more.get("every", 1), more.get("time")
    rows = [
        {"line": n, "step": first + every * n, "loss": loss, "step_time_s": None if time is None else time + n / 997}
        for n, loss in enumerate(losses)
    ]
    return log, form, rows


def pairs(*recordings: tuple[str, str, Any]) -> list[tuple[str, str]]:
    names = [f"{chr(97 + n)}-1" for n in range(len(recordings))]
    every = [row | {"run": run} for run, (_, _, rows) in zip(names, recordings, strict=True) for row in rows]
    frames = by_hand("steps", every)
    runs = pd.concat(
        [
            frames["runs"].assign(run=run, log=log, format=form, log_sha256=run[0])
            for run, (log, form, _) in zip(names, recordings, strict=True)
        ]
    )
    return list(equal_curves(Tables({**frames, "runs": runs})))


ROUNDED = [round(loss, 4) for loss in LOSSES]
SINGLE = [float(np.float32(loss)) for loss in LOSSES]
LOG, EVENTS = recording("job/train.log", "megatron", ROUNDED), recording("job/tb/events", "tensorboard", SINGLE)
OTHER = [loss + 0.002 for loss in LOSSES]


@pytest.mark.parametrize(
    "recordings",
    [
        (LOG, EVENTS),
        (LOG, recording("job/tb/events", "tensorboard", SINGLE, first=0)),  # it counts from 0
        (LOG, recording("job/tb/events", "tensorboard", SINGLE, every=50)),  # it counts otherwise
        (LOG, recording("job/tb/events", "tensorboard", SINGLE[:12])),
        (recording("job/a.wandb", "wandb"), recording("job/files/summary.json", "jsonl", LOSSES[-1:], first=30)),
        (recording("job/a.wandb", "wandb"), recording("job/files/summary.json", "jsonl", LOSSES[1:2], first=2)),
        (recording("train.log", "megatron", ROUNDED), recording("tb/events", "tensorboard", SINGLE)),
        (recording("job/a.log", "x", ROUNDED[:12]), recording("job/b.csv", "y", SINGLE[:12], every=50)),
        (recording("job/a.log", "x", ROUNDED[:24]), recording("job/b.csv", "y", SINGLE[:12], every=50)),
        (recording("job/checkpoint-15/s.json", "jsonl", ROUNDED[:15]), recording("job/checkpoint-30/s.json", "jsonl")),
        (recording("job/out.log", "llmc", time=1.5), recording("job/wandb/output.log", "llmc", time=1.5)),  # a copy
    ],
)
def test_recordings_of_one_run(recordings: tuple[Any, Any]) -> None:
    assert pairs(*recordings) == [("a-1", "b-1")]


@pytest.mark.parametrize(
    "recordings",
    [
        (LOG, recording("job/tb/events", "tensorboard", OTHER)),
        (LOG, recording("job/b.log", "torchtitan")),  # two programs
        (recording("a.log", "x", ROUNDED, time=0.9), recording("b.csv", "csv", time=0.7)),  # a faster run
        (LOG, recording("job/b.log", "megatron", ROUNDED)),  # a repeat with the same seed
        (recording("job/a.log", "llmc", time=1.5), recording("job/below/b.log", "llmc", time=1.51)),
        (recording("job/a.log", "llmc", time=1.5), recording("job/b.log", "llmc", time=1.5)),
        (recording("a.log", "x", [0.69315]), recording("b.log", "y", [0.69315], first=0)),  # ln 2
        (recording("a.log", "x", [2.5, 2.4]), recording("b.log", "y", [2.5, 2.4])),  # few digits
        (recording("a.log", "x", [2.5] * 30), recording("b.log", "y", [2.5] * 30)),
        (recording("job/a.log", "x", ROUNDED[:25]), recording("job/b.csv", "y", SINGLE[:12], every=50)),  # a half
        (LOG, recording("job/tb/events", "tensorboard", SINGLE[:20] + OTHER[20:], every=50)),  # from a checkpoint
        (LOG, recording("job/evals", "csv", ROUNDED[::3], first=900)),  # a tenth of the losses somewhere in it
    ],
)
def test_other_runs(recordings: tuple[Any, Any]) -> None:
    assert pairs(*recordings) == []


def test_of_repeats_with_one_seed_the_nearest_recordings_belong_together() -> None:
    repeats = [
        (recording(f"{name}/train.log", "megatron", ROUNDED), recording(f"{name}/tb/events", "tensorboard", SINGLE))
        for name in ("one", "two")
    ]
    assert pairs(*repeats[0], *repeats[1]) == [("a-1", "b-1"), ("c-1", "d-1")]
    beside = [recording(f"{name}.log", "megatron", ROUNDED) for name in ("one", "two")]
    assert pairs(*beside, *(events for _, events in repeats)) == []  # nothing shows which belong together


@pytest.mark.parametrize(
    ("value", "digits", "decimals"),
    [
        (2.25, 7, 2),
        (12.0, 7, 0),
        (1.234e-05, 7, 8),
        (5e-05, 7, 5),
        (2.123456789, 7, 6),
        (2.123456789, 4, 3),
        (1e20, 7, 0),
    ],
)
def test_decimals_of_a_rounded_number(value: float, digits: int, decimals: int) -> None:
    assert decimals_of(value, digits) == decimals


def test_recordings_that_share_no_losses_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[str, str]] = []
    are_equal = module._are_equal

    def noted(one: Any, other: Any) -> bool:
        compared.append((one.run, other.run))
        return are_equal(one, other)

    monkeypatch.setattr(module, "_are_equal", noted)
    curves = [[10 - k - loss for loss in LOSSES] for k in np.arange(0.0, 6.0, 0.5).tolist()]
    logs = [recording(f"job/{n}.log", "megatron", [round(x, 3 + n % 2) for x in each]) for n, each in enumerate(curves)]
    tables = [recording(f"job/{n}.csv", "csv", each) for n, each in enumerate(curves)]
    found = pairs(*logs, *tables)
    assert found == [(f"{chr(97 + n)}-1", f"{chr(97 + n + len(logs))}-1") for n in range(len(logs))]
    assert len(compared) < 2 * len(logs)
