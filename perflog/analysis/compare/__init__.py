"""Comparison of runs with statistics that hold for training logs: `perflog.compare("before.txt", "after.txt")`.

docs/compare.md explains how a verdict is reached.
"""

from perflog.analysis.compare.aa import aa, power
from perflog.analysis.compare.ci_formats import bencher, github_action_benchmark
from perflog.analysis.compare.comparison import Comparison, compare
from perflog.analysis.compare.gates import Gate, GateFailure, GateResult, failures, results, with_gates, without_result
from perflog.analysis.compare.verdicts import VerdictRule

__all__ = [
    "Comparison",
    "Gate",
    "GateFailure",
    "GateResult",
    "VerdictRule",
    "aa",
    "bencher",
    "compare",
    "failures",
    "github_action_benchmark",
    "power",
    "results",
    "with_gates",
    "without_result",
]
