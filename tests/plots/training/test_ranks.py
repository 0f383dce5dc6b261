"""Waits, loads and imbalance of ranks: the cells and curves are the values of the tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from support.drawings import ys
from support.plotted_logs import MS, figure, frame, made, panels, reference

import perflog
from perflog import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _image(axes: Axes) -> Any:
    return np.ma.filled(np.ma.asarray(axes.images[0].get_array()), np.nan)


def test_wait_is_that_of_each_rank_and_step() -> None:
    log, found = reference("moe_layer"), figure("moe_layer", "wait")
    phases = log.table("phases")
    for run, axes in zip(log.run_keys, panels(found), strict=True):
        mine = phases[(phases["run"] == run.id) & (phases["phase"] == "wait")]
        grid = mine.pivot(index="rank", columns="step", values="time_s").to_numpy("float64") * MS
        assert grid.shape == (4, 100)
        assert np.allclose(_image(axes), grid, rtol=1e-12)


def test_load_is_the_blocks_of_each_rank() -> None:
    blocks = [(228, 248, 312, 256), (288, 264, 268, 244), (287, 215, 235, 299), (320, 220, 284, 208)]
    for axes, amounts in zip(panels(figure("moe_layer", "loads")), blocks, strict=True):
        assert np.array_equal(_image(axes), np.repeat(np.array(amounts, float)[:, None], 100, axis=1))


def test_imbalance_of_the_loads() -> None:
    for axes, over in zip(panels(figure("moe_layer", "imbalance")), (1.195, 1.083, 1.154, 1.240), strict=True):
        (line,) = (line for line in axes.lines if str(line.get_label()).startswith("load"))
        assert len(ys(line)) == 100
        assert np.allclose(ys(line), (over - 1) * 100, atol=0.05)


def test_what_is_not_known_is_hatched() -> None:
    loads = frame("loads", 6, step=[0, 0, 1, 1, 2, 2], rank=[0, 1, 0, None, 0, 1], unit=["token"] * 6, amount=[1.0] * 6)
    loads["rank"] = loads["rank"].astype("Int64")
    (axes,) = panels(plots.loads(made([0.1] * 3, loads=loads)))
    assert np.isnan(_image(axes)).tolist() == [[False] * 3, [False, True, False]]
    assert axes.patch.get_hatch()


def test_loads_of_layers_have_a_panel_each(tmp_path: Path) -> None:
    (tmp_path / "table_iter7_rank0.log").write_text("0:[[1, 2]]\n1:[[3, 4]]\n")
    titles = [axes.get_title(loc="left") for axes in panels(plots.loads(perflog.read(tmp_path)))]
    assert [title.partition(": ")[2] for title in titles] == [
        "token in layer 0 by expert",
        "token in layer 1 by expert",
    ]
