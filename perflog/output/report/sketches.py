"""The plots of runs as data, in the order of a page."""

from __future__ import annotations

from collections.abc import Iterator

from perflog import plots
from perflog.metrics import METRICS, Metric, Options, Tables
from perflog.output.report.data import PlotSketch
from perflog.plots import Plot
from perflog.tables.schema import TABLES

_DRAWN_BY_THE_PAGE = "waterfall"  # as bars of its first table, so that the plots at the top can show something else

TIMELINE_OF_TRACES = "trace_timeline"
"""The metric of the first plot of traces."""


def sketched_plots(tables: Tables, options: Options) -> Iterator[PlotSketch]:
    """Yield all plots that show more than one value, each drawn when it is asked for."""
    known = [plot for plot in plots.PLOTS.values() if plot.metric in METRICS]
    for plot in sorted(known, key=_place):
        drawn = sketched(plot, tables, options)
        if drawn is not None and drawn.sketch.is_informative:
            yield drawn


def _place(plot: Plot) -> tuple[bool, int, bool]:
    last, order = plot.metric == _DRAWN_BY_THE_PAGE, metric_order(METRICS[plot.metric])
    return last, order, plot.metric != TIMELINE_OF_TRACES


def sketched(plot: Plot, tables: Tables, options: Options) -> PlotSketch | None:
    """Return a plot as data; None if it has nothing to draw."""
    rows = plot.rows(tables, options)
    if not len(rows):
        return None
    return PlotSketch(plot.name, plot.title, plot.caption, plot.metric, plot.sketched(rows, tables, options))


def metric_order(metric: Metric) -> int:
    """Return the sort key of a metric: the index of its first table, so that steps come before phases and kernels."""
    return min((list(TABLES).index(name) for name in metric.needs), default=len(TABLES))
