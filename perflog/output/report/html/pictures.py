"""Plots as SVG that fits its box, with the values that pictures.js shows under the pointer.

Across, places are parts of the width, so that a picture is as wide as its column without a script; down, they are
pixels. Lines and areas are in an inner picture that is stretched; texts, bars and points keep their shape.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence

import numpy as np

from perflog.arrays import Floats
from perflog.output.report.html.axis_ticks import ticks_of
from perflog.output.report.html.color_scales import color_scale, png_of
from perflog.output.report.html.elements import Html, as_html, tag
from perflog.output.report.html.picture_values import json_of, panel_values
from perflog.plots.drawing.sketch import (
    Area,
    Axis,
    Bars,
    Cells,
    Line,
    Mark,
    Panel,
    Sketch,
    Span,
    Spans,
    Text,
)

_WIDE = 10_000  # units across of the inner picture, and
_SMALL = 4  # pixels of a circle
_LEAST = 5  # units of a span that is shorter
_DEEP = 10  # of a pixel down
_STRIP = 20  # pixels below a panel, for the numbers of its ticks
_LETTER = 6.2  # pixels across, at most of most
_MARGIN = 12
_MAX_NAME = 30  # letters of a name beside a bar
_FEW = 500  # points that are drawn one by one
_USUAL_WIDTH = 640  # pixels of a panel that texts are placed for

_DASHES = {"--": "6 4", "-.": "7 3 2 3", ":": "2 3"}
_ROUND = ("o", ".")
_SHAPES = {
    "s": "M-3-3H3V3H-3z", "^": "M0-3.6 3.6 3H-3.6z", "v": "M0 3.6 3.6-3H-3.6z", ">": "M3.6 0-3 3.6V-3.6z",
    "D": "M0-4 4 0 0 4-4 0z", "P": "M-1.3-4h2.6v2.7H4v2.6H1.3V4h-2.6V1.3H-4v-2.6h2.7z", "x": "M-3-3 3 3M3-3-3 3",
    "|": "M0-4V4", "_": "M-4 0H4", "o": "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",
}  # fmt: skip
_HATCHES = {
    "/": "M-1 9 9-1M-1 1 1-1M7 9 9 7", "\\": "M-1-1 9 9M7-1 9 1M-1 7 1 9", "x": "M-1 9 9-1M-1-1 9 9", "-": "M0 4H8",
    "|": "M4 0V8", "+": "M0 4H8M4 0V8", ".": "M2 2h.1M6 6h.1", "o": "M2 4a2 2 0 1 0 4 0a2 2 0 1 0-4 0",
}  # fmt: skip


def picture(sketch: Sketch, name: str, title: str) -> Html:
    """Return a plot: legend, panels, notes, and its values as data. `name`: of its parts, unique on a page."""
    return _Picture(sketch, name, title).written()


class _Picture:
    def __init__(self, sketch: Sketch, name: str, title: str) -> None:
        self.sketch, self.name, self.title = sketch, name, title
        self.patterns: dict[tuple[str, str], str] = {}
        keys = [handle.key for handle in sketch.handles]
        self.keys = {key: k for k, key in enumerate(dict.fromkeys(keys))}

    def written(self) -> Html:
        panels = [self._panel(panel) for panel in self.sketch.axes]
        values = [panel_values(panel) for panel in self.sketch.axes]
        scales = [scale for scale in self.sketch.color_scales if scale.panel is None]
        legend = self._legend()
        parts = (
            self._definitions(),
            legend,
            *(color_scale(scale) for scale in scales),
            tag("div", *panels, class_=f"panels of-{self.sketch.columns}"),
            *(tag("p", note, class_="note") for note in self.sketch.notes),
            tag("script", Html(json_of(values)), type="application/json"),
        )
        return tag("div", *parts, class_="picture", role="group", aria_label=self.title)

    # --- legend ---

    def _legend(self) -> Html:
        entries = [
            tag("li", self._swatch(handle), tag("span", handle.label), data_k=self.keys[handle.key])
            for handle in {handle.key: handle for handle in self.sketch.handles}.values()
        ]
        title = f"{self.sketch.legend_title}:" if self.sketch.legend_title else ""
        return tag("ul", tag("li", title) if title else "", *entries, class_="legend") if entries else Html()

    def _swatch(self, mark: Mark) -> Html:
        box = Html('<rect x=".5" y="1.5" width="21" height="9"')
        if isinstance(mark, Line):
            inner = ""
            if mark.style:
                dash = f' stroke-dasharray="{_DASHES[mark.style]}"' if mark.style in _DASHES else ""
                width = min(mark.width, 3) + 0.3
                inner = f'<path d="M0 6H22" fill="none"{_stroke(mark.color)} stroke-width="{width:.3g}"{dash}/>'
            if mark.marker:
                shape = "o" if mark.marker in _ROUND else mark.marker
                inner += f'<use href="#{self._id(shape)}" x="11" y="6"{_point_style(mark)}/>'
        else:
            edge = _stroke(mark.edge) if mark.edge else ""
            inner = f"{box}{self._fill(mark.color, mark.hatch, mark.alpha)}{edge}/>"
        return Html(f'<svg width="22" height="12" aria-hidden="true">{inner}</svg>')

    # --- panels ---

    def _panel(self, panel: Panel) -> Html:
        x, y = panel.get_xlim(), panel.get_ylim()
        place = _Place(panel, x, y)
        height = place.height
        marks = [mark for mark in panel.marks if not isinstance(mark, Text)]
        under = [self._element(place, mark) for mark in marks if isinstance(mark, Cells | Span)]
        under += self._bars(place, [mark for mark in marks if isinstance(mark, Bars)])
        stretched = [self._curve(place, k, mark) for k, mark in enumerate(panel.marks) if isinstance(mark, Area | Line)]
        spans = [self._spans(place, k, mark) for k, mark in enumerate(panel.marks) if isinstance(mark, Spans)]
        over = [self._points(place, mark) for mark in marks if isinstance(mark, Line)]
        over += [self._text(place, mark) for mark in panel.marks if isinstance(mark, Text)]
        ticks, names = ticks_of(panel.xaxis, x), ticks_of(panel.yaxis, y)
        ground = ""
        if panel.patch.hatched:
            ground = f'<rect width="100%" height="{height:g}"{self._fill("#ffffff", "//", 1.0)}/>'
        lines = ""
        if panel.yaxis.grid:
            lines = "".join(f'<line x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>' for y in (place.down(v) for v, _ in names))
        box = f'width="100%" height="{height:g}"'
        stretch = f'{box} viewBox="0 0 {_WIDE} {height * _DEEP:g}" preserveAspectRatio="none" fill="none"'
        on_tracks = f'<svg {stretch} class="spans">{"".join(spans)}</svg>' if spans else ""
        plot = (
            f'<svg class="plot" height="{height + _STRIP:g}" role="img" aria-label="{as_html(self._said(panel))}">'
            f"{ground}"
            f'<g class="grid">{lines}</g>'
            f'<g class="x{" grid" if panel.xaxis.grid else ""}">{"".join(_tick(place, *tick) for tick in ticks)}</g>'
            f'<svg {box} class="marks">{"".join(under)}</svg>'
            f'<svg {stretch} class="curves">{"".join(stretched)}</svg>'
            f"{on_tracks}"
            f'<path class="axis" d="M0 0V{height:g}"/><rect class="axis" y="{height:g}" width="100%" height="1"/>'
            f'<g class="marks">{"".join(over)}</g></svg>'
        )
        above = any(isinstance(mark, Text) and "y" in mark.on_axes and mark.y >= 1 for mark in panel.marks)
        axes = f"axes{' below-texts' * above}"
        panel_scales = [color_scale(scale) for scale in self.sketch.color_scales if scale.panel is panel]
        return tag(
            "div",
            tag("p", *_lines_of(panel.title), class_="panel-title") if panel.title else "",
            *panel_scales,
            tag("p", panel.yaxis.label, class_="y-name") if panel.yaxis.label else "",
            tag("div", _names(place, names, panel.yaxis.names is not None), Html(plot), class_=axes),
            tag("p", panel.xaxis.label, class_="x-name") if panel.xaxis.label else "",
            class_="panel",
        )

    def _said(self, panel: Panel) -> str:
        """What a screen reader says of a panel."""
        about = " over ".join(filter(None, (panel.yaxis.label, panel.xaxis.label)))
        return ": ".join(filter(None, (panel.title.replace("\n", ", ") or self.title, about)))

    def _element(self, place: _Place, mark: Cells | Span) -> str:
        key = self._key(mark)
        if isinstance(mark, Cells):
            left, right, bottom, top = mark.extent
            across = _percents(place, left, right)
            down = sorted((place.down(bottom), place.down(top)))
            source = f"data:image/png;base64,{base64.b64encode(png_of(mark)).decode()}"
            size = f'y="{down[0]:.1f}" height="{down[1] - down[0]:.1f}"'
            return f'<image {across} {size} preserveAspectRatio="none" href="{source}"/>'
        fill = self._fill(mark.color, mark.hatch, mark.alpha)
        if mark.axis == "x":
            return f'<rect class="span" {_percents(place, mark.low, mark.high)} height="100%"{fill}{key}/>'
        down = sorted((place.down(mark.low), place.down(mark.high)))
        height = max(down[1] - down[0], 1)
        return f'<rect class="span" width="100%" y="{down[0]:.1f}" height="{height:.1f}"{fill}{key}/>'

    def _bars(self, place: _Place, marks: Sequence[Bars]) -> Iterator[str]:
        """All bars of a panel, grouped by style."""
        by_style: dict[str, list[str]] = {}
        for mark in marks:
            colors = mark.colors if len(mark.colors) == len(mark.y) else [mark.color] * len(mark.y)
            edge = "" if mark.edge == "#000000" else _stroke(mark.edge) if mark.edge else ' stroke="none"'
            for left, right, y, color in zip(mark.left, mark.right, mark.y, colors, strict=True):
                if not math.isfinite(right - left) or right == left:
                    continue
                style = f"{self._fill(color, mark.hatch, mark.alpha)}{edge}{self._key(mark)}"
                ends = sorted((place.down(y - mark.height / 2), place.down(y + mark.height / 2)))
                across = _percents(place, *sorted((left, right)))
                by_style.setdefault(style, []).append(
                    f'<rect {across} y="{ends[0]:.1f}" height="{ends[1] - ends[0]:.1f}">'
                    f"<title>{as_html(_said(mark, left, right))}</title></rect>"
                )
        return (f'<g class="bars"{style}>{"".join(rects)}</g>' for style, rects in by_style.items())

    def _spans(self, place: _Place, number: int, mark: Spans) -> str:
        """Spans as strokes; a span at the position of the one before is left out."""
        middle, height = round(place.down(mark.y) * _DEEP), place.down(mark.y - mark.height / 2)
        height = abs(place.down(mark.y + mark.height / 2) - height)
        left = np.rint(place.units(mark.left)).astype(int).tolist()
        right = np.rint(place.units(mark.right)).astype(int).tolist()
        parts, end = [f"M0 {middle}"], 0
        for first, last in zip(left, right, strict=True):
            first, last = max(first, end), max(last, first + _LEAST)
            if last > end:
                parts.append(f"m{first - end} 0h{last - first}")
                end = last
        stroke = f'{_stroke(mark.color, mark.alpha)} stroke-width="{height:.3g}"'
        return f'<path data-s="{number}"{self._key(mark)}{stroke} d="{"".join(parts)}"/>'

    def _curve(self, place: _Place, number: int, mark: Area | Line) -> str:
        if isinstance(mark, Area):
            x, low, high = place.units(mark.x), place.depths(mark.low), place.depths(mark.high)
            if mark.steps:
                (x, low), (_, high) = _stepped(x, low), _stepped(x, high)
            outline = _path(np.concatenate((x, x[::-1])), np.concatenate((high, low[::-1])))
            fill = self._fill(mark.color, "", mark.alpha)
            return f'<g data-s="{number}"{self._key(mark)}><path d="{outline}z"{fill}/></g>' if outline else ""
        drawn = []
        x, y = place.points(mark)
        if mark.style and len(x) > 1:
            at, down = _stepped(x, y) if mark.steps else (x, y)
            dash = f' stroke-dasharray="{_DASHES[mark.style]}"' if mark.style in _DASHES else ""
            drawn.append(
                f'<path d="{_path(at, down)}"{_stroke(mark.color, mark.alpha)} stroke-width="{mark.width:.3g}"{dash}/>'
            )
        if _are_dots(mark):
            x, y = _distinct(x, y) if len(x) > _FEW else (x[:: mark.every], y[:: mark.every])
            dots = _path(x, y, dots=True)
            size = max(float(mark.sizes[0]) * (0.9 if mark.marker == "." else 1.2), 2)
            drawn.append(f'<path class="dots" d="{dots}"{_stroke(mark.color, mark.alpha)} stroke-width="{size:.3g}"/>')
        return f'<g data-s="{number}"{self._key(mark)}>{"".join(drawn)}</g>' if drawn else ""

    def _points(self, place: _Place, mark: Line) -> str:
        """Points that are no dots: they keep their shape where the picture is stretched."""
        if not mark.marker or _are_dots(mark):
            return ""
        shape = "o" if mark.marker in _ROUND else mark.marker
        x, y = place.points(mark)
        inside = np.isfinite(x) & np.isfinite(y) & (x >= 0) & (x <= _WIDE)
        sizes = np.broadcast_to(mark.sizes, x.shape)
        uses = []
        for k in np.flatnonzero(inside)[:: mark.every]:
            at = f"{x[k] * 100 / _WIDE:.4g}%"
            down = y[k] / _DEEP
            if mark.marker in _ROUND and (len(mark.sizes) > 1 or mark.sizes[0] < _SMALL):
                uses.append(f'<circle cx="{at}" cy="{down:.1f}" r="{max(sizes[k] / 2, 1.2):.2g}"/>')
            elif len(mark.sizes) > 1:
                shape_of_size = f'<use href="#{self._id(shape)}" transform="scale({sizes[k] / 6:.2g})"/>'
                uses.append(f'<svg class="sized" x="{at}" y="{down:.1f}">{shape_of_size}</svg>')
            else:
                uses.append(f'<use href="#{self._id(shape)}" x="{at}" y="{down:.1f}"/>')
        return f"<g{_point_style(mark)}{self._key(mark)}>{''.join(uses)}</g>" if uses else ""

    def _text(self, place: _Place, mark: Text) -> str:
        right = mark.x if "x" in mark.on_axes else place.right(mark.x)
        down = place.height * (1 - mark.y) if "y" in mark.on_axes else place.down(mark.y)
        if not (math.isfinite(right) and math.isfinite(down)) or not -0.01 <= right <= 1.01:
            return ""
        shift, anchor = mark.shift[0], {"left": "", "center": "middle", "right": "end"}[mark.across]
        if not anchor and right + len(mark.text) * _LETTER / _USUAL_WIDTH > 1.02:
            shift, anchor = -abs(shift), "end"
        down += {"center": 4, "top": 10}.get(mark.along, 0) - mark.shift[1]
        attributes = f' dx="{shift:g}"' * bool(shift) + f' text-anchor="{anchor}"' * bool(anchor)
        fill = f' fill="{mark.color}"' if mark.color else ""
        plain = "" if mark.color and anchor == "middle" else ' class="halo"'
        return f'<text x="{right * 100:.4g}%" y="{down:.1f}"{attributes}{fill}{plain}>{as_html(mark.text)}</text>'

    # --- fills, names ---

    def _key(self, mark: Mark) -> str:
        return f' data-k="{self.keys[mark.key]}"' if mark.key in self.keys else ""

    def _id(self, part: str) -> str:
        return f"{self.name}-{ord(part):x}"

    def _fill(self, color: str, hatch: str, alpha: float) -> str:
        if hatch:
            id = self.patterns.setdefault((color, hatch), f"{self.name}-fill-{len(self.patterns)}")
            return f' fill="url(#{id})"'
        return _plain_fill(color, alpha)

    def _definitions(self) -> Html:
        patterns = []
        for (color, hatch), id in self.patterns.items():
            size = 8 if len(hatch) < 4 else 6
            kind = hatch[0]
            width = 1.6 if kind == "." else 0.7
            patterns.append(
                f'<pattern id="{id}" width="{size}" height="{size}" viewBox="0 0 8 8" patternUnits="userSpaceOnUse">'
                f'<rect width="8" height="8" stroke="none"{_plain_fill(color)}/>'
                f'<path d="{_HATCHES[kind]}" class="hatch" stroke-width="{width}"/></pattern>'
            )
        shapes = {mark.marker for panel in self.sketch.axes for mark in panel.marks if isinstance(mark, Line)}
        shapes = {"o" if shape in _ROUND else shape for shape in shapes if shape}
        symbols = [f'<path id="{self._id(shape)}" d="{_SHAPES[shape]}"/>' for shape in sorted(shapes)]
        content = "".join((*patterns, *symbols))
        return Html(f'<svg class="definitions" aria-hidden="true"><defs>{content}</defs></svg>' if content else "")


class _Place:
    """Where values of a panel are: across as a part of its width, down in pixels."""

    def __init__(self, panel: Panel, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.panel, self.height = panel, round(panel.height)
        self._x, self._y = _Scale(panel.xaxis, *x), _Scale(panel.yaxis, *y)

    def right(self, x: float) -> float:
        return float(self._x(_one(x))[0])

    def down(self, y: float) -> float:
        return self.height * (1 - float(self._y(_one(y))[0]))

    def units(self, x: Floats) -> Floats:
        return np.asarray(self._x(x) * _WIDE)

    def depths(self, y: Floats) -> Floats:
        return np.asarray((1 - self._y(y)) * self.height * _DEEP)

    def points(self, mark: Line) -> tuple[Floats, Floats]:
        x = mark.x * _WIDE if "x" in mark.on_axes else self.units(mark.x)
        y = (1 - mark.y) * self.height * _DEEP if "y" in mark.on_axes else self.depths(mark.y)
        return x, y


class _Scale:
    """A linear or logarithmic scale from the ends of an axis to 0 and 1."""

    def __init__(self, axis: Axis, first: float, last: float) -> None:
        self.logarithmic = axis.base is not None
        self.first, self.last = self._of(np.array([first, last]))

    def _of(self, values: Floats) -> Floats:
        if not self.logarithmic:
            return values
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(values > 0, np.log10(values), np.nan)

    def __call__(self, values: Floats) -> Floats:
        return np.asarray((self._of(values) - self.first) / (self.last - self.first or 1.0))


def _one(value: float) -> Floats:
    return np.array([value], np.float64)


# --- marks ----------------------------------------------------------------------------------------------------------


def _said(mark: Bars, left: float, right: float) -> str:
    """What a bar is, and its length; of a box of a distribution its ends."""
    value = f"quartiles {left:.4g} to {right:.4g}" if mark.gid == "box" else f"{right - left:.4g}"
    name = mark.name or mark.key
    return f"{name}: {value}" if name else value


def _path(x: Floats, y: Floats, dots: bool = False) -> str:
    """The path through points, in whole units; it is broken where a position is not known."""
    known = np.isfinite(x) & np.isfinite(y)
    across = np.rint(np.where(known, np.clip(x, -_WIDE, 2 * _WIDE), 0)).astype(int).tolist()
    down = np.rint(np.where(known, np.clip(y, -1e5, 1e5), 0)).astype(int).tolist()
    parts: list[str] = []
    last: tuple[int, int] | None = None
    for place, seen in zip(zip(across, down, strict=True), known.tolist(), strict=True):
        if not seen:
            last = None
            continue
        if dots:
            if place != last:
                parts.append(f"M{place[0]} {place[1]}h0")
        elif last is None:
            parts.append(f"M{place[0]} {place[1]}")
        else:
            right, below = place[0] - last[0], place[1] - last[1]
            parts.append(f"l{right}{below}" if below < 0 else f"l{right} {below}")
        last = place
    return "".join(parts)


def _are_dots(mark: Line) -> bool:
    """Whether the points of a line are ends of strokes, which take the fewest bytes; many circles are that too."""
    same_size = mark.marker in _ROUND and len(mark.sizes) == 1
    return same_size and (len(mark.x) > _FEW or not (mark.hollow or mark.edge))


def _distinct(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Points that are not almost all at one position."""
    grain = np.array([15, 5])
    places = np.unique(np.rint(np.stack((x, y), axis=1) / grain), axis=0) * grain
    return places[:, 0], places[:, 1]


