"""Plots of metrics: `perflog.plots.steps(log)` returns a matplotlib Figure. A plot draws numbers and computes none.

`PLOTS` lists all plots; `possible(log)` the plots that have something to draw; `save(figure, "steps.png")` writes a
file. `help(perflog.plots.steps)` shows the keywords of a plot.
"""

from perflog.plots.breakdown import breakdown
from perflog.plots.collectives import collectives
from perflog.plots.counters import counters
from perflog.plots.critical_path import critical_path
from perflog.plots.curves import curves
from perflog.plots.devices import device_time
from perflog.plots.experts import hot_experts
from perflog.plots.files import render, save, suffix
from perflog.plots.history import history
from perflog.plots.job_timeline import timeline
from perflog.plots.kernels import kernels
from perflog.plots.launches import launch_queue, launches
from perflog.plots.memory import memory_curve
from perflog.plots.node_pairs import node_pairs
from perflog.plots.phases import phases
from perflog.plots.pipeline import layers, schedule, schedules
from perflog.plots.ranges import device_ranges, ranges
from perflog.plots.rank_pairs import rank_pairs
from perflog.plots.ranks import imbalance, loads, wait
from perflog.plots.registry import PLOTS, Plot, kind, possible
from perflog.plots.roofline import roofline
from perflog.plots.scaling import scaling
from perflog.plots.step_times import distribution, steps
from perflog.plots.sweep import sweep
from perflog.plots.trace_timeline import trace_timeline
from perflog.plots.waterfall import waterfall
from perflog.plots.whatif import whatif

__all__ = [
    "PLOTS",
    "Plot",
    "breakdown",
    "collectives",
    "counters",
    "critical_path",
    "curves",
    "device_ranges",
    "device_time",
    "distribution",
    "history",
    "hot_experts",
    "imbalance",
    "kernels",
    "kind",
    "launch_queue",
    "launches",
    "layers",
    "loads",
    "memory_curve",
    "node_pairs",
    "phases",
    "possible",
    "ranges",
    "rank_pairs",
    "render",
    "roofline",
    "save",
    "scaling",
    "schedule",
    "schedules",
    "steps",
    "suffix",
    "sweep",
    "timeline",
    "trace_timeline",
    "wait",
    "waterfall",
    "whatif",
]
