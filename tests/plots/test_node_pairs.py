"""The matrix of the bandwidths between nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.pair_logs import campaign, pairs

import perflog
from perflog import plots
from perflog.errors import UsageError


def test_the_matrix_of_nodes(tmp_path: Path) -> None:
    """Five nodes, of which one pair is slow; both cells of a pair have its value."""
    figure = plots.node_pairs(campaign(tmp_path, pairs(5) | {("n2", "n4"): 5.8}))
    axes, bar = figure.axes
    assert axes.get_title(loc="left") == "2 ranks, float" and bar.get_ylabel() == "bus bandwidth (GB/s)"
    (image,) = axes.images
    values = np.ma.filled(np.ma.asarray(image.get_array()).astype(np.float64), np.nan)
    assert np.isnan(np.diag(values)).all() and (values == values.T)[~np.eye(5, dtype=bool)].all()
    assert values[1, 3] == 5.8 and values[0, 1] == 13.5
    (cross,) = axes.lines
    assert sorted(map(tuple, np.asarray(cross.get_xydata()).tolist())) == [(1.0, 3.0), (3.0, 1.0)]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["n1", "n2", "n3", "n4", "n5"]


def test_nodes_that_hardly_differ_look_alike(tmp_path: Path) -> None:
    """The scale covers a tenth of the fastest pair: 13.5 to 13.59 GB/s are one colour."""
    (image,) = plots.node_pairs(campaign(tmp_path, pairs(5))).axes[0].images
    low, high = image.get_clim()
    assert (low, high) == pytest.approx((0.9 * 13.59, 13.59))


def test_pairs_that_were_not_measured_are_empty(tmp_path: Path) -> None:
    some = {pair: value for pair, value in pairs(4).items() if pair != ("n1", "n3")}
    (image,) = plots.node_pairs(campaign(tmp_path, some)).axes[0].images
    assert np.ma.getmaskarray(np.ma.asarray(image.get_array()))[0].tolist() == [True, False, True, False]


def test_a_log_without_pairs_has_no_matrix(tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text("iter 1: loss 2.5, time 20.00ms, mfu 1.00%\n" * 3)
    with pytest.raises(UsageError, match="nothing to draw for `node_pairs`"):
        plots.node_pairs(perflog.read(tmp_path / "run.txt"))
