"""Step times and their distribution: what is drawn is what the log has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from support.drawings import xs, ys
from support.jobs import Job
from support.plotted_logs import MS, by_gid, figure, made, panels, reference, texts
from support.reading import DATA

import perflog
from perflog import metrics, plots
from perflog.errors import UsageError
from perflog.plots import PLOTS
from perflog.plots.training import step_times as module


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
        assert list(xs(window)) == [89.5, 99.5]  # the printed value is the mean of the last ten
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


def test_a_first_level_is_no_warm_up(tmp_path: Path) -> None:
    """A run that begins at another level, such as one that a hot GPU slows down until step 40."""
    times = np.random.default_rng(7).normal(np.repeat([3.0, 2.0], [40, 160]), 0.01)
    (tmp_path / "run.log").write_text("".join(f"step {n} step_time {t:.4f} s\n" for n, t in enumerate(times, 1)))
    (axes,) = plots.steps(perflog.read(tmp_path / "run.log")).axes
    first, second = (list(xs(line)) for line in by_gid(axes, "level"))
    assert axes.get_title(loc="left").endswith(f", warm-up {int(first[0]) - 1}") and first[0] < 10
    assert (first[1], second) == (40, [41, 200]) and axes.get_ylim()[1] > 3


@pytest.mark.parametrize(
    ("largest", "end"),
    [(10.0, 10.15), (12.35, 12.5), (12.36, 11.5), (100.0, 11.5)],
)
def test_an_axis_ends_at_the_largest_value_unless_the_bulk_would_be_small(largest: float, end: float) -> None:
    """The bulk ends at 10, with a span of 1: it fills a third of the axis at least."""
    assert module._axis_end(largest, 10.0, 1.0) == pytest.approx(end)


def test_limits_of_step_times_fit_the_bulk_of_the_steady_steps() -> None:
    """A fiftieth of the bulk is the least span, so that equal steps are no cliff."""
    axes, handles = Figure().subplots(), dict[str, Any]()
    x, y = np.arange(100.0, 200.0), np.repeat([9.0, 1.0, 2.0], [1, 49, 50])
    module._set_limits(axes, x, y, y[1:], handles)
    assert axes.get_ylim() == pytest.approx((0.75, 3.5)) and axes.get_xlim() == pytest.approx((98.5, 200.5))
    (beyond,) = by_gid(axes, "beyond")
    assert beyond.get_offsets()[:, 0].tolist() == [100]
    axes = Figure().subplots()
    module._set_limits(axes, x, np.ones(100), np.ones(100), {})
    assert axes.get_ylim() == pytest.approx((0.995, 1.003)) and not by_gid(axes, "beyond")


def test_outliers_are_far_from_their_own_level() -> None:
    values = np.array([1.0, 1.01, 0.99, 1.0, 1.5, 3.0, 3.01, 2.99, 3.0, 3.5])
    assert np.flatnonzero(module._outliers(values, [(0, 5), (5, 10)])).tolist() == [4, 9]
    assert np.flatnonzero(module._outliers(values, [(5, 10)])).tolist() == [9]
    assert not module._outliers(values, []).any()


def test_the_axis_of_a_distribution_begins_before_the_smallest_step() -> None:
    """And runs of five steady steps have one, not of four."""
    times = [1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.1]
    (axes,) = panels(plots.distribution(made(times), warmup=3))
    (dots,) = by_gid(axes, "steps 0")
    assert list(xs(dots)) == pytest.approx([1.03, 1.04, 1.05, 1.06, 1.1])
    span = np.percentile(times[3:], 99) - 1.03
    assert axes.get_xlim()[0] == pytest.approx(1.03 - 0.05 * span)
    assert "n = 5" in axes.get_yticklabels()[0].get_text()
    with pytest.raises(UsageError):
        plots.distribution(made(times), warmup=4)


def test_steps_right_of_the_axis_are_counted() -> None:
    axes = Figure().subplots()
    module._mark_right_of(axes, [np.array([1.0, 2.0, 9.5, 12.0]), np.array([1.0, 2.0])], 2.0)
    assert [text.get_text() for text in axes.texts] == ["2 beyond, up to 12"]
    assert len(by_gid(axes, "far 0")) == 1 and not by_gid(axes, "far 1")
