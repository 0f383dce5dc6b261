"""Tells which guessed roles of numbers the log bears out: a step grows, a rank is small and comes back.

A name alone proves no role. So the numbers of the whole log are examined, and a role that they do not prove is taken
back: the number keeps its printed name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from msgspec import Struct, field

from perflog.arrays import Floats, Ints
from perflog.formats.vocabulary import PLACES
from perflog.ingestion.suggest import naming
from perflog.ingestion.suggest.line_draft import LineDraft
from perflog.lazy_patterns import lazy_pattern

ROLES = (*PLACES, "step_time")
"""Fields with numbers that must prove what their names say."""

_MOST_RANKS = 4096
_SAMPLES = lazy_pattern(r"(?:.*_)?(?:samples|examples|sentences|images)(?:_[0-9]+)?")
_FALLS = 0.1  # a number named step may fall so often, as a share of its rises: runs are resumed


class Series(Struct):
    """The numbers of one field of an entry, in log order.

    Attributes:
        count: The number of numbers.
        rises: How often a number is larger than the one before of the same rank.
        singles: How often it is larger by one.
        falls: How often it is smaller, and no restart.
        restarts: How often the numbers start again: one is not larger than all before it, and smaller than the last.
        least: The least number.
        most: The largest number.
        last: The last number, by rank.
        positions: The positions of the first and the last number in the log.
    """

    count: int = 0
    rises: int = 0
    singles: int = 0
    falls: int = 0
    restarts: int = 0
    least: float = np.inf
    most: float = -np.inf
    last: dict[int, float] = field(default_factory=dict)
    positions: tuple[int, int] = (-1, -1)

    def add(self, values: Floats, ranks: Ints, positions: Ints) -> None:
        """Add the numbers of the next lines with their positions, and the rank of each line, -1 if it is unknown."""
        self.positions = (int(positions[0]) if not self.count else self.positions[0], int(positions[-1]))
        self.count += len(values)
        for rank in np.unique(ranks).tolist():
            rank_values = values[ranks == rank]
            series = np.concatenate([[self.last[rank]], rank_values]) if rank in self.last else rank_values
            steps = np.diff(series)
            least_before = np.minimum(np.minimum.accumulate(series)[:-1], self.least)
            again = (steps < 0) & (series[1:] <= least_before)
            self.rises += int((steps > 0).sum())
            self.singles += int((steps == 1).sum())
            self.restarts += int(again.sum())
            self.falls += int((steps < 0).sum() - again.sum())
            self.last[rank] = float(series[-1])
        self.least, self.most = min(self.least, float(np.min(values))), max(self.most, float(np.max(values)))

    def is_step(self, is_named: bool) -> bool:
        """Whether the numbers can be steps: they grow, and fall only where they start again.

        Args:
            is_named: Whether the log names them so. Only then may they fall now and then.
        """
        return self.rises > 0 and self.falls <= (_FALLS * self.rises if is_named else 0)

    def goes_on(self, other: Series) -> bool:
        """Whether a single number can be one of the steps of another series: among them, or before or after them."""
        is_before = self.positions[1] < other.positions[0] and self.most < other.least
        is_after = self.positions[0] > other.positions[1] and self.least > other.most
        return is_before or is_after or other.least <= self.least <= other.most

    def is_rank(self) -> bool:
        """Whether the numbers can be ranks: small, and several lines have each; or each rank prints one line."""
        is_counter = self.rises == self.count - 1 and (self.singles < self.rises or self.least > 0)
        return self.count > 1 and self.least >= 0 and self.most < _MOST_RANKS and not is_counter

    def is_one_of(self, ranks: Iterable[Series]) -> bool:
        """Whether a number that is printed once lies among ranks that other lines prove."""
        return self.count == 1 and any(other.least <= self.least <= other.most for other in ranks)

    @property
    def counts_each(self) -> bool:
        """Whether the log prints each step: the time on a line can only be the time of its step."""
        return self.rises > 0 and self.singles == self.rises

    @property
    def only_grows(self) -> bool:
        """Whether no number is smaller than the one before, as on a clock."""
        return self.count > 1 and not self.falls and not self.restarts


Evidence = dict[tuple[str, str], Series]
"""The series of a log, by name of the entry and of the field."""


def proven_names(lines: Iterable[LineDraft], evidence: Evidence) -> dict[str, Series]:
    """Return the printed names of numbers that prove to be steps, each with its numbers."""
    proven: dict[str, Series] = {}
    for line in lines:
        series = evidence.get((line.name, "step"))
        step = next((slot.named for slot in line.numbers if slot.named.name == "step"), None)
        if series is not None and step is not None and step.why != naming.COUNTS_UP and series.is_step(is_named=True):
            proven[step.printed] = series
    return proven


def proven_ranks(evidence: Evidence) -> list[Series]:
    """Return the series of numbers that prove to be ranks."""
    return [series for (_, role), series in evidence.items() if role == "rank" and series.is_rank()]


def sample_counts(lines: Iterable[LineDraft]) -> frozenset[str]:
    """Return the printed numbers of samples: `7200` of `Train on 7200 samples`."""
    slots = (slot for line in lines for slot in line.numbers if _SAMPLES.fullmatch(slot.named.name))
    return frozenset(text for slot in slots for text in slot.texts)


def disproved_roles(
    line: LineDraft, evidence: Evidence, proven: Mapping[str, Series], samples: Collection[str] = ()
) -> frozenset[str]:
    """Return the roles of an entry that the numbers of the log disprove.

    Args:
        line: The entry.
        evidence: The numbers of the log.
        proven: The result of `proven_names`: a line that is printed once may have a step that others prove.
        samples: The result of `sample_counts`: what counts up to one of them counts samples.
    """
    names = {slot.named.name: slot.named for slot in line.numbers}
    series = {role: evidence[line.name, role] for role in ROLES if (line.name, role) in evidence}
    step, rank, time = (series.get(role) for role in ROLES)
    roles = set()
    if step is not None and "step" in names and not step.is_step(names["step"].why != naming.COUNTS_UP):
        others = proven.get(names["step"].printed) if names["step"].why != naming.COUNTS_UP else None
        if step.count > 1 or others is None or not step.goes_on(others):
            roles.add("step")
    totals = [slot.texts for slot in line.numbers if slot.named.name == naming.total_of("step")]
    if step is not None and totals and not step.counts_each and set(totals[0]) <= set(samples):
        roles.add("step")
    if rank is not None and "rank" in names and not (rank.is_rank() or rank.is_one_of(proven_ranks(evidence))):
        roles.add("rank")
    is_plain = time is not None and "step_time" in names and line.has_plain_time
    if is_plain and not (step is not None and step.counts_each and time is not None and not time.only_grows):
        roles.add("step_time")
    return frozenset(roles)


def restarts_within(line: LineDraft, evidence: Evidence) -> str:
    """Return the field, such as an epoch, in which the steps of an entry start again; "" for none."""
    step = evidence.get((line.name, "step"))
    is_counted = any(slot.named.name == "epoch" and slot.spec[-1:] == "d" for slot in line.numbers)
    return "epoch" if line.table == "steps" and is_counted and step is not None and step.restarts else ""
