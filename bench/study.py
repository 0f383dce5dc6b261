"""A study of `perflog compare`: how often it is wrong, how often it finds a change, whether its intervals cover.

`make study` prints the summary, which docs/study.md has, and writes the tables of all runs to build/study.md. Runs are
simulated with the features of real ones (runs that differ, steps that depend on their neighbours, two levels, a
schedule of step lengths), or drawn from real repeats where they are at hand: of few repeats in all ways. Then one side
is slowed down. All methods see the same runs, and each cell is tried with the same seed every time.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from zlib import crc32

import numpy as np

import perflog
from perflog.analysis.compare.aa import step_time_tests, verdicts, wilson
from perflog.analysis.compare.verdicts import VerdictRule
from perflog.arrays import Floats
from perflog.metrics.run_tables import Tables
from perflog.metrics.step_series import step_series
from perflog.statistics.rank_tests import mann_whitney
from perflog.statistics.students_t import t_tail

SIZES = ((1, 1), (2, 2), (3, 3), (5, 5), (10, 10))
"""Runs of the base and of the side."""

UNEQUAL = ((2, 5), (5, 2), (2, 10))
"""More of them, tried where nothing differs."""

HISTORY = 5
"""Other repeats that are known, of one run a side, in rows of their own."""

CHANGES = (0.01, 0.02, 0.03, 0.05, 0.10)
RULE = VerdictRule(draws=500)
ALPHA = 0.05
MARGIN = 0.05
"""More than this is more power."""

ALARMS = 0.025
"""Share of false alarms in one direction at which the power of methods is compared: that of a test at 5 %."""

COVERAGE = (0.93, 0.97)
"""Aim for intervals of 95 %."""

_FEWER = 5
"""One run a side, and benchstat on steps, take longer: they get this many times fewer trials."""

_ALL_WAYS = 5
"""Real repeats are dealt to the sides in all ways if there are at most this many times as many as trials."""

_BENCHSTAT_SAMPLES = 4

FIXED = 0.05
"""The threshold of the method that only compares means."""


@dataclass(frozen=True)
class Family:
    """Runs of one program: `draw` gives the steady step times of some; real ones are a `pool` instead."""

    draw: Callable[[int, np.random.Generator], list[Floats]]
    pool: Sequence[Floats] = ()

    def has(self, runs: int) -> bool:
        """Whether there are so many."""
        return not self.pool or runs <= len(self.pool)

    @property
    def single_numbers(self) -> bool:
        """Whether a run is one number, so that no shape but a constant change makes sense."""
        return bool(self.pool) and max(map(len, self.pool)) == 1

    def deals(self, task: Task, rng: np.random.Generator) -> Iterator[list[Floats]]:
        """Yield the runs of each trial: those of the base, of the side, and other repeats."""
        sizes = (*task.runs, task.history)
        if self.pool and _ways(len(self.pool), sizes) <= _ALL_WAYS * task.trials:
            ways = rng.permutation(list(_dealt(range(len(self.pool)), sizes)))  # some methods see the first ones only
            yield from ([self.pool[i] for i in way] for way in ways.tolist())
        else:
            yield from (self.draw(sum(sizes), rng) for _ in range(task.trials))


def _ways(runs: int, sizes: Sequence[int]) -> int:
    return math.prod(math.comb(runs - sum(sizes[:k]), size) for k, size in enumerate(sizes))


def _dealt(items: Iterable[int], sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all ways to choose groups of these sizes."""
    if not sizes:
        yield ()
        return
    for chosen in combinations(items, sizes[0]):
        left = [item for item in items if item not in chosen]
        yield from (chosen + others for others in _dealt(left, sizes[1:]))


# --- runs -----------------------------------------------------------------------------------------------------------


