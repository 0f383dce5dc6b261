"""`perflog lint`: what it prints, and its exit codes."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from support.commands import run, told
from support.rendered_logs import late, moe, moe_with, summarised, text, where

import perflog
from perflog.output import terminal


@pytest.fixture
def spoiled(tmp_path: Path) -> Path:
    path = tmp_path / "spoiled.txt"
    path.write_text(text("moe_layer", moe_with("step", where(7, tflops=39.5))))
    return path


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    path = tmp_path / "clean.txt"
    path.write_text(text("moe_layer", moe()))
    return path


def test_text_says_where_what_and_what_to_do(spoiled: Path) -> None:
    out = run("lint", spoiled).stdout
    assert out.startswith("error: identity-fails  spoiled.txt:")
    assert "prints tflops 39.50, its other numbers give" in out
    assert "-> do not use the number" in out
    assert out.endswith("findings  errors 1, warnings 0, notes 0\n")


def test_nothing_to_find(clean: Path) -> None:
    assert run("lint", clean, "--fail-on", "note").stdout == "findings  errors 0, warnings 0, notes 0\n"
    assert told("lint", clean, "--format", "json")["rows"] == []


def test_json_holds_what_the_python_function_gives(spoiled: Path) -> None:
    (row,) = told("lint", spoiled, "--format", "json")["rows"]
    (same,) = perflog.lint(perflog.read(spoiled)).to_dict("records")
    assert row["log"] == str(spoiled)
    assert row["evidence"] == json.loads(same["evidence"])
    assert {k: row[k] for k in ("run", "code", "severity", "message", "action", "first_line")} == {
        k: same[k] for k in ("run", "code", "severity", "message", "action", "first_line")
    }


def test_csv_and_markdown_are_tables(spoiled: Path) -> None:
    (row,) = csv.DictReader(io.StringIO(run("lint", spoiled, "--format", "csv").stdout))
    assert row["code"] == "identity-fails"
    assert json.loads(row["evidence"])["count"] == 1
    assert "| error | identity-fails | spoiled.txt:" in run("lint", spoiled, "--format", "md").stdout


@pytest.mark.parametrize(
    ("level", "code"), [("error", 0), ("warning", 1), ("note", 1)], ids=["error", "warning", "note"]
)
def test_a_gate_fails_on_its_severity_and_more_severe_ones(tmp_path: Path, level: str, code: int) -> None:
    path = tmp_path / "drifting.txt"
    path.write_text(text("moe_layer", moe_with("step", late(1.03, 20))))
    assert "warning: drift" in run("lint", path).stdout
    run("lint", path, "--fail-on", level, code=code)


def test_runs_given_together_are_compared(tmp_path: Path, clean: Path) -> None:
    other = tmp_path / "last_ten.txt"
    other.write_text(text("moe_layer", summarised(moe(seed=2), first=30)))
    assert "windows-differ" not in run("lint", other).stdout
    out = run("lint", clean, other).stdout
    assert "warning: windows-differ  clean.txt:" in out
    assert "; last_ten.txt:" in out
    assert run("lint", clean, clean).stdout == run("lint", clean).stdout


def test_several_runs_have_short_names_on_a_terminal(
    tmp_path: Path, clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "last_ten.txt"
    other.write_text(text("moe_layer", summarised(moe(seed=2), first=30)))
    monkeypatch.setattr(terminal, "width", lambda: 80)
    lines = run("lint", clean, other).stdout.splitlines()
    (title,) = [line for line in lines if line.startswith("warning: windows-differ")]
    assert re.fullmatch(r"warning: windows-differ  A:\d+; B:\d+", title)
    first, second = (perflog.read(path).run_keys[0].id for path in (clean, other))
    assert lines[-3:] == ["runs", f"  A  {first}, clean.txt", f"  B  {second}, last_ten.txt"]
    assert any("last_ten.txt:" in line for line in run("lint", other).stdout.splitlines())


def test_runs_of_a_store(spoiled: Path) -> None:
    run("ingest", spoiled, "--label", "bad")
    out = run("lint", "bad").stdout
    assert "identity-fails  spoiled.txt:" in out
    assert run("lint", "bad", spoiled).stdout == out  # the same run twice


def test_a_peak_is_given_in_tflops(clean: Path) -> None:
    assert "error: mfu-above-1" in run("lint", clean, "--peak-tflops", "30").stdout
    assert "mfu" not in run("lint", clean, "--peak", "312").stdout


def test_wrong_input_is_one_error() -> None:
    assert run("lint", "absent.txt", code=3).stderr.startswith("perflog: absent.txt: no such file")
