"""Bars of critical paths."""

from __future__ import annotations

import pytest
from matplotlib.text import Text
from support.drawings import bars
from support.plotted_logs import traced_ranks

from perflog import plots
from perflog.metrics import critical_path


def test_many_critical_paths_are_capped_with_a_note() -> None:
    given = traced_ranks(ranks=3, steps=20)
    drawn = plots.critical_path(given)
    (axes,) = drawn.axes
    assert len(axes.get_yticklabels()) == 40
    assert any("40 of 63 bars are shown" in " ".join(text.get_text().split()) for text in drawn.findobj(Text))
    found = critical_path(given)
    found = found[(found["by"] == "kind") & (found["kind"] == "gemm")].head(40)
    products = [bar.get_width() for bar in bars(axes) if bar.get_gid() == "gemm"]
    assert len(products) == 40 and products == pytest.approx(list(found["share"] * 100))