def simulated(
    scatter: float, noise: float = 0.01, steps: int = 150, rho: float = 0.5, kind: str = "", lines: int = 1
) -> Family:
    """Return runs whose levels differ by `scatter`; their steps scatter by `noise` and depend on their neighbours.

    With `lines` above 1, a printed step time is the mean of so many steps.
    """
    lag = np.subtract.outer(np.arange(steps), np.arange(steps))
    follows = np.where(lag >= 0, rho ** np.maximum(lag, 0), 0.0)  # AR(1): what is left of each earlier shock

    def draw(runs: int, rng: np.random.Generator) -> list[Floats]:
        shocks = rng.normal(0, noise * math.sqrt(1 - rho * rho), (runs, steps))
        shocks[:, 0] /= math.sqrt(1 - rho * rho)
        logs = rng.normal(0, scatter, (runs, 1)) + shocks @ follows.T
        if kind == "two levels":
            logs += 0.1 * (rng.random((runs, steps)) < 0.3)
        if kind == "schedule":
            logs += np.repeat([0.0, 0.4, 1.1], -(-steps // 3))[:steps]
        return list(np.exp(logs).reshape(runs, -1, lines).mean(axis=2))

    return Family(draw)


def drawn(pool: Sequence[Floats]) -> Family:
    """Return runs drawn from real repeats, each at most once in both sides together."""

    def draw(runs: int, rng: np.random.Generator) -> list[Floats]:
        return [pool[i] for i in rng.choice(len(pool), runs, replace=False)]

    return Family(draw, pool)


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

METHODS = ("perflog", "gate", "differs", *PLAIN, "benchstat on steps", "fixed 5 %")


@dataclass(frozen=True)
class Outcome:
    """What the methods say of two sides: whether the second one is slower, and perflog's interval of log(side / base).

    `p`: of tests, their p if the second side is slower, else 1.
    """

    slower: Mapping[str, bool]
    interval: tuple[float, float]
    p: Mapping[str, float]


Sides = tuple[Sequence[Floats], Sequence[Floats]]


def judge(sides: Sides, others: Sequence[Floats], name: str, on_steps: bool) -> Outcome:
    """Try all methods on two sides. `others` are other repeats, which only perflog can use.

    `on_steps`: whether benchstat is tried on steps, too.
    """
    base, side = sides
    means = [np.array([run.mean() for run in runs]) for runs in sides]
    medians = [np.array([np.median(run) for run in runs]) for runs in sides]
    slower, interval, p_differs = by_perflog(sides, others, name)
    p = {"differs": p_differs}
    slower["fixed 5 %"] = means[1].mean() / means[0].mean() > 1 + FIXED
    if min(map(len, sides)) > 1:
        p["Welch on means"] = welch_p(*means) if means[1].mean() > means[0].mean() else 1.0
        p["U test on medians"] = benchstat(*medians)
        p["benchstat"] = benchstat(*means)
    if on_steps and not others:
        p["benchstat on steps"] = benchstat(np.concatenate(base), np.concatenate(side))
    return Outcome(slower | {method: value <= ALPHA for method, value in p.items()}, interval, p)


def by_perflog(sides: Sides, others: Sequence[Floats], name: str) -> tuple[dict[str, bool], tuple[float, float], float]:
    """Return what perflog says of all figures of the step times, its interval of the mean, and the p of `differs`."""
    tests = step_time_tests(sides, RULE, name, others)
    judged = verdicts(tests, RULE)
    mean, *_ = tests.get("mean") or tests["value"]
    slower = {
        "perflog": any(verdict.decision == "regression" for verdict in judged),
        "gate": any(verdict.fails for verdict in judged),
    }
    p_differs = min((p for of, p, _ in tests.values() if of.effect.shift > 0 and not math.isnan(p)), default=1.0)
    return slower, mean.interval(RULE.level), p_differs


def benchstat(base: Floats, side: Floats) -> float:
    """Return the p of benchstat if its second sample is slower, else 1.

    golang.org/x/perf/benchmath without assumptions, as `benchstat` is run by default: the change of the medians is
    shown if the two-sided Mann-Whitney U test gives at most 5 %; with fewer than 4 samples a side it cannot, and
    benchstat says so. A sample of a Go benchmark is the mean time of a run.
    """
    enough = min(len(base), len(side)) >= _BENCHSTAT_SAMPLES
    return mann_whitney(base, side) if enough and np.median(side) > np.median(base) else 1.0


def welch_p(base: Floats, side: Floats) -> float:
    """Return the two-sided p of Welch's test (1947)."""
    errors = base.var(ddof=1) / len(base), side.var(ddof=1) / len(side)
    if sum(errors) == 0:
        return float(base[0] == side[0])
    freedom = sum(errors) ** 2 / (errors[0] ** 2 / (len(base) - 1) + errors[1] ** 2 / (len(side) - 1))
    return 2 * t_tail(abs(side.mean() - base.mean()) / math.sqrt(sum(errors)), freedom)


# --- the study ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """What a task showed.

    Attributes:
        trials: Number of trials.
        found: Share of trials in which a method calls the second side slower.
        covered: Share of perflog's intervals that contain the true change; NaN if there are none.
        width: Their median width.
        p: p of the methods that are tests, by trial; 1 if the second side is not slower.
    """

    trials: int
    found: Mapping[str, float]
    covered: float
    width: float
    p: Mapping[str, Floats]


@dataclass(frozen=True)
class Task:
    """What a cell tries: runs of the base and of the side, and `history`, the number of other repeats that are known.

    `on_steps`: number of trials that benchstat on steps gets.
    """

    family: str
    runs: tuple[int, int]
    history: int
    shape: str
    change: float
    trials: int
    on_steps: int

    @property
    def a_side(self) -> str:
        base, side = self.runs
        known = f", {self.history} known" if self.history else ""
        return f"{base}{known}" if base == side else f"{base} against {side}"


def tried(family: Family, task: Task) -> Cell:
    """Return the results of all trials of a task."""
    rng = np.random.default_rng(crc32(repr(task).encode()))
    outcomes = []
    both = sum(task.runs)
    for trial, runs in enumerate(family.deals(task, rng)):
        side = [SHAPES[task.shape](run, task.change) for run in runs[task.runs[0] : both]]
        name = f"{task.family}/{trial}"
        outcomes.append(judge((runs[: task.runs[0]], side), runs[both:], name, trial < task.on_steps))
    true = math.log1p(task.change)
    slower = {m: np.array([o.slower[m] for o in outcomes if m in o.slower]) for m in METHODS}
    ends = np.array([o.interval for o in outcomes])
    ends = ends[~np.isnan(ends[:, 0])]
    return Cell(
        trials=len(outcomes),
        found={m: float(found.mean()) for m, found in slower.items() if len(found)},
        covered=float(((ends[:, 0] <= true) & (true <= ends[:, 1])).mean()) if len(ends) else math.nan,
        width=float(np.median(ends[:, 1] - ends[:, 0])) if len(ends) else math.nan,
        p={m: np.array([o.p[m] for o in outcomes]) for m in ("differs", *PLAIN) if m in outcomes[0].p},
    )


@cache
def _families(shared: Path) -> dict[str, Family]:
    return families(shared)


def _cell(shared: Path, task: Task) -> Cell:
    return tried(_families(shared)[task.family], task)


def families(shared: Path) -> dict[str, Family]:
    """Return families of runs by name: simulated, and real ones where they are at hand."""
    known = {
        "runs differ by 0.2 %": simulated(0.002),
        "runs differ by 1 %": simulated(0.01),
        "runs differ by 5 %": simulated(0.05),
        "steps follow their neighbours, AR(0.95)": simulated(0.01, rho=0.95),
        "steps have two levels": simulated(0.01, kind="two levels"),
        "a schedule of step lengths": simulated(0.005, kind="schedule"),
        "a line is the mean of 10 steps": simulated(0.01, steps=500, lines=10),
        "20 steps a run": simulated(0.01, steps=20),
        "10 steps a run": simulated(0.01, steps=10),
        "5 steps a run": simulated(0.01, steps=5),
    }
    real = {
        "13 real speed runs, base": "nanogpt_fp8/baseline",
        "13 real speed runs, fp8": "nanogpt_fp8/this_pr",
        "10 real MLPerf runs, MI300X": "mlperf_llama2_lora/MI300X_EPYC_9575F_pytorch_llama2_70b",
        "10 real MLPerf runs, MI325X": "mlperf_llama2_lora/MI325X_EPYC_9575F_pytorch_llama2_70b",
        "10 real MLPerf runs, MI355X": "mlperf_llama2_lora/MI355X_EPYC_9575F_pytorch",
    }
    folders = {name: shared / "campaigns" / folder for name, folder in real.items()}
    return known | {name: drawn(real_runs(folder)) for name, folder in folders.items() if folder.is_dir()}


def tasks_of(
    known: Mapping[str, Family], shape: str, changes: Sequence[float], trials: int, unequal: bool = False
) -> list[Task]:
    """Return the cells of a shape: families, runs a side, changes. Real runs are used once in a trial."""
    sizes = [((1, 1), 0), ((1, 1), HISTORY), *((runs, 0) for runs in SIZES[1:] + UNEQUAL * unequal)]
    return [
        Task(name, runs, history, shape, change, trials // (_FEWER if runs == (1, 1) else 1), trials // _FEWER)
        for name, family in known.items()
        for runs, history in sizes
        if family.has(sum(runs) + history) and not (family.single_numbers and shape != "constant")
        for change in changes
    ]


def percent(share: float, digits: int = 1) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.{digits}f}"


Results = Mapping[Task, Cell]


def false_alarms(results: Results) -> Iterator[str]:
    yield "## Where nothing differs"
    yield ""
    yield "Share of the trials, in percent, that call the second side slower. Benchstat on steps gets a fifth of them."
    yield ""
    yield "| runs | a side | trials | " + " | ".join(METHODS) + " |"
    yield "| --- | ---: | ---: |" + " ---: |" * len(METHODS)
    for task, cell in results.items():
        shares = [percent(cell.found.get(method, math.nan)) for method in METHODS]
        yield f"| {task.family} | {task.a_side} | {cell.trials} | {' | '.join(shares)} |"


def coverage(results: Results) -> Iterator[str]:
    """Yield a table of the intervals, and the cells in which they surely miss the aim."""
    yield ""
    yield "## Intervals"
    yield ""
    yield "Share of the 95 % intervals that contain no change, where nothing differs, with its binomial interval"
    yield "(Wilson 1927) and their median width, all in percent. Mark: from two runs a side on, surely under (<) or"
    yield "over (>) the aim of 93 to 97 %."
    yield ""
    yield "| runs | a side | covered | binomial interval | | width |"
    yield "| --- | ---: | ---: | ---: | --- | ---: |"
    for task, cell in results.items():
        share = cell.covered
        low, high = (math.nan, math.nan) if math.isnan(share) else wilson(round(share * cell.trials), cell.trials)
        mark = "" if min(task.runs) < 2 else "<" if high < COVERAGE[0] else ">" if low > COVERAGE[1] else ""
        texts = [percent(share), f"{percent(low)} .. {percent(high)}", mark, percent(cell.width)]
        yield f"| {task.family} | {task.a_side} | {' | '.join(texts)} |"


SHOWN = ("perflog", "differs", *PLAIN)
"""Methods in the tables of power."""


def power(results: Results, shape: str, trials: int) -> Iterator[str]:
    yield ""
    yield f"## One side is slower: {shape}"
    yield ""
    yield f"Share of about {trials} trials, in percent, that find it: {' / '.join(SHOWN)}. A fifth of the trials for"
    yield "one run a side."
    yield ""
    yield "| runs | a side | " + " | ".join(f"+{100 * change:.0f} %" for change in CHANGES) + " |"
    yield "| --- | ---: |" + " ---: |" * len(CHANGES)
    for task in results:
        if task.change == CHANGES[0]:
            of_row = [results[replace(task, change=change)].found for change in CHANGES]
            texts = (" / ".join(percent(found.get(m, math.nan), 0) for m in SHOWN) for found in of_row)
            yield f"| {task.family} | {task.a_side} | {' | '.join(texts)} |"


@dataclass(frozen=True)
class Lead:
    """How often `differs` finds a change, and how much more often a plain method does, with the standard error.

    All methods see the same runs. At equal false alarms the limit of each p is that below which it lies in at most
    ALARMS of the trials where nothing differs, of the same runs and as many a side.
    """

    method: str
    differs: float
    more: float
    error: float

    @classmethod
    def best(cls, cell: Cell, nothing: Cell | None) -> Lead:
        """Return that of the plain method that finds most; without `nothing` at p of 5 %."""
        found = {m: p <= ALPHA if nothing is None else p < _limit(nothing.p[m]) for m, p in cell.p.items()}
        method = max(PLAIN, key=lambda m: found[m].mean())
        more = found[method].astype(float) - found["differs"]
        return cls(method, float(found["differs"].mean()), float(more.mean()), float(more.std()) / math.sqrt(len(more)))


def _limit(p: Floats) -> float:
    """Return the limit below which p lies in at most ALARMS of the trials."""
    return float(np.sort(p)[int(ALARMS * len(p))])


def leads(results: Results, equal: Results) -> dict[Task, Lead]:
    """Return the best plain method of each cell with two or more runs a side, at equal false alarms."""
    nothing = {(task.family, task.runs): cell for task, cell in equal.items() if not task.history}
    return {t: Lead.best(cell, nothing[t.family, t.runs]) for t, cell in results.items() if min(t.runs) > 1}


def beside_plain(results: Results, equal: Results) -> Iterator[str]:
    """Yield a table of the numbers of cells in which a plain method finds more than perflog does, and less."""
    cells = leads(results, equal)
    yield f"`differs` beside the best of {', '.join(PLAIN)}: the number of cells with"
    yield f"two or more runs a side, of {len(cells)}, in which the plain method finds the change more often by over"
    yield f"{percent(MARGIN, 0)} points, and less often."
    yield ""
    yield "| level | more often | less often |"
    yield "| --- | ---: | ---: |"
    at_one_level = [Lead.best(results[task], None).more for task in cells]
    at_equal_alarms = [lead.more for lead in cells.values()]
    for level, more in ((f"p <= {ALPHA}", at_one_level), ("equal false alarms", at_equal_alarms)):
        yield f"| {level} | {sum(m > MARGIN for m in more)} | {sum(m < -MARGIN for m in more)} |"


def behind(again: Results, equal: Results) -> Iterator[str]:
    """Yield a table of the cells in which a plain method finds more than perflog does, tried again with new runs."""
    worse = {task: lead for task, lead in leads(again, equal).items() if lead.more > MARGIN}
    alarms = percent(ALARMS)
    yield ""
    yield "## Where a plain method finds more"
    yield ""
    yield f"At equal false alarms the limit of each p is that below which {alarms} % of the trials lie where"
    yield "nothing differs, of the same runs and as many a side. The plain method is then ahead by half of that in"
    yield f"{len(again)} cells. They were tried again, with new runs and more trials. In {len(worse)} it stays ahead:"
    yield ""
    yield "| runs | a side | shape | change | trials | differs | plain method | lead |"
    yield "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |"
    for task, lead in worse.items():
        found = f"{percent(lead.differs, 0)} | {percent(lead.differs + lead.more, 0)} ({lead.method})"
        more = f"{percent(lead.more)} ± {percent(1.96 * lead.error)}"
        change = f"+{100 * task.change:.0f} %"
        yield f"| {task.family} | {task.a_side} | {task.shape} | {change} | {again[task].trials} | {found} | {more} |"


SUMMED = (0.02, 0.05)
"""Constant changes in the summary."""

_ALARMS = ("perflog", "gate", "Welch on means", "benchstat on steps", "fixed 5 %")
_POWER = ("perflog", "Welch on means")


def summary(equal: Results, changed: Results) -> Iterator[str]:
    """Yield a table with a row for each number of runs a side, of the simulated families and of the real ones."""
    found = [f"+{100 * change:.0f} %: {method}" for change in SUMMED for method in _POWER]
    yield "| runs | a side | " + " | ".join((*_ALARMS, "covered", *found)) + " |"
    yield "| --- | ---: |" + " ---: |" * (len(_ALARMS) + 1 + len(found))
    for kind in ("simulated", "real"):
        tasks_of_row: dict[str, list[Task]] = {}
        for task in equal:
            if (" real " in task.family) == (kind == "real"):
                tasks_of_row.setdefault(task.a_side, []).append(task)
        for a_side, tasks in tasks_of_row.items():
            cells = [equal[task] for task in tasks]
            texts = [_mean_and_most([cell.found.get(method, math.nan) for cell in cells]) for method in _ALARMS]
            covered = [cell.covered for cell in cells if not math.isnan(cell.covered)]
            texts.append(f"{percent(min(covered), 0)} .. {percent(max(covered), 0)}" if covered else "-")
            for change in SUMMED:
                slower = [cell for task in tasks if (cell := _slower(changed, task, change)) is not None]
                texts += [_mean([cell.found.get(method, math.nan) for cell in slower]) for method in _POWER]
            yield f"| {kind} | {a_side} | {' | '.join(texts)} |"


def _slower(changed: Results, of: Task, change: float) -> Cell | None:
    """Return the cell of the same runs, where one side is slower by a constant change."""
    same = (
        cell
        for task, cell in changed.items()
        if (task.family, task.runs, task.history, task.shape, task.change)
        == (of.family, of.runs, of.history, "constant", change)
    )
    return next(same, None)


def _mean(shares: Sequence[float]) -> str:
    return percent(sum(shares) / len(shares), 0) if shares else "-"


def _mean_and_most(shares: Sequence[float]) -> str:
    mean = sum(shares) / len(shares)
    return "-" if math.isnan(mean) else f"{percent(mean)} ({percent(max(shares))})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000, help="of a cell without a change; a tenth with one")
    parser.add_argument("--shared", type=Path, default=Path(__file__).parents[2] / "shared", help="folder of campaigns")
    parser.add_argument("--output", type=Path, default=Path("build/study.md"), help="file of the tables of all runs")
    arguments = parser.parse_args()
    known, trials, fewer = families(arguments.shared), arguments.trials, arguments.trials // 10
    tables: list[str] = []
    with ProcessPoolExecutor() as pool:

        def results(tasks: Sequence[Task]) -> Results:
            cells = pool.map(partial(_cell, arguments.shared), tasks)
            return dict(zip(tasks, cells, strict=True))

        equal = results(tasks_of(known, "constant", [0.0], trials, unequal=True))
        tables += [*false_alarms(equal), *coverage(equal)]
        changed: dict[Task, Cell] = {}
        for shape in SHAPES:
            of_shape = results(tasks_of(known, shape, CHANGES, fewer))
            changed |= of_shape
            tables += power(of_shape, shape, fewer)
        doubtful = [task for task, lead in leads(changed, equal).items() if lead.more > MARGIN / 2]
        again = results([replace(task, trials=trials // 2, on_steps=0) for task in doubtful])
        tables += behind(again, equal)
    print("\n".join((*summary(equal, changed), "", *beside_plain(changed, equal))))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text("\n".join(("# Tables of the study", "", *tables)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
