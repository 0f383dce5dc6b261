"""Throughput: FLOP/s of a GPU under a named convention, compared with printed rates; MFU, HFU; tokens and samples."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats, Ints, Mask
from perflog.errors import UsageError
from perflog.formats.flops import Convention, convention
from perflog.formats.model import Format
from perflog.formats.template import Field
from perflog.formats.vocabulary import quantities
from perflog.metrics.gpu_rates import rates_of_one_gpu
from perflog.metrics.hardware import gpu_model
from perflog.metrics.hasty_steps import hasty_steps
from perflog.metrics.options import Options
from perflog.metrics.possible import RATES, impossible
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.step_series import StepSeries, series_of_values, step_series
from perflog.statistics.samples import median_interval
from perflog.tables import schema
from perflog.tables.columns import Rows, taken

_PER_GPU, _PER_GPU_KEYS = "tokens_per_s_gpu", {"tokens_per_gpu_per_s", "tokens_per_device_per_s"}
_NO_SHARE = 1.5  # an MFU above it is a percentage
_PACE = "pace"  # seconds per step, else seconds per unit of a printed rate: the warm-up is detected in it

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("flops_convention", meaning="what counts as work of a step; compare rates of one convention only"),
    MetricColumn("flops_formula", meaning="formula of the convention: FLOPs of one GPU in a step", brief=False),
    MetricColumn("part", meaning="all: every step; steady: without the warm-up"),
    MetricColumn("n", meaning="number of steps in the part"),
    MetricColumn("first_step", meaning="first step of the part", type="Int64"),
    MetricColumn("last_step", meaning="last step of the part", type="Int64"),
    MetricColumn("step_flops", "FLOP", None, "work of one GPU in a step, by the convention", brief=False),
    MetricColumn("tflops", "TFLOP/s", "higher", "per GPU: step_flops / median time"),
    MetricColumn(
        "tflops_low", "TFLOP/s", None, "lower end of its confidence interval, from the median time's interval"
    ),
    MetricColumn("tflops_high", "TFLOP/s", None, "upper end of this interval"),
    MetricColumn("tflops_total", "TFLOP/s", "higher", "per GPU: work of all steps of the part / their time"),
    MetricColumn("printed_tflops", "TFLOP/s", "higher", "median of the printed rates"),
    MetricColumn("n_printed", "", None, "number of printed rates in the part"),
    MetricColumn(
        "n_agree",
        "",
        None,
        "number of printed rates equal to step_flops / step time, within printed digits",
        type="Int64",
    ),
    MetricColumn("device", meaning="GPU of the peak", brief=False),
    MetricColumn("peak_tflops", "TFLOP/s", None, "dense peak of one GPU"),
    MetricColumn("peak_source", meaning="source of the peak", brief=False),
    MetricColumn("mfu", "1", "higher", "model FLOPs utilisation: tflops without recomputation / peak"),
    MetricColumn("hfu", "1", "higher", "hardware FLOPs utilisation: with recomputation; null if that is not known"),
    MetricColumn("printed_mfu", "1", "higher", "median of the printed MFU"),
    MetricColumn("impossible", meaning="whether a utilisation is above 1: work, time or peak is wrong"),
    MetricColumn("tokens_per_s", "1/s", "higher", "all GPUs: tokens of the part / its time"),
    MetricColumn("tokens_per_s_gpu", "1/s", "higher", "tokens_per_s / number of GPUs, else of printed rates of one"),
    MetricColumn(
        "tokens_per_s_median", "1/s", "higher", "all GPUs: tokens of a step / median time; of printed rates the median"
    ),
    MetricColumn("tokens_per_s_gpu_median", "1/s", "higher", "the same of one GPU"),
    MetricColumn("tokens_from", meaning="declared: tokens of a step; printed: printed rates", brief=False),
    MetricColumn("samples_per_s", "1/s", "higher", "samples of the part / its time, from printed rates"),
    MetricColumn("samples_per_s_median", "1/s", "higher", "median of the printed rates"),
    MetricColumn("missing", meaning="values that the log does not give, so that a rate is null"),
    MetricColumn("first_line", meaning="line of the part's first step", brief=False, type="Int64"),
    MetricColumn("last_line", meaning="line of the part's last step", brief=False, type="Int64"),
)


@metric(
    title="throughput",
    needs=("steps",),
    columns=_COLUMNS,
    main="tflops",
    formula="TFLOP/s per GPU = FLOPs of a GPU in a step / step time; MFU = TFLOP/s / peak; totals are work / time",
    source="FLOPs: the convention's own; MFU: PaLM, arXiv:2204.02311; HFU: Korthikanti et al., arXiv:2205.05198",
)
def throughput(tables: Tables, options: Options) -> MetricRows:
    """Rates of each run that prints a rate or enough to compute one, over all steps and over the steady steps.

    Example:
        >>> table = perflog.metrics.throughput(perflog.read("run.txt"), peak_tflops=312)
        >>> table[["part", "tflops", "printed_tflops", "mfu"]].round(3)
             part  tflops  printed_tflops    mfu
        ...
    """
    chosen = convention(options.flops) if options.flops else None
    peak = _Peak.from_options(options)
    semantics_of = semantics_by_run(tables.rows("runs"))
    conventions = {run: chosen or _declared_convention(semantics) for run, semantics in semantics_of.items()}
    times = {name for declared in conventions.values() if declared for name in declared.time}
    rows = []
    steps_by_run = _steps_by_run(tables, options.warmup, times | {"step_time_s", *RATES})
    for run, world_size, dtype in tables.rows("runs").records("run", "world_size", "dtype"):
        semantics, flops = semantics_of[run], conventions[run]
        series, steps = steps_by_run.get(run, (None, {}))
        prints_rate = any(_known(steps[name]).any() for name in (*RATES, _PER_GPU)) if series else False
        if series is None or not (flops or prints_rate or "tokens" in semantics.quantities):
            continue
        gpu_rates = rates_of_one_gpu(tables)[run]
        rates = _RunRates(flops, semantics, _numbers(semantics, world_size), dtype, peak, options.level, gpu_rates)
        rows += [rates.row(series, steps, part, cut) for part, cut in (("all", 0), ("steady", series.warmup.cut))]
    return rows


_Columns = Mapping[str, Floats]
"""Columns of table `steps` that are numbers, a row for each step of a series."""


def _steps_by_run(tables: Tables, warmup: int | None, names: Collection[str]) -> dict[str, tuple[StepSeries, _Columns]]:
    """Return the series of paces of each run, and columns of its steps, each with the values of the slowest rank."""
    all_steps = tables.rows("steps")
    paces = _paces(all_steps)
    if np.array_equal(paces, all_steps["step_time_s"], equal_nan=True) and not (paces == 0).any():
        all_series = step_series(tables, "step_time_s", warmup)  # the same, and often there already
    else:
        paces = np.where(hasty_steps(tables), np.nan, paces)
        all_series = list(series_of_values(tables, _PACE, paces, warmup))
    known, run_slices = ~np.isnan(paces) & all_steps.known("step"), all_steps.stretches("run")
    chosen: dict[str, tuple[StepSeries, _Columns]] = {}
    for series in all_series:
        part = run_slices[series.run]
        index: Ints | slice
        rows = np.arange(len(paces))[part][known[part]]
        steps, lines = all_steps["step"][rows], all_steps["line"][rows]
        if np.array_equal(steps, series.steps) and np.array_equal(lines, series.lines) and (np.diff(lines) > 0).all():
            index = rows if len(rows) < len(paces) else slice(None)  # each row is a step of the series
        else:
            index = rows[_slowest_rows(series, steps, lines, paces[rows])]
        columns = {name: taken(all_steps[name], index) for name in names}
        if "mfu" in columns and not _known(columns["mfu"]).any():
            columns["mfu"] = _mfu_without_unit(tables, series)
        chosen[series.run] = series, columns | {_PER_GPU: _values_on_lines(tables, series, _PER_GPU_KEYS)}
    return chosen


def _slowest_rows(series: StepSeries, steps: Ints, lines: Ints, paces: Floats) -> Ints:
    """Return for each step of a series the row with its step and line, of several ranks the slowest one."""
    order = np.lexsort((paces, lines, steps))  # of a step and line the slowest comes last
    # A step and a line as one number that sorts: a series has each of them at most once.
    different, position = np.unique(steps, return_inverse=True)
    most = int(lines.max()) + 1
    packed = (position * most + lines)[order]
    wanted = np.searchsorted(different, series.steps) * most + series.lines
    return order[np.searchsorted(packed, wanted, side="right") - 1]


def _mfu_without_unit(tables: Tables, series: StepSeries) -> Floats:
    """The MFU that a run prints without a unit, as a share, if its values can only be percent; else NaN.

    `mfu: 0.41` may be a share or a small percentage; `mfu: 41.2` cannot be a share.
    """
    names = quantities()["mfu"].names
    printed = _values_on_lines(tables, series, {*names, *map(str.upper, names)})
    steady = printed[series.warmup.cut :]
    steady = steady[_known(steady)]
    is_percent = len(steady) > 0 and steady.min() > _NO_SHARE and steady.max() <= 100
    return printed / 100 if is_percent else np.broadcast_to(np.nan, len(series.lines))


def _values_on_lines(tables: Tables, series: StepSeries, keys: Collection[str]) -> Floats:
    """Return the values of names, printed without a unit or with a rate's, on the lines of a series; else NaN.

    Of a program that prints a step on several lines the values of the step, if each is printed once.
    """
    rows = tables.rows_of("values", series.run)
    rows = rows.where(rows.one_of("key", keys))
    for name, places in (("line", series.lines), ("step", series.steps)):
        own = rows.where(rows.known(name))
        printed = dict(zip(own[name].tolist(), own["value"].tolist(), strict=True))
        values = np.array([printed.get(place, np.nan) for place in places.tolist()])
        if _known(values).any() and (name == "line" or len(printed) == len(own)):
            return values
    return np.broadcast_to(np.nan, len(series.lines))


def _declared_convention(semantics: RunSemantics) -> Convention | None:
    """FLOP convention that the run's format declares. Raises UsageError if it does not exist."""
    if semantics.flops is None or semantics.format is None:
        return None
    try:
        return convention(semantics.flops)
    except UsageError as error:
        raise UsageError(error.reason, str(semantics.format.path), error.help) from error


