"""The heatmap of the loads of experts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.text import Text

import perflog
from perflog import plots
from perflog.errors import UsageError


def written(folder: Path, loads: dict[int, dict[int, list[list[int]]]]) -> perflog.Log:
    """The files of a job: by step and layer the loads of each rank."""
    folder.mkdir()
    for step, of_step in loads.items():
        for rank in range(2):
            lines = [f"{layer}:[[{', '.join(f'{n}.0' for n in ranks[rank])}]]\n" for layer, ranks in of_step.items()]
            (folder / f"table_iter{step}_rank{rank}.log").write_text("".join(lines))
    return perflog.read(folder)


def cells(axes: object) -> list[list[float]]:
    (image,) = axes.images  # type: ignore[attr-defined]
    grid: list[list[float]] = np.ma.filled(np.ma.asarray(image.get_array()).astype(np.float64), np.nan).tolist()
    return grid


def test_the_first_and_the_last_step_of_a_job(tmp_path: Path) -> None:
    """The loads of both ranks add up; each row is relative to its mean."""
    log = written(
        tmp_path / "job",
        {
            1: {0: [[1, 1, 1], [2, 2, 2]], 1: [[3, 1, 2], [1, 3, 2]]},
            5: {0: [[4, 4, 4], [1, 1, 1]], 1: [[9, 8, 7], [1, 1, 1]]},
            11: {0: [[6, 0, 3], [0, 0, 3]], 1: [[0, 0, 9], [0, 1, 2]]},
        },
    )
    first, last, bar = plots.hot_experts(log).axes
    assert (first.get_title(loc="left"), last.get_title(loc="left")) == ("job, step 1", "job, step 11")
    assert cells(first) == [[1, 1, 1], [1, 1, 1]]
    assert cells(last) == [[6 / 4, 0, 6 / 4], [0, 1 / 4, 11 / 4]]
    assert (first.get_xlabel(), first.get_ylabel(), bar.get_ylabel()) == ("expert", "layer", "load / mean")
    assert [text.get_text() for text in first.get_xticklabels()] == ["0", "1", "2"]
    assert first.images[0].get_clim()[1] >= 2


def test_a_job_of_one_layer_has_a_row_for_each_step(tmp_path: Path) -> None:
    log = written(tmp_path / "job", {step: {0: [[step, 1, 1], [step, 2, 2]]} for step in (1, 7, 1001)})
    axes, _ = plots.hot_experts(log).axes
    assert axes.get_ylabel() == "step"
    assert [text.get_text() for text in axes.get_yticklabels()] == ["1", "7", "1,001"]
    assert cells(axes)[1] == pytest.approx([14 / (20 / 3), 3 / (20 / 3), 3 / (20 / 3)])


def test_many_jobs_are_counted_in_panels(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    for k in range(8):
        written(tmp_path / "all" / f"job{k}", {s: {0: [[k + s, 1]] * 2, 1: [[1, 2 + k]] * 2} for s in (1, 2)})
    figure = plots.hot_experts(perflog.read(tmp_path / "all"))
    assert any("12 of 16 panels are shown" in text.get_text() for text in figure.findobj(Text))


def test_a_log_without_experts_has_no_heatmap(tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text("iter 1: loss 2.5, time 20.00ms, mfu 1.00%\n" * 3)
    with pytest.raises(UsageError, match="nothing to draw for `hot_experts`"):
        plots.hot_experts(perflog.read(tmp_path / "run.txt"))
