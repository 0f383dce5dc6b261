"""The sections of the plots."""

from __future__ import annotations

from perflog.output.report.data import PlotSketch, ReportData
from perflog.output.report.html.elements import Html, join, link, tag
from perflog.output.report.html.pictures import picture
from perflog.output.report.job import has_jobs
from perflog.output.report.sketches import TIMELINE_OF_TRACES

FIRST = 2
"""Plots above the folded details."""

_MAX_HEIGHT = 800  # pixels of each


def first_plots(report: ReportData) -> Html:
    """Return the plots that are seen at once, each with a link to the metric that it draws."""
    return join(_figure(plot, report) for plot in _seen_plots(report))


def more_plots(report: ReportData) -> Html:
    """Return the other plots, and a note on those left out because the page would be too heavy."""
    light, seen = report.light_plots, [*_seen_plots(report), *_of_jobs(report)]
    left_out = len(report.plots) - len(light)
    note = tag("p", f"{left_out} more: perflog plot RUN lists them", class_="more") if left_out else ""
    return join((*(_figure(plot, report) for plot in light if plot not in seen), note))


def timeline_plots(report: ReportData) -> list[Html]:
    """Return the timeline of the jobs, which is in their section if they have one."""
    return [_figure(plot, report) for plot in _of_jobs(report)]


def _of_jobs(report: ReportData) -> list[PlotSketch]:
    return [plot for plot in report.light_plots if plot.metric == "timeline"] if has_jobs(report) else []


def _seen_plots(report: ReportData) -> list[PlotSketch]:
    """The timeline of traces, and the first plots that fit a screen; if none does, the first one.

    One that does not fit still answers more than a table of all runs.
    """
    light = [plot for plot in report.light_plots if plot not in _of_jobs(report)]
    timelines = [plot for plot in light if plot.metric == TIMELINE_OF_TRACES]
    others = [plot for plot in light if plot.metric != TIMELINE_OF_TRACES]
    return [*timelines, *(list(filter(is_first, others))[:FIRST] or others[:1])]


def _figure(plot: PlotSketch, report: ReportData) -> Html:
    in_perfetto = [". ", *_IN_PERFETTO] if plot.metric == TIMELINE_OF_TRACES else []
    numbers = link(f"metric-{plot.metric}", "Go to the numbers")
    return figure(plot, f"p{report.plots.index(plot)}", ". ", numbers, *in_perfetto)


_IN_PERFETTO = (
    "Every event, in Perfetto: ", tag("code", "perflog export RUN --to perfetto"), " writes a file with these tracks; ",
    tag("a", "ui.perfetto.dev", href="https://ui.perfetto.dev", rel="noreferrer"),
    " opens it (and most traces as they are) without sending it anywhere",
)  # fmt: skip


def figure(plot: PlotSketch, name: str, *after: object) -> Html:
    """Return a plot with its title and its caption; `name`: of its parts; `after`: what follows the caption."""
    drawn = picture(plot.sketch, name, plot.title)
    title, caption = tag("h3", plot.title, class_="plot-title"), tag("figcaption", plot.caption, *after)
    return tag("figure", title, drawn, caption, data_plot=plot.name)


def is_first(plot: PlotSketch) -> bool:
    """Whether a plot fits a screen together with what is above it."""
    return plot.height <= _MAX_HEIGHT
