"""What cannot be trusted in a log, and why: `perflog.lint(log)`.

`RULES` names all that is looked for; docs/lint.md is its page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from perflog.analysis.lint.registry import RULES, SEVERITIES, Finding, Rule, Severity
from perflog.analysis.lint.view import Seen
from perflog.metrics.registry import Options, Tables

if TYPE_CHECKING:
    import pandas as pd

    from perflog.log import Log

__all__ = ["COLUMNS", "RULES", "SEVERITIES", "Finding", "Rule", "Severity", "findings", "lint"]

for _family in (
    "identities", "summaries", "times", "parts", "steps", "work", "models", "ranks", "profiles", "ranges", "reading",
    "traces",
):  # fmt: skip
    import_module(f"{__name__}.{_family}")  # its rules enter RULES; docs/lint.md has them in this order

COLUMNS = ("run", "line", "part", "code", "severity", "message", "first_line", "evidence", "action")
"""Columns of what `lint` returns: those of table `findings`, and what to do."""


def findings(log: Log | Tables | Mapping[str, pd.DataFrame], options: Options | None = None) -> list[Finding]:
    """All findings, run by run, the gravest first."""
    seen = Seen(log if isinstance(log, Tables) else Tables(log), options or Options())
    place = {run.id: i for i, run in enumerate(seen.runs)}
    found = [f for rule in RULES.values() for f in rule(seen)]
    return sorted(found, key=lambda f: (place[f.run], _grave(f), f.first_line, f.code))


def lint(log: Log | Tables | Mapping[str, pd.DataFrame], **options: Any) -> pd.DataFrame:
    """What the linter finds in a log: table `findings`, and `action`, what to do.

    One row per finding; `evidence` is JSON: lines of the log that prove it by run, their number, and the values, in
    base units. Keyword arguments are the fields of `perflog.metrics.Options`: `peak_tflops` or `gpu` allow to look for
    rates that no device reaches.
    """
    import pandas as pd

    return pd.DataFrame(_rows(findings(log, Options.of(**options))), columns=list(COLUMNS))


def _rows(found: Iterable[Finding]) -> list[tuple[object, ...]]:
    return [
        (f.run, f.first_line, 0, f.code, f.severity, f.message, f.first_line, json.dumps(f.evidence), f.action)
        for f in found
    ]


def _grave(finding: Finding) -> int:
    return SEVERITIES.index(finding.severity or "note")
