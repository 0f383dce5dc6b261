"""What all plots share: colours, panels, names of runs, units of axes, text that a log has written."""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from perflog.metrics import Options, Tables, get
from perflog.units import scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Size = tuple[float, float]
Floats = npt.NDArray[np.float64]

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PINK = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
"""The palette of Okabe and Ito (2008), told apart by colour-blind readers."""

FILLS = (
    (BLUE, ""), (ORANGE, ""), (GREEN, "///"), (YELLOW, ""), (SKY, "\\\\\\"), (RED, ""), (PINK, "xxx"),
    (YELLOW, "///"), (ORANGE, "..."), (GREEN, "xxx"), (SKY, "---"), (PINK, "+++"), (RED, "..."),
    (YELLOW, "xxx"), (SKY, "ooo"), (ORANGE, "|||"), (PINK, "///"), (GREEN, "|||"), (YELLOW, "++"), (SKY, "xx"),
)  # fmt: skip
"""Fills of areas. In grey, green is red, and orange, sky and pink are one: their hatches tell them apart."""

LINES = (
    (BLUE, "-", "o"),
    (RED, "--", "s"),
    (GREEN, "-.", "^"),
    (BLACK, ":", "D"),
    (ORANGE, "-", "v"),
    (PINK, "--", "P"),
)
"""Colour, line style and marker of curves."""

CMAP = "cividis"

MOST_PANELS = 12
_PER_INCH = 13.5  # characters of a note


@dataclass(frozen=True)
class Canvas:
    """What a figure is made on: the tables of the runs, the user's options, the size he wants."""

    title: str
    tables: Tables
    options: Options
    size: Size | None = None

    def name(self, run: str, width: int = 48) -> str:
        """The run's label, with its id where another run has the same; where it has none, its id and what varies."""
        runs = self.tables["runs"]
        label = runs.loc[runs["run"] == run, "label"].iloc[0]
        if not isinstance(label, str) or not label:
            return plain(", ".join((run, *self._varying(run))), width)
        again = (runs["label"] == label).sum() > 1
        return plain(f"{label} ({run})" if again else label, width)

    def _varying(self, run: str) -> list[str]:
        """What is another in the run than in others of its log: `num_local_experts 8`."""
        sweep = get("sweep").table(self.tables, self.options)
        mine = sweep[(sweep["run"] == run) & sweep["factor"].notna()]
        return [f"{factor} {value}" for factor, value in zip(mine["factor"], mine["value"], strict=True)]

    @property
    def logs(self) -> str:
        """Names of the logs the runs are from."""
        names = [plain(os.path.basename(log) or log, 60) for log in dict.fromkeys(self.tables["runs"]["log"].dropna())]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

    def figure(self, width: float, height: float, notes: Sequence[str] = ()) -> Figure:
        """An empty figure of that many inches (or of the size given) with its title, and notes below."""
        from perflog.plots.picture import Picture

        figure = Picture(figsize=self.size or (width, height), layout="constrained")
        wide = float(figure.get_figwidth())
        title = textwrap.fill(f"{self.title} · {self.logs}", max(int(wide * 10), 20))
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        text = "\n".join(textwrap.fill(note, max(int(wide * _PER_INCH), 20)) for note in notes if note)
        if text:
            figure.supxlabel(text, x=0.01, ha="left", fontsize=8, color="0.3")
        return figure

    def panels(
        self, runs: Sequence[str], notes: Sequence[str] = (), wide: float = 4.2, high: float = 2.3, **sharing: Any
    ) -> tuple[Figure, list[tuple[str, Axes]]]:
        """A figure with a panel for each run, at most MOST_PANELS of them: a note tells of the others."""
        shown = list(runs[:MOST_PANELS])
        across = 1 if len(shown) == 1 else 2 if len(shown) <= 8 else 3
        down = math.ceil(len(shown) / across)
        size = (max(wide * across, 7.5) + 1.2, high * down * (1.4 if down == 1 else 1) + 1.0)
        figure = self.figure(*size, notes=[*notes, capped(len(shown), len(runs), "runs")])
        axes = figure.subplots(down, across, squeeze=False, **sharing).ravel()
        for spare in axes[len(shown) :]:
            spare.remove()
        return figure, list(zip(shown, axes[: len(shown)], strict=True))


