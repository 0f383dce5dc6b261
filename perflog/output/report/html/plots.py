"""The sections of the plots."""

from __future__ import annotations

import base64
from itertools import accumulate

from perflog.output.report.data import PlotImage, ReportData
from perflog.output.report.html.elements import Html, join, link, tag
from perflog.output.report.job import has_jobs

_MAX_BYTES = 1_000_000  # of all images together


_FIRST, _MAX_HEIGHT = 2, 800  # plots above the folded details, and pixels of each


def first_plots(report: ReportData) -> Html:
    """Return the plots that are seen at once, as images with a link to the metric that they draw."""
    return join(map(_figure, _seen_plots(report)))


def more_plots(report: ReportData) -> Html:
    """Return the other plots, and a note on those left out because the page would be too heavy."""
    light, seen = _light_plots(report), [*_seen_plots(report), *_of_jobs(report)]
    left_out = len(report.plots) - len(light)
    note = tag("p", f"{left_out} more: perflog plot RUN lists them", class_="more") if left_out else ""
    return join((*(_figure(image) for image in light if image not in seen), note))


def timeline_plots(report: ReportData) -> list[Html]:
    """Return the timeline of the jobs, which is in their section if they have one."""
    return list(map(_figure, _of_jobs(report)))


def _of_jobs(report: ReportData) -> list[PlotImage]:
    return [image for image in _light_plots(report) if image.metric == "timeline"] if has_jobs(report) else []


def _seen_plots(report: ReportData) -> list[PlotImage]:
    """The first plots that fit a screen; if none does, the first one, which answers more than a table of all runs."""
    light = [image for image in _light_plots(report) if image not in _of_jobs(report)]
    return [image for image in light if image.height <= _MAX_HEIGHT][:_FIRST] or light[:1]


def _light_plots(report: ReportData) -> list[PlotImage]:
    """The first plots that are together no heavier than a page may be."""
    sizes = accumulate(len(image.data) for image in report.plots)
    return [image for image, size in zip(report.plots, sizes, strict=True) if size <= _MAX_BYTES]


def _figure(image: PlotImage) -> Html:
    type = {"svg": "image/svg+xml", "png": "image/png"}[image.format]
    source = f"data:{type};base64,{base64.b64encode(image.data).decode()}"
    element = tag("img", src=source, alt=f"{image.title}: {image.caption}", width=image.width, height=image.height)
    caption = tag("figcaption", image.caption, ". ", link(f"metric-{image.metric}", "Go to the numbers"))
    return tag(
        "figure", tag("div", element, class_="scroll", tabindex=0, role="region", aria_label=image.title), caption
    )
