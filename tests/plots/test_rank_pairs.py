"""The matrix of pairs of ranks: each cell against the rows of the metric."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.rank_traces import trace_job, write_job

import perflog
from perflog import metrics
from perflog.metrics import Tables
from perflog.plots import PLOTS


def test_each_cell_is_the_bytes_from_sender_to_receiver(tmp_path: Path) -> None:
    log = perflog.read(write_job(tmp_path, trace_job(21)))
    figure, rows = PLOTS["rank_pairs"](Tables(log)), metrics.rank_pairs(log)
    panels = {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_label() != "<colorbar>"}
    assert {title.rpartition(", ")[2] for title in panels} == {"send recv", "all to all"}
    for title, axes in panels.items():
        of_op = rows[rows["op"] == title.rpartition(", ")[2].replace(" ", "_")]
        cells = np.ma.filled(np.ma.asarray(axes.images[0].get_array()).astype(float), np.nan)
        drawn = {(i, j): cells[i, j] for i, j in np.argwhere(~np.isnan(cells)).tolist()}
        wanted = {(r["sender"], r["receiver"]): r["bytes"] for r in of_op.to_dict("records")}
        assert set(drawn) == set(wanted)
        scale = next(a for a in figure.axes if a.get_label() == "<colorbar>").get_ylabel()
        factor = {"(B)": 1, "(KiB)": 1024, "(kB)": 1000}[scale.split()[-1]]
        assert {pair: value * factor for pair, value in drawn.items()} == pytest.approx(wanted)
        assert axes.get_xlabel() == "receiving rank" and axes.get_ylabel() == "sending rank"
