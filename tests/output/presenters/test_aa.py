"""False positives as a sheet, and what comparisons find in sentences."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from perflog.analysis.compare.aa import COLUMNS, POWER_COLUMNS, SPLITS, TESTS
from perflog.output.presenters import aa as module

PAIRS = [("halves", "gate"), ("halves", "u-test"), ("repeats", "gate")]


def rates() -> pd.DataFrame:
    names = [column.name for column in COLUMNS]
    return pd.DataFrame([dict.fromkeys(names, 1) | {"split": split, "test": test} for split, test in PAIRS])[names]


@pytest.mark.parametrize("format", ["text", "md"])
def test_splits_and_tests_that_are_shown_are_explained(format: str) -> None:
    sheet = module.false_positives(rates(), format)
    names = [line.partition(":")[0] for line in sheet.note.split("\n")]
    assert names == ["halves", "repeats", "gate", "u-test", "wrong"]
    assert f"gate: {TESTS['gate']}" in sheet.note and f"halves: {SPLITS['halves']}" in sheet.note
    assert len(list(sheet.rows)) == 3


def test_data_have_no_explanations() -> None:
    for sheet in (module.false_positives(rates(), "csv"), module.power(power((2, 0.05, 0.03, 0.95)), "json")):
        assert (sheet.title, sheet.note) == ("", "") and len(sheet.columns) in (len(COLUMNS), len(POWER_COLUMNS))
    numbers = {column.name for column in module.false_positives(rates(), "csv").columns if column.number}
    assert not numbers & {"split", "test"} and len(numbers) == len(COLUMNS) - 2


def power(*rows: tuple[int, float, float, float]) -> pd.DataFrame:
    """Runs per side, threshold, the change that is found, and how often twice the threshold is."""
    names = ["runs", "threshold", "change", "twice_found"]
    given = [dict(zip(names, row, strict=True)) | {"scatter": 0.0123, "repeats": 7} for row in rows]
    return pd.DataFrame(given)


def said(*rows: tuple[int, float, float, float]) -> list[str]:
    return module.power(power(*rows), "text").note.split("\n")


def test_the_proposal_is_the_smallest_threshold_with_the_fewest_runs() -> None:
    rows: Any = [(2, 0.05, 0.03, 0.85), (5, 0.05, 0.02, 0.99), (5, 0.01, 0.02, 0.9), (10, 0.01, 0.015, 0.98)]
    assert said(*rows) == [
        "2 runs per side find a change of 3 % or more in 9 of 10 cases, and of +10.0 % in 85 %",
        "5 runs per side find a change of 2 % or more in 9 of 10 cases, and of +10.0 % in 99 %",
        "proposal: 5 runs per side and --threshold 1% find +2.0 % in 90 %",
        "run-to-run variation of the mean step time: 1.2 % (standard deviation, 7 runs)",
    ]


def test_too_few_runs_have_no_proposal() -> None:
    assert said((2, 0.01, 0.2, 0.1), (3, 0.02, 0.2, 0.89))[-2] == (
        "no proposal: 3 runs per side and --threshold 2% find +4.0 % in 89 % only"
    )


def test_without_repeats_the_variation_is_unknown() -> None:
    (only,) = module.power(pd.DataFrame(columns=["runs"]), "text").note.split("\n")
    assert only.startswith("run-to-run variation is unknown: name repeats")
