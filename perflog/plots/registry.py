"""What a plot is: a function that draws the table of a metric, and what it needs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perflog.errors import UsageError, did_you_mean
from perflog.metrics import METRICS, Metric, Options, Tables, get
from perflog.metrics.registry import merge_tables
from perflog.plots.canvas import Canvas, Size
from perflog.plots.style import styled

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from perflog.log import Log


@dataclass(frozen=True, eq=False)
class Plot:
    """A kind of figure, called with one log or several: `perflog.plots.steps(log)` gives a matplotlib Figure.

    It draws the rows of `metric` that pass `rows`. `draw(found, canvas)` gets these rows.
    """

    name: str
    title: str
    says: str
    metric: str
    rows: Callable[[pd.DataFrame], pd.DataFrame] = field(repr=False)
    draw: Callable[[pd.DataFrame, Canvas], Figure] = field(repr=False)

    @property
    def needs(self) -> tuple[str, ...]:
        """Tables without whose rows there is nothing to draw."""
        return get(self.metric).needs

    def __call__(
        self, *logs: Log | Tables | Mapping[str, pd.DataFrame], size: Size | None = None, **options: Any
    ) -> Figure:
        """The figure of all runs of the logs. `size` is (width, height) in inches, by default what the content needs.

        Other keyword arguments are the fields of `perflog.metrics.Options`. Raises UsageError where the logs do not
        have what the plot needs.
        """
        tables, given = merge_tables(logs), Options.of(**options)
        found = self.found(tables, given)
        if not len(found):
            raise UsageError(
                f"there is nothing to draw for `{self.name}`: {self._lacks(tables)}", help=_others(tables, given)
            )
        with styled():
            figure = self.draw(found, Canvas(self.title, tables, given, size))
            _lay_out(figure)
        return figure

    def found(self, tables: Tables, options: Options) -> pd.DataFrame:
        """The rows it draws."""
        return self.rows(get(self.metric).table(tables, options))

    def _lacks(self, tables: Tables) -> str:
        lacking = [f"`{name}`" for name in self.needs if not len(tables[name])]
        return f"no rows in table {', '.join(lacking)}" if lacking else f"metric `{self.metric}` finds none of it"


PLOTS: dict[str, Plot] = {}
"""All kinds, by name."""


def plot(
    title: str, says: str, metric: Metric | str, rows: Callable[[pd.DataFrame], pd.DataFrame] = lambda found: found
) -> Callable[[Callable[[pd.DataFrame, Canvas], Figure]], Plot]:
    """Register a function as the plot of its name."""

    def register(draw: Callable[[pd.DataFrame, Canvas], Figure]) -> Plot:
        name = draw.__name__
        made = Plot(name, title, says, metric if isinstance(metric, str) else metric.name, rows, draw)
        PLOTS[name] = made
        return made

    return register


def kind(name: str) -> Plot:
    """A plot by name. Raises UsageError with the nearest name."""
    if name not in PLOTS:
        help = did_you_mean(name, PLOTS, f"there are: {', '.join(PLOTS)}")
        raise UsageError(f"there is no plot `{name}`", help=help)
    return PLOTS[name]


def possible(*logs: Log | Tables | Mapping[str, pd.DataFrame], **options: Any) -> list[Plot]:
    """The kinds that have something to draw in the logs."""
    tables, given = merge_tables(logs), Options.of(**options)
    return [one for one in PLOTS.values() if one.metric in METRICS and len(one.found(tables, given))]


def _lay_out(figure: Figure) -> None:
    """Ticks and their texts are made when drawn: here, while the style holds."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "constrained_layout not applied")
        try:
            figure.draw_without_rendering()
        except UserWarning as small:
            width, height = figure.get_size_inches()
            help = "leave the size out: it is chosen to fit"
            raise UsageError(f"the figure does not fit into {width:g} x {height:g} inches", help=help) from small


def _others(tables: Tables, options: Options) -> str:
    names = [one.name for one in possible(tables, **vars(options))]
    return f"possible: {', '.join(names)}" if names else "no plot is possible for it"
