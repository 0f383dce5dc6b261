"""Sweeps: medians and speed-ups."""

from __future__ import annotations

import numpy as np
from support.drawings import bars
from support.plotted_logs import MS, figure, panels, reference

from perflog import metrics


def test_sweep_has_the_speed_ups() -> None:
    found = figure("training_sweep", "sweep")
    said = [text.get_text() for axes in panels(found) for text in axes.texts]
    assert [text.split(", ")[1] for text in said if "base" not in text] == [
        "1x", "0.996x", "0.448x", "0.798x", "0.243x", "0.573x",
    ]  # fmt: skip
    table = metrics.sweep(reference("training_sweep"))
    widths = [bar.get_width() for axes in panels(found) for bar in bars(axes)]
    assert np.allclose(widths, table["median_s"] * MS)
