"""Settings of runs, and which runs are repeats: they agree in all that is not incidental."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.megatron_logs import megatron_log

import perflog
from perflog.metrics import Tables
from perflog.metrics.settings_by_run import repeats, settings_by_run

TIMES = [100.0, 101.0, 102.0]


def tables(folder: Path, *settings: dict[str, object]) -> tuple[Tables, list[str]]:
    for number, each in enumerate(settings):
        (folder / f"run{number}.log").write_text(megatron_log(each, [time + number for time in TIMES]))
    log = perflog.read(folder)
    return Tables(log), [run.id for run in log.run_keys]


def test_settings_are_those_of_each_run(tmp_path: Path) -> None:
    found, runs = tables(tmp_path, {"lr": 0.5}, {"lr": 0.25})
    assert [settings_by_run(found)[run]["lr"] for run in runs] == ["0.5", "0.25"]


@pytest.mark.parametrize(
    ("settings", "groups"),
    [
        ([{}, {}], [[0, 1]]),
        ([{"lr": 0.5}, {"lr": 0.25}], []),
        ([{"lr": 0.5}, {"lr": 0.25}, {"lr": 0.5}], [[0, 2]]),
        ([{"seed": 1}, {"seed": 2}], [[0, 1]]),  # a seed is incidental
        ([{"lr": 0.5}, {"lr": 0.25}] * 2, [[0, 2], [1, 3]]),
        ([{}], []),
    ],
)
def test_repeats(tmp_path: Path, settings: list[dict[str, object]], groups: list[list[int]]) -> None:
    found, runs = tables(tmp_path, *settings)
    assert [[runs.index(run) for run in group] for group in repeats(found)] == groups
