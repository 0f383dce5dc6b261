"""The linter: which numbers of a log cannot be trusted, and why: `perflog.lint(log)`.

`RULES` has all rules; docs/lint.md is their page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Never

from perflog.analysis.lint.registry import RULES, SEVERITIES, Finding, LintInput, LintRule, Severity
from perflog.metrics.options import Options
from perflog.metrics.run_tables import Tables, tables_of
from perflog.opening.given_runs import Given
from perflog.tables.nulls import nullable_frame

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "RULES", "SEVERITIES", "Finding", "LintRule", "Severity", "findings", "lint"]

for _module in (
    "losses", "consistency", "summaries", "step_times", "step_parts", "steps", "workload", "ranks", "profiles",
    "log_lines", "endings", "servers", "recordings", "traces",
):  # fmt: skip
    import_module(f"{__name__}.{_module}")  # registers its rules; docs/lint.md has them in this order

COLUMNS = ("run", "line", "part", "code", "severity", "message", "first_line", "evidence", "action")
"""Columns of the table that `lint` returns."""


def findings(log: Given | Tables | Mapping[str, pd.DataFrame], options: Options | None = None) -> list[Finding]:
    """Return all findings, run by run, the most severe first."""
    data = LintInput(tables_of(log), options or Options())
    order = {run.id: i for i, run in enumerate(data.runs)}
    unsorted = [finding for rule in RULES.values() for finding in rule(data)]
    return sorted(unsorted, key=lambda f: (order[f.run], SEVERITIES.index(f.severity or "note"), f.first_line, f.code))


def lint(
    log: Given,
    *,
    warmup: int | None = None,
    gpu: str | None = None,
    peak_tflops: float | None = None,
    flops: str | None = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Check which numbers of a log cannot be trusted.

    Args:
        log: What `perflog.read` or `perflog.load` returns, or its tables by name; or a path, a glob, a DataFrame, a
            list of these, or a mapping of names to them. Its runs are also compared with one another.
        warmup: Number of steps to cut at the start of each run. Default: detected from the step times.
        gpu: Name of the GPU, such as "H100 SXM": rates above its peak are then found.
        peak_tflops: Dense peak of one GPU in TFLOP/s, instead of the peak that perflog knows for `gpu`.
        flops: Id of the FLOP convention. Default: the one that the log's format declares.
        **unknown: Nothing: any other keyword raises UsageError, which names the nearest option.

    Returns:
        One row per finding, run by run, the most severe first. Columns: run, line, part (always 0), code, severity
        (error: a number is wrong; warning: a number misleads; note: a fact to know), message, first_line (same as
        line), evidence (JSON: lines that prove it by run, their count, and the values in base units), action (what to
        do).

    Raises:
        UsageError: The GPU, the FLOP convention or an option is not known.

    Example:
        >>> log = perflog.find_runs("reference:moe_layer_early.txt")
        >>> table = perflog.lint(log)
        >>> table[table.code == "backward-short"].message.item()
        'backward takes 0.10 of forward...'
    """
    import pandas as pd

    options = Options.of(warmup=warmup, gpu=gpu, peak_tflops=peak_tflops, flops=flops, **unknown)
    rows = [
        (f.run, f.first_line, 0, f.code, f.severity, f.message, f.first_line, json.dumps(f.evidence), f.action)
        for f in findings(log, options)
    ]
    return nullable_frame(pd.DataFrame(rows, columns=list(COLUMNS)))
