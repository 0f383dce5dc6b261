"""Headroom: how much shorter a step could be at most if one thing were ideal.

Each row is an upper bound under the model that it states. Rows of a run must not be added up: the wait for the slowest
rank, for example, is also a part of its communication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from perflog.metrics.options import Options
from perflog.metrics.pipelines.pipeline import timed_pipelines
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, MetricRows, metric
from perflog.metrics.run_tables import Tables, computed_list, computed_once
from perflog.metrics.step_series import means_without_pauses
from perflog.metrics.step_time.breakdown import TRACED_STEP, UNTIMED, breakdown
from perflog.metrics.step_time.matmul_efficiency import work_rates
from perflog.metrics.step_time.rank_spread import rank_spread, untimed_spread
from perflog.metrics.step_time.throughput import throughput
from perflog.metrics.traces.replays.scenario_changes import RANK, STAGES
from perflog.metrics.traces.replays.scenario_gains import scenario_gains
from perflog.tables.nulls import row_dicts


class Gain(NamedTuple):
    """The upper bound of the time that a run would save.

    `of`: the whole, step, trace or pipeline; `ideal`: what would be ideal; `time_s`: time of the whole; `gain_s`: time
    that is saved at most; `model`: what the bound assumes.
    """

    run: str
    of: str
    ideal: str
    time_s: float
    gain_s: float
    model: str


_Kind = Callable[[Tables, Options], Iterator[Gain]]

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn("of", meaning="what would be shorter: step, traced step or trace (mean over its devices), or pipeline "
                 "(layers alone)"),
    MetricColumn("ideal", meaning="what would be ideal"),
    MetricColumn("time_s", "s", "lower", "mean time of the whole as measured"),
    MetricColumn("ideal_s", "s", "lower", "time_s - gain_s"),
    MetricColumn("gain_s", "s", None, "upper bound of the time that would be saved"),
    MetricColumn("gain", "1", None, "gain_s / time_s; the gains of several rows overlap and do not add up"),
    MetricColumn("model", meaning="what the bound assumes"),
)  # fmt: skip

_ELSEWHERE = ("wait", "communication")
"""Kinds of phases in which ranks wait for each other."""

_HELD_UP = {
    "wait": ("no waits", "all waiting that delays the step is gone"),
    "communication": ("communication hidden", "all communication runs beside compute"),
    "idle": ("no idle device", "the next work is always there"),
    "memory": ("copies hidden", "all copies run beside compute"),
    "waiting": ("no waiting kernels", "what they wait for is always there"),
}
"""By kind of part: what would be ideal, and the model."""

_CHANGED = {
    "host": "infinitely fast host", "launches": "free launches", "graphs": "CUDA graphs", "waits": "no waits",
    "stream": "stream {} waits for no other", "device": "infinitely fast device", "compute": "compute takes no time",
    "kernels": "{} takes no time", "roofline": "{} at the roofline", "communication": "free communication",
    "hidden": "communication hidden", "copies": "free copies", RANK: "{} as fast as the median rank",
    STAGES: "equal stages",
}  # fmt: skip
"""By scenario of metric `replay`: what would be ideal."""


@metric(
    title="headroom",
    needs=("runs",),
    columns=_COLUMNS,
    main="gain",
    formula="ideal_s = time_s - gain_s. Gain of waits, communication, copies, idle time: their part of breakdown. "
    "Equal ranks: sum over the innermost phases of the mean over steps of (slowest rank - mean of the ranks). Equal "
    "stages: makespan of 1F1B with the mean stage instead of the stages as timed. At the peak: FLOPs of a step / peak. "
    "Like plain products: time of the declared work x (1 - ratio). Of traces with known launches: replay",
    source="bounds by Amdahl's law, AFIPS 1967; breakdown, pipeline, throughput, matmul_efficiency, replay: these "
    "metrics",
)
def headroom(tables: Tables, options: Options) -> MetricRows:
    """Upper bounds of what each run could save if one thing were ideal, the largest first.

    Example:
        >>> table = perflog.metrics.headroom(perflog.find_runs("reference:moe_layer.txt#1"))
        >>> table[["ideal", "gain"]].round(3)
                            ideal   gain
        ...
    """
    gains = [gain for kind in _KINDS for gain in kind(tables, options) if gain.gain_s > 0]
    order = tables.run_order()
    labels = tables.labels()
    return [
        (run, labels[run], of, ideal, time, time - gain, gain, gain / time, model)
        for run, of, ideal, time, gain, model in sorted(gains, key=lambda g: (order[g[0]], -g[4] / g[3]))
    ]


def _held_up(tables: Tables, options: Options) -> Iterator[Gain]:
    """Parts of the step in which nothing is computed, or of a trace that cannot be replayed."""
    if not breakdown.has_rows(tables, options):
        return
    parts = breakdown.table(tables, options)
    replayed = parts["run"].isin(list(scenario_gains(tables, options))) & (parts["of"] != "step")
    parts = parts[~replayed & parts["of"].isin(["step", TRACED_STEP, "trace"])]
    sums = parts[parts["kind"].isin(list(_HELD_UP))]
    for (run, of, kind), rows in sums.groupby(["run", "of", "kind"], sort=False):
        ideal, model = _HELD_UP[kind]
        yield Gain(str(run), str(of), ideal, float(rows["whole_s"].iloc[0]), float(rows["time_s"].sum()), model)


@computed_list
def equal_ranks(tables: Tables, options: Options) -> Iterator[Gain]:
    """Each innermost phase would take the mean over the ranks instead of the time of its slowest rank."""
    if not breakdown.has_rows(tables, options):
        return
    parts = breakdown.table(tables, options)
    inner = parts[(parts["of"] == "step") & (parts["kind"] != UNTIMED) & ~parts["kind"].isin(list(_HELD_UP))]
    spread = rank_spread(tables, options)
    for run, run_parts in inner.groupby("run", sort=False):
        inner_spread = spread[run][spread[run]["phase"].isin(run_parts["part"])]
        gain = float((inner_spread["slowest_s"] - inner_spread["mean_s"]).sum())
        model = "all ranks wait for the slowest one after each phase"
        yield Gain(str(run), "step", "equal ranks", float(run_parts["whole_s"].iloc[0]), gain, model)


@computed_once
def untimed_waits(tables: Tables, options: Options) -> dict[str, float]:
    """Return how long ranks may wait for the slowest one outside of all phases of a step, by run, in s.

    They also wait in phases. So it is no more than the untimed times of the ranks differ; where these are not known, it
    is what unequal ranks lose beyond the phases that wait and communicate.
    """
    parts = breakdown.table(tables, options)
    known = untimed_spread(tables, options)
    found: dict[str, float] = {}
    for gain in equal_ranks(tables, options):
        elsewhere = parts[parts["run"].eq(gain.run) & parts["of"].eq("step") & parts["kind"].isin(list(_ELSEWHERE))]
        lost = gain.gain_s - float(elsewhere["time_s"].sum())
        found[gain.run] = max(0.0, min(gain.gain_s, known.get(gain.run, lost)))
    return found


def equal_stages(tables: Tables, options: Options) -> Iterator[Gain]:
    """Yield the gain of a pipeline with all stages equal to their mean, and of one without ramp."""
    model = "1F1B with the mean of the stages as timed; the ramp stays"
    for timed in timed_pipelines(tables, options):
        yield Gain(timed.run, "pipeline", "equal stages", timed.makespan_s, timed.makespan_s - timed.equal_s, model)


def at_the_peak(tables: Tables, options: Options) -> Iterator[Gain]:
    """The work of a step at the peak of the GPU, as the convention of the run counts it."""
    if not (options.gpu or options.peak_tflops):
        return
    rows = throughput.table(tables, options)
    rows = rows[(rows["part"] == "steady") & rows["step_flops"].notna() & rows["peak_tflops"].notna()]
    if not len(rows):
        return
    means = means_without_pauses(tables, options.warmup)
    for row in row_dicts(rows[rows["run"].isin(list(means))]):
        time = means[row["run"]]
        least = float(row["step_flops"]) / float(row["peak_tflops"]) / 1e12
        model = f"the step only does its FLOPs ({row['flops_convention']}) at {float(row['peak_tflops']):g} TFLOP/s"
        yield Gain(row["run"], "step", "at the peak", time, time - least, model)


@computed_list
def at_plain_products(tables: Tables, options: Options) -> Iterator[Gain]:
    """The declared work at the measured rate of plain matrix products of the same shapes."""
    rows = work_rates(tables, options)
    if rows is None:
        return
    rows = rows[rows["rank"].isna() & rows["ratio"].notna()]
    if not len(rows):
        return
    parts = breakdown.table(tables, options)
    wholes = parts[parts["of"] == "step"].groupby("run")["whole_s"].first()
    for row in row_dicts(rows[rows["run"].isin(wholes.index)]):
        gain = float(row["time_s"]) * (1 - float(row["ratio"]))
        model = "this work at the rate of plain matrix products of the same shapes, as the log measures it"
        yield Gain(row["run"], "step", f"{row['what']} like plain products", float(wholes[row["run"]]), gain, model)


def _replayed(tables: Tables, options: Options) -> Iterator[Gain]:
    """One thing of a trace is changed, and its dependencies stay."""
    for run, gains in scenario_gains(tables, options).items():
        for gain in gains:
            ideal = _CHANGED[gain.scenario].format(f"rank {gain.rank}" if gain.rank is not None else gain.subject)
            yield Gain(run, gain.of, ideal, gain.whole_s, gain.gain_s, gain.model)


_KINDS = (_held_up, equal_ranks, equal_stages, at_the_peak, at_plain_products, _replayed)
