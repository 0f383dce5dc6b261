"""How wide the columns of a table are where it has limited room, and which of them it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

GAP = 2
"""Blanks between two columns."""

_NARROWEST = 16


class Need(NamedTuple):
    """What a column needs: `least` columns of the terminal, `natural` for its longest value. `rank`: see `fit`."""

    natural: int
    least: int
    rank: int


def least_width(natural: int) -> int:
    """Return to how many columns names and other texts are cut before columns are left out."""
    return min(natural, _NARROWEST)


def fit(needs: Sequence[Need], room: int | None) -> list[int]:
    """Return the width of each column; 0 for a column that is left out because the room is limited.

    Columns of the highest rank are left out first, of one rank the last. Columns of rank 0 stay, and are narrower than
    their least width only if nothing else helps. Room that is left goes to the columns that are cut, the narrowest
    first.
    """
    widths = [need.natural for need in needs]
    if room is None or _total(widths) <= room:
        return widths
    widths = [need.least for need in needs]
    for place in sorted(range(len(needs)), key=lambda i: (-needs[i].rank, -i)):
        if _total(widths) <= room:
            break
        if needs[place].rank:
            widths[place] = 0
    while _total(widths) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    cut = {i for i, (width, need) in enumerate(zip(widths, needs, strict=True)) if 0 < width < need.natural}
    for _ in range(room - _total(widths)):
        if not cut:
            break
        place = min(cut, key=lambda i: widths[i])
        widths[place] += 1
        cut -= {place} if widths[place] == needs[place].natural else set()
    return widths


def _total(widths: Sequence[int]) -> int:
    shown = [width for width in widths if width]
    return sum(shown) + GAP * (len(shown) - 1)
