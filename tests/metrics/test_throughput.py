"""The throughput of the real runs, computed another way than by perflog."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from statistics import harmonic_mean, mean, median
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.history_files import history, run_file
from support.metrics_logs import rows as metric_rows
from support.paths import ROOT
from support.seeds import hits, log

import perflog
from perflog.cli.main import main
from perflog.errors import UsageError
from perflog.metrics import throughput
from perflog.metrics.step_time import throughput as module
from perflog.metrics.step_time.throughput import _total
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

REFERENCE = ROOT / "reference_runs" / "store"
QUICK = examples(25)  # tables of pandas take milliseconds each
STEP = r"STEP-(\d+): step_time = (\S+) ms, foward_time = \S+, backward_time = \S+, perf = (\S+) tflops\."
WORK = 8192 * 1024 * 4096 * 4 * 3 * 2  # samples, model_dim, hidden_size, two matrices, three passes, top-2


def reference(name: str) -> perflog.Log:
    store = perflog.load(REFERENCE)
    return store.select(*[run for run in store.run_keys if run.log == name])


def tables(
    times: list[float] | None, config: Mapping[str, Any], dtype: str | None = None, **columns: list[float]
) -> dict[str, pd.DataFrame]:
    """Tables of one run of no known format, with these times and columns of `steps`."""
    import pandas as pd

    count = len(times or next(iter(columns.values())))
    steps = pd.DataFrame({c.name: [None] * count for c in TABLES["steps"]})
    fixed = {"run": "r", "line": range(1, count + 1), "part": 0, "step": range(count), "copy": 1, "steps_averaged": 1}
    steps = steps.assign(**fixed, **columns, **({"step_time_s": times} if times else {}))
    run = {c.name: None for c in TABLES["runs"]} | {"run": "r", "index": 1, "first_line": 1, "last_line": count}
    run |= {"config": json.dumps(config), "dtype": dtype, "world_size": config.get("world_size")}
    return {"runs": pd.DataFrame([run]), "steps": steps}


def row(found: pd.DataFrame, part: str = "all") -> dict[str, Any]:
    """The one row of a part, without what is null in it."""
    (one,) = found[found["part"] == part].to_dict("records")
    return {k: v for k, v in one.items() if v is not None and v == v}


def test_an_unknown_convention_is_an_error() -> None:
    with pytest.raises(UsageError, match="no FLOP convention `mine`"):
        throughput(tables([1.0], {}), flops="mine")


# --- the real runs ----------------------------------------------------------------------------------------------


def test_all_500_printed_rates_are_the_convention_s() -> None:
    printed = [(float(ms), rate) for name in ("moe_layer", "moe_layer_early") for _, (_, ms, rate) in hits(name, STEP)]
    assert len(printed) == 500
    assert all(f"{WORK / (ms / 1e3) / 1e12:.2f}" == rate for ms, rate in printed)
    found = [throughput(log(name)) for name in ("moe_layer", "moe_layer_early")]
    counts = [table.loc[table["part"] == "all", ["n", "n_printed", "n_agree"]] for table in found]
    assert [count.sum().to_list() for count in counts] == [[400, 400, 400], [100, 100, 100]]


def test_rates_are_those_of_the_lines() -> None:
    times = [float(ms) / 1e3 for _, (_, ms, _) in hits("moe_layer", STEP)]
    found = throughput(log("moe_layer"))
    for place in range(4):
        mine = times[100 * place : 100 * place + 100]
        every, steady = (found.iloc[2 * place + i] for i in range(2))
        cut = 100 - steady["n"]
        for one, part in ((every, mine), (steady, mine[cut:])):
            assert one["tflops"] == pytest.approx(WORK / median(part) / 1e12, rel=1e-12)
            assert one["tflops_total"] == pytest.approx(WORK * len(part) / sum(part) / 1e12, rel=1e-12)
            assert one["tflops_low"] < one["tflops"] < one["tflops_high"]
            assert one["printed_tflops"] == pytest.approx(one["tflops"], abs=0.01)
            assert one["tokens_per_s"] == pytest.approx(4 * 8192 * len(part) / sum(part), rel=1e-12)
            assert one["tokens_per_s_gpu"] * 4 == one["tokens_per_s"]


@pytest.mark.parametrize(
    ("name", "medians"),
    [("moe_layer.txt", [38.73, 36.54, 35.13, 28.23]), ("moe_layer_early.txt", [36.39])],
)
def test_reference_runs(name: str, medians: list[float]) -> None:
    found = throughput(reference(name), gpu="NVIDIA A100-PCIE-40GB")
    steady = found[found["part"] == "steady"]
    assert steady["tflops"].round(2).to_list() == medians
    assert (found["n_agree"] == found["n_printed"]).all() and (found["n_printed"] == found["n"]).all()
    assert found["mfu"].to_list() == pytest.approx((found["tflops"] / 312).to_list())  # fp16, as the log prints it
    assert found["hfu"].isna().all()  # nothing is said of recomputation
    assert not found["impossible"].any()
    assert set(found["flops_convention"]) == {"tutel"}
    assert found["missing"].isna().all()


def test_a_slow_first_step_spoils_a_mean_of_rates_not_a_total() -> None:
    """The first of 100 steps takes 7.5 of 9.8 s; a mean of rates would hide that."""
    every = row(throughput(reference("moe_layer_early.txt")))
    assert every["tflops_total"] == pytest.approx(8.43, abs=0.01)
    assert every["tflops"] == pytest.approx(36.38, abs=0.01)


@pytest.mark.parametrize("name", ["training_sweep.txt", "nvprof.txt", "pipeline_layers.txt"])
def test_a_log_that_says_nothing_of_rates_has_none(name: str) -> None:
    assert len(throughput(reference(name))) == 0


def test_what_a_convention_misses_is_named() -> None:
    found = throughput(reference("training_sweep.txt"), flops="6N")
    assert len(found) == 18
    assert set(found["missing"]) == {"matmul_parameters, tokens"}
    assert found["tflops"].isna().all()
    found = throughput(reference("moe_layer.txt"), flops="megatron-2021", gpu="A100")
    assert set(found["missing"]) == {"global_batch, layers, sequence_length, vocabulary"}
    assert found["tflops"].isna().all() and found["mfu"].isna().all()
    assert found["printed_tflops"].notna().all()


def test_another_convention_does_not_agree_with_the_printed_rates() -> None:
    assert throughput(reference("moe_layer.txt"), flops="tutel-eval")["n_agree"].eq(0).all()


def test_the_command_takes_its_peak_in_tflops() -> None:
    options = ["--store", str(REFERENCE), "--format", "json"]
    for named in (["--peak-tflops", "312"], ["--peak", "312"], ["--gpu", "A100"]):
        done = CliRunner().invoke(main, ["analyze", "moe_layer_early.txt", "throughput", *options, *named])
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)["throughput"]
        assert [round(one["mfu"], 4) for one in found] == [0.1166, 0.1166]
    done = CliRunner().invoke(main, ["analyze", "moe_layer_early.txt", "throughput", *options, "--gpu", "H100"])
    assert done.exit_code == 2 and "H100 SXM, H100 PCIe, H100 NVL" in done.stderr


# --- made-up runs -----------------------------------------------------------------------------------------------

MODEL = {"matmul_parameters": 1e9, "tokens": 8192, "world_size": 4, "recompute": 1}


def test_mfu_hfu_and_the_impossible() -> None:
    given_ = tables([0.1] * 20, MODEL, "bfloat16")
    one = row(throughput(given_, flops="6N", gpu="A100"))
    tflops = 6 * 1e9 * 8192 / 4 / 0.1 / 1e12
    assert one["tflops"] == pytest.approx(tflops)
    assert one["mfu"] == pytest.approx(tflops / 312)
    assert one["hfu"] == pytest.approx(4 / 3 * tflops / 312)
    assert (one["device"], one["peak_tflops"], one["impossible"]) == ("A100", 312, False)
    assert one["peak_source"] == "NVIDIA data sheet"
    assert "n_agree" not in one and one["n_printed"] == 0
    one = row(throughput(given_, flops="6N", peak_tflops=100.0))
    assert one["mfu"] == pytest.approx(tflops / 100) and one["impossible"]
    assert one["peak_source"] == "given"
    assert "mfu" not in row(throughput(given_, flops="6N"))  # no device, no default


def test_all_columns_of_a_run() -> None:
    """A first step of 0.4 s, then seven of 0.1 or 0.2 s, of 12.288 TFLOP and 8192 tokens on each of 4 GPUs."""
    times = [0.4, 0.1, 0.2, 0.1, 0.1, 0.2, 0.2, 0.1]
    printed = [12.288 / time if time < 0.2 else 50.0 for time in times]
    made = tables(times, MODEL, "bfloat16", tflops=printed, tokens_per_s=[1000.0 + k for k in range(8)])
    work: dict[str, Any] = {"flops_convention": "6N", "flops_formula": "6 * matmul_parameters * tokens / world_size"}
    work |= {"step_flops": 6 * 1e9 * 8192 / 4, "device": "A100", "peak_tflops": 312.0, "printed_mfu": None}
    work |= {"peak_source": "NVIDIA data sheet", "samples_per_s": None, "samples_per_s_median": None, "missing": None}
    work |= {"run": "r", "label": None, "impossible": False, "tokens_from": "printed", "last_step": 7, "last_line": 8}
    found = metric_rows(throughput(made, flops="6N", gpu="A100", warmup=1))
    for row_, first in zip(found, (0, 1), strict=True):
        own = times[first:]
        rate = sum(time * (1000 + k) for k, time in enumerate(times) if k >= first) / sum(own)
        middle = 1003.5 if not first else 1004.0
        assert row_ == work | {
            "part": ("all", "steady")[first], "n": 8 - first, "first_step": first, "first_line": 1 + first,
            "tflops": pytest.approx(12.288 / median(own)), "tflops_low": pytest.approx(12.288 / max(own)),
            "tflops_high": pytest.approx(122.88), "tflops_total": pytest.approx(12.288 * len(own) / sum(own)),
            "printed_tflops": pytest.approx(median(printed[first:])), "n_printed": 8 - first, "n_agree": None,
            "mfu": pytest.approx(12.288 / median(own) / 312), "hfu": pytest.approx(12.288 / median(own) / 312 * 4 / 3),
            "tokens_per_s": pytest.approx(rate), "tokens_per_s_gpu": pytest.approx(rate / 4),
            "tokens_per_s_median": middle, "tokens_per_s_gpu_median": middle / 4,
        }  # fmt: skip


def test_the_row_of_the_slowest_rank_of_each_step_of_a_series() -> None:
    """Steps 5 and 9 on lines 1 to 3 and 4 to 6, line 2 and line 5 of two ranks: the series has these lines."""
    steps, lines = np.array([5, 5, 5, 5, 9, 9, 9, 9]), np.array([1, 2, 2, 3, 4, 5, 5, 6])
    paces = np.array([9.0, 2.0, 3.0, 9.0, 9.0, 7.0, 6.0, 9.0])
    series: Any = SimpleNamespace(steps=np.array([9, 5]), lines=np.array([5, 2]))
    assert module._slowest_rows(series, steps, lines, paces).tolist() == [5, 2]


def test_the_world_size_may_stand_in_the_runs_alone() -> None:
    given_ = tables([0.1] * 6, {"matmul_parameters": 1e9, "tokens": 100})
    assert row(throughput(given_, flops="6N"))["missing"] == "world_size"
    given_["runs"]["world_size"] = 2
    assert row(throughput(given_, flops="6N"))["step_flops"] == 6 * 1e9 * 100 / 2


def test_of_several_ranks_the_slowest_counts() -> None:
    import pandas as pd

    fast, slow = (tables([t] * 6, MODEL, tflops=[f] * 6) for t, f in ((0.1, 122.9), (0.2, 61.4)))
    slow["steps"]["line"] += 6
    both = {**fast, "steps": pd.concat([fast["steps"], slow["steps"]], ignore_index=True)}
    one, alone = (row(throughput(t, flops="6N")) for t in (both, slow))
    assert one == alone
    assert (one["n"], one["n_printed"], one["printed_tflops"]) == (6, 6, 61.4)


def test_a_log_of_rates_alone_has_their_medians() -> None:
    one = row(throughput(tables(None, {}, tflops=[40.0, 42.0, 41.0], mfu=[0.40, 0.42, 0.41])))
    assert (one["n"], one["n_printed"], one["printed_tflops"], one["printed_mfu"]) == (3, 3, 41.0, 0.41)
    assert "tflops" not in one
    assert row(throughput(tables(None, {}, mfu=[0.5])))["printed_mfu"] == 0.5


def test_without_its_dtype_a_run_has_no_peak() -> None:
    one = row(throughput(tables([0.1] * 6, MODEL), flops="6N", gpu="A100"))
    assert one["missing"] == "dtype" and "mfu" not in one and "impossible" not in one
    one = row(throughput(tables([0.1] * 6, MODEL, "int8"), flops="6N", gpu="A100"))
    assert one["missing"] == "no peak of A100 is known for `int8`" and "mfu" not in one


@pytest.mark.parametrize("options", [{"gpu": "A1000"}, *({"peak_tflops": peak} for peak in (0.0, -1.0, float("nan")))])
def test_a_peak_that_is_none_is_an_error(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        throughput(tables([0.1], {}), **options)


def test_times_of_the_convention_are_taken() -> None:
    given_ = tables([9.0] * 6, {"forward_macs": 1e12}, forward_s=[1.0] * 6, backward_s=[2.0] * 6)
    assert row(throughput(given_, flops="ds-profiler"))["tflops"] == pytest.approx(2.0)  # 6 TFLOP in 1 + 2 s
    assert row(throughput(tables([9.0] * 6, {"forward_macs": 1e12}), flops="ds-profiler"))["missing"] == (
        "forward_s, backward_s"
    )


@QUICK
@given(st.lists(st.floats(1.0, 1e6), min_size=1, max_size=30))
def test_printed_rates_without_times_are_averaged_as_work_over_time(rates: list[float]) -> None:
    one = row(throughput(tables(None, {"world_size": 8}, tokens_per_s=rates, samples_per_s=rates)))
    assert one["tokens_per_s"] == pytest.approx(harmonic_mean(rates)) == one["samples_per_s"]
    assert one["tokens_per_s_gpu"] * 8 == pytest.approx(one["tokens_per_s"])
    assert one["tokens_per_s"] <= mean(rates) * (1 + 1e-12)
    assert one["tokens_from"] == "printed"


@QUICK
@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(1.0, 1e6)), min_size=1, max_size=30))
def test_printed_rates_with_times_are_weighed_by_them(steps: list[tuple[float, float]]) -> None:
    times, rates = (list(x) for x in zip(*steps, strict=True))
    one = row(throughput(tables(times, {}, tokens_per_s=rates)))
    assert one["tokens_per_s"] == pytest.approx(sum(t * r for t, r in steps) / sum(times))
    assert "tokens_per_s_gpu" not in one  # the number of GPUs is not known
    assert one["missing"] == "FLOP convention"


@QUICK
@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=30))
def test_rates_are_work_over_the_times_of_the_same_part(times: list[float]) -> None:
    found = throughput(tables(times, MODEL), flops="6N", warmup=0)
    every, steady = row(found), row(found, "steady")
    assert {k: v for k, v in every.items() if k != "part"} == {k: v for k, v in steady.items() if k != "part"}
    assert every["tflops"] == pytest.approx(every["step_flops"] / median(times) / 1e12)
    assert every["tflops_total"] == pytest.approx(harmonic_mean([every["step_flops"] / t / 1e12 for t in times]))
    assert every["tflops_total"] * (1 + 1e-12) >= every["step_flops"] / max(times) / 1e12


@pytest.mark.parametrize(
    ("printed", "expected"),
    [(41.2, 0.412), (99.98, 0.9998), (0.412, math.nan), (1.5, math.nan), (337.6, math.nan), (99.99, math.nan)],
    ids=["percent", "up to 100", "a share or a small percentage", "up to 1.5", "neither", "up to 100.001"],
)
def test_an_mfu_without_a_unit_is_percent_where_it_can_be_nothing_else(
    tmp_path: Path, printed: float, expected: float
) -> None:
    path = tmp_path / "run.log"
    lines = [f"step: {k} | loss: 2.5 | tokens_per_second: 5120.5 | mfu: {printed + k / 1000}\n" for k in range(12)]
    path.write_text("".join(lines))
    shares = throughput(perflog.read(path))["printed_mfu"].astype(float)
    assert shares.iloc[0] == pytest.approx(expected, rel=0.01, nan_ok=True)


@pytest.mark.parametrize(
    ("times", "total"),
    [
        ([1.0, 3.0, 1.0, 1.0], (10 + 60 + 40 + 40) / 6),  # work over time
        ([1.0, 3.0, 1.0, math.nan], (10 + 60 + 40) / 5),  # of those with a time, which are most
        ([1.0, 3.0, math.nan, 0.0], 4 / (1 / 10 + 1 / 20 + 2 / 40)),  # each step has the same work
        ([math.nan] * 4, 4 / (1 / 10 + 1 / 20 + 2 / 40)),
    ],
)
def test_a_printed_rate_over_several_steps(times: list[float], total: float) -> None:
    rates = np.array([10.0, 20.0, 40.0, 40.0])
    assert _total({"samples_per_s": rates, "step_time_s": np.array(times)}, "samples_per_s") == pytest.approx(total)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("tok/s/gpu: {}", "tokens_per_s_gpu"),
        ("{} tokens/s/GPU", "tokens_per_s_gpu"),
        ("tgs={}", "tokens_per_s_gpu"),
        ("tokens per device per second: {}", "tokens_per_s_gpu"),
        ("tok/s: {} gpu: 3", "tokens_per_s"),
        ("tps: {}", "tokens_per_s"),
        ("tok/s {} tok/s/gpu 150.2", "tokens_per_s"),
        ("tok/s: {} | tok/s/gpu: 150.2", "tokens_per_s"),
        ("speed {} tok/s/gpu, 3.5 GB", "tokens_per_s_gpu"),
        ("tps: {} tok/s/gpu, 3.5 GB", "tokens_per_s_gpu"),
    ],
)
def test_the_name_of_a_printed_rate_says_whether_it_is_of_one_gpu(tmp_path: Path, text: str, column: str) -> None:
    path = tmp_path / "run.log"
    path.write_text("".join(f"step {k} loss 2.{k} {text.format(1200.5 + k)}\n" for k in range(1, 20)))
    rates = throughput(perflog.read(path))[["tokens_per_s", "tokens_per_s_gpu"]]
    assert {*rates.dropna(axis="columns").columns} == {column}


def test_a_rate_of_one_gpu_alone_on_a_line_beside_the_step_counts(tmp_path: Path) -> None:
    line = "Step {0} | loss:1.5 lr:2e-05 tokens_per_second_per_gpu:300.0 \n"
    bar = "1|{0}|Loss: 1.5:  3%|# | {0}/99 [00:{0}0<04:51, 9.00s/it]\n"
    (tmp_path / "log.txt").write_text("".join((line + bar).format(k) for k in range(1, 6)))
    found = perflog.metrics.throughput(perflog.read(tmp_path / "log.txt"))
    assert found.iloc[0]["tokens_per_s_gpu_median"] == 300


@pytest.mark.parametrize("separator", [",", "  "])
@pytest.mark.parametrize(
    ("name", "column"), [("tokens_per_sec_per_gpu", "tokens_per_s_gpu"), ("tokens_per_sec", "tokens_per_s")]
)
def test_the_header_of_a_table_says_whether_a_rate_is_of_one_gpu(
    tmp_path: Path, separator: str, name: str, column: str
) -> None:
    rows = [("step", "loss", name, "time_s"), *((k, f"2.{k}", 1200 + k, 0.5) for k in range(1, 20))]
    path = tmp_path / "run.csv"
    path.write_text("".join(f"{separator.join(map(str, row))}\n" for row in rows))
    rates = throughput(perflog.read(path))[["tokens_per_s", "tokens_per_s_gpu"]]
    assert {*rates.dropna(axis="columns").columns} == {column}


@pytest.mark.parametrize(
    ("names", "column"),
    [
        (["perf/tokens_per_sec_per_gpu"], "tokens_per_s_gpu"),
        (["perf/tokens_per_sec"], "tokens_per_s"),
        (["perf/tokens_per_sec_per_gpu", "perf/tokens_per_sec"], "tokens_per_s"),
    ],
)
def test_the_name_of_a_series_says_whether_a_rate_is_of_one_gpu(tmp_path: Path, names: list[str], column: str) -> None:
    records = (history(_step=k, _runtime=k / 2, loss=2.5, **dict.fromkeys(names, 1200.5)) for k in range(1, 20))
    path = tmp_path / "run.wandb"
    path.write_bytes(run_file(*records))
    rates = throughput(perflog.read(path))[["tokens_per_s", "tokens_per_s_gpu"]]
    assert {*rates.dropna(axis="columns").columns} == {column}


def test_paddle_prints_the_rates_of_an_interval(tmp_path: Path) -> None:
    line = (
        "[    INFO] - loss: 7.{0}, learning_rate: 3e-05, global_step: {0}0, interval_runtime: 5.2, "
        "interval_samples_per_second: 12.3077, interval_tokens_per_second_per_device: 6301.5, "
        "interval_steps_per_second: 1.9231, progress_or_epoch: 0.1\n"
    )
    path = tmp_path / "run.log"
    path.write_text("".join(line.format(k) for k in range(1, 20)))
    read = perflog.read(path)
    row = throughput(read).iloc[0]
    assert (row.tokens_per_s_gpu, row.samples_per_s_median) == (pytest.approx(6301.5), pytest.approx(12.3077))
    assert read.table("steps").step_time_s.median() == pytest.approx(1 / 1.9231)
