"""The sweep of a report: its best configuration, the others, and what each setting does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from perflog.output.report.cells import AnswerTable, Bar, Number, Sentence
from perflog.output.report.sweep_tables import sweeps

Row = dict[str, Any]
CONFIGURATION: Row = {"sweep": "s", "runs": 4, "failed": 0, "figure": "tokens_per_s", "change": None}
FACTOR: Row = {
    "sweep": "s", "factor": "batch", "base": "8", "runs": 4, "figure": "tokens_per_s", "change": None,
    "change_low": None, "change_high": None, "best_in": None, "also": None,
}  # fmt: skip


def configuration(name: str, value: float | None, **fields: Any) -> Row:
    return CONFIGURATION | {"configuration": name, "value": value} | fields


def answers(
    *rows: Row, factors: tuple[Row, ...] = (), runs: int = 12, programs: int = 1
) -> list[Sentence | AnswerTable]:
    report: Any = SimpleNamespace(
        runs=[{"run": n, "format": "f", "program": n % programs} for n in range(runs)], steps=range(runs),
        rows_of=lambda name: {"configurations": rows, "factors": factors}[name],
    )  # fmt: skip
    return list(sweeps(report))


THREE = (configuration("a", 100.0), configuration("b", 80.0, change=-0.2), configuration("c", 25.0, change=-0.75))


def test_the_best_configuration() -> None:
    sentence, table = answers(*THREE)
    assert sentence == Sentence("Best of 3 configurations: a, 100 tokens/s; the next best has -20.0 %.", "reason")
    assert isinstance(table, AnswerTable) and table.title == "configurations" and table.note == ""
    assert [(head.name, head.number) for head in table.heads] == [
        ("configurations", False), ("runs", True), ("tokens/s", True), ("change", True), ("", False)
    ]  # fmt: skip
    assert table.rows[0] == ["a", Number(4, "4"), Number(100.0, "100"), Number(None, "-"), Bar(0.0, 1.0)]
    assert table.rows[2][2:] == [Number(25.0, "25"), Number(-0.75, "-75.0 %"), Bar(0.0, 0.25)]
    (first, _) = answers(configuration("a", 100.0), configuration("b", None, change=None), configuration("c", None))
    assert isinstance(first, Sentence) and first.text == "Best of 3 configurations: a, 100 tokens/s."


def test_where_there_is_no_sweep() -> None:
    assert answers(*THREE[:2]) == [] != answers(*THREE)
    assert answers(*THREE, runs=10) == [] != answers(*THREE, runs=11)
    assert answers(*THREE, programs=2) == []
    assert answers(*THREE, runs=25) == [] != answers(*THREE, runs=24)  # half of the runs
    failed = (*THREE, configuration("d", None, failed=1))
    assert answers(*failed, runs=34) != [] == answers(*failed, runs=35)


def test_times_and_what_failed() -> None:
    rows = [configuration(f"c{n}", 2.0 + n, figure="step_time_s") for n in range(10)]
    rows += [configuration(f"f{n}", None, failed=1, figure="step_time_s") for n in range(4)]
    sentence, table = answers(*rows)
    assert isinstance(sentence, Sentence) and isinstance(table, AnswerTable)
    assert sentence.text == "Best of 14 configurations: c0, 2 s."
    assert [row[0] for row in table.rows] == [*(f"c{n}" for n in range(8)), "f0", "f1", "f2"]
    assert [head.name for head in table.heads] == ["configurations", "runs", "failed", "step", ""]
    assert table.note == "3 more: perflog analyze RUN configurations"
    assert table.rows[1][2:] == [Number(None, "-"), Number(3.0, "3 s"), Bar(0.0, 3 / 11)]
    assert table.rows[8][2:] == [Number(1, "1"), Number(None, "-"), Bar(0.0, 0.0)]


def test_several_sweeps_are_named() -> None:
    rows = [row | {"sweep": name} for name in "stuv" for row in THREE]
    found = answers(
        *rows, *(row | {"sweep": "few"} for row in THREE[:2]), factors=(FACTOR | {"sweep": "t", "value": "8"},)
    )
    assert [each.text[:28] for each in found if isinstance(each, Sentence)] == [
        f"Best of 3 configurations of {name}"[:28] for name in "stu"
    ]
    titles = [each.title for each in found if isinstance(each, AnswerTable)]
    assert titles == [
        "configurations of s",
        "configurations of t",
        "what each setting does of t",
        "configurations of u",
    ]


def test_what_each_setting_does() -> None:
    """Bars begin at the first value; more of a rate is better, and less of a time."""
    factors = [
        FACTOR | {"value": "8"},
        FACTOR | {"value": "16", "change": 0.3, "change_low": 0.2, "change_high": 0.4, "best_in": 3},
        FACTOR | {"value": "4", "change": -0.1, "also": "lr"},
    ]  # fmt: skip
    for figure, better, by in (("tokens_per_s", True, ""), ("step_time_s", False, ""), ("loss", False, " by loss")):
        made = [row | {"figure": figure} for row in (*THREE, *factors)]
        table = answers(*made[:3], factors=tuple(made[3:]))[2]
        title = f"what each setting does{by}"
        assert isinstance(table, AnswerTable) and table.title == title
        assert [head.name for head in table.heads] == [
            title, "value", "runs", "change", "interval", "", "best in", "also differs"
        ]  # fmt: skip
        assert [head.name for head in table.heads if head.number] == ["runs", "change", "best in"]
        base, more, less = table.rows
        assert base[1:4] == ["8", Number(4, "4"), Number(0.0, "base")]
        assert more[3:] == [Number(0.3, "+30.0 %"), "+20.0 .. +40.0 %", more[5], Number(3, "3"), None]
        bars = [row[5] for row in (base, more, less)]
        assert [(round(bar.start, 3), round(bar.end, 3)) for bar in bars if isinstance(bar, Bar)] == [
            (0.25, 0.25), (0.25, 1.0), (0.25, 0.0)
        ]  # fmt: skip
        assert [bar.better for bar in bars if isinstance(bar, Bar)][1:] == [better, not better]
        assert less[7] == "lr"
    many = answers(*THREE, factors=tuple(FACTOR | {"value": str(n)} for n in range(26)))[2]
    assert isinstance(many, AnswerTable) and many.note == "2 more: perflog analyze RUN factors" and len(many.rows) == 24
