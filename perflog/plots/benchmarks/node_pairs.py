"""Plot of pairs of nodes: the bandwidth between each two of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.arrays import Floats
from perflog.plots.drawing.canvas import Canvas, axis_label, plain
from perflog.plots.drawing.heatmaps import matrix
from perflog.plots.registry import plot
from perflog.tables.nulls import none_if_null
from perflog.tables.row_order import natural_sort_key

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEAST_RANGE = 0.1  # of the fastest pair: nodes that differ by less must not look different


@plot(
    title="Pairs of nodes",
    caption="matrix of nodes: bus bandwidth between each two of them, with slow pairs marked",
    metric="node_pairs",
    select=lambda rows: rows[rows["of"] == "pair"],
)
def node_pairs(rows: pd.DataFrame, canvas: Canvas) -> Figure:
    """Draw the bus bandwidth of each pair of nodes as a matrix, a panel for each operation and number of ranks.

    Of each pair both cells have its colour. The colour scale of a panel ends at its fastest pair and covers at least a
    tenth of it. A cross marks the pairs that metric `node_pairs` calls slow.

    Example:
        >>> perflog.plots.node_pairs.metric
        'node_pairs'
    """
    groups = {_title(keys): pairs for keys, pairs in rows.groupby(["op", "ranks", "dtype"], sort=False, dropna=False)}
    names = sorted({*rows["node"], *rows["other"]})
    start = os.path.commonprefix(names)  # noqa: RUF071 (characters are meant, not folders)
    start = start.rstrip("0123456789") if len(start) > 1 else ""
    notes = [
        f"Names of nodes without {plain(start)}." if start else "",
        "Cross: a slow pair." if rows["slow"].fillna(False).any() else "",
        "Hatched: this pair was not measured.",
    ]
    figure, panels = canvas.panels(list(groups), notes, panel_height=min(1.6 + 0.13 * len(names), 4.0))
    for title, axes in panels:
        image = _matrix(axes, groups[title], start)
        bar = figure.colorbar(image, ax=axes, pad=0.02)
        bar.set_label(axis_label("bus bandwidth", "GB/s"))
        axes.set_title(title)
    return figure


def _title(keys: tuple[object, ...]) -> str:
    """What a panel is about, as far as the logs say."""
    op, ranks, dtype = (none_if_null(key) for key in keys)
    parts = (op and plain(op), f"{ranks} ranks" if ranks else None, dtype and plain(dtype))
    return ", ".join(part for part in parts if part) or "pairs"


def _matrix(axes: Axes, rows: pd.DataFrame, start: str) -> Any:
    """Draw the matrix of one group; return its image."""
    nodes = sorted({*rows["node"], *rows["other"]}, key=natural_sort_key)
    place = {node: k for k, node in enumerate(nodes)}
    grid: Floats = np.full((len(nodes), len(nodes)), np.nan)
    pairs = [(place[node], place[other]) for node, other in rows[["node", "other"]].to_numpy()]
    for (k, m), busbw in zip(pairs, rows["busbw"].to_numpy(np.float64), strict=True):
        grid[k, m] = grid[m, k] = busbw
    fastest = float(np.nanmax(grid))
    names = [plain(node.removeprefix(start), 20) for node in nodes]
    ends = min(float(np.nanmin(grid)), (1 - _LEAST_RANGE) * fastest), fastest
    image = matrix(axes, grid, names, names, ends, rotation=90)
    slow = [pair for pair, is_slow in zip(pairs, rows["slow"].fillna(False), strict=True) if is_slow]
    if slow:
        across, down = zip(*(cell for k, m in slow for cell in ((k, m), (m, k))), strict=True)
        axes.plot(across, down, linestyle="none", marker="x", color="white", markeredgewidth=1.5)
    axes.set(xlabel="node", ylabel="node")
    return image
