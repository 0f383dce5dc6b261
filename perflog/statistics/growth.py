"""How a cost grows with the size of a job: a + b * term of the size, fitted by least squares, and which term it is.

From five sizes on the term may be any of the performance model normal form of Extra-P, size^i * log2(size)^j with the
exponents that its authors search (Calotoiu et al., SC 2013, doi:10.1145/2503210.2503277). Leaving one size out at a
time shows how well a term predicts. Many terms and few sizes fit noise, so another term than the usual one counts
only if it predicts at least twice as well, and its interval allows for the choice.

Known limit: one law has to hold over all sizes. Where another network or algorithm begins at some size, the larger
sizes follow a law that the smaller ones do not show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from perflog.statistics.students_t import t_quantile

LEAST_SIZES = 5
"""Sizes from which on a term is searched, as in Extra-P."""

_CLEARLY = 0.5  # of an error: a term with more than this is not clearly better
_EXACT = 1e-9  # relative error: less comes from rounding, and a term that is better by less is not better


class Term(Struct, frozen=True):
    """A term size^power * log2(size)^logarithms."""

    power: float
    logarithms: int

    def at(self, size: float) -> float:
        """Return the value of the term. A size of 1 has the logarithm 0."""
        return float(size**self.power * math.log2(size) ** self.logarithms)

    def text(self, size: str) -> str:
        """The term in words: `GPUs^0.5 * log2(GPUs)`."""
        power = "" if not self.power else size if self.power == 1 else f"{size}^{self.power:.3g}"
        logarithm = f"log2({size})" + f"^{self.logarithms}" * (self.logarithms > 1) if self.logarithms else ""
        return " * ".join(filter(None, (power, logarithm)))


LINEAR, LOGARITHMIC = Term(1, 0), Term(0, 1)

TERMS = (
    *(Term(0, j) for j in (1, 2)),
    *(Term(i, j) for i in (1 / 4, 1 / 3, 1 / 2, 2 / 3, 3 / 4, 1, 3 / 2, 2, 5 / 2) for j in (0, 1, 2)),
    *(Term(i, j) for i in (5 / 4, 4 / 3, 3) for j in (0, 1)),
    *(Term(i, 0) for i in (4 / 5, 5 / 3, 7 / 4, 9 / 4, 7 / 3, 8 / 3, 11 / 4)),
)
"""The terms that are searched: a constant is each of them with b = 0."""


class Growth(Struct, frozen=True):
    """A cost as a + b * term, fitted to two sizes or more.

    `squares`: sum of squared residuals. `width`: sum of squared distances of the terms from `mean_x`. `rivals`: the
    fits of other terms that predict not clearly worse.
    """

    term: Term
    mean_x: float
    mean_y: float
    slope: float
    squares: float
    width: float
    n: int
    rivals: tuple[Growth, ...] = ()

    @classmethod
    def of(cls, term: Term, sizes: Sequence[float], costs: Sequence[float]) -> Growth:
        """Fit a term to the costs of sizes."""
        x = [term.at(size) for size in sizes]
        mean_x, mean_y = math.fsum(x) / len(x), math.fsum(costs) / len(x)
        width = math.fsum((a - mean_x) ** 2 for a in x)
        slope = math.fsum((a - mean_x) * (b - mean_y) for a, b in zip(x, costs, strict=True)) / width
        squares = math.fsum((b - mean_y - slope * (a - mean_x)) ** 2 for a, b in zip(x, costs, strict=True))
        return cls(term, mean_x, mean_y, slope, squares, width, len(x))

    @classmethod
    def best(cls, usual: Term, sizes: Sequence[float], costs: Sequence[float]) -> Growth:
        """Fit the usual term, or from five sizes on the best predicting term, if it predicts clearly better.

        Args:
            usual: The term that the theory of the job has; one of `TERMS`.
            sizes: Sizes, two or more that differ, at least 1.
            costs: Cost at each size, above 0.
        """
        if len(sizes) < LEAST_SIZES:
            return cls.of(usual, sizes, costs)
        errors = {term: _left_out_error(term, sizes, costs) for term in TERMS}
        best = min(errors, key=lambda term: errors[term])
        chosen = best if _is_clearly_worse(errors[usual], errors[best]) else usual
        rivals = (term for term, error in errors.items() if not _is_clearly_worse(error, errors[best]))
        return replace(cls.of(chosen, sizes, costs), rivals=tuple(cls.of(term, sizes, costs) for term in rivals))

    def at(self, size: float) -> float:
        """Return the cost at a size."""
        return self.mean_y + self.slope * (self.term.at(size) - self.mean_x)

    def interval(self, size: float, level: float) -> tuple[float, float]:
        """Return the prediction interval of a new cost, from three sizes on: it includes the intervals of the rivals.

        In simulations with 5 to 8 sizes, six laws and a scatter of 0.2 and 1 %, the 95 % interval covered 80 to 100 %
        of the costs at twice the largest size.
        """
        ends = [each._ends(size, level) for each in (self, *self.rivals)]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def _ends(self, size: float, level: float) -> tuple[float, float]:
        freedom = self.n - 2
        distance = (self.term.at(size) - self.mean_x) ** 2 / self.width
        error = math.sqrt(self.squares / freedom * (1 + 1 / self.n + distance))
        half = t_quantile((1 + level) / 2, freedom) * error
        return self.at(size) - half, self.at(size) + half


def _is_clearly_worse(error: float, least: float) -> bool:
    return error > least / _CLEARLY + _EXACT


def _left_out_error(term: Term, sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The symmetric relative error of each cost as the other sizes predict it, mean over the sizes."""
    errors = []
    for k, (size, cost) in enumerate(zip(sizes, costs, strict=True)):
        rest = Growth.of(term, [*sizes[:k], *sizes[k + 1 :]], [*costs[:k], *costs[k + 1 :]])
        predicted = rest.at(size)
        errors.append(2 * abs(predicted - cost) / (abs(predicted) + abs(cost)))
    return math.fsum(errors) / len(errors)
