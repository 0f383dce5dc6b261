"""Layers of stages, and schedules of pipelines."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from support.drawings import bars
from support.plotted_logs import MS, figure, panels, reference

from perflog.plots.training import pipeline as module


def test_layers_are_the_medians_of_each_stage() -> None:
    (axes,) = panels(figure("pipeline_layers", "layers"))
    rows = reference("pipeline_layers").table("layers")
    steady = rows[rows["step"] >= 2].groupby(["stage", "layer"])["time_s"].median() * MS
    names = [label.get_text() for label in axes.get_xticklabels()]
    cells: np.ma.MaskedArray[Any, Any] = np.ma.asarray(axes.collections[0].get_array())
    found = {(s, names[k]): float(cells[s, k]) for s, k in zip(*np.nonzero(~np.ma.getmaskarray(cells)), strict=True)}
    assert len(found) == 25
    assert found == pytest.approx({(int(s), layer): float(ms) for (s, layer), ms in steady.items()})
    sums = [72.4, 87.9, 81.2, 80.4, 77.3, 77.5, 76.5, 219.3]
    said = [float(label.get_text().split("(")[1].split()[0]) for label in axes.get_yticklabels()]
    assert said == pytest.approx(sums, abs=0.5)


def test_schedule_is_named_a_model() -> None:
    found = figure("pipeline_layers", "schedule")
    (axes,) = panels(found)
    assert "a model, not a measurement" in found.get_suptitle()
    drawn = bars(axes)
    assert len(drawn) == 8 * 32
    assert max(bar.get_x() + bar.get_width() for bar in drawn) == pytest.approx(236.6, abs=0.1)
    assert "idle 59.19 %" in axes.get_title(loc="left")
    for stage in range(8):  # a stage does one thing at a time
        spans = sorted((b.get_x(), b.get_x() + b.get_width()) for b in drawn if abs(b.get_y() + 0.4 - stage) < 1e-9)
        assert len(spans) == 32
        assert all(one[1] <= other[0] + 1e-9 for one, other in itertools.pairwise(spans))


def test_cells_have_their_values_in_a_colour_that_is_seen() -> None:
    """White on the dark lower half of the scale; an empty cell has none. The scale begins at 0 or below."""
    axes = Figure().subplots()
    values = pd.DataFrame([[1.0, 5.4], [np.nan, 10.0]], index=[0, 1], columns=["embedding", "5"])
    image = module._draw_cells(axes, values, 1.0, 10.0)
    drawn = {(text.get_position(), text.get_text(), text.get_color()) for text in axes.texts}
    assert drawn == {
        ((0.5, 0.5), "1", "white"), ((1.5, 0.5), "5.4", "white"), ((1.5, 1.5), "10", "black")
    }  # fmt: skip
    assert image.get_clim() == (0.0, 10.0)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["embedding", "5"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first stage is at the top
    assert module._draw_cells(Figure().subplots(), values, -2.0, 10.0).get_clim() == (-2.0, 10.0)


@pytest.mark.parametrize(("rows", "columns", "numbered"), [(10, 40, 400), (11, 40, 0), (1, 41, 0)])
def test_many_cells_have_no_values_in_them(rows: int, columns: int, numbered: int) -> None:
    axes = Figure().subplots()
    module._draw_cells(axes, pd.DataFrame(np.ones((rows, columns))).rename(columns=str), 0.0, 1.0)
    assert len(axes.texts) == numbered


@pytest.mark.parametrize(
    ("names", "shown", "rotation"),
    [
        (40, range(40), 0), (41, range(0, 41, 2), 0), (81, range(0, 81, 3), 0),
    ],
)  # fmt: skip
def test_at_most_forty_cells_are_named(names: int, shown: range, rotation: float) -> None:
    axes = Figure().subplots()
    module._name_cells(axes.yaxis, [str(k) for k in range(names)])
    assert [label.get_text() for label in axes.get_yticklabels()] == [str(k) for k in shown]
    assert list(axes.get_yticks()) == [k + 0.5 for k in shown]
    assert {label.get_rotation() for label in axes.get_yticklabels()} <= {rotation}


def test_long_names_of_columns_are_turned() -> None:
    """Together longer than 130 characters; names of rows have room."""
    axes = Figure().subplots()
    for length, rotation in ((13, 0), (14, 90)):
        module._name_cells(axes.xaxis, ["x" * length] * 10)
        module._name_cells(axes.yaxis, ["x" * length] * 10)
        assert {label.get_rotation() for label in axes.get_xticklabels()} == {rotation}
        assert {label.get_rotation() for label in axes.get_yticklabels()} == {0}


def test_bars_of_simulated_schedules() -> None:
    """The fewer micro-batches are the number of the run, above their double; each bar has what its devices hold."""
    axes, handles = Figure().subplots(), dict[str, Any]()
    rows = pd.DataFrame({
        "schedule": ["GPipe", "GPipe", "1F1B", "1F1B"], "micro_batches": [8, 16, 8, 16], "idle": [0.4, 0.25, 0.3, 0.2],
        "activations": [8, 16, 4, 4], "copies": [1, 1, 1, 2],
    })  # fmt: skip
    module._draw_schedules(axes, rows, handles)
    drawn = {
        (bar.get_gid(), round(bar.get_y() + bar.get_height() / 2, 6)): bar.get_width() for bar in bars(axes)
    }  # fmt: skip
    own, twice = "micro-batches of the run", "twice as many"
    assert drawn == pytest.approx({(own, -0.2): 40.0, (own, 0.8): 30.0, (twice, 0.2): 25.0, (twice, 1.2): 20.0})
    assert list(handles) == [own, twice]
    assert {text.get_text() for text in axes.texts} == {
        "40 %, holds 8", "25 %, holds 16", "30 %, holds 4", "20 %, holds 4, 2 copies"
    }  # fmt: skip
    assert axes.get_xlim() == pytest.approx((0, 54.0)) and axes.get_ylim()[0] > axes.get_ylim()[1]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["GPipe", "1F1B"]


def test_slots_of_a_schedule_have_their_micro_batch() -> None:
    axes, handles = Figure().subplots(), dict[str, Any]()
    slots = pd.DataFrame({
        "stage": [0, 1, 1, 0], "direction": ["forward", "forward", "backward", "backward"], "micro_batch": [0, 1, 0, 1],
        "start_s": [0.0, 0.01, 0.02, 0.04], "end_s": [0.01, 0.02, 0.04, 0.06],
    })  # fmt: skip
    module._draw_schedule(axes, slots, handles)
    drawn = {(bar.get_gid(), round(bar.get_y() + 0.4)): (bar.get_x(), bar.get_width()) for bar in bars(axes)}
    assert drawn == {
        ("forward, even micro-batch", 0): pytest.approx((0, 10)),
        ("forward, odd micro-batch", 1): pytest.approx((10, 10)),
        ("backward, even micro-batch", 1): pytest.approx((20, 20)),
        ("backward, odd micro-batch", 0): pytest.approx((40, 20)),
    }  # fmt: skip
    assert [(text.get_text(), text.get_color()) for text in axes.texts] == [
        ("0", "white"), ("1", "black"), ("0", "black"), ("1", "black")
    ]  # fmt: skip
    assert [text.get_position()[0] for text in axes.texts] == pytest.approx([5, 15, 30, 50])  # the middle of each
    assert axes.get_xlim() == pytest.approx((0, 60.6)) and axes.get_ylim() == pytest.approx((1.6, -0.6))
    assert axes.get_xlabel() == "modelled time (ms)" and list(axes.get_yticks()) == [0, 1]


def test_a_schedule_of_many_slots_has_no_numbers_and_few_ticks() -> None:
    many = pd.DataFrame({
        "stage": range(161), "direction": "forward", "micro_batch": 0, "start_s": 0.0, "end_s": 1.0
    })  # fmt: skip
    for slots, texts, ticks in ((many, 0, list(range(0, 161, 6))), (many[:160], 160, list(range(0, 160, 5)))):
        axes = Figure().subplots()
        module._draw_schedule(axes, slots, {})
        assert (len(axes.texts), list(axes.get_yticks())) == (texts, ticks)
