"""Comparison of runs with statistics that hold for training logs: `perflog.compare("before.txt", "after.txt")`."""

from perflog.analysis.compare.aa import aa
from perflog.analysis.compare.outcome import Comparison, compare
from perflog.analysis.compare.outputs import bencher, github_action_benchmark
from perflog.analysis.compare.verdicts import Rule

__all__ = ["Comparison", "Rule", "aa", "bencher", "compare", "github_action_benchmark"]
