"""Who holds up the others of a job that goes on: which values accuse a rank, an expert or a stage."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from support.metrics_logs import by_hand

from perflog.analysis import slow_members as module
from perflog.analysis.culprits import Culprit
from perflog.analysis.slow_members import slow_members
from perflog.metrics import Options, Tables
from perflog.metrics.causes.cause import Cause
from perflog.metrics.power.unlike_devices import UnlikeDevice
from perflog.metrics.skew.named_ranks import NamedRank
from perflog.metrics.skew.ranks import RankRow, _Out
from perflog.metrics.what_if.step_replay import OPERATIONS
from perflog.statistics.standing_out import StandingOut


def rank_row(
    rank: str, figure: str, ratio: float, of: str = "steps", unit: str = "s", rows: int = 30, **more: float
) -> RankRow:
    """A rank of 8 whose value is so many times that of the others, 1. `more`: number of ranks, p, persistence."""
    p, persistence = more.get("p", 1e-9), more.get("persistence", 1.0)
    out = _Out(ratio, 1.0, StandingOut(int(rank) if rank.isdigit() else 0, ratio, 9.0, p, persistence))
    return RankRow("r", of, figure, unit, int(more.get("ranks", 8)), rows, 1.0, 1.0, "0", ratio, rank, rank, out)


def named(rank: int, figure: str | None, ratio: float = 1.5, unit: str = "s", **more: Any) -> NamedRank:
    usual = {
        "run": "r", "figure": figure, "unit": unit, "end": "highest", "worse": True, "rank": rank, "times": 29,
        "reports": 30, "p": 1e-9, "value": 1.5, "ratio": ratio, "ranks": 8, "first_line": 1, "last_line": 9,
    }  # fmt: skip
    return NamedRank(**(usual | more))


def accused(
    monkeypatch: pytest.MonkeyPatch, *rows: RankRow, reports: Sequence[NamedRank] = (), **tables: Any
) -> list[Culprit]:
    monkeypatch.setattr(module, "rank_rows", lambda _: list(rows))
    monkeypatch.setattr(module, "named_rank_rows", lambda _: list(reports))
    frames = by_hand("steps", tables.get("rows", []))
    return slow_members(Tables(frames), Options())


def shown(culprits: Sequence[Culprit]) -> list[tuple[int | None, str, str]]:
    return [(each.rank, each.kind, each.certainty) for each in culprits]


SLOW = (3, "slow_rank", "sure")


@pytest.mark.parametrize(
    ("row", "is_accused"),
    [
        (rank_row("3", "step_time_s", 1.5), True),
        (rank_row("3", "step_time_s", 0.5), False),
        (rank_row("3", "loss", 1.5, unit=""), False),
        (rank_row("3", "tokens_per_s", 0.5, unit="1/s"), True),
        (rank_row("3", "tokens_per_s", 1.5, unit="1/s"), False),
        (rank_row("3", "forward", 1.5, "phases"), True),
        (rank_row("3", "forward", 0.5, "phases"), False),
        (rank_row("3", "wait", 1.5, "phases"), False),  # it waits for others
        (rank_row("3", "all_reduce", 1.5, "phases"), False),
        (rank_row("3", "busy", 1.5, "values"), True),
        (rank_row("3", "tflops", 0.5, "values", "TFLOP/s"), True),
        (rank_row("3", "sync", 1.5, "values"), False),
        (rank_row("3", "memory", 1.5, "values", "B"), False),
        (rank_row("3", "tokens", 1.5, "loads", ""), False),
        (rank_row("3", "step_time_s", 1.5, rows=5), True),
        (rank_row("3", "step_time_s", 1.5, rows=4), False),  # it may be chance
        (rank_row("3", "step_time_s", 1.5, persistence=0.8), True),
        (rank_row("3", "step_time_s", 1.5, persistence=0.79), False),
        (rank_row("3", "step_time_s", 1.5, ranks=3), True),
        (rank_row("3", "step_time_s", 1.5, ranks=2), False),  # of two, either may be the odd one
    ],
)
def test_a_rank_that_does_its_work_slowly(monkeypatch: pytest.MonkeyPatch, row: RankRow, is_accused: bool) -> None:
    assert [each.rank for each in accused(monkeypatch, row)] == [3] * is_accused


def test_a_slow_process_without_a_rank_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [(each.rank, each.name) for each in accused(monkeypatch, rank_row("worker_3", "step_time_s", 1.5))] == [
        (None, "worker_3")
    ]


@pytest.mark.parametrize(
    ("rows", "certainty"),
    [
        ([rank_row("3", "step_time_s", 1.5, rows=20, p=9e-7)], "sure"),
        ([rank_row("3", "step_time_s", 1.5, rows=19)], "likely"),
        ([rank_row("3", "step_time_s", 1.5, rows=20, p=1e-6)], "likely"),
        ([rank_row("3", "step_time_s", 1.5, p=1e-3), rank_row("3", "busy", 1.5, "values", p=1e-3)], "sure"),
        ([rank_row("3", "busy", 1.5, "values", p=1e-3)] * 2, "likely"),  # one value
    ],
)
def test_how_sure_it_is(monkeypatch: pytest.MonkeyPatch, rows: list[RankRow], certainty: str) -> None:
    (culprit,) = accused(monkeypatch, *rows)
    assert (culprit.kind, culprit.certainty) == ("slow_rank", certainty)


def test_many_slow_ranks_are_two_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = [rank_row(str(rank), "step_time_s", 1.5) for rank in range(3)]
    assert len(accused(monkeypatch, *slow[:2])) == 2 and accused(monkeypatch, *slow) == []
    few = [rank_row(str(rank), "step_time_s", 1.5, ranks=4) for rank in range(2)]
    assert len(accused(monkeypatch, few[0])) == 1 and accused(monkeypatch, *few) == []


def test_values_that_are_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them accuse a rank, one does not."""
    time, rate = rank_row("3", "time", 1.5, "values", rows=1), rank_row("3", "busbw", 0.5, "values", "GB/s", rows=1)
    assert shown(accused(monkeypatch, time, rate)) == [(3, "slow_rank", "likely")]
    assert accused(monkeypatch, time) == []
    for other in (rank_row("3", "x", 1.5, "values", "B", 1), rank_row("3", "x", 0.5, "values", "B", 1),
                  rank_row("3", "x", 1.5, "phases", rows=1),
                  rank_row("3", "x", 1.5, "values", "GB/s", 1), rank_row("3", "x", 0.5, "values", rows=1)):  # fmt: skip
        assert accused(monkeypatch, time, other) == []


