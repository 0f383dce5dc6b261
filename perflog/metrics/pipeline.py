"""Pipeline stages: their times, and what models say of the bubble. None of them is a measured bubble.

A measured bubble needs the time each stage was busy with everything it did. What the layers of a log add up to is less
(no communication, often no backward), so each figure here carries the name of the model it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.metrics.pipeline_schedule import BACKWARD, FORWARD, Slot, one_f_one_b
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric
from perflog.metrics.semantics import semantics_by_run
from perflog.statistics.samples import Floats, median_interval
from perflog.statistics.warmup import Warmup, warm_up

if TYPE_CHECKING:
    import pandas as pd

_UNKNOWN = -1

_TIMES = (
    MetricColumn("direction", meaning="forward, backward"),
    MetricColumn("n", meaning="steady steps"),
    MetricColumn("time_s", "s", "lower", "time in a step: median over the steady steps"),
    MetricColumn("low_s", "s", None, "its confidence interval (order statistics, binomial)", brief=False),
    MetricColumn("high_s", "s", None, "its upper end", brief=False),
    MetricColumn("per_micro_batch_s", "s", "lower", "time / micro-batches; null where the log does not say how many"),
    MetricColumn("share", "1", None, "time / sum of the times"),
    MetricColumn("of_longest", "1", None, "time / longest time"),
    MetricColumn("first_step", meaning="first steady step", brief=False),
    MetricColumn("last_step", meaning="last steady step", brief=False),
    MetricColumn("warmup", meaning="steps cut at the start"),
    MetricColumn("warmup_reason", meaning="why", brief=False),
    MetricColumn("first_line", meaning="line of the first of its rows", brief=False),
)

_STAGES = (
    *RUN_COLUMNS,
    MetricColumn("stage", meaning="pipeline stage"),
    MetricColumn("ranks", meaning="ranks that print it; of several the slowest counts"),
    MetricColumn("layers", meaning="its layers"),
    *_TIMES,
)

_LAYERS = (
    *RUN_COLUMNS,
    MetricColumn("layer", meaning="layer"),
    MetricColumn("stages", meaning="stages that have a part of it; its time is the sum of the parts"),
    MetricColumn("calls", meaning="timed calls in a step"),
    *_TIMES,
)

_PIPELINE = (
    *RUN_COLUMNS,
    MetricColumn("model", meaning="which model; none of them is a measurement of the bubble"),
    MetricColumn("of", meaning="times that are in it: forward, or forward and backward; null: none, counts alone"),
    MetricColumn("stages", meaning="p: pipeline stages"),
    MetricColumn("micro_batches", meaning="m: micro-batches of a step"),
    MetricColumn("chunks", meaning="v: model chunks per stage"),
    MetricColumn("idle", "1", "lower", "bubble as a fraction of the total: idle / (idle + busy) time of all stages"),
    MetricColumn("busy", "1", "higher", "1 - idle"),
    MetricColumn("over_ideal", "", "lower", "bubble as a ratio to the ideal: idle / busy time"),
    MetricColumn("makespan_s", "s", "lower", "from the first forward to the end of the last slot, in the model"),
    MetricColumn("formula", meaning="of idle or of the makespan"),
)


@metric(
    title="pipeline stages",
    needs=("layers",),
    columns=_STAGES,
    main="time_s",
    formula="per step: sum over the layers of a stage on its slowest rank; then the median over the steady steps",
    source="the log's own times of layers: what a layer's timer leaves out is in none of them",
)
def stages(tables: Tables, options: Options) -> pd.DataFrame:
    """Time of each stage in a step, and per micro-batch."""
    found = []
    for one in _steady(tables, options):
        for stage, rows, times in one.times("stage"):
            if stage != _UNKNOWN:
                row = {"run": one.run, "label": one.label, "stage": stage, "ranks": _names(rows["rank"])}
                found.append(row | {"layers": _names(rows["layer"])} | times)
    return _frame(found, _STAGES)


@metric(
    title="layers",
    needs=("layers",),
    columns=_LAYERS,
    main="time_s",
    formula="per step: sum of a layer's parts over the stages that have one; then the median over the steady steps",
    source="the log's own times of layers: what a layer's timer leaves out is in none of them",
)
def layers(tables: Tables, options: Options) -> pd.DataFrame:
    """Time of each layer in a step. A layer that is split over stages is the sum of its parts."""
    found = []
    for one in _steady(tables, options):
        for layer, rows, times in one.times("layer"):
            calls = _per_step(rows, ["layer", "direction"], "calls").median() if rows["calls"].notna().all() else None
            row = {"run": one.run, "label": one.label, "layer": layer, "stages": _names(rows["stage"])}
            found.append(row | {"calls": None if calls is None else int(calls)} | times)
    return _frame(found, _LAYERS)


@metric(
    title="pipeline bubble, by models (none of them measured)",
    needs=("layers",),
    columns=_PIPELINE,
    main="idle",
    formula="idle = bubble / all stage time (fraction of total); over_ideal = bubble / busy time (ratio to ideal)",
    source="GPipe 1811.06965; 1F1B and interleaved: Narayanan et al. 2104.04473, section 2.2",
)
def pipeline(tables: Tables, options: Options) -> pd.DataFrame:
    """What models of the 1F1B schedule say of idle time, from counts alone and from the times of the stages."""
    found = []
    for one in _steady(tables, options):
        counts = {name: one.count(name) for name in ("stages", "micro_batches", "chunks")}
        models = (*_equal(**counts), *_unequal(one, counts["stages"], counts["micro_batches"]))
        found += [{"run": one.run, "label": one.label} | counts | row for row in models]
    return _frame(found, _PIPELINE)


def modelled_timelines(tables: Tables, options: Options) -> Iterator[tuple[str, pd.DataFrame]]:
    """The modelled 1F1B step of each run: run id, and a row per slot of stage, micro_batch, direction, start_s, end_s.

    From the stages' times per micro-batch. Where the log has no backward times it is a model of the forward alone.
    """
    import pandas as pd

    for one in _steady(tables, options):
        batches, times = one.count("micro_batches"), _per_stage(one, one.count("stages"))
        if batches and times:
            slots = _schedule(times, batches)
            yield one.run, pd.DataFrame([vars(slot) for slot in slots])


def _equal(stages: int | None, micro_batches: int | None, chunks: int | None) -> Iterator[dict[str, Any]]:
    """The ideal bubble from counts alone: all stages equal, sending free."""
    if stages is None or micro_batches is None:
        return
    yield _model("1F1B, equal stages", (stages - 1) / micro_batches, formula="(p - 1) / (m + p - 1)")
    if chunks is not None and chunks > 1:
        over = (stages - 1) / (chunks * micro_batches)
        yield _model("interleaved 1F1B, equal stages", over, formula="(p - 1) / (v m + p - 1)")


def _unequal(one: _LayerTimes, stages: int | None, micro_batches: int | None) -> Iterator[dict[str, Any]]:
    """The same from the stages as timed, and what of it their inequality alone would cost."""
    times = _per_stage(one, stages)
    if not times:
        return
    of, total = " and ".join(times), np.sum(list(times.values()), axis=0)
    if micro_batches:
        makespan = max(slot.end_s for slot in _schedule(times, micro_batches))
        over = len(total) * makespan / (micro_batches * float(total.sum())) - 1
        formula = "sum f + (m - 1) max f" if BACKWARD not in times else "end of the modelled timeline"
        yield _model("1F1B, stages as timed", over, of=of, makespan_s=makespan, formula=formula)
    over = float(total.max() / total.mean()) - 1
    yield _model("imbalance of stages alone", over, of=of, formula="1 - mean / max of the stages")


def _model(name: str, over: float, **more: Any) -> dict[str, Any]:
    return {"model": name, "over_ideal": over, "idle": over / (1 + over), "busy": 1 / (1 + over)} | more


def _per_stage(one: _LayerTimes, count: int | None) -> dict[str, Floats]:
    """Seconds of each stage, by direction; empty unless the log has times of all stages it says there are.

    Per micro-batch where their number is known, else per step. Backward times count beside forward times only.
    """
    found: dict[str, dict[int, float]] = {}
    for stage, _, times in one.times("stage"):
        found.setdefault(times["direction"], {})[stage] = times["per_micro_batch_s"] or times["time_s"]
    whole = {
        d: np.array([t for _, t in sorted(s.items())]) for d, s in found.items() if sorted(s) == [*range(count or 0)]
    }
    return {d: whole[d] for d in (FORWARD, BACKWARD) if d in whole and FORWARD in whole}


def _schedule(times: dict[str, Floats], micro_batches: int) -> list[Slot]:
    forward, backward = times[FORWARD].tolist(), times.get(BACKWARD)
    return one_f_one_b(forward, micro_batches, None if backward is None else backward.tolist())


@dataclass(frozen=True, eq=False)
class _LayerTimes:
    """Rows of table `layers` of one run in its steady steps. What is null is _UNKNOWN, or no text."""

    run: str
    label: str | None
    rows: pd.DataFrame
    warmup: Warmup
    quantities: Mapping[str, float]
    level: float

    def count(self, name: str) -> int | None:
        """A quantity that is a number of things, or None."""
        value = self.quantities.get(name)
        return int(value) if value is not None and value >= 1 and value == int(value) else None

    def times(self, key: str) -> Iterator[tuple[Any, pd.DataFrame, dict[str, Any]]]:
        """Key (stage or layer), rows, and what `_TIMES` says of them, in order of the stages."""
        steps = _per_step(self.rows, [key, "direction"], "time_s")
        medians = steps.groupby([key, "direction"]).median()
        beside = medians.groupby("direction")
        for (value, direction), rows in self.rows.groupby([key, "direction"], sort=False):
            time, several = float(medians[value, direction]), beside.get_group(direction)
            yield (
                value,
                rows,
                {
                    **self._row(steps[value, direction].to_numpy("float64")),
                    "direction": direction or None,
                    "share": time / float(several.sum()),
                    "of_longest": time / float(several.max()),
                    "first_line": int(rows["line"].min()),
                },
            )

    def _row(self, values: Floats) -> dict[str, Any]:
        low, high = median_interval(values, self.level)
        time, parts = float(np.median(values)), self.count("micro_batches")
        return {
            "n": len(values),
            "time_s": time,
            "low_s": low,
            "high_s": high,
            "per_micro_batch_s": time / parts if parts else None,
            "first_step": int(self.rows["step"].min()),
            "last_step": int(self.rows["step"].max()),
            "warmup": self.warmup.cut,
            "warmup_reason": self.warmup.reason,
        }


def _steady(tables: Tables, options: Options) -> Iterator[_LayerTimes]:
    """The layers of each run without its warm-up, which is found in the sum of all layers of a step.

    A step with another number of rows than most is not whole and is left out.
    """
    every, said = tables.by_run("layers"), semantics_by_run(tables["runs"])
    for run, label in zip(tables["runs"]["run"], tables["runs"]["label"], strict=True):
        rows = every.get(run, tables["layers"][:0])
        rows = rows[rows["time_s"].notna() & rows["step"].notna()]
        rows = rows.fillna({"stage": _UNKNOWN, "rank": _UNKNOWN, "direction": ""})
        rows = rows.sort_values(["stage", "rank", "line", "part"])
        parts = rows.groupby("step")["time_s"].transform("size")
        rows = rows[parts == parts.mode().max()]
        total = rows.groupby("step")["time_s"].sum()
        warmup = warm_up(total.to_numpy("float64"), options.warmup)
        rows = rows[rows["step"].isin(total.index[warmup.cut :])]
        if len(rows):
            yield _LayerTimes(run, label, rows, warmup, said[run].quantities, options.level)


def _per_step(rows: pd.DataFrame, keys: list[str], column: str) -> pd.Series[Any]:
    """Sum of a column by keys and step: what a rank of a stage has adds up, the largest rank counts, stages add up."""
    parts = list(dict.fromkeys([*keys, "step", "stage", "rank"]))
    return rows.groupby(parts)[column].sum().groupby(parts[:-1]).max().groupby([*keys, "step"]).sum()


def _names(values: pd.Series[Any]) -> str | None:
    """Distinct values as a text, in their order."""
    return " ".join(str(v) for v in values.unique() if v != _UNKNOWN) or None


def _frame(rows: list[dict[str, Any]], columns: tuple[MetricColumn, ...]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=[c.name for c in columns])
