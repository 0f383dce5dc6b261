"""The answers of a report: how fast, the index of runs, failures and doubts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from perflog.analysis.overview.run_figures import RunFigure
from perflog.analysis.overview.run_groups import RunGroup
from perflog.output.report import answers as module
from perflog.output.report.cells import AnswerTable, FindingCounts, Number, RunName

if TYPE_CHECKING:
    import pytest


def overview(*groups: RunGroup, figures: tuple[RunFigure, ...] = (), doubts: tuple[Any, ...] = ()) -> Any:
    return SimpleNamespace(
        groups=groups, figures=figures, doubts=doubts, change=lambda place: place / 10 or None,
        value=lambda figure, group: sum(figure.values[run] for run in group.runs) / len(group.runs),
        spread=lambda figure, group: 0.02, run_noun="attempts" if any(each.is_job for each in groups) else "runs",
    )  # fmt: skip


def group(mark: str, *runs: str, name: str = "log", batch: str = "8", hosts: tuple[str, ...] = ()) -> RunGroup:
    return RunGroup(mark, name, runs, {"batch": batch}, hosts)


STEP = RunFigure("step", "s", "lower", {"r0": 1.0, "r1": 3.0, "r2": 0.5}, {"r0": 0.01})
LOSS = RunFigure("loss", "", "lower", {"r0": 2.5})


def heads(table: AnswerTable) -> list[str]:
    return [head.name for head in table.heads]


def test_how_fast_the_repeats_of_each_configuration_were() -> None:
    """Where at least half of the runs are repeats; twelve groups at most."""
    table = module._speed(overview(group("A", "r0", "r1"), group("B", "r2", "r2", batch="16"), figures=(STEP,)))
    assert table is not None and heads(table) == ["runs of", "batch", "runs", "step", "± sd", "change"]
    job = RunGroup("A", "log", ("r0", "r1"), {}, is_job=True)
    of_job = module._speed(overview(job, figures=(STEP,)))
    assert of_job is not None and heads(of_job) == ["attempts of", "attempts", "step", "± sd"]
    assert table.rows[0] == ["A", "8", Number(2, "2"), Number(2.0, "2 s"), Number(0.02, "2.0 %"), Number(None, "-")]
    assert table.rows[1][:2] == ["B", "16"] and table.rows[1][5] == Number(0.1, "+10.0 %")
    assert module._speed(overview(group("A", "r0"), group("B", "r1"), figures=(STEP,))) is None
    assert module._speed(overview(group("A", "r0", "r1"))) is None
    many = module._speed(overview(*(group(f"M{n}", "r0", "r1") for n in range(14)), figures=(STEP,)))
    assert many is not None and len(many.rows) == 12 and many.note == "2 more groups: perflog RUN"


def test_a_group_has_a_name_unless_all_have_it() -> None:
    one, other = group("A", "r0", "r1"), group("B", "r2", "r3")
    assert module._group_name(one, overview(one, other)) == "A"
    assert module._group_name(one, overview(one)) == "A log"
    assert module._group_name(one, overview(one, group("B", "r2", "r3", name="x"))) == "A log"


def report(seen: Any, names: dict[str, str] | None = None, **fields: Any) -> Any:
    runs = [run for group in seen.groups for run in group.runs]
    hosts = {run for group in seen.groups for run in group.hosts}
    usual: dict[str, Any] = {
        "runs": [{"run": run} for run in runs],
        "names": names or {run: f"log#{run}" for run in runs},
    }
    usual |= {"hosts": hosts, "in_words": lambda count: f"{count} of all"}
    return SimpleNamespace(**usual | {"overview": seen, "steps": {"r0": 5}, "warnings": []} | fields)


def test_the_index_of_runs() -> None:
    seen = overview(group("B", "r1", "r2", batch="16"), group("A", "r0"), figures=(STEP, LOSS))
    table = module.run_index(report(seen))
    assert heads(table) == ["run", "of", "batch", "step", "±", "change", "loss", "steps"]
    second, third, first = table.rows
    assert first == [
        RunName("A log#r0", "r0"), None, "8", Number(1.0, "1 s"), Number(0.01, "1.0 %"), Number(0.1, "+10.0 %"),
        Number(2.5, "2.5"), Number(5, "5"),
    ]  # fmt: skip
    assert second[:4] == [RunName("log#r1", "r1"), "B", "16", Number(3.0, "3 s")] and third[3] == Number(0.5, "500 ms")
    assert second[6] == Number(None, "-")
    marked = module.run_index(report(seen, {"r0": "x A", "r1": "y", "r2": "z"}))
    assert marked.rows[2][0] == RunName("x A", "r0")
    in_names = module.run_index(report(seen, {run: f"batch=8 {run}" for run in ("r0", "r1", "r2")}))
    assert "batch" not in heads(in_names)
    alone = module.run_index(report(overview(group("A", "r0"), figures=(STEP,))))
    assert "batch" not in heads(alone) and alone.rows[0][0] == RunName("log#r0", "r0")


def doubt(code: str, severity: str, *findings: Any, runs: tuple[str, ...] = ()) -> Any:
    return SimpleNamespace(
        code=code, severity=severity, findings=findings, runs=runs, is_outcome=False, message=f"{code} it is"
    )


def test_runs_that_failed_without_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding that says most about the end; not of another host of a job that has a figure."""
    against = {
        "r1": [doubt("run-stopped", "warning"), doubt("program-error", "error")],
        "r2": [doubt("outliers", "warning"), doubt("program-error", "note")],
        "r3": [doubt("run-stopped", "warning")], "r0": [doubt("run-stopped", "warning")],
    }  # fmt: skip
    monkeypatch.setattr(module, "doubts_by_run", lambda _: against)
    only = RunFigure("step", "s", "lower", {"r0": 1.0})
    groups = group("A", "r0", hosts=("r3",)), group("B", "r1", "r2")
    found = module._failures(report(overview(*groups, figures=(only,)), {run: run.upper() for run in against}))
    assert found is not None and found.text == "Failed, without a figure: R1 (program-error it is)."
    assert module._failures(report(overview(*groups))) is None
    of_all = RunFigure("loss", "", "lower", {"r1": 1.0})
    assert module._failures(report(overview(*groups, figures=(only, of_all)), {"r0": "a", "r1": "b"})) is None


