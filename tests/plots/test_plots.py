"""Figures: they hold the numbers of the metrics, say what they show, and nothing lies over anything else."""

from __future__ import annotations

import inspect
import itertools
import json
import pydoc
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from support import seeds
from support.drawings import bars, check_sketch, xs, ys
from support.jobs import Job
from support.paths import ROOT
from support.reading import DATA, NAMES

import perflog
from perflog import metrics, plots
from perflog.cli.main import main
from perflog.errors import PerflogError, UsageError
from perflog.metrics import Options, Tables
from perflog.plots import PLOTS
from perflog.plots.drawing.canvas import FILLS, envelope, plain, unit_of
from perflog.plots.drawing.heatmaps import coarse
from perflog.tables.schema import TABLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HOME = ROOT
KINDS = {
    "moe_layer": {"waterfall", "breakdown", "steps", "distribution", "phases", "wait", "loads", "imbalance", "sweep"},
    "moe_layer_early": {"waterfall", "breakdown", "steps", "distribution"},
    "training_sweep": {"waterfall", "breakdown", "steps", "distribution", "sweep"},
    "nvprof": {"breakdown", "kernels", "ranges"},
    "pipeline_layers": {"waterfall", "curves", "steps", "distribution", "imbalance", "layers", "schedule", "schedules"},
}
MS = 1e3


def kinds(name: str, of: str) -> set[str]:
    """The plots that a log has; cut-downs of one run are no sweep, of one loss no curve, of 3 steps no distribution."""
    missing = {
        "moe_layer": {"sweep", "distribution"},
        "moe_layer_early": {"distribution"},
        "pipeline_layers": {"curves", "distribution"},
    }
    return KINDS[name] - (missing.get(name, set()) if of == "cut_down" else set())


@cache
def reference(name: str) -> perflog.Log:
    store = perflog.load(HOME / "reference_runs" / "store")
    return store.select(*[run for run in store.run_keys if run.log == f"{name}.txt"])


@cache
def cut_down(name: str) -> perflog.Log:
    return perflog.read(DATA / f"{name}.txt")


LOGS = {"reference": reference, "cut_down": cut_down}


@cache
def tables(name: str, of: str = "reference") -> Tables:
    """Tables keep what metrics made of them."""
    return Tables(LOGS[of](name))


@cache
def figure(name: str, kind: str) -> Figure:
    return PLOTS[kind](tables(name))


def panels(figure: Figure) -> list[Axes]:
    """Axes that are no scale of colours."""
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def texts(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(Text))


def by_gid(axes: Axes, gid: str) -> list[Any]:
    return [artist for artist in axes.findobj() if artist.get_gid() == gid]


def frame(table: str, rows: int, **columns: Any) -> pd.DataFrame:
    """A table of the one run `r`."""
    empty = {column.name: [None] * rows for column in TABLES[table]}
    place = {"run": ["r"] * rows, "line": np.arange(rows) + 1, "part": np.zeros(rows, int)}
    return pd.DataFrame(empty | place | columns)


