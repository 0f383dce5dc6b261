"""Configurations and factors of many runs: known effects of made-up designs, and a computation by brute force."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import product
from statistics import mean, stdev
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples
from support.metrics_logs import by_hand

import perflog
from perflog.metrics import Tables, configurations, factors
from perflog.metrics.many_runs.factors import _FEWEST, _losses
from perflog.tables.nulls import records
from perflog.tables.schema import TABLES

T_OF_1, T_OF_2 = 12.7062047364, 4.3026527299  # 97.5 % quantiles of Student's t


def tables(configs: Sequence[Mapping[str, Any]], times: Sequence[float], **columns: Sequence[float]) -> dict[str, Any]:
    """Tables of runs, each the only one of its log, with six equal steps; `columns`: other columns of steps by run."""
    import pandas as pd

    runs = [
        {c.name: None for c in TABLES["runs"]}
        | {"run": f"r{i}", "label": f"run {i}", "log_sha256": f"{i}", "index": 1, "config": json.dumps(config)}
        | {"format": "meters", "model": config.get("model")}
        for i, config in enumerate(configs)
    ]
    blank = {c.name: None for c in TABLES["steps"]} | {"part": 0, "copy": 1, "steps_averaged": 1}
    rows = [
        blank | {"run": f"r{i}", "line": step + 1, "step": step, "step_time_s": time}
        | {name: values[i] for name, values in columns.items()}
        for i, time in enumerate(times)
        for step in range(6)
    ]  # fmt: skip
    return {"runs": pd.DataFrame(runs), "steps": pd.DataFrame(rows)}


def test_of_the_attempts_of_a_job_the_last_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are no repeats of a configuration."""
    made = Tables(tables([{"lr": lr} for lr in (1, 1, 2, 3)], [9.0, 2.0, 3.0, 4.0]))
    assert configurations(made)["runs"].tolist() == [1, 1, 2]
    monkeypatch.setattr("perflog.metrics.many_runs.factors.jobs", lambda _: {"r0": ["r0", "r1"]})
    made = Tables(tables([{"lr": lr} for lr in (1, 1, 2, 3)], [9.0, 2.0, 3.0, 4.0]))
    found = configurations(made)
    assert found["runs"].tolist() == [1, 1, 1] and found["failed"].tolist() == [0, 0, 0]
    assert found["value"].tolist() == pytest.approx([2.0, 3.0, 4.0])


def effects(table: pd.DataFrame) -> dict[tuple[str, str], tuple[Any, Any]]:
    """(factor, value) -> groups and change."""
    return {(row["factor"], row["value"]): (row["groups"], row["change"]) for row in records(table)}


GRID = [{"batch": b, "ranks": r} for b, r in product((8, 16, 4), (1, 2))]
FACTOR = {8: 1.0, 16: 1.5, 4: 0.8}


def test_the_effects_of_a_full_design() -> None:
    found = factors(tables(GRID, [FACTOR[c["batch"]] * 2.0 / c["ranks"] for c in GRID]))
    assert {k: (n, None if x is None else round(x, 12)) for k, (n, x) in effects(found).items()} == {
        ("batch", "4"): (2, None), ("batch", "8"): (2, 0.25), ("batch", "16"): (2, 0.875),
        ("ranks", "1"): (3, None), ("ranks", "2"): (3, -0.5),
    }  # fmt: skip
    best = dict(zip(zip(found["factor"], found["value"], strict=True), found["best_in"], strict=True))
    assert best == {("batch", "4"): 2, ("batch", "8"): 0, ("batch", "16"): 0, ("ranks", "1"): 0, ("ranks", "2"): 3}
    assert set(found["base"]) == {"4", "1"}


def test_the_best_configuration_leads() -> None:
    found = configurations(tables(GRID, [FACTOR[c["batch"]] * 2.0 / c["ranks"] for c in GRID]))
    assert found["configuration"].to_list()[0] == "batch 4, ranks 2" and found["configuration"].to_list()[-1] == (
        "batch 16, ranks 1"
    )
    assert found["rank"].to_list() == [1, 2, 3, 4, 5, 6]
    assert found["value"].to_list() == pytest.approx([0.8, 1.0, 1.5, 1.6, 2.0, 3.0])
    assert found["change"].to_list() == pytest.approx([0, 0.25, 0.875, 1, 1.5, 2.75])
    assert set(found["figure"]) == {"step_time_s"}


