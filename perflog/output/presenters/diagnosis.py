"""A diagnosis on one screen, and as JSON: `perflog diagnose`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from perflog.analysis.diagnosis import Diagnosis
from perflog.output.screens import folded
from perflog.output.sheets import Sheet, cell, pairs
from perflog.tables.schema import SCHEMA_VERSION
from perflog.units import first_few

_TEXT = 200  # characters of a line of evidence
_NAMED = 8  # jobs that did not fail
VERDICT = "Verdict"


def screen(answers: Sequence[Diagnosis]) -> Iterator[str]:
    """Yield the lines of the diagnoses of some jobs for a terminal. Jobs that did not fail are one line."""
    if len(answers) == 1:
        yield from _job(answers[0])
        return
    quiet = [answer for answer in answers if not answer.kind]
    for answer in answers:
        if answer.kind:
            yield f"{job_name(answer)}:"
            yield from (f"  {line}" for line in _job(answer))
    if quiet:
        names = first_few(map(job_name, quiet), _NAMED)
        yield from folded(cell(f"{len(quiet)} of {len(answers)} jobs report no failure: {names}"), 2)


def _job(answer: Diagnosis) -> Iterator[str]:
    yield from folded(cell(answer.verdict), 3)
    for name, text in parts(answer):
        if name != VERDICT:
            yield from folded(f"{name}: {cell(text)}" if name else f"  {cell(text)}", 2 if name else 4)


def job_name(answer: Diagnosis) -> str:
    """The logs of a job: the first of many."""
    return cell(first_few(answer.names, 2, " "))


def diagnosis_sheet(answer: Diagnosis) -> Sheet:
    """Return a diagnosis as names and values."""
    return pairs("diagnosis", [(name or "evidence", text) for name, text in parts(answer)], job_name(answer))


def as_json(answers: Sequence[Diagnosis]) -> str:
    """Return the diagnosis of a job as JSON; of several jobs as a list `jobs`."""
    found = [answer.as_json() for answer in answers]
    document = found[0] if len(found) == 1 else {"jobs": found}
    return json.dumps({"schema_version": SCHEMA_VERSION, **document}, indent=1, ensure_ascii=False)


def parts(answer: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield the parts of a diagnosis with their names; a further line of a part has no name."""
    yield VERDICT, answer.verdict
    names = [culprit.name for culprit in answer.culprits if culprit.name]
    if names:
        yield "Culprit", first_few(names, 8, "; ")
    elif answer.reason and answer.kind:
        yield "No culprit", answer.reason
    if answer.kind:
        yield "How sure", f"{answer.certainty}: {answer.why}" if answer.why else answer.certainty
    yield from zip(("Evidence", *[""] * len(answer.evidence)), (text[:_TEXT] for text in answer.evidence), strict=False)
    last = f"{answer.last_step:,}" if answer.last_step is not None else ""
    others = [("What followed", answer.followed), ("What it cost", answer.cost), ("Last step", last)]
    others += [("Earlier", text) for text in answer.earlier[:4]]
    others += [("Speed", text.removesuffix(".")) for text in answer.speed]
    yield from ((name, text) for name, text in [*others, ("To settle it", answer.settles)] if text)
