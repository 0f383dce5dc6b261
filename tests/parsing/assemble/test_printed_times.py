"""Times that lines print among their values, against the dates that were written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.reading import Reading, read

START = datetime(2026, 5, 3, 22, 58, 0, 250_000, UTC)
SECONDS = [0.0, 1.5, 3.0, 4.75, 40.75]
WRITTEN: dict[str, Any] = {
    "_timestamp": lambda time: time.timestamp(),
    "ts": lambda time: round(time.timestamp() * 1000),
    "time": lambda time: time.isoformat(),
    "@timestamp": lambda time: time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    "asctime": lambda time: time.strftime("%Y-%m-%d %H:%M:%S,%f")[:-3],
}


def log(**written: Any) -> Reading:
    """Steps as JSON lines: each with a loss and the time under these names."""
    times = [START + timedelta(seconds=seconds) for seconds in SECONDS]
    rows = [
        {"step": step, "loss": 9.5 - step} | {name: write(time) for name, write in written.items()}
        for step, time in enumerate(times, 1)
    ]
    return read("".join(json.dumps(row) + "\n" for row in rows).encode())


@pytest.mark.parametrize("name", WRITTEN)
def test_the_time_in_an_object_is_when_its_line_was_printed(name: str) -> None:
    rows = log(**{name: WRITTEN[name]}).rows("steps")
    nanoseconds = round(START.timestamp() * 1000) * 10**6
    assert [row["printed_ns"] - nanoseconds for row in rows] == [int(seconds * 1e9) for seconds in SECONDS]
    assert {row["clock"] for row in rows} == {"local" if name == "asctime" else "utc"}
    assert [row["step_time_s"] for row in rows] == [None, *map(pytest.approx, (1.5, 1.5, 1.75, 36.0))]
    assert {row["step_time_by"] for row in rows[1:]} == {"line"}


def test_a_duration_or_a_count_is_no_time() -> None:
    for other in (
        lambda time: time.timestamp() % 1000,
        lambda _: 512,
        lambda _: 3 * 10**9,
        lambda time: f"{time:%H:%M:%S}",
    ):
        assert {row.get("printed_ns") for row in log(time=other).rows("steps")} == {None}


def test_the_time_of_print_is_not_the_time_of_something_else() -> None:
    """The first line has no time: which of its values is the time depends on all lines of its kind."""
    got = log(created=lambda _: 1_700_000_000, ts=lambda t: t.timestamp() if t > START else 0, date=WRITTEN["asctime"])
    assert [row["step_time_s"] for row in got.rows("steps")] == [None, None, *map(pytest.approx, (1.5, 1.75, 36.0))]


def test_a_column_of_times() -> None:
    rows = [f"{1_777_848_000.5 + 2 * step},{step},{9 - step}.25\n" for step in range(1, 6)]
    steps = read(("Wall time,step,loss\n" + "".join(rows)).encode()).rows("steps")
    assert [row["printed_ns"] for row in steps] == [(1_777_848_000 + 2 * k) * 10**9 + 5 * 10**8 for k in range(1, 6)]
    assert [row["step_time_s"] for row in steps] == [None, 2.0, 2.0, 2.0, 2.0]
