"""Lasting changes of the speed during compared runs: since which step, on which side, and how the sides compare."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import perflog
from perflog.analysis.compare.explanations import speed_changes as module
from perflog.output.presenters.compare_screen import answer_sentences

_NOISE = (0.0, 0.004, -0.003, 0.006, -0.005, 0.001, -0.002)


def log(path: Path, *levels: tuple[int, float]) -> str:
    """A log of 120 steps; each level: its first step, and the time of a step in s."""
    time_of = {step: seconds for first, seconds in levels for step in range(first, 121)}
    path.write_text(
        "".join(f"step {s} | loss 2.5 | step_time {t * (1 + _NOISE[s % 7]):.4f}s\n" for s, t in time_of.items())
    )
    return str(path)


def test_a_side_that_changes_in_its_middle(tmp_path: Path) -> None:
    """The median over all steps is that of no part of the run."""
    base, side = log(tmp_path / "a.log", (1, 0.5)), log(tmp_path / "b.log", (1, 0.4), (60, 0.52))
    compared = perflog.compare(f"A={base}", f"B={side}")
    texts = answer_sentences(compared)
    assert "B changes during the run: since step 60, step time 400 ms -> 520 ms, +30.0 %" in texts
    assert any(text.startswith("B against A: step time -20.0 % over steps ") for text in texts)
    rows = compared.speed_changes
    assert rows["side"].tolist() == ["A", "B"] * 2 and rows["last_step"].tolist() == [59, 59, 120, 120]
    assert rows["against_base"].dropna().tolist() == pytest.approx([-0.2, 0.04], abs=0.002)
    assert rows["changed_runs"].tolist() == [0, 0, 0, 1]


def test_a_side_that_drifts(tmp_path: Path) -> None:
    base = log(tmp_path / "a.log", (1, 0.5))
    side = log(tmp_path / "b.log", *((step, 0.5 + step / 2400) for step in range(1, 121)))
    compared = perflog.compare(f"A={base}", f"B={side}")
    texts = answer_sentences(compared)
    notes = [text for text in texts if "drifts" in text]
    assert len(notes) == 1 and notes[0].startswith("B drifts during the run: +4.8 % from the first half to the second")
    assert "inconclusive, as the speed of B changes during the run" in texts[0]
    assert "B against A: step time +0.45 % over steps 1 to 12, +9.5 % over steps 109 to 120" in texts
    assert compared.speed_changes["changed_runs"].tolist() == [0] * 4


def test_changes_of_both_sides_at_nearly_one_step(tmp_path: Path) -> None:
    """They divide both runs once, and what lies between them is in no section."""
    base = log(tmp_path / "a.log", (1, 0.5), (58, 0.6))
    sides = [log(tmp_path / f"b{k}.log", (1, 0.5), *levels) for k, levels in enumerate(([(61, 0.6)], []))]
    compared = perflog.compare(f"A={base}", *(f"B={each}" for each in sides), ignore=["round"])
    rows = compared.speed_changes
    assert rows[["first_step", "last_step"]].iloc[[0, -1], :].to_numpy().ravel().tolist()[1:] == [57, 61, 120]
    assert "B changes during the run: since step 61 (1 of 2 runs), step time 500 ms -> 600 ms, +20.0 %" in (
        answer_sentences(compared)
    )


def test_sides_of_one_speed_have_no_section(tmp_path: Path) -> None:
    compared = perflog.compare(log(tmp_path / "a.log", (1, 0.5)), log(tmp_path / "b.log", (1, 0.6)))
    assert not len(compared.speed_changes) and not any("during" in text for text in answer_sentences(compared))


def test_changes_that_are_near_to_the_first_one_are_one() -> None:
    made: list[Any] = [SimpleNamespace(steps=(step - 1, step)) for step in (31, 10, 20, 30)]
    found = [[change.steps[1] for change in near] for near in module._near_to_each_other(made, 10.0)]
    assert found == [[10, 20], [30, 31]]


def test_a_median_needs_five_values() -> None:
    series: Any = SimpleNamespace(
        steps=np.arange(1, 10), values=np.array([9.0, 1.0, 2.0, 3.0, 8.0, 9.0, 9.0, 9.0, 9.0])
    )
    assert module._median(series, 2, 6) == 3.0 and module._median(series, 2, 5) is None
    assert module._geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert [module._geometric_mean(values) for values in ([], [1.0, None], [1.0, 0.0])] == [None] * 3
