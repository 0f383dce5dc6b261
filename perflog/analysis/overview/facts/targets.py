"""Targets: whether the runs reach the values that the reader asks for, and when, in sentences with figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from perflog.analysis.overview.run_groups import RunGroup
from perflog.metrics import Options, Tables, time_to_target
from perflog.tables.nulls import records
from perflog.units import show

_DIGITS = 6  # a value that misses its target may differ from it in the last printed digit


def targets_reached(tables: Tables, groups: Sequence[RunGroup], options: Options) -> Iterator[str]:
    """Yield for each target of the options, and each group of runs, whether and when it is reached.

    Raises:
        UsageError: No run prints a series of this name.
    """
    if not options.targets:
        return
    rows = records(time_to_target.table(tables, options))
    for key, target in options.targets.items():
        by_run = {row["run"]: row for row in rows if row["key"] == key}
        for group in groups:
            group_targets = [by_run[run] for run in group.runs if run in by_run]
            mark = f"{group.mark}: " if len(groups) > 1 else ""
            if len(group.runs) == 1:
                yield mark + (_of_run(group_targets[0]) if group_targets else f"no two values of {key}.")
            else:
                yield mark + _of_repeats(group_targets, len(group.runs), key, target)


def _of_run(row: Mapping[str, Any]) -> str:
    target = show(row["target"], "", _DIGITS)
    if not row["reached"]:
        best = f"{show(row['best'], '', _DIGITS)}{_at(row['best_step'])}"
        return f"{row['key']} does not reach {target}: the best value is {best}."
    time = "" if row["time_s"] is None else f" after {show(row['time_s'], 's')}"
    samples = "" if row["samples"] is None or row["step"] is not None else f" after {row['samples']:,.0f} samples"
    order = " and".join(filter(None, (samples, time)))
    return f"{row['key']} reaches {target}{_at(row['step'])}{order}, with {show(row['value'], '', _DIGITS)}."


def _at(step: int | None) -> str:
    return "" if step is None else f" at step {step:,}"


def _of_repeats(rows: Sequence[Mapping[str, Any]], total: int, key: str, target: float) -> str:
    reached = [row for row in rows if row["reached"]]
    if not reached:
        pick = min if rows and rows[0]["better"] == "lower" else max
        best = f"; the best value is {show(pick(row['best'] for row in rows), '', _DIGITS)}" if rows else ""
        return f"none of {total} runs reaches {key} {show(target, '', _DIGITS)}{best}."
    times = [row["time_s"] for row in reached if row["time_s"] is not None]
    after = f", after {show(sum(times) / len(times), 's')} on average" if len(times) == len(reached) else ""
    number = f"all {total}" if len(reached) == total else f"{len(reached)} of {total}"
    reach = "reaches" if len(reached) == 1 else "reach"
    return f"{number} runs {reach} {key} {show(target, '', _DIGITS)}{after}."
