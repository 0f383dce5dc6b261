"""Metric `time_to_target`: the first value at the target, with the clock, samples and tokens up to there."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.metrics_logs import by_hand, row, rows
from support.paths import SHARED

import perflog
from perflog.metrics import Options, Tables, curves, time_to_target
from perflog.metrics.semantics import RunSemantics
from perflog.metrics.series import time_to_target as module
from perflog.metrics.series.time_to_target import _stated

CAMPAIGNS = SHARED / "campaigns"
needs_campaigns = pytest.mark.skipif(not CAMPAIGNS.is_dir(), reason="needs the folders of runs in ../shared/campaigns")

LINE = '{"step": %d, "loss": %s, "learning_rate": 0.001, "eval_accuracy": %s}\n'


def run(path: Path, values: list[tuple[float, float]]) -> None:
    """A log of JSON lines with a loss and an accuracy."""
    path.write_text("".join(LINE % (10 * k, *pair) for k, pair in enumerate(values, 1)))


def test_without_a_target_it_is_the_worst_last_value(tmp_path: Path) -> None:
    run(tmp_path / "a.jsonl", [(3.0, 0.1), (2.4, 0.3), (2.6, 0.4), (2.0, 0.7)])
    run(tmp_path / "b.jsonl", [(3.1, 0.1), (2.9, 0.5), (2.8, 0.4), (2.5, 0.6)])
    table = time_to_target(perflog.read(tmp_path))
    first, second = rows(table, key="loss")
    assert (first["target"], first["target_from"], first["better"]) == (2.5, "worst last value", "lower")
    assert (first["step"], first["value"], first["kept"]) == (20, 2.4, 2 / 3)  # 2.6 comes after it
    assert (second["step"], second["value"], second["kept"], second["n"]) == (40, 2.5, 1.0, 4)
    assert [first["time_s"], first["tokens"]] == [None, None]  # no clock, no tokens
    accuracy = rows(table, key="eval_accuracy")
    assert [(r["better"], r["target"], r["step"]) for r in accuracy] == [("higher", 0.6, 40), ("higher", 0.6, 40)]


def test_a_target_of_the_reader_leaves_other_series_out(tmp_path: Path) -> None:
    run(tmp_path / "a.jsonl", [(3.0, 0.1), (2.4, 0.3), (2.6, 0.4), (2.0, 0.7)])
    table = rows(time_to_target(perflog.read(tmp_path), targets={"eval_accuracy": 0.35}))
    (accuracy,) = table
    assert (accuracy["target"], accuracy["target_from"], accuracy["step"]) == (0.35, "option", 30)


def test_a_run_without_the_target_tells_how_far_it_came(tmp_path: Path) -> None:
    run(tmp_path / "a.jsonl", [(3.0, 0.1), (2.4, 0.3), (2.6, 0.4)])
    table = time_to_target(perflog.read(tmp_path), targets={"loss": 2.0})
    loss = row(table)
    assert (loss["reached"], loss["step"], loss["value"]) == (False, None, None)
    assert (loss["best"], loss["best_step"]) == (2.4, 20)
    accuracy = row(time_to_target(perflog.read(tmp_path), targets={"eval_accuracy": 0.3}))
    assert (accuracy["reached"], accuracy["step"], accuracy["best"]) == (True, 20, 0.4)


def test_moments_are_a_clock(tmp_path: Path) -> None:
    """MLPerf events tell the time of day: the time to the target counts from `run_start`."""
    start = 1_755_477_365_577
    event = (
        ':::MLLOG {{"namespace": "", "time_ms": {}, "event_type": "{}", "key": "{}", "value": {}, "metadata": {}}}\n'
    )
    lines = [event.format(start, "INTERVAL_START", "run_start", "null", "{}")]
    for k, loss in enumerate((0.94, 0.92, 0.91), 1):
        at = start + 60_000 * k
        lines += event.format(at, "POINT_IN_TIME", "eval_loss", loss, f'{{"samples_count": {384 * k}}}')
    lines += event.format(start + 200_000, "INTERVAL_END", "run_stop", "null", '{"status": "success"}')
    (tmp_path / "result_0.txt").write_text("".join(lines))
    reached = row(time_to_target(perflog.read(tmp_path), targets={"eval_loss": 0.925}))
    assert (reached["time_s"], reached["samples"], reached["value"]) == (pytest.approx(120.0), 768, 0.92)


def test_a_value_that_never_changes_is_no_curve(tmp_path: Path) -> None:
    run(tmp_path / "a.jsonl", [(3.0, 0.5), (2.0, 0.5)])
    table = curves(perflog.read(tmp_path / "a.jsonl"))
    kinds = {r["key"]: r["of"] for r in rows(table)}
    assert (kinds["loss"], kinds["eval_accuracy"]) == ("curve", "constant")
    assert table["of"].to_list() == sorted(table["of"], key=lambda of: of != "curve")


@needs_campaigns
def test_the_time_of_speed_runs_to_their_target() -> None:
    """val_loss is printed every 250 steps: each run is at the worst last one at its last step, 1390."""
    log = perflog.read(CAMPAIGNS / "nanogpt_fp8" / "this_pr")
    totals = {r["run"]: r["elapsed_s"] for r in rows(log.table("runs"))}
    table = rows(time_to_target(log), key="val_loss")
    assert len(table) == 13 and {r["step"] for r in table} == {1390}
    assert [r["time_s"] for r in table] == pytest.approx([totals[r["run"]] for r in table])


@needs_campaigns
def test_the_samples_of_mlperf_to_the_worst_last_value() -> None:
    (folder,) = (CAMPAIGNS / "mlperf_llama2_lora").glob("MI355X*")
    path = min(folder.glob("*.txt"))
    printed = row(time_to_target(perflog.read(path)), key="eval_accuracy")
    assert printed["better"] == "lower" and printed["value"] == printed["target"] < 0.925
    line = path.read_text().splitlines()[printed["line"] - 1]
    assert f'"samples_count": {printed["samples"]:.0f}' in line and f'"value": {printed["value"]}' in line
    (start,) = re.findall(r'"time_ms": (\d+)[^\n]*"run_start"', path.read_text())
    (moment,) = re.findall(r'"time_ms": (\d+)', line)
    assert printed["time_s"] == pytest.approx((int(moment) - int(start)) / 1000)


def test_a_setting_states_the_target_of_a_series() -> None:
    """Of the whole name of the series first, then of its last word; an option comes before any setting."""
    settings = {
        "target_accuracy": 0.9,
        "accuracy": 0.1,
        "eval_accuracy_target": 0.8,
        "target_loss_scale": 7.0,
        "target_loss_value": 3.0,
    }
    semantics: Any = SimpleNamespace(numbers=settings)
    stated = {key: _stated(key, semantics, Options()) for key in (
        "eval_accuracy", "accuracy", "test_accuracy", "loss", "val_loss_value", "my_loss_scale",
    )}  # fmt: skip
    assert stated == {
        "eval_accuracy": {"target": 0.8, "target_from": "eval_accuracy_target"},
        "accuracy": {"target": 0.9, "target_from": "target_accuracy"},
        "test_accuracy": {"target": 0.9, "target_from": "target_accuracy"}, "loss": {},
        "val_loss_value": {}, "my_loss_scale": {},
    }  # fmt: skip
    assert _stated("loss", semantics, Options(targets={"loss": 2.0})) == {"target": 2.0, "target_from": "option"}


def test_two_values_are_a_curve() -> None:
    steps = [{"step": step, "loss": loss} for step, loss in ((1, 3.0), (2, 2.0))]
    (found,) = rows(time_to_target(by_hand("steps", steps)), key="loss")
    assert (found["n"], found["target"], found["step"]) == (2, 2.0, 2)
    assert rows(time_to_target(by_hand("steps", steps[:1]))) == []


@pytest.mark.parametrize(
    ("values", "better", "target"), [((2.0, 3.0, 1.0), "lower", 1.0), ((2.0, 1.0, 3.0), "higher", 3.0)]
)
def test_the_ends_of_a_series_show_which_direction_is_better(
    values: tuple[float, ...], better: str, target: float
) -> None:
    steps = [{"step": step, "loss": loss} for step, loss in enumerate(values, 1)]
    found = row(time_to_target(by_hand("steps", steps)))
    assert (found["better"], found["target"], found["step"]) == (better, target, 3)


def test_all_columns_of_a_run_that_reaches_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 100 tokens and 8 samples, 7 s each; step 20 is the first at 2.5, two of the three from there on are."""
    means = RunSemantics(None, quantities={"tokens": 100.0})
    monkeypatch.setattr(module, "semantics_by_run", lambda _: {"r": means})
    losses = {10: 3.0, 20: 2.4, 30: 2.6, 40: 2.5}
    steps: list[dict[str, Any]] = [
        {"step": step, "line": 2 * step, "loss": loss, "elapsed_s": 7.0 * step} for step, loss in losses.items()
    ]
    counted: list[dict[str, Any]] = [
        {"table": "values", "step": step, "line": 2 * step - 1, "key": "consumed_samples", "value": 8.0 * step}
        for step in losses
    ]
    (found,) = rows(time_to_target(by_hand("steps", [*steps, *counted])), key="loss")
    assert found == {
        "run": "r", "label": None, "key": "loss", "better": "lower", "target": 2.5, "target_from": "worst last value",
        "reached": True, "step": 20, "time_s": 140.0, "samples": 160.0, "tokens": 2000.0, "value": 2.4,
        "kept": pytest.approx(2 / 3), "best": 2.4, "best_step": 20, "n": 4, "line": 40,
    }  # fmt: skip


@pytest.mark.parametrize(("line", "found"), [(3, (0, None)), (4, (4, 1.5)), (8, (8, 2.5)), (99, (8, 2.5))])
def test_the_last_value_up_to_a_line(line: int, found: tuple[int, float | None]) -> None:
    """In any order of the rows; a value that is not known is none."""
    values: list[dict[str, Any]] = [{"line": 8, "value": 2.5}, {"line": 9, "value": None}, {"line": 4, "value": 1.5}]
    assert module._last(Tables(by_hand("values", values)).rows("values"), "value", line) == found
