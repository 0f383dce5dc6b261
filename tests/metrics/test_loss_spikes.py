"""Loss spikes: when, how high, whether the loss comes back, and healthy noisy losses, which have none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import perflog
from perflog.analysis.overview.facts.job_course import spikes
from perflog.arrays import Floats
from perflog.metrics import Tables


def healthy(number: int = 100) -> Floats:
    steps = np.arange(number, dtype=np.float64)
    return np.asarray(1.8 + 6 * (steps + 1) ** -0.6 + 0.01 * np.sin(7.0 * steps), np.float64)


def sentences(losses: Floats, path: Path, norms: Floats | None = None, every: int = 10, ranks: int = 0) -> list[str]:
    lines = [
        f"{f'[rank{rank}]: ' if ranks else ''}step {every * n} | loss {loss:.4f} | step_time 0.51s"
        + (f" | grad_norm {norms[n]:.3f}" if norms is not None else "")
        for n, loss in enumerate(losses)
        for rank in range(ranks or 1)
    ]
    (path / "run.log").write_text("\n".join([*lines, ""]))
    return list(spikes(Tables(perflog.read(path / "run.log")), {}))


@pytest.mark.parametrize("ranks", [0, 4])
def test_a_spike_that_comes_back(ranks: int, tmp_path: Path) -> None:
    losses, norms = healthy(), np.full(100, 0.9)
    losses[50:53], norms[49:52] = (8.5, 9.7, 9.1), 48
    text = "From step 500 on the loss rises from 2.45 to 9.7 (step 510) and is back after 30 steps"
    assert sentences(losses, tmp_path, ranks=ranks) == [f"{text}."]
    assert sentences(losses, tmp_path, norms, ranks=ranks) == [f"{text}; with it the gradient norm, 0.9 -> 48."]


def test_a_loss_that_does_not_come_back(tmp_path: Path) -> None:
    losses = healthy()
    losses[80:] = 9.7
    (text,) = sentences(losses, tmp_path)
    assert text.startswith("From step 800 on the loss rises from 2.27 to 9.7 and does not come back: 9.7 at step 990")
    assert perflog.diagnose(perflog.read(tmp_path / "run.log")).loss == [text]


@pytest.mark.parametrize(("last", "shown"), [(np.nan, "NaN"), (np.inf, "inf")])
def test_a_loss_that_ends_in_no_number(last: float, shown: str, tmp_path: Path) -> None:
    losses = healthy()
    losses[80:90] = 9.7
    losses[90:] = last
    (text,) = sentences(losses, tmp_path)
    assert text.endswith(f"rises from 2.27 to 9.7 and does not come back: {shown} at step 990.")
    losses[:] = last
    assert sentences(losses, tmp_path) == []


def test_the_highest_of_several_and_one_that_does_not_come_back_first(tmp_path: Path) -> None:
    losses = healthy(200)
    losses[50:60] *= 4
    losses[100:110] *= 3
    assert sentences(losses, tmp_path)[0].endswith("and is back after 100 steps; 1 more rise.")
    losses[180:] *= 3
    assert sentences(losses, tmp_path)[0].startswith("From step 1,800 on")


@pytest.mark.parametrize("losses", [healthy(), healthy()[:15], -healthy(), np.append(healthy(), [9.7, 9.7])])
def test_losses_without_a_spike(losses: Floats, tmp_path: Path) -> None:
    """Falling, few, below 0 as in reinforcement learning, and two high values."""
    assert sentences(losses, tmp_path) == []
