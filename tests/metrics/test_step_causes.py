"""Causes inside the steps of a log, from tables of metrics that are made by hand."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.metric_tables import replace_table
from support.metrics_logs import by_hand

import perflog
from perflog.metrics import Options, Tables
from perflog.metrics.causes import step_causes as module
from perflog.metrics.step_time.headroom import Gain

TABLES = Tables(by_hand("steps", []))  # each metric that a source needs is replaced


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "without_pauses", lambda rows, *_: rows)


def part(name: str, kind: str, share: float, of: str = "step") -> dict[str, Any]:
    return {"of": of, "part": name, "kind": kind, "share": share, "time_s": share * 2, "whole_s": 2.0}


@pytest.mark.parametrize(
    ("shares", "untimed", "binding"),
    [
        ([0.55, 0.05], 0.4, True),  # over half
        ([0.5, 0.1], 0.4, False),
        ([0.4, 0.35], 0.25, True),  # less is untimed than the second takes
        ([0.4, 0.3], 0.3, False),
        ([0.3], 0.1, False),  # there is no second one
        ([0.6], 0.4, True),
        ([], 1.0, False),
    ],
)
def test_phases_may_bind(shares: list[float], untimed: float, binding: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [part(f"p{n}", "compute", share) for n, share in enumerate(shares)]
    replace_table(
        monkeypatch, module, "breakdown", *rows, part("rest", "untimed", untimed), **part("x", "wait", 1.0, "gpu")
    )
    found = list(module.phases(TABLES, Options()))
    assert [cause.may_bind for cause in found] == [binding] * len(shares) + [False]
    assert [(c.run, c.of, c.name, c.time_s, c.gain_s, c.whole_s) for c in found] == [
        ("r", "step", name, share * 2, share * 2, 2.0)
        for name, share in [*((f"p{n}", share) for n, share in enumerate(shares)), ("rest", untimed)]
    ]


def test_subjects_of_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ["compute", "data", "wait", "communication", "untimed", "mixed"]
    rows = [part(kind, kind, 1 / 6, "phases") for kind in kinds]
    replace_table(monkeypatch, module, "breakdown", *rows, **part("x", "wait", 1.0, "api"))
    found = {cause.name: cause.subject for cause in module.phases(TABLES, Options())}
    assert found == dict(zip(kinds, ["phase", "data", "waiting", "communication", "untimed", "phase"], strict=True))


def test_runs_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run and whole decides by itself whether its phases bind."""
    rows = [part("a", "compute", 0.9), part("b", "compute", 0.3, "phases")]
    replace_table(monkeypatch, module, "breakdown", *rows, **part("a", "compute", 0.2))
    found = [(cause.run, cause.of, cause.may_bind) for cause in module.phases(TABLES, Options())]
    assert sorted(found) == [("other", "step", False), ("r", "phases", False), ("r", "step", True)]


def test_ideals_that_gain_something(monkeypatch: pytest.MonkeyPatch) -> None:
    def gains(gain_s: float) -> Any:
        return partial(lambda gain, *_: [gain], Gain("r", "step", "equal ranks", 3.0, gain_s, "a model"))

    ideals = {"unequal ranks": gains(0.5), "slow products": gains(0.0), "below the peak": gains(-1.0)}
    monkeypatch.setattr(module, "_IDEALS", ideals)
    [cause] = module.ideals(TABLES, Options())
    assert (cause.subject, cause.name, cause.whole_s, cause.gain_s, cause.time_s) == (
        "unequal ranks", "equal ranks", 3.0, 0.5, None,
    )  # fmt: skip
    assert (cause.model, cause.by, cause.may_bind) == ("a model", "bound", False)


def uneven(name: str = "compute", **more: Any) -> dict[str, Any]:
    """A phase that takes 0.75 s on rank 5 and 0.5 s on the seven others."""
    usual = {"of": "phase", "over": "rank", "name": name, "members": 8, "largest": 5, "largest_share": 1.0}
    return usual | {"max": 0.75, "mean": 0.53125, "imbalance": 0.75 / 0.53125 - 1} | more


@pytest.mark.parametrize(
    ("phases", "found"),
    [
        ([uneven()], [(5, 0.25, 1.5)]),
        ([uneven(largest_share=0.7)], []),  # another rank now and then
        ([uneven(), uneven(largest=3)], []),  # of two occurrences in a step
        ([uneven(over="expert")], []),
        ([uneven("wait")], []),
        ([uneven(run="without a step")], []),
        ([uneven(max=0.54, mean=0.505, imbalance=0.069)], []),
        ([uneven(), uneven()], [(5, 0.5, 1.5)]),
        ([uneven(mean=0.75 / 8, imbalance=7.0)], [(5, 0.685714286, 0)]),  # the others take no time: there is no ratio
    ],
)
def test_a_rank_that_is_slow_in_each_step(
    phases: list[dict[str, Any]], found: list[tuple[int, float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [part("compute", "compute", 0.7), part("wait", "wait", 0.1), part("rest", "untimed", 0.2)]
    replace_table(monkeypatch, module, "breakdown", *rows, **part("a", "compute", 0.2))
    replace_table(monkeypatch, module, "imbalance", *phases, **uneven())
    monkeypatch.setattr(module, "_works_longer", lambda *_: 9.0)
    causes = list(module.slow_ranks(TABLES, Options()))
    assert [(c.rank, round(c.gain_s or 0, 9), round(c.ratio or 0, 9)) for c in causes if c.run == "r"] == found
    assert {(c.subject, c.of, c.by, c.may_bind) for c in causes if c.run == "r"} <= {("rank", "step", "bound", True)}


def test_a_slow_rank_costs_no_more_than_the_others_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [part("compute", "compute", 0.95), part("rest", "untimed", 0.05)]
    replace_table(monkeypatch, module, "breakdown", *rows, **part("compute", "compute", 0.9))
    replace_table(monkeypatch, module, "imbalance", uneven(), **uneven())
    monkeypatch.setattr(module, "_works_longer", lambda *_: 9.0)
    [cause, _] = module.slow_ranks(TABLES, Options())
    assert (round(cause.gain_s or 0, 9), cause.may_bind) == (round(0.1 * 8 / 7, 9), False)


LINE = "[rank{rank}] step {step}/20 | loss 2.31 | step_time 2.0s | compute_time {compute:.4f}s | {name} {other:.4f}s\n"


@pytest.mark.parametrize(
    ("name", "other", "gain"),
    [
        ("recv_time", -0.3, None),  # the other rank waits in a phase of work: neither is slow
        ("recv_time", -0.1, 0.2),
        ("recv_time", 0.0, 0.3),
        ("wait_time", -0.3, 0.3),
    ],
)
def test_a_rank_is_slow_if_it_works_longer_in_all(tmp_path: Path, name: str, other: float, gain: float | None) -> None:
    """Rank 1 computes 0.3 s longer; `other`: what it takes longer in another phase."""
    (tmp_path / "run.log").write_text(
        "".join(
            LINE.format(rank=rank, step=step, name=name, compute=0.9 + 0.3 * rank, other=0.6 + other * rank)
            for step in range(1, 21)
            for rank in (0, 1)
        )
    )
    causes = list(module.slow_ranks(Tables(perflog.read(tmp_path / "run.log")), Options()))
    assert [(cause.name, cause.rank, round(cause.gain_s or 0, 9)) for cause in causes] == (
        [("compute_time", 1, gain)] if gain else []
    )
