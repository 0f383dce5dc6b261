"""A diagnosis on one screen, and as JSON: `perflog diagnose`."""

from __future__ import annotations

import json
from collections.abc import Iterator

from perflog.analysis.diagnosis import Diagnosis
from perflog.output.screens import folded
from perflog.output.sheets import Sheet, cell, pairs
from perflog.tables.schema import SCHEMA_VERSION

_TEXT = 200  # characters of a line of evidence


def screen(answer: Diagnosis) -> Iterator[str]:
    """Yield the lines of a diagnosis for a terminal."""
    yield from folded(cell(answer.verdict), 2)
    for name, text in _parts(answer):
        if name != "verdict":
            yield from folded(f"{name}: {cell(text)}" if name else f"  {cell(text)}", 2 if name else 4)


def diagnosis_sheet(answer: Diagnosis) -> Sheet:
    """Return a diagnosis as names and values."""
    return pairs("diagnosis", [(name or "evidence", text) for name, text in _parts(answer)], "diagnosis")


def as_json(answer: Diagnosis) -> str:
    """Return a diagnosis as JSON."""
    return json.dumps({"schema_version": SCHEMA_VERSION, **answer.as_json()}, indent=1, ensure_ascii=False)


def _parts(answer: Diagnosis) -> Iterator[tuple[str, str]]:
    yield "verdict", answer.verdict
    names = [culprit.name for culprit in answer.culprits if culprit.name]
    if names:
        yield "Culprit", "; ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    elif answer.reason and answer.kind:
        yield "Nobody is accused", answer.reason
    if answer.kind:
        yield "How sure", f"{answer.certainty}: {answer.why}" if answer.why else answer.certainty
    if answer.evidence:
        yield "Evidence", answer.evidence[0][:_TEXT]
        for text in answer.evidence[1:]:
            yield "", text[:_TEXT]
    if answer.followed:
        yield "What followed", answer.followed
    if answer.last_step is not None:
        yield "Last step", f"{answer.last_step:,}"
    for text in answer.earlier[:4]:
        yield "Earlier", text
    if answer.settles:
        yield "To settle it", answer.settles
