"""Heatmaps: a value for each member (rank, stage, expert) and step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Floats
from perflog.plots.drawing.canvas import MAX_PANELS, Canvas, axis_label, integer_ticks
from perflog.plots.drawing.palette import CMAP
from perflog.plots.drawing.sketch import set_cell_names

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_COLUMNS, _MAX_ROWS = 1200, 200  # about as many cells as a panel has pixels
_CELLS_OF_A_PAGE = 8000  # of all panels


def heatmaps(  # noqa: PLR0913 (what each means is below)
    canvas: Canvas,
    grids: dict[str, pd.DataFrame],
    steady: Floats,
    unit: str,
    factor: float,
    quantity: str,
    member: str,
    left_out: int = 0,
) -> Figure:
    """Return a figure with a panel for each grid, all with one colour scale.

    Args:
        canvas: Makes the figure.
        grids: Values in base units by title of the panel. Rows: members; columns: steps.
        steady: Values of the steady steps, which the colour scale covers. Larger values get the colour at its end.
        unit: Unit in which values are shown.
        factor: Size of this unit in base units.
        quantity: Name of the values, for the colour scale.
        member: Name of the members: rank, stage or expert.
        left_out: Number of further grids, for which there is no panel.
    """
    most_steps = max(len(grid.columns) for grid in grids.values())
    most_members = max(len(grid.index) for grid in grids.values())
    most = most_cells(canvas, len(grids), most_members)
    finite = steady[np.isfinite(steady)] / factor
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    top = high if high > low else low + abs(low) * 0.01 + 1e-9
    largest = max(float(np.nanmax(grid.to_numpy(np.float64), initial=-np.inf)) for grid in grids.values()) / factor
    exceeded = largest > top
    notes = [
        "The colours cover the steady steps; larger values have the last colour." if exceeded else "",
        _maximum_note(most_steps, most[1], "steps"),
        _maximum_note(most_members, most[0], f"{member}s"),
        f"Hatched: no value for this step and {member}.",
    ]
    figure, panels = canvas.panels([*grids, *[""] * left_out], notes, panel_height=min(1.1 + 0.12 * most_members, 3.2))
    image: Any = None
    for title, axes in panels:
        image = _heatmap(axes, grids[title] / factor, (low, top), member, most)
        axes.set_title(title)
    bar = figure.colorbar(image, ax=[axes for _, axes in panels], extend="max" if exceeded else "neither", pad=0.02)
    bar.set_label(axis_label(quantity, unit))
    return figure


def _heatmap(axes: Axes, values: pd.DataFrame, ends: tuple[float, float], member: str, most: tuple[int, int]) -> Any:
    grid, (rows_per_cell, columns_per_cell) = coarse(values.to_numpy(np.float64), most)
    steps = values.columns.to_numpy(np.float64)
    even = len(steps) < 2 or np.all(np.diff(steps) == np.diff(steps)[0])
    half = (steps[1] - steps[0]) / 2 if even and len(steps) > 1 else 0.5  # a step is in the middle of its cell
    left, right = (steps[0] - half, steps[-1] + half) if even else (-half, len(steps) - half)
    # the last cell is as wide as the others, even if fewer steps fall into it
    right += (-len(steps) % columns_per_cell) * (right - left) / len(steps)
    extent = (left, right, len(values) - 0.5 + -len(values) % rows_per_cell, -0.5)
    image = _cells(axes, grid, ends, aspect="auto", extent=extent)
    columns = values.columns if even else [f"{place} (step {step})" for place, step in enumerate(values.columns)]
    set_cell_names(image, values.index, columns, (rows_per_cell, columns_per_cell))
    _write_some(axes.set_yticks, list(values.index), 12)
    integer_ticks(axes.xaxis)
    axes.set(xlabel="step" if even else "index of the step in the log", ylabel=member)
    return image


def matrix(  # noqa: PLR0913 (what each means is below)
    axes: Axes,
    grid: Floats,
    rows: Sequence[object],
    columns: Sequence[object],
    ends: tuple[float, float],
    per: tuple[int, int] = (1, 1),
    most_ticks: int = 24,
    rotation: float = 0.0,
    **options: Any,
) -> Any:
    """Draw a grid of values with a name for each row and column; a cell without a value is hatched. Return the image.

    Args:
        axes: The panel.
        grid: The values.
        rows: Names of the rows, of `per[0]` for each cell.
        columns: Names of the columns, of `per[1]` for each cell.
        ends: The values with the first and the last colour.
        per: How many rows and columns each cell covers.
        most_ticks: Names that are written beside the panel.
        rotation: Degrees by which the names of the columns are turned.
        options: Further options of `imshow`.
    """
    image = _cells(axes, grid, ends, **options)
    set_cell_names(image, rows, columns, per)
    _write_some(axes.set_yticks, rows, most_ticks)
    _write_some(axes.set_xticks, columns, most_ticks, **({"rotation": rotation} if rotation else {}))
    return image


def _cells(axes: Axes, grid: Floats, ends: tuple[float, float], **options: Any) -> Any:
    axes.patch.set(hatch="////", edgecolor="0.6", facecolor="white")
    masked = np.ma.masked_invalid(grid)
    return axes.imshow(masked, vmin=ends[0], vmax=ends[1], cmap=CMAP, interpolation="nearest", **options)


def _write_some(set_ticks: Callable[..., Any], names: Sequence[object], most: int, **options: Any) -> None:
    every = max(-(-len(names) // most), 1)
    set_ticks(range(0, len(names), every), [*map(str, names[::every])], **options)


def most_cells(canvas: Canvas, panels: int, members: int) -> tuple[int, int]:
    """Return how many rows and columns of cells a panel may have: a page holds the values of all cells."""
    if not canvas.sketched:
        return _MAX_ROWS, _MAX_COLUMNS
    panel_cells = _CELLS_OF_A_PAGE // min(panels, MAX_PANELS)
    rows = min(members, _MAX_ROWS, max(panel_cells // 40, 1))
    return rows, max(panel_cells // rows, 1)


def coarse(grid: Floats, most: tuple[int, int] = (_MAX_ROWS, _MAX_COLUMNS)) -> tuple[Floats, tuple[int, int]]:
    """Return a grid with no more cells than a panel can show, and the rows and columns that each cell covers.

    A cell is the maximum of the values that it covers, so that no extreme is lost.
    """
    rows, columns = (math.ceil(n / each) for n, each in zip(grid.shape, most, strict=True))
    down, across = (-grid.shape[0] % rows, -grid.shape[1] % columns) if grid.size else (0, 0)
    padded = np.pad(grid, ((0, down), (0, across)), constant_values=np.nan)
    blocks = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    maxima = np.where(np.isnan(blocks), -np.inf, blocks).max(axis=(1, 3))
    return np.where(np.isneginf(maxima), np.nan, maxima), (rows, columns)


def _maximum_note(count: int, most: int, unit: str) -> str:
    return f"Each cell is the maximum of {math.ceil(count / most)} {unit}." if count > most else ""
