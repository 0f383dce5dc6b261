"""Metrics `timeline` and `goodput`: what each second of a job was, against jobs whose seconds are known."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.patches import Rectangle
from support.examples import examples
from support.jobs import Job, restarted
from support.metrics_logs import by_hand, rows

import perflog
from perflog.metrics import goodput, timeline
from perflog.metrics.jobs import timeline as module
from perflog.metrics.jobs.job_intervals import ELAPSED
from perflog.metrics.jobs.timeline import moment
from perflog.tables.schema import NO_DATE, NO_YEAR, UTC

STAMP_S = 1.0  # the lines of a start print whole seconds


def read(text: str, folder: Path, name: str = "log.txt") -> perflog.Log:
    (folder / name).write_text(text)
    return perflog.read(folder / name)


def seconds_of(table: pd.DataFrame) -> dict[str, float]:
    return {kind: float(rows["time_s"].sum()) for kind, rows in table.groupby("kind")}


def check_tiles(table: pd.DataFrame) -> None:
    for begin, end in pairwise(table.itertuples()):
        assert begin.end_ns == end.begin_ns
    assert (table["end_ns"] > table["begin_ns"]).all()
    assert (table["last_line"] >= table["first_line"]).all()


def test_a_job_with_a_hang_and_a_restart(tmp_path: Path) -> None:
    table = timeline(read(restarted().text, tmp_path))
    check_tiles(table)
    kinds = ["startup", "training", "checkpoint", "repeated", "stall", "down", "startup", "training"]
    assert table["kind"].tolist() == kinds
    assert table["time_s"].tolist() == pytest.approx([100, 80, 30, 40, 300, 200, 120, 80], abs=STAMP_S)
    assert table["attempt"].tolist() == [1] * 5 + [2] * 3
    steps = table[["first_step", "last_step"]].dropna().to_numpy().tolist()
    assert steps == [[1, 40], [41, 60], [41, 80]]
    assert table["known_by"].tolist() == [*["stamps"] * 2, "steps", "stamps", "printed", *["stamps"] * 3]


def test_all_columns_of_one_attempt() -> None:
    """Steps of 1 s up to 15 s, a checkpoint, and steps from 30 s on; the clock prints whole seconds."""
    ends = [*range(10, 16), *range(30, 36)]
    steps = [{"step": step, "line": 2 * step, "printed_ns": at * 10**9, "clock": "utc", "step_time_s": 1.0}
             for step, at in enumerate(ends, 1)]  # fmt: skip
    saved = {"table": "milestones", "line": 13, "kind": "checkpoint"}
    found = timeline(by_hand("steps", [*steps, saved]))
    same = {"run": "r", "label": None, "job": "r", "attempt": 1, "clock": "utc", "error_s": 1.0}
    names = ("kind", "begin", "begin_ns", "end_ns", "time_s", "first_step", "last_step", "first_line", "last_line",
             "known_by")  # fmt: skip
    moment = "1970-01-01 00:00:{:02d}.000".format
    assert rows(found) == [
        same | dict(zip(names, (kind, moment(begin), begin * 10**9, end * 10**9, end - begin, *more), strict=True))
        for kind, begin, end, *more in (
            ("training", 10, 15, 2, 6, 2, 12, "stamps"), ("checkpoint", 15, 29, None, None, 12, 14, "steps"),
            ("training", 29, 35, 7, 12, 14, 24, "stamps"),
        )
    ]  # fmt: skip


def test_attempts_in_files_of_their_own_are_one_job(tmp_path: Path) -> None:
    text = restarted().text
    lines = text.splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if i and "using world size" in line)
    (tmp_path / "b.log").write_text("".join(lines[:cut]))
    (tmp_path / "a.log").write_text("".join(lines[cut:]))
    together = timeline(perflog.read(tmp_path / "a.log", tmp_path / "b.log"))
    (tmp_path / "one").mkdir()
    whole = timeline(read(text, tmp_path / "one"))
    same = ["kind", "attempt", "begin_ns", "end_ns", "first_step", "last_step"]
    pd.testing.assert_frame_equal(together[same], whole[same])


def test_without_a_clock_printed_durations_are_added_up(tmp_path: Path) -> None:
    job = Job(stamps=False)
    job.steps(1, 40, 2.0)
    job.lines.append("Checkpoint saved in 12.50 seconds.")
    job.steps(41, 60, 2.0)
    job.hang(300)
    log = read(job.text, tmp_path)
    table = timeline(log)
    check_tiles(table)
    assert table["kind"].tolist() == ["training", "checkpoint", "training", "stall"]
    assert table["time_s"].tolist() == pytest.approx([80, 12.5, 40, 300])
    assert (set(table["known_by"]), set(table["clock"])) == ({"printed"}, {"steps"})
    assert table["begin"].tolist() == ["00:00:00.000", "00:01:20.000", "00:01:32.500", "00:02:12.500"]
    (row,) = goodput(log).to_dict("records")
    assert (row["training_s"], row["stall_s"], row["steps"]) == (120, 300, 60)
    assert pd.isna(row["goodput"])  # what the log does not tell is not known
    assert perflog.diagnose(log).cost == "300 s in which no step was done"


def test_times_of_day_are_a_clock_within_one_log(tmp_path: Path) -> None:
    """The 30 s between the second and the third line are across midnight."""
    times = ["23:59:40", "23:59:41", "00:00:11", *(f"00:00:{second}" for second in range(12, 60))]
    lines = [f"{time} | INFO | step {step} | loss=2.5 | 1000 ms/step" for step, time in enumerate(times, 1)]
    table = timeline(read("\n".join(lines), tmp_path))
    assert set(table["clock"]) == {"no_date"} and table["time_s"].sum() == pytest.approx(79)
    assert seconds_of(table)["stall"] == pytest.approx(29, abs=STAMP_S)
    assert table["begin"].iloc[-1] == "00:00:10.000"


def test_attempts_without_a_clock_stand_one_behind_the_other(tmp_path: Path) -> None:
    job = Job(stamps=False)
    job.steps(1, 60, 2.0)
    loaded = "  successfully loaded checkpoint from /ckpt at iteration 40"
    job.lines += ["slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-01T12:20:31 DUE TO PREEMPTION ***", loaded]
    job.steps(41, 80, 2.0)
    table = timeline(read(job.text, tmp_path))
    check_tiles(table)
    assert table[["attempt", "kind", "first_step", "last_step", "time_s"]].to_numpy().tolist() == [
        [1, "training", 1, 40, 80], [1, "repeated", 41, 60, 40], [2, "training", 41, 80, 80]
    ]  # fmt: skip


def bar(step: int, elapsed: int) -> str:
    return f"\rEpoch 0:  {step}%|#| {step}/100 [{elapsed // 60:02d}:{elapsed % 60:02d}<01:00,  1.00s/it, v_num=0]"


def test_the_printed_time_since_a_start_is_a_clock(tmp_path: Path) -> None:
    text = "".join(bar(step, 30 + 2 * step + 60 * (step > 50)) for step in range(1, 101)) + "\n"
    log = read(text, tmp_path)
    table = timeline(log)
    check_tiles(table)
    assert table["kind"].tolist() == ["compile", "training", "stall", "training"]
    assert table["time_s"].tolist() == pytest.approx([30, 100, 60, 100], abs=STAMP_S)
    assert (set(table["clock"]), set(table["known_by"])) == ({"elapsed"}, {"elapsed", "steps"})
    (row,) = goodput(log).to_dict("records")
    assert row["goodput"] == pytest.approx(200 / 290, abs=0.01)
    assert pd.isna(row["first_step_s"])  # what was before the clock began is not known


def test_steps_before_an_excerpt_are_no_compilation(tmp_path: Path) -> None:
    table = timeline(read("".join(bar(step, 2 * step) for step in range(41, 61)) + "\n", tmp_path))
    assert table[["kind", "first_step", "time_s"]].to_numpy().tolist() == [["training", 41, 40.0]]
    table = timeline(read(bar(5, 10) + bar(6, 70) + "\n", tmp_path))  # one time: how long step 5 took is not known
    assert table[["kind", "first_step", "time_s"]].to_numpy().tolist() == [["training", 6, 60.0]]


def test_the_time_of_the_file_is_no_time_of_the_job(tmp_path: Path) -> None:
    """The last lines have no time, and the file may be a copy."""
    job = Job()
    job.start(100)
    job.steps(1, 40, 2.0)
    path = tmp_path / "run.log"
    path.write_text(job.text + "".join(f"shutting down part {number}\n" for number in range(30)))
    written = job.now.replace(tzinfo=None).timestamp() + 50
    os.utime(path, (written, written))
    assert timeline(perflog.read(path))["kind"].tolist() == ["startup", "training"]


def test_what_the_first_step_takes_longer_is_compilation(tmp_path: Path) -> None:
    job = Job()
    job.start(10)
    job.steps(1, 1, 32.0)
    job.steps(2, 30, 2.0)
    table = timeline(read(job.text, tmp_path))
    assert table["kind"].tolist() == ["startup", "compile", "training"]
    assert table["time_s"].tolist() == pytest.approx([10, 30, 60], abs=STAMP_S)
    assert table["first_step"].tolist()[-1] == 1


def test_steps_that_vary_are_no_stall(tmp_path: Path) -> None:
    job = Job()
    job.start(10)
    job.steps(1, 100, iter([2.0, 2.5, 1.5, 9.0] * 25))
    assert timeline(read(job.text, tmp_path))["kind"].tolist() == ["startup", "training"]


def test_a_stall_between_two_steps(tmp_path: Path) -> None:
    job = Job()
    job.start(10)
    job.steps(1, 30, 2.0)
    job.spend("stall", 45)
    job.steps(31, 60, 2.0)
    table = timeline(read(job.text, tmp_path))
    assert table["kind"].tolist() == ["startup", "training", "stall", "training"]
    assert table["time_s"].tolist() == pytest.approx([10, 60, 45, 60], abs=STAMP_S)


def test_a_log_that_prints_every_tenth_step(tmp_path: Path) -> None:
    """A later attempt goes on in the middle of a window: its steps are divided."""
    job = restarted()
    kept = [line for line in job.text.splitlines(keepends=True) if "elapsed" not in line or "0/ " in line]
    table = timeline(read("".join(kept), tmp_path))
    check_tiles(table)
    got = seconds_of(table)
    assert got == pytest.approx(job.seconds, abs=2 * STAMP_S)


@st.composite
def planned_jobs(draw: st.DrawFn) -> Job:
    job = Job()
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    usual = draw(st.floats(0.5, 20))
    every = draw(st.integers(8, 25))
    saved: int | None = None
    attempts = draw(st.integers(1, 3))
    for attempt in range(1, attempts + 1):
        job.start(draw(st.integers(5, 900)), saved)
        first = (saved or 0) + 1
        reached = first - 1
        for _ in range(draw(st.integers(1, 3))):
            times = iter((usual * rng.normal(1, 0.01, every)).tolist())
            job.steps(reached + 1, reached + every, times)
            reached += every
            job.save(reached, draw(st.floats(2.0, 60.0)) * usual)
            saved = reached
        if draw(st.booleans()) and reached > every:
            job.steps(reached + 1, reached + every, iter((usual * rng.normal(1, 0.01, every)).tolist()))
            reached += every
            job.spend("stall", usual * draw(st.floats(15.0, 60.0)) + 2)
            again = attempt < attempts
            times = iter((usual * rng.normal(1, 0.01, every)).tolist())
            if again:  # all since the checkpoint is done again
                job.seconds["repeated"] = job.seconds.get("repeated", 0) + (took := _last_steps(job, every))
                job.seconds["training"] -= took
            job.steps(reached + 1, reached + every, times, "repeated" if again else "training")
        else:
            times = iter((usual * rng.normal(1, 0.01, every)).tolist())
            job.steps(reached + 1, reached + every, times, "repeated" if attempt < attempts else "training")
        if attempt < attempts:
            job.hang(draw(st.integers(60, 1800)))
            job.spend("down", draw(st.integers(5, 5000)))
    return job


def _last_steps(job: Job, number: int) -> float:
    """The time of the last steps, as printed."""
    lines = [line for line in job.lines if " iteration " in line and "elapsed" in line][-number:]
    return sum(float(line.split("(ms): ")[1].split()[0]) for line in lines) / 1e3


@examples(60)
@given(planned_jobs())
def test_intervals_tile_the_wall_time_as_planned(tmp_path_factory: pytest.TempPathFactory, job: Job) -> None:
    table = timeline(read(job.text, tmp_path_factory.mktemp("job")))
    check_tiles(table)
    assert float(table["time_s"].sum()) == pytest.approx(sum(job.seconds.values()), abs=STAMP_S)
    got = seconds_of(table)
    counts = table["kind"].value_counts()
    assert set(got) == set(job.seconds)
    scatter = 0.05 * float(table.loc[table["kind"] == "training", "time_s"].sum()) / job.text.count(" elapsed ")
    for kind, seconds in job.seconds.items():
        allowed = (2 * STAMP_S + scatter) * int(counts[kind])
        assert got[kind] == pytest.approx(seconds, abs=allowed), kind


def test_the_plot_has_a_strip_for_each_attempt(tmp_path: Path) -> None:
    log = read(restarted().text, tmp_path)
    figure = perflog.plots.timeline(log)
    (axes,) = figure.axes
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert sum(bar.get_width() for bar in bars) == pytest.approx(float(timeline(log)["time_s"].sum()))
    assert {round(bar.get_y() + bar.get_height() / 2) for bar in bars} == {1, 2}
    assert "goodput" in axes.get_title(loc="left")


def test_a_job_without_a_clock_has_a_strip_and_says_that_the_rest_is_not_known(tmp_path: Path) -> None:
    stamped, bare = Job(), Job(stamps=False, settings="data-parallel size: 16")
    for job in (stamped, bare):
        job.steps(1, 60, 2.0)
        job.lines.append("Checkpoint saved in 12.50 seconds.")
        job.steps(61, 80, 2.0)
        job.hang(300)
    for name, job in (("bare.log", bare), ("stamped.log", stamped)):
        (tmp_path / name).write_text(job.text)
    told = " ".join(perflog.overview(perflog.read(tmp_path / "bare.log")).reasons)
    assert (
        "From printed durations: training 160 s, stall 300 s (after step 80), checkpoint 12.5 s; other time is unknown."
        in told
    )
    figure = perflog.plots.timeline(perflog.read(str(tmp_path)))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert ["goodput" in titles[0], "other time is unknown" in titles[1]] == [True, True]
    assert figure.axes[1].get_xlabel().startswith("printed time")


@pytest.mark.parametrize(
    ("hours", "clock", "text"),
    [(1.0, ELAPSED, "01:00:00.000"), (26.5, ELAPSED, "26:30:00.000"), (24.0, UTC, "1970-01-02 00:00:00.000"),
     (24.0, NO_YEAR, "01-02 00:00:00.000"), (12.5, NO_DATE, "12:30:00.000")],
)  # fmt: skip
def test_a_moment_has_its_date_if_the_clock_has_one(hours: float, clock: str, text: str) -> None:
    assert moment(round(hours * 3600 * 10**9), clock) == text


@pytest.mark.parametrize(
    ("loaded", "done", "first"), [(None, 1, 20), (None, 5, 16), (10, 5, 11), (19, 1, 20), (30, 1, 20)]
)
def test_an_attempt_begins_behind_its_checkpoint(
    loaded: int | None, done: int, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one, with the steps that its first line covers."""
    extent: Any = SimpleNamespace(run="r", first_step=20)
    lines = SimpleNamespace(places=np.array([20, 25]), steps_done=np.array([done, 5]))
    monkeypatch.setattr(module, "step_lines", lambda *_: lines)
    monkeypatch.setattr(module, "attempts", lambda _: {"r": SimpleNamespace(step=loaded)})
    tables: Any = None
    assert module._first_step(tables, extent) == first
    monkeypatch.setattr(module, "attempts", lambda _: {})
    monkeypatch.setattr(module, "step_lines", lambda *_: None)
    assert module._first_step(tables, extent) == 20
