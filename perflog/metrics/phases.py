"""What a step is made of: its phases, by rank and over all ranks, and what of each whole no phase explains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from perflog.formats.model import WHOLES
from perflog.metrics.phase_table import (
    RunRows,
    is_hidden,
    lineage,
    medians_over_steps,
    parent,
    phase_table,
    run_rows,
    step_figures,
)
from perflog.metrics.registry import RUN_COLUMNS, MetricColumn, Options, Tables, metric
from perflog.metrics.unattributed_time import unattributed_times

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    *RUN_COLUMNS,
    MetricColumn(
        "part", meaning="whole: step, forward or backward as printed; phase; rest: what no phase inside explains"
    ),
    MetricColumn("phase", meaning="name of the whole or phase; of a rest: of what it is the rest"),
    MetricColumn("occurrence", meaning="k-th time in the step on its rank; null: all times, or not known which"),
    MetricColumn("rank", meaning="rank; null: all values of the step, whichever rank they are of"),
    MetricColumn(
        "parent", meaning="what its time is part of, as the format declares it; null: nothing, or not known which"
    ),
    MetricColumn("kind", meaning="compute, communication, wait, prepare or mixed, as declared; null: not declared"),
    MetricColumn("hidden", meaning="it, or what it is part of, runs beside the step"),
    MetricColumn("clock", meaning="host or gpu, as declared"),
    MetricColumn(
        "median_s", "s", "lower", "median over the steady steps of: the time, or over all ranks the step's median"
    ),
    MetricColumn(
        "least_s", "s", "lower", "the same of the step's least value; of a rest without rank, the least possible"
    ),
    MetricColumn("most_s", "s", "lower", "the same of the step's largest value; or the largest possible"),
    MetricColumn(
        "mean_s", "s", "lower", "the same of the step's mean value: means of parts and rest add up in each step"
    ),
    MetricColumn("share", "1", None, "median_s (or mean_s) over the median step time; null for what is hidden"),
    MetricColumn("n", meaning="steady steps"),
    MetricColumn("values", meaning="values in a step, median", brief=False),
    MetricColumn("first_step", meaning="first steady step"),
    MetricColumn("last_step", meaning="last steady step"),
    MetricColumn("rest_by", meaning="how a rest is found: by record, by rank, mean of all ranks, or as bounds"),
)
_STATS = {"median_s": "median", "least_s": "least", "most_s": "most", "mean_s": "mean"}


@metric(
    title="phases of a step",
    needs=("phases",),
    columns=_COLUMNS,
    main="median_s",
    formula="medians over the steady steps; rest = whole - sum of the phases inside it that are not hidden, step by "
    "step: in one record or on one rank, else the mean over the ranks, else bounds: least whole - sum of the largest "
    "phases, largest whole - sum of the least",
    source="what is part of what: the format's [[phase]] entries; warm-up: metric steps",
)
def phases(tables: Tables, options: Options) -> pd.DataFrame:
    """Phases of each run, as a tree from the step down, by rank and over all ranks."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    needed = {"runs": tables["runs"], "steps": tables["steps"], "phases": with_wholes(tables)}
    for part in run_rows(needed, "phases", "time_s", options.warmup):
        rows += _of_run(part)
    return pd.DataFrame(rows, columns=[c.name for c in _COLUMNS]).astype({"occurrence": "Int64", "rank": "Int64"})


def with_wholes(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Table `phases` with the printed times of step, forward and backward as phases of those names.

    Lines that repeat a step or cover another number of steps than most do are left out.
    """
    import pandas as pd

    steps, inner = tables["steps"], tables["phases"]
    usual = steps.groupby("run")["steps_averaged"].transform(lambda n: n.mode().iloc[0])
    steps = steps[(steps["copy"] == 1) & (steps["steps_averaged"] == usual)]
    wholes = []
    for name in WHOLES:
        column = "step_time_s" if name == "step" else f"{name}_s"
        own = steps["run"].isin(inner["run"][inner["phase"] == name])  # a phase of that name is the whole itself
        rows = steps[steps[column].notna() & ~own]
        rows = rows[["run", "line", "part", "step", "rank", column]].rename(columns={column: "time_s"})
        wholes.append(rows.assign(phase=name, occurrence=1))
    return pd.concat([*(w for w in wholes if len(w)), inner], ignore_index=True)


def _of_run(part: RunRows) -> Iterator[dict[str, Any]]:
    """Rows of one run, in the order of its tree: each whole, what is in it, its rest."""
    rows = phase_table(part)
    rows = rows[rows["step"] >= part.first]
    names = list(dict.fromkeys([*WHOLES, *part.means.phases, *rows["phase"]]))
    order = {name: at for at, name in enumerate(names)}
    found = list(medians_over_steps(step_figures(rows)))
    for rest in unattributed_times(rows, part):
        found += medians_over_steps(step_figures(rest) if "time_s" in rest else rest)
    made = []
    for one in found:
        path = [order[name] for name in reversed(lineage(part.means, one["phase"], one["occurrence"]))]
        path += [len(order)] if "rest_by" in one else []
        place = (path, one["occurrence"] or 0, -1 if one["rank"] is None else one["rank"])
        made.append((place, _row(part, one)))
    for _, row in sorted(made, key=lambda pair: pair[0]):
        yield row


def _row(part: RunRows, one: dict[str, Any]) -> dict[str, Any]:
    name, k, is_rest = one["phase"], one["occurrence"], "rest_by" in one
    declared, beside = part.means.phase(name), is_hidden(part.means, name, k)
    row: dict[str, Any] = {"run": part.run, "label": part.label}
    row |= {"part": "rest" if is_rest else "whole" if name in WHOLES else "phase"}
    row |= {key: one.get(key) for key in ("phase", "occurrence", "rank", "n", "first_step", "last_step", "rest_by")}
    row |= {column: one[stat] for column, stat in _STATS.items()}
    row |= {"hidden": beside, "values": int(one["values"]), "parent": name if is_rest else parent(part.means, name, k)}
    centre = one["mean"] if np.isnan(one["median"]) else one["median"]
    row["share"] = np.nan if beside else centre / part.step_s
    if declared and not is_rest:
        row |= {"kind": declared.kind, "clock": declared.clock}
    if one["rank"] is not None:
        row |= {"least_s": np.nan, "most_s": np.nan}
    return row