@pytest.mark.parametrize(
    ("figure", "ratio", "unit", "throttles"),
    [
        ("sm_clock", 0.8, "Hz", True),
        ("sm_clock", 1.2, "Hz", False),
        ("gpu_temp", 1.2, "°C", True),
        ("gpu_temp", 0.8, "°C", False),
        ("power", 0.8, "W", False),
    ],
)
def test_a_hot_gpu(monkeypatch: pytest.MonkeyPatch, figure: str, ratio: float, unit: str, throttles: bool) -> None:
    slow, heat = rank_row("3", "step_time_s", 1.5), rank_row("3", figure, ratio, "values", unit)
    (culprit,) = accused(monkeypatch, slow, heat)
    assert culprit.kind == ("throttling" if throttles else "slow_rank") and len(culprit.evidence) == 1 + throttles
    assert culprit.cost == "500 ms of each step_time"
    assert culprit.evidence[0] == "step_time 1.5 s, the others 1 s (1.5 times, in 100 % of 30 rows, p < 1e-09)"


@pytest.mark.parametrize(
    ("report", "culprits"),
    [
        (named(3, "forward"), [SLOW]),
        (named(3, None, 1.0, ""), [SLOW]),
        (named(3, "forward", reports=19, times=19), [(3, "slow_rank", "likely")]),
        (named(3, "forward", p=1e-5), [(3, "slow_rank", "likely")]),
        (named(3, "forward", reports=4, times=4), []),
        (named(3, "forward", times=24), [SLOW]),
        (named(3, "forward", times=23), []),
        (named(3, "forward", ranks=2), []),
        (named(1, "forward", ranks=3), [(1, "slow_rank", "sure")]),
        (named(3, "forward", worse=False), []),
        (named(3, "memory", unit="B"), []),
    ],
)
def test_ranks_that_reports_name(
    monkeypatch: pytest.MonkeyPatch, report: NamedRank, culprits: list[tuple[int, str, str]]
) -> None:
    assert shown(accused(monkeypatch, reports=[report])) == culprits
    assert shown(accused(monkeypatch, rank_row("5", "step_time_s", 1.5), reports=[report])) == [(5, *SLOW[1:])]


def test_words_of_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = named(3, "clock", 1.05, "Hz", end="lowest", value=1e9)
    (hot,) = accused(monkeypatch, reports=[named(3, "forward"), clock])
    assert hot.kind == "throttling" and hot.evidence == (
        "highest forward in 29 of 30 reports of the log, 1.5 s (highest / lowest 1.5)",
        "lowest clock in 29 of 30 reports of the log, 1 GHz (highest / lowest 1.05)",
    )
    for colder in (named(3, "clock", 1.04, "Hz"), named(4, "clock", 1.5, "Hz")):
        assert [each.kind for each in accused(monkeypatch, reports=[named(3, "forward"), colder])] == ["slow_rank"]
    (called,) = accused(monkeypatch, reports=[named(3, None)])
    assert called.evidence == ("called a straggler in 29 of 30 reports of the log",)
    many = [named(rank, "forward") for rank in range(3)]
    assert accused(monkeypatch, reports=many) == [] and len(accused(monkeypatch, reports=many[:2])) == 2
    assert accused(monkeypatch, reports=[named(rank, "forward", ranks=4) for rank in range(2)]) == []


