"""Folders of real runs with known answers: each answer from one metric of the whole folder."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.brief_answers import checked_lines
from support.paths import SHARED

import perflog
from perflog.analysis.compare import aa
from perflog.analysis.overview import overview
from perflog.metrics import collectives, curves, node_pairs, time_to_train
from perflog.output.presenters.brief import overview_brief
from perflog.output.presenters.compare_notes import notes_on_result

if TYPE_CHECKING:
    import pandas as pd

CAMPAIGNS = SHARED / "campaigns"
pytestmark = pytest.mark.skipif(not CAMPAIGNS.is_dir(), reason="needs the folders of runs in ../shared/campaigns")


@pytest.fixture(scope="module")
def speed_runs() -> perflog.Log:
    return perflog.read(CAMPAIGNS / "nanogpt_fp8")


@pytest.fixture(scope="module")
def pairs_of_nodes() -> perflog.Log:
    return perflog.read(CAMPAIGNS / "nccl_pairs" / "logs")


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


def test_a_folder_of_repeats_is_a_row_for_each_arm(speed_runs: perflog.Log) -> None:
    """13 runs each; the clock's last readings are the record's own figures: 80.729 s (sd 0.065), 79.685 s (0.183)."""
    seen = overview(speed_runs, "nanogpt_fp8")
    assert [(group.name, len(group.runs)) for group in seen.groups] == [("baseline", 13), ("this_pr", 13)]
    total = seen.figures[0]
    assert total.name == "total"
    assert [round(seen.value(total, group) or 0, 3) for group in seen.groups] == [80.729, 79.685]
    spreads = [(seen.spread(total, group) or 0) * (seen.value(total, group) or 0) for group in seen.groups]
    assert [round(spread, 3) for spread in spreads] == [0.065, 0.183]
    assert seen.next[0] == "perflog compare nanogpt_fp8/baseline nanogpt_fp8/this_pr"
    checked_lines("\n".join(overview_brief(seen)))


def of_arms(speed_runs: perflog.Log, most: int = 13) -> list[perflog.Log]:
    """The runs of both arms, the first ones of each."""
    folders = [[run for run in speed_runs.run_keys if arm in run.log] for arm in ("baseline", "this_pr")]
    return [speed_runs.select(*runs[:most]) for runs in folders]


def test_the_change_of_speed_runs(speed_runs: perflog.Log) -> None:
    """Its authors: Welch t = 19.39, p = 4.9e-12 of the times; p = 0.859 of the losses. Logarithms: nearly so."""
    compared = perflog.compare(*of_arms(speed_runs))
    (row,) = compared.headlines
    assert (row.metric, row.verdict, compared.result) == ("elapsed", "improvement", "elapsed")
    assert row.change == pytest.approx(79.685 / 80.729 - 1, abs=1e-5)
    assert row.p == pytest.approx(5.5e-12, rel=0.01) and row.p_holm < 1.2e-11
    loss = next(row for row in compared.row_records if row.metric == "val_loss")
    assert loss.p == pytest.approx(0.858, abs=0.001) and loss.verdict == "equivalent"


def test_single_speed_runs_are_compared_by_their_steps(speed_runs: perflog.Log) -> None:
    compared = perflog.compare(*of_arms(speed_runs, 1))
    assert compared.result == "elapsed" and {row.metric for row in compared.headlines} == {"step_time"}
    (note,) = notes_on_result(compared)
    assert note.startswith("the result of such runs is elapsed; with one run per side its error is unknown")
    assert note.endswith(", so the verdict is about step_time")


def test_the_clock_of_two_speed_runs_a_side_takes_many_values(speed_runs: perflog.Log) -> None:
    """The time of the same steps is no time to convergence, of which two may agree by chance."""
    (row,) = perflog.compare(*of_arms(speed_runs, 2)).headlines
    assert (row.metric, row.base_runs, row.few_values, row.verdict) == ("elapsed", 2, False, "improvement")


def test_halves_of_speed_runs_pass_the_gate(speed_runs: perflog.Log) -> None:
    """Sequences grow, so the later half takes twice as long per step: a drift of real runs, not a regression."""
    tests = aa(speed_runs, trials=0, draws=200).set_index("test")
    assert (tests["trials"] == 26).all()
    assert tests.loc["gate", ["slower", "faster"]].to_list() == [0, 0]
    assert tests.loc["u-test", "slower"] == 26


def test_a_run_that_ends_early_has_no_result(speed_runs: perflog.Log, tmp_path: Path) -> None:
    """Two runs a side, one of them cut off at step 700: its clock says nothing about the time of a run."""
    for side, log in zip("ab", of_arms(speed_runs, 2), strict=True):
        for k, run in enumerate(log.run_keys):
            text = Path(run.log).read_text(encoding="utf-8")
            end = text.index("step:700/") if (side, k) == ("b", 1) else len(text)
            (tmp_path / f"{side}{k}.txt").write_text(text[text.index("Running Python") : end], encoding="utf-8")
    compared = perflog.compare(*(f"{side}={tmp_path / f'{side}{k}.txt'}" for side in "ab" for k in range(2)))
    assert compared.result is None and {row.metric for row in compared.headlines} == {"step_time"}


@pytest.fixture(scope="module")
def mlperf() -> perflog.Log:
    return perflog.read(CAMPAIGNS / "mlperf_llama2_lora")


def test_the_change_of_mlperf_results(mlperf: perflog.Log) -> None:
    """Between the geometric means of ten times to train each."""
    sides = [mlperf.select(*(run for run in mlperf.run_keys if name in run.log)) for name in ("MI300X", "MI325X")]
    compared = perflog.compare(*sides)
    (row,) = compared.headlines
    assert (row.metric, row.few_values, row.verdict) == ("elapsed", True, "improvement")
    assert row.change == pytest.approx(-0.263, abs=0.001) and row.p == pytest.approx(3.5e-8, rel=0.01)
    (pause,) = (row for row in compared.row_records if row.metric == "validation pause")
    assert pause.base_value == pytest.approx(30.79, abs=0.01) and pause.change == pytest.approx(-0.164, abs=1e-3)


def test_the_scores_of_mlperf_results(mlperf: perflog.Log) -> None:
    """Median and score of ten results each, in minutes; the seed alone differs between them."""
    systems = folders(time_to_train(mlperf))
    assert set(systems["status"]) == {"10 success"} and set(systems["differing"]) == {"seed"}
    assert (systems["median_s"] / 60).round(3).to_list() == [27.251, 20.329, 9.830]
    assert (systems["score_s"] / 60).round(3).to_list() == [27.875, 20.661, 10.151]
    assert [name.partition("_")[0] for name in systems.index] == ["MI300X", "MI325X", "MI355X"]


def test_the_bandwidths_of_all_pairs_of_nodes(pairs_of_nodes: perflog.Log) -> None:
    """Each of the 360 averages is that of the authors' table; 91.25 to 91.93 GB/s with eight GPUs: no slow pair."""
    names = {run.id: run.log.split("/")[-1] for run in pairs_of_nodes.run_keys}
    table = collectives(pairs_of_nodes)
    table = table[table["buffer"] == "all"]
    means = dict(zip(zip(table["run"].map(names), table["op"], strict=True), table["mean_busbw"], strict=True))
    with (CAMPAIGNS / "nccl_pairs" / "summary.csv").open() as summary:
        rows = list(csv.DictReader(summary))
    expected = {(row["file"], row["test"].removesuffix("_perf")): float(row["avg_bus_bw_GBs"]) for row in rows}
    assert means == pytest.approx(expected, abs=0.006) and len(means) == 360
    largest = table[(table["ranks"] == 16) & (table["op"] == "alltoall")]["mean_busbw"].astype(float)
    assert (largest.min().round(2), largest.median().round(2), largest.max().round(2)) == (91.25, 91.76, 91.93)


