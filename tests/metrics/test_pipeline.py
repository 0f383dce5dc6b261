"""Stages, layers and models of the bubble: what FACTS.md says of the pipeline log (004), and made-up pipelines."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from statistics import median
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.metrics_logs import by_hand
from support.paths import ROOT
from support.seeds import MS, log

import perflog
from perflog.metrics import Options, Tables, layers, pipeline, stages
from perflog.metrics.compared import ALL, Steady
from perflog.metrics.pipelines.pipeline import (
    _layer_samples,
    layers_by_stage,
    modelled_timelines,
    stage_times,
    timed_pipelines,
)
from perflog.metrics.pipelines.schedule_simulation import BACKWARD, FORWARD, as_timed
from perflog.metrics.semantics import RunSemantics
from perflog.tables.schema import TABLES

REFERENCE = ROOT / "reference_runs" / "store"


@pytest.fixture(scope="module", params=["seed", "reference"])
def run(request: pytest.FixtureRequest) -> perflog.Log:
    """The pipeline's run, read from its log or as the reference run holds it."""
    if request.param == "reference":
        store = perflog.load(REFERENCE)
        return store.select(*[run for run in store.run_keys if run.log == "pipeline_layers.txt"])
    return log("pipeline_layers")


def records(found: pd.DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found.astype(object).where(found.notna(), None).to_dict("records")
    return rows


# --- the real pipeline ------------------------------------------------------------------------------------------------


def test_stage_totals(run: perflog.Log) -> None:
    found = records(stages(run))
    assert [r["stage"] for r in found] == list(range(8)) == [int(r["ranks"]) for r in found]
    # the sixth is 77.447 ms
    assert [round(r["time_s"] / MS, 1) for r in found] == [72.4, 87.9, 81.2, 80.4, 77.3, 77.4, 76.5, 219.3]
    assert [round(r["per_micro_batch_s"] / MS, 2) for r in found] == [2.26, 2.75, 2.54, 2.51, 2.42, 2.42, 2.39, 6.85]
    assert [r["layers"] for r in found][::7] == ["embed 0 1", "13 14 15 lm_head"]
    assert {(r["n"], r["first_step"], r["last_step"], r["warmup"], r["direction"]) for r in found} == {
        (19, 2, 20, 1, "forward")
    }
    times = [r["time_s"] for r in found]
    assert round(max(times) / (sum(times) / 8), 2) == 2.27
    assert round(max(times) / min(times), 2) == 3.03
    assert sum(r["share"] for r in found) == pytest.approx(1)
    assert found[7]["of_longest"] == 1


def test_stage_totals_another_way(run: perflog.Log) -> None:
    sums: dict[tuple[int, int], float] = {}
    for r in run.arrow("layers").to_pylist():
        sums[r["stage"], r["step"]] = sums.get((r["stage"], r["step"]), 0.0) + r["time_s"]
    want = [median(sums[stage, step] for step in range(2, 21)) for stage in range(8)]
    assert [r["time_s"] for r in records(stages(run))] == pytest.approx(want, rel=1e-12)
    whole = [median(sums[stage, step] for step in range(1, 21)) for stage in range(8)]
    assert [r["time_s"] for r in records(stages(run, warmup=0))] == pytest.approx(whole, rel=1e-12)


def test_layers_split_over_two_stages(run: perflog.Log) -> None:
    """Odd blocks up to 13 lie on two stages: their calls are as many as those of a block on one."""
    found = {r["layer"]: r for r in records(layers(run))}
    assert list(found) == ["embed", *(str(k) for k in range(16)), "lm_head"]
    for k in range(16):
        stage = k // 2
        assert found[str(k)]["stages"] == (f"{stage} {stage + 1}" if k % 2 and k < 15 else str(stage))
        assert found[str(k)]["calls"] == 256
        assert 36.5 * MS < found[str(k)]["time_s"] < 44.5 * MS
    assert (found["embed"]["calls"], found["lm_head"]["calls"]) == (32, 32)
    assert round(found["lm_head"]["time_s"] / MS, 1) == 133.6


def test_models_of_the_bubble(run: perflog.Log) -> None:
    equal, timed, alone = records(pipeline(run))
    assert {(r["stages"], r["micro_batches"], r["chunks"]) for r in (equal, timed, alone)} == {(8, 32, None)}
    assert (equal["model"], equal["of"], equal["makespan_s"]) == ("1F1B, equal stages", None, None)
    assert equal["idle"] == pytest.approx(7 / 39) and round(equal["idle"], 4) == 0.1795
    assert equal["over_ideal"] == 7 / 32
    assert (timed["model"], timed["of"]) == ("1F1B, stages as timed", "forward")
    assert round(timed["makespan_s"] / MS, 1) == 236.6
    assert (round(timed["busy"], 3), round(timed["idle"], 3)) == (0.408, 0.592)
    assert (alone["model"], round(alone["idle"], 2)) == ("imbalance of stages alone", 0.56)
    assert not any("measured" in r["model"] for r in (equal, timed, alone))
    times = [r["per_micro_batch_s"] for r in records(stages(run))]
    assert timed["makespan_s"] == pytest.approx(sum(times) + 31 * max(times))
    assert timed["busy"] == pytest.approx(32 * sum(times) / (8 * timed["makespan_s"]))


def test_modelled_timeline(run: perflog.Log) -> None:
    ((_, slots),) = modelled_timelines(Tables(run), Options())
    assert list(slots.columns) == ["stage", "micro_batch", "direction", "start_s", "end_s"]
    assert len(slots) == 8 * 32 and set(slots["direction"]) == {"forward"}  # the log has no backward times
    assert round(slots["end_s"].max() / MS, 1) == 236.6


# --- made-up pipelines ------------------------------------------------------------------------------------------------


def made_up(rows: list[dict[str, Any]]) -> Tables:
    """Tables of one run with these rows of table `layers`."""
    run = {c.name: None for c in TABLES["runs"]} | {
        "run": "r",
        "label": "made up",
        "index": 1,
        "config": json.dumps({}),
    }
    blank = {c.name: None for c in TABLES["layers"]} | {"run": "r", "part": 0, "direction": "forward", "calls": 1}
    layers = [blank | {"line": n} | row for n, row in enumerate(rows)]
    return Tables({"runs": pd.DataFrame([run]), "layers": pd.DataFrame(layers)})


@pytest.fixture
def quantities(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What the format of a made-up run declares of it."""
    found: dict[str, float] = {}
    meaning = RunSemantics(None, quantities=found)
    module = sys.modules[modelled_timelines.__module__]  # by its path one finds the metric of that name
    monkeypatch.setattr(module, "semantics_by_run", lambda runs: dict.fromkeys(runs["run"], meaning))
    return found


def times(forward: list[float], backward: list[float] | None = None, steps: int = 3) -> list[dict[str, Any]]:
    parts = [(FORWARD, forward), (BACKWARD, backward or [])]
    return [
        {"step": step, "rank": s, "stage": s, "layer": str(s), "direction": direction, "time_s": time}
        for step in range(steps)
        for direction, several in parts
        for s, time in enumerate(several)
    ]


def test_interleaved_where_chunks_are_known(quantities: dict[str, float]) -> None:
    quantities.update(stages=4, micro_batches=8, chunks=2)
    found = {r["model"]: r for r in records(pipeline(made_up(times([1.0] * 4))))}
    assert found["1F1B, equal stages"]["idle"] == pytest.approx(3 / 11)
    assert found["interleaved 1F1B, equal stages"]["idle"] == pytest.approx(3 / 19)
    assert found["interleaved 1F1B, equal stages"]["over_ideal"] == pytest.approx(3 / 16)
    assert found["1F1B, stages as timed"]["idle"] == pytest.approx(3 / 11)  # they are equal
    assert found["imbalance of stages alone"]["idle"] == 0


def test_backward_counts_where_it_is_timed(quantities: dict[str, float]) -> None:
    quantities.update(stages=4, micro_batches=8)
    found = {r["model"]: r for r in records(pipeline(made_up(times([8.0] * 4, [16.0] * 4))))}
    assert found["1F1B, stages as timed"]["of"] == "forward and backward"
    assert found["1F1B, stages as timed"]["makespan_s"] == pytest.approx((8 + 3) * (1 + 2))
    assert found["1F1B, stages as timed"]["idle"] == pytest.approx(3 / 11)


@pytest.mark.parametrize(
    ("known", "models"),
    [
        ({}, []),
        ({"micro_batches": 8}, []),
        ({"stages": 4}, ["imbalance of stages alone"]),
        ({"stages": 5, "micro_batches": 8}, ["1F1B, equal stages"]),  # no times of the fifth
        ({"stages": 4, "micro_batches": 2.5}, ["imbalance of stages alone"]),
    ],
)
def test_what_is_not_known_is_not_modelled(
    quantities: dict[str, float], known: dict[str, float], models: list[str]
) -> None:
    quantities.update(known)
    tables = made_up(times([1.0] * 4))
    assert [r["model"] for r in records(pipeline(tables))] == models
    assert len(stages(tables)) == 4
    assert not list(modelled_timelines(tables, Options())) or known == {"stages": 4, "micro_batches": 8}


def test_one_chunk_is_no_interleaving(quantities: dict[str, float]) -> None:
    quantities.update(stages=4, micro_batches=8, chunks=1)
    found = [r["model"] for r in records(pipeline(made_up(times([1.0] * 4))))]
    assert found == ["1F1B, equal stages", "1F1B, stages as timed", "imbalance of stages alone"]


def test_backward_alone_and_backward_of_some_stages_are_not_modelled(quantities: dict[str, float]) -> None:
    quantities.update(stages=4, micro_batches=8)
    both = times([8.0] * 4, [16.0] * 4)
    some = made_up([r for r in both if r["direction"] == "forward" or r["stage"] < 3])
    found = {r["model"]: r for r in records(pipeline(some))}
    assert found["1F1B, stages as timed"]["of"] == "forward"
    assert found["1F1B, stages as timed"]["makespan_s"] == pytest.approx(8 + 3)
    backward = made_up([r for r in both if r["direction"] == "backward"])
    assert [r["model"] for r in records(pipeline(backward))] == ["1F1B, equal stages"]


def test_the_times_of_each_stage_and_step(quantities: dict[str, float]) -> None:
    """Of a stage that two ranks share the slower one counts, and the stage has no rank of its own."""
    quantities.update(stages=2, micro_batches=4)
    rows = times([8.0, 12.0]) + [r | {"rank": 7, "time_s": 16.0} for r in times([8.0, 12.0]) if r["stage"] == 1]
    (found,) = stage_times(made_up(rows), Options())
    assert (found.micro_batches, found.ranks) == (4, {0: 0, 1: None})
    assert {way: seconds.tolist() for way, seconds in found.seconds.items()} == {
        "forward": [[2.0] * len(found.steps), [4.0] * len(found.steps)]
    }
    quantities.update(stages=3)
    assert list(stage_times(made_up(rows), Options())) == []


def test_a_run_without_micro_batches_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = times([8.0, 12.0])
    tables = made_up([*rows, *(row | {"run": "s"} for row in rows)])
    runs = pd.concat([tables["runs"], tables["runs"].assign(run="s")])
    known = {"r": {"stages": 2.0}, "s": {"stages": 2.0, "micro_batches": 4.0}}
    meanings = {run: RunSemantics(None, quantities=quantities) for run, quantities in known.items()}
    monkeypatch.setattr(sys.modules[modelled_timelines.__module__], "semantics_by_run", lambda _: meanings)
    assert [each.run for each in stage_times(Tables({"runs": runs, "layers": tables["layers"]}), Options())] == ["s"]


def test_how_busy_a_timed_pipeline_is(quantities: dict[str, float]) -> None:
    quantities.update(stages=2, micro_batches=4)
    (found,) = timed_pipelines(made_up(times([8.0, 16.0])), Options())  # 2 and 4 s for each micro-batch
    assert found.makespan_s == pytest.approx(2 + 4 * 4)
    assert found.busy_s == pytest.approx((2 + 4) * 4 / 2)  # the mean of the stages
    assert found.equal_s == pytest.approx(3 * (4 + 1))  # with stages that are equal


def test_all_columns_of_stages_and_layers(quantities: dict[str, float]) -> None:
    """After one step of warm-up six steps, each 0.1 s longer than the one before: the interval is all of them."""
    quantities.update(stages=2, micro_batches=4)
    table = made_up([
        {"step": step, "rank": 10 + stage, "stage": stage, "layer": layer, "time_s": time + step / 10, "calls": 4}
        for step in range(7)
        for stage, layer, time in ((0, "a", 1.0), (0, "b", 2.0), (1, "c", 4.0))
    ])  # fmt: skip
    same = {"run": "r", "label": "made up", "direction": "forward", "n": 6, "first_step": 1, "last_step": 6}
    same |= {"warmup": 1, "warmup_reason": "given"}
    whole = 3.7 + 4.35
    assert records(stages(table, warmup=1)) == [
        same | {"stage": stage, "ranks": rank, "layers": of, "first_line": line}
        | {name: pytest.approx(value) for name, value in values.items()}
        for stage, rank, of, line, values in (
            (0, "10", "a b", 3, {"time_s": 3.7, "low_s": 3.2, "high_s": 4.2, "per_micro_batch_s": 3.7 / 4,
                                 "share": 3.7 / whole, "of_longest": 3.7 / 4.35}),
            (1, "11", "c", 5, {"time_s": 4.35, "low_s": 4.1, "high_s": 4.6, "per_micro_batch_s": 4.35 / 4,
                               "share": 4.35 / whole, "of_longest": 1.0}),
        )
    ]  # fmt: skip
    assert records(layers(table, warmup=1)) == [
        same | {"layer": layer, "stages": stage, "calls": 4, "first_line": 3 + k}
        | {name: pytest.approx(value) for name, value in (
            ("time_s", time), ("low_s", time - 0.25), ("high_s", time + 0.25), ("per_micro_batch_s", time / 4),
            ("share", time / (1.35 + 2.35 + 4.35)), ("of_longest", time / 4.35))}
        for k, (layer, stage, time) in enumerate((("a", "0", 1.35), ("b", "0", 2.35), ("c", "1", 4.35)))
    ]  # fmt: skip


def test_of_several_ranks_of_a_stage_the_slowest_counts(quantities: dict[str, float]) -> None:
    rows = [
        {"step": step, "rank": rank, "stage": 0, "layer": layer, "time_s": time}
        for step in range(3)
        for rank, layer, time in [(0, "a", 1.0), (0, "b", 2.0), (1, "a", 3.0), (1, "b", 1.0)]
    ]
    (found,) = records(stages(made_up(rows)))
    assert (found["time_s"], found["ranks"], found["layers"], found["per_micro_batch_s"]) == (4.0, "0 1", "a b", None)
    assert [(r["layer"], r["time_s"]) for r in records(layers(made_up(rows)))] == [("a", 3.0), ("b", 2.0)]


def test_a_step_that_is_not_whole_is_left_out(quantities: dict[str, float]) -> None:
    tables = made_up(times([1.0, 2.0], steps=4)[:-1])  # the log ends in step 3
    assert {(r["n"], r["last_step"]) for r in records(stages(tables))} == {(3, 2)}


def test_layers_without_stages(quantities: dict[str, float]) -> None:
    tables = made_up([r | {"stage": None, "rank": None, "direction": None} for r in times([1.0, 2.0])])
    assert [(r["layer"], r["time_s"], r["direction"]) for r in records(layers(tables))] == [
        ("0", 1, None),
        ("1", 2, None),
    ]
    assert len(stages(tables)) == len(pipeline(tables)) == 0


# --- the schedule -----------------------------------------------------------------------------------------------------

seconds = st.lists(st.integers(1, 50).map(float), min_size=1, max_size=6)


@given(seconds, st.integers(1, 12))
def test_forward_alone_ends_when_the_formula_says(forward: list[float], micro_batches: int) -> None:
    step = as_timed(forward, micro_batches)
    assert [len(slots) for slots in step.slots] == [micro_batches] * len(forward)
    assert step.makespan_s == sum(forward) + (micro_batches - 1) * max(forward)


@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 9), st.integers(1, 9))
def test_equal_stages_have_the_ideal_bubble(stages: int, micro_batches: int, f: int, b: int) -> None:
    step = as_timed([f] * stages, micro_batches, [b] * stages)
    assert step.makespan_s == (micro_batches + stages - 1) * (f + b)
    assert step.idle == pytest.approx((stages - 1) / (micro_batches + stages - 1))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6), st.integers(1, 12))
def test_slots_keep_the_order_of_1f1b(pairs: list[tuple[int, int]], micro_batches: int) -> None:
    forward, backward = [list(map(float, times)) for times in zip(*pairs, strict=True)]
    slots = as_timed(forward, micro_batches, backward).slots
    at = {(stage, w.micro_batch, w.kind): (start, end) for stage, own in enumerate(slots) for w, start, end in own}
    assert len(at) == 2 * len(pairs) * micro_batches
    for (stage, batch, kind), (start, end) in at.items():
        _, needed = at.get((stage + (-1 if kind == FORWARD else 1), batch, kind), (0.0, 0.0))
        assert needed <= start and end - start == (forward if kind == FORWARD else backward)[stage]
        assert at[stage, batch, FORWARD][1] <= at[stage, batch, BACKWARD][0]
    for stage, own in enumerate(slots):
        assert all(one[2] <= two[1] for one, two in pairwise(own))
        ahead, most = 0, 0  # micro-batches whose activations the stage keeps
        for work, _, _ in own:
            ahead += 1 if work.kind == FORWARD else -1
            most = max(most, ahead)
        assert most == min(len(pairs) - stage, micro_batches)


def test_layers_of_the_runs_that_are_compared() -> None:
    rows = [
        {"run": run, "step": n, "layer": layer, "stage": 0, "direction": "forward", "time_s": time}
        for run in ("r", "s", "t") for n in range(2) for layer, time in (("0", 1.0), ("1", 2.0 + n))
    ]  # fmt: skip
    samples = _layer_samples(Tables(by_hand("layers", rows)), Steady({"s": 0, "t": 1}, {}))
    found = [(run, measure.name, values.tolist()) for measure, run, values in samples]
    assert found == [
        ("s", ALL, [3.0, 4.0]), ("s", "0 forward", [1.0, 1.0]), ("s", "1 forward", [2.0, 3.0]),
        ("t", ALL, [4.0]), ("t", "0 forward", [1.0]), ("t", "1 forward", [3.0]),
    ]  # fmt: skip


def test_the_layers_of_each_stage_in_one_direction() -> None:
    rows = [
        {
            "table": "layers",
            "step": step,
            "stage": stage,
            "rank": stage,
            "layer": layer,
            "direction": way,
            "time_s": time_s,
        }
        for step in range(6)
        for stage, layer, way, time_s in ((0, "a", "forward", 1.0), (0, "a", "backward", 2.0), (1, "b", "forward", 4.0))
    ]
    made = Tables(by_hand("layers", rows))
    assert layers_by_stage(made, "r", "forward", Options(warmup=0)) == {0: {"a": 1.0}, 1: {"b": 4.0}}
    assert layers_by_stage(made, "r", "backward", Options(warmup=0)) == {0: {"a": 2.0}, 1: {}}
