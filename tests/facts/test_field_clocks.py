"""Clocks and windows of real programs: totals of campaigns with known answers, and runs that were resumed."""

from __future__ import annotations

import json
import statistics
from functools import cache

import pytest
from support.paths import SHARED
from support.reading import Reading, read

import perflog

CAMPAIGNS = SHARED / "campaigns"
needs_campaigns = pytest.mark.skipif(not CAMPAIGNS.is_dir(), reason="needs the real logs in ../shared/campaigns")

EVENT = (
    '{"namespace": "", "time_ms": %d, "event_type": "INTERVAL_%s", "key": "%s", "value": null, '
    '"metadata": {"lineno": 3}}'
)


@cache
def readings(pattern: str) -> tuple[Reading, ...]:
    """The logs of a campaign that match, read."""
    return tuple(read(path.read_bytes()) for path in sorted(CAMPAIGNS.glob(pattern)))


def totals(pattern: str) -> list[float]:
    """The last reading of the clock of each run, in seconds."""
    return [float(run["elapsed_s"]) for reading in readings(pattern) for run in reading.rows("runs")]


@needs_campaigns
@pytest.mark.parametrize(("system", "minutes"), [("MI300X", 27.251), ("MI325X", 20.329), ("MI355X", 9.830)])
def test_the_time_to_train_of_mlperf(system: str, minutes: float) -> None:
    found = totals(f"mlperf_llama2_lora/{system}*/*.txt")
    assert len(found) == 10
    assert round(statistics.median(found) / 60, 3) == minutes


@needs_campaigns
@pytest.mark.parametrize(("arm", "mean", "spread"), [("baseline", 80.729, 0.065), ("this_pr", 79.685, 0.183)])
def test_the_time_of_speed_runs(arm: str, mean: float, spread: float) -> None:
    found = totals(f"nanogpt_fp8/{arm}/*.txt")
    assert len(found) == 13
    assert (round(statistics.mean(found), 3), round(statistics.stdev(found), 3)) == (mean, spread)


@needs_campaigns
def test_the_step_times_of_a_speed_run_add_up_to_its_last_step_line() -> None:
    log = perflog.read(min(CAMPAIGNS.glob("nanogpt_fp8/baseline/*.txt")))
    steps = log.table("steps")
    assert steps["step_time_s"].sum() == pytest.approx(float(steps["elapsed_s"].iloc[-1]), abs=1e-9)
    assert steps["step_time_s"].notna().all()


@needs_campaigns
def test_the_source_and_the_nvidia_smi_of_speed_runs_are_known_lines() -> None:
    runs = [*readings("nanogpt_fp8/baseline/*.txt"), *readings("nanogpt_fp8/this_pr/*.txt")]
    assert len(runs) == 26
    accounts = {tuple(reading.done.figures.values()) for reading in runs}
    assert accounts == {(5710, 5663, 47, 0)}  # total, stored, dropped, unread
    assert {(x.done.lines["read"], x.done.lines["unread"]) for x in runs} == {(1418, 0)}
    assert {len(x.rows("counters")) for x in runs} == {48}  # six of each of eight GPUs
    counts = {tuple(len(x.rows(table)) for table in ("steps", "values", "summaries")) for x in runs}
    assert counts == {(1390, 1411, 2)}
    config = json.loads(runs[0].rows("runs")[0]["config"])
    assert (config["python_version"], config["torch_version"]) == ("3.12.3", "2.10.0+cu128")
    assert (config["cuda_version"], config["triton_version"]) == ("12.8", "3.6.0")


def test_a_start_that_each_process_prints_is_the_first_of_them() -> None:
    events = [(1000, "START", "run_start"), (1250, "START", "run_start"), (61000, "END", "run_stop")]
    data = "".join(f":::MLLOG {EVENT % event}\n" for event in events)
    (run,) = read(data.encode()).rows("runs")
    assert (run["elapsed_s"], run["elapsed_from"], run["elapsed_line"]) == (60.0, 1, 3)


def test_a_resumed_run_of_megatron_does_not_count_from_1() -> None:
    line = (
        " iteration %8d/  320000 | elapsed time per iteration (ms): 500.0 | learning rate 9.375E-05 | lm loss 2.5E+00 "
        "| loss scale 1.0 |\n"
    )
    for first, interval in ((31215, 1), (31220, 10)):
        data = "".join(line % (first + interval * k) for k in range(4)).encode()
        assert [row["steps_averaged"] for row in read(data).rows("steps")] == [interval] * 4


def test_epochs_and_iterations_of_dllogger_have_one_order() -> None:
    line = "DLL 2021-02-01 10:00:0%d.000000 - Epoch: %d Iteration: %d  train.loss : 6.9 \n"
    data = "".join(line % (k, epoch, step) for k, (epoch, step) in enumerate(((1, 10), (1, 20), (2, 10), (2, 20))))
    found = [(row["epoch"], row["step"], row["copy"]) for row in read(data.encode()).rows("steps")]
    assert found == [(1, 10, 1), (1, 20, 1), (2, 10, 1), (2, 20, 1)]


def test_an_epoch_that_is_a_dash_is_none() -> None:
    line = 'DLLL {"timestamp": "1587.%d", "elapsedtime": "1", "type": "LOG", "step": [%s, %d], "data": {"loss": 2.5}}\n'
    data = "".join(line % (k, epoch, 1561 + k) for k, epoch in enumerate(("-", "0", "0")))
    found = [(row["epoch"], row["step"]) for row in read(data.encode()).rows("steps")]
    assert found == [(None, 1561), (0, 1562), (0, 1563)]
