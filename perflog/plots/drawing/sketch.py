"""A picture as data: the figure that plots draw on for a page, where matplotlib would take most of the time.

A `Sketch` takes the calls of a matplotlib Figure, and its `Panel`s the calls of Axes, as far as the plots of perflog
use them; both keep what is drawn as marks, in the units of the axes. So a plot is described once, by its function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct

from perflog.arrays import Floats

_STYLES = ("--", "-.", "-", ":")
_FEWEST = 2  # positions on an axis, or values, that are more than a sentence
_PIXELS_PER_INCH = 80
_AROUND = 46  # pixels of a panel's title, tick labels and axis label
_LOWEST = 40  # pixels of a panel


_Added = TypeVar("_Added", bound="Mark")


class Mark(Struct, eq=False):
    """What a call has drawn: the base of all marks. `key` is the label under which it is switched on and off.

    `name`: what a page calls it, if not by its label.
    """

    label: str = ""
    gid: str = ""
    color: str = ""
    hatch: str = ""
    edge: str = ""
    alpha: float = 1.0
    key: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        self.key = self.key or self.label

    def set_label(self, label: str) -> None:
        """Name the mark in the legend."""
        self.label, self.key = label, self.key or label

    def get_label(self) -> str:
        """Return the name in the legend."""
        return self.label

    def get_gid(self) -> str:
        """Return the name that tests and plots know the mark by."""
        return self.gid


class Line(Mark, kw_only=True):
    """Points and the line through them; `lines`: of the log, if known, and `each` the steps of a point.

    `on_axes`: names of the axes on which a position is a fraction of the panel, not a value.
    """

    x: Floats
    y: Floats
    style: str = "-"
    width: float = 1.0
    marker: str = ""
    sizes: Floats
    hollow: bool = False
    every: int = 1
    on_axes: str = ""
    steps: bool = False
    lines: Floats | None = None
    each: int = 1

    def get_xdata(self) -> Floats:
        """Return the places of the points along x."""
        return self.x

    @property
    def is_informative(self) -> bool:
        """Whether its points are values, and not what helps to read them."""
        return not self.on_axes


class Bars(Mark, kw_only=True):
    """Bars along x, from `left` to `right`, around the places `y`; `colors` has one for each, or one for all."""

    left: Floats
    right: Floats
    y: Floats
    height: float
    colors: Sequence[str]


class Spans(Mark, kw_only=True):
    """Spans of one colour on a track around a position on the y-axis, each from `left` to `right`.

    `names`: what each is; `events`: how many events it holds; `times`: their time.
    """

    left: Floats
    right: Floats
    y: float
    height: float
    names: Sequence[str] = ()
    events: Sequence[int] = ()
    times: Floats | None = None


class Span(Mark, kw_only=True):
    """A stripe from `low` to `high` along an axis, through the whole panel."""

    axis: str
    low: float
    high: float


class Area(Mark, kw_only=True):
    """The area between two curves."""

    x: Floats
    low: Floats
    high: Floats
    steps: bool = False


class Cells(Mark, kw_only=True):
    """A grid of values as colours: left, right, bottom and top of the grid; its first row is at the top.

    `rows` and `columns`: their names, if given.
    """

    values: Floats
    extent: tuple[float, float, float, float]
    low: float
    high: float
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()


class Text(Mark, kw_only=True):
    """A text at a position, moved by some pixels."""

    x: float
    y: float
    text: str
    shift: tuple[float, float] = (0.0, 0.0)
    across: str = "left"
    along: str = "baseline"
    on_axes: str = ""


class ColorScale(Struct):
    """The colours of cells, with what they mean: beside all panels, or beside the panel of the cells."""

    cells: Cells
    beyond: bool
    panel: Panel | None = None
    label: str = ""

    def set_label(self, label: str) -> None:
        """Say what the colours mean."""
        self.label = label


class Axis:
    """An axis of a panel: its limits, its scale and its ticks."""

    def __init__(self, name: str) -> None:
        self.axis_name = name
        self.label = ""
        self.base: float | None = None  # of a logarithmic axis
        self.low: float | None = None
        self.high: float | None = None
        self.inverted = False
        self.places: Floats | None = None
        self.names: list[str] | None = None
        self.integer = False
        self.grid = False
        self.format: Callable[[float], str] | None = None
        self.dates = False  # its values are seconds since 1970

    def set_ticks(self, places: Iterable[float], labels: Iterable[object] | None = None, **_: Any) -> None:
        """Put ticks at these places."""
        self.places = _floats(list(places))
        self.names = None if labels is None else [_text(label) for label in labels]

    def set_major_formatter(self, form: str) -> None:
        """Write the numbers of ticks in this form."""
        self.format = lambda x: form.format(x=x)

    def limit(self, first: float | None, last: float | None) -> None:
        """Set the ends of the axis; None leaves one free."""
        if first is not None and last is not None and first > last:
            first, last, self.inverted = last, first, True
        self.low = float(first) if first is not None else self.low
        self.high = float(last) if last is not None else self.high


class _Patch:
    def __init__(self) -> None:
        self.hatched = False

    def set(self, hatch: str = "", **_: Any) -> None:
        self.hatched = bool(hatch)


class Panel:
    """A pair of axes with what is drawn on them. It has the methods of matplotlib's Axes."""

    def __init__(self, sketch: Sketch, height: float) -> None:
        self.sketch = sketch
        self.height = height
        self.title = ""
        self.marks: list[Mark] = []
        self.xaxis, self.yaxis = Axis("x"), Axis("y")
        self.patch = _Patch()
        self.indented = False

    def remove(self) -> None:
        """Leave out the panel."""
        self.sketch.axes.remove(self)

    def plot(self, *points: Any, **style: Any) -> list[Line]:
        """Draw points or a line."""
        form = points[-1] if isinstance(points[-1], str) else ""
        points = points[:-1] if form else points
        marker, line = _form(form)
        marker = style.pop("marker", marker) or ""
        line = style.pop("linestyle", line or ("" if form and marker else "-"))
        x, y = map(np.atleast_1d, points)
        self.xaxis.dates = self.xaxis.dates or _are_dates(x)
        x, y = map(_floats, np.broadcast_arrays(x, y))
        size = style.pop("markersize", 6.0 if marker != "." else 3.0)
        hollow = style.pop("mfc", None) in ("none", "white") or style.pop("fillstyle", "") == "none"
        color = style.pop("color", None) or style.pop("mec", None) or "black"
        mark = Line(
            x=x, y=y, color=_color(color), style="" if line in ("none", " ") else line, marker=marker, hollow=hollow,
            sizes=_floats([size]), width=style.get("linewidth", 1.2), every=style.get("markevery", 1),
            on_axes=_on_axes(style), **_common(style),
        )  # fmt: skip
        return [self._add(mark)]

    def step(self, x: Any, y: Any, where: str = "post", **style: Any) -> list[Line]:
        """Draw a line that keeps each value until the next one."""
        if where != "post":
            raise ValueError(f"a line by steps changes at its points, not at {where}")
        (line,) = self.plot(x, y, **style)
        line.steps = True
        return [line]

    def scatter(self, x: Any, y: Any, areas: Any = 36.0, **style: Any) -> Line:
        """Draw points with an area each."""
        sizes = np.sqrt(np.atleast_1d(_floats(style.pop("s", areas))))
        (mark,) = self.plot(x, y, linestyle="", **{"marker": "o", **style})
        mark.sizes, mark.edge = sizes, _color(style.get("edgecolors", style.get("edgecolor", "")))
        return mark

    def errorbar(self, x: Any, y: Any, xerr: Any = None, yerr: Any = None, **style: Any) -> Line | None:
        """Draw points with the arms of their intervals."""
        x, y = (np.atleast_1d(_floats(values)) for values in (x, y))
        color = style.pop("ecolor", None) or style.get("color", "black")
        for arms, along in ((xerr, x), (yerr, y)):
            for k, (less, more) in enumerate(zip(*arms, strict=True) if arms is not None else ()):
                ends = _floats([along[k] - less, along[k] + more])
                there = (ends, [y[k]] * 2) if along is x else ([x[k]] * 2, ends)
                arm = Line(x=_floats(there[0]), y=_floats(there[1]), color=_color(color), sizes=_floats([5.0]),
                           marker="|" if along is x else "_", gid="interval")  # fmt: skip
                self._add(arm)
        if style.pop("fmt", "") == "none":
            return None
        style.pop("capsize", None)
        hollow = {"mfc": style.pop("markerfacecolor", None)}
        return self.plot(x, y, **style, **hollow)[0]

    def barh(self, y: Any, width: Any, height: float = 0.8, left: Any = 0.0, **style: Any) -> Bars:
        """Draw bars along x."""
        y, width, left = (np.atleast_1d(_floats(values)) for values in (y, width, left))
        y, width, left = np.broadcast_arrays(y, width, left)
        colors = style.pop("color", "black")
        colors = [_color(color) for color in ([colors] if isinstance(colors, str) else colors)]
        return self._add(
            Bars(left=left, right=left + width, y=y, height=height, colors=colors, color=colors[0],
                 hatch=style.get("hatch", ""), edge=_color(style.get("edgecolor", "")), **_common(style))
        )  # fmt: skip

    def broken_barh(self, xranges: Any, yrange: tuple[float, float], **style: Any) -> Spans:
        """Draw spans, each a begin and a length, on a track from a value of y with a height."""
        left, width = np.reshape(_floats(xranges), (-1, 2)).T
        low, height = yrange
        spans = Spans(left=left, right=left + width, y=low + height / 2, height=height,
                      color=_color(style.get("facecolors", "black")), **_common(style))  # fmt: skip
        return self._add(spans)

    def fill_between(self, x: Any, low: Any, high: Any, step: str | None = None, **style: Any) -> Area:
        """Fill the area between two curves."""
        color = _color(style.get("facecolor", style.get("color", "black")))
        area = Area(x=_floats(x), low=_floats(low), high=_floats(high), steps=step == "post",
                    color=color, hatch=style.get("hatch", ""), edge=_color(style.get("edgecolor", "")),
                    **_common(style))  # fmt: skip
        return self._add(area)

    def axhspan(self, low: float, high: float, **style: Any) -> Span:
        """Draw a stripe between two values of y."""
        return self._span("y", low, high, style)

    def axvspan(self, low: float, high: float, **style: Any) -> Span:
        """Draw a stripe between two values of x."""
        return self._span("x", low, high, style)

    def _span(self, axis: str, low: float, high: float, style: dict[str, Any]) -> Span:
        color = _color(style.get("facecolor", style.get("color", "black")))
        span = Span(axis=axis, low=float(low), high=float(high), color=color, hatch=style.get("hatch", ""),
                    edge=_color(style.get("edgecolor", "")), **_common(style))  # fmt: skip
        return self._add(span)

    def axhline(self, y: float = 0.0, **style: Any) -> Line:
        """Draw a line through the panel at a value of y."""
        (line,) = self.plot([0.0, 1.0], [y, y], **style)
        line.on_axes = "x"
        return line

    def axvline(self, x: float = 0.0, **style: Any) -> Line:
        """Draw a line through the panel at a value of x."""
        (line,) = self.plot([x, x], [0.0, 1.0], **style)
        line.on_axes = "y"
        return line

    def imshow(self, values: Any, vmin: float, vmax: float, extent: Any = None, **_: Any) -> Cells:
        """Draw a grid of values with its first row at the top."""
        values = _floats(np.ma.filled(np.ma.asarray(values, np.float64), np.nan))
        rows, columns = values.shape
        left, right, bottom, top = extent or (-0.5, columns - 0.5, rows - 0.5, -0.5)
        self.set_xlim(left, right)
        self.set_ylim(bottom, top)
        return self._add(Cells(values=values, extent=(left, right, bottom, top), low=float(vmin), high=float(vmax)))

    def pcolormesh(self, values: Any, vmin: float, vmax: float, **_: Any) -> Cells:
        """Draw a grid of values in cells of size 1 from 0."""
        rows, columns = np.shape(values)
        return self.imshow(values, vmin, vmax, (0, columns, rows, 0))

    def text(self, x: float, y: float, text: object, **style: Any) -> Text:
        """Write a text."""
        return self._add(
            Text(x=float(_floats(x)), y=float(y), text=_text(text), across=style.get("ha", "left"),
                 along=style.get("va", "baseline"), color=_color(style.get("color", "")))
        )  # fmt: skip

    def annotate(self, text: object, xy: Any, xytext: Any = (0, 0), **style: Any) -> Text:
        """Write a text at some distance from a position."""
        x, y = xy
        mark = self.text(x, y, text, **style)
        mark.shift = float(xytext[0]), float(xytext[1])
        coordinates = style.get("xycoords", "data")
        if isinstance(coordinates, tuple):
            mark.on_axes = "".join(name for name, of in zip("xy", coordinates, strict=True) if of == "axes fraction")
        elif coordinates != "data":
            mark.on_axes = _on_axes({"transform": coordinates})
        return mark

    def boxplot(self, values: Any, positions: Sequence[float], widths: float, **_: Any) -> dict[str, list[Any]]:
        """Draw a box with quartiles and whiskers along x, as matplotlib does: within 1.5 ranges of the quartiles."""
        values, place = _floats(values), float(positions[0])
        first, median, third = np.percentile(values, [25, 50, 75])
        reach = 1.5 * (third - first)
        low, high = values[values >= first - reach].min(), values[values <= third + reach].max()
        whiskers = [self.plot([box, end], [place] * 2, color="black")[0] for box, end in ((first, low), (third, high))]
        self.barh(place, third - first, widths, first, color="0.88", edgecolor="black", gid="box")
        self.plot([median] * 2, [place - widths / 2, place + widths / 2], color="black")
        for whisker in whiskers:
            whisker.gid = "whisker"
        return {"whiskers": whiskers}

    def set_title(self, title: object, **_: Any) -> None:
        """Set the title of the panel."""
        self.title = "\n".join(map(_text, str(title).split("\n")))

    def set_xlabel(self, label: object) -> None:
        """Name the x-axis."""
        self.xaxis.label = _text(label)

    def set_ylabel(self, label: object) -> None:
        """Name the y-axis."""
        self.yaxis.label = _text(label)

    def set(self, **settings: Any) -> None:
        """Set a title, and names of axes."""
        for name, value in settings.items():
            getattr(self, f"set_{name}")(value)

    def set_xlim(self, left: Any = None, right: Any = None) -> None:
        """Set the ends of the x-axis."""
        self.xaxis.limit(left, right)

    def set_ylim(self, bottom: Any = None, top: Any = None) -> None:
        """Set the ends of the y-axis."""
        self.yaxis.limit(bottom, top)

    def tick_params(self, **_: Any) -> None:
        """Leave the ticks as they are."""

    def invert_yaxis(self) -> None:
        """Put small values of y at the top."""
        self.yaxis.inverted = True

    def set_xticks(self, places: Any, labels: Any = None, **_: Any) -> None:
        """Put ticks on the x-axis."""
        self.xaxis.set_ticks(places, labels)

    def set_yticks(self, places: Any, labels: Any = None, **_: Any) -> None:
        """Put ticks on the y-axis."""
        self.yaxis.set_ticks(places, labels)

    def set_xscale(self, scale: str, base: float = 10) -> None:
        """Make the x-axis logarithmic."""
        self.xaxis.base = {"log": base, "linear": None}[scale]

    def set_yscale(self, scale: str, base: float = 10) -> None:
        """Make the y-axis logarithmic."""
        self.yaxis.base = {"log": base, "linear": None}[scale]

    def grid(self, axis: str = "both", **_: Any) -> None:
        """Draw lines at the ticks."""
        for each in (self.xaxis, self.yaxis):
            each.grid = each.grid or axis in ("both", each.axis_name)

    def get_xlim(self) -> tuple[float, float]:
        """Return the ends of the x-axis, those that are not set from what is drawn."""
        return self._limits(self.xaxis)

    def get_ylim(self) -> tuple[float, float]:
        """Return the ends of the y-axis from bottom to top, those that are not set from what is drawn."""
        low, high = self._limits(self.yaxis)
        return (high, low) if self.yaxis.inverted else (low, high)

    def get_xaxis_transform(self) -> str:
        """Return the coordinates of places that are a value of x and a part of the panel's height."""
        return "y"

    def get_yaxis_transform(self) -> str:
        """Return the coordinates of places that are a part of the panel's width and a value of y."""
        return "x"

    @property
    def patches(self) -> list[Mark]:
        """Marks that are no lines."""
        return [mark for mark in self.marks if not isinstance(mark, Line)]

    @property
    def is_informative(self) -> bool:
        """Whether there is more to see than one value: places on the x-axis that differ, several bars or cells."""
        bars = sum(len(mark.y) for mark in self.marks if isinstance(mark, Bars))
        bars += sum(len(mark.left) for mark in self.marks if isinstance(mark, Spans))
        cells = sum(int(np.isfinite(mark.values).sum()) for mark in self.marks if isinstance(mark, Cells))
        lines = [mark.x for mark in self.marks if isinstance(mark, Line) and mark.is_informative]
        places = len(np.unique(np.concatenate(lines))) if lines else 0
        areas = sum(len(mark.x) for mark in self.marks if isinstance(mark, Area))
        return max(bars, cells, places, areas) >= _FEWEST

    def _add(self, mark: _Added) -> _Added:
        self.marks.append(mark)
        return mark

    def _limits(self, axis: Axis) -> tuple[float, float]:
        name = axis.axis_name
        found = [_extent(mark, name) for mark in self.marks]
        values = np.concatenate([*found, np.zeros(0)])
        values = values[np.isfinite(values) & ((values > 0) | (axis.base is None))]
        low, high = (float(values.min()), float(values.max())) if len(values) else (1.0, 2.0)
        if axis.base is not None:
            low, high = low / 1.15, high * 1.15
        else:
            margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
            from_zero = any(isinstance(mark, Bars) for mark in self.marks) and low >= 0 and name == "x"
            low, high = 0.0 if from_zero else low - margin, high + margin
        low, high = low if axis.low is None else axis.low, high if axis.high is None else axis.high
        return (low, high) if high > low else (low, low + 1.0)


