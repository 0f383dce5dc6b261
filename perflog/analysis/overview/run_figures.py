"""Run figures: how fast each run was, by the figures that its log holds, the one that answers first at the front."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from perflog.arrays import Floats
from perflog.formats.bars import OF_BARS, SMOOTHED_RATE
from perflog.formats.registry import known
from perflog.formats.vocabulary import EVALUATIONS, field_of
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics import (
    Options,
    Tables,
    breakdown,
    collective_volume,
    collectives,
    device_time,
    epochs,
    host_operators,
    imbalance,
    kernels,
    memory_peak,
    ranges,
    scaling,
    serving,
    steps,
    throughput,
)
from perflog.metrics.benchmarks.case_tables import case_tables, names_of_records, names_without_case
from perflog.metrics.benchmarks.serving import SERVER_RATES, is_latency_statistic, server_rate
from perflog.metrics.directions import COUNTDOWN, Better, names_rate, words_of
from perflog.metrics.jobs.step_levels import run_levels
from perflog.metrics.jobs.stuck_ranks import jobs_of_dumps
from perflog.metrics.possible import are_moments
from perflog.metrics.semantics import semantics_by_run
from perflog.metrics.series.series_ends import last_values, summary_figures, summary_losses
from perflog.metrics.series.time_to_target import SAMPLE_COUNTERS
from perflog.metrics.step_series import step_series
from perflog.metrics.step_time.breakdown import UNTIMED
from perflog.metrics.traces.device_time import wholes_of_traces
from perflog.metrics.traces.device_work import STEP_NAME
from perflog.metrics.traces.operators.recorded_operators import untimed_runs
from perflog.metrics.traces.over_time.counters import readings
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import median
from perflog.tables.columns import Rows
from perflog.tables.nulls import floats, known_values
from perflog.units import show

if TYPE_CHECKING:
    import pandas as pd

_LOSS_DIGITS = 4  # losses of one model differ in the third: 3.276 reaches a target of 3.28, 3.282 does not

TOTAL, ELAPSED = "total", "elapsed"
"""Names of the metric for the time of a whole run, and of a progress bar, which may end before it."""

SAMPLES = "samples"
"""Name of the metric: samples up to the end of a run that prints no steps."""

_STATES = {  # of devices, and their names here
    "idle": "idle", "waiting": "waiting", "communication": "exposed comm", "compute": "compute",
}  # fmt: skip
_CONFIGURES = lazy_pattern(
    r"(?:.*\.)?(?:(?:num|n|max|min|micro|global|local)_\w+|\w+_(?:size|len|length|steps|iters|layers|heads|dim)|batch|"
    r"[tpdec]p|isl|osl|seq_?len|seed|warmup\w*|(?:bench|timed)_?\w*|iters|iterations|nodes|gpus|layers|heads|hidden|"
    r"conc|concurrency|world_size|index|id|timer_unit|total_\w*memory|rank_printed)",
    re.IGNORECASE,
)
"""Names of values that configure a run, or count what it did."""
_NAMES_RATE = re.compile(r"/s\b")  # the unit of its values
_SPEED_UNITS = ("1/s", "TFLOP/s", "GB/s")
"""Base units of rates."""
_SPEED_WORDS = frozenset("throughput bandwidth tps qps rps fps ips".split())
"""Words in names of rates that are printed without a unit."""
_SPREADS = frozenset("min max std stddev p50 p90 p95 p99".split())
_RATE_OF_STEPS = lazy_pattern(
    rf"{SMOOTHED_RATE}(?:s_per_)?(?:it|iter|iteration|step|batch|sample|image|token)s?(?:_per_s)?"
)
_RATES_OF_A_BAR = (f"{SMOOTHED_RATE}it_per_s", f"{SMOOTHED_RATE}s_per_it")
_LISTED = 4  # levels of a run; of more the range is shown
_SAME = 1e-3  # relative difference of medians that are the same


class RunFigure(Struct, frozen=True):
    """A metric of runs: its name, unit, which way is better, and its value by run id.

    `spread`: half of the 95 % interval of a value, relative to it, by run id; empty where nothing tells it. `digits`:
    significant digits that its values need at least. `levels`: by run id the medians of the levels of a run that has
    several, which no single value represents. `across`: by run id the least and the largest mean of its devices.
    `is_last`: whether the values are the last that the runs print: of the attempts of a job, the last one's counts.
    """

    name: str
    unit: str
    better: Better | None
    values: Mapping[str, float]
    spread: Mapping[str, float] = field(default_factory=dict)
    digits: int = 3
    levels: Mapping[str, Sequence[float]] = field(default_factory=dict)
    across: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    is_last: bool = False

    @property
    def counts(self) -> bool:
        """Whether its values are counts: nobody asks by how many percent they differ."""
        return not self.unit and all(float(value).is_integer() for value in self.values.values())

    def text(self, value: float | None, digits: int) -> str:
        """Return a value with its unit, unless the name of the metric is its unit."""
        if value is not None and not math.isfinite(value):
            return f"{value:g}"
        shown = show(value, self.unit, max(digits, self.digits))
        return shown.removesuffix(self.unit).strip() if _NAMES_RATE.search(self.name) else shown

    def text_of(self, run: str, digits: int) -> str:
        """Return the value of a run, the values of its levels, or the range over its devices, as a string."""
        if run in self.across:
            return " to ".join(self.text(value, digits) for value in self.across[run])
        values: Sequence[float | None] = self.levels.get(run, [self.values[run]] if run in self.values else [None])
        if len(levels := self.levels.get(run, ())) > _LISTED:
            return " to ".join(self.text(value, digits) for value in (min(levels), max(levels)))
        return " -> ".join(self.text(value, digits) for value in values)


def run_figures(tables: Tables, options: Options) -> list[RunFigure]:
    """Return the figures of the runs. The first is the headline.

    A measured collective comes first, since nothing else was measured with it. The last reading of a run's clock comes
    before the step times that were computed from it; where it prints no steps, its rates and samples stand after it.
    Printed summaries and last values only count where there is
    nothing else, except the loss. Values without a known better direction come last of all.
    """
    figures = [figure for kind in _KINDS for figure in kind(tables, options) if figure.values]
    served = {figure.name for figure in _serving(tables, options)} if figures else set[str]()
    if any(figure.name == "step" for figure in figures):  # servers of a job are beside it
        figures.sort(key=lambda figure: figure.name in served)
    if figures and not any(map(_is_speed, figures)) and {figure.name for figure in figures} <= served:
        figures += [speed for speed in _values(tables, options) if _is_speed(speed) and not _is_spread(speed)]
    if not figures:
        figures = [figure for kind in _PRINTED_KINDS for figure in kind(tables, options) if figure.values]
        if figures and not any(map(_is_speed, figures)):
            figures = [*(speed for speed in _values(tables, options) if _is_speed(speed)), *figures]
        figures = [*_unnumbered_steps(tables), *figures] if figures else []
    epoch_figures, names = _epochs(tables, options)
    if figures:
        figures += [*_loss(tables), *epoch_figures]
    else:
        values = (figure for figure in _values(tables, options) if figure.name not in names)
        figures = [*_unnumbered_steps(tables), *epoch_figures, *values]
    figures = figures or [figure for figure in _memory_of_steps(tables) if figure.values]
    figures = figures or [figure for figure in _counters(tables, options) if figure.values]  # of no program
    if scaling := [figure for figure in _scaling(tables, options) if figure.values]:
        names = {figure.name for figure in scaling}
        return [*scaling, *(figure for figure in figures if figure.name not in names)]
    if any(figure.name == "step" for figure in figures):
        return figures
    if any(figure.name in (TOTAL, ELAPSED) for figure in figures):
        figures += [figure for figure in _of_totals(tables, options) if figure not in figures and figure.values]
    return [*(figure for figure in _phases(tables, options) if figure.values), *figures]


def _scaling(tables: Tables, options: Options) -> Iterator[RunFigure]:
    """The speed of all GPUs of runs on different numbers of them, the number, and the efficiency."""
    rows = scaling.table(tables, options)
    if not len(rows):
        return
    rows = rows[(rows["of"] == "measured") & rows["table"].isna()]
    if rows["figure"].nunique() == 1:
        yield _column(rows, "speed", re.sub("_per_s$", "/s", rows["figure"].iloc[0]), "1/s", "higher")
    yield _column(rows, "efficiency", "efficiency", "1", "higher")
    yield _column(rows, "gpus", "GPUs", "", None)


def _column(
    rows: pd.DataFrame, column: str, name: str, unit: str, better: Better | None, spread: pd.Series[float] | None = None
) -> RunFigure:
    values = _known_values(rows["run"], rows[column])
    spreads = {} if spread is None else _known_values(rows["run"], spread)
    return RunFigure(name, unit, better, values, spreads)


def _known_values(runs: pd.Series[Any], values: pd.Series[Any]) -> dict[str, float]:
    """The values by run that are not null."""
    return known_values(runs.tolist(), floats(values)) if len(values) else {}


def _collectives(tables: Tables, options: Options) -> Iterator[RunFigure]:
    rows = collectives.table(tables, options)
    if not len(rows):
        return
    rows = rows.assign(moves_nothing=rows["peak_busbw"].isna() & rows["peak_algbw"].isna())  # such as a barrier
    rows = rows.sort_values(["moves_nothing", "n"], ascending=[True, False])  # both buffers before one
    rows = rows.drop_duplicates("run")
    yield _column(rows, "peak_busbw", "peak bus bw", "GB/s", "higher")
    yield _column(rows, "mean_busbw", "mean bus bw", "GB/s", "higher")
    without = rows[rows["peak_busbw"].isna()]  # tests between two processes, which print one bandwidth
    yield _column(without, "peak_algbw", "peak bw", "GB/s", "higher")
    yield _column(without[without["peak_algbw"].isna()], "smallest_s", "latency", "s", "lower")


def _serving(tables: Tables, options: Options) -> Iterator[RunFigure]:
    """Latency until the first token and of the next ones, rates, other latencies, and last the 99th percentiles.

    Of latencies the median, or else the mean.
    """
    rows = serving.table(tables, options)
    if not len(rows):
        return
    rows = rows[rows["dp_rank"].isna() & rows["unit"].isin(["s", "1/s"])]
    rows = rows.assign(name=rows["of"].map(server_rate))
    found = list[tuple[int, RunFigure]]()
    tails = list[RunFigure]()
    names = list(rows["name"].unique())
    per_token = next((name for name in ("tpot", "itl") if name in names), None)
    first = ["ttft", per_token, *SERVER_RATES.values()]
    for name, name_rows in rows.groupby("name", sort=False):
        unit = name_rows["unit"].iloc[0]
        printed = name.upper() if name in ("ttft", "tpot", "itl") else str(name)
        middle = "median" if name_rows["median"].notna().any() else "mean"
        shown = f"{printed} {middle}" if unit == "s" else printed
        place = first.index(name) if name in first else len(first) + (unit != "s")
        found.append((place, _column(name_rows, middle, shown, unit, "lower" if unit == "s" else "higher")))
        if unit == "s":
            tails.append(_column(name_rows, "p99", f"{printed} p99", unit, "lower"))
    yield from (figure for _, figure in sorted(found, key=lambda item: item[0]))
    yield from tails


def _totals(tables: Tables, options: Options) -> Iterator[RunFigure]:  # noqa: ARG001 (all kinds take the same)
    runs = tables.rows("runs")
    formats = [known().get(name) for (name,) in runs.records("format")]
    name = ELAPSED if all(form is not None and form.library for form in formats) else TOTAL
    yield RunFigure(name, "s", "lower", dict(runs.where(runs.known("elapsed_s")).records("run", "elapsed_s")))


def _of_totals(tables: Tables, options: Options) -> Iterator[RunFigure]:
    """What a total consists of: the times of steps and the number of samples, and the rates that the run prints.

    Such times and rates may also come from a progress bar.
    """
    yield from (figure for figure in _last_values(tables, options) if figure.unit == "s" and _is_step_time(figure.name))
    rows = tables.rows("values")
    yield _last(rows.where(rows.one_of("key", SAMPLE_COUNTERS) & rows.known("value")), SAMPLES, "")
    yield from (
        figure
        for figure in _last_values(tables, options)
        if figure.unit == "1/s" or figure.name.startswith(SMOOTHED_RATE)
    )


def _is_step_time(name: str) -> bool:
    """Return whether a value is the time of a step, or its mean so far: of a program that prints no steps."""
    return name == "step_avg" or field_of(name) == "step_time"


def _steps(tables: Tables, options: Options) -> Iterator[RunFigure]:
    rows = steps.table(tables, options)
    if not len(rows):
        return
    chosen = ((rows["of"] == "step_time") & (rows["part"] == "steady")).to_numpy(bool)
    runs = rows["run"].to_numpy()[chosen]
    medians, low, high = (floats(rows[name])[chosen] for name in ("median_s", "median_low_s", "median_high_s"))
    with np.errstate(invalid="ignore", divide="ignore"):
        spreads = known_values(runs, (high - low) / 2 / medians)
    levels = _levels(tables, "step_time_s", options)
    yield RunFigure("step", "s", "lower", known_values(runs, medians), spreads, levels=levels)


def _levels(tables: Tables, column: str, options: Options) -> dict[str, list[float]]:
    """The medians of a column of steps over the levels of each run that has several."""
    found: dict[str, list[float]] = {}
    shifted = run_levels(tables, options.warmup)
    for series in step_series(tables, column, options.warmup) if shifted else ():
        if series.run in shifted:
            run_rows = shifted[series.run]
            first = run_rows.series.order[[level.start for level in run_rows.levels]]
            level_of = np.searchsorted(first, series.order, "right")
            parts = [series.values[level_of == level] for level in range(1, len(first) + 1)]
            if all(map(len, parts)):
                found[series.run] = list(map(median, parts))
    return found


def _phases(tables: Tables, options: Options) -> Iterator[RunFigure]:
    """The time of all phases together, where it represents the step."""
    wholes = breakdown.table(tables, options)
    if not len(wholes):
        return
    yield _column(wholes[wholes["of"] == "phases"].drop_duplicates("run"), "whole_s", "all phases", "s", "lower")


def _rates(tables: Tables, options: Options) -> Iterator[RunFigure]:
    rows = throughput.table(tables, options)
    if not len(rows):
        return
    steady = (rows["part"] == "steady").to_numpy(bool)
    runs = rows["run"].to_numpy()[steady]

    def column_of(name: str) -> Floats:
        values: Floats = floats(rows[name])[steady]
        return values

    def first_known(name: str, other: str) -> Floats:
        values, others = column_of(name), column_of(other)
        known: Floats = np.where(np.isnan(values), others, values)
        return known

    per_gpu = np.where(np.isnan(column_of("tokens_per_s")), column_of("tokens_per_s_gpu_median"), np.nan)
    for column, values, name, unit in (
        ("tflops", first_known("tflops", "printed_tflops"), "TFLOP/s", "TFLOP/s"),
        ("mfu", first_known("mfu", "printed_mfu"), "MFU", "1"),
        ("tokens_per_s_median", column_of("tokens_per_s_median"), "tokens/s", "1/s"),
        ("tokens_per_s_gpu_median", per_gpu, "tokens/s/GPU", "1/s"),
        ("samples_per_s_median", column_of("samples_per_s_median"), "samples/s", "1/s"),
    ):
        figure = RunFigure(name, unit, "higher", known_values(runs, values))
        yield replace(figure, levels=dict(_levels_of_rates(tables, figure, column.removesuffix("_median"), options)))


def _levels_of_rates(
    tables: Tables, figure: RunFigure, column: str, options: Options
) -> Iterator[tuple[str, list[float]]]:
    """The levels of a printed rate, in the unit of its metric: of one rank, or of all."""
    levels = _levels(tables, column.replace("_gpu", ""), options)
    for series in step_series(tables, column.replace("_gpu", ""), options.warmup) if levels else ():
        if series.run in levels and series.run in figure.values:
            for centre in (median(series.steady), median(series.values)):
                ranks = figure.values[series.run] / centre
                if abs(ranks - max(round(ranks), 1)) < _SAME * ranks:
                    yield series.run, [round(ranks) * value for value in levels[series.run]]
                    break


def _spans(tables: Tables, options: Options) -> Iterator[RunFigure]:
    """An iteration of each trace without annotated steps, the length of those without iterations too.

    Of several traces also what their time consists of.
    """
    rows = wholes_of_traces(device_time.table(tables, options))
    if not len(rows):
        return
    in_steps = rows["part"] == "step"
    means = rows[in_steps].groupby("run", sort=False)[["span_s"]].mean().reset_index()
    if len(found := means[~means["run"].isin(tables.rows("steps").counts("run"))]):
        yield _column(found, "span_s", "iteration", "s", "lower")
    if not in_steps.all():  # steps can be compared, lengths of traces cannot
        lengths = rows[~in_steps].groupby("run", sort=False)[["span_s"]].mean().reset_index()
        yield _column(lengths, "span_s", "trace", "s", "lower")
    if rows["run"].nunique() > 1:  # of a single trace the screen shows where its time goes
        for state, name in _STATES.items():
            sums = rows.groupby("run", sort=False)[[f"{state}_s", "span_s"]].sum().reset_index()
            if state == "waiting" and not sums["waiting_s"].any():  # few devices have kernels that only wait
                continue
            yield _column(sums.assign(share=sums[f"{state}_s"] / sums["span_s"]), "share", name, "1", None)


def _memory(tables: Tables, options: Options) -> Iterator[RunFigure]:
    """The largest peak of a device of each run, if there are several runs: of a single one a sentence tells it."""
    rows = memory_peak.table(tables, options)
    if not len(rows):
        return
    rows = rows[rows["memory"].eq("device") & (rows["run"].nunique() > 1)]
    rows = rows.sort_values("peak", ascending=False, kind="stable").drop_duplicates("run")
    yield _column(rows, "peak", "peak memory", "B", "lower")


def _memory_of_steps(tables: Tables) -> Iterator[RunFigure]:
    """The largest memory that a line of a step prints, of runs that print nothing else."""
    rows = tables.rows("steps")
    peaks = {
        run: float(own["memory_bytes"].max()) for run, own in rows.where(rows.known("memory_bytes")).by("run").items()
    }
    yield RunFigure("peak memory", "B", "lower", peaks)


def _profiles(tables: Tables, options: Options) -> Iterator[RunFigure]:
    wholes = breakdown.table(tables, options)
    if len(wholes):
        yield _column(wholes[wholes["of"] == "gpu"].drop_duplicates("run"), "whole_s", "GPU work", "s", "lower")
    rows = kernels.table(tables, options)
    if not len(rows):
        return
    rows = rows[(rows["by"] == "category") & ~rows["of"].isin(["gpu", "range"])]
    for of, whole_rows in rows.groupby("of", sort=False):
        sums = whole_rows.groupby("run", sort=False)[["time_s"]].sum().reset_index()
        if sums["time_s"].gt(0).any():  # some tables count bytes, and have no times
            yield _column(sums, "time_s", "API calls" if of == "api" else str(of), "s", "lower")


def _profiled_steps(tables: Tables, options: Options) -> Iterator[RunFigure]:
    """The median GPU work of the numbered ranges of a profile that are its steps."""
    rows = ranges.table(tables, options)
    if not len(rows):
        return
    prefixes = [match[1] if (match := STEP_NAME.fullmatch(str(name))) else None for name in rows["range"]]
    rows = rows.assign(prefix=prefixes)[["run", "prefix", "gpu_s"]].dropna()
    medians = rows.groupby(["run", "prefix"], sort=False)[["gpu_s"]].median().reset_index()
    yield _column(medians.drop_duplicates("run"), "gpu_s", "GPU work/step", "s", "lower")


def _recorded(tables: Tables, options: Options) -> Iterator[RunFigure]:
    """What a recording without times shows: calls of operators, bytes of their tensors, bytes of collectives."""
    if not (runs := untimed_runs(tables)):
        return
    untimed = tables.only(runs)
    rows = host_operators.table(untimed, options)
    rows = rows[~rows["run"].isin(set(rows.loc[rows["self_s"].notna(), "run"]))]
    volumes = collective_volume.table(untimed, options)
    for table, column, name, unit in (
        (rows, "calls", "operator calls", ""),
        (rows, "bytes", "tensors", "B"),
        (volumes[volumes["run"].isin(set(rows["run"]))], "bytes", "collectives", "B"),
    ):
        sums = table.groupby("run", sort=False)[[column]].sum(min_count=1).reset_index()
        yield _column(sums, column, name, unit, "lower" if unit else None)


def _waiting_ranks(tables: Tables, options: Options) -> Iterator[RunFigure]:  # noqa: ARG001
    waiting = {run: float(len(job.waiting)) for run, job in jobs_of_dumps(tables).items()}
    yield RunFigure("ranks with pending calls", "", "lower", waiting)


def _untimed(tables: Tables, options: Options) -> Iterator[RunFigure]:
    rows = breakdown.table(tables, options)
    rows = rows[rows["kind"] == UNTIMED] if len(rows) else rows
    if not len(rows):
        return
    rows = rows[rows["run"].map(rows["run"].value_counts()) > 2]
    yield _column(rows.groupby("run", sort=False)[["share"]].sum().reset_index(), "share", "untimed", "1", None)


def _imbalance(tables: Tables, options: Options) -> Iterator[RunFigure]:
    rows = imbalance.table(tables, options)
    if not len(rows):
        return
    rows = rows[(rows["of"] == "load") & rows["mean"].gt(0)]
    rows = rows.assign(ratio=rows["max"].astype(float) / rows["mean"].astype(float))
    yield _column(
        rows.groupby("run", sort=False)[["ratio"]].mean().reset_index(), "ratio", "load max/mean", "", "lower"
    )


def _counters(tables: Tables, options: Options) -> Iterator[RunFigure]:  # noqa: ARG001
    """The means of counters, of several devices or kernels their range; how long what they count took comes first."""
    found = readings(tables.rows("counters"))
    codes, words = found.rows.codes("name")
    names = groups_of(codes, found.unit)
    figures = []
    for first, rows in zip(names.first.tolist(), names.rows, strict=True):
        means, across = dict[str, float](), dict[str, tuple[float, float]]()
        counted = found.rows.where(rows)
        runs, run_words = counted.codes("run")
        values = found.value[rows]
        members = groups_of(runs, *(counted.keys(name) for name in ("process", "device", "device_name", "subject")))
        member_means = members.means(values)
        for run in np.unique(runs).tolist():
            own = member_means[runs[members.first] == run]
            means[run_words[run]] = math.fsum(values[runs == run].tolist()) / int((runs == run).sum())
            if len(own) > 1 and own.min() != own.max():
                across[run_words[run]] = (float(own.min()), float(own.max()))
        unit = found.units[found.unit[first]] or ""
        figures.append(RunFigure(words[codes[first]], unit, None, means, across=across))
    yield from sorted(figures, key=lambda figure: "duration" not in words_of(figure.name))


def _summaries(tables: Tables, options: Options) -> Iterator[RunFigure]:  # noqa: ARG001
    figures = _by_name(
        (run, (name, unit, better), float(values[-1]))
        for run, rows in tables.rows_by_run("summaries").items()
        for name, unit, better, values in [*summary_figures(rows), *summary_losses(rows)]
    )
    formats = [known().get(name) for (name,) in tables.rows("runs").records("format")]
    results = {form.result for form in formats if form is not None}
    yield from sorted(figures, key=lambda figure: figure.name not in results)


def _last_values(tables: Tables, options: Options) -> Iterator[RunFigure]:  # noqa: ARG001
    semantics = semantics_by_run(tables.rows("runs"))
    yield from _by_name(
        (run, (name, unit, better), float(values[-1]))
        for run, meaning in semantics.items()
        for name, unit, better, values in last_values(
            tables.rows_of("values", run), tables.rows_of("steps", run), meaning.either_way
        )
    )


def _unnumbered_steps(tables: Tables) -> Iterator[RunFigure]:
    """The median time of steps whose numbers the log does not print: a part of a log that holds no header of a step."""
    rows = tables.rows("steps")
    timed = rows.where(~rows.known("step") & (rows["copy"] == 1) & rows.known("step_time_s")).by("run")
    if timed:
        yield RunFigure("step time", "s", "lower", {run: median(own["step_time_s"]) for run, own in timed.items()})


def _values(tables: Tables, options: Options) -> list[RunFigure]:
    """The last values of all series, without infinite rates and times.

    Rates come first, then those that a run prints for no step: they are its results.

    Of equals the rates of work and the times of steps come first, then other times. Values that configure a run by
    their names, and what progress bars show of loading and the like, come last.
    """
    figures = list(_last_values(tables, options)) or list(_named_values(tables))
    case_names = set(_names_of_cases(tables))
    case_names |= {name for name in names_of_records(tables) if is_latency_statistic(name)}  # several benchmarks
    case_names |= names_without_case(tables) | set(_names_beside_kernels(tables))
    figures = [figure for figure in figures if figure.name not in case_names]  # no case represents the others
    if case_names:  # the cases are what was measured
        figures = [figure for figure in figures if not _CONFIGURES.fullmatch(figure.name)]
    figures = [figure for figure in figures if not figure.unit or all(map(math.isfinite, figure.values.values()))]
    asides = _asides(tables, figures)
    figures = [figure for figure in figures if figure.name not in asides] or figures
    rows = tables.rows("values")
    step_counts = rows.where(rows.known("step")).counts("key")

    def place(figure: RunFigure) -> tuple[bool, bool, bool, bool, bool, int]:
        configures = _CONFIGURES.fullmatch(figure.name) is not None
        is_of_step = bool(step_counts.get(figure.name))
        is_first = figure.unit == "1/s" or (figure.unit == "s" and _is_step_time(figure.name))
        nearness = 0 if is_first else 1 if figure.unit == "s" else 2
        can_be_idle = _is_speed(figure) or figure.unit == "s"  # the network between nodes, on one node
        is_idle = can_be_idle and not any(figure.values.values())
        return is_idle, bool(OF_BARS.search(figure.name)), configures, not _is_speed(figure), is_of_step, nearness

    digits = ((figure, _LOSS_DIGITS if "loss" in words_of(figure.name) else figure.digits) for figure in figures)
    shown = [
        replace(figure, digits=number, levels=_levels_of_value(tables, figure, options)) for figure, number in digits
    ]
    return sorted(shown, key=place)


def _names_beside_kernels(tables: Tables) -> Iterator[str]:
    """The names of values in the rows of profilers, and in events of traces: each is of another function."""
    values = tables.rows_by_run("values")
    for run, rows in tables.rows_by_run("kernels").items():
        if run in values:
            yield from values[run].where(np.isin(values[run]["line"], rows["line"])).counts("key")
    for run in values.keys() & tables.counts("events").keys():
        yield from values[run].counts("key")


def _asides(tables: Tables, figures: Sequence[RunFigure]) -> set[str]:
    """The names that say nothing of a run beside others: the time that is left, and bars of loops that are no training.

    A rate below 0 is a limit that is not set.

    Such a bar prints its count, its total and its time under its description, beside its rate; or a rate of no steps.
    """
    names = {figure.name for figure in figures}
    rates = {name for name in names if name.startswith(SMOOTHED_RATE)}
    rows = tables.rows("values")
    lines = rows.where(rows.one_of("key", rates))["line"] if rates else np.empty(0)
    beside = set(rows.where(np.isin(rows["line"], lines)).counts("key")) if rates else set[str]()
    loops = {name.removesuffix("_elapsed") for name in beside if name.endswith("_elapsed")} - {"bar"}
    asides = {
        figure.name for figure in figures if figure.unit == "s" and not COUNTDOWN.isdisjoint(words_of(figure.name))
    }
    if rates.issuperset(_RATES_OF_A_BAR):  # tqdm prints one or the other, by which of them is above 1
        asides.add(min(_RATES_OF_A_BAR, key=rows.counts("key").__getitem__))
    asides |= {each.name for each in figures if each.unit in _SPEED_UNITS and max(each.values.values(), default=0) < 0}
    asides |= {name for name in beside if re.sub("_(?:total|elapsed)$", "", name) in loops}
    loop_records = _records_of(rows, {f"{loop}_elapsed" for loop in loops})
    described = {name for name in rates if _records_of(rows, {name}) <= loop_records}
    asides |= described if described != rates else set()  # a bar without a description is that of the run
    return asides | {name for name in rates if not _RATE_OF_STEPS.fullmatch(name)}


def _records_of(rows: Rows, keys: set[str]) -> set[tuple[int, int]]:
    """Return the line and the part of each record that prints one of these names."""
    return set(rows.where(rows.one_of("key", keys)).records("line", "part")) if keys else set()


def _levels_of_value(tables: Tables, figure: RunFigure, options: Options) -> dict[str, list[float]]:
    """The levels of a time that is printed by name, of the runs that show their speed by it."""
    shifted = run_levels(tables, options.warmup) if figure.unit in ("s", "") else {}
    return {run: each.medians for run, each in shifted.items() if each.series.column == figure.name}


def _is_speed(figure: RunFigure) -> bool:
    """Return whether a value is a rate by its unit, or by its name if it has no unit. Bars have rates of anything.

    A rate of -1 is a limit that is not set.
    """
    words = words_of(figure.name)
    is_named = figure.unit == "" and (names_rate(words) or not _SPEED_WORDS.isdisjoint(words))
    is_measured = min(figure.values.values(), default=0) >= 0
    return (figure.unit in _SPEED_UNITS or is_named) and is_measured and not OF_BARS.search(figure.name)


def _is_spread(figure: RunFigure) -> bool:
    """Return whether a value is a statistic that tells how far others lie apart."""
    return not _SPREADS.isdisjoint(words_of(figure.name))


def _names_of_cases(tables: Tables) -> Iterator[str]:
    """The names of all values in the records of cases, and in other records with one of their parameters."""
    for run, found in case_tables(tables).items():
        yield from (name for table in found for name in table.figures)
        rows = tables.rows_of("values", run)
        names = {name for table in found for name in table.names - table.figures.keys() - table.settings.keys()}
        named = rows.where(rows.one_of("key", names))
        lines = np.concatenate([named["line"], *(table.lines for table in found)])
        yield from rows.where(np.isin(rows["line"], lines)).counts("key")


def _named_values(tables: Tables) -> Iterator[RunFigure]:
    """The last value of each name, where the names do not show which way is better.

    Not of names that occur together in several records, or in several tables of a file: none of these rows represents
    the others.
    """
    rows = tables.rows("values")
    rows = rows.where(~rows.one_of("key", names_of_records(tables) | names_without_case(tables)))
    rows = rows.where(rows.known("value") & ~are_moments(rows["value"]))
    for name, name_rows in rows.by("key").items():
        units, words = name_rows.codes("unit")
        for code in dict.fromkeys(units.tolist()):
            unit = words[code] if code >= 0 else ""
            yield _last(name_rows.where(units == code), name, "" if unit == "1" else unit)


def _last(rows: Rows, name: str, unit: str) -> RunFigure:
    """The last of these values in each run."""
    values = {run: float(run_rows["value"][-1]) for run, run_rows in rows.by("run").items()}
    return RunFigure(name, unit, None, values, is_last=True)


def _epochs(tables: Tables, options: Options) -> tuple[list[RunFigure], set[str]]:
    """The median time of an epoch; and the names by which the runs print it."""
    rows = epochs.table(tables, options)
    if not len(rows):
        return [], set()
    medians = rows.groupby("run", sort=False)[["time_s"]].median().reset_index()
    return [_column(medians, "time_s", "epoch", "s", "lower")], set(rows["name"].dropna())


def _loss(tables: Tables) -> Iterator[RunFigure]:
    """The last loss of the steps, and a last validation loss."""
    for figure in _last_values(tables, Options()):
        words = figure.name.lower().replace(".", "_").split("_")
        if "loss" in words and (figure.name == "loss" or not EVALUATIONS.isdisjoint(words)):
            yield replace(figure, digits=_LOSS_DIGITS, is_last=True)


def _by_name(figures: Iterator[tuple[str, tuple[str, str, Better | None], float]]) -> Iterator[RunFigure]:
    values: dict[tuple[str, str, Better | None], dict[str, float]] = {}
    for run, figure, value in figures:
        values.setdefault(figure, {})[run] = value
    for (name, unit, better), by_run in values.items():
        yield RunFigure(name, unit, better, by_run)


_Kind = Callable[[Tables, Options], Iterator[RunFigure]]
_KINDS: tuple[_Kind, ...] = (
    _collectives,
    _serving,
    _totals,
    _steps,
    _untimed,
    _rates,
    _spans,
    _memory,
    _profiles,
    _profiled_steps,
    _recorded,
    _waiting_ranks,
)
_PRINTED_KINDS: tuple[_Kind, ...] = (_imbalance, _summaries)
