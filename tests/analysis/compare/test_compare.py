"""`perflog.compare`: ratios, intervals, verdicts and their reasons, on synthetic sides and on the reference runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from support.paths import ROOT
from support.seeds import path

import perflog
from perflog.analysis import compare
from perflog.analysis.compare.verdicts import Ratio, VerdictRule, decide
from perflog.cli.main import main
from perflog.errors import UsageError
from perflog.tables.schema import SCHEMA_VERSION

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


def step_time(compared: compare.Comparison) -> dict[str, Any]:
    (row,) = compared.headlines
    return row


# --- the rule -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "low", "high", "drift", "runs", "words", "fails"),
    [
        (0.90, 0.88, 0.92, 0.01, 3, "regression", True),
        (0.90, 0.88, 0.92, 0.01, 1, "exploratory regression", True),  # the whole interval lies beyond
        (0.94, 0.92, 0.96, 0.01, 3, "regression", True),
        (0.94, 0.92, 0.96, 0.01, 2, "exploratory regression", False),  # it may be less than the threshold
        (1.10, 1.08, 1.12, 0.01, 3, "improvement", False),
        (0.97, 0.96, 0.98, 0.00, 3, "inconclusive", False),  # sure, but under the threshold
        (0.90, 0.75, 1.05, 0.00, 3, "inconclusive", False),
        (1.00, 0.99, 1.01, 0.00, 5, "equivalent", False),
        (1.00, 0.99, 1.01, 0.00, 1, "exploratory equivalent", False),
        (1.00, 0.99, 1.01, 0.03, 5, "inconclusive (drift)", False),
        (0.90, 0.88, 0.92, 0.05, 3, "inconclusive (drift)", False),  # half of the difference
        (0.90, math.nan, math.nan, 0.0, 1, "inconclusive", False),
    ],
)
def test_verdicts(ratio: float, low: float, high: float, drift: float, runs: int, words: str, fails: bool) -> None:
    verdict = decide(Ratio(ratio, low, high, drift, runs), VerdictRule())
    assert (verdict.words, verdict.fails) == (words, fails)
    assert verdict.reason


@given(st.floats(0.2, 5), st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0, 1), st.integers(1, 5))
def test_few_runs_give_exploratory_verdicts_at_most(
    ratio: float, below: float, above: float, drift: float, runs: int
) -> None:
    verdict = decide(Ratio(ratio, ratio * (1 - below), ratio * (1 + above), drift, runs), VerdictRule())
    if runs < 3:
        assert verdict.words.startswith(("exploratory ", "inconclusive"))
    if verdict.fails:
        assert ratio <= 0.95 and ratio * (1 + above) < 1


# --- synthetic sides ----------------------------------------------------------------------------------------------


def test_repeats_give_a_plain_verdict_and_a_p(make: Make) -> None:
    base = make("base.txt", *(noise(k) for k in range(4)))
    slow = make("slow.txt", *(noise(k + 10, 22.0) for k in range(4)))
    row = step_time(perflog.compare(base, slow))
    assert row["verdict"] == "regression"
    assert row["p"] == pytest.approx(2 / 70)  # exact, of C(8, 4) arrangements
    assert row["ratio"] == pytest.approx(20 / 22, rel=0.005)
    assert row["ratio_low"] < 20 / 22 < row["ratio_high"]
    assert (row["base_runs"], row["side_runs"], row["side_steps"]) == (4, 4, 240)
    assert row["shift"] == pytest.approx(2e-3, rel=0.05)
    assert row["cliffs_delta"] == 1
    assert step_time(perflog.compare(slow, base))["verdict"] == "improvement"


def test_the_ratio_is_inverse_the_other_way_round(make: Make) -> None:
    a, b = make("a.txt", noise(1)), make("b.txt", noise(2, 21.5))
    there, back = step_time(perflog.compare(a, b)), step_time(perflog.compare(b, a))
    assert there["ratio"] * back["ratio"] == pytest.approx(1)
    assert there["ratio_low"] * back["ratio_high"] == pytest.approx(1, rel=0.005)


def test_three_runs_have_no_p_and_holm_counts_only_tests(make: Make) -> None:
    three = [make(f"{side}.txt", *(noise(k + i) for k in range(3))) for i, side in ((0, "a"), (50, "b"))]
    assert perflog.compare(*three).rows["p"].isna().all()
    four = [make(f"{side}.txt", *(noise(k + i) for k in range(4))) for i, side in ((0, "a"), (50, "b"))]
    rows = perflog.compare(*four).rows
    tested = rows[rows["p_holm"].notna()]
    assert set(tested["metric"]) == {"step_time", "forward", "backward"}  # rates are computed from the step time
    assert (tested["p_holm"] >= tested["p"]).all()


def test_the_same_result_every_time(make: Make) -> None:
    a, b = make("a.txt", noise(1)), make("b.txt", noise(2))
    compared = perflog.compare(a, b)
    assert compared.to_dict() == perflog.compare(a, b).to_dict()
    assert compared.rows["ratio_low"][0] != perflog.compare(a, b, seed=1).rows["ratio_low"][0]


def test_warm_up_is_cut_alike_on_both_sides(make: Make) -> None:
    slow_start = [60.0] * 5 + noise(1)[5:]
    a, b = make("a.txt", slow_start), make("b.txt", noise(2))
    compared = perflog.compare(a, b)
    assert compared.warmup == (5,)
    assert (step_time(compared)["base_steps"], step_time(compared)["side_steps"]) == (55, 55)
    assert step_time(perflog.compare(a, b, warmup=10))["side_steps"] == 50


def test_a_run_that_drifts_is_not_a_regression(make: Make) -> None:
    rising = list(np.linspace(20, 23, 60) + np.random.default_rng(0).normal(0, 0.05, 60))
    row = step_time(perflog.compare(make("a.txt", noise(1)), make("b.txt", rising), warmup=0))
    assert row["ratio"] < 0.95 and row["ratio_high"] < 1
    assert row["verdict"] == "inconclusive (drift)"
    assert "drifts" in row["reason"]


def test_sides_of_one_name_are_repeats(make: Make) -> None:
    names = [f"a={make(f'{k}.txt', noise(k))}" for k in range(3)] + [
        f"b={make(f'{k}.txt', noise(k))}" for k in (7, 8, 9)
    ]
    compared = perflog.compare(*names)
    assert compared.sides == ("a", "b")
    assert (step_time(compared)["base_runs"], step_time(compared)["verdict"]) == (3, "equivalent")


def test_sweeps_are_matched_by_their_settings(make: Make) -> None:
    base = make("base.txt", noise(1), noise(2, 30), noise(3, 40), experts=(8, 16, 64))
    other = make("other.txt", noise(4, 60), noise(5, 10), experts=(16, 8))
    compared = perflog.compare(base, other)
    assert [case.name for case in compared.cases] == ["num_local_experts=8", "num_local_experts=16"]
    ratios = [row["ratio"] for row in compared.headlines]
    assert ratios == pytest.approx([2, 0.5], rel=0.01)
    (mean,) = compared.geomeans()
    assert mean["ratio"] == pytest.approx(math.sqrt(ratios[0] * ratios[1]))
    assert "not compared" in compared.warnings[0] and "base#3" in compared.warnings[0]


def test_a_sweep_against_itself_by_a_setting(make: Make) -> None:
    compared = perflog.compare(make("one.txt", noise(1), noise(2, 30), experts=(8, 16)), by="num_local_experts")
    assert compared.sides == ("8", "16")
    assert step_time(compared)["ratio"] == pytest.approx(2 / 3, rel=0.01)
    assert compared.settings.to_dict("records") == [{"case": "", "setting": "num_local_experts", "8": "8", "16": "16"}]


def test_runs_of_different_settings_are_no_repeats(make: Make) -> None:
    mixed, other = make("mixed.txt", noise(1), noise(2), experts=(8, 16)), Path(make("b.txt", noise(3), noise(4)))
    other.write_text(other.read_text("utf-8").replace("topK = 2", "topK = 1", 1), encoding="utf-8")
    with pytest.raises(UsageError, match="no repeats: num_local_experts differs") as caught:
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
    assert by_name["ratio"] == by_log["ratio"]
    assert by_name["base"] == "store" and by_log["base"] == "a#1"


def test_a_log_against_itself_is_equivalent(make: Make) -> None:
    a = make("a.txt", noise(1))
    compared = perflog.compare(a, a)
    assert compared.sides == ("a", "a (2)")
    assert step_time(compared)["ratio"] == 1
    assert compared.verdict == "exploratory equivalent"


# --- display ------------------------------------------------------------------------------------------


def test_a_comparison_shows_itself_briefly(make: Make) -> None:
    compared = perflog.compare(make("a.txt", noise(1)), make("b.txt", noise(2, 30)))
    assert repr(compared).startswith("<Comparison: b against a: step_time: exploratory regression, ratio 0.66")
    assert "\n" not in repr(compared) and len(repr(compared)) < 120
    headline, *rows = str(compared).splitlines()
    assert headline == "b against a: step_time: exploratory regression"
    assert len(rows) == len(compared.rows)
    assert rows[0].startswith("  b: step_time 20") and rows[0].endswith("]: exploratory regression")


def test_a_notebook_gets_a_row_per_case(make: Make) -> None:
    sweeps = [make(f"{name}.txt", noise(k), noise(k + 1, 30), experts=(8, 16)) for k, name in ((1, "a<b"), (5, "c"))]
    compared = perflog.compare(*sweeps)
    assert repr(compared).endswith(", 2 cases>")
    html = compared._repr_html_()
    assert html.count("<tr>") == 1 + 2
    assert "num_local_experts=16" in html
    assert "a&lt;b" in html and "a<b" not in html


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
    rows = layer.rows.set_index("metric")
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
    gpt2 = [row for row in systems.headlines if "model=gpt2" in row["case"]]
    assert [row["verdict"] for row in gpt2] == ["exploratory equivalent"] * 2
    assert all(0.98 < row["ratio_low"] < 1 < row["ratio_high"] < 1.02 for row in gpt2)
    assert all("inside" in row["reason"] for row in gpt2)
    same_model = systems.findings[systems.findings["code"] == "comparison-same-model"]
    assert same_model["case"].tolist() == ["model=gpt2, experts=16"]
    assert "printouts of all sides are identical" in same_model["message"].iloc[0]
    alone = systems.attribution[systems.attribution["case"] == "model=gpt2, experts=16"]
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
    (row,) = [r for r in systems.headlines if f"model={model}" in r["case"] and r["side"] == side]
    assert row["verdict"] == "exploratory regression"
    assert row["ratio"] == pytest.approx(means[0] / means[1], rel=0.01)
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"] < 0.95
    assert row["ratio_high"] / row["ratio_low"] < 1.03


def test_layers_and_kernels_are_attributed() -> None:
    layers = perflog.compare("reference:pipeline_layers.txt", "reference:pipeline_layers.txt")
    rows = layers.rows[layers.rows["kind"] == "layer"].set_index("metric")
    assert rows["base_value"]["lm_head forward"] == pytest.approx(0.1337, abs=5e-4)
    assert (rows["ratio"] == 1).all()
    kernels = perflog.compare("reference:nvprof.txt", "reference:nvprof.txt").rows
    assert kernels["verdict"].unique().tolist() == ["inconclusive"]  # one number a side has no interval
    assert kernels[kernels["metric"] == "all"]["base_value"].iloc[0] == pytest.approx(11.19, abs=0.005)


def test_the_logs_compare_as_the_reference_runs_do(layer: compare.Comparison) -> None:
    late, early = path("moe_layer"), path("moe_layer_early")
    compared = perflog.compare(f"late={late}#1", f"early={early}")
    assert compared.rows.drop(columns="case").equals(layer.rows.drop(columns="case"))


# --- the command --------------------------------------------------------------------------------------------------


def test_the_gate(make: Make) -> None:
    base, slow = make("base.txt", noise(1)), make("slow.txt", noise(2, 22))
    failed = invoke(base, slow, "--fail-on", "regression")
    assert failed.exit_code == 1
    assert "perflog: warning: gate: slow: step_time: exploratory regression" in failed.stderr
    assert invoke(base, slow, "--fail-on", "regression:15%").exit_code == 0
    assert invoke(slow, base, "--fail-on", "regression").exit_code == 0
    assert invoke(base, slow).exit_code == 0
    assert invoke(base, slow, "--fail-on", "faster").exit_code == 2
    assert invoke(base).exit_code == 2


def test_json_holds_all_of_it(make: Make) -> None:
    names = make("a.txt", noise(1)), make("b.txt", noise(2))
    data = json.loads(invoke(*names, "--format", "json").stdout)
    assert data["schema_version"] == SCHEMA_VERSION
    assert data["sides"] == ["a", "b"]
    assert {"rows", "settings", "attribution", "summaries", "findings", "warnings", "rule"} <= set(data)
    assert data["rows"][0]["p"] is None


def test_csv_is_one_table(make: Make) -> None:
    out = invoke(make("a.txt", noise(1)), make("b.txt", noise(2)), "--format", "csv").stdout.splitlines()
    assert out[0].startswith("case,kind,metric,unit,")
    assert len(out) == 1 + 5  # step_time, forward, backward, tflops, tokens_per_s


def test_github_action_benchmark_gets_what_is_better_when_smaller(make: Make) -> None:
    out = invoke(make("a.txt", noise(1)), make("b.txt", noise(2)), "--format", "github-action-benchmark").stdout
    data = json.loads(out)
    assert [entry["name"] for entry in data] == ["b: step_time", "b: forward", "b: backward"]
    assert all(set(entry) == {"name", "unit", "value", "range", "extra"} for entry in data)
    assert data[0]["value"] == pytest.approx(0.02, rel=0.01)
    assert data[0]["unit"] == "s"
    assert data[0]["range"].startswith("± ")


def test_bencher_gets_values_within_their_bounds(make: Make) -> None:
    data = json.loads(invoke(make("a.txt", noise(1)), make("b.txt", noise(2)), "--format", "bencher").stdout)
    assert set(data) == {"b"}
    for entry in data["b"].values():
        assert entry["lower_value"] <= entry["value"] <= entry["upper_value"]


def test_text_and_markdown_have_verdict_and_reason(make: Make) -> None:
    a, b = make("a.txt", noise(1)), make("b.txt", noise(2, 30))
    for format in ("text", "md"):
        out = invoke(a, b, "--format", format).stdout
        for text in ("step_time", "exploratory regression", "1 run a side", "settings that differ", "1 x 60"):
            assert text in out
    assert "phases" not in invoke(a, b, "--all").stdout


PAGE = ROOT / "docs" / "compare.md"


def test_the_page_shows_what_the_command_prints() -> None:
    _, command, rest = PAGE.read_text("utf-8").partition("$ perflog compare ")
    arguments, _, shown = rest.partition("\n")
    shown = shown.partition("\n```")[0]
    assert command and shown
    assert invoke(*arguments.split()).stdout.startswith(shown)
