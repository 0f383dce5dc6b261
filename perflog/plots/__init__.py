"""Figures of metrics: `perflog.plots.steps(log)` gives a matplotlib Figure. A plot computes nothing.

`PLOTS` names them all.
"""

from perflog.plots.devices import device_time
from perflog.plots.files import render, save, suffix
from perflog.plots.kernels import kernels, ranges
from perflog.plots.phases import phases
from perflog.plots.pipeline import layers, timeline
from perflog.plots.ranks import imbalance, load, wait
from perflog.plots.registry import PLOTS, Plot, kind, possible
from perflog.plots.sweep import sweep
from perflog.plots.times import distribution, steps

__all__ = [
    "PLOTS",
    "Plot",
    "device_time",
    "distribution",
    "imbalance",
    "kernels",
    "kind",
    "layers",
    "load",
    "phases",
    "possible",
    "ranges",
    "render",
    "save",
    "steps",
    "suffix",
    "sweep",
    "timeline",
    "wait",
]
