"""`perflog.compare`: ratios, intervals, verdicts and their reasons, on synthetic sides and on the reference runs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.megatron_logs import megatron_log
from support.paths import ROOT
from support.seeds import path

import perflog
from perflog.analysis import compare
from perflog.analysis.compare.rows import FigureRow
from perflog.cli.main import main
from perflog.errors import UsageError
from perflog.statistics.rank_tests import holm_adjusted
from perflog.statistics.students_t import t_tail
from perflog.tables.schema import SCHEMA_VERSION
from perflog.units import show_change

HEAD = (
    "[Benchmark] world_size = 4, dtype = float16, model_dim = 1024, hidden_size = 4096, samples = 8192, "
    "num_local_experts = {experts}, topK = 2, a2a_ffn_overlap_degree = 1, device = `cuda:0`\n"
)
STEP = "STEP-{}: step_time = {:.6f} ms, foward_time = {:.6f}, backward_time = {:.6f}, perf = {:.2f} tflops.\n"
WORK = 0.824633720832  # TFLOP in a step of that benchmark

Make = Callable[..., str]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A function that writes a log with some runs and returns its path."""

    def write(name: str, *runs: Sequence[float], experts: Sequence[int] = ()) -> str:
        text = ""
        for times, count in zip(runs, experts or [8] * len(runs), strict=True):
            text += HEAD.format(experts=count)
            text += "".join(STEP.format(i, t, 0.4 * t, 0.6 * t, WORK / t * 1e3) for i, t in enumerate(times))
        (tmp_path / name).write_text(text, encoding="utf-8")
        return str(tmp_path / name)

    return write


def noise(seed: int, level: float = 20.0, n: int = 60, scatter: float = 0.1) -> list[float]:
    """Milliseconds of steps that have nothing wrong with them."""
    return list(np.random.default_rng(seed).normal(level, scatter, n))


def invoke(*args: str) -> Result:
    return CliRunner().invoke(main, ["compare", *args])


def step_time(compared: compare.Comparison) -> FigureRow:
    """The row of the median step time."""
    (row,) = [row for row in compared.headlines if row.statistic == "median"]
    return row


# --- synthetic sides ----------------------------------------------------------------------------------------------


def test_repeats_give_a_plain_verdict_and_a_p(make: Make) -> None:
    base = make("base.txt", *(noise(k) for k in range(4)))
    slow = make("slow.txt", *(noise(k + 10, 22.0) for k in range(4)))
    row = step_time(perflog.compare(base, slow))
    assert row.verdict == "regression"
    assert row.p_rank == pytest.approx(2 / 70)  # exact, of C(8, 4) arrangements
    assert row.change == pytest.approx(0.1, abs=0.005)
    assert row.change_low < 0.1 < row.change_high
    assert row.scope == "runs"
    assert (row.base_runs, row.side_runs, row.side_steps) == (4, 4, 240)
    assert row.shift == pytest.approx(2e-3, rel=0.05)
    assert row.cliffs_delta == 1
    assert step_time(perflog.compare(slow, base)).verdict == "improvement"


def test_an_outlier_does_not_hide_a_change_of_all_other_runs(make: Make) -> None:
    """Four of five runs are 5 % slower than all of the base, the fifth takes twice as long: Welch's p is 0.24."""
    base = make("base.txt", *([level] * 20 for level in (20.0, 20.1, 19.9, 20.05, 19.95)))
    slow = make("slow.txt", *([level] * 20 for level in (21.0, 21.1, 20.9, 21.05, 40.0)))
    row = step_time(perflog.compare(base, slow, warmup=0))
    assert row.p == pytest.approx(0.239, abs=0.001) and 0 < row.change_low < 0.05
    assert row.p_rank == pytest.approx(2 / 252) and row.p_rank < row.p_both < 2 * row.p_rank
    assert row.verdict == "regression" and "by a rank test, which outliers hardly affect" in row.reason
    fast = make("fast.txt", *([level] * 20 for level in (19.0, 19.1, 18.9, 19.05, 60.0)))  # slower on average
    row = step_time(perflog.compare(base, fast, warmup=0))
    assert row.change > 0.1 and row.p_rank > 0.05 and row.verdict == "inconclusive"


def test_an_outlier_does_not_hide_that_all_other_runs_are_the_same(make: Make) -> None:
    """Eight runs a side differ by 0.2 %, but for one that takes twice as long: its side is as fast as the other."""
    levels = 20 * np.exp(0.002 * np.linspace(-1, 1, 8))
    base = make("base.txt", *([level] * 20 for level in levels))
    same = make("same.txt", *([level] * 20 for level in [*levels[:7] * 1.0001, 40.0]))
    row = step_time(perflog.compare(base, same, warmup=0, threshold=0.2))
    assert row.change_low > -0.01 and row.change_high < 0.2
    assert row.verdict == "equivalent" and row.change + 2.5 * row.error > 0.2  # Welch's interval is wider


def test_the_cost_of_the_warm_up_is_told(make: Make) -> None:
    """Two steps of 100 ms, three of 220 ms: three steps are cut, and take 220 and 660 ms on average."""
    base = make("base.txt", [100.0] * 2 + noise(1), [100.0] * 2 + noise(2))
    slow = make("slow.txt", [220.0] * 3 + noise(3, n=59), [220.0] * 3 + noise(4, n=59))
    compared = perflog.compare(base, slow, warmup=3)
    rows = compared.warmups
    assert rows["lines"].tolist() == [3, 3]
    assert rows["time_s"].to_list() == pytest.approx([0.22, 0.66], abs=2e-4)
    assert rows["extra_s"].to_list() == pytest.approx([0.16, 0.6], abs=2e-4)
    assert rows["difference_s"][1] == pytest.approx(0.44, abs=4e-4) and rows["difference_s"].isna()[0]
    text = invoke(base, slow, "--warmup", "3", "--all").stdout
    assert "660 ms on slow (+440 ms): 160 ms, 600 ms more than the same number of steady steps" in " ".join(
        text.split()
    )
    assert perflog.compare(base, slow, warmup=0).to_dict()["warmups"] == []


