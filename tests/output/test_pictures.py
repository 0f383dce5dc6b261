"""Plots on a page: they hold the values of the tables, and no text from a log is more than text."""

from __future__ import annotations

import json
import math
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
from perflog.output.report.html import pictures as module
from perflog.output.report.html.pictures import picture
from perflog.plots.drawing.canvas import extremes
from perflog.plots.drawing.sketch import Panel, Sketch, Text, set_cell_names, set_mark_name

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


# --- places and shapes ------------------------------------------------------------------------------------------------


def panel(x: tuple[float, float] = (0, 10), y: tuple[float, float] = (0, 1), **base: float) -> Panel:
    drawn: Panel = Sketch(9, 3).subplots()
    drawn.xaxis.base, drawn.yaxis.base = base.get("x_base"), base.get("y_base")
    drawn.set_xlim(*x)
    drawn.set_ylim(*y)
    return drawn


def place_of(drawn: Panel) -> Any:
    return module._Place(drawn, drawn.get_xlim(), drawn.get_ylim())


def test_places_are_parts_of_the_width_and_pixels_from_the_top() -> None:
    place = place_of(panel((10, 20), (0, 4)))
    height = place.height
    assert [place.right(x) for x in (10, 15, 20, 25)] == [0, 0.5, 1, 1.5]
    assert [place.down(y) for y in (0, 1, 4)] == [height, height * 0.75, 0]
    assert place.units(np.array([12.0])).tolist() == [2000] and place.depths(np.array([4.0, 0])).tolist() == [
        0,
        10 * height,
    ]
    powers = place_of(panel((1, 100), (0, 1), x_base=10))
    assert [powers.right(x) for x in (1, 10, 100)] == [0, 0.5, 1] and math.isnan(powers.right(-1))
    assert module._percents(place, 12, 14) == 'x="20%" width="20%"'
    assert module._percents(place, 14, 12) == 'x="40%" width="0%"'


@pytest.mark.parametrize(
    ("x", "y", "dots", "path"),
    [
        ([0, 10, 20], [5, 5, 2], False, "M0 5l10 0l10-3"),
        ([0.4, 10.6], [5, 7.6], False, "M0 5l11 3"),
        ([0, 10, np.nan, 20, 30], [5, 5, 5, 5, 6], False, "M0 5l10 0M20 5l10 1"),  # broken where it is not known
        ([0, 10], [5, np.inf], False, "M0 5"),
        ([-90_000, 90_000], [5, 9e9], False, "M-10000 5l30000 99995"),  # no further than a browser draws
        ([1, 1, 2], [5, 5, 5], True, "M1 5h0M2 5h0"),  # a dot on a dot is one
        ([], [], False, ""),
    ],
)
def test_a_path_goes_through_the_points(x: list[float], y: list[float], dots: bool, path: str) -> None:
    assert module._path(np.array(x, np.float64), np.array(y, np.float64), dots) == path


def test_lines_by_steps_and_points_that_are_not_at_one_place() -> None:
    x, y = module._stepped(np.array([0, 10, 20]), np.array([1, 2, 3]))
    assert (x.tolist(), y.tolist()) == ([0, 10, 10, 20, 20], [1, 1, 2, 2, 3])
    x, y = module._distinct(np.array([0.0, 7, 8, 30]), np.array([0.0, 2, 0, 0]))
    assert sorted(zip(x.tolist(), y.tolist(), strict=True)) == [(0, 0), (15, 0), (30, 0)]


@pytest.mark.parametrize(
    ("color", "alpha", "fill", "stroke"),
    [
        ("#ff0000", 1.0, ' fill="#ff0000"', ' stroke="#ff0000"'),
        ("#ff0000", 0.5, ' fill="#ff0000" fill-opacity="0.5"', ' stroke="#ff0000" stroke-opacity="0.5"'),
        ("#333333", 1.0, ' fill="currentColor" fill-opacity="0.8"', ' stroke="currentColor" stroke-opacity="0.8"'),
        ("#333333", 0.5, ' fill="currentColor" fill-opacity="0.4"', ' stroke="currentColor" stroke-opacity="0.4"'),
        ("#000000", 1.0, ' fill="currentColor" fill-opacity="1"', ' stroke="currentColor"'),
        ("#ffffff", 1.0, ' fill="#ffffff"', ' stroke="currentColor" stroke-opacity="0"'),
    ],
)
def test_greys_are_layers_of_the_ink_of_a_page(color: str, alpha: float, fill: str, stroke: str) -> None:
    assert (module._plain_fill(color, alpha), module._stroke(color, alpha)) == (fill, stroke)
    assert module._plain_fill("") == ' fill="none"'
    assert [module._is_grey(text) for text in ("#123456", "#777777", "#777778", "", "red")] == [
        False, True, False, False, False
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("n" * 30, "n" * 30), ("a" * 20 + "b" * 11, "a" * 20 + "…" + "b" * 9), ("  " + "n" * 30, "  " + "n" * 30),
        ("  " + "a" * 25 + "b" * 25, "  " + "a" * 20 + "…" + "b" * 9),
    ],
)  # fmt: skip
def test_long_names_are_cut_in_the_middle_behind_their_indent(name: str, cut: str) -> None:
    assert module._cut(name) == cut


