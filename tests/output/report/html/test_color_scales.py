"""Colours of cells: a pixel for each, and the bar that says what they mean."""

from __future__ import annotations

import re
import zlib

import numpy as np
import pytest

from perflog.output.report.html.color_scales import CIVIDIS, color_scale, png_of
from perflog.plots.drawing.sketch import Cells, ColorScale


def cells(values: list[list[float]], low: float, high: float) -> Cells:
    return Cells(values=np.array(values), extent=(0, 1, 1, 0), low=low, high=high)


def chunks(png: bytes) -> dict[str, bytes]:
    """The parts of a PNG by name, with their checksums checked."""
    found, at = dict[str, bytes](), 8
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        assert int.from_bytes(png[at + 8 + size : at + 12 + size], "big") == zlib.crc32(kind + data)
        found[kind.decode()] = data
        at += 12 + size
    return found


@pytest.mark.parametrize(
    ("values", "low", "high", "pixels"),
    [
        ([[0.0, np.nan, 1.0], [0.5, 2.0, -1.0]], 0.0, 1.0, [[1, 0, 255], [128, 255, 1]]),
        ([[2.0, 3.0, 4.0]], 2.0, 4.0, [[1, 128, 255]]),
        ([[2.0, 2.0]], 2.0, 2.0, [[1, 1]]),  # all are alike
    ],
)
def test_cells_are_a_picture_of_one_pixel_each(
    values: list[list[float]], low: float, high: float, pixels: list[list[int]]
) -> None:
    """Each line of a PNG begins with a byte for its filter, here none. Pixel 0 is transparent."""
    png = png_of(cells(values, low, high))
    found = chunks(png)
    assert png.startswith(b"\x89PNG\r\n\x1a\n") and list(found) == ["IHDR", "PLTE", "tRNS", "IDAT", "IEND"]
    assert list(zlib.decompress(found["IDAT"])) == [byte for row in pixels for byte in [0, *row]]
    width, height = (int.from_bytes(found["IHDR"][at : at + 4], "big") for at in (0, 4))
    assert (width, height, list(found["IHDR"][8:])) == (len(values[0]), len(values), [8, 3, 0, 0, 0])
    assert found["tRNS"] == b"\0"


def test_colors_go_from_dark_blue_to_yellow() -> None:
    palette = chunks(png_of(cells([[0.0]], 0.0, 1.0)))["PLTE"]
    colors = [palette[at : at + 3] for at in range(0, len(palette), 3)]
    assert len(colors) == 256 and colors[0] == b"\0\0\0"
    assert (colors[1], colors[255]) == (CIVIDIS[0], CIVIDIS[-1])
    between = (np.array(list(CIVIDIS[15])) + list(CIVIDIS[16]) + list(CIVIDIS[17])) / 3
    assert np.abs(np.array(list(colors[128])) - between).max() <= 2


@pytest.mark.parametrize(("beyond", "end"), [(False, " 1.5"), (True, " ≥ 1.5")])
def test_the_bar_of_a_scale(beyond: bool, end: str) -> None:
    bar = color_scale(ColorScale(cells([[0.0]], 0.25, 1.5), beyond, label="wait (ms)"))
    assert bar.startswith('<p class="color-scale">wait (ms): 0.25 <svg width="132"') and bar.endswith(f"{end}</p>")
    assert re.findall(r'x="(\d+)"', bar) == [str(4 * k) for k in range(len(CIVIDIS))]
    assert re.findall(r'fill="#(\w+)"', bar) == [color.hex() for color in CIVIDIS]
