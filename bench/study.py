"""A study of `perflog compare`: how often it is wrong, how often it finds a change, whether its intervals cover.

Run it with `make study`. Runs are simulated with the features of real ones (runs that differ, steps that depend on
their neighbours, two levels, a schedule of step lengths), or drawn from real repeats where they are at hand. Then one
side is slowed down. All methods see the same runs, and each cell is tried with the same seed every time. Nothing in
perflog is tuned on these tables. The method of an earlier commit is that commit's code, run in a process of its own.
"""

from __future__ import annotations

import argparse
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from zlib import crc32

import numpy as np

import perflog
from perflog.analysis.compare.aa import step_time_tests, verdicts
from perflog.analysis.compare.verdicts import VerdictRule, without_exploratory
from perflog.metrics.registry import Tables
from perflog.metrics.step_series import step_series
from perflog.statistics.rank_tests import mann_whitney
from perflog.statistics.samples import Floats
from perflog.statistics.students_t import t_tail

RUNS = (1, 2, 3, 5, 10)
HISTORY = 5
"""Other repeats that are known, of one run a side, in rows of their own."""

CHANGES = (0.01, 0.02, 0.03, 0.05, 0.10)
RULE = VerdictRule(draws=500)
ALPHA = 0.05
MARGIN = 0.05
"""More than this is more power."""

_BENCHSTAT_SAMPLES = 4

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


