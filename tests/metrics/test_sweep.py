"""What varies between runs: groups and speed-ups of the real logs, computed another way, and of made-up ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.metrics_logs import by_hand, rows
from support.paths import ROOT
from support.seeds import hits, log

import perflog
from perflog.metrics import steps, sweep
from perflog.tables.nulls import records
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    import pandas as pd

REFERENCE = ROOT / "reference_runs" / "store"
SYSTEMS = ("naive", "fastermoe", "mix_moe")
MODELS = ("gpt2", "bert", "transformer-xl")


def reference(name: str) -> perflog.Log:
    store = perflog.load(REFERENCE)
    return store.select(*[run for run in store.run_keys if run.log == name])


def tables(configs: Sequence[dict[str, Any]], times: Sequence[float], form: str | None = None) -> dict[str, Any]:
    """Tables of runs of one log; run i has ten steps of times[i] seconds and one slow step before them."""
    import pandas as pd

    runs = [
        {c.name: None for c in TABLES["runs"]}
        | {"run": f"r{i}", "log_sha256": "f00", "index": i, "config": json.dumps(config), "format": form}
        for i, config in enumerate(configs)
    ]
    blank = {c.name: None for c in TABLES["steps"]} | {"part": 0, "copy": 1, "steps_averaged": 1}
    rows = [
        blank | {"run": f"r{i}", "line": 100 * i + step + 1, "step": step, "step_time_s": time * (1 if step else 9)}
        for i, time in enumerate(times)
        for step in range(11)
    ]
    return {"runs": pd.DataFrame(runs), "steps": pd.DataFrame(rows)}


def groups(found: pd.DataFrame) -> dict[tuple[str, Any], list[tuple[Any, float]]]:
    """(factor, group) -> value and speed-up of each run in it."""
    told: dict[tuple[str, Any], list[tuple[Any, float]]] = {}
    for one in found.to_dict("records"):
        told.setdefault((one["factor"], one["group"]), []).append((one["value"], one["speedup"]))
    return told


# --- the real runs ----------------------------------------------------------------------------------------------


def test_the_layer_benchmark_varies_its_experts() -> None:
    found = sweep(reference("moe_layer.txt"))
    assert set(found["factor"]) == {"num_local_experts"}
    assert found["value"].to_list() == [8, 16, 32, 64]
    assert found["group"].isna().all() and found["also"].isna().all()
    assert (found["median_s"] * 1e3).round(2).to_list() == [21.29, 22.57, 23.47, 29.22]
    assert found["speedup"].round(3).to_list() == [1.0, 0.944, 0.907, 0.729]


def test_in_the_sweep_the_system_varies_and_the_model_is_the_group() -> None:
    found = sweep(reference("training_sweep.txt"))
    assert list(groups(found)) == [
        ("system", "model gpt2, experts 16"),
        ("system", "model bert, experts 16"),
        ("system", "model transformer-xl, experts 64"),
    ]
    assert found["value"].to_list() == list(SYSTEMS) * 3
    assert found["base"].to_list() == [
        f"naive {m} {e}" for m, e in zip(MODELS, (16, 16, 64), strict=True) for _ in range(3)
    ]
    # the shared-memory exchange is set up only where mix_moe code really runs; in the dense gpt2 it is not
    assert {row["label"] for row in records(found) if row["also"] == "nvshmem_ranks"} == {
        "mix_moe bert 16",
        "mix_moe transformer-xl 64",
    }
    speedups = dict(zip(found["label"], found["speedup"], strict=True))
    assert [speedups[f"{s} gpt2 16"] for s in SYSTEMS] == pytest.approx([1, 1, 1], abs=0.005)  # one dense model
    assert [round(speedups[f"{s} bert 16"], 3) for s in SYSTEMS] == [1.0, 0.448, 0.798]
    assert [round(speedups[f"{s} transformer-xl 64"], 3) for s in SYSTEMS] == [1.0, 0.243, 0.573]


def test_speedups_are_those_of_the_lines() -> None:
    times = [float(t) for _, (t,) in hits("training_sweep", r"STEP-\d+: step_time = (\S+) ms, .*")]
    found = sweep(log("training_sweep"))
    assert len(times) == 900 and len(found) == 9
    steady = [times[100 * i + int(one["warmup"]) : 100 * i + 100] for i, one in enumerate(found.to_dict("records"))]
    assert found["n"].to_list() == [len(x) for x in steady]
    assert (found["median_s"] * 1e3).to_list() == pytest.approx([median(x) for x in steady])
    expected = [median(steady[i // 3 * 3]) / median(steady[i]) for i in range(9)]
    assert found["speedup"].to_list() == pytest.approx(expected)


@pytest.mark.parametrize("name", ["moe_layer.txt", "training_sweep.txt"])
def test_medians_are_those_of_the_steps(name: str) -> None:
    runs = reference(name)
    table = steps(runs)
    steady = table[(table["of"] == "step_time") & (table["part"] == "steady")].set_index("run")
    found = sweep(runs).set_index("run")
    for column in ("median_s", "median_low_s", "median_high_s", "n", "first_step", "last_line"):
        assert found[column].to_list() == steady.loc[found.index, column].to_list()


def test_all_columns_of_three_runs() -> None:
    """Steps of 1, 2 and 4 s with batches of 1, 2 and 4, after one step of warm-up."""
    import pandas as pd

    one = by_hand("steps", [{"step": step, "step_time_s": 1.0} for step in range(8)])
    runs = pd.concat([one["runs"].assign(run=f"r{k}", config=json.dumps({"batch": k})) for k in (1, 2, 4)])
    steps_ = pd.concat([one["steps"].assign(run=f"r{k}", step_time_s=float(k)) for k in (1, 2, 4)])
    assert rows(sweep({"runs": runs, "steps": steps_}, warmup=1)) == [
        {
            "run": f"r{k}", "label": None, "factor": "batch", "value": k, "group": None, "n": 7, "first_step": 1,
            "last_step": 7, "median_s": k, "median_low_s": k, "median_high_s": k, "base": "r1", "base_run": "r1",
            "speedup": 1 / k, "best": k == 1, "also": None, "warmup": 1, "first_line": 2, "last_line": 8,
        }
        for k in (1, 2, 4)
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["moe_layer_early.txt", "nvprof.txt", "pipeline_layers.txt"])
def test_in_a_single_run_nothing_varies(name: str) -> None:
    assert len(sweep(reference(name))) == 0


def test_runs_of_different_logs_are_not_set_against_each_other() -> None:
    found = sweep(perflog.load(REFERENCE))
    assert len(found) == 4 + 9
    assert found["speedup"].notna().all()


# --- made-up runs -----------------------------------------------------------------------------------------------


def test_what_came_of_the_training_is_no_setting() -> None:
    made = tables([{"gpus": 8, "samples": 700}, {"gpus": 16, "samples": 900}], [2.0, 1.0])
    made["runs"]["outcomes"] = ['["samples"]'] * 2
    assert set(sweep(made)["factor"]) == {"gpus"}


def test_two_factors_are_looked_at_one_by_one() -> None:
    grid = [{"batch": b, "ranks": r} for b in (8, 16) for r in (1, 2)]
    assert groups(sweep(tables(grid, [4.0, 2.0, 8.0, 5.0]))) == {
        ("batch", "ranks 1"): [(8, 1.0), (16, 0.5)],
        ("batch", "ranks 2"): [(8, 1.0), (16, 0.4)],
        ("ranks", "batch 8"): [(1, 1.0), (2, 2.0)],
        ("ranks", "batch 16"): [(1, 1.0), (2, 1.6)],
    }


def test_runs_that_differ_in_two_things_have_no_speedup() -> None:
    found = sweep(tables([{"batch": 8, "ranks": 1}, {"batch": 16, "ranks": 2}], [1.0, 2.0]))
    assert found["group"].to_list() == ["batch 8, ranks 1", "batch 16, ranks 2"]
    assert found["median_s"].to_list() == [1.0, 2.0]
    assert found["factor"].isna().all() and found["speedup"].isna().all() and found["base"].isna().all()


def test_between_models_there_is_no_speedup() -> None:
    found = sweep(tables([{"model": "small"}, {"model": "large"}], [1.0, 2.0]))
    assert found["group"].to_list() == ["model small", "model large"]
    assert found["speedup"].isna().all()


def test_what_only_some_runs_print_is_no_factor_but_is_told() -> None:
    found = sweep(tables([{"ranks": 1}, {"ranks": 2, "nodes": 2}], [2.0, 1.0]))
    assert groups(found) == {("ranks", None): [(1, 1.0), (2, 2.0)]}
    assert found["also"].to_list()[1] == "nodes"


def test_what_the_declared_label_names_is_what_was_varied() -> None:
    """With the label `{system} {model} {experts}` a setting that differs too does not hide the sweep."""
    configs = [{"system": s, "model": "m", "experts": 4, "buffers": i, "pid": i} for i, s in enumerate(SYSTEMS)]
    found = sweep(tables(configs, [4.0, 2.0, 1.0], "training_sweep"))
    assert found["best"].to_list() == [False, False, True]
    assert groups(found) == {("system", None): [("naive", 1.0), ("fastermoe", 2.0), ("mix_moe", 4.0)]}
    assert found["also"].to_list()[1:] == ["buffers", "buffers"]


def test_logs_of_one_run_each_are_one_sweep() -> None:
    given = tables([{"ranks": 1, "seed": 1}, {"ranks": 2, "seed": 2}], [2.0, 1.0])
    given["runs"]["log_sha256"] = ["a", "b"]
    found = sweep(given)
    assert groups(found) == {("ranks", None): [(1, 1.0), (2, 2.0)]}
    assert found["also"].isna().all()


def test_repeats_are_set_against_the_first_run_too() -> None:
    found = sweep(tables([{"ranks": 1}, {"ranks": 2}, {"ranks": 1}], [2.0, 1.0, 2.5]))
    assert groups(found) == {("ranks", None): [(1, 1.0), (2, 2.0), (1, 0.8)]}


@pytest.mark.parametrize("configs", [[], [{"a": 1}], [{"a": 1}, {"a": 1}], [{"a": 1}, {}]])
def test_where_nothing_varies_there_is_no_sweep(configs: list[dict[str, Any]]) -> None:
    assert len(sweep(tables(configs, [1.0] * len(configs)))) == 0


CONFIGS = st.lists(
    st.fixed_dictionaries({name: st.integers(0, 2) for name in ("a", "b", "c")}, optional={"d": st.integers(0, 1)}),
    min_size=2,
    max_size=8,
)


@examples(40)  # tables of pandas take milliseconds each
@given(CONFIGS, st.data())
def test_a_group_differs_in_its_factor_alone(configs: list[dict[str, int]], data: st.DataObject) -> None:
    times = data.draw(st.lists(st.floats(0.01, 10), min_size=len(configs), max_size=len(configs)))
    found = sweep(tables(configs, times)).to_dict("records")
    varying = {n for n in ("a", "b", "c", "d") if len({c.get(n) for c in configs}) > 1 and all(n in c for c in configs)}
    seen = {one["run"] for one in found}
    assert len(seen) == (len(configs) if varying else 0)  # each run stands somewhere
    for one in found:
        if not isinstance(one["factor"], str):  # the run is in no group
            continue
        mine, base = int(one["run"][1:]), int(one["base_run"][1:])
        assert base <= mine
        assert all(configs[mine][n] == configs[base][n] for n in varying - {one["factor"]})
        assert one["speedup"] == pytest.approx(times[base] / times[mine])
