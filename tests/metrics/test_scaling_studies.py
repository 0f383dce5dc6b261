"""Scaling studies in tables that one log prints: a row for each number of GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import run

import perflog
from perflog.metrics import scaling
from perflog.metrics.many_runs.scaling_studies import Study, _grows, _studies, _telling
from perflog.metrics.step_time.run_rates import Rate, SizedRun


def table(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


STRONG = """nodes,gpus,global_batch_size,step_time_s,tokens_per_s
1,8,512,4.10,255750
2,16,512,2.13,492000
4,32,512,1.15,911800
"""
SPEEDUPS = """| GPUs | Speedup | Efficiency | Time (h) | Total Cost | Notes |
|------|---------|------------|----------|------------|-------|
| 1 | {0}{x} | 100.0% | 2.00 | $0.70 | baseline |
| 2 | {1}{x} | 92.5% | 1.08 | $0.76 | near linear |
| 4 | {2}{x} | 82.5% | 0.61 | $0.85 | good |
"""


def test_rows_of_a_file_are_sizes(tmp_path: Path) -> None:
    rows = scaling(perflog.read(table(tmp_path / "strong.csv", STRONG)))
    measured = rows[rows["of"] == "measured"]
    assert measured["gpus"].tolist() == [8, 16, 32]
    assert set(measured["mode"]) == {"strong"}
    assert measured["efficiency"].tolist() == pytest.approx([1, 492000 / 255750 / 2, 911800 / 255750 / 4])
    assert (rows["table"] == 1).all()


@pytest.mark.parametrize("x", ["x", "×", ""])
def test_printed_speedups_are_speeds_without_a_unit(tmp_path: Path, x: str) -> None:
    """Prices and remarks describe the result, not the work."""
    rows = scaling(perflog.read(table(tmp_path / "cost.md", SPEEDUPS.format("1.00", "1.85", "3.30", x=x))))
    measured = rows[rows["of"] == "measured"]
    assert measured["speedup"].tolist() == pytest.approx([1, 1.85, 3.3])
    assert measured["efficiency"].tolist() == pytest.approx([1, 0.925, 0.825])
    assert rows[["speed", "gpu_time_s"]].isna().all(axis=None)


def test_large_batches_are_exact(tmp_path: Path) -> None:
    text = "gpus,global_batch_size,tokens_per_s\n"
    text += "".join(f"{n},{n * 1_048_577},{n * 1000.5}\n" for n in (1, 2, 4))
    rows = scaling(perflog.read(table(tmp_path / "weak.csv", text)))
    measured = rows[rows["of"] == "measured"]
    assert set(measured["mode"]) == {"weak"}
    assert measured["batch"].tolist() == [1_048_577, 2_097_154, 4_194_308]


def test_rows_of_other_work_are_no_study(tmp_path: Path) -> None:
    text = (
        "| GPUs | Config | tok/s |\n|---|---|---|\n| 1 | 7B | 10471 |\n| 2 | 7B, FSDP | 18728 |\n| 8 | 13B | 35405 |\n"
    )
    assert scaling(perflog.read(table(tmp_path / "mixed.md", text))).empty


def test_models_of_one_table_are_studies_of_their_own(tmp_path: Path) -> None:
    rows = ["model,num_gpus,images_per_sec_total"]
    rows += [f"{model},{n},{rate * n**power}" for model, rate, power in (("resnet", 900, 0.98), ("vit", 400, 0.9))
             for n in (1, 2, 4)]  # fmt: skip
    found = scaling(perflog.read(table(tmp_path / "models.csv", "\n".join(rows) + "\n")))
    at4 = found[found["gpus"] == 4].set_index("study")["efficiency"]
    assert at4.to_dict() == pytest.approx({"resnet": 4**-0.02, "vit": 4**-0.1})


def test_a_rate_that_does_not_grow_may_be_of_one_gpu_or_of_all(tmp_path: Path) -> None:
    text = "| Number of GPUs | Throughput |\n|---|---|\n| 16 | 1254.5 |\n| 32 | 1209.2 |\n| 64 | 1285.0 |\n"
    assert scaling(perflog.read(table(tmp_path / "flat.md", text))).empty


def test_two_tables_of_one_log_of_which_one_has_more_columns(tmp_path: Path) -> None:
    text = "| GPUs | Speedup |\n|---|---|\n| 1 | 1.0x |\n| 2 | 1.8x |\n| 8 | 6.5x |\n\nWith compression:\n\n"
    text += "| Nodes | GPUs | Speedup |\n|---|---|---|\n| 2 | 8 | 12.0x |\n| 4 | 16 | 22.4x |\n"
    found = scaling(perflog.read(table(tmp_path / "two.md", text)))
    measured = found[found["of"] == "measured"]
    assert measured.groupby("table")["gpus"].apply(list).tolist() == [[1, 2, 8], [8, 16]]
    assert measured.groupby("table")["efficiency"].last().tolist() == pytest.approx([6.5 / 8, 22.4 / 24])


def test_the_screen_says_how_a_table_scales(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "strong.csv", STRONG)
    screen = " ".join(run("overview", "strong.csv").stdout.split())
    assert "Strong scaling from 8 GPUs: 3.57 times as fast on 32; efficiency 16 GPUs 96 %, 32 GPUs 89 %" in screen
    assert "best" not in screen  # the largest size is no better case of the same work
    assert "Next: perflog analyze strong.csv scaling" in screen


def test_sizes_of_a_grid_are_words(tmp_path: Path) -> None:
    text = "| GPUs | Grid | Time (s) |\n|---|---|---|\n| 1 | 2048x2048 | 3.5 |\n| 2 | 2896x2896 | 3.6 |\n"
    values = perflog.read(table(tmp_path / "grid.md", text)).table("values")
    assert values[values["key"] == "Grid"]["text"].tolist() == ["2048x2048", "2896x2896"]
    assert set(values["key"]) == {"GPUs", "Grid", "Time"}


@pytest.mark.parametrize("failed", ["crash", "nan"])
def test_a_failed_run_beside_a_sound_one_of_its_size_is_in_no_study(failed: str, tmp_path: Path) -> None:
    """Where the only run of a size failed, its speed is all that is known."""

    def log(name: str, world: int, rate: int, ends: str = "") -> None:
        lines = [f"world_size={world} micro_batch=4 seq_len=4096 model=7b"]
        lines += [
            f"step {n} | loss {'nan' if ends == 'nan' and n > 30 else 2.5} | {rate} tok/s | 0.5 s/step"
            for n in range(40)
        ]
        lines += ["torch.OutOfMemoryError: CUDA out of memory."] * (ends == "crash")
        (tmp_path / f"{name}.log").write_text("\n".join([*lines, ""]))

    log("base", 8, 1000)
    log("failed", 8, 1100, failed)
    log("large", 16, 1800, failed)
    rows = scaling(perflog.read(tmp_path))
    measured = rows[rows["of"] == "measured"]
    assert measured["gpus"].tolist() == [8, 16] and measured["speed"].tolist() == pytest.approx([1000, 1800])


@pytest.mark.parametrize(("faster", "grows"), [(1.29, False), (1.31, True)])
def test_a_rate_that_grows_is_of_all_gpus(faster: float, grows: bool) -> None:
    """The geometric mean of the runs of the largest size counts."""
    sizes = {name: SizedRun((), gpus, None, None) for name, gpus in (("a", 1), ("b", 2), ("c", 4), ("d", 4))}
    assert _grows({"a": 1.0, "b": 9.0, "c": faster / 2, "d": faster * 2}, sizes) == grows


@pytest.mark.parametrize(
    ("name", "values"), [("fast", ("true", "false")), ("fast", ("1", "0")), ("version", ("2.8", "2.9"))]
)
def test_a_model_distinguishes_studies_rather_than_a_switch_or_a_version(name: str, values: tuple[str, str]) -> None:
    keys = [{name: value, "model": model, "seq": "8"} for value, model in zip(values, ("s", "l"), strict=True)]
    assert _telling(keys) == ["model"]


def test_runs_of_one_size_and_one_work_are_no_study() -> None:
    """A unit of the larger run is ten times the work: each model has a size of its own."""
    described = {"a": SizedRun((), 1, None, None), "b": SizedRun((), 2, None, None), "c": SizedRun((), 4, None, None)}
    rate = Rate("tokens_per_s", True, {"a": 10.0, "b": 20.0, "c": 35.0})
    flop_rates = {"a": 100.0, "b": 1000.0, "c": 875.0}
    (study,) = _studies(None, {}, ["a", "b", "c"], described, [rate], flop_rates)
    assert study.speeds == pytest.approx({2: 20.0, 4: 35.0}) and study.runs == {2: ["b"], 4: ["c"]}
    assert list(_studies(None, {}, ["a", "b"], described, [rate], flop_rates)) == []
    assert (study.efficiency(4), study.cost(4)) == pytest.approx((35 / 40, 4 / 35))


def test_two_sizes_predict_a_third() -> None:
    """Strong scaling: the GPU time of a unit is 0.1 and 0.11 s on 1 and 2 GPUs, so 0.13 s on 4; it takes 0.14 s."""
    study = Study("strong", {}, "x", {}, {1: 10.0, 2: 20 / 1.1, 4: 40 / 1.4}, {})
    assert study.predicted(4, [1, 2]) == pytest.approx(0.13) and study.predicted(4, [1]) is None
    assert study.error == pytest.approx(1.3 / 1.4 - 1)
