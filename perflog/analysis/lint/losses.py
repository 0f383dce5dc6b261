"""Rules on losses and gradient norms: those that are not finite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perflog.analysis.lint.registry import Finding, LintInput, rule
from perflog.grouping import grouped
from perflog.metrics.series.divergence import LOSS, Divergence, divergences
from perflog.units import count, numbered, show

DIVERGED = "diverged"
"""Code of the rule on losses that are NaN: a reader has to know it before any speed."""

_SERIES = 3  # that a message names


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
