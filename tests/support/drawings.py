"""What a figure holds, in the types that it has; and whether a sketch holds the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from matplotlib.collections import PolyCollection

from perflog.plots.drawing.sketch import Area, Bars, Cells, Line, Sketch, Span, Text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from numpy.typing import NDArray


def bars(axes: Axes) -> list[Rectangle]:
    """Return the bars of a panel. matplotlib declares them as patches of any shape."""
    return cast("list[Rectangle]", list(axes.patches))


def xs(line: Line2D) -> NDArray[np.float64]:
    """Return the horizontal positions of a line's points."""
    return np.asarray(line.get_xdata(), np.float64)


def ys(line: Line2D) -> NDArray[np.float64]:
    """Return the vertical positions of a line's points."""
    return np.asarray(line.get_ydata(), np.float64)


def check_sketch(figure: Figure, drawn: Sketch, kind: str) -> None:
    """A sketch has what matplotlib draws of the same kind of plot."""
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    for axes, panel in zip(panels, drawn.axes, strict=True):
        assert panel.title == axes.get_title(loc="left").replace(r"\$", "$")
        assert (panel.xaxis.label, panel.yaxis.label) == (axes.get_xlabel(), axes.get_ylabel())
        assert panel.yaxis.inverted == (axes.get_ylim()[0] > axes.get_ylim()[1])
        if panel.xaxis.low is not None and panel.xaxis.high is not None:
            assert panel.get_xlim() == pytest.approx(axes.get_xlim())
        if panel.yaxis.low is not None and panel.yaxis.high is not None:
            assert panel.get_ylim() == pytest.approx(axes.get_ylim())
        if panel.yaxis.names is not None:
            labels = [label.get_text().replace(r"\$", "$") for label in axes.get_yticklabels()]
            assert panel.yaxis.names == labels
        theirs = {str(line.get_gid()): line for line in axes.lines if line.get_gid()}
        ours = {mark.gid: mark for mark in panel.marks if isinstance(mark, Line) and mark.gid in theirs}
        assert set(theirs) <= set(ours)
        for gid, line in theirs.items():
            assert ours[gid].x == pytest.approx(np.asarray(line.get_xdata(), float), nan_ok=True)
            assert ours[gid].y == pytest.approx(np.asarray(line.get_ydata(), float), nan_ok=True)
        if kind != "distribution":  # whose boxes are paths in matplotlib
            spans = {mark.label for mark in panel.marks if isinstance(mark, Span)}
            edges = [np.stack((m.left, m.right, m.y), axis=1) for m in panel.marks if isinstance(m, Bars)]
            theirs_too = [
                (b.get_x(), b.get_x() + b.get_width(), b.get_y() + b.get_height() / 2)
                for b in bars(axes)
                if b.get_label() not in spans
            ]
            ours_too = np.concatenate([*edges, np.zeros((0, 3))])
            assert np.sort(ours_too, axis=0) == pytest.approx(np.sort(np.reshape(theirs_too, (-1, 3)), axis=0))
        areas = [mark for mark in panel.marks if isinstance(mark, Area)]
        assert len(areas) == len([c for c in axes.collections if isinstance(c, PolyCollection)])
        grids = [mark for mark in panel.marks if isinstance(mark, Cells)] if axes.images else []
        for image, cells in zip(axes.images, grids, strict=True):
            assert np.array_equal(np.ma.filled(np.ma.asarray(image.get_array()), np.nan), cells.values, equal_nan=True)
            assert cells.extent == pytest.approx(image.get_extent())
            assert (cells.low, cells.high) == pytest.approx(image.get_clim())
        texts = {text.get_text() for text in axes.texts if text.get_text()}
        assert texts <= {mark.text for mark in panel.marks if isinstance(mark, Text)}
    if figure.legends:
        assert [h.label for h in drawn.handles] == [t.get_text() for t in figure.legends[0].get_texts()]
