"""Layers of stages, and schedules of pipelines."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from support.drawings import bars
from support.plotted_logs import MS, figure, panels, reference


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
