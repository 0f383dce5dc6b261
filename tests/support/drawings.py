"""What a figure holds, in the types that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from numpy.typing import NDArray


def bars(axes: Axes) -> list[Rectangle]:
    """Return the bars of a panel. matplotlib declares them as patches of any shape."""
    return cast("list[Rectangle]", list(axes.patches))


def xs(line: Line2D) -> NDArray[np.float64]:
    """Return the horizontal positions of a line's points."""
    return np.asarray(line.get_xdata(), np.float64)


def ys(line: Line2D) -> NDArray[np.float64]:
    """Return the vertical positions of a line's points."""
    return np.asarray(line.get_ydata(), np.float64)