def test_what_speaks_against_a_run() -> None:
    counts = module._finding_counts(
        [doubt("a", "warning"), doubt("b", "error"), doubt("c", "warning"), doubt("d", "note")]
    )
    assert counts == FindingCounts({"error": 1, "warning": 2})
    assert module._finding_counts([doubt("d", "note")]) is None is module._finding_counts([])


def test_the_doubts_that_are_shown() -> None:
    doubts = tuple(
        doubt(code, "error", SimpleNamespace(run=(*runs, "")[0]), runs=runs)
        for code, runs in (("a", ("r0",)), ("b", ("r0", "r1")), ("c", ()), ("d", ()))
    )
    seen = overview(group("A", "r0"), group("B", "r1"), doubts=doubts)
    shown = module._doubts(report(seen, warnings=["w1", "w2", "w3", "w4", "w5"]))
    assert shown.warnings == ["w1", "w2", "w3", "and 2 more warnings"]
    assert [each.code for each in shown.shown] == ["a", "b", "c"] and shown.left_out == 1
    assert shown.places == ["log#r0", "2 of all, here log#r0", "0 of all"]
    one = module._doubts(report(overview(group("A", "r0"), doubts=doubts[:1]), warnings=["w1", "w2", "w3"]))
    assert (one.warnings, one.places, one.left_out) == (["w1", "w2", "w3"], [""], 0)


def test_the_index_has_the_first_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RUNS", 2)
    table = module.run_index(report(overview(group("A", "r0", "r1", "r2"))))
    assert len(table.rows) == 2
