"""The parts of a run's time that an overview shows."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from support.metrics_logs import by_hand

import perflog
from perflog.analysis.overview.parts import Part, percent
from perflog.log import combined
from perflog.metrics import Options, Tables, breakdown
from perflog.metrics.step_time.breakdown import TRACED_STEP, UNTIMED
from perflog.metrics.step_time.waterfall import NOT_OF_A_STEP

if TYPE_CHECKING:
    from support.metric_tables import MetricRow

module = sys.modules[Part.__module__]  # the package has a function of this name


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Name, seconds and share of each part of run `r`."""
    monkeypatch.setattr(module, "without_pauses", lambda rows, *_: rows)
    monkeypatch.setattr(module, "untimed_waits", lambda *_: {})
    monkeypatch.setattr(module, "part_name", lambda of, part, kind: f"{kind} {part}" if kind else part)

    def found(*rows: MetricRow, bars: tuple[MetricRow, ...] = ()) -> list[tuple[str, float, float]]:
        columns = ["run", "of", "part", "kind", "time_s", "share", "whole_s"]
        table = pd.DataFrame(rows, columns=columns).assign(run="r")
        others = pd.DataFrame([*bars, bar("other", 1.0, run="other")])
        monkeypatch.setattr(module, "breakdown", SimpleNamespace(table_of=lambda *_: table))
        monkeypatch.setattr(module, "waterfall", SimpleNamespace(table=lambda *_: others))
        tables = Tables(by_hand("steps", []))
        return [
            (each.name, round(each.seconds, 9), round(each.share, 9)) for each in module.parts(tables, "r", Options())
        ]

    return found


def part(name: str, time_s: float, of: str = "step", kind: str = "", whole: float = 1.0) -> MetricRow:
    return {"of": of, "part": name, "kind": kind, "time_s": time_s, "share": time_s / whole, "whole_s": whole}


def bar(name: str, share: float, run: str = "r", doubt: str | None = None) -> MetricRow:
    return {"run": run, "bar": name, "time_s": 2 * share, "of_steady": share, "doubt": doubt}


def test_parts_of_one_name_add_up_the_longest_first(parts: Any) -> None:
    rows = [part("a", 0.1), part("b", 0.4), part("a", 0.2, kind="wait"), part("a", 0.35), part("c", 0.4)]
    assert parts(*rows) == [("a", 0.45, 0.45), ("b", 0.4, 0.4), ("c", 0.4, 0.4), ("wait a", 0.2, 0.2)]


def test_the_first_whole_counts(parts: Any) -> None:
    wholes = ["step", "phases", TRACED_STEP, "trace", "gpu", "api"]
    for first, whole in enumerate(wholes):
        rows = [part(of, 1.0, of=of) for of in reversed(wholes[first:])]
        assert parts(*rows) == [(whole, 1.0, 1.0)]


def test_without_parts_the_bars_of_the_waterfall_are_shown(parts: Any) -> None:
    """If what is known takes more than 3 %."""
    bars = [bar("a", 0.02), bar("b", 0.0101), bar("unattributed", 0.9), bar(next(iter(NOT_OF_A_STEP)), 0.5)]
    assert parts(bars=tuple(bars)) == [("unattributed", 1.8, 0.9), ("a", 0.04, 0.02), ("b", 0.0202, 0.0101)]
    assert parts(bars=(bar("a", 0.03), *bars[2:])) == [] == parts()


def test_a_bar_keeps_its_doubt(parts: Any) -> None:
    parts(bars=(bar("a", 0.5, doubt="why"), bar("b", 0.4)))
    tables = Tables(by_hand("steps", []))
    assert [each.doubt for each in module.parts(tables, "r", Options())] == ["why", None]


@pytest.mark.parametrize(
    ("lost", "unequal"),
    [
        (0.1, 0.1),
        (0.5, 0.25),  # more than is untimed
        (0.02, 0.0),  # hardly any
        (0.0, 0.0),
    ],
)
def test_unequal_ranks_are_no_untimed_part(
    parts: Any, monkeypatch: pytest.MonkeyPatch, lost: float, unequal: float
) -> None:
    monkeypatch.setattr(module, "untimed_waits", lambda *_: {"q": 9.0, "r": lost})
    monkeypatch.setattr(module, "part_name", lambda of, part, kind: kind or part)
    rows = [part("a", 0.75), part("step", 0.25, kind=UNTIMED)]
    expected = [("a", 0.75, 0.75), (UNTIMED, 0.25 - unequal, 0.25 - unequal), ("unequal ranks", unequal, unequal)]
    assert parts(*rows) == [each for each in expected if each[1]]
    assert all(
        each.doubt
        for each in module.parts(Tables(by_hand("steps", [])), "r", Options())
        if each.name == "unequal ranks"
    )


def test_shares_are_shown_without_decimals() -> None:
    assert [percent(share) for share in (0.125, 1.0, 0.004)] == ["12 %", "100 %", "0 %"]


def test_parts_of_two_runs_are_the_phases_that_both_time() -> None:
    """One run times forward and backward alone, the other one what is inside them."""
    logs = [perflog.find_runs(f"reference:{name}").select(1) for name in ("moe_layer.txt", "moe_layer_early.txt")]
    tables, runs = Tables(combined(logs)), [log.run_keys[0].id for log in logs]
    assert {part.name for part in module.parts(tables, runs[0], Options())} >= {"gather_gemm", "wait"}
    found = module.parts_of_both(tables, runs, Options())
    assert [set(names) for names in found] == [{"forward", "backward", UNTIMED}] * 2
    for run, times in zip(runs, found, strict=True):
        whole = breakdown.table_of(run, tables, Options())
        assert sum(times.values()) == pytest.approx(whole["whole_s"].iloc[0], rel=0.02)
        assert times["forward"] > whole[whole["inside"] == "forward"]["time_s"].sum() * 0.99
    again = module.parts_of_both(tables, runs[:1] * 2, Options())
    assert again == [{part.name: part.seconds for part in module.parts(tables, runs[0], Options())}] * 2
