"""Findings on what perflog did not read, or guessed."""

from __future__ import annotations

import json
from pathlib import Path

from support.format_files import given_file

import perflog

FORM = """
title = "own"
[[line]]
name = "tail"
table = "values"
text = "tail {speed:f} {_:s}"
sample = "tail 2.0 x"
"""


def findings(log: perflog.Log) -> dict[str, tuple[str, str, list[int]]]:
    """Return severity, message and lines of each finding, by code."""
    rows = perflog.lint(log).to_dict("records")
    return {r["code"]: (r["severity"], r["message"], *json.loads(r["evidence"])["lines"].values()) for r in rows}


def test_unread_figures_of_known_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text("tail 2.0 x\ntail 2.0 of 30, 40\n", encoding="utf-8")
    log = perflog.read(path, format=str(given_file(tmp_path, FORM)))
    message = "2 figures of 1 shape of line not read: 'tail 2.0 x'"
    assert findings(log)["unread-figures"] == ("note", message, [1])
    path.write_text("tail 2.0 x\n", encoding="utf-8")
    assert "unread-figures" not in findings(perflog.read(path, format=str(given_file(tmp_path, FORM))))


def test_guessed_rows(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    path.write_text("".join(f"after iteration {k} the loss is {9 / (k + 1):.2f}\n" for k in range(5)), encoding="utf-8")
    log = perflog.read(path, guess=True)
    assert findings(log)["guessed-rows"] == ("warning", "guessed: 5 rows of table steps", [1])


def test_the_error_that_a_program_stopped_with_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    steps = "".join(f"step {k}: train loss {5 - k}.0000, val loss 4.0000\n" for k in range(3))

    def error_of(tail: str) -> tuple[str, str, list[int]] | None:
        path.write_text(steps + tail, encoding="utf-8")
        return findings(perflog.read(path)).get("program-error")

    assert error_of("RuntimeError: is only a word without a traceback\n") is None
    traceback = '[rank1]: Traceback (most recent call last):\n[rank1]:   File "a.py", line 3, in <module>\n'
    assert error_of(traceback) == ("warning", "Ended by an exception with a lost message on rank 1, line 4", [4])
    raised = traceback + "[rank1]: torch.OutOfMemoryError: CUDA out of memory.\n"
    assert error_of(raised) == ("warning", "Ended by CUDA out of memory on rank 1, line 4", [4])
    assert error_of("Segmentation fault (core dumped)\n") == ("warning", "Ended by a segmentation fault, line 4", [4])
    cancelled = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE TO TIME LIMIT ***"
    assert error_of(f"{cancelled}\n") == ("warning", "Ended by the time limit of the job, line 4", [4])
    steps_behind = "".join(f"step {k}: train loss {5 - k}.0000, val loss 4.0000\n" for k in range(3, 6))
    assert error_of(raised + steps_behind) == ("note", "CUDA out of memory on rank 1, line 4; steps follow", [4])


MLLOG = ':::MLLOG {"namespace": "", "time_ms": %d, "event_type": "%s", "key": "%s", "value": null, "metadata": %s}\n'


def test_a_run_that_was_cut_off_or_aborted(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    begin = MLLOG % (1000, "INTERVAL_START", "run_start", '{"lineno": 1}')
    path.write_text(begin + MLLOG % (2000, "INTERVAL_START", "eval_start", '{"lineno": 2}'), encoding="utf-8")
    found = findings(perflog.read(path))
    assert found["open-interval"] == ("warning", "`run_start`, `eval_start`: not stopped", [1, 2])
    path.write_text(begin + MLLOG % (3000, "INTERVAL_END", "run_stop", '{"status": "aborted"}'), encoding="utf-8")
    found = findings(perflog.read(path))
    assert found["no-success"] == ("warning", "status is aborted", [2])
    assert "open-interval" not in found
    path.write_text(begin + MLLOG % (3000, "INTERVAL_END", "run_stop", '{"status": "success"}'), encoding="utf-8")
    assert not {"open-interval", "no-success"} & findings(perflog.read(path)).keys()
