"""A/A tests: false positives of the gate where nothing differs."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.json_logs import json_log, steady_times
from support.metrics_logs import by_hand

from perflog.analysis import compare
from perflog.analysis.compare.aa import (
    _FEWEST,
    _blocks,
    _direction,
    _steady,
    _stretches,
    step_time_tests,
    wilson,
)
from perflog.analysis.compare.verdicts import DEFAULT_RULE
from perflog.cli.main import main
from perflog.errors import UsageError
from perflog.metrics import Tables
from perflog.statistics import effects
from perflog.statistics.rank_tests import holm_adjusted
from perflog.statistics.students_t import t_quantile

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
        assert row["wrong"] == row["slower"] + row["faster"]
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


def test_halves_of_real_runs_pass_the_gate_in_both_directions() -> None:
    gate = rates(*STEPPED, trials=1, draws=500)["halves", "gate"]
    assert (gate["runs"], gate["slower"], gate["faster"]) == (15, 0, 0)


def test_the_command() -> None:
    done = CliRunner().invoke(main, ["aa", "reference:moe_layer_early.txt", "--trials", "2", "--format", "json"])
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert len(document["aa"]) == 3 * 4
    assert document["power"] == []  # one run does not show how much runs differ
    text = CliRunner().invoke(main, ["aa", "reference:moe_layer_early.txt", "--trials", "2"]).stdout
    assert "a change is reported where nothing differs" in text
    assert "halves: first half of a run against its second" in text
    assert "run-to-run variation is unknown: name repeats" in text


def test_repeats_tell_the_power(tmp_path: Path) -> None:
    """Levels of runs that differ by 4 %: the text says which change 2, 3, 5 and 10 runs a side find.

    From four runs a side on verdicts take two tests, each with a lower limit than one alone would have.
    """
    levels = 0.2 * np.exp(0.04 * np.array([-1.0, 1.0, -1.0, 1.0, 0.0]))
    logs = [json_log(tmp_path / f"{k}.json", steady_times(k, level)) for k, level in enumerate(levels)]
    changes = compare.power(*logs, repeats=True, warmup=0)
    assert changes["runs"].tolist() == [2, 3, 5, 10] * 3
    assert changes["threshold"].tolist() == [0.01] * 4 + [0.02] * 4 + [0.05] * 4
    assert changes["repeats"].tolist() == [5] * 12
    assert changes["scatter"].to_numpy(float) == pytest.approx(0.04, rel=0.05)
    scatter, levels_of_test = changes["scatter"][0], (0.95, 0.95, 0.9505, 0.9567)
    expected = [
        effects.least_found(scatter, runs, level, math.log(1.01))
        for runs, level in zip((2, 3, 5, 10), levels_of_test, strict=True)
    ]
    assert changes["change"].to_numpy(float)[:4] == pytest.approx(np.expm1(expected), rel=1e-3)
    text = CliRunner().invoke(main, ["aa", *logs, "--repeats", "--trials", "1"]).stdout
    assert re.search(
        r"3 runs per side find a change of 1[5-8] % or more in 9 of 10 cases, and of \+2\.0 % in \d %", text
    )
    assert "proposal: 10 runs per side and --threshold 5% find +10.0 % in 100 %" in text
    assert not len(compare.power(*logs, warmup=0))  # without --repeats only runs of one label are repeats


def test_the_proposal_is_the_least_threshold_and_number_of_runs_that_find_twice_the_threshold(tmp_path: Path) -> None:
    """Computed another way: runs drawn from a normal distribution, and Welch's test of each draw.

    It is a little stricter than the test here, whose degrees of freedom lie between Welch's and those of both sides.
    """
    levels = 0.2 * np.exp(0.008 * np.array([-1.0, 1.0, -1.0, 1.0, 0.0]))
    logs = [json_log(tmp_path / f"{k}.json", steady_times(k, level)) for k, level in enumerate(levels)]
    changes = compare.power(*logs, repeats=True, warmup=0)
    rng = np.random.default_rng(1)
    freedoms = np.linspace(2, 4, 41)  # of three runs a side
    limits = [t_quantile(0.975, freedom) for freedom in freedoms]
    for row in changes[changes["runs"] == 3].to_dict("records"):
        base = rng.normal(0, row["scatter"], (20_000, 3))
        other = rng.normal(math.log1p(2 * row["threshold"]), row["scatter"], (20_000, 3))
        of_base, of_other = base.var(axis=1, ddof=1), other.var(axis=1, ddof=1)
        freedom = 2 * (of_base + of_other) ** 2 / (of_base**2 + of_other**2)
        change = other.mean(axis=1) - base.mean(axis=1)
        found = change / np.sqrt((of_base + of_other) / 3) > np.interp(freedom, freedoms, limits)
        found &= change >= math.log1p(row["threshold"])
        assert row["twice_found"] == pytest.approx(found.mean(), abs=0.08)
    text = CliRunner().invoke(main, ["aa", *logs, "--repeats", "--trials", "1"]).stdout
    assert "proposal: 5 runs per side and --threshold 1% find +2.0 % in 92 %" in text


def moe_run(path: Path, experts: int, rng: np.random.Generator) -> str:
    """A run of an MoE model that prints each step's time, drifts by up to some percent, and jitters.

    It resembles runs of SmartMoE. The halves of the reference runs, which are of MoE layers and models too, differ by
    up to 2 %. Real runs that drift are speed runs: tests/analysis/test_campaigns.py.
    """
    drift = np.cumsum(rng.normal(0, 0.004, 200)) + np.linspace(0, rng.uniform(-0.04, 0.04), 200)
    times = 0.05 * experts**0.3 * np.exp(drift + rng.normal(0, 0.02, 200))
    return json_log(path, [round(float(t), 6) for t in times], {"experts": experts})


def test_halves_of_runs_that_drift_pass_the_gate_in_both_directions(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    logs = [moe_run(tmp_path / f"{k}.json", 2 ** (k % 5 + 2), rng) for k in range(20)]
    by_split = {(row["split"], row["test"]): row for row in compare.aa(*logs, trials=1, draws=500).to_dict("records")}
    gate = by_split["halves", "gate"]
    assert (gate["runs"], gate["trials"]) == (20, 20)
    assert gate["slower"] <= 1 and gate["faster"] <= 1  # at most 5 % for halves of one run, either way
    assert by_split["halves", "u-test"]["wrong"] > 10


@pytest.mark.slow
def test_the_gate_is_quiet_where_a_test_of_steps_is_not() -> None:
    """On the reference runs; the figures are in docs/compare.md."""
    by_split = rates(*STEPPED, trials=16, threshold=0.05)
    assert by_split["blocks", "gate"]["runs"] == 15
    for split in ("halves", "stretches", "blocks"):
        assert by_split[split, "gate"]["wrong"] == 0
        assert by_split[split, "verdict"]["wrong"] <= 1
        assert by_split[split, "interval"]["rate"] < by_split[split, "u-test"]["rate"]
    assert by_split["stretches", "u-test"]["rate_low"] > 0.2  # four times what p < 0.05 promises
    assert math.isclose(by_split["stretches", "gate"]["rate_high"], wilson(0, 240)[1])


def test_repeats_are_cut_alike(tmp_path: Path) -> None:
    """Runs that become faster: one long warm-up of one run is cut from all, so only their scatter is left."""
    slope = np.linspace(0.25, 0.20, 60)
    paths = []
    for k in range(4):
        times = slope * (1 + np.random.default_rng(k).normal(0, 1e-3, 60))
        times[: 15 if k == 0 else 0] *= 3
        paths.append(json_log(tmp_path / f"{k}.json", [round(t, 6) for t in times]))
    (scatter,) = set(compare.power(*paths, repeats=True)["scatter"])
    assert scatter < 1e-3


@pytest.mark.parametrize(("steps", "is_split"), [(_FEWEST - 1, False), (_FEWEST, True)])
def test_a_run_that_is_split_has_sixteen_steps(steps: int, is_split: bool) -> None:
    tables = Tables(by_hand("steps", [{"step": step, "step_time_s": 1.0} for step in range(steps)]))
    side: Any = SimpleNamespace(tables=tables)
    assert set(_steady(side, 0)) == ({"r"} if is_split else set())


def test_p_values_of_step_times_are_adjusted_in_their_families() -> None:
    """The mean is a family of its own; the others, which mostly show what it shows, are adjusted together."""
    draw = np.random.default_rng(3)
    base, side = ([draw.normal(level, 0.01, 50) for _ in range(3)] for level in (1.0, 1.02))
    found = step_time_tests((base, side), DEFAULT_RULE, "x")
    others = [name for name in found if name != "mean"]
    assert found["mean"].p == found["mean"].estimate.p and found["mean"].runs == (3, 3)
    adjusted = holm_adjusted([found[name].estimate.p for name in others])
    assert [found[name].p for name in others] == pytest.approx(adjusted)


def test_the_direction_of_a_change() -> None:
    assert [_direction(*each) for each in ((True, False), (False, True), (False, False))] == [1, -1, 0]
