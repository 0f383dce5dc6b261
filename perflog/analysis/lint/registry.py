"""What a rule of the linter is: a pure function from what was read of runs to findings, with its meaning beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from perflog.analysis.lint.view import Seen

Severity = Literal["error", "warning", "note"]

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""The gravest first. error: a number is wrong; warning: a number misleads; note: a fact to know."""

_LISTED = 10  # lines that are listed of each run; their number is told


@dataclass(frozen=True)
class Finding:
    """One thing that was found in a run, or in runs together (then `run` is the first of them).

    `lines`: the lines of the log that prove it, by run id. `numbers`: the values that prove it, in base units.
    A rule gives a severity only where it is not its own; code, severity and action are filled in from the rule.
    """

    run: str
    message: str
    lines: Mapping[str, Iterable[int]]
    numbers: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity | None = None
    code: str = ""
    action: str = ""

    @property
    def first_line(self) -> int:
        """First of the lines of `run` that prove it."""
        return min(map(int, self.lines[self.run]))

    @property
    def evidence(self) -> dict[str, Any]:
        """The first lines of each run, how many there are in all, and the numbers."""
        every = {run: sorted({int(x) for x in lines}) for run, lines in self.lines.items()}
        count = sum(map(len, every.values()))
        return {"lines": {run: x[:_LISTED] for run, x in every.items()}, "count": count, **_plain(self.numbers)}


def _plain(value: Any) -> Any:
    """What JSON can hold: Python numbers, null for what is no number."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, eq=False)
class Rule:
    """A rule, called with what was read.

    `title` says what is found, `why` why it matters, `action` what to do. `needs`: tables without whose rows there is
    nothing to look at. `severity` is that of its gravest finding.
    """

    code: str
    severity: Severity
    title: str
    why: str
    action: str
    needs: tuple[str, ...]
    look: Callable[[Seen], Iterator[Finding]] = field(repr=False)

    def __call__(self, seen: Seen) -> list[Finding]:
        """All its findings."""
        if any(not len(seen.tables[name]) for name in self.needs):
            return []
        return [
            replace(f, code=self.code, severity=f.severity or self.severity, action=self.action)
            for f in self.look(seen)
        ]


RULES: dict[str, Rule] = {}
"""All rules, by code."""


def rule(
    code: str, severity: Severity, title: str, why: str, action: str, needs: tuple[str, ...]
) -> Callable[[Callable[[Seen], Iterator[Finding]]], Rule]:
    """Register a function as the rule of that code."""

    def register(look: Callable[[Seen], Iterator[Finding]]) -> Rule:
        assert code not in RULES, code
        RULES[code] = Rule(code, severity, title, why, action, needs, look)
        return RULES[code]

    return register
