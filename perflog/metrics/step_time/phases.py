"""Phases of a step: time by rank and over all ranks, and the unattributed time of step, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from perflog.arrays import Floats, Ints, Keys, Mask
from perflog.formats.model import WHOLES
from perflog.metrics.compared import Measure, Sample, Steady
from perflog.metrics.options import Options
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_rows import (
    SteadyRun,
    codes_in,
    lines_of_runs,
    named_processes,
    orders_of_rows,
    run_numbers,
    totals_of_steps,
)
from perflog.metrics.run_tables import Tables, cached
from perflog.metrics.semantics import RunSemantics, semantics_by_run
from perflog.metrics.step_series import usual_cover
from perflog.metrics.step_time.phase_table import (
    PhaseTable,
    medians_over_steps,
    phase_columns,
    phase_table,
    runs_of_slowest_ranks,
    step_figures,
)
from perflog.metrics.step_time.unattributed_time import unattributed_times
from perflog.statistics.groups import groups_of
from perflog.statistics.samples import median
from perflog.tables.columns import NULL, Array, Rows, compact, joined

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("part", meaning="whole: step, forward or backward, as printed; phase; rest: unattributed time"),
    MetricColumn("phase", meaning="name of the whole or phase; of a rest: the parent with this unattributed time"),
    MetricColumn(
        "occurrence", meaning="k-th time in the step on its rank; null: all, or not known which", type="Int64"
    ),
    MetricColumn("rank", meaning="rank; null: over all values of the step, whichever ranks they are of", type="Int64"),
    MetricColumn("parent", meaning="what its time is part of, as declared; null: nothing, or not known which"),
    MetricColumn("kind", meaning="compute, communication, wait, prepare or mixed, as declared; null: not declared"),
    MetricColumn("hidden", meaning="whether it, or its parent, runs in parallel to the step"),
    MetricColumn("clock", meaning="host or gpu, as declared"),
    MetricColumn("median_s", "s", "lower", "median over the steady steps; over all ranks: of each step's median"),
    MetricColumn("least_s", "s", "lower", "median of each step's smallest value; of a rest by bounds: lower bound"),
    MetricColumn("most_s", "s", "lower", "median of each step's largest value; of a rest by bounds: upper bound"),
    MetricColumn("mean_s", "s", "lower", "median of each step's mean; in each step, means of phases and rest add up"),
    MetricColumn("share", "1", None, "median_s (else mean_s) / median step time; null for hidden phases"),
    MetricColumn("n", meaning="number of steady steps"),
    MetricColumn("values", meaning="number of values in a step, median", brief=False),
    MetricColumn("first_step", meaning="first steady step"),
    MetricColumn("last_step", meaning="last steady step"),
    MetricColumn("rest_by", meaning="how a rest is computed: by record, by rank, mean over all ranks, or bounds"),
)
_STATS = {"median_s": "median", "least_s": "least", "most_s": "most", "mean_s": "mean"}


def _samples(tables: Tables, steady: Steady) -> Iterator[Sample]:
    """The time of each phase in each steady step."""
    runs = tables.rows("runs")
    world_sizes = named_processes(tables) | dict(runs.where(runs.known("world_size")).records("run", "world_size"))
    means = semantics_by_run(runs)
    for run, rows in tables.rows_by_run("phases").items():
        if run in steady.cuts:
            where = " of the slowest rank" if run in runs_of_slowest_ranks(tables) else ""  # no time of other runs
            for name, whole, times in _times_in_steps(tables, steady.rows(run, rows), world_sizes.get(run), means[run]):
                of = whole if whole in (None, "step_time", *WHOLES) else f"{whole}{where}"
                yield Measure("phase", f"{name}{where}", of=of), run, times


def _times_in_steps(
    tables: Tables, rows: Rows, world_size: int | None, means: RunSemantics
) -> Iterator[tuple[str, str | None, Floats]]:
    """Yield name and parent of each phase, and its time in each step: the mean over ranks of a rank's total.

    Where ranks are not known, a single value in a step is the time, and the total of at least `world_size` values is
    divided by it; other phases are left out. A phase with several parents counts in each of them separately.
    """
    steps = orders_of_rows(tables, run_numbers(tables, rows), rows["step"], rows["line"])
    rows, steps = rows.where(steps != NULL), steps[steps != NULL]
    if not len(rows):
        return
    codes, words = rows.codes("phase")
    keys = groups_of(codes, rows["occurrence"])
    names = [words[code] for code in codes[keys.first].tolist()]
    pairs = [
        (name, means.parent(name, k)) for name, k in zip(names, rows["occurrence"][keys.first].tolist(), strict=True)
    ]
    parts = {pair: index for index, pair in enumerate(dict.fromkeys(pairs[key] for key in np.argsort(keys.first)))}
    part = np.array([parts[pair] for pair in pairs])[keys.inverse]
    ranks = _numbers_of_ranks(rows, steps, part, len(parts), world_size)
    totals = list(totals_of_steps(steps, rows["time_s"], part, len(parts)))
    for index, (name, whole) in enumerate(parts):
        if (divisor := ranks[index]) is None:
            continue
        declared = means.phase(name)
        several = declared is not None and len(set(declared.of)) > 1
        of = None if declared and declared.hidden else {"step": "step_time"}.get(whole, whole)
        yield f"{name} in {whole}" if several else name, of, totals[index] / divisor


def _numbers_of_ranks(rows: Rows, steps: Ints, part: Ints, parts: int, world_size: int | None) -> list[int | None]:
    """The number of ranks that print each part; None if it is not known."""
    labelled = groups_of(part, rows["rank"])
    numbers: list[int | None] = list(np.bincount(part[labelled.first], minlength=parts).tolist())
    if (unknown := ~rows.known("rank")).any():
        values = groups_of(part, steps)
        values_part = part[values.first]
        for each in np.unique(part[unknown]).tolist():
            numbers[each] = _unlabelled_ranks(values.sizes[values_part == each], world_size)
    return numbers


def _unlabelled_ranks(values: Ints, world_size: int | None) -> int | None:
    """Return how many ranks print a phase without their rank, from the number of its values in each step.

    None if that is unknown: fewer values than ranks may be several of one rank, or of some of the ranks.
    """
    usual = median(values.astype(np.float64))
    if usual == 1:
        return 1
    return world_size if world_size and usual >= world_size else None


@metric(
    title="phases of a step",
    needs=("phases",),
    columns=_COLUMNS,
    main="median_s",
    formula="medians over the steady steps: of each step's median, smallest (least), largest (most) and mean value; "
    "rest = parent - child phases that are not hidden, in each step; rest_by: record, rank: within one; mean: between "
    "means over the ranks; bounds: smallest parent - sum of the largest phases, largest parent - sum of the smallest",
    source="parents of phases: the format's [[phase]] entries; warm-up: metric steps",
    compares=(_samples,),
)
def phases(tables: Tables, options: Options) -> MetricRows:
    """Phases of each run as a tree from the step down, by rank and over all ranks, with unattributed time.

    Example:
        >>> table = perflog.metrics.phases(perflog.read("run.txt"))
        >>> table.query("part == 'rest' and rank.isna()")[["phase", "mean_s", "rest_by"]].round(5)
               phase   mean_s rest_by
        ...
    """
    return (row for table in rows_with_wholes(tables, options.warmup) for row in _trees(table))


def rows_with_wholes(tables: Tables, warmup: int | None) -> Iterator[PhaseTable]:
    """Yield phase tables of the steady steps of some runs each, with the printed times of step, forward and backward.

    Times of declared phases on a step line, such as the time of loading data, count too. A run that times nothing
    inside its step is left out.
    """
    inside = cached(tables, ("runs with times inside",), lambda: tables.only(_runs_with_times_inside(tables)))
    for some in inside.in_pieces("phases", "steps"):  # millions of steps of other runs are not read for nothing
        yield cached(some, ("rows with wholes", warmup), partial(_with_wholes, some, warmup))


def have_phases(tables: Tables, options: Options) -> bool:
    """Return whether metric `phases` has rows."""
    return any(len(table) for table in rows_with_wholes(tables, options.warmup))


def _with_wholes(tables: Tables, warmup: int | None) -> PhaseTable:
    names: dict[str, int] = {}
    parts = _rows_of_wholes(tables, names)
    phases = tables.rows("phases")
    phases = _of_first_printings(tables, phases.where(phases.known("step", "time_s")))
    words, columns = phase_columns(phases)
    parts.append((run_numbers(tables, phases), {**columns, "phase": compact(codes_in(names, words))[columns["phase"]]}))
    numbers = joined([numbers for numbers, _ in parts])
    whole = {name: joined([columns[name] for _, columns in parts]) for name in columns}
    return phase_table(tables, numbers, list(names), whole, warmup).steady()


def _of_first_printings(tables: Tables, phases: Rows) -> Rows:
    """Return rows of table `phases` without rows of steps that a rank prints again, as after a restart."""
    steps = tables.rows("steps")
    again = steps.where(steps["copy"] > 1).counts("run")
    is_again = phases.one_of("run", again) & (phases.known("rank") | phases.known("source"))
    if not is_again.any():
        return phases
    rows = phases.where(is_again)
    codes = [rows.codes(name)[0] for name in ("run", "source", "phase")]
    order = orders_of_rows(tables, run_numbers(tables, rows), rows["step"], rows["line"])  # epochs count steps anew
    key = groups_of(*codes, order, *(rows[name] for name in ("step", "rank", "occurrence")))
    keep = ~is_again
    keep[np.flatnonzero(is_again)[key.first]] = True
    return phases.where(keep)


def _runs_with_times_inside(tables: Tables) -> set[str]:
    """Return the runs that time something inside their steps."""
    steps = tables.rows("steps")
    with_parts = steps.where(steps.known("forward_s") | steps.known("backward_s"))
    phases, on_lines = tables.rows("phases"), _phases_on_step_lines(tables)
    return {*phases.counts("run"), *with_parts.counts("run"), *on_lines.counts("run")}


_Part = tuple[Ints, dict[str, Array]]
"""Rows in the form of table `phases`: the index of the run of each, and the columns of the phase table."""


def _rows_of_wholes(tables: Tables, names: dict[str, int]) -> list[_Part]:
    """Return the printed times of step, forward and backward as phases of those names.

    Numbers of the step lines that the format declares as phases are added too. Lines that repeat a step, or cover
    another number of steps than most lines with a step time do, are left out. `names`: the index of each name, which
    grows.
    """
    steps = tables.rows("steps")
    steps = steps.where((steps["copy"] == 1) & _covers_usual(steps) & steps.known("step"))
    phases = tables.rows("phases")
    numbers = run_numbers(tables, steps)
    parts = []
    for name in WHOLES:
        column = "step_time_s" if name == "step" else f"{name}_s"
        themselves = phases.where(phases.one_of("phase", {name})).counts("run")  # such a phase is the whole itself
        chosen = steps.known(column) & ~steps.one_of("run", themselves)
        rows = steps.where(chosen)
        if len(rows):
            code = np.broadcast_to(np.int16(codes_in(names, [name])[0]), len(rows))
            parts.append((numbers[chosen], _columns_of_steps(rows, code, rows[column])))
    on_lines = _phases_on_step_lines(tables)
    if len(on_lines):
        line_of_step, line_of_value = lines_of_runs(tables, steps), lines_of_runs(tables, on_lines)
        order = np.argsort(line_of_value, kind="stable")
        begins, ends = (np.searchsorted(line_of_value[order], line_of_step, side) for side in ("left", "right"))
        found = ends - begins
        index = np.repeat(np.arange(len(steps)), found)
        nth = np.arange(len(index)) - np.repeat(np.cumsum(found) - found, found)
        values = on_lines.where(order[begins[index] + nth])
        codes, words = values.codes("key")
        code = compact(codes_in(names, words))[codes]
        parts.append((numbers[index], _columns_of_steps(steps.where(index), code, values["value"])))
    return [part for part in parts if len(part[0])]


def _columns_of_steps(rows: Rows, phase: Keys, times: Floats) -> dict[str, Array]:
    """The columns of the phase table for times in rows of table `steps`."""
    unknown = np.broadcast_to(np.nan, len(rows))
    return {
        "phase": phase, **{name: compact(rows[name]) for name in ("line", "part", "step")}, "rank": rows["rank"],
        "occurrence": np.broadcast_to(np.int64(1), len(rows)), "time_s": times, "min_s": unknown,
        "remote_share": unknown,
    }  # fmt: skip


def _covers_usual(steps: Rows) -> Mask:
    """Flag the lines that cover as many steps as most lines with a step time of their run do; else as most lines do.

    A bar that shows whole seconds gives one step time for several steps. Most of its rows have none.
    """
    covers = np.where(steps["steps_averaged"] == NULL, 0, steps["steps_averaged"])
    timed = steps.known("step_time_s")
    usual = np.zeros(len(steps), np.int64)
    for index in steps.stretches("run").values():
        some = covers[index][timed[index]]
        usual[index] = usual_cover(some if len(some) else covers[index])
    flags: Mask = covers == usual
    return flags


def _phases_on_step_lines(tables: Tables) -> Rows:
    """Rows of table `values` that are times of declared phases."""
    formats = {run: meaning.format for run, meaning in semantics_by_run(tables.rows("runs")).items()}
    declared = {run: {phase.name for phase in form.phases} for run, form in formats.items() if form}
    values = tables.rows("values")
    values = values.where(values.one_of("key", set().union(*declared.values())) & values.one_of("unit", {"s"}))
    if not len(values):
        return values
    keys, words = values.codes("key")
    runs, run_words = values.codes("run")
    is_declared = np.array([[word in declared.get(run, ()) for word in words] for run in run_words], np.bool_)
    return values.where(is_declared[runs, keys] & values.known("value"))


def _trees(table: PhaseTable) -> Iterator[dict[str, Any]]:
    """Rows of each run in the order of its tree: each whole, its phases, its unattributed time."""
    runs = table.runs
    names = [dict.fromkeys((*WHOLES, *run.semantics.phases)) for run in runs]
    for run_index, phase in table.cases():
        names[run_index].setdefault(table.names[phase])
    orders = [{name: i for i, name in enumerate(in_order)} for in_order in names]
    figures = list(medians_over_steps(step_figures(table), table))
    for rest in unattributed_times(table):
        figures += medians_over_steps(rest, table)

    def in_tree(figure: dict[str, Any]) -> tuple[Any, ...]:
        order = orders[figure["run_index"]]
        lineage = runs[figure["run_index"]].semantics.lineage(figure["phase"], figure["occurrence"])
        path = [order[name] for name in reversed(lineage)] + [len(order)] * ("rest_by" in figure)
        return figure["run_index"], path, figure["occurrence"] or 0, -1 if figure["rank"] is None else figure["rank"]

    return (_row(runs[figure["run_index"]], figure) for figure in sorted(figures, key=in_tree))


def _row(run: SteadyRun, figure: dict[str, Any]) -> dict[str, Any]:
    name, occurrence, is_rest = figure["phase"], figure["occurrence"], "rest_by" in figure
    declared, hidden = run.semantics.phase(name), run.semantics.is_hidden(name, occurrence)
    row: dict[str, Any] = {"run": run.run}
    row |= {"part": "rest" if is_rest else "whole" if name in WHOLES else "phase"}
    row |= {key: figure.get(key) for key in ("phase", "occurrence", "rank", "n", "first_step", "last_step", "rest_by")}
    row |= {column: figure[stat] for column, stat in _STATS.items()}
    row |= {"hidden": hidden, "values": int(figure["values"])}
    row |= {"parent": name if is_rest else run.semantics.known_parent(name, occurrence)}
    centre = figure["mean"] if np.isnan(figure["median"]) else figure["median"]
    row["share"] = np.nan if hidden else centre / run.step_s
    if declared and not is_rest:
        row |= {"kind": declared.kind, "clock": declared.clock}
    if figure["rank"] is not None:
        row |= {"least_s": np.nan, "most_s": np.nan}
    return row
