"""Style of figures, independent of the user's settings of matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from perflog.errors import UsageError

_STYLE: dict[str, object] = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so that a figure looks the same on all machines
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-4, 6),
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "grid.color": "0.88",
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.0,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw with matplotlib's defaults and the style above. The user's settings neither count nor change.

    Raises:
        UsageError: The environment names a backend that matplotlib does not have.
    """
    try:
        import matplotlib.style
    except ValueError as error:
        reason = str(error).partition(";")[0].removeprefix("Key ")
        raise UsageError(f"matplotlib does not start: {reason}", help="unset MPLBACKEND, or set it to agg") from error

    with matplotlib.style.context(["default", _STYLE]):
        yield
