"""Rules on how runs end: open intervals, and a status that is no success."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.linted import TableRow, linted, messages, steps


def interval(*keys: str) -> list[TableRow]:
    return [{"table": "values", "key": key, "value": 1.0} for key in keys]


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (["run_start", "run_stop"], None),
        (["run_start"], "`run_start`"),
        (["epoch_start"], None),  # the log closes no interval, and it is no run
        (["epoch_start", "run_start"], "`epoch_start`, `run_start`"),
        (["run_start", "epoch_start", "epoch_stop"], "`run_start`"),
        (["run_start", "epoch_start", "run_stop"], "`epoch_start`"),
        (["run_start", "run_stop", "run_start"], "`run_start`"),
        (["run_stop", "run_start"], "`run_start`"),
        (["b_start", "a_start", "c_stop"], "`b_start`, `a_start`"),  # in the order of their lines
        (["c_stop", "started"], None),
    ],
)
def test_intervals_that_stay_open(keys: list[str], shown: str | None) -> None:
    assert messages("open-interval", interval(*keys)) == ([] if shown is None else [f"{shown}: not stopped"])


def test_lines_of_open_intervals() -> None:
    (finding,) = linted("open-interval", interval("run_start", "run_stop", "run_start", "eval_start"))
    assert finding.evidence["lines"] == {"r": [3, 4]} and finding.numbers == {"intervals": 2}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"status": "aborted"}, "status is aborted"),
        ({"status": "FAILED"}, "status is failed"),
        ({"status": "success"}, None),
        ({"status": ["aborted", "success"]}, None),
        ({"status": ["started", "aborted"]}, "status is started, aborted"),
        ({"status": "running"}, None),
        ({"success": False}, "success is false"),
        ({"success": True}, None),
        ({"state": "failed"}, None),
    ],
)
def test_a_status_that_is_no_success(config: dict[str, object], message: str | None) -> None:
    found = linted("no-success", steps(1, 2, 3), config=json.dumps(config))
    assert [each.message for each in found] == ([] if message is None else [message])
    assert [each.first_line for each in found] == [3] * len(found)


def failure(line: int, **more: Any) -> TableRow:
    usual = {"table": "failures", "line": line, "last_line": line, "kind": "gpu_out_of_memory", "severity": "fatal"}
    return usual | {"count": 1, "role": "first", "message": "torch.OutOfMemoryError: CUDA out of memory", **more}


def test_a_failure_that_ended_a_run() -> None:
    (finding,) = linted("program-error", [*steps(1, 2, 3), failure(4, rank=3)], last_line=4)
    assert (finding.severity, finding.first_line) == ("warning", 4)
    assert finding.message.startswith("Ended by ")


def test_a_failure_that_ended_an_attempt() -> None:
    again = [*steps(1, 2, 3), failure(4), *steps(2, 3, 4, 5)]
    assert [each.severity for each in linted("program-error", again)] == ["warning"]
    assert messages("program-error", again)[0].startswith("Attempt 1 of 2 ended by ")


def test_a_failure_after_which_the_run_goes_on() -> None:
    (finding,) = linted("program-error", [*steps(1, 2, 3), failure(4), *steps(4, 5, 6)])
    assert (finding.severity, finding.first_line) == ("note", 4)
    assert finding.message.endswith("; steps follow")
