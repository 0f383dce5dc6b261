"""`perflog query` and `log.sql`: the tables of runs in SQL."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import pytest
from support.commands import EARLY, MOE, SWEEP, run, told
from support.paths import ROOT
from support.patience import wait_until

import perflog
from perflog.errors import UsageError
from perflog.log import _settings_table
from perflog.tables import sql
from perflog.tables.schema import TABLES


def test_a_median_by_run_is_that_of_the_table() -> None:
    log = perflog.read(SWEEP)
    found = log.sql("select run, median(step_time_s) as m, sum(line) as lines from steps group by run order by run")
    steps = log.table("steps")
    for row in found.itertuples():
        of_run = steps[steps["run"] == row.run]
        assert (row.m, row.lines) == (median(of_run["step_time_s"]), of_run["line"].sum())
    assert found.dtypes.astype(str).to_dict()["lines"] == "Int64"  # DuckDB adds integers up in 128 bits


@pytest.mark.parametrize("table", TABLES)
def test_each_table_is_a_view(table: str) -> None:
    log = perflog.read(MOE)
    assert log.sql(f'select count(*) as n from "{table}"')["n"].item() == len(log.table(table))


def test_settings_are_columns() -> None:
    log = perflog.read(MOE)
    found = log.sql("select num_local_experts n, count(*) c from steps join settings using (run) group by n order by n")
    assert found["n"].tolist() == log.settings["num_local_experts"].tolist()


def test_settings_of_several_types_are_text() -> None:
    several = {"Lr": [3, "three", [1, 2], None], "lr": [1, 2.5, None, 3], "big": [1 << 70] * 4}
    settings = pd.DataFrame({"run": list("abcd"), **several}, dtype=object)
    table = _settings_table(settings)
    assert table["Lr"].to_pylist() == ["3", "three", "[1, 2]", None]
    assert table["lr"].to_pylist() == [1.0, 2.5, None, 3.0] and table["big"][0].as_py() == str(1 << 70)


def test_runs_of_several_logs_and_of_the_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    run("ingest", SWEEP, "--store", store)
    count = "select count(*) n, count(distinct log) logs from runs"
    assert told("query", count, MOE, SWEEP, "--format", "json")["rows"] == [{"n": 3, "logs": 2}]
    assert told("query", count, "--store", store, "--format", "json")["rows"] == [{"n": 2, "logs": 1}]
    steps = told("query", "select distinct run from steps", f"{SWEEP}:2", "--format", "json")["rows"]
    assert [row["run"][-2:] for row in steps] == ["-2"]


def test_the_formats_of_the_output() -> None:
    query = "select 1.5 as x, 'a|b' as t, null as n, date '2026-01-02' as d, [1, 2] as l, 7 as x"
    row = {"x": 1.5, "t": "a|b", "n": None, "d": "2026-01-02", "l": [1, 2], "x_2": 7}
    assert told("query", query, EARLY, "--format", "json")["rows"] == [row]
    assert run("query", query, EARLY, "--format", "csv").stdout.splitlines()[0] == "x,t,n,d,l,x_2"
    assert r"a\|b" in run("query", query, EARLY, "--format", "md").stdout
    shown = run("query", "select * from range(50)", EARLY).stdout.splitlines()
    assert (len(shown), shown[-1]) == (42, "10 more rows: --limit 0 shows all 50")
    assert len(run("query", "select * from range(50)", EARLY, "--limit", "3").stdout.splitlines()) == 5


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("selec 1", "syntax error"),
        ("select * from 'http://localhost/x.parquet'", "the query may not do this"),
    ],
)
def test_a_wrong_query_is_one_error(query: str, message: str) -> None:
    told_error = run("query", query, EARLY, code=2).stderr
    assert message in told_error and "Traceback" not in told_error
    with pytest.raises(UsageError, match=message):
        perflog.read(EARLY).sql(query)


def test_variables_of_the_caller_are_no_tables() -> None:
    secret = pd.DataFrame({"a": [1]})
    assert len(secret)
    with pytest.raises(UsageError, match="secret does not exist"):
        perflog.read(EARLY).sql("select * from secret")


@pytest.mark.parametrize(
    "query", ["copy (select 1) to '{file}'", "select * from read_csv('{file}')", "set enable_external_access = true"]
)
def test_a_query_touches_no_file(query: str, tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    with pytest.raises(UsageError):
        perflog.read(EARLY).sql(query.format(file=file))
    assert not file.exists()


def test_a_query_may_read_files_if_asked(tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    file.write_text("a,b\n1,2\n", encoding="utf-8")
    assert perflog.read(EARLY).sql(f"select a + b as c from read_csv('{file}')", external=True)["c"].tolist() == [3]


def has_loaded_duckdb(process: subprocess.Popen[bytes]) -> bool:
    """Where the kernel does not list what a process has loaded, it has time enough."""
    maps = Path(f"/proc/{process.pid}/maps")
    if not maps.exists():
        time.sleep(4)
        return True
    return "duckdb" in maps.read_text()


def test_a_signal_ends_a_query(tmp_path: Path) -> None:
    """The query would take hours; each signal ends the process, with its own exit status and no traceback."""
    query = "select count(*) from range(10000000) a, range(10000000) b where a.range * b.range % 7 = 3"
    command = [sys.executable, "-m", "perflog", "query", query, str(EARLY)]
    every = (signal.SIGINT, signal.SIGTERM)
    signals = [n for n in every if signal.getsignal(n) != signal.SIG_IGN]  # a shell lets jobs behind `&` ignore SIGINT
    started = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE) for _ in signals]
    wait_until(lambda: all(map(has_loaded_duckdb, started)))
    time.sleep(0.5)
    for process, number in zip(started, signals, strict=True):
        process.send_signal(number)
    try:
        for process, number in zip(started, signals, strict=True):
            _, err = process.communicate(timeout=60)
            assert process.returncode in (128 + number, -number)
            assert b"Traceback" not in err
    finally:
        for process in started:
            with process:
                process.kill()


@pytest.mark.parametrize("comes_in", [(threading.Thread, "start"), (threading.Event, "wait")])
def test_a_signal_before_a_query_has_begun_ends_it_too(
    comes_in: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Connection:
        begun = ended = False

        def sql(self, _: str) -> None:
            time.sleep(0.2)
            self.begun = True
            while not self.ended:
                time.sleep(0.01)

        def interrupt(self) -> None:
            self.ended |= self.begun

    original, calls = getattr(*comes_in), itertools.count()

    def interrupted(of: Any, *args: Any) -> Any:
        if next(calls) == 0:
            if comes_in[1] == "start":  # the thread is made, and begins later
                threading.Timer(0.3, original, [of]).start()
            raise KeyboardInterrupt
        return original(of, *args)

    monkeypatch.setattr(*comes_in, interrupted)
    connection = Connection()
    with pytest.raises(KeyboardInterrupt):
        sql._interruptible(connection, "select 1")
    assert connection.ended


def test_a_process_prints_the_rows_alone() -> None:
    command = [sys.executable, "-m", "perflog", "query", "select count(*) as n from runs", str(SWEEP)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert done.stderr == b""


def test_the_name_of_a_column_is_no_markup() -> None:
    name = "<img src=x>|*a*"
    shown = run("query", f'select 1 as "{name}"', EARLY, "--format", "md").stdout
    assert "<img" not in shown.replace("\\<img", "") and r"\|" in shown