@pytest.mark.parametrize("steps", [30, 60])
@pytest.mark.parametrize("level", [20.4, 21.5, 21.7])  # the mean of draws may differ from them by a rounding error
def test_equal_steps_have_an_unknown_scatter(make: Make, level: float, steps: int) -> None:
    compared = perflog.compare(make("a.txt", [20.0] * steps), make("b.txt", [level] * steps), warmup=0)
    row = step_time(compared)
    assert row.verdict == "exploratory regression" and row.change == pytest.approx(level / 20 - 1)
    assert math.isnan(row.change_low) and math.isnan(row.change_high)
    assert "the steps show no scatter, so the error is unknown" in row.reason
    assert f"{show_change(row.change)} [-]" in str(compared)


def test_the_change_is_inverse_the_other_way_round(make: Make) -> None:
    a, b = make("a.txt", noise(1)), make("b.txt", noise(2, 21.5))
    there, back = step_time(perflog.compare(a, b)), step_time(perflog.compare(b, a))
    assert (1 + there.change) * (1 + back.change) == pytest.approx(1)
    assert (1 + there.change_low) * (1 + back.change_high) == pytest.approx(1, rel=0.005)


def test_welch_by_hand(make: Make) -> None:
    """Four runs a side: t of the logarithms of the run medians, with Welch's degrees of freedom."""
    levels = (20.0, 20.4, 19.8, 20.1), (21.0, 21.9, 20.8, 21.4)
    a, b = (make(f"{k}.txt", *([level] * 20 for level in side)) for k, side in enumerate(levels))
    row = step_time(perflog.compare(a, b, warmup=0))
    logs = [np.log(np.array(side)) for side in levels]
    errors = [float(x.var(ddof=1)) / 4 for x in logs]
    t = float(logs[1].mean() - logs[0].mean()) / math.sqrt(sum(errors))
    freedom = sum(errors) ** 2 / sum(e**2 / 3 for e in errors)
    assert row.change == pytest.approx(math.expm1(float(logs[1].mean() - logs[0].mean())))
    assert row.p == pytest.approx(2 * t_tail(t, freedom))
    assert (row.error, row.freedom) == pytest.approx((math.sqrt(sum(errors)), freedom))


def test_rank_tests_need_four_runs_and_holm_counts_figures(make: Make) -> None:
    three = [make(f"{side}.txt", *(noise(k + i) for k in range(3))) for i, side in ((0, "a"), (50, "b"))]
    assert perflog.compare(*three).rows["p_rank"].isna().all()
    assert perflog.compare(*three).rows["p"].notna().all()
    four = [make(f"{side}.txt", *(noise(k + i) for k in range(4))) for i, side in ((0, "a"), (50, "b"))]
    rows = perflog.compare(*four).rows
    assert rows["p_rank"].notna().all()
    assert rows["p_holm"].notna().all()
    assert (rows["p_holm"] >= rows["p_both"]).all()
    both = rows[rows["metric"].isin(["forward", "backward"])]
    assert both["p_holm"].min() == pytest.approx(2 * both["p_both"].min())


def test_the_same_result_every_time(make: Make) -> None:
    a, b = make("a.txt", noise(1)), make("b.txt", noise(2))
    compared = perflog.compare(a, b)
    assert compared.to_dict() == perflog.compare(a, b).to_dict()
    assert compared.rows["change_low"][0] != perflog.compare(a, b, seed=1).rows["change_low"][0]


def test_warm_up_is_cut_alike_on_both_sides(make: Make) -> None:
    slow_start = [60.0] * 5 + noise(1)[5:]
    a, b = make("a.txt", slow_start), make("b.txt", noise(2))
    compared = perflog.compare(a, b)
    assert compared.warmup == (5,)
    assert (step_time(compared).base_steps, step_time(compared).side_steps) == (55, 55)
    assert step_time(perflog.compare(a, b, warmup=10)).side_steps == 50


def test_a_run_that_drifts_is_not_a_regression(make: Make) -> None:
    rising = list(np.linspace(20, 23, 60) + np.random.default_rng(0).normal(0, 0.05, 60))
    row = step_time(perflog.compare(make("a.txt", noise(1)), make("b.txt", rising), warmup=0))
    assert row.change > 0.05
    assert row.verdict == "inconclusive"  # another stretch of the run could lie as far away
    assert row.drift > 0.05


