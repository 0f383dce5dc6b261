"""Two sides or more, held against the first."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from perflog.analysis.compare import attribution, caveats, rows, settings
from perflog.analysis.compare.measures import ALL, measures, warmups
from perflog.analysis.compare.rows import Row
from perflog.analysis.compare.sides import Case, Side, match, sides
from perflog.analysis.compare.verdicts import RANKING, Rule, plain
from perflog.errors import UsageError
from perflog.metrics import Column
from perflog.tables.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    import pandas as pd

    from perflog.log import Log

HEADLINES = (("step", "step_time"), ("step", "tokens_per_s"), ("step", "samples_per_s"), ("step", "tflops"))
"""The measure that the verdict and the gate are about: the first there is, else all layers, else all kernels."""


@dataclass(frozen=True)
class Comparison:
    """What `compare` found. The DataFrames have base units; missing values are null.

    `sides`: their names, base first. `cases`: the configurations that they share. `warmup`: steps cut, by case.
    """

    sides: tuple[str, ...]
    cases: tuple[Case, ...]
    warmup: tuple[int, ...]
    rule: Rule
    records: tuple[Row, ...]
    warnings: tuple[str, ...]
    differences: tuple[Row, ...]
    parts: tuple[Row, ...]
    printed: tuple[Row, ...]
    told: tuple[Row, ...]

    @cached_property
    def rows(self) -> pd.DataFrame:
        """One row per case, measure and side but the base: see `perflog.analysis.compare.rows.COLUMNS`."""
        return _frame(self.records, rows.COLUMNS)

    @cached_property
    def settings(self) -> pd.DataFrame:
        """Settings in which the sides differ: case, setting, and a column for each side."""
        return _frame(self.differences, ["case", "setting", *self.sides])

    @cached_property
    def attribution(self) -> pd.DataFrame:
        """Where the differences went: see `perflog.analysis.compare.attribution.COLUMNS`."""
        return _frame(self.parts, attribution.COLUMNS)

    @cached_property
    def summaries(self) -> pd.DataFrame:
        """Printed averages, and those of the same steps on the other sides: `compare.settings.SUMMARIES`."""
        return _frame(self.printed, settings.SUMMARIES)

    @cached_property
    def findings(self) -> pd.DataFrame:
        """What to know before the comparison is believed: see `perflog.analysis.compare.caveats.COLUMNS`."""
        return _frame(self.told, caveats.COLUMNS)

    @property
    def headlines(self) -> list[Row]:
        """The rows of the measure that the verdict is about, one per case and side."""
        names = (*HEADLINES, ("layer", ALL), ("kernel", ALL))
        for name in names:
            if found := [one for one in self.records if (one["kind"], one["metric"]) == name]:
                return found
        return []

    @property
    def verdict(self) -> str:
        """The gravest verdict of the headlines."""
        words = [one["verdict"] for one in self.headlines]
        return min(words, key=lambda w: RANKING.index(plain(w)), default="nothing to compare")

    @property
    def failures(self) -> list[Row]:
        """The headlines that fail a gate on regressions."""
        return [one for one in self.headlines if one["fails"]]

    def geomeans(self) -> list[Row]:
        """Over several cases, the geometric mean of the headline's ratios for each side."""
        import math

        made: list[Row] = []
        for side in self.sides[1:]:
            ratios = [one["ratio"] for one in self.headlines if one["side"] == side]
            if len(ratios) > 1 and all(r > 0 for r in ratios):
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                made.append({"metric": self.headlines[0]["metric"], "side": side, "cases": len(ratios), "ratio": mean})
        return made

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        cases = [{"case": case.name, "warmup": cut, "runs": dict(zip(self.sides, case.runs, strict=True))}
                 for case, cut in zip(self.cases, self.warmup, strict=True)]  # fmt: skip
        return {
            "schema_version": SCHEMA_VERSION, "sides": list(self.sides), "verdict": self.verdict, "cases": cases,
            "rule": asdict(self.rule), "rows": _plain(self.records), "geomeans": self.geomeans(),
            "settings": _plain(self.differences), "attribution": _plain(self.parts),
            "summaries": _plain(self.printed), "findings": _plain(self.told), "warnings": list(self.warnings),
        }  # fmt: skip


def compare(
    *given: str | os.PathLike[str] | Log,
    store: str | os.PathLike[str] | None = None,
    by: str | None = None,
    warmup: int | None = None,
    **rule: Any,
) -> Comparison:
    """Hold two sides or more against the first: `perflog.compare("before.txt", "after.txt")`.

    A side is a log, a run of it as "LOG#3", a folder, a glob, a store, a run id or label, or a `Log`; "name=run.txt"
    names it, and sides of one name are one. `by`: a setting whose values are the sides, of all runs given. `warmup`:
    steps to cut (default: on all sides the most that is found on any). Other arguments are the fields of `Rule`.
    Raises UsageError where fewer than two sides are named, or their runs cannot be matched.
    """
    chosen = Rule(**rule)
    if not 0 < chosen.level < 1 or chosen.threshold < 0 or chosen.equivalence < 0:
        raise UsageError("no such rule", "", "a level lies between 0 and 1; thresholds are not negative")
    return between(sides(given, store, by), chosen, warmup)


def between(found: Sequence[Side], chosen: Rule, warmup: int | None = None) -> Comparison:
    """The same from sides."""
    cases, warnings = match(found)
    own = {run: cut for side in found for run, cut in warmups(side).items()}
    cuts = [_cut(case, own) if warmup is None else warmup for case in cases]
    by_run = {run: cut for case, cut in zip(cases, cuts, strict=True) for runs in case.runs for run in runs}
    have = [measures(side, by_run) for side in found]
    made = rows.rows(found, cases, have, chosen)
    differ, printed = settings.settings(found, cases), settings.summaries(found, cases)
    if not made:
        help = "`perflog show RUN` lists the tables that each has"
        raise UsageError("the sides have no figure in common", " and ".join(one.name for one in found), help)
    return Comparison(
        sides=tuple(one.name for one in found),
        cases=tuple(cases),
        warmup=tuple(cuts),
        rule=chosen,
        records=tuple(made),
        warnings=(*(text for side in found for log in side.logs for text in log.warnings), *warnings),
        differences=tuple(differ),
        parts=tuple(attribution.attribution(found, cases, have, made)),
        printed=tuple(printed),
        told=tuple(caveats.findings(found, cases, made, differ, printed)),
    )


def _cut(case: Case, own: Mapping[str, tuple[int, int]]) -> int:
    """The largest warm-up of the case's runs, so that all are cut alike; at most half of the shortest run."""
    mine = [own[run] for runs in case.runs for run in runs if run in own]
    return min(max(cut for cut, _ in mine), min(steps for _, steps in mine) // 2) if mine else 0


def _frame(made: Sequence[Row], columns: Sequence[Column | str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(list(made), columns=[c if isinstance(c, str) else c.name for c in columns])


def _plain(made: Sequence[Row]) -> list[Row]:
    """Records with null for what is not a number."""
    return [{k: None if isinstance(v, float) and v != v else v for k, v in one.items()} for one in made]
