"""Settings in which sides differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perflog.analysis.compare import side_settings
from perflog.analysis.compare.sides import Case


def sides(*by_side: list[dict[str, str]]) -> tuple[list[Any], list[Case]]:
    """Sides whose runs have these settings, and their case."""
    names = [[f"{side}{run}" for run in range(len(runs))] for side, runs in zip("abc", by_side, strict=False)]
    made = [
        SimpleNamespace(name=side, settings=dict(zip(runs, values, strict=True)))
        for side, runs, values in zip("abc", names, by_side, strict=False)
    ]
    return made, [Case("c", tuple(map(tuple, names)))]


def settings(*by_side: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    """The settings in which sides with these runs differ."""
    return {row.setting: dict(row.values) for row in side_settings.differing_settings(*sides(*by_side))}


def test_settings_in_which_sides_differ() -> None:
    """A seed counts where each side has one; seeds that vary between repeats do not."""
    assert settings([{"lr": "1", "seed": "1"}], [{"lr": "2", "seed": "2"}]) == {
        "lr": {"a": "1", "b": "2"}, "seed": {"a": "1", "b": "2"},
    }  # fmt: skip
    base = [{"lr": "1", "seed": "1"}, {"lr": "1", "seed": "2"}]
    assert settings(base, [{"lr": "2", "seed": "3"}, {"lr": "3", "seed": "4"}]) == {"lr": {"a": "1", "b": "2 | 3"}}
    assert settings([{"lr": "1"}], [{}]) == {"lr": {"a": "1", "b": "-"}}
    assert settings([{"lr": "1", "pid": "7"}], [{"lr": "1", "pid": "8"}]) == {}
    assert settings([{"pid": "7", "lr": "1"}], [{"pid": "8", "lr": "2"}]) == {"lr": {"a": "1", "b": "2"}}
    assert settings([{"lr": "1"}, {"lr": "2"}], [{"lr": "2"}, {"lr": "1"}]) == {}


def test_settings_that_vary_between_repeats() -> None:
    made = sides([{"lr": "1", "x": "1"}, {"lr": "2", "x": "1"}, {"lr": "1"}], [{"lr": "3"}])
    assert [(row.side, row.setting, row.values) for row in side_settings.varied_settings(*made)] == [
        ("a", "lr", ("1", "2")), ("a", "x", ("1", "-")),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("by_side", "expected"),
    [
        ([[{"model": "7b", "lr": "1"}], [{"model": "7B", "lr": "2"}]], []),
        ([[{"model": "7b"}], [{"model": "8b"}]], [("b", "model", "7b", "8b")]),
        ([[{"model": "7b"}], [{}]], []),  # what one log does not print says nothing
        ([[{}], [{"model": "7b"}]], []),
        ([[{"world_size": "8"}, {"world_size": "4"}], [{"world_size": "4"}]], []),  # a value of both sides
        (
            [[{"world_size": "8"}, {"world_size": "4"}], [{"world_size": "2"}, {}]],
            [("b", "world_size", "8 | 4", "2")],
        ),
        (
            [[{"world_size": "8", "model": "x"}], [{"world_size": "8"}], [{"world_size": "4", "model": "y"}]],
            [("c", "world_size", "8", "4"), ("c", "model", "x", "y")],
        ),
        (
            [[{"world_size": "8"}], [{"world_size": "4"}], [{"world_size": "4"}]],
            [("b", "world_size", "8", "4"), ("c", "world_size", "8", "4")],
        ),
    ],
)
def test_settings_in_which_sides_do_not_compare(
    by_side: list[list[dict[str, str]]], expected: list[tuple[str, ...]]
) -> None:
    made = sides(*by_side)
    found = [(row.side, row.setting, row.base_value, row.side_value) for row in side_settings.other_settings(*made)]
    assert found == expected
    asked = {setting for _, setting, *_ in expected}
    assert side_settings.other_settings(*made, asked) == []
