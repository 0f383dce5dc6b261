"""Facts of a sweep with repeats: which configuration is best by loss and speed, and whether repeats differ as much."""

from __future__ import annotations

import math
from collections.abc import Iterator

from perflog.metrics import Options, Tables
from perflog.metrics.many_runs.factors import Sweep, sweeps
from perflog.statistics.students_t import t_tail
from perflog.units import count, show, show_change, show_p

_FEWEST = 3  # configurations: two are a comparison
_FREEDOM = 2  # degrees of freedom of the scatter of repeats
_LEVEL = 0.05
_EQUAL = 5e-5  # in logarithms: two configurations are equal, and none is best
_UNITS = {"step_time_s": ("step time", "s"), "tokens_per_s": ("tokens/s", ""), "samples_per_s": ("samples/s", "")}


def best_configurations(tables: Tables, options: Options) -> Iterator[str]:
    """Yield the best configuration of each sweep with repeats, by each figure, and how sure it is."""
    for sweep in sweeps(tables, options.warmup):
        yield from _best(sweep)


def _best(sweep: Sweep) -> Iterator[str]:
    groups = {values: [sweep.logs[run] for run in runs] for values, runs in sweep.groups(sweep.factors).items()}
    means = {values: math.fsum(logs) / len(logs) for values, logs in groups.items()}
    squares = math.fsum((log - means[values]) ** 2 for values, logs in groups.items() for log in logs)
    freedom = sum(map(len, groups.values())) - len(groups)
    if len(groups) < _FEWEST or freedom < _FREEDOM:
        return
    best, second, *_ = sorted(groups, key=means.__getitem__, reverse=sweep.higher)
    name, unit = _UNITS.get(sweep.figure, (sweep.figure, ""))
    apart = means[second] - means[best]
    if abs(apart) < _EQUAL:
        return
    error = math.sqrt(squares / freedom * (1 / len(groups[best]) + 1 / len(groups[second])))
    p = 2 * t_tail(abs(apart) / error, freedom) if error else 0.0
    value = show(math.exp(means[best]), unit, 4)
    text = f"Best of {count(len(groups), 'configuration')} by {name}: {_words(sweep, best)}, {value}"
    sure = show_p(p) if p < _LEVEL else f"repeats differ as much, p {p:.2g}"
    yield f"{text}; next {_words(sweep, second)}, {show_change(math.expm1(apart))} ({sure})."


def _words(sweep: Sweep, values: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(sweep.factors, values, strict=True))