def test_a_schedule_that_both_runs_share_cancels(make: Make) -> None:
    schedule = np.repeat([20.0, 30.0, 60.0], 20)
    sides = [schedule * slow * np.random.default_rng(k).normal(1, 0.004, 60) for k, slow in ((1, 1.0), (2, 1.03))]
    a, b = (make(f"{k}.txt", list(times)) for k, times in enumerate(sides))
    row = step_time(perflog.compare(a, b, warmup=0))
    assert row.paired
    assert row.change == pytest.approx(0.03, abs=0.003)
    assert row.change_high - row.change_low < 0.01
    assert row.verdict == "exploratory regression"


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ("stalls", {"mean", "p99"}),  # every 50th step takes eleven times as long
        ("tail", {"mean", "p99"}),
        ("late", {"mean", "p99"}),  # from step 200 on
        ("bimodal", {"mean", "p99"}),  # a fifth of the steps, at random, takes twice as long: +20 % on the mean
        ("warm-up", {"total"}),
    ],
)
def test_changes_that_the_median_does_not_show(make: Make, shape: str, told: set[str]) -> None:
    def run(seed: int, slow: bool) -> list[float]:
        rng = np.random.default_rng(seed)
        times = rng.normal(20, 0.1, 320)
        if shape == "warm-up":
            times[: 40 if slow else 5] = 60
        elif shape == "bimodal":
            times[rng.permutation(320)[: 64 * slow]] *= 2
        elif slow:
            times[{"stalls": slice(0, None, 50), "tail": slice(0, None, 12), "late": slice(200, None)}[shape]] *= {
                "stalls": 11, "tail": 3, "late": 1.2,
            }[shape]  # fmt: skip
        return list(times)

    a = make("a.txt", *(run(k, False) for k in range(5)))
    b = make("b.txt", *(run(k, True) for k in range(10, 15)))
    rows = {row.statistic: row for row in perflog.compare(a, b).headlines}
    verdicts = {statistic: row.verdict for statistic, row in rows.items()}
    assert told <= {statistic for statistic, verdict in verdicts.items() if verdict == "regression"}
    assert verdicts["median"] == "equivalent"
    assert shape == "warm-up" or rows["mean"].change > 0.07
    assert "Most steps take as long as before" in invoke(a, b).stdout
    assert "most steps take as long as before" in invoke(a, b, "--all").stdout


def test_the_median_and_the_mean_decide_that_sides_are_equivalent(make: Make) -> None:
    """A tail that is unsure takes nothing away; one that is sure is told."""
    runs = [list(np.random.default_rng(k).normal(20, 0.02, 150)) for k in range(6)]
    for k, times in enumerate(runs):
        times[40 + k] = 20 + 4 * (k % 3)  # a slow step more or less
    compared = perflog.compare(make("a.txt", *runs[:3]), make("b.txt", *runs[3:]))
    verdicts = {row.statistic: row.verdict for row in compared.headlines}
    assert (verdicts["median"], verdicts["mean"]) == ("equivalent", "equivalent")
    assert compared.verdict == "equivalent"


def test_one_run_against_several_takes_their_scatter(make: Make) -> None:
    levels = (20.0, 20.02, 19.98)
    base = make("base.txt", *(noise(k, level, scatter=0.3) for k, level in enumerate(levels)))
    row = next(r for r in perflog.compare(base, make("b.txt", noise(9, 21))).headlines if r.statistic == "mean")
    assert (row.base_runs, row.side_runs, row.freedom) == (3, 1, 2)
    assert row.error < 0.005  # that of the runs, not of the rounding of one figure
    logs = math.log(row.base_high / row.base_value) * math.sqrt(3)
    assert math.log(row.side_high / row.side_value) == pytest.approx(logs)
    counts = " ".join(invoke(base, str(Path(base).with_name("b.txt"))).stdout.split())
    assert "3 runs of A, 1 of B; 60 steps each" in counts


def test_a_log_that_is_named_twice_counts_once(make: Make) -> None:
    a, b, c = (make(f"{k}.txt", noise(k)) for k in range(3))
    compared = perflog.compare(f"a={a}", f"a={a}", f"a={b}", f"b={c}")
    assert step_time(compared).base_runs == 2
    assert "a: 1 run named again, the same bytes: each counts once" in compared.warnings


def test_a_split_by_a_setting_that_all_runs_share(make: Make) -> None:
    with pytest.raises(UsageError, match="all runs have num_local_experts = 8"):
        perflog.compare(make("a.txt", noise(1), noise(2)), by="num_local_experts")


def test_other_work_leads_the_conclusion(layer: compare.Comparison) -> None:
    assert layer.conclusion.startswith("not the same work: backward / forward is 1.1 and 0.097; step_time +6.5 %, ")
    assert layer.verdict == "exploratory regression"
    assert str(layer).startswith(f"early against late: {layer.conclusion}\n")
    assert layer.to_dict()["other_work"] == ["backward / forward is 1.1 and 0.097"]


def test_sides_of_one_name_are_repeats(make: Make) -> None:
    names = [f"a={make(f'{k}.txt', noise(k))}" for k in range(3)] + [
        f"b={make(f'{k}.txt', noise(k))}" for k in (7, 8, 9)
    ]
    compared = perflog.compare(*names)
    assert compared.sides == ("a", "b")
    assert (step_time(compared).base_runs, step_time(compared).verdict) == (3, "equivalent")


def test_sweeps_are_matched_by_their_settings(make: Make) -> None:
    base = make("base.txt", noise(1), noise(2, 30), noise(3, 40), experts=(8, 16, 64))
    other = make("other.txt", noise(4, 60), noise(5, 10), experts=(16, 8))
    compared = perflog.compare(base, other)
    assert [case.name for case in compared.cases] == ["num_local_experts=8", "num_local_experts=16"]
    changes = [row.change for row in compared.headlines if row.statistic == "median"]
    assert changes == pytest.approx([-0.5, 1], rel=0.01)
    mean = compared.geomeans()[0]
    assert (mean.statistic, mean.cases) == ("median", 2)
    assert mean.change == pytest.approx(math.sqrt((1 + changes[0]) * (1 + changes[1])) - 1)
    assert "not compared" in compared.warnings[0] and "base#3" in compared.warnings[0]


