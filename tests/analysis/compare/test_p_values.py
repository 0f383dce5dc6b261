"""Every p of a comparison, recomputed from the step times: by integrals, over all deals of the runs, Holm by hand."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from support.json_logs import json_log
from support.megatron_logs import megatron_log

import perflog
from perflog.arrays import Floats

STEPS = 120
_T = np.sinh(np.linspace(-16, 16, 40_001))  # far and fine enough for one degree of freedom


def by_integral(t: float, freedom: float) -> float:
    """Two-sided p of Student's t: the share of its density beyond |t|."""
    t = abs(t)
    z = np.concatenate([[t], _T[t < _T]])
    density = (1 + z * z / freedom) ** (-(freedom + 1) / 2)
    log_front = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
    return 2 * math.exp(log_front) * float(np.trapezoid(density, z))


def welch(base: Floats, side: Floats) -> float:
    """Welch's p; with two or three runs on both sides, freedom is the mean of Welch's and Student's."""
    of_means = [float(x.var(ddof=1)) / len(x) for x in (base, side)]
    error = math.sqrt(sum(of_means))
    freedom = sum(of_means) ** 2 / sum(v**2 / (len(x) - 1) for v, x in zip(of_means, (base, side), strict=True))
    if len(base) <= 3:
        freedom = (freedom + len(base) + len(side) - 2) / 2
    return by_integral(float(side.mean() - base.mean()) / error, freedom)


def over_all_deals(values: Floats, base: int) -> float:
    """Two-sided p: twice the smaller share of the deals in which the base has at most, or at least, this sum.

    The first `base` values are those of the base.
    """
    sums = np.array([values[list(deal)].sum() for deal in combinations(range(len(values)), base)])
    own = values[:base].sum()
    return min(1.0, 2 * float(min((sums <= own + 1e-12).mean(), (sums >= own - 1e-12).mean())))


def ranks(values: Floats) -> Floats:
    return np.array([float((values < v).sum() + ((values == v).sum() + 1) / 2) for v in values])


def holm(p: list[float]) -> list[float]:
    order = np.argsort(p)
    raised = np.maximum.accumulate([(len(p) - k) * p[i] for k, i in enumerate(order)])
    return [float(min(1, raised[list(order).index(i)])) for i in range(len(p))]


def runs(seed: int, count: int, level: float) -> list[list[float]]:
    """Step times of runs whose levels differ by 1 %; from the fifth on they lie 20 % above the others."""
    rng = np.random.default_rng(seed)
    levels = level * np.exp(rng.normal(0, 0.01, count)) * np.where(np.arange(count) < 4, 1, 1.2)
    return [[round(t, 6) for t in rng.normal(of_run, level / 100, STEPS)] for of_run in levels]


@pytest.mark.parametrize(("counts", "level"), [((2, 2), 0.22), ((3, 3), 0.204), ((4, 4), 0.21), ((5, 5), 0.206),
                                               ((4, 6), 0.2)])  # fmt: skip
def test_every_p_from_the_step_times(tmp_path: Path, counts: tuple[int, int], level: float) -> None:
    sides = {"a": runs(1, counts[0], 0.2), "b": runs(2, counts[1], level)}
    named = [f"{name}={json_log(tmp_path / f'{name}{k}.json', times)}"
             for name, of_side in sides.items() for k, times in enumerate(of_side)]  # fmt: skip
    compared = perflog.compare(*named, warmup=10)
    steady = {"median": np.median, "mean": np.mean, "p99": lambda x: np.quantile(x, 0.99)}
    # The first step has no time, since it starts the clock.
    figures = {name: lambda x, of=of: of(x[11:]) for name, of in steady.items()} | {"total": lambda x: x[1:].sum()}
    rows = {row.statistic: row for row in compared.row_records if row.metric == "step_time"}
    assert rows.keys() == figures.keys()
    for statistic, figure in figures.items():
        logs = [np.log([figure(np.array(times)) for times in of_side]) for of_side in sides.values()]
        row = rows[statistic]
        assert row.change == pytest.approx(math.expm1(logs[1].mean() - logs[0].mean()), rel=1e-4)
        assert row.p == pytest.approx(welch(*logs), rel=2e-3)
        if min(counts) < 4:
            assert math.isnan(row.p_rank) and row.p_both == row.p
            continue
        assert row.p_rank == pytest.approx(over_all_deals(ranks(np.concatenate(logs)), counts[0]))
        assert min(row.p, row.p_rank) <= row.p_both <= row.p + row.p_rank
    adjusted = holm([rows[name].p_both for name in ("median", "p99", "total")])
    assert [rows[name].p_holm for name in ("median", "p99", "total")] == pytest.approx(adjusted)
    assert rows["mean"].p_holm == rows["mean"].p_both
    for row in rows.values():
        surely = row.p_holm < 0.05 and abs(math.log1p(row.change)) >= math.log(1.01)
        assert (row.verdict == "regression") == (surely and row.change > 0)
        assert row.fails == (row.verdict == "regression" and row.p_holm < 0.01)


def test_both_tests_together_agree_with_all_deals_of_normal_runs(tmp_path: Path) -> None:
    """Where no run lies far away, `p_both` is about the p of the mean over all deals, and a little above it."""
    for seed, level in ((3, 0.2), (4, 0.203), (5, 0.205)):
        sides = [runs(seed, 4, 0.2), runs(seed + 10, 4, level)]
        named = [f"{'ab'[k]}={json_log(tmp_path / f'{seed}{k}{i}.json', times)}"
                 for k, of_side in enumerate(sides) for i, times in enumerate(of_side)]  # fmt: skip
        (row,) = (row for row in perflog.compare(*named, warmup=0).headlines if row.statistic == "mean")
        logs = [np.log([np.mean(times[1:]) for times in of_side]) for of_side in sides]
        p = over_all_deals(np.concatenate(logs), 4)
        assert p - 0.06 <= row.p_both <= p + 0.12


def test_a_leading_rate_is_adjusted_for_its_cases(tmp_path: Path) -> None:
    """Two models, each with twice the batch on one side: tokens/s leads, and its p counts both models."""
    for name, batch in (("a", 32), ("b", 64)):
        for layers, level in ((12, 300), (24, 500)):
            for k in range(2):
                times = np.random.default_rng([batch, layers, k]).normal(level * (1 + 0.01 * k) * batch / 40, 1, 30)
                text = megatron_log({"global_batch_size": batch, "num_layers": layers, "seed": k}, times.tolist())
                (tmp_path / f"{name}-{layers}-{k}.log").write_text(text, encoding="utf-8")
    compared = perflog.compare(f"a={tmp_path}/a-*.log", f"b={tmp_path}/b-*.log")
    rows = compared.headlines
    assert [(row.case, row.metric) for row in rows] == [
        ("num_layers=12", "tokens_per_s"), ("num_layers=24", "tokens_per_s")
    ]  # fmt: skip
    assert [row.p_holm for row in rows] == pytest.approx(holm([row.p for row in rows]))
    assert rows[0].p_holm > rows[0].p
