"""Runs that are not compared, or only up to a step: copies, and runs that ended early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest
from support.metrics_logs import by_hand

from perflog.analysis.compare import left_out as module
from perflog.analysis.compare.left_out import (
    CutShort,
    FailedRun,
    copies,
    failed_runs,
    runs_cut_short,
    shared_ends,
    with_failures,
    without_foreign,
    without_runs_of_base,
)
from perflog.analysis.compare.sides import Case, LeftOut, Side
from perflog.analysis.lint import Finding
from perflog.log import Log, RunKey
from perflog.metrics.run_tables import Tables
from perflog.tables.sink import MemorySink


def side(name: str, **runs: Sequence[float] | int) -> Side:
    """A side of runs with these step times, or a number of steps of one second."""
    keys = [RunKey(run, None, f"{run}.txt", run, 1) for run in runs]
    made = Side(name, Log(MemorySink().fetch, keys))
    rows: list[dict[str, Any]] = [{"table": "runs", "run": run, "config": "{}"} for run in runs]
    for run, times in runs.items():
        listed = [1.0] * times if isinstance(times, int) else times
        rows += [{"run": run, "step": step, "step_time_s": time} for step, time in enumerate(listed, 1)]
    tables = by_hand("steps", rows)
    made.__dict__["tables"] = Tables(tables | {"runs": tables["runs"].iloc[1:]})
    made.__dict__["labels"] = {run: run for run in runs}
    return made


TIMES = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def test_a_run_that_prints_the_beginning_of_another_is_a_copy() -> None:
    assert copies([side("a", r=TIMES, s=TIMES[:5])]) == {"s": "r"}
    assert copies([side("a", s=TIMES[:5], r=TIMES)]) == {"s": "r"}
    assert copies([side("a", r=TIMES), side("b", s=TIMES)]) == {"s": "r"}
    assert copies([side("a", r=TIMES, s=[*TIMES[:4], 9.0])]) == {}
    assert copies([side("a", r=TIMES, s=TIMES[1:])]) == {}
    three = copies([side("a", r=TIMES, s=TIMES[:6], t=TIMES[:5])])
    assert three == {"s": "r", "t": "r"}
    assert copies([side("a", r=[1.0, 2.0, 3.0, 4.0] * 9, s=[1.0, 2.0, 3.0, 4.0] * 9)]) == {}  # few different numbers


def test_the_other_side_has_no_runs_of_the_base() -> None:
    base = side("a", r=TIMES)
    other = [9.0, *TIMES]
    (first, kept), left_out, copied = without_runs_of_base([base, side("b", s=TIMES, t=other)])
    assert first is base
    assert ([each.run for each in left_out], copied) == (["s"], [])
    assert [key.id for key in kept.log.run_keys] == ["t"]
    assert left_out[0].reason == "a run of a, or a copy of one"
    (_, same), left_out, copied = without_runs_of_base([base, side("b", s=TIMES)])
    assert (left_out, copied, len(same.log)) == ([], ["b"], 1)
    again = [base, side("b", s=TIMES, t=other), side("c", u=TIMES, v=other)]
    assert [each.run for each in without_runs_of_base(again)[1]] == ["s", "u"]
    assert without_runs_of_base([base, side("b", s=TIMES, t=other)], is_split=True)[1:] == ([], [])
    assert without_runs_of_base([base, side("b", s=[*TIMES, 8.0], t=other)])[1][0].run == "s"  # it prints more
    assert without_runs_of_base([base, side("b", r=TIMES, t=other)])[1][0].run == "r"


def stopped(run: str, planned: int | None = None, severity: Literal["warning", "note"] = "warning") -> Finding:
    numbers = {} if planned is None else {"planned": planned}
    return Finding(run, "", {run: [1]}, numbers, severity, "run-stopped")


def cut(base: dict[str, int], other: dict[str, int], *found: Finding, is_split: bool = False) -> dict[str, int]:
    """The last step of the runs that ended early."""
    sides = [side("a", **base), side("b", **other)]
    case = Case("", (tuple(base), tuple(other)))
    return {each.run: each.last_step for each in runs_cut_short(sides, [case], {"a": [*found]}, is_split)}


def test_runs_that_ended_early_by_their_log() -> None:
    assert cut({"r": 100, "s": 100}, {"t": 95}, stopped("t")) == {"t": 95}
    assert cut({"r": 100}, {"t": 100}, stopped("t")) == {}  # it did as many as the other
    assert cut({"r": 100}, {"t": 95}, stopped("t", severity="note")) == {}
    assert cut({"r": 100}, {"t": 95}, stopped("r"), stopped("t")) == {"t": 95}
    assert cut({"r": 100}, {"t": 95}, stopped("r", 300), stopped("t", 95)) == {"r": 100, "t": 95}
    assert cut({"r": 100}, {"t": 95}, stopped("t", 500), is_split=True) == {"t": 95}


def test_how_many_steps_a_run_had_planned() -> None:
    """0 if its log does not say."""
    sides, case = [side("a", r=100), side("b", s=50, t=60)], Case("", (("r",), ("s", "t")))
    found = runs_cut_short(sides, [case], {"b": [stopped("s"), stopped("t", 300)]}, False)
    assert [(each.run, each.planned, each.usual_last_step) for each in found] == [("s", 0, 100), ("t", 300, 100)]


def test_runs_with_far_fewer_steps_than_the_others() -> None:
    assert cut({"r": 100}, {"t": 90}) == {} and cut({"r": 100}, {"t": 89}) == {"t": 89}
    assert cut({"r": 100}, {"t": 50}, is_split=True) == {}
    assert cut({"r": 100, "s": 10, "q": 100}, {"t": 100}) == {"s": 10}
    assert cut({"r": 100, "s": 10}, {"t": 20}) == {"s": 10, "t": 20}  # the usual last step is that of most of a side


def test_the_last_step_that_compares() -> None:
    base, other = side("a", r=100, s=100), side("b", t=80, u=30)
    case = Case("", (("r", "s"), ("t", "u")))
    found = [CutShort("", "b", "t", "t", 80, 100), CutShort("", "b", "u", "u", 30, 100)]
    (kept,), ends, left_out = shared_ends([base, other], [case], found)
    assert kept.runs == (("r", "s"), ("t",)) and ends == dict.fromkeys("rst", 80)
    assert [(each.run, each.reason) for each in left_out] == [("u", "it ended early at step 30 of 100")]
    (kept,), ends, left_out = shared_ends([base, other], [case], found[1:])
    assert (ends, [each.run for each in left_out]) == ({}, ["u"])
    only = Case("", (("r",), ("u",)))
    (kept,), ends, left_out = shared_ends([base, other], [only], found[1:])
    assert (kept, ends, left_out) == (only, {"r": 30, "u": 30}, [])  # its side has no other
    assert shared_ends([base, other], [case], [CutShort("x", "b", "t", "t", 80, 100)])[1:] == ({}, [])


@pytest.mark.parametrize(
    ("run", "event", "short"),
    [
        (CutShort("", "", "", "", 1800, 3000), "ended early at step 1,800 of 3,000", False),
        (CutShort("", "", "", "", 1800, 3000, planned=4000), "ended early at step 1,800 of 4,000", False),
        (CutShort("", "", "", "", 3000, 3000), "ended early at step 3,000", False),
        (CutShort("", "", "", "", 1499, 3000), "ended early at step 1,499 of 3,000", True),
        (CutShort("", "", "", "", 1500, 3000, False), "stopped at step 1,500 where others reach 3,000", False),
    ],
)
def test_what_happened_to_a_run_that_ended_early(run: CutShort, event: str, short: bool) -> None:
    assert (run.event, run.is_short) == (event, short)


def test_runs_that_failed_are_left_out_for_that() -> None:
    runs = [LeftOut("a", "r", "r", "measures something else"), LeftOut("a", "s", "s", "a copy")]
    failed = FailedRun("a", "r", "r", "diverged", "loss nan")
    assert [each.reason for each in with_failures(runs, [failed])] == ["it failed", "a copy"]
    assert failed.text == "a: r: loss nan"
    assert FailedRun("", "r", "r", "diverged", "loss nan").text == "r: loss nan"


def test_findings_that_say_that_a_run_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [stopped("r"), stopped("s", severity="note"), Finding("r", "", {"r": [1]}, {}, "warning", "outliers")]
    monkeypatch.setattr(module, "findings", lambda _: found)
    assert [(each.side, each.run, each.label, each.end) for each in failed_runs(side("a", r=1, s=1).log, "a")] == [
        ("a", "r", "r.txt#1", "ended early")
    ]


def measuring(name: str, **runs: str) -> Side:
    """A side of runs, each a format and a table with a row of it."""
    rows = [{"table": "runs", "run": run, "config": "{}", "format": what.split()[0]} for run, what in runs.items()]
    rows += [{"table": what.split()[1], "run": run} for run, what in runs.items() if " " in what]
    frames = by_hand("steps", rows)
    made = Side(name, Log(MemorySink().fetch, [RunKey(run, run, run, run, 1) for run in runs]))
    made.__dict__["tables"] = Tables(frames | {"runs": frames["runs"].iloc[1:]})
    return made


def test_runs_that_measure_something_else_are_foreign() -> None:
    """Of another format: a run of the format of the others without rows may have failed."""

    def foreign(**runs: str) -> list[str]:
        kept, left_out = without_foreign([measuring("a", r="f steps", **runs), measuring("b", s="f steps")])
        found = [each.run for each in left_out]
        assert [key.id for key in kept[0].log.run_keys] == ["r", *(run for run in runs if run not in found)]
        return found

    assert foreign(t="g counters") == ["t"] and foreign(t="g") == ["t"]
    assert foreign(t="f") == foreign(t="f counters") == foreign(t="g steps") == []
    assert foreign(t="g counters", u="g steps") == []  # another run of its format measures the same
    assert foreign(t="g counters", u="h counters", v="f") == ["t", "u"]


def test_findings_are_of_the_compared_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def runs_of(tables: Tables) -> list[str]:
        return sorted(set(tables["steps"]["run"]))

    monkeypatch.setattr(module, "findings", runs_of)
    sides = [side("a", r=3, s=3), side("b", t=3)]
    for runs, in_base in (([("r",), ("s",)], ["r", "s"]), ([("r", "s")], ["r", "s"]), ([()], [])):
        found: Any = module.linted(sides, [Case("x", (of, ("t",) if of == runs[-1] else ())) for of in runs])
        assert found == {"a": in_base, "b": ["t"]}


def test_of_each_side_only_the_named_runs_are_asked_whether_they_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, list[str]]] = []

    def failed(log: Log, name: str) -> list[str]:
        asked.append((name, [key.id for key in log.run_keys]))
        return [f"{name} failed"]

    monkeypatch.setattr(module, "failed_runs", failed)
    sides = [side("a", r=TIMES, s=TIMES), side("b", t=TIMES), side("c", u=TIMES)]
    found: list[Any] = [*module.failed_among(sides, {"s", "u"})]
    assert found == ["a failed", "c failed"]
    assert asked == [("a", ["s"]), ("c", ["u"])]
