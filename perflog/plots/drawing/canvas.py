"""Parts that all plots share: panels, names of runs, units of axes, strings from logs."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from msgspec import Struct

from perflog.analysis.run_names import run_places
from perflog.arrays import Floats, Ints
from perflog.log import RunKey
from perflog.metrics import Options, Tables, get
from perflog.parsing.input.log_names import base_name
from perflog.plots.drawing.palette import RED
from perflog.plots.drawing.sketch import Axis, Sketch
from perflog.units import scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Size = tuple[float, float]

_PANEL_WIDTH = 4.2  # inches, where panels stand side by side

MAX_PANELS = 12
_POINTS = 1500  # of a long line, twice
_POINTS_OF_A_PAGE = 3000  # of all lines of a plot, twice
_MAX_LOGS = 3  # that are named one by one
_NOTE_CHARACTERS_PER_INCH = 13.5
_TITLE_CHARACTERS_PER_INCH = 10


class Canvas(Struct, frozen=True, dict=True):
    """Makes the figure of a plot, with panels and names of runs: title, tables, options and size of one call.

    `sketched`: the figure is a `Sketch`, which takes the same calls, instead of one of matplotlib. `window`: begin and
    end of the part of the x-axis that long curves have in detail; they end next to it.
    """

    title: str
    tables: Tables
    options: Options
    size: Size | None = None
    sketched: bool = False
    window: tuple[float, float] | None = None

    def run_name(self, run: str, width: int = 48) -> str:
        """Return the run's label, with its number if several runs share the label; else its number and its settings."""
        labels = self.tables.labels()
        label = labels[run]
        if not label:
            return plain(", ".join((self._places[run], *self._varying_settings(run))), width)
        shared = list(labels.values()).count(label) > 1
        return plain(f"{label} ({self._places[run]})" if shared else label, width)

    @cached_property
    def _places(self) -> dict[str, str]:
        runs = self.tables.rows("runs").records("run", "label", "log", "log_sha256", "index")
        return run_places([RunKey(*values) for values in runs])

    def _varying_settings(self, run: str) -> list[str]:
        """Return the run's values of the settings that vary in its log: `num_local_experts 8`."""
        sweep = get("sweep").table(self.tables, self.options)
        rows = sweep[(sweep["run"] == run) & sweep["factor"].notna()]
        return [f"{factor} {value}" for factor, value in zip(rows["factor"], rows["value"], strict=True)]

    def most_points(self, lines: int) -> int:
        """Return how many points a line may have where there are so many lines: a page holds the values of all."""
        return max(min(_POINTS_OF_A_PAGE // max(lines, 1), _POINTS), 12) if self.sketched else _POINTS

    def thinned(self, x: Floats, y: Floats, most: int) -> tuple[Ints, int]:
        """Return the indices of the points of a curve that are drawn, and k: see `extremes`."""
        if self.window is None or len(y) <= 2 * most:
            return extremes(y, most)
        low, high = self.window
        inside = np.flatnonzero((x >= low) & (x <= high))
        if not len(inside):
            return extremes(y, most)
        first, last = max(int(inside[0]) - 1, 0), min(int(inside[-1]) + 1, len(y) - 1)
        keep, k = extremes(y[first : last + 1], most)
        return keep + first, k

    @property
    def logs(self) -> str:
        """Names of the logs of the runs; of many logs their number, and their folder if they are in one."""
        logs = list(self.tables.rows("runs").counts("log"))
        if len(logs) <= _MAX_LOGS:
            return ", ".join(plain(base_name(log) or log, 60) for log in logs)
        folder = os.path.basename(os.path.commonpath(map(os.path.abspath, logs)))
        return f"{len(logs)} logs" + (f" in {plain(folder, 60)}" if folder else "")

    def figure(self, width: float, height: float, notes: Sequence[str] = ()) -> Figure:
        """Return an empty figure with title and notes; a size given by the user replaces width and height (inches)."""
        if self.sketched:
            return cast("Figure", Sketch(width, height, notes))

        from perflog.plots.drawing.notebook_figure import NotebookFigure

        figure = NotebookFigure(figsize=self.size or (width, height), layout="constrained")
        inches = float(figure.get_figwidth())
        title = textwrap.fill(f"{self.title} · {self.logs}", max(int(inches * _TITLE_CHARACTERS_PER_INCH), 20))
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        text = "\n".join(
            textwrap.fill(note, max(int(inches * _NOTE_CHARACTERS_PER_INCH), 20)) for note in notes if note
        )
        if text:
            figure.supxlabel(text, x=0.01, ha="left", fontsize=8, color="0.3")
        return figure

    def column_of_panels(
        self, width: float, height: float, heights: Sequence[float], notes: Sequence[str] = ()
    ) -> tuple[Figure, list[Axes]]:
        """Return a figure with panels of these relative heights, one below the other."""
        figure = self.figure(width, height, notes)
        return figure, list(figure.subplots(len(heights), squeeze=False, height_ratios=heights).ravel())

    def panels(
        self, runs: Sequence[str], notes: Sequence[str] = (), panel_height: float = 2.3
    ) -> tuple[Figure, list[tuple[str, Axes]]]:
        """Return a figure with a panel for each title, at most MAX_PANELS; a note says how many are left out."""
        shown = list(runs[:MAX_PANELS])
        columns = 1 if len(shown) == 1 else 2 if len(shown) <= 8 else 3
        rows = math.ceil(len(shown) / columns)
        width = max(_PANEL_WIDTH * columns, 7.5) + 1.2
        height = panel_height * rows * (1.4 if rows == 1 else 1) + 1.0
        figure = self.figure(width, height, notes=[*notes, shown_note(len(shown), len(runs), "panels")])
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for unused in axes[len(shown) :]:
            unused.remove()
        return figure, list(zip(shown, axes[: len(shown)], strict=True))


def shown_note(shown: int, total: int, what: str) -> str:
    """Return the note that only some are shown; empty if all are. `what`: what they are."""
    return f"{shown} of {total} {what} are shown." if shown < total else ""


def legend(figure: Figure, handles: Iterable[Any], **options: Any) -> None:
    """Add a legend beside the panels, where it covers nothing."""
    if entries := list(handles):
        figure.legend(handles=entries, loc="outside right center", **options)


def unit_of(values: Any, unit: str) -> tuple[str, float]:
    """Return the unit in which an axis shows values of a base unit, chosen by the largest value, and its size in it."""
    numbers = np.abs(np.asarray(values, np.float64).ravel())
    numbers = numbers[np.isfinite(numbers)]
    return scale(float(numbers.max()) if len(numbers) else 0.0, unit)


def axis_label(quantity: str, unit: str) -> str:
    """Return the label of an axis: `step time (ms)`."""
    return f"{quantity} ({unit})" if unit else quantity


def plain(text: object, width: int = 0) -> str:
    """Return a string from a log on one line, without mathtext and without characters that the font lacks.

    A string longer than `width` is cut in the middle.
    """
    shown = " ".join(str(text).split())
    if not (shown.isascii() and shown.isprintable()):
        shown = "".join(c if c.isprintable() and _in_font(c) else "\ufffd" for c in shown)
    if width and len(shown) > width:
        head = (width - 1) * 2 // 3
        shown = f"{shown[:head]}…{shown[len(shown) - (width - 1 - head) :]}"
    return shown.replace("$", r"\$")


@cache
def _in_font(character: str) -> bool:
    from matplotlib.font_manager import findfont, get_font

    return bool(get_font(findfont("DejaVu Sans")).get_char_index(ord(character)))


def is_null(value: Any) -> bool:
    """Return whether a cell of a table is empty."""
    import pandas as pd

    return bool(pd.isna(value))


def integer_ticks(axis: Any) -> None:
    """Put ticks of an axis of steps or ranks at integers, few enough not to touch."""
    if isinstance(axis, Axis):
        axis.integer = True
        return

    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))


