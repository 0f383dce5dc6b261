"""A diagnosis on one screen, and as JSON: `perflog diagnose`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from perflog.analysis.culprits import names_of
from perflog.analysis.diagnosis import Diagnosis
from perflog.analysis.job_members import UNKNOWN
from perflog.lazy_patterns import lazy_pattern
from perflog.output.screens import folded, folded_list
from perflog.output.sheets import Sheet, cell, pairs
from perflog.parsing.failures.first_cause import NOT_KNOWN
from perflog.tables.schema import SCHEMA_VERSION
from perflog.units import count, first_few, plural

_TEXT = 200  # characters of a line of evidence
_LINES = {"": 4, "Evidence": 4, "To settle it": 4}  # of the screen, for parts of more than two
_NAMED = 8  # jobs that did not fail
_ACCUSED = 8  # culprits
_EARLIER = 4  # attempts
_NUMBER = lazy_pattern(r"\d[\d,]*")
_LINE = lazy_pattern(r", (?:line |\S+:)[\d,]+$")  # of a log, at the end of a verdict
VERDICT, CULPRIT = "Verdict", "Culprit"


def screen(answers: Sequence[Diagnosis]) -> Iterator[str]:
    """Yield the lines of the diagnoses of some jobs for a terminal.

    Of jobs that end alike, for the same reason, the first is shown whole, and the verdict of the others. Jobs that did
    not fail are one line, and so are the benchmarks beside them.
    """
    jobs = [answer for answer in answers if not answer.benchmark]
    if len(jobs) == 1:
        yield from _job(jobs[0])
    alike: dict[tuple[str, str], list[Diagnosis]] = {}
    for answer in answers:
        if answer.kind and not (len(jobs) == 1 and answer is jobs[0]):
            end = _NUMBER.sub("#", _LINE.sub("", answer.verdict))
            alike.setdefault((end, _NUMBER.sub("#", answer.why)), []).append(answer)
    for first, *others in alike.values():
        yield f"{heading(first)}:"
        yield from _job(first, 2)
        for other in others:
            yield from folded(f"{heading(other)}: {cell(other.verdict)}", 2)
    quiet = [answer for answer in jobs if not answer.kind]
    if quiet and len(jobs) > 1:
        report = "report" if len(quiet) > 1 else "reports"
        before = f"{len(quiet)} of {len(jobs)} jobs {report} no failure: "
        yield from folded_list(before, [*map(job_name, quiet)], 2, most=_NAMED)
    besides = [answer for answer in answers if answer.benchmark and not answer.kind]
    job = "the job" if len(jobs) == 1 else "these jobs"
    if benchmarks := [answer for answer in besides if answer.benchmark != UNKNOWN]:
        report = "report" if len(benchmarks) > 1 else "reports"
        before = f"Not of {job}: {count(len(benchmarks), 'benchmark')} that {report} no failure: "
        names = [f"{job_name(answer)} ({cell(answer.benchmark)})" for answer in benchmarks]
        yield from folded_list(before, names, 2, most=_NAMED)
    if unknown := [answer for answer in besides if answer.benchmark == UNKNOWN]:
        before = f"Not of {job}: values of {'an ' + UNKNOWN if len(unknown) == 1 else 'unknown programs'}: "
        yield from folded_list(before, [*map(job_name, unknown)], 2, most=_NAMED)


def _job(answer: Diagnosis, inset: int = 0) -> Iterator[str]:
    verdict = answer.verdict if answer.kind else f"{answer.verdict[:1].upper()}{answer.verdict[1:]}"
    yield from folded(cell(verdict), 3, inset)
    for name, text in parts(answer):
        if name == CULPRIT:
            named = [*map(cell, _culprits(answer))]
            yield from folded_list(f"{plural(name, len(answer.culprits))}: ", named, 2, "; ", _ACCUSED, inset)
        elif name != VERDICT:
            lines = _LINES.get(name, 2)
            yield from folded(f"{name}: {cell(text)}" if name else f"  {cell(text)}", lines, inset)


def job_name(answer: Diagnosis) -> str:
    """The logs of a job: the first of many."""
    return cell(first_few(answer.names, 2, " "))


def heading(answer: Diagnosis) -> str:
    """The logs of a job or of a benchmark, which is named as such."""
    if answer.benchmark in (None, UNKNOWN):
        return job_name(answer)
    return f"Benchmark {job_name(answer)} ({cell(answer.benchmark)})"


def diagnosis_sheet(answer: Diagnosis) -> Sheet:
    """Return a diagnosis as names and values."""
    return pairs("diagnosis", [(name or "evidence", text) for name, text in parts(answer)], heading(answer))


def as_json(answers: Sequence[Diagnosis]) -> str:
    """Return the diagnosis of a job as JSON; of several jobs as a list `jobs`."""
    found = [answer.as_json() for answer in answers]
    document = found[0] if len(found) == 1 else {"jobs": found}
    return json.dumps({"schema_version": SCHEMA_VERSION, **document}, indent=1, ensure_ascii=False)


def _culprits(answer: Diagnosis) -> list[str]:
    return names_of(answer.culprits)


def _shown(evidence: str) -> str:
    """Return a line of evidence, cut after a word if it is long."""
    return evidence if len(evidence) <= _TEXT else f"{evidence[:_TEXT].rpartition(' ')[0] or evidence[:_TEXT]} …"


def parts(answer: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield the parts of a diagnosis with their names; a further line of a part has no name."""
    yield VERDICT, answer.verdict
    names = _culprits(answer)
    if names:
        yield CULPRIT, first_few(names, _ACCUSED, "; ")
    elif answer.reason and answer.kind:
        yield "No culprit", answer.reason
    if answer.kind and (names or answer.certainty != NOT_KNOWN):  # else the reason says why nobody is accused
        yield "How sure", f"{answer.certainty}; {answer.why}" if answer.why else answer.certainty
    yield from zip(("Evidence", *[""] * len(answer.evidence)), map(_shown, answer.evidence), strict=False)
    held = [text.removeprefix("Memory of ").removesuffix(".") for text in answer.memory]
    yield from zip(("Memory", *[""] * len(held)), held, strict=False)
    last = f"{answer.last_step:,}" if answer.last_step is not None else ""
    others = [("What followed", answer.followed), ("What it cost", answer.cost), ("Last step", last)]
    others += [("Earlier", text) for text in answer.earlier[:_EARLIER]]
    if (left := len(answer.earlier) - _EARLIER) > 0:
        others.append(("Earlier", f"and {count(left, 'more attempt')}"))
    others += [("Speed", text.removesuffix(".")) for text in answer.speed]
    others += [("Loss", text.removesuffix(".")) for text in answer.loss]
    yield from ((name, text) for name, text in [*others, ("To settle it", answer.settles)] if text)
