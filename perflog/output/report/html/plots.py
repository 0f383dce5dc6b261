"""The section of the plots."""

from __future__ import annotations

import base64

from perflog.output.report.data import PlotImage, ReportData
from perflog.output.report.html.elements import Html, link, tag

_MAX_BYTES = 1_000_000  # of all images together


OPEN = 2
"""Plots above the folded details."""


def plot_images(report: ReportData) -> list[Html]:
    """Return the plots as images, each with a link to the metric that it draws, and a note on those left out."""
    figures, size = [], 0
    for image in report.plots:
        size += len(image.data)
        if size <= _MAX_BYTES:
            figures.append(_figure(image))
    left_out = len(report.plots) - len(figures)
    return [*figures, *[tag("p", f"{left_out} more: perflog plot RUN lists them", class_="more")] * bool(left_out)]


def _figure(image: PlotImage) -> Html:
    type = {"svg": "image/svg+xml", "png": "image/png"}[image.format]
    source = f"data:{type};base64,{base64.b64encode(image.data).decode()}"
    element = tag("img", src=source, alt=f"{image.title}: {image.caption}", width=image.width, height=image.height)
    caption = tag("figcaption", image.caption, ". ", link(f"metric-{image.metric}", "Go to the numbers"))
    return tag(
        "figure", tag("div", element, class_="scroll", tabindex=0, role="region", aria_label=image.title), caption
    )
