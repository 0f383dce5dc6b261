"""Building blocks of plots: the decorator `plot`, the class `Plot`, and the list of all plots.

A plot is a function that draws the rows of a metric's table. The decorator puts title, caption and metric beside the
function, and gives it the signature and the documentation that users see.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from perflog.errors import UsageError, did_you_mean
from perflog.metrics import METRICS, Metric, Options, Tables, get
from perflog.metrics.registry import call_signature, show_as_function
from perflog.metrics.run_tables import cached, merge_tables
from perflog.plots.drawing.canvas import Canvas, Size
from perflog.plots.drawing.sketch import Sketch
from perflog.plots.drawing.style import styled

if TYPE_CHECKING:
    from typing import Never

    import pandas as pd
    from matplotlib.figure import Figure

    from perflog.opening.given_runs import Given


class Plot(Struct, frozen=True, eq=False, dict=True):
    """A plot, called like a function: `perflog.plots.steps(log)` returns a matplotlib Figure.

    `help()` and `inspect.signature()` of a plot show its keywords and an example.

    Attributes:
        name: Name of the plot, as in `PLOTS` and on the command line.
        title: Title of the figure.
        caption: What the figure shows, in one sentence.
        metric: Name of the metric that it draws.
        select: The function that chooses the rows of this table that are drawn.
        draw: The function from these rows to the figure.
    """

    name: str
    title: str
    caption: str
    metric: str
    select: Callable[[pd.DataFrame], pd.DataFrame]
    draw: Callable[[pd.DataFrame, Canvas], Figure]

    def __post_init__(self) -> None:
        show_as_function(self, self.draw, _documentation(self), _signature())

    def __repr__(self) -> str:
        return f"<plot {self.name}: {self.title}; draws metric {self.metric}>"

    @property
    def needs(self) -> tuple[str, ...]:
        """Tables that must have rows; else there is nothing to draw."""
        return get(self.metric).needs

    def __call__(
        self,
        *logs: Given | Tables | Mapping[str, pd.DataFrame],
        size: Size | None = None,
        warmup: int | None = None,
        gpu: str | None = None,
        peak_tflops: float | None = None,
        flops: str | None = None,
        level: float = 0.95,
        **unknown: Never,
    ) -> Figure:
        """Return the figure of all runs of the logs.

        Args:
            *logs: What `perflog.read` or `perflog.load` returns, or its tables by name; or paths, globs, DataFrames,
                lists of these. A run that several of them hold counts once.
            size: Width and height in inches. None: chosen to fit the content.
            warmup: Number of steps to cut at the start of each run. None: detected from the step times.
            gpu: Name of the GPU that gives the peak for MFU, such as "H100 SXM". None: no MFU.
            peak_tflops: Dense peak of one GPU in TFLOP/s, instead of the peak that perflog knows for `gpu`.
            flops: Id of the FLOP convention. None: the convention that the log's format declares.
            level: Confidence level of intervals.
            **unknown: Nothing: any other keyword raises UsageError, which names the nearest option.

        Returns:
            A matplotlib Figure. A notebook shows it; `perflog.plots.save` writes it to a file.

        Raises:
            UsageError: If the logs have nothing to draw, the size is too small, or an option does not exist.
        """
        values = {"warmup": warmup, "gpu": gpu, "peak_tflops": peak_tflops, "flops": flops, "level": level}
        tables, options = merge_tables(logs), Options.of(**values, **unknown)
        return self.drawn(self.rows_to_draw(tables, options), tables, options, size)

    def rows_to_draw(self, tables: Tables, options: Options) -> pd.DataFrame:
        """Return the rows of the metric that are drawn. Raises UsageError if there are none."""
        rows = self.rows(tables, options)
        if not len(rows):
            reason = f"there is nothing to draw for `{self.name}`: {self._missing(tables)}"
            raise UsageError(reason, help=_other_plots(tables, options))
        return rows

    def drawn(self, rows: pd.DataFrame, tables: Tables, options: Options, size: Size | None = None) -> Figure:
        """Return the figure of some rows of the metric."""
        if size is not None and not all(edge > 0 for edge in size):
            raise _does_not_fit(*size)
        with styled():
            figure = self.draw(rows, Canvas(self.title, tables, options, size))
            _lay_out(figure)
        return figure

    def sketched(
        self, rows: pd.DataFrame, tables: Tables, options: Options, window: tuple[float, float] | None = None
    ) -> Sketch:
        """Return the figure of some rows of the metric as data, which a page draws.

        `window`: begin and end of the part of the x-axis that long curves have in detail.
        """
        return cast("Sketch", self.draw(rows, Canvas(self.title, tables, options, sketched=True, window=window)))

    def rows(self, tables: Tables, options: Options) -> pd.DataFrame:
        """Return the rows of the metric that are drawn."""
        return self.select(get(self.metric).table(tables, options))

    def _missing(self, tables: Tables) -> str:
        empty = [f"`{name}`" for name in self.needs if not tables.count(name)]
        return f"no rows in table {', '.join(empty)}" if empty else f"metric `{self.metric}` has no rows for it"


class PlotList(dict[str, Plot]):
    """Plots by name. It prints itself as one line of names."""

    def __repr__(self) -> str:
        return f"<{len(self)} plots: {', '.join(self)}>"


PLOTS = PlotList()
"""All plots by name."""


def plot(
    title: str, caption: str, metric: Metric | str, select: Callable[[pd.DataFrame], pd.DataFrame] = lambda rows: rows
) -> Callable[[Callable[[pd.DataFrame, Canvas], Figure]], Plot]:
    """Make a function the plot of its name, and add it to `PLOTS`.

    The docstring of the function: what the figure shows, then what the reader has to know, then `Example:`. Arguments
    are added to it.
    """

    def decorate(draw: Callable[[pd.DataFrame, Canvas], Figure]) -> Plot:
        metric_name = metric if isinstance(metric, str) else metric.name
        decorated = PLOTS[draw.__name__] = Plot(draw.__name__, title, caption, metric_name, select, draw)
        return decorated

    return decorate


def kind(name: str) -> Plot:
    """Return a plot by name. Raises UsageError that names the nearest plot for an unknown name."""
    if name not in PLOTS:
        help = did_you_mean(name, PLOTS, f"there are: {', '.join(PLOTS)}")
        raise UsageError(f"there is no plot `{name}`", help=help)
    return PLOTS[name]


def possible(*logs: Given | Tables | Mapping[str, pd.DataFrame], **options: Any) -> list[Plot]:
    """Return the plots that have something to draw in the logs.

    Args:
        *logs: Logs, or tables by name.
        **options: Options of the metrics: the fields of `perflog.metrics.Options`.

    Raises:
        UsageError: If an option does not exist.

    Example:
        >>> [plot.name for plot in perflog.plots.possible(perflog.find_runs("reference:nvprof.txt"))]
        ['breakdown', 'kernels', 'ranges']
    """
    return list(_possible(merge_tables(logs), Options.of(**options)))


def _possible(tables: Tables, options: Options) -> list[Plot]:
    """Return the plots that have something to draw. They are looked for once."""
    every = tuple(plot for plot in PLOTS.values() if plot.metric in METRICS)
    key = ("possible plots", *(plot.name for plot in every), options)
    return cached(tables, key, lambda: [plot for plot in every if len(plot.rows(tables, options))])


def _lay_out(figure: Figure) -> None:
    """Draw the figure once without output: matplotlib makes ticks only when it draws, and here the style holds."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "constrained_layout not applied")
        try:
            figure.draw_without_rendering()
        except UserWarning as too_small:
            raise _does_not_fit(*figure.get_size_inches()) from too_small


