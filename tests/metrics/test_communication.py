"""Communication: times against remote shares, computed another way, and how far a fit is to be believed."""

from __future__ import annotations

from statistics import mean, median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.metrics_logs import BOTH, by_hand, printed, row, rows, runs, tables
from support.seeds import MS

from perflog.metrics import communication
from perflog.metrics.step_time.communication import spearman

SHARES = [  # remote / all blocks of each rank
    (16 / 228, 33 / 248, 83 / 312, 37 / 256),
    (77 / 288, 58 / 264, 60 / 268, 41 / 244),
    (67 / 287, 9 / 215, 27 / 235, 76 / 299),
    (133 / 320, 53 / 220, 106 / 284, 46 / 208),
]
LOADS = [(228, 248, 312, 256), (288, 264, 268, 244), (287, 215, 235, 299), (320, 220, 284, 208)]


@pytest.mark.parametrize("where", BOTH)
def test_remote_shares_of_the_benchmark(where: str) -> None:
    found = communication(tables("moe_layer", where))
    for run, shares in zip(runs("moe_layer", where), SHARES, strict=True):
        for phase in ("gather_gemm", "gemm_scatter"):
            for k in (1, 2):
                mine = [row(found, run=run, part="phase", phase=phase, occurrence=k, rank=r) for r in range(4)]
                assert [r["remote_share"] for r in mine] == pytest.approx(list(shares), abs=6e-7)
                assert {r["kind"] for r in mine} == {"mixed"}


@pytest.mark.parametrize("where", BOTH)
def test_fits_of_the_benchmark(where: str) -> None:
    """Within a run, the rank with the larger remote share has more blocks too: the log cannot tell which it is."""
    found = communication(tables("moe_layer", where))
    for run, loads, shares in zip(runs("moe_layer", where), LOADS, SHARES, strict=True):
        fit = row(found, run=run, part="fit", phase="gather_gemm", occurrence=1)
        mine = [
            row(found, run=run, part="phase", phase="gather_gemm", occurrence=1, rank=r)["time_s"] for r in range(4)
        ]
        slope, base = np.polyfit(shares, mine, 1)
        assert (fit["slope_s"], fit["base_s"]) == pytest.approx((slope, base), rel=1e-3)
        assert (fit["n"], fit["slope_at_load_s"]) == (4, None)
        assert np.argsort(loads).tolist() == np.argsort(shares).tolist()
        assert (fit["rho_both"], fit["rho"]) == pytest.approx((1.0, fit["rho_load"]))


@pytest.mark.parametrize("where", BOTH)
def test_fits_over_the_runs_of_the_benchmark(where: str) -> None:
    found = communication(tables("moe_layer", where))
    fit = row(found, run=None, phase="gemm_scatter", occurrence=1)
    points = [r for r in rows(found, part="phase", phase="gemm_scatter", occurrence=1) if r["rank"] is not None]
    shares, times = [r["remote_share"] for r in points], [r["time_s"] for r in points]
    assert fit["n"] == len(points) == 16
    assert fit["slope_s"] == pytest.approx(np.polyfit(shares, times, 1)[0])
    load = np.ravel(LOADS)
    left = [np.polyval(np.polyfit(load, of, 1), load) - of for of in (shares, times)]  # Frisch and Waugh
    assert fit["slope_at_load_s"] == pytest.approx(np.dot(*left) / np.dot(left[0], left[0]))
    assert 0 < fit["slope_at_load_s"] < fit["slope_s"]


