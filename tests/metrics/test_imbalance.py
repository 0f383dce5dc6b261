"""Imbalance: the tables of the real logs, each measure computed another way, experts, and ranks that are not known."""

from __future__ import annotations

import math
from statistics import mean, median, pstdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.metrics_logs import BOTH, by_hand, printed, row, rows, runs, tables
from support.seeds import MS

from perflog.metrics import imbalance, imbalance_steps
from perflog.metrics.skew.imbalance import load_name, measures

BLOCKS = [  # sum, max / mean, rank of the most
    (1044, 1.195, 2),
    (1064, 1.083, 0),
    (1036, 1.154, 3),
    (1032, 1.240, 0),
]


# --- the real logs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", BOTH)
def test_loads_of_the_benchmark(where: str) -> None:
    found = imbalance(tables("moe_layer", where))
    for run, (total, ratio, most) in zip(runs("moe_layer", where), BLOCKS, strict=True):
        one = row(found, run=run, of="load")
        assert (one["name"], one["over"], one["members"], one["total"]) == ("block", "rank", 4, total)
        assert 1 + one["imbalance"] == pytest.approx(ratio, abs=5e-4)
        assert (one["largest"], one["largest_share"]) == (most, 1.0)
        assert (one["n"], one["first_step"], one["last_step"]) == (99, 1, 99)
        assert (one["entropy"], one["dead"]) == (None, None)


@pytest.mark.parametrize("where", BOTH)
def test_stages_of_the_pipeline(where: str) -> None:
    """Stage totals of steps 2 to 20: max/mean 2.27, max/min 3.03, 1 - mean/max 56 %; the last stage is the slowest."""
    one = row(imbalance(tables("pipeline_layers", where)), over="stage")
    assert (one["of"], one["name"], one["members"]) == ("layer", "forward", 8)
    assert (one["n"], one["first_step"], one["last_step"]) == (19, 2, 20)
    assert 1 + one["imbalance"] == pytest.approx(2.27, abs=0.006)
    assert one["max_over_min"] == pytest.approx(3.03, abs=0.005)
    assert one["relative"] == pytest.approx(0.56, abs=0.005)
    assert (one["largest"], one["largest_share"]) == (7, 1.0)
    assert one["max"] == pytest.approx(219.3 * MS, abs=0.05 * MS)


@pytest.mark.parametrize("where", BOTH)
def test_blocks_of_the_pipeline_are_whole(where: str) -> None:
    """A block that is split over two stages is the sum of its parts: all sixteen are alike within a fifth."""
    one = row(imbalance(tables("pipeline_layers", where)), over="layer")
    assert (one["members"], one["n"]) == (16, 19)
    assert 0 < one["imbalance"] < 0.2
    layers = rows(tables("pipeline_layers", where)["layers"])
    worst = []
    for step in range(2, 21):
        totals = [sum(r["time_s"] for r in layers if (r["step"], r["layer"]) == (step, str(k))) for k in range(16)]
        worst.append(max(totals) / mean(totals) - 1)
    assert one["imbalance"] == pytest.approx(median(worst))


def test_phases_are_those_of_the_text() -> None:
    found = imbalance(tables("moe_layer", "seed"))
    for run, steps in zip(runs("moe_layer", "seed"), printed(), strict=True):
        one = row(found, run=run, name="process")
        whole = [[s.process[rank][0] for rank in range(4)] for s in steps[1:]]
        assert one["imbalance"] == pytest.approx(median(max(v) / mean(v) - 1 for v in whole))
        assert one["cv"] == pytest.approx(median(pstdev(v) / mean(v) for v in whole))
        counts = [sum(v.index(max(v)) == rank for v in whole) for rank in range(4)]
        assert (one["largest"], one["largest_share"]) == (counts.index(max(counts)), max(counts) / 99)
        anonymous = row(found, run=run, name="moe_forward")
        assert anonymous["imbalance"] == pytest.approx(median(max(s.forward) / mean(s.forward) - 1 for s in steps[1:]))
        assert (anonymous["largest"], anonymous["largest_share"], anonymous["n"]) == (None, None, 99)


def test_each_step_of_the_benchmark_is_there() -> None:
    steps = imbalance_steps(tables("moe_layer"))
    loads = rows(steps, of="load")
    assert len(loads) == 400 and [r["step"] for r in loads if not r["steady"]] == [0] * 4
    assert {round(r["imbalance"], 3) for r in loads} == {0.195, 0.083, 0.154, 0.240}
    assert "wait" not in set(steps["name"])


def test_other_logs_have_none() -> None:
    assert not len(imbalance(tables("moe_layer"), warmup=100))
    for name in ("training_sweep", "nvprof", "moe_layer_early"):
        assert not len(imbalance(tables(name)))


# --- the measures -------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.001, 1e6), min_size=2, max_size=9))
def test_each_measure_is_its_formula(values: list[float]) -> None:
    found = {name: float(value[0]) for name, value in measures(np.array([values]), True).items()}
    n, top, middle = len(values), max(values), math.fsum(values) / len(values)
    shares = [v / math.fsum(values) for v in values]
    want = {
        "imbalance": top / middle - 1,
        "efficiency": 1 / (1 + found["imbalance"]),
        "craypat": found["relative"] * n / (n - 1),
        "relative": 1 - middle / top,
        "cv": pstdev(values) / middle,
        "max_over_min": top / min(values),
        "entropy": -sum(p * math.log(p) for p in shares if p) / math.log(n),
        "max_share": max(shares),
        "dead": 0.0,
    }
    assert {name: found[name] for name in want} == pytest.approx(want, rel=1e-9, abs=1e-9)
    assert -1e-12 <= found["imbalance"] <= n - 1 + 1e-9
    assert -1e-9 <= found["craypat"] <= 1 + 1e-9  # 1: all the work on one member