def made(times: Any, label: str = "made", **more: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Tables of a run with these step times."""
    n = len(times)
    runs = frame("runs", 1, label=[label], log=["/a/made.txt"], log_sha256=["0" * 64], index=[1], world_size=[2])
    one = np.ones(n, int)
    steps = frame("steps", n, step=np.arange(n), step_time_s=np.asarray(times), copy=one, steps_averaged=one)
    return {"runs": runs, "steps": steps, **more}


# --- which are possible, and how they look ----------------------------------------------------------------------


@pytest.mark.parametrize("of", LOGS)
@pytest.mark.parametrize("name", NAMES)
def test_possible_kinds_are_those_that_can_be_drawn(name: str, of: str) -> None:
    log = tables(name, of)
    found = {one.name for one in plots.possible(log)}
    assert found == kinds(name, of)
    for kind in set(PLOTS) - found:
        with pytest.raises(UsageError) as caught:
            PLOTS[kind](log)
        assert set(re.findall(r"\w+", caught.value.help.partition(":")[2])) == found


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_is_possible_for_the_logs_themselves(name: str) -> None:
    assert {one.name for one in plots.possible(seeds.log(name))} == KINDS[name]


CASES = [(name, kind) for name in NAMES for kind in sorted(KINDS[name])]


@pytest.fixture(params=CASES, ids="-".join)
def drawn(request: pytest.FixtureRequest) -> tuple[Figure, str]:
    """Each kind of each log, and the name of the log."""
    name, kind = request.param
    return figure(name, kind), f"{name}.txt"


def test_axes_say_what_they_show_and_in_which_unit(drawn: tuple[Figure, str]) -> None:
    found, log = drawn
    assert log in found.get_suptitle()
    for axes in panels(found):
        assert axes.get_title(loc="left") or all("n = " in label.get_text() for label in axes.get_yticklabels())
        assert re.search(r"\((ms|s|us|%)\)$|^(step|layer)$", axes.get_xlabel()), axes.get_xlabel()
        assert axes.get_ylabel() or all(label.get_text() for label in axes.get_yticklabels())
    for axes in set(found.axes) - set(panels(found)):
        assert re.search(r"\((ms|s|us|blocks)\)", axes.get_ylabel())


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_sketch_has_what_matplotlib_draws(name: str, kind: str) -> None:
    log = tables(name)
    check_sketch(figure(name, kind), PLOTS[kind].sketched(PLOTS[kind].rows(log, Options()), log, Options()), kind)


def test_all_text_is_on_the_canvas(drawn: tuple[Figure, str]) -> None:
    found, _ = drawn
    canvas = found.bbox.padded(1.5)
    for text in set(found.findobj(Text)) - beyond_limits(found):
        if text.get_visible() and text.get_text().strip():
            box = text.get_window_extent()
            assert canvas.x0 <= box.x0 and canvas.y0 <= box.y0, text
            assert box.x1 <= canvas.x1 and box.y1 <= canvas.y1, text


def beyond_limits(figure: Figure) -> set[Text]:
    """Texts of ticks beyond the limits of an axis: they are there, and not drawn."""
    found: set[Text] = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.majorTicks, *axis.minorTicks):
            if not low <= tick.get_loc() <= high:
                found |= {tick.label1, tick.label2}
    return found


def test_tick_labels_do_not_touch(drawn: tuple[Figure, str]) -> None:
    found, _ = drawn
    unseen = beyond_limits(found)
    for axes in found.axes:
        for axis in (axes.xaxis, axes.yaxis):
            seen = [text for text in axis.get_ticklabels() if text.get_text() and text not in unseen]
            boxes = [text.get_window_extent() for text in seen]
            for one, other in itertools.pairwise(boxes):
                assert not one.padded(-0.5).overlaps(other.padded(-0.5)), (axes.get_title(loc="left"), axis)


def test_legend_and_titles_cover_no_data(drawn: tuple[Figure, str]) -> None:
    found, _ = drawn
    legends = [one.get_window_extent() for one in found.legends]
    titles = [axes._left_title.get_window_extent() for axes in panels(found)]  # type: ignore[attr-defined]
    for box in legends:
        assert not any(box.overlaps(other) for other in [*titles, *(axes.get_window_extent() for axes in found.axes)])
    for at, title in enumerate(titles):
        others = [axes.get_window_extent() for axes in panels(found)] + titles[:at] + titles[at + 1 :]
        assert not any(title.padded(-1).overlaps(other) for other in others), panels(found)[at].get_title(loc="left")


def test_fills_are_told_apart_in_grey() -> None:
    def grey(color: str) -> float:
        red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
        return (0.299 * red + 0.587 * green + 0.114 * blue) / 255

    assert len(set(FILLS)) == len(FILLS)
    for i, (color, hatch) in enumerate(FILLS):
        for other, other_hatch in FILLS[:i]:
            assert hatch != other_hatch or abs(grey(color) - grey(other)) > 0.1, (color, other, hatch)


# --- numbers ----------------------------------------------------------------------------------------------------


def test_steps_are_those_of_the_log() -> None:
    log, found = reference("moe_layer"), figure("moe_layer", "steps")
    steps = log.table("steps")
    for run, axes, outliers in zip(log.run_keys, panels(found), [{9, 23}, {51, 53, 64}, None, None], strict=True):
        mine = steps[steps["run"] == run.id]
        line = next(line for line in axes.lines if line.get_label() == "step")
        assert np.array_equal(xs(line), mine["step"])
        assert np.allclose(ys(line), mine["step_time_s"] * MS, rtol=1e-12)
        (middle,) = (line for line in axes.lines if line.get_label() == "median of steady steps")
        assert ys(middle)[0] == pytest.approx(mine["step_time_s"][1:].median() * MS)
        (window,) = by_gid(axes, "window")
        assert list(xs(window)) == [89.5, 99.5]  # the printed average is that of the last ten
        assert by_gid(axes, "warmup")[0].get_extents() is not None
        (beyond,) = by_gid(axes, "beyond")
        assert beyond.get_offsets()[:, 0].tolist() == [0]
        if outliers is not None:
            (odd,) = by_gid(axes, "outliers")
            assert set(xs(odd)) == outliers


def test_windows_of_the_sweep() -> None:
    for axes in panels(figure("training_sweep", "steps")):
        (window,) = by_gid(axes, "window")
        assert list(xs(window)) == [39.5, 99.5]


def test_runs_of_logs_with_one_name_are_named_by_their_folders(tmp_path: Path) -> None:
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        text = (DATA / "moe_layer_early.txt").read_text()
        (tmp_path / folder / "run.txt").write_text(f"{text}unknown {folder}\n")
    drawn = PLOTS["steps"](perflog.find_runs(str(tmp_path)))
    assert {axes.get_title(loc="left").splitlines()[0] for axes in panels(drawn)} == {"old/run.txt", "new/run.txt"}


def test_a_line_that_covers_two_steps_is_named() -> None:
    (axes,) = panels(figure("pipeline_layers", "steps"))
    assert "left out: step 2: covers 2 steps" in axes.get_title(loc="left")
    assert min(xs(axes.lines[0])) == 3


def test_distribution_has_every_steady_step_and_the_medians() -> None:
    log, (axes,) = reference("training_sweep"), panels(figure("training_sweep", "distribution"))
    found = metrics.steps(log)
    found = found[(found["of"] == "step_time") & (found["part"] == "steady")]
    for place, row in enumerate(found.to_dict("records")):
        (dots,), (median,) = by_gid(axes, f"steps {place}"), by_gid(axes, f"median {place}")
        assert len(xs(dots)) == row["n"]
        assert float(np.median(xs(dots))) == pytest.approx(row["median_s"] * MS)
        assert xs(median)[0] == pytest.approx(row["median_s"] * MS)
    assert len(by_gid(axes, "interval")) == len(found) == 9


def test_distribution_of_two_logs() -> None:
    (axes,) = panels(plots.distribution(reference("moe_layer").select("#1"), reference("moe_layer_early")))
    assert len(axes.get_yticks()) == 2
    again = plots.distribution(reference("moe_layer"), reference("moe_layer").select("#2"))
    assert len(panels(again)[0].get_yticks()) == 4  # a run counts once


def printed(runs: dict[str, str], **series: Any) -> dict[str, pd.DataFrame]:
    """Tables of runs, each with the log that `runs` says, that print series: key=(unit, values)."""
    import pandas as pd

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


def test_values_without_steps_stand_over_their_samples() -> None:
    """Evaluations of MLPerf print the samples so far, and no step."""
    tables = printed({"r": "a.txt"}, eval_loss=(None, [3.0, 2.5, 2.0]), samples_count=(None, [384.0, 768.0, 1536.0]))
    (axes,) = panels(plots.curves(tables | {"values": tables["values"].assign(step=None)}))
    (line,) = by_gid(axes, "curve")
    assert (list(xs(line)), axes.get_xlabel()) == ([384, 768, 1536], "samples")


@pytest.mark.parametrize(
    ("steps", "drawn"), [([7, 5, 6], [5, 6, 7]), ([5, 6, 5], [5, 6, 5])], ids=["worst first", "a step again"]
)
def test_values_that_are_listed_by_something_else_are_drawn_over_their_steps(
    steps: list[int], drawn: list[int]
) -> None:
    tables = printed({"r": "a.txt"}, slowdown=(None, [1.7, 1.5, 1.6]))
    (axes,) = panels(plots.curves(tables | {"values": tables["values"].assign(step=steps)}))
    (line,) = by_gid(axes, "curve")
    assert list(xs(line)) == drawn
    assert dict(zip(xs(line), ys(line), strict=True)) == dict(zip(steps, [1.7, 1.5, 1.6], strict=True))


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


def test_bars_of_the_breakdown_end_at_the_step() -> None:
    """Each bar is as long as its run's mean step; the part of a name is that of the metric."""
    table = metrics.breakdown(tables("moe_layer"))
    (axes,) = panels(figure("moe_layer", "breakdown"))
    ends: dict[int, float] = {}
    for bar in axes.patches:
        assert isinstance(bar, Rectangle)
        place = round(bar.get_y() + bar.get_height() / 2)
        ends[place] = max(ends.get(place, 0.0), bar.get_x() + bar.get_width())
    wholes = table.groupby("run", sort=False)["whole_s"].first() * MS
    assert [ends[i] for i in range(4)] == pytest.approx(wholes.tolist(), rel=1e-9)
    waits = table[table["part"] == "wait"]["time_s"] * MS
    assert [bar.get_width() for bar in by_gid(axes, "wait")] == pytest.approx(waits.tolist(), rel=1e-9)


def test_phases_are_stacked_inside_forward_and_backward() -> None:
    log, found = reference("moe_layer"), figure("moe_layer", "phases")
    table, phases = metrics.phases(tables("moe_layer")), log.table("phases")
    for run, axes in zip(log.run_keys, panels(found), strict=True):
        wholes = table[(table["run"] == run.id) & (table["part"] == "whole") & table["rank"].isna()]
        whole = dict(zip(wholes["phase"], wholes["mean_s"], strict=True))
        step, forward = whole["step"] * MS, whole["forward"] * MS
        for place in range(5):
            pieces = [bar for bar in bars(axes) if bar.get_gid() == f"stack {place}"]
            assert all(bar.get_x() >= 0 and bar.get_x() + bar.get_width() <= step for bar in pieces)
            assert not [bar for bar in pieces if bar.get_x() + 1e-9 < forward < bar.get_x() + bar.get_width() - 1e-9]
            if place:  # a rank: its wait is the first piece, the median of its steady steps
                mine = phases[(phases["run"] == run.id) & (phases["rank"] == place - 1) & (phases["step"] > 0)]
                wait = mine[mine["phase"] == "wait"]["time_s"].median() * MS
                assert pieces[0].get_width() == pytest.approx(wait)
                hidden = sum(bar.get_width() for bar in bars(axes) if bar.get_gid() == f"beside {place}")
                process = mine[mine["phase"] == "process"]["time_s"].median() * MS
                assert hidden == pytest.approx(process, rel=0.05)  # a sum of medians


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


def test_shares_of_kernels_add_up_to_the_table() -> None:
    gpu, api = panels(figure("nvprof", "kernels"))
    for axes, first, seconds in ((gpu, 43.88, "11.19 s"), (api, 69.42, "12.01 s")):
        widths = [bar.get_width() for bar in bars(axes)]
        assert len(widths) == 13
        assert widths[0] == pytest.approx(first, abs=0.01)
        assert sum(widths) == pytest.approx(100)
        assert seconds in axes.get_xlabel()


def test_ranges_are_drawn_as_the_tree_says() -> None:
    (axes,) = panels(figure("nvprof", "ranges"))
    table = metrics.ranges(reference("nvprof"))
    widths = [bar.get_width() for bar in axes.containers[0]]
    assert np.allclose(widths, table["gpu_s"])
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert [(len(text) - len(text.lstrip())) // 3 for text in labels] == list(table["depth"])
    assert [text.strip() for text in labels] == list(table["range"])


def test_ranges_of_traces_are_drawn_in_a_panel_for_each_rank(tmp_path: Path) -> None:
    """The seconds of two kernels in one range of two, on two ranks."""
    for rank, length in enumerate((30, 60)):
        annotation = {"ph": "X", "cat": "user_annotation", "pid": 9, "tid": 1}
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 1, "ts": 2, "dur": 1}
        kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 9, "dur": length}
        events = [
            annotation | {"name": "step", "ts": 0, "dur": 9}, annotation | {"name": "forward", "ts": 1, "dur": 4},
            call | {"args": {"correlation": 5}}, kernel | {"args": {"correlation": 5, "device": 0, "stream": 7}},
        ]  # fmt: skip
        trace = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace))
    drawn = PLOTS["device_ranges"](Tables(perflog.read(tmp_path)))
    assert [axes.get_title(loc="left").rpartition(", ")[2] for axes in panels(drawn)] == ["rank 0", "rank 1"]
    bars = [[bar.get_width() for bar in axes.containers[0]] for axes in panels(drawn)]
    assert bars == [pytest.approx([30, 30]), pytest.approx([60, 60])]
    assert [text.get_text() for text in panels(drawn)[0].get_yticklabels()] == ["step", "   forward"]