class Sketch:
    """A figure: panels in rows and columns, notes and a legend. It has the methods of matplotlib's Figure."""

    def __init__(self, width: float, height: float, notes: Sequence[str] = ()) -> None:
        self.width, self.height = width, height
        self.notes = [_text(note) for note in notes if note]
        self.axes: list[Panel] = []
        self.columns = 1
        self.handles: list[Mark] = []
        self.legend_title = ""
        self.color_scales: list[ColorScale] = []

    def subplots(self, rows: int = 1, columns: int = 1, squeeze: bool = True, height_ratios: Any = None) -> Any:
        """Return panels in rows and columns; only one panel, not an array, if `squeeze` and there is only one."""
        ratios = _floats(height_ratios if height_ratios is not None else [1.0] * rows)
        pixels = np.maximum((self.height - 1) * _PIXELS_PER_INCH * ratios / ratios.sum() - _AROUND, _LOWEST)
        self.columns = columns
        panels = np.array([[Panel(self, float(pixels[row])) for _ in range(columns)] for row in range(rows)], object)
        self.axes = list(panels.ravel())
        return self.axes[0] if squeeze and len(self.axes) == 1 else panels

    def legend(self, handles: Iterable[Mark], title: str = "", **_: Any) -> None:
        """Name these marks in a legend."""
        self.handles, self.legend_title = list(handles), title

    def colorbar(self, cells: Cells, ax: Any = None, extend: str = "neither", **_: Any) -> ColorScale:
        """Name the colours of cells."""
        panel = ax if isinstance(ax, Panel) and len(self.axes) > 1 else None
        self.color_scales.append(scale := ColorScale(cells, extend == "max", panel))
        return scale

    @property
    def weight(self) -> int:
        """About how many bytes it takes on a page."""
        marks = [mark for panel in self.axes for mark in panel.marks]
        lines = sum(len(mark.x) for mark in marks if isinstance(mark, Line | Area))
        bars = sum(len(mark.y) for mark in marks if isinstance(mark, Bars))
        cells = sum(mark.values.size for mark in marks if isinstance(mark, Cells))
        spans = sum(len(mark.left) for mark in marks if isinstance(mark, Spans))
        return 1500 * len(self.axes) + 25 * lines + 110 * bars + 8 * cells + 30 * spans

    @property
    def is_informative(self) -> bool:
        """Whether a panel has more to show than one value."""
        return any(panel.is_informative for panel in self.axes)