def test_repeats_are_one_configuration_with_an_interval_over_the_runs() -> None:
    configs = [{"ranks": r, "seed": s} for r in (1, 2) for s in (1, 2, 3)]
    times = [1.0, 1.1, 1.2, 0.7, 0.7, 0.7]
    two, one = records(configurations(tables(configs, times)))
    assert (two["configuration"], two["runs"], one["runs"]) == ("ranks 2", 3, 3)
    logs = [math.log(time) for time in times[:3]]
    arm = T_OF_2 * stdev(logs) / math.sqrt(3)
    assert one["value"] == pytest.approx(math.exp(mean(logs)))
    assert (one["low"], one["high"]) == pytest.approx((math.exp(mean(logs) - arm), math.exp(mean(logs) + arm)))
    assert two["low"] == pytest.approx(0.7)
    assert records(factors(tables(configs, times)))[1]["change"] == pytest.approx(0.7 / math.exp(mean(logs)) - 1)


def test_an_interaction_widens_the_interval_over_the_groups() -> None:
    """Twice the batch costs 10 % with one rank and 90 % with two."""
    grid = [{"batch": b, "ranks": r} for b, r in product((8, 16), (1, 2))]
    row = records(factors(tables(grid, [1.0, 1.0, 1.1, 1.9])))[1]
    logs = [math.log(1.1), math.log(1.9)]
    arm = T_OF_1 * stdev(logs) / math.sqrt(2)
    assert (row["factor"], row["value"], row["change"]) == ("batch", "16", pytest.approx(math.exp(mean(logs)) - 1))
    assert row["change_low"] == pytest.approx(math.expm1(mean(logs) - arm))
    assert row["change_high"] == pytest.approx(math.expm1(mean(logs) + arm))


def test_a_value_that_was_never_tried_alone_has_no_effect() -> None:
    grid = [{"a": a, "b": b} for a, b in ((1, 1), (1, 2), (2, 2), (3, 3))]
    found = effects(factors(tables(grid, [1.0, 2.0, 3.0, 4.0])))
    assert (found["a", "2"], found["b", "2"]) == ((1, pytest.approx(0.5)), (1, pytest.approx(1.0)))
    assert (found["a", "3"], found["b", "3"]) == ((0, None), (0, None))


