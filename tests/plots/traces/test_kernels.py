"""Shares of kernels."""

from __future__ import annotations

import pytest
from support.drawings import bars
from support.plotted_logs import figure, panels


def test_shares_of_kernels_add_up_to_the_table() -> None:
    gpu, api = panels(figure("nvprof", "kernels"))
    for axes, first, seconds in ((gpu, 43.88, "11.19 s"), (api, 69.42, "12.01 s")):
        widths = [bar.get_width() for bar in bars(axes)]
        assert len(widths) == 13
        assert widths[0] == pytest.approx(first, abs=0.01)
        assert sum(widths) == pytest.approx(100)
        assert seconds in axes.get_xlabel()
