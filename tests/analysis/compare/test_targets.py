"""Runs compared by the time until a series reaches a value that the reader names."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import run

import perflog
from perflog.analysis.compare import Gate, failures
from perflog.errors import UsageError


def speed_run(path: Path, step_s: float, last: float = 3.0) -> str:
    """A speed run of 100 steps; val_loss falls by 0.1 every 10 steps and ends at `last`."""
    lines = []
    for step in range(1, 101):
        clock = f"train_time:{1000 * step_s * step:.0f}ms step_avg:{1000 * step_s:.2f}ms"
        lines.append(f"step:{step}/100 train_loss:{5 - step / 50:.4f} {clock}")
        if step % 10 == 0:
            lines.append(f"step:{step}/100 val_loss:{last + (100 - step) / 100:.4f} {clock}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def sides(tmp_path: Path) -> list[str]:
    """Five runs a side: 1 s and 1.1 s a step, with a scatter of 0.1 %."""
    of_side = {"a": 1.0, "b": 1.1}
    return [
        f"{side}={speed_run(tmp_path / f'{side}{i}.txt', step_s * (1 + i / 1000))}"
        for side, step_s in of_side.items()
        for i in range(5)
    ]


def test_the_time_to_a_target_leads(sides: list[str]) -> None:
    """val_loss is 3.5 at step 50."""
    comparison = perflog.compare(*sides, targets={"val_loss": 3.5})
    (headline,) = comparison.headlines
    assert (headline.metric, headline.unit) == ("time to val_loss 3.5", "s")
    assert (headline.base_value, headline.side_value) == pytest.approx((50.1, 55.11), rel=1e-3)
    assert headline.verdict == "regression"
    steps = next(row for row in comparison.row_records if row.metric == "steps to val_loss 3.5")
    assert (steps.base_value, steps.side_value) == pytest.approx((50, 50))
    assert comparison.to_dict()["rows"][0]["metric"] == "time to val_loss 3.5"


def test_a_target_that_no_run_reaches_closes_the_gate(sides: list[str]) -> None:
    comparison = perflog.compare(*sides, targets={"val_loss": 2.9})
    assert not comparison.headlines
    assert "no runs of both sides reach val_loss 2.9" in comparison.warnings
    (failure,) = failures(comparison, [Gate()])
    assert failure.kind == "cannot judge"


def test_runs_that_do_not_reach_it_are_named(tmp_path: Path, sides: list[str]) -> None:
    comparison = perflog.compare(
        *sides, f"b={speed_run(tmp_path / 'worse.txt', 1.12, last=3.2)}", targets={"val_loss": 3.1}
    )
    (headline,) = comparison.headlines
    assert (headline.base_runs, headline.side_runs) == (5, 5)
    assert any(text.startswith("b: without time to val_loss 3.1") for text in comparison.warnings)


def test_an_unknown_series_names_the_nearest(sides: list[str]) -> None:
    with pytest.raises(UsageError, match="no run prints a series `vall_loss`\ndid you mean `val_loss`"):
        perflog.compare(*sides, targets={"vall_loss": 3.5})


def test_the_next_command_names_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, step_s in (("a", 1.0), ("b", 1.1)):
        speed_run(tmp_path / name, step_s)
    done = run("compare", "a", "b", "--target", "val_loss=3.5")
    assert done.stdout.splitlines()[-1] == "Next: perflog compare a b --target val_loss=3.5 --all"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["3.5"], "'3.5' is not a target"),
        (["val_loss=low"], "'val_loss=low' is not a target"),
        (["val_loss=inf"], "'val_loss=inf' is not a target"),
        (["a=1", "a=2"], "a series can have only one target"),
    ],
)
def test_odd_targets(words: list[str], reason: str) -> None:
    done = run("compare", "a", "b", *(part for word in words for part in ("--target", word)), code=2)
    assert reason in done.output
