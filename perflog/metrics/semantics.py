"""What a run's numbers mean, as its format declares it: phases, quantities, FLOP convention."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perflog.formats.expressions import Expression
from perflog.formats.model import Format, Phase, Rate
from perflog.formats.registry import known as formats

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RunSemantics:
    """Of one run: `config` is all that its lines say of it; `quantities` those of QUANTITIES that can be computed from
    it; `rates` what is computed in its phases; `flops` the FLOP convention of its printed rate. All empty where the
    format is not installed.
    """

    format: Format | None
    config: Mapping[str, Any] = field(default_factory=dict)
    phases: Mapping[str, Phase] = field(default_factory=dict)
    quantities: Mapping[str, float] = field(default_factory=dict)
    rates: tuple[Rate, ...] = ()
    flops: str | None = None

    @property
    def numbers(self) -> dict[str, float]:
        """All that is said of the run in numbers, one each."""
        return {k: v for k, v in self.config.items() if isinstance(v, int | float) and not isinstance(v, bool)}

    def phase(self, name: str) -> Phase | None:
        """The declared phase of that name, or None."""
        return self.phases.get(name)

    def parent(self, name: str, occurrence: int) -> str:
        """What the k-th occurrence of a phase is part of: a phase, or step, forward, backward."""
        of = self.phases[name].of if name in self.phases else ("step",)
        return of[min(occurrence, len(of)) - 1]


def semantics_by_run(runs: pd.DataFrame) -> dict[str, RunSemantics]:
    """The meaning of each run of table `runs`, by run id."""
    return {
        run: run_semantics(name, text)
        for run, name, text in zip(runs["run"], runs["format"], runs["config"], strict=True)
    }


def run_semantics(name: str | None, config: str | None) -> RunSemantics:
    """The meaning of a run of a format, with its `config` as JSON."""
    said = json.loads(config) if isinstance(config, str) else {}
    form = formats().get(name) if isinstance(name, str) else None
    if form is None:
        return RunSemantics(None, said)
    numbers = RunSemantics(form, said).numbers
    found = {name: known for name, expr in form.quantities.items() if (known := evaluate(expr, numbers)) is not None}
    return RunSemantics(form, said, {p.name: p for p in form.phases}, found, form.rates, form.flops)


def evaluate(expr: Expression, numbers: Mapping[str, float]) -> float | None:
    """What an expression comes to; None where a number is not known, or it makes no sense."""
    if any(name not in numbers for name in expr.names):
        return None
    try:
        found = float(expr(numbers))
    except (ArithmeticError, ValueError):
        return None
    return found if math.isfinite(found) else None
