"""A command that the overview suggests has an answer."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from support.brief_answers import checked_lines
from support.commands import run
from support.paths import ROOT, SHARED

import perflog
from perflog.errors import PerflogError
from perflog.output.presenters.brief import overview_brief

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
