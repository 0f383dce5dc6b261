"""Metric `scaling_losses`: what the efficiency that is lost on more GPUs is spent on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from support.commands import run

import perflog
from perflog.metrics import scaling, scaling_losses

HEAD = """using world size: {gpus}, data-parallel-size: {gpus}, tensor-model-parallel size: 1, \
pipeline-model-parallel size: 1
------------------------ arguments ------------------------
  global_batch_size ............................... {batch}
  hidden_size ..................................... 768
  seq_length ...................................... 2048
  train_iters ..................................... 30
-------------------- end of arguments ---------------------
"""
STEP = """ iteration {step:8d}/      30 | consumed samples: {samples:12d} | \
elapsed time per iteration (ms): {time:.1f} | learning rate: 1.0E-04 | global batch size: {batch:5d} | \
lm loss: 9.0E+00 | loss scale: 1.0 |
"""


def log(path: Path, gpus: int, batch: int, step_ms: float, timers: Mapping[str, float]) -> None:
    """A log of Megatron with its timers in ms; without timers only its step lines."""
    lines = [HEAD.format(gpus=gpus, batch=batch)]
    for step in range(1, 31):
        lines.append(STEP.format(step=step, samples=step * batch, time=step_ms, batch=batch))
        if timers:
            lines.append("time (ms) | " + " | ".join(f"{name}: {time:.2f}" for name, time in timers.items()) + "\n")
    path.write_text("".join(lines))


def study(folder: Path, is_strong: bool) -> str:
    """Runs on 1, 2, 4 and 8 GPUs. Communication grows with the GPUs; 20 ms of the step are untimed.

    Strong scaling divides the work; the optimizer takes as long on each size.
    """
    folder.mkdir()
    for gpus in (1, 2, 4, 8):
        work = 800.0 / gpus if is_strong else 800.0
        communication = 25.0 * (gpus - 1)
        timers = {"forward-compute": work / 4, "backward-compute": work * 3 / 4}
        timers |= {"backward-params-all-reduce": communication, "optimizer": 40.0}
        batch = 256 if is_strong else 32 * gpus
        log(folder / f"{gpus}.log", gpus, batch, work + communication + 40 + 20, timers)
    return str(folder)


def test_losses_of_weak_scaling(tmp_path: Path) -> None:
    rows = scaling_losses(perflog.find_runs(study(tmp_path / "weak", is_strong=False)))
    at8 = rows[rows["gpus"] == 8].set_index(["bar", "part"])["lost"]
    assert at8["communication", "backward_params_all_reduce"] == pytest.approx(175 / 1035, rel=1e-3)
    others = at8.drop(("communication", "backward_params_all_reduce"))
    assert others.abs().max() < 1e-9
    assert set(rows["mode"]) == {"weak"}


def test_losses_of_strong_scaling(tmp_path: Path) -> None:
    """Work costs the same GPU time on each size; what each step costs whatever its size is paid by each GPU."""
    logs = perflog.find_runs(study(tmp_path / "strong", is_strong=True))
    rows = scaling_losses(logs)
    at8 = rows[rows["gpus"] == 8].groupby("bar")["lost"].sum()
    step = 100 + 175 + 40 + 20
    assert at8["communication"] == pytest.approx(175 / step, rel=1e-3)
    assert at8["unattributed"] == pytest.approx((20 - 20 / 8) / step, rel=1e-3)
    assert at8["mixed"] == pytest.approx((40 - 40 / 8) / step, rel=1e-3)  # the optimizer
    assert at8.sum() == pytest.approx(1 - 860 / 8 / step, rel=1e-3)


@pytest.mark.parametrize("is_strong", [True, False])
def test_losses_add_up_to_what_is_lost(tmp_path: Path, is_strong: bool) -> None:
    logs = perflog.find_runs(study(tmp_path / "study", is_strong))
    efficiencies = scaling(logs)
    measured = efficiencies[efficiencies["of"] == "measured"].set_index("gpus")["efficiency"]
    rows = scaling_losses(logs)
    lost = rows.groupby("gpus")["lost"].sum()
    for gpus in (1, 2, 4, 8):
        assert lost[gpus] == pytest.approx(1 - measured[gpus], abs=1e-9)
        assert (rows.loc[rows["gpus"] == gpus, "efficiency"] == measured[gpus]).all()


def test_a_size_whose_steps_nobody_divides_leaves_the_study_without_rows(tmp_path: Path) -> None:
    folder = study(tmp_path / "weak", is_strong=False)
    log(tmp_path / "weak" / "8.log", 8, 256, 1035.0, {})
    logs = perflog.find_runs(folder)
    assert not scaling(logs).empty
    assert scaling_losses(logs).empty


def test_the_screen_names_what_is_lost(tmp_path: Path) -> None:
    screen = " ".join(run("overview", study(tmp_path / "strong", is_strong=True)).stdout.split())
    assert "Of the 68 % lost on 8 GPUs: 52 % communication, 10 % optimizer" in screen
