"""Rules on losses and gradient norms that are not finite, and on steps that were skipped for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from perflog.analysis.lint.registry import Finding, LintInput, rule
from perflog.grouping import grouped
from perflog.lazy_patterns import lazy_pattern
from perflog.metrics.series.divergence import LOSS, Divergence, divergences
from perflog.statistics.groups import groups_of
from perflog.tables.columns import Rows
from perflog.units import count, numbered, show

DIVERGED = "diverged"
"""Code of the rule on losses that are NaN: a reader has to know it before any speed."""

_SERIES = 3  # that a message names
_SKIPPED = lazy_pattern(r"(?:.*_)?skipped(?:_(?:steps?|iterations?|iters?|updates?))?", re.IGNORECASE)
_SINCE_LINE = lazy_pattern(r"(?:.*_)?number_of_skipped_iterations", re.IGNORECASE)
"""Name of the skipped steps since the line before, as Megatron and its forks print it. Others count in all."""
_OFTEN = 0.05  # of the steps: more skipped ones are a warning


@rule(
    code=DIVERGED,
    severity="warning",
    title="a loss or gradient norm is NaN or infinite",
    why="From that step on the run trains nothing: its speed is measured on a program that computes NaN. Warning if no "
    "finite value follows, or a loss was finite before; else note: with loss scaling a gradient norm may overflow and "
    "the step is skipped.",
    action="look at the steps before it: learning rate, data, precision; do not compare the run with others",
    needs=("runs",),
)
def diverged(data: LintInput) -> Iterator[Finding]:
    """Losses and gradient norms by name with values that are NaN or infinite, on ranks that differ each by itself."""
    by_run = grouped(((found.run, _is_warning(found)), found) for found in divergences(data.tables))
    for run in data.runs:
        for is_warning in (True, False):
            if members := by_run.get((run.id, is_warning)):
                lines = [line for found in members for line in found.lines]
                numbers = {"values": len(lines), "of": sum(found.total for found in members)}
                message = _listed([*dict.fromkeys(map(_in_words, sorted(members, key=lambda each: each.line)))])
                yield Finding(run.id, message, {run.id: lines}, numbers, "warning" if is_warning else "note")


def _listed(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - _SERIES} more" if len(texts) > _SERIES else ""
    return "; ".join(texts[:_SERIES]) + more


def _is_warning(found: Divergence) -> bool:
    return found.is_lost or (found.name == LOSS and found.last_finite is not None)


def _in_words(found: Divergence) -> str:
    value, step = f"{found.value:g}", "" if found.step is None else f"step {found.step}"
    place = step or f"line {found.line}"
    text = f"{found.name} {value}"
    if not found.lasts:
        text += f" in {len(found.lines):,} of {count(found.total, 'value')}, first at {place}"
    elif found.last_finite is None:
        text += f" in {'all' if found.total > 1 else 'its'} {count(found.total, 'value')}"
    else:
        at = "" if found.last_finite_step is None else f" at {found.last_finite_step}"
        text += f" since {place} (last finite {show(found.last_finite, '')}{at})"
    return text + _on(found.ranks)


def _on(ranks: Sequence[int]) -> str:
    return f" on {numbered('rank', ranks)}" if ranks else ""


@rule(
    code="steps-skipped",
    severity="warning",
    title="steps were skipped",
    why="The program left out the update of the parameters: gradients overflowed, or were not finite. These steps took "
    "time and trained nothing. Some at the start of a run with loss scaling are usual: then a note.",
    action="look at the loss scale and the gradient norm around these steps; count only the other steps",
    needs=("values",),
)
def steps_skipped(data: LintInput) -> Iterator[Finding]:
    """Numbers of skipped steps by name, as the lines of steps print them."""
    keys = [key for key in data.tables.rows("values").counts("key") if _SKIPPED.fullmatch(key)]
    values = data.tables.rows("values")
    for run in data.runs_where("values", values.one_of("key", keys)) if keys else ():
        rows = run["values"]
        for key in keys:
            key_rows = rows.where(rows.one_of("key", [key]) & rows.known("step"))
            key_rows = key_rows.where(np.isfinite(key_rows["value"]) & (key_rows["value"] >= 0))
            if (finding := _skipped(run.id, key, key_rows)) is not None:
                yield finding


def _skipped(run: str, key: str, rows: Rows) -> Finding | None:
    """Return what the numbers of skipped steps of a name show; of ranks the largest of each step counts."""
    steps = groups_of(rows["step"])
    numbers, skipped = rows["step"][steps.first], steps.ends(rows["value"])[1]
    order = np.argsort(numbers)
    numbers, skipped, lines = numbers[order], skipped[order], rows["line"][steps.first][order]
    if not _SINCE_LINE.fullmatch(key):
        skipped = np.diff(skipped, prepend=0.0)  # of a total
    count_of = int(skipped.sum())
    if not len(numbers) or (skipped < 0).any() or not count_of or count_of > numbers[-1]:
        return None  # none, or not what the name says
    done, where = int(numbers[-1]), np.flatnonzero(skipped)
    first, last = int(numbers[where[0]]), int(numbers[where[-1]])
    at = f"line of step {first:,}" if first == last else f"lines of steps {first:,} to {last:,}"
    is_often = count_of > _OFTEN * done
    were = "were" if count_of > 1 else "was"
    return Finding(
        run, f"{count_of:,} of {count(done, 'step')} {were} skipped: {at}", {run: lines[where]},
        {"skipped": count_of, "steps": done}, "warning" if is_often else "note",
    )  # fmt: skip
