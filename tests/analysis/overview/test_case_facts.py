"""Benchmarks over parameters in words: best and worst cases, variants, values of unknown cases."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from perflog.analysis.overview.facts import case_facts as module
from perflog.metrics import Options, Tables

if TYPE_CHECKING:
    from support.metric_tables import MetricRow

ROW: MetricRow = {
    "run": "r", "table": 1, "over": "size", "key": "time", "unit": "s", "cases": 12, "failed": 0, "failed_at": None,
    "better": "lower", "min": 1.0, "min_at": "a", "max": 2.0, "max_at": "b", "first_line": 3, "last_line": 1234,
}  # fmt: skip


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The sentences on these rows of run `r`; `settings`: of each table of cases."""

    def sentences(
        *rows: MetricRow, settings: tuple[dict[str, str], ...] = ({},), scaling: tuple[int, ...] = ()
    ) -> list[str]:
        made = pd.DataFrame([*(ROW | row for row in rows), ROW | {"run": "other", "table": 9}])
        with_settings = [
            SimpleNamespace(settings=each, shown_value=lambda name, x: f"{name[0]}={x}") for each in settings
        ]
        studies = [SimpleNamespace(table=number, sizes=[1], runs={1: ["r"]}) for number in scaling]
        monkeypatch.setattr(module, "cases", SimpleNamespace(table=lambda *_: made))
        monkeypatch.setattr(module, "case_tables", lambda _: {"r": with_settings})
        monkeypatch.setattr(module, "table_studies", lambda _: studies)
        monkeypatch.setattr(module, "_without_case", lambda *_: ["without case"])
        return list(module.measured_cases(SimpleNamespace(), "r", Options()))  # type: ignore[arg-type]

    return sentences


def test_the_best_case_and_the_worst(said: Any) -> None:
    """The first four metrics with a known direction, what a search optimises first."""
    rate = {"key": "rate", "unit": "1/s", "better": "higher"}
    assert said({}, rate) == [
        "12 cases over size: time best 1 s (a), worst 2 s (b); rate best 2 1/s (b), worst 1 1/s (a)."
    ]
    (text,) = said(*({"key": name} for name in "abc"), {"key": "objective", "better": None}, rate, {"cases": 13})
    assert text == (
        "13 cases over size: objective 1 s (a) to 2 s (b); a best 1 s (a), worst 2 s (b); b best 1 s (a), worst 2 s "
        "(b); rate best 2 1/s (b), worst 1 1/s (a); 2 more metrics."
    )


def test_a_time_of_0_is_too_short_for_the_clock_and_not_the_best(said: Any) -> None:
    assert said({"min": 0.0}) == ["12 cases over size: time 0 s (a) to 2 s (b)."]


def test_what_does_not_vary_is_left_out_if_anything_does(said: Any) -> None:
    equal = {"key": "equal", "min": 2.0}
    assert said({}, equal) == said({})
    assert said(equal) == ["12 cases over size: equal 2 s in all."]
    assert said(ROW | {"min": None, "max": None}) == said() == ["without case"]


def test_metrics_without_a_direction_are_shown_beside_plain_numbers(said: Any) -> None:
    """A speedup has no unit: then what was measured is shown too, times before it."""
    speedup, other = {"key": "speedup", "unit": None, "better": "higher"}, {"key": "time", "better": None}
    assert said(other, speedup) == ["12 cases over size: time 1 s (a) to 2 s (b); speedup best 2 (b), worst 1 (a)."]
    assert said(other, {}) == ["12 cases over size: time 1 s (a) to 2 s (b); time best 1 s (a), worst 2 s (b)."]
    assert said(other | {"unit": None}, {}) == ["12 cases over size: time best 1 s (a), worst 2 s (b); 1 more metric."]


def test_a_rate_takes_the_last_place(said: Any) -> None:
    """Without a rate among the first four, the plainest rate of work is named; else the shortest name."""
    times: list[MetricRow] = [{"key": name} for name in "abcd"]
    rates = [{"key": name, "unit": "1/s"} for name in ("requests", "output_tok_mean", "tok_rate")]
    for given, named in ((rates, "tok_rate"), (rates[:2], "output_tok_mean"), (rates[:1], "requests"), ([], "d")):
        (text,) = said(*times, *given)
        assert [part.split(" best ")[0] for part in text.partition(": ")[2].split("; ")[:4]] == ["a", "b", "c", named]
    (text,) = said({"key": "bandwidth", "unit": "GB/s"}, *times, *rates)
    assert "tok" not in text


