"""A clock that a log prints gives step times by difference, each with the line it was subtracted from."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.format_files import given_file
from support.reading import Reading, read

import perflog
from perflog.errors import FormatError
from perflog.formats.loader.format_file import load
from perflog.formats.model import Line
from perflog.formats.template import Template
from perflog.parsing.assemble.attributed_rows import BAR, CLOCK, LINE, ClockColumns
from perflog.parsing.assemble.runs.run_state import ClockTotal
from perflog.parsing.assemble.steps.run_clocks import (
    _Clock,
    _is_event,
    _rates,
    _read_elapsed,
    _read_steps,
    _starts,
    _stopped,
)
from perflog.parsing.assemble.steps.step_windows import UNKNOWN
from perflog.parsing.match.ordered.bar_table import APART, SMOOTHED
from perflog.parsing.match.records import Records
from perflog.tables.row_order import PART_BITS

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


# --- the functions ----------------------------------------------------------------------------------------------------

S = 10**9


def table_of(count: int, **rows: Any) -> Any:
    """What matters of rows, one a column: on rank 0 without a clock, as far as nothing else is given."""
    names = ("position", "rank", "step", "epoch", "clock", "time", "source", "digit", "starts", "stops", "pauses",
             "derives", "prints", "is_bar", "covers")  # fmt: skip
    values: dict[str, Any] = {"position": [k << PART_BITS for k in range(1, count + 1)], "derives": [1] * count}
    values |= {name: [-1] * count for name in ("step", "clock", "time")} | {"covers": [UNKNOWN] * count}
    values |= rows
    return np.array([values.get(name, [0] * count) for name in names], np.int64)


def step_times(clock: _Clock, count: int, rates: Any = None, **rows: Any) -> list[tuple[float, int, int] | None]:
    """Step time, steps and line before of each row; None for no step time."""
    columns = ClockColumns.unknown(count)
    given = np.full(count, np.nan) if rates is None else np.array(rates, np.float64)
    _read_steps(clock, table_of(count, **rows), columns, given)
    found = zip(columns.step_time.tolist(), columns.steps.tolist(), columns.line.tolist(), strict=True)
    return [None if np.isnan(row[0]) else row for row in found]


def test_a_step_takes_the_difference_over_the_steps_in_between() -> None:
    clock = _Clock()
    assert step_times(clock, 3, step=[1, 2, 4], time=[S, 3 * S, 7 * S]) == [None, (2.0, 1, 1), (2.0, 2, 2)]
    assert step_times(clock, 1, step=[5], time=[8 * S]) == [(1.0, 1, 3)]  # from the last reading of earlier rows


@pytest.mark.parametrize(
    ("steps", "times", "more"),
    [
        ([2, 1], [1, 2], {}), ([1, 2], [2, 1], {}), ([1, 1], [1, 2], {}), ([1, 2], [1, 2], {"epoch": [0, 1]}),
        ([1, 2], [1, 2], {"pauses": [0, 1]}), ([1, 2], [1, 2], {"starts": [0, 1]}), ([1, 2], [1, 2], {"rank": [0, 1]}),
        ([1, 2], [1, 2], {"source": [0, 2]}), ([1, 2], [1, 2], {"derives": [1, 0]}), ([-1, 2], [1, 2], {}),
        ([1, 2], [-1, 2], {}),
    ],
)  # fmt: skip
def test_what_is_no_difference_of_two_steps(steps: list[int], times: list[int], more: dict[str, Any]) -> None:
    assert step_times(_Clock(), 2, step=steps, time=times, **more) == [None, None]


def test_two_readings_at_once_are_a_step_of_no_time() -> None:
    assert step_times(_Clock(), 2, step=[1, 2], time=[S, S]) == [None, (0.0, 1, 1)]
    assert step_times(_Clock(), 2, step=[1, 2], time=[S, 2 * S], pauses=[1, 0]) == [None, (1.0, 1, 1)]


def test_of_readings_in_one_step_the_first_counts() -> None:
    assert step_times(_Clock(), 4, step=[1, 1, 2, 2], time=[S, 5 * S, 6 * S, 9 * S]) == [None, None, (5.0, 1, 1), None]
    clock = _Clock()
    assert step_times(clock, 2, step=[1, 1], time=[S, 5 * S]) == [None, None]
    assert step_times(clock, 2, step=[1, 2], time=[6 * S, 8 * S]) == [None, (7.0, 1, 1)]


def test_a_coarse_clock_needs_readings_apart() -> None:
    """Whole seconds: readings count that are some times the digit apart."""
    seconds = [1, 2, 2 + APART, 3 + APART]
    times = [second * S for second in seconds]
    found = step_times(_Clock(), 4, step=[1, 2, 3, 4], time=times, digit=[S] * 4, source=[2] * 4)
    assert [row is not None for row in found] == [False, False, True, False]
    assert found[2] == ((1 + APART) / 2, 2, 1)


def test_differences_of_a_coarse_clock_cover_equally_many_steps() -> None:
    """Steps of 0.75 s need 30 of them; 10 of 5 s would be enough. A bar that jumps once needs no more steps after."""
    seconds = [0.5, *[0.75 * 10] * 9, *[5.0 * 10] * 6, *[0.75 * 10] * 6]
    steps, times = np.arange(1, 23) * 10, np.cumsum(seconds).astype(int) * S
    steps[1:] += 500
    for parts in ([slice(None)], [slice(0, 7), slice(7, None)]):
        clock, found = _Clock(), list[Any]()
        for part in parts:
            n = len(steps[part])
            found += step_times(clock, n, step=steps[part], time=times[part], digit=[S] * n, source=[BAR] * n)
        values = [row[0] for row in found if row is not None]
        assert [row[1] for row in found if row is not None] == [530, *[30] * 6]
        assert values[1:] == pytest.approx([0.75, 0.75, 5.0, 5.0, 0.75, 0.75], abs=1 / 30)


def test_how_many_steps_differences_cover_is_the_same_in_chunks() -> None:
    """5 steps of 5 s are apart enough each time. Later steps of 15 s are in differences over as many."""
    steps, times = [*range(5, 45, 5), *range(41, 51)], [*range(25, 225, 25), *range(215, 365, 15)]
    found: list[Any] = []
    for cut in (0, 8):
        clock, parts = _Clock(), (slice(0, cut), slice(cut, None))
        found.append([])
        for part in (part for part in parts if steps[part]):
            n, seconds = len(steps[part]), [time * S for time in times[part]]
            rows = step_times(clock, n, step=steps[part], time=seconds, digit=[S] * n, source=[2] * n)
            found[-1] += [row[:2] for row in rows if row is not None]
    assert found[0] == found[1] == [(5.0, 5)] * 7 + [(15.0, 5)] * 2


@pytest.mark.parametrize(("source", "found"), [(LINE, None), (BAR, (10.0, 2, 1))])
def test_a_bar_may_leave_out_steps_where_lines_are_lost_beside_a_stamp(source: int, found: Any) -> None:
    rows = {"step": [1, 3], "time": [S, (1 + 2 * 10) * S], "digit": [S] * 2, "source": [source] * 2, "covers": [1] * 2}
    assert step_times(_Clock(), 2, **rows) == [None, found]


def test_stamps_do_not_count_once_a_line_prints_its_step_time() -> None:
    rows: dict[str, Any] = {"step": [1, 2, 3], "time": [S, 2 * S, 3 * S], "source": [LINE] * 3}
    clock = _Clock()
    assert step_times(clock, 3, **rows, prints=[0, 0, 1]) == [None, (1.0, 1, 1), None]
    assert step_times(clock, 3, **rows) == [None, None, None]
    assert step_times(clock, 2, step=[5, 6], time=[S, 2 * S], source=[CLOCK] * 2) == [None, (1.0, 1, 1)]


def test_a_rate_gives_what_no_difference_does() -> None:
    found = step_times(_Clock(), 3, [0.5, 0.25, np.nan], step=[1, 2, 3], time=[S, 2 * S, -1])
    assert [row and row[0] for row in found] == [0.5, 1.0, None]


@pytest.mark.parametrize(
    ("clock", "starts", "rows"),
    [([1, 2, 3], [1, 0, 1], [0, 2]), ([1, 2, 3], [1, 1, 0], [0]), ([1, -1, 3], [1, 0, 1], [0]), ([-1, 2], [1, 0], [])],
)  # fmt: skip
def test_of_starts_in_a_row_the_first_counts(clock: list[int], starts: list[int], rows: list[int]) -> None:
    state = _Clock()
    assert _starts(state, table_of(len(clock), clock=clock, starts=starts)).tolist() == rows
    again = _starts(state, table_of(1, clock=[9], starts=[1])).tolist()
    read = [start for start, time in zip(starts, clock, strict=True) if time >= 0]
    assert again == ([] if read[-1] else [0])


@pytest.mark.parametrize(
    ("starts", "stops", "stopped", "after"),
    [
        ([0, 0, 0], [0, 1, 0], [False, False, True], True), ([0, 0, 1], [0, 1, 0], [False, False, False], False),
        ([0, 1, 0], [1, 0, 1], [False, False, False], True), ([0, 0], [0, 0], [False, False], False),
        ([1, 0, 0], [0, 1, 0], [False, False, True], True),
    ],
)  # fmt: skip
def test_rows_after_a_stop(starts: list[int], stops: list[int], stopped: list[bool], after: bool) -> None:
    clock = _Clock()
    assert _stopped(clock, table_of(len(starts), starts=starts, stops=stops)).tolist() == stopped
    assert clock.stopped == after
    assert _stopped(clock, table_of(2, starts=[0, 1])).tolist() == [after, False]
    assert not clock.stopped


def elapsed(state: _Clock, count: int, **rows: Any) -> tuple[list[float | None], Any]:
    """Seconds since the start in each row, and the last ones with their line, of a run."""
    columns = ClockColumns.unknown(count)
    total = _read_elapsed(state, table_of(count, **rows), columns)
    return [None if np.isnan(value) else value for value in columns.elapsed.tolist()], total


def test_time_since_the_last_start() -> None:
    clock = _Clock()
    assert elapsed(clock, 3, clock=[S, 3 * S, -1]) == ([1.0, 3.0, None], ClockTotal(3.0, None, 2))
    assert elapsed(clock, 2, clock=[5 * S, 9 * S], starts=[1, 0]) == ([0.0, 4.0], ClockTotal(4.0, 1, 2))
    assert elapsed(clock, 1, clock=[10 * S]) == ([5.0], ClockTotal(5.0, 1, 1))
    assert elapsed(clock, 1, clock=[4 * S]) == ([None], None)  # before its start
    assert elapsed(_Clock(), 2, clock=[10**18, 10**18 - S]) == ([None, 1e9 - 1], ClockTotal(1e9 - 1, None, 2))  # a date


def test_a_bar_that_begins_again_measures_no_run() -> None:
    clock = _Clock()
    assert elapsed(clock, 2, clock=[S, 3 * S], is_bar=[1, 1])[1] == ClockTotal(3.0, None, 2)
    assert elapsed(clock, 1, clock=[2 * S], is_bar=[1]) == ([2.0], None)
    assert elapsed(clock, 1, clock=[9 * S], is_bar=[1])[1] is None


# --- the times of the lines -------------------------------------------------------------------------------------------


def by_stamps(*stamps: str, more: str = "") -> list[tuple[int, float | None, str | None, int | None]]:
    text = "".join(f"{stamp} step {k} loss 2.5{more}\n" for k, stamp in enumerate(stamps, 1))
    rows = read(text.encode()).rows("steps")
    return [(row["step"], row["step_time_s"], row["step_time_by"], row["step_time_from"]) for row in rows]


def test_steps_without_a_clock_are_timed_by_the_stamps_of_their_lines() -> None:
    day = "2026-01-01 10:00"
    assert by_stamps(f"{day}:01,500", f"{day}:02,000", f"{day}:03,500", f"{day}:04,250") == [
        (1, None, None, None), (2, 0.5, "line", 1), (3, 1.5, "line", 2), (4, 0.75, "line", 3),
    ]  # fmt: skip
    assert [time for _, time, *_ in by_stamps(*(f"{day}:0{k}" for k in range(1, 6)))] == [None] * 5  # whole seconds
    assert [time for _, time, *_ in by_stamps(*(f"2026-01-01 1{k}:00:00" for k in range(4)))] == [None, *[3600.0] * 3]
    printed = by_stamps(f"{day}:01,500", f"{day}:02,000", more=" step_time 0.25s")
    assert [(time, by) for _, time, by, _ in printed] == [(0.25, None)] * 2


@pytest.mark.parametrize(
    ("fields", "events"),
    [
        (None, [0, 0, 0]),
        ({}, [1, 1, 1]),
        ({"edge": "begin"}, [1, 0, 1]),
        ({"edge": "begin", "kind": "save"}, [1, 0, 0]),
        ({"lost": "begin"}, [0, 0, 0]),  # the line lacks the field
        ({"number": "1"}, [0, 0, 0]),
    ],
)
def test_the_lines_at_which_a_clock_starts(fields: dict[str, str] | None, events: list[int]) -> None:
    columns = {"edge": pa.array(["begin", "end", "begin"]), "kind": pa.array(["save", "save", "load"])}

    class Rows:
        records = Records(np.arange(3), columns | {"number": np.ones(3)})

        def __len__(self) -> int:
            return 3

    rows: Any = Rows()
    assert _is_event(rows, fields).tolist() == events


@pytest.mark.parametrize(("stamps", "by"), [("03:35 03:45 04:00 04:20", "line"), ("03:35 03:59 04:19 04:59", "bar")])
def test_a_bar_counts_where_the_stamps_are_of_a_process_that_relays_it(stamps: str, by: str) -> None:
    clocks = ("13:09", "13:19", "13:34", "13:54")
    text = "".join(
        f"[08:{stamp}] [STDERR] steps: 38%|###  | {step}/96 [{clock}<21:55, 21.93s/it, avr_loss=0.08]\n"
        for step, (stamp, clock) in enumerate(zip(stamps.split(), clocks, strict=True), 36)
    )
    assert {row["step_time_by"] for row in read(text.encode()).rows("steps")} == {None, by}


class MadeRows:
    """Rows of a line that prints no time of a step by itself."""

    def __init__(self, line: Line, columns: dict[str, list[float]]) -> None:
        self.line, self.joined = line, dict[str, Any]()
        self.records = Records(np.arange(2), {name: np.array(values) for name, values in columns.items()})
        self.prints = lambda name: False

    def __len__(self) -> int:
        return len(self.records)


@pytest.mark.parametrize(
    ("table", "of_bar", "columns", "times"),
    [
        ("steps", True, {SMOOTHED: [0.5, math.nan], "rate": [4.0, 8.0]}, [0.5, math.nan]),  # of a bar too short
        ("steps", False, {SMOOTHED: [0.5, 0.5]}, [math.nan] * 2),
        ("values", True, {SMOOTHED: [0.5, 0.5]}, [math.nan] * 2),
        ("steps", True, {"loss": [1.0, 1.0]}, [math.nan] * 2),
    ],
)
def test_the_time_of_a_step_by_the_rate_of_a_bar(
    table: str, of_bar: bool, columns: dict[str, list[float]], times: list[float]
) -> None:
    rows = MadeRows(Line("bar", Template("{loss:f} {rate:f}"), table=table, clock_of_bar=of_bar), columns)
    assert _rates(rows).tolist() == pytest.approx(times, nan_ok=True)  # type: ignore[arg-type]
