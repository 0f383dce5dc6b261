"""Reasons in sentences: why a run is slower, what it could save, what holds it up."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from perflog.analysis.overview import reasons as module
from perflog.analysis.overview.facts import log_facts
from perflog.metrics import Options
from perflog.metrics.step_time.breakdown import TRACED_STEP
from perflog.metrics.traces.work_tree import OUTSIDE

if TYPE_CHECKING:
    from support.metric_tables import MetricRow

Timed = Mapping[str, float]
MARKS = ("A", "B")


@pytest.fixture
def slower(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The sentences on two runs with these parts of a step; a wait or communication has such a name."""

    def sentences(base: Timed | None, other: Timed | None, tables: Any = None) -> list[str]:
        times = {run: each for run, each in (("a", base), ("b", other)) if each is not None}
        rows = [
            {"run": run, "of": of, "kind": name.split()[0], "time_s": time_s, "whole_s": sum(each.values())}
            for run, each in times.items()
            for name, time_s in each.items()
            for of in ("step", "phases")
        ]
        table = pd.DataFrame(rows, columns=["run", "of", "kind", "time_s", "whole_s"])
        monkeypatch.setattr(module, "breakdown", SimpleNamespace(table=lambda *_: table))
        monkeypatch.setattr(module, "parts_of_both", lambda *_: [dict(times[run]) for run in ("a", "b")])
        return list(module.why_slower(tables, "a", "b", MARKS, Options()))

    monkeypatch.setattr(module, "moved_between", lambda *_: [])
    monkeypatch.setattr(module, "host_time_of_steps", lambda *_: None)
    return sentences


WHY = "Why B is slower than A: "


def test_the_part_that_grew_most(slower: Any) -> None:
    assert slower({"forward": 0.3, "backward": 0.7}, {"forward": 0.5, "backward": 0.8}) == [
        f"{WHY}the mean step takes 300 ms more, 67 % of it in forward (300 ms -> 500 ms)."
    ]
    assert slower({"a": 1.0}, {"a": 1.0, "untimed in b": 0.5}) == [
        f"{WHY}the mean step takes 500 ms more, 100 % of it in untimed parts of b (0 s -> 500 ms)."
    ]
    assert slower({"a": 1.0, OUTSIDE: 0.2}, {"a": 1.0, OUTSIDE: 1.2}) == [
        f"{WHY}the mean step takes 1 s more, 100 % of it in no range (200 ms -> 1.2 s)."
    ]


def test_a_part_may_grow_more_than_the_step(slower: Any) -> None:
    assert slower({"a": 1.0, "b": 1.0}, {"a": 1.5, "b": 0.9}) == [
        f"{WHY}the mean step takes 400 ms more: +500 ms in a (1 s -> 1.5 s), -100 ms elsewhere."
    ]
    assert "101 % of it" in slower({"a": 1.0, "b": 1.0}, {"a": 2.0, "b": 0.99})[0]
    assert slower({"a": 1.0}, {"a": 1.029}) == slower({"a": 10.0}, {"a": 10.2}) == []
    assert slower({"a": 1.0}, {"a": 1.031}) != []


def test_waits_that_did_not_grow_are_named(slower: Any) -> None:
    unchanged = "Exposed wait and communication are unchanged (300 ms)."
    base = {"a": 1.0, "wait x": 0.1, "communication": 0.2}
    for times, told in (
        ({"a": 2.0, "wait x": 0.2, "communication": 0.1}, True),
        ({"a": 2.0, "wait x": 0.07, "communication": 0.2}, False),
        ({"a": 2.0, "wait x": 0.4, "communication": 0.2}, False),
    ):  # fmt: skip
        assert slower(base, times)[1:] == [unchanged] * told
    assert len(slower({"a": 1.0}, {"a": 2.0})) == 1  # nothing waits


def test_without_parts_operators_or_ranges_of_the_host_are_compared(
    slower: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the runs has no parts of a step."""
    rows: dict[tuple[str, str], list[int]] = {}
    tables: Any = SimpleNamespace(rows_of=lambda name, run: rows.get((name, run), []))
    lacks = "Why B is slower than A is not in the log: "
    assert slower({"a": 1.0}, None, tables) == [f"{lacks}it times nothing inside a step."]
    for place in (("phases", "a"), ("events", "b")):
        rows = {place: [1]}
        assert slower(None, {"a": 1.0}, tables) == [f"{lacks}no part of a step is timed in both."]
    host = {"a": (1.0, {"x": 0.5, OUTSIDE: 0.5})}
    monkeypatch.setattr(module, "host_time_of_steps", lambda _, run, __: host.get(run))
    assert slower(None, None, tables) == [f"{lacks}no part of a step is timed in both."]
    host["b"] = (2.0, {"x": 1.4, OUTSIDE: 0.6})
    assert slower(None, None, tables) == [f"{WHY}the mean step takes 1 s more, 90 % of it in x (500 ms -> 1.4 s)."]
    monkeypatch.setattr(module, "moved_between", lambda *given: [given[1:]])
    monkeypatch.setattr(module, "moved_text", str)
    monkeypatch.setattr(module, "time_basis", lambda _: "of a step")
    assert slower(None, {"a": 1.0}) == ["GPU time by operator, A -> B, of a step: ('a', 'b', 3)."]


IDEAL: MetricRow = {"run": "r", "of": "step", "ideal": "no waits", "ideal_s": 0.5, "time_s": 1.0, "gain": 0.5}


def test_what_a_run_could_save(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(*rows: MetricRow, mark: str | None = None) -> list[str]:
        table = pd.DataFrame([IDEAL | {"run": "other"}, *(IDEAL | row for row in rows)])
        monkeypatch.setattr(module, "headroom", SimpleNamespace(table=lambda *_: table))
        tables: Any = None
        return list(module.time_saved(tables, "r", Options(), mark))

    assert said() == said({"gain": 0.0299}) == said({"of": TRACED_STEP}, {"of": "trace"}) == []
    begin = "At best, with no waits the mean step{} would take 500 ms instead of 1 s (-50 %)"
    assert said({}) == [f"{begin.format('')}."]
    assert said({}, mark="B") == [f"{begin.format(' of B')}."]
    assert said({"ideal": "at the peak", "of": "run"}) == [
        "At best, at the peak the run would take 500 ms instead of 1 s (-50 %)."
    ]
    more = [{"ideal": name, "gain": 0.03} for name in "xyz"]
    assert said({}, *more) == [f"{begin.format('')}; with x -3 %; with y -3 %."]


def test_what_holds_a_run_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is stuck, what stragglers cost and what binds come before facts; without any, what the log lacks is said."""
    tables: Any = None
    first = ("stuck", "slowdown_of_job", "headline")
    for name in first:
        monkeypatch.setattr(module, name, lambda *given, name=name: [f"{name} of {given[1]}"])
    monkeypatch.setattr(module, "_FACTS", (lambda *_: [], lambda *_: ["fact", "more"]))
    assert module.bottleneck(tables, "r", Options()) == [*(f"{name} of r" for name in first), "fact", "more"]
    assert next(module.bottlenecks(tables, "r", Options())) == "stuck of r"
    for name in first:
        monkeypatch.setattr(module, name, lambda *_: [])
    monkeypatch.setattr(module, "_FACTS", ())
    monkeypatch.setattr(log_facts, "unknown_causes", lambda *_: ["unknown"])
    assert module.bottleneck(tables, "r", Options()) == ["unknown"]
    assert module.bottleneck(tables, "r", Options(), is_known=True) == []
    assert list(module.bottlenecks(tables, "r", Options())) == []
