"""Settings in which sides differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from perflog.analysis.compare import side_settings
from perflog.analysis.compare.sides import Case


def settings(*by_side: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    """The settings in which sides with these runs differ."""
    names = [[f"{side}{run}" for run in range(len(runs))] for side, runs in zip("ab", by_side, strict=True)]
    made: Any = [
        SimpleNamespace(name=side, settings=dict(zip(runs, values, strict=True)))
        for side, runs, values in zip("ab", names, by_side, strict=True)
    ]
    case = Case("c", tuple(map(tuple, names)))
    return {row.setting: dict(row.values) for row in side_settings.differing_settings(made, [case])}


def test_settings_in_which_sides_differ() -> None:
    """A seed counts where each side has one; seeds that vary between repeats do not."""
    assert settings([{"lr": "1", "seed": "1"}], [{"lr": "2", "seed": "2"}]) == {
        "lr": {"a": "1", "b": "2"}, "seed": {"a": "1", "b": "2"},
    }  # fmt: skip
    base = [{"lr": "1", "seed": "1"}, {"lr": "1", "seed": "2"}]
    assert settings(base, [{"lr": "2", "seed": "3"}, {"lr": "3", "seed": "4"}]) == {"lr": {"a": "1", "b": "2 | 3"}}
    assert settings([{"lr": "1"}], [{}]) == {"lr": {"a": "1", "b": "-"}}
    assert settings([{"lr": "1", "pid": "7"}], [{"lr": "1", "pid": "8"}]) == {}
    assert settings([{"lr": "1"}, {"lr": "2"}], [{"lr": "2"}, {"lr": "1"}]) == {}