def loads(ratio: float, steps: int, hot: int = 9) -> list[dict[str, Any]]:
    """Loads of four experts: expert 2 has `ratio` times the mean in the first `hot` steps."""
    rest = (4 - ratio) / 3
    return [
        {"table": "loads", "step": step, "layer": "7", "expert": expert, "unit": "tokens",
         "amount": 100 * (ratio if expert == (2 if step < hot else 1) else rest)}
        for step in range(steps) for expert in range(4)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "is_hot"),
    [
        (loads(2.0, 8), True),
        (loads(1.9, 8), False),
        (loads(2.5, 5), True),
        (loads(2.5, 4), False),
        (loads(2.5, 10, 8), True),
        (loads(2.5, 10, 7), False),
    ],
)
def test_an_expert_with_far_more_work(
    monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]], is_hot: bool
) -> None:
    found = accused(monkeypatch, rows=rows)
    assert [(each.expert, each.kind, each.certainty) for each in found] == [(2, "hot_expert", "likely")] * is_hot
    if is_hot:
        assert "times the mean load, the largest in " in found[0].evidence[0]


def layers(slow: float, steps: int = 6) -> list[dict[str, Any]]:
    return [
        {"table": "layers", "step": step, "rank": stage, "stage": stage, "layer": str(stage), "direction": "forward",
         "time_s": slow if stage == 2 else 1.0}
        for step in range(steps) for stage in range(4)
    ]  # fmt: skip


@pytest.mark.parametrize(("slow", "steps", "is_slow"), [(1.5, 6, True), (1.1, 6, False), (1.5, 4, False)])
def test_a_stage_that_takes_longer(monkeypatch: pytest.MonkeyPatch, slow: float, steps: int, is_slow: bool) -> None:
    found = accused(monkeypatch, rows=layers(slow, steps))
    assert [(each.stage, each.kind, each.certainty) for each in found] == [(2, "slow_stage", "likely")] * is_slow


@pytest.mark.parametrize(
    ("imbalance", "share", "n", "is_uneven"),
    [(0.1, 0.8, 5, True), (0.09, 0.8, 5, False), (0.1, 0.79, 5, False), (0.1, 0.8, 4, False)],
)
def test_stages_far_above_the_mean(
    monkeypatch: pytest.MonkeyPatch, imbalance: float, share: float, n: int, is_uneven: bool
) -> None:
    row = {"of": "layer", "over": "stage", "largest": "2", "imbalance": imbalance, "largest_share": share, "n": n}
    table = pd.DataFrame([row, row | {"of": "phase"}, row | {"over": "rank"}, row | {"largest": None}])
    monkeypatch.setattr(module, "imbalance", SimpleNamespace(table=lambda *_: table))
    assert len(module._uneven_stages(Tables({}), Options())) == is_uneven


def pair(node: str, other: str | None, slow: bool | None = True, **more: Any) -> dict[str, Any]:
    usual = {"of": "node" if other is None else "pair", "op": "all_reduce", "ranks": 8, "busbw": 40.0, "ratio": 0.5}
    return usual | {"node": node, "other": other, "slow": slow} | more


def linked(monkeypatch: pytest.MonkeyPatch, *rows: dict[str, Any]) -> list[tuple[str, str | None, str | None, str]]:
    names = ["of", "op", "ranks", "busbw", "ratio", "node", "other", "slow"]
    monkeypatch.setattr(module, "node_pairs", SimpleNamespace(table=lambda *_: pd.DataFrame(rows, columns=names)))
    tables: Any = SimpleNamespace(count={"collectives": 1}.get)
    found = list(module._links(tables, Options()))
    assert all(each.evidence[0] == "all_reduce: 40 GB/s, 50 % of the median" for each in found)
    return [(each.kind, each.node, each.link, each.certainty) for each in found]


