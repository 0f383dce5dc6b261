"""The metrics of phases are computed for all runs at once: each run has the same rows, to the last digit, as alone."""

from __future__ import annotations

from functools import cache

import pytest
from support.metrics_logs import by_hand, rows, runs, tables

import perflog
from perflog.metrics import METRICS, Options, Tables
from perflog.metrics.step_time.phases import rows_with_wholes


@cache
def together() -> Tables:
    """The runs of the benchmark, between them one that names no ranks, and one with a rank missing in a step."""
    import pandas as pd

    anonymous = [{"table": "steps", "step": step, "step_time_s": 1.0 + step / 7, "line": 9 * step} for step in range(4)]
    phase = {"phase": "b", "occurrence": 1, "time_s": 0.1}
    anonymous += [phase | {"step": step, "time_s": time} for step in range(4) for time in (0.1, 0.1 + step / 9)]
    torn = [phase | {"step": step, "rank": rank} for step, rank in ((2, 0), (2, 1), (3, 0))]
    hand_made = [by_hand("phases", anonymous, world=2), by_hand("phases", torn, world=2)]
    parts = [
        tables("moe_layer"),
        *(({n: t.assign(run=f"r{i}") for n, t in h.items()}) for i, h in enumerate(hand_made)),
    ]
    names = ("runs", "steps", "phases", "loads")
    whole = {name: pd.concat([part[name] for part in parts if name in part], ignore_index=True) for name in names}
    return Tables({name: table.sort_values("run", kind="stable") for name, table in whole.items()})


@pytest.mark.parametrize("metric", ["phases", "wait", "communication", "imbalance"])
def test_a_run_among_others_has_the_rows_that_it_has_alone(metric: str) -> None:
    every = rows(METRICS[metric].table(together(), Options(warmup=1)))
    assert every
    for run in (*runs("moe_layer")[:1], "r0", "r1"):
        alone = rows(METRICS[metric].table(together().only([run]), Options(warmup=1)))
        assert alone == [row for row in every if row["run"] == run]


def test_the_runs_are_of_several_kinds() -> None:
    methods = {row["rest_by"] for row in rows(METRICS["phases"].table(together(), Options()), part="rest")}
    assert methods == {"record", "rank", "mean", "bounds"}


METRICS_OF_PHASES = ("phases", "wait", "communication", "imbalance", "breakdown", "waterfall", "matmul_efficiency")


@pytest.mark.parametrize("metric", METRICS_OF_PHASES)
def test_runs_in_pieces_have_the_rows_that_they_have_together(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With many rows, only some runs are in memory at a time."""
    every = rows(METRICS[metric].table(together(), Options(warmup=1)))
    monkeypatch.setattr("perflog.metrics.run_tables._AT_ONCE", 1)
    in_pieces = Tables({name: together()[name] for name in together()})
    assert len(list(in_pieces.in_pieces("phases", "steps"))) > 2
    assert rows(METRICS[metric].table(in_pieces, Options(warmup=1))) == every


def test_metrics_share_the_phases_of_runs_among_runs_without_any() -> None:
    log = Tables(perflog.reference())  # some of its runs are profiles
    first, again = (list(rows_with_wholes(log, None)) for _ in range(2))
    assert first and all(one is other for one, other in zip(first, again, strict=True))
