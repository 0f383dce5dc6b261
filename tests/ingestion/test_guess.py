"""`--guess` reads a log that nothing describes, and every row says that it is a guess."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import run, told

import perflog
from perflog.errors import InputError

LINES = [f"after iteration {k} the loss is {9 / (k + 1):.2f}, at {30 + k:.1f} ms/step" for k in range(5)]
KNOWN = [f"iter {k}: loss 5.4983, time 337.52ms, mfu 0.96%" for k in range(3)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "run.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def test_a_guess_reads_all_figures_and_marks_its_rows(log: Path) -> None:
    with pytest.raises(InputError, match="nothing in it is recognised") as error:
        perflog.read(log)
    assert f"perflog ingest --guess {log}" in error.value.help
    read = perflog.read(log, guess=True)
    steps = read.table("steps")
    assert steps["loss"].tolist() == [9.0, 4.5, 3.0, 2.25, 1.8]
    assert steps["step_time_s"].tolist() == pytest.approx([0.030, 0.031, 0.032, 0.033, 0.034])
    assert set(steps["read_by"]) == {"guess"} and read.runs["format"].tolist() == ["guess"]
    assert read.figure_account == {"total": 15, "stored": 15, "dropped": 0, "unread": 0}


def test_a_guess_adds_to_what_formats_read(log: Path) -> None:
    log.write_text("\n".join([*KNOWN, *LINES]) + "\n", encoding="utf-8")
    steps = perflog.read(log, guess=True).table("steps")
    assert (steps["read_by"].isna().sum(), (steps["read_by"] == "guess").sum()) == (3, 5)
    log.write_text("\n".join(KNOWN) + "\n", encoding="utf-8")
    plain, guessed = perflog.read(log), perflog.read(log, guess=True)
    assert guessed.table("steps").equals(plain.table("steps"))


def test_a_store_keeps_the_mark(log: Path, tmp_path: Path) -> None:
    (done,) = told("ingest", "--guess", "--json", "-o", tmp_path / "store", log)["logs"]
    assert done["format"] == "guess" and done["tables"]["steps"] == 5
    stored = perflog.ingest(log, store=tmp_path / "other", guess=True)
    assert set(stored.table("steps")["read_by"]) == {"guess"}


def test_a_guess_cannot_read_words(log: Path) -> None:
    log.write_text("only words here\n" * 9, encoding="utf-8")
    assert "has only words" in run("ingest", "--guess", "-o", log.parent / "s", log, code=3).stderr


def test_a_trace_is_read_as_always(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(
        '{"traceEvents": [{"ph": "X", "name": "k", "cat": "kernel", "ts": 1, "dur": 2, "pid": 0, "tid": 7}]}'
    )
    assert len(perflog.read(trace, guess=True).table("events")) == 1