def test_cases_without_a_finite_value(said: Any) -> None:
    assert "12 cases over size (3 without a finite value: x, y): " in said({"failed": 3, "failed_at": "x, y"}, {})[0]
    many = said({"failed": 3, "failed_at": "x"}, {"failed": 1004, "failed_at": "z"})
    assert "(1004 without a finite value: z and 1,001 more)" in many[0]


def test_several_tables_of_cases(said: Any) -> None:
    """Each has its lines and the settings that not all have; tables of scaling studies are left out."""
    settings: tuple[dict[str, str], ...] = ({"dtype": "f32", "op": "mm"}, {"dtype": "f16", "op": "mm"}, {})
    tables = [{"table": 1}, {"table": 2, "over": "n", "first_line": 2000, "last_line": 2100}]
    ends = "time best 1 s (a), worst 2 s (b)"
    assert said(*tables, settings=settings[:2]) == [
        f"12 cases over size (dtype d=f32), lines 3 to 1,234: {ends}.",
        f"12 cases over n (dtype d=f16), lines 2,000 to 2,100: {ends}.",
    ]
    assert said(*tables, settings=settings[:2], scaling=(1,)) == [f"12 cases over n: {ends}."]
    many: tuple[dict[str, str], ...] = (dict.fromkeys("abcd", "1"), {})
    assert said(*tables, settings=many)[0].startswith("12 cases over size, lines")
    assert said(*tables, settings=(dict.fromkeys("abc", "1"), {}))[0].startswith(
        "12 cases over size (a a=1, b b=1, c c=1), lines"
    )
    six = [{"table": number} for number in range(1, 7)]
    assert said(*six, settings=({},) * 6)[4:] == ["2 more tables of cases."]
    assert len(said(*six[:4], settings=({},) * 4)) == 4


def test_values_of_unknown_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    values: list[tuple[str, float | None, str | None]] = [
        ("a", 2.0, "s"),
        ("a", 1.0, "s"),
        ("b", 3.0, None),
        ("b", 3.0, None),
        ("c", 1.0, "s"),
        ("c", 1.0, "B"),
    ]
    values += [("a", None, "s"), ("other", 9.0, "s")]
    frame = pd.DataFrame([
        {"run": "r", "line": at, "part": 0, "key": key, "value": value, "unit": unit}
        for at, (key, value, unit) in enumerate(values, 10)
    ])  # fmt: skip
    monkeypatch.setattr(module, "names_without_case", lambda _: {"a", "b", "c", "d"})
    assert list(module._without_case(Tables({"values": frame}), "r")) == [
        "Measured: a 1 s (line 11) to 2 s (line 10), 2 times; b 3 (line 12), 2 times."
    ]
    for number, more in ((4, ""), (5, "; 1 more metric"), (6, "; 2 more metrics")):
        names = [f"n{n}" for n in range(number)]
        made = pd.DataFrame([{**frame.iloc[0].to_dict(), "key": name} for name in names])
        monkeypatch.setattr(module, "names_without_case", lambda _, names=names: {*names})
        shown = "; ".join(f"{name} 2 s (line 10), 1 times" for name in names[:4])
        assert list(module._without_case(Tables({"values": made}), "r")) == [f"Measured: {shown}{more}."]
    assert list(module._without_case(Tables({"values": frame[-1:]}), "r")) == []


PAIR: MetricRow = {
    "run": "r", "cases": 2, "min": 0.5, "min_at": "x", "max": 1.25, "max_at": "y", "ratio": 0.8, "key": "time",
    "variant": "new", "base": "old", "better": "lower",
}  # fmt: skip


def test_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    def sentences(*rows: MetricRow) -> list[str]:
        made = pd.DataFrame([PAIR | {"run": "other"}, *(PAIR | row for row in rows)])
        monkeypatch.setattr(module, "case_pairs", SimpleNamespace(table=lambda *_: made))
        return list(module.variants(None, "r", Options()))  # type: ignore[arg-type]

    text = "new / old: time 0.5x (x) to 1.25x (y), 0.8x in the geometric mean of 2 cases."
    assert sentences({}) == [text]
    assert sentences({"key": None}) == [text.replace("time ", "")]
    assert sentences({"cases": 1}, {"min": 0.995, "max": 1.005}) == []  # one case; equal variants
    assert len(sentences({"min": 0.9949, "max": 1.0}, {"min": 1.0, "max": 1.0051})) == 2
    assert sentences(*[{}] * 3) == [text] * 3
    assert sentences(*[{}] * 5)[3:] == ["2 more pairs of variants are compared by case."]
    rate = sentences(*[{}] * 4, {"key": "rate", "better": "higher"})[2]  # a rate takes the last place
    assert rate == text.replace("time", "rate")