def _numbers(semantics: RunSemantics, world_size: object) -> dict[str, float]:
    """Return all numbers known about a run, by name: printed in the log, or declared by its format."""
    numbers = semantics.numbers
    if isinstance(world_size, int) and world_size > 0:
        numbers["world_size"] = world_size
    return numbers | dict(semantics.quantities)


class _Peak(Struct, frozen=True):
    """The peak that the user gives: `tflops` TFLOP/s, or else the peak of GPU `gpu` for a run's dtype."""

    tflops: float | None
    gpu: str | None

    @classmethod
    def from_options(cls, options: Options) -> _Peak | None:
        """The peak of the options, or None. Raises UsageError for a GPU or peak that cannot be."""
        tflops, gpu = options.peak_tflops, options.gpu
        if gpu and tflops is None:
            gpu_model(gpu)  # an unknown name is an error even when no rate can be computed
        return _Peak(tflops, gpu) if gpu or tflops else None

    def of(self, dtype: Any) -> dict[str, Any]:
        """Columns of the peak for a dtype: `peak_tflops` if it is known, else `missing` with the reason."""
        if self.tflops is not None:
            return {"device": self.gpu, "peak_tflops": self.tflops, "peak_source": "given"}
        model = gpu_model(self.gpu or "")
        columns = {"device": model.name, "peak_source": model.source}
        if not isinstance(dtype, str):
            return columns | {"missing": "dtype"}
        try:
            return columns | {"peak_tflops": model.peak_tflops(dtype)}
        except UsageError as error:
            return columns | {"missing": error.reason}