def experts(counts: list[list[int]], **more: Any) -> list[dict[str, Any]]:
    """Tokens of each expert, by step; what has none is not printed."""
    return [
        {"step": step, "expert": e, "unit": "token", "amount": float(n), **more}
        for step, of in enumerate(counts)
        for e, n in enumerate(of)
        if n
    ]


def test_all_columns_of_loads_of_two_ranks() -> None:
    """Steps after the warm-up of 1 and 3, 2 and 2, 4 and 1, 1 and 5 tokens: medians of each measure over the steps."""
    loads = [
        {"step": step, "rank": rank, "unit": "token", "amount": float(amount)}
        for step, of in enumerate([(9, 9), (1, 3), (2, 2), (4, 1), (1, 5)], 1)
        for rank, amount in enumerate(of)
    ]
    made = by_hand("loads", loads, world=2)
    nothing = dict.fromkeys(("occurrence", "kind", "entropy", "dead", "max_share"))
    assert rows(imbalance(made, warmup=1)) == [
        nothing | {
            "run": "r", "label": None, "of": "load", "name": "token", "over": "rank", "members": 2,
            "imbalance": pytest.approx((0.5 + 0.6) / 2), "efficiency": pytest.approx((1 / 1.5 + 1 / 1.6) / 2),
            "craypat": pytest.approx((2 / 3 + 3 / 4) / 2), "relative": pytest.approx((1 / 3 + 3 / 8) / 2),
            "cv": pytest.approx((0.5 + 0.6) / 2), "max_over_min": (3 + 4) / 2, "largest": 1, "largest_share": 0.5,
            "total": 4.5, "mean": 2.25, "max": 3.5, "n": 4, "first_step": 2, "last_step": 5,
        },
    ]  # fmt: skip
    steps = imbalance_steps(made, 1)
    assert [(r["step"], r["imbalance"], r["largest"], r["steady"]) for r in rows(steps)] == [
        (1, 0, None, False), (2, 0.5, 1, True), (3, 0, None, True), (4, pytest.approx(0.6), 0, True),
        (5, pytest.approx(2 / 3), 1, True),
    ]  # fmt: skip
    assert imbalance_steps(made, 1, ["r"]).equals(steps) and not len(imbalance_steps(made, 1, ["other"]))


def test_the_largest_layer_has_its_name_and_the_largest_stage_its_number() -> None:
    """Numbered layers 3 and 7 on stage 2, layer 9 on stage 5, with the longest time of all."""
    layers = [
        {"step": step, "rank": stage, "stage": stage, "layer": layer, "direction": "forward", "time_s": time}
        for step in range(3)
        for stage, layer, time in ((2, "3", 1.0), (2, "7", 2.0), (5, "9", 4.0))
    ]
    found = {r["over"]: r for r in rows(imbalance(by_hand("layers", layers), warmup=0))}
    assert {over: (r["largest"], r["members"], r["mean"], r["max"]) for over, r in found.items()} == {
        "stage": (5, 2, 3.5, 4.0), "layer": ("9", 3, pytest.approx(7 / 3), 4.0),
    }  # fmt: skip


def test_experts() -> None:
    found = row(imbalance(by_hand("loads", experts([[4, 2, 2, 0]] * 5 + [[1, 1, 1, 1]]), world=2)))
    assert (found["over"], found["members"], found["n"], found["largest"]) == ("expert", 4, 6, 0)
    assert (found["imbalance"], found["dead"], found["max_share"]) == (1.0, 1.0, 0.5)  # MaxVio: 4 / 2 - 1
    assert found["entropy"] == pytest.approx(1.5 * math.log(2) / math.log(4))
    assert (found["largest_share"], found["max_over_min"]) == (5 / 6, 1.0)  # the one step whose least is not 0


def test_experts_of_several_ranks_add_up() -> None:
    values = experts([[1, 3]], rank=0) + experts([[3, 1]], rank=1)
    assert row(imbalance(by_hand("loads", values, world=2)))["imbalance"] == 0.0


def test_loads_of_a_layer_are_named_by_it() -> None:
    values = [each | {"layer": layer} for layer in ("3", None) for each in experts([[1, 3]])]
    assert {row["name"] for row in rows(imbalance(by_hand("loads", values, world=2)))} == {"token in layer 3", "token"}
    assert [load_name("token", "3"), load_name(None, "3"), load_name("token", None)] == [
        "token in layer 3", "load in layer 3", "token"
    ]  # fmt: skip


def test_loads_without_rank_have_imbalance_if_all_are_there() -> None:
    values = [{"step": s, "unit": "token", "amount": float(a)} for s in range(3) for a in (1, 2, 3)]
    found = row(imbalance(by_hand("loads", values, world=3)))
    assert (found["imbalance"], found["largest"], found["n"]) == (0.5, None, 3)
    assert not len(imbalance(by_hand("loads", values, world=4)))
    assert not len(imbalance(by_hand("loads", values)))


def test_a_step_without_one_of_the_ranks_does_not_count() -> None:
    values = [{"step": s, "rank": r, "unit": "token", "amount": 1.0 + r} for s in range(4) for r in range(2)]
    found = row(imbalance(by_hand("loads", values[:-1], world=2)))
    assert (found["n"], found["last_step"], found["largest"]) == (3, 2, 1)


def test_no_work_and_equal_work_have_no_largest() -> None:
    values = [{"step": s, "rank": r, "unit": "token", "amount": float(s)} for s in range(2) for r in range(2)]
    found = row(imbalance(by_hand("loads", values, world=2)))
    assert (found["n"], found["imbalance"], found["largest"]) == (1, 0.0, None)  # step 0 has nothing to divide