def test_settings_nearest_to_a_full_design_are_the_factors() -> None:
    """With 8 ranks, data parallelism follows from the others, and each of them varies while the others stay."""
    grid = [{"data": 8 // t // p, "micro": m, "tensor": t, "pipe": p}
            for m, t, p in product((1, 2, 4, 8), (1, 2, 4), (1, 2))]  # fmt: skip
    times = [10 / c["micro"] ** 0.1 * c["tensor"] ** 0.2 * c["pipe"] ** 0.05 for c in grid]
    found = factors(tables(grid, times))
    assert set(found["factor"]) == {"micro", "tensor", "pipe"}
    assert effects(found)["tensor", "4"] == (8, pytest.approx(4**0.2 - 1))
    assert set(found["also"].dropna()) == {"data"}
    first = records(configurations(tables(grid, times)))[0]
    assert (first["configuration"], first["value"]) == ("micro 8, tensor 1, pipe 1", pytest.approx(10 / 8**0.1))


def test_runs_that_failed_are_listed_last() -> None:
    given = tables([{"micro": m} for m in (1, 2, 2, 4, 4)] + [{}], [2.0, 1.0])
    *measured, failed = records(configurations(given))
    assert [(row["rank"], row["configuration"], row["runs"], row["failed"]) for row in measured] == [
        (1, "micro 2", 1, 1), (2, "micro 1", 1, 0)
    ]  # fmt: skip
    assert (failed["configuration"], failed["runs"], failed["failed"]) == ("micro 4", 0, 2)
    assert (failed["rank"], failed["value"], failed["change"]) == (None, None, None)
    assert [row["value"] for row in records(factors(given))] == ["1", "2"]


def test_a_setting_that_always_changes_with_another_is_named() -> None:
    found = records(factors(tables([{"micro": m, "all": 4 * m} for m in (1, 2)], [1.0, 2.0])))
    assert [row["factor"] for row in found] == ["micro", "micro"]
    assert found[1]["also"] == "all"


def test_rates_lead_where_all_runs_print_them() -> None:
    given = tables([{"batch": 1}, {"batch": 2}], [1.0, 1.5], tokens_per_s=[100.0, 133.0])
    assert [(row["configuration"], row["figure"]) for row in records(configurations(given))] == [
        ("batch 2", "tokens_per_s"), ("batch 1", "tokens_per_s")
    ]  # fmt: skip
    assert effects(factors(given))["batch", "2"] == (1, pytest.approx(0.33))
    half = tables([{"batch": 1}, {"batch": 2}], [1.0, 1.5], tokens_per_s=[100.0, math.nan])
    assert set(configurations(half)["figure"]) == {"step_time_s"}


def test_other_models_are_other_sweeps() -> None:
    grid = [{"model": m, "batch": b} for m, b in product("ab", (1, 2))]
    found = configurations(tables(grid, [1.0, 2.0, 9.0, 8.0]))
    assert found["sweep"].to_list() == ["meters, a"] * 2 + ["meters, b"] * 2
    assert found["configuration"].to_list() == ["batch 1", "batch 2", "batch 2", "batch 1"]


@pytest.mark.parametrize("metric", [configurations, factors])
def test_where_nothing_varies_there_are_no_rows(metric: perflog.metrics.Metric) -> None:
    assert len(metric(tables([{"a": 1, "seed": 1}, {"a": 1, "seed": 2}], [1.0, 2.0]))) == 0
    assert len(metric(perflog.find_runs("reference:nvprof.txt"))) == 0


def test_the_real_sweep_by_system() -> None:
    """The speed-ups of `sweep`, by system: the change is their inverse."""
    log = perflog.find_runs("reference:training_sweep.txt")
    speedups = {row["label"]: row["speedup"] for row in records(perflog.metrics.sweep(log))}
    found = [row for row in records(factors(log)) if row["change"] is not None]
    assert {row["label"]: row["change"] for row in found} == pytest.approx(
        {row["label"]: 1 / speedups[row["label"]] - 1 for row in found}
    )
    assert len(found) == 6


@examples(50)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.floats(0.1, 10)), min_size=2, max_size=12
    )
)  # fmt: skip
def test_effects_are_those_of_all_pairs_by_hand(runs: list[tuple[int, int, float]]) -> None:
    configs = [{"a": a, "b": b} for a, b, _ in runs]
    for row in records(factors(tables(configs, [time for _, _, time in runs]))):
        factor, other = (row["factor"], "b" if row["factor"] == "a" else "a")
        ratios = []
        for level in {c[other] for c in configs} if len({c[other] for c in configs}) > 1 else {configs[0][other]}:
            logs = [
                [math.log(time) for c, (_, _, time) in zip(configs, runs, strict=True)
                 if c[other] == level and str(c[factor]) == value]
                for value in (row["base"], row["value"])
            ]  # fmt: skip
            if all(logs):
                ratios.append(mean(logs[1]) - mean(logs[0]))
        if row["value"] == row["base"]:
            assert row["change"] is None
        elif row["also"] is None:
            assert row["groups"] == len(ratios)
            assert row["change"] == (pytest.approx(math.expm1(mean(ratios))) if ratios else None)


def test_a_log_without_settings_is_no_configuration() -> None:
    """Its head may be cut. A run that prints all other settings is the one without the option."""
    cut = tables([{"ranks": 8, "lr": 1}, {"ranks": 64, "lr": 1}, {}], [1.0, 2.0, 3.0])
    assert [row["configuration"] for row in records(configurations(cut))] == ["ranks 8", "ranks 64"]
    whole = tables([{"ranks": 8, "lr": 1}, {"ranks": 64, "lr": 1}, {"lr": 1}], [1.0, 2.0, 3.0])
    assert [row["configuration"] for row in records(configurations(whole))] == ["ranks 8", "ranks 64", "ranks -"]


@pytest.mark.parametrize(("number", "loss"), [(_FEWEST - 1, None), (_FEWEST, 2.5), (_FEWEST + 10, 2.0)])
def test_the_loss_of_a_run_is_the_mean_of_its_last_tenth(number: int, loss: float | None) -> None:
    """The last losses are 3 and 2. A loss that is no number counts neither as one, nor as a last one."""
    losses = [9.0] * (number - 2) + [3.0, 2.0, math.inf]
    if number > _FEWEST:
        losses[-4:-1] = [1.0, 3.0, 2.0]
    steps = Tables(by_hand("steps", [{"step": step, "loss": each} for step, each in enumerate(losses)]))
    assert _losses(steps, ["r"]) == ({} if loss is None else {"r": loss})


def test_losses_at_other_steps_are_not_compared() -> None:
    made = [by_hand("steps", [{"step": step, "loss": 2.0} for step in range(size)]) for size in (20, 20, 21)]
    steps = pd.concat([each["steps"].assign(run=run) for run, each in zip("abc", made, strict=True)])
    tables = Tables({"runs": made[0]["runs"], "steps": steps})
    assert (_losses(tables, "ab"), _losses(tables, "abc")) == ({"a": 2.0, "b": 2.0}, {})