def _does_not_fit(width: float, height: float) -> UsageError:
    help = "leave the size out: it is then chosen to fit"
    return UsageError(f"the figure does not fit into {width:g} x {height:g} inches", help=help)


def _other_plots(tables: Tables, options: Options) -> str:
    names = [plot.name for plot in _possible(tables, options)]
    return f"possible: {', '.join(names)}" if names else "no plot is possible for it"


def _signature() -> inspect.Signature:
    """Return the signature of a call of a plot."""
    return call_signature(Plot.__call__, {"size": Size | None})


def _documentation(plot: Plot) -> str:
    """Docstring of a plot: of its function, with the sections of `Plot.__call__` before the example."""
    text, _, example = (inspect.getdoc(plot.draw) or "").partition("\nExample:\n")
    types = {name: inspect.formatannotation(p.annotation).strip("'") for name, p in _signature().parameters.items()}
    _, _, call = (inspect.getdoc(Plot.__call__) or "").partition("\n\n")
    call = re.sub(r"\n    \*\*unknown: .*", "", call)
    call = re.sub(r"(?m)^    \*?(\w+)(?=: )", lambda m: f"{m[0]} ({types[m[1]]})" if m[1] in types else m[0], call)
    sections = [text.strip(), f"The numbers come from `perflog.metrics.{plot.metric}`.", call]
    return "\n\n".join([*sections, *([f"Example:\n{example}"] if example else [])]) + "\n"
