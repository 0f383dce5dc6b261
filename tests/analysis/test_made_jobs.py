"""Made logs of jobs beside the repository: what ended each, what its time was, and rows whose ranks talk at once."""

from __future__ import annotations

import json
from math import isclose
from pathlib import Path
from typing import Any

import pytest
from support.commands import told
from support.paths import SHARED

import perflog
from perflog.tables.nulls import none_if_null

JOBS = SHARED / "campaigns" / "jobs"
TRUTH: dict[str, Any] = json.loads((JOBS / "truth.json").read_text()) if JOBS.is_dir() else {}
KINDS = {
    "out of memory": "gpu_out_of_memory", "GPU fault": "gpu_fault", "exception": "exception",
    "preemption": "preemption", "time limit": "time_limit", "not a number": "not_a_number",
    "collective timeout": "collective_timeout", "host out of memory": "host_out_of_memory",
}  # fmt: skip
ENDED = [name for name, truth in TRUTH.items() if "class" in truth]
TORN = [name for name, truth in TRUTH.items() if "rows" in truth]
STAMP_S = 1.0  # the clock of the log counts seconds

pytestmark = pytest.mark.skipif(not TRUTH, reason="the made jobs are not here")


def log_of(name: str) -> Path:
    return JOBS / f"{name}.log"


@pytest.mark.parametrize("name", ENDED)
def test_what_ended_the_job(name: str) -> None:
    truth, found = TRUTH[name], told("diagnose", log_of(name), "--format", "json")
    assert (found["kind"], found["last_step"]) == (KINDS[truth["class"]], truth["last_step"])
    assert [each["rank"] for each in found["culprits"]] == ([] if truth["rank"] is None else [truth["rank"]])


def test_a_job_that_was_started_again() -> None:
    truth, log = TRUTH["restart"], perflog.read(log_of("restart"))
    found = perflog.diagnose(log).as_json()
    assert (found["kind"], [each["rank"] for each in found["culprits"]]) == ("collective_timeout", [3])
    (row,) = perflog.metrics.goodput(log).to_dict("records")
    first, last = truth["steps_repeated"]
    assert (row["attempts"], row["steps_lost"]) == (truth["attempts"], last - first + 1)
    assert row["goodput"] == pytest.approx(truth["goodput"], rel=0.01)
    assert row["wall_s"] == pytest.approx(truth["wall_s"], abs=STAMP_S)
    intervals = perflog.metrics.timeline(log)
    seconds = intervals.groupby("kind")["time_s"].sum().to_dict()
    assert seconds == pytest.approx(truth["seconds_by_kind"], abs=STAMP_S)
    repeated = intervals[intervals["kind"] == "repeated"]
    assert (repeated["first_step"].tolist(), repeated["last_step"].tolist()) == ([first], [last])
    shift = perflog.metrics.levels(log).iloc[-1]
    assert (shift["first_step"], f"{100 * shift['change']:+.1f} %"[:4]) == (
        truth["level_shift_at_step"],
        truth["level_shift"][:4],
    )


@pytest.mark.parametrize("name", TORN)
def test_no_row_of_torn_output_is_another_ranks(name: str) -> None:
    """Nearly all rows whose text survived are read; none has a rank, step or figure that was not printed so."""
    printed = [json.loads(line) for line in (JOBS / f"{name}.rows.jsonl").read_text().splitlines()]
    figures = [key for key in printed[0] if key not in ("rank", "step", "whole")]
    whole = {(row["rank"], row["step"]) for row in printed if row["whole"]}
    steps = perflog.read(log_of(name)).table("steps")
    rows = steps[["rank", "step", *figures]].astype(object).to_dict("records")
    rows = [row | {"rank": none_if_null(row["rank"])} for row in rows]
    assert len(whole & {(row["rank"], row["step"]) for row in rows}) >= 0.98 * len(whole)
    for row in rows:
        may_be = [each for each in printed if each["step"] == row["step"] and row["rank"] in (None, each["rank"])]
        read = {key: row[key] for key in figures if row[key] is not None and row[key] == row[key]}
        assert any(all(isclose(each[key], read[key], rel_tol=1e-12) for key in read) for each in may_be), row
