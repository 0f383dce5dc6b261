"""When runs started, by their settings and the names of their logs."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest
from support.metrics_logs import by_hand

from perflog.metrics import Tables
from perflog.metrics.run_moments import moment_of, moments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-16", "2026-01-16"),
        (" 2026-01-16 09:30:05 ", "2026-01-16 09:30:05"),
        ("2026-01-16T09:30:05+02:00", "2026-01-16 07:30:05"),
        ("20260116-093005", "2026-01-16 09:30:05"),
        ("2026_01_16", "2026-01-16"),
        ("2026.01.16 09.30", "2026-01-16 09:30:00"),
        ("2026-01.16", None),  # one mark throughout
        ("1768555805", "2026-01-16 09:30:05"),  # seconds since 1970
        ("1768555805000", "2026-01-16 09:30:05"),
        ("1768555805000000", "2026-01-16 09:30:05"),
        ("1768555805000000000", "2026-01-16 09:30:05"),
        ("1e9", "2001-09-09 01:46:40"),
        ("999999999", None),
        ("2499999999", "2049-03-22 04:26:39"),
        ("2500000000", None),
        ("20261399", None),
        ("2026-02-30", None),
        ("", None),
        ("nightly", None),
    ],
)
def test_a_moment_in_a_setting(text: str, expected: str | None) -> None:
    moment = moment_of(text)
    assert (None if moment is None else str(moment)) == expected


def test_moments_are_in_the_order_of_time() -> None:
    days = [moment_of(f"2026-01-{day}") for day in (17, 16, 18)]
    assert [str(day) for day in sorted(filter(None, days))] == ["2026-01-16", "2026-01-17", "2026-01-18"]


def started(config: dict[str, Any], log: str = "run.txt") -> tuple[str, str] | None:
    tables = by_hand("steps", [])
    tables["runs"]["config"], tables["runs"]["log"] = json.dumps(config), log
    moment = moments(Tables(tables)).get("r")
    return None if moment is None else (str(moment), moment.source)


DAY, TIME = "2026-01-16", "2026-01-16 09:30:05"


@pytest.mark.parametrize(
    ("config", "log", "expected"),
    [
        ({"date": "2026-01-16"}, "run.txt", (DAY, "date")),
        ({"meta.Start_Time": "2026-01-16 09:30:05"}, "run.txt", (TIME, "meta.Start_Time")),
        ({"date": "2026-01-17", "started": "2026-01-16"}, "run.txt", (DAY, "started")),  # the surest name
        ({"a.date": "2026-01-16", "b.date": "2026-01-17"}, "run.txt", (DAY, "a.date")),
        ({"date": "unknown", "timestamp": 1768555805}, "run.txt", (TIME, "timestamp")),
        ({"date": True}, "run.txt", None),
        ({"date": 20260116}, "run.txt", None),  # a number of no unit
        ({"update": "2026-01-16"}, "run.txt", None),
        ({"date": "2026-01-17"}, "2026-01-16/run.txt", ("2026-01-17", "date")),
        ({}, "2026-01-16_nightly.txt", (DAY, "name of the log")),
        ({}, "runs/run_20260116-093005/rank0.log", (TIME, "name of the log")),
        ({}, "2026-01-17/2026-01-16.txt", (DAY, "name of the log")),  # of the file before the folder
        ({}, "v20260116.txt", None),  # within a word
        ({}, "20261399_20260116.txt", (DAY, "name of the log")),
        ({}, "202601160.txt", None),
        ({}, "run.txt", None),
    ],
)
def test_when_a_run_started(config: dict[str, Any], log: str, expected: tuple[str, str] | None) -> None:
    assert started(config, log) == expected


def test_a_run_without_settings_has_the_date_of_its_log() -> None:
    tables = by_hand("steps", [])
    tables["runs"] = tables["runs"].assign(config=pd.Series([None], dtype=object), log="2026-01-16.txt")
    assert str(moments(Tables(tables))["r"]) == DAY
