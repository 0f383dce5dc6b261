"""The field's metrics, each a pure function from tables to a table: `perflog.metrics.steps(log)`.

`METRICS` names them all, with units, formulas and sources.
"""

from perflog.metrics.registry import METRICS, Column, Metric, Options, Tables, get
from perflog.metrics.steps import steps

__all__ = ["METRICS", "Column", "Metric", "Options", "Tables", "get", "steps"]
