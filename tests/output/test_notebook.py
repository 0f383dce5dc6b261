"""Plots of a log in a notebook, and its steps with their settings."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from support.paths import TESTS

import perflog
from perflog.errors import UsageError
from perflog.output.report import collect, to_html
from perflog.output.report.html.notebook import LivePlot
from perflog.tables.schema import arrow_schema
from perflog.tables.sink import MemorySink

DATA = TESTS / "data"


@pytest.fixture(scope="module")
def log() -> perflog.Log:
    return perflog.read(DATA / "moe_layer.txt")


def test_a_plot_of_a_log_is_that_of_its_page(log: perflog.Log) -> None:
    live = log.plot.steps()
    assert isinstance(live, LivePlot)
    shown, page = live._repr_html_(), to_html(collect(log))
    data = re.findall(r'<script type="application/json">(.*?)</script>', shown)
    assert len(data) == 1 and data[0] in page
    assert "<svg" in shown and shown.count('class="perflog"') == 1
    assert log.plot.steps()._repr_html_() == shown, "an output is the same each time"


def test_parts_of_different_plots_have_different_names(log: perflog.Log) -> None:
    shown = log.plot.phases()._repr_html_() + log.plot.breakdown()._repr_html_()
    names = re.findall(r'<pattern id="([^"]*)"', shown)
    assert len(names) == len(set(names)) > 2


def test_the_style_of_plots_changes_nothing_else_in_a_notebook(log: perflog.Log) -> None:
    (sheet,) = re.findall(r"<style>(.*?)</style>", log.plot.steps()._repr_html_(), re.DOTALL)
    depth, outer = 0, ""
    for character in sheet:
        outer += character if depth == 0 and character not in "{}" else ""
        depth += (character == "{") - (character == "}")
    outer = re.sub(r"@media[^{]*|\s+", " ", outer)
    assert set(outer.split()) <= {".perflog", "@media", "(prefers-color-scheme:", "dark)"}


def test_the_plots_of_a_log_are_listed(log: perflog.Log) -> None:
    possible = sorted(plot.name for plot in perflog.plots.possible(log))
    assert [line.split("  ")[0].strip() for line in repr(log.plot).splitlines()] == [
        f"log.plot.{n}()" for n in possible
    ]
    assert "Warm-up steps are shaded" in str(log.plot.steps.__doc__)
    with pytest.raises(AttributeError, match="did you mean `steps`"):
        _ = log.plot.stepz
    with pytest.raises(UsageError, match="there is nothing to draw for `kernels`"):
        log.plot.kernels()
    with pytest.raises(UsageError, match="did you mean `warmup`"):
        log.plot.steps(warmpu=3)


def test_the_steps_of_200_runs_with_their_settings_are_one_frame(tmp_path: Path) -> None:
    lines = (DATA / "moe_layer.txt").read_text("utf-8").splitlines()
    one = perflog.read(DATA / "moe_layer.txt#1")
    head = lines[: int(one.table("steps").line.iloc[-1])]
    for place in range(200):
        text = "\n".join(head).replace("num_local_experts = 8", f"num_local_experts = {place + 1}")
        (tmp_path / f"{place:03}.txt").write_text(text, encoding="utf-8")
    frame = perflog.read(tmp_path).table("steps", settings=True)
    assert frame["run"].nunique() == 200
    assert sorted(set(frame["num_local_experts"])) == list(range(1, 201))
    assert (frame.groupby("run")["num_local_experts"].nunique() == 1).all()
    times = one.table("steps").step_time_s.tolist()
    assert frame.groupby("run").step_time_s.apply(list).tolist() == [times] * 200


def test_settings_that_are_named_as_columns_replace_none(log: perflog.Log) -> None:
    sink = MemorySink()
    config = '{"step": 7, "setting_step": 8, "lr": 0.5}'
    rows = [row | {"config": config} for row in log.arrow("runs").to_pylist()]
    sink.add("runs", pa.Table.from_pylist(rows, arrow_schema("runs")))
    sink.add("steps", log.arrow("steps"))
    frame = perflog.Log(sink.fetch).table("steps", settings=True)
    assert frame["step"].tolist() == log.table("steps")["step"].tolist()
    values = [frame[name].unique().tolist() for name in ("setting_step", "setting_setting_step", "lr")]
    assert values in ([[7], [8], [0.5]], [[8], [7], [0.5]])
    assert frame.columns.is_unique
    pd.testing.assert_frame_equal(frame[log.table("steps").columns], log.table("steps"))
