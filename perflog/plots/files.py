"""A figure as a file."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from perflog.errors import PerflogError, UsageError
from perflog.plots.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METADATA = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None, "Producer": None}}
"""By suffix: what would differ from day to day, or from release to release, is not written."""
_PIXELS = 2e8
"""Most pixels of a PNG; each takes 4 bytes, several times over."""


def suffix(path: str | os.PathLike[str]) -> str:
    """png, svg or pdf. Raises UsageError for another end of a file's name."""
    end = Path(path).suffix.lower().removeprefix(".")
    if end not in _METADATA:
        raise UsageError("a figure is written as png, svg or pdf", os.fspath(path), "name a file that ends in .png")
    return end


def render(figure: Figure, format: str, dpi: float = 150) -> bytes:
    """The bytes of a png, svg or pdf file: the same for the same figure."""
    import matplotlib as mpl

    out = io.BytesIO()
    with styled(), mpl.rc_context({"svg.hashsalt": "perflog"}):
        figure.savefig(out, format=format, dpi=dpi, metadata=_METADATA[format])
    return out.getvalue()


def save(figure: Figure, path: str | os.PathLike[str], dpi: float = 150) -> None:
    """Write a figure in the format that the file's name ends in. Raises PerflogError if it cannot be written."""
    width, height = figure.get_size_inches() * dpi
    if suffix(path) == "png" and width * height > _PIXELS:
        reason = f"{width:.0f} x {height:.0f} pixels are too many"
        raise UsageError(reason, os.fspath(path), "take fewer inches or fewer dpi")
    data = render(figure, suffix(path), dpi)
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise PerflogError(f"cannot be written: {error.strerror}", os.fspath(path)) from error