def _stepped(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Points of a line that keeps each value until the next one."""
    return np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]


def _percents(place: _Place, left: float, right: float) -> str:
    first, last = place.right(left), place.right(right)
    return f'x="{first * 100:.5g}%" width="{max(last - first, 0) * 100:.4g}%"'


def _plain_fill(color: str, alpha: float = 1.0) -> str:
    """A fill; white is the ground of the page, and greys are thin layers of its ink, so that they suit a dark one."""
    if not color:
        return ' fill="none"'
    if _is_grey(color) and color != "#ffffff":
        return f' fill="currentColor" fill-opacity="{alpha * (1 - int(color[1:3], 16) / 255):.2g}"'
    return f' fill="{color}"' + (f' fill-opacity="{alpha:g}"' if alpha < 1 else "")


def _stroke(color: str, alpha: float = 1.0) -> str:
    if _is_grey(color):
        alpha, color = alpha * (1 - int(color[1:3], 16) / 255), "currentColor"
    return f' stroke="{color}"' + (f' stroke-opacity="{alpha:.2g}"' if alpha < 1 else "")


def _is_grey(color: str) -> bool:
    return len(color) == 7 and color[1:3] == color[3:5] == color[5:7]


def _point_style(mark: Line) -> str:
    if mark.hollow or mark.marker in ("x", "|", "_"):
        return f' fill="none"{_stroke(mark.color)}'
    edge = _stroke(mark.edge) if mark.edge else ""
    return f"{_plain_fill(mark.color, mark.alpha)}{edge}"


# --- axes -----------------------------------------------------------------------------------------------------------


def _tick(place: _Place, value: float, name: str) -> str:
    at = f"{place.right(value) * 100:.5g}%"
    return (
        f'<line x1="{at}" x2="{at}" y2="{place.height}"/><text x="{at}" y="{place.height + 14}">{as_html(name)}</text>'
    )


def _names(place: _Place, ticks: Sequence[tuple[float, str]], indented: bool) -> Html:
    """The numbers or names beside a panel."""
    indent = indented and any(name.startswith("   ") for _, name in ticks)
    entries = [(place.down(value), list(map(_cut, name.split("\n")))) for value, name in ticks]
    widest = max((len(line) for _, lines in entries for line in lines), default=0)
    width = max(int(widest * _LETTER) + _MARGIN, 24)
    texts = []
    for down, lines in entries:
        for k, line in enumerate(lines):
            y = down + 4 + 13 * (k - (len(lines) - 1) / 2)
            at = f'x="{(len(line) - len(line.lstrip())) * 3}"' if indent else 'x="100%" dx="-6"'
            texts.append(f'<text {at} y="{y:.1f}">{as_html(line.strip() if indent else line)}</text>')
    size = f'width="{width}" height="{place.height + _STRIP}"'
    return Html(f'<svg class="y{" tree" * indent}" {size} aria-hidden="true">{"".join(texts)}</svg>')


def _cut(name: str) -> str:
    """A name without its middle, if it is long; the blanks before it show its depth in a tree, and stay."""
    depth = len(name) - len(name.lstrip())
    if len(name) - depth <= _MAX_NAME:
        return name
    head = _MAX_NAME * 2 // 3
    return f"{name[: depth + head]}…{name[len(name) - (_MAX_NAME - 1 - head) :]}"


def _lines_of(title: str) -> Iterator[Html]:
    first, *others = title.split("\n")
    yield as_html(first)
    yield from (tag("span", other) for other in others)
