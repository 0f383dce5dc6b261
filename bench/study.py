"""A study of `perflog compare`: how often it is wrong, how often it finds a change, whether its intervals cover.

Run it with `make study`. Runs are simulated with the features of real ones (runs that differ, steps that depend on
their neighbours, two levels, a schedule of step lengths), or drawn from real repeats where they are at hand. Then one
side is slowed down. Each cell is tried with the same seed every time. Nothing in perflog is tuned on these tables.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from zlib import crc32

import numpy as np

import perflog
from perflog.analysis.compare.figures import estimate, side_figure, statistics_of
from perflog.analysis.compare.measures import STEP_TIME
from perflog.analysis.compare.rows import family
from perflog.analysis.compare.verdicts import VerdictRule, decide, without_exploratory
from perflog.metrics.registry import Tables
from perflog.metrics.step_series import step_series
from perflog.statistics.rank_tests import holm_adjusted, mann_whitney
from perflog.statistics.samples import Floats

RUNS = (1, 2, 3, 5, 10)
CHANGES = (0.01, 0.02, 0.03, 0.05, 0.10)
RULE = VerdictRule(draws=500)
FIXED = 0.05
"""The threshold of the method that only compares means."""

Family = Callable[[int, np.random.Generator], list[Floats]]
"""Gives the steady step times of a number of runs of one program."""


# --- runs -----------------------------------------------------------------------------------------------------------


def simulated(scatter: float, noise: float = 0.01, steps: int = 150, rho: float = 0.5, kind: str = "") -> Family:
    """Return runs whose levels differ by `scatter`; their steps scatter by `noise` and depend on their neighbours."""

    def draw(runs: int, rng: np.random.Generator) -> list[Floats]:
        return [math.exp(rng.normal(0, scatter)) * np.exp(_steps(rng)) for _ in range(runs)]

    def _steps(rng: np.random.Generator) -> Floats:
        logs = np.empty(steps)
        last = rng.normal(0, noise)
        for i, shock in enumerate(rng.normal(0, noise * math.sqrt(1 - rho * rho), steps)):
            logs[i] = last = rho * last + shock
        if kind == "two levels":
            logs += 0.1 * (rng.random(steps) < 0.3)
        if kind == "schedule":
            logs += np.repeat([0.0, 0.4, 1.1], -(-steps // 3))[:steps]
        return logs

    return draw


def drawn(pool: Sequence[Floats]) -> Family:
    """Return runs drawn from real repeats, each at most once in both sides together where there are enough."""

    def draw(runs: int, rng: np.random.Generator) -> list[Floats]:
        chosen = rng.choice(len(pool), runs, replace=runs > len(pool))
        return [pool[i] for i in chosen]

    return draw


def real_runs(folder: Path) -> list[Floats]:
    """Return the steady step times of the logs of a folder."""
    logs = sorted(path for path in folder.glob("*.txt"))
    return [s.steady for path in logs for s in step_series(Tables(perflog.read(path)))]


# --- changes --------------------------------------------------------------------------------------------------------


def constant(values: Floats, change: float) -> Floats:
    return values * (1 + change)


def stalls(values: Floats, change: float) -> Floats:
    slow = values.copy()
    slow[::50] *= 1 + change * len(values) / len(values[::50])
    return slow


def tail(values: Floats, change: float) -> Floats:
    slow = values.copy()
    slow[::12] *= 1 + change * len(values) / len(values[::12])
    return slow


def late(values: Floats, change: float) -> Floats:
    slow = values.copy()
    last = len(values) // 3
    slow[-last:] *= 1 + change * len(values) / last
    return slow


SHAPES: Mapping[str, Callable[[Floats, float], Floats]] = {
    "constant": constant, "stalls every 50 steps": stalls, "slower tail": tail, "slower last third": late,
}  # fmt: skip
"""Ways to make a run slower by a share of its mean."""


# --- methods --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What the methods say of two sides: whether the second one is slower, and perflog's interval of the mean."""

    slower: Mapping[str, bool]
    low: float
    high: float


def judge(base: Sequence[Floats], side: Sequence[Floats], name: str) -> Outcome:
    """Try all methods on two sides."""
    runs = len(base), len(side)
    effects = []
    for statistic in statistics_of(STEP_TIME, [*base, *side]):
        figures = [
            side_figure(of_side, statistic, RULE, f"{name}/{statistic}/{k}") for k, of_side in enumerate((base, side))
        ]
        effects.append((statistic, estimate(*figures).effect))
    adjusted = {}
    for name_of_family in {family(STEP_TIME, statistic) for statistic, _ in effects}:
        members = [(s, e) for s, e in effects if family(STEP_TIME, s) == name_of_family]
        adjusted |= dict(zip((s for s, _ in members), holm_adjusted([e.p() for _, e in members]), strict=True))
    verdicts = [decide(effect, "lower", adjusted[statistic], runs, RULE) for statistic, effect in effects]
    mean = next(effect for statistic, effect in effects if statistic == "mean")
    slower = {
        "perflog": any(without_exploratory(v.words) == "regression" for v in verdicts),
        "perflog gate": any(v.fails for v in verdicts),
        "fixed 5 %": np.mean([x.mean() for x in side]) / np.mean([x.mean() for x in base]) > 1 + FIXED,
    }
    if min(runs) > 1:
        welch = _welch_p([x.mean() for x in base], [x.mean() for x in side])
        slower["Welch on means"] = welch < 0.05 and mean.shift > 0
        medians = [np.array([np.median(x) for x in of_side]) for of_side in (base, side)]
        slower["U test on medians"] = mann_whitney(*medians) < 0.05 and np.median(medians[1]) > np.median(medians[0])
    return Outcome(slower, *mean.interval(RULE.level))