def test_idle_time_is_drawn_by_cause(tmp_path: Path) -> None:
    """Three kernels of 10 us: idle for 30 us before the launch of the second, and for 5 us behind each launch."""
    events = []
    for number, at in enumerate((0, 45, 60)):
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 1, "ts": at, "dur": 2}
        kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": at + 5, "dur": 10}
        events += [
            call | {"args": {"correlation": number + 1}},
            kernel | {"args": {"correlation": number + 1, "device": 0, "stream": 7}},
        ]
    (tmp_path / "a.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    tables = Tables(perflog.read(tmp_path / "a.json"))
    (axes,) = panels(PLOTS["launches"](tables))
    widths = {bars.get_label(): bars[0].get_width() for bars in axes.containers}
    assert {label: round(width * 0.7) for label, width in widths.items() if width} == {
        "host-bound": 30, "while a launch arrives": 10
    }  # fmt: skip
    (axes,) = panels(PLOTS["launch_queue"](tables))
    (line,) = axes.get_lines()
    assert xs(line)[0] == 0
    assert max(ys(line)) == pytest.approx(1)
    assert np.mean(ys(line)) * 70 == pytest.approx(10)  # the trace begins with the first kernel


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


def test_sweep_has_the_speed_ups() -> None:
    found = figure("training_sweep", "sweep")
    said = [text.get_text() for axes in panels(found) for text in axes.texts]
    assert [text.split(", ")[1] for text in said if "base" not in text] == [
        "1x", "0.996x", "0.448x", "0.798x", "0.243x", "0.573x",
    ]  # fmt: skip
    table = metrics.sweep(reference("training_sweep"))
    widths = [bar.get_width() for axes in panels(found) for bar in bars(axes)]
    assert np.allclose(widths, table["median_s"] * MS)


# --- text, size, length -----------------------------------------------------------------------------------------


def test_text_of_a_log_is_no_mathtext() -> None:
    label = "a $x_1$ 50 % \\$ \\alpha_b ^ {c} $"
    found = plots.steps(made([0.1] * 20, label))
    title = next(text for text in found.findobj(Text) if "x_1" in text.get_text())
    shown, is_math = title._preprocess_math(title.get_text().splitlines()[0])  # type: ignore[attr-defined]
    assert (shown, is_math) == (label, False)
    assert plots.render(found, "svg") and plots.render(found, "pdf")


def test_signs_the_font_lacks_make_no_warning() -> None:
    assert plain("中文 a\x07\tb") == "\ufffd\ufffd a\ufffd b"
    assert plots.render(plots.steps(made([0.1] * 20, "中文\n\u202e")), "png")


def test_long_text_keeps_both_ends() -> None:
    assert plain("a" * 50 + "b" * 50, 21) == "a" * 13 + "…" + "b" * 7


@pytest.mark.parametrize("values", [[], [np.nan], [0.0], [0.0, np.inf]])
def test_a_unit_is_found_for_any_values(values: list[float]) -> None:
    assert unit_of(values, "s") == ("s", 1.0)


def test_units_of_axes() -> None:
    assert unit_of([0.001, 0.02, np.nan], "s") == ("ms", 1e-3)
    assert unit_of([3e-6], "s") == ("us", 1e-6)
    assert unit_of([0.5], "1") == ("%", 0.01)


def test_long_runs_keep_their_extremes() -> None:
    y = np.random.default_rng(0).normal(1, 0.01, 100_000)
    y[[31_415, 77_777]] = 9, -9
    x, thin, k = envelope(np.arange(100_000.0), y)
    assert k > 1 and len(x) <= 3000
    assert {31_415, 77_777} <= set(x) and {9, -9} <= set(thin)
    assert np.all(np.diff(x) > 0)
    assert np.array_equal(y[x.astype(int)], thin)


def test_coarse_grids_keep_their_largest() -> None:
    grid = np.zeros((3, 5000))
    grid[1, 4999], grid[2, :] = 7, np.nan
    found, k = coarse(grid)
    assert k == (1, 5) and found.shape == (3, 1000)
    assert found[1, -1] == 7 and np.isnan(found[2]).all() and (found[0] == 0).all()


def test_a_long_run_is_drawn_whole() -> None:
    times = np.random.default_rng(1).normal(0.1, 0.001, 20_000)
    times[12_345] = 3.0
    found = plots.steps(made(times))
    (axes,) = panels(found)
    assert len(xs(axes.lines[0])) <= 3000
    assert by_gid(axes, "beyond")[0].get_offsets()[:, 0].tolist() == [12_345]
    assert "3000" in [text.get_text() for text in axes.texts]
    assert "1 beyond, up to 3000" in texts(plots.distribution(made(times)))


def test_short_and_constant_runs() -> None:
    for times in ([0.1], [0.1, 0.1], [0.1] * 7):
        assert plots.render(plots.steps(made(times)), "png")
    assert plots.render(plots.distribution(made([0.1] * 7)), "png")
    with pytest.raises(UsageError, match="nothing to draw for `distribution`"):
        plots.distribution(made([0.1] * 4))


def test_what_is_not_known_is_hatched() -> None:
    loads = frame("loads", 6, step=[0, 0, 1, 1, 2, 2], rank=[0, 1, 0, None, 0, 1], unit=["token"] * 6, amount=[1.0] * 6)
    loads["rank"] = loads["rank"].astype("Int64")
    (axes,) = panels(plots.loads(made([0.1] * 3, loads=loads)))
    assert np.isnan(_image(axes)).tolist() == [[False] * 3, [False, True, False]]
    assert axes.patch.get_hatch()


def test_many_runs_are_capped_with_a_note() -> None:
    several = [made([0.1] * 8) for _ in range(15)]
    for at, tables in enumerate(several):
        for table in tables.values():
            table["run"] = f"r{at}"
    found = plots.steps(*several)
    assert len(panels(found)) == 12
    assert "12 of 15 panels are shown" in texts(found)


def test_labels_that_runs_share_come_with_their_ids() -> None:
    one, two = made([0.1] * 8), made([0.2] * 8)
    for table in two.values():
        table["run"] = "s"
    titles = [axes.get_title(loc="left").splitlines()[0] for axes in panels(plots.steps(one, two))]
    assert titles == ["made (r)", "made (s)"]


# --- the library's state, files, command --------------------------------------------------------------------------


def test_settings_of_the_user_neither_count_nor_change() -> None:
    log = reference("moe_layer_early")
    usual = plots.render(plots.steps(log), "svg")
    with mpl.rc_context({"font.size": 30, "axes.grid": True, "lines.linewidth": 9}):
        before = dict(mpl.rcParams)
        assert plots.render(plots.steps(log), "svg") == usual
        assert dict(mpl.rcParams) == before


def test_pyplot_is_not_loaded() -> None:
    code = "import sys, perflog, perflog.plots as p; a = 'matplotlib' in sys.modules; "
    code += f"p.steps(perflog.read({str(DATA / 'moe_layer.txt')!r})); print(a, 'matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False False\n", "")


