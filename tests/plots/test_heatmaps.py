"""Heatmaps: coarse grids, the colours that they cover, and the names beside them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from perflog.metrics import Options, Tables
from perflog.plots.drawing import heatmaps as module
from perflog.plots.drawing.canvas import Canvas
from perflog.plots.drawing.heatmaps import coarse, heatmaps, matrix, most_cells
from perflog.plots.drawing.sketch import Sketch

CANVAS = Canvas("", Tables({}), Options(), sketched=True)


def test_a_coarse_cell_is_the_maximum_of_the_values_that_it_covers() -> None:
    grid = np.array([[1.0, 2.0, np.nan], [3.0, 0.0, np.nan], [5.0, np.nan, 7.0]])
    found, per = coarse(grid, (2, 2))
    assert per == (2, 2) and np.array_equal(found, [[3.0, np.nan], [5.0, 7.0]], equal_nan=True)
    whole, per = coarse(grid, (3, 3))
    assert per == (1, 1) and np.array_equal(whole, grid, equal_nan=True)
    assert coarse(grid, (1, 3))[0].tolist()[0][:2] == [5.0, 2.0] and coarse(np.full((2, 2), -3.0), (1, 1))[
        0
    ].tolist() == [[-3.0]]


def test_a_page_holds_the_cells_of_all_panels() -> None:
    assert most_cells(SimpleNamespace(sketched=False), 5, 999) == (200, 1200)  # type: ignore[arg-type]
    cases = ((1, 8, (8, 1000)), (1, 999, (200, 40)), (4, 999, (50, 40)), (20, 999, (16, 41)), (1, 1, (1, 8000)))
    for panels, members, most in cases:
        assert most_cells(CANVAS, panels, members) == most


def drawn(grids: dict[str, pd.DataFrame], steady: list[float], **more: Any) -> Sketch:
    usual: dict[str, Any] = {"unit": "ms", "factor": 1e-3, "quantity": "time", "member": "rank"}
    sketch: Any = heatmaps(CANVAS, grids, np.array(steady), **usual | more)
    assert isinstance(sketch, Sketch)
    return sketch


def grid(values: list[list[float]], steps: list[int], ranks: list[object] | None = None) -> pd.DataFrame:
    return pd.DataFrame(values, index=ranks or list(range(len(values))), columns=steps)


def test_colours_cover_the_steady_steps() -> None:
    """A larger value has the last colour, and a note says so. A missing value is hatched."""
    sketch = drawn({"a": grid([[0.009, 0.001, 0.002], [0.001, np.nan, 0.003]], [1, 2, 3])}, [0.001, 0.003, np.nan])
    (scale,) = sketch.color_scales
    assert (scale.cells.low, scale.cells.high, scale.beyond, scale.label) == (1.0, 3.0, True, "time (ms)")
    assert scale.cells.values.ravel().tolist() == pytest.approx([9, 1, 2, 1, np.nan, 3], nan_ok=True)
    assert scale.cells.extent == (0.5, 3.5, 1.5, -0.5)
    assert (scale.cells.rows, scale.cells.columns) == (["0", "1"], ["1", "2", "3"])
    assert sketch.notes == [
        "The colours cover the steady steps; larger values have the last colour.",
        "Hatched: no value for this step and rank."
    ]  # fmt: skip
    (axes,) = sketch.axes
    assert (axes.title, axes.xaxis.label, axes.yaxis.label, axes.patch.hatched) == ("a", "step", "rank", True)
    inside = drawn({"a": grid([[0.001, 0.003]], [1, 2])}, [0.001, 0.003])
    assert not inside.color_scales[0].beyond and len(inside.notes) == 1
    same = drawn({"a": grid([[0.002, 0.002]], [1, 2])}, [0.002, 0.002]).color_scales[0].cells
    assert same.low == 2.0 and same.high == pytest.approx(2.02)
    nothing = drawn({"a": grid([[0.0005]], [1])}, [np.nan]).color_scales[0].cells
    assert (nothing.low, nothing.high) == (0.0, 1.0)


def test_steps_that_are_not_even_are_shown_by_their_index() -> None:
    uneven = drawn({"a": grid([[1.0, 2.0, 3.0]], [1, 2, 9])}, [1.0, 3.0])
    assert uneven.axes[0].xaxis.label == "index of the step in the log"
    cells = uneven.color_scales[0].cells
    assert cells.extent[:2] == (-0.5, 2.5) and cells.columns == ["0 (step 1)", "1 (step 2)", "2 (step 9)"]
    even = drawn({"a": grid([[1.0, 2.0, 3.0]], [10, 20, 30])}, [1.0, 3.0]).color_scales[0].cells
    assert even.extent[:2] == (5.0, 35.0)  # a step is in the middle of its cell


def test_many_steps_and_members_are_coarse() -> None:
    """The last cell is as wide as the others, even if fewer steps fall into it."""
    steps = 8001
    sketch = drawn({"a": grid([[1.0] * steps], list(range(steps)))}, [1.0, 2.0])
    assert "Each cell is the maximum of 2 steps." in sketch.notes
    cells = sketch.color_scales[0].cells
    assert cells.values.shape == (1, 4001) and cells.extent[1] == pytest.approx(8001.5)
    assert cells.columns[0] == "0–1" and cells.columns[-1] == "8000"
    ranks = drawn({"a": grid([[1.0, 2.0]] * 201, [1, 2])}, [1.0, 2.0])
    assert "Each cell is the maximum of 2 ranks." in ranks.notes
    assert ranks.color_scales[0].cells.extent[2] == 201.5


def test_panels_and_their_names() -> None:
    sketch = drawn({"a": grid([[1.0]], [1]), "b": grid([[1.0]] * 30, [1])}, [1.0])
    assert [axes.title for axes in sketch.axes][:2] == ["a", "b"]
    assert sketch.axes[1].yaxis.names == [str(n) for n in range(0, 30, 3)]
    twelve = drawn({str(n): grid([[1.0]], [1]) for n in range(12)}, [1.0], left_out=3)
    assert "12 of 15 panels are shown." in twelve.notes and len(twelve.axes) == 12


def test_a_matrix_has_a_name_for_each_row_and_column() -> None:
    axes: Any = Sketch(8, 4).subplots()
    names = [f"n{k}" for k in range(5)]
    image = matrix(axes, np.ones((5, 5)), names, names, (0.0, 2.0), most_ticks=2)
    assert (image.rows, image.low, image.high) == (names, 0.0, 2.0)
    assert axes.yaxis.names == axes.xaxis.names == ["n0", "n3"] and axes.xaxis.places.tolist() == [0, 3]
    all_names: Any = Sketch(8, 4).subplots()
    matrix(all_names, np.ones((3, 3)), names, names, (0.0, 2.0), (2, 2))
    assert all_names.xaxis.names == names


@pytest.mark.parametrize(
    ("columns", "most", "limits"),
    [
        ([3, 4, 5, 6], 10, (2.5, 6.5)),
        ([3, 4, 5, 6, 7], 2, (2.5, 8.5)),  # two cells of three steps: the last one goes on after the last step
        ([10, 20, 30, 40, 50], 10, (5.0, 55.0)),
        ([10, 20, 30, 40, 50], 2, (5.0, 65.0)),
        ([3, 4, 6, 7, 8], 2, (-0.5, 5.5)),  # by index
        ([3], 10, (2.5, 3.5)),
    ],
)
def test_all_cells_of_a_heatmap_are_equally_wide(columns: list[int], most: int, limits: tuple[float, float]) -> None:
    axes = Figure().subplots()
    values = pd.DataFrame(np.ones((1, len(columns))), columns=columns)
    image = module._heatmap(axes, values, (0.0, 1.0), "rank", (10, most))
    assert tuple(image.get_extent()[:2]) == pytest.approx(limits)
    assert image.get_array().shape[1] == min(len(columns), most)
