"""What a notebook shows of a log: its overview with the first plots, and `log.plot.steps()`.

They are the plots of a page, with its script and with its style inside class `perflog` alone. Where no script runs,
they are pictures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from perflog import plots
from perflog.analysis.overview import overview
from perflog.errors import UsageError
from perflog.metrics import Options, Tables
from perflog.output.report.data import PlotSketch
from perflog.output.report.html.elements import Html, join, tag
from perflog.output.report.html.plots import FIRST, figure, is_first
from perflog.output.report.html.resources import script, style
from perflog.output.report.sketches import sketched_plots
from perflog.plots import Plot

if TYPE_CHECKING:
    from perflog.log import Log

_HEIGHT = re.compile(r'<svg\b[^>]*? height="([\d.]+)"')


class LivePlot(Struct, frozen=True, eq=False):
    """A plot that a notebook shows: values under the pointer, zoom, entries of the legend on and off.

    `perflog.plots` has the same plots as figures of matplotlib, for files and papers.
    """

    drawn: PlotSketch

    def __repr__(self) -> str:
        return f"<live plot: {self.drawn.title}; a notebook shows it>"

    def _repr_html_(self) -> str:
        return live([self.drawn])


class PlotOfLog(Struct, frozen=True, eq=False, dict=True):
    """A plot of the runs of a log, called like a function."""

    plot: Plot
    log: Log

    def __post_init__(self) -> None:
        self.__dict__["__doc__"] = self.plot.draw.__doc__

    def __repr__(self) -> str:
        return f"<log.plot.{self.plot.name}(): {self.plot.title}>"

    def __call__(self, **options: Any) -> LivePlot:
        """Return the plot of all runs.

        Args:
            **options: Options of the metrics: warmup, gpu, peak_tflops, flops, level.

        Raises:
            UsageError: If there is nothing to draw, or an option does not exist.
        """
        tables, values = Tables(self.log), Options.of(**options)
        plot, rows = self.plot, self.plot.rows_to_draw(tables, values)
        sketch = plot.sketched(rows, tables, values)
        return LivePlot(PlotSketch(plot.name, plot.title, plot.caption, plot.metric, sketch))


class LivePlots:
    """The plots of a log: `log.plot.steps()`. `dir(log.plot)` has those that have something to draw."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def __getattr__(self, name: str) -> PlotOfLog:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return PlotOfLog(plots.kind(name), self._log)
        except UsageError as error:
            raise AttributeError(f"{error.reason}; {error.help}", name=name, obj=None) from None

    def __dir__(self) -> list[str]:
        return [plot.name for plot in plots.possible(self._log)]

    def __repr__(self) -> str:
        captions = {f"log.plot.{name}()": plots.PLOTS[name].caption for name in dir(self)}
        width = max(map(len, captions), default=0)
        rows = [f"{call:<{width}}  {caption}" for call, caption in captions.items()]
        return "\n".join(rows) or "<no plot has anything to draw>"


def plots_of(log: Log) -> LivePlots:
    """Return the plots of a log."""
    return LivePlots(log)


def overview_html(log: Log) -> str:
    """Return the overview of a log and its first plots, as its page has them."""
    drawn = filter(is_first, sketched_plots(Tables(log), Options()))
    return f"{overview(log)._repr_html_()}{live(list(islice(drawn, FIRST)))}"


def live(drawn: Iterable[PlotSketch]) -> Html:
    """Return plots with their style and script, for the output of a cell."""
    figures = join(figure(plot, _name(plot)) for plot in drawn)
    if not figures:
        return figures
    inside = style("pictures") + _BASE + _heights(figures)
    sheet = f"{style('colors').replace(':root', '.perflog')}.perflog {{ {inside} }}"
    return tag("div", tag("style", Html(sheet)), figures, tag("script", Html(script("pictures"))), class_="perflog")


_BASE = """
font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); padding: .1rem .75rem;
figcaption { font-size: 13px; }
"""


def _heights(figures: str) -> str:
    """Rules that keep the heights of pictures: notebooks give all of them `height: auto`."""
    heights = sorted(set(_HEIGHT.findall(figures)), key=float)
    return "".join(f'svg[height="{height}"] {{ height: {height}px; }}' for height in heights)


def _name(plot: PlotSketch) -> str:
    """A name for the parts of a plot that no other output of the notebook has, unless it is the same plot."""
    return f"p{sha256(figure(plot, 'p').encode()).hexdigest()[:10]}"
