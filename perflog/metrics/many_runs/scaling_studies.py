"""Scaling studies: runs, or rows of a table of cases, that do the same work on different numbers of GPUs.

A study is a set of runs that agree in all settings but the number of GPUs, the batch, and what follows from them.
Strong scaling keeps the batch of all GPUs, weak scaling the batch of one GPU. Rates with an unknown scope (one GPU or
all) make no study. Runs that print their FLOP/s show how much work a unit is: a run of a larger model is in no study
with a smaller one, also where their settings do not differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import geometric_mean

from msgspec import Struct
from msgspec.structs import replace

from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.benchmarks.case_tables import SAME, CaseTable, case_tables
from perflog.metrics.directions import words_of
from perflog.metrics.options import Options
from perflog.metrics.run_tables import Tables, computed_list
from perflog.metrics.series.divergence import divergences
from perflog.metrics.step_time.run_rates import Rate, SizedRun, named_rates, run_rates, sized, sized_runs
from perflog.metrics.step_time.throughput import throughput
from perflog.parsing.failures.rows import FATAL
from perflog.settings.run_settings import independent
from perflog.statistics.growth import LINEAR, LOGARITHMIC, Growth

WEAK, STRONG = "weak", "strong"

_SPEEDUP = ("speedup", "speed_up")
_RESULT = lazy_pattern(r"[$€£¥~≈] ?[0-9].*|[0-9,]*\.[0-9]+ ?[kKMGT]?")
_REMARKS = frozenset("note notes comment comments remark remarks verdict assessment".split())
"""Names of columns that describe the result, not the work."""

_SWITCH = frozenset(("true", "false", "yes", "no", "on", "off", "0", "1"))
_WHOLE = 1.3  # least growth factor of a rate with the size that makes it a rate of all GPUs
_SAME_WORK = 1.5  # from this ratio on, two works of a unit are of different models; recomputation explains 4/3


class Study(Struct, frozen=True):
    """Runs of several sizes. `runs`, `speeds`, `batches`: by number of GPUs its runs, its rate and its batch.

    `settings`: settings that distinguish the study from others. `table`: number of the table of cases with the sizes as
    rows, all of one run; 0: each size has runs of its own.
    """

    mode: str | None
    settings: Mapping[str, str]
    figure: str
    runs: Mapping[int, Sequence[str]]
    speeds: Mapping[int, float]
    batches: Mapping[int, float | None]
    table: int = 0

    @property
    def name(self) -> str:
        """The values of the settings that distinguish the study from others of its mode."""
        return ", ".join(text for text in self.settings.values() if text.lower() != self.mode)

    @property
    def is_relative(self) -> bool:
        """Whether its speeds are printed speed-ups: the rate and the time of a unit are unknown."""
        return _is_speedup(self.figure)

    @property
    def sizes(self) -> list[int]:
        """Numbers of GPUs, ascending."""
        return sorted(self.speeds)

    def speedup(self, size: int) -> float:
        """Return how many times as fast as the smallest size a size is."""
        return self.speeds[size] / self.speeds[self.sizes[0]]

    def efficiency(self, size: int) -> float:
        """Return the share of the ideal speed-up that a size reaches."""
        return self.speedup(size) * self.sizes[0] / size

    def cost(self, size: int) -> float:
        """Return the GPU time of a unit of work."""
        return size / self.speeds[size]

    def growth(self, sizes: Sequence[int]) -> Growth:
        """Return how the GPU time of a unit grows over some sizes, two at least.

        The usual term of strong scaling is the number of GPUs, since each GPU pays the constant cost of a step
        (Amdahl). The usual term of weak scaling is log2(GPUs), as for collectives in trees.
        """
        usual = LINEAR if self.mode == STRONG else LOGARITHMIC
        return Growth.best(usual, sizes, [self.cost(size) for size in sizes])

    def predicted(self, size: int, sizes: Sequence[int]) -> float | None:
        """Return the GPU time of a unit at a size, by other sizes. None for one size, or where it falls to zero."""
        if len(sizes) < 2:
            return None
        cost = self.growth(sizes).at(size)
        return cost if cost > 0 else None

    @property
    def error(self) -> float | None:
        """How far the smaller sizes, two at least, miss the GPU time of the largest one, relative to it."""
        *smaller, largest = self.sizes
        cost = self.predicted(largest, smaller)
        return None if cost is None else cost / self.cost(largest) - 1


@computed_list
def studies(tables: Tables, options: Options) -> Iterator[Study]:
    """Return the scaling studies among the runs of a log or a folder."""
    if len(tables.rows("runs")) < 2:
        return
    described = _sound(tables, sized_runs(tables))
    if len({run.gpus for run in described.values()}) > 1:
        yield from _among(described, run_rates(tables, options), _printed_flop_rates(tables, options))


def _sound(tables: Tables, described: Mapping[str, SizedRun]) -> dict[str, SizedRun]:
    """Return the runs without those that failed or diverged, where another one of their size did not."""
    failures = tables.rows("failures")
    failed = {*failures.where(failures.one_of("severity", [FATAL])).counts("run")}
    failed |= {each.run for each in divergences(tables) if each.is_lost}
    sound = {(run.key, run.gpus, run.batch) for name, run in described.items() if name not in failed}
    return {
        name: run
        for name, run in described.items()
        if name not in failed or (run.key, run.gpus, run.batch) not in sound
    }


def _printed_flop_rates(tables: Tables, options: Options) -> dict[str, float]:
    """Return the TFLOP/s of one GPU that each run prints."""
    table = throughput.table(tables, options)
    rates = table[table["part"] == "steady"].set_index("run")["printed_tflops"].dropna()
    return {str(run): float(rate) for run, rate in rates.items() if rate > 0}


@computed_list
def table_studies(tables: Tables) -> Iterator[Study]:
    """Return the scaling studies in the tables of cases of each run: a row for each size."""
    for run, found in case_tables(tables).items():
        for number, table in enumerate(found, 1):
            for study in _among(dict(_sized_rows(table)), list(_rates_of(table)), {}):
                runs = {size: [run] * len(rows) for size, rows in study.runs.items()}
                yield replace(study, runs=runs, table=number)


def _sized_rows(table: CaseTable) -> Iterator[tuple[str, SizedRun]]:
    """Yield the rows of a table with a number of GPUs. All but the size describes the work, words too."""
    texts = {
        name: cells
        for name, cells in table.texts.items()
        if not _REMARKS.intersection(words_of(name)) and not all(_is_result(cell) for cell in cells)
    }
    once = {name: _as_text(value) for name, value in table.settings.items() if value is not None}
    columns = {name: cells for names, cells in (table.parameters | texts).items() for name in names.split(SAME)}
    for row in range(len(table.lines)):
        named = {name: _as_text(cells[row]) for name, cells in columns.items() if cells[row] is not None}
        numbers = {name: float(of[row]) for name, of in table.figures.items() if math.isfinite(of[row])}
        if (found := sized({**once, **named}, {}, numbers)) is not None:
            yield str(row), found


def _is_result(cell: object) -> bool:
    """Whether a cell holds a price or another number, which describe no work: `$0.70/x`, `~308`, `1.44M`."""
    return cell is None or not isinstance(cell, str) or _RESULT.fullmatch(cell) is not None


def _as_text(value: object) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _rates_of(table: CaseTable) -> Iterator[Rate]:
    """Yield the rates of a table, then the speed-ups that it prints."""
    values = {
        name: {str(row): value for row, value in enumerate(of.tolist()) if math.isfinite(value)}
        for name, of in table.figures.items()
    }
    yield from named_rates(values)
    for name, by_row in values.items():
        if _is_speedup(name):
            yield Rate(name, True, {row: value for row, value in by_row.items() if value > 0})


def _is_speedup(name: str) -> bool:
    return "_".join(words_of(name)) in _SPEEDUP


def _among(
    described: Mapping[str, SizedRun], rates: Sequence[Rate], flop_rates: Mapping[str, float]
) -> Iterator[Study]:
    """Yield the studies among runs. `flop_rates`: the TFLOP/s of one GPU, of runs that print them."""
    alike = grouped((run.key, name) for name, run in described.items())
    telling = _telling([dict(key) for key in alike])
    for key, runs in alike.items():
        settings = {setting: text for setting, text in key if setting in telling}
        for mode, members in _chains({run: described[run] for run in runs}):
            yield from _studies(mode, settings, members, described, rates, flop_rates)


def _telling(keys: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the settings that distinguish studies: rather a model or a device than a switch or a version."""
    values: dict[str, set[str | None]] = {name: {key.get(name) for key in keys} for key in keys for name in key}

    def is_poor(name: str) -> tuple[bool, bool]:
        return all(value is None or value.lower() in _SWITCH for value in values[name]), "version" in name

    return independent(keys, sorted(values, key=is_poor))


