"""Run semantics: the meaning of a run's numbers. Its format declares phases, quantities, rates, FLOP convention."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from perflog.formats.expressions import Expression
from perflog.formats.model import WHOLES, Format, Phase, Rate
from perflog.formats.registry import known as formats
from perflog.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    import pandas as pd

    from perflog.tables.columns import Rows


_OF_TIMES = lazy_pattern(r"(?i)^(?:\w+\.)?(?:t|times?|timings?|perf)[._]|_(?:t|time|latency|duration)$")


class RunSemantics(Struct, frozen=True):
    """Meaning of the numbers of one run. All parts are empty if the run's format is not installed.

    `config`: values that the log prints about the run. `phases`: declared phases by name. `quantities`: the declared
    quantities that can be computed from `config`, such as the micro-batches of a step. `rates`: work that the phases
    do. `flops`: FLOP convention of the printed rate.
    """

    format: Format | None
    config: Mapping[str, Any] = field(default_factory=dict)
    phases: Mapping[str, Phase] = field(default_factory=dict)
    quantities: Mapping[str, float] = field(default_factory=dict)
    rates: tuple[Rate, ...] = ()
    flops: str | None = None

    @property
    def either_way(self) -> tuple[str, ...]:
        """Names of values with no better direction."""
        return self.format.either_way if self.format else ()

    @property
    def of_one_gpu(self) -> tuple[str, ...]:
        """Rates of table `steps` that count the work of one GPU."""
        return self.format.of_one_gpu if self.format else ()

    @property
    def numbers(self) -> dict[str, float]:
        """The values of `config` that are numbers."""
        return {k: v for k, v in self.config.items() if isinstance(v, int | float) and not isinstance(v, bool)}

    def phase(self, name: str) -> Phase | None:
        """Return the declared phase of a name, or None. `comm_time` is `comm`, as libraries declare it."""
        if self.format is None or name in self.phases:
            return self.phases.get(name)
        return _library_phases().get(_OF_TIMES.sub("", name))

    def parent(self, name: str, occurrence: int) -> str:
        """Return the parent of the k-th occurrence of a phase: a phase, or step, forward, backward."""
        parents = self.possible_parents(name) or ("step",)
        return parents[min(occurrence, len(parents)) - 1]

    def possible_parents(self, name: str) -> tuple[str, ...]:
        """Return all possible parents of a phase; the step has none.

        The parent of an undeclared phase is the one that it is named after, as `backward_params` is after `backward`,
        else the step.
        """
        if name in WHOLES:
            return () if name == "step" else ("step",)
        declared = self.phase(name)
        return declared.of if declared else (self._named_after(name),)

    def _named_after(self, name: str) -> str:
        """Return the longest phase or whole that is a prefix of a part's name: not `forward` for `forward_backward`.

        The phase is one of the run's own format. Whether another program times a phase of a name is not known.
        """
        own = () if self.format is None or self.format.generic else (phase.name for phase in self.format.phases)
        known = (each for each in (*WHOLES, *own) if name.startswith(f"{each}_"))
        longest = max(known, key=len, default="step")
        others = {f"{each}_" for each in WHOLES if each != longest}
        return "step" if f"{name.removeprefix(longest)[1:]}_".startswith(tuple(others)) else longest

    def known_parent(self, name: str, occurrence: int | None) -> str | None:
        """Return the parent of a phase; None for the step, and if the parent depends on an unknown occurrence."""
        parents = self.possible_parents(name)
        if len(parents) > 1:
            return parents[min(occurrence, len(parents)) - 1] if occurrence else None
        return parents[0] if parents else None

    def lineage(self, name: str, occurrence: int | None) -> tuple[str, ...]:
        """Return the phase, its parent, the parent's parent and so on, as far as known."""
        names = [name]
        while (above := self.known_parent(names[-1], occurrence)) and above not in names:
            names.append(above)
            occurrence = None
        return tuple(names)

    def is_hidden(self, name: str, occurrence: int | None) -> bool:
        """Return whether the phase, or a phase that contains it, runs in parallel to the step."""
        declared = (self.phase(each) for each in self.lineage(name, occurrence))
        return any(phase.hidden for phase in declared if phase)


def semantics_by_run(runs: pd.DataFrame | Rows) -> dict[str, RunSemantics]:
    """Return the semantics of each run of table `runs`, by run id."""
    rows = zip(runs["run"], runs["format"], runs["config"], strict=True)
    return {run: run_semantics(name, config) for run, name, config in rows}


def run_semantics(name: str | None, config: str | None) -> RunSemantics:
    """Return the semantics of a run from the name of its format and its `config` as JSON."""
    values = json.loads(config) if isinstance(config, str) else {}
    form = formats().get(name) if isinstance(name, str) else None
    if form is None:
        return RunSemantics(None, values)
    numbers = RunSemantics(form, values).numbers
    quantities = {name: number for name, of in form.quantities.items() if (number := _first(of, numbers)) is not None}
    phases = {**_library_phases(), **{phase.name: phase for phase in form.phases}}
    return RunSemantics(form, values, phases, quantities, form.rates, form.flops)


@cache
def _library_phases() -> dict[str, Phase]:
    """Phases that libraries print in the logs of all programs. Forward and backward differ from program to program."""
    phases = (phase for form in formats().values() if form.library for phase in form.phases)
    return {phase.name: phase for phase in phases if phase.name not in WHOLES}


@lru_cache
def ending_shapes(form: Format | None) -> frozenset[str]:
    """Return the shapes of the lines that end a run of a format; empty if it declares none."""
    lines = form.lines if form else ()
    return frozenset(x.template.text for x in lines if x.closes == "run" or x.table == "summaries")


def _first(expressions: Iterable[Expression], numbers: Mapping[str, float]) -> float | None:
    """Return the value of the first expression of known numbers; None if there is none."""
    return next((value for each in expressions if (value := evaluate(each, numbers)) is not None), None)


def evaluate(expression: Expression, numbers: Mapping[str, float]) -> float | None:
    """Return the value of an expression; None if a number is not known or the result is not finite."""
    if any(name not in numbers for name in expression.names):
        return None
    try:
        value = float(expression(numbers))
    except (ArithmeticError, ValueError):
        return None
    return value if math.isfinite(value) else None