@pytest.mark.parametrize(
    ("end", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")]
)
def test_the_command_writes_each_kind_of_file(end: str, magic: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"out.{end}"
    log = str(DATA / "moe_layer.txt")
    done = CliRunner().invoke(main, ["plot", log, "steps", "-o", str(path), "--dpi", "50", "--size", "8x5"])
    assert (done.exit_code, done.output) == (0, f"{path}\n")
    assert path.read_bytes().startswith(magic)


def test_the_command_lists_what_is_possible() -> None:
    done = CliRunner().invoke(main, ["plot", str(DATA / "nvprof.txt")])
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()[1:]] == ["breakdown", "kernels", "ranges"]


def test_the_command_draws_several_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log, other = str(DATA / "training_sweep.txt#1"), str(DATA / "training_sweep.txt#2")
    done = CliRunner().invoke(main, ["plot", log, "distribution", "--with", other])
    assert done.exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == [done.output.strip()]
    assert re.fullmatch(r"distribution-[0-9a-f]{12}-1\.png", done.output.strip())


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["step"], "did you mean `steps`?"),
        (["kernels"], "no rows in table `kernels`"),
        (["steps", "-o", "a.gif"], "png, svg or pdf"),
        (["steps", "--size", "1x1"], "does not fit"),
        (["steps", "--size", "big"], "width and height in inches"),
    ],
)
def test_what_cannot_be_drawn_is_said(args: list[str], says: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["plot", str(DATA / "moe_layer.txt"), *args])
    assert done.exit_code == 2
    assert says in done.output


