"""The field's metrics, each a pure function from tables to a table: `perflog.metrics.steps(log)`.

`METRICS` names them all, with units, formulas and sources.
"""

from perflog.metrics.communication import communication
from perflog.metrics.imbalance import imbalance, imbalance_steps
from perflog.metrics.kernels import kernels
from perflog.metrics.matmul_efficiency import products
from perflog.metrics.phases import phases
from perflog.metrics.pipeline import layers, pipeline, stages
from perflog.metrics.ranges import ranges
from perflog.metrics.registry import METRICS, Column, Metric, Options, Tables, get
from perflog.metrics.steps import steps
from perflog.metrics.sweep import sweep
from perflog.metrics.throughput import throughput
from perflog.metrics.traces.device_kernels import device_kernels
from perflog.metrics.traces.device_time import device_time
from perflog.metrics.traces.stragglers import collective_wait, stragglers
from perflog.metrics.wait import wait, wait_steps

_FIRST = (
    "steps", "throughput", "phases", "wait", "imbalance", "communication",
    "device_time", "stragglers", "collective_wait", "device_kernels",
)  # fmt: skip
for _name in (*_FIRST, *[name for name in METRICS if name not in _FIRST]):  # in the order a reader asks
    METRICS[_name] = METRICS.pop(_name)

__all__ = [
    "METRICS",
    "Column",
    "Metric",
    "Options",
    "Tables",
    "collective_wait",
    "communication",
    "device_kernels",
    "device_time",
    "get",
    "imbalance",
    "imbalance_steps",
    "kernels",
    "layers",
    "phases",
    "pipeline",
    "products",
    "ranges",
    "stages",
    "steps",
    "stragglers",
    "sweep",
    "throughput",
    "wait",
    "wait_steps",
]
