"""Python functions take runs as callers have them: paths, lists, globs, logs, tables, and mappings of names to them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.json_logs import json_log, steady_times

import perflog
from perflog.errors import UsageError
from perflog.opening.given_runs import log_of
from perflog.output.report import collect


def steps(level: float) -> pd.DataFrame:
    return pd.DataFrame({"step": range(40), "step_time_s": steady_times(3, level)})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three repeats, and one readable file of another kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for k in range(3):
        json_log(tmp_path / "runs" / f"{k}.json", steady_times(k))
    (tmp_path / "runs" / "scaling.txt").write_text('{"scale": 8, "samples_per_s": 120.5}')
    return tmp_path / "runs"


GIVEN: dict[str, tuple[Callable[[Path], Any], int]] = {
    "path": (lambda folder: folder / "0.json", 1),
    "text": (str, 4),
    "glob": (lambda folder: str(folder / "*.json"), 3),
    "list": (lambda folder: sorted(folder.glob("*.json")), 3),
    "log": (lambda folder: perflog.read(folder / "0.json"), 1),
    "table": (lambda _: steps(0.2), 1),
    "tables": (lambda _: [steps(0.2), steps(0.3)], 2),
    "mapping": (lambda folder: {"a": [folder / "0.json", "runs/1.json"], "b": steps(0.2)}, 3),
    "figures": (lambda _: {"latency": 1.5}, 1),
}


@pytest.mark.parametrize("form", GIVEN)
def test_forms_of_runs(folder: Path, form: str) -> None:
    """An absolute and a relative path may stand in one list."""
    given, runs = GIVEN[form]
    assert len(log_of(given(folder))) == runs
    assert repr(perflog.overview(given(folder)))
    assert set(perflog.lint(given(folder)).columns) >= {"run", "code"}
    assert isinstance(perflog.causes(given(folder)), pd.DataFrame)
    assert perflog.diagnose_jobs(given(folder))[0].verdict.startswith("no failure is reported")
    assert perflog.export.csv(given(folder), folder.parent / "csv")[0] == "runs"
    if form != "figures":
        with_steps = runs - (form == "text")  # whose folder has a file without steps
        assert perflog.metrics.steps(given(folder)).run.nunique() == with_steps
        assert perflog.plots.steps(given(folder), warmup=0).axes


@pytest.mark.parametrize("form", ["list", "table", "mapping"])
def test_a_report_takes_them_too(folder: Path, form: str) -> None:
    given = GIVEN[form][0](folder)
    compared = collect(given, draw=False).comparison
    assert (None if compared is None else compared.sides) == (("a", "b") if form == "mapping" else None)
    assert "step" in perflog.report(given, format="md")


def test_tables_have_the_names_of_their_sides() -> None:
    assert repr(perflog.overview({"latency": 1.5})).startswith("<perflog.Overview of table 1")
    assert perflog.compare({"old": steps(0.2), "new": steps(0.25)}).sides == ("old", "new")


def test_tables_of_a_log_stay_what_they_are(folder: Path) -> None:
    log = perflog.read(folder / "0.json")
    tables = {name: log.table(name) for name in ("runs", "steps", "lines")}
    assert perflog.lint(tables).equals(perflog.lint(log))


def test_a_file_of_another_kind_is_no_run_of_a_side(folder: Path, tmp_path: Path) -> None:
    os.mkdir(tmp_path / "new")
    for k in range(3):
        json_log(tmp_path / "new" / f"{k}.json", steady_times(10 + k, 0.25))
    compared = perflog.compare(str(folder), str(tmp_path / "new"))
    assert [(each.label, each.reason) for each in compared.left_out] == [("scaling#1", "measures something else")]
    assert compared.verdict == "regression"


@pytest.mark.parametrize(
    ("given", "message"),
    [([], "no runs are given"), ({}, "no runs are given"), (5, "type int"), ([5], "type int"), (None, "type NoneType")],
)
def test_what_names_no_runs(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        log_of(given)


def test_one_log_is_itself(folder: Path) -> None:
    log = perflog.read(folder / "0.json")
    assert log_of(log) is log and log_of([log]) is log


WRONG: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a name that is a number": (lambda _: perflog.read(3), "type int names no log"),  # type: ignore[arg-type]
    "no names in a list": (lambda _: perflog.ingest([]), "no log is named"),
    "runs that are a number": (lambda _: perflog.track(3), "type int"),
    "no runs of a plot": (lambda _: perflog.plots.steps(), "no runs are given"),
    "no runs of a report": (lambda _: perflog.report(), "no runs are given"),
    "a format": (lambda log: perflog.report(log, format="pdf"), "no format 'pdf'"),  # type: ignore[arg-type]
    "a size": (lambda log: perflog.plots.steps(log, size=(0, 3)), "does not fit into 0 x 3 inches"),
    "a warm-up below 0": (lambda log: perflog.metrics.steps(log, warmup=-1), "`warmup` is -1"),
    "a warm-up of letters": (lambda log: perflog.lint(log, warmup="a"), "`warmup` is 'a'"),  # type: ignore[arg-type]
    "a level": (lambda log: perflog.causes(log, level=95), "`level` is 95"),
    "several jobs": (lambda log: perflog.diagnose(log.parent), "logs of 4 jobs"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_argument_is_an_error_that_names_it(folder: Path, what: str) -> None:
    for k in range(3):
        rows = "".join(f"iter {i}: loss {2 + k}.{i}, time 30.{k}0ms, mfu 1.00%\n" for i in range(9))
        (folder / f"job{k}.txt").write_text(f"batch_size = {8 << k}\n{rows}ValueError: {k}\n")
        (folder / f"{k}.json").unlink()
    call, message = WRONG[what]
    with pytest.raises(UsageError, match=message):
        call(folder / "job0.txt")


def test_lists_of_names_and_answers_in_a_notebook(folder: Path) -> None:
    logs = sorted(folder.glob("*.json"))
    assert len(perflog.read(logs)) == len(perflog.read(*logs)) == len(perflog.ingest(logs, store=folder / "s")) == 3
    diagnosis, track = perflog.diagnose(logs), perflog.track(logs)
    assert len(perflog.diagnose_jobs(folder)) == 4
    assert diagnosis._repr_html_().count("<tr>") > 1 and "<ul>" in track._repr_html_()
    assert repr(track).startswith("<perflog.Track by ")
