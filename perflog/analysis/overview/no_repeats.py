"""What an overview tells of runs with the same settings that are no repeats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perflog.analysis.overview.run_groups import RunGroup
from perflog.analysis.repeats import ROUND, Difference
from perflog.units import count, show

_NAMED = 4  # runs
_CAUSES = "other code, another machine, or a setting not printed"
_SURE = 3  # configurations in which rounds have the same order: else it may be chance


def no_repeats(differences: Sequence[Difference], groups: Sequence[RunGroup]) -> Iterator[str]:
    """Yield how far runs with the same settings differ, and by what they might.

    Args:
        differences: The groups of runs that are no repeats.
        groups: The rows, in which these runs stand one by one.
    """
    if not differences:
        return
    worst = differences[0]
    marks = {group.runs[0]: group.mark for group in groups if len(group.runs) == 1}
    runs = ", ".join(marks[run] for run in worst.runs[:_NAMED]) + " and more" * (len(worst.runs) > _NAMED)
    low, high = (show(value, worst.unit, 4) for value in (worst.low, worst.high))
    noise = "" if worst.noise is None else f"; a step varies by {100 * worst.noise:.1f} %"
    other = len(differences) - 1
    others = f", {count(other, 'other configuration')} likewise" if other else ""
    in_rounds = any(group.settings.get(ROUND, "-") != "-" for group in groups)
    cause = f"other code or a setting not printed{_in_order(differences)}" if in_rounds else _CAUSES
    yield (
        f"No repeats: {runs} have the same settings, but {worst.figure} {low} to {high} (+{100 * worst.apart:.0f} %"
        f"{noise}){others}: {cause}."
    )


def _in_order(differences: Sequence[Difference]) -> str:
    """What the order in the log tells."""
    orders = {each.order for each in differences}
    if len(differences) < _SURE or len(orders) > 1:
        return f" ({ROUND}: order in the log)"
    low, high = orders.pop()[:: len(differences[0].order) - 1]
    return f" ({ROUND} {high + 1} is above {ROUND} {low + 1} in all)"
