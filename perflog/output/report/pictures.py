"""Pictures on a page."""

from __future__ import annotations

import base64

from perflog.output.report.element import Html, join, link, tag
from perflog.output.report.subject import Picture, Subject

HEAVIEST = 1_000_000
"""Bytes of all pictures together."""


def pictures(subject: Subject) -> Html:
    """The pictures, each with a link to the metric it draws."""
    shown, weight = [], 0
    for one in subject.pictures:
        weight += len(one.data)
        if weight <= HEAVIEST:
            shown.append(_picture(one))
    left = len(subject.pictures) - len(shown)
    return join([*shown, tag("p", f"{left} more: perflog plot RUN lists them", class_="more") if left else ""])


def _picture(one: Picture) -> Html:
    kind = {"svg": "image/svg+xml", "png": "image/png"}[one.format]
    source = f"data:{kind};base64,{base64.b64encode(one.data).decode()}"
    image = tag("img", src=source, alt=f"{one.title}: {one.says}", width=one.width, height=one.height)
    told = tag("figcaption", one.says, ". ", link(f"metric-{one.metric}", "The numbers"))
    return tag("figure", tag("div", image, class_="scroll", tabindex=0, role="region", aria_label=one.title), told)