def capped(shown: int, all: int, what: str) -> str:
    """The note that not all are shown; empty if they are."""
    return f"{shown} of {all} {what} are shown" if shown < all else ""


def legend(figure: Figure, handles: Iterable[Any], **options: Any) -> None:
    """A legend beside the panels, where it covers nothing."""
    if shown := list(handles):
        figure.legend(handles=shown, loc="outside right center", **options)


def unit_of(values: Any, unit: str) -> tuple[str, float]:
    """The unit an axis shows values of a base unit in, chosen by the largest, and its factor: value / factor."""
    numbers = np.abs(np.asarray(values, np.float64).ravel())
    numbers = numbers[np.isfinite(numbers)]
    return scale(float(numbers.max()) if len(numbers) else 0.0, unit)


def axis(what: str, unit: str) -> str:
    """Text of an axis: `step time (ms)`."""
    return f"{what} ({unit})" if unit else what


def plain(text: object, width: int = 0) -> str:
    """Text of a log as it is to be drawn: one line, no mathtext, no sign that the font lacks.

    The middle is left out where it is longer than `width`.
    """
    shown = "".join(c if c.isprintable() and _has(c) else "\ufffd" for c in " ".join(str(text).split()))
    if width and len(shown) > width:
        head = (width - 1) * 2 // 3
        shown = f"{shown[:head]}…{shown[len(shown) - (width - 1 - head) :]}"
    return shown.replace("$", r"\$")


@cache
def _has(sign: str) -> bool:
    from matplotlib.font_manager import findfont, get_font

    return bool(get_font(findfont("DejaVu Sans")).get_char_index(ord(sign)))


def null(value: Any) -> bool:
    """Whether a cell of a table is empty."""
    import pandas as pd

    return bool(pd.isna(value))


def whole(axis: Any, most: int = 8) -> None:
    """Ticks of an axis of steps or ranks: whole numbers, few enough not to touch."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(most, integer=True, steps=[1, 2, 5, 10]))


def envelope(x: Floats, y: Floats, most: int = 1500) -> tuple[Floats, Floats, int]:
    """The points of a curve as it is drawn: of each k of them the least and the largest, so that nothing is hidden.

    k is 1 (all points) unless there are more than twice `most`.
    """
    k = math.ceil(len(x) / most) if len(x) > 2 * most else 1
    if k == 1:
        return x, y, 1
    keep = []
    for at in range(0, len(x), k):
        part = y[at : at + k]
        keep += sorted({at + int(np.argmin(part)), at + int(np.argmax(part))})
    return x[keep], y[keep], k


def shade(axes: Axes, x: Floats, cut: int, handles: dict[str, Any]) -> None:
    """The first `cut` steps as warm-up. A panel that has it already keeps it."""
    if cut and not any(patch.get_gid() == "warmup" for patch in axes.patches):
        end = (x[cut - 1] + x[cut]) / 2 if cut < len(x) else x[-1] + 0.5
        patch = axes.axvspan(
            x[0] - 0.5, end, facecolor="0.9", edgecolor="0.7", hatch="///", label="warm-up, left out", gid="warmup"
        )
        handles.setdefault("warmup", patch)


def beyond(axes: Axes, x: Floats, y: Floats, top: float, handles: dict[str, Any]) -> None:
    """Points above the axis as triangles at its upper edge; up to two with their values, of more the largest."""
    above = y > top
    if not above.any():
        return
    edge = axes.get_xaxis_transform()
    marks = axes.scatter(
        x[above], np.full(above.sum(), 0.97), marker="^", s=26, color=RED, label="beyond the axis", gid="beyond",
        transform=edge, zorder=5, clip_on=False,
    )  # fmt: skip
    handles.setdefault("beyond", marks)
    for at in np.flatnonzero(above) if above.sum() <= 2 else [int(np.nanargmax(y))]:
        left = x[at] < (x[0] + x[-1]) / 2
        axes.annotate(
            f"{y[at]:.4g}", (x[at], 0.97), xycoords=edge, textcoords="offset points", xytext=(6 if left else -6, -2),
            ha="left" if left else "right", va="center", fontsize=7.5, color=RED,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )  # fmt: skip
