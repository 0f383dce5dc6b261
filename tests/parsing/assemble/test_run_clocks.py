"""A clock that a log prints gives step times by difference, each with the line it was subtracted from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.format_files import given_file
from support.reading import Reading, read

import perflog
from perflog.errors import FormatError
from perflog.formats.loader.format_file import load

FORMAT = """
title = "own"

[[line]]
name   = "step"
table  = "steps"
text   = "step {step:d} elapsed {time:.2f} s"
unit   = { time = "s" }
clock  = "time"
sample = "step 1 elapsed 0.50 s"

[[line]]
name   = "named"
table  = "values"
text   = "{key:w} at {value:d}"
unit   = { value = "ms" }
clock  = "value"
clock_starts = { key = "start" }
clock_stops  = { key = "stop" }
sample = "start at 1759734393481"

[[line]]
name   = "event"
table  = "steps"
text   = "step {step:d} at {time:d}"
unit   = { time = "ms" }
clock  = "time"
sample = "step 8 at 1759734398481"

[[line]]
name   = "validation"
table  = "values"
pause  = true
text   = "validation loss {validation_loss:.4f}"
sample = "validation loss 2.5000"
"""


def reading(folder: Path, log: str, **options: Any) -> Reading:
    return read(log.encode(), formats=[load(given_file(folder, FORMAT))], **options)


def times(log: Reading) -> list[tuple[Any, ...]]:
    names = ("step", "elapsed_s", "step_time_s", "step_time_from", "steps_averaged")
    return [tuple(row[name] for name in names) for row in sorted(log.rows("steps"), key=lambda row: row["line"])]


def steps(*readings: tuple[int, float]) -> str:
    return "".join(f"step {step} elapsed {seconds:.2f} s\n" for step, seconds in readings)


@pytest.mark.parametrize("lines", [1, 2, 100])
def test_a_step_takes_the_difference_of_two_readings(tmp_path: Path, lines: int) -> None:
    """It knows the line of the earlier one, also where the log is cut between them."""
    log = reading(tmp_path, steps((1, 0.5), (2, 0.75), (3, 1.25), (5, 2.25)), chunk=lines * 23)
    assert times(log) == [
        (1, 0.5, None, None, 1), (2, 0.75, 0.25, 1, 1), (3, 1.25, 0.5, 2, 1), (5, 2.25, 0.5, 3, 2),
    ]  # fmt: skip
    (run,) = log.rows("runs")
    assert (run["elapsed_s"], run["elapsed_from"], run["elapsed_line"]) == (2.25, None, 4)
    assert log.rows("values") == []


def test_a_difference_across_a_pause_is_no_step_time(tmp_path: Path) -> None:
    log = reading(tmp_path, steps((1, 1), (2, 2)) + "validation loss 2.5000\n" + steps((3, 9), (4, 10)))
    assert [(row[0], row[2]) for row in times(log)] == [(1, None), (2, 1), (3, None), (4, 1)]


def test_no_step_time_where_the_clock_or_the_steps_go_back(tmp_path: Path) -> None:
    log = reading(tmp_path, steps((9, 8), (10, 9), (11, 0.5), (12, 1.5), (10, 3), (11, 4), (11, 4.5)))
    assert [(row[0], row[2]) for row in times(log)] == [
        (9, None), (10, 1), (11, None), (12, 1), (10, None), (11, 1), (11, None),
    ]  # fmt: skip
    assert log.rows("runs")[0]["elapsed_s"] == 4.5


def test_a_clock_that_tells_the_date_counts_from_its_start(tmp_path: Path) -> None:
    """run_stop - run_start of an MLPerf result is 666.79 s: exact to the millisecond."""
    events = ("step 0", 392481), ("start", 393481), ("step 8", 398481), ("stop", 1060271), ("end", 1070271)
    log = reading(tmp_path, "".join(f"{name} at {1759734000000 + time}\n" for name, time in events))
    assert times(log) == [(0, None, None, None, 1), (8, 5.0, None, None, 1)]  # no difference across the start
    (run,) = log.rows("runs")
    assert (run["elapsed_s"], run["elapsed_from"], run["elapsed_line"]) == (666.79, 2, 4)  # until it stops
    assert [row["key"] for row in log.rows("values")] == ["start", "stop", "end"]


@pytest.mark.parametrize("lines", [1, 100])
def test_the_last_of_several_timed_parts_counts(tmp_path: Path, lines: int) -> None:
    """A start that two processes print is the first of them; what is read after a stop counts no more."""
    parts = [("start", 1000), ("start", 1010), ("stop", 2000), ("end", 9000)]
    log = reading(
        tmp_path, "".join(f"{key} at {time + k}\n" for k in (0, 50000) for key, time in parts), chunk=20 * lines
    )
    (run,) = log.rows("runs")
    assert (run["elapsed_s"], run["elapsed_from"], run["elapsed_line"]) == (1.0, 5, 7)


def test_the_clock_of_each_rank_is_its_own(tmp_path: Path) -> None:
    log = reading(
        tmp_path,
        "".join(f"[rank{rank}]:step {step} elapsed {step + rank:.2f} s\n" for step in (1, 2) for rank in (0, 5)),
    )
    assert {(row["rank"], row["step"], row["step_time_s"]) for row in log.rows("steps")} == {
        (0, 1, None), (5, 1, None), (0, 2, 1.0), (5, 2, 1.0),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (('clock  = "time"', 'clock  = "tiem"'), "`clock` names `tiem`, which is not a field of the template"),
        (('clock  = "value"\nclock_starts', "clock_starts"), "`clock_starts` without `clock`"),
        (('{ key = "start" }', '"start"'), '`clock_starts` is true, or { field = "text" }'),
        (("pause  = true", "pause  = 1"), "`pause` must be bool, not int"),
    ],
)
def test_what_is_no_clock(tmp_path: Path, change: tuple[str, str], reason: str) -> None:
    with pytest.raises(FormatError) as error:
        load(given_file(tmp_path, FORMAT.replace(*change, 1)))
    assert error.value.reason == reason


def test_a_run_whose_only_clock_is_the_time_since_the_start_is_timed(tmp_path: Path) -> None:
    """Metrics and comparison have its step times, its rate and its total."""
    logs = []
    for name, seconds in (("base", 0.2), ("new", 0.1)):
        path = tmp_path / f"{name}.txt"
        readings = ((k, (k + k % 2 / 10) * seconds) for k in range(1, 41))
        path.write_text(steps(*readings), encoding="utf-8")
        given_file(tmp_path, FORMAT)
        logs.append(perflog.read(path, format=str(tmp_path / "own.toml"), label=name))
    table = perflog.metrics.steps(logs[0])
    steady = table[table["part"] == "steady"].iloc[0]
    assert steady["steps_per_s"] == pytest.approx(5.0, rel=0.01) and steady["of"] == "step_time"
    rows = perflog.compare(*logs).rows.set_index(["kind", "metric", "statistic"])
    assert rows.loc[("run", "elapsed", "value"), "change"] == pytest.approx(-0.5)
    assert rows.loc[("step", "step_time", "median"), "change"] == pytest.approx(-0.5, rel=0.05)
