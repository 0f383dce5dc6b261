"""Plots on a page: which are seen at once, which are folded, and what is below them."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from perflog.output.report.html import plots as module


def plot(metric: str, height: int = 300) -> Any:
    return SimpleNamespace(metric=metric, name=metric, title=metric, caption="says", sketch=None, height=height)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Metrics of the plots that are seen at once, that are folded, and that are with the jobs."""
    monkeypatch.setattr(module, "picture", lambda _sketch, name, _title: f"[{name}]")

    def of(*plots: Any, light: int = 99, jobs: bool = False) -> list[list[str]]:
        monkeypatch.setattr(module, "has_jobs", lambda _: jobs)
        report: Any = SimpleNamespace(plots=list(plots), light_plots=list(plots[:light]))
        parts = [module.first_plots(report), module.more_plots(report), "".join(module.timeline_plots(report))]
        return [re.findall(r'data-plot="(\w+)"|class="more">(\d+ more)', part) for part in parts]

    return lambda *plots, **more: [["".join(names) for names in part] for part in of(*plots, **more)]


@pytest.mark.parametrize(
    ("heights", "seen"),
    [
        ({"a": 300, "b": 300, "c": 300}, ["a", "b"]),
        ({"a": 801, "b": 800, "c": 300}, ["b", "c"]),  # the first that fit a screen
        ({"a": 801, "b": 801}, ["a"]),  # none does
        ({"a": 801, "trace_timeline": 900, "b": 300}, ["trace_timeline", "b"]),
        ({"timeline": 300, "b": 300}, ["timeline", "b"]),
        ({}, []),
    ],
)
def test_plots_that_are_seen_at_once(shown: Any, heights: dict[str, int], seen: list[str]) -> None:
    others = [name for name in heights if name not in seen]
    assert shown(*(plot(name, height) for name, height in heights.items())) == [seen, others, []]


def test_the_timeline_of_jobs_is_with_the_jobs(shown: Any) -> None:
    assert shown(plot("timeline"), plot("a"), jobs=True) == [["a"], [], ["timeline"]]


def test_plots_that_are_too_heavy_are_counted(shown: Any) -> None:
    names = [plot(name) for name in "abcde"]
    assert shown(*names, light=3) == [["a", "b"], ["c", "2 more"], []]


@pytest.mark.parametrize(("metric", "told"), [("steps", False), ("trace_timeline", True)])
def test_below_a_plot_are_its_numbers(monkeypatch: pytest.MonkeyPatch, metric: str, told: bool) -> None:
    """And where to see each event of a trace."""
    monkeypatch.setattr(module, "picture", lambda _sketch, name, _title: f"[{name}]")
    monkeypatch.setattr(module, "has_jobs", lambda _: False)
    both = [plot("other"), plot(metric)]
    report: Any = SimpleNamespace(plots=both, light_plots=both[1:])
    html = module.first_plots(report)
    assert "[p1]" in html and f'says. <a href="#metric-{metric}">Go to the numbers</a>' in html
    assert ("perflog export RUN --to perfetto" in html) == told
