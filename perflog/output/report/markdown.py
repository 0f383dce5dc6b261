"""A report as Markdown for a pull request: short, and readable before it is rendered."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from perflog.analysis.compare import Comparison
from perflog.analysis.lint import SEVERITIES
from perflog.output import sheets
from perflog.output.presenters import compare
from perflog.output.report.grid import numeric
from perflog.output.report.subject import Measured, Subject, span, varying
from perflog.output.sheets import Column, Sheet, escaped

_RUNS = 12
_FINDINGS = 3  # of each rule
_ROWS = 8  # of each metric


def markdown(subject: Subject) -> str:
    """What ran, verdicts, findings and the first rows of each metric."""
    return "\n\n".join(_parts(subject)) + "\n"


def _parts(subject: Subject) -> Iterator[str]:
    yield f"# {escaped(subject.title)}"
    yield from (_sheet(_logs(subject)), _sheet(_runs(subject)))
    if isinstance(subject.comparison, Comparison):
        together = tuple(one for one in subject.comparison.finding_records if one["run"] is None)
        for sheet in compare.comparison(replace(subject.comparison, finding_records=together), "md"):
            yield _sheet(replace(sheet, rows=list(sheet.rows)))
    elif subject.comparison:
        yield f"Not compared: {escaped(subject.comparison)}"
    yield "## findings"
    yield "\n".join(_findings(subject))
    for one in subject.measured:
        yield _folded(one, subject)


def _sheet(sheet: Sheet) -> str:
    return "\n".join(sheets.markdown([sheet]))


def _logs(subject: Subject) -> Sheet:
    rows = [(os.path.basename(one.name), one.format, one.runs, *one.account.values()) for one in subject.logs[:_RUNS]]
    return _cut(sheets.sheet("logs", "log format runs# read# context# unread#", rows, "what ran"), len(subject.logs))


def _runs(subject: Subject) -> Sheet:
    differ = varying(list(subject.settings.values()))
    names = [n for n in ("model", "world_size", "device", "dtype") if n not in differ]
    names = [n for n in names if any(r[n] is not None for r in subject.runs)]
    rows = []
    for run in subject.runs[:_RUNS]:
        said = subject.settings[run["run"]]
        values = [*(run[n] for n in names), *(said.get(n) for n in differ)]
        lines = span(run["first_line"], run["last_line"])
        rows.append((subject.names[run["run"]], *values, subject.steps.get(run["run"]), lines))
    return _cut(Sheet("runs", tuple(map(Column, ("run", *names, *differ, "steps", "lines"))), rows), len(subject.runs))


def _cut(sheet: Sheet, total: int) -> Sheet:
    return replace(sheet, note=f"{total - _RUNS} more" if total > _RUNS else "")


def _findings(subject: Subject) -> Iterator[str]:
    """A list: rule by rule, the gravest first."""
    counts = Counter(f.severity for one in subject.found for f in one.findings)
    yield ", ".join(f"{counts[s]} {s}{'s' * (counts[s] != 1)}" for s in SEVERITIES if counts[s]) or "none"
    yield ""
    for one in subject.found:
        first = one.findings[0]
        yield f"- **{first.severity}: {one.rule.title}** (`{one.rule.code}`): {first.action}"
        for f in one.findings[:_FINDINGS]:
            run = f"{escaped(subject.names[f.run])}: " if len(subject.runs) > 1 else ""
            yield f"  - {run}{escaped(sheets.cell(f.message))} (line {f.first_line})"
        if len(one.findings) > _FINDINGS:
            yield f"  - and {len(one.findings) - _FINDINGS} more"


def _folded(one: Measured, subject: Subject) -> str:
    """The first rows of a metric, folded away: GitHub opens them at a click."""
    columns = [c for c in one.columns if c.brief]
    numbers = {c.name for c in columns if numeric(row[c.name] for row in one.rows)}
    kinds = [*(Column(c.name, c.unit, c.name in numbers, c.short) for c in columns), Column("lines")]
    rows = [
        (*(row[c.name] for c in columns), ", ".join(source.lines for source in sources))
        for row, sources in islice(zip(one.rows, one.sources, strict=True), _ROWS)
    ]
    if len(subject.runs) > 1:
        kinds = [Column("run"), *kinds]
        runs = (", ".join(subject.names[source.run] for source in sources) for sources in one.sources)
        rows = [(name, *row) for name, row in zip(runs, rows, strict=False)]
    left = len(one.rows) - len(rows)
    note = f"{left} more rows: perflog analyze RUN {one.name} --format csv\n" if left else ""
    table = _sheet(Sheet(one.name, tuple(kinds), rows, note=f"{note}{one.formula}"))
    return f"<details><summary>{one.title}</summary>\n\n{table}\n\n</details>"
