"""Values of a picture, which pictures.js shows under the pointer, as compact JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from perflog.arrays import Floats
from perflog.plots.drawing.sketch import Area, Cells, Line, Panel, Sketch, Spans

_FINE = 100_000_000  # parts of an axis, for begins of spans
_EXACT = 1e15  # integers up to it are exact
_MOST_POINTS = 4000  # of a line with its values shown


def panel_values(panel: Panel) -> dict[str, Any]:
    """Return the values of a panel, in the units of its axes, as pictures.js reads them."""
    marks = list(enumerate(panel.marks))
    series = _lines(panel)
    series |= {k: _held(mark) for k, mark in marks if isinstance(mark, Area) and mark.label}
    spans = {k: mark for k, mark in marks if isinstance(mark, Spans)}
    cells = [mark for mark in panel.marks if isinstance(mark, Cells)]
    data: dict[str, Any] = {
        "x": [panel.xaxis.label, *map(float, panel.get_xlim())],
        "y": [panel.yaxis.label, *map(float, panel.get_ylim())],
        "height": round(panel.height),
        "series": series,
    }
    data |= {"spans": _packed_spans(spans, *panel.get_xlim())} if spans else {}
    data |= {"dates": True} if panel.xaxis.dates else {}
    data |= {"integer": True} if panel.xaxis.integer else {}
    data |= {"log": [panel.xaxis.base is not None, panel.yaxis.base is not None]}
    data |= {"named": True} if panel.xaxis.names is not None else {}
    if panel.yaxis.names is not None and panel.yaxis.places is not None:
        data["rows"] = dict(zip(_rounded(panel.yaxis.places, 6), panel.yaxis.names, strict=True))
    if cells:
        data["cells"] = {"extent": cells[0].extent, "values": [_rounded(row, 4) for row in cells[0].values]}
        data["cells"] |= {"rows": _packed_names(cells[0].rows), "columns": _packed_names(cells[0].columns)}
        scales = [scale.label for scale in panel.sketch.color_scales if scale.panel in (None, panel)]
        data["cells"]["label"] = scales[0] if scales else ""
    return data


def series_of(sketch: Sketch) -> list[dict[int, dict[str, object]]]:
    """Return the values of the lines of each panel: what a page asks for when it is zoomed."""
    return [_lines(panel) for panel in sketch.axes]


def _lines(panel: Panel) -> dict[int, dict[str, object]]:
    marks = enumerate(panel.marks)
    return {k: _series(mark) for k, mark in marks if isinstance(mark, Line) and _speaks(mark, panel)}


def _speaks(mark: Line, panel: Panel) -> bool:
    """Whether the values of a line are shown: not for lines that mark something, and only of few enough points."""
    if not mark.is_informative or len(mark.x) > _MOST_POINTS or (len(mark.x) <= 2 and mark.lines is None):
        return False
    return not mark.style or panel.yaxis.names is None


def _series(mark: Line) -> dict[str, object]:
    name = mark.name or mark.key
    label = f"mean, {name}".removesuffix(", ") if mark.gid == "mean" else name
    series = {"label": label, "x": _packed(mark.x), "y": _rounded(mark.y, 6)}
    series |= {"lines": _packed(mark.lines)} if mark.lines is not None else {}
    series |= {"each": mark.each} if mark.each > 1 else {}
    return series | ({} if mark.style else {"points": True})


def _held(mark: Area) -> dict[str, object]:
    """The values of an area, which are its heights, and where it ends above."""
    heights = _rounded(mark.high - mark.low, 6)
    return {"label": mark.key, "x": _packed(mark.x), "y": heights, "top": _rounded(mark.high, 6)}


def _packed_spans(marks: dict[int, Spans], first: float, last: float) -> dict[str, object]:
    """Spans of each mark: distances of their begins in parts of the axis, lengths, what they are and hold.

    `unit`: a length is `v // 10 * 10 ** (v % 10)` of these.
    """
    names = list(dict.fromkeys(name for mark in marks.values() for name in mark.names))
    place = {name: k for k, name in enumerate(names)}
    unit, tracks = 10.0 ** math.floor(math.log10(last - first) - 10), {}
    for k, mark in marks.items():
        begins = np.rint((mark.left - first) / (last - first) * _FINE).astype(np.int64)
        lengths = mark.right - mark.left
        track = {
            "y": mark.y, "height": mark.height, "x": np.diff(begins, prepend=0).tolist(),
            "w": _four_digits(lengths / unit), "n": [place[name] for name in mark.names],
        }  # fmt: skip
        if mark.times is not None and any(number > 1 for number in mark.events):
            track |= {"e": list(mark.events), "s": np.rint(100 * mark.times / lengths).astype(int).tolist()}
        tracks[k] = track
    return {"names": names, "unit": unit, "tracks": tracks}


def _four_digits(values: Floats) -> list[int]:
    """Numbers as four digits and the power of ten that they are multiplied with."""
    powers = np.clip(np.floor(np.log10(np.maximum(values, 1.0))) - 3, 0, 9)
    packed: list[int] = (np.rint(values / 10**powers) * 10 + powers).astype(np.int64).tolist()
    return packed


def _packed(values: Floats) -> Any:
    """Numbers; those at equal distances as the first one, the distance, and their number."""
    distances = np.unique(np.diff(values))
    if len(values) > 3 and len(distances) == 1 and float(values[0]).is_integer() and float(distances[0]).is_integer():
        return {"from": int(values[0]), "by": int(distances[0]), "n": len(values)}
    return _rounded(values, 9)


def _packed_names(names: Sequence[str]) -> Any:
    """Names; those that count are packed as numbers."""
    numbers = [int(name) if name.isdecimal() else -1 for name in names]
    packed = _packed(np.array(numbers, np.float64)) if list(map(str, numbers)) == list(names) else None
    return packed if isinstance(packed, dict) else list(names)


def _rounded(values: Iterable[float], digits: int) -> list[float | int | None]:
    rounded = (float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in map(float, values))
    return [
        int(value) if value is not None and value.is_integer() and abs(value) < _EXACT else value for value in rounded
    ]


def json_of(data: object) -> str:
    """Return data as JSON that no string can end."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