def test_names_beside_a_panel() -> None:
    """To the right, or by their depth in a tree; each line of a name has its own height."""
    place = place_of(panel())
    middle = place.height / 2
    plain = module._names(place, [(0.5, "one\ntwo")], True)
    assert re.findall(r'<text (.*?) y="(.*?)">(.*?)<', plain) == [
        ('x="100%" dx="-6"', f"{middle - 2.5:.1f}", "one"), ('x="100%" dx="-6"', f"{middle + 10.5:.1f}", "two"),
    ]  # fmt: skip
    assert 'class="y"' in plain and f'width="{int(3 * 6.2) + 12}"' in plain
    tree = module._names(place, [(0.5, "step"), (0.25, "   mlp")], True)
    assert re.findall(r"<text (.*?) y=.*?>(.*?)<", tree) == [('x="0"', "step"), ('x="9"', "mlp")]
    assert 'class="y tree"' in tree and 'class="y"' in module._names(place, [(0.5, "   5")], False)
    assert 'width="24"' in module._names(place, [], False)


@pytest.mark.parametrize(
    ("fields", "said"),
    [({}, "3"), ({"key": "mlp"}, "mlp: 3"), ({"key": "mlp", "name": "MLP"}, "MLP: 3"),
     ({"key": "mlp", "gid": "box"}, "mlp: quartiles 2 to 5")],
)  # fmt: skip
def test_what_a_bar_says(fields: dict[str, str], said: str) -> None:
    bars = panel().barh([1], [3])
    for name, value in fields.items():
        setattr(bars, name, value)
    assert module._said(bars, 2.0, 5.0) == said


def drawn(made: Panel) -> str:
    return str(picture(made.sketch, "p", "title"))


def test_bars_have_their_ends_and_those_without_length_are_left_out() -> None:
    made = panel()
    made.barh([0.5, 0.5, 0.5], [4, 0, np.nan], 0.5, left=[2, 2, 2], color="#ff0000")
    made.barh([0.5], [-1], 0.5, left=[2], color="#ff0000")
    height = place_of(made).height
    assert re.findall(r'<rect (x=.*?)><title>(.*?)<', drawn(made)) == [
        (f'x="20%" width="40%" y="{height / 4:.1f}" height="{height / 2:.1f}"', "4"),
        (f'x="10%" width="10%" y="{height / 4:.1f}" height="{height / 2:.1f}"', "-1"),
    ]  # fmt: skip


def test_spans_are_strokes_and_none_hides_behind_another() -> None:
    made = panel()
    made.broken_barh([(1, 2), (1.5, 0.5), (2, 2), (6, 0)], (0.25, 0.5))
    (path,) = re.findall(r'<path data-s="0"[^>]* d="(.*?)"', drawn(made))
    middle = round(place_of(made).height * 10 / 2)
    assert path == f"M0 {middle}m1000 0h2000m0 0h1000m2000 0h5"


@pytest.mark.parametrize(
    ("x", "text", "across", "attributes"),
    [
        (5, "at", "center", 'x="50%" {y} text-anchor="middle"'), (5, "at", "left", 'x="50%" {y} dx="3"'),
        (9.9, "a long text", "left", 'x="99%" {y} dx="-3" text-anchor="end"'),  # it has no room to the right
        (10.2, "at", "left", None), (-0.2, "at", "left", None), (math.nan, "at", "left", None),
        (10.05, "at", "right", 'x="100.5%" {y} dx="3" text-anchor="end"'),
    ],
)  # fmt: skip
def test_texts_are_inside_of_the_panel(x: float, text: str, across: str, attributes: str | None) -> None:
    made = panel()
    made.marks.append(Text(text=text, x=x, y=0.5, shift=(0 if across == "center" else 3, 0), across=across))
    found = re.findall(rf"<text ([^>]*?)(?: fill=[^>]*)?(?: class=\"halo\")?>{text}<", drawn(made))
    middle = place_of(made).height / 2
    assert found == ([] if attributes is None else [attributes.format(y=f'y="{middle:.1f}"')])


@pytest.mark.parametrize(
    ("count", "style", "dots"),
    [
        (3, {"marker": "o"}, True), (3, {"marker": "s"}, False), (3, {"marker": "o", "mfc": "none"}, False),
        (501, {"marker": "o", "mfc": "none"}, True), (500, {"marker": "o", "mfc": "none"}, False),
    ],
)  # fmt: skip
def test_points_are_dots_or_keep_their_shape(count: int, style: dict[str, str], dots: bool) -> None:
    made = panel((0, 1000))
    (line,) = made.plot(np.arange(count), np.full(count, 0.5), linestyle="", **style)
    written = drawn(made)
    assert module._are_dots(line) is dots and ('class="dots"' in written) is dots
    shapes = len(re.findall(r"<use |<circle ", written.partition("</defs>")[2]))
    assert shapes == (0 if dots else count)


def test_points_outside_of_the_panel_are_left_out() -> None:
    made = panel()
    made.plot([-0.001, 0, 5, 10, 10.001, np.nan], [0.5] * 6, "s")
    assert re.findall(r'<use href="#p-73" x="(.*?)"', drawn(made)) == ["0%", "50%", "100%"]


def test_a_line_needs_two_points_and_a_style() -> None:
    made = panel()
    made.plot([1], [0.5], "-")
    made.plot([1, 2], [0.5, 0.5], "s")
    made.plot([1, 2], [0.5, 0.5], "--")
    assert re.findall(r'<g data-s="(\d)"><path d="(.*?)"', drawn(made))[0][0] == "2"
    assert drawn(made).count('stroke-dasharray="6 4"') == 1


def test_the_legend_has_each_entry_once() -> None:
    made = panel()
    (line,) = made.plot([1, 2], [0, 1], label="loss")
    (same,) = made.plot([1, 2], [0, 1], label="loss")
    bars = made.barh([0.5], [3], label="bar")
    made.sketch.legend([line, same, bars], title="what")
    written = drawn(made)
    assert re.findall(r'<li data-k="(\d)">.*?<span>(.*?)</span>', written) == [("0", "loss"), ("1", "bar")]
    assert "<li>what:</li>" in written and written.count('data-k="0"') == 3
    assert 'class="legend"' not in drawn(panel())
