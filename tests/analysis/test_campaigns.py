"""Folders of real runs with known answers: each answer from one metric of the whole folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.paths import SHARED

import perflog
from perflog.metrics import curves, time_to_train

if TYPE_CHECKING:
    import pandas as pd

CAMPAIGNS = SHARED / "campaigns"
pytestmark = pytest.mark.skipif(not CAMPAIGNS.is_dir(), reason="needs the folders of runs in ../shared/campaigns")


@pytest.fixture(scope="module")
def speed_runs() -> perflog.Log:
    return perflog.read(CAMPAIGNS / "nanogpt_fp8")


def folders(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["of"] == "folder"].set_index("label")


def test_the_times_of_speed_runs_by_arm(speed_runs: perflog.Log) -> None:
    """Its authors: 80.729 s (sd 0.065) and 79.685 s (sd 0.183); slowest candidate 80.231, fastest baseline 80.610."""
    arms = folders(time_to_train(speed_runs))
    assert arms["n"].to_dict() == {"baseline": 13, "this_pr": 13}
    assert arms["time_s"].round(3).to_dict() == {"baseline": 80.729, "this_pr": 79.685}
    assert arms["sd_s"].round(3).to_dict() == {"baseline": 0.065, "this_pr": 0.183}
    assert arms.loc["baseline", "min_s"] == 80.61 and arms.loc["this_pr", "max_s"] == 80.231


def test_the_last_losses_of_speed_runs_by_arm(speed_runs: perflog.Log) -> None:
    """Its authors: 3.27825 (sd 0.00202) and 3.27837 (sd 0.00142), at step 1390 of each run."""
    table = curves(speed_runs)
    losses = table[table["key"] == "val_loss"]
    assert set(losses["last_step"]) == set(losses["equal_step"]) == {1390}
    assert (losses["last"] == losses["at_equal_step"]).all()
    arms = {run.id: run.log.split("/")[-2] for run in speed_runs.run_keys}
    of_arm = losses["last"].astype(float).groupby(losses["run"].map(arms))
    assert of_arm.mean().round(5).to_dict() == {"baseline": 3.27825, "this_pr": 3.27837}
    assert of_arm.std().round(5).to_dict() == {"baseline": 0.00202, "this_pr": 0.00142}


def test_the_scores_of_mlperf_results() -> None:
    """Median and score of ten results each, in minutes; the seed alone differs between them."""
    systems = folders(time_to_train(perflog.read(CAMPAIGNS / "mlperf_llama2_lora")))
    assert set(systems["status"]) == {"10 success"} and set(systems["differing"]) == {"seed"}
    assert (systems["median_s"] / 60).round(3).to_list() == [27.251, 20.329, 9.830]
    assert (systems["score_s"] / 60).round(3).to_list() == [27.875, 20.661, 10.151]
    assert [name.partition("_")[0] for name in systems.index] == ["MI300X", "MI325X", "MI355X"]
