"""How often the gate is wrong where nothing differs: sides made of one run, or of repeats of one configuration."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.analysis.compare.measures import STEPS
from perflog.analysis.compare.rows import ratio_of, sample
from perflog.analysis.compare.sides import Side, load_side, same_but_for_the_start
from perflog.analysis.compare.verdicts import Rule, decide, plain
from perflog.errors import UsageError
from perflog.metrics import Column
from perflog.metrics.step_series import series
from perflog.statistics import bootstrap
from perflog.statistics.samples import Floats

if TYPE_CHECKING:
    import pandas as pd

    from perflog.log import Log

COLUMNS = (
    Column("split", meaning="how the two sides were made"),
    Column("test", meaning="what was tried on them"),
    Column("runs", meaning="runs that were split"),
    Column("trials", meaning="times it was tried"),
    Column("wrong", meaning="times it called the sides different"),
    Column("rate", "1", "lower", meaning="wrong / trials"),
    Column("rate_low", "1", meaning="binomial interval (Wilson 1927); trials on one run share its steps"),
    Column("rate_high", "1", meaning="its upper end"),
)

SPLITS = {
    "halves": "first half of a run against its second",
    "stretches": "two neighbouring stretches of a run, of random length and place",
    "blocks": "blocks of a run's steps, dealt out at random",
    "repeats": "runs of one configuration, dealt out at random",
}
TESTS = {
    "gate": "a regression that fails the gate",
    "verdict": "a verdict of regression or improvement, exploratory or not",
    "interval": "the interval of the ratio excludes 1",
    "u-test": "Mann-Whitney U of the steps, p < 1 - level",
}
_FEWEST = 16  # steady steps of a run that is split

Sides = tuple[list[Floats], list[Floats]]


@dataclass(frozen=True)
class Trial:
    """One A/A comparison: how it was made, of which runs, and its sides."""

    split: str
    runs: tuple[str, ...]
    sides: Sides


def aa(
    *given: str | os.PathLike[str] | Log,
    store: str | os.PathLike[str] | None = None,
    trials: int = 100,
    warmup: int | None = None,
    repeats: bool = False,
    **rule: Any,
) -> pd.DataFrame:
    """False-positive rates of the gate on step times, beside those of a U test on steps: see `COLUMNS`.

    `trials` of each random split of each run. `repeats`: take all runs for repeats of one configuration; by default
    these are the runs of one label and the same settings. Other arguments are the fields of `Rule`; 1000 draws will do.
    """
    import pandas as pd

    chosen = Rule(**{"draws": 1000, **rule})
    side = load_side(given, store)
    steady = _steady(side, warmup)
    if not steady:
        help = f"a run is split that has {_FEWEST} steady steps or more"
        raise UsageError("no run has step times enough", side.name, help)
    rng = np.random.default_rng(chosen.seed)
    found: dict[tuple[str, str], list[bool]] = {}
    runs: dict[str, set[str]] = {}
    for k, trial in enumerate(_trials(steady, _groups(side, steady, repeats), trials, rng)):
        runs.setdefault(trial.split, set()).update(trial.runs)
        for test, wrong in _judge(trial.sides, chosen, k).items():
            found.setdefault((trial.split, test), []).append(wrong)
    rows = [_row(split, test, len(runs[split]), wrong) for (split, test), wrong in found.items()]
    return pd.DataFrame(rows, columns=[c.name for c in COLUMNS])


def _steady(side: Side, warmup: int | None) -> dict[str, Floats]:
    every = (one for tables in side.tables for one in series(tables, warmup=warmup))
    return {one.run: one.steady for one in every if len(one.steady) >= _FEWEST}


def _groups(side: Side, steady: dict[str, Floats], repeats: bool) -> list[list[str]]:
    """Runs of one configuration, where there are several. Settings alone do not tell: logs need not say all."""
    if repeats:
        return [list(steady)] if len(steady) > 1 else []
    labels = {run.id: run.label for log in side.logs for run in log.run_keys}
    groups: dict[tuple[str, str], list[str]] = {}
    for run in steady:
        if label := labels[run]:
            said = str(sorted(same_but_for_the_start(side.settings[run]).items()))
            groups.setdefault((label, said), []).append(run)
    return [runs for runs in groups.values() if len(runs) > 1]


def _trials(
    steady: dict[str, Floats], groups: Sequence[Sequence[str]], trials: int, rng: np.random.Generator
) -> Iterator[Trial]:
    for run, values in steady.items():
        half = len(values) // 2
        yield Trial("halves", (run,), ([values[:half]], [values[half:]]))
        for _ in range(trials):
            yield Trial("stretches", (run,), _stretches(values, rng))
            yield Trial("blocks", (run,), _blocks(values, rng))
    for runs in groups:
        for _ in range(trials):
            dealt = [steady[runs[i]] for i in rng.permutation(len(runs))]
            half = len(runs) // 2
            yield Trial("repeats", tuple(runs), (dealt[:half], dealt[half : 2 * half]))


def _stretches(values: Floats, rng: np.random.Generator) -> Sides:
    n = len(values)
    length = int(rng.integers(n // 4, n // 2 + 1))
    start = int(rng.integers(0, n - 2 * length + 1))
    middle = start + length
    return [values[start:middle]], [values[middle : middle + length]]


def _blocks(values: Floats, rng: np.random.Generator) -> Sides:
    """Whole blocks of the length that the bootstrap takes, half of them to each side, in their order."""
    length = bootstrap.block_length(values)
    whole = values[: len(values) // (2 * length) * 2 * length].reshape(-1, length)
    first = np.isin(np.arange(len(whole)), rng.permutation(len(whole))[: len(whole) // 2])
    return [whole[first].ravel()], [whole[~first].ravel()]


def _judge(sides: Sides, rule: Rule, k: int) -> dict[str, bool]:
    """Whether each test calls the sides different."""
    base, other = (sample(runs, rule, f"{k}/{i}") for i, runs in enumerate(sides))
    ratio = ratio_of(STEPS[0], base, other, rule)
    verdict = decide(ratio, rule)
    p = bootstrap.mann_whitney(*map(np.concatenate, sides))
    return {
        "gate": verdict.fails,
        "verdict": plain(verdict.words) in ("regression", "improvement"),
        "interval": not math.isnan(ratio.low) and not ratio.low <= 1 <= ratio.high,
        "u-test": p < 1 - rule.level,
    }


def _row(split: str, test: str, runs: int, wrong: Sequence[bool]) -> dict[str, Any]:
    low, high = wilson(sum(wrong), len(wrong))
    row: dict[str, Any] = {"split": split, "test": test, "runs": runs, "trials": len(wrong), "wrong": sum(wrong)}
    return row | {"rate": sum(wrong) / len(wrong), "rate_low": low, "rate_high": high}


def wilson(hits: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Interval of a rate (Wilson 1927)."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    rate = hits / trials
    middle = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    arm = z / (1 + z * z / trials) * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials**2))
    return middle - arm if hits else 0.0, middle + arm if hits < trials else 1.0