def set_lines(mark: Any, lines: Any, each: int = 1) -> None:
    """Set the lines of the log that print the points of a mark, and the number of values of a point.

    A page shows them; an artist of matplotlib stays as it is.
    """
    if isinstance(mark, Line):
        mark.lines, mark.each = _floats(lines), each


def set_cell_names(mark: Any, rows: Iterable[Any], columns: Iterable[Any], per: tuple[int, int] = (1, 1)) -> None:
    """Set the names of the rows and columns of a grid; `per`: how many of each a cell covers."""
    if isinstance(mark, Cells):
        mark.rows, mark.columns = _grouped(rows, per[0]), _grouped(columns, per[1])


def set_span_names(mark: Any, names: Iterable[str], events: Iterable[int], times: Any) -> None:
    """Set what each span is, how many events it holds, and their time in the unit of the axis."""
    if isinstance(mark, Spans):
        mark.names, mark.events, mark.times = [*names], [*map(int, events)], _floats(times)


def _grouped(values: Iterable[Any], size: int) -> list[str]:
    names = list(map(str, values))
    groups = [names[k : k + size] for k in range(0, len(names), size)]
    return [group[0] if len(group) == 1 else f"{group[0]}–{group[-1]}" for group in groups]


def set_mark_name(mark: Any, name: str) -> None:
    """Name the values of a mark, where the legend says something else of its colour."""
    if isinstance(mark, Mark):
        mark.name = name