def _welch_p(base: Sequence[float], side: Sequence[float]) -> float:
    from perflog.statistics.students_t import t_tail

    a, b = np.array(base), np.array(side)
    errors = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    if sum(errors) == 0:
        return float(a[0] == b[0])
    freedom = sum(errors) ** 2 / (errors[0] ** 2 / (len(a) - 1) + errors[1] ** 2 / (len(b) - 1))
    return 2 * t_tail(abs(b.mean() - a.mean()) / math.sqrt(sum(errors)), freedom)


METHODS = ("perflog", "perflog gate", "Welch on means", "U test on medians", "fixed 5 %")


# --- the study ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """Trials of one family, number of runs, shape and size of a change: shares of trials, and the median width."""

    found: Mapping[str, float]
    covered: float
    width: float


@dataclass(frozen=True)
class Task:
    """What a cell tries."""

    family: str
    runs: int
    shape: str
    change: float
    trials: int


def tried(runs_of: Family, task: Task) -> Cell:
    """Return the results of a number of trials."""
    rng = np.random.default_rng(crc32(repr(task).encode()))
    outcomes = []
    for trial in range(task.trials):
        both = runs_of(2 * task.runs, rng)
        side = [SHAPES[task.shape](run, task.change) for run in both[task.runs :]]
        outcomes.append(judge(both[: task.runs], side, f"{task.family}/{trial}"))
    true = math.log1p(task.change)
    found = {m: float(np.mean([o.slower[m] for o in outcomes])) for m in METHODS if m in outcomes[0].slower}
    known = [o for o in outcomes if not math.isnan(o.low)]
    covered = float(np.mean([o.low <= true <= o.high for o in known])) if known else math.nan
    width = float(np.median([o.high - o.low for o in known])) if known else math.nan
    return Cell(found, covered, width)


@cache
def _families(shared: Path) -> dict[str, Family]:
    return families(shared)


def _cell(shared: Path, task: Task) -> Cell:
    return tried(_families(shared)[task.family], task)


def families(shared: Path) -> dict[str, Family]:
    """Return the families of runs by name: simulated ones, and real ones where the folder of real repeats exists."""
    named: dict[str, Family] = {
        "runs differ by 0.2 %": simulated(0.002),
        "runs differ by 1 %": simulated(0.01),
        "runs differ by 5 %": simulated(0.05),
        "steps follow their neighbours, AR(0.95)": simulated(0.01, rho=0.95),
        "steps have two levels": simulated(0.01, kind="two levels"),
        "a schedule of step lengths": simulated(0.005, kind="schedule"),
        "20 steps a run": simulated(0.01, steps=20),
        "5 steps a run": simulated(0.01, steps=5),
    }
    if (folder := shared / "campaigns" / "nanogpt_fp8" / "baseline").is_dir():
        named["13 real speed runs"] = drawn(real_runs(folder))
    return named


def percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.1f}"


Try = Callable[[Sequence[Task]], list[Cell]]


def false_alarms(names: Sequence[str], trials: int, try_all: Try) -> Iterator[str]:
    yield "## Where nothing differs"
    yield ""
    yield f"Share of {trials} trials, in percent, that call the second side slower; then the share of 95 % intervals of"
    yield "the mean that contain no change, and their median width in percent."
    yield ""
    yield "| runs | a side | " + " | ".join(METHODS) + " | covered | width |"
    yield "| --- | ---: |" + " ---: |" * (len(METHODS) + 2)
    tasks = [Task(name, runs, "constant", 0.0, trials) for name in names for runs in RUNS]
    for task, cell in zip(tasks, try_all(tasks), strict=True):
        shares = [percent(cell.found.get(method, math.nan)) for method in METHODS]
        shares += [percent(cell.covered), percent(cell.width)]
        yield f"| {task.family} | {task.runs} | {' | '.join(shares)} |"


def power(names: Sequence[str], shape: str, trials: int, try_all: Try) -> Iterator[str]:
    yield ""
    yield f"## One side is slower: {shape}"
    yield ""
    yield f"Share of {trials} trials, in percent, that find it: perflog / Welch's test on means / U test on medians."
    yield ""
    yield "| runs | a side | " + " | ".join(f"+{100 * change:.0f} %" for change in CHANGES) + " |"
    yield "| --- | ---: |" + " ---: |" * len(CHANGES)
    methods = ("perflog", "Welch on means", "U test on medians")
    tasks = [Task(name, runs, shape, change, trials) for name in names for runs in RUNS for change in CHANGES]
    cells = dict(zip(tasks, try_all(tasks), strict=True))
    for name in names:
        for runs in RUNS:
            of_row = [cells[Task(name, runs, shape, change, trials)].found for change in CHANGES]
            texts = (" / ".join(percent(found.get(m, math.nan)) for m in methods) for found in of_row)
            yield f"| {name} | {runs} | {' | '.join(texts)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--trials", type=int, default=400, help="of each cell without a change; a quarter of it with one"
    )
    parser.add_argument("--shared", type=Path, default=Path(__file__).parents[2] / "shared", help="folder of campaigns")
    arguments = parser.parse_args()
    names = list(families(arguments.shared))
    with ProcessPoolExecutor() as pool:

        def try_all(tasks: Sequence[Task]) -> list[Cell]:
            return list(pool.map(partial(_cell, arguments.shared), tasks))

        for line in false_alarms(names, arguments.trials, try_all):
            print(line, flush=True)
        for shape in SHAPES:
            for line in power(names, shape, arguments.trials // 4, try_all):
                print(line, flush=True)


if __name__ == "__main__":
    main()
