"""Waits, loads and imbalance of ranks: the cells and curves are the values of the tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from support.drawings import xs, ys
from support.plotted_logs import MS, by_gid, figure, frame, made, panels, reference, texts

import perflog
from perflog import plots
from perflog.plots.training import ranks as module

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


@pytest.mark.parametrize(
    ("of", "name", "occurrence", "over", "expected"),
    [
        ("phase", "wait", 1, "rank", "wait over ranks"), ("phase", "gather", 2, "rank", "gather 2 over ranks"),
        ("phase", "gather", None, "rank", "gather over ranks"), ("load", None, None, "rank", "load over ranks"),
        ("load", "token", None, "expert", "load (tokens) over experts"),
        ("stage", "forward", None, "stage", "stage forward over stages"),
    ],
)  # fmt: skip
def test_names_of_curves(of: str, name: str | None, occurrence: int | None, over: str, expected: str) -> None:
    assert module._curve_name(of, name, occurrence, over) == expected


def test_curves_are_in_the_order_of_what_they_lose() -> None:
    """Loads first, then what is known to have a slowest member, in each by the largest value without the mean."""
    rows = pd.DataFrame({
        "of": ["phase", "phase", "load", "load", "phase"], "name": list("abcde"), "occurrence": 1, "over": "rank",
        "largest": [None, 3, None, None, 2], "max": [9.0, 2.0, 3.0, 5.0, 4.0], "mean": [1.0, 1.0, 2.0, 1.0, 1.0],
    })  # fmt: skip
    names = [name.removesuffix(" over ranks") for name in module._ordered_curves(rows)]
    assert names == ["load (ds)", "load (cs)", "e", "b", "a"]


def test_cells_of_a_grid_add_up_and_may_be_empty() -> None:
    rows = pd.DataFrame({"rank": [1, 1, 0, 1], "step": [3, 3, 3, 5], "amount": [1.0, 2.0, 4.0, 8.0]})
    grid = module._grid(rows, "rank", "amount")
    assert (list(grid.index), list(grid.columns)) == ([0, 1], [3, 5])
    assert grid.fillna(-1).to_numpy().tolist() == [[4.0, -1.0], [3.0, 8.0]]


def test_the_top_of_imbalance_is_that_of_the_steady_steps() -> None:
    """What is above it is marked. The warm-up is shaded; without steady steps all is."""
    rows = pd.DataFrame({"step": [2, 0, 1, 3], "imbalance": [0.2, 3.0, 0.1, 0.15], "steady": [True, False, True, True]})
    axes, handles = Figure().subplots(), dict[str, Any]()
    curves = {"a": ("k", "-", "o"), "b": ("r", "-", "o")}
    module._draw_curves(axes, rows.assign(curve="a"), curves, 1000, handles)
    (line,) = (line for line in axes.lines if line.get_label() == "a")
    assert dict(zip(xs(line), ys(line), strict=True)) == pytest.approx({0: 300.0, 1: 10.0, 2: 20.0, 3: 15.0})
    assert axes.get_ylim() == pytest.approx((0, 23.0))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "imbalance (%)")
    (beyond,) = by_gid(axes, "beyond")
    assert beyond.get_offsets()[:, 0].tolist() == [0]
    assert set(handles) == {"a", "beyond", "warmup"}
    for changed, top in (({"steady": False}, 345.0), ({"imbalance": 0.0}, 1.0)):
        axes = Figure().subplots()
        module._draw_curves(axes, rows.assign(curve="a", **changed), curves, 1000, {})
        assert axes.get_ylim() == pytest.approx((0, top))


def test_at_most_five_curves_of_imbalance_and_the_others_are_counted() -> None:
    phases = [
        (step, f"p{k}", rank, 1.0 if rank else 1.0 + k / 10) for step in range(8) for k in range(7) for rank in range(2)
    ]
    columns = dict(zip(("step", "phase", "rank", "time_s"), map(list, zip(*phases, strict=True)), strict=True))
    table = frame("phases", len(phases), **columns, occurrence=[1] * len(phases))
    drawn = plots.imbalance(made([9.0] * 8, phases=table))
    (axes,) = panels(drawn)
    labels = [str(line.get_label()) for line in axes.lines if not str(line.get_label()).startswith("_")]
    assert [label.partition(" ")[0] for label in labels] == ["p6", "p5", "p4", "p3", "p2"]
    assert "2 more are in metric `imbalance`." in " ".join(texts(drawn).split())
