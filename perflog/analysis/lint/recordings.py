"""Rules on two recordings of one run: its log, and the metrics that it writes to another file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perflog.analysis.job_hosts import run_of_hosts
from perflog.analysis.lint.registry import Finding, LintInput, rule
from perflog.analysis.lint.wording import percent
from perflog.parsing.input.log_names import base_name
from perflog.statistics.samples import median
from perflog.tables.columns import Rows
from perflog.tables.schema import TABLES
from perflog.units import show

_COLUMNS = {
    "step_time_s": "step time", "tokens_per_s": "tokens/s", "samples_per_s": "samples/s", "tflops": "TFLOP/s",
    "loss": "loss",
}  # fmt: skip
_APART = 0.01  # relative difference of two values of a step; less is rounding
_FEWEST, _SHARE = 3, 0.05  # steps, and share of the steps that both print


@rule(
    code="recordings-disagree",
    severity="warning",
    title="two files of one run have other values of the same steps",
    why="The log of a run and the metrics that it writes show the same steps. Where they differ, one of them measures "
    "something else, or is wrong.",
    action="find out what each of the two measures, and use one of them in all runs that you compare",
    needs=("steps",),
)
def recordings_disagree(data: LintInput) -> Iterator[Finding]:
    """Columns of `steps` of two runs that have equal times or losses, and differ in some steps."""
    runs = {run.id: run for run in data.runs}
    pairs = run_of_hosts(data.tables).items() if len(runs) > 1 else ()
    for other, leader in pairs:
        if runs[other].semantics.format == runs[leader].semantics.format:
            continue
        for name, title in _COLUMNS.items():
            parts = [runs[run]["steps"] for run in (leader, other)]
            mine, its = (_of_single_steps(rows.where(rows.known("step", name))) for rows in parts)
            steps, places, other_places = np.intersect1d(mine["step"], its["step"], return_indices=True)
            values, other_values = mine[name][places], its[name][other_places]
            apart = np.abs(values - other_values) > _APART * np.maximum(np.abs(values), np.abs(other_values))
            if apart.sum() < max(_FEWEST, _SHARE * len(steps)):
                continue
            unit = next(column.unit for column in TABLES["steps"] if column.name == name)
            medians = (show(median(each[apart]), unit) for each in (values, other_values))
            message = (
                f"{title} differs in {int(apart.sum()):,} of {len(steps):,} steps, the first of them "
                f"step {steps[apart][0]:,}: {' and '.join(medians)} (medians of these steps) in "
                f"{base_name(runs[leader].log)} and {base_name(runs[other].log)}"
            )
            lines = {leader: mine["line"][places][apart], other: its["line"][other_places][apart]}
            yield Finding(leader, message, lines, {"steps": int(apart.sum()), "share": percent(float(apart.mean()))})


def _of_single_steps(rows: Rows) -> Rows:
    """Return the rows of steps that a recording prints once: no other rank prints them, and none is done again."""
    _, index, counts = np.unique(rows["step"], return_inverse=True, return_counts=True)
    return rows.where(counts[index] == 1)
