"""Time to a target: step, time, samples and tokens after which a loss or an evaluation first reaches it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from perflog.errors import UsageError, did_you_mean
from perflog.metrics.compared import ComparedColumn, Sample, Steady
from perflog.metrics.directions import letter_words
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.series.curves import PrintedValues, printed_counts, printed_values
from perflog.statistics.groups import groups_of
from perflog.tables.columns import NULL, Rows

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("key", meaning="name of the series: a loss, perplexity or accuracy of the run"),
    MetricColumn("target", meaning="value to reach"),
    MetricColumn(
        "target_from", meaning="option; setting that states it; worst last value: of the runs with this series"
    ),
    MetricColumn("better", meaning="lower or higher: the way in which most runs with this series go"),
    MetricColumn("reached", meaning="whether a printed value reaches it"),
    MetricColumn("step", meaning="first step with a value that reaches the target; null if none does, or has a step",
                 type="Int64"),
    MetricColumn("time_s", "s", "lower", "last reading of the run's clock up to there; null if it prints none"),
    MetricColumn("samples", "", "lower", "samples up to there, as the run counts them"),
    MetricColumn("tokens", "", "lower", "tokens up to there: steps x tokens of a step, as the format declares"),
    MetricColumn("value", meaning="this value"),
    MetricColumn("kept", "1", "higher", "share of the values from there on that reach the target"),
    MetricColumn("best", meaning="best printed value: how far a run without the target came"),
    MetricColumn("best_step", meaning="its step, the first of several; null if the line prints none", type="Int64"),
    MetricColumn("n", meaning="number of printed values"),
    MetricColumn("line", meaning="line of this value; null if the target is not reached", brief=False, type="Int64"),
)  # fmt: skip

_WORDS = frozenset(("loss", "perplexity", "ppl", "accuracy", "acc"))
SAMPLE_COUNTERS = frozenset(("samples_count", "consumed_samples"))
"""Names under which runs print the number of samples so far."""


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """Time and steps of each run to each value that the reader named and it reaches."""
    if steady.targets:
        rows = time_to_target.table(tables, Options(targets=steady.targets))
        for what, column, unit in (("time", "time_s", "s"), ("steps", "step", "")):
            yield from ComparedColumn("target", what + " to {key} {target:g}", column, unit, ("key", "target")).samples(
                rows
            )


@metric(
    title="time to a target",
    needs=("runs",),
    columns=_COLUMNS,
    main="time_s",
    formula="first printed value at the target or beyond it; values are not smoothed",
    source="MLPerf training rules: time to a quality target; target: option, setting, else worst last value",
    compares=(_samples,),
)
def time_to_target(tables: Tables, options: Options) -> MetricRows:
    """Step, time, samples and tokens after which each loss, perplexity and accuracy of a run first reaches its target.

    The target is the option `--target val_loss=3.28`: then other series are left out. Else it is a setting of the run:
    its name has the word `target` and the name of the series or its last word (`target_accuracy`). Else it is the worst
    last value of all runs with this series, which each of them reaches. Values are not smoothed, so a noisy one can
    reach a target early: `kept` is the number of values after it that do so too.

    Example:
        >>> table = perflog.metrics.time_to_target(perflog.find_runs("reference:pipeline_layers.txt"))
        >>> table[["key", "better", "step"]]
            key better  step
        ...
    """
    values = printed_values(tables, _names(printed_counts(tables), options.targets))
    values = values.where(values.place == 0)
    runs = tables.rows("runs")["run"]
    curves: dict[str, dict[str, PrintedValues]] = {}
    groups = groups_of(values.key, values.run)
    rows = groups.rows
    for group in groups.in_order.tolist():
        first = groups.first[group]
        if groups.sizes[group] > 1:
            curves.setdefault(values.words[values.key[first]], {})[runs[values.run[first]]] = values.where(rows[group])
    by_run = semantics_by_run(tables.rows("runs"))
    table: list[dict[str, Any]] = []
    for key, curve_by_run in curves.items():
        changes = [curve.value[-1] - curve.value[0] for curve in curve_by_run.values()]
        lower = np.sign(changes).sum() <= 0
        last = [float(curve.value[-1]) for curve in curve_by_run.values()]
        worst: dict[str, Any] = {"target": max(last) if lower else min(last), "target_from": "worst last value"}
        for run, curve in curve_by_run.items():
            columns = {"run": run, "key": key, "n": len(curve.value)}
            columns |= {"better": "lower" if lower else "higher", **worst, **_stated(key, by_run[run], options)}
            table.append(columns | _reached(tables, curve, columns, by_run[run]))
    order = tables.run_order()
    table.sort(key=lambda row: order[row["run"]])
    return table


def _names(names: Iterable[str], targets: Mapping[str, float] | None) -> Collection[str]:
    """Return the series that have targets: as given by the option, else losses, perplexities and accuracies."""
    names = list(names)
    for name in targets or ():
        if name not in names:
            help = did_you_mean(name, names, f"there are: {', '.join(names) or 'none'}")
            raise UsageError(f"no run prints a series `{name}`", help=help)
    return targets or [name for name in names if not _WORDS.isdisjoint(letter_words(name))]


def _stated(key: str, semantics: RunSemantics, options: Options) -> dict[str, object]:
    """The target of the option, else of a setting: for the whole name of the series first, then for its last word."""
    if options.targets:
        return {"target": options.targets[key], "target_from": "option"}
    targets = {name: value for name, value in semantics.numbers.items() if "target" in letter_words(name)}
    for wanted in (set(letter_words(key)), set(letter_words(key)[-1:])):
        for name, value in targets.items():
            if set(letter_words(name)) - {"target"} == wanted:
                return {"target": float(value), "target_from": name}
    return {}


def _reached(
    tables: Tables, curve: PrintedValues, columns: Mapping[str, Any], semantics: RunSemantics
) -> dict[str, Any]:
    """The best value, and where the values first reach the target if they do."""
    values, steps = curve.value, curve.step
    lower = columns["better"] == "lower"
    reaches = values <= columns["target"] if lower else values >= columns["target"]
    best = int(values.argmin() if lower else values.argmax())
    reached = {"reached": bool(reaches.any()), "best": values[best], "best_step": _whole(steps[best])}
    if not reached["reached"]:
        return reached
    index = int(reaches.argmax())
    line, step = int(curve.line[index]), _whole(steps[index])
    run = str(columns["run"])
    counters = tables.rows_of("values", run)
    counters = counters.where(counters.one_of("key", SAMPLE_COUNTERS))
    reached |= {
        "value": values[index], "line": line, "kept": float(reaches[index:].mean()),
        "time_s": _clock(tables, run, line), "samples": _last(counters, "value", line)[1],
    }  # fmt: skip
    if step is not None:
        tokens = semantics.quantities.get("tokens")
        reached |= {"step": step, "tokens": None if tokens is None else step * tokens}
    return reached


def _whole(step: int) -> int | None:
    return None if step == NULL else int(step)


def _clock(tables: Tables, run: str, line: int) -> float | None:
    """The last reading of a run's clock up to a line: on a step line, or where the run printed its total by name.

    Of a clock that is the difference of two moments, the last moment that the log prints up to the line is a reading.
    """
    ((total, start_line, total_line),) = tables.rows_of("runs", run).records(
        "elapsed_s", "elapsed_from", "elapsed_line"
    )
    values = tables.rows_of("values", run)
    named = values["key"][(values["line"] == total_line) & np.isclose(values["value"], total, rtol=1e-12)]
    readings = [
        _last(tables.rows_of("steps", run), "elapsed_s", line),
        _last(values.where(values.one_of("key", set(named))), "value", line),
    ]
    moments = values.where(values.one_of("unit", {"s"}) & (values["line"] >= start_line))
    start = moments["value"][moments["line"] == start_line]
    if len(start) and start[0] > total:  # a moment since 1970, not a duration
        since = moments["value"] - start[0]
        moments = moments.where((since >= 0) & (since <= total))
        moment_line, moment = _last(moments, "value", line)
        readings.append((moment_line, None if moment is None else moment - float(start[0])))
    return max(readings, key=lambda reading: reading[0])[1]


def _last(rows: Rows, column: str, line: int) -> tuple[int, float | None]:
    """Line and value of the last value of a column up to a line; 0 and None if there is none."""
    rows = rows.where(rows.known(column))
    rows = rows.where(rows["line"] <= line)
    if not len(rows):
        return 0, None
    index = int(np.argmax(rows["line"]))
    return int(rows["line"][index]), float(rows[column][index])
