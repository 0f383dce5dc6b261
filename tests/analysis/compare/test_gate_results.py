"""The result of each gate in JSON, and what must not pass by accident: a copy, NaN, a figure that vanished."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.json_logs import json_log, steady_times

from perflog.cli.main import main


def invoke(*args: str) -> Result:
    return CliRunner().invoke(main, ["compare", *args])


def gates_of(result: Result) -> list[tuple[str, str]]:
    return [(each["gate"], each["result"]) for each in json.loads(result.stdout)["gates"]]


def folder(path: Path, level: float, first: int) -> str:
    """Three runs in a folder."""
    path.mkdir()
    for k in range(3):
        json_log(path / f"{k}.json", steady_times(first + k, level))
    return str(path)


def with_last_loss(path: str, value: str) -> None:
    for file in Path(path).iterdir():
        head, _, last = file.read_text().rstrip("\n").rpartition("\n")
        entry = json.loads(last.removeprefix("DLLL "))
        text = json.dumps(entry).replace(json.dumps(entry["data"]["loss"]), value)
        file.write_text(f"{head}\nDLLL {text}\n")


def test_json_has_the_result_of_each_gate(tmp_path: Path) -> None:
    base, side = folder(tmp_path / "main", 0.2, 1), folder(tmp_path / "pr", 0.21, 11)
    gates = ("--gate", "step_time:+3%", "--gate", "loss:+5%", "--fail-on", "inconclusive", "--require", "memory")
    result = invoke(base, side, *gates, "--format", "json")
    assert result.exit_code == 1
    found = dict(gates_of(result))
    assert found["step_time:+3%"] == "failed" and found["--require memory"] == "cannot judge"
    assert list(found) == ["step_time:+3%", "loss:+5%", "inconclusive", "--require memory"]
    assert gates_of(invoke(base, side, "--fail-on", "regression:20%", "--format", "json")) == [
        ("regression:20%", "passed")
    ]


@pytest.mark.parametrize("gates", [[], ["--fail-on", "regression"]])
def test_json_on_every_exit(tmp_path: Path, gates: list[str]) -> None:
    """A baseline that is missing, and one that has no figure in common."""
    side = folder(tmp_path / "pr", 0.2, 1)
    (tmp_path / "other.json").write_text('{"t_removed": 1.5}')
    for base in ("missing", "other.json"):
        result = invoke(str(tmp_path / base), side, *gates, "--format", "json")
        assert result.exit_code == 3 or (not gates and result.exit_code)
        document = json.loads(result.stdout)
        assert document["verdict"] == "nothing to compare" and document["error"]
        assert [each["result"] for each in document["gates"]] == ["cannot judge"] * bool(gates)


def test_a_copy_of_the_base_cannot_be_judged(tmp_path: Path) -> None:
    base, side = folder(tmp_path / "main", 0.2, 1), folder(tmp_path / "pr", 0.2, 1)
    for file in Path(side).iterdir():
        file.write_text(file.read_text() + "done\n")  # other bytes
    result = invoke(base, side, "--fail-on", "regression")
    assert result.exit_code == 3 and "pr has the runs of main" in result.stderr
    assert "A copy: pr has the runs of main." in result.stdout
    assert invoke(base, base, "--fail-on", "regression").exit_code == 3


def test_a_copy_of_a_run_of_the_base_is_no_run_of_the_other_side(tmp_path: Path) -> None:
    base, side = folder(tmp_path / "main", 0.2, 1), folder(tmp_path / "pr", 0.21, 11)
    (tmp_path / "pr" / "copied.json").write_text((tmp_path / "main" / "0.json").read_text() + "done\n")
    result = invoke(base, side, "--fail-on", "regression")
    assert result.exit_code == 1 and "a run of main, or a copy of one: copied.json#1" in result.stderr
    assert json.loads(invoke(base, side, "--format", "json").stdout)["copies"] == []


def test_a_value_that_was_never_finite(tmp_path: Path) -> None:
    """In one run it may be unknown yet; beside a base that prints a finite one it is lost."""
    base, side = folder(tmp_path / "main", 0.2, 1), folder(tmp_path / "pr", 0.2, 11)
    for path, value in ((base, "0.75"), (side, "NaN")):
        for file in Path(path).iterdir():
            head, data, last = file.read_text().rpartition('"data": {')
            file.write_text(f'{head}{data}"val_loss": {value}, {last}')
    result = invoke(base, side, "--fail-on", "regression")
    assert result.exit_code == 3 and "val_loss nan where the base has 0.75 in pr" in result.stderr
    assert json.loads(invoke(base, side, "--format", "json").stdout)["verdict"] == "not comparable"
    assert invoke(base, side, "--gate", "val_loss:+5%").exit_code == 1


def test_a_value_that_becomes_nan_fails_its_gate(tmp_path: Path) -> None:
    base, side = folder(tmp_path / "main", 0.2, 1), folder(tmp_path / "pr", 0.2, 11)
    with_last_loss(side, "NaN")
    result = invoke(base, side, "--gate", "loss:+5%", "--format", "json")
    assert result.exit_code == 1 and gates_of(result) == [("loss:+5%", "failed")]
    assert invoke(base, side, "--fail-on", "regression").exit_code == 3


def test_figures_that_vanished_are_told_and_can_be_required(tmp_path: Path) -> None:
    base, side = folder(tmp_path / "main", 0.2, 1), folder(tmp_path / "pr", 0.2, 11)
    for file in Path(side).iterdir():
        file.write_text(file.read_text().replace('"loss"', '"other_count"'))
    result = invoke(base, side, "--require", "loss", "--require", "step_time mean")
    assert result.exit_code == 3 and "Not on B: loss" in result.stdout
    assert "no metric `loss` on both sides" in result.stderr
    one_sided = json.loads(invoke(base, side, "--format", "json").stdout)["one_sided"]
    assert ("loss", "base") in {(each["metric"], each["on"]) for each in one_sided}
    assert invoke(base, side, "--require", "step_time mean").exit_code == 0


KILLED = "loading\nKilled\n"
NO_MEMORY = (
    'DLLL {"timestamp": "1.0", "datetime": "2020-04-21 06:36:06.2", "elapsedtime": "0", "type": "LOG", '
    '"step": "PARAMETER", "data": {"layers": 4}}\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB\n"
)


@pytest.mark.parametrize(
    ("text", "words"), [(KILLED, "Ended by a process that was killed"), (NO_MEMORY, "Ended by CUDA out of memory")]
)
def test_a_run_that_failed_before_its_first_step_lets_no_gate_pass(tmp_path: Path, text: str, words: str) -> None:
    base, side = folder(tmp_path / "main", 0.2, 1), folder(tmp_path / "pr", 0.2, 11)
    (tmp_path / "pr" / "3.log").write_text(text)
    result = invoke(base, side, "--gate", "step_time:+3%", "--format", "json")
    assert (result.exit_code, gates_of(result)) == (3, [("step_time:+3%", "cannot judge")])
    (failed,) = json.loads(result.stdout)["failed"]
    assert (failed["side"], failed["end"]) == ("pr", "ended early")
    assert words in failed["message"]
    screen = invoke(base, side)
    assert screen.exit_code == 0
    shown = "".join(screen.stdout.split())  # the terminal is narrow, and breaks paths
    assert f"Failed:pr:{tmp_path / 'pr' / '3.log'}#1:{''.join(words.split())}" in shown
    assert invoke(side, base, "--gate", "step_time:+3%").exit_code == 0  # a failed run of the base is no change


def test_a_failed_run_hides_no_regression(tmp_path: Path) -> None:
    base, side = folder(tmp_path / "main", 0.2, 1), folder(tmp_path / "pr", 0.21, 11)
    (tmp_path / "pr" / "3.log").write_text(KILLED)
    assert invoke(base, side, "--gate", "step_time:+3%").exit_code == 1


def test_the_log_of_a_monitor_is_no_failed_run(tmp_path: Path) -> None:
    base, side = folder(tmp_path / "main", 0.2, 1), folder(tmp_path / "pr", 0.2, 11)
    (tmp_path / "pr" / "gpu.csv").write_text("timestamp, utilization.gpu [%]\n2026/03/01 10:00:00.000, 97 %\n")
    assert invoke(base, side, "--gate", "step_time:+3%").exit_code == 0
