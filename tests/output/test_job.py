"""The jobs of a report: diagnoses, failures, and what the time was used for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from perflog.metrics.jobs.job_intervals import DOWN, STALL, TRAINING
from perflog.output.report import job as module
from perflog.output.report.cells import AnswerTable, Bar, Number, RunName

if TYPE_CHECKING:
    import pytest

FAILURE: dict[str, Any] = {
    "run": "r", "kind": "gpu_out_of_memory", "role": "first", "message": "m\nmore", "count": 1, "rank": 0, "node": None,
    "gpu": None, "line": 5, "last_line": 5,
}  # fmt: skip


def tables(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> list[AnswerTable]:
    monkeypatch.setattr(module, "heading", lambda answer: f"job {answer.name}")
    monkeypatch.setattr(module, "parts", lambda answer: [("Verdict", f"of {answer.name}\n!")])
    timeline = fields.pop("timeline", [])
    usual: dict[str, Any] = {"diagnoses": [], "failures": [], "runs": ["r"], "names": {"r": "first", "q": "second"}}
    report: Any = SimpleNamespace(rows_of=lambda _: timeline, **usual | fields)
    found = list(module.job_tables(report))
    assert module.has_jobs(report) == bool(found)
    return found


def test_the_diagnosis_of_each_job_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def diagnosis(name: str, kind: str = "k") -> Any:
        return SimpleNamespace(name=name, kind=kind)

    assert tables(monkeypatch, diagnoses=[diagnosis("a", "")]) == []
    (one,) = tables(monkeypatch, diagnoses=[diagnosis("a")])
    assert (one.title, [head.name for head in one.heads]) == ("diagnosis", ["diagnosis", ""])
    assert one.rows == [["Verdict", "of a !"]]
    (named,) = tables(monkeypatch, diagnoses=[diagnosis("a"), diagnosis("b", "")])
    assert (named.title, named.heads[1].name) == ("diagnosis of job a", "job a")
    assert len(tables(monkeypatch, diagnoses=[diagnosis(str(n)) for n in range(8)])) == 6


def test_failures_by_run_kind_and_role(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        FAILURE | {"rank": 3, "count": 2, "message": "x" * 200}, FAILURE | {"rank": 1, "last_line": 9},
        FAILURE | {"rank": None},
        FAILURE | {"role": "unknown", "line": 7, "last_line": 8}, FAILURE | {"run": "q"},
    ]  # fmt: skip
    (table,) = tables(monkeypatch, failures=rows, runs=["r", "q"])
    assert [(head.name, head.number) for head in table.heads] == [
        ("failures", False), ("run", False), ("role", False), ("times", True), ("ranks", False), ("lines", False),
        ("first message", False),
    ]  # fmt: skip
    first, second, third = table.rows
    assert first[1:6] == [RunName("first", "r"), "first", Number(4, "4"), "1, 3", "5"]
    assert isinstance(first[6], str) and len(first[6]) == 160 and "…" in first[6]
    assert second[2:] == [None, Number(1, "1"), "0", "7–8", "m more"] and third[1] == RunName("second", "q")
    assert table.note == ""
    (alone,) = tables(monkeypatch, failures=[FAILURE | {"rank": n} for n in range(9)])
    assert "run" not in [head.name for head in alone.heads] and alone.rows[0][3] == "0, 1, 2, 3, 4, 5, 6, 7 and 1 more"
    (many,) = tables(monkeypatch, failures=[FAILURE | {"run": "r", "role": str(n)} for n in range(26)])
    assert len(many.rows) == 24 and many.note == '2 more: perflog query "select * from failures"'


def spent(kind: str, time_s: float, attempt: int = 1, job: str = "r") -> dict[str, Any]:
    return {"job": job, "kind": kind, "time_s": time_s, "attempt": attempt}


def test_the_time_of_a_job_with_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tables(monkeypatch, timeline=[spent(TRAINING, 8.0)]) == []
    rows = [spent(STALL, 1.0), spent(TRAINING, 5.0), spent(STALL, 2.0), spent(DOWN, 0.0)]
    (one,) = tables(monkeypatch, timeline=rows)
    assert one.title == "what the job spent its time on"
    assert [head.name for head in one.heads] == [one.title, "time", "share", ""]
    assert one.rows == [
        [TRAINING, Number(5.0, "5 s"), Number(0.625, "62.5 %"), Bar(0.0, 0.625)],
        [STALL, Number(3.0, "3 s"), Number(0.375, "37.5 %"), Bar(0.0, 0.375)],
    ]
    (two,) = tables(monkeypatch, timeline=[*rows, spent(TRAINING, 2.0, 2)])
    assert [head.name for head in two.heads] == [two.title, "attempt 1", "attempt 2", "time", "share", ""]
    assert two.rows[0][1:4] == [Number(5.0, "5 s"), Number(2.0, "2 s"), Number(7.0, "7 s")]
    assert two.rows[1][1:4] == [Number(3.0, "3 s"), Number(None, "-"), Number(3.0, "3 s")]
    (for_first,) = tables(monkeypatch, timeline=[*rows, spent(TRAINING, 2.0, job="q")])
    assert for_first.title == "what the time of first was"
    assert (
        len(
            tables(
                monkeypatch,
                timeline=[spent(STALL, 1.0, job=str(n)) for n in range(8)],
                names={str(n): "" for n in range(8)},
            )
        )
        == 6
    )