def envelope(x: Floats, y: Floats, most: int = _POINTS) -> tuple[Floats, Floats, int]:
    """Thin out the points of a long curve to the minimum and maximum of each k points, so that no extreme is lost.

    Returns the points and k, which is 1 (all points) up to twice `most` points.
    """
    keep, k = extremes(y, most)
    return x[keep], y[keep], k


def extremes(y: Floats, most: int = _POINTS) -> tuple[Ints, int]:
    """Return the indices of the minimum and maximum of each k values, and k; all indices and 1 up to twice `most`."""
    k = math.ceil(len(y) / most) if len(y) > 2 * most else 1
    if k == 1:
        return np.arange(len(y)), 1
    keep = []
    for start in range(0, len(y), k):
        block = y[start : start + k]
        keep += sorted({start + int(np.argmin(block)), start + int(np.argmax(block))})
    return np.array(keep), k


def shade_warmup(axes: Axes, x: Floats, cut: int, handles: dict[str, object]) -> None:
    """Shade the first `cut` steps as warm-up. A panel that is shaded already stays as it is."""
    if cut and not any(patch.get_gid() == "warmup" for patch in axes.patches):
        end = (x[cut - 1] + x[cut]) / 2 if cut < len(x) else x[-1] + 0.5
        patch = axes.axvspan(
            x[0] - 0.5, end, facecolor="0.9", edgecolor="0.7", hatch="///", label="warm-up, left out", gid="warmup"
        )
        handles.setdefault("warmup", patch)


def mark_beyond(axes: Axes, x: Floats, y: Floats, top: float, handles: dict[str, object]) -> None:
    """Mark points above the axis with triangles at its upper edge: up to two with values, of more only the largest."""
    above = y > top
    if not above.any():
        return
    edge = axes.get_xaxis_transform()
    marks = axes.scatter(
        x[above], np.full(above.sum(), 0.97), marker="^", s=26, color=RED, label="beyond the axis", gid="beyond",
        transform=edge, zorder=5, clip_on=False,
    )  # fmt: skip
    handles.setdefault("beyond", marks)
    for i in np.flatnonzero(above) if above.sum() <= 2 else [int(np.nanargmax(y))]:
        left = x[i] < (x[0] + x[-1]) / 2
        axes.annotate(
            f"{y[i]:.4g}", (x[i], 0.97), xycoords=edge, textcoords="offset points", xytext=(6 if left else -6, -2),
            ha="left" if left else "right", va="center", fontsize=7.5, color=RED,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )  # fmt: skip