def test_no_node_and_no_pair_of_nodes_is_slow(pairs_of_nodes: perflog.Log) -> None:
    """Its authors name none. Each bandwidth at 16 GiB is that of the lines."""
    table = node_pairs(pairs_of_nodes)
    assert not table["slow"].any() and table["slow"].notna().all()
    pairs = table[table["of"] == "pair"]
    assert (len(pairs), set(pairs["size"])) == (360, {1 << 34})
    printed: dict[tuple[str, str, str], dict[int, float]] = {}
    for path in (CAMPAIGNS / "nccl_pairs" / "logs").iterdir():
        first, second = path.stem.split("_")[3:]
        for line in path.read_text().splitlines():
            if match := re.match(r"# Collective test starting: (\w+)_perf", line):
                op = match[1]
            if len(cells := line.split()) > 11 and cells[0] == str(1 << 34):
                ranks = 2 * int(path.stem.split("_")[2].removeprefix("G"))
                printed.setdefault((op, first, second), {})[ranks] = (float(cells[7]) + float(cells[11])) / 2
    for row in pairs.to_dict("records"):
        assert row["busbw"] == pytest.approx(printed[row["op"], row["node"], row["other"]][row["ranks"]])
    nodes = table[(table["of"] == "node") & (table["op"] == "alltoall") & (table["ranks"] == 16)]
    assert len(nodes) == 10 and set(nodes["pairs"]) == {9} and nodes["ratio"].between(0.99, 1.01).all()


