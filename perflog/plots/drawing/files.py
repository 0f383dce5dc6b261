"""A figure as a file."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perflog.errors import UsageError
from perflog.files.whole_files import whole_file
from perflog.plots.drawing.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METADATA = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None, "Producer": None}}
"""By suffix: metadata that would differ between days or releases are left out."""
_MAX_PIXELS = 2e8
"""Of a PNG. A pixel takes 4 bytes, and matplotlib holds several copies of the image."""


def suffix(path: str | os.PathLike[str]) -> str:
    """Return the format of a file by its name: png, svg or pdf. Raises UsageError for another suffix."""
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in _METADATA:
        raise UsageError("a figure is written as png, svg or pdf", os.fspath(path), "name a file that ends in .png")
    return suffix


def render(figure: Figure, format: str, dpi: float = 150) -> bytes:
    """Return the bytes of a png, svg or pdf file; the same figure always gives the same bytes."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with styled(), mpl.rc_context({"svg.hashsalt": "perflog"}):
        figure.savefig(buffer, format=format, dpi=dpi, metadata=_METADATA[format])
    return buffer.getvalue()


def check_size(path: str | os.PathLike[str], size: Sequence[float], dpi: float) -> None:
    """Raise UsageError if the name of a file has another suffix, or if a PNG of this size has too many pixels."""
    width, height = size[0] * dpi, size[1] * dpi
    if suffix(path) == "png" and width * height > _MAX_PIXELS:
        reason = f"{width:.0f} x {height:.0f} pixels are too many"
        raise UsageError(reason, os.fspath(path), "choose a smaller size or fewer dpi")


def save(figure: Figure, path: str | os.PathLike[str], dpi: float = 150) -> None:
    """Write a figure to a file. The same figure always gives the same bytes.

    Args:
        figure: The figure that a plot returned.
        path: The file. Its suffix names the format: .png, .svg or .pdf.
        dpi: Dots per inch of a PNG.

    Raises:
        UsageError: The suffix is another one, or the PNG would have too many pixels.
        StoreError: The file cannot be written.

    Example:
        >>> figure = perflog.plots.steps(perflog.read("run.txt"))
        >>> perflog.plots.save(figure, "steps.png")
    """
    check_size(path, figure.get_size_inches().tolist(), dpi)
    data = render(figure, suffix(path), dpi)
    with whole_file(path) as draft:
        draft.write_bytes(data)