class _RunRates(Struct, frozen=True):
    """Computes the rates of one run.

    `numbers`: all numbers known about it; `level`: of intervals; `gpu_rates`: columns with rates of one GPU.
    """

    convention: Convention | None
    semantics: RunSemantics
    numbers: Mapping[str, float]
    dtype: Any
    peak: _Peak | None
    level: float
    gpu_rates: Collection[str]

    def row(self, series: StepSeries, table: _Columns, part: str, cut: int) -> dict[str, Any]:
        """Row for the steps from `cut` on."""
        steps, lines = series.steps[cut:], series.lines[cut:]
        row: dict[str, Any] = {"run": series.run, "part": part, "n": len(steps)}
        if not len(steps):
            return row
        table = {name: column[cut:] for name, column in table.items()}
        row |= {"first_step": int(steps[0]), "last_step": int(steps[-1])}
        row |= {"first_line": int(lines[0]), "last_line": int(lines[-1])}
        flops, missing = self._flops(table)
        row |= flops | self._tokens(table) | _printed(table)
        if self.peak is not None and "tflops" in row:
            peak = self.peak.of(self.dtype)
            missing += [peak.pop("missing")] if "missing" in peak else []
            row |= peak | self._utilisation(row, peak.get("peak_tflops"))
        return row | {"missing": ", ".join(missing) or None}

    def _flops(self, table: _Columns) -> tuple[dict[str, object], list[str]]:
        """Columns of the FLOP rate, and names of the values that are missing for it."""
        if self.convention is None:
            return {}, ["FLOP convention"]
        row: dict[str, object] = {"flops_convention": self.convention.id, "flops_formula": self.convention.flops.text}
        columns = list(self.convention.time)
        missing = [name for name in self.convention.needs if name not in self.numbers]
        times = np.sum([table[name] for name in columns], axis=0)
        known = times[times > 0]
        missing += [] if len(known) else columns
        work = self.convention.work(self.numbers)
        if missing or work is None:
            return row, missing or [f"work above zero from {', '.join(self.convention.needs)}"]
        low, high = median_interval(known, self.level)
        row |= {"step_flops": work, "tflops": work / float(np.median(known)) / 1e12}
        row |= {"tflops_low": work / high / 1e12, "tflops_high": work / low / 1e12}
        row["tflops_total"] = work * len(known) / float(known.sum()) / 1e12
        return row | {"n_agree": _agree(work, times, table["tflops"], self.semantics, columns)}, []

    def _utilisation(self, row: Mapping[str, Any], peak: float | None) -> dict[str, Any]:
        """MFU and HFU of a row: rate of the model's work, and of the executed work, over the peak in TFLOP/s."""
        if peak is None or self.convention is None:
            return {}
        share = row["tflops"] / row["step_flops"] / peak
        work_by_name = {
            "mfu": self.convention.model_work(self.numbers),
            "hfu": self.convention.executed_work(self.numbers),
        }
        shares: dict[str, Any] = {name: work * share for name, work in work_by_name.items() if work is not None}
        return shares | {"impossible": max(shares.values(), default=0) > 1}

    def _tokens(self, table: _Columns) -> dict[str, object]:
        """Columns of tokens: from the declared tokens of a step, else from printed rates."""
        times = table["step_time_s"]
        times = times[times > 0]
        world = self.numbers.get("world_size")
        if "tokens" in self.semantics.quantities and len(times):
            tokens, origin = self.semantics.quantities["tokens"], "declared"
            rate, middle = tokens * len(times) / float(times.sum()), tokens / float(np.median(times))
        elif _known(table["tokens_per_s"]).any():
            rate, middle, origin = _total(table, "tokens_per_s"), _middle(table, "tokens_per_s"), "printed"
            if "tokens_per_s" in self.gpu_rates:
                per_gpu = {_PER_GPU: rate, f"{_PER_GPU}_median": middle}
                in_total = {"tokens_per_s": rate * world, "tokens_per_s_median": middle * world} if world else {}
                return in_total | per_gpu | {"tokens_from": origin}
        elif _known(table[_PER_GPU]).any():
            rates = {_PER_GPU: _total(table, _PER_GPU), f"{_PER_GPU}_median": _middle(table, _PER_GPU)}
            return rates | {"tokens_from": "printed"}
        else:
            return {}
        rates = {"tokens_per_s": rate, "tokens_per_s_median": middle}
        per_gpu = {name.replace("per_s", "per_s_gpu"): x / world for name, x in rates.items()} if world else {}
        return rates | per_gpu | {"tokens_from": origin}


