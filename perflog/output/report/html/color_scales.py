"""Colours of cells on a page: the cells as a picture, and the bar that shows what their colours mean."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from perflog.arrays import Floats
from perflog.output.report.html.elements import Html, tag
from perflog.plots.drawing.sketch import Cells, ColorScale

CIVIDIS = tuple(bytes.fromhex(color) for color in """
    00224e 00285b 002e6a 053371 1a386f 273e6e 32436d 3b496c 434e6c 4b546c 535a6d
    5a5f6e 61656f 686a71 6f7073 767676 7d7c78 848279 8c8878 938e78 9b9476 a39a74
    aba072 b4a76f bcae6c c4b468 cdbb63 d5c25e dec958 e7d150 f0d846 f9e03a fee838
""".split())  # fmt: skip
"""The colours of matplotlib's map of that name at equal distances (Nuñez, Anderton, Renslow 2018)."""


def png_of(cells: Cells) -> bytes:
    """Return cells as a picture of one pixel each; those without a value are transparent."""
    shares = np.clip((cells.values - cells.low) / (cells.high - cells.low or 1.0), 0, 1)
    known = np.isfinite(shares)
    index = np.where(known, 1 + np.rint(np.where(known, shares, 0) * 254), 0).astype(np.uint8)
    palette = b"\0\0\0" + np.rint(_colors(np.arange(255) / 254)).astype(np.uint8).tobytes()
    rows = np.insert(index, 0, 0, axis=1).tobytes()
    height, width = cells.values.shape
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0), b"PLTE": palette, b"tRNS": b"\0",
        b"IDAT": zlib.compress(rows, 9), b"IEND": b"",
    }  # fmt: skip
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts.items()
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _colors(shares: Floats) -> Floats:
    """Red, green and blue (0 to 255) of shares of a colour scale."""
    stops = np.array([list(color) for color in CIVIDIS], np.float64)
    places = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(shares, places, stops[:, k]) for k in range(3)], axis=-1)


def color_scale(scale: ColorScale) -> Html:
    """Return the bar that shows what the colours of cells mean."""
    stops = "".join(f'<rect x="{k * 4}" width="5" height="10" fill="#{c.hex()}"/>' for k, c in enumerate(CIVIDIS))
    bar = Html(f'<svg width="{4 * len(CIVIDIS)}" height="10" aria-hidden="true">{stops}</svg>')
    end = f"{'≥ ' * scale.beyond}{scale.cells.high:.4g}"
    return tag("p", f"{scale.label}: {scale.cells.low:.4g} ", bar, f" {end}", class_="color-scale")
