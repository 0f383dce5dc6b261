"""The headline of a comparison: the measure that the verdict and the gate are about."""

from __future__ import annotations

from collections.abc import Sequence

from perflog.analysis.compare.measures import ALL
from perflog.analysis.compare.sides import ResultRow
from perflog.analysis.compare.verdicts import CHANGES, without_exploratory
from perflog.tables.nulls import none_if_null

HEADLINES = (
    ("step", "step_time"), ("step", "tokens_per_s"), ("step", "samples_per_s"), ("step", "tflops"), ("layer", ALL),
    ("kernel", ALL), ("run", "elapsed"), ("collective", None), ("summary", None),
)  # fmt: skip
"""Kind and name of the measures that the verdict and the gate can be about: the first that there is. None: the first of
its kind."""


def headline_rows(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """Return the rows of the headline measure: one per case, side and statistic."""
    for kind, name in HEADLINES:
        of_kind = [row for row in rows if row["kind"] == kind]
        first = {row["case"]: row["metric"] for row in reversed(of_kind)}
        if headlines := [row for row in of_kind if row["metric"] == (name or first[row["case"]])]:
            return headlines
    return []


def telling_rows(rows: Sequence[ResultRow]) -> Sequence[ResultRow]:
    """Return the rows whose error is known, or all if there are none.

    A total of single runs says nothing that the median and the mean do not.
    """
    return [row for row in rows if none_if_null(row["error"]) is not None] or rows


def verdict_of_figures(rows: Sequence[ResultRow]) -> str:
    """Return the verdict of one case and side: a change that any figure shows, else the mean's, or the only one."""
    shown: list[str] = [row["verdict"] for row in rows if without_exploratory(row["verdict"]) in CHANGES]
    if shown:
        return min(shown, key=lambda words: CHANGES.index(without_exploratory(words)))
    means: list[str] = [row["verdict"] for row in rows if row["statistic"] == "mean"]
    return means[0] if means else str(rows[0]["verdict"])