def test_slow_links_and_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow node makes its pairs slow. Several tests of one node, or the only one, make it sure."""
    assert linked(monkeypatch, pair("a", "b"), pair("a", "c", False), pair("b", "c", None)) == [
        ("slow_link", None, "a - b", "sure")
    ]
    assert linked(monkeypatch, pair("a", None), pair("a", "b"), pair("b", "a"), pair("c", "d")) == [
        ("slow_node", "a", None, "sure"), ("slow_link", None, "c - d", "sure"),
    ]  # fmt: skip
    other = pair("c", "d", False, ranks=16)
    assert linked(monkeypatch, pair("a", "b"), other) == [("slow_link", None, "a - b", "likely")]
    assert linked(monkeypatch, pair("a", "b"), pair("a", "b", ranks=16)) == [("slow_link", None, "a - b", "sure")]
    assert linked(monkeypatch) == [] and linked(monkeypatch, pair("a", "b", False)) == []
    assert list(module._links(Tables({}), Options())) == []


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, "compute 700 ms, the others 500 ms (1.4 times) in the steady steps"),
        ({"binds": False}, None),  # something else holds up the run
        ({"gain_s": 0.04}, None),
        ({"rank": None}, None),
        ({"of": "trace"}, None),  # the sentences on traces name it
        (
            {"of": "run", "subject": "slow steps", "binds": False, "n": 7, "gain_s": 0.16},
            "compute takes longer in 7 slow steps, which cost 16 % of the time",
        ),
        ({"of": "run", "subject": "slow steps", "binds": False, "n": 1, "gain_s": 0.16}, None),
        ({"ratio": None}, "compute 700 ms, the others next to nothing in the steady steps"),
    ],
)
def test_the_rank_that_binds_the_steps(monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], text: str | None) -> None:
    """It is no outlier over all steps: it is slow from one step on, or now and then."""
    usual: dict[str, Any] = {"of": "step", "subject": "rank", "name": "compute", "rank": 5, "ratio": 1.4}
    usual |= {"run": "r", "whole_s": 1.0, "time_s": 0.7, "gain_s": 0.2, "binds": True}
    cause = Cause(**(usual | more))
    monkeypatch.setattr(module, "causes_by_run", lambda *_: {"r": (cause,)})
    found = accused(monkeypatch)
    assert [(each.rank, each.kind, each.evidence) for each in found] == ([(5, "slow_rank", (text,))] if text else [])


def test_workers_stages_and_replicas_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of jobs whose operations are traced; a job that is modelled from phases has no such culprit."""
    rows = pd.DataFrame([{"run": "r", "rests_on": OPERATIONS}, {"run": "r", "rests_on": "phases"}])
    monkeypatch.setattr(module, "whatif", SimpleNamespace(table=lambda *_: rows))
    members = [{"rank": 5, "stage": 1, "dp_rank": 0}, {"rank": None, "stage": 3, "dp_rank": None},
               {"rank": None, "stage": None, "dp_rank": 2}]  # fmt: skip

    def fault(job: pd.DataFrame) -> Any:
        assert job["rests_on"].tolist() == [OPERATIONS]
        return SimpleNamespace(members=members, words="it is slow")

    monkeypatch.setattr(module, "at_fault", fault)
    made = by_hand("steps", [])
    tables = Tables({"runs": made["runs"].assign(format=OPERATIONS)})
    found = list(module._replayed(tables, Options()))
    assert [(each.kind, each.rank, each.stage, each.dp_rank) for each in found] == [
        ("slow_rank", 5, 1, 0), ("slow_stage", None, 3, None), ("slow_replica", None, None, 2),
    ]  # fmt: skip
    assert {each.evidence for each in found} == {("it is slow",)}
    monkeypatch.setattr(module, "at_fault", lambda _: None)
    assert list(module._replayed(tables, Options())) == []
    assert list(module._replayed(Tables(made), Options())) == []


@pytest.mark.parametrize(
    ("devices", "names"),
    [
        ([(3, "clock", 1.2e9, 1.75e9), (3, "temperature", 88.0, 61.0)], ["n2 (GPU 3)"]),
        ([(3, "clock", 0.3e9, 1.75e9), (3, "power", 70.0, 620.0)], []),  # it is idle
        ([(3, "temperature", 88.0, 61.0)], []),
        ([(3, "clock", 1.2e9, 1.75e9), (4, "temperature", 88.0, 61.0)], []),
    ],
)
def test_a_hot_gpu_with_a_lower_clock_slows_the_job(
    monkeypatch: pytest.MonkeyPatch, devices: list[tuple[int, str, float, float]], names: list[str]
) -> None:
    units = {"clock": "Hz", "temperature": "°C", "power": "W"}
    rows = [
        UnlikeDevice("a", device + 8, 16, name, units[name], own, usual, device, "n2")
        for device, name, own, usual in devices
    ]
    monkeypatch.setattr(module, "unlike_devices", lambda _: rows)
    found = accused(monkeypatch, rows=[{"run": "a", "step": 1}])
    assert [each.name for each in found] == names
    assert {each.kind for each in found} <= {"throttling"}
