"""Comparison of runs with statistics that hold for training logs: `perflog.compare("before.txt", "after.txt")`."""

from perflog.comparison.aa import aa
from perflog.comparison.outcome import Comparison, compare
from perflog.comparison.outputs import bencher, github_action_benchmark
from perflog.comparison.verdicts import Rule

__all__ = ["Comparison", "Rule", "aa", "bencher", "compare", "github_action_benchmark"]
