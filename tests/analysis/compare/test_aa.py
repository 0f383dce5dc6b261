"""How often the gate is wrong where nothing differs."""

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
    found = compare.aa(*(f"reference:{name}" for name in names), **options)  # type: ignore[arg-type]
    return {(row["split"], row["test"]): row for row in found.to_dict("records")}


def test_a_run_is_halved_once_and_split_at_random_often() -> None:
    found = rates("moe_layer.txt", trials=3)
    assert {split for split, _ in found} == {"halves", "stretches", "blocks"}
    assert found["halves", "gate"]["trials"] == found["halves", "u-test"]["runs"] == 4
    assert found["blocks", "gate"]["trials"] == 12
    for row in found.values():
        assert row["rate"] == row["wrong"] / row["trials"]
        assert row["rate_low"] <= row["rate"] <= row["rate_high"]


def test_runs_are_repeats_where_they_are_said_to_be() -> None:
    names = [f"training_sweep.txt#{k}" for k in (1, 2, 3)]  # one dense model, three times
    assert ("repeats", "gate") not in rates(*names, trials=1)
    found = rates(*names, trials=10, repeats=True)
    assert found["repeats", "gate"]["wrong"] == 0
    assert found["repeats", "u-test"]["wrong"] > 0  # runs differ by more than their steps scatter


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
    """On the reference runs; the figures stand in docs/compare.md."""
    found = rates(*STEPPED, trials=40)
    assert found["blocks", "gate"]["runs"] == 15
    for split in ("halves", "stretches", "blocks"):
        assert found[split, "gate"]["wrong"] == found[split, "verdict"]["wrong"] == 0
        assert found[split, "interval"]["rate"] < found[split, "u-test"]["rate"]
    assert found["stretches", "u-test"]["rate_low"] > 0.2  # four times what p < 0.05 promises
    assert math.isclose(found["stretches", "gate"]["rate_high"], wilson(0, 600)[1])
