"""Time stamps in front of lines, against Python's own calendar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.field_logs import rows
from support.reading import read

import perflog
from perflog.analysis.lint import findings
from perflog.metrics import Options

TITAN = "[titan] %Y-%m-%d %H:%M:%S,{ms} - root - INFO - "
LINE = "step: {step:2d}  loss:  7.62585  memory: 66.91GiB(37.51%)  tps: 10,050  tflops: 314.71  mfu: 13.99%"
START = datetime(2026, 7, 17, 23, 59, 40)  # noqa: DTZ001 (most loggers print no zone)
EAST = timezone(timedelta(hours=5, minutes=30))


def logged(times: Sequence[datetime], front: Callable[[datetime], str]) -> list[dict[str, Any]]:
    """Rows of the steps of a log that prints a line at each of these times."""
    lines = [f"{front(time)}{LINE.format(step=k)}\n" for k, time in enumerate(times, 1)]
    return rows(read("".join(lines).encode()), "steps")


def since_1970(time: datetime) -> int:
    """Nanoseconds since 1970 of a time of the calendar, as its clock shows it if it has no zone."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def front_of(layout: str) -> Callable[[datetime], str]:
    """Return what prints a time in a layout of strftime, with `{ms}` for its milliseconds."""
    return lambda time: time.strftime(layout).replace("{ms}", f"{time.microsecond // 1000:03d}")


DATED = {
    "python": (TITAN, "local"),
    "rank label": (f"[rank12]:{TITAN}", "local"),
    "srun label": ("3: %Y-%m-%d %H:%M:%S.{ms} - INFO - ", "local"),
    "brackets": ("[%Y-%m-%d %H:%M:%S,{ms}] [INFO] [logging.py:96:log_dist] ", "local"),
    "compact": ("[%Y%m%d %H:%M:%S.{ms}][rank-0/8][INFO] ", "local"),
    "slashes": ("%Y/%m/%d %H:%M:%S.{ms} - trainer - INFO - ", "local"),
    "container": ("%Y-%m-%dT%H:%M:%S.{ms}000456Z ", "utc"),
    "pod": ("[pod/train-0/main] %Y-%m-%dT%H:%M:%S.{ms}Z ", "utc"),
    "zone": ("%Y-%m-%dT%H:%M:%S.{ms}+05:30 ", "utc"),
    "NeMo": ("[NeMo I %Y-%m-%d %H:%M:%S.{ms} metrics:12] ", "local"),
}


@pytest.mark.parametrize("name", DATED)
def test_a_date_with_its_time_of_day(name: str) -> None:
    layout, clock = DATED[name]
    more = 456 if name == "container" else 0
    times = [START + timedelta(milliseconds=700 * k) for k in range(60)]  # over midnight
    found = logged(times, front_of(layout))
    shown = [time.replace(tzinfo=EAST) if name == "zone" else time for time in times]
    assert [r["printed_ns"] for r in found] == [since_1970(time) + more for time in shown]
    assert {r["clock"] for r in found} == {clock}
    assert [r["step_time_s"] for r in found] == [None, *[pytest.approx(0.7)] * 59]
    assert [r["step_time_by"] for r in found] == [None, *["line"] * 59]
    assert [r["step_time_from"] for r in found[1:]] == [r["line"] for r in found[:-1]]


UNDATED = {
    "vLLM": ("INFO %m-%d %H:%M:%S.{ms} [metrics.py:10] ", "no_year"),
    "glog": ("I%m%d %H:%M:%S.{ms} 4711 trainer.cc:12] ", "no_year"),
    "c10d": ("[rank0]:[I%-m%d %H:%M:%S.{ms}000000 ProcessGroupNCCL.cpp:632] ", "no_year"),
    "syslog": ("%b %d %H:%M:%S.{ms} node017 train[4711]: ", "no_year"),
    "time of day": ("[%H:%M:%S.{ms}] ", "no_date"),
    "time after a label": ("[rank0]:%H:%M:%S.{ms} | ", "no_date"),
    "day or month": ("%m/%d/%Y %H:%M:%S.{ms} - INFO - ", "no_date"),
}


@pytest.mark.parametrize("name", UNDATED)
def test_what_is_not_printed_is_carried_over_midnight_and_new_year(name: str) -> None:
    layout, clock = UNDATED[name]
    times = [datetime(2025, 12, 31, 23, 30) + timedelta(minutes=5 * k) for k in range(12)]  # noqa: DTZ001
    found = logged(times, front_of(layout))
    start = since_1970(datetime(2025, 1, 1) if clock == "no_year" else datetime(2025, 12, 31))  # noqa: DTZ001
    assert [r["printed_ns"] for r in found] == [since_1970(time) - start for time in times]
    assert {r["clock"] for r in found} == {clock}
    assert {r["step_time_s"] for r in found[1:]} == {300.0}


def test_seconds_since_1970() -> None:
    found = logged([START, START + timedelta(seconds=2)], lambda time: f"[{since_1970(time) / 1e9:.3f}] ")
    assert [r["printed_ns"] for r in found] == [since_1970(START), since_1970(START) + 2 * 10**9]
    assert ([r["clock"] for r in found], found[1]["step_time_s"]) == (["utc", "utc"], 2.0)