def test_a_sweep_against_itself_by_a_setting(make: Make) -> None:
    compared = perflog.compare(make("one.txt", noise(1), noise(2, 30), experts=(8, 16)), by="num_local_experts")
    assert compared.sides == ("8", "16")
    assert step_time(compared).change == pytest.approx(0.5, rel=0.02)
    assert compared.settings.to_dict("records") == [{"case": "", "setting": "num_local_experts", "8": "8", "16": "16"}]


def test_values_of_a_setting_are_sides_in_the_order_of_their_numbers(make: Make) -> None:
    log = make("one.txt", noise(1, 21), noise(2, 20), noise(3, 25), experts=(16, 8, 128))
    assert perflog.compare(log, by="num_local_experts").sides == ("8", "16", "128")
    assert perflog.compare(log, by="num_local_experts", base="16").sides == ("16", "8", "128")
    with pytest.raises(UsageError, match="no side has the name of the base") as caught:
        perflog.compare(log, by="num_local_experts", base="32")
    assert caught.value.help == "the sides are 8, 16, 128"


def test_several_settings_split_runs_by_their_values_together(tmp_path: Path) -> None:
    for micro, tensor in product((10, 2), (2, 1)):
        settings = {"micro_batch_size": micro, "tensor_model_parallel_size": tensor}
        (tmp_path / f"{micro}{tensor}.log").write_text(megatron_log(settings, noise(micro)), encoding="utf-8")
    by = ["micro_batch_size", "tensor_model_parallel_size"]
    compared = perflog.compare(tmp_path, by=by, draws=200)
    assert compared.sides == ("2/1", "2/2", "10/1", "10/2")
    assert compared.by == tuple(by)
    assert perflog.compare(tmp_path, by=[by[0], by[0]], draws=200).sides == ("2", "10")
    with pytest.raises(UsageError, match="no run has a setting `micro_batch`") as caught:
        perflog.compare(tmp_path, by=["micro_batch", by[1]])
    assert caught.value.help == "did you mean `micro_batch_size`?"


def test_runs_without_one_of_the_settings_are_told(make: Make) -> None:
    log = make("one.txt", noise(1), noise(2, 30), experts=(8, 16))
    compared = perflog.compare(log, "reference:pipeline_layers.txt", by=["num_local_experts", "format"])
    assert compared.sides == ("8/moe_layer", "16/moe_layer")
    assert "1 run without a setting `num_local_experts` or `format`: not compared" in compared.warnings
    with pytest.raises(UsageError, match="no run has all of the settings"):
        perflog.compare(log, "reference:pipeline_layers.txt", by=["num_local_experts", "gbs"])


def test_a_configuration_that_the_base_lacks_is_told() -> None:
    compared = perflog.compare("reference:training_sweep.txt", by=["system", "experts"])
    lacking = "fastermoe/64: not compared, naive/16 does not have this configuration: fastermoe transformer-xl 64"
    assert lacking in compared.warnings


def test_the_best_of_several_sides_is_named_whatever_the_base_is(make: Make) -> None:
    runs = [noise(k, level) for k, level in enumerate((21, 20, 20.02, 25) * 3)]
    log = make("one.txt", *runs, experts=(16, 8, 32, 128) * 3)
    medians = {value: np.exp(np.mean([np.log(np.median(run)) for run in runs[k::4]]))
               for k, value in enumerate(("16", "8", "32", "128"))}  # fmt: skip
    fastest, second, third, last = sorted(medians, key=lambda value: medians[value])
    for base in medians:
        (best,) = perflog.compare(log, by="num_local_experts", base=base).best
        assert (best.side, best.level) == (fastest, (second,))
        assert [row.side for row in best.rows] == [second, third, last]
        assert best.next.change == pytest.approx(medians[second] / medians[fastest] - 1, abs=1e-4)


def test_the_rate_leads_where_steps_have_other_batches(tmp_path: Path) -> None:
    for batch, level in ((32, 300), (64, 500), (128, 900)):
        text = megatron_log({"global_batch_size": batch}, noise(batch, level))
        (tmp_path / f"{batch}.log").write_text(text, encoding="utf-8")
    compared = perflog.compare(tmp_path, by="global_batch_size", draws=200)
    assert {(row.metric, row.statistic) for row in compared.headlines} == {("tokens_per_s", "median")}
    assert [row.change for row in compared.headlines] == pytest.approx([2 * 3 / 5 - 1, 4 * 3 / 9 - 1], abs=2e-3)
    assert [row.p_holm for row in compared.headlines] == holm_adjusted([row.p_both for row in compared.headlines])
    assert compared.best[0].side == "128"
    (text,) = compared.findings.loc[compared.findings["code"] == "comparison-unequal-steps", "message"]
    assert text == "step times: a step has other numbers of tokens, 2 times on 64, 4 times on 128. Compare tokens_per_s"
    same = perflog.compare(tmp_path / "32.log", tmp_path / "32.log", draws=200)
    assert {row.metric for row in same.headlines} == {"step_time"}


