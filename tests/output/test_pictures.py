"""Plots on a page: they hold the values of the tables, and no text from a log is more than text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.paths import TESTS

import perflog
from perflog.metrics import Tables
from perflog.metrics.step_time.breakdown import part_name
from perflog.metrics.step_time.wait import wait_steps
from perflog.output.report import collect, to_html
from perflog.output.report.html.pictures import picture
from perflog.plots.drawing.canvas import extremes
from perflog.plots.drawing.sketch import Sketch, set_cell_names, set_mark_name

DATA = TESTS / "data"


@cache
def page(name: str) -> str:
    return to_html(collect(str(DATA / f"{name}.txt")))


def data(text: str, title: str) -> list[dict[str, Any]]:
    """The values that a page holds of a plot, a dict for each panel."""
    figure = next(part for part in text.split("<figure ")[1:] if f">{title}</h3>" in part)
    found = re.search(r'<script type="application/json">(.*?)</script>', figure)
    assert found
    panels: list[dict[str, Any]] = json.loads(found[1])
    return panels


def unpacked(values: Any) -> list[float]:
    return values if isinstance(values, list) else [values["from"] + k * values["by"] for k in range(values["n"])]


@pytest.mark.parametrize("name", ["moe_layer", "training_sweep"])
def test_step_times_of_a_page_are_those_of_table_steps_with_their_lines(name: str) -> None:
    steps = perflog.read(DATA / f"{name}.txt").table("steps")
    steps = steps[steps["step_time_s"].notna()]
    runs = list(dict(list(steps.groupby("run", sort=False))).values())
    panels = data(page(name), "Step times")
    assert panels
    for panel, of_run in zip(panels, runs, strict=False):
        (series,) = [one for one in panel["series"].values() if one["label"] == "step"]
        factor = {"s": 1, "ms": 1e3, "us": 1e6}[panel["y"][0].rpartition("(")[2].rstrip(")")]
        by_step = of_run.groupby("step").agg({"step_time_s": "max"})["step_time_s"]
        assert unpacked(series["x"]) == list(by_step.index)
        assert series["y"] == pytest.approx(list(by_step * factor), rel=1e-5)
        printed = set(zip(of_run["step"], of_run["line"], strict=True))
        assert set(zip(unpacked(series["x"]), unpacked(series["lines"]), strict=True)) <= printed


def test_bars_say_the_figures_of_the_metric() -> None:
    text = page("moe_layer")
    figure = next(part for part in text.split("<figure ")[1:] if ">Where the time goes</h3>" in part)
    said = re.findall(r"<title>([^<]*): ([\d.]+)</title>", figure)
    rows = perflog.metrics.breakdown(perflog.read(DATA / "moe_layer.txt"))
    names = list(map(part_name, rows["of"], rows["part"], rows["kind"]))
    times = {f"{1e3 * time:.4g}" for time in rows["time_s"].groupby([rows["run"], names]).sum()}
    named = [value for name, value in said if name != "other parts"]
    assert named and set(named) <= times


def test_long_runs_keep_their_extremes_and_the_page_its_size() -> None:
    n = 30_000
    times = 20 + np.random.default_rng(4).random(n)
    times[17_003], times[20_001] = 23.5, 12.25
    keep, each = extremes(times)
    drawn = Sketch(9, 3)
    drawn.subplots().plot(np.arange(n)[keep], times[keep])
    written = picture(drawn, "p", "long")
    assert len(written) < 100_000
    (panel,) = json.loads(re.findall(r'json">(.*?)</script>', written)[0])
    (series,) = panel["series"].values()
    values = dict(zip(unpacked(series["x"]), series["y"], strict=True))
    assert (values[17_003], values[20_001], each) == (23.5, 12.25, 20)


class _Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)


@given(st.text(), st.sampled_from(["", "</script><img src=x onerror=alert(1)>", "]]><svg onload=x>", '" onx="']))
def test_no_text_is_more_than_text(text: str, hostile: str) -> None:
    text = text + hostile
    plain = _Tags(_drawn("name")).found
    assert _Tags(_drawn(text)).found == plain


def _drawn(text: str) -> str:
    sketch = Sketch(9, 3, [f"note {text}"])
    axes = sketch.subplots()
    (line,) = axes.plot([1, 2, 3], [1, 2, 3], marker="s", label=f"line {text}")
    bars = axes.barh([1, 2], [3, 4], label=f"bar {text}")
    axes.annotate(f"at {text}", (2, 2))
    axes.set_yticks([1, 2], [f"one {text}".replace("\n", " ").replace("\r", " "), "two"])
    axes.set(title=f"title {text}".replace("\n", " "), xlabel=f"x {text}", ylabel=f"y {text}")
    sketch.legend([line, bars], title=f"legend {text}")
    return picture(sketch, "p", f"plot {text}")


def test_dates_of_versions_are_places_on_the_axis() -> None:
    panel = Sketch(9, 3).subplots()
    dates = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 11, 31)]
    (line,) = panel.plot(np.array(dates), [1, 2, 3], "o")
    panel.axvline(dates[1])
    assert list(line.x) == [date.timestamp() for date in dates]
    written = picture(panel.sketch, "p", "history")
    assert len(re.findall(r">2026-01-\d\d<", written)) >= 3


def test_cells_say_the_waits_of_their_rank_and_step() -> None:
    """Also where an axis names only some of its places, or steps are missing."""
    waits = wait_steps(Tables(perflog.read(DATA / "moe_layer.txt")))
    waits = waits[waits["rank"].notna()]
    cells = data(page("moe_layer"), "Exposed wait")[0]["cells"]
    factor = {"s": 1, "ms": 1e3, "us": 1e6}[cells["label"].rpartition("(")[2].rstrip(")")]
    of_run = waits[waits["run"] == waits["run"].iloc[0]]
    table = of_run.groupby([of_run["rank"].astype(str), of_run["step"].astype(str)])["exposed_s"].sum()
    shown = {
        (row, column): value
        for row, values in zip(map(str, unpacked(cells["rows"])), cells["values"], strict=True)
        for column, value in zip(map(str, unpacked(cells["columns"])), values, strict=True)
        if value is not None
    }
    assert len(shown) == len(table)
    assert all(value == pytest.approx(table[place] * factor, rel=1e-3, abs=1e-9) for place, value in shown.items())


def test_a_cell_of_several_steps_names_them_all() -> None:
    panel = Sketch(9, 3).subplots()
    cells = panel.imshow(np.zeros((2, 2)), 0.0, 1.0)
    set_cell_names(cells, ["a", "b"], [0, 10, 20], (1, 2))
    assert (cells.rows, cells.columns) == (["a", "b"], ["0–10", "20"])


def test_areas_hold_their_heights_and_where_they_end() -> None:
    panel = Sketch(9, 3).subplots()
    panel.fill_between([1, 2], [0, 1], [4, 5], step="post", label="held")
    (found,) = json.loads(re.findall(r'json">(.*?)</script>', picture(panel.sketch, "p", "memory"))[0])
    assert list(found["series"].values()) == [{"label": "held", "x": [1, 2], "y": [4, 4], "top": [4, 5]}]


def test_a_bar_is_called_what_it_is_also_where_the_legend_says_more() -> None:
    panel = Sketch(9, 3).subplots()
    training, whole = panel.barh([0, 1], [3, 4], label="training"), panel.barh([2, 3], [5, 6], label="frame")
    training.set_label("training: 7 s")
    set_mark_name(whole, "forward")
    panel.sketch.legend([training, whole])
    written = picture(panel.sketch, "p", "timeline")
    assert re.findall("<title>(.*?)</title>", written) == ["training: 3", "training: 4", "forward: 5", "forward: 6"]
    assert re.findall("<span>(.*?)</span>", written) == ["training: 7 s", "frame"]


def test_a_page_is_written_without_matplotlib() -> None:
    log = str(DATA / "moe_layer_early.txt")
    code = f"import sys, perflog; perflog.report({log!r}); print('matplotlib' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["False"]
