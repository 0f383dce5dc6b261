"""Comparison of runs with statistics that hold for training logs: `perflog.compare("before.txt", "after.txt")`.

docs/compare.md explains how a verdict is reached.
"""

from perflog.analysis.compare.aa import aa, power
from perflog.analysis.compare.ci_formats import bencher, github_action_benchmark
from perflog.analysis.compare.comparing import compare
from perflog.analysis.compare.comparison import Comparison
from perflog.analysis.compare.gates import (
    CANNOT_JUDGE,
    Gate,
    GateFailure,
    GateResult,
    exit_code,
    failures,
    results,
    with_gates,
    without_result,
)
from perflog.analysis.compare.verdicts import VerdictRule

__all__ = [
    "CANNOT_JUDGE",
    "Comparison",
    "Gate",
    "GateFailure",
    "GateResult",
    "VerdictRule",
    "aa",
    "bencher",
    "compare",
    "exit_code",
    "failures",
    "github_action_benchmark",
    "power",
    "results",
    "with_gates",
    "without_result",
]
