"""A command that the overview suggests has an answer."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.brief_answers import checked_lines
from support.commands import run
from support.paths import ROOT, SHARED

import perflog
from perflog.analysis.overview.run_groups import RunGroup
from perflog.errors import PerflogError
from perflog.output.presenters.brief import overview_brief

module: Any = import_module("perflog.analysis.overview.next_commands")  # the package has a function of this name
CAMPAIGNS = sorted((SHARED / "campaigns").glob("[js]*/[!e]*.log")) if SHARED.is_dir() else []


def answers(path: Path) -> int:
    """Run the commands that are suggested for a log, but for reports. Return how many there are."""
    try:
        overview = perflog.overview(perflog.read(path))
    except PerflogError:  # nothing in it is recognised
        return 0
    checked_lines("\n".join(overview_brief(overview)))
    commands = [shlex.split(command)[1:] for command in overview.next]
    commands = [words for words in commands if words[0] in ("analyze", "compare")]
    for words in commands:
        assert "nothing" not in run(*words).stdout.splitlines()[0], words
    return len(commands)


def test_suggested_commands_have_an_answer() -> None:
    """Two logs; the test of the overview's screen computes the metrics that are suggested for each file."""
    assert all(answers(ROOT / "tests" / "data" / name) for name in ("field/megatron.txt", "nvprof.txt"))


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.stem)
def test_suggested_commands_of_a_campaign_have_an_answer(path: Path) -> None:
    answers(path)


def test_a_rate_without_times_is_answered_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = "step: {0:2d}  loss:  7.62585  memory: 66.91GiB(37.51%)  tps: 10,0{0:02d}  tflops: 314.71  mfu: 13.99%\n"
    path = Path("rates.log")
    path.write_text("".join(line.format(step) for step in range(1, 9)))
    assert perflog.overview(perflog.read(path)).next[0] == "perflog analyze rates.log throughput"
    assert answers(path)


Commands = Callable[..., list[str]]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """The next commands for groups of so many runs each; what other modules know of the runs is given."""

    def of(
        *groups: tuple[str, str, int, dict[str, str]], names: Sequence[str] = ("a",), runs: int = 9, **known: Any
    ) -> list[str]:
        usual = {"jobs": {}, "diagnosis_of": None, "_metric_of": "waterfall", "have_factors": True,
                 "_measure_the_same": True} | known  # fmt: skip
        options = {key: usual.pop(key) for key in ("has_figures", "metric_of_folder", "in_common") if key in usual}
        for name, value in usual.items():
            monkeypatch.setattr(module, name, lambda *_, value=value: value)
        log: Any = type("FakeLog", (), {"__len__": lambda _: runs})()
        made = [RunGroup(mark, name, tuple("r" * number), settings) for mark, name, number, settings in groups]
        tables: Any = SimpleNamespace(count=lambda name: known.get(name, 0))
        found: list[str] = module.next_commands(names, log, made, tables, options.pop("has_figures", True), **options)
        return found

    return of


FAST, SLOW = {"batch": "8"}, {"batch": "16"}


def test_the_next_question_about_several_runs(commands: Commands) -> None:
    report = "perflog report a"
    assert commands(("A", "x", 3, FAST)) == [report]
    assert commands(("A", "x", 3, FAST), runs=1) == ["perflog analyze a waterfall", report]
    assert commands(runs=1, metric_of_folder="sweep") == ["perflog analyze a waterfall", report]
    assert commands(("A", "x", 3, FAST), metric_of_folder="history") == ["perflog track a", report]
    assert commands(("A", "x", 2, FAST), ("B", "y", 2, SLOW)) == ["perflog compare a/x a/y", report]
    pooled = ["perflog compare a --by batch", report]
    assert commands(("A", "x", 1, FAST), ("B", "y", 2, SLOW)) == pooled
    assert commands(("A", "x", 2, FAST), ("B", "x", 2, SLOW)) == pooled
    assert commands(("A", "x", 2, FAST), ("B", "y", 2, SLOW), ("C", "z", 2, SLOW)) == pooled
    assert commands(("A", "x", 2, FAST), ("B", "x", 2, SLOW), in_common=False) == [report]
    named = ("A", "x", 2, {"model": "s", **FAST}), ("B", "x", 2, {"model": "l", **SLOW})
    assert commands(*named) == pooled
    assert commands(*named, names=("a", "b")) == ["perflog compare a b", "perflog report a b"]
    assert commands(("A", "x", 2, FAST), names=("a", "-")) == ["perflog report a LOG"]


def test_factors_are_those_of_a_sweep_over_two_settings(commands: Commands) -> None:
    both = {"batch": "8", "lr": "1"}
    groups = [(mark, "x", 1, both) for mark in "ABCD"]
    factors = ["perflog analyze a factors", "perflog report a"]
    assert commands(*groups) == factors
    assert commands(*groups[:3]) == factors[1:]
    assert commands(*groups, have_factors=False) == factors[1:]
    assert commands(*groups, metric_of_folder="scaling") == ["perflog analyze a scaling", *factors[1:]]


def test_runs_of_one_log_that_measure_the_same_are_compared(commands: Commands) -> None:
    groups = [(f"#{k}", "x", 1, {"batch": "8", "lr": "1"}) for k in (1, 2, 3)]
    assert commands(*groups) == ["perflog compare a:1 a:2", "perflog report a"]
    assert commands(*groups, _measure_the_same=False) == ["perflog report a"]
    assert commands(*groups[:1]) == ["perflog report a"]
    assert commands(*groups[:2], ("A", "x", 1, {"batch": "8", "lr": "2"})) == ["perflog report a"]


def test_what_failed_comes_first_and_a_job_has_its_report(commands: Commands) -> None:
    group = ("A", "x", 2, FAST), ("B", "y", 2, SLOW)
    diagnosis = "perflog diagnose a"
    assert commands(*group, diagnosis_of=diagnosis)[:2] == [diagnosis, "perflog compare a/x a/y"]
    assert commands(*group, jobs={"j": ["r", "s"]}, runs=2) == ["perflog report a"]
    assert commands(*group, jobs={"j": ["r", "s"]}, runs=3) == ["perflog compare a/x a/y", "perflog report a"]