def _extent(mark: Mark, axis: str) -> Floats:
    """The values of a mark that an axis has to reach."""
    if isinstance(mark, Line):
        return np.zeros(0) if axis in mark.on_axes else mark.x if axis == "x" else mark.y
    if isinstance(mark, Bars):
        half = mark.height / 2
        parts = (mark.left, mark.right) if axis == "x" else (mark.y - half, mark.y + half)
        return np.concatenate(parts)
    if isinstance(mark, Spans):
        half = mark.height / 2
        return np.concatenate((mark.left, mark.right)) if axis == "x" else _floats([mark.y - half, mark.y + half])
    if isinstance(mark, Area):
        return mark.x if axis == "x" else np.concatenate((mark.low, mark.high))
    if isinstance(mark, Span) and mark.axis == axis:
        return _floats([mark.low, mark.high])
    return np.zeros(0)


def _on_axes(style: dict[str, Any]) -> str:
    """The axes on which places are a part of the panel."""
    transform = style.get("transform", "")
    if transform not in ("", "x", "y"):
        raise ValueError("positions are values or fractions of a panel")
    return str(transform)


def _common(style: dict[str, Any]) -> dict[str, Any]:
    return {"label": _text(style.get("label", "")), "gid": style.get("gid", ""), "alpha": style.get("alpha", 1.0)}


