"""Causes in the tables of profilers, from tables of metrics that are made by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.metric_tables import replace_table

from perflog.metrics import Options
from perflog.metrics.causes import profile_causes as module
from perflog.metrics.profiles.kernel_categories import OTHER
from perflog.metrics.step_time.breakdown import NOT_LISTED

if TYPE_CHECKING:
    import pytest

TABLES: Any = None  # each table that a source needs is replaced


def category(name: str, time_s: float, of: str = "gpu") -> dict[str, Any]:
    return {"of": of, "part": name, "time_s": time_s, "whole_s": 10.0, "n": 7}


def kernel(name: str, of_category: str, time_s: float, calls: int = 4, of: str = "gpu") -> dict[str, Any]:
    return {"of": of, "by": "name", "name": name, "category": of_category, "time_s": time_s, "calls": calls,
            "avg_s": time_s / 4}  # fmt: skip


def found(monkeypatch: pytest.MonkeyPatch, parts: list[dict[str, Any]], names: list[dict[str, Any]]) -> list[Any]:
    replace_table(monkeypatch, module, "breakdown", *parts, **category("copies", 1.0, "step"))
    replace_table(monkeypatch, module, "kernels", *names, **kernel("of another run", "products", 99.0))
    return list(module.categories(TABLES, Options()))


def test_a_category_binds_and_its_largest_kernel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        kernel("small", "products", 1.0),
        kernel("large", "products", 3.0),
        kernel("api", "products", 8.0, of="api"),
        kernel("range", "products", 9.0) | {"by": "category"},
        kernel("add", "elementwise", 2.0),
    ]
    parts = [category("products", 4.0), category("elementwise", 2.0), category(NOT_LISTED, 4.0)]
    made = found(monkeypatch, parts, names)
    assert [(c.subject, c.name, c.time_s, c.gain_s, c.n, c.each_s, c.may_bind) for c in made] == [
        ("kernels", "products", 4.0, 4.0, 7, None, True),
        ("kernels", "elementwise", 2.0, 2.0, 7, None, True),
        ("kernel", "large", 3.0, 3.0, 4, 0.75, False),
    ]
    assert {(c.run, c.of, c.whole_s, c.metric) for c in made} == {("r", "gpu", 10.0, "kernels")}


def test_a_kernel_binds_where_its_category_describes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = found(monkeypatch, [category(OTHER, 4.0, "api")], [kernel("x", OTHER, 4.0, calls=0, of="api")])
    assert [(c.subject, c.n, c.each_s, c.may_bind) for c in made] == [
        ("kernels", 7, None, False),
        ("kernel", None, None, True),
    ]


def test_without_names_there_are_categories_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = found(monkeypatch, [category("products", 4.0)], [kernel("add", "elementwise", 2.0)])
    assert [c.subject for c in made] == ["kernels"]


def test_runs_keep_their_order_and_one_call_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_table(monkeypatch, module, "breakdown", category("products", 4.0), **category("copies", 1.0))
    replace_table(monkeypatch, module, "kernels", kernel("x", "products", 4.0, calls=1), **kernel("y", "copies", 1.0))
    made = list(module.categories(TABLES, Options()))
    assert [(c.run, c.name, c.n) for c in made] == [
        ("r", "products", 7),
        ("r", "x", 1),
        ("other", "copies", 7),
        ("other", "y", 4),
    ]
    assert made[1].each_s == 1.0
