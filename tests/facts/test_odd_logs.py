"""Logs that were cut, spoiled or restarted, odd labels, and places that cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import EARLY, NVPROF, SWEEP, run, told
from support.rendered_logs import Records, changed, moe, text

import perflog
from perflog.metrics.possible import impossible
from perflog.metrics.step_series import step_series
from perflog.output import sheets


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERFLOG_STORE", raising=False)
    return tmp_path


def write(path: Path, records: Records) -> Path:
    path.write_text(text("moe_layer", records), encoding="utf-8")
    return path


def spoiled(path: Path, line: str, **values: Any) -> Path:
    """A log of a MoE layer whose step 7 prints these values."""
    return write(path, changed(moe(), line, lambda k, v: v.update(values) if k == 7 else None))


# --- times that cannot be -------------------------------------------------------------------------------------------


def test_impossible_values() -> None:
    values = np.array([-1.0, 0.0, 1e-9, 1e8, 1e10, 1e31, np.inf, np.nan])
    assert impossible("forward_s", values).tolist() == [True, False, False, False, True, True, True, True]
    assert impossible("step_time_s", values).tolist() == [True, True, False, False, True, True, True, True]
    assert impossible("loss", values).tolist() == [False, False, False, False, False, True, True, True]
    assert impossible("tokens_per_s", values).tolist() == [True, False, False, False, False, True, True, True]


@pytest.mark.parametrize("time", [0.0, -3.5, 1e20])
def test_a_step_time_that_cannot_be_is_left_out_and_told(work: Path, time: float) -> None:
    log = perflog.read(spoiled(work / "run.txt", "step", step_time=time))
    (one,) = step_series({name: log.table(name) for name in ("runs", "steps")})
    assert one.left_out == ((7, f"step_time_s cannot be {time / 1e3:g}"),)
    assert 7 not in one.steps
    found = told("lint", "run.txt", "--format", "json")["rows"]
    assert ("time-impossible", "error") in [(one["code"], one["severity"]) for one in found]
    run("compare", "run.txt", "run.txt")


def test_a_forward_that_takes_no_time_explains_no_phases(work: Path) -> None:
    nothing = changed(moe(), "step", lambda _, v: v.update(forward=0.0))
    found = told("lint", write(work / "run.txt", nothing), "--format", "json")["rows"]
    assert all("inf" not in one["message"] for one in found)


def test_a_time_that_is_no_number_is_not_in_a_trace(work: Path) -> None:
    spoiled(work / "run.txt", "forward", moe_forward=float("nan"))
    run("export", "run.txt", "--to", "perfetto", "-o", "trace.json")
    events = json.loads((work / "trace.json").read_text("utf-8"), parse_constant=pytest.fail)["traceEvents"]
    assert sum(event["name"] == "moe_forward" for event in events) == 79


# --- logs that lack their begin, or begin again ---------------------------------------------------------------------


def test_a_profile_without_its_head_has_no_shares(work: Path) -> None:
    """What a row is of stands in the first row of its group: without that, it may be of the GPU or of the API."""
    lines = Path(NVPROF).read_text("utf-8").splitlines(keepends=True)
    (head,) = [i for i, line in enumerate(lines) if "GPU activities" in line][:1]
    (work / "tail.txt").write_text("".join(lines[:head] + lines[head + 1 : head + 4]), encoding="utf-8")
    rows = told("analyze", "tail.txt", "kernels", "--format", "json")["kernels"]
    assert {(row["of"], row["share"], row["denominator"]) for row in rows} == {(None, None, None)}
    run("report", "tail.txt")
    run("plot", "tail.txt")


def test_a_report_of_a_run_that_was_restarted(work: Path) -> None:
    """Evidence of repeated steps once hid the lines that prove it."""
    path = write(work / "run.txt", changed(moe(), "step", lambda k, v: v.update(step=7) if k == 8 else None))
    assert "steps-repeated" in run("lint", path).stdout
    run("report", path, "-o", "page.html")
    assert "steps-repeated" in (work / "page.html").read_text("utf-8")


def test_a_metric_of_nothing_is_no_table_in_markdown() -> None:
    out = run("analyze", NVPROF, "steps", "--format", "md").stdout
    assert "these runs have no data" in out
    assert "|" not in out


# --- labels and stores ----------------------------------------------------------------------------------------------


def test_a_label_may_hold_an_equals_sign() -> None:
    for log, label in ((EARLY, "lr=0.1"), (SWEEP, "lr=0.2")):
        run("ingest", log, "--label", label)
    told("compare", "lr=0.1", "again=lr=0.1", "--format", "json")
    assert "  A  lr=0.1\n  B  lr=0.1 (2)\n" in run("compare", "lr=0.1", "lr=0.1").stdout
    assert "  A  a\n  B  b\n" in run("compare", "a=lr=0.1", "b=lr=0.1").stdout


@pytest.mark.parametrize("command", ["analyze", "lint", "plot"])
def test_a_store_may_stand_for_its_runs(command: str) -> None:
    run("ingest", SWEEP, "--store", "kept")
    run(command, "kept")
    assert run("show", "kept#2").stdout == run("show", SWEEP + "#2").stdout


# --- what cannot be written -----------------------------------------------------------------------------------------


def test_a_trace_goes_through_a_pipe_or_a_link_and_leaves_it(work: Path) -> None:
    os.mkfifo("pipe")
    with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE) as reader:
        run("export", SWEEP + "#1", "--to", "perfetto", "-o", "pipe")
        assert reader.stdout is not None
        piped = reader.stdout.read()
    assert (work / "pipe").is_fifo()
    (work / "file.json").touch()
    (work / "link.json").symlink_to("file.json")
    run("export", SWEEP + "#1", "--to", "perfetto", "-o", "link.json")
    assert (work / "link.json").is_symlink()
    assert (work / "file.json").read_bytes() == piped


def test_a_picture_of_too_many_pixels_is_refused(work: Path) -> None:
    done = run("plot", SWEEP, "steps", "--size", "100x100", "--dpi", 1200, "-o", "x.png", code=2)
    assert "120000 x 120000 pixels are too many" in done.stderr
    assert not (work / "x.png").exists()


def test_notes_are_wrapped_on_a_narrow_terminal() -> None:
    note = "what a number means " * 8
    lines = [line.text for line in sheets.text([sheets.sheet("some", "name value#", [("a", 1)], "title", note)], 40)]
    assert max(map(len, lines)) <= 40
    assert " ".join(line.strip() for line in lines[3:]) == note.strip()
