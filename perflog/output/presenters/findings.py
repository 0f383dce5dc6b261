"""Sheets of findings: `perflog lint`."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from perflog.analysis.lint import RULES, SEVERITIES, Finding
from perflog.log import RunKey
from perflog.output.sheets import Sheet, SheetColumn, pairs, sheet

_LOGS = 4  # logs whose lines are listed
_LINES = 4  # lines that are listed of each log
_SHOWN = 2  # findings of one rule that are shown one by one


def finding_sheets(
    findings: Sequence[Finding], keys: Mapping[str, RunKey], format: str, everything: bool = False
) -> Iterator[Sheet]:
    """Yield findings as sheets: text has a paragraph for each rule, other formats a row for each finding.

    Args:
        findings: The findings.
        keys: The names of the runs, by id.
        format: The format of the output.
        everything: Whether text shows all findings of a rule.
    """
    if format != "text":
        yield _rows(findings, keys, format)
        return
    by_rule: dict[tuple[str, str], list[Finding]] = {}
    for finding in sorted(findings, key=lambda f: SEVERITIES.index(f.severity or "note")):
        by_rule.setdefault((finding.severity or "note", finding.code), []).append(finding)
    for (severity, code), members in by_rule.items():
        yield _paragraph(f"{severity}: {code}", members, keys, everything)
    counts = Counter(finding.severity for finding in findings)
    yield pairs("findings", [(f"{s}s", counts[s]) for s in SEVERITIES], "findings", inline=True)


def _paragraph(name: str, findings: Sequence[Finding], keys: Mapping[str, RunKey], everything: bool) -> Sheet:
    """Return what one rule found: one finding with its sentence, several below what they have in common."""
    sentences: list[str] = []
    title = f"{name}  {_places(findings[0], keys)}"
    if len(findings) == 1:
        sentences.append(findings[0].message)
    else:
        title = f"{name}  {RULES[findings[0].code].title} ({len(findings)} times)"
        shown = len(findings) if everything or len(findings) <= _SHOWN + 1 else _SHOWN
        sentences += [f"{_run(f, keys)}{_places(f, keys)}: {f.message}" for f in findings[:shown]]
        if left := len(findings) - shown:
            sentences.append(f"and {left} more: --all shows them")
    sentences += [f"-> {action}" for action in dict.fromkeys(f.action for f in findings)]
    return Sheet("findings", (SheetColumn("text"),), [(text,) for text in sentences], title, prose=True)


def _run(finding: Finding, keys: Mapping[str, RunKey]) -> str:
    """The place of the run in its log, if the log has several."""
    run = keys[finding.run]
    several = sum(key.sha256 == run.sha256 for key in keys.values()) > 1
    return f"#{run.index} " if several and len(finding.lines) == 1 else ""


def _places(finding: Finding, keys: Mapping[str, RunKey]) -> str:
    """Return the lines of a finding by log: `log.txt:86,143 and 40 more`."""
    by_log: dict[str, list[int]] = {}
    for run, lines in finding.lines.items():
        by_log.setdefault(keys[run].log, []).extend(map(int, lines))
    places = []
    for log, lines in list(by_log.items())[:_LOGS]:
        every = sorted(set(lines))
        more = f" and {len(every) - _LINES} more" if len(every) > _LINES else ""
        places.append(f"{os.path.basename(log)}:{','.join(map(str, every[:_LINES]))}{more}")
    more = f" and {len(by_log) - _LOGS} more logs" if len(by_log) > _LOGS else ""
    return "; ".join(places) + more


def _rows(findings: Sequence[Finding], keys: Mapping[str, RunKey], format: str) -> Sheet:
    """Return one row per finding; Markdown has fewer columns."""
    if format == "md":
        brief = [(f.severity, f.code, _places(f, keys), f.message, f.action) for f in findings]
        return sheet("findings", "severity code where message action", brief)
    rows = [_row(f, keys[f.run], json.dumps(f.evidence) if format == "csv" else f.evidence) for f in findings]
    return sheet("findings", "run label log code severity first_line# message action evidence", rows)


def _row(f: Finding, run: RunKey, evidence: object) -> tuple[object, ...]:
    return f.run, run.label, run.log, f.code, f.severity, f.first_line, f.message, f.action, evidence
