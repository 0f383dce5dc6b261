"""Overview and diagnosis as brief texts: `--format brief`. No tables; what matters first is cut last."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from perflog.analysis.culprits import names_of
from perflog.analysis.diagnosis import Diagnosis
from perflog.analysis.lint import Finding
from perflog.analysis.overview import Overview
from perflog.analysis.overview.doubts import Doubt
from perflog.analysis.overview.run_groups import RunGroup
from perflog.output.brief import BriefLine, brief
from perflog.output.presenters.diagnosis import VERDICT, heading, parts
from perflog.output.presenters.overview import unread_in_words
from perflog.output.terminal import cut
from perflog.parsing.input.log_names import base_name
from perflog.units import count, show, show_change

_HEAD, _FAILURE, _FACT, _REASON, _DOUBT, _LATER, _LAST = range(7)  # weights: what is cut first is last
_NAME = 40  # characters of the name of a run, a setting or a part
_FIGURES, _PARTS, _REASONS, _DOUBTS, _ROWS, _EACH = 5, 5, 3, 3, 12, 3
_TITLE, _EVIDENCE = 90, 40  # tokens
_WEIGHTS = {
    VERDICT: _HEAD, "Culprit": _HEAD, "No culprit": _FAILURE, "How sure": _FAILURE, "Last step": _FACT,
    "What it cost": _REASON, "Speed": _REASON, "Evidence": _FACT, "To settle it": _DOUBT, "What followed": _LATER,
}  # fmt: skip


# --- overview -----------------------------------------------------------------------------------------------------


def overview_brief(overview: Overview) -> list[str]:
    """Return what ran, how fast, why it is slow, what not to trust, what ended it and what to ask next."""
    return brief(list(_overview(overview)))


def _overview(overview: Overview) -> Iterator[BriefLine]:
    name = os.path.basename(overview.names[0].rstrip("/")) or overview.names[0]
    others = f" and {len(overview.names) - 1} more" if len(overview.names) > 1 else ""
    yield BriefLine(f"{cut(name, _NAME)}{others}: {overview.what}; {unread_in_words(overview)}", _HEAD, _TITLE)
    for i, text in enumerate(_outcomes(overview)):
        yield BriefLine(text, _FAILURE if i < _EACH else _LATER)
    yield from _rows(overview)
    if shown := [part for part in overview.parts[:_PARTS] if part.share]:
        texts = (f"{cut(p.name, _NAME)} {show(p.share, '1', 3)} ({show(p.seconds, 's', 3)})" for p in shown)
        yield BriefLine(f"Time: {', '.join(texts)}", _REASON)
    for i, text in enumerate(overview.reasons):
        yield BriefLine(text, _FACT if not i else _DOUBT if i < _REASONS else _LATER)
    for text in overview.warnings[:_EACH]:
        yield BriefLine(f"Warning: {text}", _DOUBT)
    doubts = [doubt for doubt in overview.doubts if not doubt.is_outcome]
    for i, doubt in enumerate(doubts):
        if doubt.severity == "note":
            yield BriefLine(f"Note: {_doubt(overview, doubt)}", _LAST)
            continue
        weight = _DOUBT if i < _DOUBTS else _LATER
        yield BriefLine(f"Doubt: {_doubt(overview, doubt)}", weight if i else _REASON)
    if not doubts and not overview.warnings:
        yield BriefLine("Doubt: none, the checks found nothing", _DOUBT)
    for i, command in enumerate(overview.next):
        yield BriefLine(f"Next: {command}", _LAST if i else _FAILURE, whole=True)


def _outcomes(overview: Overview) -> Iterator[str]:
    """What ended runs, or makes them worthless: of a row the first finding of each rule, and how many are alike."""
    marks = {run: i for i, group in enumerate(overview.groups) for run in group.runs}
    alike: dict[tuple[str, int | None], list[Finding]] = {}
    for doubt in overview.doubts:
        for finding in doubt.findings if doubt.is_outcome else ():
            if finding.severity != "note":
                alike.setdefault((doubt.code, marks.get(finding.run)), []).append(finding)
    for first, *others in alike.values():
        lines = sorted(map(int, first.lines.get(first.run, ())))
        message = first.message.removesuffix(f", line {lines[0]:,}") if lines else first.message
        yield f"! {_place(overview, first)}{message}{f' ({len(others)} more like it)' if others else ''}"


def _rows(overview: Overview) -> Iterator[BriefLine]:
    """A line for each row with its figures: base, best and worst come first where there is little room."""
    if not overview.figures:
        return
    values = [overview.value(overview.figures[0], group) for group in overview.groups]
    ranked = sorted((i for i, value in enumerate(values) if value is not None), key=lambda i: values[i] or 0.0)
    first = {0, *ranked[:1], *ranked[-1:]}
    order = list(first) + [i for i in range(len(overview.groups)) if i not in first]
    shown = sorted(order[:_ROWS])
    columns = [overview.figure_column(figure) for figure in overview.figures]
    for i in shown:
        yield BriefLine(_row(overview, i, columns), _FACT if i in first else _LATER)
    if left := len(overview.groups) - len(shown):
        yield BriefLine(f"and {count(left, 'more row')}", _LATER)


def _row(overview: Overview, place: int, columns: Sequence[Sequence[str]]) -> str:
    group = overview.groups[place]
    texts: list[str] = []
    for figure, (_, *column) in zip(overview.figures, columns, strict=True):
        if overview.value(figure, group) is not None and len(texts) < _FIGURES:
            texts.append(f"{figure.name}{' !' * _is_doubted(overview, figure.name, group)} {column[place]}")
    change = overview.change(place)
    if change is not None:
        texts.insert(1, f"{show_change(change)} vs {overview.groups[overview.base[place]].mark}")
    if len(overview.groups) == 1:
        runs = f"mean of {len(group.runs)} runs, " if len(group.runs) > 1 else ""
        return f"{runs}{', '.join(texts)}"
    known = [(name, value) for name, value in group.settings.items() if value != "-"]
    settings = ", ".join(f"{cut(name, _NAME)} {cut(value, _NAME)}" for name, value in known[:_EACH])
    named = "" if group.name.endswith(group.mark) else f" {cut(group.name, _NAME)}"
    repeats = f" x {len(group.runs)}" if len(group.runs) > 1 else ""
    return f"{group.mark}{named}{repeats}{f' ({settings})' if settings else ''}: {', '.join(texts) or 'no metric'}"


def _is_doubted(overview: Overview, figure: str, group: RunGroup) -> bool:
    doubts = (doubt for doubt in overview.doubts if figure in doubt.figures and doubt.severity != "note")
    return any(set(doubt.runs) & set(group.runs) for doubt in doubts)


def _doubt(overview: Overview, doubt: Doubt) -> str:
    """What one rule found, after the first line that proves it; the mark of a run once."""
    place = _place(overview, doubt.findings[0])
    return place + overview.in_words(doubt).removesuffix(f" ({place.partition(' ')[0].rstrip(':')})")


def _place(overview: Overview, finding: Finding) -> str:
    """The first line that proves a finding, `run.txt:188: `, after the mark of its run if there are several."""
    marks = {run: group.mark for group in overview.groups for run in group.runs}
    key, lines = overview.keys.get(finding.run), list(finding.lines.get(finding.run, ()))
    mark = f"{marks[finding.run]} " if len(overview.groups) > 1 and finding.run in marks else ""
    if key is None or not lines:
        return f"{mark.strip()}: " if mark else ""
    return f"{mark}{cut(base_name(key.log), _NAME)}:{min(map(int, lines))}: "


# --- diagnosis ----------------------------------------------------------------------------------------------------


def diagnosis_brief(answers: Sequence[Diagnosis]) -> list[str]:
    """Return what ended a job and who is accused, with evidence; of several jobs a line for each that failed."""
    jobs = [answer for answer in answers if not answer.benchmark]
    failed = [answer for answer in answers if answer.kind]
    if len(jobs) == 1:
        lines, failed = list(_job(jobs[0])), [answer for answer in failed if answer.benchmark]
    else:
        lines = [BriefLine(f"{sum(bool(job.kind) for job in jobs)} of {count(len(jobs), 'job')} failed", _HEAD)]
    for answer in failed:
        who = "; ".join(names_of(answer.culprits)[:_EACH])
        text = f"{heading(answer)}: {answer.verdict}{f'; {who}: {answer.certainty}' if who else ''}"
        lines.append(BriefLine(text, _FACT))
    return brief(lines)


def _job(answer: Diagnosis) -> Iterator[BriefLine]:
    name, seen = "", 0
    for title, text in parts(answer):
        name, seen = (title, 0) if title else (name, seen + 1)
        weight = _WEIGHTS.get(name, _LATER) if not seen else _LAST
        most = _EVIDENCE if name == "Evidence" else _TITLE
        yield BriefLine(text if name == VERDICT else f"{name}: {text}", weight, most)
