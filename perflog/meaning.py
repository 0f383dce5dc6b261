"""What a run's numbers mean, as its format declares it: phases, quantities, FLOP convention."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perflog.declared import Format, Phase
from perflog.formats import known

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Meaning:
    """Of one run: `config` is all that its lines say of it; `quantities` those of QUANTITIES that can be computed from
    it; `flops` the FLOP convention of its printed rate. All empty where the format is not installed.
    """

    format: Format | None
    config: Mapping[str, Any] = field(default_factory=dict)
    phases: Mapping[str, Phase] = field(default_factory=dict)
    quantities: Mapping[str, float] = field(default_factory=dict)
    flops: str | None = None

    def phase(self, name: str) -> Phase | None:
        """The declared phase of that name, or None."""
        return self.phases.get(name)

    def parent(self, name: str, occurrence: int) -> str:
        """What the k-th occurrence of a phase is part of: a phase, or step, forward, backward."""
        of = self.phases[name].of if name in self.phases else ("step",)
        return of[min(occurrence, len(of)) - 1]


def meanings(runs: pd.DataFrame) -> dict[str, Meaning]:
    """The meaning of each run of table `runs`, by run id."""
    return {
        run: meaning(name, text) for run, name, text in zip(runs["run"], runs["format"], runs["config"], strict=True)
    }


def meaning(name: str | None, config: str | None) -> Meaning:
    """The meaning of a run of a format, with its `config` as JSON."""
    said = json.loads(config) if isinstance(config, str) else {}
    form = known().get(name) if isinstance(name, str) else None
    if form is None:
        return Meaning(None, said)
    numbers = {k: v for k, v in said.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    found: dict[str, float] = {}
    for quantity, expr in form.quantities.items():
        if all(n in numbers for n in expr.names):
            try:
                value = float(expr(numbers))
            except (ArithmeticError, ValueError):
                continue
            if math.isfinite(value):
                found[quantity] = value
    return Meaning(form, said, {p.name: p for p in form.phases}, found, form.flops)