def test_the_overview_of_all_pairs_of_nodes(pairs_of_nodes: perflog.Log) -> None:
    brief = "\n".join(checked_lines("\n".join(overview_brief(overview(pairs_of_nodes, "logs")))))
    assert "No node of 10 is slow" in brief
    assert re.search(r"world_size 16, op alltoall.*mean bus bw 91\.[78] GB/s", brief)


def test_the_slowdown_of_a_job_with_stragglers() -> None:
    """Its authors: slowdown 1.179 = 2.1727 / 1.8433; 3.1 % mended by ideal workers, 1.2194 by an ideal last stage."""
    table = curves(perflog.read(CAMPAIGNS / "straggler"))
    last = dict(zip(table["key"], table["last"], strict=True))
    assert last["tori"] / last["tideal"] == pytest.approx(1.1787, abs=1e-4)
    assert (round(last["Mw"], 4), round(last["Ms"], 4)) == (0.0314, 1.2194)


@pytest.fixture(scope="module")
def history() -> perflog.Log:
    return perflog.read(CAMPAIGNS / "golden_history")


def test_the_losses_of_a_history_at_an_equal_step(history: perflog.Log) -> None:
    """One version printed 13 steps, the others 50: they meet at step 13, where the loss changed twice in ten months."""
    table = curves(history)
    losses = table[table["key"] == "lm_loss"]
    assert set(losses["equal_step"]) == {13}
    files = {run.id: CAMPAIGNS / "golden_history" / run.log.split("/")[-1] for run in history.run_keys}
    printed = [json.loads(files[run].read_text())["lm loss"]["values"]["13"] for run in losses["run"]]
    assert losses["at_equal_step"].to_list() == printed
    assert [round(loss, 2) for loss in printed] == [10.53] * 3 + [10.5] * 3 + [10.48] * 6


def test_since_when_the_steps_of_a_history_take_another_time(history: perflog.Log) -> None:
    """The first two of twelve versions took 737 and 734 ms after nine steps of warm-up, the others 542 to 588."""
    (since,) = (text for text in perflog.overview(history).reasons if text.startswith("Since"))
    assert since.startswith("Since 2026-01-16 (2026-01-16_92f052b8e.json): step 735.3 ms -> 560.7 ms, -23.7 %")
