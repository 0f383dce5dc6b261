"""Metric `scaling`: speed-up and efficiency over numbers of GPUs, and what the next size would bring."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.commands import run
from support.metrics_logs import rows as metric_rows
from support.paths import SHARED

import perflog
from perflog.metrics import scaling
from perflog.metrics.many_runs.scaling import _cost

if TYPE_CHECKING:
    import pandas as pd

STRONG_A, STRONG_B = 0.02, 0.64
"""Seconds of a step: fixed, and divided by the GPUs."""


def result(gpus: int, **more: Any) -> dict[str, Any]:
    return {"model": "gpt2", "precision": "bf16", "world_size": gpus, "peak_mem_gb": 10.5 + 1 / gpus, **more}


def table(folder: Path, results: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    folder.mkdir(exist_ok=True)
    for name, values in results.items():
        (folder / f"{name}.json").write_text(json.dumps(values, indent=2))
    return scaling(perflog.find_runs(str(folder)))


def strong(gpus: int) -> dict[str, Any]:
    step = STRONG_A + STRONG_B / gpus
    return result(gpus, global_batch_size=256, batch_size_per_gpu=256 // gpus, images_per_sec_global=256 / step)


def test_strong_scaling_follows_amdahl(tmp_path: Path) -> None:
    rows = table(tmp_path, {f"n{n}": strong(n) for n in (1, 2, 4, 8)})
    measured, predicted = rows[rows["of"] == "measured"], rows[rows["of"] == "predicted"].iloc[0]
    assert set(rows["mode"]) == {"strong"}
    one = STRONG_A + STRONG_B
    for row in measured.itertuples():
        speedup = one / (STRONG_A + STRONG_B / row.gpus)
        assert row.speedup == pytest.approx(speedup, rel=1e-9)
        assert row.efficiency == pytest.approx(speedup / row.gpus, rel=1e-9)
    assert measured.iloc[-1]["error"] == pytest.approx(0, abs=1e-9)
    assert predicted["gpus"] == 16
    step = STRONG_A + STRONG_B / 16
    assert predicted["speed"] == pytest.approx(256 / step, rel=1e-9)
    assert predicted["marginal"] == pytest.approx(8 * (STRONG_A + STRONG_B / 8) / (16 * step), rel=1e-9)


def test_all_columns_of_three_sizes_and_the_next(tmp_path: Path) -> None:
    """A unit takes 10, 11 and 13 ms of 1, 2 and 4 GPUs: at 8 the straight line over the logarithm has 14.33 ms."""
    cost = {1: 0.010, 2: 0.011, 4: 0.013}
    found = table(tmp_path, {f"n{n}": result(n, tokens_per_sec_total=n / each) for n, each in cost.items()})
    ahead, spread = 0.043 / 3, 12.7062047 * math.sqrt((1 + 1 / 3 + 2) * 1e-6 / 6)  # Student's t of one degree
    names = ("of", "gpus", "runs", "speed", "speedup", "efficiency", "efficiency_low", "efficiency_high", "marginal",
             "gpu_time_s", "model", "error")  # fmt: skip
    same = {"label": None, "table": None, "study": "", "mode": None, "figure": "tokens_per_s_total"}
    same |= dict.fromkeys(("batch", "energy_j", "cost_million"))
    expected: list[tuple[Any, ...]] = [
        ("measured", n, 1, n / each, 0.010 * n / each, 0.010 / each, None, None, marginal, each, None, error)
        for (n, each), marginal, error in zip(
            cost.items(), (None, 10 / 11, 11 / 13), (None, None, 12 / 13 - 1), strict=True
        )
    ]
    expected.append((
        "predicted", 8, None, 8 / ahead, 0.08 / ahead, 0.010 / ahead, 0.010 / (ahead + spread),
        0.010 / (ahead - spread), 0.013 / ahead, ahead, "a + b * log2(GPUs)", None,
    ))  # fmt: skip
    rows_ = metric_rows(found)
    assert [row.pop("run") for row in rows_[2:]] == [found["run"].iloc[2]] * 2
    for row, of in zip(rows_, expected, strict=True):
        assert {name: row[name] for name in row if name not in ("run", *names)} == same
        assert tuple(row[name] for name in names) == tuple(
            pytest.approx(cell, rel=1e-6) if isinstance(cell, float) else cell for cell in of
        )


def test_weak_scaling_of_a_rate_of_one_gpu(tmp_path: Path) -> None:
    """The GPU time of a sample grows with the logarithm of the size."""
    rates = {n: 100 / (1 + 0.03 * math.log2(n)) for n in (8, 16, 64)}
    rows = table(
        tmp_path, {f"n{n}": result(n, batch_size_per_gpu=32, samples_per_sec_per_gpu=rate) for n, rate in rates.items()}
    )
    assert set(rows["mode"]) == {"weak"}
    assert rows["efficiency"].iloc[2] == pytest.approx(rates[64] / rates[8], rel=1e-9)
    assert rows["marginal"].iloc[2] == pytest.approx(rates[64] / rates[16], rel=1e-9)
    assert rows["batch"].iloc[:3].tolist() == [256, 512, 2048]
    assert rows["speed"].iloc[3] == pytest.approx(128 * 100 / (1 + 0.03 * 7), rel=1e-9)


def test_repeats_of_a_size_are_one_row(tmp_path: Path) -> None:
    results = {f"n{n}_{i}": result(n, tokens_per_sec_total=n * 100.0 * factor)
               for n in (1, 2) for i, factor in enumerate((0.8, 1.25))}  # fmt: skip
    rows = table(tmp_path, results)
    assert rows["runs"].tolist() == [2, 2]
    assert rows["speed"].tolist() == pytest.approx([100, 200])
    assert rows["mode"].isna().all()


@pytest.mark.parametrize(
    ("rates", "studies"),
    [
        ({1: 100.0, 2: 190.0}, 1),  # grows with the size: that of all GPUs
        ({1: 100.0, 2: 95.0}, 0),  # that of one GPU, or of all that gain nothing: nobody knows
    ],
)
def test_the_scope_of_a_rate_is_never_guessed(tmp_path: Path, rates: dict[int, float], studies: int) -> None:
    rows = table(tmp_path, {f"n{n}": result(n, samples_per_sec=rate) for n, rate in rates.items()})
    assert rows["study"].nunique() == studies


def test_other_devices_and_models_are_other_studies(tmp_path: Path) -> None:
    results = {
        f"{gpu}{model}{n}": result(n, model=model, device_name=gpu, throughput_total=n * 10.0)
        for gpu in ("A100", "H100") for model in ("a", "b") for n in (1, 4)
    }  # fmt: skip
    rows = table(tmp_path, results)
    assert sorted(set(rows["study"])) == ["a, A100", "a, H100", "b, A100", "b, H100"]
    assert rows["efficiency"].tolist() == pytest.approx([1] * 8)
    groups = perflog.overview(str(tmp_path)).groups
    assert groups[0].settings == {"gpus": "1", "batch": "-", "model": "a", "device_name": "A100"}
    assert {tuple(group.settings.values())[:1] for group in groups} == {("1",), ("4",)}


def megatron(gpus: int, step_ms: float, tflops: float | None = None) -> str:
    """A log of Megatron-LM over DeepSpeed, which prints another world size."""
    per_gpu = "" if tflops is None else f" throughput per GPU (TFLOP/s/GPU): {tflops:.1f} |"
    rest = "loss scale: 1.0 | number of skipped iterations:   0 | number of nan iterations:   0 |"
    step = (
        " iteration {i:8d}/      12 | consumed samples: {n:12d} | elapsed time per iteration (ms): {ms:.1f} |"
        f"{per_gpu} learning rate: 1.000E-05 | global batch size:  1536 | lm loss: 1.1E+01 | {rest}"
    )
    sizes = f"world size: {gpus}, data-parallel-size: {gpus // 64}, tensor-model-parallel size: 8"
    lines = [
        f"using {sizes}, pipeline-model-parallel size: 8 ",
        "------------------------ arguments ------------------------",
        f"  data_parallel_size .............................. {gpus // 64}",
        "  global_batch_size ............................... 1536",
        "  hidden_size ..................................... 12288",
        "-------------------- end of arguments ---------------------",
        "[2022-07-04 10:00:00,000] [INFO] [config.py:1013:print]   world_size ................... 32",
        *(step.format(i=i, n=1536 * i, ms=step_ms + i % 3) for i in range(1, 13)),
    ]
    return "\n".join(lines) + "\n"


def test_logs_of_a_large_model(tmp_path: Path) -> None:
    """The largest of several world sizes is that of the job; the speed is the batch by the median step time."""
    times = {128: 20_000.0, 256: 11_000.0, 512: 6_500.0, 1024: 4_250.0}  # 2 s, and 2,304 s by the number of GPUs
    for gpus, ms in times.items():
        (tmp_path / f"{gpus}.log").write_text(megatron(gpus, ms))
    rows = scaling(perflog.find_runs(str(tmp_path)))
    assert rows["gpus"].tolist() == [128, 256, 512, 1024, 2048]
    assert set(rows["mode"]) == {"strong"}
    assert rows["speed"].iloc[0] == pytest.approx(1536 / 20.001)
    assert rows["speed"].iloc[4] == pytest.approx(1536 / (2.001 + 2304 / 2048), rel=1e-6)


def test_a_job_of_a_larger_model_is_in_no_study_of_the_smaller_one(tmp_path: Path) -> None:
    """Twice the GPUs at the same FLOP/s in nearly the time: the work of a sample is twice as much."""
    steps = {128: (20_000.0, 150.0), 256: (11_000.0, 136.0), 512: (10_500.0, 142.0), 1024: (5_600.0, 133.0)}
    for gpus, (ms, tflops) in steps.items():
        (tmp_path / f"{gpus}.log").write_text(megatron(gpus, ms, tflops))
    rows = scaling(perflog.find_runs(str(tmp_path)))
    assert [tuple(row) for row in rows[["gpus", "speedup"]].itertuples(index=False)] == [
        (128, 1), (256, pytest.approx(20_001 / 11_001)), (512, 1), (1024, pytest.approx(10_501 / 5_601))
    ]  # fmt: skip
    (tmp_path / "256.log").write_text(megatron(256, 11_000.0))  # one that does not say how much work it does
    assert scaling(perflog.find_runs(str(tmp_path)))["gpus"].tolist() == [128, 256, 512, 1024, 2048]


def test_runs_of_which_nothing_else_is_known_are_no_study(tmp_path: Path) -> None:
    rows = table(tmp_path, {f"n{n}": {"world_size": n, "throughput_total": n * 10.0} for n in (1, 2)})
    assert not len(rows)


def test_the_screen_tells_what_more_gpus_bring(tmp_path: Path) -> None:
    table(tmp_path / "runs", {f"n{n}": strong(n) for n in (1, 2, 4)})
    shown = " ".join(run(str(tmp_path / "runs")).stdout.split())
    speedup = (STRONG_A + STRONG_B) / (STRONG_A + STRONG_B / 4)
    assert "Runs differ in gpus, batch." in shown
    assert f"Strong scaling from 1 GPU: {speedup:.2f} times as fast on 4" in shown
    assert "predicted for 8: 82 %" in shown
    assert "far worse" not in shown
    assert "No repeats" not in shown
    assert "Next: perflog analyze" in shown
    assert "--by" not in shown  # it would pool sizes


@pytest.mark.skipif(not (SHARED / "campaigns").is_dir(), reason="the campaigns are not here")
def test_a_real_benchmark_of_data_parallel_training() -> None:
    """Efficiencies at 8 GPUs, computed from the files by hand."""
    rows = scaling(perflog.find_runs(str(SHARED / "campaigns" / "ddp_scaling")))
    at_8 = rows[(rows["gpus"] == 8) & (rows["of"] == "measured")]
    found = {(row.mode, *row.study.split(", ")): round(100 * row.efficiency, 1) for row in at_8.itertuples()}
    a100, v100 = "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB"
    assert found == {
        ("weak", "resnet152", "fp16", a100): 97.4, ("weak", "resnet152", "bf16", a100): 98.5,
        ("weak", "vit_b_16", "fp16", a100): 98.0, ("weak", "vit_b_16", "bf16", a100): 98.9,
        ("weak", "resnet152", "fp16", v100): 95.4, ("weak", "vit_b_16", "fp16", v100): 95.9,
        ("strong", "vit_b_16", "bf16", a100): 80.3, ("strong", "vit_b_16", "fp16", a100): 82.0,
        ("strong", "vit_b_16", "fp16", v100): 35.1, ("strong", "resnet152", "bf16", a100): 31.9,
        ("strong", "resnet152", "fp16", a100): 25.8, ("strong", "resnet152", "fp16", v100): 18.4,
    }  # fmt: skip
    weak = at_8[at_8["mode"] == "weak"]
    assert weak["error"].abs().max() < 0.03  # the sizes up to 4 predict that of 8


def test_the_plot_has_a_line_for_each_study_and_the_predictions(tmp_path: Path) -> None:
    results = {f"{model}{n}": strong(n) | {"model": model} for model in ("a", "b") for n in (1, 2, 4)}
    table(tmp_path, results)
    (axes,) = perflog.plots.scaling(perflog.find_runs(str(tmp_path))).axes
    lines = {line.get_label(): line for line in axes.lines if line.get_gid() == "measured"}
    one = STRONG_A + STRONG_B
    assert set(lines) == {"a", "b"}
    drawn = np.asarray(lines["b"].get_ydata()).tolist()
    assert drawn == pytest.approx([one / (STRONG_A + STRONG_B / n) for n in (1, 2, 4)])
    assert axes.get_xlim()[1] > 8


def test_the_cost_of_a_million() -> None:
    """At 3 a GPU hour, 1.2 ms of a GPU cost a millionth of 1."""
    assert _cost(1.2e-3, 3.0) == pytest.approx(1.0)
    assert _cost(None, 3.0) is None


def test_each_size_has_its_cost_at_a_price(tmp_path: Path) -> None:
    table(tmp_path, {f"n{n}": strong(n) for n in (1, 2, 4)})
    rows = scaling(perflog.find_runs(str(tmp_path)), gpu_hour=3.0)
    steps = {n: STRONG_A + STRONG_B / n for n in (1, 2, 4, 8)}
    expected = [3.0 * n * step / 256 / 3600 * 1e6 for n, step in steps.items()]
    assert rows["cost_million"].tolist() == pytest.approx(expected)
    assert scaling(perflog.find_runs(str(tmp_path)))["cost_million"].isna().all()
