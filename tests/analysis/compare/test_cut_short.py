"""Runs that ended early beside whole ones: only the steps that all print compare, and a gate cannot judge."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import perflog
from perflog.cli.main import main

PLANNED = 300


def speed_run(path: Path, seed: int, factor: float = 1.0, steps: int = PLANNED) -> str:
    """A run whose steps become longer half-way: 30 ms, then 31.5 ms, with a validation every 100 steps."""
    rng = np.random.default_rng(seed)
    times = factor * (np.where(np.arange(PLANNED) < PLANNED / 2, 30.0, 31.5) + rng.normal(0, 0.3, PLANNED))
    clock = np.cumsum(times)
    lines = []
    for k in range(steps):
        at = f"train_time:{clock[k]:.0f}ms step_avg:{clock[k] / (k + 1):.2f}ms"
        lines.append(f"step:{k + 1}/{PLANNED} {at}")
        if (k + 1) % 100 == 0:
            lines.append(f"step:{k + 1}/{PLANNED} val_loss:{4 - (k + 1) / 300 + rng.normal(0, 1e-3):.4f} {at}")
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def folder(path: Path, first: int, *runs: tuple[float, int]) -> str:
    for k, (factor, steps) in enumerate(runs):
        speed_run(path / f"r{k}.txt", first + k, factor, steps)
    return str(path)


def invoke(*args: str) -> Result:
    return CliRunner().invoke(main, ["compare", *args])


WHOLE = (1.0, PLANNED)


def test_a_crashed_run_is_no_improvement(tmp_path: Path) -> None:
    """Its steps are those of the faster half; the whole runs are cut where it ends."""
    base, side = folder(tmp_path / "main", 1, WHOLE, WHOLE, WHOLE), folder(tmp_path / "pr", 11, *3 * [(1.0, 180)])
    compared = perflog.compare(base, side)
    assert {(each.side, each.last_step, each.usual_last_step) for each in compared.cut_short} == {("pr", 180, PLANNED)}
    assert {row.metric for row in compared.headlines} == {"step_time"}
    assert "elapsed" not in {row.metric for row in compared.row_records}
    means = [row for row in compared.row_records if row.statistic == "mean"]
    assert all(abs(row.change) < 0.01 for row in (*means, *compared.headlines)) and means[0].base_steps == 3 * 179
    result = invoke(base, side, "--fail-on", "regression")
    assert result.exit_code == 3 and "pr ended early at step 180 of 300: r0#1, r1#1, r2#1" in result.stderr
    of_json = json.loads(invoke(base, side, "--format", "json").stdout)
    assert [each["label"] for each in of_json["cut_short"]] == ["r0#1", "r1#1", "r2#1"]


@pytest.mark.parametrize("ends", [(180, 180), (180, 240), (60, 60)])
def test_where_no_run_is_whole_a_gate_cannot_judge(tmp_path: Path, ends: tuple[int, int]) -> None:
    """Both programs crash: the steps that all print are compared, but nobody knows what comes after them."""
    base, side = (folder(tmp_path / name, first, *2 * [(1.0, end)])
                  for name, first, end in (("main", 1, ends[0]), ("pr", 11, ends[1])))  # fmt: skip
    compared = perflog.compare(base, side)
    assert {(each.side, each.last_step, each.planned) for each in compared.cut_short} == {
        ("main", ends[0], PLANNED),
        ("pr", ends[1], PLANNED),
    }
    assert "elapsed" not in {row.metric for row in compared.row_records}
    result = invoke(base, side, "--fail-on", "regression", "--format", "json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["gates"][0]["result"] == "cannot judge"
    assert f"main ended early at step {ends[0]} of 300: r0#1, r1#1" in result.stderr


def test_a_slower_program_that_crashed_is_a_regression(tmp_path: Path) -> None:
    base, side = folder(tmp_path / "main", 1, WHOLE, WHOLE, WHOLE), folder(tmp_path / "pr", 11, *3 * [(1.03, 180)])
    assert invoke(base, side, "--fail-on", "regression").exit_code == 1


@pytest.mark.parametrize("steps", [20, 250])
def test_a_crashed_run_hides_no_slow_ones(tmp_path: Path, steps: int) -> None:
    """One that stopped soon is left out, so that it does not cut the others."""
    base = folder(tmp_path / "main", 1, WHOLE, WHOLE, WHOLE)
    side = folder(tmp_path / "pr", 11, (1.0, steps), (1.03, PLANNED), (1.03, PLANNED), (1.03, PLANNED))
    compared = perflog.compare(base, side)
    assert [each.label for each in compared.left_out] == ["r0#1"] * (steps == 20)
    assert len(compared.cut_short) == 1
    rows = {row.statistic: row for row in compared.row_records if row.metric == "step_time"}
    assert rows["mean"].side_runs == (3 if steps == 20 else 4)
    assert rows["mean"].base_steps == 3 * ((PLANNED if steps == 20 else steps) - 1)
    assert invoke(base, side, "--fail-on", "regression").exit_code == (1 if steps == 20 else 3)


def iterations(path: Path, seed: int, steps: int, factor: float = 1.0, first: int = 0) -> None:
    """A run of nanoGPT, which prints neither how many steps are planned nor that it is complete."""
    rng = np.random.default_rng(seed)
    times = factor * np.where(np.arange(PLANNED) < PLANNED / 2, 130.0, 136.0) + rng.normal(0, 1, PLANNED)
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "".join(f"iter {k}: loss {9 - k / 100:.4f}, time {times[k]:.2f}ms, mfu 30.00%\n" for k in range(first, steps))
    )


def test_far_fewer_steps_without_an_announced_number(tmp_path: Path) -> None:
    """Such a run cannot be told from a killed one; one that a clock ends has nearly as many steps."""
    for name, first, steps in (("main", 1, PLANNED), ("pr", 11, 180), ("clock", 21, 290)):
        for k in range(3):
            iterations(tmp_path / name / f"r{k}.txt", first + k, steps)
    result = invoke(str(tmp_path / "main"), str(tmp_path / "pr"), "--fail-on", "regression")
    assert result.exit_code == 3
    assert "pr stopped at step 179 where others reach 299: r0#1, r1#1, r2#1" in result.stderr
    assert invoke(str(tmp_path / "main"), str(tmp_path / "clock"), "--fail-on", "regression").exit_code == 0
    compared = perflog.compare(str(tmp_path / "main"), str(tmp_path / "pr"))
    assert not any(each.is_known for each in compared.cut_short)
    rows = [row for row in compared.row_records if row.metric == "step_time"]
    assert rows and all(abs(row.change) < 0.01 for row in rows)  # the whole runs would be 3 % slower


def test_a_later_part_of_a_run_cuts_no_other(tmp_path: Path) -> None:
    iterations(tmp_path / "a", 1, 100)
    iterations(tmp_path / "b", 2, PLANNED, first=150)
    assert not perflog.compare(str(tmp_path / "a"), str(tmp_path / "b"), draws=200).cut_short


def test_whole_runs_are_not_cut(tmp_path: Path) -> None:
    """A run that printed all its steps has not ended early, whether or not another line closes it."""
    base, side = folder(tmp_path / "main", 1, WHOLE, WHOLE), folder(tmp_path / "pr", 11, WHOLE, WHOLE)
    compared = perflog.compare(base, side)
    assert not compared.cut_short and "run-stopped" not in {finding.code for finding in compared.finding_records}
