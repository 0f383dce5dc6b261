"""The sections of a report in their order, which is the same in HTML and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from perflog.output.report.data import ReportData


class Section(NamedTuple):
    """A section: its anchor and heading, and whether it is seen at once; the others are folded."""

    anchor: str
    heading: str
    seen: bool = False


_SECTIONS = (
    Section("overview", "Overview", seen=True),
    Section("job", "What happened to the job", seen=True),
    Section("comparison", "Comparison", seen=True),
    Section("plots", "Plots", seen=True),
    Section("findings", "Findings"),
    Section("more-plots", "More plots"),
    Section("metrics", "Metrics"),
    Section("runs", "Runs and logs"),
    Section("definitions", "Definitions"),
    Section("lines", "Lines of the logs"),
)


def sections(report: ReportData, writers: Mapping[str, Callable[[ReportData], str]]) -> Iterator[tuple[Section, str]]:
    """Yield each section that has content, as the writer of its anchor writes it; a form may have no writer for it."""
    for section in _SECTIONS:
        if content := writers[section.anchor](report) if section.anchor in writers else "":
            yield section, content