def _form(form: str) -> tuple[str, str]:
    """Return marker and line style of a form such as `o`, `--` or `o-`."""
    line = next((style for style in _STYLES if style in form), "")
    return form.replace(line, "", 1), line


def _are_dates(values: Any) -> bool:
    if values.dtype.kind == "M":
        return True
    return values.dtype.kind == "O" and len(values) > 0 and all(isinstance(value, datetime) for value in values)


def _seconds(date: datetime) -> float:
    """Seconds since 1970; a date without a time zone counts as one of UTC, as on an axis of matplotlib."""
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _floats(values: Any) -> Floats:
    if isinstance(values, datetime):
        return np.asarray(_seconds(values))
    array = np.asarray(values)
    if array.dtype.kind == "M":
        return array.astype("datetime64[us]").astype(np.int64) / 1e6
    if array.ndim and _are_dates(array):
        return np.array([_seconds(value) for value in array])
    return np.asarray(array, np.float64)


def _color(color: Any) -> str:
    """Return a colour as CSS has it: greys of matplotlib are numbers from 0 to 1."""
    if not isinstance(color, str):
        raise TypeError("a colour is a string")
    if color in ("", "none") or color.startswith("#"):
        return "" if color == "none" else color
    if color in ("white", "black"):
        return {"white": "#ffffff", "black": "#000000"}[color]
    grey = round(float(color) * 255)
    return f"#{grey:02x}{grey:02x}{grey:02x}"


def _text(text: object) -> str:
    """Return a string without the marks that keep matplotlib from reading mathematics in it."""
    return str(text).replace(r"\$", "$")
