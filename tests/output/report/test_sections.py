"""Sections of a report: in one order, and only those with content."""

from __future__ import annotations

from typing import Any

from perflog.output.report.sections import sections

ANCHORS = "overview job comparison plots findings more-plots metrics runs definitions lines".split()


def test_sections_have_one_order_and_content() -> None:
    report: Any = object()

    def written(anchor: str) -> Any:
        return lambda given: anchor * (given is report)

    found = list(sections(report, {anchor: written(anchor) for anchor in ANCHORS[::-1]}))
    assert [section.anchor for section, _ in found] == [text for _, text in found] == ANCHORS
    assert [section.seen for section, _ in found] == [True] * 4 + [False] * 6
    assert [section.heading for section, _ in found][1] == "What happened to the job"
    some = sections(report, {"runs": lambda _: "r", "plots": lambda _: "", "job": lambda _: "j"})
    assert [(section.anchor, text) for section, text in some] == [("job", "j"), ("runs", "r")]