def test_settings_that_follow_from_others_name_no_configuration(tmp_path: Path) -> None:
    for micro, tensor in product((1, 2), (1, 2)):
        settings = {"micro_batch_size": micro, "data_parallel_size": 8 // tensor, "tensor_model_parallel_size": tensor}
        text = megatron_log(settings, noise(micro + tensor))
        (tmp_path / f"{micro}{tensor}.log").write_text(text, encoding="utf-8")
    compared = perflog.compare(tmp_path, by="micro_batch_size", draws=200)
    assert [case.name for case in compared.cases] == ["data_parallel_size=8", "data_parallel_size=4"]


def test_a_run_without_the_headline_figure_is_told(make: Make) -> None:
    log = Path(make("one.txt", noise(1), noise(2, 30), [], experts=(8, 16, 16)))
    log.write_text(log.read_text() + "STEP-0: perf = 1.00 tflops.\n")
    compared = perflog.compare(log, by="num_local_experts")
    assert [row.side_runs for row in compared.headlines] == [1, 1]
    assert any("16: without step_time, so not in this metric: one#3" in text for text in compared.warnings)


def test_runs_without_the_setting_are_told(make: Make) -> None:
    log = make("one.txt", noise(1), noise(2, 30), experts=(8, 16))
    compared = perflog.compare(log, "reference:pipeline_layers.txt", by="num_local_experts")
    assert "1 run without a setting `num_local_experts`: not compared" in compared.warnings


def test_runs_of_different_settings_are_no_repeats(make: Make) -> None:
    mixed, other = make("mixed.txt", noise(1), noise(2), experts=(8, 16)), Path(make("b.txt", noise(3), noise(4)))
    other.write_text(other.read_text("utf-8").replace("topK = 2", "topK = 1", 1), encoding="utf-8")
    with pytest.raises(UsageError, match="not repeats: num_local_experts differs") as caught:
        perflog.compare(f"a={mixed}#1", f"a={mixed}#2", f"b={other}")
    assert "LOG#1" in caught.value.help


def test_no_configuration_in_common(make: Make) -> None:
    sweep = make("sweep.txt", noise(1), noise(2), experts=(8, 16))
    with pytest.raises(UsageError, match="no configuration in common"):
        perflog.compare(sweep, make("other.txt", noise(3), experts=(32,)))


def test_one_side_is_no_comparison(make: Make) -> None:
    with pytest.raises(UsageError, match="two sides"):
        perflog.compare(make("a.txt", noise(1)))
    with pytest.raises(UsageError, match="no run has a setting `colour`"):
        perflog.compare(make("a.txt", noise(1)), by="colour")


def test_stores_folders_and_logs_are_sides(make: Make, tmp_path: Path) -> None:
    a = make("a.txt", noise(1))
    store, folder = tmp_path / "store", tmp_path / "logs"
    perflog.read(a).save(store)
    folder.mkdir()
    (folder / "b.txt").write_bytes(Path(make("b.txt", noise(2))).read_bytes())
    by_name = step_time(perflog.compare(str(store), folder))
    by_log = step_time(perflog.compare(perflog.read(a), perflog.read(folder)))
    assert by_name.change == by_log.change
    assert by_name.base == "store" and by_log.base == "a#1"


def test_a_log_against_itself_is_equivalent(make: Make) -> None:
    a = make("a.txt", noise(1))
    compared = perflog.compare(a, a)
    assert compared.sides == ("a", "a (2)")
    assert step_time(compared).change == 0
    assert compared.verdict == "exploratory equivalent"


# --- display ------------------------------------------------------------------------------------------


def test_a_comparison_shows_itself_briefly(make: Make) -> None:
    compared = perflog.compare(make("a.txt", noise(1)), make("b.txt", noise(2, 30)))
    assert repr(compared).startswith("<Comparison: b against a: step_time: exploratory regression, +5")
    assert "\n" not in repr(compared) and len(repr(compared)) < 120
    headline, *rows = str(compared).splitlines()
    assert headline == "b against a: step_time: exploratory regression"
    assert len(rows) == len(compared.rows)
    assert rows[0].startswith("  b: step_time median 20") and rows[0].endswith("]: exploratory regression")


def test_a_notebook_gets_a_row_per_case(make: Make) -> None:
    sweeps = [make(f"{name}.txt", noise(k), noise(k + 1, 30), experts=(8, 16)) for k, name in ((1, "a<b"), (5, "c"))]
    compared = perflog.compare(*sweeps)
    assert repr(compared).endswith(", 2 cases>")
    html = compared._repr_html_()
    assert html.count("<tr>") == 1 + 2 * 2  # median and mean
    assert "num_local_experts=16" in html
    assert "a&lt;b" in html and "a<b" not in html


def test_a_notebook_shows_where_the_difference_went_and_what_not_to_trust() -> None:
    html = perflog.compare("reference:moe_layer.txt#1", "reference:moe_layer.txt#4")._repr_html_()
    assert "<td>. . . (unexplained)</td><td>2.836 ms</td><td>8.388 ms</td><td>5.552 ms</td><td>70 %</td>" in html
    assert "<li>rates count nominal work, not what the ranks execute (" in html
    assert "<td>-</td>" in html and "- .. -" not in html  # a total of a single run has no interval


# --- the reference runs -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def layer() -> compare.Comparison:
    """The benchmark of 8 experts, late against early."""
    return perflog.compare("late=reference:moe_layer.txt#1", "early=reference:moe_layer_early.txt")


@pytest.fixture(scope="module")
def systems() -> compare.Comparison:
    return perflog.compare("reference:training_sweep.txt", by="system")


def medians(name: str, run: int, first: int) -> dict[str, float]:
    """Medians of the steps from `first` on, straight from the table."""
    log = perflog.reference()
    steps = log.select(*[r for r in log.run_keys if r.log == name and r.index == run]).table("steps")
    steps = steps[steps["step"] >= first]
    return {c: float(np.median(steps[c].to_numpy("float64"))) for c in ("step_time_s", "forward_s", "backward_s")}


def test_medians_are_those_of_the_steps(layer: compare.Comparison) -> None:
    assert layer.warmup == (9,)  # of the early run; the late one alone would lose one
    rows = layer.rows[layer.rows["statistic"] == "median"].set_index("metric")
    for side, name in (("base_value", "moe_layer.txt"), ("side_value", "moe_layer_early.txt")):
        for column, value in medians(name, 1, 9).items():
            assert rows[side][column.removesuffix("_s")] == pytest.approx(value, rel=1e-12)


def mean(name: str, first: int) -> float:
    """Mean step time of the first run of a log from a step on, straight from the table."""
    rows = perflog.reference().arrow("steps").to_pylist()
    (run,) = [r.id for r in perflog.reference().run_keys if r.log == name and r.index == 1]
    values = [r["step_time_s"] for r in rows if r["run"] == run and r["step"] >= first]
    return math.fsum(values) / len(values)


def test_printed_averages_of_different_steps_are_a_finding(layer: compare.Comparison) -> None:
    table = layer.summaries
    step = table[table["figure"] == "step_time"].set_index(["window_first", "window_last", "side"])["value"]
    assert step[90, 99, "late"] == pytest.approx(21.337e-3, abs=1e-6)
    assert step[40, 99, "early"] == pytest.approx(22.853e-3, abs=1e-6)
    assert step[40, 99, "late"] == pytest.approx(mean("moe_layer.txt", 40), rel=1e-12)
    assert step[90, 99, "early"] == pytest.approx(mean("moe_layer_early.txt", 90), rel=1e-12)
    (finding,) = layer.findings[layer.findings["code"] == "comparison-windows"].to_dict("records")
    for text in ("steps 90..99", "steps 40..99", "21.34 ms", "22.85 ms", "22.51 ms", "cannot be compared"):
        assert text in finding["message"]


def summarised(path: Path, level: float, last: int, runs: int) -> str:
    """Write a log whose runs print the means of their last steps, and return its path."""
    summary = "[Summary] Average synchronized step_time = {!r} ms, forward = {!r}, backward = {!r}.\n"
    text = ""
    for seed in range(runs):
        times = np.round(noise(seed, level, 30), 3)
        steps = [(float(t), round(0.4 * t, 6), round(0.6 * t, 6)) for t in times]
        text += HEAD.format(experts=8)
        text += "".join(STEP.format(i, *times, 40.0) for i, times in enumerate(steps))
        text += summary.format(*(math.fsum(column[-last:]) / last for column in zip(*steps, strict=True)))
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_averages_of_many_runs_are_told_by_their_ends(tmp_path: Path) -> None:
    a, b = summarised(tmp_path / "a.txt", 20, 10, runs=6), summarised(tmp_path / "b.txt", 22, 20, runs=6)
    compared = perflog.compare(a, b)
    (finding,) = compared.findings[compared.findings["code"] == "comparison-windows"].to_dict("records")
    assert finding["message"].count("b steps 10..29") == 1
    values = [r.value for r in compared.summary_records if r.figure == "step_time" and r.side == "a"]
    shown = invoke(a, b, "--all").stdout
    assert re.search(
        r"step_time +20..29 +19\.\d+ ms .. 20\.\d+ ms\* \(6 runs\) +21\.\d+ ms .. 22\.\d+ ms \(6 runs\)", shown
    )
    assert len(values) == 12 and max(map(len, shown.splitlines())) < 250


def test_differences_between_the_sides_are_findings(layer: compare.Comparison) -> None:
    codes = dict(zip(layer.findings["code"], layer.findings["side"], strict=True))
    assert "comparison-other-work" in codes
    assert codes["backward-short"] == "early"  # no gradients in its backward
    assert codes["time-subtracted"] == "late"  # attention is not in its times
    assert not len(layer.settings)  # and no setting tells


def test_attribution_adds_up(layer: compare.Comparison) -> None:
    parts = layer.attribution.set_index("part")["difference_s"]
    assert parts["forward"] == pytest.approx(10.5e-3, abs=1e-4)
    assert parts["backward"] == pytest.approx(-9.1e-3, abs=1e-4)
    assert parts["forward"] + parts["backward"] + parts["(unexplained)"] == pytest.approx(parts["step_time"])
    shares = layer.attribution[layer.attribution["depth"] == 1]["share"]
    assert shares.sum() == pytest.approx(1)


def test_attribution_goes_down_the_phases() -> None:
    compared = perflog.compare("reference:moe_layer.txt#1", "reference:moe_layer.txt#4")
    parts = compared.attribution
    for whole in ("step_time", "forward", "moe_forward", "linear1_backward"):
        inside = parts[parts["of"] == whole]
        total = parts[parts["part"] == whole]["difference_s"].iloc[0]
        assert inside["difference_s"].sum() == pytest.approx(total)
    assert set(parts[parts["of"] == "forward"]["part"]) == {"moe_forward", "wait", "(unexplained)"}
    assert "process" not in set(parts["part"])  # it runs in parallel to the step
    assert compared.settings["setting"].tolist() == ["num_local_experts"]


def test_the_gpt2_runs_are_not_called_different(systems: compare.Comparison) -> None:
    gpt2 = [row for row in systems.headlines if "model=gpt2" in row.case and row.statistic == "median"]
    assert {row.verdict for row in gpt2} <= {"exploratory equivalent", "inconclusive"}
    assert all(-0.02 < row.change_low < 0 < row.change_high < 0.02 for row in gpt2)
    same_model = systems.findings[systems.findings["code"] == "comparison-same-model"]
    assert same_model["case"].tolist() == ["model=gpt2"]
    assert "printouts of all sides are identical" in same_model["message"].iloc[0]
    alone = systems.attribution[systems.attribution["case"] == "model=gpt2"]
    assert alone["share"].isna().all()


@pytest.mark.parametrize(
    ("model", "side", "means"),  # printed means of steps 40..99, ms
    [
        ("bert", "fastermoe", (198.072, 442.024)),
        ("bert", "mix_moe", (198.072, 248.918)),
        ("transformer-xl", "fastermoe", (91.710, 379.105)),
        ("transformer-xl", "mix_moe", (91.710, 161.116)),
    ],
)
def test_the_systems_differ_on_bert_and_transformer_xl(
    systems: compare.Comparison, model: str, side: str, means: tuple[float, float]
) -> None:
    rows = [r for r in systems.headlines if f"model={model}" in r.case and r.side == side]
    row = next(r for r in rows if r.statistic == "mean")
    assert row.verdict == "exploratory regression"
    assert row.change == pytest.approx(means[1] / means[0] - 1, rel=0.02)
    assert 0.05 < row.change_low < row.change < row.change_high
    assert (1 + row.change_high) / (1 + row.change_low) < 1.05


def test_layers_and_kernels_are_attributed() -> None:
    layers = perflog.compare("reference:pipeline_layers.txt", "reference:pipeline_layers.txt")
    rows = layers.rows[layers.rows["kind"] == "layer"].set_index("metric")
    assert rows["base_value"]["lm_head forward"] == pytest.approx(0.1337, abs=5e-4)
    assert (rows["change"] == 0).all()
    kernels = perflog.compare("reference:nvprof.txt", "reference:nvprof.txt").rows
    assert kernels["verdict"].unique().tolist() == ["inconclusive"]  # one number a side has no interval
    assert kernels[kernels["metric"] == "all"]["base_value"].iloc[0] == pytest.approx(11.19, abs=0.005)


def test_the_logs_compare_as_the_reference_runs_do(layer: compare.Comparison) -> None:
    late, early = path("moe_layer"), path("moe_layer_early")
    compared = perflog.compare(f"late={late}#1", f"early={early}")
    assert compared.rows.drop(columns="case").equals(layer.rows.drop(columns="case"))


# --- the command --------------------------------------------------------------------------------------------------


def test_the_gate(make: Make) -> None:
    base, slow = make("base.txt", noise(1)), make("slow.txt", noise(2, 22))  # one run a side: 5 % at least
    failed = invoke(base, slow, "--fail-on", "regression")
    assert failed.exit_code == 1
    assert "perflog: warning: gate: slow: step_time: exploratory regression" in failed.stderr
    assert invoke(base, slow, "--fail-on", "regression:15%").exit_code == 0
    assert invoke(slow, base, "--fail-on", "regression").exit_code == 0
    assert invoke(base, slow).exit_code == 0
    assert invoke(base, slow, "--fail-on", "faster").exit_code == 2
    assert invoke(base).exit_code == 2


@pytest.mark.parametrize(
    "value", ["regression:5", "regression:0%", "regression:", "regression:fast", "inconclusive:5%"]
)
def test_a_gate_that_nobody_can_mean_is_refused(make: Make, value: str) -> None:
    refused = invoke(make("a.txt", noise(1)), make("b.txt", noise(2)), "--fail-on", value)
    assert refused.exit_code == 2
    if value == "regression:5":
        assert "write 5% for 5 percent" in refused.stderr


def test_a_gate_finds_less_than_five_percent(make: Make) -> None:
    """A true change of 1.5 % is beyond a gate of 1 %."""
    base = make("base.txt", *(noise(k) for k in range(4)))
    slow = make("slow.txt", *(noise(k + 10, 20.3) for k in range(4)))
    assert invoke(base, slow, "--fail-on", "regression:1%").exit_code == 1
    assert invoke(base, slow, "--fail-on", "regression:5%").exit_code == 0


def test_a_gate_closes_where_it_cannot_judge(make: Make, tmp_path: Path) -> None:
    base, one_step = make("base.txt", noise(1)), make("one.txt", [200.0])
    failed = invoke(base, one_step, "--fail-on", "regression")
    assert failed.exit_code == 3
    assert "gate: cannot judge: one: step_time" in failed.stderr
    empty = tmp_path / "empty.txt"
    empty.write_text(HEAD.format(experts=8), encoding="utf-8")
    nothing = invoke(base, str(empty), "--fail-on", "regression")
    assert nothing.exit_code == 3
    assert "gate: nothing to compare" in nothing.stderr
    unknown = invoke(base, base, "--gate", "val_loss:+1%")
    assert unknown.exit_code == 3
    assert "no metric `val_loss` on both sides; there are: step_time" in unknown.stderr


def test_an_inconclusive_verdict_fails_on_demand(make: Make) -> None:
    base = make("base.txt", noise(1, 20), noise(2, 23))
    side = make("side.txt", noise(3, 21), noise(4, 25))
    assert invoke(base, side, "--fail-on", "regression").exit_code == 0
    failed = invoke(base, side, "--fail-on", "inconclusive")
    assert failed.exit_code == 1
    assert "gate: inconclusive: side: step_time" in failed.stderr


def test_several_gates_with_their_own_metrics(make: Make) -> None:
    base = make("base.txt", *(noise(k) for k in range(4)))
    slow = make("slow.txt", *(noise(k + 10, 22) for k in range(4)))
    assert invoke(base, slow, "--gate", "step_time:+15%", "--gate", "tflops:-15%").exit_code == 0
    failed = invoke(base, slow, "--gate", "step_time:+15%", "--gate", "tflops:-3%")
    assert failed.exit_code == 1
    assert "slow: tflops*: regression" in failed.stderr and "gate: slow: step_time" not in failed.stderr
    assert invoke(base, slow, "--gate", "tflops:+3%").exit_code == 0
    for wrong in ("step_time", "step_time:3%", "step_time:+3", ":+3%"):
        assert invoke(base, slow, "--gate", wrong).exit_code == 2


def test_a_gate_on_one_figure_of_a_metric(make: Make) -> None:
    """Stalls every 20 steps show in the mean and the tail. There is no p99 with fewer than 100 steps."""
    logs = [
        make(f"{name}.txt", *([t + stall * (i % 20 == 19) for i, t in enumerate(noise(seed + k, n=130))]
                              for k in range(4)))
        for name, seed, stall in (("base", 0, 0.0), ("stalls", 50, 40.0))
    ]  # fmt: skip
    gates = ("step_time p99:+50%", "step_time mean:+5%", "step_time median:+5%", "step_time:+5%")
    assert [invoke(*logs, "--gate", gate).exit_code for gate in gates] == [1, 1, 0, 1]
    short = [make(f"short{k}.txt", noise(k), noise(k + 9)) for k in range(2)]
    closed = invoke(*short, "--gate", "step_time p99:+3%")
    assert closed.exit_code == 3
    assert "no metric `step_time p99` on both sides; there are: step_time median, step_time mean, tok" in closed.stderr


def test_a_regression_that_passes_the_gate_says_so(make: Make) -> None:
    """A p of 0.02 is enough for a verdict, not for a gate."""
    base, side = ((20.0, 20.2, 20.4), (20.7, 20.95, 21.2))
    logs = [make(f"{k}.txt", *(noise(i, level, scatter=0.001) for i, level in enumerate(levels, 10 * k)))
            for k, levels in enumerate((base, side))]  # fmt: skip
    passed = invoke(*logs, "--fail-on", "regression")
    assert passed.exit_code == 0 and ": regression; 3 runs" in " ".join(passed.stdout.split())
    assert "a gate passes, as p is not below 0.01: more runs would confirm it" in passed.stdout


def test_a_change_that_may_be_under_the_threshold_is_told_as_a_change(make: Make) -> None:
    base = make("base.txt", *(noise(k) for k in range(4)))
    slow = make("slow.txt", *(noise(k + 10, level) for k, level in enumerate((20.6, 20.9, 21.2, 21.0))))
    text = " ".join(invoke(base, slow, "--threshold", "5%").stdout.split())
    assert "slower, maybe under 5 %: inconclusive" in text and "not known to differ" not in text


def test_a_warm_up_as_long_as_the_runs_leaves_nothing(make: Make) -> None:
    closed = invoke(make("a.txt", noise(1)), make("b.txt", noise(2)), "--warmup", "60", "--fail-on", "regression")
    assert closed.exit_code == 3
    assert "a warm-up of 60 steps leaves none: the longest run has 60" in closed.stderr


def test_json_holds_all_of_it(make: Make) -> None:
    names = make("a.txt", noise(1)), make("b.txt", noise(2))
    data = json.loads(invoke(*names, "--format", "json").stdout)
    assert data["schema_version"] == SCHEMA_VERSION
    assert data["sides"] == ["a", "b"]
    assert {"rows", "settings", "attribution", "summaries", "findings", "warnings", "rule"} <= set(data)
    assert data["rows"][0]["p_rank"] is None


def test_csv_is_one_table(make: Make) -> None:
    out = invoke(make("a.txt", noise(1)), make("b.txt", noise(2)), "--format", "csv").stdout.splitlines()
    assert out[0].startswith("case,kind,metric,statistic,unit,")
    assert len(out) == 1 + 6  # median and mean step time, forward, backward, tflops, tokens_per_s


def test_github_action_benchmark_gets_what_is_better_when_smaller(make: Make) -> None:
    out = invoke(make("a.txt", noise(1)), make("b.txt", noise(2)), "--format", "github-action-benchmark").stdout
    data = json.loads(out)
    assert [entry["name"] for entry in data] == ["b: step_time", "b: step_time mean", "b: forward", "b: backward"]
    assert all(set(entry) == {"name", "unit", "value", "range", "extra"} for entry in data)
    assert data[0]["value"] == pytest.approx(0.02, rel=0.01)
    assert data[0]["unit"] == "s"
    assert data[0]["range"].startswith("± ")


def test_text_and_markdown_have_verdict_and_reason(make: Make) -> None:
    a, b = make("a.txt", noise(1)), make("b.txt", noise(2, 30))
    for options in (("--all",), ("--format", "md")):
        out = invoke(a, b, *options).stdout
        for text in (
            "step_time",
            "exploratory regression",
            "one run per side does not show run-to-run",
            "settings that differ",
            "1 run, 60 steps",
        ):
            assert text in out
    assert "phases" not in invoke(a, b, "--all").stdout


PAGE = ROOT / "docs" / "judge.md"


def test_the_page_shows_what_the_command_prints() -> None:
    _, command, rest = PAGE.read_text("utf-8").partition("$ perflog compare ")
    arguments, _, shown = rest.partition("\n")
    shown = shown.partition("\n```")[0]
    assert command and shown
    assert invoke(*arguments.split()).stdout.startswith(shown)


def test_the_screen_says_what_would_decide(make: Make) -> None:
    base = make("base.txt", noise(1, 20), noise(2, 23))
    side = make("side.txt", noise(3, 21), noise(4, 25))
    row = perflog.compare(base, side).headlines[0]
    assert row.advice.endswith("runs per side to decide") and row.advice in invoke(base, side).stdout.splitlines()
