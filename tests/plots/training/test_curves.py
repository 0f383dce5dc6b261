"""Curves of printed values: what they are over, in which order, with which mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.drawings import xs, ys
from support.plotted_logs import by_gid, panels

from perflog import plots
from perflog.tables.schema import TABLES


def printed(runs: dict[str, str], **series: Any) -> dict[str, pd.DataFrame]:
    """Tables of runs, each with the log that `runs` says, that print series: key=(unit, values)."""
    names = {column.name: [None] * len(runs) for column in TABLES["runs"]}
    of_run = {"run": list(runs), "label": list(runs), "log": list(runs.values()), "log_sha256": list(runs)}
    rows = [
        {c.name: None for c in TABLES["values"]}
        | {"run": run, "line": line, "part": 0, "step": line, "key": key, "unit": unit, "value": value}
        for run in runs
        for key, (unit, numbers) in series.items()
        for line, value in enumerate(numbers, 1)
    ]
    return {"runs": pd.DataFrame(names | of_run | {"index": 1}), "values": pd.DataFrame(rows)}


def test_curves_are_the_printed_values_the_losses_first() -> None:
    values = printed(
        {"r": "a.txt"}, lr=(None, [0.1, 0.2, 0.3]), val_loss=(None, [3.0, 2.5, 2.0]), fixed=("s", [1.0] * 3),
        batch=(None, [1.0, 2.0, 3.0]),
    )  # fmt: skip
    loss, rate = panels(plots.curves(values))
    assert [axes.get_title(loc="left") for axes in (loss, rate)] == ["val_loss", "lr"]
    (line,) = by_gid(loss, "curve")
    assert (list(xs(line)), list(ys(line))) == ([1, 2, 3], [3.0, 2.5, 2.0])
    assert loss.get_xlabel() == "step" and loss.get_yscale() == "linear"


def test_values_are_drawn_in_the_unit_in_which_they_are_read_best() -> None:
    (axes,) = panels(plots.curves(printed({"r": "a.txt"}, lag=("s", [0.002, 0.003, 0.0025]))))
    (line,) = by_gid(axes, "curve")
    assert axes.get_ylabel() == "value (ms)"
    assert list(ys(line)) == pytest.approx([2.0, 3.0, 2.5])


def test_values_without_steps_stand_over_their_samples() -> None:
    """Evaluations of MLPerf print the samples so far, and no step."""
    tables = printed({"r": "a.txt"}, eval_loss=(None, [3.0, 2.5, 2.0]), samples_count=(None, [384.0, 768.0, 1536.0]))
    (axes,) = panels(plots.curves(tables | {"values": tables["values"].assign(step=None)}))
    (line,) = by_gid(axes, "curve")
    assert (list(xs(line)), axes.get_xlabel()) == ([384, 768, 1536], "samples")


@pytest.mark.parametrize(
    ("steps", "drawn"), [([7, 5, 6], [[5, 6, 7]]), ([5, 6, 5], [[5, 6], [5]])], ids=["worst first", "a step again"]
)
def test_values_that_are_listed_by_something_else_are_drawn_over_their_steps(
    steps: list[int], drawn: list[list[int]]
) -> None:
    tables = printed({"r": "a.txt"}, slowdown=(None, [1.7, 1.5, 1.6]))
    (axes,) = panels(plots.curves(tables | {"values": tables["values"].assign(step=steps)}))
    assert [list(xs(line)) for line in by_gid(axes, "curve")] == drawn


def test_no_mean_is_over_steps_before_and_after_a_restart() -> None:
    values = [300.0 - n for n in range(200)]
    tables = printed({"r": "a.txt"}, loss=(None, [*values, *values[100:]]))
    steps = [*range(1, 201), *range(101, 201)]
    (axes,) = panels(plots.curves(tables | {"values": tables["values"].assign(step=steps)}))
    first, again = by_gid(axes, "mean")
    assert (xs(first)[0], xs(first)[-1], xs(again)[0], xs(again)[-1]) == (4, 198, 104, 198)
    for line in (first, again):
        assert list(ys(line)) == pytest.approx([301.0 - x for x in xs(line)], abs=0.5)


def test_a_long_curve_has_its_running_mean_over_it() -> None:
    numbers = list(np.random.default_rng(0).normal(2, 0.1, 500))
    (axes,) = panels(plots.curves(printed({"r": "a.txt"}, loss=("s", numbers))))
    (curve,), (mean,) = by_gid(axes, "curve"), by_gid(axes, "mean")
    assert list(ys(curve)) == numbers and axes.get_ylabel() == "value (s)"
    assert ys(mean) == pytest.approx([float(np.mean(numbers[k : k + 10])) for k in range(491)])
    assert xs(mean)[0] == 6


def test_curves_of_many_runs_have_a_colour_for_each_folder() -> None:
    runs = {f"r{k}": f"/x/{'ab'[k % 2]}/{k}.txt" for k in range(8)}
    drawn = plots.curves(printed(runs, loss=(None, [300.0, 20.0, 1.0])))
    (axes,) = panels(drawn)
    lines = by_gid(axes, "curve")
    assert [line.get_label() for line in lines] == ["a", "b"] * 4 and len({line.get_color() for line in lines}) == 2
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["a", "b"]
    assert axes.get_yscale() == "log"


def test_the_legend_of_curves_is_in_the_order_of_the_panels() -> None:
    tables = printed({"a": "a.txt", "b": "b.txt"}, loss=(None, [3.0, 2.0, 1.0]), lr=(None, [0.3, 0.2, 0.1]))
    values = tables["values"]
    drawn = plots.curves(tables | {"values": values[(values["run"] == "a") == (values["key"] == "loss")]})
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["a", "b"]