def test_a_file_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(PerflogError, match="cannot be written"):
        plots.save(figure("nvprof", "kernels"), tmp_path / "no" / "a.png")


def test_the_docs_have_every_kind() -> None:
    text = (HOME / "docs" / "plots.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.+) \|$", text, re.MULTILINE)
    assert sorted(rows) == sorted((one.name, one.metric, one.caption) for one in PLOTS.values())


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_a_plot_documents_itself(plot: plots.Plot) -> None:
    parameters = inspect.signature(plot).parameters
    options = [name for name in Options.__dataclass_fields__ if name not in ("targets", "gpu_hour")]  # no plot has them
    assert list(parameters) == ["logs", "size", *options]
    assert parameters["warmup"].annotation == (int | None) and parameters["level"].default == Options().level
    text = pydoc.plain(pydoc.render_doc(plot))
    assert all(f"{name} (" in text for name in parameters)
    assert (plot.draw.__doc__ or "").partition("\n")[0] in text
    assert all(section in text for section in ("Args:", "Returns:", "Raises:"))
    assert "Example:" in text or plot.name == "device_time"  # no trace is bundled
    assert repr(plot) == f"<plot {plot.name}: {plot.title}; draws metric {plot.metric}>"


def test_unknown_options_are_errors() -> None:
    with pytest.raises(UsageError, match="no option `warm_up`") as caught:
        plots.steps(made([0.1] * 8), warm_up=2)  # type: ignore[arg-type]
    assert "warmup" in caught.value.help


