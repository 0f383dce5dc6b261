"""The figure that plots return. Imported inside functions only: matplotlib is slow to load."""

from __future__ import annotations

from matplotlib.figure import Figure  # noqa: TID253  # this file is itself imported inside functions only

from perflog.plots.drawing.files import render


class NotebookFigure(Figure):
    """A figure that a notebook shows by itself, without pyplot and its global state."""

    def _repr_png_(self) -> bytes:
        return render(self, "png")
