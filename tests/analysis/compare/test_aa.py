"""A/A tests: false positives of the gate where nothing differs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

from perflog.analysis import compare
from perflog.analysis.compare.aa import _blocks, _stretches, wilson
from perflog.cli.main import main
from perflog.errors import UsageError

STEPPED = ("moe_layer.txt", "moe_layer_early.txt", "training_sweep.txt", "pipeline_layers.txt")


@pytest.mark.parametrize(  # Brown, Cai and DasGupta 2001, and by hand
    ("hits", "trials", "low", "high"), [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0)]
)
def test_wilson(hits: int, trials: int, low: float, high: float) -> None:
    assert wilson(hits, trials) == pytest.approx((low, high), abs=1e-4)


def test_splits_are_of_the_run_alone() -> None:
    values, rng = np.arange(97.0), np.random.default_rng(0)
    for _ in range(50):
        (a,), (b,) = _stretches(values, rng)
        assert len(a) == len(b) >= 24
        assert b[0] == a[-1] + 1  # neighbours
        (a,), (b,) = _blocks(values, rng)
        assert len(a) == len(b)
        assert not set(a) & set(b)
        assert (np.diff(a) > 0).all() and (np.diff(b) > 0).all()


def rates(*names: str, **options: object) -> dict[tuple[str, str], dict[str, float]]:
    by_split = compare.aa(*(f"reference:{name}" for name in names), **options)  # type: ignore[arg-type]
    return {(row["split"], row["test"]): row for row in by_split.to_dict("records")}


def test_a_run_is_halved_once_and_split_at_random_often() -> None:
    by_split = rates("moe_layer.txt", trials=3)
    assert {split for split, _ in by_split} == {"halves", "stretches", "blocks"}
    assert by_split["halves", "gate"]["trials"] == by_split["halves", "u-test"]["runs"] == 4
    assert by_split["blocks", "gate"]["trials"] == 12
    for row in by_split.values():
        assert row["rate"] == row["wrong"] / row["trials"]
        assert row["rate_low"] <= row["rate"] <= row["rate_high"]


def test_runs_are_repeats_if_the_caller_says_so() -> None:
    names = [f"training_sweep.txt#{k}" for k in (1, 2, 3)]  # one dense model, three times
    assert ("repeats", "gate") not in rates(*names, trials=1)
    by_split = rates(*names, trials=10, repeats=True)
    assert by_split["repeats", "gate"]["wrong"] == 0
    assert by_split["repeats", "u-test"]["wrong"] > 0  # runs differ by more than their steps scatter


def test_runs_without_steps_cannot_be_split() -> None:
    with pytest.raises(UsageError, match="step times"):
        rates("nvprof.txt")


def test_the_command() -> None:
    done = CliRunner().invoke(main, ["aa", "reference:moe_layer_early.txt", "--trials", "2", "--format", "json"])
    assert done.exit_code == 0
    assert len(json.loads(done.stdout)["rows"]) == 3 * 4
    text = CliRunner().invoke(main, ["aa", "reference:moe_layer_early.txt", "--trials", "2"]).stdout
    assert "called different where nothing differs" in text
    assert "halves: first half of a run against its second" in text


@pytest.mark.slow
def test_the_gate_is_quiet_where_a_test_of_steps_is_not() -> None:
    """On the reference runs; the figures are in docs/compare.md."""
    by_split = rates(*STEPPED, trials=40, threshold=0.05)
    assert by_split["blocks", "gate"]["runs"] == 15
    for split in ("halves", "stretches", "blocks"):
        assert by_split[split, "gate"]["wrong"] == by_split[split, "verdict"]["wrong"] == 0
        assert by_split[split, "interval"]["rate"] < by_split[split, "u-test"]["rate"]
    assert by_split["stretches", "u-test"]["rate_low"] > 0.2  # four times what p < 0.05 promises
    assert math.isclose(by_split["stretches", "gate"]["rate_high"], wilson(0, 600)[1])
