"""Metric `hot_experts`: loads of the files of a job add up; each figure recomputed from the lines of the files."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean, median

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.metrics_logs import by_hand, row, rows
from support.paths import SHARED

import perflog
from perflog.metrics import hot_experts
from perflog.metrics.skew.hot_experts import ExpertJob, LayerLoads, _layer_row

TRACE = SHARED / "campaigns" / "expert_loads"

Loads = dict[tuple[int, str], dict[int, float]]
"""Work of each expert, by step and layer."""


def written(folder: Path, files: dict[tuple[int, int], str]) -> perflog.Log:
    """The log of a folder with the files of some steps and ranks."""
    folder.mkdir(exist_ok=True)
    for (step, rank), text in files.items():
        (folder / f"table_iter{step}_rank{rank}.log").write_text(text)
    return perflog.read(folder)


def loads_of_lines(folder: Path) -> Loads:
    """The sums over ranks and micro-batches, read as JSON."""
    loads: Loads = defaultdict(lambda: defaultdict(float))
    for path in folder.iterdir():
        step = int(path.name.split("_")[1].removeprefix("iter"))
        for line in path.read_text().splitlines():
            layer, _, lists = line.partition(":")
            for amounts in json.loads(lists):
                for expert, amount in enumerate(amounts):
                    loads[step, layer][expert] += amount
    return loads


def test_files_of_a_job_add_up(tmp_path: Path) -> None:
    log = written(tmp_path / "job", {
        (1, 0): "0:[[2, 1, 1, 0], [0, 1, 1, 2]]\n1:[[1, 1, 1, 1]]\n", (1, 1): "0:[[2, 2, 2, 2]]\n1:[[1, 1, 1, 1]]\n",
        (11, 0): "0:[[9, 1, 1, 1]]\n1:[[4, 0, 0, 0]]\n", (11, 1): "0:[[3, 1, 0, 0]]\n1:[[0, 4, 0, 0]]\n",
        (21, 0): "0:[[0, 8, 0, 0]]\n1:[[0, 9, 1, 0]]\n", (21, 1): "0:[[0, 8, 0, 0]]\n1:[[0, 9, 0, 1]]\n",
        (31, 0): "0:[[5, 0, 0, 0]]\n1:[[5, 0, 0, 0]]\n",
    })  # fmt: skip
    table = hot_experts(log)
    first, second, third = rows(table, of="step")
    assert (first["step"], first["imbalance"], first["hot"], first["idle"], first["kept"]) == (1, 0.0, 0, 0, None)
    assert (second["imbalance"], second["max_imbalance"], second["max_at"]) == ((2.0 + 1.0) / 2, 2.0, "0")
    assert (second["hot"], second["idle"]) == (3, 2)  # expert 0 of layer 0, experts 0 and 1 of layer 1
    assert (third["step"], third["n"], third["ranks"], third["runs"]) == (21, 2, 2, 7)  # step 31 lacks rank 1
    assert third["kept"] == 0.0  # of layer 0: expert 1 instead of 0; layer 1 had no single hottest one
    layer = row(table, of="layer", layer="1")
    assert (layer["label"], layer["run"], layer["experts"], layer["n"]) == ("job", None, 4, 3)
    assert (layer["hottest"], layer["since"], layer["hot_experts"]) == (1, 11, "1")
    assert (layer["first_imbalance"], layer["imbalance"], layer["max_at"]) == (0.0, 18 / 5 - 1, "21")


def test_files_that_name_the_same_step_and_rank_are_jobs_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "table_iter1_rank0.log").write_text("0:[[1, 2]]\n")
    (tmp_path / "a" / "second_iter1_rank0.log").write_text("0:[[3, 2]]\n")
    assert set(hot_experts(perflog.read(tmp_path / "a"))["runs"]) == {1}
    (tmp_path / "a" / "second_iter1_rank0.log").unlink()
    assert hot_experts(perflog.read(tmp_path / "a"))["run"].notna().all()  # a file alone is a run


def test_two_files_are_a_job(tmp_path: Path) -> None:
    log = written(tmp_path / "job", {(1, 0): "0:[[1, 2]]\n", (1, 1): "0:[[3, 2]]\n"})
    assert set(hot_experts(log)["runs"]) == {2} and set(hot_experts(log)["label"]) == {"job"}


@settings(max_examples=6)
@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=6))
def test_a_run_with_all_steps_of_its_experts(counts: list[list[int]]) -> None:
    values = [
        {"step": step, "expert": expert, "unit": "token", "amount": float(amount)}
        for step, amounts in enumerate(counts)
        for expert, amount in enumerate(amounts)
    ]
    table = hot_experts(by_hand("loads", values))
    with_work = [(step, amounts) for step, amounts in enumerate(counts) if sum(amounts)]
    assert [r["step"] for r in rows(table, of="step")] == [step for step, _ in with_work]
    imbalance = [r["imbalance"] for r in rows(table, of="step")]
    assert imbalance == pytest.approx([max(amounts) / mean(amounts) - 1 for _, amounts in with_work])
    for layer in rows(table, of="layer"):
        expert = layer["hottest"]
        if layer["since"] is not None:
            hot = {step: amounts[expert] >= 2 * mean(amounts) for step, amounts in with_work}
            after = [step for step in hot if step >= layer["since"]]
            before = [step for step in hot if step < layer["since"]]
            assert all(hot[step] for step in after) and not any(hot[step] for step in before[-1:])


@pytest.mark.skipif(not TRACE.is_dir(), reason="needs the real logs in ../shared/campaigns")
def test_the_expert_loads_of_a_real_job() -> None:
    """Imbalance grows from 0.52 at step 1 to 14.8 at step 11; 22 of 24 layers keep their hottest expert at the end."""
    table = hot_experts(perflog.read(TRACE))
    loads = loads_of_lines(TRACE)
    steps = rows(table, of="step")
    assert [(r["step"], r["n"], r["ranks"], r["runs"]) for r in steps] == [
        (step, 24, 16, 80) for step in (1, 11, 101, 1001, 2001)
    ]
    for r in steps:
        of_step = [list(experts.values()) for (step, _), experts in loads.items() if step == r["step"]]
        uneven = [max(v) / mean(v) - 1 for v in of_step]
        assert (r["imbalance"], r["max_imbalance"]) == pytest.approx((median(uneven), max(uneven)), rel=1e-12)
        assert r["hot"] == sum(x >= 2 * mean(v) for v in of_step for x in v)
    assert [round(r["imbalance"], 2) for r in steps] == [0.52, 14.83, 11.19, 9.9, 12.46]
    assert round(steps[-1]["kept"] * 24) == 22
    for r in rows(table, of="layer"):
        last = loads[2001, r["layer"]]
        assert r["hottest"] == max(last, key=lambda expert: last[expert])
        hot = [k for k in last if last[k] >= 2 * mean(last.values())]
        assert r["hot_experts"] == ", ".join(map(str, sorted(hot, key=lambda k: -last[k])))
    hottest = {r["layer"]: (r["hottest"], r["since"]) for r in rows(table, of="layer")}
    assert (hottest["0"], hottest["11"], hottest["9"]) == ((21, 11), (18, 101), (18, 1001))


def test_the_hottest_expert_is_one() -> None:
    ratios = np.array([[0.0, 2.0, 1.0], [1.5, 1.5, 0.0], [1.0, 1.0, 1.0], [2.0, 0.5, 0.5]])
    assert LayerLoads("0", np.arange(4), np.array([3, 5, 8]), ratios, None).hottest == [5, None, None, 3]


def test_shares_of_the_work_are_work() -> None:
    values = [{"step": 1, "expert": expert, "amount": amount} for expert, amount in enumerate((0.5, 0.25, 0.0))]
    assert row(hot_experts(by_hand("loads", values)), of="step")["imbalance"] == 1.0


def test_the_row_of_a_layer() -> None:
    """Expert 5 is hot from step 30 on, expert 3 as well at the end; expert 8 is idle then."""
    ratios = np.array([[4.0, 0.0, 0.0, 0.0], [0.0, 1.5, 1.5, 1.0], [1.0, 3.0, 0.0, 0.0], [2.0, 2.25, 0.0, 0.0]])
    layer = LayerLoads("7", np.array([10, 20, 30, 40]), np.array([3, 5, 8, 9]), ratios, 2)
    found = _layer_row(layer)
    assert (found["step"], found["layer"], found["experts"], found["n"], found["ranks"]) == (40, "7", 4, 4, 2)
    assert (found["first_step"], found["first_imbalance"], found["imbalance"]) == (10, 3.0, 1.25)
    assert (found["max_imbalance"], found["max_at"]) == (3.0, "10")
    assert (found["hot"], found["hot_experts"], found["hottest"], found["since"]) == (2, "5, 3", 5, 30)
    assert found["idle"] == 2


def test_the_imbalance_of_a_job_is_the_median_of_its_layers() -> None:
    """In each step, in order; a layer may lack some steps."""

    def layer(steps: list[int], most: list[float]) -> LayerLoads:
        ratios = np.array([[2 - value, value] for value in most])
        return LayerLoads(None, np.array(steps), np.array([7, 9]), ratios, None)

    layers = [layer([2, 1], [1.5, 1.25]), layer([1, 3], [1.75, 1.0])]
    job = ExpertJob({}, "r", None, layers)
    assert list(job.imbalances().items()) == [(1, 1.5), (2, 1.5), (3, 1.0)]
    assert layers[1].hottest == [9, None]


def test_each_of_several_runs_has_its_own_job_and_run() -> None:
    loads = [{"run": run, "step": 1, "expert": expert, "unit": "token", "amount": float(amount)}
             for run, of in (("r", (1, 3)), ("s", (4, 0))) for expert, amount in enumerate(of)]  # fmt: skip
    made = by_hand("loads", loads)
    runs = pd.concat([made["runs"], made["runs"].assign(run="s")])
    found = rows(hot_experts({"runs": runs, "loads": made["loads"]}), of="step")
    assert [(row["run"], row["imbalance"], row["runs"]) for row in found] == [("r", 0.5, 1), ("s", 1.0, 1)]