def test_all_columns_of_four_ranks() -> None:
    """Times of 10 s times the remote share of each rank, also printed with loads that order ranks almost alike."""
    points = ((1.0, 0.1), (2.0, 0.2), (4.0, 0.4), (3.0, 0.3))
    values = [
        {"phase": "gather_gemm", "step": step, "rank": rank, "occurrence": 1, "time_s": time, "remote_share": share}
        for step in (1, 2, 3)
        for rank, (time, share) in enumerate(points)
    ]
    loads = [{"table": "loads", "step": step, "rank": rank, "unit": "block", "amount": amount}
             for step in (1, 2, 3) for rank, amount in enumerate((10.0, 20.0, 25.0, 40.0))]  # fmt: skip
    steps = [{"table": "steps", "step": step, "step_time_s": 10.0} for step in (1, 2, 3)]
    made = by_hand("phases", [*values, *loads, *steps], world=4)
    made["runs"]["format"] = "moe_layer"
    found = communication(made, warmup=1)
    fit = dict.fromkeys(("slope_s", "base_s", "rho", "rho_load", "rho_both", "slope_at_load_s"))
    same = {"run": "r", "label": None, "phase": "gather_gemm", "occurrence": 1, "kind": "mixed"}
    assert rows(found) == [
        *(
            same | fit | {"part": "phase", "rank": rank, "hidden": False, "time_s": time, "remote_share": share,
                          "share": time / 10, "n": 2, "first_step": 2, "last_step": 3}
            for rank, (time, share) in ((None, (2.5, 0.25)), *enumerate(points))
        ),
        same | dict.fromkeys(("rank", "hidden", "time_s", "remote_share", "share", "first_step", "last_step")) | {
            "part": "fit", "n": 4, "slope_s": pytest.approx(10), "base_s": pytest.approx(0, abs=1e-9), "rho": 1,
            "rho_load": pytest.approx(0.8), "rho_both": pytest.approx(0.8), "slope_at_load_s": None,
        },
    ]  # fmt: skip
    assert (found["first_step"].dtype, found["last_step"].dtype) == ("Int64", "Int64")  # 2, not 2.0


def test_times_are_those_of_the_text() -> None:
    """Rank 2 of the first run is the one whose kernels print 0.266026; its first is forward, its second backward."""
    found = communication(tables("moe_layer", "seed"))
    run, steps = runs("moe_layer", "seed")[0], printed()[0][1:]
    for k in (1, 2):
        want = median([t for share, t in s.gather if share == "0.266026"][k - 1] for s in steps) * MS
        mine = row(found, run=run, part="phase", phase="gather_gemm", occurrence=k, rank=2)
        assert mine["time_s"] == pytest.approx(want)
    for rank in range(4):
        want = median(s.process[rank][2] for s in steps) * MS
        assert row(found, run=run, part="total", rank=rank)["time_s"] == pytest.approx(want)
    over = row(found, run=run, part="total", rank=None)
    assert over["time_s"] == pytest.approx(median(mean(p[2] for p in s.process.values()) for s in steps) * MS)
    assert (over["hidden"], over["share"], over["n"]) == (True, None, 99)


def gathers(shares: list[float], steps: int = 6) -> list[dict[str, Any]]:
    return [
        {"step": s, "rank": r, "phase": "gather", "occurrence": 1, "time_s": 1.0 + 2.0 * x, "remote_share": x}
        for s in range(steps)
        for r, x in enumerate(shares)
    ]


def test_a_phase_with_a_remote_share_needs_no_declaration() -> None:
    found = communication(by_hand("phases", gathers([0.0, 0.5, 0.25])))
    fit = row(found, part="fit")
    assert (fit["slope_s"], fit["base_s"], fit["rho"]) == pytest.approx((2.0, 1.0, 1.0))
    assert (fit["kind"], fit["rho_load"], fit["n"]) == (None, None, 3)
    assert rows(found, part="total") == []


@pytest.mark.parametrize("shares", [[0.1, 0.2], [0.1, 0.1, 0.1, 0.1]], ids=["two points", "one share"])
def test_a_fit_that_says_nothing_is_null(shares: list[float]) -> None:
    fit = row(communication(by_hand("phases", gathers(shares))), part="fit")
    assert (fit["slope_s"], fit["rho"], fit["n"]) == (None, None, len(shares))


def test_logs_without_communication_have_none() -> None:
    assert not len(communication(tables("moe_layer"), warmup=100))
    for name in ("training_sweep", "pipeline_layers", "moe_layer_early"):
        assert not len(communication(tables(name)))
    plain = [{"step": s, "rank": 0, "phase": "work", "occurrence": 1, "time_s": 1.0} for s in range(4)]
    assert not len(communication(by_hand("phases", plain)))


@given(st.lists(st.integers(0, 10**6), min_size=3, max_size=9, unique=True), st.randoms())
def test_rank_correlation_without_ties_is_that_of_spearman(x: list[int], random: Any) -> None:
    y = random.sample(x, len(x))
    n, places = len(x), [sorted(x).index(a) - sorted(y).index(b) for a, b in zip(x, y, strict=True)]
    want = 1 - 6 * sum(d * d for d in places) / (n * (n * n - 1))
    assert spearman(np.array(x, float), np.array(y, float)) == pytest.approx(want)
