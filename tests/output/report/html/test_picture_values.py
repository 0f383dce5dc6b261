"""The values that a page holds of a plot: those of the marks that speak, packed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from perflog.output.report.html.picture_values import json_of, panel_values, series_of
from perflog.plots.drawing.sketch import Panel, Sketch


def panel(**limits: tuple[float, float]) -> Panel:
    drawn: Panel = Sketch(9, 3).subplots()
    drawn.set_xlim(*limits.get("x", (0, 10)))
    drawn.set_ylim(*limits.get("y", (0, 1)))
    return drawn


def line(x: list[float], y: list[float] | None = None, form: str = "-", **fields: Any) -> Any:
    """The values that a page holds of a line."""
    drawn = panel()
    (mark,) = drawn.plot(x, x if y is None else y, form)
    for name, value in fields.items():
        setattr(mark, name, value)
    return panel_values(drawn)["series"].get(0)


def test_a_panel_has_the_labels_and_ends_of_its_axes() -> None:
    drawn = panel(x=(1, 5), y=(2, 4))
    drawn.set_xlabel("step")
    drawn.set_ylabel("time (s)")
    values = panel_values(drawn)
    assert (values["x"], values["y"]) == (["step", 1.0, 5.0], ["time (s)", 2.0, 4.0])
    assert (values["height"], values["series"], values["log"]) == (round(drawn.height), {}, [False, False])
    assert not {"spans", "dates", "integer", "named", "rows", "cells"} & values.keys()


def test_what_is_said_of_axes() -> None:
    drawn = panel()
    drawn.xaxis.dates = drawn.xaxis.integer = True
    drawn.yaxis.base = 10
    drawn.xaxis.set_ticks([1, 2], ["a", "b"])
    drawn.yaxis.set_ticks([0.5, 1], ["rank 0", "rank 1"])
    values = panel_values(drawn)
    assert (values["dates"], values["integer"], values["log"], values["named"]) == (True, True, [False, True], True)
    assert values["rows"] == {0.5: "rank 0", 1: "rank 1"}


@pytest.mark.parametrize(
    ("x", "packed"),
    [
        ([3, 4, 5, 6], {"from": 3, "by": 1, "n": 4}),
        ([10, 8, 6, 4], {"from": 10, "by": -2, "n": 4}),
        ([3, 4, 5], [3, 4, 5]),  # short
        ([3, 4, 5, 7], [3, 4, 5, 7]),
        ([0.5, 1.5, 2.5, 3.5], [0.5, 1.5, 2.5, 3.5]),
        ([1, 1.5, 2, 2.5], [1, 1.5, 2, 2.5]),
        ([1e15, 2, 1 / 3], [1e15, 2, 0.333333333]),
    ],
)
def test_places_at_equal_distances_are_three_numbers(x: list[float], packed: Any) -> None:
    assert line(x, [1.0] * len(x))["x"] == packed


def test_values_have_six_digits_and_none_where_they_are_unknown() -> None:
    values = line([1, 2, 3, 4, 5], [1 / 3, np.nan, np.inf, 2.0, 1234567.0])["y"]
    assert values == [0.333333, None, None, 2, 1234570]
    assert [type(value) for value in values] == [float, type(None), type(None), int, int]
    assert isinstance(line([1, 2, 3], [1e15, 1e14, 2])["y"][0], float)


@pytest.mark.parametrize(
    ("x", "form", "fields", "speaks"),
    [
        ([1, 2, 3], "-", {}, True),
        ([1, 2], "-", {}, False),  # it marks something
        ([1, 2], "-", {"lines": np.array([7.0, 9.0])}, True),
        ([*range(4000)], "-", {}, True),
        ([*range(4001)], "-", {}, False),
        ([1, 2, 3], "-", {"on_axes": "y"}, False),
    ],
)
def test_lines_of_values_speak(x: list[float], form: str, fields: dict[str, Any], speaks: bool) -> None:
    assert (line(x, None, form, **fields) is not None) == speaks


@pytest.mark.parametrize(("form", "named", "speaks"), [("-", True, False), ("o", True, True), ("-", False, True)])
def test_a_line_across_named_rows_speaks_of_none(form: str, named: bool, speaks: bool) -> None:
    drawn = panel()
    drawn.plot([1, 2, 3], [1, 2, 3], form)
    if named:
        drawn.yaxis.set_ticks([1, 2], ["a", "b"])
    assert bool(panel_values(drawn)["series"]) == speaks
    assert [bool(lines) for lines in series_of(drawn.sketch)] == [speaks]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"key": "loss"}, {"label": "loss"}),
        ({"key": "loss", "name": "loss of rank 1"}, {"label": "loss of rank 1"}),
        ({"key": "loss", "gid": "mean"}, {"label": "mean, loss"}),
        ({"gid": "mean"}, {"label": "mean"}),
        ({"lines": np.array([7.0, 9.0, 12.0])}, {"label": "", "lines": [7, 9, 12]}),
        ({"each": 1}, {"label": ""}),
        ({"each": 2}, {"label": "", "each": 2}),
        ({"style": ""}, {"label": "", "points": True}),
    ],
)
def test_what_is_said_of_a_line(fields: dict[str, Any], said: dict[str, Any]) -> None:
    assert line([1, 2, 4], **fields) == {"x": [1, 2, 4], "y": [1, 2, 4]} | said


@pytest.mark.parametrize(("label", "said"), [("held", 1), ("", 0)])
def test_areas_hold_their_heights_and_where_they_end(label: str, said: int) -> None:
    drawn = panel()
    drawn.fill_between([1, 2], [0, 1], [4, 5], step="post", label=label)
    expected = {"label": "held", "x": [1, 2], "y": [4, 4], "top": [4, 5]}
    assert [*panel_values(drawn)["series"].values()] == [expected] * said


def test_spans_are_packed() -> None:
    """Begins in 100 millionths of the axis, each after the one before; lengths of four digits and a power of ten."""
    drawn = panel(x=(2, 12))
    for row, (spans, names) in enumerate([([(2, 1), (7, 2.5)], ["a", "b"]), ([(4.5, 0.12344), (2, 0)], ["b", "c"])], 1):
        drawn.broken_barh(spans, (row, 0.5)).names = names
    spans = panel_values(drawn)["spans"]
    assert (spans["names"], spans["unit"], list(spans["tracks"])) == (["a", "b", "c"], 1e-9, [0, 1])
    lengths = [w // 10 * 10 ** (w % 10) * 1e-9 for track in spans["tracks"].values() for w in track["w"]]
    assert lengths == pytest.approx([1, 2.5, 0.1234, 0], abs=1e-4)
    first, second = spans["tracks"].values()
    assert (first["x"], first["n"], first["y"], first["height"]) == ([0, 50_000_000], [0, 1], 1.25, 0.5)
    assert (second["x"], second["n"]) == ([25_000_000, -25_000_000], [1, 2])
    assert not {"e", "s"} & first.keys()


@pytest.mark.parametrize(("events", "held"), [((1, 1), {}), ((1, 3), {"e": [1, 3], "s": [100, 25]})])
def test_spans_of_several_events_hold_their_number_and_share(events: tuple[int, ...], held: dict[str, Any]) -> None:
    drawn = panel()
    spans = drawn.broken_barh([(0, 1), (4, 2)], (0, 1))
    spans.names, spans.events, spans.times = ["a", "b"], events, np.array([1.0, 0.5])
    (track,) = panel_values(drawn)["spans"]["tracks"].values()
    assert {name: track[name] for name in ("e", "s") if name in track} == held


def test_cells_have_their_values_names_and_what_they_mean() -> None:
    drawn = panel()
    cells = drawn.imshow(np.array([[0.123456, np.nan], [2.0, 3.0]]), 0.0, 1.0)
    cells.rows, cells.columns = [str(n) for n in range(4)], ["5–9", "10"]
    found = panel_values(drawn)["cells"]
    assert (found["extent"], found["values"]) == (cells.extent, [[0.1235, None], [2, 3]])
    assert (found["rows"], found["columns"], found["label"]) == ({"from": 0, "by": 1, "n": 4}, ["5–9", "10"], "")
    cells.rows = ["00", "01", "02", "03"]
    assert panel_values(drawn)["cells"]["rows"] == ["00", "01", "02", "03"]


def test_no_text_ends_the_json() -> None:
    text = json_of({"a": "</script><!--&", "b": [1, 2]})
    assert not set("<>& ") & set(text.replace("script", "")) and json.loads(text) == {
        "a": "</script><!--&",
        "b": [1, 2],
    }
