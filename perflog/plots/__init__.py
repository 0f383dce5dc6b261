"""Plots of metrics: `perflog.plots.steps(log)` returns a matplotlib Figure. A plot draws numbers and computes none.

`PLOTS` lists all plots; `possible(log)` the plots that have something to draw; `save(figure, "steps.png")` writes a
file. `help(perflog.plots.steps)` shows the keywords of a plot.
"""

from perflog.plots.drawing.files import render, save, suffix
from perflog.plots.registry import PLOTS, Plot, kind, possible

# Plots are listed in this order.
# isort: off
from perflog.plots.training.breakdown import breakdown
from perflog.plots.benchmarks.collectives import collectives
from perflog.plots.traces.counters import counters
from perflog.plots.traces.critical_path import critical_path
from perflog.plots.training.curves import curves
from perflog.plots.traces.devices import device_time
from perflog.plots.training.experts import hot_experts
from perflog.plots.benchmarks.history import history
from perflog.plots.training.job_timeline import timeline
from perflog.plots.traces.kernels import kernels
from perflog.plots.traces.launches import launch_queue, launches
from perflog.plots.traces.memory import memory_curve
from perflog.plots.benchmarks.node_pairs import node_pairs
from perflog.plots.training.phases import phases
from perflog.plots.training.pipeline import layers, schedule, schedules
from perflog.plots.traces.ranges import device_ranges, ranges
from perflog.plots.traces.rank_pairs import rank_pairs
from perflog.plots.training.ranks import imbalance, loads, wait
from perflog.plots.traces.roofline import roofline
from perflog.plots.benchmarks.scaling import scaling
from perflog.plots.benchmarks.server_loads import server_loads
from perflog.plots.training.step_times import distribution, steps
from perflog.plots.benchmarks.sweep import sweep
from perflog.plots.traces.trace_timeline import trace_timeline
from perflog.plots.training.waterfall import waterfall
from perflog.plots.training.whatif import whatif
# isort: on

__all__ = [
    "PLOTS", "Plot", "breakdown", "collectives", "counters", "critical_path", "curves", "device_ranges", "device_time",
    "distribution", "history", "hot_experts", "imbalance", "kernels", "kind", "launch_queue", "launches", "layers",
    "loads", "memory_curve", "node_pairs", "phases", "possible", "ranges", "rank_pairs", "render", "roofline", "save",
    "scaling", "schedule", "schedules", "server_loads", "steps", "suffix", "sweep", "timeline", "trace_timeline",
    "wait", "waterfall", "whatif",
]  # fmt: skip