def _paces(steps: Rows) -> Floats:
    """Seconds of each step; in runs that print none, the inverse of a printed rate, else a derived time."""
    runs, words = steps.codes("run")
    paces, is_known = np.full(len(steps), np.nan), np.zeros(len(words), np.bool_)
    times, beside = steps["step_time_s"], steps.one_of("step_time_by", schema.BESIDE_THE_LINE)

    def in_turn() -> Iterator[Floats]:
        yield np.where(beside, np.nan, times)
        for name in RATES:
            with np.errstate(divide="ignore"):
                yield 1 / np.where(steps[name] > 0, steps[name], np.nan)
        yield times

    for values in in_turn():
        if is_known.all():
            break
        tells = np.bincount(runs[_known(values)], minlength=len(words)) > 0
        rows = (tells & ~is_known)[runs]
        paces[rows] = values[rows]
        is_known |= tells
    return paces


def _known(values: Floats) -> Mask:
    return ~np.isnan(values)


def _printed(table: _Columns) -> dict[str, object]:
    """Columns of rates that the log prints."""
    row: dict[str, Any] = {"n_printed": int(_known(table["tflops"]).sum())}
    for name, column in (("printed_tflops", "tflops"), ("printed_mfu", "mfu")):
        if not math.isnan(middle := _middle(table, column)):
            row[name] = middle
    if _known(table["samples_per_s"]).any():
        row["samples_per_s"] = _total(table, "samples_per_s")
        row["samples_per_s_median"] = _middle(table, "samples_per_s")
    return row


