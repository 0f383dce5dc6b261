"""A number of the settings that a rank prints again with another value is a series, not a setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.format_files import given_file
from support.reading import read

from perflog.formats.loader.format_file import load
from perflog.parsing.assemble.runs import setting_series

FORMAT = """
title = "settings of a program"
[[line]]
name = "start"
opens = "run"
table = "runs"
text = "program with {batch:d} sequences"
sample = "program with 8 sequences"
[[line]]
name = "state"
table = "runs"
text = "state: wait {wait:r}, mode {mode:w}"
unit = { wait = "ms" }
sample = "state: wait 0.5, mode fast"
[[line]]
name = "other"
table = "runs"
text = "once more: wait {wait:r}"
unit = { wait = "ms" }
sample = "once more: wait 0.5"
[[line]]
name = "step"
table = "steps"
text = "finished step {step:d} with loss {loss:.1f}"
sample = "finished step 3 with loss 2.5"
"""
START, STEP = "program with 8 sequences", "finished step 1 with loss 2.5"


def state(wait: float, rank: int | None = None) -> str:
    return f"{'' if rank is None else f'[rank{rank}]:'}state: wait {wait!r}, mode fast"


def found(folder: Path, lines: list[str], chunk: int) -> tuple[list[dict[str, Any]], list[tuple[Any, ...]]]:
    """The settings of each run, and the rows of series: line, rank, value, unit."""
    data = "".join(f"{line}\n" for line in lines).encode()
    got = read(data, formats=[load(given_file(folder, FORMAT))], chunk=chunk)
    runs = sorted(got.rows("runs"), key=lambda row: row["index"])
    values = sorted(got.rows("values"), key=lambda row: row["line"])
    assert {row["key"] for row in values} <= {"wait"}
    return [json.loads(run["config"]) for run in runs], [
        (row["line"], row["rank"], row["value"], row["unit"]) for row in values
    ]


SETTINGS = {"batch": 8, "mode": "fast"}
KEPT = SETTINGS | {"wait": 500.0}


@pytest.mark.parametrize("chunk", [1, 120, 1 << 20])
@pytest.mark.parametrize(
    ("lines", "configs", "series"),
    [
        ([START, state(500.0), STEP, state(500.0)], [KEPT], []),  # repeated: a setting
        (
            [START, state(500.0), STEP, state(500.0), state(250.0), state(250.0)],
            [SETTINGS],
            [(2, None, 0.5, "s"), (4, None, 0.5, "s"), (5, None, 0.25, "s"), (6, None, 0.25, "s")],
        ),
        ([START, state(500.0, 0), state(250.0, 1), STEP], [SETTINGS | {"wait": [500.0, 250.0]}], []),  # of each rank
        (
            [START, state(500.0, 0), state(250.0, 1), state(500.0, 0), state(125.0, 1), STEP],
            [SETTINGS],
            [(2, 0, 0.5, "s"), (3, 1, 0.25, "s"), (4, 0, 0.5, "s"), (5, 1, 0.125, "s")],
        ),
        ([START, state(500.0), STEP, START, state(250.0), STEP], [KEPT, SETTINGS | {"wait": 250.0}], []),  # two runs
        (
            [START, state(500.0), STEP, START, state(250.0), state(500.0), STEP],
            [KEPT, SETTINGS],
            [(5, None, 0.25, "s"), (6, None, 0.5, "s")],
        ),
        ([START, state(500.0), "once more: wait 250.0", STEP], [SETTINGS | {"wait": [500.0, 250.0]}], []),  # other line
        (
            [START, state(500.0), "once more: wait 125.0", state(250.0), STEP],
            [SETTINGS | {"wait": 125.0}],  # the other line prints it once
            [(2, None, 0.5, "s"), (4, None, 0.25, "s")],
        ),
    ],
)
def test_settings_and_series(
    tmp_path: Path, lines: list[str], configs: list[dict[str, Any]], series: list[tuple[Any, ...]], chunk: int
) -> None:
    got, values = found(tmp_path, lines, chunk)
    assert [{key: sorted(v) if isinstance(v, list) else v for key, v in config.items()} for config in got] == [
        {key: sorted(v) if isinstance(v, list) else v for key, v in config.items()} for config in configs
    ]
    assert values == series


def test_a_line_may_have_several_series(tmp_path: Path) -> None:
    form = FORMAT.replace("wait {wait:r}, mode {mode:w}", "wait {wait:r}, load {load:r}")
    form = form.replace("wait 0.5, mode fast", "wait 0.5, load 1.5")
    log = [START, *(f"state: wait {k}.5, load {k}.25" for k in (1, 2)), STEP, ""]
    rows = read("\n".join(log).encode(), formats=[load(given_file(tmp_path, form))]).rows("values")
    assert sorted((row["line"], row["key"], row["value"]) for row in rows) == [
        (2, "load", 1.25), (2, "wait", 0.0015), (3, "load", 2.25), (3, "wait", 0.0025),
    ]  # fmt: skip


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_nan_is_one_value(tmp_path: Path, chunk: int) -> None:
    _, values = found(tmp_path, [START, state(float("nan")), state(float("nan")), STEP], chunk)
    assert values == []
    _, values = found(tmp_path, [START, state(float("nan")), state(1.0), STEP], chunk)
    assert len(values) == 2


@pytest.mark.parametrize("chunk", [1, 120, 1 << 20])
def test_a_run_that_begins_inside_a_chunk_counts_its_own_values(tmp_path: Path, chunk: int) -> None:
    """Ranks of the records of the second run, several of which print one number."""
    first = [START, state(500.0, 0), state(500.0, 1), STEP]
    second = [START, state(250.0, 0), state(250.0, 1), state(125.0, 1), state(250.0, 0), STEP]
    configs, values = found(tmp_path, [*first, *second], chunk)
    assert configs == [KEPT, SETTINGS]
    assert values == [(6, 0, 0.25, "s"), (7, 1, 0.25, "s"), (8, 1, 0.125, "s"), (9, 0, 0.25, "s")]


def test_rows_of_a_series_have_their_parts_and_how_the_rank_is_known(tmp_path: Path) -> None:
    data = "\n".join([START, f"{state(500.0)}\r{state(250.0)}", state(125.0, 0), STEP, ""]).encode()
    got = read(data, formats=[load(given_file(tmp_path, FORMAT))]).rows("values")
    assert sorted((row["line"], row["part"], row["rank_by"] or "") for row in got) == [
        (2, 0, ""), (2, 1, ""), (3, 0, "label"),
    ]  # fmt: skip


def test_readings_before_the_first_change_are_kept_up_to_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setting_series, "MOST_HELD", 3)
    _, values = found(tmp_path, [START, *[state(500.0)] * 6, state(250.0), STEP], 1)
    assert [line for line, *_ in values] == [2, 3, 4, 8]


def test_a_series_has_the_steps_of_its_lines(tmp_path: Path) -> None:
    form = FORMAT.replace("state: wait {wait:r}", "state of step {step:d}: wait {wait:r}")
    form = form.replace("state: wait 0.5", "state of step 3: wait 0.5")
    data = f"{START}\n" + "".join(f"state of step {k}: wait {k}.5, mode fast\n" for k in range(3)) + f"{STEP}\n"
    rows = read(data.encode(), formats=[load(given_file(tmp_path, form))]).rows("values")
    assert sorted((row["step"], row["value"]) for row in rows if row["key"] == "wait") == [
        (k, (k + 0.5) / 1000) for k in range(3)
    ]
