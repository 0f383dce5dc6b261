"""Sketches: the same calls give the same picture as on a figure of matplotlib, as data."""

from __future__ import annotations

import ast
import inspect
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from support.reading import DATA, NAMES

import perflog
from perflog import plots
from perflog.metrics import Options, Tables
from perflog.output.report.html.color_scales import CIVIDIS
from perflog.plots.drawing import sketch
from perflog.plots.drawing.sketch import Bars, Line, Panel, Sketch, set_lines, set_mark_name
from perflog.plots.registry import Plot
from perflog.plots.training import ranks
from perflog.tables.schema import TABLES


@cache
def tables(name: str) -> Tables:
    return Tables(perflog.read(DATA / f"{name}.txt"))


def test_every_kind_of_these_logs_can_be_a_sketch() -> None:
    assert len({plot.name for name in NAMES for plot in plots.possible(tables(name))}) >= 12


def test_the_colours_are_those_of_matplotlib() -> None:
    ours = np.array([list(color) for color in CIVIDIS], float)
    shares = np.linspace(0, 1, 256)
    between = np.stack([np.interp(shares, np.linspace(0, 1, len(ours)), ours[:, k]) for k in range(3)], axis=1)
    assert np.abs(between - mpl.colormaps["cividis"](shares)[:, :3] * 255).max() < 6


def test_one_step_and_one_value_have_nothing_to_show() -> None:
    one = Sketch(8, 4).subplots()
    line, other = one.plot([7], [1.0]) + one.plot([7], [2.0])
    one.axhline(1.5)
    assert not one.is_informative and not one.sketch.is_informative
    one.plot([8], [2.0])
    assert one.is_informative
    bar = Sketch(8, 4).subplots()
    bar.barh([0], [3.0])
    assert not bar.is_informative
    bar.barh([1], [3.0])
    assert bar.is_informative
    assert (line.x, other.y) == (np.array([7]), np.array([2.0]))


def test_a_sketch_knows_all_that_plots_ask_of_figures_and_axes() -> None:
    """Plots are typed for matplotlib, so no type checker sees what a sketch lacks."""
    known = {"axes": Panel, "figure": Sketch}
    asked = {
        (node.value.id, node.attr)
        for file in Path(inspect.getfile(Plot)).parent.rglob("*.py")
        if file.stem not in ("registry", "files", "notebook_figure", "sketch")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known
    }
    assert len(asked) > 30
    panel = Sketch(8, 4).subplots()
    there = {"axes": panel, "figure": panel.sketch}
    missing = {(name, attribute) for name, attribute in asked if not hasattr(there[name], attribute)}
    of_matplotlib = {("figure", name) for name in ("suptitle", "supxlabel", "get_figwidth")}
    assert missing <= of_matplotlib | {("axes", "get_yticklabels")}


def test_lines_and_names_are_told_to_sketches_only() -> None:
    panel = Sketch(8, 4).subplots()
    (line,) = panel.plot([1, 2], [3, 4])
    set_lines(line, [10, 11], 5)
    set_mark_name(line, "forward")
    assert (list(line.lines), line.each, line.name) == ([10, 11], 5, "forward")
    set_lines(artist := object(), [10, 11])
    set_mark_name(artist, "forward")


def test_a_box_is_where_matplotlib_draws_it() -> None:
    """Its last value is beyond the whiskers."""
    values = np.array([3.0, 1.0, 2.0, 4.0, 5.0, 2.5, 30.0])
    theirs = Figure().subplots().boxplot(values, positions=[2], orientation="horizontal", widths=0.4)
    panel = Sketch(8, 4).subplots()
    ours = panel.boxplot(values, positions=[2], widths=0.4)["whiskers"]
    for own, other in zip(ours, theirs["whiskers"], strict=True):
        assert (list(own.x), list(own.y)) == (list(other.get_xdata()), list(other.get_ydata()))
    (box,), (median,) = (theirs[name] for name in ("boxes", "medians"))
    (bar,) = (mark for mark in panel.marks if isinstance(mark, Bars))
    low, high = min(box.get_xdata()), max(box.get_xdata())
    assert (bar.left.tolist(), bar.right.tolist(), bar.y.tolist()) == ([low], [high], [2.0])
    lines = [mark for mark in panel.marks if isinstance(mark, Line)]
    assert (list(lines[-1].x), list(lines[-1].y)) == (list(median.get_xdata()), list(median.get_ydata()))


@pytest.mark.parametrize("color", ["0.0", "0.5", "0.88", "1.0", "white", "black", "#123456"])
def test_colours_are_those_that_matplotlib_makes_of_them(color: str) -> None:
    assert sketch._color(color) == to_hex(color)


def test_no_colour_is_none() -> None:
    assert sketch._color("none") == sketch._color("") == ""
    with pytest.raises(TypeError):
        sketch._color((1, 0, 0))


def test_cells_have_the_names_of_what_they_cover() -> None:
    cells = Sketch(8, 4).subplots().imshow(np.zeros((2, 3)), vmin=0, vmax=1)
    sketch.set_cell_names(cells, [0, 1, 2], range(5, 8), (2, 1))
    assert (cells.rows, cells.columns) == (["0–1", "2"], ["5", "6", "7"])
    sketch.set_cell_names(cells, ["a", "b"], ["x"])
    assert (cells.rows, cells.columns) == (["a", "b"], ["x"])
    sketch.set_cell_names(object(), ["a"], ["x"])  # of matplotlib


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_dates_are_the_same_places_in_any_type(unit: str) -> None:
    moments = [datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)]
    naive = np.array([moment.replace(tzinfo=None) for moment in moments], f"datetime64[{unit}]")
    drawn = Sketch(9, 3)
    axes = drawn.subplots()
    marks = [axes.plot(x, [1.0, 2.0])[0] for x in (np.array(moments, object), naive, pd.Series(naive))]
    assert axes.xaxis.dates
    assert [mark.x.tolist() for mark in marks] == [[moment.timestamp() for moment in moments]] * 3


def test_of_many_loads_only_those_that_are_drawn_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    log, grid = perflog.read(DATA / "moe_layer.txt"), ranks._grid
    computed: list[pd.DataFrame] = []

    def counted(rows: pd.DataFrame, member: str, value: str) -> pd.DataFrame:
        computed.append(rows)
        return grid(rows, member, value)

    monkeypatch.setattr(ranks, "_grid", counted)
    loads = log.table("loads")
    layers = pd.concat([loads.assign(layer=str(layer)) for layer in range(20)], ignore_index=True)
    names = [name for name in TABLES if name != "loads"]
    given = Tables({**{name: log.table(name) for name in names}, "loads": layers.astype({"layer": "string"})})
    rows = plots.loads.rows(given, Options())
    assert len(rows) == 20
    drawn = plots.loads.sketched(rows, given, Options())
    assert len(computed) == len(drawn.axes) == 12
    assert "12 of 20 panels are shown." in drawn.notes
