"""Lines with pairs after a count, and lines with statistics of one quantity: both measure without any unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import perflog

Values = dict[str, tuple[float, str | None]]

if TYPE_CHECKING:
    from pathlib import Path


def values(tmp_path: Path, text: str) -> Values:
    path = tmp_path / "run.txt"
    path.write_text(f"{text}\n", "utf-8")
    return {row["key"]: (row["value"], row["unit"]) for row in perflog.read(path).arrow("values").to_pylist()}


def assert_values(found: Values, expected: Values) -> None:
    """Compare values with a tolerance, and their units exactly."""
    assert {key: value for key, (value, _) in found.items()} == pytest.approx({k: v for k, (v, _) in expected.items()})
    assert {key: unit for key, (_, unit) in found.items()} == {key: unit for key, (_, unit) in expected.items()}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  ttt_chunk [11/1893] bpb=1.25 time=2.5s", {
            "ttt_chunk": (11, None), "bpb": (1.25, None), "time": (2.5, "s"),
        }),
        ("[fp] layer 1/28 done (A=0.25s FP=0.5s)", {"layer": (1, None), "A": (0.25, "s"), "FP": (0.5, "s")}),
        ("tttg: c1/111 lr:0.001 t:2.5s", {"c": (1, None), "lr": (0.001, None), "t": (2.5, "s")}),
        ("slide [ 1.5%] 32/121 windows running_bpb=1.25", {"slide": (0.015, "1"), "running_bpb": (1.25, None)}),
        ("generation 12 | best 0.5 | mean 0.25", {"generation": (12, None), "best": (0.5, None), "mean": (0.25, None)}),
        ("Batch 50/252 | Score: 1.5 | Samples/sec: 146", {
            "Batch": (50, None), "Score": (1.5, None), "Samples_sec": (146, "1/s"),
        }),
        ("[5/9] reward 0.5 kl 0.25 roll 12.5s", {"reward": (0.5, None), "kl": (0.25, None), "roll": (12.5, "s")}),
    ],
)  # fmt: skip
def test_pairs_after_a_count(tmp_path: Path, line: str, expected: Values) -> None:
    assert_values(values(tmp_path, line), expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  wall_TPS    mean=  77.5   std=  1.5   CV= 2.5%   max=79.5", {
            "wall_TPS_mean": (77.5, None), "wall_TPS_std": (1.5, None), "CV": (0.025, "1"),
            "wall_TPS_max": (79.5, None),
        }),
        ("  prefill tok/s    mean= 127.5   std= 2.5", {
            "prefill_tok_s_mean": (127.5, "1/s"), "prefill_tok_s_std": (2.5, "1/s"),
        }),
        ("latency_ms: min=3.5 mean=4.5", {"latency_min": (0.0035, "s"), "latency_mean": (0.0045, "s")}),
        ("step time (s): mean 1.5 max 2.5", {"step_time_mean": (1.5, "s"), "step_time_max": (2.5, "s")}),
        ("busbw [GB/s]: avg 231.5 / max 240.5", {"busbw_avg": (231.5, "GB/s"), "busbw_max": (240.5, "GB/s")}),
        ("Latency: avg 12.5 ms, p95 14.5 ms", {"Latency_avg": (0.0125, "s"), "Latency_p95": (0.0145, "s")}),
    ],
)  # fmt: skip
def test_statistics_of_one_quantity(tmp_path: Path, line: str, expected: Values) -> None:
    assert_values(values(tmp_path, line), expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[n0] 平均分发时间: 53.5 ± 1.5 毫秒", {"平均分发时间": (0.0535, "s"), "平均分发时间_spread": (0.0015, "s")}),
        ("平均耗时：12.5 ms，吞吐：812.5 samples/s", {"平均耗时": (0.0125, "s"), "吞吐_samples_per_s": (812.5, "1/s")}),
        ("平均レイテンシ: 12.5 ms", {"平均レイテンシ": (0.0125, "s")}),
    ],
)  # fmt: skip
def test_names_and_units_in_other_scripts(tmp_path: Path, line: str, expected: Values) -> None:
    assert_values(values(tmp_path, line), expected)


def test_a_condition_before_the_colon_is_the_case(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    lines = (
        "Throughput (in TFLOP/s) for qkv (4x4096, b=8): 241.5",
        "Throughput (in TFLOP/s) for score (64x2048): 130.5",
    )
    path.write_text("\n".join(lines) + "\n", "utf-8")
    rows = perflog.read(path).arrow("values").to_pylist()
    assert [(row["key"], row["value"], row["unit"]) for row in rows if row["value"]] == [
        ("Throughput", 241.5, "TFLOP/s"), ("Throughput", 130.5, "TFLOP/s"),
    ]  # fmt: skip
    assert [row["text"] for row in rows if row["key"] == "case"] == ["qkv (4x4096, b=8)", "score (64x2048)"]


def test_a_pair_in_brackets_has_a_name_of_its_own(tmp_path: Path) -> None:
    found = values(tmp_path, "128x128 devices=8 mean=0.5 ms max=1.5 ms (repeats=10)")
    assert (found["max"], found["repeats"]) == ((0.0015, "s"), (10, None))


def test_settings_beside_figures(tmp_path: Path) -> None:
    found = values(
        tmp_path, "[Summary] pin_memory=False topk=0.5 update_interval=2 avg_step=16.5ms avg_update_step=171.5ms"
    )
    assert (found["avg_step"], found["avg_update_step"]) == ((0.0165, "s"), (0.1715, "s"))


def test_sizes_of_memory_prove_a_log_only_together(tmp_path: Path) -> None:
    found = values(tmp_path, "[0] mp: MA 3.5 GiB | Max_MA 7.5 GiB | CPU mem: proc 0.5 GiB / node 84.5 GiB (4.5%)")
    assert (found["MA"], found["Max_MA"]) == ((3.5 * 2**30, "B"), (7.5 * 2**30, "B"))
    with pytest.raises(perflog.PerflogError):
        values(tmp_path, "Peak memory: 1.25 GB")


def test_figures_beside_the_steps_of_another_format_are_read(tmp_path: Path) -> None:
    """A format describes the lines that its authors have seen: a program prints others too."""
    lines = (
        "1/20000 train_loss: 9.0168 train_time: 0.0m tok/s: 12481165",
        "2/20000 train_loss: 8.5 train_time: 0.0m tok/s: 1248",
        "tttg: c1/111 lr:0.001 t:2.5s",
        "Peak GPU memory: 64.5 GB",
        "step 7 is near, loss 3.5",
    )
    path = tmp_path / "run.txt"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    log = perflog.read(path)
    assert log.arrow("runs")["format"].to_pylist() == ["speedrun"]
    assert log.arrow("steps")["step"].to_pylist() == [1, 2]
    found = {row["key"]: row["value"] for row in log.arrow("values").to_pylist() if row["line"] > 2}
    assert found == {"c": 1, "lr": 0.001, "t": 2.5, "Peak_GPU_memory": 64.5e9}