def _chains(runs: Mapping[str, SizedRun]) -> Iterator[tuple[str | None, list[str]]]:
    """Yield the runs of several sizes with the same batch of all GPUs, then those with the same batch of one."""
    if any(run.batch is None for run in runs.values()):
        yield None, list(runs)
        return
    for mode, of in ((STRONG, "batch"), (WEAK, "batch_of_one")):
        by_batch = grouped((getattr(run, of), name) for name, run in runs.items())
        for members in by_batch.values():
            if len({runs[name].gpus for name in members}) > 1:
                yield mode, members


def _studies(
    mode: str | None,
    settings: Mapping[str, str],
    members: Sequence[str],
    described: Mapping[str, SizedRun],
    rates: Sequence[Rate],
    flop_rates: Mapping[str, float],
) -> Iterator[Study]:
    """Yield the study by the first rate that all its runs have; one for each work of a unit."""
    for rate in rates:
        speeds = _speeds_of_all(rate, members, described)
        if speeds is None:
            continue
        work = {run: flop_rates[run] * described[run].gpus / speeds[run] for run in members if run in flop_rates}
        for runs in _of_one_work(work) if len(work) == len(members) else [members]:
            sizes = _by_size(runs, described)
            if len(sizes) > 1:
                means = {size: geometric_mean([speeds[run] for run in of]) for size, of in sizes.items()}
                batches = {size: described[of[0]].batch for size, of in sizes.items()}
                yield Study(mode, settings, rate.name, sizes, means, batches)
        return


