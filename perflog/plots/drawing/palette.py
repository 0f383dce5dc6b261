"""Colours, fills and lines of all plots, which differ in grey too."""

from __future__ import annotations

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, RED, PINK = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
"""The palette of Okabe and Ito (2008), which colour-blind readers can distinguish."""

FILLS = (
    (BLUE, ""), (ORANGE, ""), (GREEN, "///"), (YELLOW, ""), (SKY, "\\\\\\"), (RED, ""), (PINK, "xxx"),
    (YELLOW, "///"), (ORANGE, "..."), (GREEN, "xxx"), (SKY, "---"), (PINK, "+++"), (RED, "..."),
    (YELLOW, "xxx"), (SKY, "ooo"), (ORANGE, "|||"), (PINK, "///"), (GREEN, "|||"), (YELLOW, "++"), (SKY, "xx"),
)  # fmt: skip
"""Fills of areas: colour and hatch. Colours that are equal in grey (green, red; orange, sky, pink) differ in hatch."""

LINES = (
    (BLUE, "-", "o"),
    (RED, "--", "s"),
    (GREEN, "-.", "^"),
    (BLACK, ":", "D"),
    (ORANGE, "-", "v"),
    (PINK, "--", "P"),
)
"""Colour, line style and marker of curves."""

CMAP = "cividis"
