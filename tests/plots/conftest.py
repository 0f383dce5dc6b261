"""Whatever a test draws with matplotlib is drawn as a sketch too: pages take all plots so."""

from __future__ import annotations

from typing import Any

import pytest

from perflog.plots.registry import Plot


@pytest.fixture(autouse=True)
def sketches_too(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Plot.drawn

    def both(plot: Plot, rows: Any, tables: Any, options: Any, size: Any = None) -> Any:
        figure = drawn(plot, rows, tables, options, size)
        panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
        sketch = plot.sketched(rows, tables, options)
        assert [panel.title for panel in sketch.axes] == [p.get_title(loc="left").replace(r"\$", "$") for p in panels]
        return figure

    monkeypatch.setattr(Plot, "drawn", both)