def averaged(family: Family, lines: int) -> Family:
    """Return runs that print the mean of a number of steps."""

    def draw(runs: int, rng: np.random.Generator) -> list[Floats]:
        return [run[: len(run) // lines * lines].reshape(-1, lines).mean(axis=1) for run in family(runs, rng)]

    return draw


def drawn(pool: Sequence[Floats]) -> Family:
    """Return runs drawn from real repeats, each at most once in both sides together."""

    def draw(runs: int, rng: np.random.Generator) -> list[Floats]:
        return [pool[i] for i in rng.choice(len(pool), runs, replace=False)]

    return draw


def real_runs(folder: Path) -> list[Floats]:
    """Return the steady step times of the logs of a folder; the time of the whole run where no steps are printed."""
    runs = []
    for path in sorted(folder.glob("*.txt")):
        tables = Tables(perflog.read(path))
        steps = [series.steady for series in step_series(tables)]
        runs += steps or [np.array([elapsed]) for elapsed in tables["runs"]["elapsed_s"].dropna()]
    return runs


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
    last = max(len(values) // 3, 1)
    slow[-last:] *= 1 + change * len(values) / last
    return slow


SHAPES: Mapping[str, Callable[[Floats, float], Floats]] = {
    "constant": constant, "stalls every 50 steps": stalls, "slower tail": tail, "slower last third": late,
}  # fmt: skip
"""Ways to make a run slower by a share of its mean."""


# --- methods --------------------------------------------------------------------------------------------------------

PLAIN = ("Welch on means", "U test on medians", "benchstat")
"""Plain methods that test runs."""

METHODS = ("before", "before gate", "perflog", "perflog gate", *PLAIN, "benchstat on steps", "fixed 5 %")
INTERVALS = ("before", "perflog")
"""Methods that give an interval."""


@dataclass(frozen=True)
class Outcome:
    """What the methods say of two sides: whether the second one is slower, and intervals of log(side / base)."""

    slower: Mapping[str, bool]
    intervals: Mapping[str, tuple[float, float]]


Sides = tuple[Sequence[Floats], Sequence[Floats]]


def judge(sides: Sides, others: Sequence[Floats], name: str, before: Before | None) -> Outcome:
    """Try all methods on two sides. `others` are other repeats, which only perflog can use."""
    base, side = sides
    means = [np.array([run.mean() for run in runs]) for runs in sides]
    medians = [np.array([np.median(run) for run in runs]) for runs in sides]
    slower, interval = by_perflog(sides, others, name)
    intervals = {"perflog": interval}
    slower["fixed 5 %"] = means[1].mean() / means[0].mean() > 1 + FIXED
    slower["benchstat on steps"] = benchstat(np.concatenate(base), np.concatenate(side))
    if min(map(len, sides)) > 1:
        slower["Welch on means"] = welch_p(*means) < ALPHA and means[1].mean() > means[0].mean()
        slower["U test on medians"] = benchstat(*medians)
        slower["benchstat"] = benchstat(*means)
    if before is not None and not others:
        slower["before"], slower["before gate"], *ends = before.judge(sides, name)
        intervals["before"] = (ends[0], ends[1])
    return Outcome(slower, intervals)


def by_perflog(sides: Sides, others: Sequence[Floats], name: str) -> tuple[dict[str, bool], tuple[float, float]]:
    """Return what perflog says of all figures of the step times, and its interval of the mean."""
    tests = step_time_tests(sides, RULE, name, others)
    judged = verdicts(tests, RULE)
    found = any(without_exploratory(verdict.words) == "regression" for verdict in judged)
    mean, *_ = tests.get("mean") or tests["value"]
    return {"perflog": found, "perflog gate": any(v.fails for v in judged)}, mean.effect.interval(RULE.level)


def benchstat(base: Floats, side: Floats) -> bool:
    """Return whether benchstat shows that the second sample is slower.

    golang.org/x/perf/benchmath without assumptions, as `benchstat` is run by default: the change of the medians is
    shown if the two-sided Mann-Whitney U test gives at most 5 %; with fewer than 4 samples a side it cannot, and
    benchstat says so. A sample of a Go benchmark is the mean time of a run.
    """
    enough = min(len(base), len(side)) >= _BENCHSTAT_SAMPLES
    return enough and mann_whitney(base, side) <= ALPHA and bool(np.median(side) > np.median(base))


def welch_p(base: Floats, side: Floats) -> float:
    """Return the two-sided p of Welch's test (1947)."""
    errors = base.var(ddof=1) / len(base), side.var(ddof=1) / len(side)
    if sum(errors) == 0:
        return float(base[0] == side[0])
    freedom = sum(errors) ** 2 / (errors[0] ** 2 / (len(base) - 1) + errors[1] ** 2 / (len(side) - 1))
    return 2 * t_tail(abs(side.mean() - base.mean()) / math.sqrt(sum(errors)), freedom)


class Before:
    """The comparison of an earlier commit, in a process that has its checkout on the path."""

    def __init__(self, checkout: Path) -> None:
        script = Path(__file__).with_name("study_before.py")
        environment = os.environ | {"PYTHONPATH": str(checkout)}
        self.process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def judge(self, sides: Sides, name: str) -> tuple[bool, bool, float, float]:
        """Return whether the second side is slower, whether a gate fails, and the interval of the median."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        pickle.dump((*sides, name), self.process.stdin)
        self.process.stdin.flush()
        answer: tuple[bool, bool, float, float] = pickle.load(self.process.stdout)
        return answer


# --- the study ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """Trials of one family, number of runs, shape and size of a change: shares of trials, and median widths."""

    found: Mapping[str, float]
    covered: Mapping[str, float]
    width: Mapping[str, float]


@dataclass(frozen=True)
class Task:
    """What a cell tries: `history` is the number of other repeats that are known."""

    family: str
    runs: int
    history: int
    shape: str
    change: float
    trials: int

    @property
    def a_side(self) -> str:
        return f"{self.runs}, {self.history} known" if self.history else f"{self.runs}"


def tried(runs_of: Family, task: Task, before: Before | None) -> Cell:
    """Return the results of a number of trials."""
    rng = np.random.default_rng(crc32(repr(task).encode()))
    outcomes = []
    for trial in range(task.trials):
        runs = runs_of(2 * task.runs + task.history, rng)
        side = [SHAPES[task.shape](run, task.change) for run in runs[task.runs : 2 * task.runs]]
        name = f"{task.family}/{trial}"
        outcomes.append(judge((runs[: task.runs], side), runs[2 * task.runs :], name, before))
    true = math.log1p(task.change)
    found = {m: float(np.mean([o.slower[m] for o in outcomes])) for m in METHODS if m in outcomes[0].slower}
    covered, width = {}, {}
    for method in outcomes[0].intervals:
        known = [o.intervals[method] for o in outcomes if not math.isnan(o.intervals[method][0])]
        covered[method] = float(np.mean([low <= true <= high for low, high in known])) if known else math.nan
        width[method] = float(np.median([high - low for low, high in known])) if known else math.nan
    return Cell(found, covered, width)


@cache
def _families(shared: Path) -> dict[str, tuple[Family, int]]:
    return families(shared)


@cache
def _before(checkout: Path | None) -> Before | None:
    return Before(checkout) if checkout else None


def _cell(shared: Path, checkout: Path | None, task: Task) -> Cell:
    return tried(_families(shared)[task.family][0], task, _before(checkout))


def families(shared: Path) -> dict[str, tuple[Family, int]]:
    """Return families of runs by name, and how many runs each has: simulated, and real ones where they are at hand."""
    simulations: dict[str, Family] = {
        "runs differ by 0.2 %": simulated(0.002),
        "runs differ by 1 %": simulated(0.01),
        "runs differ by 5 %": simulated(0.05),
        "steps follow their neighbours, AR(0.95)": simulated(0.01, rho=0.95),
        "steps have two levels": simulated(0.01, kind="two levels"),
        "a schedule of step lengths": simulated(0.005, kind="schedule"),
        "a line is the mean of 10 steps": averaged(simulated(0.01, steps=500), 10),
        "20 steps a run": simulated(0.01, steps=20),
        "10 steps a run": simulated(0.01, steps=10),
        "5 steps a run": simulated(0.01, steps=5),
    }
    named = {name: (family, 1_000_000) for name, family in simulations.items()}
    campaigns = shared / "campaigns"
    real = {
        "13 real speed runs": campaigns / "nanogpt_fp8" / "baseline",
        "10 real MLPerf runs": campaigns / "mlperf_llama2_lora" / "MI300X_EPYC_9575F_pytorch_llama2_70b",
    }
    for name, folder in real.items():
        if folder.is_dir():
            pool = real_runs(folder)
            named[name] = (drawn(pool), len(pool))
    return named


def tasks_of(known: Mapping[str, tuple[Family, int]], shape: str, changes: Sequence[float], trials: int) -> list[Task]:
    """Return the cells of a shape: families, runs a side, changes. Real runs are used once in a trial."""
    sizes = [(1, 0), (1, HISTORY), *((runs, 0) for runs in RUNS[1:])]
    return [
        Task(name, runs, history, shape, change, trials)
        for name, (_, most) in known.items()
        for runs, history in sizes
        if 2 * runs + history <= most
        for change in changes
    ]


def percent(share: float, digits: int = 1) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.{digits}f}"


Results = Mapping[Task, Cell]


def false_alarms(results: Results, trials: int) -> Iterator[str]:
    yield "## Where nothing differs"
    yield ""
    yield f"Share of {trials} trials, in percent, that call the second side slower."
    yield ""
    yield "| runs | a side | " + " | ".join(METHODS) + " |"
    yield "| --- | ---: |" + " ---: |" * len(METHODS)
    for task, cell in results.items():
        shares = [percent(cell.found.get(method, math.nan)) for method in METHODS]
        yield f"| {task.family} | {task.a_side} | {' | '.join(shares)} |"
    yield ""
    yield "## Intervals"
    yield ""
    yield f"Share of the 95 % intervals of {trials} trials that contain no change, where nothing differs, and their"
    yield "median width, both in percent. Before: of the ratio of medians; now: of the change of the mean."
    yield ""
    yield "| runs | a side | covered before | covered | width before | width |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for task, cell in results.items():
        texts = [percent(of.get(m, math.nan)) for of in (cell.covered, cell.width) for m in INTERVALS]
        yield f"| {task.family} | {task.a_side} | {' | '.join(texts)} |"


SHOWN = ("before", "perflog", *PLAIN)
"""Methods in the tables of power."""


def power(results: Results, shape: str, trials: int) -> Iterator[str]:
    yield ""
    yield f"## One side is slower: {shape}"
    yield ""
    yield f"Share of {trials} trials, in percent, that find it: {' / '.join(SHOWN)}."
    yield ""
    yield "| runs | a side | " + " | ".join(f"+{100 * change:.0f} %" for change in CHANGES) + " |"
    yield "| --- | ---: |" + " ---: |" * len(CHANGES)
    for task in results:
        if task.change == CHANGES[0]:
            of_row = [results[replace(task, change=change)].found for change in CHANGES]
            texts = (" / ".join(percent(found.get(m, math.nan), 0) for m in SHOWN) for found in of_row)
            yield f"| {task.family} | {task.a_side} | {' | '.join(texts)} |"


def behind(results: Results) -> Iterator[str]:
    """Yield a table of the cells in which a plain method finds more than perflog does."""
    yield ""
    yield "## Where a plain method finds more"
    yield ""
    cells = [(task, cell.found["perflog"], max((cell.found.get(m, 0.0), m) for m in PLAIN))
             for task, cell in results.items() if task.runs > 1]  # fmt: skip
    worse = [(task, ours, best) for task, ours, best in cells if best[0] - ours > MARGIN]
    yield f"In {len(worse)} of {len(cells)} cells with two or more runs a side the best of {', '.join(PLAIN)} finds the"
    yield f"change more often, by more than {percent(MARGIN, 0)} points; in {_better(cells)} it finds it less often by"
    yield "as much."
    yield ""
    yield "| runs | a side | shape | change | perflog | plain method |"
    yield "| --- | ---: | --- | ---: | ---: | ---: |"
    for task, ours, (best, method) in worse:
        change = f"+{100 * task.change:.0f} %"
        shares = f"{percent(ours, 0)} | {percent(best, 0)} ({method})"
        yield f"| {task.family} | {task.a_side} | {task.shape} | {change} | {shares} |"


def _better(cells: Sequence[tuple[Task, float, tuple[float, str]]]) -> int:
    return sum(ours - best > MARGIN for _, ours, (best, _) in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--trials", type=int, default=400, help="of each cell without a change; an eighth of it with one"
    )
    parser.add_argument("--shared", type=Path, default=Path(__file__).parents[2] / "shared", help="folder of campaigns")
    parser.add_argument("--before", type=Path, help="checkout of d90a640, whose method is tried too")
    arguments = parser.parse_args()
    known, trials = families(arguments.shared), arguments.trials
    with ProcessPoolExecutor() as pool:

        def results(shape: str, changes: Sequence[float], trials: int) -> Results:
            tasks = tasks_of(known, shape, changes, trials)
            cells = pool.map(partial(_cell, arguments.shared, arguments.before), tasks)
            return dict(zip(tasks, cells, strict=True))

        print("\n".join(false_alarms(results("constant", [0.0], trials), trials)), flush=True)
        changed: dict[Task, Cell] = {}
        for shape in SHAPES:
            of_shape = results(shape, CHANGES, trials // 8)
            changed |= of_shape
            print("\n".join(power(of_shape, shape, trials // 8)), flush=True)
        print("\n".join(behind(changed)))


if __name__ == "__main__":
    main()
