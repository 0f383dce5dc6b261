"""Findings of a single rule on rows of tables that are made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.metrics_logs import by_hand

from perflog.analysis.lint import RULES, Finding
from perflog.analysis.lint.registry import LintInput
from perflog.metrics.options import Options
from perflog.metrics.run_tables import Tables

TableRow = dict[str, Any]


def linted(code: str, rows: Sequence[TableRow], **run: Any) -> list[Finding]:
    """The findings of a rule on run `r` of these rows, each with the name of its `table`; `run`: columns of `runs`."""
    frames = by_hand("steps", rows)
    usual = {"log": "a.txt", "first_line": 1, "last_line": len(rows), "config": "{}"}
    columns = {name: [value] * len(frames["runs"]) for name, value in (usual | run).items()}
    return RULES[code](LintInput(Tables(frames | {"runs": frames["runs"].assign(**columns)}), Options()))


def messages(code: str, rows: Sequence[TableRow], **run: Any) -> list[str]:
    return [finding.message for finding in linted(code, rows, **run)]


def steps(*numbers: int, **more: Any) -> list[TableRow]:
    """Step lines of these numbers, of a second each."""
    return [{"table": "steps", "step": number, "step_time_s": 1.0, **more} for number in numbers]