def _by_size(runs: Sequence[str], described: Mapping[str, SizedRun]) -> dict[int, list[str]]:
    return grouped((described[run].gpus, run) for run in runs)


def _speeds_of_all(rate: Rate, members: Sequence[str], described: Mapping[str, SizedRun]) -> dict[str, float] | None:
    """Return the rate of all GPUs together, by run; None if a run has no rate, or it may be the rate of one GPU."""
    if not all(run in rate.values for run in members):
        return None
    speeds = {run: rate.values[run] for run in members}
    if rate.covers_all is False:
        return {run: described[run].gpus * speed for run, speed in speeds.items()}
    return speeds if rate.covers_all or _grows(speeds, described) else None


def _grows(speeds: Mapping[str, float], described: Mapping[str, SizedRun]) -> bool:
    """Return whether the largest size is so much faster than the smallest that the rate must be that of all GPUs."""
    sizes = _by_size(list(speeds), described)
    low, high = (geometric_mean([speeds[run] for run in sizes[size]]) for size in (min(sizes), max(sizes)))
    return high > _WHOLE * low


def _of_one_work(work: Mapping[str, float]) -> list[list[str]]:
    """Divide runs into groups with about the same work per unit, such as the FLOP of a token."""
    groups: list[list[str]] = []
    for run in sorted(work, key=work.__getitem__):
        if groups and work[run] < _SAME_WORK * work[groups[-1][-1]]:
            groups[-1].append(run)
        else:
            groups.append([run])
    return [[run for run in work if run in group] for group in groups]  # in the order of `work`
