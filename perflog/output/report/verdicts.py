"""A comparison on a page: the verdict, what to know before it is believed, in what the sides differ."""

from __future__ import annotations

from perflog.analysis.compare import Comparison
from perflog.output.presenters.compare import sentence
from perflog.output.report.element import Html, join, link, tag
from perflog.output.report.grid import Head, grid, short, words
from perflog.output.report.metrics import shown, table
from perflog.output.report.subject import Subject

_MOST = 100  # settings, or findings about the sides


def verdicts(subject: Subject) -> Html:
    """The section of a comparison, or why there is none."""
    found = subject.comparison
    if not isinstance(found, Comparison):
        return tag("p", f"Not compared: {found}")
    limits = shown(subject)
    verdict = f"{', '.join(found.sides[1:])} against {found.sides[0]}: {found.verdict}"
    return join((
        tag("p", verdict, class_="verdict"),
        tag("ul", *(tag("li", sentence(one), " (", one["reason"], ")") for one in found.headlines[:_MOST])),
        *(tag("p", text, class_="faint") for text in found.warnings),
        *_caveats(found),
        tag("h3", "settings that differ"),
        _settings(found),
        *(table(one, limits[one.name], subject, "compare SIDES --format csv") for one in subject.compared),
    ))  # fmt: skip


def _caveats(found: Comparison) -> list[Html]:
    """Findings about the sides together; those about single runs stand among the findings."""
    told = [one for one in found.finding_records if one["run"] is None]
    return [
        tag(
            "article",
            tag("h3", tag("span", one["severity"], class_="badge"), " ", tag("code", one["code"])),
            tag("p", f"{one['case']}: " if one["case"] else "", short(one["message"])),
            tag("p", link("metric-comparison", "The numbers")),
            class_=f"finding {one['severity']}",
        )
        for one in told[:_MOST]
    ]


def _settings(found: Comparison) -> Html:
    if not found.setting_records:
        return tag("p", "None that the logs tell of.")
    names = [*(["case"] if len(found.cases) > 1 else []), "setting", *found.sides]
    rows = (tag("tr", *(words(one[n]) for n in names)) for one in found.setting_records[:_MOST])
    return grid("settings that differ", [Head(n) for n in names], rows)