def test_the_list_of_plots_is_one_line() -> None:
    assert repr(PLOTS).startswith(f"<{len(PLOTS)} plots: ") and "\n" not in repr(PLOTS)


def test_loads_of_layers_have_a_panel_each(tmp_path: Path) -> None:
    (tmp_path / "table_iter7_rank0.log").write_text("0:[[1, 2]]\n1:[[3, 4]]\n")
    titles = [axes.get_title(loc="left") for axes in panels(plots.loads(perflog.read(tmp_path)))]
    assert [title.partition(": ")[2] for title in titles] == [
        "token in layer 0 by expert",
        "token in layer 1 by expert",
    ]


def test_every_plot_is_a_function_of_the_package() -> None:
    assert all(getattr(plots, name) is one for name, one in PLOTS.items())
    assert all(one.needs == metrics.get(one.metric).needs for one in PLOTS.values())


def test_tables_will_do_for_a_log() -> None:
    assert panels(plots.steps(Tables(reference("moe_layer_early"))))


def test_steps_of_two_levels_are_judged_by_their_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    times = np.concatenate([rng.normal(2, 0.01, 60), rng.normal(3, 0.01, 60)])
    times[[30, 100]] = 2.5, 3.5
    job = Job()
    job.start(10)
    job.steps(1, 120, iter(times.tolist()))
    path = tmp_path / "run.log"
    path.write_text(job.text)
    (axes,) = plots.steps(perflog.read(path), warmup=0).axes
    (odd,) = by_gid(axes, "outliers")
    assert {31, 101} <= set(xs(odd))
    assert len(xs(odd)) < 8
    assert [list(xs(line)) for line in by_gid(axes, "level")] == [[1, 60], [61, 120]]
