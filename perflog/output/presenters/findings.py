"""Sheets of findings: `perflog lint`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from perflog.analysis.job_endings import place_of
from perflog.analysis.lint import RULES, SEVERITIES, Finding
from perflog.grouping import grouped
from perflog.log import Log, RunKey
from perflog.metrics import Tables
from perflog.output import terminal
from perflog.output.presenters.run_marks import marks_of
from perflog.output.sheets import Sheet, SheetColumn, pairs, sheet
from perflog.parsing.input.log_names import base_name
from perflog.units import first_few

_LOGS = 4  # logs or runs with their lines listed
_LINES = 4  # lines that are listed of each
_SHOWN = 2  # findings of one rule that are shown one by one


def finding_sheets(findings: Sequence[Finding], log: Log, format: str, everything: bool = False) -> Iterator[Sheet]:
    """Yield findings as sheets: text has a paragraph for each rule, other formats a row for each finding.

    On a terminal several runs have short names, which a legend explains; elsewhere they are named by log and line.

    Args:
        findings: The findings.
        log: The runs that were checked.
        format: The format of the output.
        everything: Whether text shows all findings of a rule.
    """
    if format != "text":
        yield _rows(findings, log, format)
        return
    keys = {key.id: key for key in log.run_keys}
    by_rule: dict[str, list[Finding]] = {}
    for finding in sorted(findings, key=lambda f: SEVERITIES.index(f.severity or "note")):
        by_rule.setdefault(finding.code, []).append(finding)
    marks = marks_of(log) if terminal.width() else {}
    names = _Names(log, {run: marks[run].short if marks else base_name(key.log) for run, key in keys.items()})
    numbers = {} if marks else _numbers(log.run_keys)
    for members in by_rule.values():
        yield _paragraph(members, names, numbers, everything)
    counts = Counter(finding.severity for finding in findings)
    yield pairs("findings", [(f"{s}s", counts[s]) for s in SEVERITIES], "findings", inline=True)
    shown = {run for found in by_rule.values() for f in _shown(found, everything) for run in [*f.lines][:_LOGS]}
    if legend := [(marks[run].short, marks[run].meaning) for run in keys if run in marks and run in shown]:
        yield pairs("runs", legend, "runs")


def _paragraph(findings: Sequence[Finding], names: _Names, numbers: Mapping[str, str], everything: bool) -> Sheet:
    """Return what one rule found, the most severe first: one finding with its sentence, several below a title.

    `names` stand before the lines of a run, `numbers` before these names if the finding is about one run.
    """
    sentences: list[str] = []
    severity, code = findings[0].severity or "note", findings[0].code
    title = f"{severity}: {code}  {_places(findings[0], names)}"
    if len(findings) == 1:
        sentences.append(findings[0].message)
    else:
        title = f"{severity}: {code}  {RULES[code].title} ({len(findings)} times)"
        shown = _shown(findings, everything)
        for finding in shown:
            number = numbers.get(finding.run, "") if len(finding.lines) == 1 else ""
            own = finding.severity or "note"
            prefix = number if own == severity else f"{own}: {number}"
            sentences.append(f"{prefix}{_places(finding, names)}: {finding.message}")
        if left := len(findings) - len(shown):
            sentences.append(f"and {left} more: --all shows them")
    sentences += [f"-> {action}" for action in dict.fromkeys(f.action for f in findings)]
    return Sheet("findings", (SheetColumn("text"),), [(text,) for text in sentences], title, prose=True)


def _shown(findings: Sequence[Finding], everything: bool) -> Sequence[Finding]:
    """The findings of a rule that are shown one by one."""
    return findings if everything or len(findings) <= _SHOWN + 1 else findings[:_SHOWN]


def _numbers(keys: Sequence[RunKey]) -> dict[str, str]:
    """The number of each run in its log, of logs with several runs."""
    runs_of_log = Counter(key.sha256 for key in keys)
    return {key.id: f"#{key.index} " for key in keys if runs_of_log[key.sha256] > 1}


class _Names:
    """The names of runs before their lines; of a log of several files, the file that a person opens."""

    def __init__(self, log: Log, names: Mapping[str, str]) -> None:
        self._tables, self._names = Tables(log), names
        self._joined = {key.id for key in log.run_keys if "{" in key.log}

    def places(self, finding: Finding) -> list[str]:
        """Return the first lines of a finding by name: `log.txt:86,143 and 40 more`."""
        by_name = grouped(
            (self._names[run], (run, int(line))) for run, lines in finding.lines.items() for line in lines
        )
        places = []
        for found in by_name.values():
            lines = sorted({line for _, line in found})
            by_file = grouped(self._place(found[0][0], line).rpartition(":")[::2] for line in lines[:_LINES])
            more = f" and {len(lines) - _LINES} more" if len(lines) > _LINES else ""
            places.append("; ".join(f"{file}:{','.join(numbers)}" for file, numbers in by_file.items()) + more)
        return places

    def _place(self, run: str, line: int) -> str:
        in_file = place_of(self._tables, run, line) if run in self._joined else None
        return in_file or f"{self._names[run]}:{line}"


def _places(finding: Finding, names: _Names) -> str:
    """Return the lines of a finding by log or run: `log.txt:86,143 and 40 more`."""
    return first_few(names.places(finding), _LOGS, "; ")


def _rows(findings: Sequence[Finding], log: Log, format: str) -> Sheet:
    """Return one row per finding; Markdown has fewer columns."""
    keys = {key.id: key for key in log.run_keys}
    if format == "md":
        names = _Names(log, {run: base_name(key.log) for run, key in keys.items()})
        brief = [(f.severity, f.code, _places(f, names), f.message, f.action) for f in findings]
        return sheet("findings", "severity code where message action", brief)
    rows = [_row(f, keys[f.run], json.dumps(f.evidence) if format == "csv" else f.evidence) for f in findings]
    return sheet("findings", "run label log code severity first_line# message action evidence", rows)


def _row(f: Finding, run: RunKey, evidence: object) -> tuple[object, ...]:
    return f.run, run.label, run.log, f.code, f.severity, f.first_line, f.message, f.action, evidence