@pytest.mark.parametrize(
    "front",
    [
        "eta: 0:05:03  ",
        "1.2.3 ",
        "[12] ",
        "2026-13-41 10:00:00,000 - ",
        "2026-02-29 10:00:00,000 - ",
        "25:00:00 ",
        "job-2026 - ",
    ],
)
def test_what_is_no_time_stamp(front: str) -> None:
    found = logged([START, START], lambda _: front)
    assert len(found) == 2
    assert [(r["printed_ns"], r["clock"], r["step_time_s"]) for r in found] == [(None, None, None)] * 2


def test_derived_step_times_are_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "titan.log"
    front, times = front_of(TITAN), [START + timedelta(seconds=k) for k in range(1, 9)]
    path.write_text("".join(f"{front(time)}{LINE.format(step=k)}\n" for k, time in enumerate(times, 1)))
    (told,) = (f for f in findings(perflog.read(path), Options()) if f.code == "derived-times")
    assert told.message == "step times are the differences of the time stamps of the lines"


def test_whole_seconds_tell_a_time_over_twenty_of_them() -> None:
    times = [START + timedelta(seconds=3.4 * k) for k in range(31)]
    found = logged(times, front_of("[titan] %Y-%m-%d %H:%M:%S - "))
    timed = [r for r in found if r["step_time_s"] is not None]
    assert [r["steps_averaged"] for r in timed] == [6, 6, 6, 6, 6]
    assert all(r["step_time_s"] == pytest.approx(3.4, abs=1 / 6) for r in timed)


def test_each_rank_has_its_own_clock() -> None:
    front = front_of(TITAN)
    lines = [
        f"[rank{rank}]:{front(time)}{LINE.format(step=k)}\n"
        for k in range(1, 21)
        for rank in range(12)
        for time in [START + timedelta(seconds=k * (2 + rank), milliseconds=rank)]
    ]
    found = rows(read("".join(lines).encode()), "steps")
    assert {(r["rank"], r["step_time_s"]) for r in found if r["step"] > 1} == {(rank, 2.0 + rank) for rank in range(12)}


def test_lost_lines_and_clocks_that_go_back_give_no_step_time() -> None:
    front = front_of(TITAN)
    times = [START + timedelta(seconds=k) for k in range(10)]
    lines = [f"{front(time)}{LINE.format(step=k)}\n" for k, time in enumerate(times, 1)]
    lost = rows(read("".join(lines[:4] + lines[5:]).encode()), "steps", step=6)
    assert [(r["steps_averaged"], r["step_time_s"]) for r in lost] == [(1, None)]
    back = logged([*times[:5], *(time - timedelta(hours=1) for time in times[5:])], front)
    assert [r["step_time_s"] for r in back] == [None, 1.0, 1.0, 1.0, 1.0, None, 1.0, 1.0, 1.0, 1.0]


def test_a_printed_step_time_needs_no_stamps() -> None:
    line = (
        "[2026-01-01 10:00:{second:02d}.000000] iteration {step:8d}/     100 | consumed samples: 16 | "
        "elapsed time per iteration (ms): 1234.5 | learning rate: 1.0E-04 | global batch size: 16 | lm loss: 9.0 |\n"
    )
    log = "".join(line.format(second=2 * k, step=k) for k in range(1, 11))
    found = rows(read(log.encode()), "steps")
    assert {(r["step_time_s"], r["step_time_by"]) for r in found} == {(1.2345, None)}
    assert [r["printed_ns"] for r in found] == [since_1970(datetime(2026, 1, 1, 10, 0, 2 * k)) for k in range(1, 11)]  # noqa: DTZ001


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)),  # noqa: DTZ001
    st.lists(st.integers(1, 10**7), min_size=1, max_size=30),
    st.sampled_from([name for name in DATED if name != "zone"]),
)
def test_times_are_those_of_the_calendar(start: datetime, gaps: list[int], name: str) -> None:
    start = start.replace(microsecond=start.microsecond // 1000 * 1000)
    times = [start]
    for gap in gaps:
        times.append(times[-1] + timedelta(milliseconds=gap))
    more = 456 if name == "container" else 0
    found = logged(times, front_of(DATED[name][0]))
    assert [r["printed_ns"] for r in found] == [since_1970(time) + more for time in times]


def test_labels_of_many_widths() -> None:
    pods = [f"[pod/{'n' * width}/main] " for width in range(1, 81)]
    times = [START + timedelta(seconds=k) for k in range(160)]
    fronts = dict(zip(times, pods * 2, strict=True))
    found = logged(times, lambda time: f"{fronts[time]}{time:%Y-%m-%dT%H:%M:%S}.000Z ")
    assert [r["printed_ns"] for r in found] == [since_1970(time) for time in times]


def test_steps_before_the_first_printed_time_take_theirs_from_the_stamps() -> None:
    times = [f"2026-01-01 10:00:{3 * k:02d},100 - INFO - step {k} | loss: 2.{k:02d}" for k in range(1, 9)]
    log = [line + " | step_time: 2.5s" if k > 5 else line for k, line in enumerate(times, 1)]
    steps = read("\n".join([*log, ""]).encode()).rows("steps")
    assert [row["step_time_s"] for row in steps] == [None, *[3.0] * 4, *[2.5] * 3]
    assert [row["step_time_by"] for row in steps] == [None, *["line"] * 4, *[None] * 3]