def _middle(table: _Columns, column: str) -> float:
    """Return the median of a printed rate."""
    possible = table[column][~impossible(column, table[column])]
    return float(np.median(possible)) if len(possible) else math.nan


def _total(table: _Columns, column: str) -> float:
    """A printed rate over several steps: work over time. Without most of the times, each step has the same work."""
    possible = ~impossible(column, table[column])
    rates, times = table[column][possible], table["step_time_s"][possible]
    known = (rates > 0) & (times > 0)
    if 2 * known.sum() > len(known):
        return float((rates[known] * times[known]).sum() / times[known].sum())
    rates = rates[rates > 0]
    return float(len(rates) / (1 / rates).sum()) if len(rates) else math.nan


def _agree(work: float, times: Floats, printed: Floats, semantics: RunSemantics, columns: list[str]) -> int | None:
    """Count printed rates that equal work over time, both within the rounding of their printed digits.

    None if the format does not declare the number of decimals.
    """
    digit = _last_digit(semantics.format, "tflops")
    slack = [_last_digit(semantics.format, name) or 0.0 for name in columns]
    both = ~np.isnan(printed) & (times > 0)
    if digit is None or not both.any():
        return None
    times, printed = times[both], printed[both]
    early, late = (work / (times + sign * sum(slack) / 2) / 1e12 for sign in (1, -1))
    near = digit / 2 * (1 + 1e-9)
    return int(((printed >= early - near) & (printed <= late + near)).sum())


def _last_digit(form: Format | None, column: str) -> float | None:
    """Value of the last printed digit of a column of `steps`, in base units; of several lines the coarsest."""
    digits = []
    for line in form.lines if form else ():
        for field in line.template.fields if line.table == "steps" else ():
            goes_to = schema.column_for("steps", field.name)
            if goes_to is not None and goes_to.name == column and (decimals := _decimals(field)) is not None:
                unit = line.unit.get(field.name)
                digits.append(10.0**-decimals * (unit.factor if unit else 1.0))
    return max(digits, default=None)


def _decimals(field: Field) -> int | None:
    """Number of decimals that a field is printed with, if it is fixed."""
    if field.type == "d":
        return 0
    return int(field.spec.rpartition(".")[2][:-1]) if field.type == "f" and "." in field.spec else None
