"""Two recordings of one run: a log and its metrics are one run, and where they disagree is a finding."""

from __future__ import annotations

from pathlib import Path

import perflog


def recordings(folder: Path, factor: float, first: int) -> perflog.Log:
    """A log and a file of metrics with the same 40 steps; the times of the file differ by a factor from a step on."""
    times = [2.0 + (step * 37 % 100) / 1000 for step in range(1, 41)]
    lines = [f"step {k}/40 | loss {4 - k / 50:.4f} | step_time {t:.4f} s\n" for k, t in enumerate(times, 1)]
    rows = [f"{k},{4 - k / 50:.4f},{t * (factor if k >= first else 1):.4f}\n" for k, t in enumerate(times, 1)]
    folder.mkdir()
    (folder / "train.log").write_text("".join(lines))
    (folder / "metrics.csv").write_text("step,loss,step_time_s\n" + "".join(rows))
    return perflog.read(folder)


def test_two_recordings_are_one_run(tmp_path: Path) -> None:
    overview = perflog.overview(recordings(tmp_path / "same", 1.0, 1))
    assert len(overview.groups) == 1 and not overview.doubts
    assert overview.reasons[0].startswith("2 logs of one job (equal losses or times): metrics.csv, train.log. ")


def test_two_recordings_that_disagree(tmp_path: Path) -> None:
    log = recordings(tmp_path / "differ", 0.9, 21)
    assert len(perflog.overview(log).groups) == 1
    found = perflog.lint(log).set_index("code").loc["recordings-disagree", "message"]
    assert found.startswith("step time differs in 20 of 40 steps, the first of them step 21: ")
    assert found.endswith(" (medians of these steps) in metrics.csv and train.log")


def test_other_times_are_of_another_run(tmp_path: Path) -> None:
    assert len(perflog.overview(recordings(tmp_path / "other", 0.9, 1)).groups) == 2
