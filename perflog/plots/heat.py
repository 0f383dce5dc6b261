"""Heatmaps: a value for each member (rank, stage, expert) and step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.plots.canvas import CMAP, Canvas, Floats, axis, whole

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_COLUMNS, _MOST_ROWS = 1200, 200  # about what a panel has pixels for


def heatmaps(
    canvas: Canvas,
    grids: dict[str, pd.DataFrame],
    steady: Floats,
    unit: str,
    factor: float,
    what: str,
    of: str,
) -> Figure:
    """A panel for each grid (rows: members, columns: steps, values in base units), all of one scale of colours.

    `grids` is by title. `steady` are the values the scale is made for: larger ones are drawn as beyond
    it. `what` is coloured, `of` names the members.
    """
    from matplotlib.colors import Normalize

    shown = list(grids)
    wide = max(len(grid.columns) for grid in grids.values())
    tall = max(len(grid.index) for grid in grids.values())
    notes = [_coarse_note(wide, _MOST_COLUMNS, "step"), _coarse_note(tall, _MOST_ROWS, of)]
    notes.append("hatched: no value that is known to be of that step and " + of)
    figure, panels = canvas.panels(shown, notes, high=min(1.1 + 0.12 * tall, 3.2))
    scale = steady[np.isfinite(steady)] / factor
    low, high = (float(scale.min()), float(scale.max())) if len(scale) else (0.0, 1.0)
    norm = Normalize(low, high if high > low else low + abs(low) * 0.01 + 1e-9)
    image: Any = None
    over = False
    for title, axes in panels:
        values = grids[title] / factor
        image = _heat(axes, values, norm, of)
        over |= bool(np.nanmax(values.to_numpy(np.float64), initial=-np.inf) > norm.vmax)
        axes.set_title(title)
    bar = figure.colorbar(image, ax=[axes for _, axes in panels], extend="max" if over else "neither", pad=0.02)
    bar.set_label(axis(what, unit) + (", of steady steps" if over else ""))
    return figure


def _heat(axes: Axes, values: pd.DataFrame, norm: Any, of: str) -> Any:
    grid, k = coarse(values.to_numpy(np.float64))
    steps = values.columns.to_numpy(np.float64)
    even = len(steps) < 2 or np.all(np.diff(steps) == np.diff(steps)[0])
    left, right = (steps[0] - 0.5, steps[-1] + 0.5) if even else (-0.5, len(steps) - 0.5)
    axes.patch.set(hatch="////", edgecolor="0.6", facecolor="white")
    right += (-len(steps) % k[1]) * (right - left) / len(steps)  # the last cell may be part filled, and is as wide
    extent = (left, right, len(values) - 0.5 + -len(values) % k[0], -0.5)
    image = axes.imshow(np.ma.masked_invalid(grid), norm=norm, cmap=CMAP, aspect="auto", extent=extent,
                        interpolation="nearest")  # fmt: skip
    names = [str(name) for name in values.index]
    every = math.ceil(len(names) / 12)
    axes.set_yticks(range(0, len(names), every), names[::every])
    whole(axes.xaxis, 6)
    axes.set(xlabel="step" if even else "place of the step in the log", ylabel=of)
    return image


def coarse(grid: Floats) -> tuple[Floats, tuple[int, int]]:
    """A grid with no more cells than can be seen: each is the largest of k, so that nothing is hidden."""
    rows, columns = (math.ceil(n / most) for n, most in zip(grid.shape, (_MOST_ROWS, _MOST_COLUMNS), strict=True))
    down, across = (-grid.shape[0] % rows, -grid.shape[1] % columns) if grid.size else (0, 0)
    padded = np.pad(grid, ((0, down), (0, across)), constant_values=np.nan)
    blocks = padded.reshape(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    found = np.where(np.isnan(blocks), -np.inf, blocks).max(axis=(1, 3))
    return np.where(np.isneginf(found), np.nan, found), (rows, columns)


def _coarse_note(n: int, most: int, what: str) -> str:
    return f"each cell is the largest of {math.ceil(n / most)} {what}s" if n > most else ""
