"""Causes between the ranks and stages of a job, from tables of metrics that are made by hand."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from support.metric_tables import replace_table
from support.metrics_logs import by_hand

from perflog.metrics import Options, Tables
from perflog.metrics.causes import job_causes as module
from perflog.metrics.causes.cause import Cause
from perflog.metrics.what_if.step_replay import OPERATIONS

TABLES: Any = None  # each table that a source needs is replaced


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    return partial(replace_table, monkeypatch, module)


def found(source: Any) -> list[Cause]:
    return list(source(TABLES, Options()))


def test_ranks_that_hold_up_others(table: Any) -> None:
    row = {"holds_up": True, "rank": 3, "lacks": "all_reduce", "behind": 2}
    table("stuck_ranks", row, row | {"holds_up": False}, row | {"holds_up": None}, **row | {"lacks": None, "rank": 0})
    first, second = found(module.stuck)
    assert (first.run, first.subject, first.rank, first.name, first.n) == ("r", "stuck rank", 3, "all_reduce", 2)
    assert (second.run, second.rank, second.name, second.may_bind) == ("other", 0, None, True)


def replayed(of: str, longer: float | None = 1.5, mended: float | None = 0.25, **more: Any) -> dict[str, Any]:
    usual = {"of": of, "kind": None, "rank": 1, "dp_rank": 2, "stage": 3, "longer": longer, "mended": mended}
    return usual | {"replayed_s": math.nan, "ideal_s": math.nan, "slowdown": 1.1, "rests_on": OPERATIONS} | more


JOB = replayed("job", None, None, replayed_s=10.0, ideal_s=8.0)


@pytest.mark.parametrize(
    ("rows", "binding"),
    [
        ([replayed("worker")], []),  # one replica and one stage: it has no peers
        ([replayed("worker"), replayed("stage")], []),
        ([replayed("worker"), replayed("stage"), replayed("stage", 1.0)], ["worker", "stage"]),
        ([replayed("worker", 1.03), replayed("dp_rank", 1.02), replayed("dp_rank")], ["worker", "replica"]),
        ([replayed("worker", None), replayed("dp_rank", None), replayed("dp_rank", None)], []),
        ([replayed("slowest workers"), replayed("dp_rank", 1.0), replayed("dp_rank", 1.0)], []),
        ([replayed("kind", kind="send"), replayed("dp_rank", 1.0), replayed("dp_rank", 1.0)], []),
    ],
)
def test_what_may_bind_a_replayed_job(table: Any, rows: list[dict[str, Any]], binding: list[str]) -> None:
    """What takes 3 % longer than its peers, of which there are several."""
    other = JOB | {"slowdown": math.nan}
    table("whatif", JOB, *rows, replayed("worker", 9.0, None), replayed("worker", 9.0, rests_on="layers"), **other)
    causes = found(module.stragglers_by_replay)
    assert [each.subject for each in causes if each.may_bind] == binding
    assert len(causes) == len(rows)
    for each in causes:
        assert (each.whole_s, each.gain_s, each.run) == (10.0, (10.0 - 8.0) * 0.25, "r")
        assert (each.rank, each.dp_rank, each.stage) == (1, 2, 3)
        assert (each.name == "send") == (each.subject == "operations")


def rank_row(rank: str | None = "3", worse: bool = True, unit: str = "s", figure: str = "busy") -> Any:
    out = SimpleNamespace(far=SimpleNamespace(ratio=1.5), value=2.0)
    return SimpleNamespace(
        run="r", of="values", rank=rank, is_worse=worse, out=out, figure=figure, unit=unit, rows=30
    )  # fmt: skip


def test_ranks_that_are_worse_than_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [rank_row(), rank_row("gpu0", unit="B"), rank_row(worse=False), rank_row(None), rank_row()]
    rows[4].out = None
    rows += [rank_row(figure="wait"), rank_row(figure="barrier_time")]  # they wait for a slow one
    monkeypatch.setattr(module, "rank_rows", lambda _: rows)
    first, second = module.slow_ranks(Tables(by_hand("steps", [])), Options())
    assert (first.rank, first.name, first.ratio, first.n, first.each_s, first.may_bind) == (
        3,
        "busy",
        1.5,
        30,
        2.0,
        False,
    )
    assert (second.rank, second.name, second.each_s) == (None, "busy of gpu0", None)


def test_ranks_that_reports_name(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"run": "r", "rank": 2, "figure": "forward", "times": 7, "value": 1.5, "unit": "s", "is_slow": True}
    rows = [SimpleNamespace(**row | more) for more in ({}, {"is_slow": False}, {"unit": "B", "rank": 0})]
    monkeypatch.setattr(module, "named_rank_rows", lambda _: rows)
    first, second = found(module.slowest_ranks)
    assert (first.rank, first.name, first.n, first.each_s, first.may_bind) == (2, "forward", 7, 1.5, False)
    assert (second.rank, second.each_s) == (0, None)


def stage(number: int | None, time_s: float | None, direction: str = "forward") -> dict[str, Any]:
    return {"stage": number, "time_s": time_s, "direction": direction}


@pytest.mark.parametrize(
    ("rows", "longest"),
    [
        ([stage(0, 1.0), stage(1, 1.2), stage(2, 1.1)], (1, "forward", 1.2 / 1.1)),
        ([stage(0, 1.0), stage(1, 1.07)], (1, "forward", 1.07 / 1.035)),
        ([stage(0, 1.0), stage(1, 1.06)], None),
        ([stage(0, 1.0)], None),
        ([stage(0, 1.0), stage(1, 3.0, "backward")], None),  # the only one of its direction
        ([stage(0, 1.0), stage(1, 2.0, "backward"), stage(2, 3.0, "backward")], (2, "backward", 1.2)),
        ([stage(0, 1.0), stage(1, 1.0), stage(None, 9.0), stage(3, None)], None),
    ],
)
def test_the_longest_stage(
    table: Any, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]], longest: tuple[Any, ...] | None
) -> None:
    gains = [SimpleNamespace(run="r", time_s=5.0, gain_s=0.5, model="equal")]
    monkeypatch.setattr(module, "equal_stages", lambda *_: gains)
    table("stages", *rows, **stage(0, 1.0))
    causes = found(module.longest_stages)
    assert len(causes) == (longest is not None)
    for each in causes:
        assert longest is not None and (each.stage, each.name, each.ratio) == (*longest[:2], pytest.approx(longest[2]))
        assert (each.whole_s, each.gain_s, each.model) == (5.0, 0.5, "equal")
    gains.clear()
    for each in found(module.longest_stages):
        assert (each.whole_s, each.gain_s) == (None, None) and "mean of the stages" in each.model
